//! Running a schedule.
//!
//! The schedule's actions are issued in order, as far ahead as memory allows, and performed as soon
//! as what they use is theirs: loads by loader threads, steps by compute threads, stores by storer
//! threads. Frames are given out in the schedule's order, and the schedule fits the capacity it was
//! made for; whatever memory there is beyond that is by how much loads run ahead and stores behind.
//!
//! Invariants:
//! 1. Only frames are waited for out of turn. The oldest action that is not done never needs memory
//!    that a younger one holds, so that the run ends.
//! 2. The first error stops the run: nothing starts after it, and it returns when what is under way
//!    has ended, so that no memory is freed under a transfer or a kernel.

mod resource;
mod state;
#[cfg(test)]
mod tests;
mod timeline;

use crate::program::{ArrayId, Caller, Program, Role, Running, Tile, TileId};
use crate::report::Report;
use crate::runtime::run_queue::start_for_a_run;
use crate::runtime::scratch::Scratch;
use crate::runtime::{PATIENCE, Runtime};
use crate::schedule::{Action, Schedule};
use crate::watch::Watch;
use outcrop_store::frame::{AHEAD, Frame, charged};
use outcrop_store::io::Cancel;
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, Error, Result};
use resource::{Memory, NodeKey, Resource, ResourceKey};
use smallvec::SmallVec;
use state::{LOADS, Node, STEPS, STORES, State, Task};
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
pub use timeline::Timeline;

/// Who does the work, and with how much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crew {
    /// Threads for steps.
    pub threads: usize,
    /// Threads for loads.
    pub loaders: usize,
    /// Threads for stores.
    pub storers: usize,
    /// Staging memory of each loader, in bytes.
    pub load_staging: usize,
    /// Staging memory of each storer, in bytes.
    pub store_staging: usize,
    /// Bytes of the budget that are left to functions of the user's.
    pub reserved: usize,
    /// Bytes that tiles may occupy together; at least the schedule's peak.
    pub room: usize,
}

/// What is run.
pub struct Work<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// By array, where it is stored; `None` for temporaries.
    pub stores: &'a [Option<Arc<dyn Store>>],
    /// Whoever waits for it, as kernels see it.
    pub caller: &'a dyn Caller,
    /// Whether outputs are committed at the end, and not by the caller, who has others to be committed with them.
    pub commits: bool,
}

/// Actions that are issued and not done. More would not be performed sooner.
const WINDOW: usize = 1024;

/// How often the caller's thread looks around.
const TICK: Duration = Duration::from_millis(50);

/// Performs a task.
type Perform<'a> = dyn FnMut(Task, &[*mut u8]) -> Result<()> + 'a;

struct Run<'a> {
    runtime: &'a Runtime,
    work: &'a Work<'a>,
    crew: Crew,
    scratch: Option<&'a Scratch>,
    timeline: Option<&'a Timeline>,
    /// Bytes of memory that there will be in use at once, of this run and of others.
    memory: usize,
    state: Mutex<State>,
    lanes: [Condvar; 3],
    caller: Condvar,
    cancel: Cancel,
}

/// Runs a schedule and commits its outputs, if asked to. On an error, these are as they were before; what is
/// not committed here is left to the caller.
///
/// # Errors
/// Those of the stores and the kernels; [`Error::Budget`] where memory that the crew needs is not to
/// be had; [`Error::Interrupted`] where the watch says so.
pub fn run(
    runtime: &Runtime,
    work: &Work<'_>,
    crew: Crew,
    timeline: Option<&Timeline>,
    watch: &mut dyn Watch,
) -> Result<Report> {
    let result = perform(runtime, work, crew, timeline, watch);
    if result.is_err() {
        runtime.let_scratch_go();
        outputs(work).filter(|_| work.commits).for_each(|store| store.fail());
    }
    result
}

fn outputs<'a>(work: &'a Work<'_>) -> impl Iterator<Item = &'a Arc<dyn Store>> {
    let arrays = work.program.arrays().iter().zip(work.stores);
    arrays.filter(|(a, _)| a.role == Role::Output).filter_map(|(_, s)| s.as_ref())
}

