//! Our own Zarr v3 arrays: one file per tile, `bytes` and `crc32c`, and an index of all checksums.
//!
//! On disk:
//! ```text
//! A.zarr/
//!   zarr.json            written last; without it there is no array
//!   .outcrop-index       the checksum of every tile, see crate::format::index
//!   c/0/0, c/0/1, ...    the elements of a tile in row-major order, then their CRC-32C
//! ```
//! A tile that was never written has no file, and holds the fill value; the index says which those
//! are, so that a tile that is missing for another reason is noticed. Arrays by other programs with
//! the same codecs have no index: what can be checked there is each tile's own checksum.

use super::canvas::{Canvas, dense_strides};
use super::claim::{Claim, Kind, still_there};
use super::group;
use super::update::{self, Decided, Files, Found, Update, Writer, is_missing, open_tile};
use super::{Finding, Info, Mover, Staging, Store};
use crate::error::{Error, Result};
use crate::format::index::{self, INDEX_FILE, TileIndex};
use crate::format::zarr::{self, ArrayMeta, Labelled, Labels, METADATA_FILE, Ours, Parsed};
use crate::format::{FormatError, MAX_METADATA_BYTES, crc32c};
use crate::frame::charged;
use crate::io::disk::{Disk, DiskDir, LINK, Promise, is_link, parent_of};
use crate::io::{Access, Direction, Transfer};
use crate::layout::Layout;
use crate::shape::{ArrayBox, Dims, TileGrid, Tuple, checked_nbytes};
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes of the checksum at a tile's end.
const CHECKSUM: usize = 4;

enum State {
    Reading,
    /// Open for changes; none until the first.
    Updating(Writer, Option<Changes>),
    Creating(Claim),
    Closed,
}

struct Changes {
    update: Update,
    tiles: HashSet<u64>,
    /// The index before.
    before: Option<TileIndex>,
}

/// A tiled array.
pub struct TiledArray {
    info: Info,
    labelled: Labelled,
    disk: Arc<Disk>,
    meta: ArrayMeta,
    grid: TileGrid,
    /// The array's directory, or the one in which it is being built.
    dir: DiskDir,
    /// A change that was decided when the array was opened for reading, and not carried out in whole.
    decided: Option<Decided>,
    /// Absent for arrays that other programs made.
    index: Option<RwLock<TileIndex>>,
    /// Tiles whose last writing was cut short; until they are written again there is no commit.
    torn: Mutex<HashSet<u64>>,
    /// A tile's file is not read while another thread writes it anew; by position, modulo their number.
    tiles: [RwLock<()>; 64],
    state: Mutex<State>,
    /// Of a new array, the space of its tiles.
    promise: Option<Promise>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is wrong with a tile.
enum Flaw {
    /// The tile's file or its checksum is broken.
    Damaged(String),
    /// The tile is sound, but not the one recorded; with the checksum it has, if it is there.
    Stale(Option<u32>, String),
}

/// How a tile came to memory.
enum Loaded {
    Data,
    /// Never written.
    Fill,
    Flawed(Flaw),
}

impl TiledArray {
    /// Opens the array in a directory. With `accept`, an index that does not fit counts as an empty one, so that
    /// checking finds every tile stale, and accepting makes a new index.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Unsupported`], [`Error::Busy`], the operating system's.
    pub fn open(
        disk: &Arc<Disk>,
        path: &Path,
        dir: DiskDir,
        writable: bool,
        accept: bool,
    ) -> Result<TiledArray> {
        let writer = if writable { Some(Writer::enter(disk, &dir, path)?) } else { None };
        if writable {
            let meta =
                parse(path, &disk.read_small_beneath(&dir, METADATA_FILE, MAX_METADATA_BYTES as u64)?)?;
            let grid = TileGrid::new(&meta.shape, &meta.tile)?;
            let key = |position| meta.tile_key(&grid.coords(position));
            Found::look(disk, &dir, &grid, meta.ours.is_some())?.settle(disk, &dir, &key)?;
        }
        let (meta, index, decided) = read_metadata(disk, path, &dir, accept)?;
        let grid = TileGrid::new(&meta.shape, &meta.tile)?;
        let state = writer.map_or(State::Reading, |writer| State::Updating(writer, None));
        let mut array = Self::assemble(disk, path, dir, meta, grid, index, writable, state);
        array.decided = decided;
        Ok(array)
    }

