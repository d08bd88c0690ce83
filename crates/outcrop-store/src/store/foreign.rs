//! Zarr arrays with other codecs than our own, through the `zarrs` crate.
//!
//! `zarrs` makes the codecs that the metadata names, and runs them on memory; it opens no file. All
//! bytes move through [`Disk`], as those of every store do.
//!
//! - `meta`: `zarr.json` and `.zarray`.
//! - `alone`: `zarrs` on threads of ours.
//! - `codecs`: from a chunk's bytes to its elements and back. `shards`: files that hold many chunks.
//!   `indexes`: of shards, from plans to loads.
//! - `load`, `save`: between such files and canvases. `memory`: what that takes.
//! - `extents`: chunks that lie in one file. [`encoded`]: arrays of such chunks, which are no Zarr arrays.
//!
//! The tile of such an array is the chunk, and of a sharded array the shard: what is one file is
//! written as a whole. Reading a part of a shard reads the inner chunks that the part touches.
//!
//! Memory: a chunk's file is read to the mover's staging memory, and what codecs allocate is heap
//! memory. [`Store::staging`] says what both take together. While codecs run, the staging memory that
//! the file leaves free is given back to the system, so that the heap memory takes its place in the
//! budget; only what does not fit there is charged in addition.
//!
//! Where a chunk is wanted whole, in memory that has its layout, and one decoder of ours stands between them,
//! it is decoded to that memory, and takes no other ([`Canvas::whole`]). A file that is the elements as they are is
//! read there.
//!
//! A chunk that has no file holds the fill value, as Zarr says.

mod alone;
mod bounded;
mod codecs;
pub mod encoded;
mod extents;
mod indexes;
mod load;
mod memory;
mod meta;
mod save;
mod shards;

use super::commit::claim::{Claim, Kind as ClaimKind};
use super::commit::group;
use super::commit::update::{Decided, Found, Update, Writer, stamp_of_tiles};
use super::open::directory_bytes;
use super::transfer::canvas::{Canvas, dense_strides};
use super::{Finding, Info, Mover, Staging, Store};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::zarr::{Labelled, Labels};
use crate::frame::{FRAME_ALIGN, charged};
use crate::io::disk::{Disk, DiskDir, parent_of};
use crate::layout::Layout;
use crate::shape::{ArrayBox, TileGrid, Tuple};
use codecs::{Codecs, Element, Kind};
use indexes::Indexes;
use load::Trouble;
use memory::blocks;
use meta::{Files, Meta, New};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zarrs::array::ChunkKeyEncoding;

enum State {
    Reading,
    /// Open for changes; `None` until the first.
    Updating(Writer, Option<Changes>),
    Creating(Claim, Files),
    /// It is not there, and will not be; with the files that its metadata would be.
    Planned(Files),
    Closed,
}

struct Changes {
    update: Update,
    chunks: HashSet<u64>,
}

