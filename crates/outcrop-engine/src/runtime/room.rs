//! Memory of the budget that somebody wants while others have it.

use super::Runtime;
use super::accounts::NESTED;
use super::run_queue::is_working;
use outcrop_store::frame::{Charge, Frame, charged};
use outcrop_store::io::Cancel;
use outcrop_store::store::Mover;
use outcrop_store::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How often room is made for what another thread then takes first, at most.
const MOST_RACES: usize = 1000;

/// How long a run waits for memory that others hold.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that functions of the user's take to read a few tiles of default size, at most: more than a small part of a
/// small budget.
const FOR_CALLBACKS: usize = 2 << 20;

/// Bytes of a budget of `limit` bytes that a run leaves to functions of the user's that it calls, for the arrays that
/// they read: a sixteenth; where that is little, up to a third.
pub fn left_to_callbacks(limit: usize) -> usize {
    (limit / 16).max(FOR_CALLBACKS).min(limit / 3)
}

/// The smallest budget of which `bytes` are left beside what such functions are left.
pub fn beside_callbacks(bytes: usize) -> usize {
    let by_part = |part: usize| bytes.saturating_add(bytes.div_ceil(part - 1));
    // Bytes by which the quotient is rounded down are left over.
    by_part(16).max(bytes.saturating_add(FOR_CALLBACKS)).min(by_part(3))
}

/// The smallest budget of which such functions are left `bytes`.
fn that_leaves(bytes: usize) -> usize {
    bytes.saturating_mul(if bytes <= FOR_CALLBACKS { 3 } else { 16 })
}

/// A thread that has memory of the budget, and will give it back by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Borrower {
    thread: ThreadId,
    is_run: bool,
}

/// Declares this thread to be one that will give memory back, until this is dropped.
pub struct Borrowing {
    borrower: Borrower,
    borrowers: Arc<Mutex<Vec<Borrower>>>,
}

impl Drop for Borrowing {
    fn drop(&mut self) {
        let mut borrowers = self.borrowers.lock().unwrap_or_else(PoisonError::into_inner);
        let own = borrowers.iter().position(|&b| b == self.borrower);
        borrowers.swap_remove(own.expect("there until now"));
    }
}

/// What needs memory, and how much of the budget cannot be had for it because of what the user holds.
pub(crate) fn beside_arrays(purpose: &str, held: usize) -> String {
    match held {
        0 => purpose.into(),
        held => format!("{purpose}, with {held} bytes held by arrays in memory (its own result, perhaps),"),
    }
}

impl Runtime {
    /// A frame; resident tiles make room for it where they must.
    ///
    /// # Errors
    /// [`Error::Budget`], [`Error::OutOfMemory`]; those of writing resident tiles out.
    pub fn frame(&self, bytes: usize, purpose: &str) -> Result<Frame> {
        self.with_room(bytes, purpose, || self.budget.frame(bytes, purpose))
    }

