//! Boxes one after the other, ahead of whoever consumes them.

use crate::boxes::access::{canvas_on, frame_bytes};
use crate::boxes::movement::threads;
use outcrop_engine::Runtime;
use outcrop_engine::stream::Loaders;
use outcrop_store::frame::{Frame, charged};
use outcrop_store::io::Cancel;
use outcrop_store::store::{Mover, Store};
use outcrop_store::{ArrayBox, Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct State {
    next: usize,
    /// Threads that have what they load with.
    serving: usize,
    allocating: bool,
    /// Boxes whose frames are allocated, and not given to the consumer yet.
    ahead: usize,
    ready: HashMap<usize, Result<Frame>>,
}

struct Shared {
    runtime: Arc<Runtime>,
    store: Arc<dyn Store>,
    boxes: Vec<ArrayBox>,
    /// Bytes of the boxes that have to be in memory at a time.
    held: usize,
    room: usize,
    state: Mutex<State>,
    changed: Condvar,
    cancel: Cancel,
}

/// Reads boxes in their order, ahead of the consumer, with several threads. Dropping it stops them.
pub struct Reader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    given: usize,
}

const TICK: Duration = Duration::from_millis(50);

/// How long reading ahead waits for memory that others have.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits for the consumer to let go of a box.
const LETTING_GO: Duration = Duration::from_secs(2);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread is `patient`: it waits for memory that others have. Without the rest it is only slower.
    fn serve(&self, staging: usize, patient: bool) {
        let _borrowing = self.runtime.borrow();
        let mut mover = match self.mover(staging, patient) {
            Ok(mover) => mover,
            Err(_) if !patient => return,
            Err(error) => {
                // Other threads may have what this one could not get; if none has, the consumer sees
                // this error.
                let mut state = self.lock();
                let next = state.next;
                if state.serving == 0 && state.ahead == 0 && next < self.boxes.len() {
                    state.next = self.boxes.len();
                    state.ready.insert(next, Err(error));
                }
                drop(state);
                self.changed.notify_all();
                return;
            }
        };
        while let Some((index, frame)) = self.begin() {
            let region = &self.boxes[index];
            let loaded = frame.and_then(|frame| {
                // SAFETY: the frame was allocated for this box and is nobody else's.
                let canvas = unsafe { canvas_on(&frame, region, self.store.info().dtype.size()) };
                self.store.load(&mut mover, &canvas).map(|()| frame)
            });
            self.lock().ready.insert(index, loaded);
            self.changed.notify_all();
        }
        self.lock().serving -= 1;
    }

    /// What a thread loads with.
    fn mover(&self, staging: usize, patient: bool) -> Result<Mover<'_>> {
        let start = Instant::now();
        loop {
            let seen = self.runtime.budget().returns();
            let room = self.runtime.has_room(staging);
            // Under the lock, so that nobody finds the memory taken and none that loads with it.
            let mut state = self.lock();
            let budget = self.runtime.budget();
            let needed = budget.used() + charged(staging) + self.held;
            if !patient && needed > budget.limit() {
                // What one more loads with would be the boxes'.
                let (purpose, budget) = ("reading ahead".into(), budget.limit() as u64);
                return Err(Error::Budget { purpose, needed: needed as u64, budget });
            }
            match Mover::new(self.runtime.disk(), self.runtime.budget(), staging, &self.cancel) {
                Err(Error::Budget { .. })
                    if patient
                        && room.is_ok()
                        && state.next < self.boxes.len()
                        && !self.cancel.is_cancelled()
                        && start.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
                Ok(mover) => {
                    state.serving += 1;
                    return Ok(mover);
                }
            }
            drop(state);
            self.runtime.budget().wait_for_return(seen, TICK);
        }
    }

    /// The next box to load, with its frame, in order; waits until the budget has room.
    fn begin(&self) -> Option<(usize, Result<Frame>)> {
        let mut state = self.lock();
        loop {
            if self.cancel.is_cancelled() || state.next >= self.boxes.len() {
                return None;
            }
            if !state.allocating {
                break;
            }
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.allocating = true;
        let index = state.next;
        drop(state);
        let bytes = frame_bytes(self.store.as_ref(), &self.boxes[index]);
        let start = Instant::now();
        let frame = loop {
            if self.cancel.is_cancelled() {
                break Err(Error::Interrupted);
            }
            let seen = self.runtime.budget().returns();
            let ahead = self.lock().ahead;
            if ahead == 0 || (ahead + 1) * bytes <= self.room {
                match self.runtime.budget().try_frame(bytes) {
                    Ok(Some(frame)) => break Ok(frame),
                    Err(error) => break Err(error),
                    // Nothing of ours is in the way: what is resident goes, or it is an error.
                    Ok(None) if ahead == 0 => match self.runtime.frame(bytes, "the next box") {
                        // Who has taken a box may not have let go of the one before yet.
                        Err(Error::Budget { .. }) if start.elapsed() < LETTING_GO => {}
                        found => break found,
                    },
                    Ok(None) => {}
                }
            }
            self.runtime.budget().wait_for_return(seen, TICK);
        };
        let mut state = self.lock();
        state.allocating = false;
        state.next += 1;
        state.ahead += 1;
        drop(state);
        self.changed.notify_all();
        Some((index, frame))
    }
}

