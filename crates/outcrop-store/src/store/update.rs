//! Changing tiles of an array that is there already, all at once.
//!
//! A writer holds a lock on the array's directory from its opening on; the kernel releases it
//! however the process ends. New tiles are written beside the array's own, in `.outcrop-update/`,
//! under the same names, with the new index and metadata. A file `commit` there, made durable after
//! everything else, is the decision; from then on the change is carried out by renaming, again after
//! a crash:
//!
//! | what is found | what it means | what happens |
//! |---|---|---|
//! | no directory | nothing | |
//! | the array is locked | a writer at work | a second writer is refused |
//! | directory without `commit` | a writer that died | removed by the next writer |
//! | directory with `commit` | a decided change, cut short | carried out by whoever opens the array |

use super::claim::{holder, try_lock};
use crate::error::{Error, Result};
use crate::io::disk::{Disk, DiskDir, remove_tree};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

const DIRECTORY: &str = ".outcrop-update";
const DECISION: &str = "commit";
/// The directory that tiles are in, where they are in one.
const TILES: &str = "c";

/// The right to change an array: a lock on its directory.
pub(super) struct Writer(#[allow(dead_code, reason = "held for its lock")] OwnedFd);

impl Writer {
    /// Keeps a lock that a claim had.
    pub(super) fn of_claim(lock: OwnedFd) -> Writer {
        Writer(lock)
    }
}

/// Opens an array's directory, as a writer or not: what a writer left behind is finished or removed.
///
/// # Errors
/// [`Error::Busy`] where another writer has it; the operating system's.
pub(super) fn enter(disk: &Disk, array: &Path, writable: bool) -> Result<(DiskDir, Option<Writer>)> {
    let dir = disk.open_dir(array)?;
    if writable {
        check_writable(disk, &dir)?;
    }
    let update = array.join(DIRECTORY);
    let left_behind = update.symlink_metadata().is_ok();
    if !writable && !left_behind {
        return Ok((dir, None));
    }
    // A lock of its own: that of `dir` would be shared with whoever duplicates it.
    let fd = disk.open_dir(array)?.into_fd();
    if !try_lock(&fd, array)? {
        return if writable {
            Err(Error::Busy { path: array.into(), holder: holder(array) })
        } else {
            Ok((dir, None))
        };
    }
    let decided = update.join(DECISION).exists();
    if decided {
        carry_out(disk, array, &update)?;
    } else if left_behind && writable {
        disk.remove(&update)?;
    }
    Ok((dir, writable.then_some(Writer(fd))))
}

/// Makes sure that changes can be committed before there are any: tiles are made, and renamed, in the array's
/// directory and in those below it.
fn check_writable(disk: &Disk, dir: &DiskDir) -> Result<()> {
    const ACTION: &str = "change the array (mode=\"r+\")";
    disk.check_writable(dir, Path::new("."), ACTION)?;
    // Of an array without axes, this is its only tile.
    disk.check_writable(dir, Path::new(TILES), ACTION)
}

/// Whether a decided change of the array is being carried out.
pub(super) fn is_under_way(array: &Path) -> bool {
    array.join(DIRECTORY).join(DECISION).exists()
}

/// An update being prepared, by the array's only writer.
pub(super) struct Update {
    /// Present until drop.
    dir: Option<DiskDir>,
    finished: bool,
    pid: u32,
}

impl Update {
    /// Starts an update of the array in `array`.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn begin(disk: &Disk, array: &Path) -> Result<Update> {
        let path = array.join(DIRECTORY);
        std::fs::create_dir(&path).map_err(|e| Error::io(&path, "make the directory", e))?;
        match disk.open_dir(&path) {
            Ok(dir) => Ok(Update { dir: Some(dir), finished: false, pid: std::process::id() }),
            Err(error) => {
                let _ = std::fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// Where the new tiles go.
    pub(super) fn dir(&self) -> &DiskDir {
        self.dir.as_ref().expect("present until drop")
    }

    /// Carries the update out. `metadata`: further files, written last, in this order.
    ///
    /// # Errors
    /// The operating system's. Before the decision nothing has changed; after it, the next opening
    /// finishes what is left.
    pub(super) fn commit(&mut self, disk: &Disk, array: &Path, metadata: &[(&str, Vec<u8>)]) -> Result<()> {
        let path = self.dir().path().to_path_buf();
        disk.sync_file_system(self.dir().as_fd(), &path)?;
        for (name, bytes) in metadata {
            disk.write_small(&path.join(name), bytes)?;
        }
        disk.write_small(&path.join(DECISION), b"")?;
        disk.sync(self.dir().as_fd(), &path)?;
        self.finished = true;
        carry_out(disk, array, &path)
    }
}

impl Drop for Update {
    fn drop(&mut self) {
        if !self.finished && self.pid == std::process::id() {
            // First, so that an end in between leaves no decision about tiles that are gone.
            let path = self.dir().path().to_path_buf();
            let _ = std::fs::remove_file(path.join(DECISION));
            // Closed before, so that a process without descriptors can do this.
            self.dir = None;
            let _ = remove_tree(&path);
        }
    }
}

fn carry_out(disk: &Disk, array: &Path, update: &Path) -> Result<()> {
    let mut files = Vec::new();
    collect(update, &PathBuf::new(), &mut files)?;
    // Tiles first, then the index, then zarr.json: the metadata never describes what is not there.
    files.sort_by_key(|f| match f.to_str() {
        Some("zarr.json") => 2,
        Some(name) if !name.contains('/') && name.starts_with(".outcrop") => 1,
        _ => 0,
    });
    for file in files.iter().filter(|f| f.as_path() != Path::new(DECISION)) {
        let target = array.join(file);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, "make the directory", e))?;
        }
        disk.rename(&update.join(file), &target, true)?;
    }
    let dir = disk.open_dir(array)?;
    disk.sync_file_system(&dir, array)?;
    disk.remove(update)
}

fn collect(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let here = root.join(below);
    let listing = std::fs::read_dir(&here).map_err(|e| Error::io(&here, "list the directory", e))?;
    for entry in listing {
        let entry = entry.map_err(|e| Error::io(&here, "list the directory", e))?;
        let name = below.join(entry.file_name());
        if entry.path().is_dir() {
            collect(root, &name, files)?;
        } else {
            files.push(name);
        }
    }
    Ok(())
}
