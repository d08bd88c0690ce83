//! The right to write an array, and the moment it becomes visible.
//!
//! A new array is built beside its final place, under a name derived from it: `.NAME.outcrop-new`.
//! The name makes it the one thing that a second writer and a later run look for; a lock on it, which
//! the kernel releases however the process ends, tells the two apart:
//! - locked: someone is writing, and the second writer is told who;
//! - not locked: a leftover of a run that was killed, and removed.
//!
//! Publishing is one rename (or one exchange of names, where an old array is replaced), so that a
//! reader sees the old array or the new one.
//!
//! Where the file system cannot exchange names, a file is replaced by an ordinary rename, and a
//! directory in two steps, each durable before the next:
//!
//! | | `NAME` | `.NAME.outcrop-new` |
//! |---|---|---|
//! | before | the old array | the new array |
//! | step 1 | nothing | the new array, with the old one in it as `.outcrop-old` |
//! | step 2 | the new array, with the old one in it as `.outcrop-old` | nothing |
//! | after | the new array | nothing |
//!
//! Killed after step 1, the old array is read where it is, and put back by the next writer; killed after
//! step 2, it is removed by the next writer. Since the old array goes where the new one is, there is
//! never a third name that could be taken for the array later.

use super::group::Renewal;
use crate::error::{Error, Result};
use crate::format::MAX_METADATA_BYTES;
use crate::format::zarr::{METADATA_FILE, V2_METADATA_FILE, consolidated};
use crate::io::disk::{Disk, DiskDir, own_user, parent_of, remove_tree};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place that is being built, locked.
pub struct Claim {
    disk: Arc<Disk>,
    path: PathBuf,
    target: PathBuf,
    overwrite: bool,
    lock: Option<OwnedFd>,
    /// Given up so that a process without descriptors can still clean up.
    spare: Option<OwnedFd>,
}

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file, not made yet: the claim is on a directory that will hold it.
    File,
}

/// The name inside a file's claim.
const FILE: &str = "data";

/// The name inside a directory's claim of the array that it replaces, where names cannot be exchanged.
pub(in crate::store) const OLD: &str = ".outcrop-old";

/// The second name of a file that is being replaced where names cannot be exchanged. It is not the array's: that name
/// has the old file or the new one throughout.
const KEPT: &str = ".outcrop-kept";

impl Claim {
    /// Claims `target`. Leftovers of killed runs are removed.
    ///
    /// # Errors
    /// [`Error::Exists`] where something is there and `overwrite` is not set, or what is there is no
    /// array; [`Error::Busy`]; the operating system's.
    pub fn new(disk: &Arc<Disk>, target: &Path, kind: Kind, overwrite: bool) -> Result<Claim> {
        disk.check_process()?;
        let target = match target.canonicalize() {
            Ok(real) if overwrite => real,
            Err(_) if put_aside(target).is_some() => end_of_links(target),
            _ => target.to_path_buf(),
        };
        let Some(name) = target.file_name() else {
            return Err(Error::invalid(format!("{}: not a name for an array", target.display())));
        };
        let parent = parent_of(&target);
        if !parent.is_dir() {
            return Err(Error::NotFound {
                path: target.clone(),
                hint: format!(" (the directory {} does not exist)", parent.display()),
            });
        }
        // Where it really lies: by way of a link, or from a working directory, that is not in its name.
        let real = parent.canonicalize().unwrap_or_else(|_| parent.to_path_buf());
        if let Some(outer) = real.ancestors().find(|p| is_array(disk, p)) {
            let what = format!("lies inside the array {}, which owns its directory", outer.display());
            return Err(Error::unsupported(&target, what));
        }
        let path = target.with_file_name(staging_name(name));
        let (lock, spare) = lock_new_directory(disk, &path, &target, mode_beside(&target, overwrite))?;
        let claim =
            Claim { disk: Arc::clone(disk), path, target, overwrite, lock: Some(lock), spare: Some(spare) };
        // Looked at under the lock, so that a leftover is removed even where the run that left it
        // behind had published already.
        claim.check_target(kind)?;
        Ok(claim)
    }

