//! Shapes, boxes and tile grids.

use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::fmt;

/// One number per axis.
pub type Dims = SmallVec<[u64; 4]>;

/// The most axes an array may have, as in NumPy.
pub const MAX_NDIM: usize = 64;

/// The number of bytes of an array, or an error where that does not fit a signed 64-bit integer.
pub fn checked_nbytes(shape: &[u64], itemsize: usize) -> Result<u64> {
    if shape.len() > MAX_NDIM {
        return Err(Error::invalid(format!("{} dimensions, at most {MAX_NDIM} are possible", shape.len())));
    }
    // Zero extents are left out first, so that an empty array of absurd extents is refused too, as
    // NumPy does: its strides would overflow.
    let product = shape.iter().filter(|&&n| n != 0).try_fold(itemsize as u64, |acc, &n| acc.checked_mul(n));
    match product {
        Some(bytes) if bytes <= i64::MAX as u64 => Ok(if shape.contains(&0) { 0 } else { bytes }),
        _ => Err(Error::invalid(format!("an array of shape {} is too large to address", Tuple(shape)))),
    }
}

/// The number of elements of a shape that [`checked_nbytes`] has accepted.
pub fn elements(shape: &[u64]) -> u64 {
    shape.iter().product()
}

/// Strides in elements of a dense row-major (C order) block.
pub fn row_major_strides(shape: &[u64]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.len());
    let mut step = 1isize;
    for axis in (0..shape.len()).rev() {
        strides[axis] = step;
        step *= shape[axis].max(1) as isize;
    }
    strides
}

/// Displays dims as Python displays a tuple.
pub struct Tuple<'a>(pub &'a [u64]);

impl fmt::Display for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [one] => write!(f, "({one},)"),
            many => {
                let text: Vec<String> = many.iter().map(u64::to_string).collect();
                write!(f, "({})", text.join(", "))
            }
        }
    }
}

/// An axis-aligned box of an array: `start[i] .. start[i] + shape[i]` along each axis `i`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayBox {
    /// First index along each axis.
    pub start: Dims,
    /// Extent along each axis.
    pub shape: Dims,
}

impl ArrayBox {
    /// The box of these starts and extents.
    pub fn new(start: impl AsRef<[u64]>, shape: impl AsRef<[u64]>) -> ArrayBox {
        let (start, shape) = (Dims::from_slice(start.as_ref()), Dims::from_slice(shape.as_ref()));
        assert_eq!(start.len(), shape.len());
        ArrayBox { start, shape }
    }

    /// The box that is a whole array of this shape.
    pub fn whole(shape: &[u64]) -> ArrayBox {
        ArrayBox { start: SmallVec::from_elem(0, shape.len()), shape: shape.into() }
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.start.len()
    }

    /// One past the last index along an axis.
    pub fn end(&self, axis: usize) -> u64 {
        self.start[axis] + self.shape[axis]
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        elements(&self.shape)
    }

    /// Whether the box has no element.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The elements in both boxes, or `None` where there are none.
    pub fn intersect(&self, other: &ArrayBox) -> Option<ArrayBox> {
        let mut start = Dims::new();
        let mut shape = Dims::new();
        for axis in 0..self.ndim() {
            let low = self.start[axis].max(other.start[axis]);
            let high = self.end(axis).min(other.end(axis));
            if low >= high {
                return None;
            }
            start.push(low);
            shape.push(high - low);
        }
        Some(ArrayBox { start, shape })
    }

    /// Whether every element of `other` is in this box.
    pub fn contains(&self, other: &ArrayBox) -> bool {
        other.is_empty()
            || (0..self.ndim()).all(|a| self.start[a] <= other.start[a] && other.end(a) <= self.end(a))
    }

    /// The same box of an array that has so many more indices in front.
    pub fn behind(&self, start: &[u64]) -> ArrayBox {
        let start: Dims = self.start.iter().zip(start).map(|(at, more)| at + more).collect();
        ArrayBox { start, shape: self.shape.clone() }
    }

    /// Checks that the box lies inside an array of this shape.
    pub fn check_inside(&self, shape: &[u64]) -> Result<()> {
        let inside = self.ndim() == shape.len()
            && (0..shape.len())
                .all(|a| self.start[a].checked_add(self.shape[a]).is_some_and(|end| end <= shape[a]));
        if inside {
            Ok(())
        } else {
            Err(Error::invalid(format!("box {self} does not lie inside an array of shape {}", Tuple(shape))))
        }
    }
}

