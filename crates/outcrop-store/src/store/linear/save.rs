//! From memory to a file's runs.

use super::{LEAST_STAGING, LinearArray, dense_in_file_order, lock};
use crate::error::Result;
use crate::io::{Direction, Transfer};
use crate::layout::{LinearLayout, Runs};
use crate::shape::ArrayBox;
use crate::store::Mover;
use crate::store::transfer::canvas::Canvas;
use crate::store::transfer::seams::{BLOCK, Seam, Seams};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Where the runs of a part lie in memory: at equal distances in each row of them.
struct Source {
    start: *mut u8,
    pitch: usize,
    row_bytes: usize,
    /// Whether a run starts at its offset's place in a block.
    skewed: bool,
}

impl Source {
    /// The places of these runs in staging memory.
    fn staged(runs: &Runs, start: *mut u8) -> Source {
        let (len, in_row) = (runs.run_bytes as usize, runs.in_row() as usize);
        if len < BLOCK {
            return Source { start, pitch: len, row_bytes: in_row * len, skewed: false };
        }
        // A run that may hold a whole block starts where that block will be aligned.
        let pitch = runs.pitch(runs.run_bytes, BLOCK as u64);
        let row_bytes = runs.row_bytes(pitch, BLOCK as u64) as usize;
        Source { start, pitch: pitch as usize, row_bytes, skewed: true }
    }

    /// Bytes of staging memory that these runs take.
    fn room(runs: &Runs) -> usize {
        runs.rows().count() as usize * Source::staged(runs, std::ptr::null_mut()).row_bytes
    }

    /// Where a row of runs begins, the first of which is at this offset of the file.
    fn row(&self, row: usize, first: u64) -> *mut u8 {
        let skew = if self.skewed { (first % BLOCK as u64) as usize } else { 0 };
        self.start.wrapping_add(row * self.row_bytes + skew)
    }
}

/// A piece of the file that is in memory.
struct Run {
    at: u64,
    memory: *mut u8,
    len: usize,
    /// Whether what stands in front of it, in its first block of memory, is of no use once the runs before it are
    /// taken care of.
    is_skewed: bool,
}

/// Runs that are written together: the more there are, the more the device has to do at once.
struct Batch {
    staging: *mut u8,
    room: usize,
    /// Bytes of the staging memory that runs are in.
    used: usize,
    /// Runs that may end inside blocks.
    waiting: u64,
    runs: Vec<Run>,
}

/// Runs of which blocks at the ends may have to be kept in memory, at most, at once.
const MOST_RUNS: u64 = Seams::MOST as u64 / 2;

/// Whether runs are as long as some blocks.
fn are_blocks(runs: &Runs) -> bool {
    runs.run_bytes.is_multiple_of(BLOCK as u64)
}

/// Whether not very many blocks at the ends of runs have to be kept in memory.
fn waits_little(runs: &Runs) -> bool {
    runs.count() <= MOST_RUNS || are_blocks(runs)
}

impl LinearArray {
    /// Takes what is missing in blocks from the file.
    fn complete(&self, mover: &mut Mover, blocks: &mut BTreeMap<u64, Seam>) -> Result<()> {
        let cancel = mover.cancel.clone();
        let (disk, end) = (mover.disk, self.layout.end());
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let mut offsets: Vec<u64> = blocks.keys().copied().collect();
        {
            let seams = lock(&self.shared.seams);
            offsets.retain(|&at| seams.is_written(at));
        }
        // As many old blocks at once as the staging memory holds. A block that was not written
        // yet is completed with zeros, which it has where nothing was put.
        for some in offsets.chunks(room / BLOCK) {
            let mut reads = some.iter().enumerate().map(|(i, &at)| {
                let need = (end - at).min(BLOCK as u64) as usize;
                Transfer::read(&self.shared.file, at, staging.wrapping_add(i * BLOCK), BLOCK, need)
            });
            // SAFETY: each read has its own block of staging memory, which is ours until the end.
            unsafe { disk.transfer(queue, &self.shared.file, &mut reads, Direction::Read, &cancel)? };
            for (i, at) in some.iter().enumerate() {
                // SAFETY: the block was read above; bytes behind the file's end are not used.
                let old = unsafe { std::slice::from_raw_parts(staging.wrapping_add(i * BLOCK), BLOCK) };
                blocks.get_mut(at).expect("taken from its keys").complete(old);
            }
        }
        Ok(())
    }

