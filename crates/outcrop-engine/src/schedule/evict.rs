//! Which tile leaves memory.

use super::NEVER;
use crate::program::{Program, TileId};
use std::collections::BTreeSet;

/// How the tile that leaves memory is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// The one with the furthest next use for each byte that its return costs. A store counts as so
    /// many loads.
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
    tiles: BTreeSet<(u32, u32)>,
    /// What their return costs, for each byte of memory.
    cost: f64,
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
        let class_of_tile: Vec<u16> =
            (0..program.tiles()).map(|t| program.array_of(TileId(t as u32)).0).collect();
        for (t, &array) in class_of_tile.iter().enumerate() {
            let tile = TileId(t as u32);
            let cost = program.cost(tile);
            let sum = &mut sums[array as usize];
            *sum = (sum.0 + cost.load, sum.1 + cost.store, sum.2 + program.frame(tile) as u64);
        }
        let mut classes = Vec::new();
        for (load, store, frame) in sums {
            let (load, store, frame) = (load as f64, store as f64, (frame as f64).max(1.0));
            let store = match policy {
                Policy::NextUse { store: weight } => weight * store,
                _ => store,
            };
            classes.push(Class { cost: load / frame, ..Class::default() });
            classes.push(Class { cost: (load + store) / frame, ..Class::default() });
        }
        Residents { policy, classes, place: vec![(0, 0); program.tiles()], class_of_tile }
    }

    /// Adds a tile with its next use and the time of its last.
    pub(super) fn insert(&mut self, tile: TileId, dirty: bool, next: u32, now: u32) {
        let class = 2 * self.class_of_tile[tile.0 as usize] as usize + usize::from(dirty);
        // The last of a class leaves first.
        let key = if self.policy.knows_the_future() { next } else { NEVER - now };
        self.classes[class].tiles.insert((key, tile.0));
        self.place[tile.0 as usize] = (class as u32 + 1, key);
    }

    /// Removes a tile, if it is there.
    pub(super) fn remove(&mut self, tile: TileId) {
        let (class, key) = std::mem::take(&mut self.place[tile.0 as usize]);
        if class > 0 {
            self.classes[class as usize - 1].tiles.remove(&(key, tile.0));
        }
    }

    /// The tile that is to leave, none of those pinned.
    pub(super) fn victim(&self, now: u32, pinned: &[TileId]) -> Option<TileId> {
        let mut best: Option<(bool, f64, u32, u32)> = None;
        for (i, class) in self.classes.iter().enumerate() {
            let free = |&&(_, tile): &&(u32, u32)| !pinned.contains(&TileId(tile));
            let Some(&(key, tile)) = class.tiles.iter().rev().find(free) else { continue };
            let clean = i % 2 == 0;
            let (first, score) = match self.policy {
                Policy::NextUse { .. } => (false, distance(now, key) / class.cost.max(1e-9)),
                Policy::CleanFirst => (clean, distance(now, key) / class.cost.max(1e-9)),
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
    pub(super) fn all(&self) -> Vec<TileId> {
        self.classes.iter().flat_map(|c| c.tiles.iter().map(|&(_, t)| TileId(t))).collect()
    }
}

fn distance(now: u32, next: u32) -> f64 {
    if next == NEVER { f64::INFINITY } else { f64::from(next.saturating_sub(now)) }
}