impl Reader {
    /// Starts reading boxes of an array.
    ///
    /// # Errors
    /// [`Error::Invalid`] where a box lies outside; [`Error::Budget`] without room for two boxes, of which the consumer
    /// has one; those of writing changed tiles out first.
    pub fn new(runtime: &Arc<Runtime>, store: &Arc<dyn Store>, boxes: Vec<ArrayBox>) -> Result<Reader> {
        boxes.iter().try_for_each(|b| b.check_inside(&store.info().shape))?;
        crate::boxes::access::flush(runtime, store)?;
        let bytes = boxes.iter().map(|b| store.info().box_bytes(&b.shape)).sum();
        runtime.tune(&store.info().path, bytes);
        let exact = boxes.iter().all(|b| store.info().is_whole_tile(b));
        let choice = threads(runtime, store.staging(exact), None);
        // The consumer has a box while the next one is read.
        let largest = boxes.iter().map(|b| frame_bytes(store.as_ref(), b)).max().unwrap_or(0);
        let held = charged(largest).saturating_mul(boxes.len().min(2));
        runtime.make_room(choice.load_staging.saturating_add(held), "reading ahead")?;
        let Loaders::Threads(count) = choice.loaders else { unreachable!("threads were asked for") };
        let shared = Arc::new(Shared {
            runtime: Arc::clone(runtime),
            store: Arc::clone(store),
            boxes,
            held,
            // Half of the budget, staging memory included: the other half is the consumer's.
            room: (runtime.budget().limit() / 2).saturating_sub(choice.staging()),
            state: Mutex::new(State {
                next: 0,
                serving: 0,
                allocating: false,
                ahead: 0,
                ready: HashMap::new(),
            }),
            changed: Condvar::new(),
            cancel: Cancel::default(),
        });
        let threads = (0..count.min(shared.boxes.len()))
            .map(|i| {
                let shared = Arc::clone(&shared);
                outcrop_store::thread::start("outcrop-reader", move || {
                    shared.serve(choice.load_staging, i == 0)
                })
            })
            .collect::<Result<_>>()?;
        Ok(Reader { shared, threads, given: 0 })
    }

    /// The next box with its frame, dense and row-major. `None` at the end, or `Some` of nothing
    /// where it is not there after `timeout`.
    ///
    /// # Errors
    /// Those of loading it.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Option<(ArrayBox, Frame)>>> {
        if self.given == self.shared.boxes.len() {
            return Ok(None);
        }
        let mut state = self.shared.lock();
        if !state.ready.contains_key(&self.given) {
            state =
                self.shared.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0;
        }
        let Some(loaded) = state.ready.remove(&self.given) else { return Ok(Some(None)) };
        state.ahead = state.ahead.saturating_sub(1);
        drop(state);
        self.shared.changed.notify_all();
        let region = self.shared.boxes[self.given].clone();
        self.given += 1;
        Ok(Some(Some((region, loaded?))))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