    /// Makes an array.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Busy`], [`Error::NoSpace`], the operating system's.
    pub fn create(disk: &Arc<Disk>, path: &Path, mut meta: ArrayMeta, overwrite: bool) -> Result<TiledArray> {
        let itemsize = meta.dtype.size();
        checked_nbytes(&meta.shape, itemsize)?;
        checked_nbytes(&meta.tile, itemsize)?;
        let grid = TileGrid::new(&meta.shape, &meta.tile)?;
        let claim = Claim::new(disk, path, Kind::Directory, overwrite)?;
        group::check(claim.target())?;
        let file_bytes = (charged(meta.tile_bytes() as usize) + CHECKSUM).next_multiple_of(4096) as u64;
        let bytes = grid.tiles().saturating_mul(file_bytes);
        let promise = disk.promise(parent_of(claim.target()), claim.target(), bytes)?;
        let dir = claim.open_dir()?;
        meta.checksummed = true;
        meta.ours = Some(Ours { format: 1, index_crc32c: 0 });
        let index = Some(TileIndex::new(&grid).map_err(|e| e.at(path))?);
        let target = claim.target().to_path_buf();
        let mut array = Self::assemble(disk, &target, dir, meta, grid, index, true, State::Creating(claim));
        array.promise = Some(promise);
        Ok(array)
    }

    #[allow(clippy::too_many_arguments, reason = "the fields, from two constructors")]
    fn assemble(
        disk: &Arc<Disk>,
        path: &Path,
        dir: DiskDir,
        meta: ArrayMeta,
        grid: TileGrid,
        index: Option<TileIndex>,
        writable: bool,
        state: State,
    ) -> TiledArray {
        let mut attributes = meta.attributes.clone();
        let names = attributes.take_names(meta.shape.len());
        let info = Info {
            path: path.into(),
            shape: meta.shape.clone(),
            dtype: meta.dtype,
            tile: meta.tile.clone(),
            layout: Layout::Tiled,
            format: "zarr",
            codecs: if meta.checksummed { "bytes, crc32c".into() } else { "bytes".into() },
            attributes: attributes.text().into(),
            writable,
        };
        let labelled = Labelled {
            zarr_format: 3,
            dimension_names: meta.dimension_names.clone().or(names),
            fill_value: Some(meta.fill_value.clone()),
        };
        let index = index.map(RwLock::new);
        TiledArray {
            info,
            labelled,
            disk: Arc::clone(disk),
            meta,
            grid,
            dir,
            decided: None,
            index,
            torn: Mutex::default(),
            tiles: [const { RwLock::new(()) }; 64],
            state: Mutex::new(state),
            promise: None,
        }
    }

    fn tile_bytes(&self) -> usize {
        self.meta.tile_bytes() as usize
    }

    /// Bytes of a tile's file.
    fn file_bytes(&self) -> usize {
        self.tile_bytes() + if self.meta.checksummed { CHECKSUM } else { 0 }
    }

    fn recorded(&self, position: u64) -> Option<Option<u32>> {
        let index = self.index.as_ref()?;
        Some(index.read().unwrap_or_else(PoisonError::into_inner).get(position))
    }

    /// Whether a tile has a file: as the index says or, of an array without one, as it is found.
    fn is_stored(&self, coords: &[u64]) -> bool {
        let position = self.grid.linear_index(coords);
        if let Some(recorded) = self.recorded(position) {
            return recorded.is_some();
        }
        let is_changed = match &*lock(&self.state) {
            State::Updating(_, Some(changes)) => changes.tiles.contains(&position),
            _ => self.decided.as_ref().is_some_and(|decided| decided.has(position)),
        };
        // What cannot be looked at will be said when it is read.
        is_changed || !matches!(self.disk.look_beneath(&self.dir, &self.meta.tile_key(coords)), Ok(None))
    }

    fn tile_lock(&self, position: u64) -> &RwLock<()> {
        &self.tiles[(position % self.tiles.len() as u64) as usize]
    }

    fn key_at(&self, position: u64) -> String {
        self.meta.tile_key(&self.grid.coords(position))
    }

    fn tile_name(&self, coords: &[u64]) -> String {
        format!("tile {} ({})", Tuple(coords), self.meta.tile_key(coords))
    }

