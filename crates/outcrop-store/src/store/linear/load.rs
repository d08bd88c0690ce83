//! From a file's runs to memory.

use super::traffic::{self, RowPart};
use super::{LEAST_STAGING, LEAST_STRAIGHT, LinearArray, dense_in_file_order};
use crate::error::{Error, Result};
use crate::io::{Direction, Transfer};
use crate::layout::{LinearLayout, Runs};
use crate::shape::ArrayBox;
use crate::store::Mover;
use crate::store::transfer::canvas::Canvas;
use crate::store::transfer::edges::Edges;
use crate::store::transfer::seams::{BLOCK, Waiting};

/// The block at the end of what was read last, for a next part that begins with it.
struct Carry {
    offset: Option<u64>,
    bytes: Box<[u8; BLOCK]>,
}

/// What is read: from where in the file, to which memory, how many bytes, and how many of them there have to be.
type Reads = Vec<(u64, *mut u8, usize, usize)>;

impl LinearArray {
    /// Loads the canvas's box: straight where the runs fit the memory as they are, else through the
    /// staging memory, in parts. What is `waiting` is newer than the file.
    pub(super) fn load_box(
        &self,
        layout: &LinearLayout,
        mover: &mut Mover,
        canvas: &Canvas,
        waiting: &Waiting,
    ) -> Result<()> {
        if self.load_straight(layout, mover, canvas, canvas.region(), None, waiting)? {
            return Ok(());
        }
        let (_, _, room) = mover.parts(LEAST_STAGING)?;
        let mut carry = Carry { offset: None, bytes: Box::new([0; BLOCK]) };
        let fit = |runs: &Runs| runs.staging(BLOCK as u64) <= room as u64;
        for part in layout.split(canvas.region(), BLOCK as u64, &fit) {
            if self.load_straight(layout, mover, canvas, &part, Some(&mut carry), waiting)? {
            } else if layout.runs(&part).are_apart(BLOCK as u64) {
                self.load_apart(layout, mover, canvas, &part, None, waiting)?;
            } else {
                self.load_staged(layout, mover, canvas, &part, &mut carry, waiting)?;
            }
        }
        Ok(())
    }

    /// Loads the canvas's box, whose runs are apart and fit the staging memory, with what the box before
    /// has left of their first blocks, and keeps what is left of their last.
    pub(super) fn load_beside_box(
        &self,
        layout: &LinearLayout,
        mover: &mut Mover,
        canvas: &Canvas,
        edges: &mut Edges,
        waiting: &Waiting,
    ) -> Result<()> {
        let (_, _, room) = mover.parts(LEAST_STAGING)?;
        if traffic::cuts(layout, canvas.region(), room).is_none() {
            return Err(Error::invalid("a box whose edges are kept has to fit the staging memory"));
        }
        self.load_apart(layout, mover, canvas, canvas.region(), Some(edges), waiting)
    }

