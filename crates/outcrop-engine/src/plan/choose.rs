//! How memory is divided among threads, staging, bookkeeping, tiles and tiles that run ahead: of several ways, the one
//! that is predicted to be the fastest.

use super::predict::predict;
use super::speeds::Speeds;
use crate::execute::Crew;
use crate::program::{Program, Role, TileId};
use crate::runtime::{beside_callbacks, left_to_callbacks};
use crate::schedule::{self, Action, EVENT_BYTES, Schedule};
use crate::watch::Watch;
use outcrop_store::Result;
use outcrop_store::frame::charged;

/// Loader and storer threads, where memory allows. Each keeps one tile in flight.
const MOVERS: usize = 4;

/// Seconds of reading by which loads should run ahead of the steps: steps differ in length, and the
/// disk in speed, from moment to moment.
const AHEAD_SECONDS: f64 = 0.02;
/// Bytes of that, at most: of what a fast device reads in a moment, more is worth more as tiles that stay.
const AHEAD_MOST: usize = 48 << 20;

/// Steps of programs whose least budget is found to within half a hundredth. Of longer ones, what the program itself
/// takes makes up nearly all of it, and every schedule on the way takes its time.
pub(super) const SHORT: usize = 10_000;

/// How many times as long predictions differ that say something: by so much they are off.
const ALIKE: f64 = 1.05;

/// Per cent of what has to be loaded that are loaded without looking for another way.
const MORE: u64 = 110;

/// What part of memory is much.
const MUCH: usize = 16;

/// A crew and a schedule that together fit into `limit` bytes, if there are.
///
/// Where threads take more than half of the memory, fewer and all of them are tried; where tiles are loaded again for want
/// of memory, less running ahead and fewer threads, too. What is the fastest is taken.
pub(super) fn fit(
    program: &Program,
    limit: usize,
    speeds: Speeds,
    least: usize,
    resident: &[TileId],
    watch: &mut dyn Watch,
) -> Result<Option<(Crew, Schedule)>> {
    let books = expected_bookkeeping(program);
    let wanted = divide(program, books, limit, speeds, least);
    let all_of = |crew: Crew| (crew, limit.saturating_sub(fixed(program, &crew)));
    let waiting = wanted.map(|(crew, _)| all_of(crew));
    // One mover keeps the fewest tiles in flight.
    let one_mover = wanted.map(|(crew, _)| all_of(crew_of(program, crew.threads, 1, limit)));
    // Of long programs, that is tried where it leaves much more memory for tiles, and nothing else.
    let staging = |crew: &Crew| crew.loaders * crew.load_staging + crew.storers * crew.store_staging;
    let is_long = program.len() > SHORT;
    let frees = one_mover.filter(|one| staging(&wanted.unwrap_or(*one).0) - staging(&one.0) >= limit / MUCH);
    // What leaves little memory for tiles, and may be worth it where there is much to compute.
    let most_threads = Some(all_of(crew_of(program, speeds.threads, 1, limit)))
        .filter(|&(crew, room)| room >= least + books && wanted.is_some_and(|w| w.0.threads < crew.threads));
    let smallest = Some(all_of(smallest(program, limit)));
    let mut divisions: Vec<(Crew, usize)> = Vec::new();
    for division in [wanted, most_threads, waiting, one_mover, smallest].into_iter().flatten() {
        if !divisions.contains(&division) {
            divisions.push(division);
        }
    }
    let mut best: Option<Fitting> = None;
    // These in any case.
    let first = 1 + usize::from(most_threads.is_some());
    for (number, division) in divisions.into_iter().enumerate() {
        if is_long && best.is_some() && number >= first && Some(division) != frees {
            continue;
        }
        let Some((crew, schedule)) = fit_divided(program, limit, division, least, resident, watch)? else {
            continue;
        };
        let is_enough = schedule.bytes_read() <= MORE * once(program, &schedule) / 100;
        let found = Fitting { crew, schedule, seconds: None };
        best = match best {
            None => Some(found),
            Some(other) => Some(faster(program, speeds, other, found, watch)?),
        };
        if is_enough && number + 1 >= first {
            break;
        }
    }
    Ok(best.map(|found| (found.crew, found.schedule)))
}

