//! From a file's runs to memory.

use super::{LEAST_STAGING, LinearArray};
use crate::error::Result;
use crate::io::{Direction, Transfer};
use crate::layout::Runs;
use crate::layout::linear::READ_THROUGH;
use crate::shape::ArrayBox;
use crate::store::Mover;
use crate::store::canvas::Canvas;
use crate::store::seams::BLOCK;

/// The block at the end of what was read last, for a next part that begins with it.
struct Carry {
    offset: Option<u64>,
    bytes: Box<[u8; BLOCK]>,
}

impl LinearArray {
    /// Loads the canvas's box: straight where the runs fit the memory as they are, else through the
    /// staging memory, in parts.
    pub(super) fn load_box(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        if self.info.writable {
            self.flush_seams(mover)?;
        }
        if let Some(start) = self.straight(canvas, canvas.region()) {
            return self.load_straight(mover, canvas.region(), start);
        }
        let (_, _, room) = mover.parts(LEAST_STAGING)?;
        let mut carry = Carry { offset: None, bytes: Box::new([0; BLOCK]) };
        let fit = |runs: &Runs| runs.staging(BLOCK as u64) <= room as u64;
        for part in self.layout.split(canvas.region(), BLOCK as u64, &fit) {
            match self.straight(canvas, &part) {
                Some(start) => self.load_straight(mover, &part, start)?,
                None => self.load_staged(mover, canvas, &part, &mut carry)?,
            }
        }
        Ok(())
    }

    /// Bytes that [`load_box`](Self::load_box) reads with `room` bytes of staging memory.
    pub(super) fn bytes_read(&self, region: &ArrayBox, room: usize) -> u64 {
        if region.is_empty() {
            return 0;
        }
        if self.is_regular(region) {
            // Straight or through the staging memory: the same blocks.
            let runs = self.layout.runs(region);
            return runs.offsets().count() as u64 * runs.run_bytes;
        }
        let (block, end) = (BLOCK as u64, self.layout.end());
        let fit = |runs: &Runs| runs.staging(block) <= room as u64;
        let (mut bytes, mut carried) = (0, None);
        for part in self.layout.split(region, block, &fit) {
            for interval in self.layout.runs(&part).intervals(block) {
                let (mut offset, mut len) = (interval.offset, interval.len);
                if carried == Some(offset) {
                    (offset, len) = (offset + block, len - block);
                }
                bytes += len.min(end.saturating_sub(offset).next_multiple_of(block));
                carried = Some(interval.offset + interval.len - block);
            }
        }
        bytes
    }

    /// Whether each of a box's runs is whole blocks, and worth a request of its own.
    fn is_regular(&self, region: &ArrayBox) -> bool {
        let runs = self.layout.runs(region);
        let block = BLOCK as u64;
        let aligned = runs.first.is_multiple_of(block)
            && runs.run_bytes.is_multiple_of(block)
            && runs.strides.iter().all(|s| s.is_multiple_of(block));
        aligned && runs.strides.last().is_none_or(|&s| s > runs.run_bytes + READ_THROUGH)
    }

    /// Where a box begins in memory, if it can be read straight there.
    fn straight(&self, canvas: &Canvas, region: &ArrayBox) -> Option<*mut u8> {
        if self.swap != 1 || !self.is_regular(region) {
            return None;
        }
        self.dense_in_file_order(canvas, region).filter(|&start| (start as usize).is_multiple_of(BLOCK))
    }

    fn load_straight(&self, mover: &mut Mover, region: &ArrayBox, start: *mut u8) -> Result<()> {
        let cancel = mover.cancel.clone();
        let runs = self.layout.runs(region);
        let disk = mover.disk;
        let (queue, _, _) = mover.parts(0)?;
        let len = runs.run_bytes as usize;
        let mut reads = runs
            .offsets()
            .enumerate()
            .map(|(i, at)| Transfer::read(&self.file, at, start.wrapping_add(i * len), len, len));
        // SAFETY: the canvas's memory is ours to fill, and the runs fill disjoint parts of it.
        unsafe { disk.transfer(queue, &self.file, &mut reads, Direction::Read, &cancel) }
    }

