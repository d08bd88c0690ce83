//! The LU factorization with partial pivoting of a matrix whose rows lie in several blocks, one below the other, as
//! the tiles of a column do.
//!
//! Recursive over the columns, so that nearly all of the work is products. The few columns at the bottom are copied
//! side by side, each contiguous, and factored one after the other. Pivots are LAPACK's: of the elements that are
//! largest, by |re| + |im|, the first one.

use super::float::{Float, at, block_in, copy};
use super::{Block, Diagonal, Half, Scalar, gemm, solve_triangular};
use outcrop_store::DType;
use outcrop_store::Result;
use outcrop_store::io::Cancel;
use std::ops::Range;

/// Columns that are factored one after the other, at most.
const COLUMNS: usize = 16;

/// Rows of products, at most: more are hardly faster.
const ROWS: usize = 512;

/// What is remarkable about the pivots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pivots {
    /// The first that is zero.
    pub zero: Option<usize>,
    /// The first column in which there is NaN or infinity, on or below the diagonal. What follows is not factored.
    pub not_finite: Option<usize>,
}

/// A matrix whose rows lie in several blocks. All have as many columns, and as many rows as the second one; but for the
/// last, and the first, which may have fewer.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    blocks: &'a [Block],
    size: usize,
}

impl<'a> Stack<'a> {
    /// Of blocks, with elements of `itemsize` bytes.
    ///
    /// # Panics
    /// Where there is none, or they do not fit.
    pub fn new(blocks: &'a [Block], itemsize: usize) -> Stack<'a> {
        let first = &blocks[0];
        if let [_, second, .., last] = blocks {
            let others = &blocks[1..blocks.len() - 1];
            assert!(first.rows <= second.rows && last.rows <= second.rows);
            assert!(others.iter().all(|b| b.rows == second.rows));
        }
        assert!(blocks.iter().all(|b| b.cols == first.cols));
        Stack { blocks, size: itemsize }
    }

    /// Exchanges two rows, as far as they lie in `cols`.
    ///
    /// # Safety
    /// The elements are valid for reads and writes, and nobody else's.
    unsafe fn exchange(&self, one: usize, other: usize, cols: &Range<usize>) {
        if one == other || cols.is_empty() {
            return;
        }
        let [a, b] = [one, other].map(|row| {
            let first = self.blocks[0].rows;
            let (block, row) = match row.checked_sub(first) {
                None => (0, row),
                Some(below) => (1 + below / self.blocks[1].rows, below % self.blocks[1].rows),
            };
            self.blocks[block].part(row..row + 1, cols.clone(), self.size)
        });
        let size = self.size as isize;
        if a.col_stride == 1 && b.col_stride == 1 {
            // SAFETY: rows of two places, which share no memory.
            unsafe { std::ptr::swap_nonoverlapping(a.start, b.start, cols.len() * self.size) };
            return;
        }
        for col in 0..cols.len() as isize {
            let (x, y) = (a.col_stride * col * size, b.col_stride * col * size);
            // SAFETY: as above, element by element.
            unsafe {
                std::ptr::swap_nonoverlapping(
                    a.start.wrapping_offset(x),
                    b.start.wrapping_offset(y),
                    self.size,
                )
            };
        }
    }
}

/// Exchanges rows as `pivots` say, one after the other: row `first + i` with row `pivots(i)`; the last one first if they
/// are to be taken back.
///
/// # Safety
/// All elements are valid for reads and writes, and nobody else's.
pub unsafe fn exchange_rows(
    stack: Stack<'_>,
    first: usize,
    count: usize,
    pivot: impl Fn(usize) -> usize,
    backwards: bool,
) {
    /// Columns whose elements of all rows that are exchanged may stay in the cache.
    const WIDTH: usize = 64;
    let cols = stack.blocks[0].cols;
    for start in (0..cols).step_by(WIDTH) {
        let part = start..cols.min(start + WIDTH);
        for i in 0..count {
            let i = if backwards { count - 1 - i } else { i };
            // SAFETY: as the caller vouches.
            unsafe { stack.exchange(first + i, pivot(i), &part) };
        }
    }
}

/// Bytes of workspace that [`lu`](super::lu) has use for, beside what products and solutions have.
pub fn workspace(dtype: DType, rows: usize, cols: usize) -> usize {
    let width = columns(cols);
    (width * (rows + 64 / dtype.size())) * dtype.size() + 64
}

/// Columns that are factored one after the other: few of a narrow matrix, as their copy belongs to the memory for that.
fn columns(cols: usize) -> usize {
    (cols / 24).clamp(4, COLUMNS).min(cols.max(1))
}

/// Factors `P A = L U` in place; `pivots` gets, for each of the first columns, the row with which its own was exchanged.
/// There are as many pivots as A has columns, or its first block rows.
///
/// # Errors
/// [`Error::Interrupted`].
///
/// # Safety
/// As [`gemm`], with all blocks read and written.
pub(super) unsafe fn factor<T: Float>(
    dtype: DType,
    stack: Stack<'_>,
    pivots: &mut [usize],
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<Pivots> {
    let cols = stack.blocks[0].cols;
    let mut found = Pivots::default();
    let width = columns(cols);
    let mut factoring = Factoring { dtype, stack, pivots, workspace, cancel, found: &mut found, width };
    // SAFETY: as the caller vouches.
    unsafe { factoring.columns::<T>(0..cols)? };
    Ok(found)
}

struct Factoring<'a> {
    dtype: DType,
    stack: Stack<'a>,
    pivots: &'a mut [usize],
    workspace: &'a mut [u8],
    cancel: &'a Cancel,
    found: &'a mut Pivots,
    width: usize,
}

impl Factoring<'_> {
    /// Factors what is on and below the diagonal in some columns.
    ///
    /// # Safety
    /// As [`factor`].
    unsafe fn columns<T: Float>(&mut self, cols: Range<usize>) -> Result<()> {
        if cols.start >= self.pivots.len() || self.found.not_finite.is_some() {
            return Ok(());
        }
        if cols.len() <= self.width {
            // SAFETY: as the caller vouches.
            unsafe { self.few_columns::<T>(cols) };
            return Ok(());
        }
        self.cancel.check()?;
        let half = (cols.len() / 2).next_multiple_of(self.width).min(cols.len() - 1);
        let (left, right) = (cols.start..cols.start + half, cols.start + half..cols.end);
        // SAFETY: as the caller vouches.
        unsafe {
            self.columns::<T>(left.clone())?;
            self.after::<T>(&left, &right);
            self.columns::<T>(right.clone())?;
            for row in right.start..right.end.min(self.pivots.len()) {
                self.stack.exchange(row, self.pivots[row], &left);
            }
        }
        Ok(())
    }