fn perform(
    runtime: &Runtime,
    work: &Work<'_>,
    crew: Crew,
    timeline: Option<&Timeline>,
    watch: &mut dyn Watch,
) -> Result<Report> {
    let (program, schedule) = (work.program, work.schedule);
    let Some(adopted) = runtime.adopt(program, work.stores, &schedule.adopted) else {
        return Err(Error::invalid(
            "the tiles in memory are not those that the plan was made for; plan again",
        ));
    };
    let meter = runtime.meter(program.name);
    // Everything that can be refused is refused before the first byte moves.
    let scratch = runtime.scratch(schedule.scratch)?;
    let commit = outputs(work).map(|s| s.commit_staging()).max().unwrap_or(0);
    let bookkeeping = program.bytes() + schedule.bytes();
    let _charge = runtime.charge(bookkeeping, "the program and its schedule")?;
    let _beside = runtime.charge(crew.threads * program.beside, "the kernels' own memory")?;
    let cancel = Cancel::default();
    let mover = |staging| runtime.mover(staging, program.name, &cancel);
    let loaders: Vec<Mover> = (0..crew.loaders).map(|_| mover(crew.load_staging)).collect::<Result<_>>()?;
    let storers: Vec<Mover> = (0..crew.storers).map(|_| mover(crew.store_staging)).collect::<Result<_>>()?;
    let workspaces: Vec<Frame> = (0..crew.threads)
        .map(|_| runtime.frame(program.workspace.max(1), "the workspace of a thread"))
        .collect::<Result<_>>()?;
    let state = State::new(program, schedule.adopted.iter().copied().zip(adopted));
    let missing = schedule.peak.saturating_sub(state.used);
    if missing > 0 {
        runtime.make_room(missing, program.name)?;
    }
    let run = Run {
        runtime,
        work,
        crew,
        scratch: scratch.as_deref(),
        timeline,
        memory: runtime.budget().used() - state.used + schedule.peak,
        state: Mutex::new(state),
        lanes: Default::default(),
        caller: Condvar::new(),
        cancel,
    };
    let total = program.work().max(1.0);
    std::thread::scope(|scope| {
        let run = &run;
        for (i, mut workspace) in workspaces.into_iter().enumerate() {
            run.start(scope, "outcrop-step", move || {
                run.work.caller.on_thread(&mut || {
                    run.serve(STEPS, i, &mut |task, memory| run.step(task, memory, &mut workspace));
                });
            });
        }
        for (i, mut mover) in loaders.into_iter().enumerate() {
            run.start(scope, "outcrop-load", move || {
                run.serve(LOADS, i, &mut |task, memory| run.load(task, memory, &mut mover));
            });
        }
        for (i, mut mover) in storers.into_iter().enumerate() {
            run.start(scope, "outcrop-store", move || {
                run.serve(STORES, i, &mut |task, memory| run.store(task, memory, &mut mover));
            });
        }
        let mut state = run.lock();
        run.issue(&mut state);
        while state.failure.is_none() && !run.is_done(&state) {
            state = run.caller.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            let done = state.done;
            let starved = state.starved.is_some();
            drop(state);
            // Asked first: what they give back from now on is found.
            let mut more = runtime.others_borrow();
            if starved {
                match runtime.release_something() {
                    Ok(released) => more |= released,
                    Err(error) => run.fail(error),
                }
            }
            run.look_for_memory(&mut run.lock(), more);
            if !watch.tick((done / total * 1e9) as u64, 1_000_000_000) {
                run.fail(Error::Interrupted);
            }
            state = run.lock();
        }
        drop(state);
        run.lanes.iter().for_each(Condvar::notify_all);
    });
    let mut state = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = state.failure.take() {
        return Err(error);
    }
    // The last moment at which the run can be stopped.
    if !watch.tick(1_000_000_000, 1_000_000_000) {
        return Err(Error::Interrupted);
    }
    if let Some(scratch) = scratch {
        scratch.keep();
    }
    let kept: Vec<(TileId, Frame)> = std::mem::take(&mut state.resources)
        .into_iter()
        .filter_map(|(_, r)| if let Memory::Frame(frame) = r.memory { Some((r.tile, frame)) } else { None })
        .collect();
    if work.commits {
        let mut mover = runtime.mover(commit, "commit", &Cancel::default())?;
        for store in outputs(work) {
            store.commit(&mut mover)?;
        }
        drop(mover);
        runtime.keep(program, work.stores, kept);
    }
    let mut report = meter.report();
    report.overlap = state.overlap;
    report.io_busy = state.io_busy;
    report.work = program.work();
    report.kernels = program.kernels().by_name(&state.kernel_seconds);
    report.traffic = schedule.traffic_by_kernel(program, &state.waited);
    runtime.set_last_run(report.clone());
    Ok(report)
}

