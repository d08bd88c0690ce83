//! Positive definite systems: factorization, then both triangular systems, as one program. The factor
//! is a temporary, on disk only as far as memory does not hold it.

use super::cholesky::{blocks, factor_steps, lower_bound, square_side};
use super::matrix::{Axes, Matrix, NewArray, Tiles};
use super::steps::{Builder, Kind};
use super::triangular::{self, Triangle, declare_solution, solve_steps, subtract, width};
use super::{Job, aligned, tile_shape};
use crate::arrays::Target;
use crate::kernels::{Diagonal, Half};
use outcrop_engine::Runtime;
use outcrop_engine::speeds::Speeds;
use outcrop_store::Result;

/// Programs for X of `A X = B`, A Hermitian and positive definite. Of A, only the lower half is read.
///
/// # Errors
/// Those of the stores.
pub fn solve(
    runtime: &Runtime,
    a: &Matrix,
    b: &Matrix,
    shape: &[u64],
    target: &Target,
    speeds: Speeds,
) -> Result<Job> {
    let mut job = Job::new(vec![Some(a.clone()), Some(b.clone()), None, None]);
    let axes = super::result_axes(shape, true);
    let own = target.tile();
    let own = |axis: Option<usize>| own.as_ref().and_then(|o| axis.map(|x| o[x]));
    // The tiles of the factor are our own business; those of the solution go with them.
    let free = Target::New { tile: None, labels: Default::default() };
    let side = aligned(square_side(runtime, a, &free), own(axes.rows), a.rows());
    let wide = width(b, own(axes.cols), side);
    let declare = || -> Result<(Builder, Tiles, Tiles)> {
        let turned = a.axes.is_transposed();
        let mut builder = Builder::new("solve", a.dtype(), speeds, (turned, !turned));
        let stored = a.declare(&mut builder.program, "A", side, side)?;
        let x = declare_solution(&mut builder, b, shape, target, (side, wide))?;
        let tile = tile_shape(2, Axes::MATRIX, side, side);
        let extents = [a.rows(), a.rows()];
        // As A lies, so that its tiles can become those of L; unless A is a part of something else.
        let plain = a.region.ndim() == 2 && a.axes.rows.is_some() && a.axes.cols.is_some();
        let axes = if plain { a.axes } else { Axes::MATRIX };
        let what = NewArray { name: "L", dtype: a.dtype(), shape: &extents, tile: &tile, axes };
        let l = what.temporary(&mut builder.program, Some(&stored))?;
        builder.extents(side, wide.max(side), side);
        Ok((builder, l, x))
    };
    let (mut builder, l, x) = declare()?;
    let mut shapes = blocks(runtime, &builder, l, speeds)?;
    // Whether memory is tight, the steps for X decide as well.
    if !shapes.contains(&(1, 1)) {
        shapes.push((1, 1));
    }
    let rests = triangular::blocks(runtime, &builder, l, x, speeds)?;
    for (p, q) in shapes {
        // What takes the least memory takes it throughout.
        let rest = if (p, q) == (1, 1) { (1, 1) } else { rests[0] };
        for fused in [true, false] {
            if fused {
                forward_with_factor(&mut builder, l, x, (p, q));
            } else {
                factor_steps(&mut builder, l, (p, q), &mut |_, _| {});
                let lower = Triangle { half: Half::Lower, diagonal: Diagonal::Stored, conj: false };
                solve_steps(&mut builder, l, lower, (x, true), rest);
            }
            // L^H is the conjugate of the transposed L.
            backward(&mut builder, l, x, rest);
            builder.extents(side, wide.max(side), side);
            let when = if fused { "with" } else { "after" };
            builder.program.remark = format!(
                "{p} x {q} tiles of L, each {side} x {side}, in memory; L Y = B {when} the factorization"
            );
            builder.program.frugal = (p, q) == (1, 1);
            builder.program.lower_bound = Some(lower_bound(runtime, a));
            job.offer(builder);
            builder = declare()?.0;
        }
    }
    Ok(job)
}

/// Factors, and uses every tile of the factor for `L Y = B` while it is in memory.
fn forward_with_factor(builder: &mut Builder, l: Tiles, x: Tiles, block: (u64, u64)) {
    let (rows, cols) = x.counts(&builder.program);
    for i in 0..rows {
        (0..cols).for_each(|s| builder.begin(x, i, s));
    }
    let solve = Kind::Solve { half: Half::Lower, diagonal: Diagonal::Stored, conj: false, right: false };
    factor_steps(builder, l, block, &mut |builder, (i, k)| {
        for s in 0..cols {
            if i > k {
                subtract(builder, l, false, x, (i, k, s));
                continue;
            }
            let program = &builder.program;
            let (tile, diagonal) = (x.at(program, k, s), l.at(program, k, k));
            let extents = (x.rows_of(program, k), x.cols_of(program, s));
            builder.solve(solve, tile, diagonal, extents.0, extents.1);
        }
    });
}

/// Solves `L^H X = Y`.
fn backward(builder: &mut Builder, l: Tiles, x: Tiles, rest: (u64, u64)) {
    let upper = Triangle { half: Half::Upper, diagonal: Diagonal::Stored, conj: true };
    solve_steps(builder, l.transposed(), upper, (x, false), rest);
}
