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

use super::group::Renewal;
use crate::error::{Error, Result};
use crate::format::zarr::consolidated;
use crate::io::disk::{Disk, parent_of, remove_tree};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
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
        if let Some(outer) = real.ancestors().find(|p| is_array(p)) {
            let what = format!("lies inside the array {}, which owns its directory", outer.display());
            return Err(Error::unsupported(&target, what));
        }
        let path = target.with_file_name(staging_name(name));
        let (lock, spare) = lock_new_directory(disk, &path, mode_beside(&target, overwrite))?;
        let claim =
            Claim { disk: Arc::clone(disk), path, target, overwrite, lock: Some(lock), spare: Some(spare) };
        // Looked at under the lock, so that a leftover is removed even where the run that left it
        // behind had published already.
        claim.check_target(kind)?;
        Ok(claim)
    }

    fn check_target(&self, kind: Kind) -> Result<()> {
        let Ok(found) = self.target.symlink_metadata() else { return Ok(()) };
        if !self.overwrite {
            return Err(Error::Exists { path: self.target.clone() });
        }
        let is_empty = |p: &Path| p.read_dir().is_ok_and(|mut d| d.next().is_none());
        let replaceable = match kind {
            _ if found.is_dir() => is_array(&self.target) || is_empty(&self.target),
            _ => found.is_file(),
        };
        if !replaceable {
            return Err(Error::unsupported(&self.target, "is not an array, and will not be overwritten"));
        }
        // Whoever has it open for writing would go on writing into what has taken its place.
        if let Ok(old) = rustix::fs::open(&self.target, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            && !try_lock(&old, &self.target)?
        {
            return Err(Error::Busy { path: self.target.clone(), holder: holder(&self.target) });
        }
        Ok(())
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
        if replaces {
            if kind == Kind::File {
                take_over(&self.target, &built)?;
            }
            self.disk.exchange(&built, &self.target)?;
        } else {
            self.disk.rename(&built, &self.target, false)?;
        }
        if let Err(error) = self.disk.sync_parent(&self.target) {
            // A commit that is not durable has failed: back to what was.
            let undone = if replaces {
                self.disk.exchange(&built, &self.target)
            } else {
                self.disk.rename(&self.target, &built, false)
            };
            undone?;
            return Err(error);
        }
        renewal.finish(&self.target);
        // What was replaced, or the empty directory around a file, goes now; if it cannot, the next
        // run that writes here removes it.
        let _ = self.disk.remove(&self.path);
        Ok(self.lock.take().expect("held until here"))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.lock.is_some() && self.disk.check_process().is_ok() {
            self.spare = None;
            let _ = remove_tree(&self.path);
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
fn is_array(dir: &Path) -> bool {
    // What cannot be read is no group for certain: metadata that is damaged may be replaced.
    let is_group = || std::fs::read(dir.join("zarr.json")).is_ok_and(|json| consolidated::is_group(&json));
    let v3 = dir.join("zarr.json").is_file() && !is_group();
    v3 || dir.join(".zarray").is_file()
}

/// The name under which an array is built. Of a long name only the beginning is in it, since names
/// have at most 255 bytes.
pub(super) fn staging_name(name: &OsStr) -> OsString {
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
fn lock_new_directory(disk: &Disk, path: &Path, mode: Mode) -> Result<(OwnedFd, OwnedFd)> {
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
            Err(rustix::io::Errno::EXIST) => match lock_directory(path)? {
                Some(_lock) => disk.remove(path)?,
                None => return Err(Error::Busy { path: path.into(), holder: holder(path) }),
            },
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
pub(super) fn try_lock(fd: impl AsFd, path: &Path) -> Result<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(Error::io(path, "lock", e)),
    }
}

/// Whether `path` still names the file that `fd` is open on.
pub(super) fn still_there(fd: impl AsFd, path: &Path) -> bool {
    match (rustix::fs::fstat(fd), rustix::fs::stat(path)) {
        (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}

/// Who holds the lock on a path, as far as the kernel tells.
pub(super) fn holder(path: &Path) -> String {
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