impl<'a> Run<'a> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Kernels and movers run without the lock, and nothing else panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        name: &str,
        work: impl FnOnce() + Send + 'scope,
    ) {
        if let Err(error) = start_for_a_run(scope, name, work) {
            self.fail(error);
        }
    }

    fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        drop(state);
        self.cancel.cancel();
        self.lanes.iter().for_each(Condvar::notify_all);
        self.caller.notify_all();
    }

    fn is_done(&self, state: &State) -> bool {
        state.cursor == self.work.schedule.len() && state.nodes.is_empty()
    }

    /// Performs tasks of a lane until there are no more.
    fn serve(&self, lane: usize, worker: usize, perform: &mut Perform<'_>) {
        let mut idle: Option<Instant> = None;
        let mut state = self.lock();
        loop {
            if state.failure.is_some() || self.is_done(&state) {
                return;
            }
            let Some((key, fresh)) = state.next(lane, self.runtime.budget()) else {
                if lane == STEPS && state.more_to_use && state.used + AHEAD <= self.crew.room {
                    state = self.use_memory_ahead(state);
                    continue;
                }
                idle.get_or_insert_with(Instant::now);
                state.sleeping[lane] += 1;
                state = self.lanes[lane].wait(state).unwrap_or_else(PoisonError::into_inner);
                state.sleeping[lane] -= 1;
                continue;
            };
            let (task, memory) = match state.task(key) {
                Ok(begun) => begun,
                Err(error) => {
                    drop(state);
                    self.fail(error);
                    return;
                }
            };
            state.fresh += usize::from(fresh);
            self.wake_a_loader(&state);
            let begin = state.account(|s| s.active[lane] += 1);
            if let (Some(since), Task::Step(step)) = (idle.take(), task)
                && let Some(array) = state.nodes[key as usize].loaded
            {
                let kernel = self.work.program.step_at(step as usize).kernel;
                *state.waited.entry((kernel, array)).or_default() += begin - since;
            }
            drop(state);
            let result = catch_unwind(AssertUnwindSafe(|| perform(task, &memory))).unwrap_or_else(|panic| {
                Err(Error::Internal(format!("a step panicked: {}", message(&*panic))))
            });
            state = self.lock();
            let end = state.account(|s| s.active[lane] -= 1);
            state.fresh -= usize::from(fresh);
            if let Err(error) = result {
                drop(state);
                self.fail(error);
                return;
            }
            if let Task::Step(step) = task {
                let step = self.work.program.step_at(step as usize);
                state.done += step.work;
                state.kernel_seconds[step.kernel as usize] += end - begin;
            }
            self.finish(&mut state, key);
            self.issue(&mut state);
            self.wake_a_loader(&state);
            if let Some(timeline) = self.timeline {
                timeline.record(
                    self.work.program,
                    &self.label(task),
                    (lane, worker),
                    (begin, end),
                    state.used,
                );
            }
            if self.is_done(&state) {
                self.lanes.iter().for_each(Condvar::notify_all);
                self.caller.notify_all();
            }
        }
    }

    /// Uses some of the memory for the first time that the run will need: what else a loader would do, and a step wait
    /// for, is done while there is no step to do.
    fn use_memory_ahead<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.used += AHEAD;
        drop(state);
        let used = self.runtime.budget().use_ahead(self.memory);
        state = self.lock();
        state.used -= AHEAD;
        // Where the system refuses memory, whoever has to have it says so.
        state.more_to_use = used.unwrap_or(false);
        self.issue(&mut state);
        self.wake_a_loader(&state);
        state
    }

    /// Lets a loader look again where [`State::next`] may have kept it from a load.
    fn wake_a_loader(&self, state: &State) {
        if state.sleeping[LOADS] > 0 && !state.ready[LOADS].is_empty() {
            self.lanes[LOADS].notify_one();
        }
    }

    /// Issues actions as far as memory and the window allow.
    fn issue(&self, state: &mut State) {
        let program = self.work.program;
        while state.nodes.len() < WINDOW && state.failure.is_none() {
            let Some(action) = self.work.schedule.action(state.cursor) else { return };
            match action {
                Action::Step => {
                    let step = state.next_step;
                    let operands = program.step_at(step as usize).operands;
                    let uses = operands.iter().map(|o| (state.frames[o.tile().0 as usize] - 1, o.writes()));
                    let uses = uses.collect();
                    state.next_step += 1;
                    self.submit(state, Task::Step(step), uses);
                }
                Action::Create(tile) => {
                    if self.allocate(state, tile).is_none() {
                        return;
                    }
                }
                Action::Load(tile) => {
                    let Some(frame) = self.allocate(state, tile) else { return };
                    let slot = state.slots.of(tile);
                    let mut uses: SmallVec<[_; 4]> = smallvec::smallvec![(frame, true)];
                    uses.extend(self.place(state, tile).map(|place| (place, false)));
                    self.submit(state, Task::Load(tile, tile, slot), uses);
                }
                Action::LoadInitial(tile) => {
                    let Some(frame) = self.allocate(state, tile) else { return };
                    let from = program.initial_of(tile).expect("scheduled so");
                    self.submit(state, Task::Load(tile, from, None), smallvec::smallvec![(frame, true)]);
                }
                Action::Store(tile) => {
                    let frame = state.frames[tile.0 as usize] - 1;
                    let temporary = program.array_at(program.array_of(tile)).role == Role::Temporary;
                    let slot = temporary.then(|| state.slots.take(tile, program.cost(tile).store));
                    let mut uses: SmallVec<[_; 4]> = smallvec::smallvec![(frame, false)];
                    uses.extend(self.place(state, tile).map(|place| (place, true)));
                    self.submit(state, Task::Store(tile, slot), uses);
                }
                Action::Drop(tile) | Action::Discard(tile) => {
                    if let Action::Discard(_) = action {
                        state.slots.give_back(tile, program.cost(tile).store);
                    }
                    let frame = std::mem::take(&mut state.frames[tile.0 as usize]) - 1;
                    self.submit(state, Task::Leave, smallvec::smallvec![(frame, true)]);
                }
            }
            state.cursor += 1;
        }
    }

    /// The resource of a tile's place on disk, where a run both writes and reads it.
    fn place(&self, state: &mut State, tile: TileId) -> Option<ResourceKey> {
        let program = self.work.program;
        let name = match program.array_at(program.array_of(tile)).role {
            Role::Input => return None,
            Role::Output => u64::from(tile.0) << 1,
            Role::Temporary => state.slots.of(tile)? << 1 | 1,
        };
        let resources = &mut state.resources;
        let key = state
            .places
            .entry(name)
            .or_insert_with(|| resources.insert(Resource::of_place(tile, Some(name))) as u32);
        Some(*key)
    }

    /// Memory for a tile, or `None` where there is none now. It becomes a frame when its first use begins: a stream
    /// that runs far ahead then goes round in a few frames, and not through all of the budget.
    fn allocate(&self, state: &mut State, tile: TileId) -> Option<ResourceKey> {
        let bytes = self.work.program.frame(tile);
        if state.used + bytes > self.crew.room {
            return None;
        }
        let taken = loop {
            match self.runtime.budget().try_reserve(bytes) {
                // What is resident, such as tiles that a function of the user's has read, makes room; what
                // has to be written first does in `look_for_memory`.
                None if self.runtime.resident().evict_unchanged() => {}
                other => break other,
            }
        };
        let Some(reservation) = taken else {
            state.starved.get_or_insert_with(Instant::now);
            return None;
        };
        state.used += bytes;
        state.starved = None;
        let key = state.resources.insert(Resource::of_tile(tile, Memory::Reserved(reservation))) as u32;
        state.frames[tile.0 as usize] = key + 1;
        Some(key)
    }

    /// Where the run waits for memory that others in the process have: again, for a while, if there may be more.
    fn look_for_memory(&self, state: &mut State, more: bool) {
        let Some(since) = state.starved else { return };
        self.issue(state);
        let in_vain = !more || since.elapsed() > PATIENCE;
        if state.starved.is_some() && state.nodes.is_empty() && in_vain {
            let (used, limit) = (self.runtime.budget().used(), self.runtime.budget().limit());
            let needed = (used + self.crew.room - state.used) as u64;
            let purpose = format!("{}, beside what else is in memory,", self.work.program.name);
            state.failure.get_or_insert(Error::Budget { purpose, needed, budget: limit as u64 });
        }
    }

    fn submit(&self, state: &mut State, task: Task, uses: SmallVec<[(ResourceKey, bool); 4]>) {
        let key = state.nodes.insert(Node { task, missing: 0, uses: SmallVec::new(), loaded: None }) as u32;
        let granted = uses
            .iter()
            .filter(|&&(resource, write)| state.resources[resource as usize].ask(key, write))
            .count();
        let node = &mut state.nodes[key as usize];
        node.missing = (uses.len() - granted) as u32;
        node.uses = uses;
        if node.missing == 0 {
            self.dispatch(state, key);
        }
    }

    /// Hands a task that can start to its lane.
    fn dispatch(&self, state: &mut State, key: NodeKey) {
        let lane = match state.nodes[key as usize].task {
            Task::Step(_) => STEPS,
            Task::Load(..) => LOADS,
            Task::Store(..) => STORES,
            Task::Leave => return self.finish(state, key),
        };
        let age = match state.nodes[key as usize].task {
            Task::Step(step) => step,
            _ => {
                state.age += 1;
                state.age
            }
        };
        state.ready[lane].push(Reverse((age, key)));
        if state.sleeping[lane] > 0 {
            self.lanes[lane].notify_one();
        }
    }

    /// Ends a task: what it used is free, and others may start.
    fn finish(&self, state: &mut State, key: NodeKey) {
        let node = state.nodes.remove(key as usize);
        let loaded = match node.task {
            Task::Load(_, from, _) => Some(self.work.program.array_of(from)),
            _ => None,
        };
        let mut granted: SmallVec<[NodeKey; 8]> = SmallVec::new();
        for (resource, write) in node.uses {
            if matches!(node.task, Task::Leave) {
                let gone = state.resources.remove(resource as usize);
                state.used -= gone.memory.len();
                continue;
            }
            let held = &mut state.resources[resource as usize];
            held.end(write, &mut granted);
            if let Some(place) = held.place.filter(|_| held.is_idle()) {
                state.places.remove(&place);
                state.resources.remove(resource as usize);
            }
        }
        for key in granted {
            let node = &mut state.nodes[key as usize];
            node.missing -= 1;
            node.loaded = loaded;
            if node.missing == 0 {
                self.dispatch(state, key);
            }
        }
    }

    fn step(&self, task: Task, memory: &[*mut u8], workspace: &mut Frame) -> Result<()> {
        let Task::Step(index) = task else { unreachable!("the lane of steps") };
        let program = self.work.program;
        let step = program.step_at(index as usize);
        let operands = step.operands.iter().zip(memory);
        let tiles: SmallVec<[Tile; 8]> = operands
            .map(|(o, &frame)| Tile { program, id: o.tile(), start: self.begin(o.tile(), frame) })
            .collect();
        let running = Running {
            tiles: &tiles,
            arguments: step.arguments,
            workspace: workspace.bytes_mut(),
            cancel: &self.cancel,
            caller: self.work.caller,
        };
        self.cancel.check()?;
        // SAFETY: the step's uses of the frames are granted, writers alone.
        unsafe { program.kernels()[step.kernel].kernel.run(running) }
    }

    /// Where a tile begins in its frame.
    fn begin(&self, tile: TileId, frame: *mut u8) -> *mut u8 {
        let program = self.work.program;
        let id = program.array_of(tile);
        if !program.array_at(id).skewed {
            return frame;
        }
        frame.wrapping_add(self.store_of(id).phase(&program.stored_region(tile)))
    }

    /// The memory of a tile, for the store of an array.
    fn canvas(&self, tile: TileId, frame: *mut u8, region: ArrayBox) -> Canvas {
        let array = self.work.program.array_at(self.work.program.array_of(tile));
        let start = self.begin(tile, frame);
        let lead = start as usize - frame as usize;
        let (shape, itemsize) = (array.tile_shape(), array.dtype.size());
        let patch = Patch::padded(region.clone(), start, array.frame - lead, shape, itemsize).behind(lead);
        // SAFETY: the frame holds the tile, and the task's use of it is granted.
        unsafe { Canvas::new(region, itemsize, [patch]) }
    }

    fn store_of(&self, array: ArrayId) -> &Arc<dyn Store> {
        self.work.stores[array.0 as usize].as_ref().expect("what is stored has a store")
    }

    fn load(&self, task: Task, memory: &[*mut u8], mover: &mut Mover) -> Result<()> {
        let Task::Load(tile, from, slot) = task else { unreachable!("the lane of loads") };
        let program = self.work.program;
        if let Some(offset) = slot {
            let bytes = program.cost(tile).load as usize;
            // SAFETY: as for `canvas`; the frame has at least the bytes that were stored.
            return unsafe { self.scratch().load(mover, memory[0], bytes, offset) };
        }
        let canvas = self.canvas(tile, memory[0], program.stored_region(from));
        let array = program.array_of(from);
        mover.room = charged(program.array_at(array).staging);
        self.store_of(array).load(mover, &canvas)
    }

    fn store(&self, task: Task, memory: &[*mut u8], mover: &mut Mover) -> Result<()> {
        let Task::Store(tile, slot) = task else { unreachable!("the lane of stores") };
        let program = self.work.program;
        if let Some(offset) = slot {
            let bytes = program.cost(tile).store as usize;
            // SAFETY: as for `canvas`.
            return unsafe { self.scratch().store(mover, memory[0], bytes, offset) };
        }
        let canvas = self.canvas(tile, memory[0], program.stored_region(tile));
        self.store_of(program.array_of(tile)).store(mover, &canvas)
    }

    fn label(&self, task: Task) -> timeline::Label<'_> {
        match task {
            Task::Step(step) => {
                let step = self.work.program.step_at(step as usize);
                let tile = step.operands.iter().find(|o| o.writes()).or(step.operands.first());
                let kind = &self.work.program.kernels()[step.kernel];
                let round = kind.kernel.round(step.arguments);
                timeline::Label { name: &kind.name, tile: tile.map(|o| o.tile()), round }
            }
            Task::Load(tile, ..) => timeline::Label { name: "load", tile: Some(tile), round: None },
            Task::Store(tile, _) => timeline::Label { name: "store", tile: Some(tile), round: None },
            Task::Leave => timeline::Label { name: "leave", tile: None, round: None },
        }
    }

    fn scratch(&self) -> &Scratch {
        self.scratch.expect("a schedule that spills has scratch space")
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}
