//! Tiles with their frontiers beside them: what is at a tile's edges is one contiguous read.
//!
//! Of a tile of `n` axes the parts are, one after the other: the low frontiers, from the first axis to the last; the
//! interior; the high frontiers, from the last axis to the first. A frontier is the tile's first or last `thickness`
//! indices along its axis, and all indices along the others, so that elements in the corners are in several. With two
//! axes: top, left, interior, right, bottom.
//!
//! ```text
//! elements of part 0, row-major | table | elements of part 1 | table | ...
//! ```
//!
//! Behind each part stands the same *table*: the CRC-32C of every part's elements, four bytes each. So a part that is
//! read by itself is checked by its own bytes, and by the CRC-32C of its table, which is what is recorded of the whole
//! tile, it is known to belong to it.

use crate::format::{FormatError, crc32c, malformed};
use crate::shape::{ArrayBox, BoxIndices, Dims, Tuple, row_major_strides};

/// Bytes of a checksum in the table.
const ENTRY: usize = 4;

/// A contiguous part of a tile's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its elements, counted from the tile's first.
    pub region: ArrayBox,
    /// Where they begin in the file.
    pub offset: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Where the elements of a tile lie in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontiers {
    tile: Dims,
    itemsize: usize,
    parts: Vec<Part>,
    file_bytes: u64,
}

impl Frontiers {
    /// Tiles of this shape, whose bytes can be counted, with frontiers so thick.
    ///
    /// # Errors
    /// `Malformed` where that is nothing, or where the two frontiers of an axis would overlap.
    pub fn new(tile: &[u64], itemsize: usize, thickness: u64) -> Result<Frontiers, FormatError> {
        if thickness == 0 || tile.iter().any(|&n| thickness > n / 2) {
            return malformed(format!(
                "frontiers of thickness {thickness} do not fit tiles {}: a thickness is at least 1, and at most half \
                 of each extent",
                Tuple(tile)
            ));
        }
        let ndim = tile.len();
        let frontier = |axis: usize, start: u64| {
            let mut region = ArrayBox::whole(tile);
            (region.start[axis], region.shape[axis]) = (start, thickness);
            region
        };
        let low = (0..ndim).map(|axis| frontier(axis, 0));
        let high = (0..ndim).rev().map(|axis| frontier(axis, tile[axis] - thickness));
        let interior: Dims = tile.iter().map(|n| n - 2 * thickness).collect();
        let interior = ArrayBox::new(Dims::from_elem(thickness, ndim), interior);
        let table = ((2 * ndim + 1) * ENTRY) as u64;
        let (mut parts, mut end) = (Vec::with_capacity(2 * ndim + 1), 0u64);
        for region in low.chain([interior]).chain(high) {
            let bytes = region.elements() * itemsize as u64;
            let behind = end.checked_add(bytes).and_then(|end| end.checked_add(table));
            let Some(behind) = behind.filter(|&n| i64::try_from(n).is_ok()) else {
                return malformed(format!("tiles {} with their frontiers are too large", Tuple(tile)));
            };
            parts.push(Part { region, offset: end, bytes });
            end = behind;
        }
        Ok(Frontiers { tile: tile.into(), itemsize, parts, file_bytes: end })
    }

    /// The parts in the order of the file.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Bytes of a tile's file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes of a table.
    fn table(&self) -> usize {
        self.parts.len() * ENTRY
    }

    /// Where a part and its table lie in the file; those of no part in particular are all of it.
    pub fn range(&self, part: Option<usize>) -> (u64, u64) {
        part.map(|part| &self.parts[part])
            .map_or((0, self.file_bytes), |p| (p.offset, p.offset + p.bytes + self.table() as u64))
    }

    /// The smallest part that holds a box, which counts from the tile's first element; `None` where that takes more
    /// than one.
    pub fn part_of(&self, region: &ArrayBox) -> Option<usize> {
        let holding = (0..self.parts.len()).filter(|&i| self.parts[i].region.contains(region));
        holding.min_by_key(|&i| self.parts[i].bytes)
    }

    /// What a person calls a part.
    pub fn name(&self, part: usize) -> String {
        let ndim = self.tile.len();
        let words = ["top", "left", "interior", "right", "bottom"];
        match part {
            _ if part == ndim => "interior".into(),
            _ if ndim == 2 => format!("{} frontier", words[part]),
            _ if part < ndim => format!("low frontier of axis {part}"),
            _ => format!("high frontier of axis {}", 2 * ndim - part),
        }
    }

