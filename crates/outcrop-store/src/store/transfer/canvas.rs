//! Memory that a box of an array is loaded into or stored from.

use crate::frame::FRAME_ALIGN;
use crate::shape::{ArrayBox, elements, row_major_strides};
use crate::strided;
use smallvec::SmallVec;

/// Strides in bytes.
pub type Strides = SmallVec<[isize; 4]>;

/// Strides in bytes of a dense row-major block.
pub fn dense_strides(shape: &[u64], itemsize: usize) -> Strides {
    row_major_strides(shape).iter().map(|s| s * itemsize as isize).collect()
}

/// A strided block of memory that holds one box.
#[derive(Clone, Debug)]
pub struct Patch {
    region: ArrayBox,
    start: *mut u8,
    strides: Strides,
    /// Bytes that may be overwritten from `start` on, where the block is dense or the beginning of a
    /// dense tile; else 0.
    capacity: usize,
    /// Bytes in front of `start` that may be overwritten.
    lead: usize,
}

/// One or more patches that together hold a box.
///
/// A canvas is where a store's bytes come from or go to: a frame, a NumPy array, or several frames
/// when a box is taken apart into tiles while it is read.
#[derive(Clone, Debug)]
pub struct Canvas {
    region: ArrayBox,
    itemsize: usize,
    patches: SmallVec<[Patch; 1]>,
}

// SAFETY: whoever made the canvas promised that its memory may be used from any thread that the
// canvas reaches.
unsafe impl Send for Canvas {}
// SAFETY: as above; concurrent users write disjoint boxes.
unsafe impl Sync for Canvas {}

impl Patch {
    /// A dense row-major block for `region` at `start`, with `capacity` bytes that may be overwritten
    /// (at least those of the box; more lets a checksum land behind the data).
    pub fn dense(region: ArrayBox, start: *mut u8, capacity: usize, itemsize: usize) -> Patch {
        let strides = dense_strides(&region.shape, itemsize);
        Patch { region, start, strides, capacity, lead: 0 }
    }

    /// A block for `region` in the memory of a whole tile: a tile at the array's edge whose rows are
    /// as long as those of any other. All of the tile's `capacity` bytes may be overwritten.
    pub fn padded(region: ArrayBox, start: *mut u8, capacity: usize, tile: &[u64], itemsize: usize) -> Patch {
        Patch { region, start, strides: dense_strides(tile, itemsize), capacity, lead: 0 }
    }

    /// The same with `lead` bytes in front of it that may be overwritten.
    pub fn behind(self, lead: usize) -> Patch {
        Patch { lead, ..self }
    }

    /// A block that is dense with the axes in this order, slowest first. No byte beside its elements is
    /// overwritten.
    pub fn ordered(region: ArrayBox, start: *mut u8, axes: &[usize], itemsize: usize) -> Patch {
        let mut strides = Strides::from_elem(0, axes.len());
        let mut next = itemsize as isize;
        for &axis in axes.iter().rev() {
            strides[axis] = next;
            next *= region.shape[axis].max(1) as isize;
        }
        Patch { region, start, strides, capacity: 0, lead: 0 }
    }

    /// The same memory with the indices of some axes running backwards.
    pub fn reversed(mut self, is_reversed: impl Fn(usize) -> bool) -> Patch {
        for axis in (0..self.strides.len()).filter(|&axis| is_reversed(axis)) {
            let last = self.region.shape[axis].saturating_sub(1) as isize;
            self.start = self.start.wrapping_offset(last * self.strides[axis]);
            self.strides[axis] = -self.strides[axis];
        }
        Patch { capacity: 0, lead: 0, ..self }
    }

    /// A block with any strides, in bytes.
    pub fn strided(region: ArrayBox, start: *mut u8, strides: Strides) -> Patch {
        Patch { region, start, strides, capacity: 0, lead: 0 }
    }

    fn at(&self, region: &ArrayBox) -> *mut u8 {
        let offset: isize = (0..region.ndim())
            .map(|a| (region.start[a] - self.region.start[a]) as isize * self.strides[a])
            .sum();
        self.start.wrapping_offset(offset)
    }
}

impl Canvas {
    /// A canvas of patches.
    ///
    /// # Safety
    /// The patches do not overlap, together cover `region`, and their memory is valid, and accessed
    /// by nobody else, while the canvas or a clone of it is in use.
    pub unsafe fn new(region: ArrayBox, itemsize: usize, patches: impl IntoIterator<Item = Patch>) -> Canvas {
        Canvas { region, itemsize, patches: patches.into_iter().collect() }
    }

    /// The box.
    pub fn region(&self) -> &ArrayBox {
        &self.region
    }

