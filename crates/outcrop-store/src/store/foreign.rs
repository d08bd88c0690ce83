//! Zarr arrays with other codecs than our own, through the `zarrs` crate.
//!
//! `zarrs` makes the codecs that the metadata names, and runs them on memory; it opens no file. All
//! bytes move through [`Disk`], as those of every store do.
//!
//! - [`meta`]: `zarr.json` and `.zarray`.
//! - [`codecs`]: from a chunk's bytes to its elements and back.
//! - [`shards`]: files that hold many chunks.
//!
//! The tile of such an array is the chunk, and of a sharded array the shard: what is one file is
//! written as a whole. Reading a part of a shard reads the inner chunks that the part touches.
//!
//! Memory: a chunk's file is read to the mover's staging memory, and what codecs allocate is heap
//! memory. [`Store::staging`] says what both take together. While codecs run, the staging memory that
//! the file leaves free is given back to the system, so that the heap memory takes its place in the
//! budget; only what does not fit there is charged in addition.
//!
//! A chunk that has no file holds the fill value, as Zarr says.

mod codecs;
mod meta;
mod shards;

use super::canvas::{Canvas, Strides};
use super::claim::{Claim, Kind as ClaimKind, still_there};
use super::open::directory_bytes;
use super::update::{self, Update, Writer};
use super::{Finding, Info, Mover, Staging, Store};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::frame::{Budget, Charge, FRAME_ALIGN, Frame, charged};
use crate::io::disk::{Disk, DiskDir, DiskFile};
use crate::io::{Access, Cancel, Direction, IoQueue, Transfer};
use crate::layout::Layout;
use crate::shape::{ArrayBox, Dims, TileGrid, Tuple};
use codecs::{Codecs, Element, Kind};
use meta::{Files, Meta, New};
use shards::{Extent, Shards, extents};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zarrs::array::ChunkKeyEncoding;

enum State {
    Reading,
    /// Open for changes; `None` until the first.
    Updating(Writer, Option<Changes>),
    Creating(Claim, Files),
    Closed,
}

struct Changes {
    update: Update,
    chunks: HashSet<u64>,
}

/// A Zarr array, version 2 or 3, whose chunks `zarrs` encodes and decodes.
pub struct ForeignArray {
    info: Info,
    disk: Arc<Disk>,
    grid: TileGrid,
    element: Element,
    keys: ChunkKeyEncoding,
    codecs: Codecs,
    /// The array's directory, or the one in which it is being built.
    dir: DiskDir,
    state: Mutex<State>,
}

/// Why a chunk could not be loaded.
enum Trouble {
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

/// A part of a chunk that has been decoded.
enum Piece<'a> {
    /// Never written.
    Fill,
    /// Elements, the first of the piece's box first, with strides in bytes.
    Elements(&'a [u8], &'a Strides),
}

/// Receives the pieces of a chunk, each with its box of the array.
type Sink<'a> = dyn FnMut(&ArrayBox, Piece) + 'a;

/// Memory for a chunk's file: the mover's staging memory, or a frame where that is too small.
struct Place {
    start: *mut u8,
    /// Bytes of staging memory in use.
    used: usize,
    _own: Option<Frame>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    fn new(mover: &Mover, bytes: usize) -> Result<Place> {
        if let Some(frame) = mover.staging.as_ref().filter(|f| f.len() >= bytes) {
            return Ok(Place { start: frame.as_ptr(), used: bytes, _own: None });
        }
        let frame = mover.budget.frame(bytes, "an encoded chunk")?;
        Ok(Place { start: frame.as_ptr(), used: 0, _own: Some(frame) })
    }

    /// Makes room in the budget for heap memory: in the staging memory that is left, and beyond it.
    fn make_room(&self, mover: &mut Mover, heap: usize) -> Result<Option<Charge>> {
        let mut covered = 0;
        if let (Some(frame), true) = (&mut mover.staging, heap > 0) {
            frame.vacate(self.used);
            covered = frame.len().saturating_sub(charged(self.used));
        }
        if heap <= covered {
            return Ok(None);
        }
        Ok(Some(mover.budget.charge(heap - covered, "decoding and encoding chunks")?))
    }
}