    /// Puts the checksums behind the parts of a file whose elements are there; that of the table.
    pub fn seal(&self, file: &mut [u8]) -> u32 {
        let elements = |part: &Part| part.offset as usize..(part.offset + part.bytes) as usize;
        let table: Vec<u8> =
            self.parts.iter().flat_map(|part| crc32c(&file[elements(part)]).to_le_bytes()).collect();
        for part in &self.parts {
            let end = elements(part).end;
            file[end..end + table.len()].copy_from_slice(&table);
        }
        crc32c(&table)
    }

    /// Checks a part with its table, which `bytes` are: the checksum of the table, or what is wrong.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_part(&self, part: usize, bytes: &[u8]) -> Result<u32, String> {
        let (elements, table) = bytes.split_at(bytes.len() - self.table());
        let computed = crc32c(elements);
        let stored = table[part * ENTRY..][..ENTRY].try_into().map(u32::from_le_bytes).expect("four bytes");
        if computed == stored {
            return Ok(crc32c(table));
        }
        Err(format!(
            "is damaged: the bytes of its {} have CRC-32C {computed:08x}, {stored:08x} was stored with them",
            self.name(part)
        ))
    }

    /// Checks a whole file: the checksum of its table, or what is wrong.
    ///
    /// # Errors
    /// What is wrong: also where parts were written at different times, or an element that is stored in several
    /// frontiers is not the same in all of them.
    pub fn check(&self, file: &[u8]) -> Result<u32, String> {
        let mut found = None;
        for i in 0..self.parts.len() {
            let (from, to) = self.range(Some(i));
            let checksum = self.check_part(i, &file[from as usize..to as usize])?;
            if *found.get_or_insert(checksum) != checksum {
                return Err(format!("is damaged: its {} is not of the same state as the rest", self.name(i)));
            }
        }
        for (one, other) in (0..self.parts.len()).flat_map(|one| (0..one).map(move |other| (other, one))) {
            if let Some(index) = self.difference(file, one, other) {
                return Err(format!(
                    "is damaged: its {} and its {} differ in the element {} of the tile, which both have",
                    self.name(one),
                    self.name(other),
                    Tuple(&index)
                ));
            }
        }
        Ok(found.unwrap_or(0))
    }

    /// The start of the first row of elements of which two parts have different ones.
    fn difference(&self, file: &[u8], one: usize, other: usize) -> Option<Dims> {
        let [one, other] = [one, other].map(|i| &self.parts[i]);
        let mut rows = one.region.intersect(&other.region)?;
        let row = match rows.shape.last_mut() {
            Some(last) => std::mem::replace(last, 1) as usize * self.itemsize,
            None => self.itemsize,
        };
        let bytes = |part: &Part, index: &[u64]| {
            let start = self.address(part, index);
            &file[start..start + row]
        };
        BoxIndices::new(&rows).find(|index| bytes(one, index) != bytes(other, index))
    }

    /// Where an element of a part is in the file, in bytes.
    pub fn address(&self, part: &Part, index: &[u64]) -> usize {
        let strides = row_major_strides(&part.region.shape);
        let inside: u64 =
            (0..index.len()).map(|a| (index[a] - part.region.start[a]) * strides[a] as u64).sum();
        part.offset as usize + inside as usize * self.itemsize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn regions(found: &Frontiers) -> Vec<(Vec<u64>, Vec<u64>)> {
        found.parts().iter().map(|p| (p.region.start.to_vec(), p.region.shape.to_vec())).collect()
    }

    #[test]
    fn a_matrix_has_four_frontiers() {
        let found = Frontiers::new(&[10, 6], 8, 2).unwrap();
        let expected =
            [([0, 0], [2, 6]), ([0, 0], [10, 2]), ([2, 2], [6, 2]), ([0, 4], [10, 2]), ([8, 0], [2, 6])];
        assert_eq!(regions(&found), expected.map(|(s, n)| (s.to_vec(), n.to_vec())));
        // 4 T^2 elements more than the tile has, and five tables of five checksums.
        assert_eq!(found.file_bytes(), (60 + 4 * 4) * 8 + 5 * 20);
        assert_eq!(found.range(Some(1)), (2 * 6 * 8 + 20, 2 * 6 * 8 + 20 + 160 + 20));
        let part = |start: [u64; 2], shape: [u64; 2]| found.part_of(&ArrayBox::new(start, shape));
        assert_eq!(part([0, 0], [1, 6]), Some(0));
        assert_eq!(part([1, 1], [9, 1]), Some(1));
        assert_eq!(part([2, 2], [1, 2]), Some(2));
        assert_eq!(part([9, 0], [1, 1]), Some(4));
        assert_eq!(part([1, 2], [2, 1]), None);
        let names: Vec<String> = (0..5).map(|i| found.name(i)).collect();
        assert_eq!(names, ["top frontier", "left frontier", "interior", "right frontier", "bottom frontier"]);
    }

    #[test]
    fn frontiers_may_meet_and_not_overlap() {
        for (tile, thickness) in [(&[4, 4][..], 2), (&[2][..], 1), (&[][..], 1), (&[8, 2, 3][..], 1)] {
            assert!(Frontiers::new(tile, 1, thickness).is_ok(), "{tile:?}");
        }
        for (tile, thickness) in [(&[4, 3][..], 2), (&[1][..], 1), (&[4][..], 0), (&[4][..], u64::MAX)] {
            let error = Frontiers::new(tile, 1, thickness).unwrap_err();
            assert!(matches!(error, FormatError::Malformed(_)), "{tile:?}");
        }
        // A tile that can be addressed may have frontiers that cannot.
        assert!(Frontiers::new(&[2; 62], 1, 1).is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let found = Frontiers::new(&[4, 4], 1, 1).unwrap();
        let mut file = vec![7; found.file_bytes() as usize];
        let table = found.seal(&mut file);
        assert_eq!(found.check(&file), Ok(table));
        let (from, to) = found.range(Some(3));
        assert_eq!(found.check_part(3, &file[from as usize..to as usize]), Ok(table));

        let mut damaged = file.clone();
        damaged[from as usize] ^= 1;
        assert!(found.check(&damaged).unwrap_err().contains("its right frontier have CRC-32C"));

        // One copy of a corner, with all checksums right.
        let mut other = file.clone();
        other[3] = 8;
        found.seal(&mut other);
        let what = found.check(&other).unwrap_err();
        assert!(
            what.contains("its top frontier and its right frontier differ in the element (0, 3)"),
            "{what}"
        );

        // The top of one state, the rest of another.
        let top = found.range(Some(0)).1 as usize;
        let mut mixed = other;
        mixed[..top].copy_from_slice(&file[..top]);
        assert!(found.check(&mixed).unwrap_err().contains("not of the same state"));
    }

    proptest! {
        #[test]
        fn every_element_is_in_as_many_parts_as_it_is_at_edges(
            tile in prop::collection::vec(2u64..8, 0..4),
            chosen in 0u64..8,
            itemsize in prop::sample::select(vec![1usize, 2, 8]),
        ) {
            let most = tile.iter().min().map_or(3, |n| n / 2);
            let thickness = 1 + chosen % most;
            let found = Frontiers::new(&tile, itemsize, thickness).unwrap();
            let mut file = vec![0; found.file_bytes() as usize];
            for index in BoxIndices::new(&ArrayBox::whole(&tile)) {
                let edges = (0..tile.len())
                    .filter(|&a| index[a] < thickness || index[a] >= tile[a] - thickness)
                    .count();
                let one = ArrayBox::new(&index, Dims::from_elem(1, tile.len()));
                let parts: Vec<&Part> = found.parts().iter().filter(|p| p.region.contains(&one)).collect();
                prop_assert_eq!(parts.len(), edges.max(1));
                for part in parts {
                    let at = found.address(part, &index);
                    prop_assert!(at as u64 >= part.offset);
                    prop_assert!((at + itemsize) as u64 <= part.offset + part.bytes);
                    file[at..at + itemsize].fill(1 + index.iter().sum::<u64>() as u8);
                }
            }
            let table = found.seal(&mut file);
            prop_assert_eq!(found.check(&file), Ok(table));
            let (last, _) = found.range(Some(2 * tile.len()));
            prop_assert_eq!(found.check_part(2 * tile.len(), &file[last as usize..]), Ok(table));
        }
    }
}
