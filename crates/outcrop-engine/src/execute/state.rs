//! What a run knows of its actions: those that wait, those that can start, and what they use.

use super::WINDOW;
use super::resource::{Memory, NodeKey, Resource, ResourceKey, Resources};
use crate::program::{ArrayId, Program, TileId};
use crate::schedule::Slots;
use outcrop_store::frame::{Budget, Frame};
use outcrop_store::{Error, Result};
use slab::Slab;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::{Duration, Instant};

/// What a worker does.
#[derive(Clone, Copy)]
pub(super) enum Task {
    Step(u32),
    /// Of a tile, from the place of a tile, or from scratch.
    Load(TileId, TileId, Option<u64>),
    Store(TileId, Option<u64>),
    Leave,
}

/// An action that is issued and not done.
pub(super) struct Node {
    pub(super) task: Task,
    pub(super) missing: u32,
    pub(super) uses: SmallVec<[(ResourceKey, bool); 4]>,
    /// Of which array the tile is whose load it waited for, if that was the last thing that it waited for.
    pub(super) loaded: Option<ArrayId>,
}

/// The frames that a task uses.
pub(super) type Frames = SmallVec<[*mut u8; 8]>;

/// Tasks that can start, the oldest first.
pub(super) type Ready = BinaryHeap<Reverse<(u32, NodeKey)>>;

/// What a run knows, under one lock.
pub(super) struct State {
    /// The next action to issue.
    pub(super) cursor: usize,
    pub(super) next_step: u32,
    pub(super) nodes: Slab<Node>,
    pub(super) resources: Resources,
    /// By tile: its frame's resource plus one.
    pub(super) frames: Vec<ResourceKey>,
    pub(super) places: HashMap<u64, ResourceKey>,
    pub(super) slots: Slots,
    pub(super) ready: [Ready; 3],
    pub(super) sleeping: [usize; 3],
    pub(super) used: usize,
    pub(super) age: u32,
    pub(super) failure: Option<Error>,
    /// Since when memory that should be there has been missing.
    pub(super) starved: Option<Instant>,
    pub(super) active: [usize; 3],
    /// Loads under way into memory that was never used.
    pub(super) fresh: usize,
    /// Whether the run will need memory that nothing has used yet.
    pub(super) more_to_use: bool,
    pub(super) since: Instant,
    pub(super) overlap: Duration,
    pub(super) io_busy: Duration,
    pub(super) done: f64,
    pub(super) kernel_seconds: Vec<Duration>,
    /// How long threads had nothing to do until a tile of an array was loaded for a step of a kernel.
    pub(super) waited: BTreeMap<(u16, ArrayId), Duration>,
}

/// The lanes, by what their workers perform.
pub(super) const STEPS: usize = 0;
pub(super) const LOADS: usize = 1;
pub(super) const STORES: usize = 2;

impl State {
    /// Before the first action: nothing is in memory but what a run before has left there.
    pub(super) fn new(program: &Program, adopted: impl Iterator<Item = (TileId, Frame)>) -> State {
        let mut state = State {
            cursor: 0,
            next_step: 0,
            nodes: Slab::with_capacity(WINDOW),
            resources: Slab::new(),
            frames: vec![0; program.tiles()],
            places: HashMap::new(),
            slots: Slots::default(),
            ready: Default::default(),
            sleeping: [0; 3],
            used: 0,
            age: 0,
            failure: None,
            starved: None,
            active: [0; 3],
            fresh: 0,
            more_to_use: true,
            since: Instant::now(),
            overlap: Duration::ZERO,
            io_busy: Duration::ZERO,
            done: 0.0,
            kernel_seconds: vec![Duration::ZERO; program.kernels().len()],
            waited: BTreeMap::new(),
        };
        for (tile, frame) in adopted {
            state.used += frame.len();
            let resource = Resource::of_tile(tile, Memory::Frame(frame));
            state.frames[tile.0 as usize] = state.resources.insert(resource) as u32 + 1;
        }
        state
    }

    /// The oldest task of a lane that can start, and whether it is a load into memory that was never used.
    ///
    /// The kernel clears such memory, which takes processor time. While steps wait for a processor, no more than one
    /// loader does that: else the more steps fall behind, the more memory is taken for what is loaded meanwhile, and
    /// the less of the processors they get.
    pub(super) fn next(&mut self, lane: usize, budget: &Budget) -> Option<(NodeKey, bool)> {
        let &Reverse((_, key)) = self.ready[lane].peek()?;
        let reserved = |&(resource, _): &(ResourceKey, bool)| match &self.resources[resource as usize].memory
        {
            Memory::Reserved(reservation) => !budget.keeps(reservation.len()),
            _ => false,
        };
        let fresh = lane == LOADS && self.nodes[key as usize].uses.iter().any(reserved);
        if fresh && self.fresh > 0 && !self.ready[STEPS].is_empty() {
            return None;
        }
        self.ready[lane].pop();
        Some((key, fresh))
    }

    /// A task that begins, and the frames it uses.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the system refuses memory that the budget allows.
    pub(super) fn task(&mut self, key: NodeKey) -> Result<(Task, Frames)> {
        let node = &self.nodes[key as usize];
        let resources = &mut self.resources;
        let frames = node.uses.iter().map(|&(resource, _)| resources[resource as usize].memory.begin());
        let frames = frames.filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok((node.task, frames))
    }

    /// Keeps the account of overlapping time when a task starts or ends, which is now.
    pub(super) fn account(&mut self, change: impl FnOnce(&mut State)) -> Instant {
        let now = Instant::now();
        let moving = self.active[LOADS] + self.active[STORES] > 0;
        if moving {
            self.io_busy += now - self.since;
        }
        if moving && self.active[STEPS] > 0 {
            self.overlap += now - self.since;
        }
        self.since = now;
        change(self);
        now
    }
}
