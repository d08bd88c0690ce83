//! Matrices as programs see them: arrays of a program, transposed or not, cut into tiles.

use crate::kernels::Block;
use outcrop_engine::program::{ArrayId, Program, Role, Tile, TileId};
use outcrop_store::shape::row_major_strides;
use outcrop_store::{DType, Dims};

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
}

/// A tile of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixTile {
    pub tile: TileId,
    /// Which of the array's axes are its rows and columns.
    pub axes: Axes,
}

impl MatrixTile {
    /// The tile of the transposed matrix.
    pub(crate) fn transposed(self) -> MatrixTile {
        MatrixTile { axes: self.axes.transposed(), ..self }
    }
}

impl Tiles {
    /// Those of an array, along whose axes rows and columns run.
    pub fn new(array: ArrayId, axes: Axes) -> Tiles {
        Tiles { array, axes, source: None }
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
        self.along(&program.array_at(self.array).grid.tile)
    }

    fn along(&self, extents: &[u64]) -> (u64, u64) {
        let of = |axis: Option<usize>| axis.map_or(1, |a| extents[a]);
        (of(self.axes.rows), of(self.axes.cols))
    }

    /// The tile in a row and a column of tiles.
    pub(crate) fn at(&self, program: &Program, row: u64, col: u64) -> MatrixTile {
        let mut coords = Dims::from_elem(0, program.array_at(self.array).grid.shape.len());
        self.axes.rows.into_iter().for_each(|a| coords[a] = row);
        self.axes.cols.into_iter().for_each(|a| coords[a] = col);
        MatrixTile { tile: program.tile(self.array, &coords), axes: self.axes }
    }

    /// The tiles of the transposed matrix.
    pub(crate) fn transposed(self) -> Tiles {
        let source = self.source.map(|(array, axes)| (array, axes.transposed()));
        Tiles { axes: self.axes.transposed(), source, ..self }
    }

    /// The tiles it is copied from, if it is.
    pub(crate) fn copied_from(&self) -> Option<Tiles> {
        self.source.map(|(array, axes)| Tiles::new(array, axes))
    }

    /// How many rows of tiles there are, and how many columns.
    pub(crate) fn counts(&self, program: &Program) -> (u64, u64) {
        self.along(&program.array_at(self.array).grid.counts())
    }

    /// Rows of the matrix in a row of tiles.
    pub(crate) fn rows_of(&self, program: &Program, row: u64) -> f64 {
        self.extent(program, self.axes.rows, row)
    }

    /// Columns of the matrix in a column of tiles.
    pub(crate) fn cols_of(&self, program: &Program, col: u64) -> f64 {
        self.extent(program, self.axes.cols, col)
    }

    fn extent(&self, program: &Program, axis: Option<usize>, i: u64) -> f64 {
        let grid = &program.array_at(self.array).grid;
        axis.map_or(1.0, |a| grid.tile[a].min(grid.shape[a] - i * grid.tile[a]) as f64)
    }

    /// Bytes of a tile's frame.
    pub(crate) fn frame(&self, program: &Program) -> usize {
        program.array_at(self.array).frame
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

    /// The tile in a row and a column of tiles.
    pub(crate) fn at(&self, program: &Program, row: u64, col: u64) -> MatrixTile {
        match self.done {
            Some(done) if col < self.first => done.at(program, row, col),
            _ => self.own.at(program, row, col - self.first),
        }
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