    fn load_staged(
        &self,
        mover: &mut Mover,
        canvas: &Canvas,
        part: &ArrayBox,
        carry: &mut Carry,
    ) -> Result<()> {
        let cancel = mover.cancel.clone();
        let runs = self.layout.runs(part);
        let block = BLOCK as u64;
        let disk = mover.disk;
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let end = self.layout.end();
        let mut filled = 0usize;
        let mut places: Vec<(u64, usize)> = Vec::new();
        let mut reads = Vec::new();
        for interval in runs.intervals(block) {
            places.push((interval.offset, filled));
            debug_assert!(filled + interval.len as usize <= room);
            let (mut offset, mut len) = (interval.offset, interval.len as usize);
            if carry.offset == Some(offset) {
                // The block at the seam of two parts was read with the first.
                // SAFETY: `filled + len` bytes of staging memory are ours, as asserted.
                let to = unsafe { std::slice::from_raw_parts_mut(staging.wrapping_add(filled), BLOCK) };
                to.copy_from_slice(&carry.bytes[..]);
                (offset, len, filled) = (offset + block, len - BLOCK, filled + BLOCK);
            }
            if len > 0 {
                let need = (end.saturating_sub(offset) as usize).min(len);
                reads.push(Transfer::read(&self.file, offset, staging.wrapping_add(filled), len, need));
                filled += len;
            }
        }
        // SAFETY: the intervals have disjoint places in the staging memory, which is ours.
        unsafe { disk.transfer(queue, &self.file, &mut reads.into_iter(), Direction::Read, &cancel)? };
        if let Some(last) = filled.checked_sub(BLOCK) {
            // SAFETY: the bytes up to `filled` were read above.
            let from = unsafe { std::slice::from_raw_parts(staging.wrapping_add(last), BLOCK) };
            carry.bytes.copy_from_slice(from);
            let &(offset, place) = places.last().expect("something was read");
            carry.offset = Some(offset + (last - place) as u64);
        }
        self.scatter_runs(canvas, part, &places, staging);
        Ok(())
    }

    /// Copies the runs of a part from their places in the staging memory to the canvas.
    fn scatter_runs(&self, canvas: &Canvas, part: &ArrayBox, places: &[(u64, usize)], staging: *const u8) {
        // Runs inside one interval lie at the file's own strides, so that whole sub-boxes can be
        // copied at once; the outer axes are walked until that holds.
        let mut interval = 0;
        self.each_regular(part, places, &mut |sub, first| {
            while interval + 1 < places.len() && places[interval + 1].0 <= first {
                interval += 1;
            }
            while interval > 0 && places[interval].0 > first {
                interval -= 1;
            }
            let (offset, place) = places[interval];
            let source = staging.wrapping_add(place + (first - offset) as usize);
            let strides = self.file_strides(&self.layout.shape);
            // SAFETY: the interval holds every run of `sub`, at the strides of the file.
            unsafe { canvas.scatter(sub, source, &strides, self.swap) };
        });
    }

    /// Calls `each` for sub-boxes of `part`, in file order, whose runs lie in one interval each; with
    /// the file offset of the first run.
    fn each_regular(&self, part: &ArrayBox, places: &[(u64, usize)], each: &mut dyn FnMut(&ArrayBox, u64)) {
        let runs = self.layout.runs(part);
        let last = runs.last() + runs.run_bytes;
        let holder = |from: u64| places.partition_point(|&(o, _)| o <= from).saturating_sub(1);
        let in_one = holder(runs.first) == holder(last - 1);
        let ndim = part.ndim();
        let to_array =
            |file_axis: usize| if self.layout.column_major { ndim - 1 - file_axis } else { file_axis };
        let axis = (0..ndim).map(to_array).find(|&a| part.shape[a] > 1);
        match axis {
            Some(axis) if !in_one => {
                for i in 0..part.shape[axis] {
                    let mut sub = part.clone();
                    sub.start[axis] += i;
                    sub.shape[axis] = 1;
                    self.each_regular(&sub, places, each);
                }
            }
            _ => each(part, runs.first),
        }
    }
}
