//! Writing: from a canvas to a chunk's file.

use super::bounded;
use super::codecs::Kind;
use super::memory::Place;
use super::shards::Shards;
use super::{Changes, ForeignArray, State, lock};
use crate::error::{Error, Result};
use crate::frame::{FRAME_ALIGN, charged};
use crate::io::disk::DiskDir;
use crate::io::{Direction, Transfer};
use crate::shape::ArrayBox;
use crate::store::Mover;
use crate::store::commit::update::Update;
use crate::store::linear::read_only;
use crate::store::transfer::canvas::{Canvas, Strides};
use std::collections::HashSet;
use std::sync::Arc;

impl ForeignArray {
    /// Gathers a box that may hang over the array, dense along the axes in `order`, to memory.
    ///
    /// # Safety
    /// `memory` has room for the box, and nobody else uses it.
    unsafe fn gather(
        &self,
        canvas: &Canvas,
        target: &ArrayBox,
        strides: &Strides,
        memory: *mut u8,
        bytes: usize,
    ) {
        let inside = target.intersect(&ArrayBox::whole(&self.grid.shape));
        if inside.as_ref() != Some(target) {
            // SAFETY: the caller's promise.
            let all = unsafe { std::slice::from_raw_parts_mut(memory, bytes) };
            all.chunks_exact_mut(self.itemsize()).for_each(|e| e.copy_from_slice(&self.element.fill));
        }
        if let Some(inside) = inside {
            // SAFETY: the caller's promise; what is inside comes first along each axis.
            unsafe { canvas.gather(&inside, memory, strides, 1) };
        }
    }

    pub(super) fn store_chunk(&self, mover: &mut Mover, canvas: &Canvas, coords: &[u64]) -> Result<()> {
        mover.cancel.check()?;
        let chunk = self.grid.tile_box(coords);
        if !canvas.region().contains(&chunk) {
            return Err(Error::invalid(format!("{} is stored in part only", self.chunk_name(coords))));
        }
        match &*lock(&self.state) {
            State::Creating(..) | State::Updating(..) => {}
            State::Reading => return Err(read_only(&self.info)),
            State::Planned(_) => return Err(Error::invalid("the array is only planned")),
            State::Closed => return Err(Error::invalid("the array is closed")),
        }
        let failed = |what| {
            let name = self.chunk_name(coords);
            bounded::refused().unwrap_or_else(|| Error::invalid(format!("{name} cannot be encoded: {what}")))
        };
        let (place, len) = match &self.codecs.kind {
            Kind::Whole(_) => self.encode_whole(mover, canvas, &chunk, &failed)?,
            Kind::Shards(shards) => self.encode_shard(mover, canvas, shards, &chunk, &failed)?,
        };
        self.write_chunk(mover, coords, &place, len)
    }

    /// Encodes a chunk, so that its file's bytes are at the start of the memory that is returned.
    fn encode_whole(
        &self,
        mover: &mut Mover,
        canvas: &Canvas,
        chunk: &ArrayBox,
        failed: &dyn Fn(String) -> Error,
    ) -> Result<(Place, usize)> {
        let bytes = self.codecs.bytes;
        let place = Place::new(mover, charged(bytes.max(self.codecs.most_encoded())))?;
        let _room = place.make_room(mover, self.codecs.encode_heap())?;
        let whole = ArrayBox { start: chunk.start.clone(), shape: self.grid.tile.clone() };
        // SAFETY: the memory is ours and has room for a chunk.
        let elements = unsafe {
            self.gather(canvas, &whole, &self.codecs.strides(), place.start, bytes);
            std::slice::from_raw_parts(place.start, bytes)
        };
        let encoded = self.codecs.encode(elements).map_err(failed)?;
        let len = encoded.len();
        if encoded.as_ptr() == place.start {
            return Ok((place, len));
        }
        let target = if len <= charged(bytes.max(self.codecs.most_encoded())) {
            place
        } else {
            Place::new(mover, charged(len))?
        };
        // SAFETY: the memory has room; the codecs have made memory of their own, as the pointers
        // show, and the elements are not needed any more.
        unsafe { std::ptr::copy(encoded.as_ptr(), target.start, len) };
        Ok((target, len))
    }

