//! Kernels of the floating dtypes, over `faer`.
//!
//! What faer does well is left to it. It is given copies where it would be slow: the factor of a product
//! that it does not pack, where that lies across (measured 0.75 of the rate), and right-hand sides whose
//! rows are not contiguous. Its Cholesky factorization needs column-major blocks, and keeps imaginary
//! parts on the diagonal; ours is recursive, over the two others. Halves of complex products are ours, too: on
//! processors without AVX-512, faer 0.24 writes beyond them.

use super::{Block, Diagonal, Half, Operand, Scalar, vector};
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::{matmul, triangular_solve};
use faer::traits::ComplexField;
use faer::{Accum, Conj, MatMut, MatRef, Par, c32, c64};
use outcrop_store::strided;
use std::ops::{AddAssign, Mul, Range, SubAssign};

/// Columns of the left factor, and rows of the right one, that are multiplied at once: faer's own choice.
pub(super) const DEPTH: usize = 512;

/// Right-hand sides copied at once.
const SIDES: usize = 128;

/// Order of the matrices that are factored directly.
const ORDER: usize = 64;

/// Order of the triangular matrices that are left to faer whole.
const SMALL: usize = 128;

/// Copies begin at the start of a cache line.
const LINE: usize = 64;

/// Order of the squares on the diagonal of a half that are computed whole.
const SQUARE: usize = 32;

/// Columns of C from which copying the left factor pays.
pub(super) const WORTH: usize = 48;

/// An element type.
pub(super) trait Float:
    ComplexField + Copy + PartialEq + Mul<Output = Self> + AddAssign + SubAssign
{
    /// Diagonals between `1 / MODERATE` and this, and other elements up to this, can be divided by each
    /// other.
    const MODERATE: f64;
    const ZERO: Self;
    const IS_COMPLEX: bool;
    fn scalar(value: Scalar) -> Self;
    /// Multiplied; by a real number, part by part.
    fn times(self, by: Scalar) -> Self;
    /// Without its imaginary part.
    fn real_part(self) -> Self;
    fn conjugate(self) -> Self;
    /// The larger of the parts' absolute values.
    fn magnitude(self) -> f64;
    /// The absolute value.
    fn modulus(self) -> f64;
    /// The square root of the real part, if that is positive and finite.
    fn root(self) -> Option<Self>;
    /// Divided by the real part of `by`.
    fn over_real(self, by: Self) -> Self;
    /// Divided by `by`, without overflow between.
    fn over(self, by: Self) -> Self;
    /// C = alpha A b, or C += alpha A b, of columns, where b and the rows of A are contiguous, or C and the columns of A are.
    ///
    /// # Safety
    /// As [`multiply`].
    unsafe fn by_lines(c: Block, accumulate: bool, alpha: Scalar, a: Operand, b: Operand);
}

