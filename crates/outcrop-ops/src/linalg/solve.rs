//! Positive definite systems: factorization, then both triangular systems, as one program. The factor
//! is a temporary, on disk only as far as memory does not hold it.

use super::cholesky::{blocks, extents, factor_steps, lower_bound};
use super::matrix::{Axes, Columns, Tiles};
use super::steps::{Builder, Kind};
use super::triangular::{self, Triangle, solve_steps, subtract};
use super::{Place, Way, tile_shape};
use crate::arrays::New;
use crate::kernels::{Diagonal, Half};
use outcrop_engine::program::Role;
use outcrop_store::Result;

/// Adds X of `A X = B`, A Hermitian and positive definite, and a temporary for the factor. Of A, only the lower half is
/// read.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn solve(place: Place<'_>, (x, a, b): (Tiles, Tiles, Tiles)) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let x = x.beginning_as(program, b);
    let ((side, wide), (n, _)) = (x.tile(program), a.shape(program));
    let dtype = a.dtype(program);
    // As A lies, so that its tiles can become those of L; unless A is a part of something else.
    let plain = a.is_plain(program);
    let axes = if plain { a.axes() } else { Axes::MATRIX };
    let initial = (plain && a.role(program) == Role::Input).then(|| a.array());
    let (shape, tile) = ([n, n], tile_shape(2, Axes::MATRIX, side, side));
    let new = New { name: "L", dtype, shape: &shape, tile: &tile, initial };
    let l = Tiles::new(new.temporary(program)?, axes).beginning_as(program, a);
    let turned = a.axes().is_transposed();
    let mut builder = Builder::on(program, makers, dtype, speeds, extents(side, wide.max(side), turned));
    let mut shapes = blocks(runtime, builder.program, Columns::all(l), speeds)?;
    // Whether memory is tight, the steps for X decide as well.
    if !shapes.contains(&(1, 1)) {
        shapes.push((1, 1));
    }
    let rests = triangular::blocks(runtime, builder.program, l, x, speeds)?;
    let ways: Vec<_> = shapes.into_iter().flat_map(|shape| [(shape, true), (shape, false)]).collect();
    let ((p, q), fused) = super::chosen(&ways, way);
    // What takes the least memory takes it throughout.
    let rest = if (p, q) == (1, 1) { (1, 1) } else { rests[0] };
    if fused {
        forward_with_factor(&mut builder, l, x, (p, q));
    } else {
        factor_steps(&mut builder, Columns::all(l), (p, q), &mut |_, _| {});
        let lower = Triangle { half: Half::Lower, diagonal: Diagonal::Stored, conj: false };
        solve_steps(&mut builder, l, lower, (x, Some(&mut |builder, (i, s)| builder.begin(x, i, s))), rest);
    }
    // L^H is the conjugate of the transposed L.
    backward(&mut builder, l, x, rest);
    let when = if fused { "with" } else { "after" };
    Ok(Way {
        remark: format!(
            "{p} x {q} tiles of L, each {side} x {side}, in memory; L Y = B {when} the factorization"
        ),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// Factors, and uses every tile of the factor for `L Y = B` while it is in memory.
fn forward_with_factor(builder: &mut Builder<'_>, l: Tiles, x: Tiles, block: (u64, u64)) {
    let (rows, cols) = x.counts(builder.program);
    for i in 0..rows {
        (0..cols).for_each(|s| builder.begin(x, i, s));
    }
    let solve = Kind::Solve { half: Half::Lower, diagonal: Diagonal::Stored, conj: false, right: false };
    factor_steps(builder, Columns::all(l), block, &mut |builder, (i, k)| {
        for s in 0..cols {
            if i > k {
                subtract(builder, l, false, x, (i, k, s));
                continue;
            }
            let program = &*builder.program;
            let (tile, diagonal) = (x.at(program, k, s), l.at(program, k, k));
            let extents = (x.rows_of(program, k), x.cols_of(program, s));
            builder.solve(solve, tile, diagonal, extents.0, extents.1);
        }
    });
}

/// Solves `L^H X = Y`.
fn backward(builder: &mut Builder<'_>, l: Tiles, x: Tiles, rest: (u64, u64)) {
    let upper = Triangle { half: Half::Upper, diagonal: Diagonal::Stored, conj: true };
    solve_steps(builder, l.transposed(), upper, (x, None), rest);
}
