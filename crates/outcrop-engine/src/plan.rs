//! A program, scheduled for the memory there is.

use crate::execute::{self, Crew, Timeline, Work};
use crate::predict::{Prediction, predict};
use crate::program::{ARGUMENT_BYTES, Caller, OPERAND_BYTES, Program, Role, STEP_BYTES, TileId};
use crate::report::Report;
use crate::runtime::{Runtime, beside_arrays};
use crate::schedule::{self, Action, EVENT_BYTES, Schedule};
use crate::speeds::Speeds;
use crate::watch::Watch;
use outcrop_store::frame::charged;
use outcrop_store::store::Store;
use outcrop_store::{Error, Result};
use std::sync::Arc;

/// Loader and storer threads, where memory allows. Each keeps one tile in flight.
const MOVERS: usize = 4;

/// Seconds of reading by which loads should run ahead of the steps: steps differ in length, and the
/// disk in speed, from moment to moment.
const AHEAD_SECONDS: f64 = 0.02;
/// Bytes of that, at most: of what a fast device reads in a moment, more is worth more as tiles that stay.
const AHEAD_MOST: usize = 48 << 20;

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

    /// Whether it is faster than another plan for the same job, or as fast to within a hundredth and moves less.
    pub fn is_better_than(&self, other: &Plan) -> bool {
        let (a, b) = (self.prediction.seconds, other.prediction.seconds);
        let moved = |p: &Plan| p.bytes_read() + p.bytes_written();
        if (a - b).abs() <= 0.01 * b { moved(self) < moved(other) } else { a < b }
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
            Some(plan(runtime, self.program.clone(), stores, self.speeds, watch)?)
        } else {
            None
        };
        let Plan { program, schedule, crew, .. } = fresh.as_ref().unwrap_or(self);
        execute::run(runtime, &Work { program, schedule, stores, caller, commits }, *crew, timeline, watch)
    }
}

/// Memory that does not hold tiles: workspaces and staging.
fn fixed(program: &Program, crew: &Crew) -> usize {
    let staging = |bytes: usize| if bytes == 0 { 0 } else { charged(bytes) };
    crew.reserved
        + crew.threads * charged(program.workspace.max(1))
        + charged(crew.threads * program.beside)
        + crew.loaders * staging(crew.load_staging)
        + crew.storers * staging(crew.store_staging)
}

fn bookkeeping(program: &Program, schedule: &Schedule) -> usize {
    charged(program.bytes() + schedule.bytes())
}

/// Memory of a schedule, before it is made.
fn expected_bookkeeping(program: &Program) -> usize {
    program.bytes() + 2 * EVENT_BYTES * program.len() + EVENT_BYTES * program.tiles()
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
    let needed = if program.calls_back { most.saturating_add(most / (RESERVED - 1)) } else { most };
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
/// [`Error::Budget`] naming a budget that would do; those of the stores; [`Error::Interrupted`] where the watch says so.
pub fn plan(
    runtime: &Runtime,
    program: Program,
    stores: &[Option<Arc<dyn Store>>],
    speeds: Speeds,
    watch: &mut dyn Watch,
) -> Result<Plan> {
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
            let needed = elsewhere + least_limit(&program, speeds, least, watch)?;
            return Err(too_little(runtime, program.name, with_staging(&program, needed) as u64));
        }
    };
    let prediction = predict(&program, &schedule, speeds, crew.room, watch)?;
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

/// Steps of programs whose least budget is found to within half a hundredth. Of longer ones, what the program itself
/// takes makes up nearly all of it, and every schedule on the way takes its time.
const SHORT: usize = 10_000;

/// The fewest bytes that a program fits into, roughly; of a long one, bytes that it fits into.
fn least_limit(program: &Program, speeds: Speeds, least: usize, watch: &mut dyn Watch) -> Result<usize> {
    let bare = fixed(program, &smallest(program, 0)) + least;
    // Enough: a schedule for the tiles of one step at a time. With more room it may be shorter.
    let books = bookkeeping(program, &schedule::best(program, least, &[], watch)?);
    let (mut too_little, mut enough) = (bare, bare + books);
    if program.calls_back {
        enough += enough.div_ceil(RESERVED - 1);
    }
    while program.len() <= SHORT && enough - too_little > (enough / 256).max(4096) {
        let middle = (enough + too_little) / 2;
        match fit(program, middle, speeds, least, &[], watch)? {
            Some(_) => enough = middle,
            None => too_little = middle,
        }
    }
    Ok(enough)
}

/// A crew and a schedule that together fit into `limit` bytes, if there are.
///
/// Where tiles are loaded again for want of memory, less running ahead and fewer threads are tried as well, and what is
/// the fastest is taken.
fn fit(
    program: &Program,
    limit: usize,
    speeds: Speeds,
    least: usize,
    resident: &[TileId],
    watch: &mut dyn Watch,
) -> Result<Option<(Crew, Schedule)>> {
    let wanted = divide(program, expected_bookkeeping(program), limit, speeds, least);
    let all_of = |crew: Crew| (crew, limit.saturating_sub(fixed(program, &crew)));
    let waiting = wanted.map(|(crew, _)| all_of(crew));
    let mut best: Option<(Crew, Schedule)> = None;
    for division in [wanted, waiting, Some(all_of(smallest(program, limit)))].into_iter().flatten() {
        let Some(found) = fit_divided(program, limit, division, least, resident, watch)? else { continue };
        let is_enough = program.len() > SHORT || found.1.bytes_read() <= MORE * once(program, &found.1) / 100;
        best = match best {
            None => Some(found),
            Some(other) => Some(faster(program, speeds, other, found, watch)?),
        };
        if is_enough {
            break;
        }
    }
    Ok(best)
}

