//! Tiles' files, read, checked and brought to where they are wanted.

use super::{State, TiledArray, blocks, lock};
use crate::error::{Error, Result};
use crate::format::crc32c;
use crate::format::index::{self, INDEX_FILE, TileIndex};
use crate::format::zarr::Encoding;
use crate::io::disk::{LINK, is_link};
use crate::io::{Access, Direction, Transfer};
use crate::shape::ArrayBox;
use crate::store::commit::claim::still_there;
use crate::store::commit::update::{self, is_missing, open_tile};
use crate::store::transfer::canvas::{Canvas, dense_strides};
use crate::store::{Mover, Store};
use std::io;
use std::sync::{Arc, PoisonError};

/// What is wrong with a tile.
pub(super) enum Flaw {
    /// The tile's file or its checksum is broken.
    Damaged(String),
    /// The tile is sound, but not the one recorded; with the checksum it has, if it is there.
    Stale(Option<u32>, String),
}

/// How a tile came to memory.
pub(super) enum Loaded {
    Data,
    /// Never written.
    Fill,
    Flawed(Flaw),
}

impl TiledArray {
    /// Reads a tile's file, or a part of one with frontiers, to `memory`, which has room for whole blocks, and checks it.
    /// Without, to the staging memory, at its place in the [blocks] that hold it.
    pub(super) fn read_tile(
        &self,
        mover: &mut Mover,
        coords: &[u64],
        memory: Option<*mut u8>,
        part: Option<usize>,
    ) -> Result<Loaded> {
        let position = self.grid.linear_index(coords);
        let _reading = self.tile_lock(position).read().unwrap_or_else(PoisonError::into_inner);
        let recorded = self.recorded(position);
        let key = self.meta.tile_key(coords);
        let changed = match &*lock(&self.state) {
            State::Updating(_, Some(c)) if c.tiles.contains(&position) => Some(Arc::clone(c.update.dir())),
            _ => None,
        };
        let opened = match changed {
            Some(dir) => self.disk.open_beneath(&dir, &key, Access::Read),
            None => open_tile(&self.disk, &self.dir, self.decided.as_ref(), position, &key),
        };
        let file = match opened {
            Err(error) if is_missing(&error) => {
                let Some(Some(_)) = recorded else { return Ok(Loaded::Fill) };
                if self.is_replaced() {
                    return Err(self.replaced());
                }
                return Ok(Loaded::Flawed(Flaw::Stale(None, "is missing".into())));
            }
            Err(Error::Io { source, .. }) if is_link(&source) => {
                return Ok(Loaded::Flawed(Flaw::Damaged(LINK.into())));
            }
            other => other?,
        };
        let (found, expected) = (file.len()?, self.file_bytes());
        if found != expected as u64 {
            let how = if found < expected as u64 { "truncated" } else { "too long" };
            let what = format!("is {how}: {found} bytes of {expected}");
            return Ok(Loaded::Flawed(Flaw::Damaged(what)));
        }
        let cancel = mover.cancel.clone();
        let range = self.range(part);
        let (start, end) = blocks(range);
        let (padded, needed) = ((end - start) as usize, (range.1 - start) as usize);
        let disk = mover.disk;
        let (queue, memory) = match memory {
            Some(memory) => (mover.parts(0)?.0, memory),
            None => {
                let (queue, staging, _) = mover.parts(padded)?;
                (queue, staging)
            }
        };
        let mut read = std::iter::once(Transfer::read(&file, start, memory, padded, needed));
        // SAFETY: the caller's memory, or the staging memory, has room for `padded` bytes and is ours.
        let result = unsafe { disk.transfer(queue, &file, &mut read, Direction::Read, &cancel) };
        file.drop_cache();
        match result {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Loaded::Flawed(Flaw::Damaged("was truncated while it was read".into())));
            }
            other => other?,
        }
        // SAFETY: so many bytes were read.
        let bytes = unsafe { std::slice::from_raw_parts(memory, needed) };
        let computed = match self.checksum(&bytes[(range.0 - start) as usize..], part) {
            Ok(Some(computed)) => computed,
            Ok(None) => return Ok(Loaded::Data),
            Err(what) => return Ok(Loaded::Flawed(Flaw::Damaged(what))),
        };
        let stale = |what: &str| Ok(Loaded::Flawed(Flaw::Stale(Some(computed), what.into())));
        match recorded {
            Some(None) => stale("is there, although it was never written"),
            Some(Some(crc)) if crc != computed => {
                if self.is_replaced() {
                    return Err(self.replaced());
                }
                if self.is_changed() {
                    return Err(Error::Changed { path: self.info.path.clone(), how: "changed" });
                }
                stale(
                    "is not the one recorded: it was swapped with another, an old one was put back, or another program has changed it",
                )
            }
            _ => Ok(Loaded::Data),
        }
    }

    /// The checksum by which what was read of a tile is known, if there is one; or what is wrong with it.
    fn checksum(&self, bytes: &[u8], part: Option<usize>) -> std::result::Result<Option<u32>, String> {
        if let Some(frontiers) = &self.frontiers {
            let checked = match part {
                Some(part) => frontiers.check_part(part, bytes),
                None => frontiers.check(bytes),
            };
            return checked.map(Some);
        }
        if self.meta.encoding == Encoding::Plain {
            return Ok(None);
        }
        let (data, stored) = bytes.split_at(self.tile_bytes());
        let stored = u32::from_le_bytes(stored.try_into().expect("four bytes"));
        let computed = crc32c(data);
        if stored == computed {
            return Ok(Some(computed));
        }
        Err(format!("is damaged: its bytes have CRC-32C {computed:08x}, {stored:08x} was stored with them"))
    }

    /// Whether the array was replaced as a whole since it was opened.
    fn is_replaced(&self) -> bool {
        !matches!(*lock(&self.state), State::Creating(_)) && !still_there(&self.dir, &self.info.path)
    }

    /// Whether another process has committed changes since the array was opened.
    fn is_changed(&self) -> bool {
        if !matches!(*lock(&self.state), State::Reading) {
            return false;
        }
        let decided = self.decided.as_ref();
        // First, since a change that has been carried out when the index is read is one that the index tells.
        if update::is_under_way(&self.disk, &self.dir, &self.grid, decided) {
            return true;
        }
        let limit = TileIndex::file_size(&self.grid).unwrap_or(0);
        let now = match decided {
            // That was known, and makes the index what it was when the array was opened.
            Some(decided) => decided.read(&self.disk, &self.dir, INDEX_FILE, limit),
            None => self.disk.read_small_beneath(&self.dir, INDEX_FILE, limit),
        };
        let now = now.ok().and_then(|bytes| index::stamp(&bytes));
        let then = match (&self.meta.ours, &self.index) {
            (Some(ours), _) => Some(ours.index_crc32c),
            // Another program has made `zarr.json` anew, and left what belonged to it.
            (None, Some(index)) => {
                index::stamp(&index.read().unwrap_or_else(PoisonError::into_inner).encode())
            }
            (None, None) => None,
        };
        now.is_some() && now != then
    }

    fn replaced(&self) -> Error {
        Error::Changed { path: self.info.path.clone(), how: "replaced" }
    }

    fn flawed(&self, coords: &[u64], flaw: Flaw) -> Error {
        let what = match flaw {
            Flaw::Damaged(what) => format!("{} {what}", self.tile_name(coords)),
            Flaw::Stale(_, what) => {
                format!(
                    "{} {what} (`outcrop verify --accept` records a lawful change)",
                    self.tile_name(coords)
                )
            }
        };
        Error::corrupt(&self.info.path, what)
    }

    pub(super) fn load_tile(&self, mover: &mut Mover, canvas: &Canvas, coords: &[u64]) -> Result<()> {
        let region = self.grid.tile_box(coords);
        let common = region.intersect(canvas.region()).expect("a tile of the canvas's box");
        let padded = self.file_bytes().next_multiple_of(4096);
        let place = canvas.exact(&region, &self.grid.tile);
        let place = place.filter(|&(_, capacity)| capacity >= padded && self.moves_whole_tiles());
        let place = place.map(|(start, _)| start);
        let part = self.part_of(coords, canvas.region());
        match self.read_tile(mover, coords, place, part)? {
            Loaded::Fill => canvas.fill(&common, &self.meta.fill_value),
            Loaded::Flawed(flaw) => return Err(self.flawed(coords, flaw)),
            Loaded::Data if place.is_some() => {}
            Loaded::Data if self.frontiers.is_some() => {
                let (_, staging, _) = mover.parts(self.bytes_to_read(part) as usize)?;
                // SAFETY: what was read is there.
                unsafe { self.scatter_parts(canvas, &region, staging, part) };
            }
            Loaded::Data => {
                let (_, staging, _) = mover.parts(padded)?;
                let strides = dense_strides(&self.grid.tile, self.meta.dtype.size());
                let inside: isize = (0..common.ndim())
                    .map(|a| (common.start[a] - region.start[a]) as isize * strides[a])
                    .sum();
                // SAFETY: the tile was read to the staging memory, and holds `common`.
                unsafe { canvas.scatter(&common, staging.wrapping_offset(inside), &strides, 1) };
            }
        }
        Ok(())
    }
    /// Brings parts of a tile, or the only one that was read, to where they are wanted.
    ///
    /// # Safety
    /// `staging` holds the blocks of the file that hold them.
    unsafe fn scatter_parts(
        &self,
        canvas: &Canvas,
        tile: &ArrayBox,
        staging: *const u8,
        part: Option<usize>,
    ) {
        let Some(frontiers) = &self.frontiers else { return };
        let (first, _) = blocks(self.range(part));
        for (i, found) in frontiers.parts().iter().enumerate() {
            if part.is_some_and(|part| part != i) {
                continue;
            }
            let place = found.region.behind(&tile.start);
            let Some(common) = place.intersect(tile).and_then(|own| own.intersect(canvas.region())) else {
                continue;
            };
            let strides = dense_strides(&found.region.shape, self.meta.dtype.size());
            let inside: isize =
                (0..common.ndim()).map(|a| (common.start[a] - place.start[a]) as isize * strides[a]).sum();
            let start = staging.wrapping_add((found.offset - first) as usize).wrapping_offset(inside);
            // SAFETY: the caller's promise; the part holds `common`.
            unsafe { canvas.scatter(&common, start, &strides, 1) };
        }
    }
}