    /// The same memory, for a smaller box.
    pub fn part(&self, region: &ArrayBox) -> Canvas {
        assert!(self.region.contains(region));
        Canvas { region: region.clone(), ..self.clone() }
    }

    /// Bytes in front of a box, and from its start on, that may be overwritten: none but the box's own where it is
    /// not the whole of a block.
    pub fn margins(&self, region: &ArrayBox) -> (usize, usize) {
        let patch = self.patches.iter().find(|p| p.region == *region);
        patch.map_or((0, 0), |patch| (patch.lead, patch.capacity))
    }

    /// The patch that is exactly `region`, with rows as long as those of a whole tile of shape `tile`,
    /// and aligned for direct I/O: its start and capacity.
    pub fn exact(&self, region: &ArrayBox, tile: &[u64]) -> Option<(*mut u8, usize)> {
        let patch = self.patches.iter().find(|p| p.region == *region && p.capacity > 0)?;
        let strides = dense_strides(tile, self.itemsize);
        let as_in_tile = (0..region.ndim()).all(|a| region.shape[a] <= 1 || patch.strides[a] == strides[a]);
        let aligned = (patch.start as usize).is_multiple_of(FRAME_ALIGN);
        (aligned && as_in_tile).then_some((patch.start, patch.capacity))
    }

    /// The start of `region` where it lies in one patch as a dense row-major block.
    pub fn contiguous(&self, region: &ArrayBox) -> Option<*mut u8> {
        let patch = self.patches.iter().find(|p| p.region.contains(region))?;
        let dense = dense_strides(&region.shape, self.itemsize);
        let same = (0..region.ndim()).all(|a| region.shape[a] <= 1 || patch.strides[a] == dense[a]);
        same.then(|| patch.at(region))
    }

    /// The start of `region` where it lies in one patch with these strides, in bytes.
    pub fn dense(&self, region: &ArrayBox, strides: &[isize]) -> Option<*mut u8> {
        let patch = self.patches.iter().find(|p| p.region.contains(region))?;
        let same = (0..region.ndim()).all(|a| region.shape[a] <= 1 || patch.strides[a] == strides[a]);
        same.then(|| patch.at(region))
    }

    /// The start of the memory of a whole tile of this shape, of which `region` is the part inside the array, where all of
    /// it may be overwritten and it has these strides, in bytes: as many elements, one after the other.
    ///
    /// A tile that hangs over has that where it lies in a block with rows as long as those of whole tiles: what is
    /// behind its own elements is nobody's then.
    pub fn whole(&self, region: &ArrayBox, tile: &[u64], strides: &[isize]) -> Option<*mut u8> {
        let patch = self.patches.iter().find(|p| p.region.contains(region))?;
        if (0..tile.len()).any(|a| tile[a] > 1 && patch.strides[a] != strides[a]) {
            return None;
        }
        let start = patch.at(region);
        if region.shape.as_slice() == tile {
            return Some(start);
        }
        if patch.capacity == 0 {
            return None;
        }
        // Only blocks in the order of the axes have a capacity: an axis is as long as its stride fits that before it.
        let reach =
            |a: usize| (region.start[a] - patch.region.start[a] + tile[a]) as isize * patch.strides[a];
        let inside = (1..tile.len()).all(|a| reach(a) <= patch.strides[a - 1]);
        let bytes = elements(tile) as usize * self.itemsize;
        let offset = start as usize - patch.start as usize;
        (inside && bytes <= patch.capacity.saturating_sub(offset)).then_some(start)
    }

    /// The part of the canvas inside a box, with indices that count from the box's start.
    pub fn within(&self, outer: &ArrayBox) -> Canvas {
        let moved = |region: &ArrayBox| {
            let mut moved = region.clone();
            moved.start.iter_mut().zip(&outer.start).for_each(|(s, o)| *s -= o);
            moved
        };
        let patches = self.patches.iter().filter_map(|patch| {
            let common = patch.region.intersect(outer)?;
            Some(Patch {
                region: moved(&common),
                start: patch.at(&common),
                strides: patch.strides.clone(),
                capacity: if common == patch.region { patch.capacity } else { 0 },
                lead: if common == patch.region { patch.lead } else { 0 },
            })
        });
        let region = self.region.intersect(outer).expect("a canvas is looked at where it has something");
        Canvas { region: moved(&region), itemsize: self.itemsize, patches: patches.collect() }
    }

    /// The memory of a box of the canvas, as that of the box of the same shape which begins at `start`.
    pub fn moved(&self, region: &ArrayBox, start: &[u64]) -> Canvas {
        let mut moved = self.within(region);
        moved.region = moved.region.behind(start);
        moved.patches.iter_mut().for_each(|patch| patch.region = patch.region.behind(start));
        moved
    }

