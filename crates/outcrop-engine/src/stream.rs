//! Pieces of work that flow from loads to stores, both at once.
//!
//! A piece has frames, load units that fill them, and store units that empty them. Loader threads
//! take load units in order; where none is left they open the next piece, which waits for frames.
//! Storer threads take the store units of pieces that are loaded. So loads run ahead as far as the
//! budget allows, and stores run behind.
//!
//! Invariants:
//! 1. Only one loader allocates at a time, and in order of pieces. Whatever it waits for is held by
//!    pieces that are complete in frames, which finish without further memory; so it ends.
//! 2. The first error stops everything: no unit starts after it, and the run returns when the last
//!    unit under way is over, so that no memory is freed under a transfer.

use crate::report::Report;
use crate::runtime::Runtime;
use crate::runtime::run_queue::start_for_a_run;
use crate::watch::Watch;
use outcrop_store::frame::Frame;
use outcrop_store::io::Cancel;
use outcrop_store::store::Mover;
use outcrop_store::{Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Work in pieces. Units of one piece run at the same time, on different threads.
pub trait Job: Sync {
    /// The name in the report.
    fn operation(&self) -> &'static str;

    /// How many pieces there are.
    fn pieces(&self) -> u64;

    /// The sizes of a piece's frames, in bytes; 0 where there is none.
    fn frames(&self, piece: u64) -> Vec<usize>;

    /// How many load units a piece has; at least one.
    fn load_units(&self, piece: u64) -> u64;

    /// How many store units a piece has.
    fn store_units(&self, piece: u64) -> u64;

    /// Runs a load unit.
    ///
    /// # Errors
    /// Whatever stops the run.
    fn load(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()>;

    /// Runs a store unit.
    ///
    /// # Errors
    /// Whatever stops the run.
    fn store(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()>;

    /// The frames that a load unit fills, by their places in [`frames`](Self::frames): they are there before it
    /// runs. All of them, where this is not told.
    fn fills(&self, piece: u64, _unit: u64) -> Vec<usize> {
        (0..self.frames(piece).len()).collect()
    }

    /// The frames that no store unit needs after this one, so that they are free.
    fn frees(&self, _piece: u64, _unit: u64) -> Range<usize> {
        0..0
    }

    /// Bytes that a piece counts for in the progress, its store units alike.
    fn progress(&self, piece: u64) -> u64;

    /// Bytes that its load units count for: none, where what is loaded is soon stored.
    fn loaded(&self, _piece: u64) -> u64 {
        0
    }
}

/// The frames of a piece, while units use them.
pub struct Frames {
    sizes: Vec<usize>,
    slots: Vec<Mutex<Option<Arc<Frame>>>>,
    /// Bytes in frames of the whole run.
    held: Arc<AtomicUsize>,
}

impl Frames {
    /// Frame `i`, or `None` before it is there and after it was given back.
    pub fn get(&self, i: usize) -> Option<Arc<Frame>> {
        self.slots[i].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, i: usize, frame: Frame) {
        *self.slots[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(frame));
    }

    fn give_back(&self, i: usize) {
        if let Some(frame) = self.slots[i].lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.held.fetch_sub(frame.len(), Ordering::Relaxed);
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        (0..self.slots.len()).for_each(|i| self.give_back(i));
    }
}

/// Where load units run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaders {
    /// On so many threads.
    Threads(usize),
    /// On the calling thread, one after the other: for units that call back to the user.
    Caller,
}

/// The threads of a run and the staging memory of each.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// Where load units run.
    pub loaders: Loaders,
    /// Threads for store units.
    pub storers: usize,
    /// Staging memory of each loader, in bytes.
    pub load_staging: usize,
    /// Staging memory of each storer, in bytes.
    pub store_staging: usize,
    /// Bytes that the run's frames may occupy together; at least one piece's.
    pub room: usize,
}

impl Threads {
    /// Bytes of staging memory in all.
    pub fn staging(&self) -> usize {
        let loaders = match self.loaders {
            Loaders::Threads(n) => n,
            Loaders::Caller => 1,
        };
        loaders * self.load_staging + self.storers * self.store_staging
    }
}

/// Bytes of frames that keep loaders and storers busy, where pieces are small.
const AHEAD: usize = 128 << 20;

/// How often the caller's thread looks around.
const TICK: Duration = Duration::from_millis(50);

struct Piece {
    index: u64,
    frames: Arc<Frames>,
    next_load: u64,
    /// Load units whose frames are there.
    ready: u64,
    loads: u64,
    loads_left: u64,
    next_store: u64,
    stores: u64,
    stores_left: u64,
}

#[derive(Default)]
struct State {
    open: VecDeque<Piece>,
    next_piece: u64,
    allocating: bool,
    finished: u64,
    done_bytes: u64,
    failure: Option<Error>,
    loading: usize,
    storing: usize,
    since: Option<Instant>,
    overlap: Duration,
}

impl State {
    /// Keeps the account of overlapping time when a unit starts or ends.
    fn account(&mut self, change: impl FnOnce(&mut State)) {
        let now = Instant::now();
        if let Some(since) = self.since.take() {
            self.overlap += now - since;
        }
        change(self);
        self.since = (self.loading > 0 && self.storing > 0).then_some(now);
    }
}

/// What the `unit`th of some units that are alike counts for, counted from 1.
fn share(bytes: u64, unit: u64, units: u64) -> u64 {
    let until = |unit: u64| (u128::from(bytes) * u128::from(unit) / u128::from(units)) as u64;
    until(unit) - until(unit - 1)
}

struct Run<'a> {
    runtime: &'a Runtime,
    job: &'a dyn Job,
    pieces: u64,
    room: usize,
    held: Arc<AtomicUsize>,
    state: Mutex<State>,
    changed: Condvar,
    cancel: Cancel,
}

