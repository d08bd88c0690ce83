//! Files and directories: opening, making, durability, and the counters of the bytes moved.
//!
//! Everything that touches the operating system's files goes through a [`Disk`], so that faults can
//! be injected everywhere and bytes are counted once.
//!
//! A failed sync is final: the kernel reports a lost write once and then regards the pages as
//! clean, so that a second sync would succeed without the data being there.

use super::fault::{FaultEngine, Faults, Operation};
use super::queue::{Cancel, IoQueue, Transfer};
use super::threads::{Pool, ThreadsEngine};
use super::{Direction, IoEngine};
use crate::error::{Error, Result};
use crate::frame::FRAME_ALIGN;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
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

/// How a file is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// An open file, for direct I/O where the file system allows it.
#[derive(Debug)]
pub struct DiskFile {
    fd: OwnedFd,
    path: PathBuf,
    direct: bool,
    block: usize,
}

impl AsRawFd for DiskFile {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for DiskFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl DiskFile {
    /// Offsets, lengths and memory of requests are multiples of this many bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Whether requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The operating system's.
    pub fn len(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| Error::io(&self.path, "inspect the file", e))?;
        Ok(stat.st_size as u64)
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// The operating system's.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Lets the page cache forget the file, where I/O went through it.
    pub fn drop_cache(&self) {
        if !self.direct {
            let _ = rustix::fs::fadvise(&self.fd, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

/// An open directory; files are opened beneath it, and nothing that a name in it refers to may lead
/// out of it.
#[derive(Debug)]
pub struct DiskDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl DiskDir {
    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl DiskDir {
    /// The descriptor alone.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for DiskDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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

    /// Opens a directory.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open_dir(&self, path: &Path) -> Result<DiskDir> {
        self.check_process()?;
        let fd = self
            .checkpoint(Operation::Open)
            .and_then(|()| Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
            .map_err(|e| classify(path, "open the directory", e))?;
        Ok(DiskDir { fd, path: path.into() })
    }

    /// Opens a file anywhere.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(&self, path: &Path, access: Access) -> Result<DiskFile> {
        self.open_at(None, path, path.into(), flags_of(access))
    }

    /// Opens a file beneath a directory; names that lead out of it are refused.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open_beneath(&self, dir: &DiskDir, name: &str, access: Access) -> Result<DiskFile> {
        self.open_at(Some(dir), Path::new(name), dir.path.join(name), flags_of(access))
    }

    /// Makes a file of `len` bytes beneath a directory, with its space allocated. The directories on
    /// the way are made. An existing file of that name is emptied first.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn create_beneath(&self, dir: &DiskDir, name: &str, len: u64) -> Result<DiskFile> {
        let path = dir.path.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let made = self
            .checkpoint(Operation::Create)
            .map_err(|e| classify(&path, "make the file", e))
            .and_then(|()| self.open_at(Some(dir), Path::new(name), path.clone(), flags));
        let file = match made {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = Path::new(name).parent() {
                    self.make_dirs(dir, parent)?;
                }
                self.open_at(Some(dir), Path::new(name), path, flags)?
            }
            other => other?,
        };
        self.allocate(&file, len)?;
        Ok(file)
    }

    /// Makes a new file of `len` bytes with its space allocated.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's; also where the file exists.
    pub fn create(&self, path: &Path, len: u64) -> Result<DiskFile> {
        self.checkpoint(Operation::Create).map_err(|e| classify(path, "make the file", e))?;
        let file = self.open_at(None, path, path.into(), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        self.allocate(&file, len)?;
        Ok(file)
    }

    /// Makes directories beneath a directory, as far as they are missing.
    ///
    /// # Errors
    /// The operating system's.
    pub fn make_dirs(&self, dir: &DiskDir, name: &Path) -> Result<()> {
        let mut partial = PathBuf::new();
        for part in name.components() {
            partial.push(part);
            match rustix::fs::mkdirat(&dir.fd, &partial, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(classify(&dir.path.join(&partial), "make the directory", e.into())),
            }
        }
        Ok(())
    }

    fn allocate(&self, file: &DiskFile, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let allocated = self.checkpoint(Operation::Allocate).and_then(|()| {
            match rustix::fs::fallocate(&file.fd, FallocateFlags::empty(), 0, len) {
                Err(rustix::io::Errno::OPNOTSUPP) => Ok(rustix::fs::ftruncate(&file.fd, len)?),
                other => Ok(other?),
            }
        });
        allocated.map_err(|e| classify_moving(&file.path, len, &format!("allocate {len} bytes"), e))
    }

    fn open_at(&self, dir: Option<&DiskDir>, name: &Path, path: PathBuf, flags: OFlags) -> Result<DiskFile> {
        self.check_process()?;
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let open = |flags: OFlags| -> io::Result<OwnedFd> {
            match dir {
                None => Ok(rustix::fs::open(name, flags, mode)?),
                Some(dir) => open_resolved_beneath(dir, name, flags, mode),
            }
        };
        let opened = self.checkpoint(Operation::Open).and_then(|()| match open(flags | OFlags::DIRECT) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(flags).map(|fd| (fd, false)),
            other => other.map(|fd| (fd, true)),
        });
        let (fd, flagged) = opened.map_err(|e| classify(&path, "open the file", e))?;
        let block = if flagged { self.direct_block(&fd) } else { None };
        if block.is_none() {
            if flagged {
                set_direct(&fd, false).map_err(|e| classify(&path, "open the file", e))?;
            }
            if !self.warned.swap(true, Ordering::Relaxed) {
                let path = path.display();
                self.warn(format!("{path}: direct I/O is refused here; the page cache is used instead, and evicted"));
            }
        }
        Ok(DiskFile { fd, path, direct: block.is_some(), block: block.unwrap_or(FRAME_ALIGN) })
    }

    /// The alignment of direct I/O on a file's device, or `None` where it does not work.
    fn direct_block(&self, fd: &OwnedFd) -> Option<usize> {
        let device = rustix::fs::fstat(fd).ok()?.st_dev;
        let mut known = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(device).or_insert_with(|| probe_direct(fd))
    }

    /// Writes bytes that need not be aligned, such as a file's end, through the page cache.
    ///
    /// The range must not share a block with any direct request in flight.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn write_unaligned(&self, file: &DiskFile, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        let result = set_direct(&file.fd, false).and_then(|()| {
            while done < bytes.len() {
                let part = self.checkpoint(Operation::Write).and_then(|()| {
                    Ok(rustix::io::pwrite(&file.fd, &bytes[done..], offset + done as u64)?)
                });
                match part {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => done += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            // The kernel accounts for whole pages made dirty.
            let pages = (offset + bytes.len() as u64).div_ceil(4096) - offset / 4096;
            self.counters.add(Direction::Write, pages * 4096);
            if file.direct { set_direct(&file.fd, true) } else { Ok(()) }
        });
        let len = bytes.len();
        result.map_err(|e| classify_moving(&file.path, len as u64, &format!("write {len} bytes at offset {offset}"), e))
    }

