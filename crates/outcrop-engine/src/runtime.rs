//! The process's disk, budget and resident tiles.

use crate::device::Device;
use crate::measured::Measured;
use crate::program::{Program, Role, TileId};
use crate::report::{Report, peak_rss};
use crate::resident::Resident;
use crate::run_queue::{Turn, Turns, is_working};
use crate::scratch::{self, Scratch};
use crate::speeds::Speeds;
use crate::watch::Watch;
use outcrop_store::format::crc32c;
use outcrop_store::frame::{Budget, Charge, Frame, charged, fitted};
use outcrop_store::io::disk::{Tuning, device_of, parent_of};
use outcrop_store::io::{Cancel, Disk, EngineChoice};
use outcrop_store::store::{Mover, Store};
use outcrop_store::{Error, Result, profile};
use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Memory as a thread supposes it to be while it plans what would run with more or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supposed {
    /// The budget in bytes, if not as it is.
    pub limit: Option<usize>,
    /// Bytes that others have besides those that they have.
    pub elsewhere: usize,
}

thread_local! {
    static SUPPOSED: Cell<Supposed> = const { Cell::new(Supposed { limit: None, elsewhere: 0 }) };
}

/// Supposes what this thread plans with; gives what it did before. Nothing may run meanwhile.
pub fn suppose(supposed: Supposed) -> Supposed {
    SUPPOSED.replace(supposed)
}

/// What a user may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The budget in bytes.
    pub memory: usize,
    /// Threads for computing.
    pub threads: usize,
    /// Where spilled temporaries go.
    pub scratch: Option<PathBuf>,
    /// The I/O engine.
    pub engine: EngineChoice,
}

/// The least budget that anything works with.
pub const LEAST_MEMORY: usize = 256 << 10;

/// Runs that move less do not wait for a device profile to be measured.
const WORTH_MEASURING: u64 = 512 << 20;

/// Bytes of a request by which a device's speed is judged.
const LARGE: u64 = 2 << 20;
/// Bytes of a request that takes hardly longer than one of a byte.
const SMALL: u64 = 4096;

/// The name of what makes an array visible, after which no operation is called.
pub const COMMIT: &str = "commit";

/// How often room is made for what another thread then takes first, at most.
const MOST_RACES: usize = 1000;

/// How long a run waits for memory that others hold.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that work on arrays shares.
pub struct Runtime {
    settings: Settings,
    disk: Arc<Disk>,
    budget: Arc<Budget>,
    resident: Mutex<Resident>,
    /// Kept between runs: writing where something was written before is faster. It goes with a run that fails,
    /// with new settings, and when somebody wants its space.
    scratch: Kept,
    borrowers: Arc<Mutex<Vec<Borrower>>>,
    turns: Arc<Turns>,
    accounts: Arc<Mutex<Accounts>>,
}

type Kept = Arc<Mutex<Option<Scratch>>>;

/// Scratch space of a run. It goes with this, unless it is [kept](Self::keep).
pub struct Lease {
    scratch: Scratch,
    kept: Kept,
}

impl std::ops::Deref for Lease {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Lease {
    /// Lets the next run have it, where that leaves most of the file system to others.
    pub fn keep(self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let larger = kept.as_ref().is_none_or(|other| other.len() < self.scratch.len());
        if larger && self.scratch.is_small_beside_what_is_left() {
            *kept = Some(self.scratch);
        }
    }
}

/// A thread that has memory of the budget, and will give it back by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Borrower {
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

/// What runs cost.
#[derive(Default)]
struct Accounts {
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
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// Whether the tiles of a program's array lie in memory as those of the store do. A box at an array's edge may be a
/// tile of both, with rows of another length.
fn lies_as_stored(array: &crate::program::Array, store: &Arc<dyn Store>) -> bool {
    // Tiles that others have encoded are in memory for small reads, but not given out.
    store.moves_whole_tiles()
        && array.tile_shape() == store.info().tile.as_slice()
        && !array.skewed
        && !store.is_changed_by_others()
}

/// What needs memory, and how much of the budget cannot be had for it because of what the user holds.
pub(crate) fn beside_arrays(purpose: &str, held: usize) -> String {
    match held {
        0 => purpose.into(),
        held => format!("{purpose}, with {held} bytes held by arrays in memory (its own result, perhaps),"),
    }
}

/// Lets scratch space go that is kept when the disk needs its space.
fn yields(disk: &Disk, scratch: &Kept) {
    let scratch = Arc::downgrade(scratch);
    disk.set_reclaim(move || {
        let kept = scratch.upgrade();
        kept.is_some_and(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner).take().is_some())
    });
}

impl Runtime {
    /// A runtime with these settings.
    ///
    /// # Errors
    /// [`Error::Budget`] below [`LEAST_MEMORY`]; [`Error::Invalid`] where the engine does not work.
    pub fn new(settings: Settings) -> Result<Arc<Runtime>> {
        if settings.memory < LEAST_MEMORY {
            let (needed, budget) = (LEAST_MEMORY as u64, settings.memory as u64);
            return Err(Error::Budget { purpose: "anything at all".into(), needed, budget });
        }
        let disk = Disk::new(settings.engine)?;
        let budget = Budget::new(settings.memory);
        let scratch = Kept::default();
        yields(&disk, &scratch);
        Ok(Arc::new(Runtime {
            settings,
            disk,
            budget,
            resident: Mutex::default(),
            scratch,
            borrowers: Arc::default(),
            turns: Arc::default(),
            accounts: Arc::default(),
        }))
    }

