//! Which groups, and how many passes: what is predicted to take the least time.

use super::groups::{Cut, Groups};
use super::pass::{Beside, Pass, Recent};
use super::rates::{copied, turned};
use crate::boxes::movement::threads_beside;
use outcrop_engine::Runtime;
use outcrop_engine::plan::device::Device;
use outcrop_engine::stream::{Loaders, Threads};
use outcrop_store::frame::charged;
use outcrop_store::store::{Cuts, Extents, Store, WAITING_BLOCKS, WAITING_BYTES};
use outcrop_store::{ArrayBox, Dims, Error, Result};
use std::sync::Arc;

/// Extents of a group that are tried along one axis, at most: of an array of up to two long axes, of three, and so on; a
/// few thousands in all.
const TRIED: [u64; 5] = [64, 16, 7, 5, 4];
/// How many times the room for a group is halved, where there are more: staging and frames take a part that depends on
/// the group.
const HALVED: u32 = 8;
/// Bytes of frames that keep all threads busy, where groups are small.
const AHEAD: usize = 64 << 20;
/// How many times as long as alone all threads take to put elements in order while they serve a device: those that are
/// written from where they are, and those that are gathered from blocks.
/// (Measured, half of the processors' seconds in runs of 4 and 8 GiB, of 1 and 8 bytes: 1.3 to 1.9 times those of planes
/// alone, and 1.3 to 2.7 times, least where memory holds half of the file.)
const SERVING: (f64, f64) = (1.4, 2.0);
/// Seconds that are lost at the edge of two groups whatever they are.
const BETWEEN: f64 = 3e-4;
/// Threads in each direction, where memory allows.
const MOVERS: usize = 4;
/// Runs that may end inside blocks of the target before others complete these, which wait for that in memory.
const MOST_WAITING: u64 = 2000;

/// What moving takes.
pub(super) struct Task<'a> {
    pub runtime: &'a Runtime,
    pub operation: &'static str,
    pub source: Arc<dyn Store>,
    pub origin: Dims,
    pub target: Arc<dyn Store>,
    /// The devices of the source and of the target.
    pub devices: (Device, Device),
    /// Whether they are one.
    pub same_device: bool,
    /// Whether this run has written before where it writes now.
    pub again: bool,
    /// Bytes of the budget that it may have.
    pub limit: usize,
    /// Bytes that others have.
    pub elsewhere: usize,
    /// Bytes that this run has used before.
    pub used: usize,
}

/// How long moving takes.
struct Time {
    seconds: f64,
    /// By which passes are compared: where they take the same time, the one that leaves the disk more of it is better.
    score: f64,
    /// Until there is something to write.
    first: f64,
}

/// A pass, and what is expected of it.
pub(super) struct Expected {
    pub pass: Pass,
    pub seconds: f64,
    /// Seconds until there is something to write.
    pub first: f64,
    /// How many times it reads all there is, roughly.
    pub times_read: f64,
    /// Bytes of the budget in use at once, at most.
    pub peak: usize,
}