macro_rules! float {
    ($Real:ty, $Complex:ty, $moderate:expr) => {
        impl Float for $Real {
            const MODERATE: f64 = $moderate;
            const ZERO: Self = 0.0;
            const IS_COMPLEX: bool = false;
            fn scalar(value: Scalar) -> Self {
                value.re as $Real
            }
            #[inline(always)]
            fn times(self, by: Scalar) -> Self {
                self * by.re as $Real
            }
            #[inline(always)]
            fn real_part(self) -> Self {
                self
            }
            #[inline(always)]
            fn conjugate(self) -> Self {
                self
            }
            #[inline(always)]
            fn magnitude(self) -> f64 {
                f64::from(self.abs())
            }
            #[inline(always)]
            fn modulus(self) -> f64 {
                f64::from(self.abs())
            }
            #[inline(always)]
            fn root(self) -> Option<Self> {
                (self > 0.0 && self.is_finite()).then(|| self.sqrt())
            }
            #[inline(always)]
            fn over_real(self, by: Self) -> Self {
                self / by
            }
            #[inline(always)]
            fn over(self, by: Self) -> Self {
                self / by
            }
            // SAFETY: what the caller promises is what the trait asks for.
            unsafe fn by_lines(c: Block, accumulate: bool, alpha: Scalar, a: Operand, b: Operand) {
                // SAFETY: as the caller vouches.
                unsafe { vector::by_lines::<Self>(c, accumulate, Self::scalar(alpha), a.block, b.block) }
            }
        }

        impl Float for $Complex {
            const MODERATE: f64 = $moderate;
            const ZERO: Self = Self::new(0.0, 0.0);
            const IS_COMPLEX: bool = true;
            fn scalar(value: Scalar) -> Self {
                Self::new(value.re as $Real, value.im as $Real)
            }
            #[inline(always)]
            fn times(self, by: Scalar) -> Self {
                let (re, im) = (by.re as $Real, by.im as $Real);
                if by.im == 0.0 {
                    return Self::new(self.re * re, self.im * re);
                }
                Self::new(self.re * re - self.im * im, self.re * im + self.im * re)
            }
            #[inline(always)]
            fn real_part(self) -> Self {
                Self::new(self.re, 0.0)
            }
            #[inline(always)]
            fn conjugate(self) -> Self {
                Self::new(self.re, -self.im)
            }
            #[inline(always)]
            fn magnitude(self) -> f64 {
                // The sum is NaN if either part is.
                f64::from(self.re.abs() + self.im.abs())
            }
            #[inline(always)]
            fn modulus(self) -> f64 {
                f64::from(self.re).hypot(f64::from(self.im))
            }
            #[inline(always)]
            fn root(self) -> Option<Self> {
                (self.re > 0.0 && self.re.is_finite()).then(|| Self::new(self.re.sqrt(), 0.0))
            }
            #[inline(always)]
            fn over_real(self, by: Self) -> Self {
                Self::new(self.re / by.re, self.im / by.re)
            }
            #[inline(always)]
            fn over(self, by: Self) -> Self {
                // Smith's method.
                if by.re.abs() >= by.im.abs() {
                    let ratio = by.im / by.re;
                    let divisor = by.re + by.im * ratio;
                    Self::new((self.re + self.im * ratio) / divisor, (self.im - self.re * ratio) / divisor)
                } else {
                    let ratio = by.re / by.im;
                    let divisor = by.re * ratio + by.im;
                    Self::new((self.re * ratio + self.im) / divisor, (self.im * ratio - self.re) / divisor)
                }
            }
            // SAFETY: what the caller promises is what the trait asks for.
            unsafe fn by_lines(c: Block, accumulate: bool, alpha: Scalar, a: Operand, b: Operand) {
                // SAFETY: as the caller vouches.
                unsafe { product::<Self>(None, c, accumulate, alpha, a, b) }
            }
        }
    };
}

// Quotients of two such numbers, and their products with a third, are in range.
float!(f64, c64, (1u128 << 100) as f64 * (1u128 << 100) as f64 * (1u128 << 100) as f64);
float!(f32, c32, (1u64 << 40) as f64);

/// Elements from one row of a copy of `width` columns to the next: rows a power of two apart would meet in
/// the same sets of the cache.
fn copy_stride(width: usize, itemsize: usize) -> usize {
    width + LINE / itemsize
}

/// Bytes of a copy of `rows` rows that are up to [`DEPTH`] long.
pub(super) fn panel_bytes(rows: usize, depth: usize, itemsize: usize) -> usize {
    rows * copy_stride(depth.min(DEPTH), itemsize) * itemsize + LINE
}

/// Bytes of the copies that a triangular matrix of this order has use for: of some right-hand sides, or of
/// a factor in one of the products.
pub(super) fn solve_bytes(order: usize, columns: usize, itemsize: usize) -> usize {
    let sides = order.min(SMALL) * copy_stride(columns.min(SIDES), itemsize) * itemsize + LINE;
    if order <= ORDER { sides } else { sides.max(panel_bytes(order.max(columns), order, itemsize)) }
}

/// A row-major block in the workspace, if it has room.
pub(super) fn block_in(workspace: &mut [u8], rows: usize, cols: usize, itemsize: usize) -> Option<Block> {
    let skip = workspace.as_ptr().align_offset(LINE);
    let stride = copy_stride(cols, itemsize);
    let bytes = rows * stride * itemsize;
    let memory = workspace.get_mut(skip..)?.get_mut(..bytes)?;
    Some(Block::row_major(memory.as_mut_ptr(), rows, cols, stride))
}

