//! Open files and directories, and how they come to be open.

use super::{Disk, Operation, classify, classify_moving};
use crate::error::{Error, Result};
use crate::frame::FRAME_ALIGN;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

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

impl Disk {
    /// Opens a directory.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open_dir(&self, path: &Path) -> Result<DiskDir> {
        self.check_process()?;
        let fd = self
            .checkpoint(Operation::Open)
            .and_then(|()| {
                Ok(rustix::fs::open(
                    path,
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?)
            })
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

    /// Makes a file of `len` bytes in a directory, with its space allocated, that has no name and goes when it is
    /// closed; `None` where the file system has no such files.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or the operating system's.
    pub fn create_unnamed(&self, dir: &Path, len: u64) -> Result<Option<DiskFile>> {
        self.checkpoint(Operation::Create).map_err(|e| classify(dir, "make a file", e))?;
        let file = match self.open_at(None, dir, dir.into(), OFlags::RDWR | OFlags::TMPFILE) {
            Err(Error::Io { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        self.allocate(&file, len)?;
        Ok(Some(file))
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
            let allocate = || rustix::fs::fallocate(&file.fd, FallocateFlags::empty(), 0, len);
            match allocate() {
                Err(rustix::io::Errno::OPNOTSUPP) => Ok(rustix::fs::ftruncate(&file.fd, len)?),
                Err(rustix::io::Errno::NOSPC) if self.reclaim() => Ok(allocate()?),
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
                Some(dir) => open_resolved_beneath(dir, name, flags, mode),
            }
        };
        let opened = self.checkpoint(Operation::Open).and_then(|()| match open(flags | OFlags::DIRECT) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(flags).map(|fd| (fd, false)),
            other => other.map(|fd| (fd, true)),
        });
        let opened = opened.and_then(|(fd, flagged)| check_kind(&fd).map(|()| (fd, flagged)));
        let (fd, flagged) = opened.map_err(|e| classify(&path, "open the file", e))?;
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

/// A file for reading through the page cache, found without waiting, as what stands there may be a named pipe.
pub(super) fn open_buffered(path: &Path) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    check_kind(&fd)?;
    Ok(fd.into())
}

/// Refuses what is no file.
fn check_kind(fd: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
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
    let mut opened = rustix::fs::openat2(&dir.fd, name, flags, mode, resolve);
    // The kernel cannot say where `..` in a link leads while something is renamed; asked again, it can.
    for _ in 0..1000 {
        if !matches!(opened, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)) {
            break;
        }
        opened = rustix::fs::openat2(&dir.fd, name, flags, mode, resolve);
    }
    match opened {
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
