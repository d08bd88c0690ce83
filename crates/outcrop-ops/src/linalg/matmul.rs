//! The product of two matrices: a block of the result stays in memory, thin slices of the factors
//! stream past it.

use super::matrix::{Matrix, NewArray, Tiles};
use super::steps::Builder;
use super::{Job, aligned, result_axes};
use crate::arrays::Target;
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::speeds::Speeds;
use outcrop_store::{DType, Dims, Error, Result};

/// Programs for `C = A B`, where `conj` says which of the factors is conjugated. A factor of one axis leaves
/// none in the result, which is of shape `shape`.
///
/// # Errors
/// [`Error::Invalid`] where extents or dtypes do not fit; those of the stores.
pub fn matmul(
    runtime: &Runtime,
    a: &Matrix,
    b: &Matrix,
    conj: (bool, bool),
    shape: &[u64],
    target: &Target,
    speeds: Speeds,
) -> Result<Job> {
    let (m, k, n) = (a.rows(), a.cols(), b.cols());
    if b.rows() != k || a.dtype() != b.dtype() {
        return Err(Error::invalid("factors that do not fit"));
    }
    let dtype = a.dtype();
    let mut job = Job::new(vec![Some(a.clone()), Some(b.clone()), None]);
    let tile = tile(runtime, a, b, shape, target);
    let product = Product { a, b, conj, shape, target, dtype, tile, speeds };
    let (mut builder, tiles) = product.declare()?;
    let (count, least) = (product.count(&builder, tiles), product.least(&builder, tiles));
    let capacity = plan::capacity(runtime, &builder.program, count, speeds, least)?;
    for (p, q) in product.blocks(runtime, &builder, tiles, capacity) {
        product.steps(&mut builder, tiles, (p, q));
        builder.program.remark = format!("{p} x {q} tiles of C, each {} x {}, in memory", tile.0, tile.2);
        builder.program.frugal = (p, q) == (1, 1);
        builder.program.lower_bound = Some(lower_bound(runtime, dtype, m, n, k));
        job.offer(builder);
        (builder, _) = product.declare()?;
    }
    Ok(job)
}

/// Extents of tiles: rows of A, columns of A, columns of B. Neither threads nor speeds decide them: the
/// result depends on them in its last bits.
fn tile(runtime: &Runtime, a: &Matrix, b: &Matrix, shape: &[u64], target: &Target) -> (u64, u64, u64) {
    let (ta, tb) = (a.tile(), b.tile());
    let side = super::side(runtime, a.dtype().size() as u64);
    let (tm, tk, tn) = match (a.is_tiled(), b.is_tiled()) {
        (true, true) => (ta.0, ta.1, tb.1),
        (true, false) => (ta.0, ta.1, ta.1),
        (false, true) => (tb.0, tb.0, tb.1),
        (false, false) => (side, side, side),
    };
    let axes = result_axes(shape, a.axes.rows.is_some());
    let own = |axis: Option<usize>| target.tile().and_then(|t: Dims| axis.map(|x| t[x]));
    (
        aligned(tm, own(axes.rows), a.rows()),
        tk.clamp(1, a.cols().max(1)),
        aligned(tn, own(axes.cols), b.cols()),
    )
}

struct Product<'a> {
    a: &'a Matrix,
    b: &'a Matrix,
    conj: (bool, bool),
    shape: &'a [u64],
    target: &'a Target,
    dtype: DType,
    tile: (u64, u64, u64),
    speeds: Speeds,
}

type Three = (Tiles, Tiles, Tiles);

