//! The `threads` engine: a pool of threads that call `pread` and `pwrite`. It runs where io_uring
//! is missing or forbidden.

use super::{Completion, Direction, IoEngine, Request};
use crate::thread;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads of the pool; each keeps one request in flight.
const THREADS: usize = 32;

/// Bytes of a thread's stack.
const STACK: usize = 64 << 10;

struct Job {
    request: Request,
    reply: Sender<Completion>,
}

/// The threads, shared by all queues of a disk.
pub struct Pool {
    jobs: Sender<Job>,
}

impl Pool {
    /// Starts the threads. They end when the last engine and the pool are gone.
    ///
    /// # Errors
    /// The operating system gives no thread at all.
    pub fn new() -> io::Result<Arc<Pool>> {
        let (jobs, inbox) = channel::<Job>();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut started = 0;
        for _ in 0..THREADS {
            let inbox = Arc::clone(&inbox);
            match thread::start_with("outcrop-io", STACK, move || serve(&inbox)) {
                Ok(_) => started += 1,
                Err(error) if started == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(Arc::new(Pool { jobs }))
    }
}

fn serve(inbox: &Mutex<Receiver<Job>>) {
    loop {
        let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { request, reply }) = next else { return };
        let _ = reply.send(Completion { id: request.id, result: perform(&request) });
    }
}

fn perform(r: &Request) -> io::Result<u32> {
    let len = r.len as usize;
    // SAFETY: the submitter keeps the file open until the completion is reaped.
    let fd = unsafe { BorrowedFd::borrow_raw(r.fd) };
    let moved = match r.direction {
        Direction::Read => {
            // SAFETY: the submitter promises valid memory that nobody else touches.
            let memory = unsafe { std::slice::from_raw_parts_mut(r.memory, len) };
            rustix::io::pread(fd, memory, r.offset)?
        }
        Direction::Write => {
            // SAFETY: the submitter promises valid memory that nobody writes.
            let memory = unsafe { std::slice::from_raw_parts(r.memory, len) };
            rustix::io::pwrite(fd, memory, r.offset)?
        }
    };
    Ok(moved as u32)
}

/// One queue's end of the pool.
pub struct ThreadsEngine {
    pool: Arc<Pool>,
    reply: Sender<Completion>,
    replies: Receiver<Completion>,
    in_flight: usize,
}

impl ThreadsEngine {
    /// An engine over the pool.
    pub fn new(pool: Arc<Pool>) -> ThreadsEngine {
        let (reply, replies) = channel();
        ThreadsEngine { pool, reply, replies, in_flight: 0 }
    }
}

impl IoEngine for ThreadsEngine {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn capacity(&self) -> usize {
        THREADS
    }

    // SAFETY: what the caller promises is said at `IoEngine::submit`.
    unsafe fn submit(&mut self, request: Request) -> io::Result<()> {
        let job = Job { request, reply: self.reply.clone() };
        self.pool.jobs.send(job).map_err(|_| io::Error::other("the I/O threads are gone"))?;
        self.in_flight += 1;
        Ok(())
    }

    fn reap(&mut self, wait: bool, completions: &mut Vec<Completion>) -> io::Result<()> {
        if wait && self.in_flight > 0 {
            let first = self.replies.recv().map_err(|_| io::Error::other("the I/O threads are gone"))?;
            completions.push(first);
            self.in_flight -= 1;
        }
        while let Ok(next) = self.replies.try_recv() {
            completions.push(next);
            self.in_flight -= 1;
        }
        Ok(())
    }
}

impl Drop for ThreadsEngine {
    fn drop(&mut self) {
        // As for every engine: no request outlives it.
        while self.in_flight > 0 && self.replies.recv().is_ok() {
            self.in_flight -= 1;
        }
    }
}