impl fmt::Display for ArrayBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for axis in 0..self.ndim() {
            if axis > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}:{}", self.start[axis], self.end(axis))?;
        }
        f.write_str("]")
    }
}

/// How an array is cut into tiles. Tiles at the high edges may hang over; the overhang is clipped
/// from their boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileGrid {
    /// Shape of the array.
    pub shape: Dims,
    /// Shape of an inner tile; each extent is at least 1.
    pub tile: Dims,
}

impl TileGrid {
    /// The grid, or an error where the tile has another number of axes or an extent of zero.
    pub fn new(shape: &[u64], tile: &[u64]) -> Result<TileGrid> {
        if shape.len() != tile.len() {
            return Err(Error::invalid(format!(
                "tile {} and shape {} have different numbers of dimensions",
                Tuple(tile),
                Tuple(shape)
            )));
        }
        if tile.contains(&0) {
            return Err(Error::invalid(format!("tile {} has an extent of zero", Tuple(tile))));
        }
        Ok(TileGrid { shape: shape.into(), tile: tile.into() })
    }

    /// Number of tiles along each axis.
    pub fn counts(&self) -> Dims {
        self.shape.iter().zip(&self.tile).map(|(&n, &t)| n.div_ceil(t)).collect()
    }

    /// Number of tiles. One for a 0-d array, zero for an empty one.
    pub fn tiles(&self) -> u64 {
        elements(&self.counts())
    }

    /// Number of elements of a full tile, overhang included.
    pub fn tile_elements(&self) -> u64 {
        elements(&self.tile)
    }

    /// The box of the tile at these coordinates, overhang clipped.
    pub fn tile_box(&self, coords: &[u64]) -> ArrayBox {
        let start: Dims = coords.iter().zip(&self.tile).map(|(&c, &t)| c * t).collect();
        let shape = (0..coords.len()).map(|a| self.tile[a].min(self.shape[a] - start[a])).collect();
        ArrayBox { start, shape }
    }

    /// Position of a tile in row-major order of coordinates.
    pub fn linear_index(&self, coords: &[u64]) -> u64 {
        coords.iter().zip(self.counts()).fold(0, |acc, (&c, n)| acc * n + c)
    }

    /// Coordinates of the tile at a position in row-major order.
    pub fn coords(&self, mut index: u64) -> Dims {
        let counts = self.counts();
        let mut coords: Dims = SmallVec::from_elem(0, counts.len());
        for axis in (0..counts.len()).rev() {
            coords[axis] = index % counts[axis];
            index /= counts[axis];
        }
        coords
    }

    /// The coordinates of every tile that shares an element with `region`, in row-major order.
    pub fn tiles_of(&self, region: &ArrayBox) -> BoxIndices {
        if region.is_empty() {
            return BoxIndices::new(&ArrayBox {
                start: region.start.clone(),
                shape: SmallVec::from_elem(0, region.ndim().max(1)),
            });
        }
        let first: Dims = region.start.iter().zip(&self.tile).map(|(&s, &t)| s / t).collect();
        let count = (0..region.ndim()).map(|a| (region.end(a) - 1) / self.tile[a] - first[a] + 1).collect();
        BoxIndices::new(&ArrayBox { start: first, shape: count })
    }
}

/// Every index inside a box, in row-major order.
pub struct BoxIndices {
    start: Dims,
    shape: Dims,
    next: Option<Dims>,
}

impl BoxIndices {
    /// Starts at the box's first index.
    pub fn new(region: &ArrayBox) -> BoxIndices {
        let next = (!region.is_empty()).then(|| region.start.clone());
        BoxIndices { start: region.start.clone(), shape: region.shape.clone(), next }
    }
}

impl Iterator for BoxIndices {
    type Item = Dims;

    fn next(&mut self) -> Option<Dims> {
        let current = self.next.take()?;
        let mut following = current.clone();
        for axis in (0..self.shape.len()).rev() {
            following[axis] += 1;
            if following[axis] < self.start[axis] + self.shape[axis] {
                self.next = Some(following);
                break;
            }
            following[axis] = self.start[axis];
        }
        Some(current)
    }
}

/// Bytes of the smallest and of the largest tiles that the default aims at.
const DEFAULT_TILE_BYTES: (u64, u64) = (1 << 20, 16 << 20);

/// The square of a default tile's bytes over those of the array: 128 tiles of 1 MiB are 128 MiB, 2048 of 16 MiB are
/// 32 GiB, and in between both grow alike.
const TILE_OF_TILES: u64 = 8 << 10;