    /// The same for a shard: its inner chunks one after the other, and the index.
    fn encode_shard(
        &self,
        mover: &mut Mover,
        canvas: &Canvas,
        shards: &Shards,
        chunk: &ArrayBox,
        failed: &dyn Fn(String) -> Error,
    ) -> Result<(Place, usize)> {
        let room = charged(shards.most_encoded());
        let place = Place::new(mover, room.saturating_add(charged(shards.inner.bytes)))?;
        let _room = place.make_room(mover, shards.inner.encode_heap().saturating_add(shards.index_heap()))?;
        let scratch = place.start.wrapping_add(room);
        let strides = self.inner_strides(shards);
        let whole = ArrayBox::whole(&shards.grid.shape);
        let mut index = Vec::with_capacity(2 * shards.grid.tiles() as usize);
        let mut end = shards.data_start();
        let append = |end: usize, bytes: &[u8]| -> Result<usize> {
            if bytes.len() > room - end {
                return Err(failed(format!("its shard has more than {room} bytes")));
            }
            // SAFETY: there is room, and the bytes lie elsewhere: in scratch or on the heap.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.start.add(end), bytes.len()) };
            Ok(end + bytes.len())
        };
        for coords in shards.grid.tiles_of(&whole) {
            let inner = self.inner_box(shards, chunk, &coords);
            // SAFETY: `scratch` is ours and has room for an inner chunk.
            let elements = unsafe {
                self.gather(canvas, &inner, &strides, scratch, shards.inner.bytes);
                std::slice::from_raw_parts(scratch, shards.inner.bytes)
            };
            if elements.chunks_exact(self.itemsize()).all(|e| e == self.element.fill.as_slice()) {
                index.extend([u64::MAX, u64::MAX]);
                continue;
            }
            let encoded = shards.inner.encode(elements).map_err(failed)?;
            index.extend([end as u64, encoded.len() as u64]);
            end = append(end, &encoded)?;
        }
        let index = shards.encode_index(&index).map_err(failed)?;
        if shards.data_start() == 0 {
            end = append(end, &index)?;
        } else {
            append(0, &index)?;
        }
        Ok((place, end))
    }

    /// Writes a chunk's file beside the array, or into the array that is being built.
    fn write_chunk(&self, mover: &mut Mover, coords: &[u64], place: &Place, len: usize) -> Result<()> {
        let key = self.key(coords);
        let update = match &mut *lock(&self.state) {
            State::Creating(..) => None,
            State::Updating(_, changes) => {
                if changes.is_none() {
                    let update = Update::begin(&self.disk, &self.dir)?;
                    *changes = Some(Changes { update, chunks: HashSet::new() });
                }
                changes.as_ref().map(|c| Arc::clone(c.update.dir()))
            }
            State::Reading => return Err(read_only(&self.info)),
            State::Planned(_) => return Err(Error::invalid("the array is only planned")),
            State::Closed => return Err(Error::invalid("the array is closed")),
        };
        let dir = update.as_deref().unwrap_or(&self.dir);
        let position = self.grid.linear_index(coords);
        lock(&self.torn).insert(position);
        let written = self.write_file(mover, dir, &key, place, len);
        if written.is_ok() {
            lock(&self.torn).remove(&position);
        } else {
            // Half a chunk must not be committed, whatever the caller makes of the error.
            let _ = self.disk.remove_beneath(dir, &key);
        }
        if let State::Updating(_, Some(changes)) = &mut *lock(&self.state) {
            match written {
                Ok(()) => changes.chunks.insert(position),
                Err(_) => changes.chunks.remove(&position),
            };
        }
        written
    }

    fn write_file(
        &self,
        mover: &mut Mover,
        dir: &DiskDir,
        key: &str,
        place: &Place,
        len: usize,
    ) -> Result<()> {
        let file = self.disk.create_beneath(dir, key, len as u64)?;
        let whole = len / FRAME_ALIGN * FRAME_ALIGN;
        if whole > 0 {
            let cancel = mover.cancel.clone();
            let mut write = std::iter::once(Transfer::write(&file, 0, place.start, whole));
            // SAFETY: the encoded chunk lies there, and nobody writes to it while it is stored.
            unsafe { mover.disk.transfer(&mut mover.queue, &file, &mut write, Direction::Write, &cancel)? };
        }
        if whole < len {
            // SAFETY: as above.
            let end = unsafe { std::slice::from_raw_parts(place.start.add(whole), len - whole) };
            self.disk.write_unaligned(&file, whole as u64, end)?;
        }
        file.drop_cache();
        Ok(())
    }
}
