//! Aligned memory inside a budget.
//!
//! Invariants:
//! 1. `used <= limit` and `used - reserved + kept <= limit` at every moment: memory is charged before it is
//!    mapped, and what is only kept for reuse gives way.
//! 2. A [`Frame`] is charged from its creation, or its [`Reservation`], to its drop, whoever holds it.
//! 3. Frames are not inherited over `fork`: a child that inherited half-written frames with I/O in
//!    flight would see them change, or copy them when the parent writes. Results that a user holds
//!    are: see [`Frame::share_with_children`].

mod kept;
mod mapping;
pub mod refusals;

use crate::error::{Error, Result};
use kept::Kept;
use mapping::Mapping;
pub(crate) use mapping::{has_bounds, headroom};
use rustix::mm::{Advice, madvise};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Frames start at multiples of this, and their sizes are multiples of it. It is at least the
/// alignment that direct I/O asks for on every common device.
pub const FRAME_ALIGN: usize = 4096;

/// Memory of at least this size is mapped at a multiple of it, so that the kernel can back it with
/// huge pages, which makes pinning it for I/O cheap.
const HUGE: usize = 2 << 20;

/// Bytes that [`Budget::use_ahead`] uses at a time: some milliseconds of a processor at worst.
pub const AHEAD: usize = HUGE;

