//! The end of the interpreter, and faults of our own.
//!
//! Python ends threads that it does not wait for as soon as they want the GIL while it is being taken down. One
//! that computes has frames of ours on its stack, which cannot be left that way. So before that, at exit, what
//! such threads compute is stopped, and whoever else asks for something stays where it is: it neither fails nor
//! goes on, and ends with the process. What it was making is taken away: nobody else will.

use crate::errors::to_python;
use outcrop_store::Error;
use outcrop_store::store::Store;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long the end waits for what is being computed to stop. Everything looks around more often.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread that ends the interpreter; it may still compute, as other functions that run at exit want.
static ENDER: OnceLock<ThreadId> = OnceLock::new();
/// Threads that are without the GIL, or will be, and want it again; and the process that they are of.
static AWAY: AtomicUsize = AtomicUsize::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Arrays that are being made, or were.
static MADE: Mutex<Vec<Weak<dyn Store>>> = Mutex::new(Vec::new());

/// Keeps in mind that an array is being made.
pub fn remember(made: &Arc<dyn Store>) {
    let mut known = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|other| other.strong_count() > 0);
    known.push(Arc::downgrade(made));
}

/// Whether this thread is to stop, since the interpreter ends.
pub fn is_near() -> bool {
    ENDER.get().is_some_and(|&ender| ender != thread::current().id())
}

/// Keeps this thread from ever having the GIL again. It has let go of all that matters to others.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

/// Counts no threads that a fork left in the parent. Called with the GIL.
fn forget_parents() {
    if PROCESS.swap(std::process::id(), Ordering::SeqCst) != std::process::id() {
        AWAY.store(0, Ordering::SeqCst);
    }
}

/// A thread that is away.
struct Away;

impl Away {
    fn new() -> Away {
        forget_parents();
        AWAY.fetch_add(1, Ordering::SeqCst);
        Away
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        AWAY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Does something without the GIL, and comes back, or does not where the interpreter ends. A panic becomes an
/// exception.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let away = Away::new();
    if is_near() {
        drop(away);
        py.detach(|| stay());
    }
    let (done, away) = py.detach(move || {
        let done = catch_unwind(AssertUnwindSafe(work));
        if is_near() {
            drop((done, away));
            stay();
        }
        (done, away)
    });
    drop(away);
    done.map_err(|panic| to_python(py, Error::Internal(told(&*panic))))
}

/// Does something for which code of Python's runs with frames of ours below it: the interpreter does not end meanwhile,
/// for the thread would be ended in it.
pub fn attached<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let away = Away::new();
    // Where the end waits for somebody, perhaps for this thread, it waits for this as well.
    if is_near() && AWAY.load(Ordering::SeqCst) == 1 {
        drop(away);
        py.detach(|| stay());
    }
    work()
}

/// Stops what other threads compute, and takes away what they were making; called at exit.
#[pyfunction]
pub fn end(py: Python<'_>) {
    forget_parents();
    // At exit there is one such thread only.
    let _ = ENDER.set(thread::current().id());
    let begin = Instant::now();
    py.detach(|| {
        while AWAY.load(Ordering::SeqCst) > 0 && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        if AWAY.load(Ordering::SeqCst) == 0 {
            let made = std::mem::take(&mut *MADE.lock().unwrap_or_else(PoisonError::into_inner));
            let left = made.iter().filter_map(Weak::upgrade).filter(|array| array.is_pending());
            left.for_each(|array| array.abort());
        }
    });
}

/// What the last panic said, and where. A scope in which a thread panics does not say it again.
static SAID: Mutex<Option<String>> = Mutex::new(None);

/// Lets panics of this library say nothing by themselves: each becomes an exception.
pub fn be_quiet() {
    set_hook(Box::new(|info| {
        *SAID.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
}

fn told(panic: &(dyn Any + Send)) -> String {
    let own = panic.downcast_ref::<String>().map(String::as_str);
    let own = own.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    SAID.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(|| own.into())
}
