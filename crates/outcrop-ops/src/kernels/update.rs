//! Updates and downdates of a Cholesky factor: `L L^H + V V^H`, or `- V V^H`, by rotations of columns.
//!
//! An update is made of plane rotations, a downdate of hyperbolic ones in the form of Chambers, which are stable: each turns an
//! element on the diagonal and one of V into one. They are found in the rows of a block on the diagonal, and kept, to be
//! applied to the rows below.

use super::float::{Float, at, copy};
use super::{Block, Scalar, with_float};
use faer::{c32, c64};
use outcrop_store::DType;
use outcrop_store::Result;
use outcrop_store::io::Cancel;

/// Rows that are rotated at once: a strip of V stays in the cache.
const ROWS: usize = 128;

/// Copies begin at multiples of this.
const ALIGNED: usize = 64;

/// Bytes of workspace for columns of so many rows of L and of V.
pub fn workspace(dtype: DType, order: usize, columns: usize) -> usize {
    (order * order.max(ROWS) + columns * order.max(ROWS)) * dtype.size() + 2 * ALIGNED
}

/// A block whose columns are contiguous, at the beginning of the workspace, and the rest of that.
fn columns_in(workspace: &mut [u8], rows: usize, cols: usize, itemsize: usize) -> (Block, &mut [u8]) {
    let skip = workspace.as_ptr().align_offset(ALIGNED);
    let (own, rest) = workspace[skip..].split_at_mut(rows * cols * itemsize);
    (Block::row_major(own.as_mut_ptr(), cols, rows, rows).transposed(), rest)
}

/// Finds the rotations by which the rows of V become zero, in a block on the diagonal, which is changed. `found` has two
/// columns for each of V, which get cosines and sines.
///
/// # Errors
/// `Err(i)`: what is left is not positive at row i, or not finite.
///
/// # Panics
/// Where the workspace is smaller than [`workspace`] says.
///
/// # Safety
/// As [`super::gemm`], with the lower half of `l` read, and all blocks written.
pub unsafe fn find(
    dtype: DType,
    (l, v, found): (Block, Block, Block),
    down: bool,
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<std::result::Result<(), usize>> {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { find_in::<T>((l, v, found), down, workspace, cancel) })
}

