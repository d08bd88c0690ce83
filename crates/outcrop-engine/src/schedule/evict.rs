//! Which tile leaves memory.

use super::NEVER;
use crate::program::{Program, TileId};
use std::collections::BinaryHeap;

/// How the tile that leaves memory is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// The one with the furthest next use for what its return costs, by byte that is needed. A store counts as
    /// so many loads.
    NextUse {
        /// How dear a store is, in loads.
        store: f64,
    },
    /// Clean tiles by next use; changed ones only where there is no other.
    CleanFirst,
    /// The one used longest ago. Knows nothing of the future: for comparison.
    Lru,
    /// As `Lru`, clean tiles first: for comparison.
    CleanFirstLru,
}

impl Policy {
    /// What [`best`](super::best) tries.
    pub(super) const CANDIDATES: [Policy; 4] = [
        Policy::NextUse { store: 1.0 },
        Policy::NextUse { store: 0.0 },
        Policy::NextUse { store: 4.0 },
        Policy::CleanFirst,
    ];

    /// Whether it looks ahead.
    pub fn knows_the_future(self) -> bool {
        matches!(self, Policy::NextUse { .. } | Policy::CleanFirst)
    }
}

/// Tiles of one array, clean or changed, in the order in which they would leave.
#[derive(Default)]
struct Class {
    /// Keys and tiles; also of tiles that are gone since, as most leave from somewhere in the middle.
    tiles: BinaryHeap<(u32, u32)>,
    /// How many are not gone.
    present: usize,
    /// What the return of one costs, in bytes moved.
    cost: f64,
    /// Bytes of memory of one.
    frame: f64,
}

/// The tiles in memory.
pub(super) struct Residents {
    policy: Policy,
    /// Two for each array: clean and changed.
    classes: Vec<Class>,
    /// By tile: the class it is in plus one, and its key there.
    place: Vec<(u32, u32)>,
    class_of_tile: Vec<u16>,
}

impl Residents {
    pub(super) fn new(program: &Program, policy: Policy) -> Residents {
        let arrays = program.arrays().len();
        let mut sums = vec![(0u64, 0u64, 0u64); arrays];
        let mut counts = vec![0.0f64; arrays];
        let class_of_tile: Vec<u16> =
            (0..program.tiles()).map(|t| program.array_of(TileId(t as u32)).0).collect();
        for (t, &array) in class_of_tile.iter().enumerate() {
            let tile = TileId(t as u32);
            let cost = program.cost(tile);
            let sum = &mut sums[array as usize];
            *sum = (sum.0 + cost.load, sum.1 + cost.store, sum.2 + program.frame(tile) as u64);
            counts[array as usize] += 1.0;
        }
        let mut classes = Vec::new();
        for ((load, store, frame), count) in sums.into_iter().zip(counts) {
            let of_one = |all: u64| all as f64 / f64::max(count, 1.0);
            let (load, store, frame) = (of_one(load), of_one(store), of_one(frame).max(1.0));
            let store = match policy {
                Policy::NextUse { store: weight } => weight * store,
                _ => store,
            };
            classes.push(Class { cost: load, frame, ..Class::default() });
            classes.push(Class { cost: load + store, frame, ..Class::default() });
        }
        Residents { policy, classes, place: vec![(0, 0); program.tiles()], class_of_tile }
    }

    /// Adds a tile with its next use and the time of its last.
    pub(super) fn insert(&mut self, tile: TileId, dirty: bool, next: u32, now: u32) {
        let number = 2 * self.class_of_tile[tile.0 as usize] as usize + usize::from(dirty);
        // The last of a class leaves first.
        let key = if self.policy.knows_the_future() { next } else { NEVER - now };
        self.place[tile.0 as usize] = (number as u32 + 1, key);
        let class = &mut self.classes[number];
        class.present += 1;
        class.tiles.push((key, tile.0));
        if class.tiles.len() > 2 * class.present + FEW {
            let place = &self.place;
            class.tiles.retain(|&entry| is_there(place, number, entry));
        }
    }

    /// Removes a tile, if it is there.
    pub(super) fn remove(&mut self, tile: TileId) {
        let (class, _) = std::mem::take(&mut self.place[tile.0 as usize]);
        if class > 0 {
            self.classes[class as usize - 1].present -= 1;
        }
    }

    /// The tile that is to leave, where so many bytes are missing: what it has beyond these is not what it leaves for.
    pub(super) fn victim(&mut self, now: u32, missing: usize) -> Option<TileId> {
        let mut best: Option<(bool, f64, u32, u32)> = None;
        for (i, class) in self.classes.iter_mut().enumerate() {
            while class.tiles.peek().is_some_and(|&entry| !is_there(&self.place, i, entry)) {
                class.tiles.pop();
            }
            let Some(&(key, tile)) = class.tiles.peek() else { continue };
            let clean = i % 2 == 0;
            let cost = (class.cost / class.frame.min(missing as f64).max(1.0)).max(1e-9);
            let (first, score) = match self.policy {
                Policy::NextUse { .. } => (false, distance(now, key) / cost),
                Policy::CleanFirst => (clean, distance(now, key) / cost),
                Policy::Lru => (false, f64::from(key)),
                Policy::CleanFirstLru => (clean, f64::from(key)),
            };
            let candidate = (first, score, key, tile);
            if best.is_none_or(|b| candidate.partial_cmp(&b) == Some(std::cmp::Ordering::Greater)) {
                best = Some(candidate);
            }
        }
        best.map(|(.., tile)| TileId(tile))
    }

    /// Every tile.
    pub(super) fn all(&self) -> impl Iterator<Item = TileId> {
        let present = self.place.iter().enumerate().filter(|(_, (class, _))| *class > 0);
        present.map(|(tile, _)| TileId(tile as u32))
    }
}

/// Entries of tiles that are gone, which are not worth the time to look for.
const FEW: usize = 64;

/// Whether an entry of a class speaks of a tile that is in it.
fn is_there(place: &[(u32, u32)], class: usize, (key, tile): (u32, u32)) -> bool {
    place[tile as usize] == (class as u32 + 1, key)
}

fn distance(now: u32, next: u32) -> f64 {
    if next == NEVER { f64::INFINITY } else { f64::from(next.saturating_sub(now)) }
}
