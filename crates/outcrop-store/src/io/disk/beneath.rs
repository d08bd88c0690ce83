//! Names below a directory: what comes with an array from elsewhere leads nowhere.
//!
//! Everything below an array's directory is reached from the directory's descriptor, and no symbolic
//! link is followed on the way or at the end, so that nothing that lies in an array can make another
//! place be read, written or moved. `openat2` keeps that rule by itself; where the kernel or a
//! container forbids it, each part of a name is opened by itself.
//!
//! A path that the user names is another matter: that is opened as usual ([`Disk::open_dir`],
//! [`Disk::open`]), and may lead through links.

use super::content::{patiently, read_all, write_whole};
use super::names::remove_tree;
use super::{Disk, DiskDir, Operation, classify, classify_moving};
use crate::error::{Error, Result};
use crate::io::Direction;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

/// A directory that is only gone through; for that it need not be readable.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Disk {
    /// Opens a directory beneath another.
    ///
    /// # Errors
    /// The operating system's; see [`is_link`] for what lies behind a link.
    pub fn dir_beneath(&self, dir: &DiskDir, name: &str) -> Result<DiskDir> {
        self.check_process()?;
        let path = dir.path().join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self
            .checkpoint(Operation::Open)
            .and_then(|()| open_beneath(dir.as_fd(), Path::new(name), flags, Mode::empty()));
        Ok(DiskDir::new(opened.map_err(|e| classify(&path, "open the directory", e))?, path))
    }

    /// What stands at a name beneath a directory: itself, where it is a link. `None` where nothing does.
    ///
    /// # Errors
    /// The operating system's.
    pub fn look_beneath(&self, dir: &DiskDir, name: &str) -> Result<Option<Stat>> {
        let found = parent_beneath(dir.as_fd(), Path::new(name))
            .and_then(|(parent, last)| Ok(rustix::fs::statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW)?));
        match found {
            Ok(found) => Ok(Some(found)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) if is_link(&e) => Err(Error::corrupt(&dir.path().join(name), LINK)),
            Err(e) => Err(classify(&dir.path().join(name), "inspect the file", e)),
        }
    }

    /// Makes a directory beneath another, in which nothing has that name.
    ///
    /// # Errors
    /// The operating system's.
    pub fn make_dir_beneath(&self, dir: &DiskDir, name: &str) -> Result<()> {
        let made = rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777));
        made.map_err(|e| classify(&dir.path().join(name), "make the directory", e.into()))
    }

    /// Makes directories beneath a directory, as far as they are missing.
    ///
    /// # Errors
    /// The operating system's.
    pub fn make_dirs(&self, dir: &DiskDir, name: &Path) -> Result<()> {
        let make = |partial: &Path| -> io::Result<()> {
            let (parent, last) = parent_beneath(dir.as_fd(), partial)?;
            match rustix::fs::mkdirat(&parent, last, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(e) => Err(e.into()),
            }
        };
        let mut parents: Vec<&Path> = name.ancestors().filter(|p| !p.as_os_str().is_empty()).collect();
        parents.reverse();
        for partial in parents {
            make(partial).map_err(|e| classify(&dir.path().join(partial), "make the directory", e))?;
        }
        Ok(())
    }

    /// Renames from beneath one directory to the same name beneath another, where directories are made
    /// that are missing. What has that name there is replaced.
    ///
    /// # Errors
    /// The operating system's.
    pub fn rename_beneath(&self, from: &DiskDir, to: &DiskDir, name: &str) -> Result<()> {
        let name = Path::new(name);
        let rename = || -> io::Result<()> {
            let (source, last) = parent_beneath(from.as_fd(), name)?;
            let (target, _) = parent_beneath(to.as_fd(), name)?;
            Ok(rustix::fs::renameat(&source, last, &target, last)?)
        };
        let mut renamed = self.checkpoint(Operation::Rename).and_then(|()| rename());
        if let (Err(error), Some(parent)) = (&renamed, name.parent())
            && error.kind() == io::ErrorKind::NotFound
        {
            self.make_dirs(to, parent)?;
            renamed = rename();
        }
        renamed.map_err(|e| classify(&to.path().join(name), "put the new file in place", e))
    }

    /// Removes what has a name beneath a directory: a link itself, a directory with everything in it.
    /// Nothing there is no error.
    ///
    /// # Errors
    /// The operating system's.
    pub fn remove_beneath(&self, dir: &DiskDir, name: &str) -> Result<()> {
        let remove = || -> io::Result<()> {
            self.checkpoint(Operation::Remove)?;
            let (parent, last) = parent_beneath(dir.as_fd(), Path::new(name))?;
            let found = rustix::fs::statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                return remove_tree(&dir.path().join(name));
            }
            Ok(rustix::fs::unlinkat(&parent, last, AtFlags::empty())?)
        };
        match remove() {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(classify(&dir.path().join(name), "remove", e))
            }
            _ => Ok(()),
        }
    }

    /// Reads a small file beneath a directory whole, through the page cache.
    ///
    /// # Errors
    /// The operating system's; [`Error::Corrupt`] where it has more than `limit` bytes, or lies behind a
    /// link.
    pub fn read_small_beneath(&self, dir: &DiskDir, name: &str, limit: u64) -> Result<Vec<u8>> {
        self.check_process()?;
        let path = dir.path().join(name);
        let read = patiently(|| {
            self.checkpoint(Operation::Open)?;
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let fd = open_beneath(dir.as_fd(), Path::new(name), flags, Mode::empty())?;
            check_regular(&fd)?;
            self.checkpoint(Operation::Read)?;
            read_all(fd.into(), limit)
        });
        match read {
            Ok(bytes) if bytes.len() as u64 > limit => {
                Err(Error::corrupt(&path, format!("more than {limit} bytes long, which cannot be")))
            }
            Ok(bytes) => Ok(bytes),
            Err(e) if is_link(&e) => Err(Error::corrupt(&path, LINK)),
            Err(e) => Err(classify(&path, "read the file", e)),
        }
    }

    /// Writes a small file beneath a directory anew and makes it durable, under a temporary name first.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn write_small_beneath(&self, dir: &DiskDir, name: &str, bytes: &[u8]) -> Result<()> {
        self.check_process()?;
        let mut temporary = OsString::from(name);
        temporary.push(".new");
        let path = dir.path().join(name);
        let write = || -> io::Result<()> {
            self.checkpoint(Operation::Create)?;
            // What has that name was left behind, or is another name of a file that lies elsewhere.
            let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let mode = Mode::from_raw_mode(0o666);
            let fd = open_beneath(dir.as_fd(), Path::new(&temporary), flags, mode)?;
            check_regular(&fd)?;
            write_whole(self, fd.into(), bytes)?;
            self.checkpoint(Operation::Rename)?;
            Ok(rustix::fs::renameat(dir, &temporary, dir, name)?)
        };
        let len = bytes.len();
        let written =
            write().map_err(|e| classify_moving(&path, len as u64, &format!("write {len} bytes"), e));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
        } else {
            self.counters.add(Direction::Write, (len as u64).next_multiple_of(4096));
        }
        written
    }
}

