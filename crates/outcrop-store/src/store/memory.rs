//! Arrays in a frame: results that the user wants in memory.

use super::transfer::canvas::{Canvas, Strides, dense_strides};
use super::{Finding, Info, Mover, Staging, Store};
use crate::dtype::DType;
use crate::error::Result;
use crate::frame::Frame;
use crate::layout::Layout;
use crate::shape::{ArrayBox, default_tile};
use std::sync::Arc;

/// A row-major array in a frame. Moving its elements costs no I/O.
pub struct MemoryArray {
    info: Info,
    frame: Arc<Frame>,
    strides: Strides,
}

impl MemoryArray {
    /// An array in a frame that has room for it.
    ///
    /// # Panics
    /// Where it has not.
    pub fn new(shape: &[u64], dtype: DType, frame: Arc<Frame>) -> MemoryArray {
        let info = Info {
            path: "memory".into(),
            shape: shape.into(),
            dtype,
            tile: default_tile(shape, dtype.size()),
            layout: Layout::RowMajor,
            format: "memory",
            codecs: "none".into(),
            attributes: "{}".into(),
            writable: true,
        };
        assert!(info.nbytes() <= frame.len() as u64);
        MemoryArray { strides: dense_strides(shape, dtype.size()), info, frame }
    }

    fn at(&self, region: &ArrayBox) -> *mut u8 {
        let offset = region.start.iter().zip(&self.strides).map(|(&s, d)| s as isize * d).sum();
        self.frame.as_ptr().wrapping_offset(offset)
    }
}

impl Store for MemoryArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        Staging { least: 0, wanted: 0 }
    }

    fn bytes_to_load(&self, _region: &ArrayBox) -> Result<u64> {
        Ok(0)
    }

    fn bytes_to_store(&self, _region: &ArrayBox) -> Result<u64> {
        Ok(0)
    }

    fn load(&self, _mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let region = canvas.region();
        // SAFETY: the frame holds the whole array; that nobody stores to the box meanwhile is for those
        // who share the array to see to, as with every store.
        unsafe { canvas.scatter(region, self.at(region), &self.strides, 1) };
        Ok(())
    }

    fn store(&self, _mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let region = canvas.region();
        // SAFETY: as above.
        unsafe { canvas.gather(region, self.at(region), &self.strides, 1) };
        Ok(())
    }

    fn commit(&self, _mover: &mut Mover) -> Result<()> {
        Ok(())
    }

    fn abort(&self) {}

    fn is_pending(&self) -> bool {
        false
    }

    fn stored_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn units(&self) -> u64 {
        0
    }

    fn check(&self, _mover: &mut Mover, _unit: u64) -> Result<Finding> {
        Ok(Finding::Sound)
    }
}