    /// Performs transfers on one file; see [`IoQueue::run`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] never: a file that is too short is an `UnexpectedEof` inside [`Error::Io`].
    ///
    /// # Safety
    /// As for [`IoQueue::run`].
    pub unsafe fn transfer(
        &self,
        queue: &mut IoQueue,
        file: &DiskFile,
        transfers: &mut dyn Iterator<Item = Transfer>,
        direction: Direction,
        cancel: &Cancel,
    ) -> Result<()> {
        let tuning = self.tuning(file);
        let request = match direction {
            Direction::Read => tuning.read_request,
            Direction::Write => tuning.write_request,
        };
        // SAFETY: passed on from the caller.
        unsafe { queue.run(transfers, request, tuning.depth, cancel) }.map_err(|e| e.at(&file.path))
    }

    /// Reads a small file whole, through the page cache.
    ///
    /// # Errors
    /// The operating system's; [`Error::Corrupt`] where it has more than `limit` bytes.
    pub fn read_small(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        use std::io::Read;
        self.check_process()?;
        let read = || -> io::Result<Vec<u8>> {
            self.checkpoint(Operation::Open)?;
            let file = std::fs::File::open(path)?;
            let mut bytes = Vec::new();
            self.checkpoint(Operation::Read)?;
            file.take(limit + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // As in the queue, a passing error is retried.
        let mut result = read();
        for _ in 0..3 {
            match &result {
                Err(e) if matches!(e.raw_os_error(), Some(libc::EIO | libc::EINTR | libc::EAGAIN)) => result = read(),
                _ => break,
            }
        }
        let bytes = result.map_err(|e| classify(path, "read the file", e))?;
        if bytes.len() as u64 > limit {
            return Err(Error::corrupt(path, format!("more than {limit} bytes long, which cannot be")));
        }
        Ok(bytes)
    }

    /// Reads the first `len` bytes of a file, or as many as it has, through the page cache.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read_prefix(&self, path: &Path, len: usize) -> Result<Vec<u8>> {
        use std::io::Read;
        let read = || -> io::Result<Vec<u8>> {
            self.checkpoint(Operation::Read)?;
            let mut bytes = Vec::new();
            std::fs::File::open(path)?.take(len as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|e| classify(path, "read the file's beginning", e))
    }

    /// Writes a small file anew and makes it durable, under a temporary name first.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn write_small(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        use std::io::Write;
        self.check_process()?;
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".new");
        let temporary = path.with_file_name(name);
        let write = || -> io::Result<()> {
            self.checkpoint(Operation::Create)?;
            let mut file = std::fs::File::create(&temporary)?;
            self.checkpoint(Operation::Write)?;
            file.write_all(bytes)?;
            self.checkpoint(Operation::Sync)?;
            file.sync_all()?;
            self.checkpoint(Operation::Rename)?;
            std::fs::rename(&temporary, path)
        };
        let len = bytes.len();
        let written = write().map_err(|e| classify_moving(path, len as u64, &format!("write {len} bytes"), e));
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        } else {
            self.counters.add(Direction::Write, (bytes.len() as u64).next_multiple_of(4096));
        }
        written
    }

