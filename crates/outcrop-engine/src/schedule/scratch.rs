//! Which part of the scratch space a spilled tile has.

use crate::program::TileId;
use std::collections::{BTreeMap, HashMap};

/// Slots of scratch space, as they are taken and given back in the order of a schedule. The run
/// repeats what the schedule did, and so finds the same places.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    taken: HashMap<u32, u64>,
    free: BTreeMap<u64, Vec<u64>>,
    end: u64,
}

impl Slots {
    /// The slot of a tile that is stored; the one it has, where it has one.
    pub(crate) fn take(&mut self, tile: TileId, bytes: u64) -> u64 {
        if let Some(&at) = self.taken.get(&tile.0) {
            return at;
        }
        let at = self.free.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| {
            self.end += bytes;
            self.end - bytes
        });
        self.taken.insert(tile.0, at);
        at
    }

    /// The slot of a tile that was stored.
    pub(crate) fn of(&self, tile: TileId) -> Option<u64> {
        self.taken.get(&tile.0).copied()
    }

    /// The tile's content is not needed any more.
    pub(crate) fn give_back(&mut self, tile: TileId, bytes: u64) {
        if let Some(at) = self.taken.remove(&tile.0) {
            self.free.entry(bytes).or_default().push(at);
        }
    }

    /// Bytes of scratch space that were needed so far.
    pub(crate) fn peak(&self) -> u64 {
        self.end
    }
}
