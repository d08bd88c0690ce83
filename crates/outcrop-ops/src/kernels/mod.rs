//! Linear algebra on blocks in memory, each call on the calling thread alone.
//!
//! A kernel takes its blocks untyped, with the dtype beside them, and with any strides: a transposed
//! operand is a block whose strides are exchanged. What a call computes depends on its arguments alone, to
//! the last bit.
//!
//! Kernels copy what lies badly for them into a `workspace` of the caller's. The functions `..._workspace`
//! say how much is of use; with less, or none, the result is right, but slow in coming. What the library
//! below packs for itself, beside the workspace, is bounded by [`packing_bytes`].

mod float;
pub mod ldl;
pub mod lu;
pub mod structured;
pub mod update;
mod vector;
mod whole;

#[cfg(test)]
mod tests;

use faer::{c32, c64};
use outcrop_store::Result;
use outcrop_store::dtype::DType;
use outcrop_store::io::Cancel;
use std::ops::Range;

/// A matrix in memory. Its dtype travels beside it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The address of element (0, 0); aligned to the dtype's [`word`](DType::word_size).
    pub start: *mut u8,
    /// Extent of the first axis.
    pub rows: usize,
    /// Extent of the second axis.
    pub cols: usize,
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
}

impl Block {
    /// A row-major block whose rows start `stride` elements apart.
    pub fn row_major(start: *mut u8, rows: usize, cols: usize, stride: usize) -> Block {
        Block { start, rows, cols, row_stride: stride as isize, col_stride: 1 }
    }

    /// The same memory with the axes exchanged.
    pub fn transposed(self) -> Block {
        Block {
            start: self.start,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// The part at `rows` and `cols` of a block of elements of `itemsize` bytes.
    ///
    /// # Panics
    /// Where the part is not inside the block.
    pub fn part(self, rows: Range<usize>, cols: Range<usize>, itemsize: usize) -> Block {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols, "columns {cols:?} of {}", self.cols);
        let offset = rows.start as isize * self.row_stride + cols.start as isize * self.col_stride;
        Block {
            // An empty part may begin one past the end of the memory, or anywhere with such strides.
            start: self.start.wrapping_offset(offset * itemsize as isize),
            rows: rows.len(),
            cols: cols.len(),
            ..self
        }
    }

    /// As a factor, the way it is.
    pub fn plain(self) -> Operand {
        Operand { block: self, conj: false }
    }

    /// As a factor, transposed and conjugated.
    pub fn adjoint(self) -> Operand {
        Operand { block: self.transposed(), conj: true }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }
}

/// A factor: a block as it is, or conjugated. For real dtypes `conj` says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The matrix.
    pub block: Block,
    /// Whether each element counts as its conjugate.
    pub conj: bool,
}

impl Operand {
    /// The same factor with the axes exchanged, conjugated if it was.
    pub fn transposed(self) -> Operand {
        Operand { block: self.block.transposed(), conj: self.conj }
    }
}

/// What a product is multiplied by; of real dtypes only the real part counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

impl Scalar {
    /// Zero.
    pub const ZERO: Scalar = Scalar { re: 0.0, im: 0.0 };
    /// One.
    pub const ONE: Scalar = Scalar { re: 1.0, im: 0.0 };

    /// The complex conjugate.
    #[must_use]
    pub fn conjugate(self) -> Scalar {
        Scalar { im: -self.im, ..self }
    }
}

impl From<f64> for Scalar {
    fn from(re: f64) -> Scalar {
        Scalar { re, im: 0.0 }
    }
}

/// The half of a square matrix that holds what counts, with the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// On and below the diagonal.
    Lower,
    /// On and above the diagonal.
    Upper,
}

impl Half {
    /// The half of the transposed matrix where this half comes to lie.
    pub fn transposed(self) -> Half {
        match self {
            Half::Lower => Half::Upper,
            Half::Upper => Half::Lower,
        }
    }
}

/// The diagonal of a triangular factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagonal {
    /// Is what is stored.
    Stored,
    /// Is all ones; what is stored is not read.
    Unit,
}

/// Whether all kernels take the dtype; of the others, only [`gemm`] does.
pub const fn is_floating(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128)
}

/// Evaluates `$body` with `$T` as the Rust type of a floating dtype.
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
use with_float;