impl Task<'_> {
    /// The best pass in which groups consist of whole boxes of the shape `unit`.
    ///
    /// # Errors
    /// [`Error::Budget`] where no group fits.
    pub(super) fn best(&self, unit: &[u64]) -> Result<Expected> {
        let shape = self.target.info().shape.clone();
        let ndim = shape.len();
        let whole: Dims = (0..ndim).map(|a| shape[a].div_ceil(unit[a]).max(1)).collect();
        let group_of = |multiples: &[u64]| -> Dims {
            (0..ndim).map(|a| unit[a].saturating_mul(multiples[a]).min(shape[a].max(1))).collect()
        };
        let smallest = group_of(&Dims::from_elem(1, ndim));
        let bytes = self.target.info().box_bytes(&smallest);
        // Not always the one that takes least: many small groups may leave more blocks that wait to be whole.
        let mut found = vec![Dims::from_elem(1, ndim)];
        let long = whole.iter().filter(|&&n| n > 1).count();
        if let Some(&tried) = TRIED.get(long.max(2) - 2) {
            candidates(&whole, 0, tried, &mut Dims::new(), bytes, self.limit as u64, &mut found);
        }
        // Of many axes, few extents of each are among these.
        if long > 4 {
            let orders = [self.source.file_axes(), self.target.file_axes()];
            let natural = || (0..ndim).collect::<Vec<_>>();
            let [from, to] = orders.map(|axes| axes.map_or_else(natural, |axes| axes.to_vec()));
            let room = self.limit as u64 / bytes.max(1);
            (0..=HALVED).for_each(|n| along_orders(&whole, &from, &to, room >> n, &mut found));
            found.sort_unstable();
            found.dedup();
        }
        let mut chosen: Option<(Dims, f64, usize)> = None;
        for multiples in found {
            let group = group_of(&multiples);
            let Some((memory, score)) = self.expect(&group)? else { continue };
            // Less memory for nearly the same time leaves more for others.
            let is_better = chosen.as_ref().is_none_or(|(_, best, least)| {
                score < best * 0.99 || (score <= best * 1.001 && memory < *least)
            });
            if is_better {
                chosen = Some((group, score, memory));
            }
        }
        match chosen {
            Some((group, ..)) => self.pass(&group),
            None => Err(self.too_little(&smallest)),
        }
    }

    /// What it takes by itself is more than it may have.
    fn too_little(&self, group: &[u64]) -> Error {
        let needed = self.groups(group).map_or(0, |groups| self.memory(&groups, &self.threads(&groups)).0);
        Error::Budget {
            purpose: "moving elements between these tiles".into(),
            needed: needed as u64,
            budget: self.runtime.limit() as u64,
        }
    }

    fn groups(&self, group: &[u64]) -> Result<Groups> {
        let groups = |in_runs| Groups::new(self.source.as_ref(), self.target.as_ref(), group, in_runs);
        let found = groups(true)?;
        if !found.are_in_runs() || found.pieces() == 0 {
            return Ok(found);
        }
        // One group is loaded while the one before it is stored.
        let frames = self.bare(found.clone()).memory(&largest(&found));
        let fit = self.threads(&found).staging() + 2 * frames <= self.limit;
        if fit { Ok(found) } else { groups(false) }
    }

    fn threads(&self, groups: &Groups) -> Threads {
        let Some(blocks) = groups.cut.units() else {
            let exact = self.is_exact(groups);
            let (load, store) = (self.source.staging(exact), self.target.staging(true));
            let first =
                if groups.pieces() > 0 { self.bare(groups.clone()).memory(&largest(groups)) } else { 0 };
            let limit = self.limit.saturating_sub(self.waiting_bytes(groups, 1));
            let mut threads = threads_beside(limit, first, load, Some(store));
            // Those who store have more wait.
            let takes = |t: &Threads| t.staging() + first + self.waiting_bytes(groups, t.storers);
            while threads.storers > 1 && takes(&threads) > self.limit {
                threads.storers -= 1;
            }
            return threads;
        };
        // As much as a unit takes, and a store unit not more than is wanted.
        let load = self.source.extents(&self.in_source(&blocks.load));
        let each = if load.count > 1 { load.bytes + 3 * 4096 } else { load.bytes + 2 * 4096 };
        let load = (load.count * each).max(self.source.staging(false).least as u64) as usize;
        let store = self.target.extents(&ArrayBox::whole(&blocks.store));
        let store = store.count * (store.bytes + 3 * 4096) + 4096;
        let wanted = self.target.staging(true);
        let store = (store as usize).clamp(wanted.least, wanted.wanted.max(wanted.least));
        let (load, store) = (charged(load), charged(store));
        let mut threads = Threads {
            loaders: Loaders::Threads(1),
            storers: 1,
            load_staging: load,
            store_staging: store,
            room: self.limit,
        };
        for movers in 2..=MOVERS {
            let more = Threads { loaders: Loaders::Threads(movers), storers: movers, ..threads };
            if more.staging() <= self.limit / 3 {
                threads = more;
            }
        }
        threads
    }

    /// Whether the source's tiles are loaded into frames of their own, whole.
    fn is_exact(&self, groups: &Groups) -> bool {
        let (s, t) = (self.source.info(), self.target.info());
        let group = &groups.grid.tile;
        let edge = |end: u64, a: usize| end.is_multiple_of(s.tile[a]) || end == s.shape[a];
        let tiled = self.source.file_axes().is_none();
        let starts = (0..group.len())
            .all(|a| self.origin[a].is_multiple_of(s.tile[a]) && edge(self.origin[a] + t.shape[a], a));
        tiled && starts && (groups.cut == Cut::Source || s.tile == t.tile)
    }

    fn in_source(&self, shape: &[u64]) -> ArrayBox {
        ArrayBox::new(&self.origin, shape)
    }

    fn bare(&self, groups: Groups) -> Pass {
        Pass {
            operation: self.operation,
            source: Arc::clone(&self.source),
            target: Arc::clone(&self.target),
            origin: self.origin.clone(),
            groups,
            threads: Threads {
                loaders: Loaders::Threads(1),
                storers: 1,
                load_staging: 0,
                store_staging: 0,
                room: 0,
            },
            waiting: 0,
            beside: None,
            recent: Recent::default(),
        }
    }

    /// Blocks of the target that wait to be whole at once, at most, where these are more than may without memory for
    /// them; 0 where they are not. Of groups that come tile by tile, those beside one another in the target share a
    /// block in every row: of a group that is stored, and those that so many threads store meanwhile, these wait at
    /// the rows' beginnings, and where each group ends.
    fn waiting(&self, groups: &Groups, storers: usize) -> usize {
        if groups.pieces() == 0 || groups.cut != Cut::Source || self.target.file_axes().is_none() {
            return 0;
        }
        let group = largest(groups);
        let runs = self.target.extents(&group);
        if self.are_aligned(&group.shape, runs.bytes) {
            return 0;
        }
        let blocks = groups.waiting(runs.count) as usize * (2 + storers);
        if blocks > WAITING_BLOCKS { blocks } else { 0 }
    }

    /// Bytes of the memory that these blocks take beside what every file has.
    fn waiting_bytes(&self, groups: &Groups, storers: usize) -> usize {
        self.waiting(groups, storers).saturating_sub(WAITING_BLOCKS) * WAITING_BYTES
    }

    /// Memory that a pass by these groups takes, roughly: at least, and with the heads of rows where they are kept, too.
    fn memory(&self, groups: &Groups, threads: &Threads) -> (usize, usize) {
        if groups.pieces() == 0 {
            return (0, 0);
        }
        let group = largest(groups);
        let frames = self.bare(groups.clone()).memory(&group);
        let cuts = self.cuts(groups).unwrap_or_default();
        // Of a block, one half is kept.
        let runs = self.source.extents(&self.in_source(&group.shape)).count as usize;
        let half = |kept: u64| if kept > 0 { runs * 4096 / 2 / 16 * 17 } else { 0 };
        let waiting = self.waiting_bytes(groups, threads.storers);
        let least = threads.staging() + frames + waiting + half(cuts.rests);
        (least, least + half(cuts.heads))
    }

    /// What a load unit shares with those beside it, where groups lie beside one another.
    fn cuts(&self, groups: &Groups) -> Option<Cuts> {
        let blocks = groups.cut.units()?;
        let staging = self.threads(groups).load_staging;
        self.source.cuts(&self.in_source(&blocks.load), staging).filter(|_| groups.are_beside())
    }

    /// Memory that a pass by groups of this shape takes, and its score; `None` where there is too little memory.
    fn expect(&self, group: &[u64]) -> Result<Option<(usize, f64)>> {
        let groups = self.groups(group)?;
        let threads = self.threads(&groups);
        let (memory, with_heads) = self.memory(&groups, &threads);
        if memory > self.limit {
            return Ok(None);
        }
        if groups.cut.units().is_some() {
            // Too many blocks would wait to be whole.
            let runs = self.target.extents(&ArrayBox::whole(group));
            if groups.waiting(runs.count) > MOST_WAITING && !self.are_aligned(group, runs.bytes) {
                return Ok(None);
            }
        }
        let heads = with_heads <= self.limit;
        let memory = if heads { with_heads } else { memory };
        let staging = threads.staging() + self.waiting_bytes(&groups, threads.storers);
        let (_, used) = self.room(&groups, memory - staging, staging);
        Ok(Some((memory, self.seconds(&groups, heads).score + self.first_use(staging + used))))
    }

    /// Whether runs of so many bytes, in the target, of groups of this shape begin and end at the edges of blocks.
    fn are_aligned(&self, group: &[u64], run: u64) -> bool {
        let info = self.target.info();
        let Some(fastest) = self.target.file_axes().and_then(|axes| axes.last().copied()) else {
            return false;
        };
        let row = info.shape[fastest] * info.dtype.size() as u64;
        let first = self.target.phase(&ArrayBox::whole(group));
        run.is_multiple_of(4096) && row.is_multiple_of(4096) && first == 0
    }

    /// A group in the middle, which is typical: its edges fall on any tiles, as most groups' do; and what is read for it.
    fn typical(&self, groups: &Groups, heads: bool) -> (ArrayBox, Extents) {
        let group = groups.group(groups.pieces() / 2);
        let mut in_source = group.clone();
        in_source.start.iter_mut().zip(&self.origin).for_each(|(s, o)| *s += o);
        // What a thread moves at once is at most as long.
        let mut read = self.source.extents(&in_source);
        if self.source.file_axes().is_some() && read.count > 1 {
            // Blocks at both ends are cut; at the ends of rows only, where what lies between is kept.
            read.bytes += match self.cuts(groups) {
                Some(cuts) if heads || cuts.heads == 0 => 0,
                Some(_) => 4096 / groups.in_row(),
                None => 4096,
            };
        }
        (group, read)
    }

    /// How many times a pass reads all there is, roughly.
    fn times_read(&self, groups: &Groups, heads: bool) -> f64 {
        if groups.pieces() == 0 {
            return 1.0;
        }
        let (group, read) = self.typical(groups, heads);
        let bytes = self.target.info().box_bytes(&group.shape);
        (read.bytes * read.count) as f64 / bytes as f64
    }

    /// How long a pass takes. `heads` says whether those of rows are kept.
    fn seconds(&self, groups: &Groups, heads: bool) -> Time {
        let pieces = groups.pieces();
        if pieces == 0 {
            return Time { seconds: 0.0, score: 0.0, first: 0.0 };
        }
        let (group, read) = self.typical(groups, heads);
        let shape = &self.target.info().shape;
        let scale = ArrayBox::whole(shape).elements() as f64 / group.elements().max(1) as f64;
        let times = |count: u64| (count as f64 * scale).ceil() as u64;
        let written = self.target.extents(&group);
        let (load, store) = match groups.cut.units() {
            Some(blocks) => {
                let itemsize = self.target.info().dtype.size() as u64;
                let bytes = |shape: &[u64]| shape.iter().product::<u64>() * itemsize;
                (bytes(&blocks.load), bytes(&blocks.store))
            }
            None => (u64::MAX, u64::MAX),
        };
        let pieces_of = |bytes: u64, count: u64, most: u64| {
            let parts = bytes.div_ceil(most.max(1)).max(1);
            (bytes.div_ceil(parts), times(count * parts))
        };
        let (bytes, count) = pieces_of(read.bytes, read.count, load);
        let cut = if self.source.file_axes().is_some() && read.count == 1 { 4096 } else { 0 };
        let reading = self.devices.0.read(bytes + cut, count);
        let (bytes, count) = pieces_of(written.bytes, written.count, store);
        let writing = self.devices.1.write(bytes, count, self.again);
        let moved = (times(read.bytes * read.count), times(written.bytes * written.count));
        let both = self.at_once(moved, (reading, writing));
        let info = self.target.info();
        let (bytes, itemsize) = (info.nbytes() as f64, info.dtype.size());
        let arranging = match groups.cut.units() {
            // What is a run is stored from where it is.
            Some(blocks) if blocks.are_runs => self.turned(bytes, itemsize) / 2.0 * SERVING.0,
            Some(_) => self.turned(bytes, itemsize) * SERVING.1,
            None => self.copied(bytes),
        };
        let steady = both + arranging;
        // The first group has nothing to be written beside it, the last one nothing to be read.
        let part = 1.0 / pieces as f64;
        let between = (pieces as f64 * self.between(groups, (reading, writing))).min(steady);
        let seconds = (reading + writing) * part + steady * (1.0 - part) + between;
        // Half of putting in order is done when a group is loaded.
        let first = (reading + arranging / 2.0) * part;
        Time { seconds, score: seconds + (reading + writing) / 10.0, first }
    }

    /// Seconds in which so many bytes are read and written at once, each of which takes so long `alone`.
    pub(super) fn at_once(&self, (read, written): (u64, u64), alone: (f64, f64)) -> f64 {
        let device = &self.devices.1;
        if self.same_device {
            device.at_once(alone.0, alone.1, self.again).max(device.both(read, written, self.again))
        } else {
            alone.0.max(alone.1)
        }
    }

    /// Seconds that are lost at the edge of two groups, where all are read and written in so many `alone`: of blocks, none
    /// is whole before the last load of its group, so that the device has nothing to write while each loader has a unit
    /// under way, and then nothing to read while the first blocks are written. Units are not all begun at once: on
    /// average, half of each is done.
    pub(super) fn between(&self, groups: &Groups, alone: (f64, f64)) -> f64 {
        let Cut::Blocks(blocks) = &groups.cut else { return BETWEEN };
        if blocks.are_runs {
            return BETWEEN;
        }
        let threads = self.threads(groups);
        let loaders = if let Loaders::Threads(n) = threads.loaders { n } else { 1 };
        let elements = self.target.info().shape.iter().product::<u64>() as f64;
        let part =
            |unit: &Dims, threads: usize| unit.iter().product::<u64>() as f64 * threads as f64 / elements;
        let units = alone.0 * part(&blocks.load, loaders) + alone.1 * part(&blocks.store, threads.storers);
        units / 2.0 + BETWEEN
    }

    /// Seconds in which all threads turn so many bytes on their way: into blocks, and out of these.
    ///
    /// Like those for [`copied`](Self::copied), they are added to the time of moving: threads wait for the device and
    /// put in order by turns, and both take the memory's time. (Measured: 4 GiB moved twice, seconds that the processors
    /// took divided by their number, plus what moving as much takes alone, came within a tenth of all.)
    pub(super) fn turned(&self, bytes: f64, itemsize: usize) -> f64 {
        let found = self.devices.1.arranging().map(|rates| 2.0 / rates.turned * turned(1) / turned(itemsize));
        bytes * found.unwrap_or_else(|| 1.0 / turned(itemsize) / self.threads_of_all())
    }

    /// Seconds in which all threads copy so many bytes on their way, in and out.
    pub(super) fn copied(&self, bytes: f64) -> f64 {
        let found = self.devices.1.arranging().map(|rates| 2.0 / rates.copied);
        bytes * found.unwrap_or_else(|| 1.0 / copied() / self.threads_of_all())
    }

    fn threads_of_all(&self) -> f64 {
        self.runtime.settings().threads.max(1) as f64
    }

    /// The pass by groups of this shape, where there is memory for it.
    pub(super) fn exactly(&self, group: &[u64]) -> Option<Expected> {
        self.expect(group).ok()??;
        self.pass(group).ok()
    }

    fn pass(&self, group: &[u64]) -> Result<Expected> {
        let groups = self.groups(group)?;
        let threads = self.threads(&groups);
        let heads = self.memory(&groups, &threads).1 <= self.limit;
        let (moving, times_read) = (self.seconds(&groups, heads), self.times_read(&groups, heads));
        let waiting = self.waiting(&groups, threads.storers);
        let reserved = threads.staging() + self.waiting_bytes(&groups, threads.storers);
        let mut pass = Pass { threads, waiting, ..self.bare(groups) };
        if pass.groups.are_beside() {
            pass.beside = pass.edges();
        }
        let frames = match pass.groups.pieces() {
            0 => 0,
            _ => pass.memory(&largest(&pass.groups)),
        };
        // They were only estimated.
        let fits = |beside: &Beside| reserved + beside.memory() + frames <= self.limit;
        if pass.beside.as_ref().is_some_and(|beside| !fits(beside)) {
            pass.beside = pass.beside.map(Beside::without_heads).filter(fits);
        }
        let edges = pass.beside.as_ref().map_or(0, Beside::memory);
        let beside = reserved + edges;
        let (room, used) = self.room(&pass.groups, frames, beside);
        pass.threads.room = room;
        let peak = beside + used;
        let used = self.first_use(peak);
        Ok(Expected { seconds: moving.seconds + used, first: moving.first + used, times_read, peak, pass })
    }

    /// Bytes for the frames of groups, each of which takes `frames`, beside so many other bytes: what they may have, and
    /// what they use.
    fn room(&self, groups: &Groups, frames: usize, beside: usize) -> (usize, usize) {
        // Blocks come and go one by one; other frames all together, so that there is work for three groups.
        let ahead = if matches!(groups.cut, Cut::Blocks(_)) { 2 } else { 3 };
        let useful = frames.saturating_mul(ahead).max(AHEAD);
        let room = self.limit.saturating_sub(beside).min(useful);
        (room, room.min(frames.saturating_mul(groups.pieces() as usize)).max(frames))
    }

    /// Seconds for using so many bytes of memory, where this run has not used as many.
    pub(super) fn first_use(&self, bytes: usize) -> f64 {
        let device = &self.devices.1;
        device.first_use(bytes) - device.first_use(bytes.min(self.used))
    }
}