/// # Safety
/// As [`find`].
unsafe fn find_in<T: Float>(
    (l, v, found): (Block, Block, Block),
    down: bool,
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<std::result::Result<(), usize>> {
    let (n, count, size) = (l.rows, v.cols, size_of::<T>());
    let (own, rest) = columns_in(workspace, n, n, size);
    let (beside, _) = columns_in(rest, n, count, size);
    let column = |block: &Block, col: usize, from: usize| {
        // SAFETY: the copies are ours, and their columns contiguous and apart.
        unsafe { std::slice::from_raw_parts_mut(at::<T>(block, from, col), n - from) }
    };
    // SAFETY: as the caller vouches.
    unsafe {
        copy(own, l, size);
        copy(beside, v, size);
    }
    for p in 0..n {
        if p % 64 == 0 {
            cancel.check()?;
        }
        let x = column(&own, p, p);
        x[0] = x[0].real_part();
        for j in 0..count {
            let y = column(&beside, j, p);
            let Some((cos, sin, root)) = rotation(x[0], y[0], down) else { return Ok(Err(p)) };
            rotate(&mut x[1..], &mut y[1..], cos, sin, down);
            x[0] = root;
            // SAFETY: as the caller vouches.
            unsafe {
                at::<T>(&found, p, j).write(cos);
                at::<T>(&found, p, count + j).write(sin);
            }
        }
    }
    for j in 0..n {
        for i in 0..j {
            // SAFETY: as the caller vouches.
            unsafe { at::<T>(&own, i, j).write(T::ZERO) };
        }
    }
    // SAFETY: as the caller vouches.
    unsafe { copy(l, own, size) };
    Ok(Ok(()))
}

/// The cosine and the sine, and what becomes of an element on the diagonal.
fn rotation<T: Float>(x: T, y: T, down: bool) -> Option<(T, T, T)> {
    let (a, one) = (x.modulus(), T::scalar(Scalar::ONE));
    let b = y.modulus();
    let real = |value: f64| T::scalar(Scalar::from(value));
    if !(a.is_finite() && b.is_finite()) {
        return None;
    }
    if down {
        if a <= b {
            return None;
        }
        let sin = b / a;
        let cos = ((1.0 - sin) * (1.0 + sin)).sqrt();
        return (a * cos > 0.0).then(|| (real(cos), y.over(x), x * real(cos)));
    }
    if b == 0.0 {
        return (a > 0.0).then_some((one, T::ZERO, x));
    }
    let root = a.hypot(b);
    (root.is_finite()).then(|| (x.over(real(root)), y.over(real(root)), real(root)))
}

/// Rotates two columns.
fn rotate<T: Float>(x: &mut [T], y: &mut [T], cos: T, sin: T, down: bool) {
    #[inline(always)]
    fn every<T: Float>(x: &mut [T], y: &mut [T], cos: T, sin: T, down: bool) {
        let conjugate = sin.conjugate();
        if down {
            let reciprocal = T::scalar(Scalar::ONE).over_real(cos);
            for (x, y) in x.iter_mut().zip(y) {
                let mut one = *x;
                one -= conjugate * *y;
                *x = one * reciprocal;
                let mut other = cos * *y;
                other -= sin * *x;
                *y = other;
            }
            return;
        }
        for (x, y) in x.iter_mut().zip(y) {
            let (one, other) = (*x, *y);
            let mut first = cos * one;
            first += conjugate * other;
            let mut second = cos * other;
            second -= sin * one;
            (*x, *y) = (first, second);
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<T: Float>(x: &mut [T], y: &mut [T], cos: T, sin: T, down: bool) {
            every(x, y, cos, sin, down);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 is there.
            return unsafe { avx2(x, y, cos, sin, down) };
        }
    }
    every(x, y, cos, sin, down);
}

/// Applies what [`find`] has found to the rows below.
///
/// # Errors
/// [`outcrop_store::Error::Interrupted`].
///
/// # Panics
/// Where the workspace is smaller than [`workspace`] says.
///
/// # Safety
/// As [`super::gemm`], with `found` read, and the others read and written.
pub unsafe fn apply(
    dtype: DType,
    (l, v, found): (Block, Block, Block),
    down: bool,
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<()> {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { apply_to::<T>((l, v, found), down, workspace, cancel) })
}

/// # Safety
/// As [`apply`].
unsafe fn apply_to<T: Float>(
    (l, v, found): (Block, Block, Block),
    down: bool,
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<()> {
    let (n, count, size) = (l.cols, v.cols, size_of::<T>());
    for start in (0..l.rows).step_by(ROWS) {
        cancel.check()?;
        let rows = start..l.rows.min(start + ROWS);
        let (left, right) = (l.part(rows.clone(), 0..n, size), v.part(rows.clone(), 0..count, size));
        let (own, rest) = columns_in(workspace, rows.len(), n, size);
        let (beside, _) = columns_in(rest, rows.len(), count, size);
        // SAFETY: as the caller vouches; the copies are ours, and their columns contiguous.
        unsafe {
            copy(own, left, size);
            copy(beside, right, size);
            let column = |block: &Block, col: usize| {
                std::slice::from_raw_parts_mut(at::<T>(block, 0, col), block.rows)
            };
            for p in 0..n {
                for j in 0..count {
                    let (cos, sin) = (at::<T>(&found, p, j).read(), at::<T>(&found, p, count + j).read());
                    rotate(column(&own, p), column(&beside, j), cos, sin, down);
                }
            }
            copy(left, own, size);
            copy(right, beside, size);
        }
    }
    Ok(())
}
