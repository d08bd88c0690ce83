//! The best of several programs for one job, scheduled for the memory there is.

use crate::execute::{self, Crew, Kernels, Timeline, Work};
use crate::predict::{Prediction, Speeds, predict};
use crate::program::{Program, Role, STEP_BYTES};
use crate::report::Report;
use crate::runtime::Runtime;
use crate::schedule::{self, Schedule};
use crate::stream::Watch;
use outcrop_store::frame::charged;
use outcrop_store::store::Store;
use outcrop_store::{Error, Result};
use std::sync::Arc;

/// Loader and storer threads, where memory allows. Each keeps one tile in flight.
const MOVERS: usize = 4;

/// Seconds of reading by which loads should run ahead of the steps: steps differ in length, and the
/// disk in speed, from moment to moment.
const AHEAD_SECONDS: f64 = 0.02;

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
    /// What other programs would have taken: their remarks, bytes moved and seconds.
    pub others: Vec<(String, u64, f64)>,
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

    /// Bytes of the budget in use at once, at most: tiles with those that run ahead, staging memory,
    /// workspaces, and the program itself.
    pub fn peak_bytes(&self) -> usize {
        fixed(&self.program, &self.crew) + bookkeeping(&self.program, &self.schedule) + self.crew.room
    }

    /// Runs it. `stores` are the stores of all arrays, by number; `None` for temporaries. The outputs
    /// are committed, or aborted where there is an error. Where other tiles are in memory now than when
    /// the plan was made, or less memory is free, it is scheduled anew.
    ///
    /// # Errors
    /// Those of [`execute::run`].
    pub fn run(
        &self,
        runtime: &Runtime,
        stores: &[Option<Arc<dyn Store>>],
        kernels: &dyn Kernels,
        timeline: Option<&Timeline>,
        watch: &mut dyn Watch,
    ) -> Result<Report> {
        let changed = runtime.resident_tiles(&self.program, stores)? != self.schedule.adopted
            || available(runtime).0 < self.peak_bytes();
        let fresh =
            if changed { Some(plan(runtime, self.program.clone(), stores, self.speeds)?) } else { None };
        let Plan { program, schedule, crew, .. } = fresh.as_ref().unwrap_or(self);
        execute::run(runtime, &Work { program, schedule, stores, kernels }, *crew, timeline, watch)
    }
}

/// Memory that does not hold tiles: workspaces and staging.
fn fixed(program: &Program, crew: &Crew) -> usize {
    let staging = |bytes: usize| if bytes == 0 { 0 } else { charged(bytes) };
    crew.threads * (charged(program.workspace.max(1)) + program.beside)
        + crew.loaders * staging(crew.load_staging)
        + crew.storers * staging(crew.store_staging)
}

fn bookkeeping(program: &Program, schedule: &Schedule) -> usize {
    program.bytes() + schedule.bytes()
}

/// Memory of a schedule, before it is made.
fn expected_bookkeeping(program: &Program) -> usize {
    program.bytes() + 8 * program.len() + 4 * program.tiles()
}

/// Plans a job for which there are several programs: the one predicted to be fastest.
///
/// `stores` are those of the arrays, which have the same numbers in every program; outputs need not
/// be there yet. `speeds` are those of the device that has most of the data.
///
/// Gives the number of the program among those given, too.
///
/// # Errors
/// [`Error::Budget`] naming the least budget that would do for one of them; those of the stores.
pub fn choose(
    runtime: &Runtime,
    programs: Vec<Program>,
    stores: &[Option<Arc<dyn Store>>],
    speeds: Speeds,
) -> Result<(usize, Plan)> {
    let mut best: Option<(usize, Plan)> = None;
    let mut others = Vec::new();
    let mut least: Option<u64> = None;
    for (i, program) in programs.into_iter().enumerate() {
        match plan(runtime, program, stores, speeds) {
            Ok(found) => {
                let better = best.as_ref().is_none_or(|(_, b)| is_better(&found, b));
                let loser = if better { best.replace((i, found)) } else { Some((i, found)) };
                others.extend(loser.map(|(_, l)| {
                    (l.program.remark.clone(), l.bytes_read() + l.bytes_written(), l.prediction.seconds)
                }));
            }
            Err(Error::Budget { needed, .. }) => least = Some(least.map_or(needed, |l| l.min(needed))),
            Err(other) => return Err(other),
        }
    }
    match best {
        Some((i, mut plan)) => {
            plan.others = others;
            Ok((i, plan))
        }
        None => Err(Error::Budget {
            purpose: "this computation".into(),
            needed: least.unwrap_or(0),
            budget: runtime.budget().limit() as u64,
        }),
    }
}