    /// The same memory for an array whose axis `axes[a]` is axis `a` of this one, which has the extents `shape`,
    /// and runs backwards where `reversed[a]`.
    pub fn reoriented(&self, axes: &[usize], reversed: &[bool], shape: &[u64]) -> Canvas {
        let turned = |region: &ArrayBox| turn(region, axes, reversed, shape);
        let patches = self.patches.iter().map(|patch| {
            let mut start = patch.start;
            let mut strides = patch.strides.clone();
            for (a, &own) in axes.iter().enumerate() {
                let stride = patch.strides[a];
                strides[own] = if reversed[a] { -stride } else { stride };
                if reversed[a] {
                    start = start.wrapping_offset((patch.region.shape[a] as isize - 1) * stride);
                }
            }
            Patch { region: turned(&patch.region), start, strides, capacity: 0, lead: 0 }
        });
        Canvas { region: turned(&self.region), itemsize: self.itemsize, patches: patches.collect() }
    }

    /// The same memory for an array of which this one is a section: its axis `axes[a]` is axis `a` of this one, and
    /// along all others it is at the index that `at` says.
    pub fn as_section(&self, axes: &[usize], at: &[u64]) -> Canvas {
        let whole = |region: &ArrayBox| {
            let mut whole = ArrayBox::new(at, SmallVec::<[u64; 4]>::from_elem(1, at.len()).as_slice());
            for (a, &own) in axes.iter().enumerate() {
                (whole.start[own], whole.shape[own]) = (region.start[a], region.shape[a]);
            }
            whole
        };
        let patches = self.patches.iter().map(|patch| {
            let mut strides = Strides::from_elem(0, at.len());
            axes.iter().zip(&patch.strides).for_each(|(&own, &stride)| strides[own] = stride);
            Patch { region: whole(&patch.region), start: patch.start, strides, capacity: 0, lead: 0 }
        });
        Canvas { region: whole(&self.region), itemsize: self.itemsize, patches: patches.collect() }
    }

    /// Start and strides in bytes of a box that lies in the first patch.
    ///
    /// # Panics
    /// Where it does not.
    pub fn address(&self, region: &ArrayBox) -> (*mut u8, Strides) {
        let patch = &self.patches[0];
        assert!(patch.region.contains(region));
        (patch.at(region), patch.strides.clone())
    }

    /// Copies a box into the canvas, reversing the bytes of every `word` bytes (1: none).
    ///
    /// # Safety
    /// `source` and `strides` address valid memory for every element of `region`.
    pub unsafe fn scatter(&self, region: &ArrayBox, source: *const u8, strides: &[isize], word: usize) {
        for patch in &self.patches {
            let Some(common) = patch.region.intersect(region) else { continue };
            let from = source.wrapping_offset(offset_in(&common, region, strides));
            // SAFETY: the source is the caller's promise; the patch's memory that of `new`.
            unsafe {
                let (to, shape) = (patch.at(&common), &common.shape);
                if word > 1 {
                    strided::copy_swapped(to, &patch.strides, from, strides, shape, self.itemsize, word);
                } else {
                    strided::copy(to, &patch.strides, from, strides, shape, self.itemsize);
                }
            }
        }
    }

    /// Copies a box out of the canvas.
    ///
    /// # Safety
    /// `target` and `strides` address valid memory for every element of `region`.
    pub unsafe fn gather(&self, region: &ArrayBox, target: *mut u8, strides: &[isize], word: usize) {
        for patch in &self.patches {
            let Some(common) = patch.region.intersect(region) else { continue };
            let to = target.wrapping_offset(offset_in(&common, region, strides));
            // SAFETY: the target is the caller's promise; the patch's memory that of `new`.
            unsafe {
                let (from, shape) = (patch.at(&common), &common.shape);
                if word > 1 {
                    strided::copy_swapped(to, strides, from, &patch.strides, shape, self.itemsize, word);
                } else {
                    strided::copy(to, strides, from, &patch.strides, shape, self.itemsize);
                }
            }
        }
    }

    /// Sets a box to one element.
    pub fn fill(&self, region: &ArrayBox, element: &[u8]) {
        for patch in &self.patches {
            let Some(common) = patch.region.intersect(region) else { continue };
            // SAFETY: the patch's memory is valid by the promise of `new`.
            unsafe { strided::fill(patch.at(&common), &patch.strides, &common.shape, element) };
        }
    }
}

/// A box of an array of extents `shape` in another one, whose axis `axes[a]` is its axis `a`, backwards where
/// `reversed[a]`.
pub(in crate::store) fn turn(
    region: &ArrayBox,
    axes: &[usize],
    reversed: &[bool],
    shape: &[u64],
) -> ArrayBox {
    let mut turned = region.clone();
    for (a, &own) in axes.iter().enumerate() {
        turned.shape[own] = region.shape[a];
        turned.start[own] = if reversed[a] { shape[a] - region.end(a) } else { region.start[a] };
    }
    turned
}