/// Copies `from` to `to`, which has the same extents.
///
/// # Safety
/// Every element of `from` is valid for reads, of `to` for writes, and they share no memory.
pub(super) unsafe fn copy(to: Block, from: Block, itemsize: usize) {
    let bytes = |block: &Block| [block.row_stride * itemsize as isize, block.col_stride * itemsize as isize];
    let shape = [to.rows as u64, to.cols as u64];
    // SAFETY: as the caller vouches.
    unsafe { strided::copy(to.start, &bytes(&to), from.start, &bytes(&from), &shape, itemsize) }
}

/// # Safety
/// Every element of the block is of type `T`, valid for reads and unchanged for `'a`.
unsafe fn reading<'a, T>(block: Block) -> MatRef<'a, T> {
    let Block { start, rows, cols, row_stride, col_stride } = block;
    // SAFETY: as the caller vouches.
    unsafe { MatRef::from_raw_parts(start.cast::<T>(), rows, cols, row_stride, col_stride) }
}

/// # Safety
/// Every element of the block is of type `T`, valid for writes, and nobody else's for `'a`.
unsafe fn writing<'a, T>(block: Block) -> MatMut<'a, T> {
    let Block { start, rows, cols, row_stride, col_stride } = block;
    // SAFETY: as the caller vouches.
    unsafe { MatMut::from_raw_parts_mut(start.cast::<T>(), rows, cols, row_stride, col_stride) }
}

fn conj(flag: bool) -> Conj {
    if flag { Conj::Yes } else { Conj::No }
}

/// The address of an element.
#[inline(always)]
pub(super) fn at<T>(block: &Block, row: usize, col: usize) -> *mut T {
    let offset = row as isize * block.row_stride + col as isize * block.col_stride;
    block.start.cast::<T>().wrapping_offset(offset)
}

/// # Safety
/// As [`super::gemm`] and [`super::gemm_half`]; the extents agree.
pub(super) unsafe fn multiply<T: Float>(
    half: Option<Half>,
    c: Block,
    accumulate: bool,
    alpha: Scalar,
    a: Operand,
    b: Operand,
    workspace: &mut [u8],
) {
    if c.is_empty() {
        return;
    }
    // faer computes in columns of C; of row-major blocks, everything transposed. Either way it packs the
    // factor on the side of C's contiguous axis, and reads the other where it is, along the depth.
    let (half, c, a, b) = if c.row_stride.unsigned_abs() < c.col_stride.unsigned_abs() {
        (half.map(Half::transposed), c.transposed(), b.transposed(), a.transposed())
    } else {
        (half, c, a, b)
    };
    let itemsize = size_of::<T>();
    let depth = a.block.cols;
    if depth == 0 {
        if !accumulate {
            // SAFETY: as the caller vouches.
            unsafe { clear::<T>(half, c) };
        }
        return;
    }
    if c.rows == 1 || c.cols == 1 {
        // SAFETY: as the caller vouches; of a single element, a half is the whole.
        return unsafe { vector::multiply::<T>(c, accumulate, alpha, a, b) };
    }
    let across = a.block.col_stride.unsigned_abs() != 1 && c.cols >= WORTH && depth > 1;
    let panel = if across { block_in(workspace, c.rows, depth.min(DEPTH), itemsize) } else { None };
    let Some(panel) = panel else {
        // SAFETY: as the caller vouches.
        return unsafe { product::<T>(half, c, accumulate, alpha, a, b) };
    };
    for first in (0..depth).step_by(DEPTH) {
        let range = first..depth.min(first + DEPTH);
        let copied = panel.part(0..c.rows, 0..range.len(), itemsize);
        let a_part = a.block.part(0..c.rows, range.clone(), itemsize);
        let b_part = b.block.part(range, 0..c.cols, itemsize);
        let copied_a = Operand { block: copied, conj: a.conj };
        let b = Operand { block: b_part, conj: b.conj };
        // SAFETY: as the caller vouches; the workspace is ours.
        unsafe {
            copy(copied, a_part, itemsize);
            product::<T>(half, c, accumulate || first > 0, alpha, copied_a, b);
        }
    }
}