/// What is wrong with a name that leads through a link, in words.
pub const LINK: &str =
    "is reached by a link; refused, as is any link that leads out of the array or about in it";

/// Whether an opening beneath a directory failed because of a link, or of a name that leads out.
pub fn is_link(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::ELOOP))
}

/// Refuses what is no regular file.
pub(super) fn check_regular(fd: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// The directory that a name beneath another lies in, and the name's last part.
fn parent_beneath<'a>(dir: BorrowedFd, name: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let Some(last) = name.file_name() else { return Err(Errno::XDEV.into()) };
    let parent = match name.parent() {
        Some(parent) if parent != Path::new("") => open_beneath(dir, parent, WAY, Mode::empty())?,
        _ => dir.try_clone_to_owned()?,
    };
    Ok((parent, last))
}

/// Opens a name beneath a directory. `ELOOP` where a link is on the way or at the end, `EXDEV` where
/// the name itself leads out.
pub(super) fn open_beneath(dir: BorrowedFd, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    // The kernel may want to be asked again while something is renamed.
    for _ in 0..1000 {
        match rustix::fs::openat2(dir, name, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // That there is a link is said on the evidence of each part: where files are renamed
            // meanwhile, the kernel may no longer find the way back from what it opened, and says
            // that it leads out.
            Err(Errno::NOSYS | Errno::PERM | Errno::LOOP | Errno::XDEV) => {
                return open_part_by_part(dir, name, flags, mode);
            }
            other => return Ok(other?),
        }
    }
    Err(Errno::AGAIN.into())
}

