//! Runs one at a time: each is given the memory there is.

use crate::watch::Watch;
use outcrop_store::frame::Budget;
use outcrop_store::thread::start_scoped;
use outcrop_store::{Error, Result};
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope, ThreadId};
use std::time::Duration;

/// How often a waiting thread looks around.
const TICK: Duration = Duration::from_millis(50);

/// How long a function of the user's may take while another thread waits to run something. It may be waiting for that
/// thread, and then for ever.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });

const INSIDE: &str = "a function that is called while something is computed cannot compute another array itself: \
                      compute what it needs beforehand";

const VAIN: &str = "what another thread computes has called a function that has not returned for half a minute, and \
                    may be waiting for this: a function that is called while something is computed cannot have another \
                    thread compute an array for it, either: compute what it needs beforehand";

/// Calls of functions of the user's that runs are inside of, by their numbers.
static CALLS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// A call of a function of the user's by a run, until it is dropped.
pub struct Call(u64);

/// Says that a run calls a function of the user's.
pub fn call() -> Call {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    calls().insert(number);
    Call(number)
}

impl Drop for Call {
    fn drop(&mut self) {
        calls().remove(&self.0);
    }
}

fn calls() -> MutexGuard<'static, BTreeSet<u64>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Whether this is a thread of a run, which waits for it: another run's turn would never come.
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Starts a thread that a run waits for.
///
/// # Errors
/// Where the system gives none.
pub(crate) fn start_for_a_run<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> Result<()> {
    let work = || {
        WORKING.set(true);
        work();
    };
    start_scoped(scope, name, work).map(drop)
}

/// Whether a run waits for this thread.
pub(crate) fn is_working() -> bool {
    WORKING.get()
}

/// Whose turn it is.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    holder: Option<Holder>,
    waiting: VecDeque<u64>,
    next: u64,
}

struct Holder {
    thread: ThreadId,
    depth: usize,
    /// Bytes of the budget in use when it began, and of which budget.
    before: usize,
    budget: usize,
}

/// A run's turn, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is this thread's turn, first come, first served; at once where it is already.
    /// `used` gives the bytes of the budget in use, which are those of others.
    ///
    /// # Errors
    /// [`Error::Interrupted`] where the watch says so; [`Error::Invalid`] on a thread of a run, and where a run is
    /// inside of one call of a function of the user's so long that this waits for it.
    pub fn wait(
        self: &Arc<Self>,
        budget: &Arc<Budget>,
        used: impl Fn() -> usize,
        watch: &mut dyn Watch,
    ) -> Result<Turn> {
        if is_working() {
            return Err(Error::invalid(INSIDE));
        }
        let thread = thread::current().id();
        let mut state = self.lock();
        if let Some(holder) = state.holder.as_mut().filter(|h| h.thread == thread) {
            holder.depth += 1;
            return Ok(Turn { turns: Arc::clone(self) });
        }
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back(ticket);
        // Ticks are counted, not time: the process may have been stopped.
        let (mut inside, mut ticks) = (None, 0);
        while state.holder.is_some() || state.waiting.front() != Some(&ticket) {
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            drop(state);
            let call = calls().first().copied();
            ticks = if call == inside { ticks + 1 } else { 0 };
            inside = call;
            let is_vain = inside.is_some() && TICK * ticks >= PATIENCE;
            let looked = if is_vain { Err(Error::invalid(VAIN)) } else { watch.look() };
            state = self.lock();
            if let Err(interrupted) = looked {
                state.waiting.retain(|&t| t != ticket);
                self.changed.notify_all();
                return Err(interrupted);
            }
        }
        state.waiting.pop_front();
        let budget = Arc::as_ptr(budget) as usize;
        state.holder = Some(Holder { thread, depth: 1, before: 0, budget });
        drop(state);
        // Without the lock: asking may take a while.
        let (turn, before) = (Turn { turns: Arc::clone(self) }, used());
        if let Some(holder) = &mut self.lock().holder {
            holder.before = before;
        }
        Ok(turn)
    }

    /// Bytes of the budget that were in use before another thread's run began; `None` where none is
    /// under way with this budget.
    pub fn before_another(&self, budget: &Arc<Budget>) -> Option<usize> {
        let (thread, budget) = (thread::current().id(), Arc::as_ptr(budget) as usize);
        let state = self.lock();
        state.holder.as_ref().filter(|h| h.thread != thread && h.budget == budget).map(|h| h.before)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        let holder = state.holder.as_mut().expect("a turn has a holder");
        holder.depth -= 1;
        if holder.depth == 0 {
            state.holder = None;
            self.turns.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    #[test]
    fn one_at_a_time_in_the_order_of_asking() {
        let (turns, budget) = (Arc::new(Turns::default()), Budget::new(1 << 20));
        let first = turns.wait(&budget, || 7, &mut |_, _| true).unwrap();
        let again = turns.wait(&budget, || 9, &mut |_, _| true).unwrap();
        assert_eq!(turns.before_another(&budget), None);
        let (tell, told) = mpsc::channel();
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for i in 0..4 {
                let waiting = turns.lock().waiting.len();
                let (turns, budget, tell, inside) = (&turns, &budget, tell.clone(), &inside);
                scope.spawn(move || {
                    assert_eq!(turns.before_another(budget), Some(7));
                    let _turn = turns.wait(budget, || 0, &mut |_, _| true).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tell.send(i).unwrap();
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                while turns.lock().waiting.len() == waiting {
                    thread::yield_now();
                }
            }
            drop(first);
            assert!(told.try_recv().is_err());
            drop(again);
        });
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(turns.before_another(&budget), None);
    }

    /// A function had another thread compute something, which waited for the run that had called the function.
    #[test]
    fn a_call_that_does_not_return_is_not_waited_for() {
        let (turns, budget) = (Arc::new(Turns::default()), Budget::new(1 << 20));
        let held = turns.wait(&budget, || 0, &mut |_, _| true).unwrap();
        thread::scope(|scope| {
            let first = call();
            let waiting = scope.spawn(|| turns.wait(&budget, || 0, &mut |_, _| true).map(drop));
            thread::sleep(PATIENCE / 2);
            drop(first);
            // Another one, which takes as long again.
            let second = call();
            thread::sleep(PATIENCE * 3 / 4);
            assert!(!waiting.is_finished());
            drop(second);
            drop(held);
            waiting.join().unwrap().unwrap();
            let _held = turns.wait(&budget, || 0, &mut |_, _| true).unwrap();
            let _call = call();
            let waiting = scope.spawn(|| turns.wait(&budget, || 0, &mut |_, _| true).map(drop));
            assert!(matches!(waiting.join().unwrap(), Err(Error::Invalid(_))));
        });
    }

    #[test]
    fn who_waits_can_be_interrupted() {
        let (turns, budget) = (Arc::new(Turns::default()), Budget::new(1 << 20));
        let _held = turns.wait(&budget, || 0, &mut |_, _| true).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(matches!(turns.wait(&budget, || 0, &mut |_, _| false), Err(Error::Interrupted)));
                assert!(turns.lock().waiting.is_empty());
            });
            scope.spawn(|| {
                WORKING.set(true);
                assert!(matches!(turns.wait(&budget, || 0, &mut |_, _| true), Err(Error::Invalid(_))));
            });
        });
    }
}
