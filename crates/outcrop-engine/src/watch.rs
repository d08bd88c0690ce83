//! Who looks on while something runs.

use outcrop_store::{Error, Result};

/// How the caller watches a run.
pub trait Watch {
    /// Told now and then how many bytes are done, of how many; returns `false` to stop the run.
    fn tick(&mut self, done: u64, total: u64) -> bool;

    /// The same before anything is done.
    ///
    /// # Errors
    /// [`Error::Interrupted`] instead of `false`.
    fn look(&mut self) -> Result<()> {
        if self.tick(0, 1) { Ok(()) } else { Err(Error::Interrupted) }
    }
}

/// Watches nothing.
pub struct Unwatched;

impl Watch for Unwatched {
    fn tick(&mut self, _: u64, _: u64) -> bool {
        true
    }
}

impl<F: FnMut(u64, u64) -> bool> Watch for F {
    fn tick(&mut self, done: u64, total: u64) -> bool {
        self(done, total)
    }
}
