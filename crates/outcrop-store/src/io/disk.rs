//! Files and directories: opening, making, durability, and the counters of the bytes moved.
//!
//! Everything that touches the operating system's files goes through a [`Disk`], so that faults can
//! be injected everywhere and bytes are counted once.
//!
//! - `file`: open files and directories. `content`: their bytes. `names`: renaming, removing,
//!   durability. `beneath`: what lies below an array, where no link is followed. `space`: what is left of it.

mod beneath;
mod content;
mod file;
mod names;
mod space;

pub use beneath::{LINK, is_link};
pub use file::{Access, DiskDir, DiskFile, open_buffered};
pub use names::{device_of, free_space, own_user, parent_of, remove_tree};
pub use space::Promise;

use super::fault::{FaultEngine, Faults, Operation, Step};
use super::queue::IoQueue;
use super::threads::{Pool, ThreadsEngine};
use super::{Direction, IoEngine};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Bytes moved between files and memory, as the kernel accounts for them: in whole pages.
#[derive(Debug, Default)]
pub struct Counters {
    read: AtomicU64,
    written: AtomicU64,
}

const PAGE: u64 = 4096;

impl Counters {
    /// Counts what another library has read, for an array whose elements it gives.
    pub fn add_read_elsewhere(&self, bytes: u64) {
        self.add(Direction::Read, bytes);
    }

    pub(super) fn add(&self, direction: Direction, bytes: u64) {
        let counter = match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.written,
        };
        counter.fetch_add(bytes.next_multiple_of(PAGE), Ordering::Relaxed);
    }

    /// Bytes read so far.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Which engine to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring where it works, threads elsewhere.
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Threads.
    Threads,
}

/// Request sizes and depths that suit a device; from the device profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Largest read request in bytes.
    pub read_request: usize,
    /// Largest write request in bytes.
    pub write_request: usize,
    /// Requests in flight in one queue.
    pub depth: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { read_request: 1 << 20, write_request: 8 << 20, depth: 64 }
    }
}

/// An engine's queue on loan from a [`Disk`].
pub struct LentQueue<'a> {
    disk: &'a Disk,
    queue: Option<IoQueue>,
    /// Queues with injected faults are not kept.
    keep: bool,
}

impl Deref for LentQueue<'_> {
    type Target = IoQueue;
    fn deref(&self) -> &IoQueue {
        self.queue.as_ref().expect("present until drop")
    }
}

impl DerefMut for LentQueue<'_> {
    fn deref_mut(&mut self) -> &mut IoQueue {
        self.queue.as_mut().expect("present until drop")
    }
}

impl Drop for LentQueue<'_> {
    fn drop(&mut self) {
        if let (Some(queue), true) = (self.queue.take(), self.keep) {
            self.disk.idle.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
        }
    }
}

/// The way to files: the engine, the counters, the faults.
pub struct Disk {
    engine: &'static str,
    reasons: Vec<String>,
    pool: OnceLock<Arc<Pool>>,
    idle: Mutex<Vec<IoQueue>>,
    counters: Arc<Counters>,
    faults: RwLock<Option<Arc<Faults>>>,
    tuning: RwLock<HashMap<u64, Tuning>>,
    /// Whether direct I/O works, and its alignment, by device.
    direct: Mutex<HashMap<u64, Option<usize>>>,
    /// What a user should be told once, and has not been told yet.
    warnings: Mutex<Vec<String>>,
    warned: AtomicBool,
    ledger: space::Ledger,
    pid: u32,
}

impl Disk {
    /// Chooses an engine, by trying.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the engine asked for does not work here.
    pub fn new(choice: EngineChoice) -> Result<Arc<Disk>> {
        let mut reasons = Vec::new();
        let mut engine = "threads";
        match (choice, try_uring()) {
            (EngineChoice::Threads, _) => reasons.push("uring: not asked for".into()),
            (_, Ok(())) => engine = "uring",
            (EngineChoice::Uring, Err(error)) => {
                return Err(Error::invalid(format!("the uring engine does not work here: {error}")));
            }
            (EngineChoice::Auto, Err(error)) => reasons.push(format!("uring: {error}")),
        }
        if engine == "uring" {
            reasons.push("threads: not needed, uring works".into());
        }
        Ok(Arc::new(Disk {
            engine,
            reasons,
            pool: OnceLock::new(),
            idle: Mutex::default(),
            counters: Arc::default(),
            faults: RwLock::default(),
            tuning: RwLock::default(),
            direct: Mutex::default(),
            warnings: Mutex::default(),
            warned: AtomicBool::new(false),
            ledger: space::Ledger::default(),
            pid: std::process::id(),
        }))
    }