    /// Loads a box without staging memory for more than two blocks, if it lies in memory as it does in the
    /// file, and as far from the blocks' edges. Where it is a part, the block at the `seam` with the one before is not
    /// read again, and that with the next one is kept.
    fn load_straight(
        &self,
        layout: &LinearLayout,
        mover: &mut Mover,
        canvas: &Canvas,
        region: &ArrayBox,
        seam: Option<&mut Carry>,
        waiting: &Waiting,
    ) -> Result<bool> {
        let Some(start) =
            (self.shared.swap == 1).then(|| dense_in_file_order(layout, canvas, region)).flatten()
        else {
            return Ok(false);
        };
        let (cancel, disk) = (mover.cancel.clone(), mover.disk);
        let runs = layout.runs(region);
        let (len, block) = (runs.run_bytes as usize, BLOCK as u64);
        if traffic::is_regular(layout, region) && (start as usize).is_multiple_of(BLOCK) {
            let (queue, _, _) = mover.parts(0)?;
            let mut reads = runs
                .offsets()
                .enumerate()
                .map(|(i, at)| Transfer::read(&self.shared.file, at, start.wrapping_add(i * len), len, len));
            // SAFETY: the canvas's memory is ours to fill, and the runs fill disjoint parts of it.
            unsafe {
                disk.transfer(queue, &self.shared.file, &mut reads, Direction::Read, &cancel)?;
                for (i, at) in runs.offsets().enumerate() {
                    waiting.complete(at, start.wrapping_add(i * len), len);
                }
            }
            return Ok(true);
        }
        let (at, stop) = (runs.first, runs.first + runs.run_bytes);
        if runs.count() > 1 || len < LEAST_STRAIGHT || !(start as u64).wrapping_sub(at).is_multiple_of(block)
        {
            return Ok(false);
        }
        let (from, to) = (at / block * block, stop.next_multiple_of(block));
        let (lead, room) = canvas.margins(region);
        if seam.is_none() && (at - from) as usize <= lead && (to - at) as usize <= room {
            let (queue, _, _) = mover.parts(0)?;
            let memory = start.wrapping_sub((at - from) as usize);
            let need = (stop - from) as usize;
            let mut read =
                std::iter::once(Transfer::read(&self.shared.file, from, memory, (to - from) as usize, need));
            // SAFETY: the block's memory is ours to fill, and so is what stands beside it up to blocks' edges.
            unsafe {
                disk.transfer(queue, &self.shared.file, &mut read, Direction::Read, &cancel)?;
                waiting.complete(from, memory, (to - from) as usize);
            }
            return Ok(true);
        }
        // Whole blocks go to their places; of those at the ends, only a part belongs there.
        let (queue, staging, _) = mover.parts(LEAST_STAGING)?;
        let (from, to) = (at.next_multiple_of(block), stop / block * block);
        let inner = (to - from) as usize;
        let head = (from - at) as usize;
        let mut reads = vec![Transfer::read(&self.shared.file, from, start.wrapping_add(head), inner, inner)];
        let carried = seam.as_deref().filter(|carry| head > 0 && carry.offset == Some(from - block));
        if let Some(carry) = carried {
            // SAFETY: a block of the staging memory, which is ours.
            unsafe { std::ptr::copy_nonoverlapping(carry.bytes.as_ptr(), staging, BLOCK) };
        } else if head > 0 {
            reads.push(Transfer::read(&self.shared.file, from - block, staging, BLOCK, BLOCK));
        }
        let tail = (stop - to) as usize;
        let last = staging.wrapping_add(BLOCK);
        if tail > 0 {
            reads.push(Transfer::read(&self.shared.file, to, last, BLOCK, tail));
        }
        let is_carried = carried.is_some();
        // SAFETY: the run's memory is ours to fill, as are two blocks of staging memory; afterwards these hold
        // what belongs in front of the whole blocks and behind them.
        unsafe {
            disk.transfer(queue, &self.shared.file, &mut reads.into_iter(), Direction::Read, &cancel)?;
            waiting.complete(from, start.wrapping_add(head), inner);
            if head > 0 && !is_carried {
                waiting.complete(from - block, staging, BLOCK);
            }
            if tail > 0 {
                waiting.complete(to, last, BLOCK);
            }
            std::ptr::copy_nonoverlapping(staging.wrapping_add(BLOCK - head), start, head);
            std::ptr::copy_nonoverlapping(last, start.wrapping_add(head + inner), tail);
            if let Some(carry) = seam.filter(|_| tail > 0) {
                std::ptr::copy_nonoverlapping(last, carry.bytes.as_mut_ptr(), BLOCK);
                carry.offset = Some(to);
            }
        }
        Ok(true)
    }

    /// Loads a part whose runs have intervals of their own: they come to lie at equal distances in the staging
    /// memory, so that a row of them is one block with regular strides.
    fn load_apart(
        &self,
        layout: &LinearLayout,
        mover: &mut Mover,
        canvas: &Canvas,
        part: &ArrayBox,
        mut edges: Option<&mut Edges>,
        waiting: &Waiting,
    ) -> Result<()> {
        let (cancel, disk) = (mover.cancel.clone(), mover.disk);
        let runs = layout.runs(part);
        let (block, len, end) = (BLOCK as u64, runs.run_bytes, self.layout.end());
        let pitch = runs.read_pitch(block) as usize;
        let row_bytes = runs.row_bytes(pitch as u64, block) as usize;
        let in_row = runs.in_row() as usize;
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let firsts: Vec<u64> = runs.rows().offsets().collect();
        assert!(firsts.len() * row_bytes <= room);
        let row_place = |row: usize| row * row_bytes + (firsts[row] % block) as usize;
        let place = |i: usize| row_place(i / in_row) + i % in_row * pitch;
        let mut reads = Reads::with_capacity(runs.count() as usize);
        let (row_part, heads) =
            if edges.is_some() { traffic::heads(layout, part, &runs) } else { (RowPart::Other, Vec::new()) };
        for (i, at) in runs.offsets().enumerate() {
            let (skew, mut from) = (at % block, at - at % block);
            let mut to = (at + len).next_multiple_of(block);
            if let Some(Edges { rests, heads: kept }) = edges.as_deref_mut() {
                if skew > 0 && rests.are_filled() {
                    // SAFETY: the rest of the run's first block has a place in the staging memory.
                    unsafe { rests.take(staging.wrapping_add(place(i)), (block - skew) as usize)? };
                    from += block;
                }
                if row_part == RowPart::Last && heads[i] > 0 && kept.are_filled() {
                    let head = staging.wrapping_add(place(i) + len as usize - heads[i]);
                    // SAFETY: the run's end has a place in the staging memory, and is longer than the head.
                    unsafe { kept.take(head, heads[i])? };
                    to -= block;
                }
            }
            if from < to {
                let memory = staging.wrapping_add(place(i) - skew as usize + (from + skew - at) as usize);
                let need = end.saturating_sub(from).min(to - from) as usize;
                reads.push((from, memory, (to - from) as usize, need));
            }
        }
        let mut transfers = self.transfers(&reads);
        // SAFETY: the runs' blocks have disjoint places in the staging memory, which is ours.
        unsafe {
            disk.transfer(queue, &self.shared.file, &mut transfers, Direction::Read, &cancel)?;
            reads.iter().for_each(|&(from, memory, len, _)| waiting.complete(from, memory, len));
        }
        if let Some(Edges { rests, heads: kept }) = edges {
            rests.clear();
            // What follows the last box of the rows is no one's.
            for (i, at) in runs.offsets().enumerate().filter(|_| row_part != RowPart::Last) {
                let rest = ((at + len).next_multiple_of(block) - (at + len)) as usize;
                // SAFETY: the block was read above, whole, or is what was taken.
                unsafe { rests.keep(staging.wrapping_add(place(i) + len as usize), rest)? };
                if row_part == RowPart::First && kept.has_room() {
                    // SAFETY: the block in which the run begins was read above, whole.
                    unsafe { kept.keep(staging.wrapping_add(place(i) - heads[i]), heads[i])? };
                }
            }
        }
        let mut strides = layout.dense_strides(&layout.shape);
        runs.axes.last().into_iter().for_each(|&axis| strides[axis] = pitch as isize);
        for (row, row_box) in runs.row_boxes(part).enumerate() {
            // SAFETY: the row's runs lie there at these strides.
            unsafe {
                canvas.scatter(&row_box, staging.wrapping_add(row_place(row)), &strides, self.shared.swap)
            };
        }
        Ok(())
    }

