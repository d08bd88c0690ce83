//! The bytes that boxes of a file take from and to the device.

use crate::layout::linear::READ_THROUGH;
use crate::layout::{LinearLayout, Runs};
use crate::shape::ArrayBox;
use crate::store::transfer::edges::Cuts;
use crate::store::transfer::seams::BLOCK;
use std::collections::HashSet;

/// Whether each of a box's runs is whole blocks, and worth a request of its own.
pub(in crate::store) fn is_regular(layout: &LinearLayout, region: &ArrayBox) -> bool {
    let runs = layout.runs(region);
    let block = BLOCK as u64;
    let aligned = runs.first.is_multiple_of(block)
        && runs.run_bytes.is_multiple_of(block)
        && runs.strides.iter().all(|s| s.is_multiple_of(block));
    aligned && runs.strides.last().is_none_or(|&s| s > runs.run_bytes + READ_THROUGH)
}

/// How far behind the edge of a block a box's first element stands.
pub(in crate::store) fn phase(layout: &LinearLayout, region: &ArrayBox) -> usize {
    if region.is_empty() { 0 } else { (layout.runs(region).first % BLOCK as u64) as usize }
}

/// Bytes read for a box of a file that ends at `end`, with `room` bytes of staging memory.
pub(in crate::store) fn to_load(layout: &LinearLayout, end: u64, region: &ArrayBox, room: usize) -> u64 {
    if region.is_empty() {
        return 0;
    }
    let (block, runs) = (BLOCK as u64, layout.runs(region));
    if is_regular(layout, region) {
        // Straight or through the staging memory: the same blocks.
        return runs.count() * runs.run_bytes;
    }
    let blocks = |from: u64, to: u64| to.next_multiple_of(block).min(end.next_multiple_of(block)) - from;
    if runs.are_apart(block) {
        return runs.offsets().map(|at| blocks(at / block * block, at + runs.run_bytes)).sum();
    }
    let fit = |runs: &Runs| runs.staging(block) <= room as u64;
    let (mut bytes, mut carried) = (0, None);
    for part in layout.split(region, block, &fit) {
        for interval in layout.runs(&part).intervals(block) {
            let stop = interval.offset + interval.len;
            let carry = if carried == Some(interval.offset) { block } else { 0 };
            bytes += blocks(interval.offset + carry, stop.max(interval.offset + carry));
            carried = Some(stop - block);
        }
    }
    bytes
}

/// Bytes written for a box of a file that ends at `end`. Blocks that boxes share count for the one that has
/// their last byte: they are written once, unless too many wait to be whole.
pub(in crate::store) fn to_store(layout: &LinearLayout, end: u64, region: &ArrayBox) -> u64 {
    if region.is_empty() {
        return 0;
    }
    let block = BLOCK as u64;
    let runs = layout.runs(region);
    let blocks = |at: u64| {
        let stop = at + runs.run_bytes;
        let stop = if stop == end { stop.next_multiple_of(block) } else { stop };
        stop / block - at / block
    };
    runs.offsets().map(blocks).sum::<u64>() * block
}

/// Bytes read and written where boxes of a file are stored one after the other, and blocks that they have in part are
/// completed from the file after each, where that `is_written` already.
pub(super) fn to_change(
    layout: &LinearLayout,
    end: u64,
    boxes: &[ArrayBox],
    is_written: &dyn Fn(u64) -> bool,
) -> (u64, u64) {
    let block = BLOCK as u64;
    let (mut reads, mut writes) = (0, 0);
    let mut completed = HashSet::new();
    for region in boxes.iter().filter(|region| !region.is_empty()) {
        let runs = layout.runs(region);
        // The block in which the last run ended, and how much of it the runs have.
        let mut open: Option<(u64, u64)> = None;
        let mut ends = 0;
        let mut close = |(at, filled): (u64, u64)| {
            ends += 1;
            if filled < (end - at).min(block) && (is_written(at) || !completed.insert(at)) {
                reads += 1;
            }
        };
        for at in runs.offsets() {
            let stop = at + runs.run_bytes;
            let mut from = at;
            while from < stop {
                let first = from / block * block;
                let to = stop.min(first + block);
                if from == first && to == first + block {
                    // Whole blocks, to the run's last one.
                    let last = stop / block * block;
                    writes += (last - first) / block;
                    from = last;
                    continue;
                }
                open = match open {
                    Some((own, filled)) if own == first => Some((own, filled + to - from)),
                    other => {
                        other.map(&mut close);
                        Some((first, to - from))
                    }
                };
                from = to;
            }
        }
        open.map(&mut close);
        writes += ends;
    }
    (reads * block, writes * block)
}

/// Which part of a file's rows a box has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowPart {
    First,
    Last,
    Other,
}

/// Which part of the rows a box has, and of each of its runs, the bytes of the block in which one row ends and the
/// next one begins that stand in front of that one: of the run's own row, where the box has the rows' first
/// elements, and of the row after it, where it has the last. 0 where that row is none of the box's.
pub(super) fn heads(layout: &LinearLayout, region: &ArrayBox, runs: &Runs) -> (RowPart, Vec<usize>) {
    let (block, none) = (BLOCK as u64, (RowPart::Other, Vec::new()));
    let Some(&fastest) = layout.axes.last() else { return none };
    let (start, extent, whole) = (region.start[fastest], region.shape[fastest], layout.shape[fastest]);
    let part = match (start == 0, start + extent == whole) {
        (true, false) => RowPart::First,
        // A run that is shorter than a block may lie in two blocks that are shared, or in one.
        (false, true) if runs.run_bytes >= block => RowPart::Last,
        _ => return none,
    };
    let offsets: Vec<u64> = runs.offsets().collect();
    let follows = |i: usize| offsets[i] - offsets[i - 1] == whole * layout.itemsize as u64;
    let shared = |i: usize| match part {
        RowPart::First if i > 0 && follows(i) => offsets[i] % block,
        RowPart::Last if i + 1 < offsets.len() && follows(i + 1) => (offsets[i] + runs.run_bytes) % block,
        _ => 0,
    };
    (part, (0..offsets.len()).map(|i| shared(i) as usize).collect())
}

/// What a box shares with those beside it, where its runs are loaded all at once with `room` bytes of staging
/// memory.
pub(in crate::store) fn cuts(layout: &LinearLayout, region: &ArrayBox, room: usize) -> Option<Cuts> {
    let (block, runs) = (BLOCK as u64, layout.runs(region));
    let memory = runs.rows().count() * runs.row_bytes(runs.read_pitch(block), block);
    if region.is_empty() || !(runs.count() == 1 || runs.are_apart(block)) || memory > room as u64 {
        return None;
    }
    let begun = runs.offsets().filter(|at| !at.is_multiple_of(block)).count() as u64;
    let rest = |at: u64| (at + runs.run_bytes).next_multiple_of(block) - (at + runs.run_bytes);
    let mut cuts = Cuts { begun: begun * block, rests: runs.offsets().map(rest).sum(), ..Cuts::default() };
    match heads(layout, region, &runs) {
        (RowPart::First, heads) => cuts.heads = heads.iter().map(|&n| n as u64).sum(),
        (RowPart::Last, heads) => cuts.ended = heads.iter().filter(|&&n| n > 0).count() as u64 * block,
        (RowPart::Other, _) => {}
    }
    Some(cuts)
}
