//! The loops that keep a queue busy for a while.

use super::random::Random;
use crate::io::queue::TransferError;
use crate::io::{Cancel, DiskFile, IoQueue, Transfer};
use std::iter::from_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A frame's memory, in the hands of several threads.
#[derive(Clone, Copy)]
pub(super) struct Memory(pub(super) *mut u8);

// SAFETY: a pointer alone gives no access; those who use it say why they may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn part(self, offset: usize) -> Memory {
        Memory(self.0.wrapping_add(offset))
    }
}

/// When a measurement ends.
pub(super) struct Clock {
    pub(super) started: Instant,
    time: Duration,
}

impl Clock {
    pub(super) fn new(time: Duration) -> Clock {
        Clock { started: Instant::now(), time }
    }

    fn is_over(&self) -> bool {
        self.started.elapsed() >= self.time
    }
}

pub(super) fn seconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64().max(1e-9)
}

/// The blocks of a file in random order, each once.
pub(super) struct Order {
    pub(super) request: usize,
    blocks: Vec<u32>,
    next: AtomicUsize,
}

impl Order {
    pub(super) fn new(request: usize, len: u64) -> Order {
        let mut blocks: Vec<u32> = (0..(len / request as u64) as u32).collect();
        let mut random = Random::new();
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        Order { request, blocks, next: AtomicUsize::new(0) }
    }

    /// Starts anew where less than half of the blocks are left.
    pub(super) fn rewind_if_short(&self) {
        if self.next.load(Ordering::Relaxed) > self.blocks.len() / 2 {
            self.next.store(0, Ordering::Relaxed);
        }
    }

    /// The next so many blocks, from the first one again where there are not as many left.
    pub(super) fn portion(&self, count: u64) -> Order {
        let count = (count as usize).min(self.blocks.len());
        let mut first = self.next.fetch_add(count, Ordering::Relaxed);
        if first + count > self.blocks.len() {
            (first, _) = (0, self.next.store(count, Ordering::Relaxed));
        }
        let blocks = self.blocks[first..first + count].to_vec();
        Order { request: self.request, blocks, next: AtomicUsize::new(0) }
    }

    pub(super) fn take(&self) -> Option<u64> {
        let block = self.blocks.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        Some(u64::from(*block) * self.request as u64)
    }
}

/// Reads until the time is over or every block was read, at least one block; gives the bytes.
///
/// # Safety
/// `memory` has `share` bytes, which nobody else uses until this returns.
#[allow(clippy::too_many_arguments, reason = "a loop that is used twice")]
pub(super) unsafe fn read_lane(
    queue: &mut IoQueue,
    file: &DiskFile,
    order: &Order,
    memory: Memory,
    share: usize,
    depth: usize,
    clock: &Clock,
    cancel: &Cancel,
) -> Result<u64, TransferError> {
    let request = order.request;
    let slots = share / request;
    let mut bytes = 0;
    loop {
        let mut used = 0;
        let mut transfers = from_fn(|| {
            if used == slots || (bytes > 0 && clock.is_over()) {
                return None;
            }
            let offset = order.take()?;
            let at = memory.part(used * request);
            used += 1;
            bytes += request as u64;
            Some(Transfer::read(file, offset, at.0, request, request))
        });
        // SAFETY: within one run, every transfer has its own memory.
        unsafe { queue.run(&mut transfers, request, depth, cancel) }?;
        if used < slots {
            return Ok(bytes);
        }
    }
}

/// Writes one request after the other until the time is over or the range is full, at least one
/// request where it has room for one; gives the bytes.
///
/// # Safety
/// `memory` has `share` bytes, to which nobody writes until this returns.
#[allow(clippy::too_many_arguments, reason = "a loop that is used twice")]
pub(super) unsafe fn write_lane(
    queue: &mut IoQueue,
    file: &DiskFile,
    range: Range<u64>,
    request: usize,
    memory: Memory,
    share: usize,
    depth: usize,
    clock: &Clock,
    cancel: &Cancel,
) -> Result<u64, TransferError> {
    let slots = share / request;
    let mut bytes = 0;
    let mut transfers = from_fn(|| {
        let offset = range.start + bytes;
        if offset + request as u64 > range.end || (bytes > 0 && clock.is_over()) {
            return None;
        }
        let at = memory.part((bytes as usize / request) % slots * request);
        bytes += request as u64;
        Some(Transfer::write(file, offset, at.0, request))
    });
    // SAFETY: passed on from the caller.
    unsafe { queue.run(&mut transfers, request, depth, cancel) }?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_block_once() {
        let order = Order::new(4096, 1000 * 4096 + 17);
        let mut offsets: Vec<u64> = from_fn(|| order.take()).collect();
        assert!(!offsets.is_sorted());
        offsets.sort_unstable();
        assert!(
            offsets.iter().enumerate().all(|(i, &offset)| offset == i as u64 * 4096) && offsets.len() == 1000
        );
        order.rewind_if_short();
        assert!(order.take().is_some());
    }

    #[test]
    fn portions_follow_one_another_and_begin_again() {
        let order = Order::new(4096, 10 * 4096);
        let offsets = |order: Order| from_fn(move || order.take()).collect::<Vec<_>>();
        let first = offsets(order.portion(4));
        let second = offsets(order.portion(4));
        assert_eq!((first.len(), second.len()), (4, 4));
        assert!(first.iter().all(|offset| !second.contains(offset)));
        assert_eq!(offsets(order.portion(4)), first);
        assert_eq!(offsets(order.portion(100)).len(), 10);
    }
}
