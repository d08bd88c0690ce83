//! Reading: from a chunk's file to the pieces of a box.

use super::codecs::{Codecs, Kind, Straight, check_size};
use super::extents::Place as Interval;
use super::extents::{InFile, Wanted, decode, extents, failed, load_extent, sort};
use super::indexes::FileState;
use super::memory::{Place, blocks, read_range, truncated};
use super::shards::{EXTENT, Index, Shards};
use super::{ForeignArray, State, lock};
use crate::error::{Error, Result};
use crate::frame::{Budget, FRAME_ALIGN, charged};
use crate::io::disk::{DiskFile, LINK, is_link};
use crate::io::{Access, Direction, Transfer};
use crate::shape::{ArrayBox, Dims, Tuple};
use crate::store::Mover;
use crate::store::commit::claim::still_there;
use crate::store::commit::update::{is_missing, open_tile};
use crate::store::transfer::canvas::{Canvas, Strides};
use zarrs::array::BytesRepresentation;

/// The largest index of a shard that is read while a run is planned, for which no memory is charged.
const MOST_PLANNED: usize = 2 << 20;

/// Why a chunk could not be loaded.
pub(super) enum Trouble {
    /// What is wrong with the chunk.
    Damaged(String),
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Failed(error)
    }
}

impl From<String> for Trouble {
    fn from(what: String) -> Trouble {
        Trouble::Damaged(what)
    }
}

/// Where the elements of a chunk go.
pub(super) struct Sink<'a> {
    /// `None` where it is only looked whether they are there.
    pub(super) canvas: Option<&'a Canvas>,
    pub(super) fill: &'a [u8],
}

impl Sink<'_> {
    /// A box that was never written.
    pub(super) fn fill(&self, region: &ArrayBox) {
        if let Some(canvas) = self.canvas {
            canvas.fill(region, self.fill);
        }
    }

    /// A box's elements, the first one at `inside`, with strides in bytes.
    pub(super) fn elements(&self, region: &ArrayBox, elements: &[u8], inside: usize, strides: &Strides) {
        if let Some(canvas) = self.canvas {
            // SAFETY: the elements of the box are there at these strides.
            unsafe { canvas.scatter(region, elements[inside..].as_ptr(), strides, 1) };
        }
    }

    /// The memory of all of a chunk of this shape, of which `region` is the part inside the array, where it can be
    /// decoded there.
    pub(super) fn place(
        &self,
        codecs: &Codecs,
        region: &ArrayBox,
        shape: &[u64],
        strides: &Strides,
    ) -> Option<*mut u8> {
        codecs.straight()?;
        self.canvas?.whole(region, shape, strides)
    }
}

impl ForeignArray {
    /// Whether the array was replaced as a whole since it was opened. Its chunks are gone then, which
    /// must not be taken for never written.
    fn is_replaced(&self) -> bool {
        !matches!(*lock(&self.state), State::Creating(..)) && !still_there(&self.dir, &self.info.path)
    }

