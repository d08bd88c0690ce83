//! `zarr.json` and the index of checksums, read and written together.

use super::TiledArray;
use crate::error::{Error, Result};
use crate::format::index::{self, INDEX_FILE, TileIndex};
use crate::format::zarr::{self, ArrayMeta, METADATA_FILE, Ours, Parsed};
use crate::format::{FormatError, MAX_METADATA_BYTES};
use crate::io::disk::{Disk, DiskDir};
use crate::shape::TileGrid;
use crate::store::commit::update::{Decided, Found, is_missing};
use std::path::Path;
use std::sync::PoisonError;

/// What is wrong with labels is what was asked for, and not what is stored.
pub(in crate::store) fn unlabelled(path: &Path, error: FormatError) -> Error {
    match error {
        FormatError::Malformed(what) => Error::invalid(format!("{}: {what}", path.display())),
        other => other.at(path),
    }
}

/// Parses the `zarr.json` of an array of ours.
pub(super) fn parse(path: &Path, json: &[u8]) -> Result<ArrayMeta> {
    match zarr::parse(json).map_err(|e| e.at(path))? {
        Parsed::Native(meta) => Ok(meta),
        Parsed::Foreign { reason } => Err(Error::unsupported(path, reason)),
    }
}

/// Reads `zarr.json` and the index, by way of a change that is decided. A commit by another process
/// between the two reads is noticed by the index's checksum, and both are read again.
pub(super) fn read_metadata(
    disk: &Disk,
    path: &Path,
    dir: &DiskDir,
    accept: bool,
) -> Result<(ArrayMeta, Option<TileIndex>, Option<Decided>)> {
    let empty = |grid: &TileGrid| TileIndex::new(grid).map_err(|e| e.at(path));
    let limit = MAX_METADATA_BYTES as u64;
    let mut attempts = 0;
    loop {
        let mut meta = parse(path, &disk.read_small_beneath(dir, METADATA_FILE, limit)?)?;
        let grid = TileGrid::new(&meta.shape, &meta.tile)?;
        let indexed = meta.ours.is_some();
        let decided = Found::look(disk, dir, &grid, indexed)?.for_reading(path, indexed)?;
        let read = |name: &str, limit: u64| match &decided {
            Some(decided) => decided.read(disk, dir, name, limit),
            None => disk.read_small_beneath(dir, name, limit),
        };
        if decided.is_some() {
            meta = parse(path, &read(METADATA_FILE, limit)?)?;
            if TileGrid::new(&meta.shape, &meta.tile)? != grid {
                return Err(Error::corrupt(path, "the decided change is of an array of another shape"));
            }
        }
        let bytes = match read(INDEX_FILE, 64 + grid.tiles().saturating_mul(5) + 64 * 16) {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => {
                if meta.ours.is_none() {
                    return Ok((meta, None, decided));
                }
                if accept {
                    return Ok((meta, Some(empty(&grid)?), decided));
                }
                let what = format!("its index of checksums, {INDEX_FILE}, is missing");
                return Err(Error::corrupt(path, what));
            }
            Err(other) => return Err(other),
        };
        let bound = meta.ours.as_ref().is_none_or(|ours| Some(ours.index_crc32c) == index::stamp(&bytes));
        attempts += 1;
        if !bound && attempts < 10 && !accept {
            std::thread::sleep(std::time::Duration::from_millis(20));
            continue;
        }
        if accept && (!bound || TileIndex::decode(&bytes, &grid).is_err()) {
            return Ok((meta, Some(empty(&grid)?), decided));
        }
        if !bound {
            let what = format!("{INDEX_FILE} is not the one that {METADATA_FILE} names");
            return Err(Error::corrupt(path, what));
        }
        let index = TileIndex::decode(&bytes, &grid).map_err(|e| e.at(path))?;
        return Ok((meta, Some(index), decided));
    }
}

impl TiledArray {
    /// The index's file and the metadata that names its checksum.
    pub(super) fn encode_metadata(&self) -> (Option<Vec<u8>>, Vec<u8>) {
        let mut meta = self.meta.clone();
        let index = self.index.as_ref().map(|i| i.read().unwrap_or_else(PoisonError::into_inner).encode());
        if let Some(bytes) = &index {
            meta.ours = index::stamp(bytes).map(|index_crc32c| Ours { format: 1, index_crc32c });
        }
        (index, meta.encode())
    }
}
