//! Aligned memory inside a budget.
//!
//! Invariants:
//! 1. `used <= limit` and `used - reserved + cached <= limit` at every moment: memory is charged before it is
//!    mapped, and what is only kept for reuse gives way.
//! 2. A [`Frame`] is charged from its creation, or its [`Reservation`], to its drop, whoever holds it.
//! 3. Frames are not inherited over `fork`: a child that inherited half-written frames with I/O in
//!    flight would see them change, or copy them when the parent writes. Results that a user holds
//!    are: see [`Frame::share_with_children`].

use crate::error::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Frames start at multiples of this, and their sizes are multiples of it. It is at least the
/// alignment that direct I/O asks for on every common device.
pub const FRAME_ALIGN: usize = 4096;

/// Frames of at least this size start at a multiple of it, so that the kernel can back them with
/// huge pages, which makes pinning them for I/O cheap.
const HUGE: usize = 2 << 20;

/// Bytes a frame of `bytes` is charged: rounded up to whole blocks.
pub fn charged(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(FRAME_ALIGN)
}

/// Bytes that a frame for a tile of `bytes` should have: whole huge pages where that adds little, or else whole blocks.
/// Rows seldom fill a tile to the last byte, and what is left of it would be small pages. (Measured, tiles of 8 MiB
/// less a page: 1.5 GB/s with a last piece in small pages, 2.0 GB/s without.)
pub fn fitted(bytes: usize) -> usize {
    let blocks = charged(bytes);
    let huge = blocks.next_multiple_of(HUGE);
    if huge - blocks <= blocks / HUGE_WASTE { huge } else { blocks }
}

/// What part of a frame may be added for whole huge pages.
const HUGE_WASTE: usize = 16;

/// Frames from this size on that are no whole number of huge pages are cut from slabs, for the same reason. (Measured,
/// reads of 256 KiB: 2.3 GB/s into huge pages, 1.4 GB/s into small ones. Another machine, reads of 1 MiB: 1.7 and 0.7.)
const SLABBED: usize = 64 << 10;

/// Slabs of small frames have about this size where the budget has room.
const SLAB: usize = 16 << 20;
/// Frames in a slab of large ones, at most.
const MOST_IN_SLAB: usize = 8;
/// The part of a slab that may be in small pages.
const NEXT_TO_NOTHING: f64 = 0.01;

/// How many frames of `len` bytes a slab in a budget of `limit` bytes has: as few as leave next to nothing of it in
/// small pages, and about [`SLAB`] of those that are smaller than a huge page.
fn in_slab(len: usize, limit: usize) -> usize {
    if len < SLABBED || len.is_multiple_of(HUGE) {
        return 1;
    }
    let most = (SLAB.max(MOST_IN_SLAB * len).min(limit / 4) / len).max(1);
    let least = if len < HUGE { most.div_ceil(2) } else { 1 };
    let small = |n: usize| (n * len % HUGE) as f64 / (n * len) as f64;
    let enough = (least..=most).find(|&n| small(n) < NEXT_TO_NOTHING);
    enough.or_else(|| (least..=most).min_by(|&a, &b| small(a).total_cmp(&small(b)))).unwrap_or(1)
}

/// An anonymous mapping, or a piece of one, unmapped on drop.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// The process that has the memory; in a forked child something else may lie there.
    pid: u32,
}