    fn transfers(&self, reads: &Reads) -> impl Iterator<Item = Transfer> {
        reads.iter().map(|&(at, memory, len, need)| Transfer::read(&self.shared.file, at, memory, len, need))
    }

    fn load_staged(
        &self,
        layout: &LinearLayout,
        mover: &mut Mover,
        canvas: &Canvas,
        part: &ArrayBox,
        carry: &mut Carry,
        waiting: &Waiting,
    ) -> Result<()> {
        let cancel = mover.cancel.clone();
        let runs = layout.runs(part);
        let block = BLOCK as u64;
        let disk = mover.disk;
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let end = self.layout.end();
        let mut filled = 0usize;
        let mut places: Vec<(u64, usize)> = Vec::new();
        let mut reads = Reads::new();
        for interval in runs.intervals(block) {
            places.push((interval.offset, filled));
            assert!(filled + interval.len as usize <= room);
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
                reads.push((offset, staging.wrapping_add(filled), len, need));
                filled += len;
            }
        }
        let mut transfers = self.transfers(&reads);
        // SAFETY: the intervals have disjoint places in the staging memory, which is ours.
        unsafe {
            disk.transfer(queue, &self.shared.file, &mut transfers, Direction::Read, &cancel)?;
            reads.iter().for_each(|&(from, memory, len, _)| waiting.complete(from, memory, len));
        }
        if let Some(last) = filled.checked_sub(BLOCK) {
            // SAFETY: the bytes up to `filled` were read above.
            let from = unsafe { std::slice::from_raw_parts(staging.wrapping_add(last), BLOCK) };
            carry.bytes.copy_from_slice(from);
            let &(offset, place) = places.last().expect("something was read");
            carry.offset = Some(offset + (last - place) as u64);
        }
        self.scatter_runs(layout, canvas, part, &places, staging);
        Ok(())
    }

    /// Copies the runs of a part from their places in the staging memory to the canvas.
    fn scatter_runs(
        &self,
        layout: &LinearLayout,
        canvas: &Canvas,
        part: &ArrayBox,
        places: &[(u64, usize)],
        staging: *const u8,
    ) {
        // Runs inside one interval lie at the file's own strides, so that whole sub-boxes can be
        // copied at once; the outer axes are walked until that holds.
        let mut interval = 0;
        let strides = layout.dense_strides(&layout.shape);
        each_regular(layout, part, places, &mut |sub, first| {
            while interval + 1 < places.len() && places[interval + 1].0 <= first {
                interval += 1;
            }
            while interval > 0 && places[interval].0 > first {
                interval -= 1;
            }
            let (offset, place) = places[interval];
            let source = staging.wrapping_add(place + (first - offset) as usize);
            // SAFETY: the interval holds every run of `sub`, at the strides of the file.
            unsafe { canvas.scatter(sub, source, &strides, self.shared.swap) };
        });
    }
}

/// Calls `each` for sub-boxes of `part`, in file order, whose runs lie in one interval each; with the file
/// offset of the first run.
fn each_regular(
    layout: &LinearLayout,
    part: &ArrayBox,
    places: &[(u64, usize)],
    each: &mut dyn FnMut(&ArrayBox, u64),
) {
    let runs = layout.runs(part);
    let last = runs.last() + runs.run_bytes;
    let holder = |from: u64| places.partition_point(|&(o, _)| o <= from).saturating_sub(1);
    let in_one = holder(runs.first) == holder(last - 1);
    match layout.axes.iter().copied().find(|&a| part.shape[a] > 1) {
        Some(axis) if !in_one => {
            for i in 0..part.shape[axis] {
                let mut sub = part.clone();
                sub.start[axis] += i;
                sub.shape[axis] = 1;
                each_regular(layout, &sub, places, each);
            }
        }
        _ => each(part, runs.first),
    }
}