/// # Safety
/// As [`multiply`].
pub(super) unsafe fn product<T: Float>(
    half: Option<Half>,
    c: Block,
    accumulate: bool,
    alpha: Scalar,
    a: Operand,
    b: Operand,
) {
    if let Some(half) = half
        && T::IS_COMPLEX
    {
        // SAFETY: as the caller vouches.
        return unsafe { half_product::<T>(half, c, accumulate, alpha, a, b) };
    }
    let accum = if accumulate { Accum::Add } else { Accum::Replace };
    let alpha = T::scalar(alpha);
    // SAFETY: as the caller vouches.
    let (c, left, right) = unsafe { (writing::<T>(c), reading::<T>(a.block), reading::<T>(b.block)) };
    let structure = match half {
        None => {
            let (conj_a, conj_b) = (conj(a.conj), conj(b.conj));
            return matmul::matmul_with_conj(c, accum, left, conj_a, right, conj_b, alpha, Par::Seq);
        }
        Some(Half::Lower) => BlockStructure::TriangularLower,
        Some(Half::Upper) => BlockStructure::TriangularUpper,
    };
    triangular::matmul_with_conj(
        c,
        structure,
        accum,
        left,
        BlockStructure::Rectangular,
        conj(a.conj),
        right,
        BlockStructure::Rectangular,
        conj(b.conj),
        alpha,
        Par::Seq,
    );
}

/// A half of a product, over whole products: what lies beside the diagonal as it is, and squares on it by way of
/// memory of their own.
///
/// # Safety
/// As [`multiply`].
unsafe fn half_product<T: Float>(
    half: Half,
    c: Block,
    accumulate: bool,
    alpha: Scalar,
    a: Operand,
    b: Operand,
) {
    let (order, depth, itemsize) = (c.rows, a.block.cols, size_of::<T>());
    let of = |operand: Operand, rows: Range<usize>, cols: Range<usize>| Operand {
        block: operand.block.part(rows, cols, itemsize),
        ..operand
    };
    if order > SQUARE {
        let middle = (order / 2).next_multiple_of(SQUARE);
        let (first, last) = (0..middle, middle..order);
        for on in [&first, &last] {
            let square = c.part(on.clone(), on.clone(), itemsize);
            let (rows, cols) = (of(a, on.clone(), 0..depth), of(b, 0..depth, on.clone()));
            // SAFETY: as the caller vouches.
            unsafe { half_product::<T>(half, square, accumulate, alpha, rows, cols) };
        }
        let (rows, cols) = match half {
            Half::Lower => (last, first),
            Half::Upper => (first, last),
        };
        let beside = c.part(rows.clone(), cols.clone(), itemsize);
        // SAFETY: as the caller vouches; the part lies in this half.
        unsafe {
            product::<T>(None, beside, accumulate, alpha, of(a, rows, 0..depth), of(b, 0..depth, cols));
        }
        return;
    }
    let mut memory = [T::ZERO; SQUARE * SQUARE];
    let square = Block::row_major(memory.as_mut_ptr().cast(), order, order, SQUARE).transposed();
    // SAFETY: as the caller vouches; the memory has room for it.
    unsafe { product::<T>(None, square, false, alpha, a, b) };
    for col in 0..order {
        let rows = match half {
            Half::Lower => col..order,
            Half::Upper => 0..col + 1,
        };
        for row in rows {
            let value = memory[col * SQUARE + row];
            let place = at::<T>(&c, row, col);
            // SAFETY: inside this half of C, which the caller lets us read and write.
            unsafe {
                if accumulate {
                    *place += value;
                } else {
                    place.write(value);
                }
            }
        }
    }
}

/// Fills C, or its half, with zeros.
///
/// # Safety
/// As [`multiply`].
unsafe fn clear<T: Float>(half: Option<Half>, c: Block) {
    for row in 0..c.rows {
        let cols = match half {
            None => 0..c.cols,
            Some(Half::Lower) => 0..row + 1,
            Some(Half::Upper) => row..c.cols,
        };
        for col in cols {
            // SAFETY: inside C, where the caller lets us write.
            unsafe { at::<T>(&c, row, col).write(T::ZERO) };
        }
    }
}

