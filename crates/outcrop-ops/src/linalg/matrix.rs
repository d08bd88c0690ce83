//! Matrices as programs see them: arrays of a program, transposed or not, cut into tiles.

use crate::kernels::Block;
use outcrop_engine::program::{ArrayId, Program, Role, Tile, TileId};
use outcrop_store::shape::row_major_strides;
use outcrop_store::{DType, Dims, Error, Result};
use std::ops::Range;

/// Along which axis of an array a matrix's rows follow each other, and its columns; none for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axes {
    /// The axis of the row index.
    pub rows: Option<usize>,
    /// The axis of the column index.
    pub cols: Option<usize>,
}

impl Axes {
    /// Those of a matrix in an array of two axes.
    pub const MATRIX: Axes = Axes { rows: Some(0), cols: Some(1) };

    /// Those of a column in an array of one axis.
    pub const COLUMN: Axes = Axes { rows: Some(0), cols: None };

    /// Those of the transposed matrix.
    #[must_use]
    pub fn transposed(self) -> Axes {
        Axes { rows: self.cols, cols: self.rows }
    }

    /// Whether the elements of a column follow each other in memory, rather than those of a row.
    pub(crate) fn is_transposed(self) -> bool {
        self.rows.zip(self.cols).is_some_and(|(rows, cols)| rows > cols)
    }

    /// The block of memory that a tile has.
    pub(crate) fn block(self, tile: &Tile<'_>) -> Block {
        let region = tile.region();
        let strides = row_major_strides(tile.array().tile_shape());
        let extent = |axis: Option<usize>| axis.map_or(1, |a| region.shape[a] as usize);
        let stride = |axis: Option<usize>| axis.map_or(1, |a| strides[a]);
        Block {
            start: tile.start,
            rows: extent(self.rows),
            cols: extent(self.cols),
            row_stride: stride(self.rows),
            col_stride: stride(self.cols),
        }
    }
}

/// An array that is copied from, as in [`Tiles`].
type Source = (ArrayId, Axes);

/// A matrix in a program: all of an array, by tiles.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    array: ArrayId,
    axes: Axes,
    /// The array that its tiles are copied from when they are first used, where it is not the initial
    /// array because it lies otherwise.
    source: Option<Source>,
    /// Rows and columns of what counts as a tile, where those of the array are several of them.
    blocks: Option<(u64, u64)>,
}

/// A tile of a matrix, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixTile {
    pub tile: TileId,
    /// Which of the array's axes are its rows and columns.
    pub axes: Axes,
    /// Which part of it is meant, if not all of it.
    pub part: Option<Part>,
}

/// Bits of a row or a column of a tile.
const NUMBER_BITS: u32 = 30;

/// How many of the lowest bits of an argument a part takes, beside the highest one.
pub(super) const PART_BITS: u32 = 2 * NUMBER_BITS;

/// Rows or columns of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Whether they are columns.
    across: bool,
    start: u32,
    /// No more than there are.
    count: u32,
}

impl Part {
    /// Rows of a tile.
    pub(crate) fn rows(rows: Range<u64>) -> Part {
        Part { across: false, start: rows.start as u32, count: (rows.end - rows.start) as u32 }
    }

    /// As an argument of a step, of which [`PART_BITS`] and the highest one are used.
    pub(crate) fn encoded(part: Option<Part>) -> u64 {
        part.map_or(0, |part| {
            debug_assert!(part.start.max(part.count) < 1 << NUMBER_BITS);
            u64::from(part.across) << 63 | u64::from(part.start) << NUMBER_BITS | u64::from(part.count)
        })
    }

    /// The reverse.
    pub(crate) fn decoded(argument: u64) -> Option<Part> {
        let number = |bits: u64| (bits & ((1 << NUMBER_BITS) - 1)) as u32;
        let part = Part {
            across: argument >> 63 == 1,
            start: number(argument >> NUMBER_BITS),
            count: number(argument),
        };
        (part.count > 0).then_some(part)
    }

