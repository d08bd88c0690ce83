//! A program, scheduled for the memory there is.
//!
//! - `choose`: how that memory is divided among threads, tiles and the rest.
//! - [`predict`](mod@predict): how long a schedule takes. [`speeds`]: what that assumes of the machine.
//! - [`device`]: how long a device takes for requests of any size. [`measured`]: numbers that are measured once.

mod choose;
pub mod device;
pub mod measured;
pub mod predict;
pub mod speeds;

use crate::execute::{self, Crew, Timeline, Work};
use crate::program::{ARGUMENT_BYTES, Caller, OPERAND_BYTES, Program, Role, STEP_BYTES, TileId};
use crate::report::Report;
use crate::runtime::{Runtime, beside_arrays, beside_callbacks};
use crate::schedule::{self, EVENT_BYTES, Schedule};
use crate::watch::Watch;
use choose::{SHORT, bookkeeping, divide, fit, fixed, least_limit, smallest};
use outcrop_store::frame::charged;
use outcrop_store::store::Store;
use outcrop_store::{Error, Result};
use predict::{Prediction, predict};
use speeds::Speeds;
use std::sync::Arc;

/// The stores of a program's arrays, by number; `None` for temporaries, and for outputs that are not there yet.
pub type Stores<'a> = &'a [Option<Arc<dyn Store>>];

/// A program with its schedule, its crew and what is expected of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: Program,
    /// Its schedule.
    pub schedule: Schedule,
    /// Who does the work.
    pub crew: Crew,
    /// How long it takes.
    pub prediction: Prediction,
    /// What the prediction assumed.
    pub speeds: Speeds,
    /// Bytes that the commits of outputs write.
    pub commit: u64,
    /// The tiles that were in memory when it was made.
    resident: Vec<TileId>,
}

impl Plan {
    /// Bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.schedule.bytes_read()
    }

    /// Bytes written, commits included.
    pub fn bytes_written(&self) -> u64 {
        self.schedule.bytes_written() + self.commit
    }

    /// Whether it is faster than another plan for the same job, or as fast to within a twentieth and moves less.
    pub fn is_better_than(&self, other: &Plan) -> bool {
        let (a, b) = (self.prediction.seconds, other.prediction.seconds);
        let moved = |p: &Plan| p.bytes_read() + p.bytes_written();
        if (a - b).abs() <= 0.05 * b { moved(self) < moved(other) } else { a < b }
    }

    /// Bytes of the budget in use at once, at most: tiles with those that run ahead, staging memory,
    /// workspaces, and the program itself.
    pub fn peak_bytes(&self) -> usize {
        fixed(&self.program, &self.crew) + bookkeeping(&self.program, &self.schedule) + self.crew.room
    }

    /// Runs it. `stores` are the stores of all arrays, by number; `None` for temporaries. The outputs
    /// are committed if it `commits`, and aborted where there is an error. Where other tiles are in memory
    /// now than when the plan was made, or less memory is free, it is scheduled anew. While another
    /// thread's run is under way, this one waits.
    ///
    /// # Errors
    /// Those of [`execute::run`].
    pub fn run(
        &self,
        runtime: &Runtime,
        stores: &[Option<Arc<dyn Store>>],
        caller: &dyn Caller,
        commits: bool,
        timeline: Option<&Timeline>,
        watch: &mut dyn Watch,
    ) -> Result<Report> {
        let _turn = runtime.turn(watch)?;
        let changed = runtime.resident_tiles(&self.program, stores)? != self.resident
            || available(runtime).0 < self.peak_bytes();
        let fresh = if changed {
            Some(plan(runtime, self.program.clone(), stores, self.speeds, true, watch)?)
        } else {
            None
        };
        let Plan { program, schedule, crew, .. } = fresh.as_ref().unwrap_or(self);
        execute::run(runtime, &Work { program, schedule, stores, caller, commits }, *crew, timeline, watch)
    }
}

/// The error of a budget that is too small for `what`.
fn too_little(runtime: &Runtime, what: &str, needed: u64) -> Error {
    let purpose = beside_arrays(what, available(runtime).1);
    Error::Budget { purpose, needed, budget: runtime.limit() as u64 }
}

/// Bytes for the tiles of a program's schedule, those that run ahead not counted; 0 where there is no
/// room. The program has its arrays, but not its steps: there will be so many, of three operands, the largest of
/// which has tiles of `least` bytes. Programs are made to measure with this.
///
/// # Errors
/// [`Error::Budget`] where the steps alone are more than there is memory, so that they are better not made.
pub fn capacity(
    runtime: &Runtime,
    program: &Program,
    steps: u64,
    speeds: Speeds,
    least: usize,
) -> Result<usize> {
    let steps = usize::try_from(steps).unwrap_or(usize::MAX);
    if steps > SHORT {
        check_steps(runtime, program, (steps, steps.saturating_mul(3), 0), least)?;
    }
    let books = steps.saturating_mul(STEP_BYTES + 3 * OPERAND_BYTES + 2 * EVENT_BYTES);
    let books = books.saturating_add(program.bytes() + EVENT_BYTES * program.tiles());
    let limit = available(runtime).0;
    Ok(divide(program, books, limit, speeds, least).map_or(0, |(_, capacity)| capacity))
}