/// A crew with its schedule, and how long it takes, once that is known.
struct Fitting {
    crew: Crew,
    schedule: Schedule,
    seconds: Option<f64>,
}

impl Fitting {
    fn moved(&self) -> u64 {
        self.schedule.bytes_read() + self.schedule.bytes_written()
    }

    fn seconds(&mut self, program: &Program, speeds: Speeds, watch: &mut dyn Watch) -> Result<f64> {
        if self.seconds.is_none() {
            let speeds = Speeds { threads: self.crew.threads, ..speeds };
            self.seconds = Some(predict(program, &self.schedule, speeds, self.crew.room, watch)?.seconds);
        }
        Ok(self.seconds.expect("set above"))
    }
}

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

/// Of two crews with their schedules, the one that is sooner done; of those that are as fast, the one that moves less,
/// or the first.
fn faster(
    program: &Program,
    speeds: Speeds,
    mut one: Fitting,
    mut other: Fitting,
    watch: &mut dyn Watch,
) -> Result<Fitting> {
    let moves_less = ALIKE * other.moved() as f64 <= one.moved() as f64;
    let first = one.seconds(program, speeds, watch)?;
    let second = other.seconds(program, speeds, watch)?;
    let is_better = second * ALIKE < first || (moves_less && second <= ALIKE * first);
    Ok(if is_better { other } else { one })
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

/// The fewest bytes that a program fits into, roughly; if they are not `sought`, or of a long one, bytes that it fits
/// into.
pub(super) fn least_limit(
    program: &Program,
    speeds: Speeds,
    least: usize,
    sought: bool,
    watch: &mut dyn Watch,
) -> Result<usize> {
    let bare = fixed(program, &smallest(program, 0)) + least;
    // Enough: a schedule for the tiles of one step at a time. With more room it may be shorter.
    let books = bookkeeping(program, &schedule::best(program, least, &[], watch)?);
    let (mut too_little, mut enough) = (bare, bare + books);
    if program.calls_back {
        enough = beside_callbacks(enough);
    }
    while sought && program.len() <= SHORT && enough - too_little > (enough / 256).max(4096) {
        let middle = (enough + too_little) / 2;
        match fit(program, middle, speeds, least, &[], watch)? {
            Some(_) => enough = middle,
            None => too_little = middle,
        }
    }
    Ok(enough)
}

/// Divides `limit` bytes among threads, staging memory, `books` bytes of bookkeeping, tiles, and tiles
/// that run ahead; gives the crew, and the capacity for the schedule. `None` where there is no room for
/// `least` bytes of tiles.
pub(super) fn divide(
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

/// The crew that takes the least memory out of `limit` bytes.
pub(super) fn smallest(program: &Program, limit: usize) -> Crew {
    crew_of(program, 1, 1, limit)
}

fn crew_of(program: &Program, threads: usize, movers: usize, limit: usize) -> Crew {
    let load_staging = program.arrays().iter().map(|a| a.staging).max().unwrap_or(0);
    let outputs = program.arrays().iter().filter(|a| a.role == Role::Output);
    let store_staging = outputs.map(|a| a.staging).max().unwrap_or(0);
    let reserved = if program.calls_back { left_to_callbacks(limit) } else { 0 };
    Crew { threads, loaders: movers, storers: movers, load_staging, store_staging, reserved, room: 0 }
}

/// Memory that does not hold tiles: workspaces and staging.
pub(super) fn fixed(program: &Program, crew: &Crew) -> usize {
    let staging = |bytes: usize| if bytes == 0 { 0 } else { charged(bytes) };
    crew.reserved
        + crew.threads * charged(program.workspace.max(1))
        + charged(crew.threads * program.beside)
        + crew.loaders * staging(crew.load_staging)
        + crew.storers * staging(crew.store_staging)
}

pub(super) fn bookkeeping(program: &Program, schedule: &Schedule) -> usize {
    charged(program.bytes() + schedule.bytes())
}

/// Memory of a schedule, before it is made.
pub(super) fn expected_bookkeeping(program: &Program) -> usize {
    program.bytes() + 2 * EVENT_BYTES * program.len() + EVENT_BYTES * program.tiles()
}
