//! Products with a vector.
//!
//! Of real matrices as fast as memory: lines are taken one after the other, as they lie. Several at once have more sums under way,
//! but processors read ahead in one stream only: 10 GB/s where one after the other, of 100 elements each, came to 19
//! (faer: 12).

use super::float::{Float, at};
use super::{Block, Operand, Scalar};
use pulp::{Arch, Simd, WithSimd};
use std::array::from_fn;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Sums under way in a line: no addition waits for the one before.
const SUMS: usize = 4;

/// Bytes of the vector along the lines that are used at once. They stay in the first level of the cache.
const ALONG: usize = 16 << 10;

/// A product with a vector. faer packs nothing for one whose elements lie side by side, in a matrix whose rows or
/// columns do; others are ours, so that it never does, and so are real ones, which are faster.
///
/// # Safety
/// As [`super::gemm`]; the extents agree, and C is a row or a column.
pub(super) unsafe fn multiply<T: Float>(c: Block, accumulate: bool, alpha: Scalar, a: Operand, b: Operand) {
    let (c, a, b) = if c.cols == 1 { (c, a, b) } else { (c.transposed(), b.transposed(), a.transposed()) };
    let sums_columns = c.row_stride == 1 && a.block.row_stride == 1;
    let sums_rows = b.block.row_stride == 1 && a.block.col_stride == 1;
    if sums_columns || sums_rows {
        // SAFETY: as the caller vouches.
        return unsafe { T::by_lines(c, accumulate, alpha, a, b) };
    }
    let element = |of: &Operand, row: usize, col: usize| {
        // SAFETY: inside the block, and as the caller vouches.
        let value = unsafe { at::<T>(&of.block, row, col).read_unaligned() };
        if of.conj { value.conjugate() } else { value }
    };
    let depth = a.block.cols;
    let alpha = T::scalar(alpha);
    for row in 0..c.rows {
        let mut sum = T::ZERO;
        for k in 0..depth {
            sum += element(&a, row, k) * element(&b, k, 0);
        }
        let to = at::<T>(&c, row, 0);
        // SAFETY: inside the block, and as the caller vouches.
        unsafe {
            let before = if accumulate { to.read_unaligned() } else { T::ZERO };
            let mut now = alpha * sum;
            now += before;
            to.write_unaligned(now);
        }
    }
}

/// A real element type, and vectors of it.
pub(super) trait Real: Copy + std::ops::Mul<Output = Self> + std::ops::Add<Output = Self> {
    type Vector<S: Simd>: Copy;
    const ZERO: Self;
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    /// Whole vectors, and the rest.
    fn split<S: Simd>(elements: &[Self]) -> (&[Self::Vector<S>], &[Self]);
    fn split_mut<S: Simd>(elements: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);
    /// A vector whose first elements are these, and whose others are 0.
    fn load<S: Simd>(simd: S, elements: &[Self]) -> Self::Vector<S>;
    fn store<S: Simd>(simd: S, elements: &mut [Self], vector: Self::Vector<S>);
    /// `a * b + c`.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn sum<S: Simd>(simd: S, vector: Self::Vector<S>) -> Self;
}

macro_rules! real {
    ($T:ty, $Vector:ident, $splat:ident, $split:ident, $split_mut:ident, $load:ident, $store:ident, $multiply_add:ident,
     $add:ident, $sum:ident) => {
        impl Real for $T {
            type Vector<S: Simd> = S::$Vector;
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$Vector {
                simd.$splat(value)
            }
            #[inline(always)]
            fn split<S: Simd>(elements: &[Self]) -> (&[S::$Vector], &[Self]) {
                S::$split(elements)
            }
            #[inline(always)]
            fn split_mut<S: Simd>(elements: &mut [Self]) -> (&mut [S::$Vector], &mut [Self]) {
                S::$split_mut(elements)
            }
            #[inline(always)]
            fn load<S: Simd>(simd: S, elements: &[Self]) -> S::$Vector {
                simd.$load(elements)
            }
            #[inline(always)]
            fn store<S: Simd>(simd: S, elements: &mut [Self], vector: S::$Vector) {
                simd.$store(elements, vector);
            }
            #[inline(always)]
            fn multiply_add<S: Simd>(simd: S, a: S::$Vector, b: S::$Vector, c: S::$Vector) -> S::$Vector {
                simd.$multiply_add(a, b, c)
            }
            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$Vector, b: S::$Vector) -> S::$Vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, vector: S::$Vector) -> Self {
                simd.$sum(vector)
            }
        }
    };
}

real!(
    f64,
    f64s,
    splat_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    partial_load_f64s,
    partial_store_f64s,
    mul_add_e_f64s,
    add_f64s,
    reduce_sum_f64s
);
real!(
    f32,
    f32s,
    splat_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    partial_load_f32s,
    partial_store_f32s,
    mul_add_e_f32s,
    add_f32s,
    reduce_sum_f32s
);

