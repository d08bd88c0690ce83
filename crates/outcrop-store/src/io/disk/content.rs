//! Bytes of files: transfers, ends that are not aligned, small files whole.

use super::file::{open_buffered, set_direct};
use super::{Disk, DiskFile, Operation, classify, classify_moving};
use crate::error::Result;
use crate::io::Direction;
use crate::io::queue::{Cancel, IoQueue, MAX_AGAIN, MAX_RETRIES, Transfer};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

impl Disk {
    /// Writes bytes that need not be aligned, such as a file's end, through the page cache.
    ///
    /// The range must not share a block with any direct request in flight.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace), or the operating system's.
    pub fn write_unaligned(&self, file: &DiskFile, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        let result = set_direct(file, false).and_then(|()| {
            let written = (|| {
                while done < bytes.len() {
                    let moved = patiently(|| {
                        let len = self.checkpoint_moving(Operation::Write, bytes.len() - done)?;
                        Ok(rustix::io::pwrite(file, &bytes[done..done + len], offset + done as u64)?)
                    })?;
                    if moved == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    done += moved;
                }
                Ok(())
            })();
            // The kernel accounts for whole pages made dirty.
            let pages = (offset + done as u64).div_ceil(4096) - offset / 4096;
            self.counters.add(Direction::Write, pages * 4096);
            // Also after an error: whoever goes on with the file expects it to be as it was.
            let restored = if file.is_direct() { set_direct(file, true) } else { Ok(()) };
            written.and(restored)
        });
        let len = bytes.len();
        result.map_err(|e| {
            classify_moving(file.path(), len as u64, &format!("write {len} bytes at offset {offset}"), e)
        })
    }

    /// Performs transfers on one file; see [`IoQueue::run`].
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) never: a file that is too short is an `UnexpectedEof` inside [`Error::Io`](crate::Error::Io).
    ///
    /// # Safety
    /// As for [`IoQueue::run`].
    pub unsafe fn transfer(
        &self,
        queue: &mut IoQueue,
        file: &DiskFile,
        transfers: &mut dyn Iterator<Item = Transfer>,
        direction: Direction,
        cancel: &Cancel,
    ) -> Result<()> {
        let tuning = self.tuning(file);
        let request = match direction {
            Direction::Read => tuning.read_request,
            Direction::Write => tuning.write_request,
        };
        // SAFETY: passed on from the caller.
        unsafe { queue.run(transfers, request, tuning.depth, cancel) }.map_err(|e| e.at(file.path()))
    }

    /// Reads whole blocks of a file, of which it must have at least `need` bytes, and counts nothing: whoever uses what
    /// was read does.
    ///
    /// # Errors
    /// The operating system's; `UnexpectedEof` where the file is too short.
    pub fn read_uncounted(&self, file: &DiskFile, offset: u64, memory: &mut [u8], need: usize) -> Result<()> {
        let mut done = 0;
        let read = patiently(|| {
            while done < need {
                // Direct I/O goes on at a whole block.
                done -= done % file.block();
                self.checkpoint(Operation::Read)?;
                let moved = rustix::io::pread(file, &mut memory[done..], offset + done as u64)?;
                if moved == 0 || moved < file.block() && done + moved < need {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                done += moved;
            }
            Ok(())
        });
        let len = memory.len();
        read.map_err(|e| classify(file.path(), &format!("read {len} bytes at offset {offset}"), e))
    }

    /// Reads the first `len` bytes of a file, or as many as it has, through the page cache.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read_prefix(&self, path: &Path, len: usize) -> Result<Vec<u8>> {
        self.read_piece(path, 0, len)
    }

    /// Reads `len` bytes of a file from `offset` on, or as many as it has there, through the page cache.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read_piece(&self, path: &Path, offset: u64, len: usize) -> Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let read = patiently(|| {
            self.checkpoint(Operation::Read)?;
            let mut bytes = Vec::new();
            let mut file = open_buffered(path, OpenOptions::new().read(true))?;
            file.seek(SeekFrom::Start(offset))?;
            file.take(len as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        read.map_err(|e| classify(path, &format!("read {len} bytes at offset {offset}"), e))
    }
}

/// All of an open file, or so much that it shows to have more than `limit` bytes.
pub(super) fn read_all(file: std::fs::File, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes an open file's bytes, all of them, and makes them durable.
pub(super) fn write_whole(disk: &Disk, mut file: std::fs::File, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    patiently(|| match disk.checkpoint_moving(Operation::Write, bytes.len())? {
        0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(()),
    })?;
    file.write_all(bytes)?;
    disk.checkpoint_sync(&file)?;
    file.sync_all()
}

/// Repeats what may pass as often as the queue does: an interruption, an `EIO`.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let (mut agains, mut retries) = (MAX_AGAIN, MAX_RETRIES);
    loop {
        let result = attempt();
        let left = match result.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::EINTR | libc::EAGAIN) => &mut agains,
            Some(libc::EIO) => &mut retries,
            _ => return result,
        };
        if *left == 0 {
            return result;
        }
        *left -= 1;
    }
}