/// Whether a plan is faster, or as fast to within a hundredth and moves less.
fn is_better(one: &Plan, other: &Plan) -> bool {
    let (a, b) = (one.prediction.seconds, other.prediction.seconds);
    let moved = |p: &Plan| p.bytes_read() + p.bytes_written();
    if (a - b).abs() <= 0.01 * b { moved(one) < moved(other) } else { a < b }
}

/// Bytes for the tiles of a program's schedule, those that run ahead not counted. The program has its
/// arrays, but not its steps: there will be so many, the largest of which has tiles of `least` bytes.
/// Programs are made to measure with this.
///
/// # Errors
/// [`Error::Budget`] where there is no room for the largest step.
pub fn capacity(
    runtime: &Runtime,
    program: &Program,
    steps: u64,
    speeds: Speeds,
    least: usize,
) -> Result<usize> {
    let (limit, elsewhere) = available(runtime);
    let books = program.bytes() + steps as usize * (STEP_BYTES + 8) + 4 * program.tiles();
    divide(program, books, limit, elsewhere, speeds, least).map(|(_, capacity)| capacity)
}

/// Bytes of the budget that a run may have, and those that others have, such as arrays that the user
/// holds. What is resident makes room.
fn available(runtime: &Runtime) -> (usize, usize) {
    let elsewhere = runtime.budget().used().saturating_sub(runtime.resident_bytes());
    (runtime.budget().limit().saturating_sub(elsewhere), elsewhere)
}

/// Plans one program.
///
/// # Errors
/// As for [`choose`].
pub fn plan(
    runtime: &Runtime,
    program: Program,
    stores: &[Option<Arc<dyn Store>>],
    speeds: Speeds,
) -> Result<Plan> {
    let resident = runtime.resident_tiles(&program, stores)?;
    let (limit, elsewhere) = available(runtime);
    let books = expected_bookkeeping(&program);
    let (mut crew, capacity) = divide(&program, books, limit, elsewhere, speeds, program.largest_step())?;
    let mut capacity = capacity;
    let schedule = loop {
        let schedule = schedule::best(&program, capacity, &resident)?;
        // Its own size was estimated.
        let room = limit.saturating_sub(fixed(&program, &crew) + bookkeeping(&program, &schedule));
        crew.room = crew.room.min(room);
        match schedule.peak.saturating_sub(crew.room) {
            0 => break schedule,
            lacking => capacity -= lacking,
        }
    };
    // What the schedule does not need is not taken.
    let total: usize = (0..program.tiles()).map(|t| program.frame(crate::program::TileId(t as u32))).sum();
    crew.room = crew.room.min(total).max(schedule.peak);
    let prediction = predict(&program, &schedule, speeds, crew.room);
    let outputs = program.arrays().iter().filter(|a| a.role == Role::Output);
    let commit = outputs.map(|a| a.commit).sum();
    Ok(Plan { program, schedule, crew, prediction, speeds, commit, others: Vec::new() })
}

/// Divides `limit` bytes among threads, staging memory, bookkeeping, tiles, and tiles that run ahead;
/// gives the crew, and the capacity for the schedule.
fn divide(
    program: &Program,
    books: usize,
    limit: usize,
    elsewhere: usize,
    speeds: Speeds,
    least_step: usize,
) -> Result<(Crew, usize)> {
    let load_staging = program.arrays().iter().map(|a| a.staging).max().unwrap_or(0);
    let outputs = program.arrays().iter().filter(|a| a.role == Role::Output);
    let store_staging = outputs.map(|a| a.staging).max().unwrap_or(0);
    let frame = program.arrays().iter().map(|a| a.frame).max().unwrap_or(0);
    let crew = |threads, movers| {
        let mut crew =
            Crew { threads, loaders: movers, storers: movers, load_staging, store_staging, room: 0 };
        crew.room = limit.saturating_sub(fixed(program, &crew) + books);
        crew
    };
    let smallest = crew(1, 1);
    if smallest.room < least_step {
        let needed = elsewhere + fixed(program, &smallest) + books + least_step;
        return Err(Error::Budget {
            purpose: program.name.into(),
            needed: needed as u64,
            budget: (elsewhere + limit) as u64,
        });
    }
    // Staging memory and workspaces beyond the least: at most a quarter of the budget.
    let mut chosen = smallest;
    for movers in 1..=MOVERS {
        for threads in 1..=speeds.threads {
            let more = crew(threads, movers);
            if fixed(program, &more) <= limit / 4 && more.room >= least_step {
                chosen = more;
            }
        }
    }
    // An eighth of the room at most, and not less than what the loaders have in flight.
    let wanted = ((speeds.read * AHEAD_SECONDS) as usize).max(chosen.loaders * frame);
    let ahead = wanted.min(chosen.room / 8).min(chosen.room - least_step);
    Ok((chosen, chosen.room - ahead))
}