fn offset_in(inner: &ArrayBox, outer: &ArrayBox, strides: &[isize]) -> isize {
    (0..inner.ndim()).map(|a| (inner.start[a] - outer.start[a]) as isize * strides[a]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_exact_only_with_the_rows_of_the_tile() {
        let mut memory = vec![0u64; 3 * FRAME_ALIGN / 8];
        let start = memory.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(FRAME_ALIGN));
        let region = ArrayBox::new([0, 0], [4, 2]);
        let exact = |patch: Patch, tile: &[u64]| {
            // SAFETY: nothing is read or written.
            let canvas = unsafe { Canvas::new(region.clone(), 8, [patch]) };
            canvas.exact(&region, tile).is_some()
        };
        let dense = || Patch::dense(region.clone(), start, 4096, 8);
        let padded = |width| Patch::padded(region.clone(), start, 4096, &[4, width], 8);
        assert!(exact(dense(), &[4, 2]) && exact(padded(2), &[4, 2]) && exact(padded(8), &[4, 8]));
        assert!(!exact(dense(), &[4, 8]) && !exact(padded(8), &[4, 2]) && !exact(padded(8), &[4, 4]));
    }

    #[test]
    fn a_whole_tile_has_memory_where_nobody_elses_elements_lie() {
        let mut memory = vec![0u8; 4096];
        let start = memory.as_mut_ptr();
        // SAFETY: nothing is read or written.
        let canvas = |patch: Patch| unsafe { Canvas::new(patch.region.clone(), 1, [patch]) };
        let found = |canvas: &Canvas, at: [u64; 2], shape: [u64; 2], tile: [u64; 2]| {
            let whole = canvas.whole(&ArrayBox::new(at, shape), &tile, &dense_strides(&tile, 1));
            whole.map(|found| found as usize - start as usize)
        };
        // Tiles of 4 by 6 of an array of 10 by 15, two below one another.
        let two =
            |capacity| canvas(Patch::padded(ArrayBox::new([4, 6], [6, 6]), start, capacity, &[8, 6], 1));
        assert_eq!(found(&two(48), [4, 6], [4, 6], [4, 6]), Some(0));
        assert_eq!(found(&two(48), [8, 6], [2, 6], [4, 6]), Some(24));
        assert_eq!(found(&two(47), [8, 6], [2, 6], [4, 6]), None);
        // At the right edge: with the rows of a whole tile, or without.
        let corner = ArrayBox::new([8, 12], [2, 3]);
        let padded = canvas(Patch::padded(corner.clone(), start, 24, &[4, 6], 1));
        assert_eq!(found(&padded, [8, 12], [2, 3], [4, 6]), Some(0));
        let dense = canvas(Patch::dense(corner.clone(), start, 4096, 1));
        assert_eq!(found(&dense, [8, 12], [2, 3], [4, 6]), None);
        let strided = canvas(Patch::strided(corner, start, [6, 1].into_iter().collect()));
        assert_eq!(found(&strided, [8, 12], [2, 3], [4, 6]), None);
        // A box that begins inside a tile: what is behind the last tile's elements in a row are those of the next row.
        let shifted = canvas(Patch::padded(ArrayBox::new([0, 9], [10, 6]), start, 4096, &[10, 6], 1));
        assert_eq!(found(&shifted, [0, 12], [4, 3], [4, 6]), None);
        // Single rows may lie anywhere, and end where a row does.
        let rows = canvas(Patch::padded(ArrayBox::new([0, 0], [10, 15]), start, 4096, &[10, 18], 1));
        assert_eq!(found(&rows, [3, 6], [1, 6], [1, 6]), Some(3 * 18 + 6));
        assert_eq!(found(&rows, [3, 12], [1, 3], [1, 6]), Some(3 * 18 + 12));
        let narrow = canvas(Patch::padded(ArrayBox::new([0, 0], [10, 15]), start, 4096, &[10, 16], 1));
        assert_eq!(found(&narrow, [3, 12], [1, 3], [1, 6]), None);
        // In another order, and backwards.
        let turned = canvas(Patch::ordered(ArrayBox::new([0, 0], [4, 6]), start, &[1, 0], 1));
        assert_eq!(found(&turned, [0, 0], [4, 6], [4, 6]), None);
        let whole = ArrayBox::new([0, 0], [4, 6]);
        assert_eq!(turned.whole(&whole, &[4, 6], &[1, 4]), Some(start));
        let backwards = canvas(Patch::dense(whole, start, 24, 1).reversed(|axis| axis == 0));
        assert_eq!(found(&backwards, [0, 0], [4, 6], [4, 6]), None);
    }
}
