//! Tiles that stay in memory between small reads and writes.
//!
//! A loop that reads or assigns an array row by row touches each tile a thousand times; here the
//! tile is loaded once and, where it was changed, stored once. Tiles leave in the order of their last
//! use when the budget is needed for something else. Work that knows its whole future does not come
//! here.

use super::Runtime;
use outcrop_store::frame::{Frame, charged, fitted};
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, Result, TileGrid};
use std::collections::HashMap;
use std::sync::Arc;

type Key = (usize, u64);

struct Entry {
    store: Arc<dyn Store>,
    region: ArrayBox,
    frame: Frame,
    dirty: bool,
    used: u64,
}

/// The resident tiles.
#[derive(Default)]
pub struct Resident {
    tiles: HashMap<Key, Entry>,
    /// Staging memory with which each of the tiles can move, whatever else fills the budget. There as
    /// long as tiles are.
    staging: Option<Frame>,
    clock: u64,
}

/// What tells one open array from another.
fn identity(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>() as usize
}

/// The key of a box that is a tile of a tiled array.
fn key_of(store: &Arc<dyn Store>, region: &ArrayBox) -> Option<Key> {
    let info = store.info();
    let grid = TileGrid::new(&info.shape, &info.tile).ok()?;
    let mut coords = grid.tiles_of(region);
    let first = coords.next()?;
    let is_tile = store.moves_whole_tiles() && grid.tile_box(&first) == *region;
    is_tile.then(|| (identity(store), grid.linear_index(&first)))
}

fn canvas_of(entry: &Entry) -> Canvas {
    let itemsize = entry.store.info().dtype.size();
    let (frame, tile) = (&entry.frame, &entry.store.info().tile);
    let patch = Patch::padded(entry.region.clone(), frame.as_ptr(), frame.len(), tile, itemsize);
    // SAFETY: the frame holds the tile's box, and the caller holds the entry.
    unsafe { Canvas::new(entry.region.clone(), itemsize, [patch]) }
}

fn store_entry(runtime: &Runtime, entry: &mut Entry, staging: &mut Option<Frame>) -> Result<()> {
    if entry.dirty {
        let canvas = canvas_of(entry);
        Mover::lend(runtime.disk(), runtime.budget(), staging, |mover| entry.store.store(mover, &canvas))?;
        entry.dirty = false;
    }
    Ok(())
}

impl Resident {
    /// Copies a box of the array into `target`, tile by tile through here.
    ///
    /// # Errors
    /// Those of loading, of storing what has to make room, and [`outcrop_store::Error::Budget`].
    pub fn read(&mut self, runtime: &Runtime, store: &Arc<dyn Store>, target: &Canvas) -> Result<()> {
        let grid = TileGrid::new(&store.info().shape, &store.info().tile)?;
        for coords in grid.tiles_of(target.region()) {
            let entry = self.tile(runtime, store, &grid, &coords, true)?;
            let common = entry.region.intersect(target.region()).expect("a tile of the box");
            let (start, strides) = canvas_of(entry).address(&common);
            // SAFETY: the entry holds `common`, and is not changed meanwhile.
            unsafe { target.scatter(&common, start, &strides, 1) };
        }
        Ok(())
    }

