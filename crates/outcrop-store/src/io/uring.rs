//! The `uring` engine: Linux io_uring.

use super::{Completion, Direction, IoEngine, Request};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::AsRawFd;

/// Requests in flight in one ring.
const DEPTH: u32 = 128;

/// One ring.
pub struct UringEngine {
    ring: IoUring,
    in_flight: usize,
    unsubmitted: bool,
}

impl UringEngine {
    /// Makes a ring, and proves that it reads: containers and seccomp filters forbid io_uring in
    /// ways that no version number tells.
    ///
    /// # Errors
    /// The operating system's, where io_uring is missing or forbidden.
    pub fn new() -> io::Result<UringEngine> {
        // Without interrupts from task work where the kernel can do so (5.19 and later).
        let ring = IoUring::builder()
            .dontfork()
            .setup_coop_taskrun()
            .build(DEPTH)
            .or_else(|_| IoUring::builder().dontfork().build(DEPTH))?;
        let mut engine = UringEngine { ring, in_flight: 0, unsubmitted: false };
        engine.probe()?;
        Ok(engine)
    }

    fn probe(&mut self) -> io::Result<()> {
        let zeros = std::fs::File::open("/dev/zero")?;
        let mut byte = [1u8; 8];
        let request = Request {
            id: 0,
            fd: zeros.as_raw_fd(),
            direction: Direction::Read,
            offset: 0,
            memory: byte.as_mut_ptr(),
            len: byte.len() as u32,
        };
        // SAFETY: buffer and file outlive the loop below, which reaps the completion.
        unsafe { self.submit(request)? };
        let mut done = Vec::new();
        while done.is_empty() {
            self.reap(true, &mut done)?;
        }
        match done.pop().map(|c| c.result) {
            Some(Ok(8)) if byte == [0; 8] => Ok(()),
            Some(Err(error)) => Err(error),
            other => Err(io::Error::other(format!("a probing read returned {other:?}"))),
        }
    }
}

impl IoEngine for UringEngine {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn capacity(&self) -> usize {
        DEPTH as usize
    }

    // SAFETY: what the caller promises is said at `IoEngine::submit`.
    unsafe fn submit(&mut self, r: Request) -> io::Result<()> {
        let fd = types::Fd(r.fd);
        let entry = match r.direction {
            Direction::Read => opcode::Read::new(fd, r.memory, r.len).offset(r.offset).build(),
            Direction::Write => opcode::Write::new(fd, r.memory, r.len).offset(r.offset).build(),
        };
        let entry = entry.user_data(r.id as u64);
        loop {
            // SAFETY: the caller keeps the memory and the file alive until the completion is reaped.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                break;
            }
            self.ring.submit()?;
        }
        self.in_flight += 1;
        self.unsubmitted = true;
        Ok(())
    }

    fn reap(&mut self, wait: bool, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.unsubmitted || wait {
            let want = usize::from(wait && self.in_flight > 0 && self.ring.completion().is_empty());
            loop {
                match self.ring.submit_and_wait(want) {
                    Ok(_) => break,
                    Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                    // The completion queue is full: reap first.
                    Err(e) if e.raw_os_error() == Some(libc::EBUSY) => break,
                    Err(e) => return Err(e),
                }
            }
            self.unsubmitted = !self.ring.submission().is_empty();
        }
        for entry in self.ring.completion() {
            let code = entry.result();
            let result = if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(code as u32) };
            completions.push(Completion { id: entry.user_data() as usize, result });
            self.in_flight -= 1;
        }
        Ok(())
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        // The queue drains before it lets go; a ring dropped with requests in flight would leave the
        // kernel writing into memory that is no longer ours.
        let mut left = Vec::new();
        while self.in_flight > 0 {
            if self.reap(true, &mut left).is_err() {
                std::process::abort();
            }
        }
    }
}