// SAFETY: a mapping is plain memory owned by this value; nothing about it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references give out no access to the memory except through `Frame`'s methods,
// which ask for `&mut` or for the caller's promise.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let align = if len >= HUGE { HUGE } else { FRAME_ALIGN };
        let span = if align > FRAME_ALIGN { len + align } else { len };
        // SAFETY: an anonymous private mapping at an address the kernel chooses touches no memory
        // that exists.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), span, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }? as usize;
        let start = base.next_multiple_of(align);
        for (from, to) in [(base, start), (start + len, base + span)] {
            if from < to {
                // SAFETY: both ranges lie inside the mapping made above and outside the part kept.
                let _ = unsafe { munmap(from as *mut c_void, to - from) };
            }
        }
        let mapping = Mapping {
            start: NonNull::new(start as *mut u8).expect("mmap never returns address 0"),
            len,
            pid: std::process::id(),
        };
        // SAFETY: the range is the part of our own mapping that was kept.
        unsafe {
            madvise(start as *mut c_void, len, Advice::LinuxDontFork)?;
            if align == HUGE {
                // Refused where huge pages are off; only speed depends on it.
                let _ = madvise(start as *mut c_void, len, Advice::LinuxHugepage);
            }
        }
        Ok(mapping)
    }

    /// `count` pieces of `len` bytes each.
    fn slab(len: usize, count: usize) -> io::Result<Vec<Mapping>> {
        let slab = ManuallyDrop::new(Mapping::new(len * count)?);
        let piece = |i: usize| Mapping {
            // SAFETY: `i` is below `count`, so that the piece lies inside the slab.
            start: unsafe { slab.start.add(i * len) },
            len,
            pid: slab.pid,
        };
        Ok((0..count).map(piece).collect())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let start = self.start.as_ptr().cast();
        // A piece of a slab goes alone: the kernel would put memory back where it only lost its pages, as part of
        // a huge page that a neighbour uses.
        // SAFETY: the range is ours alone, and nothing refers to it any more.
        if unsafe { munmap(start, self.len) }.is_err() {
            // There are as many mappings as a process may have, and this would have made one more.
            // SAFETY: as above.
            let _ = unsafe { madvise(start, self.len, Advice::LinuxDontNeed) };
        }
    }
}

#[derive(Default)]
struct State {
    used: usize,
    /// The part of `used` that no mapping stands for yet.
    reserved: usize,
    peak: usize,
    /// Mappings kept for reuse, by size; the one that came back last is taken first, as its memory is likeliest to
    /// be in the processor's caches, and to have been used at all.
    cached: BTreeMap<usize, Vec<Mapping>>,
    cached_bytes: usize,
    returns: u64,
}

impl State {
    fn mapped(&self) -> usize {
        self.used - self.reserved + self.cached_bytes
    }

    /// Takes mappings from among those that are only kept, until no more than `limit` bytes are mapped, or none is left.
    fn make_room(&mut self, limit: usize) -> Vec<Mapping> {
        let mut given_up = Vec::new();
        while self.mapped() > limit && self.cached_bytes > 0 {
            // Sizes whose mappings are all in use have an entry, too, an empty one.
            let mut entry = self.cached.last_entry().expect("cached bytes are in the map");
            if let Some(mapping) = entry.get_mut().pop() {
                self.cached_bytes -= mapping.len;
                given_up.push(mapping);
            } else {
                entry.remove();
            }
        }
        given_up
    }
}

