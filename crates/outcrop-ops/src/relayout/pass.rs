//! One pass over the data: from one array to another, group by group.

use super::groups::{Blocks, Cut, Groups};
use crate::boxes::access;
use crate::boxes::movement::{self, units};
use outcrop_engine::Runtime;
use outcrop_engine::stream::{Frames, Job, Threads};
use outcrop_store::frame::{charged, fitted};
use outcrop_store::store::{Canvas, Edges, Mover, Patch, Store, WAITING_BLOCKS, WAITING_BYTES};
use outcrop_store::{ArrayBox, Dims, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of the parts in which threads take on a box of an array that is not tiled.
pub(super) const PART: u64 = 4 << 20;

/// Load units whose edges are looked at before a run, at most.
const MOST_UNITS: u64 = 20_000;

/// A pass that is planned.
pub(super) struct Pass {
    /// The name in the report.
    pub operation: &'static str,
    pub source: Arc<dyn Store>,
    pub target: Arc<dyn Store>,
    /// First index in the source of the box that is copied.
    pub origin: Dims,
    pub groups: Groups,
    pub threads: Threads,
    /// Blocks of the target that wait to be whole at once, where these are more than may by themselves.
    pub waiting: usize,
    /// Where groups follow one another along the source's fastest axis: what they leave of the blocks that they
    /// cut, by load unit.
    pub beside: Option<Beside>,
    pub recent: Recent,
}

/// The boxes in which a group is moved.
struct Boxes {
    /// In the target's coordinates.
    loads: Vec<ArrayBox>,
    stores: Vec<ArrayBox>,
}

/// The boxes of the groups that are under way, which every unit of theirs asks for.
#[derive(Default)]
pub(super) struct Recent(Mutex<VecDeque<(ArrayBox, Arc<Boxes>)>>);

impl Recent {
    /// More groups than are under way at a time, as a rule.
    const MOST: usize = 8;

    fn get(&self, group: &ArrayBox, make: impl FnOnce() -> Boxes) -> Arc<Boxes> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, boxes)) = recent.iter().find(|(of, _)| of == group) {
            return Arc::clone(boxes);
        }
        let boxes = Arc::new(make());
        recent.truncate(Self::MOST - 1);
        recent.push_front((group.clone(), Arc::clone(&boxes)));
        boxes
    }
}

/// Edges that wait for the next group.
pub(super) struct Beside {
    /// Bytes of each load unit's rests of blocks, and of the heads, at most.
    bytes: Vec<(usize, usize)>,
    waiting: Vec<(Mutex<Waiting>, Condvar)>,
}

struct Waiting {
    /// The piece that was loaded last.
    piece: Option<u64>,
    edges: Option<Edges>,
}

impl Beside {
    fn new(bytes: Vec<(usize, usize)>) -> Beside {
        let nothing = || (Mutex::new(Waiting { piece: None, edges: None }), Condvar::new());
        let waiting = bytes.iter().map(|_| nothing()).collect();
        Beside { bytes, waiting }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        charged(self.bytes.iter().map(|(rests, heads)| rests + heads).sum())
    }

    /// Takes the memory.
    fn prepare(&self, runtime: &Runtime, operation: &'static str) -> Result<()> {
        let frame = Arc::new(runtime.frame(self.memory(), operation)?);
        let mut start = 0;
        for ((waiting, _), &(rests, heads)) in self.waiting.iter().zip(&self.bytes) {
            let edges = Some(Edges::new(&frame, start, rests, heads));
            *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Waiting { piece: None, edges };
            start += rests + heads;
        }
        Ok(())
    }

    /// The same without the blocks in which rows end and begin, which are then read twice.
    pub(super) fn without_heads(self) -> Beside {
        Beside::new(self.bytes.into_iter().map(|(rests, _)| (rests, 0)).collect())
    }

    fn has_heads(&self) -> bool {
        self.bytes.iter().any(|&(_, heads)| heads > 0)
    }

    /// Gives it back.
    fn finish(&self) {
        for (waiting, _) in &self.waiting {
            waiting.lock().unwrap_or_else(PoisonError::into_inner).edges = None;
        }
    }
}