impl Product<'_> {
    fn declare(&self) -> Result<(Builder, Three)> {
        let (tm, tk, tn) = self.tile;
        let transposed = (self.a.axes.is_transposed(), self.b.axes.is_transposed());
        let mut builder = Builder::new("matmul", self.dtype, self.speeds, transposed);
        let program = &mut builder.program;
        let a = self.a.declare(program, "A", tm, tk)?;
        let b = self.b.declare(program, "B", tk, tn)?;
        let axes = result_axes(self.shape, self.a.axes.rows.is_some());
        let mut tile: Dims = self.shape.iter().map(|_| 1).collect();
        axes.rows.into_iter().for_each(|x| tile[x] = tm);
        axes.cols.into_iter().for_each(|x| tile[x] = tn);
        let what = NewArray { name: "C", dtype: self.dtype, shape: self.shape, tile: &tile, axes };
        let c = what.output(program, self.target, None)?;
        builder.extents(tm, tn, tk);
        Ok((builder, (a, b, c)))
    }

    /// Bytes of the tiles of one step.
    fn least(&self, builder: &Builder, (a, b, c): Three) -> usize {
        [a, b, c].iter().map(|t| t.frame(&builder.program)).sum()
    }

    /// How many steps there will be.
    fn count(&self, builder: &Builder, (a, b, _): Three) -> u64 {
        let ((mt, kt), (_, nt)) = (a.counts(&builder.program), b.counts(&builder.program));
        mt * nt * kt.max(1)
    }

    /// Shapes of the block of C in memory, in tiles, that promise the least reading.
    fn blocks(
        &self,
        runtime: &Runtime,
        builder: &Builder,
        (a, b, c): Three,
        capacity: usize,
    ) -> Vec<(u64, u64)> {
        let program = &builder.program;
        let ((mt, kt), (_, nt)) = (a.counts(program), b.counts(program));
        let (fa, fb, fc) = (a.frame(program), b.frame(program), c.frame(program));
        let mut found: Vec<(u64, u64, u64)> = Vec::new();
        for p in 1..=mt.max(1) {
            // A slice of A, and of B one tile in use and one on its way.
            let Some(room) = capacity.checked_sub(p as usize * fa + 2 * fb) else { break };
            let most = (room / (p as usize * fc)) as u64;
            if most == 0 && p > 1 {
                break;
            }
            let q = most.clamp(1, nt.max(1));
            // As even as so many blocks can be.
            let (rows, cols) = (mt.div_ceil(p).max(1), nt.div_ceil(q).max(1));
            let q = nt.div_ceil(cols).max(1);
            let reads = kt * (mt * cols * fa as u64 + nt * rows * fb as u64);
            found.push((reads, p, q));
        }
        if found.is_empty() {
            found.push((0, 1, 1));
        }
        found.sort_unstable();
        found.truncate(super::candidates(self.count(builder, (a, b, c))));
        super::with_the_least(
            runtime,
            found.into_iter().map(|(_, p, q)| (p, q)),
            capacity,
            fa + fb + fc,
            self.count(builder, (a, b, c)),
        )
    }

    fn steps(&self, builder: &mut Builder, (a, b, c): Three, (p, q): (u64, u64)) {
        let (mt, kt) = a.counts(&builder.program);
        let (_, nt) = b.counts(&builder.program);
        let empty = self.a.rows() == 0 || self.b.cols() == 0;
        if empty {
            return;
        }
        let inner = self.a.cols() > 0;
        // The sum over k runs forward in every block: results must not depend on how blocks are cut.
        for (block, i0) in (0..mt).step_by(p as usize).enumerate() {
            let rows = i0..(i0 + p).min(mt);
            let mut starts: Vec<u64> = (0..nt).step_by(q as usize).collect();
            if block % 2 == 1 {
                starts.reverse();
            }
            for j0 in starts {
                let cols = j0..(j0 + q).min(nt);
                if !inner {
                    for (i, j) in rows.clone().flat_map(|i| cols.clone().map(move |j| (i, j))) {
                        let tile = c.at(&builder.program, i, j);
                        builder.zero(tile);
                    }
                    continue;
                }
                for k in 0..kt {
                    for j in cols.clone() {
                        for i in rows.clone() {
                            let program = &builder.program;
                            let tiles = (c.at(program, i, j), a.at(program, i, k), b.at(program, k, j));
                            let extents =
                                (a.rows_of(program, i), b.cols_of(program, j), a.cols_of(program, k));
                            builder.product(tiles, (k > 0, 1.0), self.conj, extents);
                        }
                    }
                }
            }
        }
    }
}

/// Bytes that any schedule reads: what the product of matrices needs with so much memory, and at least
/// the factors once.
fn lower_bound(runtime: &Runtime, dtype: DType, m: u64, n: u64, k: u64) -> (f64, &'static str) {
    let size = dtype.size() as f64;
    let memory = (runtime.limit() as f64 / size).max(1.0);
    let (m, n, k) = (m as f64, n as f64, k as f64);
    let (moved, once) = (2.0 * m * n * k / memory.sqrt() - 2.0 * memory, m * k + k * n);
    if moved > once {
        (moved * size, "2mnk/sqrt(M) - 2M elements, Smith et al. 2017")
    } else {
        (once * size, "each factor once")
    }
}
