//! One measurement at a time: a size, a depth, a direction.

use super::Lasting;
use super::MEMORY;
use super::file::{forget_extents, make_durable, make_file, sync_buffered};
use super::lanes::{Clock, Memory, Order, read_lane, seconds_since, write_lane};
use super::random::fill_randomly;
use crate::error::{Error, Result};
use crate::frame::{Budget, Frame};
use crate::io::disk::{LentQueue, free_space};
use crate::io::{Cancel, Disk, DiskFile, IoQueue, Transfer};
use crate::profile::on_thread;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// The file is a multiple of this size, and is written in steps of some of them.
const PART: u64 = 4 << 20;
/// Requests from this size on are read by two queues in turn; see [`Bench::read`].
const LARGE: usize = 128 << 10;
/// What is written is made durable when it is as much: that can take a second for each GiB, and cannot be stopped.
const ROUND: u64 = 256 << 20;

/// What is measured with.
pub(super) struct Bench<'a> {
    disk: &'a Arc<Disk>,
    dir: &'a Path,
    cancel: &'a Cancel,
    started: Instant,
    file: DiskFile,
    /// Bytes of the file.
    len: u64,
    /// Full of random bytes at all times: reads bring such from the file.
    memory: Frame,
    queues: [LentQueue<'a>; 2],
    /// Requests that a queue keeps in flight at most.
    capacity: usize,
    /// Bytes in a second at which the file was written and synced.
    fill_rate: f64,
}