impl Pass {
    /// Runs the pass.
    ///
    /// # Errors
    /// Those of the stores; [`outcrop_store::Error::Budget`]; [`outcrop_store::Error::Interrupted`].
    pub(super) fn run(
        &self,
        runtime: &Runtime,
        watch: &mut dyn outcrop_engine::Watch,
    ) -> Result<outcrop_engine::Report> {
        if let Some(beside) = &self.beside {
            beside.prepare(runtime, self.operation)?;
        }
        let more = self.waiting.saturating_sub(WAITING_BLOCKS) * WAITING_BYTES;
        let _memory = (more > 0).then(|| runtime.charge(more, self.operation)).transpose()?;
        self.target.let_wait(self.waiting);
        let done = outcrop_engine::stream::run(runtime, self, self.threads, watch);
        self.beside.as_ref().inspect(|beside| beside.finish());
        done
    }

    fn group(&self, piece: u64) -> ArrayBox {
        self.groups.group(piece)
    }

    /// A box of the target, in the source's coordinates.
    fn in_source(&self, region: &ArrayBox) -> ArrayBox {
        let mut moved = region.clone();
        moved.start.iter_mut().zip(&self.origin).for_each(|(s, o)| *s += o);
        moved
    }

    fn in_target(&self, region: &ArrayBox) -> ArrayBox {
        let mut moved = region.clone();
        moved.start.iter_mut().zip(&self.origin).for_each(|(s, o)| *s -= o);
        moved
    }

    /// The boxes in which a group is loaded and stored.
    fn boxes(&self, group: &ArrayBox) -> Arc<Boxes> {
        self.recent.get(group, || match self.groups.cut.units() {
            Some(blocks) => Boxes {
                loads: movement::parts(group, &Blocks::clipped(&blocks.load, group)),
                stores: movement::parts(group, &Blocks::clipped(&blocks.store, group)),
            },
            None => {
                let loads = units(self.source.as_ref(), &self.in_source(group), PART);
                let loads = loads.iter().map(|unit| self.in_target(unit)).collect();
                Boxes { loads, stores: units(self.target.as_ref(), group, PART) }
            }
        })
    }

    /// How many boxes of a group have a frame each.
    fn count(&self, group: &ArrayBox) -> usize {
        match &self.groups.cut {
            Cut::Group | Cut::Run(_) => 1,
            Cut::Target => self.boxes(group).stores.len(),
            Cut::Source => self.boxes(group).loads.len(),
            Cut::Blocks(blocks) => blocks.stores(group).tiles() as usize * blocks.in_store(group),
        }
    }

    /// These of them.
    fn framed(&self, group: &ArrayBox, wanted: &[usize]) -> Vec<ArrayBox> {
        let some = |boxes: &[ArrayBox]| wanted.iter().map(|&i| boxes[i].clone()).collect();
        match &self.groups.cut {
            Cut::Group | Cut::Run(_) => vec![group.clone()],
            Cut::Target => some(&self.boxes(group).stores),
            Cut::Source => some(&self.boxes(group).loads),
            Cut::Blocks(blocks) => wanted.iter().map(|&i| blocks.frame_box(group, i)).collect(),
        }
    }

    fn frame_bytes(&self, part: &ArrayBox) -> usize {
        match &self.groups.cut {
            // All alike, so that one serves after the other.
            Cut::Blocks(blocks) => {
                let room = if blocks.are_runs { BLOCK } else { 0 };
                fitted(self.target.info().box_bytes(&blocks.block) as usize + room)
            }
            // Room for standing as far from a block's edge as in the file.
            Cut::Group | Cut::Run(_) => self.target.info().box_bytes(&part.shape) as usize + BLOCK,
            _ => {
                let source = access::frame_bytes(self.source.as_ref(), part);
                source.max(access::frame_bytes(self.target.as_ref(), part))
            }
        }
    }

    /// Bytes of all frames of a group.
    pub(super) fn memory(&self, group: &ArrayBox) -> usize {
        self.sizes(group).into_iter().map(charged).sum()
    }