/// The whole blocks that hold a range of a file.
fn blocks(from: u64, to: u64) -> (u64, u64) {
    let block = FRAME_ALIGN as u64;
    (from / block * block, to.next_multiple_of(block))
}

/// Reads a range of a file to memory that has room for the whole blocks around it; the offset of the
/// range in that memory.
///
/// # Safety
/// `memory` is aligned, has room for those blocks, and nobody else uses it meanwhile.
unsafe fn read_range(
    disk: &Disk,
    queue: &mut IoQueue,
    cancel: &Cancel,
    file: &DiskFile,
    (from, to): (u64, u64),
    memory: *mut u8,
) -> Result<usize, Trouble> {
    let (start, end) = blocks(from, to);
    if start < end {
        let transfer = Transfer::read(file, start, memory, (end - start) as usize, (to - start) as usize);
        // SAFETY: the caller's promise; the file is open until the transfer returns.
        let result =
            unsafe { disk.transfer(queue, file, &mut std::iter::once(transfer), Direction::Read, cancel) };
        match result {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Trouble::Damaged("was truncated while it was read".into()));
            }
            other => other?,
        }
    }
    Ok((from - start) as usize)
}

impl ForeignArray {
    /// Opens an array.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::Corrupt`], [`Error::Busy`], the operating system's.
    pub fn open(disk: &Arc<Disk>, path: &Path, writable: bool) -> Result<ForeignArray> {
        let (dir, writer) = update::enter(disk, path, writable)?;
        let meta = meta::read(disk, path)?;
        let state = writer.map_or(State::Reading, |writer| State::Updating(writer, None));
        Ok(Self::assemble(disk, path, dir, meta, writable, state))
    }

    /// Makes an array. `codecs`, for `zarr_format` 3: a JSON list as in `zarr.json`; where none of
    /// them makes bytes of elements, `bytes` (little-endian) is put in its place. For 2: `[]` or one
    /// compressor of numcodecs, as in `.zarray`, or a list of filters with the compressor last.
    ///
    /// What chunks will take is not known beforehand, so that no space is asked for.
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the codec, [`Error::Invalid`], [`Error::Exists`],
    /// [`Error::Busy`], the operating system's.
    #[allow(clippy::too_many_arguments, reason = "a description and two places")]
    pub fn create(
        disk: &Arc<Disk>,
        path: &Path,
        shape: &[u64],
        dtype: DType,
        tile: &[u64],
        codecs: &str,
        zarr_format: u8,
        attributes: serde_json::Map<String, serde_json::Value>,
        overwrite: bool,
    ) -> Result<ForeignArray> {
        let new = New { shape, dtype, tile, codecs, attributes };
        let (meta, files) = new.files(zarr_format, path)?;
        let claim = Claim::new(disk, path, ClaimKind::Directory, overwrite)?;
        let dir = disk.open_dir(claim.path())?;
        let target = claim.target().to_path_buf();
        Ok(Self::assemble(disk, &target, dir, meta, true, State::Creating(claim, files)))
    }

    fn assemble(
        disk: &Arc<Disk>,
        path: &Path,
        dir: DiskDir,
        meta: Meta,
        writable: bool,
        state: State,
    ) -> Self {
        let info = Info {
            path: path.into(),
            shape: meta.grid.shape.clone(),
            dtype: meta.element.dtype,
            tile: meta.grid.tile.clone(),
            layout: Layout::Tiled,
            format: "zarr-foreign",
            codecs: meta.description,
            attributes: serde_json::Value::Object(meta.attributes).to_string(),
            writable,
        };
        ForeignArray {
            info,
            disk: Arc::clone(disk),
            grid: meta.grid,
            element: meta.element,
            keys: meta.keys,
            codecs: meta.codecs,
            dir,
            state: Mutex::new(state),
        }
    }

    fn key(&self, coords: &[u64]) -> String {
        self.keys.encode(coords).as_str().to_string()
    }