    /// A runtime with other settings in this one's place. Changed tiles are written out first; the
    /// disk, with its counters, stays where the engine does.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and those of writing tiles out.
    pub fn reconfigured(&self, settings: Settings) -> Result<Arc<Runtime>> {
        while self.release_something()? {}
        self.budget.trim();
        let mut fresh = Runtime::new(settings)?;
        let own = Arc::get_mut(&mut fresh).expect("nobody else has it yet");
        if own.settings.engine == self.settings.engine {
            own.disk = Arc::clone(&self.disk);
            yields(&own.disk, &own.scratch);
            self.let_scratch_go();
        }
        own.turns = Arc::clone(&self.turns);
        own.accounts = Arc::clone(&self.accounts);
        Ok(fresh)
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Files.
    pub fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// Memory.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Tiles that stay in memory between small reads and writes.
    pub fn resident(&self) -> MutexGuard<'_, Resident> {
        // A panic while tiles are moved leaves entries that are complete or absent.
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    /// Makes room and takes it, again where another thread was quicker in between.
    fn with_room<T>(&self, bytes: usize, purpose: &str, take: impl Fn() -> Result<T>) -> Result<T> {
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
            let used = self.budget.used();
            let beside = is_working() || self.turns.before_another(&self.budget).is_some();
            let purpose = if beside {
                format!("{purpose}, beside what is being computed,")
            } else {
                beside_arrays(purpose, used)
            };
            return Err(Error::Budget {
                purpose,
                needed: (used + charged(bytes)) as u64,
                budget: self.budget.limit() as u64,
            });
        }
    }

    /// Declares that this thread has memory for a while, for something else than a run.
    pub fn borrow(&self) -> Borrowing {
        self.borrow_for(false)
    }

    fn borrow_for(&self, is_run: bool) -> Borrowing {
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

    /// The directory for scratch.
    pub fn scratch_dir(&self) -> PathBuf {
        self.settings.scratch.clone().unwrap_or_else(scratch::default_dir)
    }

    /// Scratch space of at least so many bytes, for one run; `None` where none are needed.
    ///
    /// # Errors
    /// [`Error::NoSpace`] naming the directory; the operating system's.
    pub fn scratch(&self, bytes: u64) -> Result<Option<Lease>> {
        if bytes == 0 {
            return Ok(None);
        }
        // What is too small goes first: its space may be what the larger one needs.
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let scratch = match kept.filter(|s| s.len() >= bytes) {
            Some(scratch) => scratch,
            None => Scratch::new(&self.disk, &self.scratch_dir(), bytes)?,
        };
        Ok(Some(Lease { scratch, kept: Arc::clone(&self.scratch) }))
    }

    /// Bytes of scratch space that are kept for the next run.
    pub fn scratch_held(&self) -> u64 {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Scratch::len)
    }

