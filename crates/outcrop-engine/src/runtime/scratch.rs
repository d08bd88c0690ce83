//! Where spilled temporaries go.

use super::Runtime;
use outcrop_store::format::crc32c;
use outcrop_store::io::disk::{free_space, own_user};
use outcrop_store::io::{Direction, DiskFile, Transfer};
use outcrop_store::store::Mover;
use outcrop_store::{Error, Result, io::Disk};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file without a name: it vanishes with the process, however that ends. Where a file system has no such files,
/// it has a name for a moment, by which the next one finds it should the process be killed in that.
pub struct Scratch {
    file: DiskFile,
    dir: PathBuf,
    len: u64,
    /// Of what was stored at each place, the checksum.
    checksums: Mutex<HashMap<u64, u32>>,
}

/// The directory for scratch where none is set: a disk, rather than memory that looks like one.
pub fn default_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("TMPDIR").filter(|d| !d.is_empty()) {
        return dir.into();
    }
    let var = Path::new("/var/tmp");
    if var.is_dir() { var.into() } else { std::env::temp_dir() }
}

/// The names of scratch directories begin with this.
const DIRECTORY: &str = ".outcrop-operand-";

/// The names of scratch files that are about to have none begin with this.
const FILE: &str = ".outcrop-scratch-";

/// A directory for temporaries that need a name. It goes with this value; where the process is killed, with
/// the next one that is made beside it.
pub struct ScratchDir {
    path: PathBuf,
    /// Locked: it is in use.
    _lock: File,
    pid: u32,
}

impl ScratchDir {
    /// A new directory inside `parent`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(parent: &Path) -> Result<ScratchDir> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        check(parent)?;
        remove_abandoned(parent);
        let pid = std::process::id();
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{DIRECTORY}{pid}-{count}"));
            match std::fs::create_dir(&path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(|e| Error::io(&path, "make a scratch directory", e))?,
            }
            // Until it is locked, another process may take it for abandoned.
            match locked(&path) {
                Ok(Some(lock)) => return Ok(ScratchDir { path, _lock: lock, pid }),
                Ok(None) => {}
                Err(error) => {
                    let _ = std::fs::remove_dir(&path);
                    return Err(Error::io(&path, "lock the scratch directory", error));
                }
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if self.pid == std::process::id()
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            log::debug!("{}: not removed: {error}", self.path.display());
        }
    }
}

/// That a directory that was there when it was chosen still is.
fn check(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    Err(Error::io(dir, "use it as the scratch directory", std::io::Error::other("it is not there any more")))
}

/// Removes what processes that have gone left behind. Only what belongs to the same user: in a directory that many
/// write to, a name alone says nothing.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let user = own_user();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = |with| is_numbered(name.as_encoded_bytes(), with);
        let path = entry.path();
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.uid() != user {
            continue;
        }
        if is_ours(FILE) && found.is_file() {
            // Its maker has it open, and wants it without its name.
            let _ = std::fs::remove_file(&path);
        } else if is_ours(DIRECTORY) && found.is_dir() && locked(&path).is_ok_and(|lock| lock.is_some()) {
            // Links in it go, and not what they lead to.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether a name is one that we give, `prefixPID-N`, and not somebody's own that begins alike.
fn is_numbered(name: &[u8], prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix.as_bytes()) else { return false };
    let mut numbers = rest.split(|&byte| byte == b'-');
    let mut number = || numbers.next().is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit));
    number() && number() && numbers.next().is_none()
}

/// A directory, opened and locked; `None` where somebody else has it, or it is not in its place any more. A link is not
/// followed, and nothing is waited for.
fn locked(path: &Path) -> std::io::Result<Option<File>> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let directory = match File::options().read(true).custom_flags(flags).open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match directory.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
        Ok(()) => {}
    }
    let opened = directory.metadata()?;
    let there = path.symlink_metadata();
    let is_there = there.is_ok_and(|there| (there.dev(), there.ino()) == (opened.dev(), opened.ino()));
    Ok(is_there.then_some(directory))
}