    /// Reads a tile's file to `memory`, which has room for whole blocks, and checks it.
    fn read_tile(&self, mover: &mut Mover, coords: &[u64], memory: Option<*mut u8>) -> Result<Loaded> {
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
        let padded = expected.next_multiple_of(file.block());
        let disk = mover.disk;
        let (queue, memory) = match memory {
            Some(memory) => (mover.parts(0)?.0, memory),
            None => {
                let (queue, staging, _) = mover.parts(padded)?;
                (queue, staging)
            }
        };
        let mut read = std::iter::once(Transfer::read(&file, 0, memory, padded, expected));
        // SAFETY: the caller's memory, or the staging memory, has room for `padded` bytes and is ours.
        let result = unsafe { disk.transfer(queue, &file, &mut read, Direction::Read, &cancel) };
        file.drop_cache();
        match result {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Loaded::Flawed(Flaw::Damaged("was truncated while it was read".into())));
            }
            other => other?,
        }
        if !self.meta.checksummed {
            return Ok(Loaded::Data);
        }
        // SAFETY: `expected` bytes were read.
        let bytes = unsafe { std::slice::from_raw_parts(memory, expected) };
        let (data, stored) = bytes.split_at(self.tile_bytes());
        let stored = u32::from_le_bytes(stored.try_into().expect("four bytes"));
        let computed = crc32c(data);
        if stored != computed {
            let what = format!(
                "is damaged: its bytes have CRC-32C {computed:08x}, {stored:08x} was stored with them"
            );
            return Ok(Loaded::Flawed(Flaw::Damaged(what)));
        }
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

