//! Takes the figures of a profile, on a temporary file.
//!
//! - The file has no name while it is used, so that a killed process leaves nothing.
//! - It is written once before anything is read: space that was only allocated is read as zeros
//!   without asking the device. Before each measurement of writes its extents are marked as not
//!   written again, because that is how the files of a new array are: overwriting is faster.
//! - Reads take their offsets from a permutation of the whole file, so that within a measurement no
//!   cache on the way sees an offset twice.
//! - Where the page cache cannot be bypassed, it forgets the file before each measurement, and writes
//!   count as done when they are synced.

use super::{Device, Point, Profile, VERSION};
use crate::error::{Error, Result};
use crate::frame::{Budget, Frame};
use crate::io::disk::{LentQueue, free_space};
use crate::io::{Cancel, Disk, DiskFile, IoQueue, Transfer};
use rustix::fs::FallocateFlags;
use std::io;
use std::iter::from_fn;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Memory for all requests in flight.
const MEMORY: usize = 32 << 20;
/// Depths to try.
const DEPTHS: [usize; 5] = [1, 4, 16, 64, 128];
/// Requests from this size on are read by two queues in turn; see [`Bench::read`].
const LARGE: usize = 128 << 10;
/// A deeper queue must be faster by this factor to be preferred.
const GAIN: f64 = 1.03;
/// The file is written in parts of this size, after each of which the clock is looked at.
const PART: u64 = 4 << 20;

