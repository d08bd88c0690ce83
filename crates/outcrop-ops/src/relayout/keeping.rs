//! Two passes, of which the first keeps as much of the result in memory as it holds.
//!
//! The first pass reads the source from one end to the other, in long pieces. What belongs to the last panels of the
//! target goes to its place in memory, and what belongs to the others waits in these panels on disk, in the order in
//! which it comes. Then what was kept is stored, and the panels are turned one after the other. Compared with two
//! plain passes, what is kept is neither written nor read in between; compared with one, no piece is short.

use super::choose::Task;
use super::groups::Cut;
use super::pass::Pass;
use super::{PassFacts, contiguous, inside_panels, shape_of, size, turning};
use crate::boxes::movement::{part_shape, parts};
use outcrop_engine::Watch;
use outcrop_engine::report::Report;
use outcrop_engine::stream::{Frames, Job, Loaders, Threads};
use outcrop_engine::{Runtime, stream};
use outcrop_store::frame::{FRAME_ALIGN, Frame, charged};
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, Dims, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Parts of the memory, and parts of these that a panel has, that are tried.
const PARTS: ([f64; 3], [u64; 4]) = ([1.0, 0.7, 0.5], [5, 8, 12, 20]);

/// What part of the panels is kept at least: with less, two plain passes were as fast.
const WORTH: f64 = 0.2;

/// Parts of the memory that a load unit of the first pass has, where panels do not make it larger: the longer it is, the
/// longer are the pieces that it leaves in panels.
const UNITS: u64 = 128;

/// The movement, planned.
pub(super) struct Keeping {
    source: Arc<dyn Store>,
    origin: Dims,
    /// The boxes in which the source is loaded, in the target's coordinates.
    loads: Vec<ArrayBox>,
    /// From panels to the target.
    turning: Pass,
    /// The axis along which panels follow one another.
    axis: usize,
    /// How many panels wait on disk, the first ones.
    waiting: u64,
    /// The first store unit of each panel that is kept, whose frame has the same place among these; and the one behind
    /// the last one.
    kept: Vec<u64>,
    threads: Threads,
    /// Bytes of memory for a load unit of the first pass, of which each loader has one.
    unit: usize,
    seconds: [f64; 2],
    peak: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Load units of the first pass that are not done.
    left: u64,
    is_settled: bool,
    /// Memory for load units, and the places in it that are free.
    memory: Option<Arc<Frame>>,
    free: Vec<usize>,
}

impl Keeping {
    /// The fastest way of this kind, where there is one.
    pub(super) fn best(job: &Task<'_>) -> Option<Keeping> {
        let (memory, panels) = PARTS;
        let all = memory.into_iter().flat_map(|part| panels.map(|panels| (part, panels)));
        let found = all.filter_map(|(part, panels)| {
            let memory = (job.limit as f64 * part) as usize;
            Keeping::new(job, memory, memory as u64 / panels)
        });
        found.min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
    }

