//! Chunks that lie in one file, each encoded: those of a shard, or of a data set.
//!
//! Chunks that are wanted are read together where they lie together, and decoded one after the other.

use super::bounded;
use super::codecs::Codecs;
use super::load::{Sink, Trouble, offset_of};
use super::memory::{self, blocks, read_range};
use crate::error::Result;
use crate::frame::Charge;
use crate::io::disk::DiskFile;
use crate::shape::ArrayBox;
use crate::store::Mover;
use crate::store::transfer::canvas::Strides;
use std::ops::Range;

/// Bytes between two wanted chunks that are read rather than skipped.
pub(super) const GAP: u64 = 64 << 10;

/// Where a chunk lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Bytes of a file that are read at once, with the chunks in them: a range of those in the order in which they lie.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) chunks: Range<usize>,
}

impl Extent {
    /// Bytes of the blocks in which it lies.
    pub(super) fn bytes(&self) -> u64 {
        let (start, end) = blocks(self.from, self.to);
        end - start
    }
}

/// Puts chunks in the order in which they lie.
pub(super) fn sort(positions: &mut [u64], place: impl Fn(u64) -> Place) {
    positions.sort_unstable_by_key(|&position| {
        let Place { from, to } = place(position);
        (from, to, position)
    });
}

/// Joins chunks, in the order in which they lie, to extents of at most so many bytes, unless a single chunk has more.
/// Independent of memory, so that the bytes read are known beforehand; and one after the other, as there may be as many as
/// chunks.
pub(super) fn extents(places: impl Iterator<Item = Place>, most: u64) -> impl Iterator<Item = Extent> {
    let mut places = places.enumerate().peekable();
    std::iter::from_fn(move || {
        let (first, Place { from, mut to }) = places.next()?;
        let mut end = first + 1;
        while let Some((at, next)) =
            places.next_if(|(_, next)| next.from <= to.saturating_add(GAP) && next.to.max(to) - from <= most)
        {
            (to, end) = (to.max(next.to), at + 1);
        }
        Some(Extent { from, to, chunks: first..end })
    })
}

/// Chunks of an array in one file, by their positions.
pub(super) trait InFile {
    /// Where a chunk lies.
    fn place(&self, position: u64) -> Place;

    /// How it is encoded.
    fn codecs(&self, position: u64) -> &Codecs;

    /// Its box in the array, where it may hang over.
    fn chunk(&self, position: u64) -> ArrayBox;

    /// Strides in bytes, along the array's axes, of a decoded chunk.
    fn strides(&self) -> &Strides;

    /// Compares its bytes with what is known of them; or what is wrong.
    fn compare(&self, position: u64, encoded: &[u8]) -> Result<(), String>;

    /// What is wrong, with the name of the chunk.
    fn damaged(&self, position: u64, what: String) -> String;
}

/// What is wanted of chunks.
pub(super) struct Wanted<'a> {
    /// The part of the array that is theirs: what they have beyond is nobody's.
    pub(super) all: &'a ArrayBox,
    pub(super) region: &'a ArrayBox,
    pub(super) sink: &'a Sink<'a>,
}

/// Reads an extent, and decodes the chunks in it. `beside`: heap memory that is in use besides, of which a part may have
/// been `charged` for.
pub(super) fn load_extent(
    mover: &mut Mover,
    file: &DiskFile,
    chunks: &impl InFile,
    (extent, positions): (&Extent, &[u64]),
    (beside, charged): (usize, Option<&Charge>),
    wanted: &Wanted,
) -> Result<(), Trouble> {
    let (disk, cancel) = (mover.disk, mover.cancel.clone());
    cancel.check()?;
    let memory = memory::Place::new(mover, extent.bytes() as usize)?;
    let range = (extent.from, extent.to);
    // SAFETY: the memory is ours and has room for those blocks.
    let at = unsafe { read_range(disk, &mut mover.queue, &cancel, file, range, memory.start)? };
    let heap = positions.iter().map(|&position| {
        let (codecs, (_, _, straight)) = (chunks.codecs(position), target(chunks, position, wanted));
        if straight.is_some() { codecs.straight_heap() } else { codecs.decode_heap() }
    });
    let heap = heap.max().unwrap_or(0);
    let _room = memory.make_more_room(mover, heap.saturating_add(beside), charged)?;
    let len = (extent.to - extent.from) as usize;
    // SAFETY: these bytes were read.
    let bytes = unsafe { std::slice::from_raw_parts(memory.start.add(at), len) };
    decode(chunks, (bytes, extent.from), positions, wanted)
}

