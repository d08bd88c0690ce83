//! Blocks that two boxes share.
//!
//! Direct I/O writes whole blocks, but the runs of a box begin and end anywhere. The blocks at their
//! ends wait here until neighbouring boxes have filled the rest, and are then written whole, once.
//! What is still incomplete at the end, or when too many wait, is read, completed and written.
//!
//! Invariant: a block that waits here holds newer bytes than the file, so that whoever reads the file
//! takes these instead of what is read, and whoever writes a whole block forgets what waited for it.

use crate::frame::FRAME_ALIGN;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block's size.
pub(in crate::store) const BLOCK: usize = FRAME_ALIGN;

/// An aligned block with the byte ranges in it that are filled: ascending, disjoint, not touching.
#[derive(Clone)]
pub(in crate::store) struct Seam {
    /// Shared with those who read the file meanwhile.
    bytes: Arc<Aligned>,
    filled: SmallVec<[(u16, u16); 2]>,
}

#[derive(Clone)]
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

impl Seam {
    pub(in crate::store) fn bytes(&self) -> &[u8] {
        &self.bytes.0
    }

    pub(in crate::store) fn as_ptr(&self) -> *const u8 {
        self.bytes.0.as_ptr()
    }

    /// Whether the first `len` bytes are all filled.
    fn is_filled(&self, len: usize) -> bool {
        matches!(self.filled[..], [(0, end)] if end as usize >= len)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        Arc::make_mut(&mut self.bytes).0[at..at + bytes.len()].copy_from_slice(bytes);
        let (mut from, mut to) = (at as u16, (at + bytes.len()) as u16);
        self.filled.retain(|&mut (f, t)| {
            let apart = t < from || to < f;
            if !apart {
                from = from.min(f);
                to = to.max(t);
            }
            apart
        });
        let place = self.filled.partition_point(|&(f, _)| f < from);
        self.filled.insert(place, (from, to));
    }

    /// Takes what is not filled from `old`, the block as it is in the file.
    pub(in crate::store) fn complete(&mut self, old: &[u8]) {
        let (own, mut at) = (&mut Arc::make_mut(&mut self.bytes).0, 0);
        for &(from, to) in &self.filled {
            own[at..from as usize].copy_from_slice(&old[at..from as usize]);
            at = to as usize;
        }
        own[at..].copy_from_slice(&old[at..]);
    }
}

/// What waited at some moment, for one who reads the file after it.
#[derive(Default)]
pub(in crate::store) struct Waiting(BTreeMap<u64, Seam>);

impl Waiting {
    /// Puts what waited in its place in `len` bytes that were read from the file, from the edge of a block on.
    ///
    /// # Safety
    /// The memory is valid for writes of `len` bytes.
    pub(in crate::store) unsafe fn complete(&self, offset: u64, memory: *mut u8, len: usize) {
        for (&at, seam) in self.0.range(offset..offset + len as u64) {
            let first = (at - offset) as usize;
            for &(from, to) in &seam.filled {
                let (from, to) = (from as usize, (to as usize).min(len - first));
                if let Some(bytes) = seam.bytes().get(from..to) {
                    // SAFETY: inside the memory, as the caller vouches, and not inside the seam.
                    unsafe { memory.add(first + from).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                }
            }
        }
    }
}

/// The waiting blocks of one file, by their offset.
#[derive(Default)]
pub(in crate::store) struct Seams {
    waiting: BTreeMap<u64, Seam>,
    /// Of a new file, a bit for every block that was written; the others hold zeros, and need not be
    /// read to be completed. Absent for a file that was there before.
    written: Option<Vec<u64>>,
}

impl Seams {
    /// The seams of a new file of `len` bytes.
    pub(in crate::store) fn of_new_file(len: u64) -> Seams {
        let words = len.div_ceil(64 * BLOCK as u64) as usize;
        Seams { waiting: BTreeMap::new(), written: Some(vec![0; words]) }
    }

    /// Notes that the blocks in a range are written.
    pub(in crate::store) fn mark(&mut self, from: u64, to: u64) {
        if let Some(bits) = &mut self.written {
            for block in from / BLOCK as u64..to.div_ceil(BLOCK as u64) {
                bits[(block / 64) as usize] |= 1 << (block % 64);
            }
        }
    }

    /// Whether the file may hold anything but zeros in the block at an offset.
    pub(in crate::store) fn is_written(&self, at: u64) -> bool {
        let block = at / BLOCK as u64;
        self.written.as_ref().is_none_or(|bits| bits[(block / 64) as usize] >> (block % 64) & 1 == 1)
    }

