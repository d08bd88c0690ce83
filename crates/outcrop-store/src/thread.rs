//! Threads, and the memory that each of them begins with.
//!
//! The C library ends the process where a thread finds no memory for its own variables, or for the note that they are
//! to be dropped. So a thread is started only where the system has memory to spare; and where the process may have only
//! so much address space, whoever starts a thread waits until that has what it begins with, before it takes any more.

use crate::error::{Error, Result};
use crate::frame::{has_bounds, headroom};
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Bytes of a stack, as Rust has them.
pub(crate) const STACK: usize = 2 << 20;

/// Starts a thread.
///
/// # Errors
/// [`Error::OutOfMemory`]; the operating system gives no thread.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    start_with(name, STACK, work).map_err(refused)
}

/// Starts a thread with a stack of so many bytes.
pub(crate) fn start_with<T: Send + 'static>(
    name: &str,
    stack: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let (begun, waiting) = prepare(stack)?;
    let thread = builder(name, stack).spawn(move || {
        tell(begun);
        work()
    })?;
    wait(waiting);
    Ok(thread)
}

/// Starts a thread of a scope.
///
/// # Errors
/// As of [`start`].
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let (begun, waiting) = prepare(STACK).map_err(refused)?;
    let work = move || {
        tell(begun);
        work()
    };
    let thread = builder(name, STACK).spawn_scoped(scope, work).map_err(refused)?;
    wait(waiting);
    Ok(thread)
}

fn builder(name: &str, stack: usize) -> Builder {
    Builder::new().name(name.into()).stack_size(stack)
}

fn refused(source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::OutOfMemory {
        return Error::OutOfMemory { bytes: STACK as u64, source };
    }
    Error::io(Path::new("."), "start a thread", source)
}

/// For the thread and for who starts it, where that has to wait.
type Ends = (Option<Sender<()>>, Option<Receiver<()>>);

fn prepare(stack: usize) -> io::Result<Ends> {
    headroom(stack)?;
    Ok(if has_bounds() { Some(channel()) } else { None }.unzip())
}

/// The thread is there, and has its variables. It takes its first memory, too: for that the C library may want some
/// that it keeps for the thread.
fn tell(begun: Option<Sender<()>>) {
    if let Some(begun) = begun {
        drop(black_box(Box::new([0u8; 64])));
        let _ = begun.send(());
    }
}

fn wait(waiting: Option<Receiver<()>>) {
    if let Some(waiting) = waiting {
        let _ = waiting.recv();
    }
}