    /// Writes whole blocks and, at the same time, others.
    ///
    /// # Safety
    /// The memory of the others can be read, and does not change before this returns.
    unsafe fn write_with(
        &self,
        mover: &mut Mover,
        blocks: &BTreeMap<u64, Seam>,
        mut others: Vec<Transfer>,
    ) -> Result<()> {
        let cancel = mover.cancel.clone();
        let (disk, end) = (mover.disk, self.layout.end());
        let last = end / BLOCK as u64 * BLOCK as u64;
        let (queue, _, _) = mover.parts(0)?;
        let whole = blocks.range(..last);
        others.extend(whole.map(|(&at, seam)| Transfer::write(&self.shared.file, at, seam.as_ptr(), BLOCK)));
        // SAFETY: the blocks are borrowed until the end of this function; the others are the caller's promise.
        unsafe {
            disk.transfer(queue, &self.shared.file, &mut others.into_iter(), Direction::Write, &cancel)?
        };
        {
            let mut seams = lock(&self.shared.seams);
            blocks.keys().for_each(|&at| seams.mark(at, at + BLOCK as u64));
        }
        // The file's last block is not written beyond its end.
        if let Some((&at, seam)) = blocks.range(last..).next() {
            disk.write_unaligned(&self.shared.file, at, &seam.bytes()[..(end - at) as usize])?;
        }
        Ok(())
    }

    /// Writes every waiting block, completed from the file where it is not whole. When this returns, nothing waits
    /// and no flush is under way.
    pub(super) fn flush_seams(&self, mover: &mut Mover) -> Result<()> {
        let _alone = self.shared.flushing.write().unwrap_or_else(PoisonError::into_inner);
        let mut blocks = lock(&self.shared.seams).take_all();
        if blocks.is_empty() {
            return Ok(());
        }
        let written = self.complete(mover, &mut blocks).and_then(|()| {
            // SAFETY: there are no others.
            unsafe { self.write_with(mover, &blocks, Vec::new()) }
        });
        if written.is_err() {
            lock(&self.shared.seams).restore(blocks);
        }
        written
    }

    /// Stores boxes whose elements lie in the file as the layouts say, in parts whose runs fit the staging memory.
    /// What fits it together goes to the disk together, whichever box it is of.
    pub(super) fn store_boxes(
        &self,
        mover: &mut Mover,
        boxes: impl Iterator<Item = (LinearLayout, Canvas)>,
    ) -> Result<()> {
        let (_, staging, room) = mover.parts(LEAST_STAGING)?;
        let mut batch = Batch { staging, room, used: 0, waiting: 0, runs: Vec::new() };
        for (layout, canvas) in boxes.filter(|(_, canvas)| !canvas.region().is_empty()) {
            if let Some(direct) = self.in_place(&layout, &canvas, canvas.region()) {
                self.add_part(&mut batch, mover, &layout, &canvas, canvas.region(), Some(direct))?;
                continue;
            }
            let fit = |runs: &Runs| Source::room(runs) <= room && waits_little(runs);
            for part in layout.split(canvas.region(), BLOCK as u64, &fit) {
                let direct = self.in_place(&layout, &canvas, &part);
                self.add_part(&mut batch, mover, &layout, &canvas, &part, direct)?;
            }
        }
        self.write_batch(mover, &mut batch)
    }

    /// The runs of a box where they can be written from where they lie: in file order, and out of step with the
    /// blocks by the same amount as in the file.
    fn in_place(&self, layout: &LinearLayout, canvas: &Canvas, part: &ArrayBox) -> Option<Source> {
        let start = (self.shared.swap == 1).then(|| dense_in_file_order(layout, canvas, part)).flatten()?;
        let (runs, block) = (layout.runs(part), BLOCK as u64);
        let len = runs.run_bytes as usize;
        let in_step = waits_little(&runs)
            && runs
                .offsets()
                .enumerate()
                .all(|(i, at)| (start as u64 + (i * len) as u64).wrapping_sub(at).is_multiple_of(block));
        // What stands in front of a single run in its block of memory may be of no use, as in the staging memory.
        let skew = (runs.first % block) as usize;
        let skewed = skew > 0 && runs.count() == 1 && canvas.margins(part).0 >= skew;
        let start = if skewed { start.wrapping_sub(skew) } else { start };
        in_step.then(|| Source { start, pitch: len, row_bytes: runs.in_row() as usize * len, skewed })
    }