    /// In so much memory, with panels of at most `room` bytes.
    fn new(job: &Task<'_>, memory: usize, room: u64) -> Option<Keeping> {
        let target = job.target.info();
        let (shape, itemsize) = (&target.shape, target.dtype.size() as u64);
        let (from, to) = (job.source.file_axes()?, job.target.file_axes()?);
        let panel = contiguous(&to, shape, itemsize, room)?;
        let axis = to[0];
        if (0..shape.len()).any(|a| a != axis && panel[a] != shape[a]) {
            return None;
        }
        let panels = Arc::clone(&job.target).panels(&panel, &inside_panels(job, &panel))?;
        let devices = (job.devices.1.clone(), job.devices.1.clone());
        let turning = turning(job, panels, devices, true, true, memory).exactly(&panel)?.pass;
        let Cut::Run(blocks) = &turning.groups.cut else { return None };

        let whole = ArrayBox::whole(shape);
        let unit = target.box_bytes(&blocks.load).max(memory as u64 / UNITS);
        let mut loads = parts(&whole, &part_shape(&from, shape, itemsize, unit));
        if job.source.is_reversed(from[0]) {
            loads.reverse();
        }
        // As many panels as there is room for beside all that passes through.
        let mut threads = turning.threads;
        let Loaders::Threads(loaders) = threads.loaders else { return None };
        let unit = loads.iter().map(|unit| target.box_bytes(&unit.shape)).max()?;
        // It stands as far behind a block's edge as in the file.
        let unit = charged(unit as usize + FRAME_ALIGN);
        threads.room = memory.checked_sub(threads.staging() + loaders * unit)?;
        let (count, each) = (turning.groups.pieces(), turning.memory(&turning.groups.group(0)));
        // While those are stored, one that has waited is loaded, and another one behind it.
        let keeps = ((threads.room / each) as u64).saturating_sub(2);
        let keeps = keeps.min(count.saturating_sub(1));
        let part = keeps as f64 / count as f64;
        if part < WORTH {
            return None;
        }
        let waiting = count - keeps;
        let mut kept = vec![0];
        for panel in waiting..count {
            kept.push(kept[kept.len() - 1] + turning.store_units(panel));
        }
        let used = each.saturating_mul(count as usize).min(threads.room);
        let mut found = Keeping {
            source: Arc::clone(&job.source),
            origin: job.origin.clone(),
            loads,
            peak: threads.staging() + loaders * unit + used,
            turning,
            axis,
            waiting,
            kept,
            threads,
            unit,
            seconds: [0.0; 2],
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        found.seconds = found.expected(job, part);
        Some(found)
    }

    /// Seconds that the two passes take, where this part is kept.
    fn expected(&self, job: &Task<'_>, part: f64) -> [f64; 2] {
        let target = job.target.info();
        let (bytes, itemsize) = (target.nbytes() as f64, target.dtype.size());
        let waits = 1.0 - part;
        let (from, to) = &job.devices;
        let runs = self.source.extents(&self.in_source(&self.loads[0]));
        let read = from.read(runs.bytes, runs.count * self.loads.len() as u64);
        let run = self.run_bytes();
        let written = to.write(run as u64, (waits * bytes / run) as u64, false);
        let moving = job.at_once((bytes as u64, (waits * bytes) as u64), (read, written));
        let arranging = job.turned(part * bytes, itemsize) + job.copied(waits * bytes);
        let first = moving + arranging + job.first_use(self.peak);

        let panels = (waits * bytes) as u64;
        let kept = (part * bytes) as u64;
        // Panels are in the target's own file.
        let alone = (to.read(panels, 1), to.write(panels, 1, true));
        let turned_over = to.at_once(alone.0, alone.1, true).max(to.both(panels, panels, true));
        let second = to.write(kept, 1, false) + turned_over + job.turned(waits * bytes, itemsize);
        let all = (alone.0 / waits, alone.1 / waits);
        let between = self.waiting as f64 * job.between(&self.turning.groups, all);
        [first, to.durable(target.nbytes(), first, first + second + between) - first]
    }

    /// Bytes of what a load unit leaves in a panel, roughly.
    fn run_bytes(&self) -> f64 {
        let bytes = self.turning.target.info().box_bytes(&self.loads[0].shape);
        bytes as f64 / self.turning.groups.pieces() as f64
    }

    /// How long it takes.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Bytes of the budget in use at once, at most.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// How it moves, for people.
    pub(super) fn remarks(&self) -> [String; 2] {
        let (count, panel) = (self.turning.groups.pieces(), &self.turning.groups.grid.tile);
        let read = self.source.extents(&self.in_source(&self.loads[0])).bytes;
        let keeps = count - self.waiting;
        let of = shape_of(panel);
        [
            format!(
                "read in pieces of {}, {keeps} of {count} panels of {of} kept in memory, the others written in \
                 pieces of {}",
                size(read),
                size(self.run_bytes() as u64)
            ),
            format!("{} panel{} of {of}", self.waiting, if self.waiting == 1 { "" } else { "s" }),
        ]
    }

    /// What is expected of the two passes.
    ///
    /// # Errors
    /// Those of the stores.
    pub(super) fn facts(&self) -> Result<Vec<PassFacts>> {
        let (mut first, mut second) = ((0, self.shared_block()), (0, 0));
        for unit in &self.loads {
            first.0 += self.source.bytes_to_load_with(&self.in_source(unit), self.threads.load_staging)?;
            if let Some(rest) = self.rest(unit) {
                first.1 += self.turning.source.bytes_to_store(&rest)?;
            }
        }
        for panel in 0..self.turning.groups.pieces() {
            let (read, written) = self.turning.bytes_of(panel)?;
            second.0 += if panel < self.waiting { read } else { 0 };
            second.1 += written;
        }
        let facts = [first, second].into_iter().zip(self.remarks()).zip(self.seconds);
        Ok(facts
            .map(|(((bytes_read, bytes_written), remark), seconds)| PassFacts {
                remark,
                bytes_read,
                bytes_written,
                seconds,
            })
            .collect())
    }

    /// Bytes of the block in which the last panel that waits ends and the first one that is kept begins: it is
    /// written in both passes.
    fn shared_block(&self) -> u64 {
        let first = self.turning.groups.group(self.waiting);
        if self.turning.target.phase(&first) == 0 { 0 } else { FRAME_ALIGN as u64 }
    }

    /// Moves. The target is not committed.
    ///
    /// # Errors
    /// As for passes.
    pub(super) fn run(&self, runtime: &Runtime, watch: &mut dyn Watch) -> Result<Report> {
        let Loaders::Threads(loaders) = self.threads.loaders else { unreachable!("chosen so") };
        let memory = Arc::new(runtime.frame(loaders * self.unit, self.turning.operation)?);
        *self.lock() = State {
            left: self.loads.len() as u64,
            is_settled: false,
            memory: Some(memory),
            free: (0..loaders).collect(),
        };
        let done = stream::run(runtime, self, self.threads, watch);
        self.lock().memory = None;
        done
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_source(&self, region: &ArrayBox) -> ArrayBox {
        let mut moved = region.clone();
        moved.start.iter_mut().zip(&self.origin).for_each(|(s, o)| *s += o);
        moved
    }

    /// What of a box belongs to panels that wait.
    fn rest(&self, region: &ArrayBox) -> Option<ArrayBox> {
        let end = self.turning.groups.group(self.waiting).start[self.axis];
        let mut rest = region.clone();
        rest.shape[self.axis] = end.saturating_sub(region.start[self.axis]).min(region.shape[self.axis]);
        (rest.shape[self.axis] > 0).then_some(rest)
    }

    /// The panels that are kept, the places of their frames, and what of a box belongs to them.
    fn kept_of(&self, region: &ArrayBox) -> impl Iterator<Item = (ArrayBox, usize, ArrayBox)> {
        let panels = self.waiting..self.turning.groups.pieces();
        panels.enumerate().filter_map(move |(frame, panel)| {
            let group = self.turning.groups.group(panel);
            let common = group.intersect(region)?;
            Some((group, frame, common))
        })
    }

    /// A load unit of the first pass: read to a place in memory as it lies in the file, and taken apart there.
    fn part(&self, mover: &mut Mover, region: &ArrayBox, frames: &Frames) -> Result<()> {
        let itemsize = self.turning.target.info().dtype.size();
        let order = self.source.file_axes().expect("it is one file");
        let (memory, place) = {
            let mut state = self.lock();
            let memory = state.memory.clone().expect("there while the job runs");
            (memory, state.free.pop().expect("there is a place for each loader"))
        };
        let in_source = self.in_source(region);
        let start = memory.as_ptr().wrapping_add(place * self.unit + self.source.phase(&in_source));
        let unit = |region: &ArrayBox| {
            let patch = Patch::ordered(region.clone(), start, &order, itemsize);
            let patch = patch.reversed(|axis| self.source.is_reversed(axis));
            // SAFETY: the patch is the box, in memory that is this unit's alone.
            unsafe { Canvas::new(region.clone(), itemsize, [patch]) }
        };
        let moved = (|| {
            self.source.load(mover, &unit(&in_source))?;
            let unit = unit(region);
            for (group, frame, common) in self.kept_of(region) {
                let canvas = self.turning.canvas(&group, frames, frame, &[0], ArrayBox::clone);
                let (from, strides) = unit.address(&common);
                // SAFETY: what is common lies in the unit's memory.
                unsafe { canvas.scatter(&common, from, &strides, 1) };
            }
            match self.rest(region) {
                Some(rest) => self.turning.source.store(mover, &unit.part(&rest)),
                None => Ok(()),
            }
        })();
        self.lock().free.push(place);
        moved
    }

    /// Notes that a load unit of the first pass is done. After the last one, panels can be read.
    fn finish_part(&self, mover: &mut Mover) -> Result<()> {
        let mut state = self.lock();
        state.left -= 1;
        if state.left == 0 {
            drop(state);
            self.turning.source.settle(mover)?;
            self.lock().is_settled = true;
            self.changed.notify_all();
        }
        Ok(())
    }

    fn wait_for_panels(&self, mover: &Mover) -> Result<()> {
        let mut state = self.lock();
        while !state.is_settled {
            mover.cancel.check()?;
            let tick = Duration::from_millis(20);
            state = self.changed.wait_timeout(state, tick).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// The panel of a store unit of the first piece, the place of its frame, and its own number of the unit.
    fn stored(&self, unit: u64) -> (u64, usize, u64) {
        let i = self.kept.partition_point(|&first| first <= unit) - 1;
        (self.waiting + i as u64, i, unit - self.kept[i])
    }
}

/// The first piece is the first pass, with all panels that are kept; each other one is a panel that has waited.
impl Job for Keeping {
    fn operation(&self) -> &'static str {
        self.turning.operation
    }
    fn pieces(&self) -> u64 {
        1 + self.waiting
    }
    fn frames(&self, piece: u64) -> Vec<usize> {
        if piece > 0 {
            return self.turning.frames(piece - 1);
        }
        (self.waiting..self.turning.groups.pieces()).flat_map(|panel| self.turning.frames(panel)).collect()
    }
    fn load_units(&self, piece: u64) -> u64 {
        if piece > 0 { self.turning.load_units(piece - 1) } else { self.loads.len() as u64 }
    }
    fn store_units(&self, piece: u64) -> u64 {
        if piece > 0 { self.turning.store_units(piece - 1) } else { self.kept[self.kept.len() - 1] }
    }
    fn fills(&self, piece: u64, unit: u64) -> Vec<usize> {
        if piece > 0 {
            return self.turning.fills(piece - 1, unit);
        }
        self.kept_of(&self.loads[unit as usize]).map(|(_, frame, _)| frame).collect()
    }
    fn load(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        if piece > 0 {
            self.wait_for_panels(mover)?;
            return self.turning.load(mover, piece - 1, unit, frames);
        }
        self.part(mover, &self.loads[unit as usize], frames)?;
        self.finish_part(mover)
    }
    fn store(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        if piece > 0 {
            return self.turning.store(mover, piece - 1, unit, frames);
        }
        let (panel, frame, unit) = self.stored(unit);
        self.turning.store_from(mover, panel, unit, frames, frame)
    }
    fn loaded(&self, piece: u64) -> u64 {
        // What is stored counts as much as what was loaded.
        if piece > 0 { 0 } else { self.turning.target.info().nbytes() }
    }
    fn progress(&self, piece: u64) -> u64 {
        if piece > 0 {
            return self.turning.progress(piece - 1);
        }
        (self.waiting..self.turning.groups.pieces()).map(|panel| self.turning.progress(panel)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::task;
    use super::*;
    use crate::boxes::access;
    use outcrop_engine::Settings;
    use outcrop_store::DType;
    use outcrop_store::io::EngineChoice;
    use outcrop_store::store::adapters::oriented::{Orientation, OrientedArray};
    use outcrop_store::store::open::{NewFormat, create};
    use outcrop_store::store::sketch::Sketch;

    const NPY: NewFormat = NewFormat::Npy { column_major: false };
    const RAW: NewFormat = NewFormat::Raw { column_major: false };

    fn with<R>(bytes: &mut [u8], shape: &[u64], itemsize: usize, used: impl FnOnce(&Canvas) -> R) -> R {
        let region = ArrayBox::whole(shape);
        let patch = Patch::dense(region.clone(), bytes.as_mut_ptr(), 0, itemsize);
        // SAFETY: the bytes are the box, and borrowed until the canvas is gone.
        used(&unsafe { Canvas::new(region, itemsize, [patch]) })
    }

    /// Also the first and the last block of the file, and the one that waiting and kept panels share.
    #[test]
    fn everything_is_in_its_place_and_as_many_bytes_move_as_planned() {
        let read_back = |axes: [usize; 2], reversed: [bool; 2], shape: [u64; 2], dtype: DType, from, to| {
            let dir = tempfile::tempdir().unwrap();
            let itemsize = dtype.size();
            let count = (shape[0] * shape[1]) as usize * itemsize;
            let settings =
                |memory| Settings { memory, threads: 2, scratch: None, engine: EngineChoice::Auto };
            let big = Runtime::new(settings(1 << 30)).unwrap();
            let runtime = Runtime::new(settings(count * 3 / 4 / 4096 * 4096)).unwrap();
            let mut bytes: Vec<u8> =
                (0..count as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect();
            let source = create(big.disk(), &dir.path().join("source"), &shape, dtype, from, false).unwrap();
            let mut quiet = |_, _| true;
            with(&mut bytes, &shape, itemsize, |canvas| access::write(&big, &source, canvas, &mut quiet))
                .unwrap();
            access::commit(&big, &source).unwrap();
            let is_raw = matches!(to, NewFormat::Raw { .. });
            let turn = Orientation::new(&axes, &reversed).unwrap();
            let shown = OrientedArray::of(&source, turn).unwrap();
            let turned = shown.info().shape.clone();
            let target = create(big.disk(), &dir.path().join("target"), &turned, dtype, to, false).unwrap();

            let job = task(&runtime, "transpose", &shown, Dims::from_elem(0, 2), &target);
            let keeping = Keeping::best(&job).expect("there is memory for some panels");
            let facts = keeping.facts().unwrap();
            let planned = |of: fn(&PassFacts) -> u64| facts.iter().map(of).sum::<u64>();
            if is_raw {
                // The same where there is no file yet.
                let sketch: Arc<dyn Store> = Arc::new(Sketch::in_one_file(target.info().clone(), 0));
                let early = task(&runtime, "transpose", &shown, Dims::from_elem(0, 2), &sketch);
                for (own, early) in facts.iter().zip(Keeping::best(&early).unwrap().facts().unwrap()) {
                    let bytes = |pass: &PassFacts| (pass.bytes_read, pass.bytes_written);
                    assert_eq!(bytes(own), bytes(&early));
                }
            }
            let (mut told, mut of) = (0, 0);
            let report = keeping
                .run(&runtime, &mut |done, total| {
                    (told, of) = (done, total);
                    true
                })
                .unwrap();
            assert_eq!((told, of), (2 * count as u64, 2 * count as u64));
            assert_eq!(report.bytes_read, planned(|pass| pass.bytes_read));
            // What the file's last block has is written with the commit.
            assert!(planned(|pass| pass.bytes_written).abs_diff(report.bytes_written) <= 4096);
            assert!(report.peak_bytes <= keeping.peak() as u64 && keeping.peak() <= runtime.budget().limit());
            access::commit(&big, &target).unwrap();
            let (mut expected, mut found) = (vec![0; count], vec![1; count]);
            with(&mut expected, &turned, itemsize, |canvas| access::read(&big, &shown, canvas, &mut quiet))
                .unwrap();
            with(&mut found, &turned, itemsize, |canvas| access::read(&big, &target, canvas, &mut quiet))
                .unwrap();
            assert!(found == expected, "{axes:?} {reversed:?} {:?}", keeping.remarks());
        };
        for reversed in [[false, false], [true, false], [false, true], [true, true]] {
            read_back([1, 0], reversed, [2001, 3003], DType::U8, RAW, RAW);
            read_back([1, 0], reversed, [1999, 1640], DType::I16, RAW, NPY);
        }
        read_back([1, 0], [false, false], [2048, 4096], DType::U8, RAW, RAW);
        read_back([1, 0], [false, true], [3000, 403], DType::F64, NPY, RAW);
        read_back([0, 1], [false, true], [2001, 3003], DType::U8, NewFormat::Raw { column_major: true }, NPY);
    }
}