/// # Safety
/// As [`super::solve_triangular`]; the extents agree.
pub(super) unsafe fn solve<T: Float>(
    half: Half,
    diagonal: Diagonal,
    t: Operand,
    b: Block,
    workspace: &mut [u8],
) {
    if b.is_empty() {
        return;
    }
    // SAFETY: as the caller vouches.
    if !unsafe { is_moderate::<T>(half, diagonal, t.block) } {
        // SAFETY: as the caller vouches.
        return unsafe { substitute::<T>(half, diagonal, t, b, workspace) };
    }
    // SAFETY: as the caller vouches.
    unsafe { solve_moderate::<T>(half, diagonal, t, b, workspace) }
}

/// Halves T until it is small, so that the products between are ours.
///
/// # Safety
/// As [`solve`].
unsafe fn solve_moderate<T: Float>(
    half: Half,
    diagonal: Diagonal,
    t: Operand,
    b: Block,
    workspace: &mut [u8],
) {
    let itemsize = size_of::<T>();
    let (order, cols) = (b.rows, b.cols);
    if order <= SMALL {
        // SAFETY: as the caller vouches.
        return unsafe { solve_small::<T>(half, diagonal, t, b, workspace) };
    }
    let split = (order / 2).next_multiple_of(ORDER);
    let (first, second) = match half {
        Half::Lower => (0..split, split..order),
        Half::Upper => (split..order, 0..split),
    };
    let factor = |rows: &Range<usize>, cols: &Range<usize>| Operand {
        block: t.block.part(rows.clone(), cols.clone(), itemsize),
        conj: t.conj,
    };
    let solved = b.part(first.clone(), 0..cols, itemsize);
    let rest = b.part(second.clone(), 0..cols, itemsize);
    // SAFETY: as the caller vouches; `solved` and `rest` are apart, and no part of T is in its other half.
    unsafe {
        solve_moderate::<T>(half, diagonal, factor(&first, &first), solved, workspace);
        multiply::<T>(
            None,
            rest,
            true,
            Scalar::from(-1.0),
            factor(&second, &first),
            solved.plain(),
            workspace,
        );
        solve_moderate::<T>(half, diagonal, factor(&second, &second), rest, workspace);
    }
}

/// Gives faer right-hand sides whose rows are contiguous.
///
/// # Safety
/// As [`solve`].
unsafe fn solve_small<T: Float>(half: Half, diagonal: Diagonal, t: Operand, b: Block, workspace: &mut [u8]) {
    let itemsize = size_of::<T>();
    let width = b.cols.min(SIDES);
    let across = b.col_stride.unsigned_abs() != 1 && b.cols > 1;
    let copied = if across { block_in(workspace, b.rows, width, itemsize) } else { None };
    let Some(copied) = copied else {
        // SAFETY: as the caller vouches.
        return unsafe { solve_directly::<T>(half, diagonal, t, b) };
    };
    for first in (0..b.cols).step_by(width) {
        let sides = b.part(0..b.rows, first..b.cols.min(first + width), itemsize);
        let copied = copied.part(0..b.rows, 0..sides.cols, itemsize);
        // SAFETY: as the caller vouches; the workspace is ours.
        unsafe {
            copy(copied, sides, itemsize);
            solve_directly::<T>(half, diagonal, t, copied);
            copy(sides, copied, itemsize);
        }
    }
}

/// # Safety
/// As [`solve`].
unsafe fn solve_directly<T: Float>(half: Half, diagonal: Diagonal, t: Operand, b: Block) {
    use triangular_solve::{
        solve_lower_triangular_in_place_with_conj as lower,
        solve_unit_lower_triangular_in_place_with_conj as unit_lower,
        solve_unit_upper_triangular_in_place_with_conj as unit_upper,
        solve_upper_triangular_in_place_with_conj as upper,
    };
    let conj = conj(t.conj);
    // SAFETY: as the caller vouches.
    let (t, b) = unsafe { (reading::<T>(t.block), writing::<T>(b)) };
    match (half, diagonal) {
        (Half::Lower, Diagonal::Stored) => lower(t, conj, b, Par::Seq),
        (Half::Lower, Diagonal::Unit) => unit_lower(t, conj, b, Par::Seq),
        (Half::Upper, Diagonal::Stored) => upper(t, conj, b, Par::Seq),
        (Half::Upper, Diagonal::Unit) => unit_upper(t, conj, b, Par::Seq),
    }
}