    /// A mover with staging memory, for which resident tiles make room where they must.
    ///
    /// # Errors
    /// As for [`frame`](Self::frame); the operating system's.
    pub fn mover(&self, staging: usize, purpose: &str, cancel: &Cancel) -> Result<Mover<'_>> {
        self.with_room(staging, purpose, || Mover::new(&self.disk, &self.budget, staging, cancel))
    }

    /// Makes room for `bytes` bytes and takes it, again where another thread was quicker in between.
    ///
    /// # Errors
    /// Those of [`make_room`](Self::make_room) and of `take`.
    pub fn with_room<T>(&self, bytes: usize, purpose: &str, take: impl Fn() -> Result<T>) -> Result<T> {
        let mut races = 0;
        loop {
            // This may take long: as long as others compute, who will give memory back.
            self.make_room(bytes, purpose)?;
            match take() {
                Err(Error::Budget { .. }) if races < MOST_RACES => races += 1,
                other => return other,
            }
        }
    }

    /// Sees to it that `bytes` more can be charged, if resident tiles are what stands in the way.
    ///
    /// # Errors
    /// [`Error::Budget`], naming the least budget; those of writing resident tiles out.
    pub fn make_room(&self, bytes: usize, purpose: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let seen = self.budget.returns();
            // Asked first: what they give back from now on is found.
            let others = self.others_borrow();
            if self.has_room(bytes)? {
                return Ok(());
            }
            // Not for ever, since they may be waiting for this one.
            let patience = if is_working() { PATIENCE / 5 } else { PATIENCE };
            if others && start.elapsed() < patience {
                self.budget.wait_for_return(seen, Duration::from_millis(20));
                continue;
            }
            let (used, limit) = (self.budget.used(), self.budget.limit());
            let needed = used + charged(bytes);
            let (purpose, needed) = if is_working() {
                // A larger budget leaves a part of what it has more. What is taken already may be the function's too.
                let missing = needed.saturating_sub(limit);
                let purpose = format!("{purpose} by a function, beside what is being computed,");
                (purpose, that_leaves(charged(bytes).max(left_to_callbacks(limit) + missing)))
            } else if self.turns.before_another(&self.budget).is_some() {
                (format!("{purpose}, beside what is being computed,"), needed)
            } else {
                (beside_arrays(purpose, used), needed)
            };
            return Err(Error::Budget { purpose, needed: needed as u64, budget: limit as u64 });
        }
    }

    /// Declares that this thread has memory for a while, for something else than a run.
    pub fn borrow(&self) -> Borrowing {
        self.borrow_for(false)
    }

    pub(super) fn borrow_for(&self, is_run: bool) -> Borrowing {
        let borrower = Borrower { thread: thread::current().id(), is_run };
        self.borrowers.lock().unwrap_or_else(PoisonError::into_inner).push(borrower);
        Borrowing { borrower, borrowers: Arc::clone(&self.borrowers) }
    }

    /// Whether another thread has memory that is worth waiting for: what this one has would be waited for in vain.
    /// To a thread that works for a run, the run's own is another's. A run waits for all that borrow, since it was
    /// planned before they did; whoever does not run, for runs only.
    pub(crate) fn others_borrow(&self) -> bool {
        let (own, runs) = (thread::current().id(), NESTED.get() > 0);
        let borrowers = self.borrowers.lock().unwrap_or_else(PoisonError::into_inner);
        borrowers.iter().any(|b| b.thread != own && (b.is_run || runs))
    }

    /// Whether `bytes` more can be charged now. Resident tiles make room where they can.
    ///
    /// # Errors
    /// Those of writing resident tiles out.
    pub fn has_room(&self, bytes: usize) -> Result<bool> {
        while self.budget.used() + charged(bytes) > self.budget.limit() {
            if !self.release_something()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets go of the resident tile that was used longest ago; `false` where there is none.
    ///
    /// # Errors
    /// Those of writing it out.
    pub fn release_something(&self) -> Result<bool> {
        self.resident().evict_one(self)
    }

    /// Charges memory that lies elsewhere; resident tiles make room for it where they must.
    ///
    /// # Errors
    /// As for [`frame`](Self::frame).
    pub fn charge(&self, bytes: usize, purpose: &str) -> Result<Charge> {
        self.with_room(bytes, purpose, || self.budget.charge(bytes, purpose))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;
    use outcrop_store::io::EngineChoice;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn runtime() -> Arc<Runtime> {
        let settings = Settings { memory: 1 << 20, threads: 1, scratch: None, engine: EngineChoice::Threads };
        Runtime::new(settings).unwrap()
    }

    #[test]
    fn a_budget_is_shared_with_callbacks() {
        for bytes in (0..200).map(|i| i * 377_777) {
            let limit = beside_callbacks(bytes);
            assert!(limit - left_to_callbacks(limit) >= bytes, "{bytes}");
            let less = limit.saturating_sub(2);
            assert!(bytes == 0 || less - left_to_callbacks(less) < bytes, "{bytes}");
            let limit = that_leaves(bytes);
            assert!(left_to_callbacks(limit) >= bytes, "{bytes}");
            assert!(bytes == 0 || left_to_callbacks(limit - 1) < bytes, "{bytes}");
        }
    }

    /// A run waited for itself, as long as for others.
    #[test]
    fn who_is_alone_is_refused_without_waiting() {
        let runtime = runtime();
        let (_run, _inner) = (runtime.meter("a run"), runtime.meter("a run inside"));
        let _held = runtime.charge(1 << 19, "an array").unwrap();
        let begin = Instant::now();
        assert!(!runtime.others_borrow());
        assert!(matches!(runtime.make_room(1 << 20, "more"), Err(Error::Budget { .. })));
        assert!(begin.elapsed() < PATIENCE);
    }

    #[test]
    fn what_another_run_has_is_waited_for() {
        let runtime = runtime();
        let asked = AtomicBool::new(false);
        thread::scope(|scope| {
            let run = runtime.meter("a run");
            let held = runtime.charge(1 << 19, "its memory").unwrap();
            let other = scope.spawn(|| {
                assert!(runtime.others_borrow());
                let _own = runtime.meter("another run");
                asked.store(true, Ordering::SeqCst);
                runtime.charge(1 << 20, "all of it").map(drop)
            });
            while !asked.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(50));
            drop(held);
            drop(run);
            other.join().unwrap().unwrap();
        });
        assert!(!runtime.others_borrow());
    }

    /// A reader has memory until whoever reads goes on, perhaps the one that would wait.
    #[test]
    fn only_runs_wait_for_who_does_not_run() {
        let runtime = runtime();
        let borrowing = thread::scope(|scope| scope.spawn(|| runtime.borrow()).join().unwrap());
        assert!(!runtime.others_borrow());
        let run = runtime.meter("a run");
        assert!(runtime.others_borrow());
        drop(borrowing);
        assert!(!runtime.others_borrow());
        drop(run);
    }
}