/// How long everything may take.
struct Plan {
    requests: &'static [usize],
    /// Bytes of the file, if there is room.
    file: u64,
    /// Writing the file stops here, and the file is then as long as it is.
    fill: Duration,
    /// Of a first look at a depth.
    trial: Duration,
    /// Of the measurement at the depth chosen.
    window: Duration,
    /// After this, on a slow device, first looks are all there is.
    total: Duration,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const QUICK: Plan = Plan {
    requests: &[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB],
    file: 128 << 20,
    fill: Duration::from_millis(300),
    trial: Duration::from_millis(12),
    window: Duration::from_millis(30),
    total: Duration::from_millis(1000),
};

const FULL: Plan = Plan {
    requests: &[
        4 * KIB,
        16 * KIB,
        64 * KIB,
        128 * KIB,
        256 * KIB,
        512 * KIB,
        MIB,
        2 * MIB,
        4 * MIB,
        8 * MIB,
        16 * MIB,
    ],
    file: 1 << 30,
    fill: Duration::from_secs(4),
    trial: Duration::from_millis(50),
    window: Duration::from_millis(250),
    total: Duration::from_secs(18),
};

/// Measures the device that a directory lies on, in about one second where `quick` is set, and in ten
/// to twenty-five otherwise. It needs 32 MiB of memory and at most a tenth of the free space, for as
/// long as it runs. `progress` is called with the steps done and the steps there are.
///
/// # Errors
/// [`Error::NoSpace`] where less than 40 MiB are free, [`Error::Interrupted`], or the operating
/// system's, such as where the directory cannot be written.
pub fn measure(
    disk: &Arc<Disk>,
    dir: &Path,
    quick: bool,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Profile> {
    let plan = if quick { &QUICK } else { &FULL };
    let device = Device::of(dir)?;
    let mut bench = Bench::new(disk, dir, plan, cancel)?;
    let requests: Vec<usize> = plan.requests.iter().copied().filter(|&r| r as u64 <= bench.len / 4).collect();

    let total = 2 * requests.len() as u64 + 2;
    let mut done = 0;
    let mut step = || {
        progress(done, total);
        done += 1;
    };
    step();
    bench.fill(plan.fill)?;
    step();
    let mut reads = Vec::new();
    for &request in &requests {
        let order = Order::new(request, bench.len);
        reads.push(bench.best(plan, request, &mut |bench, depth, time| bench.read(&order, depth, time))?);
        step();
    }
    // Before the writes, which leave parts of the file unwritten.
    let both = bench.both(plan.window)?;
    step();
    let mut writes = Vec::new();
    for &request in &requests {
        writes.push(bench.best(plan, request, &mut |bench, depth, time| bench.write(request, depth, time))?);
        step();
    }
    Ok(Profile {
        version: VERSION,
        directory: dir.canonicalize().unwrap_or_else(|_| dir.into()),
        device,
        engine: disk.engine().into(),
        reasons: disk.reasons().to_vec(),
        direct: bench.file.is_direct(),
        alignment: bench.file.block() as u64,
        date: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        quick,
        reads,
        writes,
        both,
    })
}

/// What is measured with.
struct Bench<'a> {
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
    fn new(disk: &'a Arc<Disk>, dir: &'a Path, plan: &Plan, cancel: &'a Cancel) -> Result<Bench<'a>> {
        let free = free_space(dir)?;
        let len = plan.file.min(free / 10) / PART * PART;
        if len == 0 {
            return Err(Error::NoSpace { path: dir.into(), needed: 10 * PART, free });
        }
        let queues = [disk.queue()?, disk.queue()?];
        let mut memory = Budget::new(MEMORY).frame(MEMORY, "measuring a device")?;
        fill_randomly(memory.bytes_mut());
        let file = make_file(disk, dir, len)?;
        // The pool of the threads engine has 32 of them.
        let capacity = if disk.engine() == "threads" { 32 } else { DEPTHS[DEPTHS.len() - 1] };
        Ok(Bench {
            dir,
            cancel,
            started: Instant::now(),
            file,
            len,
            memory,
            queues,
            capacity,
            fill_rate: 0.0,
        })
    }

    /// Writes the file, or as much of it as there is time for, at least one part.
    fn fill(&mut self, time: Duration) -> Result<()> {
        let started = Instant::now();
        let mut done = 0;
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
            sync_buffered(&self.file, self.dir)?;
            done = end;
            parts = (parts * 2).min(16);
        }
        self.len = done;
        self.fill_rate = done as f64 / seconds_since(started);
        Ok(())
    }

    /// The bandwidth of requests of one size at the best depth: deeper queues are tried as long as that
    /// helps, and the best is measured once more.
    fn best(&mut self, plan: &Plan, request: usize, run: &mut Measurement<'_, 'a>) -> Result<Point> {
        let most = (MEMORY / request).min(self.capacity);
        let depths = DEPTHS.into_iter().filter(|&d| d < most).chain([most]);
        let (mut depth, mut rate, mut in_vain) = (1, 0.0, 0);
        for deeper in depths {
            // Draining a deep queue must not take a slow device many times the time there is. One depth
            // that does not help may be noise; two in a row are not.
            let drain = (deeper * request) as f64 / rate;
            if rate > 0.0 && (in_vain == 2 || drain > 4.0 * plan.trial.as_secs_f64()) {
                break;
            }
            let found = run(self, deeper, plan.trial)?;
            if found > rate * GAIN {
                (depth, rate, in_vain) = (deeper, found, 0);
            } else {
                in_vain += 1;
            }
        }
        // Measured anew, because the best of several looks is the luckiest, too.
        if self.started.elapsed() < plan.total {
            rate = run(self, depth, plan.window)?;
        }
        Ok(Point { request: request as u64, depth: depth as u32, bytes_per_second: rate })
    }

    /// Bytes in a second of random reads.
    ///
    /// Memory that a queue reads into may be used again only when its run has returned, so reading goes
    /// by runs over all the memory, and the queue drains in between. With small requests that is a
    /// negligible part of a run. Large ones are read by two queues with half the memory and depth
    /// each, one of which is full while the other drains, as when tiles are loaded.
    fn read(&mut self, order: &Order, depth: usize, time: Duration) -> Result<f64> {
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
            let (one, other) = std::thread::scope(|scope| {
                let other = scope.spawn(|| lane(second, 1));
                (lane(first, 0), other.join().expect("reading does not panic"))
            });
            one? + other?
        };
        Ok(bytes as f64 / seconds_since(clock.started))
    }

    /// Bytes in a second of writes one after the other from the file's start.
    fn write(&mut self, request: usize, depth: usize, time: Duration) -> Result<f64> {
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

    /// Bytes in a second of large reads and writes at the same time, two queues in two threads.
    fn both(&mut self, time: Duration) -> Result<f64> {
        let half = self.len / 2 / MIB as u64 * MIB as u64;
        let request = MIB.min(half as usize / 4);
        self.file.drop_cache();
        forget_extents(&self.file, half, self.len - half);
        let order = Order::new(request, half);
        let end = self.write_end(half, request, time);
        // Three quarters of the memory for reading; what is written can be the same again and again.
        let share = MEMORY / 4 * 3;
        let memory = Memory(self.memory.as_ptr());
        let (file, dir, cancel) = (&self.file, self.dir, self.cancel);
        let [first, second] = &mut self.queues;
        let clock = Clock::new(time);
        let (read, written) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let memory = memory.part(share);
                // SAFETY: the last quarter of the frame is not written to by anybody, and frame and file
                // outlive the scope.
                let run = unsafe {
                    write_lane(second, file, half..end, request, memory, MEMORY - share, 8, &clock, cancel)
                };
                // Alone, the other direction would be faster.
                clock.stop();
                let bytes = run.map_err(|e| e.at(dir))?;
                sync_buffered(file, dir).map(|()| bytes)
            });
            // SAFETY: the first three quarters of the frame are this lane's alone, and frame and file
            // outlive the scope.
            let run = unsafe { read_lane(first, file, &order, memory, share, 16, &clock, cancel) };
            clock.stop();
            (run.map_err(|e| e.at(dir)), writer.join().expect("writing does not panic"))
        });
        Ok((read? + written?) as f64 / seconds_since(clock.started))
    }
}

