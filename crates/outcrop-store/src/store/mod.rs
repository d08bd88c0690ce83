//! Arrays that can be loaded from, stored to and committed.
//!
//! - The kinds of stores: [`tiled`], our own Zarr arrays; [`linear`], `.npy`, raw and other files that are one block of
//!   elements; [`chunked`], files of many blocks; [`foreign`], Zarr arrays with other codecs, through the `zarrs` crate,
//!   and files of many encoded blocks;
//!   [`memory`]; and [`sketch`], arrays that are only planned.
//! - [`adapters`]: stores that show another one.
//! - [`transfer`]: what a movement has besides the store. [`commit`]: how what is written becomes visible.
//! - [`open`]: finding out what stands at a path.

pub mod adapters;
pub mod chunked;
pub mod commit;
pub mod foreign;
pub mod linear;
pub mod memory;
pub mod open;
pub mod sketch;
pub mod tiled;
pub mod transfer;

use crate::dtype::DType;
use crate::error::Result;
use crate::format::zarr::Labelled;
use crate::frame::charged;
use crate::layout::{AxisOrder, Layout, LinearLayout};
use crate::shape::{ArrayBox, Dims, TileGrid, elements};
use std::path::PathBuf;
use std::sync::Arc;
pub use transfer::Mover;
pub use transfer::canvas::{Canvas, Patch};
pub use transfer::edges::{Cuts, Edges};
use transfer::seams;

/// What an array is, apart from its elements.
#[derive(Clone, Debug)]
pub struct Info {
    /// Where it lies.
    pub path: PathBuf,
    /// Its extents.
    pub shape: Dims,
    /// Its element type.
    pub dtype: DType,
    /// The boxes that move best: the tiles of a tiled array.
    pub tile: Dims,
    /// The order of the elements on disk.
    pub layout: Layout,
    /// `zarr` (our own), `zarr-foreign`, `npy`, `raw`, `pgm`, `ppm`, `pam` or `tiff`.
    pub format: &'static str,
    /// The encoding of the elements, for people.
    pub codecs: String,
    /// What the metadata says besides, a JSON object: Zarr's attributes, a PNM file's maxval.
    pub attributes: String,
    /// Whether it may be written to.
    pub writable: bool,
}

impl Info {
    /// Bytes of all elements.
    pub fn nbytes(&self) -> u64 {
        self.box_bytes(&self.shape)
    }

    /// Where the elements of an array in one file lie, the first one at 0.
    fn linear(&self) -> LinearLayout {
        LinearLayout::new(&self.shape, self.dtype.size(), self.layout == Layout::ColumnMajor, 0)
    }

    /// Whether a box is a tile, and no part of one.
    pub fn is_whole_tile(&self, region: &ArrayBox) -> bool {
        region.shape == self.tile && region.start.iter().zip(&self.tile).all(|(at, n)| at.is_multiple_of(*n))
    }

    /// Bytes of the elements of a box of this shape.
    pub fn box_bytes(&self, shape: &[u64]) -> u64 {
        elements(shape) * self.dtype.size() as u64
    }
}

/// Staging memory that moving boxes of a store takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Without so much nothing moves.
    pub least: usize,
    /// With so much it moves at full speed.
    pub wanted: usize,
}

/// Pieces of files, each contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// How many.
    pub count: u64,
    /// Bytes of each, typically.
    pub bytes: u64,
}

/// What a check of a stored unit found.
#[derive(Debug)]
pub enum Finding {
    /// It is what was written.
    Sound,
    /// It is sound in itself, but not what was recorded at the last commit; the checksum it has now,
    /// or `None` where it is gone.
    Stale(u64, Option<u32>, String),
    /// It is damaged.
    Damaged(String),
}

/// A box of an array, cut where tiles of this shape would be.
fn cut_along(info: &Info, tile: &[u64], region: &ArrayBox) -> Vec<ArrayBox> {
    let grid = TileGrid::new(&info.shape, tile).expect("a stored array has a grid");
    grid.tiles_of(region).filter_map(|c| grid.tile_box(&c).intersect(region)).collect()
}

/// A box of an array of small tiles, cut into boxes of whole tiles side by side, of at most so many bytes of elements each
/// unless a single tile has more.
fn cut_together(info: &Info, most: u64, region: &ArrayBox) -> Vec<ArrayBox> {
    let mut together = info.tile.clone();
    let mut moved: Dims = together.iter().zip(&region.shape).map(|(&t, &n)| t.min(n)).collect();
    for axis in (0..together.len()).rev() {
        let many = (most / info.box_bytes(&moved).max(1)).max(1);
        together[axis] = together[axis].saturating_mul(many).min(info.shape[axis].max(1));
        moved[axis] = together[axis].min(region.shape[axis]);
        if together[axis] < region.shape[axis] {
            break;
        }
    }
    cut_along(info, &together, region)
}

