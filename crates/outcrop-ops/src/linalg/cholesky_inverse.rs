//! The inverse of a Hermitian, positive definite matrix from its Cholesky factor: the inverse W of the factor, in a temporary,
//! then `W^H W`. Of both, half is computed.

use super::cholesky::{blocks, extents};
use super::matrix::{Axes, Columns, Tiles};
use super::steps::{Builder, Kind};
use super::{Place, Way, tile_shape, triangular};
use crate::arrays::New;
use crate::kernels::{Diagonal, Half};
use outcrop_store::Result;

/// Adds X, the inverse of `L L^H`, of L, or of `U^H U`, of U. The other half of the factor is not read.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn cholesky_inverse(place: Place<'_>, (x, l): (Tiles, Tiles), half: Half) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    // The transposed upper factor is the lower one of the transposed matrix.
    let (x, l) = if half == Half::Upper { (x.transposed(), l.transposed()) } else { (x, l) };
    let dtype = x.dtype(program);
    let ((side, _), (n, _)) = (x.tile(program), x.shape(program));
    let (shape, tile) = ([n, n], tile_shape(2, Axes::MATRIX, side, side));
    let new = New { name: "inverse of L", dtype, shape: &shape, tile: &tile, initial: None };
    let w = Tiles::new(new.temporary(program)?, Axes::MATRIX);
    let turned = l.axes().is_transposed();
    let mut builder = Builder::on(program, makers, dtype, speeds, extents(side, side, turned));
    let mut ways = blocks(runtime, builder.program, Columns::all(x), speeds)?;
    // Whether memory is tight, the steps for W decide as well.
    if !ways.contains(&(1, 1)) {
        ways.push((1, 1));
    }
    let rests = triangular::blocks(runtime, builder.program, l, w, speeds)?;
    let (p, q) = super::chosen(&ways, way);
    let rest = if (p, q) == (1, 1) { (1, 1) } else { rests[0] };
    invert(&mut builder, l, w, rest);
    multiply(&mut builder, w, x, (p, q));
    let bytes = n * (n + 1) / 2 * dtype.size() as u64;
    Ok(Way {
        remark: format!("{p} x {q} tiles of the inverse, each {side} x {side}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: (bytes as f64, "half of the factor once"),
    })
}

/// `W = L^-1`, with p x q tiles in memory.
fn invert(builder: &mut Builder<'_>, l: Tiles, w: Tiles, (p, q): (u64, u64)) {
    let n = w.counts(builder.program).0;
    let solve = Kind::Solve { half: Half::Lower, diagonal: Diagonal::Stored, conj: false, right: false };
    for s0 in (0..n).step_by(q as usize) {
        let s1 = (s0 + q).min(n);
        for i0 in (s0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            for k in s0..i1 {
                if k >= i0 {
                    builder.fetch(l, k, k);
                    for s in s0..s1.min(k + 1) {
                        let program = &*builder.program;
                        let (tile, diagonal) = (w.at(program, k, s), l.at(program, k, k));
                        let (rows, cols) = (w.rows_of(program, k), w.cols_of(program, s));
                        if s == k {
                            builder.unit(tile);
                        }
                        builder.solve(solve, tile, diagonal, rows, cols);
                    }
                }
                for i in i0.max(k + 1)..i1 {
                    builder.fetch(l, i, k);
                    for s in s0..s1.min(k + 1) {
                        let program = &*builder.program;
                        let tiles = (w.at(program, i, s), l.at(program, i, k), w.at(program, k, s));
                        let extents = (w.rows_of(program, i), w.cols_of(program, s), w.rows_of(program, k));
                        builder.product(tiles, (k > s, -1.0), (false, false), extents);
                    }
                }
            }
        }
    }
}

/// `X = W^H W`, with p x q tiles in memory.
fn multiply(builder: &mut Builder<'_>, w: Tiles, x: Tiles, (p, q): (u64, u64)) {
    let n = x.counts(builder.program).0;
    for j0 in (0..n).step_by(q as usize) {
        let j1 = (j0 + q).min(n);
        for i0 in (j0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            for k in i0..n {
                for j in j0..j1.min(i1) {
                    for i in i0.max(j)..i1.min(k + 1) {
                        let program = &*builder.program;
                        let a = w.at(program, k, i).transposed();
                        let tiles = (x.at(program, i, j), a, w.at(program, k, j));
                        let extents = (x.rows_of(program, i), x.cols_of(program, j), w.rows_of(program, k));
                        builder.product(tiles, (k > i, 1.0), (true, false), extents);
                    }
                }
            }
            for j in j0..j1.min(i1) {
                for i in i0.max(j)..i1 {
                    let program = &*builder.program;
                    let (above, below) = (x.at(program, j, i), x.at(program, i, j));
                    if i == j {
                        builder.mirror(below, true);
                    } else {
                        builder.adjoint(above, below);
                    }
                }
            }
        }
    }
}