/// A Zarr array, version 2 or 3, whose chunks `zarrs` encodes and decodes.
pub struct ForeignArray {
    info: Info,
    labelled: Labelled,
    disk: Arc<Disk>,
    grid: TileGrid,
    element: Element,
    keys: ChunkKeyEncoding,
    codecs: Codecs,
    /// The array's directory, or the one in which it is being built.
    dir: DiskDir,
    /// A change that was decided when the array was opened for reading, and not carried out in whole.
    decided: Option<Decided>,
    /// Chunks whose last writing was cut short; until they are written again there is no commit.
    torn: Mutex<HashSet<u64>>,
    indexes: Indexes,
    state: Mutex<State>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ForeignArray {
    /// Opens the array in a directory.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::Corrupt`], [`Error::Busy`], the operating system's.
    pub fn open(disk: &Arc<Disk>, path: &Path, dir: DiskDir, writable: bool) -> Result<ForeignArray> {
        let writer = if writable { Some(Writer::enter(disk, &dir, path)?) } else { None };
        let meta = meta::read(disk, path, &dir)?;
        let found = Found::look(disk, &dir, &meta.grid, false)?;
        let decided = if writable {
            let key = |position| meta.keys.encode(&meta.grid.coords(position)).as_str().to_string();
            found.settle(disk, &dir, &key)?;
            None
        } else {
            found.for_reading(path, false)?
        };
        let state = writer.map_or(State::Reading, |writer| State::Updating(writer, None));
        let mut array = Self::assemble(disk, path, dir, meta, writable, state);
        array.decided = decided;
        Ok(array)
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
        labels: &Labels,
        overwrite: bool,
    ) -> Result<ForeignArray> {
        let new = New { shape, dtype, tile, codecs, labels };
        let (meta, files) = new.files(zarr_format, path)?;
        let claim = Claim::new(disk, path, ClaimKind::Directory, overwrite)?;
        group::check(claim.target())?;
        let dir = claim.open_dir()?;
        let target = claim.target().to_path_buf();
        Ok(Self::assemble(disk, &target, dir, meta, true, State::Creating(claim, files)))
    }

    /// An array that is not made: it tells what moving its chunks will take, for plans, and moves nothing.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    #[allow(clippy::too_many_arguments, reason = "a description and two places")]
    pub fn sketch(
        disk: &Arc<Disk>,
        path: &Path,
        shape: &[u64],
        dtype: DType,
        tile: &[u64],
        codecs: &str,
        zarr_format: u8,
        labels: &Labels,
    ) -> Result<ForeignArray> {
        let new = New { shape, dtype, tile, codecs, labels };
        let (meta, files) = new.files(zarr_format, path)?;
        let dir = disk.open_dir(parent_of(path))?;
        Ok(Self::assemble(disk, path, dir, meta, true, State::Planned(files)))
    }

    fn assemble(
        disk: &Arc<Disk>,
        path: &Path,
        dir: DiskDir,
        meta: Meta,
        writable: bool,
        state: State,
    ) -> Self {
        let labelled = meta.labelled;
        let info = Info {
            path: path.into(),
            shape: meta.grid.shape.clone(),
            dtype: meta.element.dtype,
            tile: meta.grid.tile.clone(),
            layout: Layout::Tiled,
            format: "zarr-foreign",
            codecs: meta.description,
            attributes: meta.attributes.text().into(),
            writable,
        };
        ForeignArray {
            info,
            labelled,
            disk: Arc::clone(disk),
            grid: meta.grid,
            element: meta.element,
            keys: meta.keys,
            codecs: meta.codecs,
            dir,
            decided: None,
            torn: Mutex::default(),
            indexes: Indexes::default(),
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

    fn has_whole_tiles(&self) -> bool {
        self.grid.shape.iter().zip(&self.grid.tile).all(|(n, tile)| n.is_multiple_of(*tile))
    }

    /// What loading takes beside frames that hold tiles of this shape with all that they have beyond the array, each
    /// made of whole chunks. `None` where a chunk's elements do not lie there as they are decoded.
    fn straight_staging(&self, shape: &[u64]) -> Option<usize> {
        let straight = self.codecs.straight()?;
        let (tile, strides) = (&self.grid.tile, self.codecs.strides());
        let frame = dense_strides(shape, self.itemsize());
        let is_made_of_chunks = (0..tile.len())
            .all(|a| shape[a].is_multiple_of(tile[a]) && (tile[a] <= 1 || frame[a] == strides[a]));
        let aligned = shape == tile.as_slice() || self.codecs.bytes.is_multiple_of(FRAME_ALIGN);
        is_made_of_chunks.then(|| {
            if straight.is_bare() && aligned {
                return FRAME_ALIGN;
            }
            self.codecs.most_encoded().saturating_add(self.codecs.straight_heap())
        })
    }

    /// The directory of changes, where a chunk was changed since the last commit.
    fn changed(&self, coords: &[u64]) -> Option<Arc<DiskDir>> {
        match &*lock(&self.state) {
            State::Updating(_, Some(c)) if c.chunks.contains(&self.grid.linear_index(coords)) => {
                Some(Arc::clone(c.update.dir()))
            }
            _ => None,
        }
    }
}

/// Staging memory for some parts. Each begins with a block of its own; and no budget has half of what can be addressed.
fn in_parts(bytes: usize) -> usize {
    charged(bytes.min(usize::MAX / 2) + 4 * FRAME_ALIGN)
}

impl Store for ForeignArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn labelled(&self) -> Option<Labelled> {
        Some(self.labelled.clone())
    }

    /// The most that loading takes, and where the array is writable, storing.
    fn staging(&self, exact: bool) -> Staging {
        let encoded = self.codecs.most_encoded();
        // Tiles that hang over may be wanted without what they have beyond the array.
        let exact = exact && self.has_whole_tiles();
        let (load, store) = match &self.codecs.kind {
            Kind::Whole(_) => (
                match self.straight_staging(&self.grid.tile) {
                    Some(straight) if exact => straight,
                    _ => encoded.saturating_add(self.codecs.decode_heap()),
                },
                encoded.max(self.codecs.bytes).saturating_add(self.codecs.encode_heap()),
            ),
            Kind::Shards(shards) => {
                let index = shards.index_heap();
                let (inner, extent) = (&shards.inner, shards.most_extent());
                let sum = |parts: [usize; 4]| parts.into_iter().fold(0, usize::saturating_add);
                (
                    sum([extent, inner.decode_heap(), index, 0]),
                    sum([encoded, inner.bytes, inner.encode_heap(), index]),
                )
            }
        };
        let needed = if self.info.writable { load.max(store) } else { load };
        let needed = in_parts(needed);
        Staging { least: needed, wanted: needed }
    }

    /// That of their files, without their elements, where these are decoded straight to where they are wanted.
    fn staging_of_whole(&self, shape: &[u64]) -> Option<usize> {
        self.straight_staging(shape).map(in_parts)
    }

    /// Codecs seldom make chunks larger; by how much they do is unknown.
    fn bytes_to_store(&self, region: &ArrayBox) -> Result<u64> {
        let most = self.info.box_bytes(&self.info.tile).max(self.codecs.most_encoded() as u64);
        let chunk = most.div_ceil(4096).saturating_add(1).saturating_mul(4096);
        Ok((self.grid.tiles_of(region).count() as u64).saturating_mul(chunk))
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
            if let Some(file) = self.open_chunk(&coords).map_err(|t| self.failed(&coords, t))? {
                total += blocks(0, file.len()?).1;
            }
        }
        Ok(total)
    }

    fn bytes_to_commit(&self) -> u64 {
        let state = lock(&self.state);
        let (target, files) = match &*state {
            State::Creating(claim, files) => (claim.target(), files),
            State::Planned(files) => (self.info.path.as_path(), files),
            _ => return 0,
        };
        let own: u64 = files.iter().map(|(_, json)| (json.len() as u64).next_multiple_of(4096)).sum();
        // What cannot be read now will be said when it is to be written.
        own + group::bytes_to_renew(target, files).unwrap_or(0)
    }

    /// Chunks say nothing of each other: their files do. A change that was decided before it is looked at is read where
    /// it lies; then no chunk may be renamed, or written otherwise, before all have been read.
    fn stamp(&self, region: &ArrayBox) -> Result<Option<(u64, i64)>> {
        if !matches!(&*lock(&self.state), State::Reading) {
            return Ok(None);
        }
        let tiles =
            self.grid.tiles_of(region).map(|coords| (self.grid.linear_index(&coords), self.key(&coords)));
        stamp_of_tiles(&self.disk, &self.dir, self.decided.as_ref(), tiles).map(Some)
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        for coords in self.grid.tiles_of(canvas.region()) {
            self.visit(mover, &coords, canvas.region(), Some(canvas)).map_err(|t| self.failed(&coords, t))?;
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
        if !lock(&self.torn).is_empty() {
            self.abort();
            return Err(Error::Incomplete { path: self.info.path.clone() });
        }
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Creating(claim, files) => {
                self.disk.sync_file_system(&self.dir, claim.path())?;
                for (name, bytes) in &files {
                    self.disk.write_small_beneath(&self.dir, name, bytes)?;
                }
                self.disk.sync(&self.dir, claim.path())?;
                let writer = Writer::of_claim(claim.publish(ClaimKind::Directory)?);
                self.dir.set_moved(&self.info.path);
                *state = State::Updating(writer, None);
            }
            State::Updating(writer, Some(mut changes)) => {
                let key = |position| self.key(&self.grid.coords(position));
                let chunks = changes.chunks.iter().copied();
                changes.update.commit(&self.dir, &self.grid, chunks, &Vec::new(), &key)?;
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
        directory_bytes(self.dir.path())
    }

    fn units(&self) -> u64 {
        self.grid.tiles()
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        let coords = self.grid.coords(unit);
        let name = || self.chunk_name(&coords);
        match self.visit(mover, &coords, &self.grid.tile_box(&coords), None) {
            Ok(()) => Ok(Finding::Sound),
            Err(Trouble::Damaged(what)) => match bounded::refused() {
                Some(error) => Err(error),
                None => Ok(Finding::Damaged(format!("{} {what}", name()))),
            },
            Err(Trouble::Failed(Error::Io { source, .. })) => {
                Ok(Finding::Damaged(format!("{} cannot be read: {source}", name())))
            }
            Err(Trouble::Failed(other)) => Err(other),
        }
    }
}