    /// Makes everything written to the file system of `dir` durable, in one call.
    ///
    /// # Errors
    /// The operating system's; the data must then be regarded as lost.
    pub fn sync_file_system(&self, dir: impl AsFd, path: &Path) -> Result<()> {
        self.checkpoint(Operation::Sync)
            .and_then(|()| Ok(rustix::fs::syncfs(dir)?))
            .map_err(|e| classify(path, "make the data durable", e))
    }

    /// Makes a file or directory durable.
    ///
    /// # Errors
    /// The operating system's; what was written must then be regarded as lost.
    pub fn sync(&self, file: impl AsFd, path: &Path) -> Result<()> {
        self.checkpoint(Operation::Sync)
            .and_then(|()| Ok(rustix::fs::fsync(file)?))
            .map_err(|e| classify(path, "make the data durable", e))
    }

    /// Makes the names in the directory that holds `path` durable.
    ///
    /// # Errors
    /// The operating system's.
    pub fn sync_parent(&self, path: &Path) -> Result<()> {
        let parent = parent_of(path);
        let dir = self.open_dir(parent)?;
        self.sync(&dir, parent)
    }

    /// Renames; where `replace` is not set, an existing target is an error.
    ///
    /// # Errors
    /// [`Error::Exists`], or the operating system's.
    pub fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        let cwd = rustix::fs::CWD;
        let renamed = self.checkpoint(Operation::Rename).and_then(|()| {
            if replace {
                return Ok(std::fs::rename(from, to)?);
            }
            match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    // The file system has no such operation; a look beforehand is the next best.
                    if to.symlink_metadata().is_ok() { Err(io::ErrorKind::AlreadyExists.into()) } else { std::fs::rename(from, to) }
                }
                other => Ok(other?),
            }
        });
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: to.into() },
            _ => classify(to, "put the new array in place", e),
        })
    }

    /// Exchanges two names, atomically where the file system can do so.
    ///
    /// # Errors
    /// The operating system's.
    pub fn exchange(&self, one: &Path, other: &Path) -> Result<()> {
        let cwd = rustix::fs::CWD;
        let exchanged = self.checkpoint(Operation::Rename).and_then(|()| {
            match rustix::fs::renameat_with(cwd, one, cwd, other, RenameFlags::EXCHANGE) {
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    let mut name = other.file_name().unwrap_or_default().to_os_string();
                    name.push(".old");
                    let aside = other.with_file_name(name);
                    std::fs::rename(other, &aside)?;
                    std::fs::rename(one, other)?;
                    std::fs::rename(&aside, one)
                }
                result => Ok(result?),
            }
        });
        exchanged.map_err(|e| classify(other, "put the new array in place", e))
    }

    /// Removes a file or a directory with everything in it. Nothing there is no error.
    ///
    /// # Errors
    /// The operating system's.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.checkpoint(Operation::Remove).and_then(|()| match path.symlink_metadata() {
            Ok(m) if m.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
            Err(e) => Err(e),
        });
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(classify(path, "remove", e)),
            _ => Ok(()),
        }
    }

    /// An error where a directory's file system has not `needed` bytes left.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn require_space(&self, dir: &Path, needed: u64) -> Result<()> {
        let free = free_space(dir)?;
        if needed > free {
            return Err(Error::NoSpace { path: dir.into(), needed, free });
        }
        Ok(())
    }
}

