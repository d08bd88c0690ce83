//! Matrices as programs see them: boxes of stored arrays, transposed or not, cut into tiles.

use crate::arrays::{self, Target};
use crate::kernels::Block;
use outcrop_engine::program::{ArrayId, Program, Tile, TileId};
use outcrop_store::layout::Layout;
use outcrop_store::shape::row_major_strides;
use outcrop_store::store::Store;
use outcrop_store::{ArrayBox, DType, Dims, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

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

/// A matrix that is stored.
#[derive(Clone)]
pub struct Matrix {
    /// Where.
    pub store: Arc<dyn Store>,
    /// Which part of it. Along other axes than the matrix's own, its extent is 1.
    pub region: ArrayBox,
    /// Which axes.
    pub axes: Axes,
}

impl Matrix {
    /// A matrix that is a whole array of one axis (a column) or two.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other numbers of axes.
    pub fn whole(store: &Arc<dyn Store>) -> Result<Matrix> {
        let shape = &store.info().shape;
        let axes = match shape.len() {
            1 => Axes::COLUMN,
            2 => Axes::MATRIX,
            n => return Err(Error::invalid(format!("a matrix has two axes, not {n}"))),
        };
        Ok(Matrix { store: Arc::clone(store), region: ArrayBox::whole(shape), axes })
    }

    /// The transposed matrix, in the same place.
    #[must_use]
    pub fn transposed(&self) -> Matrix {
        Matrix { axes: self.axes.transposed(), ..self.clone() }
    }

    fn extent(&self, axis: Option<usize>) -> u64 {
        axis.map_or(1, |a| self.region.shape[a])
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.extent(self.axes.rows)
    }

    /// How many columns it has.
    pub fn cols(&self) -> u64 {
        self.extent(self.axes.cols)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.store.info().dtype
    }

    /// The extents of the boxes that move best.
    pub fn tile(&self) -> (u64, u64) {
        let info = self.store.info();
        let extent = |axis: Option<usize>| axis.map_or(1, |a| info.tile[a].min(self.region.shape[a].max(1)));
        (extent(self.axes.rows), extent(self.axes.cols))
    }

    /// Whether it is cut into tiles on disk, rather than stored row by row or column by column.
    pub fn is_tiled(&self) -> bool {
        self.store.info().layout == Layout::Tiled
    }

    /// Declares it in a program, cut into tiles of `rows` rows and `cols` columns.
    pub(crate) fn declare(&self, program: &mut Program, name: &str, rows: u64, cols: u64) -> Result<Tiles> {
        let mut tile: Dims = SmallVec::from_elem(1, self.region.ndim());
        self.axes.rows.into_iter().for_each(|a| tile[a] = rows);
        self.axes.cols.into_iter().for_each(|a| tile[a] = cols);
        let none = Dims::from_elem(0, tile.len());
        let array = arrays::input(program, name, &self.store, &self.region, &tile, &none, 0)?;
        Ok(Tiles { array, axes: self.axes, ndim: self.region.ndim(), source: None })
    }
}

/// What a new array is declared with.
pub(crate) struct NewArray<'a> {
    pub name: &'a str,
    pub dtype: DType,
    pub shape: &'a [u64],
    pub tile: &'a [u64],
    pub axes: Axes,
}

/// An array that is copied from, as in [`Tiles`].
type Source = (ArrayId, Axes, usize);

impl NewArray<'_> {
    /// How its tiles get what is given: as their initial content where it lies as they do, else by
    /// copying.
    fn start(&self, given: Option<&Tiles>) -> (Option<ArrayId>, Option<Source>) {
        match given {
            Some(g) if g.axes == self.axes && g.ndim == self.shape.len() => (Some(g.array), None),
            Some(g) => (None, Some((g.array, g.axes, g.ndim))),
            None => (None, None),
        }
    }

    /// Declares a result.
    pub(crate) fn output(
        self,
        program: &mut Program,
        target: &Target,
        initial: Option<&Tiles>,
    ) -> Result<Tiles> {
        let (initial, source) = self.start(initial);
        let NewArray { name, dtype, shape, tile, axes } = self;
        let array = arrays::New { name, dtype, shape, tile, initial }.output(program, target)?;
        Ok(Tiles { array, axes, ndim: shape.len(), source })
    }

    /// Declares a temporary.
    pub(crate) fn temporary(self, program: &mut Program, initial: Option<&Tiles>) -> Result<Tiles> {
        let (initial, source) = self.start(initial);
        let NewArray { name, dtype, shape, tile, .. } = self;
        let array = arrays::New { name, dtype, shape, tile, initial }.temporary(program)?;
        Ok(Tiles { array, axes: self.axes, ndim: self.shape.len(), source })
    }
}

/// The tiles of a matrix in a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    pub array: ArrayId,
    pub axes: Axes,
    ndim: usize,
    /// The array that its tiles are copied from when they are first used, where it is not the initial
    /// array because it lies otherwise.
    pub source: Option<Source>,
}

/// A tile of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixTile {
    pub tile: TileId,
    /// Which of the array's axes are its rows and columns.
    pub axes: Axes,
}

impl Tiles {
    /// The tile in a row and a column of tiles.
    pub(crate) fn at(&self, program: &Program, row: u64, col: u64) -> MatrixTile {
        let mut coords: Dims = SmallVec::from_elem(0, self.ndim);
        self.axes.rows.into_iter().for_each(|a| coords[a] = row);
        self.axes.cols.into_iter().for_each(|a| coords[a] = col);
        MatrixTile { tile: program.tile(self.array, &coords), axes: self.axes }
    }

    /// The tiles of the transposed matrix.
    pub(crate) fn transposed(self) -> Tiles {
        let source = self.source.map(|(array, axes, ndim)| (array, axes.transposed(), ndim));
        Tiles { axes: self.axes.transposed(), source, ..self }
    }

    /// The tiles it is copied from, if it is.
    pub(crate) fn copied_from(&self) -> Option<Tiles> {
        self.source.map(|(array, axes, ndim)| Tiles { array, axes, ndim, source: None })
    }

    /// How many rows of tiles there are, and how many columns.
    pub(crate) fn counts(&self, program: &Program) -> (u64, u64) {
        let counts = program.array_at(self.array).grid.counts();
        let along = |axis: Option<usize>| axis.map_or(1, |a| counts[a]);
        (along(self.axes.rows), along(self.axes.cols))
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
