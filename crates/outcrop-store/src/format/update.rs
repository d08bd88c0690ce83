//! The record of a decided change: which tiles of an array, and which of its files, are replaced.
//!
//! It is the file `commit` in `.outcrop-update/`, made durable after everything that it lists. Tiles are
//! listed by their positions in the array's grid, never by name: whatever a record says, it speaks of
//! tiles of this array only. All numbers are little-endian.
//!
//! ```text
//! offset          bytes    content
//! 0               8        magic: "OUTCRUPD"
//! 8               4        version: 1
//! 12              4        flags: 1, the index is replaced; 2, zarr.json is
//! 16              8        r, the number of runs
//! 24              4        d, the number of axes
//! 28              4        0
//! 32              8 d      shape of the array, in elements
//! 32 + 8d         8 d      shape of a tile, in elements
//! 32 + 16d        16 r     runs: the position of the first tile, and how many follow one another from
//!                          there; in ascending order, with at least one other tile between two runs
//! end - 4         4        stamp: CRC-32C of everything before it
//! ```
//!
//! A position is one in row-major order of tile coordinates. Magic, version and stamp keep their places
//! in every version.

use super::{FormatError, crc32c, malformed, unsupported};
use crate::shape::{TileGrid, Tuple};

/// What a record begins with.
const MAGIC: &[u8; 8] = b"OUTCRUPD";

/// The version that this program writes.
const VERSION: u32 = 1;

/// Bytes before the shape.
const FIXED_BYTES: usize = 32;

const INDEX: u32 = 1;
const METADATA: u32 = 2;

/// The most runs of a record, which takes 64 MiB of memory then.
const MAX_RUNS: u64 = 1 << 22;

/// What a decided change replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRecord {
    /// How the array is cut.
    pub grid: TileGrid,
    /// Whether the index of checksums is replaced.
    pub index: bool,
    /// Whether the metadata is.
    pub metadata: bool,
    /// First positions and lengths, ascending.
    runs: Vec<(u64, u64)>,
}

impl UpdateRecord {
    /// The record of a change of these tiles, by position in any order.
    ///
    /// # Errors
    /// `Unsupported` for tiles in more runs than a record has.
    pub fn new(
        grid: &TileGrid,
        tiles: impl IntoIterator<Item = u64>,
        index: bool,
        metadata: bool,
    ) -> Result<UpdateRecord, FormatError> {
        let mut tiles: Vec<u64> = tiles.into_iter().collect();
        tiles.sort_unstable();
        tiles.dedup();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for tile in tiles {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == tile => *count += 1,
                _ => runs.push((tile, 1)),
            }
        }
        if runs.len() as u64 > MAX_RUNS {
            return unsupported(format!(
                "{} tiles that are not side by side were changed at once, and a commit takes {MAX_RUNS}",
                runs.len()
            ));
        }
        Ok(UpdateRecord { grid: grid.clone(), index, metadata, runs })
    }

    /// Whether a tile is replaced.
    pub fn has(&self, position: u64) -> bool {
        let behind = self.runs.partition_point(|&(first, _)| first <= position);
        behind > 0 && {
            let (first, count) = self.runs[behind - 1];
            position - first < count
        }
    }

    /// The positions of the tiles that are replaced, ascending.
    pub fn tiles(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|&(first, count)| first..first + count)
    }

    /// The most bytes of a record of this grid.
    pub fn most_bytes(grid: &TileGrid) -> u64 {
        let runs = tiles_of(grid).div_ceil(2).min(MAX_RUNS);
        FIXED_BYTES as u64 + 16 * grid.shape.len() as u64 + 16 * runs + 4
    }

    /// The bytes of the record's file. The same record always gives the same bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let flags = u32::from(self.index) * INDEX + u32::from(self.metadata) * METADATA;
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&(self.runs.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.grid.shape.len() as u64).to_le_bytes());
        for extent in self.grid.shape.iter().chain(&self.grid.tile) {
            out.extend_from_slice(&extent.to_le_bytes());
        }
        for (first, count) in &self.runs {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
        }
        let stamp = crc32c(&out);
        out.extend_from_slice(&stamp.to_le_bytes());
        out
    }

    /// Reads the record of a change of an array that is cut like this.
    ///
    /// # Errors
    /// `Malformed` for what is no record, or is damaged; `NewerVersion`; `Stale` for the record of another
    /// array.
    pub fn decode(bytes: &[u8], grid: &TileGrid) -> Result<UpdateRecord, FormatError> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return malformed("it is not the record of a change");
        };
        if rest.len() < FIXED_BYTES - MAGIC.len() + 4 {
            return malformed(format!("the record is cut off after {} bytes", bytes.len()));
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let (body, stamp) = bytes.split_at(bytes.len() - 4);
        let stamp = u32::from_le_bytes(stamp.try_into().expect("four bytes"));
        let computed = crc32c(body);
        if stamp != computed {
            return malformed(format!("the record has CRC-32C {computed:08x}, and says {stamp:08x}"));
        }
        if word(8) != VERSION {
            let found = word(8);
            return Err(FormatError::NewerVersion(format!(
                "the record has version {found}; this program knows version {VERSION}"
            )));
        }
        let flags = word(12);
        if flags & !(INDEX | METADATA) != 0 || word(28) != 0 {
            return malformed(format!("the record has flags {flags:#x} and {:#x}", word(28)));
        }
        let mut numbers =
            body[16..].chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight")));
        let (runs, ndim) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let expected = ndim.checked_add(runs).and_then(|n| n.checked_mul(16));
        if runs > MAX_RUNS || expected != Some((body.len() - FIXED_BYTES) as u64) {
            return malformed(format!(
                "the record has {} bytes, which is wrong for {ndim} axes and {runs} runs",
                bytes.len()
            ));
        }
        let mut extents = || numbers.by_ref().take(ndim as usize).collect::<Vec<u64>>();
        let (shape, tile) = (extents(), extents());
        if (shape.as_slice(), tile.as_slice()) != (&grid.shape[..], &grid.tile[..]) {
            return Err(FormatError::Stale(format!(
                "the record is of an array of shape {} in tiles of {}",
                Tuple(&shape),
                Tuple(&tile)
            )));
        }
        let mut list = Vec::with_capacity(runs as usize);
        let (tiles, mut free) = (tiles_of(grid), 0);
        while let (Some(first), Some(count)) = (numbers.next(), numbers.next()) {
            let end = first.checked_add(count).filter(|&end| end <= tiles);
            let (Some(end), true, true) = (end, count > 0, first >= free) else {
                return malformed(format!("the record lists {count} tiles from {first}, of {tiles}"));
            };
            list.push((first, count));
            free = end + 1;
        }
        Ok(UpdateRecord {
            grid: grid.clone(),
            index: flags & INDEX != 0,
            metadata: flags & METADATA != 0,
            runs: list,
        })
    }
}

