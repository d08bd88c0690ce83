//! The tile index: the checksum of every tile, and which tiles were never written.
//!
//! It lies beside `zarr.json` in the file [`INDEX_FILE`], and is what tells a stale or swapped tile,
//! whose own checksum is right, from the one that belongs there. All numbers are little-endian.
//!
//! ```text
//! offset          bytes    content
//! 0               8        magic: "OUTCRIDX"
//! 8               4        version: 1
//! 12              4        flags: 0
//! 16              8        n, the number of tiles
//! 24              4        d, the number of axes
//! 28              4        0
//! 32              8 d      shape of the array, in elements
//! 32 + 8d         8 d      shape of a tile, in elements
//! 32 + 16d        b        bitmap, b = n / 8 rounded up to a multiple of 4: bit i % 8 of byte i / 8 is
//!                          1 if tile i was written; the bits after the last tile are 0
//! 32 + 16d + b    4 n      CRC-32C of the elements of tile i; 0 for a tile never written
//! end - 4         4        stamp: CRC-32C of everything before it
//! ```
//!
//! Tile i is the one at position i in row-major order of tile coordinates. Magic, version and stamp
//! keep their places in every version, so that a newer file is known from a damaged one.
//!
//! `zarr.json` repeats the stamp, which ties the two files together. It is the stamp that is repeated,
//! not a checksum of the whole file: the CRC of any data followed by its own CRC is a constant.

use super::{FormatError, crc32c, malformed, unsupported};
use crate::shape::{TileGrid, Tuple};

/// The index's file name inside the directory of an array.
pub const INDEX_FILE: &str = ".outcrop-index";

/// What an index begins with.
const MAGIC: &[u8; 8] = b"OUTCRIDX";

/// The version that this program writes.
const VERSION: u32 = 1;

/// Bytes before the shape.
const FIXED_BYTES: usize = 32;

/// The most tiles of an array. Each is a file; the index of so many takes about 1 GiB of memory.
pub const MAX_TILES: u64 = 1 << 28;

/// The checksum of every tile of an array, in 4 bytes and 1 bit of memory for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileIndex {
    grid: TileGrid,
    written: Vec<u8>,
    checksums: Vec<u32>,
    count: u64,
}

impl TileIndex {
    /// The index of an array of which no tile was written.
    ///
    /// # Errors
    /// `Unsupported` for a grid of more than [`MAX_TILES`] tiles, or if the system has no memory for the
    /// index.
    pub fn new(grid: &TileGrid) -> Result<TileIndex, FormatError> {
        let tiles = tiles(grid)?;
        let mut index =
            TileIndex { grid: grid.clone(), written: Vec::new(), checksums: Vec::new(), count: 0 };
        let reserved = index.written.try_reserve_exact(bitmap_bytes(tiles));
        if reserved.and_then(|()| index.checksums.try_reserve_exact(tiles)).is_err() {
            return unsupported(format!("no memory is left for the index of {tiles} tiles"));
        }
        index.written.resize(bitmap_bytes(tiles), 0);
        index.checksums.resize(tiles, 0);
        Ok(index)
    }

    /// Bytes of memory that the index of this grid takes, for the budget.
    ///
    /// # Errors
    /// `Unsupported` for a grid of more than [`MAX_TILES`] tiles.
    pub fn memory(grid: &TileGrid) -> Result<u64, FormatError> {
        tiles(grid).map(|n| (bitmap_bytes(n) + 4 * n) as u64)
    }

    /// Bytes of the index file of this grid.
    ///
    /// # Errors
    /// As for [`memory`](Self::memory).
    pub fn file_size(grid: &TileGrid) -> Result<u64, FormatError> {
        tiles(grid).map(|n| file_bytes(grid.shape.len(), n) as u64)
    }

    /// Number of tiles of the array, written or not.
    pub fn tiles(&self) -> u64 {
        self.checksums.len() as u64
    }

    /// Number of tiles that were written.
    pub fn written(&self) -> u64 {
        self.count
    }

