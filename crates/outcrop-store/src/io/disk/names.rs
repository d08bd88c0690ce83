//! Names and durability: renaming, removing, syncing, and the space that is left.
//!
//! A failed sync is final: the kernel reports a lost write once and then regards the pages as
//! clean, so that a second sync would succeed without the data being there.

use super::{Disk, Operation, Step, classify};
use crate::error::{Error, Result};
use rustix::fs::RenameFlags;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What renaming is for, in errors.
const PUT: &str = "put the new array in place";

/// Whether an error says that there is no such operation here: some file systems, and containers that
/// forbid a system call.
fn is_lacking(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM))
}

impl Disk {
    /// Makes everything written to the file system of `dir` durable, in one call.
    ///
    /// # Errors
    /// The operating system's; the data must then be regarded as lost.
    pub fn sync_file_system(&self, dir: impl AsFd, path: &Path) -> Result<()> {
        if let Some(faults) = self.faults() {
            faults.watch(Step::SyncAll);
        }
        self.checkpoint(Operation::Sync)
            .and_then(|()| Ok(rustix::fs::syncfs(dir)?))
            .map_err(|e| classify(path, "make the data durable", e))
    }

    /// Makes a file or directory durable.
    ///
    /// # Errors
    /// The operating system's; what was written must then be regarded as lost.
    pub fn sync(&self, file: impl AsFd, path: &Path) -> Result<()> {
        self.checkpoint_sync(&file)
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

    /// Renames; what has the new name is replaced.
    ///
    /// # Errors
    /// The operating system's.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let renamed = self.checkpoint(Operation::Rename).and_then(|()| std::fs::rename(from, to));
        renamed.map_err(|e| classify(to, PUT, e))
    }

    /// Renames to a name that nothing has; where the file system cannot see to that by itself, a file by
    /// making a second name for it, which is refused where something has the name, and a directory by an
    /// ordinary renaming, which replaces nothing but an empty directory.
    ///
    /// # Errors
    /// [`Error::Exists`], or the operating system's.
    pub fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        let cwd = rustix::fs::CWD;
        let plainly = || -> io::Result<()> {
            let is_dir = from.symlink_metadata()?.is_dir();
            if !is_dir {
                match std::fs::hard_link(from, to) {
                    Ok(()) => {
                        return std::fs::remove_file(from).inspect_err(|_| {
                            let _ = std::fs::remove_file(to);
                        });
                    }
                    // No second names here: a look beforehand is the next best.
                    Err(e) if is_lacking(&e) || e.raw_os_error() == Some(libc::EMLINK) => {}
                    Err(e) => return Err(e),
                }
            }
            match to.symlink_metadata() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => std::fs::rename(from, to),
                Err(e) => Err(e),
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            }
        };
        let at_once = self
            .checkpoint(Operation::Rename)
            .and_then(|()| Ok(rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE)?));
        let renamed = match at_once {
            Err(e) if is_lacking(&e) => self.checkpoint(Operation::Rename).and_then(|()| plainly()),
            other => other,
        };
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                Error::Exists { path: to.into() }
            }
            _ => classify(to, PUT, e),
        })
    }

    /// Exchanges two names atomically; `false` where the file system has no such operation, and nothing
    /// was done.
    ///
    /// # Errors
    /// The operating system's.
    pub fn exchange(&self, one: &Path, other: &Path) -> Result<bool> {
        let cwd = rustix::fs::CWD;
        let exchanged = self
            .checkpoint(Operation::Rename)
            .and_then(|()| Ok(rustix::fs::renameat_with(cwd, one, cwd, other, RenameFlags::EXCHANGE)?));
        match exchanged {
            Ok(()) => Ok(true),
            Err(e) if is_lacking(&e) => Ok(false),
            Err(e) => Err(classify(other, PUT, e)),
        }
    }

    /// Removes a file or a directory with everything in it. Nothing there is no error.
    ///
    /// # Errors
    /// The operating system's.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.checkpoint(Operation::Remove).and_then(|()| match path.symlink_metadata() {
            Ok(m) if m.is_dir() => remove_tree(path),
            Ok(_) => std::fs::remove_file(path),
            Err(e) => Err(e),
        });
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(classify(path, "remove", e)),
            _ => Ok(()),
        }
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

/// The user to whom belongs what this process makes.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Removes a directory with everything in it; with a single descriptor, where the process has run out
/// of them.
///
/// # Errors
/// The operating system's.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {}
        other => return other,
    }
    // Listed to its end first: an entry keeps its directory open.
    let listed: Vec<(PathBuf, bool)> = std::fs::read_dir(path)?
        .map(|entry| entry.and_then(|e| Ok((e.path(), e.file_type()?.is_dir()))))
        .collect::<io::Result<_>>()?;
    for (below, is_dir) in listed {
        if is_dir {
            remove_tree(&below)?;
        } else {
            std::fs::remove_file(below)?;
        }
    }
    std::fs::remove_dir(path)
}
