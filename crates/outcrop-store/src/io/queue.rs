//! Drives an engine: keeps it full, retries what may be retried, resubmits what was short.
//!
//! The life of a transfer:
//! - It is cut into requests of at most the disk's request size.
//! - A request that moved fewer bytes than needed is resubmitted from where it stopped, rounded down
//!   to a whole block so that direct I/O stays aligned. A read that ends at `need` bytes or later is
//!   complete: the last block of a file is asked for whole, and is shorter.
//! - `EINTR` and `EAGAIN` mean that nothing happened: resubmitted, as often as `MAX_AGAIN` times.
//! - `EIO` of a read or write of the same place may pass: retried `MAX_RETRIES` times.
//!   (A failed sync is another matter and never retried; see [`super::disk`].)
//! - A read that was short is an error at once where the file has no more: what has been cut off does
//!   not come by asking again. A write of 0 bytes would repeat for ever, and is an error, too.
//! - After the first error nothing new starts, and what is in flight is waited for, so that no
//!   memory is handed back while the kernel may still write into it.

use super::disk::{Counters, DiskFile};
use super::{Completion, Direction, IoEngine, Request};
use crate::error::{Error, Result};
use crate::frame::FRAME_ALIGN;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often an `EIO` is retried.
pub(super) const MAX_RETRIES: u32 = 3;
/// How often a request is resubmitted after `EINTR` or `EAGAIN`.
pub(super) const MAX_AGAIN: u32 = 1000;

/// A flag that stops work in progress.
#[derive(Clone, Default, Debug)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks everything that watches this flag to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Where what is compiled elsewhere can look whether it was asked to stop.
    pub fn as_ptr(&self) -> *const bool {
        self.0.as_ptr()
    }

    /// An error where it was asked to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Bytes to move between one place in a file and one in memory.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    fd: RawFd,
    block: usize,
    direction: Direction,
    offset: u64,
    memory: *mut u8,
    len: usize,
    need: usize,
}

impl Transfer {
    /// Reads `len` bytes at `offset`, of which the file must have at least `need`.
    pub fn read(file: &DiskFile, offset: u64, memory: *mut u8, len: usize, need: usize) -> Transfer {
        let direction = Direction::Read;
        Transfer { fd: file.as_raw_fd(), block: file.block(), direction, offset, memory, len, need }
    }

    /// Writes `len` bytes at `offset`.
    pub fn write(file: &DiskFile, offset: u64, memory: *const u8, len: usize) -> Transfer {
        let (direction, memory) = (Direction::Write, memory.cast_mut());
        Transfer { fd: file.as_raw_fd(), block: file.block(), direction, offset, memory, len, need: len }
    }
}

/// Why a transfer failed; the caller knows the file's name.
#[derive(Debug)]
pub struct TransferError {
    /// Read or write.
    pub direction: Direction,
    /// Where in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub len: usize,
    /// The cause. `UnexpectedEof` where a file is too short.
    pub source: io::Error,
    /// The work was cancelled; `source` says no more.
    pub cancelled: bool,
}

impl TransferError {
    /// The error of an operation on the file at `path`.
    pub fn at(self, path: &std::path::Path) -> Error {
        if self.cancelled {
            return Error::Interrupted;
        }
        let verb = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let action = format!("{verb} {} bytes at offset {}", self.len, self.offset);
        super::disk::classify_moving(path, self.len as u64, &action, self.source)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    transfer: Transfer,
    done: usize,
    retries: u32,
    agains: u32,
}

/// An engine with its bookkeeping. One thread drives it at a time.
pub struct IoQueue {
    engine: Box<dyn IoEngine>,
    counters: Arc<Counters>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    completions: Vec<Completion>,
}

// SAFETY: the raw pointers inside slots are only used while `run` holds the queue exclusively.
unsafe impl Send for IoQueue {}

impl IoQueue {
    /// A queue over an engine, counting bytes in `counters`.
    pub fn new(engine: Box<dyn IoEngine>, counters: Arc<Counters>) -> IoQueue {
        IoQueue { engine, counters, slots: Vec::new(), free: Vec::new(), completions: Vec::new() }
    }