/// A file that has its name for as long as that takes.
fn create_and_unlink(disk: &Disk, dir: &Path, len: u64) -> Result<DiskFile> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("{FILE}{}-{count}", std::process::id()));
    let created = disk.create(&path, len);
    // Also after an error: without its name the file goes away by itself.
    let removed = std::fs::remove_file(&path);
    let file = created?;
    match removed {
        // Another process, which took it for abandoned, was as good as this one.
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(&path, "unlink the scratch file", e)),
        _ => Ok(file),
    }
}

impl Scratch {
    /// Scratch space of `len` bytes in a directory.
    ///
    /// # Errors
    /// [`Error::NoSpace`] naming the directory and the need; the operating system's.
    pub fn new(disk: &Disk, dir: &Path, len: u64) -> Result<Scratch> {
        check(dir)?;
        remove_abandoned(dir);
        disk.require_space(dir, len)?;
        let file = match disk.create_unnamed(dir, len)? {
            Some(file) => file,
            None => create_and_unlink(disk, dir, len)?,
        };
        Ok(Scratch { file, dir: dir.into(), len, checksums: Mutex::default() })
    }

    /// Whether its file system has at least three times as much left, so that it may be kept.
    pub fn is_small_beside_what_is_left(&self) -> bool {
        free_space(&self.dir).is_ok_and(|free| free / 3 >= self.len)
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no space.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The directory it is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores `bytes` bytes from `memory` at `offset`; all are multiples of 4096.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the operating system's; [`Error::Interrupted`].
    ///
    /// # Safety
    /// The memory is valid, and nobody writes it meanwhile.
    pub unsafe fn store(&self, mover: &mut Mover, memory: *mut u8, bytes: usize, offset: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        let checksum = crc32c(unsafe { std::slice::from_raw_parts(memory, bytes) });
        let mut write = std::iter::once(Transfer::write(&self.file, offset, memory, bytes));
        // SAFETY: the caller's promise.
        unsafe { self.transfer(mover, &mut write, Direction::Write)? };
        self.checksums.lock().unwrap_or_else(PoisonError::into_inner).insert(offset, checksum);
        Ok(())
    }

    /// Loads what was stored at `offset`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where it is not what was stored; otherwise as [`store`](Self::store).
    ///
    /// # Safety
    /// The memory is valid, and nobody else uses it meanwhile.
    pub unsafe fn load(&self, mover: &mut Mover, memory: *mut u8, bytes: usize, offset: u64) -> Result<()> {
        let mut read = std::iter::once(Transfer::read(&self.file, offset, memory, bytes, bytes));
        // SAFETY: the caller's promise.
        unsafe { self.transfer(mover, &mut read, Direction::Read)? };
        // SAFETY: as above.
        let computed = crc32c(unsafe { std::slice::from_raw_parts(memory, bytes) });
        let stored = self.checksums.lock().unwrap_or_else(PoisonError::into_inner).get(&offset).copied();
        if stored != Some(computed) {
            return Err(Error::corrupt(
                &self.dir,
                format!("scratch space at byte {offset} holds other bytes than were written there"),
            ));
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Disk::transfer`].
    unsafe fn transfer(
        &self,
        mover: &mut Mover,
        transfers: &mut dyn Iterator<Item = Transfer>,
        direction: Direction,
    ) -> Result<()> {
        let cancel = mover.cancel.clone();
        let disk = mover.disk;
        let (queue, _, _) = mover.parts(0)?;
        // SAFETY: passed on from the caller.
        let moved = unsafe { disk.transfer(queue, &self.file, transfers, direction, &cancel) };
        self.file.drop_cache();
        moved
    }
}

pub(super) type Kept = Arc<Mutex<Option<Scratch>>>;

/// Scratch space of a run. It goes with this, unless it is [kept](Self::keep).
pub struct Lease {
    scratch: Scratch,
    kept: Kept,
}

impl std::ops::Deref for Lease {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Lease {
    /// Lets the next run have it, where that leaves most of the file system to others.
    pub fn keep(self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let larger = kept.as_ref().is_none_or(|other| other.len() < self.scratch.len());
        if larger && self.scratch.is_small_beside_what_is_left() {
            *kept = Some(self.scratch);
        }
    }
}

/// Lets scratch space go that is kept when the disk needs its space.
pub(super) fn yields(disk: &Disk, scratch: &Kept) {
    let scratch = Arc::downgrade(scratch);
    disk.set_reclaim(move || {
        let kept = scratch.upgrade();
        kept.is_some_and(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner).take().is_some())
    });
}

impl Runtime {
    /// The directory for scratch.
    pub fn scratch_dir(&self) -> PathBuf {
        self.settings.scratch.clone().unwrap_or_else(default_dir)
    }

    /// Scratch space of at least so many bytes, for one run; `None` where none are needed.
    ///
    /// # Errors
    /// [`Error::NoSpace`] naming the directory; the operating system's.
    pub fn scratch(&self, bytes: u64) -> Result<Option<Lease>> {
        if bytes == 0 {
            return Ok(None);
        }
        // What is too small goes first: its space may be what the larger one needs.
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let scratch = match kept.filter(|s| s.len() >= bytes) {
            Some(scratch) => scratch,
            None => Scratch::new(&self.disk, &self.scratch_dir(), bytes)?,
        };
        Ok(Some(Lease { scratch, kept: Arc::clone(&self.scratch) }))
    }

    /// Bytes of scratch space that are kept for the next run.
    pub fn scratch_held(&self) -> u64 {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Scratch::len)
    }

    /// Keeps no scratch space any longer.
    pub fn let_scratch_go(&self) {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What was left behind goes, with the links and pipes in it; what they lead to stays, and nothing is waited for.
    #[test]
    fn what_is_abandoned_goes_and_what_it_links_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let (outside, parent) = (place.path().join("outside"), place.path().join("scratch"));
        std::fs::create_dir_all(outside.join("below")).unwrap();
        std::fs::write(outside.join("below/file"), b"precious").unwrap();
        std::fs::create_dir(&parent).unwrap();
        let left = parent.join(format!("{DIRECTORY}1-0"));
        std::fs::create_dir_all(left.join("deep/er")).unwrap();
        symlink(&outside, left.join("deep/er/link")).unwrap();
        symlink(outside.join("below/file"), left.join("link")).unwrap();
        std::fs::hard_link(outside.join("below/file"), left.join("deep/hard")).unwrap();
        std::fs::hard_link(outside.join("below/file"), parent.join(format!("{FILE}1-0"))).unwrap();
        // Of these kinds nothing is ours.
        let others = [
            format!("{DIRECTORY}1-1"),
            format!("{FILE}1-1"),
            format!("{DIRECTORY}1-2"),
            format!("{FILE}1-2"),
            format!("{FILE}mine"),
            format!("{FILE}1-3-backup"),
            format!("{FILE}1-"),
            format!("{DIRECTORY}1-3-backup"),
        ];
        for name in &others[4..7] {
            std::fs::write(parent.join(name), b"somebody's own").unwrap();
        }
        std::fs::create_dir(parent.join(&others[7])).unwrap();
        symlink(&outside, parent.join(&others[0])).unwrap();
        symlink(outside.join("below/file"), parent.join(&others[1])).unwrap();
        for pipe in [parent.join(&others[2]), parent.join(&others[3]), left.join("deep/pipe")] {
            make_pipe(&pipe);
        }
        remove_abandoned(&parent);
        let mut names: Vec<String> = std::fs::read_dir(&parent)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut expected = others.to_vec();
        expected.sort();
        assert_eq!(names, expected);
        assert_eq!(std::fs::read(outside.join("below/file")).unwrap(), b"precious");
    }

    fn make_pipe(path: &Path) {
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a string that ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }

    #[test]
    fn what_is_no_directory_any_more_is_neither_opened_nor_followed() {
        let place = tempfile::tempdir().unwrap();
        let (real, link, pipe) =
            (place.path().join("real"), place.path().join("link"), place.path().join("pipe"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        make_pipe(&pipe);
        assert!(locked(&link).is_err());
        assert!(locked(&pipe).is_err());
        assert!(locked(&place.path().join("nothing")).unwrap().is_none());
        let lock = locked(&real).unwrap().unwrap();
        assert!(locked(&real).unwrap().is_none(), "somebody has it");
        drop(lock);
        assert!(locked(&real).unwrap().is_some());
    }
}
