//! Memory that no frame has now, kept for the next one.

use super::mapping::Mapping;
use std::collections::{BTreeMap, BTreeSet};

/// Memory kept for reuse: pieces of the sizes that frames had, and ranges of no such size, joined where they touch.
///
/// While frames have the same few sizes, each takes a piece as it is. When others are wanted and there is no room for
/// more memory, the pieces become ranges, and the new frames are cut from those: memory that was used before costs
/// nothing, and new memory as much as reading its content from a fast disk, as the kernel clears it.
#[derive(Default)]
pub(super) struct Kept {
    /// By size; the one that came back last is taken first, as its memory is likeliest to be in the processor's
    /// caches, and to have been used at all.
    pieces: BTreeMap<usize, Vec<Mapping>>,
    /// By start; none starts where another ends.
    ranges: BTreeMap<usize, Mapping>,
    /// Length and start of each range.
    lengths: BTreeSet<(usize, usize)>,
    bytes: usize,
}

impl Kept {
    /// Bytes of all that is kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is kept: starts and lengths.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<(usize, usize)> {
        let pieces = self.pieces.values().flatten();
        pieces.chain(self.ranges.values()).map(|kept| (kept.start(), kept.len())).collect()
    }

    /// Whether [`take`](Self::take) finds something.
    pub(super) fn has(&self, len: usize) -> bool {
        self.pieces.get(&len).is_some_and(|pieces| !pieces.is_empty())
            || self.lengths.last().is_some_and(|&(longest, _)| longest >= len)
    }

    /// A piece of `len` bytes, or the beginning of the shortest range that has as many.
    pub(super) fn take(&mut self, len: usize) -> Option<Mapping> {
        if let Some(piece) = self.pieces.get_mut(&len).and_then(Vec::pop) {
            self.bytes -= len;
            return Some(piece);
        }
        let &(length, start) = self.lengths.range((len, 0)..).next()?;
        let (piece, rest) = self.remove_range(length, start).split(len);
        if let Some(rest) = rest {
            self.insert_range(rest);
        }
        Some(piece)
    }

    /// Keeps what was a frame.
    pub(super) fn put(&mut self, piece: Mapping) {
        self.bytes += piece.len();
        self.pieces.entry(piece.len()).or_default().push(piece);
    }

    /// Makes ranges of the largest pieces there are: of all of that size. Returns whether there were any.
    pub(super) fn join_largest(&mut self) -> bool {
        let Some((_, pieces)) = self.pieces.pop_last() else { return false };
        for piece in pieces {
            self.bytes -= piece.len();
            self.put_range(piece);
        }
        true
    }

    /// Keeps what has the size of no frame.
    pub(super) fn put_range(&mut self, mut range: Mapping) {
        let next = range.start() + range.len();
        if let Some(length) = self.ranges.get(&next).map(Mapping::len) {
            range = range.join(self.remove_range(length, next));
        }
        let before =
            self.ranges.range(..range.start()).next_back().map(|(&start, range)| (start, range.len()));
        if let Some((start, length)) = before.filter(|(start, length)| start + length == range.start()) {
            range = self.remove_range(length, start).join(range);
        }
        self.insert_range(range);
    }

    fn insert_range(&mut self, range: Mapping) {
        self.bytes += range.len();
        self.lengths.insert((range.len(), range.start()));
        self.ranges.insert(range.start(), range);
    }

    fn remove_range(&mut self, length: usize, start: usize) -> Mapping {
        self.lengths.remove(&(length, start));
        self.bytes -= length;
        self.ranges.remove(&start).expect("each length is that of a range")
    }

    /// Takes at least `bytes` bytes from what is kept, or all of it, to be given back to the system: ranges first, and
    /// the largest first. Of what is longer a multiple of `unit` bytes goes.
    pub(super) fn give_up(&mut self, bytes: usize, unit: usize) -> Vec<Mapping> {
        let mut given_up = Vec::new();
        let mut missing = bytes;
        while missing > 0 {
            let Some(&(length, start)) = self.lengths.last() else {
                if self.join_largest() {
                    continue;
                }
                break;
            };
            let (gone, rest) =
                self.remove_range(length, start).split(length.min(missing.next_multiple_of(unit)));
            if let Some(rest) = rest {
                self.insert_range(rest);
            }
            missing = missing.saturating_sub(gone.len());
            given_up.push(gone);
        }
        given_up
    }
}