/// Measures at a depth, for a time, and gives bytes in a second.
type Measurement<'m, 'a> = dyn FnMut(&mut Bench<'a>, usize, Duration) -> Result<f64> + 'm;

/// A frame's memory, in the hands of several threads.
#[derive(Clone, Copy)]
struct Memory(*mut u8);

// SAFETY: a pointer alone gives no access; those who use it say why they may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn part(self, offset: usize) -> Memory {
        Memory(self.0.wrapping_add(offset))
    }
}

/// When a measurement ends.
struct Clock {
    started: Instant,
    time: Duration,
    stopped: AtomicBool,
}

impl Clock {
    fn new(time: Duration) -> Clock {
        Clock { started: Instant::now(), time, stopped: AtomicBool::new(false) }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.started.elapsed() >= self.time
    }
}

fn seconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64().max(1e-9)
}

/// The blocks of a file in random order, each once.
struct Order {
    request: usize,
    blocks: Vec<u32>,
    next: AtomicUsize,
}

impl Order {
    fn new(request: usize, len: u64) -> Order {
        let mut blocks: Vec<u32> = (0..(len / request as u64) as u32).collect();
        let mut random = Random::new();
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        Order { request, blocks, next: AtomicUsize::new(0) }
    }

    /// Starts anew where less than half of the blocks are left.
    fn rewind_if_short(&self) {
        if self.next.load(Ordering::Relaxed) > self.blocks.len() / 2 {
            self.next.store(0, Ordering::Relaxed);
        }
    }

    fn take(&self) -> Option<u64> {
        let block = self.blocks.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        Some(u64::from(*block) * self.request as u64)
    }
}

/// Reads until the time is over or every block was read, at least one block; gives the bytes.
///
/// # Safety
/// `memory` has `share` bytes, which nobody else uses until this returns.
#[allow(clippy::too_many_arguments, reason = "a loop that is used twice")]
unsafe fn read_lane(
    queue: &mut IoQueue,
    file: &DiskFile,
    order: &Order,
    memory: Memory,
    share: usize,
    depth: usize,
    clock: &Clock,
    cancel: &Cancel,
) -> Result<u64, crate::io::queue::TransferError> {
    let request = order.request;
    let slots = share / request;
    let mut bytes = 0;
    loop {
        let mut used = 0;
        let mut transfers = from_fn(|| {
            if used == slots || (bytes > 0 && clock.is_over()) {
                return None;
            }
            let offset = order.take()?;
            let at = memory.part(used * request);
            used += 1;
            bytes += request as u64;
            Some(Transfer::read(file, offset, at.0, request, request))
        });
        // SAFETY: within one run, every transfer has its own memory.
        unsafe { queue.run(&mut transfers, request, depth, cancel) }?;
        if used < slots {
            return Ok(bytes);
        }
    }
}

/// Writes one request after the other until the time is over or the range is full, at least one
/// request where it has room for one; gives the bytes.
///
/// # Safety
/// `memory` has `share` bytes, to which nobody writes until this returns.
#[allow(clippy::too_many_arguments, reason = "a loop that is used twice")]
unsafe fn write_lane(
    queue: &mut IoQueue,
    file: &DiskFile,
    range: std::ops::Range<u64>,
    request: usize,
    memory: Memory,
    share: usize,
    depth: usize,
    clock: &Clock,
    cancel: &Cancel,
) -> Result<u64, crate::io::queue::TransferError> {
    let slots = share / request;
    let mut bytes = 0;
    let mut transfers = from_fn(|| {
        let offset = range.start + bytes;
        if offset + request as u64 > range.end || (bytes > 0 && clock.is_over()) {
            return None;
        }
        let at = memory.part((bytes as usize / request) % slots * request);
        bytes += request as u64;
        Some(Transfer::write(file, offset, at.0, request))
    });
    // SAFETY: passed on from the caller.
    unsafe { queue.run(&mut transfers, request, depth, cancel) }?;
    Ok(bytes)
}

