//! The product of two matrices: a block of the result stays in memory, thin slices of the factors
//! stream past it. Of the product of a matrix with its transpose or adjoint, one half is computed.

use super::blas3;
use super::matrix::Tiles;
use super::steps::{Builder, Extents};
use super::{Place, Way};
use crate::kernels;
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::program::Program;
use outcrop_store::Result;

/// The three matrices of a product.
type Three = (Tiles, Tiles, Tiles);

/// Adds `C = A B`, where `conj` says which of the factors is conjugated.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn matmul(place: Place<'_>, three: Three, conj: (bool, bool)) -> Result<Way> {
    if is_with_itself(place.program, three) {
        return blas3::gram(place, three, conj);
    }
    let Place { runtime, program, speeds, way, makers } = place;
    let (c, a, b) = three;
    let ((rows, cols), (_, depth)) = (c.tile(program), a.tile(program));
    let transposed = (a.axes().is_transposed(), b.axes().is_transposed());
    let dtype = c.dtype(program);
    let mut builder = Builder::on(
        program,
        makers,
        dtype,
        speeds,
        Extents { rows, cols, depth, solves: false, pivoted: 0, transposed },
    );
    let program = &*builder.program;
    let ((mt, kt), (_, nt)) = (a.counts(program), b.counts(program));
    let (count, least) = (mt * nt * kt, [a, b, c].iter().map(|t| t.frame(program)).sum());
    let capacity = plan::capacity(runtime, program, count, speeds, least)?;
    let found = blocks(program, three, capacity, super::candidates(count));
    let ways = super::with_the_least(runtime, found.into_iter(), capacity, least, count);
    let (p, q) = super::chosen(&ways, way);
    steps(&mut builder, three, conj, (p, q));
    Ok(Way {
        remark: format!("{p} x {q} tiles of C, each {rows} x {cols}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: lower_bound(runtime, builder.program, (a, b)),
    })
}

/// Whether `C = A A^T` or `C = A A^H`, in square tiles.
fn is_with_itself(program: &Program, (c, a, b): Three) -> bool {
    let (rows, cols) = c.tile(program);
    kernels::is_floating(c.dtype(program))
        && a.is_of_the_array_of(b)
        && a.axes() == b.axes().transposed()
        && rows == cols
        && (rows, a.tile(program).1) == (a.tile(program).0, b.tile(program).0)
}

/// Shapes of the block of C in memory, in tiles, that promise the least reading.
pub(super) fn blocks(program: &Program, (c, a, b): Three, capacity: usize, most: usize) -> Vec<(u64, u64)> {
    let ((mt, kt), (_, nt)) = (a.counts(program), b.counts(program));
    let (fa, fb, fc) = (a.frame(program), b.frame(program), c.frame(program));
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for p in 1..=mt {
        // A slice of A, and of B one tile in use and one on its way.
        let Some(room) = capacity.checked_sub(p as usize * fa + 2 * fb) else { break };
        let fitting = (room / (p as usize * fc)) as u64;
        if fitting == 0 && p > 1 {
            break;
        }
        let q = fitting.clamp(1, nt);
        // As even as so many blocks can be.
        let (rows, cols) = (mt.div_ceil(p), nt.div_ceil(q));
        let q = nt.div_ceil(cols);
        found.push((kt * (mt * cols * fa as u64 + nt * rows * fb as u64), p, q));
    }
    found.sort_unstable();
    found.truncate(most);
    found.into_iter().map(|(_, p, q)| (p, q)).collect()
}

fn steps(builder: &mut Builder<'_>, (c, a, b): Three, conj: (bool, bool), (p, q): (u64, u64)) {
    let (mt, kt) = a.counts(builder.program);
    let (_, nt) = b.counts(builder.program);
    // The sum over k runs forward in every block: results must not depend on how blocks are cut.
    for (block, i0) in (0..mt).step_by(p as usize).enumerate() {
        let rows = i0..(i0 + p).min(mt);
        let mut starts: Vec<u64> = (0..nt).step_by(q as usize).collect();
        if block % 2 == 1 {
            starts.reverse();
        }
        for j0 in starts {
            let cols = j0..(j0 + q).min(nt);
            for k in 0..kt {
                rows.clone().for_each(|i| builder.fetch(a, i, k));
                for j in cols.clone() {
                    let tile = b.at(builder.program, k, j);
                    if !rows.clone().any(|i| a.at(builder.program, i, k).tile == tile.tile) {
                        builder.fetch(b, k, j);
                    }
                    for i in rows.clone() {
                        let program = &*builder.program;
                        let tiles = (c.at(program, i, j), a.at(program, i, k), b.at(program, k, j));
                        let extents = (a.rows_of(program, i), b.cols_of(program, j), a.cols_of(program, k));
                        builder.product(tiles, (k > 0, 1.0), conj, extents);
                    }
                }
            }
        }
    }
}

/// Bytes that any schedule reads: what the product of matrices needs with so much memory, and at least
/// the factors once. Where they are one array, what is read of it may serve as both.
pub(super) fn lower_bound(
    runtime: &Runtime,
    program: &Program,
    (a, b): (Tiles, Tiles),
) -> (f64, &'static str) {
    let ((m, k), (_, n), is_one) = (a.shape(program), b.shape(program), a.is_of_the_array_of(b));
    let elements = if is_one { m * k } else { m * k + k * n };
    let size = super::read_size(program, a.dtype(program), elements);
    let memory = (runtime.limit() as f64 / size).max(1.0);
    let (m, n, k) = (m as f64, n as f64, k as f64);
    let (moved, once) = (2.0 * m * n * k / memory.sqrt(), if is_one { m * k } else { m * k + k * n });
    // With as much memory, twice as many products are made of elements that are both.
    let moved = if is_one { moved / 2.0 } else { moved } - 2.0 * memory;
    match (moved > once, is_one) {
        (true, false) => (moved * size, "2mnk/sqrt(M) - 2M elements, Smith et al. 2017"),
        (true, true) => (moved * size, "mnk/sqrt(M) - 2M elements, after Smith et al. 2017"),
        (false, false) => (once * size, "each factor once"),
        (false, true) => (once * size, "the factor once"),
    }
}
