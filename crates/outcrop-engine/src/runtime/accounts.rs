//! What runs cost, and operations that consist of several.

use super::Runtime;
use super::room::Borrowing;
use super::run_queue::Turn;
use crate::report::{Report, peak_rss};
use crate::watch::Watch;
use outcrop_store::Result;
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// The name of what makes an array visible, after which no operation is called.
pub const COMMIT: &str = "commit";

/// What runs cost.
#[derive(Default)]
pub(super) struct Accounts {
    last_run: Option<Report>,
    /// Of the operation under way.
    operation: Option<Account>,
}

/// The account of an operation that consists of several runs.
struct Account {
    thread: ThreadId,
    /// Of its runs so far, added up.
    sum: Report,
    /// The work of the run that did most, after which the operation is called.
    most: f64,
}

thread_local! {
    /// Runs of this thread under way, one inside the other.
    pub(super) static NESTED: Cell<usize> = const { Cell::new(0) };
}

impl Runtime {
    /// Starts the account of a run.
    pub fn meter(&self, operation: &'static str) -> Meter<'_> {
        self.budget.reset_peak();
        NESTED.set(NESTED.get() + 1);
        let counters = self.disk.counters();
        Meter {
            runtime: self,
            operation,
            read: counters.read(),
            written: counters.written(),
            start: Instant::now(),
            _borrowing: self.borrow_for(true),
        }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report of the last run or operation, if there was one.
    pub fn last_run(&self) -> Option<Report> {
        self.accounts().last_run.clone()
    }

    /// Keeps the report of a run. That of an operation under way on this thread is the sum of its runs so
    /// far; those inside other runs are part of theirs.
    pub fn set_last_run(&self, report: Report) {
        let mut accounts = self.accounts();
        let thread = thread::current().id();
        let operation = accounts.operation.as_mut().filter(|o| o.thread == thread && NESTED.get() <= 1);
        let known = operation.map(|operation| {
            if report.work >= operation.most && report.operation != COMMIT {
                operation.most = report.work;
                operation.sum.operation = report.operation;
            }
            operation.sum.add(&report);
            operation.sum.clone()
        });
        accounts.last_run = Some(known.unwrap_or(report));
    }

    /// The runs so far of the operation that this thread is in, added up; `None` where it is in none.
    pub fn so_far(&self) -> Option<Report> {
        let thread = thread::current().id();
        self.accounts().operation.as_ref().filter(|o| o.thread == thread).map(|o| o.sum.clone())
    }

    /// Whether this thread is in an operation that consists of several runs.
    pub fn is_in_operation(&self) -> bool {
        let thread = thread::current().id();
        self.accounts().operation.as_ref().is_some_and(|o| o.thread == thread)
    }

    /// Begins an operation that consists of several runs of this thread, one report and one turn for all
    /// of them.
    ///
    /// # Errors
    /// As for [`turn`](Self::turn).
    pub fn operation(&self, watch: &mut dyn Watch) -> Result<Operation> {
        let turn = self.turn(watch)?;
        let mut accounts = self.accounts();
        let outermost = accounts.operation.is_none();
        let thread = thread::current().id();
        accounts.operation.get_or_insert_with(|| Account { thread, sum: Report::default(), most: 0.0 });
        drop(accounts);
        Ok(Operation { accounts: Arc::clone(&self.accounts), outermost, _turn: turn })
    }
}

/// An operation under way, until it is dropped.
pub struct Operation {
    accounts: Arc<Mutex<Accounts>>,
    /// Whether it is not itself a part of one.
    outermost: bool,
    _turn: Turn,
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.outermost {
            self.accounts.lock().unwrap_or_else(PoisonError::into_inner).operation = None;
        }
    }
}

/// A run's account being kept.
pub struct Meter<'a> {
    runtime: &'a Runtime,
    operation: &'static str,
    read: u64,
    written: u64,
    start: Instant,
    _borrowing: Borrowing,
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

impl Meter<'_> {
    /// The account so far.
    pub fn report(&self) -> Report {
        let counters = self.runtime.disk.counters();
        Report {
            operation: self.operation,
            bytes_read: counters.read() - self.read,
            bytes_written: counters.written() - self.written,
            elapsed: self.start.elapsed(),
            peak_bytes: self.runtime.budget.peak() as u64,
            peak_rss: peak_rss(),
            ..Report::default()
        }
    }
}