    fn chunk_name(&self, coords: &[u64]) -> String {
        format!("chunk {} ({})", Tuple(coords), self.key(coords))
    }

    fn itemsize(&self) -> usize {
        self.info.dtype.size()
    }

    /// The directory of changes, where a chunk was changed since the last commit.
    fn changed(&self, coords: &[u64]) -> Option<PathBuf> {
        match &*lock(&self.state) {
            State::Updating(_, Some(c)) if c.chunks.contains(&self.grid.linear_index(coords)) => {
                Some(c.update.dir().path().to_path_buf())
            }
            _ => None,
        }
    }

    /// Whether the array was replaced as a whole since it was opened. Its chunks are gone then, which
    /// must not be taken for never written.
    fn is_replaced(&self) -> bool {
        !matches!(*lock(&self.state), State::Creating(..)) && !still_there(&self.dir, &self.info.path)
    }

    /// A chunk's file, or `None` where it was never written.
    fn open_chunk(&self, coords: &[u64]) -> Result<Option<DiskFile>, Trouble> {
        let key = self.key(coords);
        let opened = match self.changed(coords) {
            Some(dir) => self.disk.open_beneath(&self.disk.open_dir(&dir)?, &key, Access::Read),
            None => self.disk.open_beneath(&self.dir, &key, Access::Read),
        };
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if self.is_replaced() {
                    let what = "the array was replaced while it was read; open it again";
                    return Err(Error::corrupt(&self.info.path, what).into());
                }
                Ok(None)
            }
            Err(Error::Io { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EXDEV | libc::ELOOP)) =>
            {
                Err(Trouble::Damaged("is a link that leads out of the array; refused".into()))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Decodes what a box of the array has of a chunk, and hands it over piece by piece.
    fn visit(
        &self,
        mover: &mut Mover,
        coords: &[u64],
        region: &ArrayBox,
        sink: &mut Sink,
    ) -> Result<(), Trouble> {
        mover.cancel.check()?;
        let chunk = self.grid.tile_box(coords);
        let Some(common) = chunk.intersect(region) else { return Ok(()) };
        let Some(file) = self.open_chunk(coords)? else {
            sink(&common, Piece::Fill);
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
        sink: &mut Sink,
    ) -> Result<(), Trouble> {
        let len = file.len()?;
        let most = self.codecs.most_encoded() as u64;
        if len > 2 * most + (1 << 20) {
            return Err(Trouble::Damaged(format!("is too long: {len} bytes, where {most} are possible")));
        }
        let place = Place::new(mover, charged(len as usize))?;
        let (disk, cancel) = (mover.disk, mover.cancel.clone());
        // SAFETY: the memory is ours and has room for the file in whole blocks.
        unsafe { read_range(disk, &mut mover.queue, &cancel, file, (0, len), place.start)? };
        let _room = place.make_room(mover, self.codecs.decode_heap())?;
        // SAFETY: that many bytes were read.
        let encoded = unsafe { std::slice::from_raw_parts(place.start, len as usize) };
        let elements = self.codecs.decode(encoded).map_err(|what| format!("is damaged: {what}"))?;
        let strides = self.codecs.strides();
        let inside = offset_of(common, chunk, &strides);
        sink(common, Piece::Elements(&elements[inside..], &strides));
        Ok(())
    }

    fn visit_shard(
        &self,
        mover: &mut Mover,
        file: &DiskFile,
        shards: &Shards,
        chunk: &ArrayBox,
        common: &ArrayBox,
        sink: &mut Sink,
    ) -> Result<(), Trouble> {
        let len = file.len()?;
        let (disk, cancel) = (mover.disk, mover.cancel.clone());
        let range = shards.index_range(len)?;
        let (start, end) = blocks(range.0, range.1);
        let place = Place::new(mover, (end - start) as usize)?;
        let room = place.make_room(mover, 3 * shards.index_bytes)?;
        // SAFETY: the memory is ours and has room for those blocks.
        let index = unsafe {
            let at = read_range(disk, &mut mover.queue, &cancel, file, range, place.start)?;
            shards.decode_index(std::slice::from_raw_parts(place.start.add(at), shards.index_bytes))?
        };
        // From here on the index is part of what each extent asks room for.
        drop((place, room));
        let mut places = Vec::new();
        for coords in shards.grid.tiles_of(&self.in_shard(chunk, common)) {
            match shards.place(&index, &coords, len)? {
                Some(place) => places.push(place),
                None => {
                    let inner = self.inner_box(shards, chunk, &coords);
                    sink(&inner.intersect(common).expect("an inner chunk of the box"), Piece::Fill);
                }
            }
        }
        for extent in extents(places) {
            cancel.check()?;
            self.visit_extent(mover, file, shards, &extent, (chunk, common), sink)?;
        }
        Ok(())
    }

    fn visit_extent(
        &self,
        mover: &mut Mover,
        file: &DiskFile,
        shards: &Shards,
        extent: &Extent,
        (chunk, common): (&ArrayBox, &ArrayBox),
        sink: &mut Sink,
    ) -> Result<(), Trouble> {
        let (disk, cancel) = (mover.disk, mover.cancel.clone());
        let (start, end) = blocks(extent.from, extent.to);
        let memory = Place::new(mover, (end - start) as usize)?;
        let range = (extent.from, extent.to);
        // SAFETY: the memory is ours and has room for those blocks.
        let at = unsafe { read_range(disk, &mut mover.queue, &cancel, file, range, memory.start)? };
        let _room = memory.make_room(mover, shards.inner.decode_heap() + 3 * shards.index_bytes)?;
        let strides = self.inner_strides(shards);
        for place in &extent.places {
            let (from, bytes) = (place.from - extent.from, place.to - place.from);
            // SAFETY: these bytes were read.
            let encoded =
                unsafe { std::slice::from_raw_parts(memory.start.add(at + from as usize), bytes as usize) };
            let elements = shards
                .inner
                .decode(encoded)
                .map_err(|what| format!("is damaged in its inner chunk {}: {what}", Tuple(&place.coords)))?;
            let inner = self.inner_box(shards, chunk, &place.coords);
            let part = inner.intersect(common).expect("an inner chunk of the box");
            let inside = offset_of(&part, &inner, &strides);
            sink(&part, Piece::Elements(&elements[inside..], &strides));
        }
        Ok(())
    }

    /// A box of the array in the coordinates of a shard: along its encoded axes, from its first
    /// element.
    fn in_shard(&self, chunk: &ArrayBox, region: &ArrayBox) -> ArrayBox {
        let order = &self.codecs.order;
        let start: Dims = order.iter().map(|&a| region.start[a] - chunk.start[a]).collect();
        ArrayBox::new(start, order.iter().map(|&a| region.shape[a]).collect::<Dims>())
    }

    /// The box of an inner chunk in the array, where it may hang over.
    fn inner_box(&self, shards: &Shards, chunk: &ArrayBox, coords: &[u64]) -> ArrayBox {
        let mut inner = chunk.clone();
        for (i, &axis) in self.codecs.order.iter().enumerate() {
            inner.start[axis] += coords[i] * shards.grid.tile[i];
            inner.shape[axis] = shards.grid.tile[i];
        }
        inner
    }

    /// Strides in bytes, along the array's axes, of a decoded inner chunk.
    fn inner_strides(&self, shards: &Shards) -> Strides {
        let inner = shards.inner.strides();
        let mut strides = inner.clone();
        for (i, &axis) in self.codecs.order.iter().enumerate() {
            strides[axis] = inner[i];
        }
        strides
    }

    /// The error of a chunk that could not be loaded.
    fn failed(&self, coords: &[u64], trouble: Trouble) -> Error {
        match trouble {
            Trouble::Damaged(what) => {
                Error::corrupt(&self.info.path, format!("{} {what}", self.chunk_name(coords)))
            }
            Trouble::Failed(error) => error,
        }
    }

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

    fn store_chunk(&self, mover: &mut Mover, canvas: &Canvas, coords: &[u64]) -> Result<()> {
        mover.cancel.check()?;
        let chunk = self.grid.tile_box(coords);
        if !canvas.region().contains(&chunk) {
            return Err(Error::invalid(format!("{} is stored in part only", self.chunk_name(coords))));
        }
        match &*lock(&self.state) {
            State::Creating(..) | State::Updating(..) => {}
            State::Reading => return Err(super::linear::read_only(&self.info)),
            State::Closed => return Err(Error::invalid("the array is closed")),
        }
        let failed = |what| Error::invalid(format!("{} cannot be encoded: {what}", self.chunk_name(coords)));
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
        let place = Place::new(mover, room + charged(shards.inner.bytes))?;
        let _room = place.make_room(mover, shards.inner.encode_heap() + 3 * shards.index_bytes)?;
        let scratch = place.start.wrapping_add(room);
        let strides = self.inner_strides(shards);
        let whole = ArrayBox::whole(&shards.grid.shape);
        let mut index = Vec::new();
        let mut end = shards.data_start();
        let append = |end: usize, bytes: &[u8]| -> Result<usize> {
            if end + bytes.len() > room {
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
                    let update = Update::begin(&self.disk, &self.info.path)?;
                    *changes = Some(Changes { update, chunks: HashSet::new() });
                }
                changes.as_ref().map(|c| c.update.dir().path().to_path_buf())
            }
            State::Reading => return Err(super::linear::read_only(&self.info)),
            State::Closed => return Err(Error::invalid("the array is closed")),
        };
        let opened = update.as_ref().map(|dir| self.disk.open_dir(dir)).transpose()?;
        let dir = opened.as_ref().unwrap_or(&self.dir);
        let written = self.write_file(mover, dir, &key, place, len);
        if written.is_err() {
            // Half a chunk must not be committed, whatever the caller makes of the error.
            let _ = self.disk.remove(&dir.path().join(&key));
        }
        if let State::Updating(_, Some(changes)) = &mut *lock(&self.state) {
            let position = self.grid.linear_index(coords);
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

    /// Bytes that loading a part of a shard reads: those of its index, and of the inner chunks.
    fn shard_bytes(&self, shards: &Shards, coords: &[u64], region: &ArrayBox) -> Result<u64, Trouble> {
        let chunk = self.grid.tile_box(coords);
        let Some(common) = chunk.intersect(region) else { return Ok(0) };
        let Some(file) = self.open_chunk(coords)? else { return Ok(0) };
        let len = file.len()?;
        let range = shards.index_range(len)?;
        let read = |from: u64, to: u64| {
            let (start, end) = blocks(from, to);
            end - start
        };
        // Planning has no mover, and no budget: the index is small.
        let memory =
            Budget::new(usize::MAX).frame(shards.index_bytes + 2 * FRAME_ALIGN, "the index of a shard")?;
        let mut queue = self.disk.queue()?;
        // SAFETY: the memory has room for the blocks around the index, and is used by nobody else.
        let index = unsafe {
            let at = read_range(&self.disk, &mut queue, &Cancel::default(), &file, range, memory.as_ptr())?;
            shards.decode_index(&memory.bytes()[at..at + shards.index_bytes])?
        };
        let mut places = Vec::new();
        for coords in shards.grid.tiles_of(&self.in_shard(&chunk, &common)) {
            places.extend(shards.place(&index, &coords, len)?);
        }
        Ok(read(range.0, range.1) + extents(places).iter().map(|e| read(e.from, e.to)).sum::<u64>())
    }
}

/// Where a box begins in a dense block that holds another, in bytes.
fn offset_of(inner: &ArrayBox, outer: &ArrayBox, strides: &Strides) -> usize {
    (0..inner.ndim()).map(|a| (inner.start[a] - outer.start[a]) as usize * strides[a] as usize).sum()
}

impl Store for ForeignArray {
    fn info(&self) -> &Info {
        &self.info
    }

    /// The most that loading takes, and where the array is writable, storing.
    fn staging(&self, _exact: bool) -> Staging {
        let encoded = self.codecs.most_encoded();
        let (load, store) = match &self.codecs.kind {
            Kind::Whole(_) => (
                charged(encoded) + self.codecs.decode_heap(),
                charged(encoded.max(self.codecs.bytes)) + self.codecs.encode_heap(),
            ),
            Kind::Shards(shards) => {
                let index = 3 * shards.index_bytes;
                let (inner, extent) = (&shards.inner, charged(shards.most_extent()));
                (
                    extent + inner.decode_heap() + index,
                    charged(encoded) + charged(inner.bytes) + inner.encode_heap() + index,
                )
            }
        };
        let needed = charged(if self.info.writable { load.max(store) } else { load });
        Staging { least: needed, wanted: needed }
    }

    /// Exact, in whole blocks: the sizes of the chunks' files, and of a sharded array those of the parts
    /// that are read.
    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        let mut total = 0;
        for coords in self.grid.tiles_of(region) {
            if let Kind::Shards(shards) = &self.codecs.kind {
                total += self.shard_bytes(shards, &coords, region).map_err(|t| self.failed(&coords, t))?;
                continue;
            }
            let dir = self.changed(&coords).unwrap_or_else(|| self.place_now());
            let path = dir.join(self.key(&coords));
            match path.metadata() {
                Ok(found) => total += blocks(0, found.len()).1,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(&path, "inspect the file", e)),
            }
        }
        Ok(total)
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        for coords in self.grid.tiles_of(canvas.region()) {
            let mut place = |region: &ArrayBox, piece: Piece| match piece {
                Piece::Fill => canvas.fill(region, &self.element.fill),
                // SAFETY: the piece holds the box's elements at these strides.
                Piece::Elements(bytes, strides) => unsafe {
                    canvas.scatter(region, bytes.as_ptr(), strides, 1);
                },
            };
            self.visit(mover, &coords, canvas.region(), &mut place).map_err(|t| self.failed(&coords, t))?;
        }
        Ok(())
    }

    fn store(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        for coords in self.grid.tiles_of(canvas.region()) {
            self.store_chunk(mover, canvas, &coords)?;
        }
        Ok(())
    }

    fn commit(&self, _mover: &mut Mover) -> Result<()> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Creating(claim, files) => {
                self.disk.sync_file_system(&self.dir, claim.path())?;
                for (name, bytes) in &files {
                    self.disk.write_small(&claim.path().join(name), bytes)?;
                }
                self.disk.sync(&self.dir, claim.path())?;
                let writer = Writer::of_claim(claim.publish(ClaimKind::Directory)?);
                *state = State::Updating(writer, None);
            }
            State::Updating(writer, Some(mut changes)) => {
                changes.update.commit(&self.disk, &self.info.path, &[])?;
                *state = State::Updating(writer, None);
            }
            other => *state = other,
        }
        Ok(())
    }

    fn abort(&self) {
        *lock(&self.state) = State::Closed;
    }

    fn is_pending(&self) -> bool {
        matches!(*lock(&self.state), State::Creating(..) | State::Updating(_, Some(_)))
    }

    fn stored_bytes(&self) -> Result<u64> {
        directory_bytes(&self.place_now())
    }

    fn units(&self) -> u64 {
        self.grid.tiles()
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        let coords = self.grid.coords(unit);
        let name = || self.chunk_name(&coords);
        match self.visit(mover, &coords, &self.grid.tile_box(&coords), &mut |_, _| {}) {
            Ok(()) => Ok(Finding::Sound),
            Err(Trouble::Damaged(what)) => Ok(Finding::Damaged(format!("{} {what}", name()))),
            Err(Trouble::Failed(Error::Io { source, .. })) => {
                Ok(Finding::Damaged(format!("{} cannot be read: {source}", name())))
            }
            Err(Trouble::Failed(other)) => Err(other),
        }
    }
}

impl ForeignArray {
    /// The array's directory as it is named now.
    fn place_now(&self) -> PathBuf {
        match &*lock(&self.state) {
            State::Creating(claim, _) => claim.path().to_path_buf(),
            _ => self.info.path.clone(),
        }
    }
}
