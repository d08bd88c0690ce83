//! The process's disk, budget and resident tiles.

use crate::report::{Report, peak_rss};
use crate::resident::Resident;
use outcrop_store::frame::{Budget, Frame, charged};
use outcrop_store::io::disk::{Tuning, device_of, parent_of};
use outcrop_store::io::{Cancel, Disk, EngineChoice};
use outcrop_store::store::Mover;
use outcrop_store::{Error, Result, profile};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// How long a run waits for memory that other runs hold.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that work on arrays shares.
pub struct Runtime {
    settings: Settings,
    disk: Arc<Disk>,
    budget: Arc<Budget>,
    resident: Mutex<Resident>,
    /// Runs under way, on any thread.
    running: AtomicUsize,
    last_run: Mutex<Option<Report>>,
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
        Ok(Arc::new(Runtime {
            settings,
            disk,
            budget,
            resident: Mutex::default(),
            running: AtomicUsize::new(0),
            last_run: Mutex::default(),
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
        if fresh.settings.engine == self.settings.engine
            && let Some(fresh) = Arc::get_mut(&mut fresh)
        {
            fresh.disk = Arc::clone(&self.disk);
        }
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
        let start = Instant::now();
        loop {
            self.make_room(bytes, purpose)?;
            match take() {
                Err(Error::Budget { .. }) if start.elapsed() < PATIENCE => {}
                other => return other,
            }
        }
    }

    /// Sees to it that `bytes` more can be charged, if resident tiles are what stands in the way.
    ///
    /// # Errors
    /// [`Error::Budget`], naming the least budget; those of writing resident tiles out.
    pub fn make_room(&self, bytes: usize, purpose: &str) -> Result<()> {
        let needed = charged(bytes);
        let start = Instant::now();
        while self.budget.used() + needed > self.budget.limit() {
            if !self.release_something()? {
                // What other threads' runs hold comes back when they end; not for ever, since they
                // may be waiting for this one.
                if self.running.load(Ordering::Relaxed) > 0 && start.elapsed() < PATIENCE {
                    self.budget.wait_for_return(Duration::from_millis(20));
                    continue;
                }
                return Err(Error::Budget {
                    purpose: purpose.into(),
                    needed: (self.budget.used() + needed) as u64,
                    budget: self.budget.limit() as u64,
                });
            }
        }
        Ok(())
    }

    /// Lets go of the resident tile that was used longest ago; `false` where there is none.
    ///
    /// # Errors
    /// Those of writing it out.
    pub fn release_something(&self) -> Result<bool> {
        self.resident().evict_one(self)
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

    /// Starts the account of a run.
    pub fn meter(&self, operation: &'static str) -> Meter<'_> {
        self.budget.reset_peak();
        self.running.fetch_add(1, Ordering::Relaxed);
        let counters = self.disk.counters();
        Meter {
            runtime: self,
            operation,
            read: counters.read(),
            written: counters.written(),
            start: Instant::now(),
        }
    }

    /// The report of the last run, if there was one.
    pub fn last_run(&self) -> Option<Report> {
        self.last_run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the report of a run.
    pub fn set_last_run(&self, report: Report) {
        *self.last_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }
}

/// A run's account being kept.
pub struct Meter<'a> {
    runtime: &'a Runtime,
    operation: &'static str,
    read: u64,
    written: u64,
    start: Instant,
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.runtime.running.fetch_sub(1, Ordering::Relaxed);
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
