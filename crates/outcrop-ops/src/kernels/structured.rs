//! Blocks of which one half counts, and what is done to the elements of one by themselves.

use super::float::{Float, at};
use super::{Block, Diagonal, Half};
use crate::kernels::Scalar;
use faer::{c32, c64};
use outcrop_store::dtype::DType;

macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::C64 => {
                type $T = c32;
                $body
            }
            DType::C128 => {
                type $T = c64;
                $body
            }
            other => panic!("no kernel for {other}: floating dtypes only"),
        }
    };
}

/// A unit matrix.
///
/// # Panics
/// Where the dtype is not [floating](super::is_floating).
///
/// # Safety
/// As for [`super::gemm`], with `c` written.
pub unsafe fn unit(dtype: DType, c: Block) {
    with_float!(dtype, T => for (i, j) in (0..c.rows).flat_map(|i| (0..c.cols).map(move |j| (i, j))) {
        let value = T::scalar(if i == j { Scalar::ONE } else { Scalar::ZERO });
        // SAFETY: as the caller vouches.
        unsafe { at::<T>(&c, i, j).write(value) };
    });
}

/// What is above the diagonal becomes the adjoint of what is below, and the diagonal real.
///
/// # Panics
/// Where the block is not square, or the dtype not [floating](super::is_floating).
///
/// # Safety
/// As for [`super::gemm`], with `c` read and written.
pub unsafe fn mirror_adjoint(dtype: DType, c: Block) {
    // SAFETY: as the caller vouches.
    unsafe {
        super::mirror(c, dtype.size());
        real_diagonal(dtype, c);
        for row in 0..c.rows {
            conjugate(dtype, c.part(row..row + 1, row + 1..c.cols, dtype.size()));
        }
    }
}

/// Conjugates every element.
///
/// # Panics
/// Where the dtype is not [floating](super::is_floating).
///
/// # Safety
/// As for [`super::gemm`], with `c` read and written.
pub unsafe fn conjugate(dtype: DType, c: Block) {
    with_float!(dtype, T => if T::IS_COMPLEX {
        for (i, j) in (0..c.rows).flat_map(|i| (0..c.cols).map(move |j| (i, j))) {
            // SAFETY: as the caller vouches.
            unsafe { *at::<T>(&c, i, j) = at::<T>(&c, i, j).read().conjugate() };
        }
    });
}

/// `c = beta c`, or that of a half of it. Where `beta` is zero, `c` is not read.
///
/// # Panics
/// Where the dtype is not [floating](super::is_floating).
///
/// # Safety
/// As for [`super::gemm`], with `c` read and written.
pub unsafe fn scale(dtype: DType, half: Option<Half>, c: Block, beta: Scalar) {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { scale_of::<T>(half, c, beta) })
}

/// The columns of a row that are in a half, or all.
fn inside(half: Option<Half>, row: usize, cols: usize) -> std::ops::Range<usize> {
    match half {
        None => 0..cols,
        Some(Half::Lower) => 0..cols.min(row + 1),
        Some(Half::Upper) => row.min(cols)..cols,
    }
}

/// # Safety
/// As [`scale`].
unsafe fn scale_of<T: Float>(half: Option<Half>, c: Block, beta: Scalar) {
    let (half, c) = along_rows(half, c);
    for row in 0..c.rows {
        for col in inside(half, row, c.cols) {
            let place = at::<T>(&c, row, col);
            // SAFETY: inside the block, and as the caller vouches.
            unsafe {
                let value = if beta == Scalar::ZERO { T::ZERO } else { (*place).times(beta) };
                place.write(value);
            }
        }
    }
}

/// The same block, or the transposed one, whose rows are contiguous if either's are.
fn along_rows(half: Option<Half>, c: Block) -> (Option<Half>, Block) {
    if c.row_stride.unsigned_abs() < c.col_stride.unsigned_abs() {
        (half.map(Half::transposed), c.transposed())
    } else {
        (half, c)
    }
}

/// Imaginary parts on the diagonal become zero.
///
/// # Panics
/// As for [`scale`].
///
/// # Safety
/// As for [`scale`], of the diagonal.
pub unsafe fn real_diagonal(dtype: DType, c: Block) {
    with_float!(dtype, T => for i in 0..c.rows.min(c.cols) {
        let place = at::<T>(&c, i, i);
        // SAFETY: inside the block, and as the caller vouches.
        unsafe { place.write((*place).real_part()) };
    });
}

/// Writes to `to` the symmetric matrix, or the Hermitian one, of which `from` has one half. The other half, and the
/// imaginary parts of a Hermitian matrix's diagonal, are not read.
///
/// # Panics
/// As for [`scale`]; where the blocks are no squares of one size.
///
/// # Safety
/// As for [`super::gemm`], with the half of `from` read and `to` written.
pub unsafe fn mirrored(dtype: DType, to: Block, from: Block, half: Half, hermitian: bool) {
    assert!(to.rows == to.cols && (from.rows, from.cols) == (to.rows, to.cols), "squares of one size");
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { mirrored_of::<T>(to, from, half, hermitian) })
}

/// Rows and columns of what is mirrored in one go: it stays in the cache.
const SIDE: usize = 32;

/// # Safety
/// As [`mirrored`].
unsafe fn mirrored_of<T: Float>(to: Block, from: Block, half: Half, hermitian: bool) {
    // The upper half is the lower one of the transposed matrix.
    let (to, from) = if half == Half::Upper { (to.transposed(), from.transposed()) } else { (to, from) };
    let order = to.rows;
    for i0 in (0..order).step_by(SIDE) {
        for j0 in (0..=i0).step_by(SIDE) {
            for row in i0..(i0 + SIDE).min(order) {
                for col in j0..(j0 + SIDE).min(row + 1) {
                    // SAFETY: inside the blocks, and as the caller vouches.
                    unsafe {
                        let value = *at::<T>(&from, row, col);
                        let value = if hermitian && row == col { value.real_part() } else { value };
                        at::<T>(&to, row, col).write(value);
                        at::<T>(&to, col, row).write(if hermitian { value.conjugate() } else { value });
                    }
                }
            }
        }
    }
}

/// Writes to `to` the triangular matrix of which `from` has one half, with zeros in the other. The other half is not
/// read, nor is a diagonal of ones.
///
/// # Panics
/// As for [`mirrored`].
///
/// # Safety
/// As for [`mirrored`].
pub unsafe fn triangle(dtype: DType, to: Block, from: Block, half: Half, diagonal: Diagonal) {
    assert!(to.rows == to.cols && (from.rows, from.cols) == (to.rows, to.cols), "squares of one size");
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { triangle_of::<T>(to, from, half, diagonal) })
}

/// # Safety
/// As [`triangle`].
unsafe fn triangle_of<T: Float>(to: Block, from: Block, half: Half, diagonal: Diagonal) {
    for row in 0..to.rows {
        let read = inside(Some(half), row, to.cols);
        for col in 0..to.cols {
            // SAFETY: inside the blocks, and as the caller vouches.
            unsafe {
                let value = if row == col && diagonal == Diagonal::Unit {
                    T::scalar(Scalar::ONE)
                } else if read.contains(&col) {
                    *at::<T>(&from, row, col)
                } else {
                    T::ZERO
                };
                at::<T>(&to, row, col).write(value);
            }
        }
    }
}