/// How many tiles a grid has; more than can be counted are as many as can.
fn tiles_of(grid: &TileGrid) -> u64 {
    grid.counts().iter().fold(1, |all: u64, &n| all.saturating_mul(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid() -> TileGrid {
        TileGrid::new(&[10, 70], &[2, 7]).unwrap()
    }

    fn stamped(mut body: Vec<u8>) -> Vec<u8> {
        let stamp = crc32c(&body);
        body.extend_from_slice(&stamp.to_le_bytes());
        body
    }

    #[test]
    fn tiles_side_by_side_are_one_run() {
        let record = UpdateRecord::new(&grid(), [7, 3, 4, 5, 3, 40], true, false).unwrap();
        assert_eq!(record.runs, [(3, 3), (7, 1), (40, 1)]);
        assert_eq!(record.tiles().collect::<Vec<_>>(), [3, 4, 5, 7, 40]);
        for i in 0..50 {
            assert_eq!(record.has(i), [3, 4, 5, 7, 40].contains(&i), "{i}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let record = UpdateRecord::new(&grid(), [1, 2], true, true).unwrap();
        let bytes = record.encode();
        let refused = |bytes: &[u8]| UpdateRecord::decode(bytes, &grid()).unwrap_err().to_string();
        assert!(refused(b"").contains("not the record"));
        assert!(refused(&bytes[..20]).contains("cut off"));
        let mut flipped = bytes.clone();
        flipped[60] ^= 1;
        assert!(refused(&flipped).contains("CRC-32C"));
        let body = &bytes[..bytes.len() - 4];
        let changed = |at: usize, value: u8| {
            let mut body = body.to_vec();
            body[at] = value;
            refused(&stamped(body))
        };
        assert!(changed(8, 2).contains("version 2"));
        assert!(changed(12, 9).contains("flags 0x9"));
        assert!(changed(16, 2).contains("wrong for 2 axes and 2 runs"));
        assert!(changed(32, 11).contains("of shape (11, 70)"));
        assert!(changed(64, 49).contains("2 tiles from 49, of 50"));
        assert!(changed(72, 0).contains("0 tiles from 1"));
    }

    proptest! {
        #[test]
        fn a_record_comes_back(tiles in prop::collection::btree_set(0u64..50, 0..30), flags in 0u8..4) {
            let record = UpdateRecord::new(
                &grid(), tiles.iter().copied(), flags & 1 != 0, flags & 2 != 0).unwrap();
            let bytes = record.encode();
            prop_assert!(bytes.len() as u64 <= UpdateRecord::most_bytes(&grid()));
            let decoded = UpdateRecord::decode(&bytes, &grid());
            prop_assert_eq!(decoded.as_ref(), Ok(&record));
            prop_assert_eq!(record.tiles().collect::<Vec<_>>(), tiles.into_iter().collect::<Vec<_>>());
        }

        /// Whatever the bytes, no tile outside the grid comes out.
        #[test]
        fn any_bytes_are_refused_or_right(
            runs in prop::collection::vec((0u64..60, 0u64..60), 0..6),
            odd in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let mut body = UpdateRecord::new(&grid(), [], true, true).unwrap().encode();
            body.truncate(body.len() - 4);
            body[16] = runs.len() as u8;
            for (first, count) in runs {
                body.extend(first.to_le_bytes());
                body.extend(count.to_le_bytes());
            }
            body.extend(odd);
            let bytes = stamped(body);
            if let Ok(record) = UpdateRecord::decode(&bytes, &grid()) {
                prop_assert!(record.tiles().all(|i| i < 50));
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