/// Bytes that a directory's file system has left for this user.
///
/// # Errors
/// The operating system's.
pub fn free_space(dir: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| classify(dir, "inspect the file system", e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The directory that holds `path`.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The device number of a path's file system.
///
/// # Errors
/// The operating system's.
pub fn device_of(path: &Path) -> Result<u64> {
    Ok(rustix::fs::stat(path).map_err(|e| classify(path, "inspect", e.into()))?.st_dev)
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
            Error::NoSpace { path: path.into(), needed: bytes, free }
        }
        _ => Error::io(path, action, source),
    }
}

fn flags_of(access: Access) -> OFlags {
    match access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
    }
}

fn open_resolved_beneath(dir: &DiskDir, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&dir.fd, name, flags, mode, resolve) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            // No openat2 here: no symbolic link at all on the way, then.
            let mut partial = PathBuf::new();
            for part in name.components() {
                if !matches!(part, std::path::Component::Normal(_)) {
                    return Err(io::Error::from_raw_os_error(libc::EXDEV));
                }
                partial.push(part);
                match rustix::fs::statat(&dir.fd, &partial, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(s) if s.st_mode & libc::S_IFMT == libc::S_IFLNK => {
                        return Err(io::Error::from_raw_os_error(libc::EXDEV));
                    }
                    _ => {}
                }
            }
            Ok(rustix::fs::openat(&dir.fd, name, flags | OFlags::NOFOLLOW, mode)?)
        }
        other => Ok(other?),
    }
}

fn set_direct(fd: &OwnedFd, on: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(fd)?;
    flags.set(OFlags::DIRECT, on);
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// What the kernel says of direct I/O, or what a read shows where it says nothing.
fn probe_direct(fd: &OwnedFd) -> Option<usize> {
    if let Ok(stat) = rustix::fs::statx(fd, OsStr::new(""), AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let align = stat.stx_dio_offset_align.max(stat.stx_dio_mem_align) as usize;
        // Offsets are handled in units of a frame's alignment at least; where more is asked for,
        // memory could not keep up.
        return (align > 0 && align <= FRAME_ALIGN).then_some(FRAME_ALIGN);
    }
    let mut block = AlignedBlock([0; FRAME_ALIGN]);
    match rustix::io::pread(fd, &mut block.0[..], 0) {
        Ok(_) => Some(FRAME_ALIGN),
        Err(_) => None,
    }
}

#[repr(align(4096))]
struct AlignedBlock([u8; FRAME_ALIGN]);

fn try_uring() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return super::uring::UringEngine::new().map(drop);
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is part of Linux"))
}
