//! The file that is measured on.

use crate::error::{Error, Result};
use crate::io::disk::free_space;
use crate::io::{Disk, DiskFile};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// An allocated file without a name.
pub(super) fn make_file(disk: &Disk, dir: &Path, len: u64) -> Result<DiskFile> {
    let path = dir.join(format!(".outcrop-profile-{}", std::process::id()));
    let mut attempts = 0;
    let file = loop {
        // Allocated only when it has lost its name, because that may take a while.
        match disk.create(&path, 0) {
            // Left by a process of the same number, or about to be unlinked by another thread of this one.
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists && attempts < 100 =>
            {
                attempts += 1;
                let _ = std::fs::remove_file(&path);
            }
            Err(Error::Io { action, source, .. }) => {
                return Err(Error::Io { path: dir.into(), action, source });
            }
            other => break other?,
        }
    };
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(&path, "remove the file", e)),
        _ => {}
    }
    let allocated = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(&file, len),
        other => other,
    };
    match allocated {
        Ok(()) => Ok(file),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(Error::NoSpace {
            path: dir.into(),
            needed: len,
            free: free_space(dir).unwrap_or(0),
            beside: vec![],
        }),
        Err(e) => Err(Error::io(dir, format!("allocate {len} bytes"), e)),
    }
}

/// Marks a range as allocated and not written. Where the file system cannot do that, writes are
/// measured as overwriting, which is all there is on most of those.
pub(super) fn forget_extents(file: &DiskFile, offset: u64, len: u64) {
    if let Err(error) = rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, offset, len) {
        log::debug!("measuring overwriting, not writing: {error}");
    }
}

/// Has the device keep what was written.
pub(super) fn make_durable(file: &DiskFile, dir: &Path) -> Result<()> {
    rustix::fs::fdatasync(file).map_err(|e| Error::io(dir, "make the data durable", e))
}

/// The same where the page cache has it.
pub(super) fn sync_buffered(file: &DiskFile, dir: &Path) -> Result<()> {
    if file.is_direct() { Ok(()) } else { make_durable(file, dir) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::EngineChoice;

    #[test]
    fn a_name_that_is_taken_does_not_stop_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        std::fs::write(dir.path().join(format!(".outcrop-profile-{}", std::process::id())), "left over")
            .unwrap();
        let file = make_file(&disk, dir.path(), 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
