//! What is left of the blocks in which a box's runs end.
//!
//! The runs of a box end anywhere in a block, and those of the box beside it begin there. Where the boxes
//! are loaded one after the other, the first load keeps the rest of the blocks that it cuts, and the
//! second one does not read them again.

use crate::error::{Error, Result};
use crate::frame::Frame;
use std::sync::Arc;

/// Memory for the rests of blocks, run after run.
pub struct Edges {
    frame: Arc<Frame>,
    start: usize,
    len: usize,
    /// Bytes that a load has kept.
    filled: usize,
    /// Bytes that the next load has taken.
    taken: usize,
}

impl Edges {
    /// `len` bytes of a frame, `start` bytes into it, which nobody else uses.
    ///
    /// # Panics
    /// Where they lie outside the frame.
    pub fn new(frame: &Arc<Frame>, start: usize, len: usize) -> Edges {
        assert!(start + len <= frame.len());
        Edges { frame: Arc::clone(frame), start, len, filled: 0, taken: 0 }
    }

    /// Whether a load has kept something.
    pub fn are_filled(&self) -> bool {
        self.filled > 0
    }

    /// Forgets what was kept.
    pub fn clear(&mut self) {
        (self.filled, self.taken) = (0, 0);
    }

    /// Keeps `len` bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no room for them.
    ///
    /// # Safety
    /// They can be read.
    pub(super) unsafe fn keep(&mut self, bytes: *const u8, len: usize) -> Result<()> {
        if self.filled + len > self.len {
            return Err(Error::invalid("more is left of the blocks than there is memory for"));
        }
        // SAFETY: the place lies inside our part of the frame; the source is the caller's promise.
        unsafe {
            let place = self.frame.as_ptr().add(self.start + self.filled);
            std::ptr::copy_nonoverlapping(bytes, place, len);
        }
        self.filled += len;
        Ok(())
    }

    /// Takes the next `len` bytes of those that were kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] where fewer were kept.
    ///
    /// # Safety
    /// They can be written.
    pub(super) unsafe fn take(&mut self, to: *mut u8, len: usize) -> Result<()> {
        if self.taken + len > self.filled {
            return Err(Error::invalid("less is left of the blocks than their runs begin with"));
        }
        // SAFETY: as in `keep`, the other way round.
        unsafe {
            let place = self.frame.as_ptr().add(self.start + self.taken);
            std::ptr::copy_nonoverlapping(place, to, len);
        }
        self.taken += len;
        Ok(())
    }
}