    /// Keeps no scratch space any longer.
    pub fn let_scratch_go(&self) {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Which tiles of a program's stored arrays are in memory. Changed ones are written out first.
    ///
    /// # Errors
    /// Those of writing.
    pub fn resident_tiles(
        &self,
        program: &Program,
        stores: &[Option<Arc<dyn Store>>],
    ) -> Result<Vec<TileId>> {
        let mut resident = self.resident();
        let mut found = Vec::new();
        // A tile that two arrays of the program share goes to the first.
        let mut given = HashSet::new();
        for (i, (array, store)) in program.arrays().iter().zip(stores).enumerate() {
            let Some(store) = store.as_ref().filter(|_| array.role == Role::Input) else { continue };
            let mut origin = store;
            while let Some(inner) = origin.origin() {
                origin = inner;
            }
            resident.flush(self, origin)?;
            if !lies_as_stored(array, store) {
                continue;
            }
            for region in resident.regions(store) {
                let tile = program.tile_of_box(i, &region);
                let tile = tile.filter(|&t| program.frame(t) == fitted(store.tile_frame()));
                if let Some(tile) = tile
                    && given.insert((Arc::as_ptr(store).cast::<()>() as usize, region))
                {
                    found.push(tile);
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Bytes of the budget that resident tiles have.
    pub fn resident_bytes(&self) -> usize {
        self.resident().bytes()
    }

    /// Takes tiles of [`resident_tiles`](Self::resident_tiles) for a run; `None`, and takes none, where
    /// one has gone since.
    pub fn adopt(
        &self,
        program: &Program,
        stores: &[Option<Arc<dyn Store>>],
        tiles: &[TileId],
    ) -> Option<Vec<Frame>> {
        let mut resident = self.resident();
        let mut taken = Vec::with_capacity(tiles.len());
        for &tile in tiles {
            let store = stores[program.array_of(tile).0 as usize].as_ref();
            match store.and_then(|store| resident.take(store, &program.stored_region(tile))) {
                Some(frame) => taken.push(frame),
                None => {
                    drop(resident);
                    let back = tiles.iter().copied().zip(taken).collect();
                    self.keep(program, stores, back);
                    return None;
                }
            }
        }
        Some(taken)
    }

    /// Keeps tiles that a run leaves, as they are stored, for small reads and the next run.
    pub fn keep(&self, program: &Program, stores: &[Option<Arc<dyn Store>>], tiles: Vec<(TileId, Frame)>) {
        let mut resident = self.resident();
        for (tile, frame) in tiles {
            let array = program.array_of(tile);
            let store = stores[array.0 as usize].as_ref();
            if let Some(store) = store.filter(|store| lies_as_stored(program.array_at(array), store)) {
                resident.put(store, program.stored_region(tile), frame);
            }
        }
    }

    /// Sees to it that the request sizes that suit an array's device are known, before a run that
    /// moves `bytes` bytes there. Where there is no profile yet, one is measured, quickly; small runs
    /// are not worth that.
    pub fn tune(&self, array: &Path, bytes: u64) {
        let dir = parent_of(array);
        let Ok(device) = device_of(dir) else { return };
        if bytes < WORTH_MEASURING || self.disk.is_tuned(device) {
            return;
        }
        let tuning = match profile::ensure(&self.disk, dir, &Cancel::default()) {
            Ok(profile) => profile.tuning(),
            Err(error) => {
                // Such as a read-only directory: the defaults suit most devices.
                log::debug!("{}: no device profile: {error}", dir.display());
                Tuning::default()
            }
        };
        self.disk.set_tuning(device, tuning);
    }

    /// The speeds of the device that an array is on, for predictions of runs that move `bytes` bytes
    /// there; made up where the device is not known and the run is small.
    pub fn speeds(&self, array: &Path, bytes: u64) -> Speeds {
        self.tune(array, bytes);
        let threads = self.settings.threads;
        let profile = profile::load(parent_of(array)).ok().flatten();
        match profile.filter(|p| p.engine == self.disk.engine()) {
            Some(profile) => {
                let rate = |seconds: f64| LARGE as f64 / seconds.max(1e-9);
                let read = rate(profile.read_seconds(LARGE, 1));
                // Results are written where nothing was before.
                let write = rate(profile.write_seconds(LARGE, 1)).min(profile.first_writes.bytes_per_second);
                let both = profile.first_both.bytes_per_second.max(read).max(write);
                let request = (profile.read_seconds(SMALL, 1) - SMALL as f64 / read).max(0.0);
                Speeds { read, write, both, request, checksum: checksum_rate(), threads }
            }
            None => {
                let (read, write, both, request) = (1e9, 1e9, 1.5e9, 16e-6);
                Speeds { read, write, both, request, checksum: checksum_rate(), threads }
            }
        }
    }

    /// The device that an array is on, for runs that move `bytes` bytes there.
    pub fn device(&self, array: &Path, bytes: u64) -> Device {
        self.tune(array, bytes);
        let profile = profile::load(parent_of(array)).ok().flatten();
        Device::new(profile.filter(|p| p.engine == self.disk.engine()))
    }

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

    /// Waits for this thread's turn to have the memory there is.
    ///
    /// # Errors
    /// Those of [`Turns::wait`].
    pub fn turn(&self, watch: &mut dyn Watch) -> Result<Turn> {
        self.turns.wait(&self.budget, || self.used_now(), watch)
    }

    /// Bytes of the budget that a run of this thread cannot have, such as arrays that the user holds.
    /// What another thread's run has will come back before it begins, and what is resident makes room.
    pub fn used_elsewhere(&self) -> usize {
        let used = self.turns.before_another(&self.budget).unwrap_or_else(|| self.used_now());
        used + SUPPOSED.get().elsewhere
    }

    /// The budget in bytes, for plans.
    pub fn limit(&self) -> usize {
        SUPPOSED.get().limit.unwrap_or_else(|| self.budget.limit())
    }

    fn used_now(&self) -> usize {
        self.budget.used().saturating_sub(self.resident_bytes())
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

/// Bytes in a second that one thread computes the checksum of. Measured once, in a few milliseconds.
fn checksum_rate() -> f64 {
    static RATE: Measured = Measured::new();
    RATE.get_or_try(1e10, || {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(16 << 20).ok()?;
        bytes.resize(16 << 20, 1);
        let begin = Instant::now();
        std::hint::black_box(crc32c(&bytes));
        Some(bytes.len() as f64 / begin.elapsed().as_secs_f64().max(1e-9))
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn runtime() -> Arc<Runtime> {
        let settings = Settings { memory: 1 << 20, threads: 1, scratch: None, engine: EngineChoice::Threads };
        Runtime::new(settings).unwrap()
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