    /// Copies `source` into the array's tiles here; they are stored later.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&mut self, runtime: &Runtime, store: &Arc<dyn Store>, source: &Canvas) -> Result<()> {
        let grid = TileGrid::new(&store.info().shape, &store.info().tile)?;
        for coords in grid.tiles_of(source.region()) {
            let partial = !source.region().contains(&grid.tile_box(&coords));
            let entry = self.tile(runtime, store, &grid, &coords, partial)?;
            let common = entry.region.intersect(source.region()).expect("a tile of the box");
            let (start, strides) = canvas_of(entry).address(&common);
            entry.dirty = true;
            // SAFETY: the entry holds `common`, and is not used by others meanwhile.
            unsafe { source.gather(&common, start, &strides, 1) };
        }
        Ok(())
    }

    fn tile(
        &mut self,
        runtime: &Runtime,
        store: &Arc<dyn Store>,
        grid: &TileGrid,
        coords: &[u64],
        load: bool,
    ) -> Result<&mut Entry> {
        let key = (identity(store), grid.linear_index(coords));
        self.clock += 1;
        if !self.tiles.contains_key(&key) {
            let bytes = fitted(store.tile_frame());
            let staging = store.staging(true).least;
            loop {
                // Room for the tile, and for the staging memory with which it and its like move.
                let there = self.staging.as_ref().map_or(0, Frame::len);
                let more = if staging > there { charged(staging) } else { 0 };
                if runtime.budget().used() + bytes + more <= runtime.budget().limit() {
                    break;
                }
                if !self.evict_one(runtime)? {
                    break;
                }
            }
            if staging > self.staging.as_ref().map_or(0, Frame::len) {
                self.staging = Some(runtime.budget().frame(staging, "moving a tile")?);
            }
            let frame = match runtime.budget().frame(bytes, "a tile") {
                Ok(frame) => frame,
                Err(error) => {
                    self.tidy();
                    return Err(error);
                }
            };
            let entry = Entry {
                store: Arc::clone(store),
                region: grid.tile_box(coords),
                frame,
                dirty: false,
                used: 0,
            };
            if load {
                let canvas = canvas_of(&entry);
                let loaded = Mover::lend(runtime.disk(), runtime.budget(), &mut self.staging, |mover| {
                    store.load(mover, &canvas)
                });
                if let Err(error) = loaded {
                    self.tidy();
                    return Err(error);
                }
            }
            self.tiles.insert(key, entry);
        }
        let entry = self.tiles.get_mut(&key).expect("inserted above");
        entry.used = self.clock;
        Ok(entry)
    }

    /// Lets go of the tile used longest ago, after storing it where it was changed; `false` where
    /// there is none.
    ///
    /// # Errors
    /// Those of storing; the tile stays then.
    pub fn evict_one(&mut self, runtime: &Runtime) -> Result<bool> {
        let Some((&key, _)) = self.tiles.iter().min_by_key(|(_, e)| e.used) else { return Ok(false) };
        let entry = self.tiles.get_mut(&key).expect("found above");
        store_entry(runtime, entry, &mut self.staging)?;
        self.tiles.remove(&key);
        self.tidy();
        Ok(true)
    }

    /// Lets go of the unchanged tile used longest ago; `false` where there is none.
    pub fn evict_unchanged(&mut self) -> bool {
        let unchanged = self.tiles.iter().filter(|(_, e)| !e.dirty);
        let Some((&key, _)) = unchanged.min_by_key(|(_, e)| e.used) else { return false };
        self.tiles.remove(&key);
        self.tidy();
        true
    }

    /// Lets go of all unchanged tiles.
    pub fn forget_unchanged(&mut self) {
        self.tiles.retain(|_, entry| entry.dirty);
        self.tidy();
    }

    /// Without tiles, no staging memory.
    fn tidy(&mut self) {
        if self.tiles.is_empty() {
            self.staging = None;
        }
    }

    /// Bytes of the budget in use here.
    pub fn bytes(&self) -> usize {
        let tiles: usize = self.tiles.values().map(|e| e.frame.len()).sum();
        tiles + self.staging.as_ref().map_or(0, Frame::len)
    }

    /// The boxes of an array's tiles that are here.
    pub fn regions(&self, store: &Arc<dyn Store>) -> Vec<ArrayBox> {
        let id = identity(store);
        self.tiles.iter().filter(|((of, _), _)| *of == id).map(|(_, e)| e.region.clone()).collect()
    }

    /// Takes a tile out, if it is here as it is stored.
    pub fn take(&mut self, store: &Arc<dyn Store>, region: &ArrayBox) -> Option<Frame> {
        let key = key_of(store, region)?;
        if self.tiles.get(&key)?.dirty {
            return None;
        }
        let entry = self.tiles.remove(&key);
        self.tidy();
        entry.map(|entry| entry.frame)
    }

    /// Adds a tile as it is stored, if the box is one and its frame is of the right size.
    pub fn put(&mut self, store: &Arc<dyn Store>, region: ArrayBox, frame: Frame) {
        let Some(key) = key_of(store, &region) else { return };
        if frame.len() != fitted(store.tile_frame()) || self.tiles.contains_key(&key) {
            return;
        }
        self.clock += 1;
        let entry = Entry { store: Arc::clone(store), region, frame, dirty: false, used: self.clock };
        self.tiles.insert(key, entry);
    }

    /// Lets the tiles of one store be those of another, which has the same tiles with the same content.
    pub fn rename(&mut self, from: &Arc<dyn Store>, to: &Arc<dyn Store>) {
        let (old, new) = (identity(from), identity(to));
        let positions: Vec<u64> = self.tiles.keys().filter(|(of, _)| *of == old).map(|&(_, at)| at).collect();
        for at in positions {
            if let Some(entry) = self.tiles.remove(&(old, at)) {
                self.tiles.insert((new, at), Entry { store: Arc::clone(to), ..entry });
            }
        }
    }

    /// Whether a tile that shares an element with a box is here.
    pub fn touches(&self, store: &Arc<dyn Store>, region: &ArrayBox) -> bool {
        let id = identity(store);
        self.tiles.iter().any(|((of, _), e)| *of == id && e.region.intersect(region).is_some())
    }

    /// Stores the changed tiles of an array.
    ///
    /// # Errors
    /// Those of storing; tiles not stored stay changed.
    pub fn flush(&mut self, runtime: &Runtime, store: &Arc<dyn Store>) -> Result<()> {
        let id = identity(store);
        let mut changed: Vec<&mut Entry> =
            self.tiles.iter_mut().filter(|((of, _), e)| *of == id && e.dirty).map(|(_, e)| e).collect();
        changed.sort_by_key(|e| e.region.start.to_vec());
        changed.into_iter().try_for_each(|entry| store_entry(runtime, entry, &mut self.staging))
    }

    /// Forgets the tiles of an array that lie inside a box, changed or not.
    pub fn forget(&mut self, store: &Arc<dyn Store>, region: &ArrayBox) {
        let id = identity(store);
        self.tiles.retain(|(of, _), e| *of != id || !region.contains(&e.region));
        self.tidy();
    }
}