    fn check_target(&self, kind: Kind) -> Result<()> {
        let Ok(found) = self.target.symlink_metadata() else { return Ok(()) };
        if found.is_dir() {
            remove_old(&self.disk, &self.target);
        }
        if !self.overwrite {
            return Err(Error::Exists { path: self.target.clone() });
        }
        let is_empty = |p: &Path| p.read_dir().is_ok_and(|mut d| d.next().is_none());
        let replaceable = match kind {
            _ if found.is_dir() => is_array(&self.disk, &self.target) || is_empty(&self.target),
            _ => found.is_file(),
        };
        if !replaceable {
            return Err(Error::unsupported(&self.target, "is not an array, and will not be overwritten"));
        }
        // Whoever has it open for writing would go on writing into what has taken its place.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if let Ok(old) = rustix::fs::open(&self.target, flags, Mode::empty())
            && !try_lock(&old, &self.target)?
        {
            return Err(Error::Busy { path: self.target.clone(), holder: holder(&self.target) });
        }
        Ok(())
    }

    /// Opens the directory that is being built.
    ///
    /// # Errors
    /// The operating system's; also where another has taken its place.
    pub fn open_dir(&self) -> Result<DiskDir> {
        let dir = self.disk.open_dir_itself(&self.path)?;
        let id = |fd: BorrowedFd| rustix::fs::fstat(fd).map(|s| (s.st_dev, s.st_ino)).ok();
        let lock = self.lock.as_ref().expect("held until it is published");
        if id(dir.as_fd()) != id(lock.as_fd()) {
            return Err(Error::Busy { path: self.path.clone(), holder: "another process".into() });
        }
        Ok(dir)
    }

    /// The directory that is being built, or that holds the file that is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file lies that is being built.
    pub fn file_path(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Where it will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Puts what was built in place, durably. What is in it must be durable already. Returns the lock,
    /// which for a directory is now that on the array.
    ///
    /// # Errors
    /// The operating system's; nothing is visible then.
    pub fn publish(mut self, kind: Kind) -> Result<OwnedFd> {
        let built = match kind {
            Kind::Directory => self.path.clone(),
            Kind::File => self.file_path(),
        };
        let renewal = Renewal::begin(&self.disk, &self.target)?;
        let replaces = self.overwrite && self.target.symlink_metadata().is_ok();
        if replaces && kind == Kind::File {
            take_over(&self.target, &built)?;
        }
        if !replaces {
            self.disk.rename_new(&built, &self.target)?;
            self.durably(|| self.disk.rename_new(&self.target, &built))?;
        } else if self.disk.exchange(&built, &self.target)? {
            self.durably(|| self.disk.exchange(&built, &self.target).map(drop))?;
        } else if kind == Kind::File {
            self.replace_file(&built)?;
        } else {
            self.replace_directory()?;
        }
        renewal.finish(&self.target);
        // What was replaced, or the empty directory around a file, goes now; if it cannot, the next
        // run that writes here removes it.
        let _ = self.disk.remove(&self.path);
        Ok(self.lock.take().expect("held until here"))
    }

    /// Makes a renaming durable. A commit that is not durable has failed: back to what was.
    fn durably(&self, undo: impl FnOnce() -> Result<()>) -> Result<()> {
        self.disk.sync_parent(&self.target).or_else(|error| {
            undo()?;
            Err(error)
        })
    }

    /// Replaces a file where names cannot be exchanged. A second name keeps the old one until the new
    /// one is durable, where the file system has such.
    fn replace_file(&self, built: &Path) -> Result<()> {
        let kept = self.path.join(KEPT);
        let is_kept = std::fs::hard_link(&self.target, &kept).is_ok();
        self.disk.rename(built, &self.target)?;
        self.durably(|| if is_kept { self.disk.rename(&kept, &self.target) } else { Ok(()) })
    }

    /// Replaces a directory where names cannot be exchanged; see the top of this module.
    fn replace_directory(&self) -> Result<()> {
        let aside = self.path.join(OLD);
        self.disk.rename(&self.target, &aside)?;
        let lock = self.lock.as_ref().expect("held until it is published");
        let renamed = self
            .disk
            .sync(lock, &self.path)
            .and_then(|()| self.disk.sync_parent(&self.target))
            .and_then(|()| self.disk.rename_new(&self.path, &self.target));
        if let Err(error) = renamed {
            self.disk.rename(&aside, &self.target)?;
            return Err(error);
        }
        self.durably(|| {
            self.disk.rename_new(&self.target, &self.path)?;
            self.disk.rename(&aside, &self.target)
        })?;
        let _ = self.disk.remove(&self.target.join(OLD));
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.lock.is_some() && self.disk.check_process().is_ok() {
            self.spare = None;
            // An old array that could not be put back is not thrown away.
            if put_aside(&self.target).is_none() {
                let _ = remove_tree(&self.path);
            }
        }
    }
}

/// The mode of a directory in which what will replace a target is built: who may not read a file may not read what is
/// made of it.
fn mode_beside(target: &Path, overwrite: bool) -> Mode {
    let old = target.metadata().ok().filter(|found| overwrite && found.is_file());
    let private = old.is_some_and(|found| found.permissions().mode() & 0o004 == 0);
    Mode::from_raw_mode(if private { 0o700 } else { 0o777 })
}

/// Gives a file the permissions of the one that it replaces, and its owner and group where that is allowed.
fn take_over(old: &Path, new: &Path) -> Result<()> {
    let found = old.metadata().map_err(|e| Error::io(old, "look at", e))?;
    if !found.is_file() {
        return Ok(());
    }
    let mode = found.permissions().mode();
    let owned = chown(new, Some(found.uid()), Some(found.gid())).is_ok();
    // With another owner or group, what these may do is not for whom it was meant.
    let mode = if owned { mode & 0o7777 } else { mode & 0o707 };
    let changed = std::fs::set_permissions(new, Permissions::from_mode(mode));
    changed.map_err(|e| Error::io(new, "set the permissions of", e))
}

/// Whether a directory is a Zarr array, of any kind that is not a group.
fn is_array(disk: &Disk, dir: &Path) -> bool {
    let Ok(dir) = disk.open_dir(dir) else { return false };
    let is_file = |name| {
        let found = disk.look_beneath(&dir, name).ok().flatten();
        found.is_some_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile)
    };
    let limit = MAX_METADATA_BYTES as u64;
    let is_group = || {
        // More than an array has: a group's, with copies of the metadata of what is in it.
        let found = disk.look_beneath(&dir, METADATA_FILE).ok().flatten();
        if found.is_some_and(|s| s.st_size as u64 > limit) {
            return true;
        }
        let json = disk.read_small_beneath(&dir, METADATA_FILE, limit);
        json.is_ok_and(|json| consolidated::is_group(&json))
    };
    // What cannot be read is no group for certain: metadata that is damaged may be replaced.
    (is_file(METADATA_FILE) && !is_group()) || is_file(V2_METADATA_FILE)
}

