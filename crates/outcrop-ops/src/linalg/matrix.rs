//! Matrices as programs see them: boxes of stored arrays, transposed or not, cut into tiles.

use crate::kernels::Block;
use outcrop_engine::execute::Tile;
use outcrop_engine::program::{ArrayId, Cost, Declaration, Program, Role, TileId};
use outcrop_store::frame::charged;
use outcrop_store::layout::Layout;
use outcrop_store::shape::row_major_strides;
use outcrop_store::store::Store;
use outcrop_store::store::tiled::{Attributes, Prospect};
use outcrop_store::{ArrayBox, DType, Dims, Error, Result, TileGrid};
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
        let info = self.store.info();
        let mut tile: Dims = SmallVec::from_elem(1, self.region.ndim());
        self.axes.rows.into_iter().for_each(|a| tile[a] = rows);
        self.axes.cols.into_iter().for_each(|a| tile[a] = cols);
        let exact = self.store.moves_whole_tiles()
            && info.tile == tile
            && self.region.start.iter().zip(&tile).all(|(s, t)| s.is_multiple_of(*t))
            // A box that ends inside a tile is not what the tile holds.
            && (0..tile.len()).all(|a| self.region.end(a).is_multiple_of(tile[a]) || self.region.end(a) == info.shape[a]);
        let staging = if exact { 0 } else { self.store.staging_of(&tile) };
        let declaration = Declaration {
            name,
            role: Role::Input,
            dtype: info.dtype,
            grid: TileGrid::new(&self.region.shape, &tile)?,
            origin: self.region.start.to_vec(),
            initial: None,
            frame: if exact { self.store.tile_frame() } else { 0 },
            staging,
            commit: 0,
        };
        program.calls_back |= self.store.calls_back();
        let room = charged(staging);
        let load =
            |region: &ArrayBox| Ok(Cost { load: self.store.bytes_to_load_with(region, room)?, store: 0 });
        let array = program.array(declaration, load)?;
        Ok(Tiles { array, axes: self.axes, ndim: self.region.ndim(), source: None })
    }
}

/// What a result is made of, or will be.
#[derive(Clone)]
pub enum Target {
    /// A new Zarr array of our own, with these tiles, or the program's.
    New {
        /// Shape of a tile.
        tile: Option<Dims>,
        /// Zarr's attributes.
        attributes: Attributes,
    },
    /// An array that is there.
    Store(Arc<dyn Store>),
}

impl Target {
    /// Tile extents that the result asks for.
    pub fn tile(&self) -> Option<Dims> {
        match self {
            Target::New { tile, .. } => tile.clone(),
            Target::Store(store) => {
                let info = store.info();
                (info.layout == Layout::Tiled).then(|| info.tile.clone())
            }
        }
    }

    /// Declares the result, of `shape`, cut into tiles of shape `tile`.
    pub(crate) fn declare(
        &self,
        program: &mut Program,
        what: NewArray<'_>,
        initial: Option<&Tiles>,
    ) -> Result<Tiles> {
        let (initial, source) = what.start(initial);
        let NewArray { name, dtype, shape, tile, axes } = what;
        let grid = TileGrid::new(shape, tile)?;
        let declaration = |frame, staging, commit| Declaration {
            name,
            role: Role::Output,
            dtype,
            grid: grid.clone(),
            origin: Vec::new(),
            initial,
            frame,
            staging,
            commit,
        };
        let array = match self {
            Target::New { tile: own, attributes } => {
                let own = own.clone().unwrap_or_else(|| tile.into());
                let prospect = Prospect::new(shape, dtype, &own, attributes)?;
                let exact = own.as_slice() == tile;
                let (frame, staging) = if exact { (prospect.frame, 0) } else { (0, prospect.frame) };
                program.array(declaration(frame, staging, prospect.commit), |region| {
                    let bytes = prospect.grid.tiles_of(region).count() as u64 * prospect.tile;
                    Ok(Cost { load: bytes, store: bytes })
                })?
            }
            Target::Store(store) => {
                let exact = store.moves_whole_tiles() && store.info().tile.as_slice() == tile;
                let (frame, staging) =
                    if exact { (store.tile_frame(), 0) } else { (0, store.staging_of(tile)) };
                program.array(declaration(frame, staging, store.bytes_to_commit()), |region| {
                    let stored = store.bytes_to_store(region)?;
                    // It is not there yet, and what is not there costs nothing: what it will cost is
                    // what storing it does.
                    let load = if store.info().layout == Layout::Tiled {
                        stored
                    } else {
                        store.bytes_to_load(region)?
                    };
                    Ok(Cost { load, store: stored })
                })?
            }
        };
        Ok(Tiles { array, axes, ndim: shape.len(), source })
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

    /// Declares a temporary.
    pub(crate) fn temporary(self, program: &mut Program, initial: Option<&Tiles>) -> Result<Tiles> {
        let (initial, source) = self.start(initial);
        let grid = TileGrid::new(self.shape, self.tile)?;
        let bytes = charged(grid.tile_elements() as usize * self.dtype.size()) as u64;
        let declaration = Declaration {
            name: self.name,
            role: Role::Temporary,
            dtype: self.dtype,
            grid,
            origin: Vec::new(),
            initial,
            frame: 0,
            staging: 0,
            commit: 0,
        };
        let array = program.array(declaration, |_| Ok(Cost { load: bytes, store: bytes }))?;
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

impl Tiles {
    /// The tile in a row and a column of tiles.
    pub(crate) fn at(&self, program: &Program, row: u64, col: u64) -> TileId {
        let mut coords: Dims = SmallVec::from_elem(0, self.ndim);
        self.axes.rows.into_iter().for_each(|a| coords[a] = row);
        self.axes.cols.into_iter().for_each(|a| coords[a] = col);
        program.tile(self.array, &coords)
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