/// The longest axis along which tables are cut into whole rows, as the side of a square of so many bytes.
const ROWS: u64 = 8 << 20;

/// How many times as long as wide a table is, at least.
const TALL: u64 = 4;

/// How many times as long as its third longest axis the longest of a cube may be.
const CUBE: u64 = 4;

/// Bytes that the default tile of an array aims at. They depend on the array's size, and nothing else.
fn default_tile_bytes(nbytes: u64) -> u64 {
    let (least, most) = DEFAULT_TILE_BYTES;
    let mut bytes = least;
    while bytes < most && 4 * bytes * bytes <= nbytes.saturating_mul(TILE_OF_TILES) {
        bytes *= 2;
    }
    bytes
}

/// The largest power of two whose square does not pass so many elements.
fn side(elements: u64) -> u64 {
    1 << (elements.max(1).ilog2() / 2)
}

/// Sides of a tile of a cube: powers of two, which grow from the first axis to the last. Planes and rows of tiles take
/// little memory, and pieces of rows are long, but what goes along another axis finds its elements in few tiles, too.
fn cuboid(elements: u64) -> [u64; 3] {
    let bits = elements.max(1).ilog2();
    // The last side is 8 or 16 times as long as the first one.
    let first = bits.saturating_sub(5) / 3;
    let rest = bits - first;
    [1 << first, 1 << (rest / 2), 1 << (rest - rest / 2)]
}

/// The default tile: between 1 MiB and 16 MiB, as the array is large, square in the two largest dimensions, whole or one
/// along the others, and a multiple of 4096 bytes where the array allows it. Tables are cut into whole rows, small cubes
/// into whole maps, large ones along three axes.
///
/// Sides of squares, and numbers of rows and maps, are powers of two, so that tiles of arrays of different size are parts
/// of each other; where elements of a power of two make no square, the square is the next smaller one. The smaller dimensions are taken whole only
/// as far as the two largest still have room; an array smaller than a tile is one tile.
pub fn default_tile(shape: &[u64], itemsize: usize) -> Dims {
    let itemsize = itemsize as u64;
    let mut tile: Dims = SmallVec::from_elem(1, shape.len());
    if shape.is_empty() {
        return tile;
    }
    let mut by_extent: Vec<usize> = (0..shape.len()).collect();
    by_extent.sort_by_key(|&a| (std::cmp::Reverse(shape[a]), a));
    let whole = elements(shape);
    let budget = default_tile_bytes(whole.saturating_mul(itemsize)) / itemsize;
    if whole <= budget {
        return shape.iter().map(|&n| n.max(1)).collect();
    }
    if shape.len() == 1 {
        tile[0] = budget.min(shape[0].max(1));
        return tile;
    }
    let (large, second) = (by_extent[0], by_extent[1]);
    let edge = side(budget);
    let is_table = shape[second] <= side(ROWS / itemsize) && shape[large] / TALL >= shape[second];
    let row = elements(&shape[1..]);
    if shape[second] <= edge && shape.len() > 2 && (1..=budget).contains(&row) {
        // A small cube: whole maps, one after the other in a file, too.
        tile.copy_from_slice(shape);
        tile[0] = power_of_two(budget / row);
        return tile;
    }
    let is_cube = shape.len() > 2 && shape[by_extent[2]] >= shape[large] / CUBE && !is_table;
    if is_cube {
        let mut three = [by_extent[0], by_extent[1], by_extent[2]];
        three.sort_unstable();
        for (axis, side) in three.into_iter().zip(cuboid(budget)) {
            tile[axis] = side.min(shape[axis]);
        }
    } else if shape[second] <= edge || is_table {
        // A thin array: whole along the second axis, as long as fits along the first.
        tile[second] = shape[second].max(1);
        let rows = power_of_two(budget / tile[second]);
        tile[large] = rows.min(shape[large].max(1));
    } else {
        tile[second] = edge;
        tile[large] = edge;
    }
    // What room is left goes to the remaining axes, largest first.
    for &axis in &by_extent[if is_cube { 3 } else { 2 }..] {
        let used = elements(&tile);
        tile[axis] = (budget / used).clamp(1, shape[axis].max(1));
    }
    tile
}