/// `c = alpha * a * b`, or `c += alpha * a * b` with `accumulate`. Without, what was in `c` is not read.
///
/// Integers wrap around. For booleans the product is the OR of the ANDs, and accumulating is another OR.
/// For both, `alpha` is a whole number (for booleans 1).
///
/// # Panics
/// Where the extents do not agree.
///
/// # Safety
/// Every element of `a` and `b` must be valid for reads and initialized, every element of `c` for writes
/// (and initialized with `accumulate`), all aligned to the dtype's words; no two elements of `c` share
/// memory, and none is part of `a`, `b` or `workspace`. During the call, nobody else touches `c`.
pub unsafe fn gemm(
    dtype: DType,
    c: Block,
    accumulate: bool,
    alpha: impl Into<Scalar>,
    a: Operand,
    b: Operand,
    workspace: &mut [u8],
) {
    check_product(&c, &a, &b);
    let alpha = alpha.into();
    if !is_floating(dtype) {
        // SAFETY: as the caller vouches.
        return unsafe { whole::gemm(dtype, c, accumulate, alpha.re, a.block, b.block) };
    }
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { float::multiply::<T>(None, c, accumulate, alpha, a, b, workspace) })
}

/// As [`gemm`], but only `half` of the square `c` is read and written. With `b` the
/// [adjoint](Block::adjoint) of `a` this is the update of a Hermitian matrix.
///
/// # Panics
/// Where the extents do not agree, `c` is not square, or the dtype is not [floating](is_floating).
///
/// # Safety
/// As [`gemm`], for that half of `c`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gemm_half(
    dtype: DType,
    half: Half,
    c: Block,
    accumulate: bool,
    alpha: impl Into<Scalar>,
    a: Operand,
    b: Operand,
    workspace: &mut [u8],
) {
    check_product(&c, &a, &b);
    let alpha = alpha.into();
    assert_eq!(c.rows, c.cols, "half of a matrix that is not square");
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { float::multiply::<T>(Some(half), c, accumulate, alpha, a, b, workspace) })
}

/// Copies what is below the diagonal of a square block to its places above.
///
/// # Panics
/// Where it is not square.
///
/// # Safety
/// Every element is `itemsize` bytes (1, 2, 4, 8 or 16), valid for reads and writes, and nobody else's.
pub unsafe fn mirror(c: Block, itemsize: usize) {
    const SIDE: usize = 64;
    assert_eq!(c.rows, c.cols, "a matrix that is not square has no halves");
    let (down, right) = (c.row_stride * itemsize as isize, c.col_stride * itemsize as isize);
    let at = |row: usize, col: usize| c.start.wrapping_offset(row as isize * down + col as isize * right);
    for i in (0..c.rows).step_by(SIDE) {
        let rows = SIDE.min(c.rows - i);
        for j in (0..i).step_by(SIDE) {
            let shape = [SIDE as u64, rows as u64];
            // SAFETY: blocks below the diagonal share no element with those above.
            unsafe {
                outcrop_store::strided::copy(
                    at(j, i),
                    &[down, right],
                    at(i, j),
                    &[right, down],
                    &shape,
                    itemsize,
                )
            };
        }
        for row in i..i + rows {
            for col in i..row {
                // SAFETY: two elements of the block, one below and one above the diagonal.
                unsafe { std::ptr::copy_nonoverlapping(at(row, col), at(col, row), itemsize) };
            }
        }
    }
}

/// Solves `T X = B` for X in the place of `b`, where T is the `half` of `t`, whose other half is not read.
///
/// `X T = B` is `T^T X^T = B^T`: pass both transposed, and the other half. Nothing is checked: a zero on
/// the diagonal gives infinities and NaN (see [`first_zero_diagonal`]).
///
/// # Panics
/// Where the extents do not agree, or the dtype is not [floating](is_floating).
///
/// # Safety
/// As [`gemm`], with `t` read and `b` read and written.
pub unsafe fn solve_triangular(
    dtype: DType,
    half: Half,
    diagonal: Diagonal,
    t: Operand,
    b: Block,
    workspace: &mut [u8],
) {
    assert_eq!(t.block.rows, t.block.cols, "a triangular matrix is square");
    assert_eq!(t.block.rows, b.rows, "extents of the triangular matrix and of the right-hand sides");
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { float::solve::<T>(half, diagonal, t, b, workspace) })
}