/// An allocated file without a name.
fn make_file(disk: &Disk, dir: &Path, len: u64) -> Result<DiskFile> {
    let path = dir.join(format!(".outcrop-profile-{}", std::process::id()));
    let mut attempts = 0;
    let file = loop {
        // Allocated only when it has lost its name, because that may take a while.
        match disk.create(&path, 0) {
            // Left by a process of the same number, or about to be unlinked by another thread of this one.
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists && attempts < 100 =>
            {
                attempts += 1;
                let _ = std::fs::remove_file(&path);
            }
            Err(Error::Io { action, source, .. }) => {
                return Err(Error::Io { path: dir.into(), action, source });
            }
            other => break other?,
        }
    };
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(&path, "remove the file", e)),
        _ => {}
    }
    use rustix::io::Errno;
    let allocated = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(&file, len),
        other => other,
    };
    match allocated {
        Ok(()) => Ok(file),
        Err(Errno::NOSPC | Errno::DQUOT) => {
            Err(Error::NoSpace { path: dir.into(), needed: len, free: free_space(dir).unwrap_or(0) })
        }
        Err(e) => Err(Error::io(dir, format!("allocate {len} bytes"), e)),
    }
}

/// Marks a range as allocated and not written. Where the file system cannot do that, writes are
/// measured as overwriting, which is all there is on most of those.
fn forget_extents(file: &DiskFile, offset: u64, len: u64) {
    if let Err(error) = rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, offset, len) {
        log::debug!("measuring overwriting, not writing: {error}");
    }
}

fn sync_buffered(file: &DiskFile, dir: &Path) -> Result<()> {
    if file.is_direct() {
        return Ok(());
    }
    rustix::fs::fdatasync(file).map_err(|e| Error::io(dir, "make the data durable", e))
}

/// Random numbers (SplitMix64), not secret ones.
struct Random(u64);

impl Random {
    /// Different every time: a device that has seen the same bytes before might not write them.
    fn new() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Random(now ^ u64::from(std::process::id()) << 32)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Bytes that cannot be compressed.
fn fill_randomly(bytes: &mut [u8]) {
    let mut random = Random::new();
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::EngineChoice;

    fn quickly(choice: EngineChoice) {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(choice).unwrap();
        let mut steps = Vec::new();
        let profile = measure(&disk, dir.path(), true, &Cancel::default(), &mut |done, total| {
            steps.push((done, total));
        });
        let profile = profile.unwrap();
        assert!(profile.is_sound() && profile.quick, "{profile:?}");
        assert_eq!(profile.engine, disk.engine());
        assert_eq!(profile.reads.len(), profile.writes.len());
        let total = steps[0].1;
        assert!(steps.iter().enumerate().all(|(i, &step)| step == (i as u64, total)), "{steps:?}");
        assert_eq!(steps.len() as u64, total + 1);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
    }

    #[test]
    fn both_engines_are_measured_and_leave_nothing() {
        quickly(EngineChoice::Auto);
        quickly(EngineChoice::Threads);
    }

    #[test]
    fn interrupted_it_stops_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let cancel = Cancel::default();
        let result = measure(&disk, dir.path(), false, &cancel, &mut |done, _| {
            if done == 2 {
                cancel.cancel();
            }
        });
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn refusals_are_typed_and_name_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let measured = |faults: &str| {
            disk.set_faults(Some(Arc::new(faults.parse().unwrap())));
            measure(&disk, dir.path(), true, &Cancel::default(), &mut |_, _| {})
        };
        let refused = measured("create:1:eperm:once");
        assert!(matches!(&refused, Err(Error::Io { path, .. }) if path == dir.path()), "{refused:?}");
        let full = measured("write:3:enospc:always");
        assert!(matches!(&full, Err(Error::NoSpace { path, .. }) if path == dir.path()), "{full:?}");
        let broken = measured("read:5:eio:always");
        assert!(matches!(&broken, Err(Error::Io { path, .. }) if path == dir.path()), "{broken:?}");
        let missing = measure(&disk, &dir.path().join("missing"), true, &Cancel::default(), &mut |_, _| {});
        assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_is_taken_does_not_stop_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        std::fs::write(dir.path().join(format!(".outcrop-profile-{}", std::process::id())), "left over")
            .unwrap();
        let file = make_file(&disk, dir.path(), PART).unwrap();
        assert_eq!(file.len().unwrap(), PART);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_order_has_every_block_once() {
        let order = Order::new(4096, 1000 * 4096 + 17);
        let mut offsets: Vec<u64> = from_fn(|| order.take()).collect();
        assert!(!offsets.is_sorted());
        offsets.sort_unstable();
        assert!(
            offsets.iter().enumerate().all(|(i, &offset)| offset == i as u64 * 4096) && offsets.len() == 1000
        );
        order.rewind_if_short();
        assert!(order.take().is_some());
    }
}