    /// Performs transfers, as many at once as `depth` and the engine allow, in pieces of at most
    /// `request` bytes. Returns when all are complete, or with the first error when none is in flight.
    ///
    /// # Errors
    /// See the module's text.
    ///
    /// # Safety
    /// The files stay open, and the memory of every transfer valid and unshared (for reads) or
    /// unwritten (for writes), until this returns.
    pub unsafe fn run(
        &mut self,
        transfers: &mut dyn Iterator<Item = Transfer>,
        request: usize,
        depth: usize,
        cancel: &Cancel,
    ) -> Result<(), TransferError> {
        let depth = depth.clamp(1, self.engine.capacity());
        let mut pieces = transfers.flat_map(|t| cut(t, request));
        let mut failure: Option<TransferError> = None;
        let mut in_flight = 0;
        let mut exhausted = false;
        loop {
            while failure.is_none() && !exhausted && in_flight < depth {
                if cancel.is_cancelled() {
                    failure = Some(cancelled());
                    break;
                }
                let Some(transfer) = pieces.next() else {
                    exhausted = true;
                    break;
                };
                let slot = Slot { transfer, done: 0, retries: 0, agains: 0 };
                let id = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(slot);
                    self.slots.len() - 1
                });
                self.slots[id] = slot;
                if transfer.direction == Direction::Read {
                    // SAFETY: promised by the caller.
                    unsafe { touch(transfer.memory, transfer.len) };
                }
                match self.submit(id) {
                    Ok(()) => in_flight += 1,
                    Err(source) => {
                        self.free.push(id);
                        failure = Some(failed(&slot, source));
                    }
                }
            }
            if in_flight == 0 {
                return failure.map_or(Ok(()), Err);
            }
            let mut completions = std::mem::take(&mut self.completions);
            if let Err(source) = self.engine.reap(true, &mut completions) {
                // The engine is broken, and what it has in flight cannot be waited for.
                log::error!("the I/O engine failed: {source}");
                std::process::abort();
            }
            for Completion { id, result } in completions.drain(..) {
                match self.settle(id, result) {
                    Ok(true) => {}
                    Ok(false) if failure.is_none() => match self.submit(id) {
                        Ok(()) => continue,
                        Err(source) => failure = Some(failed(&self.slots[id], source)),
                    },
                    Ok(false) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
                self.free.push(id);
                in_flight -= 1;
            }
            self.completions = completions;
        }
    }

    fn submit(&mut self, id: usize) -> io::Result<()> {
        let Slot { transfer: t, done, .. } = self.slots[id];
        let request = Request {
            id,
            fd: t.fd,
            direction: t.direction,
            offset: t.offset + done as u64,
            memory: t.memory.wrapping_add(done),
            len: (t.len - done) as u32,
        };
        // SAFETY: promised by the caller of `run`, which does not return before the completion.
        unsafe { self.engine.submit(request) }
    }

    /// Books a completion: `true` where the transfer is complete, `false` where it is to be resubmitted.
    fn settle(&mut self, id: usize, result: io::Result<u32>) -> Result<bool, TransferError> {
        let slot = &mut self.slots[id];
        let t = slot.transfer;
        match result {
            Ok(0) => {
                let source = match t.direction {
                    Direction::Read => cut_off(&t).unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()),
                    Direction::Write => io::ErrorKind::WriteZero.into(),
                };
                Err(failed(slot, source))
            }
            Ok(moved) => {
                self.counters.add(t.direction, u64::from(moved));
                let reached = slot.done + moved as usize;
                if reached >= t.need {
                    return Ok(true);
                }
                if let (Direction::Read, Some(source)) = (t.direction, cut_off(&t)) {
                    return Err(failed(slot, source));
                }
                let whole = reached / t.block * t.block;
                if whole == slot.done {
                    // Less than a block: ask again from the same place, but not for ever.
                    slot.agains += 1;
                    if slot.agains > MAX_AGAIN {
                        return Err(failed(slot, io::ErrorKind::UnexpectedEof.into()));
                    }
                }
                slot.done = whole;
                Ok(false)
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) if slot.agains < MAX_AGAIN => {
                    slot.agains += 1;
                    if slot.agains > 10 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(false)
                }
                Some(libc::EIO) if slot.retries < MAX_RETRIES => {
                    slot.retries += 1;
                    log::warn!("I/O error at offset {}, retry {} of {MAX_RETRIES}", t.offset, slot.retries);
                    Ok(false)
                }
                _ => Err(failed(slot, error)),
            },
        }
    }
}