/// The bytes that all frames together may occupy.
pub struct Budget {
    limit: usize,
    state: Mutex<State>,
    returned: Condvar,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, state: Mutex::default(), returned: Condvar::new() })
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes charged now.
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// Most bytes charged at once since the start, or since [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> usize {
        self.lock().peak
    }

    /// Lets the peak start from what is charged now.
    pub fn reset_peak(&self) {
        let mut state = self.lock();
        state.peak = state.used;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame of at least `bytes` bytes, or `None` where the budget has no room for it now.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the system refuses memory that the budget allows.
    pub fn try_frame(self: &Arc<Self>, bytes: usize) -> Result<Option<Frame>> {
        self.try_reserve(bytes).map(Reservation::into_frame).transpose()
    }

    /// A claim on a frame of at least `bytes` bytes, or `None` where the budget has no room for it now.
    pub fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let len = charged(bytes);
        let mut state = self.lock();
        if len > self.limit - state.used {
            return None;
        }
        state.used += len;
        state.reserved += len;
        state.peak = state.peak.max(state.used);
        Some(Reservation { len, budget: Some(Arc::clone(self)) })
    }

    /// Whether memory for a frame of `bytes` bytes is kept for reuse.
    pub fn keeps(&self, bytes: usize) -> bool {
        self.lock().cached.get(&charged(bytes)).is_some_and(|kept| !kept.is_empty())
    }

    /// A mapping for `len` bytes that are reserved.
    fn map(&self, len: usize) -> io::Result<Mapping> {
        let mut state = self.lock();
        state.reserved -= len;
        if let Some(kept) = state.cached.get_mut(&len).and_then(Vec::pop) {
            state.cached_bytes -= len;
            return Ok(kept);
        }
        // What is kept of other sizes gives way to a whole slab: frame by frame, all would be small pages.
        let wanted = in_slab(len, self.limit);
        drop(state.make_room(self.limit - (wanted - 1) * len));
        let spare = self.limit - state.mapped();
        let count = wanted.min(1 + spare / len);
        if count > 1 {
            // Under the lock, so that nobody else takes the room that was found.
            let mut pieces = Mapping::slab(len, count)?;
            let mapping = pieces.pop().expect("a slab has pieces");
            state.cached_bytes += len * pieces.len();
            state.cached.entry(len).or_default().append(&mut pieces);
            return Ok(mapping);
        }
        drop(state);
        Mapping::new(len)
    }

    /// A frame, or an error that names `purpose` and the least budget.
    ///
    /// # Errors
    /// [`Error::Budget`] where there is no room now; [`Error::OutOfMemory`].
    pub fn frame(self: &Arc<Self>, bytes: usize, purpose: &str) -> Result<Frame> {
        self.try_frame(bytes)?.ok_or_else(|| Error::Budget {
            purpose: purpose.into(),
            needed: (self.used() + charged(bytes)) as u64,
            budget: self.limit as u64,
        })
    }

    /// Charges memory that somebody else allocates, such as a codec, until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Budget`] where there is no room now.
    pub fn charge(self: &Arc<Self>, bytes: usize, purpose: &str) -> Result<Charge> {
        let mut state = self.lock();
        if bytes > self.limit - state.used {
            let needed = (state.used + bytes) as u64;
            return Err(Error::Budget { purpose: purpose.into(), needed, budget: self.limit as u64 });
        }
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        let given_up = state.make_room(self.limit);
        drop(state);
        drop(given_up);
        Ok(Charge { bytes, budget: Arc::clone(self) })
    }

    /// How many times memory has come back so far.
    pub fn returns(&self) -> u64 {
        self.lock().returns
    }

    /// Waits until memory has come back more than `seen` times, or a moment. Whoever asks for memory in vain
    /// looks at [`returns`](Self::returns) before that, and misses none.
    pub fn wait_for_return(&self, seen: u64, timeout: Duration) {
        let state = self.lock();
        let waiting = |state: &mut State| state.returns == seen;
        let _ =
            self.returned.wait_timeout_while(state, timeout, waiting).unwrap_or_else(PoisonError::into_inner);
    }

    fn give_back(&self, len: usize, mapping: Option<Mapping>) {
        let mut state = self.lock();
        state.used -= len;
        state.returns += 1;
        if let Some(mapping) = mapping {
            state.cached.entry(len).or_default().push(mapping);
            state.cached_bytes += len;
        }
        drop(state);
        self.returned.notify_all();
    }

    /// Returns the memory that is kept for reuse to the system.
    pub fn trim(&self) {
        let mut state = self.lock();
        state.cached_bytes = 0;
        let cached = std::mem::take(&mut state.cached);
        drop(state);
        drop(cached);
    }
}

/// A claim on a frame, charged to a budget like the frame itself, without memory yet.
///
/// Whoever must know early that there will be memory, and uses it late, holds this meanwhile: what comes back to the
/// budget in between is then used again, where a frame taken early would be memory never used before, which costs as
/// much as reading its content from a fast disk.
pub struct Reservation {
    len: usize,
    /// Present until it becomes a frame, or is dropped.
    budget: Option<Arc<Budget>>,
}