/// Runs a job. On an error, or when the watch says so, everything stops first.
///
/// # Errors
/// The first error of a unit; [`Error::Budget`] where staging memory and one piece do not fit;
/// [`Error::Interrupted`].
pub fn run(runtime: &Runtime, job: &dyn Job, threads: Threads, watch: &mut dyn Watch) -> Result<Report> {
    let result = perform(runtime, job, threads, watch);
    if result.is_err() {
        runtime.let_scratch_go();
    }
    result
}

fn perform(runtime: &Runtime, job: &dyn Job, threads: Threads, watch: &mut dyn Watch) -> Result<Report> {
    let pieces = job.pieces();
    let total: u64 = (0..pieces).map(|p| job.loaded(p) + job.progress(p)).sum();
    let largest: usize = (0..pieces)
        .map(|p| job.frames(p).iter().map(|&b| outcrop_store::frame::charged(b)).sum())
        .max()
        .unwrap_or(0);
    runtime.make_room(threads.staging() + largest, job.operation())?;
    let meter = runtime.meter(job.operation());
    let run = Run {
        runtime,
        job,
        pieces,
        // More frames than keep every thread busy would only be filled sooner than they can be emptied.
        room: threads.room.min(AHEAD.max(3 * largest)).max(largest),
        held: Arc::default(),
        state: Mutex::default(),
        changed: Condvar::new(),
        cancel: Cancel::default(),
    };
    // Movers are made before any thread starts: what cannot be had is an error at once.
    let mover = |staging| runtime.mover(staging, job.operation(), &run.cancel);
    let loaders = match threads.loaders {
        Loaders::Threads(n) => n.min(pieces.saturating_mul(64).max(1) as usize),
        Loaders::Caller => 1,
    };
    let mut loaders: Vec<Mover> = (0..loaders).map(|_| mover(threads.load_staging)).collect::<Result<_>>()?;
    let storers: Vec<Mover> =
        (0..threads.storers).map(|_| mover(threads.store_staging)).collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        for mut mover in storers {
            let run = &run;
            start(scope, run, "outcrop-store", move || run.serve(&mut mover, Run::store_one));
        }
        if threads.loaders == Loaders::Caller {
            let mut mover = loaders.pop().expect("one was made");
            while run.load_one(&mut mover) {
                run.look(watch, total);
            }
        } else {
            for mut mover in loaders {
                let run = &run;
                start(scope, run, "outcrop-load", move || run.serve(&mut mover, Run::load_one));
            }
        }
        let mut state = run.lock();
        while state.failure.is_none() && state.finished < pieces {
            state = run.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            drop(state);
            run.look(watch, total);
            state = run.lock();
        }
    });
    let state = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = state.failure {
        return Err(error);
    }
    // Results are not committed: whoever stops the run now has stopped it.
    if !watch.tick(total, total) {
        return Err(Error::Interrupted);
    }
    let mut report = meter.report();
    report.overlap = state.overlap;
    runtime.set_last_run(report.clone());
    Ok(report)
}

/// Starts a thread of a run; where the system gives none, the run fails.
fn start<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    run: &Run<'_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) {
    if let Err(error) = start_for_a_run(scope, name, work) {
        run.fail(error);
    }
}

