//! What an array of our own will cost, before it is made.

use super::meta::unlabelled;
use crate::dtype::DType;
use crate::error::Result;
use crate::format::index::TileIndex;
use crate::format::zarr::{ArrayMeta, Encoding, Labels, METADATA_FILE, Ours};
use crate::frame::charged;
use crate::shape::{TileGrid, checked_nbytes};
use crate::store::commit::group;
use std::path::Path;

/// What the device counts where a tile's file is written: whole blocks, then the block with the rest
/// of the elements and the checksum.
pub(super) fn stored_size(tile_bytes: usize, file_bytes: usize) -> u64 {
    let whole = tile_bytes / 4096 * 4096;
    (whole + (file_bytes - whole).next_multiple_of(4096)) as u64
}

/// What an array of our own will cost, before it is made.
#[derive(Clone, Debug)]
pub struct Prospect {
    /// How it is cut.
    pub grid: TileGrid,
    /// How the files of tiles will be made.
    pub encoding: Encoding,
    /// Bytes of a frame for a tile.
    pub frame: usize,
    /// Bytes of staging memory through which tiles move; none where they move straight.
    pub staging: usize,
    /// Bytes that storing a tile writes, and that loading it reads.
    pub tile: u64,
    /// Bytes that its commit writes.
    pub commit: u64,
}

impl Prospect {
    /// The prospect of an array.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) where there can be no such array.
    pub fn new(
        shape: &[u64],
        dtype: DType,
        tile: &[u64],
        encoding: Encoding,
        labels: &Labels,
    ) -> Result<Prospect> {
        let grid = TileGrid::new(shape, tile)?;
        checked_nbytes(shape, dtype.size())?;
        let bytes = checked_nbytes(tile, dtype.size())? as usize;
        let place = labels.place.as_deref().unwrap_or(Path::new("the new array"));
        let mut meta =
            ArrayMeta::of(shape, dtype, tile, encoding, labels).map_err(|e| unlabelled(place, e))?;
        meta.ours = Some(Ours { format: 1, index_crc32c: u32::MAX });
        let index = TileIndex::file_size(&grid).map_err(|e| e.at(place))?;
        let json = meta.encode();
        let mut commit = index.next_multiple_of(4096) + (json.len() as u64).next_multiple_of(4096);
        if labels.place.is_some() {
            commit += group::bytes_to_renew(place, &[(METADATA_FILE, json)])?;
        }
        let file = meta.stored_tile_bytes() as usize;
        let (frame, staging) = match meta.frontiers() {
            Some(_) => (charged(bytes), charged(file)),
            None => (charged(file), 0),
        };
        Ok(Prospect { grid, encoding, frame, staging, tile: stored_size(bytes, file), commit })
    }
}