    /// Does to columns on the right what those on the left ask for.
    ///
    /// # Safety
    /// As [`factor`].
    unsafe fn after<T: Float>(&mut self, left: &Range<usize>, right: &Range<usize>) {
        let (dtype, size) = (self.dtype, self.stack.size);
        let pivots = left.start..left.end.min(self.pivots.len());
        let first = &self.stack.blocks[0];
        let triangle = first.part(pivots.clone(), pivots.clone(), size).plain();
        let top = first.part(pivots.clone(), right.clone(), size);
        // SAFETY: as the caller vouches; the parts are apart.
        unsafe {
            for row in pivots.clone() {
                self.stack.exchange(row, self.pivots[row], right);
            }
            solve_triangular(dtype, Half::Lower, Diagonal::Unit, triangle, top, self.workspace);
            for (i, block) in self.stack.blocks.iter().enumerate() {
                let first = if i == 0 { pivots.end } else { 0 };
                // Of high blocks, packing would take memory that others have not.
                for row in (first..block.rows).step_by(ROWS) {
                    let rows = row..block.rows.min(row + ROWS);
                    let (c, a) = (
                        block.part(rows.clone(), right.clone(), size),
                        block.part(rows, pivots.clone(), size).plain(),
                    );
                    gemm(dtype, c, true, -1.0, a, top.plain(), self.workspace);
                }
            }
        }
    }

    /// Factors a few columns, in a copy of which each is contiguous, if there is room for that.
    ///
    /// # Safety
    /// As [`factor`].
    unsafe fn few_columns<T: Float>(&mut self, cols: Range<usize>) {
        let (start, size) = (cols.start, self.stack.size);
        let blocks = self.stack.blocks;
        let rows: usize = blocks.iter().map(|b| b.rows).sum::<usize>() - start;
        let parts = || {
            blocks.iter().enumerate().map(|(i, block)| {
                let from = if i == 0 { start } else { 0 };
                block.part(from..block.rows, cols.clone(), size)
            })
        };
        let pivots = start..cols.end.min(self.pivots.len());
        let Some(copied) = block_in(self.workspace, cols.len(), rows, size).map(Block::transposed) else {
            let parts: Vec<Block> = parts().collect();
            // SAFETY: as the caller vouches.
            unsafe { unblocked::<T>(&parts, start, &mut self.pivots[pivots], self.found) };
            return;
        };
        // SAFETY: as the caller vouches; the workspace is ours.
        unsafe {
            let mut row = 0;
            for part in parts() {
                copy(copied.part(row..row + part.rows, 0..part.cols, size), part, size);
                row += part.rows;
            }
            unblocked::<T>(&[copied], start, &mut self.pivots[pivots], self.found);
            let mut row = 0;
            for part in parts() {
                copy(part, copied.part(row..row + part.rows, 0..part.cols, size), size);
                row += part.rows;
            }
        }
    }
}