impl<'a> Bench<'a> {
    /// A file of `len` bytes, or of a twentieth of the free space, and what is needed to use it.
    pub(super) fn new(disk: &'a Arc<Disk>, dir: &'a Path, len: u64, cancel: &'a Cancel) -> Result<Bench<'a>> {
        let free = free_space(dir)?;
        // There are two of them for a while.
        let len = len.min(free / 20) / PART * PART;
        if len == 0 {
            return Err(Error::NoSpace { path: dir.into(), needed: 20 * PART, free, beside: vec![] });
        }
        let queues = [disk.queue()?, disk.queue()?];
        let mut memory = Budget::new(MEMORY).frame(MEMORY, "measuring a device")?;
        fill_randomly(memory.bytes_mut());
        let file = make_file(disk, dir, len)?;
        // The pool of the threads engine has 32 of them.
        let capacity = if disk.engine() == "threads" { 32 } else { 128 };
        let started = Instant::now();
        Ok(Bench { disk, dir, cancel, started, file, len, memory, queues, capacity, fill_rate: 0.0 })
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The file.
    pub(super) fn file(&self) -> &DiskFile {
        &self.file
    }

    /// The time since everything began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The most requests of a size that memory and engine allow in flight.
    pub(super) fn most(&self, request: usize) -> usize {
        (MEMORY / request).min(self.capacity)
    }

    /// Writes the file, or as much of it as there is time for, at least one part: what it has from now on.
    pub(super) fn fill(&mut self, time: Duration) -> Result<Lasting> {
        let (len, found) = self.write_through(time)?;
        self.len = len;
        self.fill_rate = len as f64 / found.seconds(len);
        Ok(found)
    }

    /// Writes over the file, or as much of it as there is time for.
    pub(super) fn refill(&mut self, time: Duration) -> Result<Lasting> {
        Ok(self.write_through(time)?.1)
    }

    /// Writes from the file's start on, and gives the bytes, too.
    fn write_through(&mut self, time: Duration) -> Result<(u64, Lasting)> {
        let started = Instant::now();
        let (mut done, mut flushed) = (0, Flushed::default());
        // Larger steps drain the queue less often; smaller ones look at the clock in time.
        let mut parts = 1;
        while done < self.len && (done == 0 || started.elapsed() < time) {
            let end = (done + parts * PART).min(self.len);
            let (file, from) = (&self.file, self.memory.as_ptr());
            let mut transfers = (done..end).step_by(PART as usize).map(|offset| {
                let memory = from.wrapping_add((offset % MEMORY as u64) as usize);
                Transfer::write(file, offset, memory, PART as usize)
            });
            // SAFETY: file and frame outlive the call; the frame's length is a multiple of a part's,
            // and nobody writes to it meanwhile.
            unsafe { self.queues[0].run(&mut transfers, MIB, 32, self.cancel) }
                .map_err(|e| e.at(self.dir))?;
            // The page cache would take it all, and then be synced for longer than there is time.
            sync_buffered(&self.file, self.dir)?;
            if done / ROUND < end / ROUND {
                flushed.flush(&self.file, self.dir, self.cancel)?;
            }
            done = end;
            parts = (parts * 2).min(16);
        }
        flushed.flush(&self.file, self.dir, self.cancel)?;
        Ok((done, flushed.lasting(started.elapsed(), done, done)))
    }

    /// Bytes in a second of random reads.
    ///
    /// Memory that a queue reads into may be used again only when its run has returned, so reading goes
    /// by runs over all the memory, and the queue drains in between. With small requests that is a
    /// negligible part of a run. Large ones are read by two queues with half the memory and depth
    /// each, one of which is full while the other drains, as when tiles are loaded.
    pub(super) fn read(&mut self, order: &Order, depth: usize, time: Duration) -> Result<f64> {
        self.file.drop_cache();
        order.rewind_if_short();
        let lanes = if depth > 1 && order.request >= LARGE { 2 } else { 1 };
        let clock = Clock::new(time);
        let share = MEMORY / lanes;
        let memory = Memory(self.memory.as_ptr());
        let (file, dir, cancel) = (&self.file, self.dir, self.cancel);
        let lane = |queue: &mut IoQueue, lane: usize| {
            let memory = memory.part(lane * share);
            // SAFETY: the frame and the file outlive the scope below, each lane has its own part of the
            // frame, and `&mut self` keeps everybody else away from it.
            unsafe { read_lane(queue, file, order, memory, share, depth.div_ceil(lanes), &clock, cancel) }
                .map_err(|e| e.at(dir))
        };
        let [first, second] = &mut self.queues;
        let bytes = if lanes == 1 {
            lane(first, 0)?
        } else {
            let (one, other) = std::thread::scope(|scope| -> Result<_> {
                let other = on_thread(scope, || lane(second, 1))?;
                Ok((lane(first, 0)?, other.join().expect("reading does not panic")?))
            })?;
            one + other
        };
        Ok(bytes as f64 / seconds_since(clock.started))
    }

    /// Bytes in a second of writes one after the other from the file's start.
    pub(super) fn write(&mut self, request: usize, depth: usize, time: Duration) -> Result<f64> {
        forget_extents(&self.file, 0, self.len);
        let clock = Clock::new(time);
        let end = self.write_end(0, request, time);
        let memory = Memory(self.memory.as_ptr());
        // SAFETY: nobody writes to the frame until the call returns; `&mut self` sees to that.
        let run = unsafe {
            write_lane(
                &mut self.queues[0],
                &self.file,
                0..end,
                request,
                memory,
                MEMORY,
                depth,
                &clock,
                self.cancel,
            )
        };
        let bytes = run.map_err(|e| e.at(self.dir))?;
        sync_buffered(&self.file, self.dir)?;
        Ok(bytes as f64 / seconds_since(clock.started))
    }

    /// Where writing from `start` on ends. The page cache would take the whole file at once, and then
    /// be synced for longer than there is time.
    fn write_end(&self, start: u64, request: usize, time: Duration) -> u64 {
        if self.file.is_direct() {
            return self.len;
        }
        let bytes = (self.fill_rate * time.as_secs_f64()) as u64;
        self.len.min(start + bytes.max(request as u64))
    }

    /// Another file of the same size, in which nothing is written.
    pub(super) fn another(&self) -> Result<DiskFile> {
        make_file(self.disk, self.dir, self.len)
    }

    /// Large reads, and writes of as much to the first `room` bytes of another file at the same time, two queues in two
    /// threads; and the bytes written.
    ///
    /// As in a run, it is over when both are done. (Where reading went on for as long as writing did, devices that let
    /// reads go first had one time two thirds more than another.)
    pub(super) fn both(&mut self, other: &DiskFile, room: u64, time: Duration) -> Result<(Lasting, u64)> {
        let request = MIB.min(self.len as usize / 4);
        self.file.drop_cache();
        let order = Order::new(request, self.len);
        let end = self.write_end(0, request, time).min(room);
        let started = Instant::now();
        let (mut read, mut written, mut flushed) = (0, 0, Flushed::default());
        while written < end && (written == 0 || started.elapsed() < time) {
            let range = written..(written + ROUND).min(end);
            let moved = self.both_once(other, range.clone(), request, &order)?;
            (read, written) = (read + moved.0, written + moved.1);
            flushed.flush(other, self.dir, self.cancel)?;
            if written < range.end {
                break;
            }
        }
        Ok((flushed.lasting(started.elapsed(), read + written, written), written))
    }

    /// Reads while a range is written. Gives the bytes read and written.
    fn both_once(
        &mut self,
        other: &DiskFile,
        range: Range<u64>,
        request: usize,
        order: &Order,
    ) -> Result<(u64, u64)> {
        // Three quarters of the memory for reading; what is written can be the same again and again.
        let share = MEMORY / 4 * 3;
        let memory = Memory(self.memory.as_ptr());
        let (file, dir, cancel) = (&self.file, self.dir, self.cancel);
        let [first, second] = &mut self.queues;
        let clock = Clock::new(Duration::MAX);
        let order = &order.portion((range.end - range.start) / request as u64);
        let (read, written) = std::thread::scope(|scope| -> Result<_> {
            let writer = on_thread(scope, || {
                let memory = memory.part(share);
                // SAFETY: the last quarter of the frame is not written to by anybody, and frame and files
                // outlive the scope.
                let run = unsafe {
                    write_lane(second, other, range, request, memory, MEMORY - share, 8, &clock, cancel)
                };
                run.map_err(|e| e.at(dir))
            })?;
            // SAFETY: the first three quarters of the frame are this lane's alone, and frame and file
            // outlive the scope.
            let run = unsafe { read_lane(first, file, order, memory, share, 16, &clock, cancel) };
            Ok((run.map_err(|e| e.at(dir)), writer.join().expect("writing does not panic")))
        })?;
        Ok((read?, written?))
    }
}

/// The time in which what was written was made durable.
#[derive(Default)]
struct Flushed(Duration);

impl Flushed {
    /// Nothing stops it once it has begun.
    fn flush(&mut self, file: &DiskFile, dir: &Path, cancel: &Cancel) -> Result<()> {
        cancel.check()?;
        let started = Instant::now();
        make_durable(file, dir)?;
        self.0 += started.elapsed();
        Ok(())
    }

    /// What follows from it, where `moved` bytes took `time` with it, and `written` of them were written.
    fn lasting(&self, time: Duration, moved: u64, written: u64) -> Lasting {
        let moving = time.saturating_sub(self.0).as_secs_f64().max(1e-9);
        Lasting {
            bytes_per_second: moved as f64 / moving,
            keeping: self.0.as_secs_f64() / written.max(1) as f64,
        }
    }
}
