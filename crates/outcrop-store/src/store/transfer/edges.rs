//! What is left of the blocks that two boxes share.
//!
//! The runs of a box end anywhere in a block, and those of the box beside it begin there. Where the boxes
//! are loaded one after the other, the first load keeps the *rests* of the blocks that it cuts, and the
//! second one does not read them again. Likewise a row begins in the block in which the row before ends:
//! the first box of the rows keeps the *heads* of these blocks for the last one.

use crate::error::{Error, Result};
use crate::frame::Frame;
use std::sync::Arc;

/// Bytes that a box shares with those beside it, where they are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// That it does not read where the box before has kept its rests.
    pub begun: u64,
    /// Of its own rests.
    pub rests: u64,
    /// That it does not read, as the last box of its rows, where the first one has kept the heads.
    pub ended: u64,
    /// Of the heads, where it is the first box of its rows.
    pub heads: u64,
}

/// Memory for what boxes of the same rows leave for one another.
pub struct Edges {
    pub(in crate::store) rests: Kept,
    pub(in crate::store) heads: Kept,
}

impl Edges {
    /// So many bytes for rests and for heads, `start` bytes into a frame, which nobody else uses.
    ///
    /// # Panics
    /// Where they lie outside the frame.
    pub fn new(frame: &Arc<Frame>, start: usize, rests: usize, heads: usize) -> Edges {
        Edges { rests: Kept::new(frame, start, rests), heads: Kept::new(frame, start + rests, heads) }
    }

    /// Forgets what was kept.
    pub fn clear(&mut self) {
        self.rests.clear();
        self.heads.clear();
    }
}

/// Pieces of blocks, run after run.
pub(in crate::store) struct Kept {
    frame: Arc<Frame>,
    start: usize,
    len: usize,
    /// Bytes that a load has kept.
    filled: usize,
    /// Bytes that another one has taken.
    taken: usize,
}

impl Kept {
    fn new(frame: &Arc<Frame>, start: usize, len: usize) -> Kept {
        assert!(start + len <= frame.len());
        Kept { frame: Arc::clone(frame), start, len, filled: 0, taken: 0 }
    }

    /// Whether there is memory for any.
    pub(in crate::store) fn has_room(&self) -> bool {
        self.len > 0
    }

    /// Whether a load has kept something.
    pub(in crate::store) fn are_filled(&self) -> bool {
        self.filled > 0
    }

    /// Forgets what was kept.
    pub(in crate::store) fn clear(&mut self) {
        (self.filled, self.taken) = (0, 0);
    }

    /// Keeps `len` bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no room for them.
    ///
    /// # Safety
    /// They can be read.
    pub(in crate::store) unsafe fn keep(&mut self, bytes: *const u8, len: usize) -> Result<()> {
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
    pub(in crate::store) unsafe fn take(&mut self, to: *mut u8, len: usize) -> Result<()> {
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