/// Where the array of this name was put aside by a writer that is replacing it, or was killed while it
/// was.
pub(in crate::store) fn put_aside(path: &Path) -> Option<PathBuf> {
    let path = end_of_links(path);
    let staged = path.with_file_name(staging_name(path.file_name()?));
    let aside = staged.join(OLD);
    let is_dir = |p: &Path| p.symlink_metadata().is_ok_and(|found| found.is_dir());
    // A directory may have taken the place of a file.
    let is_array = |p: &Path| p.symlink_metadata().is_ok_and(|found| found.is_dir() || found.is_file());
    let is_gone = path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    (is_gone && is_dir(&staged) && is_array(&aside) && is_of_ours(&staged)).then_some(aside)
}

/// Whether what is staged belongs to this user, or to whoever has the directory that it is in, who could put
/// any array there anyway. In a directory that many write to, a name alone says nothing.
fn is_of_ours(staged: &Path) -> bool {
    let Ok(found) = staged.symlink_metadata() else { return false };
    found.uid() == own_user() || parent_of(staged).metadata().is_ok_and(|dir| dir.uid() == found.uid())
}

/// An error where what has the name under which an array is to be built cannot be a leftover of ours.
fn check_leftover(staged: &Path) -> Result<()> {
    let Ok(found) = staged.symlink_metadata() else { return Ok(()) };
    let kind = found.file_type();
    let what = match () {
        () if kind.is_symlink() => "is a symbolic link".into(),
        () if kind.is_file() => "is a file".into(),
        () if kind.is_fifo() => "is a named pipe".into(),
        () if !kind.is_dir() => "is no directory".into(),
        () if staged.join(OLD).symlink_metadata().is_ok() && !is_of_ours(staged) => {
            format!("holds an array that user {} has put aside", found.uid())
        }
        () => return Ok(()),
    };
    let why = "and stands where the new array is to be built; it was left alone, and has to be removed first";
    Err(Error::unsupported(staged, format!("{what}, {why}")))
}

/// Gives an array that was put aside its name back.
///
/// # Errors
/// [`Error::Busy`] where the writer that put it aside is at work; the operating system's.
pub(in crate::store) fn put_back(disk: &Disk, path: &Path) -> Result<()> {
    let path = end_of_links(path);
    let staged = path.with_file_name(staging_name(path.file_name().unwrap_or_default()));
    match lock_directory(&staged)? {
        Some(_lock) => restore(disk, &path),
        None => Err(Error::Busy { path: path.clone(), holder: holder(&staged) }),
    }
}

