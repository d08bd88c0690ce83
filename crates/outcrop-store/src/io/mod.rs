//! Moving bytes between memory and files.
//!
//! - [`IoEngine`]: the small trait behind which the engines stand; [`uring`], [`threads`], and
//!   [`fault`], which wraps another and spoils chosen operations.
//! - [`queue`]: drives an engine: keeps it full, retries, resubmits what was short.
//! - [`disk`]: files, directories, durability, and the counters of the bytes moved.

pub mod disk;
pub mod fault;
pub mod queue;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;

pub use disk::{Access, Counters, Disk, DiskFile, EngineChoice};
pub use queue::{Cancel, IoQueue, Transfer};

use std::io;
use std::os::fd::RawFd;

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From file to memory.
    Read,
    /// From memory to file.
    Write,
}

/// One read or write as an engine sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Comes back in the completion.
    pub id: usize,
    /// The open file.
    pub fd: RawFd,
    /// Read or write.
    pub direction: Direction,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The memory.
    pub memory: *mut u8,
    /// Bytes to move.
    pub len: u32,
}

// SAFETY: the pointer is only used by the kernel or by a pool thread between submission and
// completion, a time for which the submitter has promised the memory to be valid and untouched.
unsafe impl Send for Request {}

/// The end of a request: the bytes moved, which may be fewer than asked for, or an error.
#[derive(Debug)]
pub struct Completion {
    /// The request's id.
    pub id: usize,
    /// Bytes moved.
    pub result: io::Result<u32>,
}

/// Something that moves bytes asynchronously.
///
/// The life of a request: `submit` hands it over; from then on the engine owns its memory until the
/// completion with its id has come out of `reap`. Every submitted request completes exactly once,
/// in any order. Retrying is not an engine's business.
pub trait IoEngine: Send {
    /// A name for reports: `uring`, `threads`.
    fn name(&self) -> &'static str;

    /// How many requests may be in flight.
    fn capacity(&self) -> usize;

    /// Hands over a request.
    ///
    /// # Errors
    /// The engine itself failed; the request was not taken.
    ///
    /// # Safety
    /// The request's memory stays valid, and is not accessed by others (for reads) or not written
    /// (for writes), until its completion was reaped. The file stays open until then.
    unsafe fn submit(&mut self, request: Request) -> io::Result<()>;

    /// Appends the completions that are there; waits for at least one where `wait` is set and
    /// something is in flight.
    ///
    /// # Errors
    /// The engine itself failed.
    fn reap(&mut self, wait: bool, completions: &mut Vec<Completion>) -> io::Result<()>;
}