impl Run<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a unit is carried on by the scope; the state itself is always consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, watch: &mut dyn Watch, total: u64) {
        let done = self.lock().done_bytes;
        if !watch.tick(done, total) {
            self.fail(Error::Interrupted);
        }
    }

    fn fail(&self, error: Error) {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.failure = Some(error);
        }
        drop(state);
        self.cancel.cancel();
        self.changed.notify_all();
    }

    /// Runs units until there are no more. A panic of a unit stops the run like an error.
    fn serve(&self, mover: &mut Mover, one: fn(&Self, &mut Mover) -> bool) {
        struct Guard<'a, 'b>(&'a Run<'b>);
        impl Drop for Guard<'_, '_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.fail(Error::Interrupted);
                }
            }
        }
        let _guard = Guard(self);
        while one(self, mover) {}
    }

    /// Runs the next load unit; `false` where there is none any more.
    fn load_one(&self, mover: &mut Mover) -> bool {
        let mut state = self.lock();
        let (piece, unit, frames) = loop {
            if state.failure.is_some() {
                return false;
            }
            if let Some(p) = state.open.iter_mut().find(|p| p.next_load < p.ready) {
                p.next_load += 1;
                break (p.index, p.next_load - 1, Arc::clone(&p.frames));
            }
            let unready = state.open.back().is_some_and(|p| p.ready < p.loads);
            if !unready && state.next_piece == self.pieces {
                return false;
            }
            if state.allocating {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.allocating = true;
            if !unready {
                state.next_piece += 1;
                let piece = self.begin(state.next_piece - 1);
                state.open.push_back(piece);
            }
            let p = state.open.back().expect("one is open");
            let (index, unit, frames) = (p.index, p.ready, Arc::clone(&p.frames));
            drop(state);
            let allocated = self.allocate(index, unit, &frames);
            drop(frames);
            state = self.lock();
            state.allocating = false;
            if let Err(error) = allocated {
                drop(state);
                self.fail(error);
                return false;
            }
            state.open.back_mut().expect("open until its units are done").ready += 1;
            self.changed.notify_all();
        };
        state.account(|s| s.loading += 1);
        drop(state);
        let result = self.job.load(mover, piece, unit, &frames);
        drop(frames);
        let mut state = self.lock();
        state.account(|s| s.loading -= 1);
        if let Err(error) = result {
            drop(state);
            self.fail(error);
            return false;
        }
        let p = state.open.iter_mut().find(|p| p.index == piece).expect("open until its units are done");
        p.loads_left -= 1;
        let (loads, left, stores) = (p.loads, p.loads_left, p.stores);
        state.done_bytes += share(self.job.loaded(piece), loads - left, loads);
        if left == 0 {
            if stores == 0 {
                self.finish(&mut state, piece);
                state.done_bytes += self.job.progress(piece);
            }
            self.changed.notify_all();
        }
        true
    }

    /// Runs the next store unit; `false` where there is none any more.
    fn store_one(&self, mover: &mut Mover) -> bool {
        let mut state = self.lock();
        let (piece, unit, frames) = loop {
            if state.failure.is_some() || state.finished == self.pieces {
                return false;
            }
            if let Some(p) = state.open.iter_mut().find(|p| p.loads_left == 0 && p.next_store < p.stores) {
                p.next_store += 1;
                break (p.index, p.next_store - 1, Arc::clone(&p.frames));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.account(|s| s.storing += 1);
        drop(state);
        let result = self.job.store(mover, piece, unit, &frames);
        if result.is_ok() {
            self.job.frees(piece, unit).for_each(|i| frames.give_back(i));
        }
        drop(frames);
        let mut state = self.lock();
        state.account(|s| s.storing -= 1);
        if let Err(error) = result {
            drop(state);
            self.fail(error);
            return false;
        }
        let p = state.open.iter_mut().find(|p| p.index == piece).expect("open until its units are done");
        let stores = p.stores;
        p.stores_left -= 1;
        let done = p.stores - p.stores_left;
        if p.stores_left == 0 {
            self.finish(&mut state, piece);
        }
        state.done_bytes += share(self.job.progress(piece), done, stores);
        true
    }

    fn finish(&self, state: &mut State, piece: u64) {
        state.open.retain(|p| p.index != piece);
        state.finished += 1;
        self.changed.notify_all();
    }

    /// A piece without frames yet.
    fn begin(&self, index: u64) -> Piece {
        let (loads, stores) = (self.job.load_units(index), self.job.store_units(index));
        let sizes = self.job.frames(index);
        let slots = sizes.iter().map(|_| Mutex::default()).collect();
        Piece {
            index,
            frames: Arc::new(Frames { sizes, slots, held: Arc::clone(&self.held) }),
            next_load: 0,
            ready: 0,
            loads,
            loads_left: loads,
            next_store: 0,
            stores,
            stores_left: stores,
        }
    }

    /// Sees to it that the frames of a load unit are there.
    fn allocate(&self, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        for i in self.job.fills(piece, unit) {
            let bytes = frames.sizes[i];
            // No store unit of the piece has run: what is not there was never there.
            while bytes > 0 && frames.get(i).is_none() {
                self.cancel.check()?;
                let budget = self.runtime.budget();
                let seen = budget.returns();
                if self.held.load(Ordering::Relaxed) + bytes <= self.room
                    && let Some(frame) = budget.try_frame(bytes)?
                {
                    self.held.fetch_add(frame.len(), Ordering::Relaxed);
                    frames.put(i, frame);
                    break;
                }
                // Of this run's pieces, only others can give memory back.
                if self.lock().open.iter().all(|p| p.index == piece) {
                    self.runtime.make_room(bytes, self.job.operation())?;
                } else {
                    budget.wait_for_return(seen, TICK);
                }
            }
        }
        Ok(())
    }
}