    /// Adds the runs of a part of a box to what is written next. What there is no room for beside it is written now.
    fn add_part(
        &self,
        batch: &mut Batch,
        mover: &mut Mover,
        layout: &LinearLayout,
        canvas: &Canvas,
        part: &ArrayBox,
        direct: Option<Source>,
    ) -> Result<()> {
        let runs = layout.runs(part);
        let bytes = if direct.is_some() { 0 } else { Source::room(&runs).next_multiple_of(BLOCK) };
        let waiting = if are_blocks(&runs) { 0 } else { runs.count() };
        if batch.used + bytes > batch.room || batch.waiting + waiting > MOST_RUNS {
            self.write_batch(mover, batch)?;
        }
        let firsts: Vec<u64> = runs.rows().offsets().collect();
        let source = direct.unwrap_or_else(|| {
            let source = Source::staged(&runs, batch.staging.wrapping_add(batch.used));
            assert!(batch.used + firsts.len() * source.row_bytes <= batch.room);
            let mut strides = layout.dense_strides(&layout.shape);
            runs.axes.last().into_iter().for_each(|&axis| strides[axis] = source.pitch as isize);
            for (row, row_box) in runs.row_boxes(part).enumerate() {
                let target = source.row(row, firsts[row]);
                // SAFETY: the row's place in the staging memory is `row_bytes` long, and ours.
                unsafe { canvas.gather(&row_box, target, &strides, self.shared.swap) };
            }
            source
        });
        let (len, in_row) = (runs.run_bytes as usize, runs.in_row() as usize);
        batch.runs.extend(runs.offsets().enumerate().map(|(i, at)| {
            let row = source.row(i / in_row, firsts[i / in_row]);
            Run { at, memory: row.wrapping_add(i % in_row * source.pitch), len, is_skewed: source.skewed }
        }));
        batch.used += bytes;
        batch.waiting += waiting;
        Ok(())
    }

    /// Writes what has been added, but for blocks that are not whole yet, which wait.
    fn write_batch(&self, mover: &mut Mover, batch: &mut Batch) -> Result<()> {
        let end = self.layout.end();
        let block = BLOCK as u64;
        let together = self.shared.flushing.read().unwrap_or_else(PoisonError::into_inner);
        let mut whole = BTreeMap::new();
        let mut writes = Vec::new();
        {
            let mut seams = lock(&self.shared.seams);
            for Run { at, memory, len, is_skewed } in batch.runs.drain(..) {
                let stop = at + len as u64;
                let mut from = at.next_multiple_of(block).min(stop);
                let to = (stop / block * block).max(from);
                for (a, b) in [(at, from), (to, stop)] {
                    if a < b {
                        // SAFETY: the run is in memory from `memory` on; `a` and `b` lie inside it.
                        let bytes = unsafe {
                            std::slice::from_raw_parts(
                                memory.wrapping_add((a - at) as usize),
                                (b - a) as usize,
                            )
                        };
                        let Some((first, seam)) = seams.put(a, bytes, end) else { continue };
                        if a < from && from < to && is_skewed {
                            // One request instead of two: the block goes in front of those that follow it.
                            let lead = (at - first) as usize;
                            let front = memory.wrapping_sub(lead);
                            // SAFETY: the block of memory in which the run begins is ours from its start on. What
                            // was there of the run before is in the seams by now.
                            unsafe { front.copy_from_nonoverlapping(seam.as_ptr(), lead) };
                            from = first;
                        } else {
                            whole.insert(first, seam);
                        }
                    }
                }
                if from < to {
                    seams.forget(from, to);
                    seams.mark(from, to);
                    let memory = memory.wrapping_add(from as usize).wrapping_sub(at as usize);
                    writes.push(Transfer::write(&self.shared.file, from, memory, (to - from) as usize));
                }
            }
        }
        if !(writes.is_empty() && whole.is_empty()) {
            // SAFETY: the runs' memory is a canvas's or the staging memory, neither of which changes
            // before this returns.
            unsafe { self.write_with(mover, &whole, writes)? };
        }
        drop(together);
        (batch.used, batch.waiting) = (0, 0);
        if lock(&self.shared.seams).len() > self.shared.may_wait.load(Ordering::Relaxed) {
            self.flush_seams(mover)?;
        }
        Ok(())
    }
}