/// The same for who has the lock on the name under which the array was to be built, where there is such
/// an array.
fn restore(disk: &Disk, path: &Path) -> Result<()> {
    if let Some(aside) = put_aside(path) {
        disk.rename_new(&aside, path)?;
        disk.sync_parent(path)?;
    }
    Ok(())
}

/// Removes what an array has left inside of the one that took its place, unless somebody is at work there.
fn remove_old(disk: &Disk, array: &Path) {
    let Ok(dir) = disk.open_dir_itself(array) else { return };
    if matches!(disk.look_beneath(&dir, OLD), Ok(Some(_))) && matches!(try_lock(&dir, array), Ok(true)) {
        let _ = disk.remove_beneath(&dir, OLD);
    }
}

/// What a path refers to at last; that need not be there.
fn end_of_links(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..40 {
        match std::fs::read_link(&path) {
            Ok(next) => path = parent_of(&path).join(next),
            Err(_) => break,
        }
    }
    path
}

/// The name under which an array is built. Of a long name only the beginning is in it, since names
/// have at most 255 bytes.
pub(in crate::store) fn staging_name(name: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    const LONGEST: usize = 200;
    let bytes = name.as_bytes();
    let mut staged = OsString::from(".");
    if bytes.len() > LONGEST {
        staged.push(OsString::from_vec(bytes[..LONGEST].to_vec()));
        staged.push(format!("~{:08x}", crate::format::crc32c(bytes)));
    } else {
        staged.push(name);
    }
    staged.push(".outcrop-new");
    staged
}

/// Makes a directory and locks it; one that is there and not locked is removed first. The second
/// descriptor is a duplicate of the lock.
fn lock_new_directory(disk: &Disk, path: &Path, target: &Path, mode: Mode) -> Result<(OwnedFd, OwnedFd)> {
    for _ in 0..100 {
        match rustix::fs::mkdir(path, mode) {
            Ok(()) => {
                // Another process may take it for a leftover before it is locked; then it is theirs.
                let locked = lock_directory(path).and_then(|lock| {
                    let copy = |lock: OwnedFd| {
                        let spare = lock.try_clone().map_err(|e| Error::io(path, "lock", e))?;
                        Ok((lock, spare))
                    };
                    lock.map(copy).transpose()
                });
                match locked {
                    Ok(Some(locks)) => return Ok(locks),
                    Ok(None) => {}
                    Err(error) => {
                        // Empty still, or it is no longer ours.
                        let _ = std::fs::remove_dir(path);
                        return Err(error);
                    }
                }
            }
            Err(rustix::io::Errno::EXIST) => {
                match check_leftover(path).and_then(|()| lock_directory(path))? {
                    Some(_lock) => {
                        restore(disk, target)?;
                        disk.remove(path)?;
                    }
                    None => return Err(Error::Busy { path: path.into(), holder: holder(path) }),
                }
            }
            Err(e) => return Err(Error::io(path, "make the directory", e)),
        }
    }
    Err(Error::Busy { path: path.into(), holder: "other processes".into() })
}

/// Locks a directory that is still at this path; `None` where another process has it or has just
/// removed it.
fn lock_directory(path: &Path) -> Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(e) => return Err(Error::io(path, "open the directory", e)),
    };
    Ok((try_lock(&fd, path)? && still_there(&fd, path)).then_some(fd))
}

/// Locks an open file or directory; `false` where another has it.
pub(in crate::store) fn try_lock(fd: impl AsFd, path: &Path) -> Result<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(Error::io(path, "lock", e)),
    }
}

/// Whether `path` still names the file that `fd` is open on.
pub(in crate::store) fn still_there(fd: impl AsFd, path: &Path) -> bool {
    match (rustix::fs::fstat(fd), rustix::fs::stat(path)) {
        (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}

/// Who holds the lock on a path, as far as the kernel tells.
pub(in crate::store) fn holder(path: &Path) -> String {
    let found = || -> io::Result<Option<String>> {
        let inode = format!(":{}", rustix::fs::stat(path)?.st_ino);
        let locks = std::fs::read_to_string("/proc/locks")?;
        Ok(locks.lines().find_map(|line| {
            // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, _, pid, file, ..] = fields[..] else { return None };
            file.ends_with(&inode).then(|| format!("process {pid}"))
        }))
    };
    found().ok().flatten().unwrap_or_else(|| "another process".into())
}
