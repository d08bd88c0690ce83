//! Open files and directories, and how they come to be open.

use super::beneath::{check_regular, open_beneath};
use super::{Disk, Operation, classify, classify_moving};
use crate::error::{Error, Result};
use crate::frame::FRAME_ALIGN;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{OnceLock, PoisonError};

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

    /// Bytes of the file that have a place on the device.
    ///
    /// # Errors
    /// The operating system's.
    pub fn allocated(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| Error::io(&self.path, "inspect the file", e))?;
        Ok(stat.st_blocks as u64 * 512)
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

/// An open directory. What is opened beneath it is reached without following links; see
/// [`beneath`](super::beneath).
#[derive(Debug)]
pub struct DiskDir {
    fd: OwnedFd,
    path: PathBuf,
    /// Where it is now, if it was renamed.
    moved: OnceLock<PathBuf>,
}

impl DiskDir {
    pub(super) fn new(fd: OwnedFd, path: PathBuf) -> DiskDir {
        DiskDir { fd, path, moved: OnceLock::new() }
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        self.moved.get().unwrap_or(&self.path)
    }

    /// Notes that the directory has got its final name.
    pub fn set_moved(&self, path: &Path) {
        let _ = self.moved.set(path.into());
    }
}

impl AsFd for DiskDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Disk {
    /// Opens a directory anywhere, by way of links if the path has any.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open_dir(&self, path: &Path) -> Result<DiskDir> {
        self.open_dir_with(path, OFlags::empty())
    }

    /// Opens a directory that is one itself, and no link to one.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open_dir_itself(&self, path: &Path) -> Result<DiskDir> {
        self.open_dir_with(path, OFlags::NOFOLLOW)
    }

    fn open_dir_with(&self, path: &Path, more: OFlags) -> Result<DiskDir> {
        self.check_process()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        let opened =
            self.checkpoint(Operation::Open).and_then(|()| Ok(rustix::fs::open(path, flags, Mode::empty())?));
        Ok(DiskDir::new(opened.map_err(|e| classify(path, "open the directory", e))?, path.into()))
    }

    /// Makes sure that this process may make, rename and remove entries of a directory below another one, if it is
    /// there, which it else would find out when it commits. `action` is what it wants to do.
    ///
    /// # Errors
    /// The operating system's: no permission, a file system that is mounted for reading.
    pub fn check_writable(&self, dir: &DiskDir, below: &Path, action: &str) -> Result<()> {
        let stat = rustix::fs::statat(&dir.fd, below, AtFlags::SYMLINK_NOFOLLOW);
        if !stat.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory) {
            return Ok(());
        }
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        // By the rights that files are opened with.
        match rustix::fs::accessat(&dir.fd, below, access, AtFlags::EACCESS) {
            // Of a kernel that does not know, it is found out later.
            Ok(()) | Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            // Joined to the directory, `.` would be a part of its name.
            Err(e) if below == Path::new(".") => Err(classify(&dir.path, action, e.into())),
            Err(e) => Err(classify(&dir.path.join(below), action, e.into())),
        }
    }

    /// Opens a file anywhere.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(&self, path: &Path, access: Access) -> Result<DiskFile> {
        self.open_at(None, path, path.into(), flags_of(access))
    }

    /// Opens a regular file beneath a directory; names that lead through a link or out are refused.
    ///
    /// # Errors
    /// The operating system's; see [`is_link`](super::is_link).
    pub fn open_beneath(&self, dir: &DiskDir, name: &str, access: Access) -> Result<DiskFile> {
        self.open_at(Some(dir), Path::new(name), dir.path().join(name), flags_of(access))
    }

    /// Makes a file of `len` bytes beneath a directory, with its space allocated. The directories on
    /// the way are made. An existing file of that name is emptied first.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn create_beneath(&self, dir: &DiskDir, name: &str, len: u64) -> Result<DiskFile> {
        let path = dir.path().join(name);
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

    /// Makes a file of `len` bytes in a directory, with its space allocated, that has no name and goes when it is
    /// closed; `None` where the file system has no such files.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn create_unnamed(&self, dir: &Path, len: u64) -> Result<Option<DiskFile>> {
        self.checkpoint(Operation::Create).map_err(|e| classify(dir, "make a file", e))?;
        let mut file = match self.open_at(None, dir, dir.into(), OFlags::RDWR | OFlags::TMPFILE) {
            Err(Error::Io { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        // What goes wrong with it from here on is not the directory's fault.
        file.path = dir.join("(scratch file without a name)");
        self.allocate(&file, len)?;
        Ok(Some(file))
    }

    fn allocate(&self, file: &DiskFile, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let allocated = self.checkpoint(Operation::Allocate).and_then(|()| {
            let allocate = || rustix::fs::fallocate(&file.fd, FallocateFlags::empty(), 0, len);
            match allocate() {
                Err(Errno::OPNOTSUPP) => Ok(rustix::fs::ftruncate(&file.fd, len)?),
                Err(Errno::NOSPC) if self.reclaim() => Ok(allocate()?),
                other => Ok(other?),
            }
        });
        allocated.map_err(|e| classify_moving(&file.path, len, &format!("allocate {len} bytes"), e))
    }

    fn open_at(&self, dir: Option<&DiskDir>, name: &Path, path: PathBuf, flags: OFlags) -> Result<DiskFile> {
        self.check_process()?;
        // Without waiting: what stands here may be a named pipe.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o666);
        let open = |flags: OFlags| -> io::Result<OwnedFd> {
            match dir {
                None => Ok(rustix::fs::open(name, flags, mode)?),
                Some(dir) => open_beneath(dir.as_fd(), name, flags, mode),
            }
        };
        let opened = self.checkpoint(Operation::Open).and_then(|()| match open(flags | OFlags::DIRECT) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(flags).map(|fd| (fd, false)),
            other => other.map(|fd| (fd, true)),
        });
        let opened = opened.and_then(|(fd, flagged)| {
            if dir.is_some() { check_regular(&fd) } else { check_kind(&fd) }.map(|()| (fd, flagged))
        });
        let (fd, flagged) = opened.map_err(|e| match e.raw_os_error() {
            Some(libc::ENXIO) => {
                Error::io(&path, "open the file", no_file("a named pipe, a socket or a device"))
            }
            _ => classify(&path, "open the file", e),
        })?;
        let block = if flagged { self.direct_block(&fd) } else { None };
        if block.is_none() {
            if flagged {
                set_direct(&fd, false).map_err(|e| classify(&path, "open the file", e))?;
            }
            if !self.warned.swap(true, Ordering::Relaxed) {
                let path = path.display();
                self.warn(format!(
                    "{path}: direct I/O is refused here; the page cache is used instead, and evicted"
                ));
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
}

/// A file for I/O through the page cache, opened without waiting, as what stands there may be a named pipe.
///
/// # Errors
/// The operating system's; also where it is no file.
pub fn open_buffered(path: &Path, options: &mut OpenOptions) -> io::Result<std::fs::File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| {
        // Of a named pipe that nobody reads, the kernel says that there is no such device.
        match error.raw_os_error() {
            Some(libc::ENXIO) => no_file("a named pipe, a socket or a device"),
            _ => error,
        }
    })?;
    check_kind(&file)?;
    Ok(file)
}

/// Refuses what is no file.
fn check_kind(fd: impl AsFd) -> io::Result<()> {
    let kind = match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(no_file(kind))
}

fn no_file(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a file"))
}

fn flags_of(access: Access) -> OFlags {
    match access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
    }
}

pub(super) fn set_direct(fd: impl AsFd, on: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(&fd)?;
    flags.set(OFlags::DIRECT, on);
    Ok(rustix::fs::fcntl_setfl(&fd, flags)?)
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