/// Factors columns one after the other, in blocks of rows of which the first begins with row and column `start`.
///
/// # Safety
/// As [`factor`].
unsafe fn unblocked<T: Float>(blocks: &[Block], start: usize, pivots: &mut [usize], found: &mut Pivots) {
    let stack = Stack { blocks, size: size_of::<T>() };
    let cols = blocks[0].cols;
    // Where the rows of a block begin, and end.
    let spans: Vec<(Range<usize>, Block)> = blocks
        .iter()
        .scan(0, |row, block| {
            let first = *row;
            *row += block.rows;
            Some((first..*row, *block))
        })
        .collect();
    for (col, pivot) in pivots.iter_mut().enumerate() {
        // SAFETY: as the caller vouches.
        let (row, largest) = unsafe { largest::<T>(&spans, col) };
        if !largest.is_finite() {
            found.not_finite.get_or_insert(start + col);
            return;
        }
        *pivot = start + row;
        if largest == 0.0 {
            found.zero.get_or_insert(start + col);
            continue;
        }
        let exchanged = |row: usize| match spans.iter().find(|(span, _)| span.contains(&row)) {
            Some((span, block)) => (block, row - span.start),
            None => unreachable!("a row of the matrix"),
        };
        let (mine, i) = exchanged(col);
        let (other, k) = exchanged(row);
        for c in 0..cols {
            // SAFETY: elements of two rows.
            unsafe { std::ptr::swap(at::<T>(mine, i, c), at::<T>(other, k, c)) };
        }
        // SAFETY: on the diagonal.
        let divisor = unsafe { at::<T>(mine, i, col).read() };
        for (span, block) in &spans {
            let rows = (col + 1).saturating_sub(span.start)..block.rows;
            if rows.is_empty() {
                continue;
            }
            let below = block.part(rows, 0..cols, stack.size);
            // SAFETY: as the caller vouches: what is read of the row on the diagonal is not among what is changed.
            unsafe {
                divide::<T>(&below, col, divisor);
                for c in col + 1..cols {
                    let scale = at::<T>(mine, i, c).read();
                    if scale != T::ZERO {
                        subtract::<T>(&below, c, col, scale);
                    }
                }
            }
        }
    }
}

/// The first row, from that of the diagonal on, with the largest element of a column; not finite where one is not.
///
/// # Safety
/// The elements are valid for reads.
unsafe fn largest<T: Float>(spans: &[(Range<usize>, Block)], col: usize) -> (usize, f64) {
    let (mut best, mut found) = (0.0, col);
    for (span, block) in spans {
        for row in col.saturating_sub(span.start)..block.rows {
            // SAFETY: as the caller vouches.
            let size = unsafe { at::<T>(block, row, col).read() }.magnitude();
            if size > best || size.is_nan() {
                (best, found) = (size, span.start + row);
                if !size.is_finite() {
                    return (found, f64::NAN);
                }
            }
        }
    }
    (found, best)
}

/// Divides a column.
///
/// # Safety
/// The elements are valid for reads and writes, and nobody else's.
unsafe fn divide<T: Float>(block: &Block, col: usize, divisor: T) {
    let size = divisor.magnitude();
    let reciprocal = (size >= T::MODERATE.recip() && size <= T::MODERATE)
        .then(|| T::scalar(Scalar::from(1.0)).over(divisor));
    for row in 0..block.rows {
        let place = at::<T>(block, row, col);
        // SAFETY: as the caller vouches.
        unsafe {
            let value = place.read();
            place.write(reciprocal.map_or_else(|| value.over(divisor), |r| value * r));
        }
    }
}

/// Subtracts a multiple of a column from another one.
///
/// # Safety
/// As [`divide`].
unsafe fn subtract<T: Float>(block: &Block, from: usize, col: usize, scale: T) {
    if block.row_stride == 1 {
        let rows = block.rows;
        // SAFETY: as the caller vouches: columns are contiguous, and two of them apart.
        let (y, x) = unsafe {
            (
                std::slice::from_raw_parts_mut(at::<T>(block, 0, from), rows),
                std::slice::from_raw_parts(at::<T>(block, 0, col), rows),
            )
        };
        return subtract_scaled(y, x, scale);
    }
    for row in 0..block.rows {
        // SAFETY: as the caller vouches.
        unsafe { *at::<T>(block, row, from) -= at::<T>(block, row, col).read() * scale };
    }
}

pub(super) fn subtract_scaled<T: Float>(y: &mut [T], x: &[T], scale: T) {
    #[inline(always)]
    fn every<T: Float>(y: &mut [T], x: &[T], scale: T) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y -= x * scale;
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<T: Float>(y: &mut [T], x: &[T], scale: T) {
            every(y, x, scale);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 is there.
            return unsafe { avx2(y, x, scale) };
        }
    }
    every(y, x, scale);
}
