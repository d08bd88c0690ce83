//! Arrays in one file that lie there axis by axis: row-major, column-major, or in any other order of axes.
//!
//! A box of such an array is a set of *runs*, equally long, each contiguous in the file. All axes are
//! handled in file order (slowest first), in which all of them are the same.

use crate::shape::{ArrayBox, BoxIndices, Dims, elements};
use smallvec::SmallVec;

/// Axes of an array in some order.
pub type AxisOrder = SmallVec<[usize; 4]>;

/// Where the elements of an array lie in its file.
#[derive(Clone, Debug)]
pub struct LinearLayout {
    /// Shape of the array, in array order.
    pub shape: Dims,
    /// Bytes of an element.
    pub itemsize: usize,
    /// The array's axes in file order: slowest first.
    pub axes: AxisOrder,
    /// Offset of the first element in the file, in bytes.
    pub offset: u64,
}

impl LinearLayout {
    /// A row-major array, or a column-major one.
    pub fn new(shape: &[u64], itemsize: usize, column_major: bool, offset: u64) -> LinearLayout {
        let ndim = shape.len();
        let axes = if column_major { (0..ndim).rev().collect() } else { (0..ndim).collect() };
        LinearLayout { shape: shape.into(), itemsize, axes, offset }
    }

    /// Bytes of all elements.
    pub fn nbytes(&self) -> u64 {
        elements(&self.shape) * self.itemsize as u64
    }

    /// Offset of the end of the last element in the file, in bytes.
    pub fn end(&self) -> u64 {
        self.offset + self.nbytes()
    }

    /// Dims of the array in file order: slowest axis first.
    pub fn file_order<T: Copy>(&self, dims: &[T]) -> SmallVec<[T; 4]> {
        self.axes.iter().map(|&a| dims[a]).collect()
    }

    /// Dims in file order as dims of the array.
    pub fn array_order<T: Copy>(&self, dims: &[T]) -> SmallVec<[T; 4]> {
        let mut ordered: SmallVec<[T; 4]> = dims.into();
        self.axes.iter().zip(dims).for_each(|(&a, &d)| ordered[a] = d);
        ordered
    }

    /// Strides in bytes of a block of this shape that is dense in file order.
    pub fn dense_strides(&self, shape: &[u64]) -> SmallVec<[isize; 4]> {
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.len());
        let mut next = self.itemsize as isize;
        for &axis in self.axes.iter().rev() {
            strides[axis] = next;
            next *= shape[axis].max(1) as isize;
        }
        strides
    }

    /// The runs of a box, which must lie inside the array and not be empty.
    pub fn runs(&self, region: &ArrayBox) -> Runs {
        let shape = self.file_order(&self.shape);
        let start = self.file_order(&region.start);
        let extent = self.file_order(&region.shape);
        let mut strides: Dims = SmallVec::from_elem(self.itemsize as u64, shape.len());
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        let first = self.offset + start.iter().zip(&strides).map(|(s, st)| s * st).sum::<u64>();
        // Axes that are whole, and axes of one element, join the run.
        let mut run_bytes = self.itemsize as u64;
        let mut outer = shape.len();
        while outer > 0 {
            let axis = outer - 1;
            run_bytes = extent[axis] * strides[axis];
            outer = axis;
            if extent[axis] < shape[axis] {
                break;
            }
        }
        let mut runs =
            Runs { first, run_bytes, counts: Dims::new(), strides: Dims::new(), axes: AxisOrder::new() };
        for axis in (0..outer).filter(|&axis| extent[axis] > 1) {
            runs.counts.push(extent[axis]);
            runs.strides.push(strides[axis]);
            runs.axes.push(self.axes[axis]);
        }
        runs
    }

    /// Splits a box into boxes that follow one another in file order and whose runs `fit`. The fewer
    /// elements a box has, the better it fits.
    pub fn split(&self, region: &ArrayBox, block: u64, fit: &dyn Fn(&Runs) -> bool) -> Vec<ArrayBox> {
        let mut parts = Vec::new();
        self.split_into(region, block, fit, &mut parts);
        parts
    }

    fn split_into(
        &self,
        region: &ArrayBox,
        block: u64,
        fit: &dyn Fn(&Runs) -> bool,
        parts: &mut Vec<ArrayBox>,
    ) {
        if region.is_empty() {
            return;
        }
        if fit(&self.runs(region)) {
            parts.push(region.clone());
            return;
        }
        // Cut along the slowest axis that has more than one index.
        let Some(axis) = self.axes.iter().copied().find(|&a| region.shape[a] > 1) else {
            parts.push(region.clone());
            return;
        };
        let with_extent = |n: u64| {
            let mut part = region.clone();
            part.shape[axis] = n;
            part
        };
        // The most indices that fit.
        let (mut low, mut high) = (1, region.shape[axis]);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fit(&self.runs(&with_extent(middle))) { low = middle } else { high = middle }
        }
        let mut step = low;
        if self.runs(&with_extent(step)).counts.is_empty() {
            // The cut falls inside a run: at a block's edge nothing is read twice.
            let per_index = self.runs(&with_extent(1)).run_bytes;
            if per_index < block && block.is_multiple_of(per_index) {
                let per_block = block / per_index;
                step = (step / per_block * per_block).max(1);
            }
        }
        let mut done = 0;
        while done < region.shape[axis] {
            let mut part = with_extent(step.min(region.shape[axis] - done));
            part.start[axis] += done;
            done += part.shape[axis];
            self.split_into(&part, block, fit, parts);
        }
    }
}