    /// A chunk's file, or `None` where it was never written.
    pub(super) fn open_chunk(&self, coords: &[u64]) -> Result<Option<DiskFile>, Trouble> {
        let key = self.key(coords);
        let position = self.grid.linear_index(coords);
        let opened = match self.changed(coords) {
            Some(dir) => self.disk.open_beneath(&dir, &key, Access::Read),
            None => open_tile(&self.disk, &self.dir, self.decided.as_ref(), position, &key),
        };
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(error) if is_missing(&error) => {
                if self.is_replaced() {
                    return Err(Error::Changed { path: self.info.path.clone(), how: "replaced" }.into());
                }
                if self.decided.as_ref().is_some_and(|decided| decided.has(position)) {
                    return Err(Trouble::Damaged("is missing, although a change lists it".into()));
                }
                Ok(None)
            }
            Err(Error::Io { source, .. }) if is_link(&source) => Err(Trouble::Damaged(LINK.into())),
            Err(other) => Err(other.into()),
        }
    }

    /// Decodes what a box of the array has of a chunk, to a canvas, if there is one.
    pub(super) fn visit(
        &self,
        mover: &mut Mover,
        coords: &[u64],
        region: &ArrayBox,
        canvas: Option<&Canvas>,
    ) -> Result<(), Trouble> {
        let sink = &Sink { canvas, fill: &self.element.fill };
        mover.cancel.check()?;
        let chunk = self.grid.tile_box(coords);
        let Some(common) = chunk.intersect(region) else { return Ok(()) };
        let Some(file) = self.open_chunk(coords)? else {
            sink.fill(&common);
            return Ok(());
        };
        let result = match &self.codecs.kind {
            Kind::Whole(_) => self.visit_whole(mover, &file, &chunk, &common, sink),
            Kind::Shards(shards) => self.visit_shard(mover, &file, shards, &chunk, &common, sink),
        };
        file.drop_cache();
        result
    }

    fn visit_whole(
        &self,
        mover: &mut Mover,
        file: &DiskFile,
        chunk: &ArrayBox,
        common: &ArrayBox,
        sink: &Sink,
    ) -> Result<(), Trouble> {
        let len = file.len()?;
        let most = self.codecs.most_encoded() as u64;
        if is_too_long(len, most) {
            return Err(Trouble::Damaged(format!("is too long: {len} bytes, where {most} are possible")));
        }
        let strides = self.codecs.strides();
        let straight =
            if common == chunk { sink.place(&self.codecs, common, &self.grid.tile, &strides) } else { None };
        if let Some(start) = straight
            && (start as usize).is_multiple_of(FRAME_ALIGN)
            && self.codecs.straight().is_some_and(Straight::is_bare)
        {
            // SAFETY: there is room for a chunk.
            return unsafe { self.read_bare(mover, file, len, start) };
        }
        let place = Place::new(mover, charged(len as usize))?;
        let (disk, cancel) = (mover.disk, mover.cancel.clone());
        // SAFETY: the memory is ours and has room for the file in whole blocks.
        unsafe { read_range(disk, &mut mover.queue, &cancel, file, (0, len), place.start)? };
        let heap = if straight.is_some() { self.codecs.straight_heap() } else { self.codecs.decode_heap() };
        let _room = place.make_room(mover, heap)?;
        // SAFETY: that many bytes were read.
        let encoded = unsafe { std::slice::from_raw_parts(place.start, len as usize) };
        let damaged = |what| format!("is damaged: {what}");
        if let Some(start) = straight {
            // SAFETY: there is room for a chunk, which is the canvas's and nobody else's until this returns.
            let memory = unsafe { std::slice::from_raw_parts_mut(start, self.codecs.bytes) };
            return Ok(self.codecs.decode_to(encoded, memory).map_err(damaged)?);
        }
        let elements = self.codecs.decode(encoded).map_err(damaged)?;
        sink.elements(common, &elements, offset_of(common, chunk, &strides), &strides);
        Ok(())
    }

    /// Reads a file that is a chunk's elements to aligned memory: whole blocks as they are, and what is left through
    /// one block of staging memory.
    ///
    /// # Safety
    /// There is room for a chunk, and nobody else uses it.
    unsafe fn read_bare(
        &self,
        mover: &mut Mover,
        file: &DiskFile,
        len: u64,
        start: *mut u8,
    ) -> Result<(), Trouble> {
        let bytes = self.codecs.bytes;
        check_size(len as usize, BytesRepresentation::FixedSize(bytes as u64))
            .map_err(|what| format!("is damaged: {what}"))?;
        let whole = bytes / FRAME_ALIGN * FRAME_ALIGN;
        let end = if whole < bytes { Some(Place::new(mover, FRAME_ALIGN)?) } else { None };
        let body = (whole > 0).then(|| Transfer::read(file, 0, start, whole, whole));
        let tail =
            end.as_ref().map(|end| Transfer::read(file, whole as u64, end.start, FRAME_ALIGN, bytes - whole));
        let (disk, cancel) = (mover.disk, mover.cancel.clone());
        // SAFETY: the caller's promise, and the block is ours; the file is open until the transfers return.
        let result = unsafe {
            disk.transfer(&mut mover.queue, file, &mut body.into_iter().chain(tail), Direction::Read, &cancel)
        };
        result.map_err(truncated)?;
        if let Some(end) = end {
            // SAFETY: so many bytes were read, and there is room for them.
            unsafe { std::ptr::copy_nonoverlapping(end.start, start.add(whole), bytes - whole) };
        }
        Ok(())
    }

    fn visit_shard(
        &self,
        mover: &mut Mover,
        file: &DiskFile,
        shards: &Shards,
        chunk: &ArrayBox,
        common: &ArrayBox,
        sink: &Sink,
    ) -> Result<(), Trouble> {
        let state = FileState::of(file)?;
        let (disk, cancel, len) = (mover.disk, mover.cancel.clone(), state.len);
        let range = shards.index_range(len)?;
        let whole = shards.is_read_whole(len, common == chunk).then_some((0, len));
        let (start, end) = whole.map_or(blocks(range.0, range.1), |(from, to)| blocks(from, to));
        let place = Place::new(mover, (end - start) as usize)?;
        let decoding = if whole.is_some() { shards.inner.decode_heap() } else { 0 };
        let room = place.make_room(mover, shards.index_heap().saturating_add(decoding))?;
        let known = if whole.is_some() { None } else { self.indexes.take(self.position_of(chunk), &state) };
        let index = match known {
            Some(index) => {
                // When it was read it was nobody's.
                disk.counters().add_read_elsewhere(end - start);
                index
            }
            // SAFETY: the memory is ours and has room for those blocks.
            None => unsafe {
                let at =
                    read_range(disk, &mut mover.queue, &cancel, file, whole.unwrap_or(range), place.start)?;
                let at = if whole.is_some() { range.0 as usize } else { at };
                shards.decode_index(std::slice::from_raw_parts(place.start.add(at), shards.index_bytes))?
            },
        };
        let wanted = self.in_shard(chunk, common);
        let mut positions = Vec::with_capacity(shards.grid.tiles_of(&wanted).count());
        for coords in shards.grid.tiles_of(&wanted) {
            match shards.position(&index, &coords, len)? {
                Some(position) => {
                    let place = index.at(position);
                    let (bytes, most) = (place.to - place.from, shards.inner.most_encoded() as u64);
                    if is_too_long(bytes, most) {
                        let inner = Tuple(&coords);
                        return Err(Trouble::Damaged(format!(
                            "is damaged: its inner chunk {inner} has {bytes} bytes, where {most} are possible"
                        )));
                    }
                    positions.push(position);
                }
                None => {
                    let inner = self.inner_box(shards, chunk, &coords);
                    sink.fill(&inner.intersect(common).expect("an inner chunk of the box"));
                }
            }
        }
        sort(&mut positions, |position| index.at(position));
        let inner = InShard { array: self, shards, index, chunk, strides: self.inner_strides(shards) };
        let wanted = Wanted { all: chunk, region: common, sink };
        if whole.is_some() {
            // SAFETY: that many bytes were read.
            let bytes = unsafe { std::slice::from_raw_parts(place.start, len as usize) };
            return decode(&inner, (bytes, 0), &positions, &wanted);
        }
        // The numbers have room as long as they are there.
        drop(place);
        let beside = (shards.index_heap(), room.as_ref());
        for extent in extents(positions.iter().map(|&position| inner.place(position)), EXTENT) {
            let found = (&extent, &positions[extent.chunks.clone()]);
            load_extent(mover, file, &inner, found, beside, &wanted)?;
        }
        Ok(())
    }

    /// Bytes that loading a part of a shard reads: all of them, or those of its index, and of the inner chunks.
    pub(super) fn shard_bytes(
        &self,
        shards: &Shards,
        coords: &[u64],
        region: &ArrayBox,
    ) -> Result<u64, Trouble> {
        let chunk = self.grid.tile_box(coords);
        let Some(common) = chunk.intersect(region) else { return Ok(0) };
        let Some(file) = self.open_chunk(coords)? else { return Ok(0) };
        let state = FileState::of(&file)?;
        let len = state.len;
        let range = shards.index_range(len)?;
        let read = |from: u64, to: u64| {
            let (start, end) = blocks(from, to);
            end - start
        };
        // Planning has no mover, and no budget: the index is small, or all of the file is counted.
        if shards.is_read_whole(len, common == chunk) || shards.index_bytes > MOST_PLANNED {
            return Ok(read(0, len));
        }
        let of_wanted = |index: &Index| -> Result<u64, Trouble> {
            let mut positions = Vec::new();
            for coords in shards.grid.tiles_of(&self.in_shard(&chunk, &common)) {
                positions.extend(shards.position(index, &coords, len)?);
            }
            sort(&mut positions, |position| index.at(position));
            let extents = extents(positions.iter().map(|&position| index.at(position)), EXTENT);
            Ok(read(range.0, range.1) + extents.map(|extent| extent.bytes()).sum::<u64>())
        };
        let position = self.grid.linear_index(coords);
        if let Some(bytes) = self.indexes.with(position, &state, of_wanted) {
            return bytes;
        }
        let mut memory =
            Budget::new(usize::MAX).frame(shards.index_bytes + 2 * FRAME_ALIGN, "the index of a shard")?;
        let (start, end) = blocks(range.0, range.1);
        let (place, need) = (&mut memory.bytes_mut()[..(end - start) as usize], (range.1 - start) as usize);
        self.disk.read_uncounted(&file, start, place, need).map_err(truncated)?;
        file.drop_cache();
        let index = shards.decode_index(&place[(range.0 - start) as usize..need])?;
        let bytes = of_wanted(&index)?;
        self.indexes.keep(position, state, index);
        Ok(bytes)
    }

    /// The position of a chunk among all, from its box.
    fn position_of(&self, chunk: &ArrayBox) -> u64 {
        let coords: Dims = chunk.start.iter().zip(&self.grid.tile).map(|(at, tile)| at / tile).collect();
        self.grid.linear_index(&coords)
    }

    /// A box of the array in the coordinates of a shard: along its encoded axes, from its first
    /// element.
    fn in_shard(&self, chunk: &ArrayBox, region: &ArrayBox) -> ArrayBox {
        let order = &self.codecs.order;
        let start: Dims = order.iter().map(|&a| region.start[a] - chunk.start[a]).collect();
        ArrayBox::new(start, order.iter().map(|&a| region.shape[a]).collect::<Dims>())
    }

    /// The box of an inner chunk in the array, where it may hang over.
    pub(super) fn inner_box(&self, shards: &Shards, chunk: &ArrayBox, coords: &[u64]) -> ArrayBox {
        let mut inner = chunk.clone();
        for (i, &axis) in self.codecs.order.iter().enumerate() {
            inner.start[axis] += coords[i] * shards.grid.tile[i];
            inner.shape[axis] = shards.grid.tile[i];
        }
        inner
    }

    /// Strides in bytes, along the array's axes, of a decoded inner chunk.
    pub(super) fn inner_strides(&self, shards: &Shards) -> Strides {
        let inner = shards.inner.strides();
        let mut strides = inner.clone();
        for (i, &axis) in self.codecs.order.iter().enumerate() {
            strides[axis] = inner[i];
        }
        strides
    }

    /// The error of a chunk that could not be loaded.
    pub(super) fn failed(&self, coords: &[u64], trouble: Trouble) -> Error {
        failed(trouble, |what| Error::corrupt(&self.info.path, format!("{} {what}", self.chunk_name(coords))))
    }
}