/// Bytes a frame of `bytes` is charged: rounded up to whole blocks, as far as numbers go.
pub fn charged(bytes: usize) -> usize {
    bytes.max(1).checked_next_multiple_of(FRAME_ALIGN).unwrap_or(usize::MAX / FRAME_ALIGN * FRAME_ALIGN)
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
/// For so many bytes, addresses are taken at once for memory that is used ahead.
const ADDRESSES: usize = 64 << 20;
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

#[derive(Default)]
struct State {
    used: usize,
    /// The part of `used` that no mapping stands for yet.
    reserved: usize,
    peak: usize,
    kept: Kept,
    /// Addresses for memory that is used ahead; nothing stands behind them yet.
    addresses: Option<Mapping>,
    /// Where the last slab starts; the next one is to end there, so that what is cut from both can be joined.
    frontier: Option<usize>,
    returns: u64,
}

impl State {
    fn mapped(&self) -> usize {
        self.used - self.reserved + self.kept.bytes()
    }

    /// Takes from what is only kept, until no more than `limit` bytes are mapped, or nothing is kept.
    fn make_room(&mut self, limit: usize) -> Vec<Mapping> {
        let missing = self.mapped().saturating_sub(limit);
        self.kept.give_up(missing, HUGE)
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
        self.lock().kept.has(charged(bytes))
    }

    /// A mapping for `len` bytes that are reserved.
    fn map(&self, len: usize) -> io::Result<Mapping> {
        let mut state = self.lock();
        state.reserved -= len;
        // What is kept gives way to a whole slab: frame by frame, all would be small pages.
        let wanted = in_slab(len, self.limit);
        let before_slab = self.limit - (wanted - 1) * len;
        loop {
            if let Some(kept) = state.kept.take(len) {
                return Ok(kept);
            }
            if state.mapped() <= before_slab || !state.kept.join_largest() {
                break;
            }
        }
        drop(state.make_room(before_slab));
        let spare = self.limit - state.mapped();
        let count = wanted.min(1 + spare / len);
        // What is left of the last huge page is kept for other frames.
        let whole = (len * count).next_multiple_of(HUGE);
        let slab = if len * count >= HUGE && whole <= len + spare { whole } else { len * count };
        // What is small lies elsewhere, or slabs would not touch.
        let before = state.frontier.filter(|_| slab >= HUGE);
        if slab == len {
            // It is charged: nobody has to wait for the system.
            drop(state);
            let mapping = Mapping::new(len, before)?;
            if len >= HUGE {
                self.lock().frontier = Some(mapping.start());
            }
            return Ok(mapping);
        }
        let mut rest = Mapping::new(slab, before)?;
        if slab >= HUGE {
            state.frontier = Some(rest.start());
        }
        for _ in 1..count {
            let (piece, others) = rest.split(len);
            state.kept.put(piece);
            rest = others.expect("the last piece is not cut off here");
        }
        let (mapping, rest) = rest.split(len);
        if let Some(rest) = rest {
            state.kept.put_range(rest);
        }
        Ok(mapping)
    }

    /// Has the system give memory for frames to come, [`AHEAD`] bytes, unless there are `enough` bytes already, in use
    /// or kept, or no room. Returns whether there may be more to do.
    ///
    /// Memory is cleared when it is used for the first time, and a virtual machine may have to get it from its host:
    /// work for a processor that has nothing else to do.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the system refuses memory that the budget allows.
    pub fn use_ahead(&self, enough: usize) -> Result<bool> {
        let mut state = self.lock();
        let mapped = state.mapped();
        if mapped + AHEAD > enough.min(self.limit) || state.used + AHEAD > self.limit {
            return Ok(false);
        }
        let addresses = match state.addresses.take() {
            Some(addresses) => addresses,
            None => {
                let len = ADDRESSES.min((enough - mapped) / AHEAD * AHEAD);
                let new = Mapping::new(len, state.frontier)
                    .map_err(|source| Error::OutOfMemory { bytes: len as u64, source })?;
                state.frontier = Some(new.start());
                new
            }
        };
        let (memory, addresses) = addresses.split(AHEAD);
        state.addresses = addresses;
        state.used += AHEAD;
        drop(state);
        memory.touch();
        self.change_back(AHEAD, |state| state.kept.put_range(memory));
        Ok(true)
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
        self.change_back(len, |state| {
            if let Some(mapping) = mapping {
                state.kept.put(mapping);
            }
        });
    }

    /// Ends the charge of so many bytes, and what else goes with them.
    fn change_back(&self, len: usize, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        state.used -= len;
        state.returns += 1;
        change(&mut state);
        drop(state);
        self.returned.notify_all();
    }

    /// Returns the memory that is kept for reuse to the system.
    pub fn trim(&self) {
        let mut state = self.lock();
        let unused = (std::mem::take(&mut state.kept), state.addresses.take());
        drop(state);
        drop(unused);
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
            budget.change_back(self.len, |state| state.reserved -= self.len);
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
        self.mapping().len()
    }

    /// Where the frame starts, a multiple of [`FRAME_ALIGN`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping().as_ptr()
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
        let _ = unsafe { madvise(mapping.as_ptr().cast(), mapping.len(), advice) };
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
        if !self.mapping().is_ours() {
            // In a forked child the budget is a copy of the parent's, locked perhaps for ever.
            std::mem::forget(self.mapping.take());
            return;
        }
        if *self.inherited.get_mut() {
            self.advise_on_fork(Advice::LinuxDontFork);
        }
        let mapping = self.mapping.take();
        self.budget.give_back(mapping.as_ref().map_or(0, Mapping::len), mapping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert!(budget.lock().mapped() <= budget.limit());
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
        assert_eq!((state.kept.bytes(), state.kept.has(FRAME_ALIGN)), (0, false));
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
        assert_eq!((charge.bytes(), budget.used(), budget.lock().kept.bytes()), (1000, 1000, 0));
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
        assert_eq!((budget.used(), budget.lock().kept.bytes()), (0, 64 << 20));
    }

    #[test]
    fn frames_of_another_size_are_cut_from_the_memory_of_those_before() {
        const COUNT: usize = 12;
        let budget = Budget::new(COUNT * HUGE);
        let starts = |frames: &[Frame]| frames.iter().map(|f| f.as_ptr() as usize).collect::<Vec<_>>();
        let first: Vec<Frame> = (0..COUNT).map(|_| budget.frame(HUGE, "first").unwrap()).collect();
        let (low, high) =
            (*starts(&first).iter().min().unwrap(), *starts(&first).iter().max().unwrap() + HUGE);
        // Something else may lie in between; then there is nothing to see.
        let together = high - low == COUNT * HUGE;
        drop(first);
        for size in [3 * HUGE, HUGE + FRAME_ALIGN, COUNT * HUGE, 5 * FRAME_ALIGN, HUGE / 2, 4 * HUGE] {
            let frames: Vec<Frame> =
                (0..budget.limit() / size).map(|_| budget.frame(size, "second").unwrap()).collect();
            assert!(!together || starts(&frames).iter().all(|&at| low <= at && at + size <= high), "{size}");
        }
        budget.trim();
        assert_eq!((budget.used(), budget.lock().kept.bytes()), (0, 0));
    }

    #[test]
    fn memory_is_used_ahead_as_far_as_it_is_wanted_and_there_is_room() {
        let budget = Budget::new(9 * HUGE);
        let frame = budget.frame(HUGE, "in use").unwrap();
        while budget.use_ahead(6 * HUGE).unwrap() {}
        assert_eq!(budget.lock().kept.bytes(), 5 * HUGE);
        assert!(budget.keeps(2 * HUGE) && budget.peak() == HUGE);
        // Frames of any size are cut from it.
        let cut = [2 * HUGE, HUGE + FRAME_ALIGN].map(|len| budget.frame(len, "cut from it").unwrap());
        assert_eq!(budget.lock().mapped(), 6 * HUGE);
        while budget.use_ahead(usize::MAX).unwrap() {}
        assert!(budget.lock().mapped() <= budget.limit());
        assert!(budget.lock().mapped() > budget.limit() - AHEAD);
        drop((frame, cut));
        let all = budget.frame(9 * HUGE, "all").unwrap();
        assert!(!budget.use_ahead(usize::MAX).unwrap());
        drop(all);
        budget.trim();
        assert_eq!((budget.used(), budget.lock().mapped()), (0, 0));
    }

    proptest! {
        /// No two frames share memory, the limit holds, and nothing is lost.
        #[test]
        fn frames_of_all_sizes_in_all_orders_are_disjoint_and_inside_the_budget(
            steps in proptest::collection::vec((0..4_u8, 0..700_usize, any::<usize>()), 1..80),
        ) {
            let budget = Budget::new(16 << 20);
            let mut held: Vec<(Frame, u8)> = Vec::new();
            let mut charges = Vec::new();
            for (number, (kind, blocks, which)) in steps.into_iter().enumerate() {
                let bytes = match kind {
                    0 => blocks * FRAME_ALIGN,
                    1 => (1 + blocks % 4) * HUGE,
                    _ => (1 + blocks % 3) * (300 << 10),
                };
                match which % 5 {
                    0 if !held.is_empty() => drop(held.swap_remove(which / 5 % held.len())),
                    1 => held.truncate(held.len() / 2),
                    2 if which % 3 == 0 => charges.extend(budget.charge(bytes / 4, "elsewhere").ok()),
                    2 => charges.truncate(charges.len() / 2),
                    _ => {
                        if let Some(mut frame) = budget.try_frame(bytes).unwrap() {
                            frame.bytes_mut().fill(number as u8);
                            held.push((frame, number as u8));
                        }
                    }
                }
                let state = budget.lock();
                prop_assert!(state.mapped() <= budget.limit());
                let mut places = state.kept.places();
                prop_assert_eq!(state.kept.bytes(), places.iter().map(|&(_, len)| len).sum::<usize>());
                places.extend(held.iter().map(|(frame, _)| (frame.as_ptr() as usize, frame.len())));
                places.sort_unstable();
                prop_assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
                let charged: usize = charges.iter().map(Charge::bytes).sum();
                prop_assert_eq!(state.used, held.iter().map(|(f, _)| f.len()).sum::<usize>() + charged);
            }
            for (frame, content) in &held {
                prop_assert!(frame.bytes().iter().all(|byte| byte == content));
            }
        }
    }
}