/// The largest power of two that is not more, and one at least.
fn power_of_two(n: u64) -> u64 {
    1 << n.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_array_once() {
        let grid = TileGrid::new(&[5, 7], &[2, 3]).unwrap();
        let covered: u64 = (0..grid.tiles()).map(|i| grid.tile_box(&grid.coords(i)).elements()).sum();
        assert_eq!(covered, 35);
        assert_eq!(grid.linear_index(&grid.coords(5)), 5);
        let touched: Vec<Dims> = grid.tiles_of(&ArrayBox::new([1, 2], [2, 2])).collect();
        assert_eq!(touched.len(), 4);
    }

    #[test]
    fn zero_dimensional_and_empty_grids() {
        let scalar = TileGrid::new(&[], &[]).unwrap();
        assert_eq!(scalar.tiles(), 1);
        assert_eq!(scalar.tiles_of(&ArrayBox::whole(&[])).count(), 1);
        let empty = TileGrid::new(&[0, 4], &[1, 4]).unwrap();
        assert_eq!(empty.tiles(), 0);
        assert_eq!(empty.tiles_of(&ArrayBox::whole(&[0, 4])).count(), 0);
    }

    #[test]
    fn default_tiles_grow_with_the_array() {
        for (size, bytes) in
            [(0, 1), (20, 1), (28, 1), (29, 2), (30, 2), (31, 4), (33, 8), (35, 16), (45, 16)]
        {
            assert_eq!(default_tile_bytes(1 << size), bytes << 20, "2^{size}");
        }
        assert_eq!(default_tile_bytes(u64::MAX), 16 << 20);
        assert_eq!(default_tile(&[4096, 4096], 8).as_slice(), [256, 256]);
        assert_eq!(default_tile(&[10_000, 10_000], 8).as_slice(), [512, 512]);
        assert_eq!(default_tile(&[65536, 65536], 8).as_slice(), [1024, 1024]);
        assert_eq!(default_tile(&[65536, 65536], 4).as_slice(), [1024, 1024]);
        assert_eq!(default_tile(&[1 << 20, 1 << 20], 4).as_slice(), [2048, 2048]);
        assert_eq!(default_tile(&[100, 100], 8).as_slice(), [100, 100]);
        assert_eq!(default_tile(&[1 << 30], 8).as_slice(), [1 << 20]);
        assert_eq!(default_tile(&[], 8).as_slice(), [0; 0]);
        for shape in [[3u64, 100_000, 5000], [1000, 1000, 1000], [7, 9, 100_000_000]] {
            let (bytes, whole) = (elements(&default_tile(&shape, 8)) * 8, elements(&shape) * 8);
            let wanted = default_tile_bytes(whole);
            assert!((wanted / 4..=wanted).contains(&bytes), "{shape:?}: {bytes}");
        }
    }

    #[test]
    fn default_tiles_of_tables_are_whole_rows() {
        assert_eq!(default_tile(&[1 << 20, 100], 8).as_slice(), [2048, 100]);
        assert_eq!(default_tile(&[100, 200_000], 8).as_slice(), [100, 1024]);
        assert_eq!(default_tile(&[10_000, 1000], 8).as_slice(), [128, 1000]);
        assert_eq!(default_tile(&[240, 300, 200], 8).as_slice(), [2, 300, 200]);
        assert_eq!(default_tile(&[8760, 100, 200], 8).as_slice(), [8, 100, 200]);
        assert_eq!(default_tile(&[768, 768, 768], 8).as_slice(), [16, 128, 256]);
        assert_eq!(default_tile(&[3, 384, 400, 300], 8).as_slice(), [1, 16, 128, 128]);
        assert_eq!(default_tile(&[100, 2000, 3000], 8).as_slice(), [2, 512, 512]);
        // As long as wide, nearly: a matrix.
        assert_eq!(default_tile(&[3000, 1000], 8).as_slice(), [256, 256]);
        for (rows, columns, size) in
            [(99_991, 37, 8), (1_000_003, 999, 4), (5_000_000, 3, 2), (77_777, 1024, 1)]
        {
            let tile = default_tile(&[rows, columns], size);
            assert_eq!(tile[1], columns);
            assert!(tile[0].is_power_of_two() && elements(&tile) * size as u64 >= 512 << 10, "{tile:?}");
        }
    }

    #[test]
    fn absurd_shapes_are_refused() {
        assert!(checked_nbytes(&[1 << 40, 1 << 40], 8).is_err());
        assert!(checked_nbytes(&[0, 1 << 40, 1 << 40], 8).is_err());
        assert_eq!(checked_nbytes(&[0, 5], 8).unwrap(), 0);
        assert_eq!(checked_nbytes(&[], 8).unwrap(), 8);
    }
}
