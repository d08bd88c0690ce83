//! Boxes to memory and back.

use crate::boxes::movement::{threads, units, whole_tiles};
use outcrop_engine::Runtime;
use outcrop_engine::Watch;
use outcrop_engine::runtime::COMMIT;
use outcrop_engine::runtime::resident::Resident;
use outcrop_engine::stream::{self, Frames, Job, Threads};
use outcrop_store::frame::{Frame, charged, fitted};
use outcrop_store::io::Cancel;
use outcrop_store::layout::Layout;
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, Error, Result, TileGrid};
use std::sync::Arc;

/// Boxes below this size are moved by the calling thread alone.
const SMALL: u64 = 1 << 20;
/// Bytes of the parts of a row-major or column-major box that threads take on.
const PART: u64 = 8 << 20;

/// How many times as much as is wanted of frontiers is read of them, rather than the tiles kept in memory; and how many
/// bytes of each tile in any case.
const FRONTIER_TIMES: u64 = 16;
const FRONTIER_BYTES: u64 = 8 << 10;

/// The bytes that a block of memory must have for a box to be loaded straight into it.
pub fn frame_bytes(store: &dyn Store, region: &ArrayBox) -> usize {
    let info = store.info();
    let bytes = info.box_bytes(&region.shape) as usize;
    let one_tile = info.layout == Layout::Tiled && region.shape == info.tile;
    if one_tile { fitted(store.tile_frame().max(bytes)) } else { bytes }
}

/// A canvas over a whole frame.
///
/// # Safety
/// Nobody else uses the frame's memory while the canvas is in use.
pub(crate) unsafe fn canvas_on(frame: &Frame, region: &ArrayBox, itemsize: usize) -> Canvas {
    let patch = Patch::dense(region.clone(), frame.as_ptr(), frame.len(), itemsize);
    // SAFETY: a frame is valid memory; that it is large enough and not shared is the caller's promise.
    unsafe { Canvas::new(region.clone(), itemsize, [patch]) }
}

struct Move<'a> {
    operation: &'static str,
    store: &'a dyn Store,
    canvas: &'a Canvas,
    units: Vec<ArrayBox>,
    write: bool,
}

impl Job for Move<'_> {
    fn operation(&self) -> &'static str {
        self.operation
    }
    fn pieces(&self) -> u64 {
        self.units.len() as u64
    }
    fn frames(&self, _: u64) -> Vec<usize> {
        Vec::new()
    }
    fn load_units(&self, _: u64) -> u64 {
        1
    }
    fn store_units(&self, _: u64) -> u64 {
        0
    }
    fn load(&self, mover: &mut Mover, piece: u64, _: u64, _: &Frames) -> Result<()> {
        let canvas = self.canvas.part(&self.units[piece as usize]);
        if self.write { self.store.store(mover, &canvas) } else { self.store.load(mover, &canvas) }
    }
    fn store(&self, _: &mut Mover, _: u64, _: u64, _: &Frames) -> Result<()> {
        Ok(())
    }
    fn progress(&self, piece: u64) -> u64 {
        self.store.info().box_bytes(&self.units[piece as usize].shape)
    }
}

/// Moves a canvas's box, alone where it is small, else with several threads.
fn move_box(
    runtime: &Runtime,
    store: &dyn Store,
    canvas: &Canvas,
    write: bool,
    watch: &mut dyn Watch,
) -> Result<()> {
    let info = store.info();
    let operation = if write { "write" } else { "read" };
    let exact = canvas.exact(canvas.region(), &info.tile).is_some() && info.is_whole_tile(canvas.region());
    let staging = store.staging(exact);
    let units = units(store, canvas.region(), PART);
    if units.len() == 1 && (info.box_bytes(&canvas.region().shape) <= SMALL || info.layout == Layout::Tiled) {
        let mut mover = runtime.mover(staging.least, operation, &Cancel::default())?;
        let meter = runtime.meter(operation);
        if write {
            store.store(&mut mover, canvas)?
        } else {
            store.load(&mut mover, canvas)?
        }
        runtime.set_last_run(meter.report());
        return Ok(());
    }
    runtime.tune(&info.path, info.box_bytes(&canvas.region().shape));
    let threads = fitting(runtime, threads(runtime, staging, None), staging.least)?;
    let job = Move { operation, store, canvas, units, write };
    stream::run(runtime, &job, threads, watch).map(drop)
}

/// Fewer threads with less staging memory, where the budget has no more room.
fn fitting(runtime: &Runtime, threads: Threads, least: usize) -> Result<Threads> {
    if runtime.has_room(threads.staging())? {
        return Ok(threads);
    }
    Ok(Threads { loaders: stream::Loaders::Threads(1), load_staging: least, ..threads })
}