    /// The first of them.
    pub(crate) fn start(self) -> u64 {
        u64::from(self.start)
    }

    /// The rows, or columns, of a block of this extent.
    fn within(self, extent: usize) -> Range<usize> {
        let start = (self.start as usize).min(extent);
        start..(start + self.count as usize).min(extent)
    }

    /// The part of the block of a tile.
    pub(crate) fn of(self, block: Block, itemsize: usize) -> Block {
        if self.across {
            block.part(0..block.rows, self.within(block.cols), itemsize)
        } else {
            block.part(self.within(block.rows), 0..block.cols, itemsize)
        }
    }
}

impl MatrixTile {
    /// The tile of the transposed matrix.
    pub(crate) fn transposed(self) -> MatrixTile {
        let part = self.part.map(|part| Part { across: !part.across, ..part });
        MatrixTile { axes: self.axes.transposed(), part, ..self }
    }
}

impl Tiles {
    /// Those of an array, along whose axes rows and columns run.
    pub fn new(array: ArrayId, axes: Axes) -> Tiles {
        Tiles { array, axes, source: None, blocks: None }
    }

    /// Whether they are those of one array.
    pub(crate) fn is_of_the_array_of(self, other: Tiles) -> bool {
        self.array == other.array
    }

    /// The same, where they begin as those of another matrix, which may be made in their place.
    pub(crate) fn beginning_as(self, program: &Program, other: Tiles) -> Tiles {
        let is_initial = program.array_at(self.array).initial == Some(other.array) && self.axes == other.axes;
        let is_initial = is_initial || self.array == other.array;
        Tiles { source: (!is_initial).then_some((other.array, other.axes)), ..self }
    }

    /// Which of the array's axes are its rows and columns.
    pub(crate) fn axes(&self) -> Axes {
        self.axes
    }

    /// The array that has its tiles.
    pub(crate) fn array(&self) -> ArrayId {
        self.array
    }

    /// What becomes of the array.
    pub(crate) fn role(&self, program: &Program) -> Role {
        program.array_at(self.array).role
    }

    /// Whether it is all of an array of two axes.
    pub(crate) fn is_plain(&self, program: &Program) -> bool {
        let ndim = program.array_at(self.array).grid.shape.len();
        ndim == 2 && self.axes.rows.is_some() && self.axes.cols.is_some()
    }

    /// Element type.
    pub(crate) fn dtype(&self, program: &Program) -> DType {
        program.array_at(self.array).dtype
    }

    /// Rows and columns.
    pub(crate) fn shape(&self, program: &Program) -> (u64, u64) {
        self.along(&program.array_at(self.array).grid.shape)
    }

    /// Rows and columns of a tile.
    pub(crate) fn tile(&self, program: &Program) -> (u64, u64) {
        self.blocks.unwrap_or_else(|| self.stored_tile(program))
    }

    /// Rows and columns of a tile of the array.
    pub(crate) fn stored_tile(&self, program: &Program) -> (u64, u64) {
        self.along(&program.array_at(self.array).grid.tile)
    }

    /// The same, where tiles that are higher than wide count as so many, one below the other, that are square: as
    /// there are on the diagonal.
    pub(crate) fn in_blocks(self, program: &Program) -> Tiles {
        let (columns, width) = (self.shape(program).1, self.stored_tile(program).1);
        if columns <= width { self } else { self.in_blocks_of(program, width) }
    }

    /// The same, where so many rows count as a tile.
    pub(crate) fn in_blocks_of(self, program: &Program, rows: u64) -> Tiles {
        let (height, width) = self.stored_tile(program);
        if height <= rows {
            return self;
        }
        assert!(
            height.is_multiple_of(rows) || self.stored_counts(program).0 == 1,
            "blocks of {rows} rows in tiles of {height}"
        );
        Tiles { blocks: Some((rows, width)), ..self }
    }

    /// The tiles of the array.
    pub(crate) fn whole(self) -> Tiles {
        Tiles { blocks: None, ..self }
    }