/// Gaps between runs of up to this many bytes are read through: a request of its own would take as
/// long as reading so much more. (At 16 KiB a request costs about as much for its being a request
/// as for its bytes, on devices that reach their bandwidth at 64 KiB or more.)
pub const READ_THROUGH: u64 = 16 << 10;

/// Equally long runs of a file at regular distances.
#[derive(Clone, Debug)]
pub struct Runs {
    /// File offset of the first run.
    pub first: u64,
    /// Bytes of each run.
    pub run_bytes: u64,
    /// How many runs along each outer axis that has more than one, slowest first.
    pub counts: Dims,
    /// Bytes from one run to the next along each of these axes.
    pub strides: Dims,
    /// The array's axes that these are.
    pub axes: AxisOrder,
}

/// A piece of a file to read or write at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Start in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Runs {
    /// Number of runs.
    pub fn count(&self) -> u64 {
        elements(&self.counts)
    }

    /// File offset of the last run.
    pub fn last(&self) -> u64 {
        self.first + self.counts.iter().zip(&self.strides).map(|(n, s)| (n - 1) * s).sum::<u64>()
    }

    /// File offsets of the runs, ascending.
    pub fn offsets(&self) -> impl Iterator<Item = u64> + '_ {
        let mut index: Dims = SmallVec::from_elem(0, self.counts.len());
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let current = next?;
            let mut following = current;
            next = None;
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                following += self.strides[axis];
                if index[axis] < self.counts[axis] {
                    next = Some(following);
                    break;
                }
                following -= index[axis] * self.strides[axis];
                index[axis] = 0;
            }
            Some(current)
        })
    }

    /// The blocks that hold the runs, as intervals: aligned, ascending, disjoint. Runs that share a
    /// block, touch, or have a gap of at most [`READ_THROUGH`] bytes are in one interval.
    pub fn intervals(&self, block: u64) -> impl Iterator<Item = Interval> + '_ {
        let mut offsets = self.offsets();
        let mut open: Option<(u64, u64)> = None;
        let aligned = move |at: u64| (at / block * block, (at + self.run_bytes).next_multiple_of(block));
        std::iter::from_fn(move || {
            for at in offsets.by_ref() {
                let (from, to) = aligned(at);
                match &mut open {
                    Some((_, end)) if from <= *end + READ_THROUGH => *end = to,
                    other => {
                        if let Some((start, end)) = other.replace((from, to)) {
                            return Some(Interval { offset: start, len: end - start });
                        }
                    }
                }
            }
            open.take().map(|(start, end)| Interval { offset: start, len: end - start })
        })
    }

    /// Whether no two runs share an interval, because the gaps between them are wide.
    pub fn are_apart(&self, block: u64) -> bool {
        self.counts.last().is_some_and(|&n| n > 1)
            && self.strides.last().is_some_and(|&s| s > self.run_bytes + READ_THROUGH + 2 * block)
    }

    /// Runs along the innermost axis: how many lie one after the other at equal distances.
    pub fn in_row(&self) -> u64 {
        self.counts.last().copied().unwrap_or(1)
    }

    /// The first run of every row of runs along the innermost axis.
    pub fn rows(&self) -> Runs {
        let outer = self.counts.len().saturating_sub(1);
        Runs {
            first: self.first,
            run_bytes: self.run_bytes,
            counts: self.counts[..outer].into(),
            strides: self.strides[..outer].into(),
            axes: self.axes[..outer].into(),
        }
    }

    /// The least distance, `least` or more, at which runs may lie in memory so that each of them is in the same
    /// place of a block as in the file, if the first of its row is. In memory, too, they are then a block
    /// with regular strides.
    pub fn pitch(&self, least: u64, block: u64) -> u64 {
        let stride = self.strides.last().copied().unwrap_or(0);
        least + (stride + block - least % block) % block
    }

    /// The distance at which runs that are apart lie in memory when their blocks are read.
    pub fn read_pitch(&self, block: u64) -> u64 {
        self.pitch(self.run_bytes + block, block)
    }

    /// Bytes of memory for a row of runs at this distance, wherever in a block the first one begins.
    pub fn row_bytes(&self, pitch: u64, block: u64) -> u64 {
        (self.in_row() * pitch + 2 * block).next_multiple_of(block)
    }

    /// The box of one row of runs, of the box that has these runs.
    pub fn row_boxes<'a>(&'a self, region: &'a ArrayBox) -> impl Iterator<Item = ArrayBox> + 'a {
        let outer = self.counts.len().saturating_sub(1);
        let index_box = ArrayBox::whole(&self.counts[..outer]);
        BoxIndices::new(&index_box).map(move |index| {
            let mut row = region.clone();
            for (&axis, i) in self.axes[..outer].iter().zip(index) {
                row.start[axis] += i;
                row.shape[axis] = 1;
            }
            row
        })
    }

    /// Bytes of memory for all intervals, or a little more.
    pub fn staging(&self, block: u64) -> u64 {
        if self.are_apart(block) {
            return self.rows().count() * self.row_bytes(self.read_pitch(block), block);
        }
        // From the innermost axis outwards: `span` is from the first byte to the last of what was
        // seen so far, `bytes` what its intervals take, `merged` whether they are one interval.
        let mut span = self.run_bytes;
        let mut bytes = span + 2 * block;
        let mut merged = true;
        for (&n, &stride) in self.counts.iter().zip(&self.strides).rev() {
            let gap = stride - span;
            let through = gap <= READ_THROUGH + 2 * block;
            span += (n - 1) * stride;
            merged &= through;
            bytes = match (merged, through) {
                (true, _) => span + 2 * block,
                (false, true) => n * bytes + (n - 1) * gap,
                (false, false) => n * bytes,
            };
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn layout(shape: &[u64], itemsize: usize, column_major: bool, offset: u64) -> LinearLayout {
        LinearLayout::new(shape, itemsize, column_major, offset)
    }

    #[test]
    fn whole_rows_are_one_run() {
        let l = layout(&[10, 20, 30], 8, false, 128);
        let runs = l.runs(&ArrayBox::new([2, 0, 0], [3, 20, 30]));
        assert_eq!((runs.first, runs.run_bytes, runs.count()), (128 + 2 * 600 * 8, 3 * 600 * 8, 1));
        let runs = l.runs(&ArrayBox::new([2, 5, 0], [3, 4, 30]));
        assert_eq!((runs.run_bytes, runs.count()), (4 * 30 * 8, 3));
        let columns = layout(&[10, 20], 8, true, 0).runs(&ArrayBox::new([0, 3], [10, 2]));
        assert_eq!((columns.first, columns.run_bytes, columns.count()), (240, 160, 1));
    }

    proptest! {
        #[test]
        fn runs_are_the_elements_of_the_box(
            shape in prop::collection::vec(1u64..7, 0..4),
            cut in prop::collection::vec((0u64..6, 1u64..7), 4),
            column_major: bool,
            offset in 0u64..50,
        ) {
            let l = layout(&shape, 2, column_major, offset);
            let start: Dims = shape.iter().zip(&cut).map(|(&n, c)| c.0 % n).collect();
            let extent: Dims = (0..shape.len()).map(|a| cut[a].1.min(shape[a] - start[a])).collect();
            let region = ArrayBox { start, shape: extent };
            let expected: HashSet<u64> = crate::shape::BoxIndices::new(&region).map(|index| {
                let file_shape = l.file_order(&l.shape);
                let linear = l.file_order(&index).iter().zip(&file_shape).fold(0, |acc, (i, n)| acc * n + i);
                offset + 2 * linear
            }).collect();
            let runs = l.runs(&region);
            let found: Vec<u64> = runs.offsets().flat_map(|o| (o..o + runs.run_bytes).step_by(2)).collect();
            prop_assert!(found.is_sorted());
            prop_assert_eq!(found.len(), expected.len());
            prop_assert_eq!(found.into_iter().collect::<HashSet<_>>(), expected);

            let intervals: Vec<Interval> = runs.intervals(8).collect();
            prop_assert!(intervals.iter().map(|i| i.len).sum::<u64>() <= runs.staging(8));
            prop_assert!(intervals.windows(2).all(|w| w[0].offset + w[0].len + READ_THROUGH < w[1].offset));
            for at in runs.offsets() {
                prop_assert!(intervals.iter().any(|i| i.offset <= at && at + runs.run_bytes <= i.offset + i.len));
            }

            let parts = l.split(&region, 8, &|runs| runs.staging(8) <= 24);
            prop_assert_eq!(parts.iter().map(ArrayBox::elements).sum::<u64>(), region.elements());
            let flat: Vec<u64> = parts.iter().flat_map(|p| l.runs(p).offsets().collect::<Vec<_>>()).collect();
            prop_assert!(flat.is_sorted());
            prop_assert!(parts.iter().all(|p| region.contains(p)));
            prop_assert!(parts.iter().all(|p| l.runs(p).staging(8) <= 24));
        }
    }
}
