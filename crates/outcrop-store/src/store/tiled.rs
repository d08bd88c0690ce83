//! Our own Zarr v3 arrays: one file per tile, `bytes` and `crc32c` or tiles with [`Frontiers`], and an index of all
//! checksums.
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
//!
//! A tile with frontiers is brought to memory part by part, by way of staging memory; where one part holds all that is
//! wanted of the tile, nothing else of it is read.

mod load;
mod meta;
mod prospect;
mod save;

use super::commit::claim::{Claim, Kind};
use super::commit::group;
use super::commit::update::{self, Decided, Files, Found, Update, Writer};
use super::open::directory_bytes;
use super::transfer::canvas::Canvas;
use super::{Finding, Info, Mover, Staging, Store};
use crate::error::{Error, Result};
use crate::format::MAX_METADATA_BYTES;
use crate::format::index::{INDEX_FILE, TileIndex};
use crate::format::zarr::{ArrayMeta, Labelled, METADATA_FILE, Ours};
use crate::frame::charged;
use crate::io::disk::{Disk, DiskDir, Promise, parent_of};
use crate::layout::{Frontiers, Layout};
use crate::shape::{ArrayBox, Dims, TileGrid, Tuple, checked_nbytes};
use load::{Flaw, Loaded};
pub(super) use meta::unlabelled;
use meta::{parse, read_metadata};
pub use prospect::Prospect;
use prospect::stored_size;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes of the checksum at a tile's end.
const CHECKSUM: usize = 4;

/// The whole blocks that hold a range of a file.
fn blocks((from, to): (u64, u64)) -> (u64, u64) {
    (from / 4096 * 4096, to.next_multiple_of(4096))
}

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
    /// Where elements lie in a tile's file, unless they are in row-major order.
    frontiers: Option<Frontiers>,
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
        let file_bytes =
            (charged(meta.stored_tile_bytes() as usize) + CHECKSUM).next_multiple_of(4096) as u64;
        let bytes = grid.tiles().saturating_mul(file_bytes);
        let promise = disk.promise(parent_of(claim.target()), claim.target(), bytes)?;
        let dir = claim.open_dir()?;
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
            codecs: meta.encoding.describe(),
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
            frontiers: meta.frontiers(),
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
        self.meta.stored_tile_bytes() as usize
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

    /// The part of a tile's file that holds all that is wanted of the tile; none where it takes all of the file, or the
    /// tile has no parts.
    fn part_of(&self, coords: &[u64], wanted: &ArrayBox) -> Option<usize> {
        let frontiers = self.frontiers.as_ref()?;
        let mut inside = wanted.intersect(&self.grid.tile_box(coords))?;
        inside.start.iter_mut().zip(coords).zip(&self.grid.tile).for_each(|((at, c), n)| *at -= c * n);
        frontiers.part_of(&inside)
    }

    /// Where what is read of a tile's file begins and ends.
    fn range(&self, part: Option<usize>) -> (u64, u64) {
        self.frontiers.as_ref().map_or((0, self.file_bytes() as u64), |frontiers| frontiers.range(part))
    }

    /// Bytes that reading all of it, or a part, takes from the device.
    fn bytes_to_read(&self, part: Option<usize>) -> u64 {
        let (start, end) = blocks(self.range(part));
        end - start
    }

    /// Every tile of the array that shares an element with a box.
    fn tiles_of(&self, region: &ArrayBox) -> impl Iterator<Item = Dims> + use<> {
        self.grid.tiles_of(region)
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
        let straight = exact && whole_tiles && self.moves_whole_tiles();
        let needed = if straight { 0 } else { charged(self.file_bytes()) };
        Staging { least: needed, wanted: needed }
    }

    fn tile_frame(&self) -> usize {
        charged(if self.moves_whole_tiles() { self.file_bytes() } else { self.tile_bytes() })
    }

    fn moves_whole_tiles(&self) -> bool {
        self.frontiers.is_none()
    }

    fn thickness(&self) -> Option<u64> {
        self.meta.encoding.thickness()
    }

    fn loads_apart(&self, region: &ArrayBox) -> bool {
        let is_frontier = |part: Option<usize>| part.is_some_and(|part| part != self.grid.tile.len());
        self.tiles_of(region).all(|coords| is_frontier(self.part_of(&coords, region)))
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        let tiles = self.tiles_of(region).filter(|coords| self.is_stored(coords));
        Ok(tiles.map(|coords| self.bytes_to_read(self.part_of(&coords, region))).sum())
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
            None => directory_bytes(self.dir.path()),
        }
    }

    fn units(&self) -> u64 {
        self.grid.tiles()
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        let coords = self.grid.coords(unit);
        match self.read_tile(mover, &coords, None, None) {
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
