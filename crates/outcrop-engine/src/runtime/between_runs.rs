//! Tiles that a run leaves in memory, and the next one starts from.

use super::Runtime;
use crate::program::{Array, Program, Role, TileId};
use outcrop_store::Result;
use outcrop_store::frame::{Frame, fitted};
use outcrop_store::store::Store;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether the tiles of a program's array lie in memory as those of the store do. A box at an array's edge may be a
/// tile of both, with rows of another length.
fn lies_as_stored(array: &Array, store: &Arc<dyn Store>) -> bool {
    // Tiles that others have encoded are in memory for small reads, but not given out.
    store.moves_whole_tiles()
        && array.tile_shape() == store.info().tile.as_slice()
        && !array.skewed
        && !store.is_changed_by_others()
}

impl Runtime {
    /// Which tiles of a program's stored arrays are in memory. Changed ones are written out first.
    ///
    /// # Errors
    /// Those of writing.
    pub fn resident_tiles(
        &self,
        program: &Program,
        stores: &[Option<Arc<dyn Store>>],
    ) -> Result<Vec<TileId>> {
        let mut resident = self.resident();
        let mut found = Vec::new();
        // A tile that two arrays of the program share goes to the first.
        let mut given = HashSet::new();
        for (i, (array, store)) in program.arrays().iter().zip(stores).enumerate() {
            let Some(store) = store.as_ref().filter(|_| array.role == Role::Input) else { continue };
            let mut origin = store;
            while let Some(inner) = origin.origin() {
                origin = inner;
            }
            resident.flush(self, origin)?;
            if !lies_as_stored(array, store) {
                continue;
            }
            for region in resident.regions(store) {
                let tile = program.tile_of_box(i, &region);
                let tile = tile.filter(|&t| program.frame(t) == fitted(store.tile_frame()));
                if let Some(tile) = tile
                    && given.insert((Arc::as_ptr(store).cast::<()>() as usize, region))
                {
                    found.push(tile);
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Bytes of the budget that resident tiles have.
    pub fn resident_bytes(&self) -> usize {
        self.resident().bytes()
    }

    /// Takes tiles of [`resident_tiles`](Self::resident_tiles) for a run; `None`, and takes none, where
    /// one has gone since.
    pub fn adopt(
        &self,
        program: &Program,
        stores: &[Option<Arc<dyn Store>>],
        tiles: &[TileId],
    ) -> Option<Vec<Frame>> {
        let mut resident = self.resident();
        let mut taken = Vec::with_capacity(tiles.len());
        for &tile in tiles {
            let store = stores[program.array_of(tile).0 as usize].as_ref();
            match store.and_then(|store| resident.take(store, &program.stored_region(tile))) {
                Some(frame) => taken.push(frame),
                None => {
                    drop(resident);
                    let back = tiles.iter().copied().zip(taken).collect();
                    self.keep(program, stores, back);
                    return None;
                }
            }
        }
        Some(taken)
    }

    /// Keeps tiles that a run leaves, as they are stored, for small reads and the next run.
    pub fn keep(&self, program: &Program, stores: &[Option<Arc<dyn Store>>], tiles: Vec<(TileId, Frame)>) {
        let mut resident = self.resident();
        for (tile, frame) in tiles {
            let array = program.array_of(tile);
            let store = stores[array.0 as usize].as_ref();
            if let Some(store) = store.filter(|store| lies_as_stored(program.array_at(array), store)) {
                resident.put(store, program.stored_region(tile), frame);
            }
        }
    }
}