/// Per cent of what has to be loaded that are loaded without looking for another way.
const MORE: u64 = 110;

/// Bytes of the tiles that a schedule loads, each of them once.
fn once(program: &Program, schedule: &Schedule) -> u64 {
    let mut seen = vec![false; program.tiles()];
    let mut bytes = 0;
    for action in schedule.actions() {
        if let Action::Load(tile) | Action::LoadInitial(tile) = action
            && !std::mem::replace(&mut seen[tile.0 as usize], true)
        {
            bytes += program.cost(tile).load;
        }
    }
    bytes
}

/// Of two crews with their schedules, the one that is sooner done; the first, if it is as fast.
fn faster(
    program: &Program,
    speeds: Speeds,
    one: (Crew, Schedule),
    other: (Crew, Schedule),
    watch: &mut dyn Watch,
) -> Result<(Crew, Schedule)> {
    let mut seconds = |(crew, schedule): &(Crew, Schedule)| {
        let speeds = Speeds { threads: crew.threads, ..speeds };
        predict(program, schedule, speeds, crew.room, watch).map(|p| p.seconds)
    };
    Ok(if seconds(&other)? < 0.95 * seconds(&one)? { other } else { one })
}

/// A schedule for a crew, with no more than some capacity for tiles, that fits into `limit` bytes with it.
fn fit_divided(
    program: &Program,
    limit: usize,
    (mut crew, mut capacity): (Crew, usize),
    least: usize,
    resident: &[TileId],
    watch: &mut dyn Watch,
) -> Result<Option<(Crew, Schedule)>> {
    let total: usize = (0..program.tiles()).map(|t| program.frame(TileId(t as u32))).sum();
    while capacity >= least {
        let schedule = schedule::best(program, capacity, &fitting(program, resident, capacity), watch)?;
        // Its own size was only estimated. What it does not need is not taken.
        let room = limit.saturating_sub(fixed(program, &crew) + bookkeeping(program, &schedule));
        if schedule.peak <= room {
            crew.room = room.min(total.max(schedule.peak));
            return Ok(Some((crew, schedule)));
        }
        capacity = capacity.min(room.min(schedule.peak - 1));
    }
    Ok(None)
}

/// Of the tiles in memory, as many as there is room for.
fn fitting(program: &Program, resident: &[TileId], capacity: usize) -> Vec<TileId> {
    let mut used = 0;
    let fits = |&&tile: &&TileId| {
        used += program.frame(tile);
        used <= capacity
    };
    resident.iter().take_while(fits).copied().collect()
}

/// What part of the budget is left to functions of the user's, for the arrays that they load.
const RESERVED: usize = 16;

/// The crew that takes the least memory out of `limit` bytes.
fn smallest(program: &Program, limit: usize) -> Crew {
    crew_of(program, 1, 1, limit)
}

fn crew_of(program: &Program, threads: usize, movers: usize, limit: usize) -> Crew {
    let load_staging = program.arrays().iter().map(|a| a.staging).max().unwrap_or(0);
    let outputs = program.arrays().iter().filter(|a| a.role == Role::Output);
    let store_staging = outputs.map(|a| a.staging).max().unwrap_or(0);
    let reserved = if program.calls_back { limit / RESERVED } else { 0 };
    Crew { threads, loaders: movers, storers: movers, load_staging, store_staging, reserved, room: 0 }
}

/// Divides `limit` bytes among threads, staging memory, `books` bytes of bookkeeping, tiles, and tiles
/// that run ahead; gives the crew, and the capacity for the schedule. `None` where there is no room for
/// `least` bytes of tiles.
fn divide(
    program: &Program,
    books: usize,
    limit: usize,
    speeds: Speeds,
    least: usize,
) -> Option<(Crew, usize)> {
    let room = |crew: &Crew| limit.saturating_sub(fixed(program, crew) + books);
    let mut chosen = Some(smallest(program, limit)).filter(|crew| room(crew) >= least)?;
    // Threads come first: without them everything takes longer.
    for threads in 1..=speeds.threads {
        for movers in 1..=MOVERS {
            let more = crew_of(program, threads, movers, limit);
            let most = if movers == 1 { limit / 2 } else { limit / 4 };
            if fixed(program, &more) <= most && room(&more) >= least {
                chosen = more;
            }
        }
    }
    // By what the device reads in a moment, and not less than what the loaders have in flight.
    let frame = program.arrays().iter().map(|a| a.frame).max().unwrap_or(0);
    let wanted = ((speeds.read * AHEAD_SECONDS) as usize).min(AHEAD_MOST).max(chosen.loaders * frame);
    let room = room(&chosen);
    Some((chosen, room - wanted.min(room / 8).min(room - least)))
}
