//! From memory to a file's runs.

use super::{LEAST_STAGING, LinearArray, lock};
use crate::error::Result;
use crate::io::{Direction, Transfer};
use crate::layout::Runs;
use crate::shape::{ArrayBox, BoxIndices};
use crate::store::Mover;
use crate::store::canvas::Canvas;
use crate::store::seams::{BLOCK, Seam, Seams};
use std::collections::BTreeMap;
use std::sync::PoisonError;

struct Source {
    start: *mut u8,
    /// Bytes from one run to the next.
    pitch: usize,
    /// Whether a run starts at its offset's place in a block rather than at `pitch`.
    skewed: bool,
}

/// Bytes of staging memory for each run that is to be written.
fn pitch(runs: &Runs) -> usize {
    let len = runs.run_bytes as usize;
    // A run that may hold a whole block starts where that block will be aligned.
    if len < BLOCK { len } else { (len + BLOCK).next_multiple_of(BLOCK) }
}

impl LinearArray {
    /// Writes waiting blocks, completed from the file where they are not whole.
    fn write_seams(&self, mover: &mut Mover, mut blocks: BTreeMap<u64, Seam>, whole: bool) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let cancel = mover.cancel.clone();
        let (disk, end) = (mover.disk, self.layout.end());
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let written = (|| {
            if !whole {
                let mut offsets: Vec<u64> = blocks.keys().copied().collect();
                {
                    let seams = lock(&self.seams);
                    offsets.retain(|&at| seams.is_written(at));
                }
                // As many old blocks at once as the staging memory holds. A block that was not written
                // yet is completed with zeros, which it has where nothing was put.
                for some in offsets.chunks(room / BLOCK) {
                    let mut reads = some.iter().enumerate().map(|(i, &at)| {
                        let need = (end - at).min(BLOCK as u64) as usize;
                        Transfer::read(&self.file, at, staging.wrapping_add(i * BLOCK), BLOCK, need)
                    });
                    // SAFETY: each read has its own block of staging memory, which is ours until the end.
                    unsafe { disk.transfer(queue, &self.file, &mut reads, Direction::Read, &cancel)? };
                    for (i, at) in some.iter().enumerate() {
                        // SAFETY: the block was read above; bytes behind the file's end are not used.
                        let old =
                            unsafe { std::slice::from_raw_parts(staging.wrapping_add(i * BLOCK), BLOCK) };
                        blocks.get_mut(at).expect("taken from its keys").complete(old);
                    }
                }
            }
            let mut inner = blocks
                .range(..end / BLOCK as u64 * BLOCK as u64)
                .map(|(&at, seam)| Transfer::write(&self.file, at, seam.as_ptr(), BLOCK));
            // SAFETY: the blocks live in the map until the end of this function.
            unsafe { disk.transfer(queue, &self.file, &mut inner, Direction::Write, &cancel)? };
            {
                let mut seams = lock(&self.seams);
                blocks.keys().for_each(|&at| seams.mark(at, at + BLOCK as u64));
            }
            // The file's last block is not written beyond its end.
            if let Some((&at, seam)) = blocks.range(end / BLOCK as u64 * BLOCK as u64..).next() {
                disk.write_unaligned(&self.file, at, &seam.bytes()[..(end - at) as usize])?;
            }
            Ok(())
        })();
        if written.is_err() && !whole {
            lock(&self.seams).restore(blocks);
        }
        written
    }

    /// Writes every waiting block; when this returns, nothing waits and no flush is under way.
    pub(super) fn flush_seams(&self, mover: &mut Mover) -> Result<()> {
        let _alone = self.flushing.write().unwrap_or_else(PoisonError::into_inner);
        let blocks = lock(&self.seams).take_all();
        self.write_seams(mover, blocks, false)
    }

    /// Stores the canvas's box, in parts whose runs fit the staging memory.
    pub(super) fn store_box(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let (_, _, room) = mover.parts(LEAST_STAGING)?;
        let fit = |runs: &Runs| runs.count() as usize * pitch(runs) <= room;
        for part in self.layout.split(canvas.region(), BLOCK as u64, &fit) {
            self.store_part(mover, canvas, &part)?;
        }
        Ok(())
    }

    fn store_part(&self, mover: &mut Mover, canvas: &Canvas, part: &ArrayBox) -> Result<()> {
        let cancel = mover.cancel.clone();
        let runs = self.layout.runs(part);
        let end = self.layout.end();
        let disk = mover.disk;
        let block = BLOCK as u64;
        let len = runs.run_bytes as usize;
        let direct = (self.swap == 1).then(|| self.dense_in_file_order(canvas, part)).flatten();
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let pitch = pitch(&runs);
        let source = match direct {
            // Memory and file must be out of step with the blocks by the same amount.
            Some(start)
                if runs.offsets().enumerate().all(|(i, at)| {
                    (start as u64 + (i * len) as u64).wrapping_sub(at).is_multiple_of(block)
                }) =>
            {
                Source { start, pitch: len, skewed: false }
            }
            _ => {
                debug_assert!(runs.count() as usize * pitch <= room);
                let mut run_box = part.clone();
                let outer = runs.counts.len();
                let ndim = part.ndim();
                let to_array = |a: usize| if self.layout.column_major { ndim - 1 - a } else { a };
                for a in 0..outer {
                    run_box.shape[to_array(a)] = 1;
                }
                let strides = self.file_strides(&run_box.shape);
                let outer_box = ArrayBox::whole(&runs.counts);
                for (i, (at, index)) in runs.offsets().zip(BoxIndices::new(&outer_box)).enumerate() {
                    for a in 0..outer {
                        run_box.start[to_array(a)] = part.start[to_array(a)] + index[a];
                    }
                    let skew = if pitch > len { (at % block) as usize } else { 0 };
                    let target = staging.wrapping_add(i * pitch + skew);
                    // SAFETY: the run's place in the staging memory is `pitch` bytes long and ours.
                    unsafe { canvas.gather(&run_box, target, &strides, self.swap) };
                }
                Source { start: staging, pitch, skewed: pitch > len }
            }
        };
        let together = self.flushing.read().unwrap_or_else(PoisonError::into_inner);
        let mut whole = BTreeMap::new();
        let mut writes = Vec::new();
        {
            let mut seams = lock(&self.seams);
            for (i, at) in runs.offsets().enumerate() {
                let skew = if source.skewed { (at % block) as usize } else { 0 };
                let memory = source.start.wrapping_add(i * source.pitch + skew);
                let stop = at + len as u64;
                let from = at.next_multiple_of(block).min(stop);
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
                        whole.extend(seams.put(a, bytes, end));
                    }
                }
                if from < to {
                    seams.forget(from, to);
                    seams.mark(from, to);
                    let memory = memory.wrapping_add((from - at) as usize);
                    writes.push(Transfer::write(&self.file, from, memory, (to - from) as usize));
                }
            }
        }
        // SAFETY: the runs' memory is the canvas's or the staging memory, neither of which changes
        // before this returns.
        unsafe { disk.transfer(queue, &self.file, &mut writes.into_iter(), Direction::Write, &cancel)? };
        self.write_seams(mover, whole, true)?;
        drop(together);
        if lock(&self.seams).len() > Seams::MOST {
            self.flush_seams(mover)?;
        }
        Ok(())
    }
}
