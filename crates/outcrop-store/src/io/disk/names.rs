//! Names and durability: renaming, removing, syncing, and the space that is left.
//!
//! A failed sync is final: the kernel reports a lost write once and then regards the pages as
//! clean, so that a second sync would succeed without the data being there.

use super::{Disk, Operation, classify};
use crate::error::{Error, Result};
use rustix::fs::RenameFlags;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

impl Disk {
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
                return std::fs::rename(from, to);
            }
            match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    // The file system has no such operation; a look beforehand is the next best.
                    if to.symlink_metadata().is_ok() {
                        Err(io::ErrorKind::AlreadyExists.into())
                    } else {
                        std::fs::rename(from, to)
                    }
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