fn open_part_by_part(dir: BorrowedFd, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut parts = Vec::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => return Err(Errno::XDEV.into()),
        }
    }
    let Some((last, way)) = parts.split_last() else { return Err(Errno::XDEV.into()) };
    let mut owned: Option<OwnedFd> = None;
    for part in way {
        let here = owned.as_ref().map_or(dir, |fd| fd.as_fd());
        owned = Some(open_part(here, part, WAY, Mode::empty())?);
    }
    open_part(owned.as_ref().map_or(dir, |fd| fd.as_fd()), last, flags, mode)
}

fn open_part(dir: BorrowedFd, part: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    match rustix::fs::openat(dir, part, flags | OFlags::NOFOLLOW, mode) {
        // A link is no directory either.
        Err(Errno::NOTDIR) => match rustix::fs::statat(dir, part, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(s) if FileType::from_raw_mode(s.st_mode) == FileType::Symlink => Err(Errno::LOOP.into()),
            _ => Err(Errno::NOTDIR.into()),
        },
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Both ways to keep the rule agree on every kind of name.
    #[test]
    fn both_ways_follow_no_link() {
        let place = tempfile::tempdir().unwrap();
        let inside = place.path().join("array");
        std::fs::create_dir_all(inside.join("c/0")).unwrap();
        std::fs::write(inside.join("c/0/1"), "tile").unwrap();
        std::fs::write(place.path().join("outside"), "secret").unwrap();
        symlink("1", inside.join("c/0/within")).unwrap();
        symlink("../../../outside", inside.join("c/0/out")).unwrap();
        symlink(place.path(), inside.join("c/absolute")).unwrap();
        symlink("c", inside.join("d")).unwrap();
        symlink("/proc/self/root", inside.join("magic")).unwrap();
        let dir = rustix::fs::open(&inside, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        for (name, expected) in [
            ("c/0/1", None),
            ("c/0/nothing", Some(libc::ENOENT)),
            ("nothing/0/1", Some(libc::ENOENT)),
            ("c/0/within", Some(libc::ELOOP)),
            ("c/0/out", Some(libc::ELOOP)),
            ("c/absolute/outside", Some(libc::ELOOP)),
            ("d/0/1", Some(libc::ELOOP)),
            ("magic/etc", Some(libc::ELOOP)),
            ("../outside", Some(libc::EXDEV)),
            ("/etc/passwd", Some(libc::EXDEV)),
            ("c/0/1/2", Some(libc::ENOTDIR)),
        ] {
            let error = |opened: io::Result<OwnedFd>| opened.err().and_then(|e| e.raw_os_error());
            let whole = open_beneath(dir.as_fd(), Path::new(name), read, Mode::empty());
            assert_eq!(error(whole), expected, "{name} at once");
            let parts = open_part_by_part(dir.as_fd(), Path::new(name), read, Mode::empty());
            assert_eq!(error(parts), expected, "{name} part by part");
        }
    }
}