/// Looks whether so many steps, with so many operands and arguments in all, may fit into memory. The program has its
/// arrays, but not its steps, and better gets none where they do not. The largest step has tiles of `least` bytes.
///
/// # Errors
/// [`Error::Budget`] naming a budget that would do.
pub fn check_steps(
    runtime: &Runtime,
    program: &Program,
    (steps, operands, arguments): (usize, usize, usize),
    least: usize,
) -> Result<()> {
    let (limit, elsewhere) = available(runtime);
    let bare = fixed(program, &smallest(program, 0)) + least + program.bytes();
    let bare = bare.saturating_add(arguments.saturating_mul(ARGUMENT_BYTES));
    let bytes = |of_step: usize, of_operand: usize| {
        let (all, of_operands) = (steps.saturating_mul(of_step), operands.saturating_mul(of_operand));
        all.saturating_add(of_operands).saturating_add(bare)
    };
    // Each tile comes into memory once, at least.
    let fewest = bytes(STEP_BYTES + EVENT_BYTES, OPERAND_BYTES).saturating_add(EVENT_BYTES * program.tiles());
    if fewest <= limit {
        return Ok(());
    }
    // A step that finds none of its tiles in memory loads and drops each, and stores what others have left.
    let most = bytes(STEP_BYTES + EVENT_BYTES, OPERAND_BYTES + 3 * EVENT_BYTES).saturating_add(elsewhere);
    let needed = if program.calls_back { beside_callbacks(most) } else { most };
    Err(too_little(runtime, program.name, with_staging(program, needed) as u64))
}

/// Bytes of the budget that a run may have, and those that others have.
fn available(runtime: &Runtime) -> (usize, usize) {
    let elsewhere = runtime.used_elsewhere();
    (runtime.limit().saturating_sub(elsewhere), elsewhere)
}

/// Plans a program. With it come the stores of its arrays, by number; outputs need not be there yet. `speeds` are those
/// of the device that has most of the data.
///
/// # Errors
/// [`Error::Budget`] naming a budget that would do, which is the least, roughly, if it `names_least`: that takes much
/// longer than to see that it does not fit; those of the stores; [`Error::Interrupted`] where the watch says so.
pub fn plan(
    runtime: &Runtime,
    mut program: Program,
    stores: &[Option<Arc<dyn Store>>],
    speeds: Speeds,
    names_least: bool,
    watch: &mut dyn Watch,
) -> Result<Plan> {
    // It stands in memory beside the tiles.
    program.shrink();
    let resident = runtime.resident_tiles(&program, stores)?;
    let (limit, elsewhere) = available(runtime);
    let least = program.largest_step();
    let fitting = match fit(&program, limit, speeds, least, &resident, watch)? {
        // Tiles that leave cost a few bytes of bookkeeping, too.
        None if !resident.is_empty() => fit(&program, limit, speeds, least, &[], watch)?,
        other => other,
    };
    let (crew, schedule) = match fitting {
        Some(fitting) => fitting,
        None => {
            let needed = elsewhere + least_limit(&program, speeds, least, names_least, watch)?;
            return Err(too_little(runtime, program.name, with_staging(&program, needed) as u64));
        }
    };
    // With the threads that there is memory for.
    let crews = Speeds { threads: crew.threads, ..speeds };
    let prediction = predict(&program, &schedule, crews, crew.room, watch)?;
    let outputs = program.arrays().iter().filter(|a| a.role == Role::Output);
    let commit = outputs.map(|a| a.commit).sum();
    Ok(Plan { program, schedule, crew, prediction, speeds, commit, resident })
}

/// The part of what one thread leaves that tiles have in [`moved_anyway`], in sixteenths.
const SIXTEENTHS: usize = 15;

/// Bytes that a program reads and writes with most of the budget for its tiles, whatever threads, speeds and other memory
/// there are: by this programs are compared whose results differ in their last bits. `None` where they do not fit.
///
/// # Errors
/// [`Error::Interrupted`] where the watch says so.
pub fn moved_anyway(
    runtime: &Runtime,
    program: &Program,
    watch: &mut dyn Watch,
) -> Result<Option<(u64, u64)>> {
    let others = fixed(program, &smallest(program, runtime.limit())) + program.bytes();
    let left = runtime.limit().saturating_sub(others);
    if left < program.largest_step() {
        return Ok(None);
    }
    let capacity = (left / 16 * SIXTEENTHS).max(program.largest_step());
    let schedule = schedule::best(program, capacity, &[], watch)?;
    Ok(Some((schedule.bytes_read(), schedule.bytes_written())))
}

/// A budget that would do, with what loads take more of it than of this one.
fn with_staging(program: &Program, needed: usize) -> usize {
    match program.staging_part {
        0 => needed,
        part => needed.saturating_add(charged(needed / (part - 1))),
    }
}
