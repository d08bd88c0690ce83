//! Tiles' files, made and written.

use super::{Changes, State, TiledArray, lock};
use crate::error::{Error, Result};
use crate::format::crc32c;
use crate::format::zarr::Encoding;
use crate::frame::charged;
use crate::io::{Direction, Transfer};
use crate::shape::{ArrayBox, Dims};
use crate::store::Mover;
use crate::store::commit::update::Update;
use crate::store::linear::read_only;
use crate::store::transfer::canvas::{Canvas, dense_strides};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

impl TiledArray {
    pub(super) fn store_tile(&self, mover: &mut Mover, canvas: &Canvas, coords: &[u64]) -> Result<()> {
        let region = self.grid.tile_box(coords);
        if !canvas.region().contains(&region) {
            return Err(Error::invalid(format!("{} is stored in part only", self.tile_name(coords))));
        }
        // The checksum comes behind the elements; between parts with frontiers, there are more.
        let len = if self.frontiers.is_some() { self.file_bytes() } else { self.tile_bytes() };
        let place = canvas.exact(&region, &self.grid.tile).filter(|&(_, capacity)| capacity >= len);
        // Behind the last whole block of data come the rest of the data and the checksum.
        let whole = len / 4096 * 4096;
        let mut sealed = None;
        let memory = match place {
            _ if self.frontiers.is_some() => {
                let (_, staging, _) = mover.parts(charged(len))?;
                // SAFETY: the staging memory is ours and has room for a tile's file.
                sealed = unsafe { self.gather_parts(canvas, &region, staging) };
                staging
            }
            Some((start, _)) => {
                // SAFETY: the place has room for a whole tile, all of which may be overwritten.
                unsafe { self.fill_overhang(start, &region.shape) };
                start
            }
            None => {
                let (_, staging, _) = mover.parts(charged(len))?;
                let strides = dense_strides(&self.grid.tile, self.meta.dtype.size());
                if region.shape != self.grid.tile {
                    let item = &self.meta.fill_value;
                    // SAFETY: the staging memory is ours and holds a whole tile.
                    unsafe { crate::strided::fill(staging, &strides, &self.grid.tile, item) };
                }
                // SAFETY: as above; the tile's part of the array comes first along each axis.
                unsafe { canvas.gather(&region, staging, &strides, 1) };
                staging
            }
        };
        // SAFETY: `len` bytes of the tile are at `memory`, and nobody writes them while they are stored.
        let data = unsafe { std::slice::from_raw_parts(memory, len) };
        let checksum = sealed.unwrap_or_else(|| crc32c(data));
        let position = self.grid.linear_index(coords);
        let _writing = self.tile_lock(position).write().unwrap_or_else(PoisonError::into_inner);
        let key = self.meta.tile_key(coords);
        let update = match &mut *lock(&self.state) {
            State::Creating(_) => None,
            State::Updating(_, changes) => {
                if changes.is_none() {
                    let update = Update::begin(&self.disk, &self.dir)?;
                    let index = self.index.as_ref();
                    let before =
                        index.map(|index| index.read().unwrap_or_else(PoisonError::into_inner).clone());
                    *changes = Some(Changes { update, tiles: HashSet::new(), before });
                }
                changes.as_ref().map(|c| Arc::clone(c.update.dir()))
            }
            State::Reading => return Err(read_only(&self.info)),
            State::Closed => return Err(Error::invalid("the array is closed")),
        };
        lock(&self.torn).insert(position);
        let dir = update.as_deref().unwrap_or(&self.dir);
        let file = self.disk.create_beneath(dir, &key, self.file_bytes() as u64)?;
        if whole > 0 {
            let cancel = mover.cancel.clone();
            let disk = mover.disk;
            let (queue, _, _) = mover.parts(0)?;
            let mut write = std::iter::once(Transfer::write(&file, 0, memory, whole));
            // SAFETY: as for `data`.
            unsafe { disk.transfer(queue, &file, &mut write, Direction::Write, &cancel)? };
        }
        let mut end = data[whole..].to_vec();
        if self.meta.encoding == Encoding::Checksummed {
            end.extend(checksum.to_le_bytes());
        }
        if !end.is_empty() {
            self.disk.write_unaligned(&file, whole as u64, &end)?;
        }
        file.drop_cache();
        self.promise.iter().for_each(|promise| promise.took(self.file_bytes().next_multiple_of(4096) as u64));
        if let State::Updating(_, Some(changes)) = &mut *lock(&self.state) {
            changes.tiles.insert(position);
        }
        lock(&self.torn).remove(&position);
        if let Some(index) = &self.index {
            index.write().unwrap_or_else(PoisonError::into_inner).set(position, checksum);
        }
        Ok(())
    }

    /// Makes the file of a tile with frontiers in memory; the checksum by which it is known.
    ///
    /// # Safety
    /// There is room for the file, and nobody else uses it.
    unsafe fn gather_parts(&self, canvas: &Canvas, tile: &ArrayBox, memory: *mut u8) -> Option<u32> {
        let frontiers = self.frontiers.as_ref()?;
        for part in frontiers.parts() {
            let place = part.region.behind(&tile.start);
            let start = memory.wrapping_add(part.offset as usize);
            let strides = dense_strides(&part.region.shape, self.meta.dtype.size());
            let inside = place.intersect(tile);
            if inside.as_ref() != Some(&place) {
                // SAFETY: the caller's promise, and the part is in the file.
                unsafe { crate::strided::fill(start, &strides, &part.region.shape, &self.meta.fill_value) };
            }
            if let Some(inside) = inside {
                // SAFETY: as above; what is inside comes first along each axis.
                unsafe { canvas.gather(&inside, start, &strides, 1) };
            }
        }
        // SAFETY: as above; all elements have been written, and checksums are written and not read.
        let file = unsafe { std::slice::from_raw_parts_mut(memory, self.file_bytes()) };
        Some(frontiers.seal(file))
    }

    /// Sets what of a tile lies outside the array to the fill value.
    ///
    /// # Safety
    /// A whole tile may be written at `start`.
    unsafe fn fill_overhang(&self, start: *mut u8, inside: &[u64]) {
        let tile = &self.grid.tile;
        let strides = dense_strides(tile, self.meta.dtype.size());
        let mut shape = Dims::from_slice(inside);
        for axis in 0..tile.len() {
            // Along the axes before, what is inside; along those behind, all.
            shape[axis] = tile[axis] - inside[axis];
            shape[axis + 1..].copy_from_slice(&tile[axis + 1..]);
            if shape[axis] > 0 {
                let from = start.wrapping_offset(inside[axis] as isize * strides[axis]);
                // SAFETY: the box lies inside the tile.
                unsafe { crate::strided::fill(from, &strides, &shape, &self.meta.fill_value) };
            }
            shape.clear();
            shape.extend_from_slice(inside);
        }
    }
}