/// The group at the origin, which is as large as any.
fn largest(groups: &Groups) -> ArrayBox {
    groups.grid.tile_box(&Dims::from_elem(0, groups.grid.shape.len()))
}

/// Multiples of the unit along each axis whose product stays in the room: those that divide the whole into parts
/// of nearly the same size.
fn candidates(
    whole: &[u64],
    axis: usize,
    tried: u64,
    chosen: &mut Dims,
    bytes: u64,
    room: u64,
    found: &mut Vec<Dims>,
) {
    if axis == whole.len() {
        found.push(chosen.clone());
        return;
    }
    let (mut parts, mut last) = (1, 0);
    for _ in 0..tried {
        let n = whole[axis].div_ceil(parts);
        if n != last && bytes.saturating_mul(n) <= room {
            last = n;
            chosen.push(n);
            candidates(whole, axis + 1, tried, chosen, bytes.saturating_mul(n), room, found);
            chosen.pop();
        }
        if n == 1 {
            break;
        }
        // What does not fit at all is left out at once.
        let least = whole[axis].div_ceil((room / bytes.max(1)).max(1));
        parts = (parts + parts.div_ceil(8)).max(if last == 0 { least } else { 0 });
    }
}

/// Multiples of the unit, at most so many units together, that are whole along the fastest axes of one order, and of
/// what is left along those of the other one: pieces of both files are then as long as may be.
fn along_orders(whole: &[u64], from: &[usize], to: &[usize], room: u64, found: &mut Vec<Dims>) {
    let fill = |chosen: &mut Dims, order: &[usize], mut room: u64| {
        for &axis in order.iter().rev().filter(|&&axis| whole[axis] > 1) {
            if chosen[axis] == whole[axis] {
                continue;
            }
            chosen[axis] = whole[axis].div_ceil(whole[axis].div_ceil(room.clamp(1, whole[axis])));
            room /= chosen[axis];
            if chosen[axis] < whole[axis] {
                break;
            }
        }
    };
    for (first, then) in [(from, to), (to, from)] {
        let mut part = room;
        while part > 0 {
            let mut chosen = Dims::from_elem(1, whole.len());
            fill(&mut chosen, first, part);
            let left = room / chosen.iter().product::<u64>();
            fill(&mut chosen, then, left);
            found.push(chosen);
            part /= 2;
        }
    }
}