/// Loads a box of an array into the canvas.
///
/// # Errors
/// Those of the store; [`Error::Budget`]; [`Error::Interrupted`] where the watch says so.
pub fn read(runtime: &Runtime, store: &Arc<dyn Store>, canvas: &Canvas, watch: &mut dyn Watch) -> Result<()> {
    let info = store.info();
    canvas.region().check_inside(&info.shape)?;
    if canvas.region().is_empty() {
        return Ok(());
    }
    let grid = TileGrid::new(&info.shape, &info.tile)?;
    if info.layout == Layout::Tiled {
        let tile_bytes = store.tile_frame() as u64;
        let tiles = grid.tiles_of(canvas.region()).count() as u64;
        let in_part = grid.tiles_of(canvas.region()).any(|c| !canvas.region().contains(&grid.tile_box(&c)));
        let few = tiles * tile_bytes <= runtime.budget().limit() as u64 / 4;
        if in_part && few && !reads_frontiers(runtime, store, canvas.region(), tiles)? {
            return with_resident(runtime, store, |resident| resident.read(runtime, store, canvas));
        }
        let mut resident = runtime.resident();
        if resident.touches(store, canvas.region()) {
            counted(runtime, || resident.flush(runtime, store))?;
        }
    }
    move_box(runtime, store.as_ref(), canvas, false, watch)
}

/// Whether a box is read by frontiers alone, and not by tiles that stay in memory: where that reads little more than
/// what is wanted, or as little as a read can be.
fn reads_frontiers(runtime: &Runtime, store: &Arc<dyn Store>, region: &ArrayBox, tiles: u64) -> Result<bool> {
    if !store.loads_apart(region) || runtime.resident().touches(store, region) {
        return Ok(false);
    }
    let most = FRONTIER_TIMES * store.info().box_bytes(&region.shape) + tiles * FRONTIER_BYTES;
    Ok(store.bytes_to_load(region)? <= most)
}

/// Stores the canvas's box in an array. Tiles that it holds in part stay in memory for a while.
///
/// # Errors
/// As for [`read`]; [`Error::Invalid`] where the array is not writable.
pub fn write(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    canvas: &Canvas,
    watch: &mut dyn Watch,
) -> Result<()> {
    let info = store.info();
    canvas.region().check_inside(&info.shape)?;
    if !info.writable {
        let path = info.path.display();
        return Err(Error::invalid(format!(
            "{path}: opened for reading; open it with mode=\"r+\" to write to it"
        )));
    }
    if canvas.region().is_empty() {
        return Ok(());
    }
    if info.layout != Layout::Tiled {
        return move_box(runtime, store.as_ref(), canvas, true, watch);
    }
    // The box's inner part that consists of whole tiles goes to disk at once; its rim, to memory.
    let grid = TileGrid::new(&info.shape, &info.tile)?;
    let Some(inner) = whole_tiles(&grid, canvas.region()) else {
        return with_resident(runtime, store, |resident| resident.write(runtime, store, canvas));
    };
    runtime.resident().forget(store, &inner);
    move_box(runtime, store.as_ref(), &canvas.part(&inner), true, watch)?;
    for coords in grid.tiles_of(canvas.region()) {
        let tile = grid.tile_box(&coords);
        if !inner.contains(&tile) {
            let common = canvas.part(&tile.intersect(canvas.region()).expect("a tile of the box"));
            with_resident(runtime, store, |resident| resident.write(runtime, store, &common))?;
        }
    }
    Ok(())
}

/// Does something with the resident tiles of an array. Where another thread's run has the memory, it waits
/// for some of that.
fn with_resident(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    work: impl Fn(&mut Resident) -> Result<()>,
) -> Result<()> {
    let work = || work(&mut runtime.resident());
    counted(runtime, || match work() {
        Err(Error::Budget { .. }) => {
            let tile = fitted(store.tile_frame()) + charged(store.staging(true).least);
            runtime.with_room(tile, "a tile", work)
        }
        other => other,
    })
}

/// Does something that is no run of its own; in an operation, its bytes belong to the sum.
fn counted<T>(runtime: &Runtime, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let meter = runtime.is_in_operation().then(|| runtime.meter(COMMIT));
    let done = work();
    meter.into_iter().for_each(|meter| runtime.set_last_run(meter.report()));
    done
}

/// Writes the changed tiles of an array that are in memory.
///
/// # Errors
/// Those of the store.
pub fn flush(runtime: &Runtime, store: &Arc<dyn Store>) -> Result<()> {
    counted(runtime, || runtime.resident().flush(runtime, store))
}

/// Writes out what of an array is changed in memory, and lets go of what is in memory of it.
///
/// # Errors
/// Those of the store.
pub fn settle(runtime: &Runtime, store: &Arc<dyn Store>) -> Result<()> {
    flush(runtime, store)?;
    runtime.resident().forget(store, &ArrayBox::whole(&store.info().shape));
    Ok(())
}

/// Makes everything written to an array durable and visible.
///
/// # Errors
/// Those of the store; the array is then as it was.
pub fn commit(runtime: &Runtime, store: &Arc<dyn Store>) -> Result<()> {
    settle(runtime, store)?;
    let staging = if store.is_pending() { store.commit_staging() } else { 0 };
    let mut mover = runtime.mover(staging, COMMIT, &Cancel::default())?;
    counted(runtime, || store.commit(&mut mover))
}

/// Forgets everything written to an array since its last commit.
pub fn abort(runtime: &Runtime, store: &Arc<dyn Store>) {
    runtime.resident().forget(store, &ArrayBox::whole(&store.info().shape));
    store.abort();
}