/// An array on disk.
///
/// What holds no elements itself, but shows those of another array or makes them, can only be read: the methods that
/// store, commit and check have defaults that say so.
pub trait Store: Send + Sync {
    /// What the array is.
    fn info(&self) -> &Info;

    /// What Zarr says of the array besides its attributes; `None` where it is no Zarr array.
    fn labelled(&self) -> Option<Labelled> {
        None
    }

    /// The staging memory needed, where whole tiles are loaded into and stored from exact patches
    /// (`exact`), or any boxes are.
    fn staging(&self, exact: bool) -> Staging;

    /// The staging memory without which boxes of this shape do not move.
    fn staging_of(&self, _shape: &[u64]) -> usize {
        self.staging(false).least
    }

    /// The staging memory that loading takes where nothing but tiles of this shape is loaded, each of which is made of
    /// whole tiles of this array, into frames that hold all of them: those at the array's edges with what they have
    /// beyond it, too. `None` where that is nothing special.
    fn staging_of_whole(&self, _shape: &[u64]) -> Option<usize> {
        None
    }

    /// The array whose elements these are, where they are converted as they are loaded.
    fn origin(&self) -> Option<&Arc<dyn Store>> {
        None
    }

    /// Whether its elements may be others at any time, without this store's knowledge: then nothing of it is kept
    /// from one run to the next.
    fn is_changed_by_others(&self) -> bool {
        self.origin().is_some_and(|origin| origin.is_changed_by_others())
    }

    /// Whether loading calls a function of the user's, which may load other arrays.
    fn calls_back(&self) -> bool {
        false
    }

    /// The axes in the order in which elements follow one another on disk, slowest first; `None` where the array
    /// is moved by whole tiles.
    fn file_axes(&self) -> Option<AxisOrder> {
        let info = self.info();
        (info.layout != Layout::Tiled).then(|| info.linear().axes)
    }

    /// The contiguous pieces of files that moving a box touches.
    fn extents(&self, region: &ArrayBox) -> Extents {
        let info = self.info();
        if info.layout == Layout::Tiled {
            let grid = TileGrid::new(&info.shape, &info.tile).expect("a stored array has a grid");
            return Extents {
                count: grid.tiles_of(region).count() as u64,
                bytes: info.box_bytes(&info.tile),
            };
        }
        if region.is_empty() {
            return Extents { count: 0, bytes: 0 };
        }
        let runs = info.linear().runs(region);
        Extents { count: runs.count(), bytes: runs.run_bytes }
    }

    /// How far behind a block's edge in its file a box begins, in bytes. Where it stands so in memory, it moves
    /// straight there.
    fn phase(&self, _region: &ArrayBox) -> usize {
        0
    }

    /// Whether a box, and others of its shape, is loaded straight into memory where it stands there in the order of
    /// its axes, and by its [`phase`](Self::phase) behind a block's edge.
    fn loads_straight(&self, _region: &ArrayBox) -> bool {
        false
    }

    /// The boxes in which a box of an array of tiles is best moved: its parts in each tile.
    fn tile_boxes(&self, region: &ArrayBox) -> Vec<ArrayBox> {
        cut_along(self.info(), &self.info().tile, region)
    }

    /// Whether elements lie on disk the other way round along an axis.
    fn is_reversed(&self, _axis: usize) -> bool {
        false
    }

    /// Bytes that a patch for one whole tile should have, so that the tile can be read straight into
    /// it.
    fn tile_frame(&self) -> usize {
        charged(self.info().box_bytes(&self.info().tile) as usize)
    }

    /// Whether whole tiles, padded at the array's edge, move straight between frames and files, without
    /// staging memory.
    fn moves_whole_tiles(&self) -> bool {
        false
    }

    /// How many elements thick the frontiers of tiles are, where those are stored beside them.
    fn thickness(&self) -> Option<u64> {
        None
    }

    /// Whether loading a box reads no more than a frontier of each tile that it touches.
    fn loads_apart(&self, _region: &ArrayBox) -> bool {
        false
    }

    /// Bytes that loading a box reads from the device.
    ///
    /// # Errors
    /// The operating system's, where stored sizes have to be looked up.
    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64>;

    /// Bytes that storing a box writes to the device. Where stored sizes are not known beforehand, an
    /// upper bound.
    ///
    /// # Errors
    /// The operating system's.
    fn bytes_to_store(&self, _region: &ArrayBox) -> Result<u64> {
        Ok(0)
    }

    /// Bytes that are read and written where boxes are stored one after the other in what is there, and what waits is
    /// [written out](Self::settle) after each: of blocks that a box has in part, the rest is read. Of a tiled array, a
    /// box consists of whole tiles. Where stored sizes are not known beforehand, an upper bound.
    ///
    /// # Errors
    /// The operating system's.
    fn bytes_to_change(&self, boxes: &[ArrayBox]) -> Result<(u64, u64)> {
        let written = boxes.iter().map(|region| self.bytes_to_store(region)).sum::<Result<u64>>()?;
        Ok((0, written))
    }