    fn sizes(&self, group: &ArrayBox) -> Vec<usize> {
        let count = self.count(group);
        if matches!(self.groups.cut, Cut::Blocks(_)) {
            return vec![self.frame_bytes(group); count];
        }
        let all: Vec<usize> = (0..count).collect();
        self.framed(group, &all).iter().map(|part| self.frame_bytes(part)).collect()
    }

    /// Which frames a box of a group touches.
    fn touched(&self, group: &ArrayBox, region: &ArrayBox) -> Vec<usize> {
        match &self.groups.cut {
            Cut::Blocks(blocks) => blocks.touched(group, region),
            _ => (0..self.count(group)).collect(),
        }
    }

    /// The memory of some frames of a group, the first of which is in the place `first`: seen from the target, and moved
    /// for the source.
    pub(super) fn canvas(
        &self,
        group: &ArrayBox,
        frames: &Frames,
        first: usize,
        wanted: &[usize],
        place: impl Fn(&ArrayBox) -> ArrayBox,
    ) -> Canvas {
        let itemsize = self.target.info().dtype.size();
        let parts = self.framed(group, wanted);
        let patches = wanted.iter().zip(&parts).filter_map(|(&i, part)| {
            let frame = frames.get(first + i)?;
            let region = place(part);
            Some(match self.groups.cut {
                Cut::Blocks(ref blocks) if !blocks.are_runs => {
                    Patch::ordered(region, frame.as_ptr(), &self.groups.order, itemsize)
                }
                Cut::Group | Cut::Run(_) | Cut::Blocks(_) => {
                    let lead = self.target.phase(part);
                    let start = frame.as_ptr().wrapping_add(lead);
                    Patch::ordered(region, start, &self.groups.order, itemsize).behind(lead)
                }
                _ => Patch::dense(region, frame.as_ptr(), frame.len(), itemsize),
            })
        });
        // SAFETY: the parts cover the group, each has a frame of its own that lives until its store
        // unit is done, and units touch disjoint boxes.
        unsafe { Canvas::new(place(group), itemsize, patches) }
    }

    /// A store unit of a piece whose first frame is in the place `first`.
    pub(super) fn store_from(
        &self,
        mover: &mut Mover,
        piece: u64,
        unit: u64,
        frames: &Frames,
        first: usize,
    ) -> Result<()> {
        let group = self.group(piece);
        let region = &self.boxes(&group).stores[unit as usize];
        let touched = match &self.groups.cut {
            Cut::Target => vec![unit as usize],
            _ => self.touched(&group, region),
        };
        let canvas = self.canvas(&group, frames, first, &touched, ArrayBox::clone);
        self.target.store(mover, &canvas.part(region))
    }

    /// Loads a unit with what the group before has left of its blocks.
    fn load_beside(
        &self,
        beside: &Beside,
        mover: &mut Mover,
        piece: u64,
        unit: u64,
        canvas: &Canvas,
    ) -> Result<()> {
        let (waiting, changed) = &beside.waiting[unit as usize];
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = self.groups.follows(piece);
        // Also the first group of a row waits: for the last one before that has this unit.
        let before = (0..piece).rev().find(|&p| self.load_units(p) > unit);
        while waiting.piece != before {
            mover.cancel.check()?;
            let tick = Duration::from_millis(20);
            waiting = changed.wait_timeout(waiting, tick).unwrap_or_else(PoisonError::into_inner).0;
        }
        let edges = waiting.edges.as_mut().expect("there while the pass runs");
        if !follows {
            edges.clear();
        }
        self.source.load_beside(mover, canvas, edges)?;
        waiting.piece = Some(piece);
        drop(waiting);
        changed.notify_all();
        Ok(())
    }