    /// The engine in use.
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// Why the other engines are not in use, one line each.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Bytes moved so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn warn(&self, message: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// What a user should be told, once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the request sizes for the device with this number.
    pub fn set_tuning(&self, device: u64, tuning: Tuning) {
        self.tuning.write().unwrap_or_else(PoisonError::into_inner).insert(device, tuning);
    }

    /// Whether request sizes were set for the device with this number.
    pub fn is_tuned(&self, device: u64) -> bool {
        self.tuning.read().unwrap_or_else(PoisonError::into_inner).contains_key(&device)
    }

    /// The request sizes for the device a file lies on.
    pub fn tuning(&self, file: impl AsFd) -> Tuning {
        let tuning = self.tuning.read().unwrap_or_else(PoisonError::into_inner);
        if tuning.is_empty() {
            return Tuning::default();
        }
        let device = rustix::fs::fstat(file).map(|s| s.st_dev).unwrap_or(0);
        tuning.get(&device).copied().unwrap_or_default()
    }

    /// Injects faults, or ends that.
    pub fn set_faults(&self, faults: Option<Arc<Faults>>) {
        *self.faults.write().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    fn faults(&self) -> Option<Arc<Faults>> {
        self.faults.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts an operation that no engine performs, and fails it where a rule says so.
    fn checkpoint(&self, operation: Operation) -> io::Result<()> {
        self.faults().map_or(Ok(()), |faults| faults.check(operation))
    }

    /// The same for making an open file or directory durable.
    fn checkpoint_sync(&self, file: impl AsFd) -> io::Result<()> {
        self.faults().map_or(Ok(()), |faults| {
            faults.watch(Step::Sync { inode: rustix::fs::fstat(file)?.st_ino });
            faults.check(Operation::Sync)
        })
    }

    /// The same for an operation that moves `len` bytes: how many of them it is to move.
    fn checkpoint_moving(&self, operation: Operation, len: usize) -> io::Result<usize> {
        self.faults().map_or(Ok(len), |faults| faults.check_moving(operation, len))
    }

    /// An error in a process that was forked from the one that made this.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn check_process(&self) -> Result<()> {
        if std::process::id() == self.pid { Ok(()) } else { Err(Error::Forked) }
    }

    /// A queue, for as long as the returned guard lives.
    ///
    /// # Errors
    /// The engine cannot be made, such as for lack of descriptors or locked memory.
    pub fn queue(&self) -> Result<LentQueue<'_>> {
        self.check_process()?;
        let faults = self.faults();
        if faults.is_none() {
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some(queue) = kept {
                return Ok(LentQueue { disk: self, queue: Some(queue), keep: true });
            }
        }
        let keep = faults.is_none();
        let mut engine = self.make_engine()?;
        if let Some(faults) = faults {
            engine = Box::new(FaultEngine::new(engine, faults));
        }
        Ok(LentQueue { disk: self, queue: Some(IoQueue::new(engine, Arc::clone(&self.counters))), keep })
    }

    fn make_engine(&self) -> Result<Box<dyn IoEngine>> {
        #[cfg(target_os = "linux")]
        if self.engine == "uring" {
            match super::uring::UringEngine::new() {
                Ok(engine) => return Ok(Box::new(engine)),
                // Rings need descriptors and, on old kernels, locked memory; either may run out.
                Err(error) => log::debug!("no further ring ({error}); this queue uses threads"),
            }
        }
        let pool = match self.pool.get() {
            Some(pool) => Arc::clone(pool),
            None => {
                let pool = Pool::new().map_err(|e| Error::io(Path::new("."), "start I/O threads", e))?;
                Arc::clone(self.pool.get_or_init(|| pool))
            }
        };
        Ok(Box::new(ThreadsEngine::new(pool)))
    }
}

/// The error for a failed operation on a file.
fn classify(path: &Path, action: &str, source: io::Error) -> Error {
    classify_moving(path, 0, action, source)
}

/// The error for a failed operation on a file that was to hold `bytes` more bytes.
pub(super) fn classify_moving(path: &Path, bytes: u64, action: &str, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            let dir = if path.is_dir() { path } else { parent_of(path) };
            let free = rustix::fs::statvfs(dir).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize));
            Error::NoSpace { path: path.into(), needed: bytes, free, beside: vec![] }
        }
        Some(libc::EFBIG) => Error::io(path, format!("{action}{}", longest_file()), source),
        _ => Error::io(path, action, source),
    }
}

/// How long a file of this process may become, where that is limited.
fn longest_file() -> String {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(bytes) => format!(" of a file, which may have {bytes} bytes (ulimit -f)"),
        None => String::new(),
    }
}

fn try_uring() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return super::uring::UringEngine::new().map(drop);
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is part of Linux"))
}