    /// Bytes that [`commit`](Self::commit) writes beside what was stored.
    fn bytes_to_commit(&self) -> u64 {
        0
    }

    /// The same, of a mover with so much staging memory: with less, what lies between is read in shorter
    /// pieces.
    ///
    /// # Errors
    /// As for [`bytes_to_load`](Self::bytes_to_load).
    fn bytes_to_load_with(&self, region: &ArrayBox, _staging: usize) -> Result<u64> {
        self.bytes_to_load(region)
    }

    /// What a box shares with those beside it, where it can be loaded [beside](Self::load_beside) them with so
    /// much staging memory.
    fn cuts(&self, _region: &ArrayBox, _staging: usize) -> Option<Cuts> {
        None
    }

    /// Loads the canvas's box. What those before it on disk have left of the blocks at its edges is not
    /// read again; what is left of its own is kept.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    fn load_beside(&self, mover: &mut Mover, canvas: &Canvas, edges: &mut Edges) -> Result<()> {
        edges.clear();
        self.load(mover, canvas)
    }

    /// Lets so many blocks wait to be whole before they are written in parts, where that is more than do by
    /// themselves: whoever moves boxes in such an order that as many wait has memory for them.
    fn let_wait(&self, _blocks: usize) {}

    /// Writes what waits to be written together with what is stored next, so that everything can be loaded.
    ///
    /// # Errors
    /// The operating system's.
    fn settle(&self, _mover: &mut Mover) -> Result<()> {
        Ok(())
    }

    /// The same elements in the order in which they lie on disk, as an array of this shape; `None` where they do not
    /// lie in one file, one after the other.
    fn folded(self: Arc<Self>, _shape: &[u64]) -> Option<Arc<dyn Store>> {
        None
    }

    /// The places of this array's elements on disk, taken for those of the same elements in another order: panel
    /// after panel of this shape, inside which the axes are in this order, slowest first. `None` where the array
    /// does not lie in one file that is being made.
    fn panels(self: Arc<Self>, _tile: &[u64], _axes: &[usize]) -> Option<Arc<dyn Store>> {
        None
    }

    /// Loads the canvas's box.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) naming the tile; the operating system's;
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()>;

    /// Stores the canvas's box. Of a tiled array, the box consists of whole tiles.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace); the operating system's;
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    fn store(&self, _mover: &mut Mover, _canvas: &Canvas) -> Result<()> {
        Err(linear::read_only(self.info()))
    }

    /// The staging memory that [`commit`](Self::commit) needs.
    fn commit_staging(&self) -> usize {
        0
    }

    /// Makes everything stored durable and visible.
    ///
    /// # Errors
    /// The operating system's; the array is then as it was before.
    fn commit(&self, _mover: &mut Mover) -> Result<()> {
        Ok(())
    }

    /// Forgets everything stored since the last commit.
    fn abort(&self) {}

    /// Forgets what a run has stored that was to change it, or to fill it, and has failed. An array that was there
    /// before is as it was, and stays open.
    fn fail(&self) {
        self.abort();
    }

    /// Whether something was stored since the last commit, or the array is new.
    fn is_pending(&self) -> bool {
        false
    }

    /// Bytes of the array's files.
    ///
    /// # Errors
    /// The operating system's.
    fn stored_bytes(&self) -> Result<u64> {
        self.origin().map_or(Ok(0), |origin| origin.stored_bytes())
    }

    /// What tells whether a box has changed: that is the same before and after it is read if what was read is all of
    /// one state; and the time of the last change, in nanoseconds, since what changes in the same tick of the kernel's
    /// clock is not told apart. `None` where loading finds that by itself, or nobody can.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed) where the array has to be opened anew; the operating system's.
    fn stamp(&self, _region: &ArrayBox) -> Result<Option<(u64, i64)>> {
        Ok(None)
    }

    /// How many units [`check`](Self::check) takes.
    fn units(&self) -> u64 {
        self.origin().map_or(0, |origin| origin.units())
    }

    /// Reads a unit and checks everything that can be checked about it.
    ///
    /// # Errors
    /// Only where checking is impossible, such as [`Error::Interrupted`](crate::Error::Interrupted).
    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        self.origin().map_or(Ok(Finding::Sound), |origin| origin.check(mover, unit))
    }

    /// Records what [`check`](Self::check) found stale as the array's lawful state.
    ///
    /// # Errors
    /// The operating system's; [`Error::Busy`](crate::Error::Busy).
    fn accept(&self, _findings: &[Finding]) -> Result<()> {
        Ok(())
    }
}

/// Blocks of a file that wait to be whole without anybody's having memory for them.
pub const WAITING_BLOCKS: usize = seams::Seams::MOST;
/// Bytes that each further one takes: an aligned block, with what is lost beside it.
pub const WAITING_BYTES: usize = 2 * seams::BLOCK;