    fn load_tile(&self, mover: &mut Mover, canvas: &Canvas, coords: &[u64]) -> Result<()> {
        let region = self.grid.tile_box(coords);
        let common = region.intersect(canvas.region()).expect("a tile of the canvas's box");
        let padded = self.file_bytes().next_multiple_of(4096);
        let place = canvas.exact(&region, &self.grid.tile);
        let place = place.filter(|&(_, capacity)| capacity >= padded).map(|(start, _)| start);
        match self.read_tile(mover, coords, place)? {
            Loaded::Fill => canvas.fill(&common, &self.meta.fill_value),
            Loaded::Flawed(flaw) => return Err(self.flawed(coords, flaw)),
            Loaded::Data if place.is_some() => {}
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

    fn store_tile(&self, mover: &mut Mover, canvas: &Canvas, coords: &[u64]) -> Result<()> {
        let region = self.grid.tile_box(coords);
        if !canvas.region().contains(&region) {
            return Err(Error::invalid(format!("{} is stored in part only", self.tile_name(coords))));
        }
        let len = self.tile_bytes();
        let place = canvas.exact(&region, &self.grid.tile).filter(|&(_, capacity)| capacity >= len);
        // Behind the last whole block of data come the rest of the data and the checksum.
        let whole = len / 4096 * 4096;
        let memory = match place {
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
        let checksum = crc32c(data);
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
            State::Reading => return Err(super::linear::read_only(&self.info)),
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
        if self.meta.checksummed {
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

    /// The index's file and the metadata that names its checksum.
    fn encode_metadata(&self) -> (Option<Vec<u8>>, Vec<u8>) {
        let mut meta = self.meta.clone();
        let index = self.index.as_ref().map(|i| i.read().unwrap_or_else(PoisonError::into_inner).encode());
        if let Some(bytes) = &index {
            meta.ours = index::stamp(bytes).map(|index_crc32c| Ours { format: 1, index_crc32c });
        }
        (index, meta.encode())
    }

    /// Every tile of the array that shares an element with a box.
    fn tiles_of(&self, region: &ArrayBox) -> impl Iterator<Item = Dims> + use<> {
        self.grid.tiles_of(region)
    }
}

/// What the device counts where a tile's file is written: whole blocks, then the block with the rest
/// of the elements and the checksum.
fn stored_size(tile_bytes: usize, file_bytes: usize) -> u64 {
    let whole = tile_bytes / 4096 * 4096;
    (whole + (file_bytes - whole).next_multiple_of(4096)) as u64
}

/// What an array of our own will cost, before it is made.
#[derive(Clone, Debug)]
pub struct Prospect {
    /// How it is cut.
    pub grid: TileGrid,
    /// Bytes of a frame for a tile.
    pub frame: usize,
    /// Bytes that storing a tile writes, and that loading it reads.
    pub tile: u64,
    /// Bytes that its commit writes.
    pub commit: u64,
}

impl Prospect {
    /// The prospect of an array.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there can be no such array.
    pub fn new(shape: &[u64], dtype: crate::DType, tile: &[u64], labels: &Labels) -> Result<Prospect> {
        let grid = TileGrid::new(shape, tile)?;
        checked_nbytes(shape, dtype.size())?;
        let bytes = checked_nbytes(tile, dtype.size())? as usize;
        let place = labels.place.as_deref().unwrap_or(Path::new("the new array"));
        let mut meta = ArrayMeta::of(shape, dtype, tile, labels).map_err(|e| unlabelled(place, e))?;
        meta.ours = Some(Ours { format: 1, index_crc32c: u32::MAX });
        let index = TileIndex::file_size(&grid).map_err(|e| e.at(place))?;
        let json = meta.encode();
        let mut commit = index.next_multiple_of(4096) + (json.len() as u64).next_multiple_of(4096);
        if labels.place.is_some() {
            commit += group::bytes_to_renew(place, &[(METADATA_FILE, json)])?;
        }
        let file = bytes + CHECKSUM;
        Ok(Prospect { grid, frame: charged(file), tile: stored_size(bytes, file), commit })
    }
}

/// What is wrong with labels is what was asked for, and not what is stored.
pub(super) fn unlabelled(path: &Path, error: FormatError) -> Error {
    match error {
        FormatError::Malformed(what) => Error::invalid(format!("{}: {what}", path.display())),
        other => other.at(path),
    }
}

/// Parses the `zarr.json` of an array of ours.
fn parse(path: &Path, json: &[u8]) -> Result<ArrayMeta> {
    match zarr::parse(json).map_err(|e| e.at(path))? {
        Parsed::Native(meta) => Ok(meta),
        Parsed::Foreign { reason } => Err(Error::unsupported(path, reason)),
    }
}

/// Reads `zarr.json` and the index, by way of a change that is decided. A commit by another process
/// between the two reads is noticed by the index's checksum, and both are read again.
fn read_metadata(
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

impl Store for TiledArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn labelled(&self) -> Option<Labelled> {
        Some(self.labelled.clone())
    }

    fn staging(&self, exact: bool) -> Staging {
        let whole_tiles =
            (0..self.grid.shape.len()).all(|a| self.grid.shape[a].is_multiple_of(self.grid.tile[a]));
        let needed = if exact && whole_tiles { 0 } else { charged(self.file_bytes()) };
        Staging { least: needed, wanted: needed }
    }

    fn tile_frame(&self) -> usize {
        charged(self.file_bytes())
    }

    fn moves_whole_tiles(&self) -> bool {
        true
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        let tiles = self.tiles_of(region).filter(|coords| self.is_stored(coords)).count() as u64;
        Ok(tiles * (self.file_bytes() as u64).next_multiple_of(4096))
    }

    fn bytes_to_store(&self, region: &ArrayBox) -> Result<u64> {
        Ok(self.tiles_of(region).count() as u64 * stored_size(self.tile_bytes(), self.file_bytes()))
    }

    fn bytes_to_commit(&self) -> u64 {
        let (index, json) = self.encode_metadata();
        let index = index.map_or(0, |bytes| (bytes.len() as u64).next_multiple_of(4096));
        let own = index + (json.len() as u64).next_multiple_of(4096);
        let further = match &*lock(&self.state) {
            // What cannot be read now will be said when it is to be written.
            State::Creating(claim) => {
                group::bytes_to_renew(claim.target(), &[(METADATA_FILE, json)]).unwrap_or(0)
            }
            // The record of a change takes a block, unless hundreds of places are changed that are not side by
            // side.
            State::Updating(..) => 4096,
            State::Reading | State::Closed => 0,
        };
        own + further
    }

    /// What an index tells is found by loading.
    fn stamp(&self, region: &ArrayBox) -> Result<Option<(u64, i64)>> {
        if self.index.is_some() || !matches!(&*lock(&self.state), State::Reading) {
            return Ok(None);
        }
        let number = |coords: Dims| self.grid.linear_index(&coords);
        let tiles = self.grid.tiles_of(region).map(number).map(|position| (position, self.key_at(position)));
        update::stamp_of_tiles(&self.disk, &self.dir, self.decided.as_ref(), tiles).map(Some)
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        for coords in self.tiles_of(canvas.region()) {
            self.load_tile(mover, canvas, &coords)?;
        }
        Ok(())
    }

    fn store(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        for coords in self.tiles_of(canvas.region()) {
            self.store_tile(mover, canvas, &coords)?;
        }
        Ok(())
    }

    fn commit(&self, _mover: &mut Mover) -> Result<()> {
        if !lock(&self.torn).is_empty() {
            self.abort();
            return Err(Error::Incomplete { path: self.info.path.clone() });
        }
        self.promise.iter().for_each(Promise::end);
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Creating(claim) => {
                self.disk.sync_file_system(&self.dir, claim.path())?;
                let (index, json) = self.encode_metadata();
                if let Some(bytes) = index {
                    self.disk.write_small_beneath(&self.dir, INDEX_FILE, &bytes)?;
                }
                self.disk.write_small_beneath(&self.dir, METADATA_FILE, &json)?;
                self.disk.sync(&self.dir, claim.path())?;
                let writer = Writer::of_claim(claim.publish(Kind::Directory)?);
                self.dir.set_moved(&self.info.path);
                *state = State::Updating(writer, None);
            }
            State::Updating(writer, Some(mut changes)) => {
                let (index, json) = self.encode_metadata();
                let mut files = Files::new();
                if let Some(bytes) = index {
                    files.push((INDEX_FILE, bytes));
                    files.push((METADATA_FILE, json));
                }
                let tiles = changes.tiles.iter().copied();
                changes.update.commit(&self.dir, &self.grid, tiles, &files, &|i| self.key_at(i))?;
                *state = State::Updating(writer, None);
            }
            other => *state = other,
        }
        Ok(())
    }

    fn abort(&self) {
        *lock(&self.state) = State::Closed;
        self.promise.iter().for_each(Promise::end);
    }

    fn fail(&self) {
        let State::Updating(_, changes) = &mut *lock(&self.state) else { return self.abort() };
        let Some(Changes { before, .. }) = changes.take() else { return };
        if let (Some(index), Some(before)) = (&self.index, before) {
            *index.write().unwrap_or_else(PoisonError::into_inner) = before;
        }
        lock(&self.torn).clear();
    }

    fn is_pending(&self) -> bool {
        matches!(*lock(&self.state), State::Creating(_) | State::Updating(_, Some(_)))
    }

    fn stored_bytes(&self) -> Result<u64> {
        match &self.index {
            Some(index) => {
                let written = index.read().unwrap_or_else(PoisonError::into_inner).written();
                Ok(written * self.file_bytes() as u64)
            }
            None => super::open::directory_bytes(self.dir.path()),
        }
    }

    fn units(&self) -> u64 {
        self.grid.tiles()
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        let coords = self.grid.coords(unit);
        match self.read_tile(mover, &coords, None) {
            Ok(Loaded::Data | Loaded::Fill) => Ok(Finding::Sound),
            Ok(Loaded::Flawed(Flaw::Damaged(what))) => {
                Ok(Finding::Damaged(format!("{} {what}", self.tile_name(&coords))))
            }
            Ok(Loaded::Flawed(Flaw::Stale(crc, what))) => {
                Ok(Finding::Stale(unit, crc, format!("{} {what}", self.tile_name(&coords))))
            }
            Err(Error::Io { source, .. }) => {
                Ok(Finding::Damaged(format!("{} cannot be read: {source}", self.tile_name(&coords))))
            }
            Err(other) => Err(other),
        }
    }

    fn accept(&self, findings: &[Finding]) -> Result<()> {
        let Some(index) = &self.index else { return Ok(()) };
        {
            let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
            for finding in findings {
                match finding {
                    Finding::Stale(unit, Some(crc), _) => index.set(*unit, *crc),
                    Finding::Stale(unit, None, _) => index.clear(*unit),
                    _ => {}
                }
            }
        }
        // What was opened for reading is changed here all the same, by a writer like any other.
        let _writer = match &*lock(&self.state) {
            State::Updating(..) => None,
            _ => Some(Writer::enter(&self.disk, &self.dir, &self.info.path)?),
        };
        let indexed = self.meta.ours.is_some();
        let found = Found::look(&self.disk, &self.dir, &self.grid, indexed)?;
        found.settle(&self.disk, &self.dir, &|i| self.key_at(i))?;
        let mut update = Update::begin(&self.disk, &self.dir)?;
        let (bytes, json) = self.encode_metadata();
        let files = vec![(INDEX_FILE, bytes.unwrap_or_default()), (METADATA_FILE, json)];
        update.commit(&self.dir, &self.grid, [], &files, &|i| self.key_at(i))
    }
}