/// Whether faer's way of solving loses nothing: it multiplies by the reciprocals of the diagonal, and
/// divides the elements of T by the diagonal before they meet the right-hand sides.
///
/// # Safety
/// As [`solve`].
unsafe fn is_moderate<T: Float>(half: Half, diagonal: Diagonal, t: Block) -> bool {
    let (half, t) = if t.row_stride.unsigned_abs() < t.col_stride.unsigned_abs() {
        (half.transposed(), t.transposed())
    } else {
        (half, t)
    };
    for row in 0..t.rows {
        let others = match half {
            Half::Lower => 0..row,
            Half::Upper => row + 1..t.cols,
        };
        let mut moderate = true;
        for col in others {
            // SAFETY: inside the half of T that may be read.
            moderate &= unsafe { at::<T>(&t, row, col).read() }.magnitude() <= T::MODERATE;
        }
        if diagonal == Diagonal::Stored {
            // SAFETY: likewise.
            let pivot = unsafe { at::<T>(&t, row, row).read() }.magnitude();
            moderate &= (T::MODERATE.recip()..=T::MODERATE).contains(&pivot);
        }
        if !moderate {
            return false;
        }
    }
    true
}

/// Substitution by the book, a block of rows at a time, for factors with extreme elements.
///
/// # Safety
/// As [`solve`].
unsafe fn substitute<T: Float>(half: Half, diagonal: Diagonal, t: Operand, b: Block, workspace: &mut [u8]) {
    let itemsize = size_of::<T>();
    let order = b.rows;
    let value = |row: usize, col: usize| {
        // SAFETY: only asked for elements of the half that may be read.
        let value = unsafe { at::<T>(&t.block, row, col).read() };
        if t.conj { value.conjugate() } else { value }
    };
    let blocks = order.div_ceil(ORDER);
    for step in 0..blocks {
        let (rows, rest) = match half {
            Half::Lower => {
                let rows = step * ORDER..order.min((step + 1) * ORDER);
                (rows.clone(), rows.end..order)
            }
            Half::Upper => {
                let rows = (blocks - step - 1) * ORDER..order.min((blocks - step) * ORDER);
                (rows.clone(), 0..rows.start)
            }
        };
        for count in 0..rows.len() {
            let (row, before) = match half {
                Half::Lower => (rows.start + count, rows.start..rows.start + count),
                Half::Upper => (rows.end - 1 - count, rows.end - count..rows.end),
            };
            for col in 0..b.cols {
                // SAFETY: (row, col) is inside B.
                let mut x = unsafe { at::<T>(&b, row, col).read() };
                for k in before.clone() {
                    // SAFETY: (k, col) is inside B.
                    x -= value(row, k) * unsafe { at::<T>(&b, k, col).read() };
                }
                if diagonal == Diagonal::Stored {
                    x = x.over(value(row, row));
                }
                // SAFETY: (row, col) is inside B.
                unsafe { at::<T>(&b, row, col).write(x) };
            }
        }
        let factor = Operand { block: t.block.part(rest.clone(), rows.clone(), itemsize), conj: t.conj };
        let solved = b.part(rows, 0..b.cols, itemsize).plain();
        let target = b.part(rest, 0..b.cols, itemsize);
        // SAFETY: as the caller vouches; solved rows and those left are apart.
        unsafe { multiply::<T>(None, target, true, Scalar::from(-1.0), factor, solved, workspace) };
    }
}