    /// How many tiles a tile of the array has, one below the other.
    pub(crate) fn heights(&self, program: &Program) -> u64 {
        self.blocks.map_or(1, |(rows, _)| self.stored_tile(program).0.div_ceil(rows))
    }

    /// How many it has beside one another.
    fn widths(&self, program: &Program) -> u64 {
        self.blocks.map_or(1, |(_, cols)| self.stored_tile(program).1.div_ceil(cols))
    }

    fn along(&self, extents: &[u64]) -> (u64, u64) {
        let of = |axis: Option<usize>| axis.map_or(1, |a| extents[a]);
        (of(self.axes.rows), of(self.axes.cols))
    }

    /// The tile in a row and a column of tiles.
    pub(crate) fn at(&self, program: &Program, row: u64, col: u64) -> MatrixTile {
        let (high, wide) = (self.heights(program), self.widths(program));
        let part = self.blocks.and_then(|(rows, cols)| {
            // Only one of the axes has several to a tile.
            let part = |across, i: u64, extent: u64| Part {
                across,
                start: (i * extent) as u32,
                count: extent as u32,
            };
            match (high, wide) {
                (1, 1) => None,
                (_, 1) => Some(part(false, row % high, rows)),
                _ => Some(part(true, col % wide, cols)),
            }
        });
        MatrixTile { tile: self.stored_at(program, row / high, col / wide), axes: self.axes, part }
    }

    /// The tile of the array in a row and a column of its tiles.
    fn stored_at(&self, program: &Program, row: u64, col: u64) -> TileId {
        let mut coords = Dims::from_elem(0, program.array_at(self.array).grid.shape.len());
        self.axes.rows.into_iter().for_each(|a| coords[a] = row);
        self.axes.cols.into_iter().for_each(|a| coords[a] = col);
        program.tile(self.array, &coords)
    }

    /// Some rows of tiles, of which those together lie in the same tiles of the array.
    pub(crate) fn strips(&self, program: &Program, rows: Range<u64>) -> Vec<Range<u64>> {
        let high = self.heights(program);
        let tiles = rows.start / high..rows.end.div_ceil(high);
        tiles
            .map(|i| rows.start.max(i * high)..rows.end.min((i + 1) * high))
            .filter(|strip| !strip.is_empty())
            .collect()
    }

    /// What such a strip is in a column of tiles, and how many of the matrix's rows.
    pub(crate) fn high(&self, program: &Program, strip: Range<u64>, col: u64) -> (MatrixTile, f64) {
        let (high, side, most) = (self.heights(program), self.tile(program).0, self.shape(program).0);
        let (first, count) = (strip.start % high, strip.end - strip.start);
        let is_whole = first == 0 && (count == high || strip.end * side >= most);
        let part = (!is_whole).then(|| Part::rows(first * side..(first + count) * side));
        let tile = MatrixTile { part, ..self.at(program, strip.start, col) };
        (tile, ((strip.end * side).min(most) - strip.start * side) as f64)
    }

    /// The tiles of the transposed matrix.
    pub(crate) fn transposed(self) -> Tiles {
        let source = self.source.map(|(array, axes)| (array, axes.transposed()));
        let blocks = self.blocks.map(|(rows, cols)| (cols, rows));
        Tiles { axes: self.axes.transposed(), source, blocks, ..self }
    }

    /// The tiles it is copied from, if it is.
    pub(crate) fn copied_from(&self) -> Option<Tiles> {
        self.source.map(|(array, axes)| Tiles::new(array, axes))
    }

    /// How many rows of tiles there are, and how many columns.
    pub(crate) fn counts(&self, program: &Program) -> (u64, u64) {
        let ((rows, cols), (m, n)) = (self.tile(program), self.shape(program));
        (m.div_ceil(rows.max(1)), n.div_ceil(cols.max(1)))
    }

    /// The same of the array's own.
    fn stored_counts(&self, program: &Program) -> (u64, u64) {
        self.along(&program.array_at(self.array).grid.counts())
    }