/// The product of a matrix whose rows or columns are contiguous, and a vector, as a job for one kind of processor.
struct Job<T> {
    /// The product, and elements from one of its own to the next.
    to: (*mut T, isize),
    accumulate: bool,
    alpha: T,
    /// The first line, elements from one to the next, and how many there are.
    lines: (*const T, isize, usize),
    /// Elements of a line.
    len: usize,
    /// The vector, and elements from one of its own to the next.
    by: (*const T, isize),
    /// Whether lines are rows, each of which makes an element; else the sum of all, each times one, is made.
    rows: bool,
}

/// C = alpha A b, or C += alpha A b, where C and b are columns.
///
/// Either the rows of A and b are contiguous, or the columns of A and C are.
///
/// # Safety
/// As [`super::gemm`]; all elements are of type `T`, and the extents agree.
pub(super) unsafe fn by_lines<T: Real>(c: Block, accumulate: bool, alpha: T, a: Block, b: Block) {
    let rows = b.row_stride == 1 && a.col_stride == 1;
    assert!(rows || (c.row_stride == 1 && a.row_stride == 1));
    let (stride, count, len) =
        if rows { (a.row_stride, a.rows, a.cols) } else { (a.col_stride, a.cols, a.rows) };
    let job = Job {
        to: (c.start.cast::<T>(), c.row_stride),
        accumulate,
        alpha,
        lines: (a.start.cast::<T>().cast_const(), stride, count),
        len,
        by: (b.start.cast::<T>().cast_const(), b.row_stride),
        rows,
    };
    Arch::new().dispatch(job);
}

impl<T: Real> WithSimd for Job<T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (start, stride, count) = self.lines;
        let most = ALONG / size_of::<T>();
        for from in (0..self.len).step_by(most) {
            let len = most.min(self.len - from);
            for i in 0..count {
                let line = start.wrapping_offset(i as isize * stride).wrapping_add(from);
                // SAFETY: in `by_lines`, the caller vouches for everything inside the extents.
                unsafe {
                    let line = from_raw_parts(line, len);
                    if self.rows {
                        self.dot(simd, line, i, from);
                    } else {
                        self.add(simd, line, i, from);
                    }
                }
            }
        }
    }
}

impl<T: Real> Job<T> {
    /// What a part of line `i`, from `from` on, adds to its element of the product.
    ///
    /// # Safety
    /// It is inside, and what `by_lines` asks for holds.
    #[inline(always)]
    unsafe fn dot<S: Simd>(&self, simd: S, line: &[T], i: usize, from: usize) {
        // SAFETY: the vector is as long as the lines.
        let by = unsafe { from_raw_parts(self.by.0.wrapping_add(from), line.len()) };
        let (line, line_rest) = T::split::<S>(line);
        let (by, by_rest) = T::split::<S>(by);
        let mut sums = [T::splat(simd, T::ZERO); SUMS];
        let (mut lines, mut bys) = (line.chunks_exact(SUMS), by.chunks_exact(SUMS));
        for (line, by) in (&mut lines).zip(&mut bys) {
            sums = from_fn(|k| T::multiply_add(simd, line[k], by[k], sums[k]));
        }
        for (k, (&line, &by)) in lines.remainder().iter().zip(bys.remainder()).enumerate() {
            sums[k] = T::multiply_add(simd, line, by, sums[k]);
        }
        let mut sum = T::plus(simd, T::plus(simd, sums[0], sums[1]), T::plus(simd, sums[2], sums[3]));
        if !line_rest.is_empty() {
            sum = T::multiply_add(simd, T::load(simd, line_rest), T::load(simd, by_rest), sum);
        }
        let sum = self.alpha * T::sum(simd, sum);
        let to = self.to.0.wrapping_offset(i as isize * self.to.1);
        // SAFETY: an element of the product, for each line.
        unsafe { *to = if self.accumulate || from > 0 { *to + sum } else { sum } };
    }

    /// Adds a part of line `i`, from `from` on, to the product.
    ///
    /// # Safety
    /// As [`Job::dot`].
    #[inline(always)]
    unsafe fn add<S: Simd>(&self, simd: S, line: &[T], i: usize, from: usize) {
        // SAFETY: an element of the vector, for each line.
        let by = T::splat(simd, self.alpha * unsafe { *self.by.0.wrapping_offset(i as isize * self.by.1) });
        // SAFETY: the product is as long as the lines.
        let to = unsafe { from_raw_parts_mut(self.to.0.wrapping_add(from), line.len()) };
        let is_new = i == 0 && !self.accumulate;
        let (line, line_rest) = T::split::<S>(line);
        let (to, to_rest) = T::split_mut::<S>(to);
        for (&line, to) in line.iter().zip(to) {
            let before = if is_new { T::splat(simd, T::ZERO) } else { *to };
            *to = T::multiply_add(simd, line, by, before);
        }
        if !line_rest.is_empty() {
            let before = if is_new { T::splat(simd, T::ZERO) } else { T::load(simd, to_rest) };
            T::store(simd, to_rest, T::multiply_add(simd, T::load(simd, line_rest), by, before));
        }
    }
}