    /// The CRC-32C of tile `i` by row-major position, or `None` if it was never written.
    ///
    /// # Panics
    /// If there is no tile `i`. So do [`set`](Self::set) and [`clear`](Self::clear).
    pub fn get(&self, i: u64) -> Option<u32> {
        let checksum = self.checksums[i as usize];
        self.has(i).then_some(checksum)
    }

    /// Records that tile `i` was written, with this checksum of its elements.
    pub fn set(&mut self, i: u64, crc: u32) {
        self.checksums[i as usize] = crc;
        self.count += u64::from(!self.has(i));
        self.written[i as usize / 8] |= 1 << (i % 8);
    }

    /// Records that tile `i` is no longer there.
    pub fn clear(&mut self, i: u64) {
        self.checksums[i as usize] = 0;
        self.count -= u64::from(self.has(i));
        self.written[i as usize / 8] &= !(1 << (i % 8));
    }

    fn has(&self, i: u64) -> bool {
        self.written[i as usize / 8] >> (i % 8) & 1 == 1
    }

    /// The bytes of the index file. The same index always gives the same bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(file_bytes(self.grid.shape.len(), self.checksums.len()));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.tiles().to_le_bytes());
        out.extend_from_slice(&(self.grid.shape.len() as u32).to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        for extent in self.grid.shape.iter().chain(&self.grid.tile) {
            out.extend_from_slice(&extent.to_le_bytes());
        }
        out.extend_from_slice(&self.written);
        for checksum in &self.checksums {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        let stamp = crc32c(&out);
        out.extend_from_slice(&stamp.to_le_bytes());
        out
    }

    /// Reads the index of an array that is cut into tiles as `grid` says.
    ///
    /// # Errors
    /// - `Malformed`: damaged, or no index.
    /// - `NewerVersion`: written by a later Outcrop.
    /// - `Stale`: sound, but the array had another shape or other tiles when it was written.
    /// - `Unsupported`: as of [`new`](Self::new).
    pub fn decode(bytes: &[u8], grid: &TileGrid) -> Result<TileIndex, FormatError> {
        let body = checked_body(bytes)?;
        let u32_at = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;

        let (count, ndim) = (u64_at(16), u32_at(24) as usize);
        if u32_at(12) != 0 || u32_at(28) != 0 {
            return malformed(format!("tile index has the unknown flags {:#x}", u32_at(12)));
        }
        // The extents, if the file is long enough to hold so many.
        let extents_end = ndim.checked_mul(16).and_then(|n| n.checked_add(FIXED_BYTES));
        let Some(end) = extents_end.filter(|&end| end <= body.len()) else {
            return malformed(format!("tile index of {ndim} dimensions has only {} bytes", bytes.len()));
        };
        let extents: Vec<u64> = (FIXED_BYTES..end).step_by(8).map(u64_at).collect();
        let (shape, tile) = extents.split_at(ndim);
        if shape != grid.shape.as_slice() || tile != grid.tile.as_slice() {
            return Err(FormatError::Stale(format!(
                "tile index is of shape {} in tiles of {}, but the array has shape {} in tiles of {}",
                Tuple(shape),
                Tuple(tile),
                Tuple(&grid.shape),
                Tuple(&grid.tile)
            )));
        }
        let tiles = tiles(grid)?;
        if count != tiles as u64 || bytes.len() != file_bytes(ndim, tiles) {
            return malformed(format!(
                "tile index has {} bytes for {count} tiles, the grid has {tiles} tiles and needs {} bytes",
                bytes.len(),
                file_bytes(ndim, tiles)
            ));
        }
        // From here on the file is as long as the grid demands, so the grid bounds nothing larger.
        let mut index = TileIndex::new(grid)?;
        let (bitmap, checksums) = body[end..].split_at(bitmap_bytes(tiles));
        index.written.copy_from_slice(bitmap);
        for (checksum, stored) in index.checksums.iter_mut().zip(checksums.as_chunks::<4>().0) {
            *checksum = u32::from_le_bytes(*stored);
        }
        index.count = bitmap.iter().map(|b| u64::from(b.count_ones())).sum();
        let within = (0..count).filter(|&i| index.has(i)).count() as u64;
        let leftover = (0..count).any(|i| !index.has(i) && index.checksums[i as usize] != 0);
        if within != index.count || leftover {
            return malformed("tile index marks tiles that are not there");
        }
        Ok(index)
    }
}

/// The stamp of an encoded index, which `zarr.json` repeats: its last four bytes.
pub fn stamp(encoded: &[u8]) -> Option<u32> {
    encoded.last_chunk::<4>().map(|b| u32::from_le_bytes(*b))
}

/// What precedes the stamp, after magic, stamp and version are found right.
fn checked_body(bytes: &[u8]) -> Result<&[u8], FormatError> {
    if !bytes.starts_with(MAGIC) {
        return malformed(format!("not a tile index: it begins with {:02x?}", &bytes[..bytes.len().min(8)]));
    }
    let Some((body, stored)) = bytes.split_last_chunk::<4>().filter(|(body, _)| body.len() >= FIXED_BYTES)
    else {
        return malformed(format!("tile index is cut off after {} bytes", bytes.len()));
    };
    let (stored, actual) = (u32::from_le_bytes(*stored), crc32c(body));
    if stored != actual {
        return malformed(format!(
            "tile index is damaged: its checksum is {actual:08x}, {stored:08x} was written"
        ));
    }
    let version = u32::from_le_bytes([body[8], body[9], body[10], body[11]]);
    match version {
        VERSION => Ok(body),
        0 => malformed("tile index has version 0"),
        _ => Err(FormatError::NewerVersion(format!(
            "made by a newer Outcrop: tile index version {version}, this version knows {VERSION}"
        ))),
    }
}

/// The number of tiles, if it is one that can be worked with.
fn tiles(grid: &TileGrid) -> Result<usize, FormatError> {
    let counts = grid.counts();
    let tiles = if counts.contains(&0) {
        Some(0)
    } else {
        counts.iter().try_fold(1u64, |acc, &n| acc.checked_mul(n))
    };
    match tiles {
        Some(tiles) if tiles <= MAX_TILES => Ok(tiles as usize),
        _ => unsupported(format!(
            "shape {} in tiles of {} makes more than {MAX_TILES} tiles; larger tiles are needed",
            Tuple(&grid.shape),
            Tuple(&grid.tile)
        )),
    }
}

fn bitmap_bytes(tiles: usize) -> usize {
    tiles.div_ceil(32) * 4
}

fn file_bytes(ndim: usize, tiles: usize) -> usize {
    FIXED_BYTES + 16 * ndim + bitmap_bytes(tiles) + 4 * tiles + 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid() -> TileGrid {
        TileGrid::new(&[10, 21], &[3, 4]).unwrap()
    }

    fn sample() -> TileIndex {
        let mut index = TileIndex::new(&grid()).unwrap();
        index.set(0, 0xdead_beef);
        index.set(23, 7);
        index.set(5, 0);
        index
    }

    /// Makes the stamp right again after `change`.
    fn restamped(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = sample().encode();
        bytes.truncate(bytes.len() - 4);
        change(&mut bytes);
        let stamp = crc32c(&bytes);
        bytes.extend_from_slice(&stamp.to_le_bytes());
        bytes
    }

    #[test]
    fn remembers_what_was_written() {
        let mut index = sample();
        assert_eq!((index.tiles(), index.written()), (24, 3));
        assert_eq!((index.get(0), index.get(5), index.get(23)), (Some(0xdead_beef), Some(0), Some(7)));
        assert_eq!(index.get(1), None);
        index.set(5, 9);
        index.clear(0);
        index.clear(1);
        assert_eq!((index.written(), index.get(0), index.get(5)), (2, None, Some(9)));
        assert_eq!(TileIndex::decode(&index.encode(), &grid()), Ok(index));
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let mut index = TileIndex::new(&TileGrid::new(&[5], &[2]).unwrap()).unwrap();
        index.set(1, 0x0102_0304);
        let bytes = index.encode();
        let body: &[u8] = &[
            b'O', b'U', b'T', b'C', b'R', b'I', b'D', b'X', 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
            4, 3, 2, 1, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..bytes.len() - 4], *body);
        assert_eq!(stamp(&bytes), Some(crc32c(body)));
    }