    /// Rows of the matrix in a row of tiles.
    pub(crate) fn rows_of(&self, program: &Program, row: u64) -> f64 {
        let (side, rows) = (self.tile(program).0, self.shape(program).0);
        side.min(rows - row * side) as f64
    }

    /// Columns of the matrix in a column of tiles.
    pub(crate) fn cols_of(&self, program: &Program, col: u64) -> f64 {
        let (side, cols) = (self.tile(program).1, self.shape(program).1);
        side.min(cols - col * side) as f64
    }

    /// Bytes of a tile's frame; of those that are parts of one, of each.
    pub(crate) fn frame(&self, program: &Program) -> usize {
        let parts = self.heights(program) * self.widths(program);
        program.array_at(self.array).frame.div_ceil(parts as usize)
    }
}

/// A matrix of which the first columns are another array's: those that a factorization has finished before.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    done: Option<Tiles>,
    own: Tiles,
    /// How many columns of tiles are done.
    pub first: u64,
}

impl Columns {
    /// All of a matrix.
    pub(crate) fn all(own: Tiles) -> Columns {
        Columns { done: None, own, first: 0 }
    }

    /// Those of a matrix that follow others.
    pub(crate) fn after(done: Option<Tiles>, own: Tiles, program: &Program) -> Columns {
        let first = done.map_or(0, |done| done.counts(program).1);
        Columns { done, own, first }
    }

    /// The same of a matrix with tiles on its diagonal.
    ///
    /// # Errors
    /// [`Error::Invalid`] where those that are done are no whole tiles of the diagonal.
    pub(crate) fn after_squares(done: Option<Tiles>, own: Tiles, program: &Program) -> Result<Columns> {
        let columns = Columns::after(done, own, program);
        let (there, side) = (done.map_or(0, |done| done.shape(program).1), own.tile(program).0);
        if columns.first * side != there {
            return Err(Error::invalid(format!(
                "columns follow {there} others, in tiles of {side} rows: these are no squares on the diagonal"
            )));
        }
        Ok(columns)
    }

    /// The tile in a row and a column of tiles.
    pub(crate) fn at(&self, program: &Program, row: u64, col: u64) -> MatrixTile {
        match self.done {
            Some(done) if col < self.first => done.at(program, row, col),
            _ => self.own.at(program, row, col - self.first),
        }
    }

    /// As [`Tiles::strips`].
    pub(crate) fn strips(&self, program: &Program, rows: Range<u64>) -> Vec<Range<u64>> {
        self.own.strips(program, rows)
    }

    /// As [`Tiles::high`].
    pub(crate) fn high(&self, program: &Program, strip: Range<u64>, col: u64) -> (MatrixTile, f64) {
        match self.done {
            Some(done) if col < self.first => done.high(program, strip, col),
            _ => self.own.high(program, strip, col - self.first),
        }
    }

    /// As [`Tiles::heights`].
    pub(crate) fn heights(&self, program: &Program) -> u64 {
        self.own.heights(program)
    }

    /// What is not done yet, and the number of a column there.
    pub(crate) fn own(&self, col: u64) -> (Tiles, u64) {
        (self.own, col - self.first)
    }

    /// How many rows of tiles there are, and how many columns.
    pub(crate) fn counts(&self, program: &Program) -> (u64, u64) {
        let (rows, cols) = self.own.counts(program);
        (rows, self.first + cols)
    }

    /// Rows of the matrix in a row of tiles.
    pub(crate) fn rows_of(&self, program: &Program, row: u64) -> f64 {
        self.own.rows_of(program, row)
    }

    /// Columns of the matrix in a column of tiles.
    pub(crate) fn cols_of(&self, program: &Program, col: u64) -> f64 {
        match self.done {
            Some(done) if col < self.first => done.cols_of(program, col),
            _ => self.own.cols_of(program, col - self.first),
        }
    }

    /// Bytes of a tile's frame.
    pub(crate) fn frame(&self, program: &Program) -> usize {
        self.own.frame(program)
    }
}