    /// What groups leave for those beside them; `None` where the source does not keep that, or where there are so
    /// many groups that finding out takes longer than it is worth.
    pub(super) fn edges(&self) -> Option<Beside> {
        let units = self.groups.pieces().saturating_mul(self.load_units(0));
        if units > MOST_UNITS {
            return None;
        }
        let mut most: Vec<(usize, usize)> = Vec::new();
        for piece in 0..self.groups.pieces() {
            for (i, unit) in self.boxes(&self.group(piece)).loads.iter().enumerate() {
                let staging = self.threads.load_staging;
                let cuts = self.source.cuts(&self.in_source(unit), staging)?;
                if i == most.len() {
                    most.push((0, 0));
                }
                let heads = if self.has_whole_rows() { cuts.heads } else { 0 };
                most[i] = (most[i].0.max(cuts.rests as usize), most[i].1.max(heads as usize));
            }
        }
        Some(Beside::new(most))
    }

    /// Whether the box that is copied has the source's rows from their first to their last element.
    fn has_whole_rows(&self) -> bool {
        let fastest = self.source.file_axes().and_then(|axes| axes.last().copied());
        fastest.is_some_and(|axis| self.target.info().shape[axis] == self.source.info().shape[axis])
    }

    /// Exact bytes read and, without the commit, written.
    ///
    /// # Errors
    /// Those of the stores.
    pub(super) fn bytes(&self) -> Result<(u64, u64)> {
        let mut sum = (0, 0);
        for piece in 0..self.groups.pieces() {
            let (read, written) = self.bytes_of(piece)?;
            sum = (sum.0 + read, sum.1 + written);
        }
        Ok(sum)
    }

    /// The same of one piece.
    ///
    /// # Errors
    /// Those of the stores.
    pub(super) fn bytes_of(&self, piece: u64) -> Result<(u64, u64)> {
        let (mut read, mut written) = (0, 0);
        let (staging, group) = (self.threads.load_staging, self.group(piece));
        let boxes = self.boxes(&group);
        for unit in &boxes.loads {
            let unit = self.in_source(unit);
            read += self.source.bytes_to_load_with(&unit, staging)?;
            if let (Some(beside), true) = (&self.beside, self.groups.follows(piece)) {
                let cuts = self.source.cuts(&unit, staging).unwrap_or_default();
                read -= cuts.begun + if beside.has_heads() { cuts.ended } else { 0 };
            }
        }
        for unit in &boxes.stores {
            written += self.target.bytes_to_store(unit)?;
        }
        Ok((read, written))
    }
}

const BLOCK: usize = outcrop_store::frame::FRAME_ALIGN;

impl Job for Pass {
    fn operation(&self) -> &'static str {
        self.operation
    }
    fn pieces(&self) -> u64 {
        self.groups.pieces()
    }
    fn frames(&self, piece: u64) -> Vec<usize> {
        self.sizes(&self.group(piece))
    }
    fn load_units(&self, piece: u64) -> u64 {
        self.boxes(&self.group(piece)).loads.len() as u64
    }
    fn store_units(&self, piece: u64) -> u64 {
        self.boxes(&self.group(piece)).stores.len() as u64
    }
    fn fills(&self, piece: u64, unit: u64) -> Vec<usize> {
        if self.groups.cut == Cut::Source {
            return vec![unit as usize];
        }
        let group = self.group(piece);
        self.touched(&group, &self.boxes(&group).loads[unit as usize])
    }
    fn load(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        let group = self.group(piece);
        let region = &self.boxes(&group).loads[unit as usize];
        let touched = self.fills(piece, unit);
        let canvas = self.canvas(&group, frames, 0, &touched, |part| self.in_source(part));
        let canvas = canvas.part(&self.in_source(region));
        match &self.beside {
            Some(beside) => self.load_beside(beside, mover, piece, unit, &canvas),
            None => self.source.load(mover, &canvas),
        }
    }
    fn store(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        self.store_from(mover, piece, unit, frames, 0)
    }
    fn frees(&self, piece: u64, unit: u64) -> Range<usize> {
        let unit = unit as usize;
        match &self.groups.cut {
            Cut::Target => unit..unit + 1,
            Cut::Blocks(blocks) => {
                let each = blocks.in_store(&self.group(piece));
                unit * each..(unit + 1) * each
            }
            _ => 0..0,
        }
    }
    fn progress(&self, piece: u64) -> u64 {
        self.target.info().box_bytes(&self.group(piece).shape)
    }
}