/// Has the kernel back memory with pages that is about to be read into.
///
/// It would do so itself when it pins them, but under a lock of the whole address space: whoever maps memory
/// meanwhile waits, and so does everybody behind. A write takes no such lock from Linux 6.4 on. (Measured, 0.5 GiB of memory that the
/// machine had not used, two processors, four loaders: 2.1 s, and 1.2 s with this.)
///
/// # Safety
/// The memory is valid and unshared, and what is in it is not needed any more.
unsafe fn touch(memory: *mut u8, len: usize) {
    let first = FRAME_ALIGN - memory as usize % FRAME_ALIGN;
    for at in std::iter::once(0).chain((first..len).step_by(FRAME_ALIGN)).take(len) {
        // SAFETY: promised by the caller.
        unsafe { memory.add(at).write_volatile(0) };
    }
}

fn cut(t: Transfer, request: usize) -> impl Iterator<Item = Transfer> {
    // A remnant of less than half a request rides with the last one.
    let count = (t.len / request).max(1);
    (0..count).map(move |i| {
        let from = i * request;
        let len = if i + 1 == count { t.len - from } else { request };
        let need = t.need.saturating_sub(from).min(len);
        Transfer { offset: t.offset + from as u64, memory: t.memory.wrapping_add(from), len, need, ..t }
    })
}

/// Why a read that was short cannot be completed: the file ends before what it has to have; `None` where
/// it does not, or nobody knows.
fn cut_off(t: &Transfer) -> Option<io::Error> {
    // SAFETY: the file is open until the transfer is complete, as the caller of `run` has promised.
    let file = unsafe { BorrowedFd::borrow_raw(t.fd) };
    let (len, end) = (rustix::fs::fstat(file).ok()?.st_size as u64, t.offset + t.need as u64);
    let what = || format!("the file is cut off: it has {len} bytes, and {end} are needed");
    (len < end).then(|| io::Error::new(io::ErrorKind::UnexpectedEof, what()))
}

fn failed(slot: &Slot, source: io::Error) -> TransferError {
    let t = &slot.transfer;
    TransferError { direction: t.direction, offset: t.offset, len: t.need, source, cancelled: false }
}

fn cancelled() -> TransferError {
    let source = io::ErrorKind::Interrupted.into();
    TransferError { direction: Direction::Read, offset: 0, len: 0, source, cancelled: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves at most so many bytes of each request, as a kernel may, and keeps what it was asked for.
    struct Lazy {
        most: u32,
        asked: Arc<std::sync::Mutex<Vec<(u64, usize, u32)>>>,
        done: Vec<Completion>,
    }

    impl IoEngine for Lazy {
        fn name(&self) -> &'static str {
            "lazy"
        }

        fn capacity(&self) -> usize {
            4
        }

        unsafe fn submit(&mut self, request: Request) -> io::Result<()> {
            self.asked.lock().unwrap().push((request.offset, request.memory as usize, request.len));
            self.done.push(Completion { id: request.id, result: Ok(request.len.min(self.most)) });
            Ok(())
        }

        fn reap(&mut self, _wait: bool, completions: &mut Vec<Completion>) -> io::Result<()> {
            completions.append(&mut self.done);
            Ok(())
        }
    }

    /// From where it stopped, direct I/O would be refused; in memory, where faults are injected, nothing is.
    #[test]
    fn what_was_short_goes_on_at_a_whole_block() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let mut memory = vec![0u8; 1 << 16];
        for direction in [Direction::Read, Direction::Write] {
            for (most, steps) in [(5000, 16), (4096, 16), (9000, 8), (40_000, 2), (u32::MAX, 1)] {
                let asked = Arc::default();
                let engine = Lazy { most, asked: Arc::clone(&asked), done: Vec::new() };
                let mut queue = IoQueue::new(Box::new(engine), Arc::default());
                let (start, len) = (memory.as_mut_ptr(), memory.len());
                let transfer = Transfer {
                    fd: file.as_raw_fd(),
                    block: FRAME_ALIGN,
                    direction,
                    offset: 8192,
                    memory: start,
                    len,
                    need: len,
                };
                let mut one = std::iter::once(transfer);
                // SAFETY: the file is open, and the memory is nobody else's.
                unsafe { queue.run(&mut one, 1 << 20, 4, &Cancel::default()) }.unwrap();
                let asked = asked.lock().unwrap();
                assert_eq!(asked.len(), steps, "{most}");
                let mut reached = 0;
                for &(offset, at, left) in &*asked {
                    assert_eq!(offset % FRAME_ALIGN as u64, 0, "{most}");
                    assert_eq!(at - start as usize, (offset - 8192) as usize);
                    assert!((offset - 8192) as usize <= reached, "a gap before {offset}");
                    reached = (offset - 8192) as usize + left.min(most) as usize;
                }
                assert_eq!(reached, len);
            }
        }
    }
}