/// The factor of the lower half of `a`.
///
/// # Safety
/// As [`super::cholesky`]; the block is square.
pub(super) unsafe fn cholesky<T: Float>(a: Block, workspace: &mut [u8]) -> Result<(), usize> {
    let order = a.rows;
    if order <= ORDER {
        // SAFETY: as the caller vouches.
        return unsafe { cholesky_small::<T>(a) };
    }
    let itemsize = size_of::<T>();
    let split = (order / 2).next_multiple_of(ORDER);
    let top = a.part(0..split, 0..split, itemsize);
    let side = a.part(split..order, 0..split, itemsize);
    let rest = a.part(split..order, split..order, itemsize);
    // SAFETY: as the caller vouches; the three parts are apart, and in the lower half but for the upper
    // halves of `top` and `rest`, which no call touches.
    unsafe {
        cholesky::<T>(top, workspace)?;
        let factor = Operand { block: top, conj: true };
        solve::<T>(Half::Lower, Diagonal::Stored, factor, side.transposed(), workspace);
        multiply::<T>(
            Some(Half::Lower),
            rest,
            true,
            Scalar::from(-1.0),
            side.plain(),
            side.adjoint(),
            workspace,
        );
        cholesky::<T>(rest, workspace).map_err(|minor| split + minor)
    }
}

/// # Safety
/// As [`cholesky`], of order [`ORDER`] at most.
unsafe fn cholesky_small<T: Float>(a: Block) -> Result<(), usize> {
    let order = a.rows;
    // Columns of the lower half, one after the other.
    let mut columns = [[T::ZERO; ORDER]; ORDER];
    // Along A's rows or columns, whichever are contiguous.
    let by_rows = a.col_stride.unsigned_abs() < a.row_stride.unsigned_abs();
    let place = |outer: usize, inner: usize| if by_rows { (outer, inner) } else { (inner, outer) };
    let inner = |outer: usize| if by_rows { 0..outer + 1 } else { outer..order };
    for i in 0..order {
        for (row, col) in inner(i).map(|j| place(i, j)) {
            // SAFETY: in the lower half of A.
            columns[col][row] = unsafe { at::<T>(&a, row, col).read() };
        }
    }
    factor(&mut columns, order)?;
    for i in 0..order {
        for (row, col) in inner(i).map(|j| place(i, j)) {
            // SAFETY: in the lower half of A.
            unsafe { at::<T>(&a, row, col).write(columns[col][row]) };
        }
    }
    Ok(())
}

fn factor<T: Float>(columns: &mut [[T; ORDER]; ORDER], order: usize) -> Result<(), usize> {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<T: Float>(columns: &mut [[T; ORDER]; ORDER], order: usize) -> Result<(), usize> {
            factor_columns(columns, order)
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 is there.
            return unsafe { avx2(columns, order) };
        }
    }
    factor_columns(columns, order)
}

/// Takes from each column what the columns before it give, then divides by the root of its pivot.
#[inline(always)]
fn factor_columns<T: Float>(columns: &mut [[T; ORDER]; ORDER], order: usize) -> Result<(), usize> {
    for col in 0..order {
        let (before, after) = columns.split_at_mut(col);
        let column = &mut after[0];
        // Whole vectors: what is above `start` and below `order` is not used.
        let start = col & !7;
        let (fours, others) = before.as_chunks::<4>();
        for four in fours {
            let scales = four.each_ref().map(|other| other[col].conjugate());
            for row in start..ORDER {
                let mut element = column[row];
                for (other, &scale) in four.iter().zip(&scales) {
                    element -= other[row] * scale;
                }
                column[row] = element;
            }
        }
        for other in others {
            let scale = other[col].conjugate();
            for row in start..ORDER {
                column[row] -= other[row] * scale;
            }
        }
        let root = column[col].root().ok_or(col)?;
        for element in &mut column[start..] {
            *element = element.over_real(root);
        }
        column[col] = root;
    }
    Ok(())
}

/// # Safety
/// As [`super::first_zero_diagonal`].
pub(super) unsafe fn first_zero_diagonal<T: Float>(block: Block) -> Option<usize> {
    // SAFETY: on the diagonal of the block.
    (0..block.rows.min(block.cols)).find(|&i| unsafe { at::<T>(&block, i, i).read() } == T::ZERO)
}
