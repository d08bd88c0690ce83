//! The memory that a chunk's file and the codecs take.

use super::load::Trouble;
use crate::error::{Error, Result};
use crate::frame::{Charge, FRAME_ALIGN, Frame, charged};
use crate::io::disk::{Disk, DiskFile};
use crate::io::{Cancel, Direction, IoQueue, Transfer};
use crate::store::Mover;
use std::io;

/// Memory for a chunk's file: the mover's staging memory, or a frame where that is too small.
pub(super) struct Place {
    pub(super) start: *mut u8,
    /// Bytes of staging memory in use.
    used: usize,
    _own: Option<Frame>,
}

impl Place {
    pub(super) fn new(mover: &Mover, bytes: usize) -> Result<Place> {
        if let Some(frame) = mover.staging.as_ref().filter(|f| f.len() >= bytes) {
            return Ok(Place { start: frame.as_ptr(), used: bytes, _own: None });
        }
        let frame = mover.budget.frame(bytes, "an encoded chunk")?;
        Ok(Place { start: frame.as_ptr(), used: 0, _own: Some(frame) })
    }

    /// Makes room in the budget for heap memory: in the staging memory that is left, and beyond it.
    pub(super) fn make_room(&self, mover: &mut Mover, heap: usize) -> Result<Option<Charge>> {
        self.make_more_room(mover, heap, None)
    }

    /// The same where a part of the heap memory has been charged.
    pub(super) fn make_more_room(
        &self,
        mover: &mut Mover,
        heap: usize,
        charged_before: Option<&Charge>,
    ) -> Result<Option<Charge>> {
        let mut covered = 0;
        if let (Some(frame), true) = (&mut mover.staging, heap > 0) {
            frame.vacate(self.used);
            covered = frame.len().saturating_sub(charged(self.used));
        }
        covered = covered.saturating_add(charged_before.map_or(0, Charge::bytes));
        if heap <= covered {
            return Ok(None);
        }
        Ok(Some(mover.budget.charge(heap - covered, "decoding and encoding chunks")?))
    }
}

/// The whole blocks that hold a range of a file.
pub(super) fn blocks(from: u64, to: u64) -> (u64, u64) {
    let block = FRAME_ALIGN as u64;
    (from / block * block, to.next_multiple_of(block))
}

/// Reads a range of a file to memory that has room for the whole blocks around it; the offset of the
/// range in that memory.
///
/// # Safety
/// `memory` is aligned, has room for those blocks, and nobody else uses it meanwhile.
pub(super) unsafe fn read_range(
    disk: &Disk,
    queue: &mut IoQueue,
    cancel: &Cancel,
    file: &DiskFile,
    (from, to): (u64, u64),
    memory: *mut u8,
) -> Result<usize, Trouble> {
    let (start, end) = blocks(from, to);
    if start < end {
        let transfer = Transfer::read(file, start, memory, (end - start) as usize, (to - start) as usize);
        // SAFETY: the caller's promise; the file is open until the transfer returns.
        let result =
            unsafe { disk.transfer(queue, file, &mut std::iter::once(transfer), Direction::Read, cancel) };
        result.map_err(truncated)?;
    }
    Ok((from - start) as usize)
}

/// What is wrong with a file that could not be read.
pub(super) fn truncated(error: Error) -> Trouble {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof => {
            Trouble::Damaged("was truncated while it was read".into())
        }
        other => other.into(),
    }
}