impl Reservation {
    /// Bytes of the frame.
    #[allow(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The frame.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the system refuses memory that the budget allows.
    pub fn into_frame(mut self) -> Result<Frame> {
        let budget = self.budget.take().expect("present until now");
        match budget.map(self.len) {
            Ok(mapping) => Ok(Frame { mapping: Some(mapping), budget, inherited: AtomicBool::new(false) }),
            Err(source) => {
                budget.give_back(self.len, None);
                Err(Error::OutOfMemory { bytes: self.len as u64, source })
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.take() {
            budget.lock().reserved -= self.len;
            budget.give_back(self.len, None);
        }
    }
}

/// Memory that lies elsewhere, charged to a budget until this is dropped.
pub struct Charge {
    bytes: usize,
    budget: Arc<Budget>,
}

impl Charge {
    /// The bytes that are charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes, None);
    }
}

/// An aligned piece of memory, charged to a budget until it is dropped. Its content at first is
/// unspecified, though initialized.
pub struct Frame {
    mapping: Option<Mapping>,
    budget: Arc<Budget>,
    inherited: AtomicBool,
}

impl Frame {
    fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("present until drop")
    }

    /// Bytes, a multiple of [`FRAME_ALIGN`].
    #[allow(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.mapping().len
    }

    /// Where the frame starts, a multiple of [`FRAME_ALIGN`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping().start.as_ptr()
    }

    /// Lets children forked from now on have a copy, as of any other memory: for results in which no
    /// more I/O takes place.
    pub fn share_with_children(&self) {
        self.advise_on_fork(Advice::LinuxDoFork);
        self.inherited.store(true, Ordering::Relaxed);
    }

    fn advise_on_fork(&self, advice: Advice) {
        let mapping = self.mapping();
        // SAFETY: the range is ours, and the advice changes nothing in this process.
        let _ = unsafe { madvise(mapping.start.as_ptr().cast(), mapping.len, advice) };
    }

    /// Returns the memory from `offset` on, rounded up to whole blocks, to the system until it is
    /// written again: other memory may stand in its place in the budget meanwhile. Its content is
    /// unspecified afterwards.
    pub fn vacate(&mut self, offset: usize) {
        let from = offset.next_multiple_of(FRAME_ALIGN);
        if from < self.len() {
            // SAFETY: the range lies inside the mapping, which is private and anonymous: it reads as
            // zeros afterwards. `&mut self` excludes slices of it.
            let _ =
                unsafe { madvise(self.as_ptr().add(from).cast(), self.len() - from, Advice::LinuxDontNeed) };
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is initialized memory of this length; writers through `as_ptr` promise
        // not to write while a slice is alive.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` excludes every other slice.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len()) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.mapping().pid != std::process::id() {
            // In a forked child the budget is a copy of the parent's, locked perhaps for ever.
            std::mem::forget(self.mapping.take());
            return;
        }
        if *self.inherited.get_mut() {
            self.advise_on_fork(Advice::LinuxDontFork);
        }
        let mapping = self.mapping.take();
        self.budget.give_back(mapping.as_ref().map_or(0, |m| m.len), mapping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_everything_comes_back() {
        let budget = Budget::new(16 << 20);
        let a = budget.frame(8 << 20, "a").unwrap();
        let b = budget.frame(8 << 20, "b").unwrap();
        assert!(budget.try_frame(1).unwrap().is_none());
        assert!(
            matches!(budget.frame(1, "c"), Err(Error::Budget { needed, .. }) if needed == (16 << 20) + 4096)
        );
        drop((a, b));
        assert_eq!(budget.used(), 0);
        let mut other = budget.frame(12 << 20, "d").unwrap();
        other.bytes_mut().fill(1);
        assert_eq!(budget.lock().cached_bytes, 0);
        assert_eq!(other.as_ptr() as usize % HUGE, 0);
        assert_eq!(budget.peak(), 16 << 20);
    }

    #[test]
    fn what_is_reserved_becomes_the_memory_that_came_back_last() {
        const FRAME: usize = 1 << 20;
        let budget = Budget::new(4 * FRAME);
        let first = budget.frame(FRAME, "first").unwrap();
        let start = first.as_ptr();
        let reserved: Vec<_> = (0..3).map(|_| budget.try_reserve(FRAME).unwrap()).collect();
        assert!(budget.try_reserve(1).is_none() && budget.try_frame(1).unwrap().is_none());
        assert_eq!(budget.used(), 4 * FRAME);
        drop(first);
        // All is promised again; what is kept stays, as nothing is mapped for the promises.
        let fourth = budget.try_reserve(FRAME).unwrap();
        for reservation in reserved {
            assert_eq!(reservation.into_frame().unwrap().as_ptr(), start);
        }
        drop(fourth);
        assert_eq!((budget.used(), budget.lock().reserved), (0, 0));
        assert!(budget.lock().mapped() <= budget.limit());
        assert_eq!(budget.peak(), 4 * FRAME);
    }

    #[test]
    fn what_is_kept_is_counted_once_whatever_sizes_are_in_use() {
        let budget = Budget::new(1 << 20);
        let sizes = [4 * FRAME_ALIGN, 8 * FRAME_ALIGN, 12 * FRAME_ALIGN];
        for len in sizes {
            drop(budget.frame(len, "kept for reuse").unwrap());
        }
        // The middle size has nothing kept now, the others give way one after the other.
        let middle = budget.frame(sizes[1], "used again").unwrap();
        let most = budget.charge(budget.limit() - middle.len(), "all there is").unwrap();
        let state = budget.lock();
        let kept: usize = state.cached.values().flatten().map(|m| m.len).sum();
        assert_eq!((kept, state.cached_bytes), (0, 0));
        drop(state);
        drop((middle, most));
    }

    #[test]
    fn frames_for_tiles_that_nearly_fill_huge_pages_fill_them() {
        assert_eq!(fitted(0), FRAME_ALIGN);
        assert_eq!(fitted(HUGE - FRAME_ALIGN), HUGE);
        assert_eq!(fitted(HUGE - (1 << 18)), HUGE - (1 << 18));
        assert_eq!(fitted(HUGE + 1), HUGE + FRAME_ALIGN);
        assert_eq!(fitted(4 * HUGE - 100_000), 4 * HUGE);
        assert_eq!(fitted(4 * HUGE - (1 << 20)), 4 * HUGE - (1 << 20));
        for bytes in (0..64 << 20).step_by(77_777) {
            assert_eq!(fitted(fitted(bytes)), fitted(bytes));
            assert_eq!(fitted(charged(bytes)), fitted(bytes));
        }
    }

    #[test]
    fn memory_elsewhere_counts_too() {
        let budget = Budget::new(1 << 20);
        drop(budget.frame(1 << 20, "kept for reuse").unwrap());
        let charge = budget.charge(1000, "codecs").unwrap();
        // What is kept gives way: the limit holds for both together.
        assert_eq!((charge.bytes(), budget.used(), budget.lock().cached_bytes), (1000, 1000, 0));
        let refused = budget.charge(1 << 20, "codecs");
        assert!(matches!(refused, Err(Error::Budget { needed, .. }) if needed == (1 << 20) + 1000));
        assert!(budget.try_frame(1 << 20).unwrap().is_none());
        drop(charge);
        assert_eq!((budget.used(), budget.peak()), (0, 1 << 20));
    }

    #[test]
    fn vacated_memory_can_be_written_again() {
        let budget = Budget::new(1 << 20);
        let mut frame = budget.frame(4 * FRAME_ALIGN, "a").unwrap();
        frame.bytes_mut().fill(7);
        frame.vacate(FRAME_ALIGN + 1);
        assert!(frame.bytes()[..2 * FRAME_ALIGN].iter().all(|&b| b == 7));
        frame.bytes_mut().fill(8);
        assert!(frame.bytes().iter().all(|&b| b == 8));
    }

    #[test]
    fn small_frames_are_cut_from_slabs_inside_the_budget() {
        let budget = Budget::new(64 << 20);
        let mut frames: Vec<Frame> = (0..100).map(|_| budget.frame(256 << 10, "some").unwrap()).collect();
        for (i, frame) in frames.iter_mut().enumerate() {
            frame.bytes_mut().fill(i as u8);
        }
        assert!(frames.iter().enumerate().all(|(i, f)| f.bytes().iter().all(|&b| b == i as u8)));
        assert_eq!(budget.used(), 100 * (256 << 10));
        drop(frames);
        // What was cut small does not stand in the way of something large.
        assert!(budget.frame(64 << 20, "all").is_ok());
        assert_eq!((budget.used(), budget.lock().cached_bytes), (0, 64 << 20));
    }
}