/// The box of a chunk, what is wanted of it, and the memory where all of it may be decoded, if there is any.
fn target(chunks: &impl InFile, position: u64, wanted: &Wanted) -> (ArrayBox, ArrayBox, Option<*mut u8>) {
    let chunk = chunks.chunk(position);
    let part = chunk.intersect(wanted.region).expect("a chunk of the box");
    // The part of a chunk that is in the array ends with it.
    let straight = if chunk.intersect(wanted.all).as_ref() == Some(&part) {
        wanted.sink.place(chunks.codecs(position), &part, &chunk.shape, chunks.strides())
    } else {
        None
    };
    (chunk, part, straight)
}

/// Decodes chunks that lie in some bytes of a file, the first of which is at an offset.
pub(super) fn decode(
    chunks: &impl InFile,
    (bytes, offset): (&[u8], u64),
    positions: &[u64],
    wanted: &Wanted,
) -> Result<(), Trouble> {
    let strides = chunks.strides();
    for &position in positions {
        let (place, codecs) = (chunks.place(position), chunks.codecs(position));
        let encoded = &bytes[(place.from - offset) as usize..(place.to - offset) as usize];
        let damaged = |what| chunks.damaged(position, what);
        chunks.compare(position, encoded).map_err(damaged)?;
        let (chunk, part, straight) = target(chunks, position, wanted);
        if let Some(start) = straight {
            // SAFETY: there is room for a chunk, which is the canvas's and nobody else's until this returns.
            let memory = unsafe { std::slice::from_raw_parts_mut(start, codecs.bytes) };
            codecs.decode_to(encoded, memory).map_err(damaged)?;
            continue;
        }
        let elements = codecs.decode(encoded).map_err(damaged)?;
        wanted.sink.elements(&part, &elements, offset_of(&part, &chunk, strides), strides);
    }
    Ok(())
}

/// What is wrong with an array, of a chunk that could not be loaded: with its bytes, or with the system.
pub(super) fn failed(trouble: Trouble, corrupt: impl FnOnce(String) -> crate::Error) -> crate::Error {
    match trouble {
        Trouble::Damaged(what) => bounded::refused().unwrap_or_else(|| corrupt(what)),
        Trouble::Failed(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 8 << 20;

    fn found(places: &[(u64, u64)]) -> Vec<Extent> {
        extents(places.iter().map(|&(from, to)| Place { from, to }), MOST).collect()
    }

    #[test]
    fn neighbours_are_read_together() {
        let found = found(&[(0, 100), (200, 300), (100_000, 100_001)]);
        let ranges: Vec<(u64, u64)> = found.iter().map(|e| (e.from, e.to)).collect();
        assert_eq!(ranges, [(0, 300), (100_000, 100_001)]);
        assert_eq!((found[0].chunks.clone(), found[1].chunks.clone()), (0..2, 2..3));
    }

    #[test]
    fn extents_are_bounded_except_by_one_chunk() {
        let half = MOST / 2 + 1;
        assert_eq!(found(&[(0, half), (half, 2 * half), (2 * half, 2 * half + 2 * MOST)]).len(), 3);
        let overlapping = found(&[(10, 90), (20, 30)]);
        assert_eq!((overlapping[0].from, overlapping[0].to), (10, 90));
    }

    #[test]
    fn chunks_are_sorted_by_where_they_lie() {
        let places = [(200, 300), (0, 100), (300, 305)];
        let mut positions = [0, 1, 2];
        sort(&mut positions, |i| Place { from: places[i as usize].0, to: places[i as usize].1 });
        assert_eq!(positions, [1, 0, 2]);
    }
}
