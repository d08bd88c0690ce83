//! Zarr arrays with other codecs than our own, through the `zarrs` crate.

use super::{Canvas, Finding, Info, Mover, Staging, Store};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::shape::ArrayBox;
use std::path::Path;
use std::sync::Arc;

/// A Zarr array, version 2 or 3, whose chunks `zarrs` encodes and decodes.
pub struct ForeignArray {
    info: Info,
}

impl ForeignArray {
    /// Opens an array.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::Corrupt`], the operating system's.
    pub fn open(_disk: &Arc<Disk>, path: &Path, _writable: bool) -> Result<ForeignArray> {
        Err(Error::unsupported(path, "in the making"))
    }

    /// Makes an array.
    ///
    /// # Errors
    /// As for any store.
    #[allow(clippy::too_many_arguments)]
    pub fn create(
        _disk: &Arc<Disk>,
        path: &Path,
        _shape: &[u64],
        _dtype: DType,
        _tile: &[u64],
        _codecs: &str,
        _zarr_format: u8,
        _attributes: serde_json::Map<String, serde_json::Value>,
        _overwrite: bool,
    ) -> Result<ForeignArray> {
        Err(Error::unsupported(path, "in the making"))
    }
}

impl Store for ForeignArray {
    fn info(&self) -> &Info {
        &self.info
    }
    fn staging(&self, _exact: bool) -> Staging {
        Staging { least: 0, wanted: 0 }
    }
    fn bytes_to_load(&self, _region: &ArrayBox) -> Result<u64> {
        Ok(0)
    }
    fn load(&self, _mover: &mut Mover, _canvas: &Canvas) -> Result<()> {
        Ok(())
    }
    fn store(&self, _mover: &mut Mover, _canvas: &Canvas) -> Result<()> {
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