    /// Blocks that may wait before they are flushed: 16 MiB.
    pub(in crate::store) const MOST: usize = 4096;

    pub(in crate::store) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a piece of a block; gives the block back when `file_len` or the block's end is reached
    /// without a gap.
    pub(in crate::store) fn put(&mut self, offset: u64, bytes: &[u8], file_len: u64) -> Option<(u64, Seam)> {
        let block = offset / BLOCK as u64 * BLOCK as u64;
        let seam = self
            .waiting
            .entry(block)
            .or_insert_with(|| Seam { bytes: Arc::new(Aligned([0; BLOCK])), filled: SmallVec::new() });
        seam.put((offset - block) as usize, bytes);
        let len = (file_len - block).min(BLOCK as u64) as usize;
        if seam.is_filled(len) { self.waiting.remove(&block).map(|seam| (block, seam)) } else { None }
    }

    /// Forgets the blocks in a range that is being written whole.
    pub(in crate::store) fn forget(&mut self, from: u64, to: u64) {
        let gone: SmallVec<[u64; 8]> = self.waiting.range(from..to).map(|(&at, _)| at).collect();
        for at in gone {
            self.waiting.remove(&at);
        }
    }

    /// What waits in blocks from an offset on.
    pub(in crate::store) fn from(&self, offset: u64) -> Waiting {
        Waiting(self.waiting.range(offset..).map(|(&at, seam)| (at, seam.clone())).collect())
    }

    /// Takes every waiting block, ascending.
    pub(in crate::store) fn take_all(&mut self) -> BTreeMap<u64, Seam> {
        std::mem::take(&mut self.waiting)
    }

    /// Puts blocks back that could not be written. What has come since is newer.
    pub(in crate::store) fn restore(&mut self, blocks: BTreeMap<u64, Seam>) {
        for (at, mut seam) in blocks {
            if let Some(newer) = self.waiting.get(&at) {
                for &(from, to) in &newer.filled {
                    seam.put(from as usize, &newer.bytes()[from as usize..to as usize]);
                }
            }
            self.waiting.insert(at, seam);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_given_back_when_it_is_whole() {
        let mut seams = Seams::default();
        assert!(seams.put(4096 + 100, &[1; 50], 1 << 20).is_none());
        assert!(seams.put(4096 + 150, &[2; 3946], 1 << 20).is_none());
        let (at, seam) = seams.put(4096, &[3; 100], 1 << 20).unwrap();
        assert_eq!((at, seam.bytes()[99], seam.bytes()[100], seam.bytes()[4095]), (4096, 3, 1, 2));
        assert_eq!(seams.len(), 0);
    }

    #[test]
    fn the_last_block_is_whole_at_the_end_of_the_file() {
        let mut seams = Seams::default();
        assert!(seams.put(8192, &[1; 10], 8192 + 10).is_some());
    }

    #[test]
    fn who_reads_gets_what_waits() {
        let mut seams = Seams::default();
        seams.put(4096 + 10, &[1; 10], 1 << 20);
        seams.put(3 * 4096 + 4000, &[2; 96], 1 << 20);
        let waiting = seams.from(4096);
        // What comes later is somebody else's.
        seams.put(4096 + 20, &[3; 10], 1 << 20);
        let mut read = [9u8; 3 * BLOCK - 50];
        // SAFETY: it has as many bytes.
        unsafe { waiting.complete(4096, read.as_mut_ptr(), read.len()) };
        assert_eq!((&read[9..21], read[30]), (&[9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9][..], 9));
        assert_eq!(&read[2 * BLOCK + 3999..], [vec![9], vec![2; 46]].concat());
    }

    #[test]
    fn what_is_missing_comes_from_the_file() {
        let mut seams = Seams::default();
        seams.put(10, &[1; 10], 1 << 20);
        seams.put(30, &[2; 10], 1 << 20);
        seams.put(15, &[3; 10], 1 << 20);
        let mut seam = seams.take_all().remove(&0).unwrap();
        seam.complete(&[9; BLOCK]);
        let expected: Vec<u8> = [(10, 9), (5, 1), (10, 3), (5, 9), (10, 2), (BLOCK - 40, 9)]
            .into_iter()
            .flat_map(|(n, v)| std::iter::repeat_n(v as u8, n))
            .collect();
        assert_eq!(seam.bytes(), expected);
    }
}