/// The inner chunks of a shard.
struct InShard<'a> {
    array: &'a ForeignArray,
    shards: &'a Shards,
    index: Index,
    /// The box of the shard.
    chunk: &'a ArrayBox,
    strides: Strides,
}

impl InFile for InShard<'_> {
    fn place(&self, position: u64) -> Interval {
        self.index.at(position)
    }

    fn codecs(&self, _position: u64) -> &Codecs {
        &self.shards.inner
    }

    fn chunk(&self, position: u64) -> ArrayBox {
        self.array.inner_box(self.shards, self.chunk, &self.shards.grid.coords(position))
    }

    fn strides(&self) -> &Strides {
        &self.strides
    }

    fn compare(&self, _position: u64, _encoded: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn damaged(&self, position: u64, what: String) -> String {
        format!("is damaged in its inner chunk {}: {what}", Tuple(&self.shards.grid.coords(position)))
    }
}

/// Whether so many encoded bytes are more than an encoder leaves that does badly: ours are not the only ones.
pub(super) fn is_too_long(bytes: u64, most: u64) -> bool {
    bytes > most.saturating_mul(2).saturating_add(1 << 20)
}

/// Where a box begins in a dense block that holds another, in bytes.
pub(super) fn offset_of(inner: &ArrayBox, outer: &ArrayBox, strides: &Strides) -> usize {
    (0..inner.ndim()).map(|a| (inner.start[a] - outer.start[a]) as usize * strides[a] as usize).sum()
}