/// The Cholesky factor of the Hermitian matrix whose `half` is in `a`, in its place: L of `A = L L^H`
/// (lower), or U of `A = U^H U` (upper). The other half is neither read nor written. As in LAPACK,
/// imaginary parts on the diagonal are ignored, and zero afterwards.
///
/// # Errors
/// `Err(i)`: the leading minor of order `i + 1` is not positive, or pivot `i` is NaN or infinite. What is in the half
/// then is of no use.
///
/// # Panics
/// Where the block is not square, or the dtype is not [floating](is_floating).
///
/// # Safety
/// As [`gemm`], with the half of `a` read and written.
pub unsafe fn cholesky(
    dtype: DType,
    half: Half,
    a: Block,
    workspace: &mut [u8],
) -> std::result::Result<(), usize> {
    assert_eq!(a.rows, a.cols, "a Hermitian matrix is square");
    let lower = match half {
        Half::Lower => a,
        // U^T is the lower factor of A^T.
        Half::Upper => a.transposed(),
    };
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { float::cholesky::<T>(lower, workspace) })
}

/// The LU factorization with partial pivoting of a matrix in several blocks, in its place: P A = L U.
/// `pivots` gets, for each of the first columns, the row with which its own was exchanged; there are as many as A has
/// columns, or its first block rows.
///
/// # Errors
/// [`outcrop_store::Error::Interrupted`].
///
/// # Panics
/// Where the dtype is not [floating](is_floating), or there are more pivots than columns, or rows of the first block.
///
/// # Safety
/// As [`gemm`], with all blocks read and written.
pub unsafe fn lu(
    dtype: DType,
    stack: lu::Stack<'_>,
    pivots: &mut [usize],
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<lu::Pivots> {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { lu::factor::<T>(dtype, stack, pivots, workspace, cancel) })
}

/// The first zero on the diagonal of a block.
///
/// # Panics
/// Where the dtype is not [floating](is_floating).
///
/// # Safety
/// Every element of the diagonal must be valid for reads, initialized and aligned.
pub unsafe fn first_zero_diagonal(dtype: DType, block: Block) -> Option<usize> {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { float::first_zero_diagonal::<T>(block) })
}

/// Bytes of workspace that [`gemm`] and [`gemm_half`] have use for, whatever the strides: `c` has `rows`
/// rows and `cols` columns, `a` has `depth` columns.
pub fn gemm_workspace(dtype: DType, rows: usize, cols: usize, depth: usize) -> usize {
    // What is copied is the factor that lies across, where the other has so many columns or rows that this pays.
    let panel = |side: usize, other: usize| {
        if other < float::WORTH { 0 } else { float::panel_bytes(side, depth, dtype.size()) }
    };
    if is_floating(dtype) { panel(rows, cols).max(panel(cols, rows)) } else { 0 }
}

/// Bytes of workspace that [`solve_triangular`] has use for: `t` is of order `order`, and `b` has
/// `columns` columns.
pub fn solve_triangular_workspace(dtype: DType, order: usize, columns: usize) -> usize {
    float::solve_bytes(order, columns, dtype.size())
}

/// Bytes of workspace that [`cholesky`] of a matrix of order `order` has use for.
pub fn cholesky_workspace(dtype: DType, order: usize) -> usize {
    float::solve_bytes(order, order, dtype.size()).max(float::panel_bytes(order, order, dtype.size()))
}

/// At most so many bytes of memory does a thread use beside its workspace, from its first call of a kernel
/// of this module until its end, if no call's extents exceed these.
///
/// The library keeps a buffer for each thread, of twice the size of the last-level cache: address space,
/// of which it touches what the products need, and does not give it back.
pub fn packing_bytes(dtype: DType, rows: usize, cols: usize, depth: usize) -> usize {
    // Panels of both factors, up to 512 deep, rounded up to the largest register block; and pages at
    // both ends. For a vector nothing is packed.
    if rows <= 1 || cols <= 1 {
        return 4 * 4096;
    }
    let depth = depth.min(float::DEPTH);
    (rows + cols + 2 * 96) * depth * dtype.size() + 4 * 4096
}

fn check_product(c: &Block, a: &Operand, b: &Operand) {
    assert_eq!(a.block.cols, b.block.rows, "extents of the factors");
    assert_eq!((c.rows, c.cols), (a.block.rows, b.block.cols), "extents of product and factors");
}
