//! The process's disk, budget and resident tiles.
//!
//! - [`memory`]: how much the process may have. `room`: what becomes of a budget that several want.
//! - [`run_queue`]: one run at a time. `accounts`: what runs cost.
//! - [`resident`]: tiles that stay in memory between small reads and writes. `between_runs`: those that a run leaves
//!   to the next one.
//! - [`scratch`]: where temporaries go that memory has no room for.

mod accounts;
mod between_runs;
pub mod memory;
pub mod resident;
mod room;
pub mod run_queue;
pub mod scratch;

use crate::watch::Watch;
use accounts::Accounts;
pub use accounts::{COMMIT, Meter, Operation};
use outcrop_store::frame::Budget;
use outcrop_store::io::disk::{Tuning, device_of, parent_of};
use outcrop_store::io::{Cancel, Disk, EngineChoice};
use outcrop_store::{Error, Result, profile};
use resident::Resident;
use room::Borrower;
pub(crate) use room::beside_arrays;
pub use room::{Borrowing, PATIENCE, beside_callbacks, left_to_callbacks};
use run_queue::{Turn, Turns};
use scratch::{Kept, yields};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}