    #[test]
    fn zero_dimensional_and_empty_arrays_have_an_index() {
        for (shape, tile, tiles) in [(&[][..], &[][..], 1), (&[0, 4], &[1, 4], 0)] {
            let grid = TileGrid::new(shape, tile).unwrap();
            let index = TileIndex::new(&grid).unwrap();
            assert_eq!(index.tiles(), tiles);
            assert_eq!(TileIndex::decode(&index.encode(), &grid), Ok(index));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(matches!(TileIndex::decode(&damaged, &grid()), Err(FormatError::Malformed(_))));
            }
            assert!(matches!(TileIndex::decode(&bytes[..at], &grid()), Err(FormatError::Malformed(_))));
        }
    }

    #[test]
    fn newer_stale_and_malformed_are_distinct() {
        let newer = restamped(|b| b[8] = 2);
        assert!(matches!(TileIndex::decode(&newer, &grid()), Err(FormatError::NewerVersion(_))));
        let resized = TileGrid::new(&[10, 25], &[3, 4]).unwrap();
        let stale = TileIndex::decode(&sample().encode(), &resized).unwrap_err();
        assert!(matches!(&stale, FormatError::Stale(m) if m.contains("(10, 21)") && m.contains("(10, 25)")));
        for malformed in [
            restamped(|b| b[8] = 0),
            restamped(|b| b[12] = 1),
            restamped(|b| b[16] = 25),
            restamped(|b| b[24..28].fill(0xff)),
            restamped(|b| b[64 + 3] = 1),
            restamped(|b| b[64 + 4 + 4] = 1),
            restamped(|b| b.push(0)),
            b"OUTCRIDX".to_vec(),
        ] {
            let error = TileIndex::decode(&malformed, &grid()).unwrap_err();
            assert!(matches!(error, FormatError::Malformed(_)), "{error}");
        }
    }

    #[test]
    fn absurd_grids_are_refused_before_allocating() {
        for shape in [&[1 << 60][..], &[1 << 40, 1 << 40]] {
            let grid = TileGrid { shape: shape.into(), tile: shape.iter().map(|_| 1).collect() };
            let Err(FormatError::Unsupported(why)) = TileIndex::new(&grid) else { panic!("not refused") };
            // And not for lack of memory, which another machine has.
            assert!(why.contains(&format!("makes more than {MAX_TILES} tiles")), "{why}");
        }
        let just = |tiles: u64| {
            TileIndex::memory(&TileGrid { shape: [tiles].as_slice().into(), tile: [1].as_slice().into() })
        };
        assert!(just(MAX_TILES).is_ok());
        assert!(just(MAX_TILES + 1).is_err());
    }

    proptest! {
        #[test]
        fn encoded_indices_read_back(
            axes in prop::collection::vec((0u64..20, 1u64..6), 0..4), seed: u32, holes in 1u64..5
        ) {
            let (shape, tile): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
            let grid = TileGrid::new(&shape, &tile).unwrap();
            let mut index = TileIndex::new(&grid).unwrap();
            for i in (0..index.tiles()).filter(|i| i % holes == 0) {
                index.set(i, seed.wrapping_mul(i as u32));
            }
            prop_assert_eq!(TileIndex::decode(&index.encode(), &grid), Ok(index));
        }

        #[test]
        fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = TileIndex::decode(&bytes, &grid());
            let mut stamped = [&MAGIC[..], &[1, 0, 0, 0], &bytes].concat();
            stamped.extend_from_slice(&crc32c(&stamped).to_le_bytes());
            let _ = TileIndex::decode(&stamped, &grid());
        }

        #[test]
        fn any_change_under_a_right_stamp_never_panics(at in 12usize..164, byte: u8) {
            let changed = restamped(|b| b[at] = byte);
            if let Ok(index) = TileIndex::decode(&changed, &grid()) {
                prop_assert_eq!(index.encode(), changed);
            }
        }
    }
}
