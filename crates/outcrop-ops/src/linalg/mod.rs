//! Linear algebra on arrays that do not fit in memory: the steps of each operation, added to a program.
//!
//! - [`matrix`]: matrices as arrays of a program.
//! - [`matmul`], [`cholesky`], [`cholesky_update`], [`cholesky_inverse`], [`triangular`], [`solve`], [`lu`], [`ldl`], [`blas3`]: the operations.
//! - `steps`: the kernels they are made of; [`called`]: the product, for kernels that were compiled elsewhere.
//!
//! All operands are arrays of the program already, cut alike wherever their rows and columns run together. How an
//! operation goes through its tiles is a [`Way`], of which there are several: which one moves the least, a schedule of
//! the whole program says.

mod blas3;
mod blas_steps;
pub mod called;
mod cholesky;
mod cholesky_inverse;
mod cholesky_update;
mod half_blocks;
mod ldl;
mod ldl_steps;
mod lu;
mod matmul;
pub mod matrix;
mod rates;
mod solve;
pub(crate) mod steps;
mod triangular;

pub use blas3::{Call, Conjugated, Form, blas3};
pub use cholesky::{cholesky, cholesky_columns, square_side};
pub use cholesky_inverse::cholesky_inverse;
pub use cholesky_update::cholesky_update;
pub use ldl::{Indefinite, LDL, SomeLDL, ldl, ldl_columns, ldl_in_order, ldl_rotated, ldl_solve};
pub use lu::{
    Factors, PIVOT, SomeColumns, Transposition, exchange_rows, lu, lu_columns, lu_in_order, lu_solve,
    solve_general,
};
pub use matmul::matmul;
pub use matrix::{Axes, Tiles};
use outcrop_engine::Runtime;
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::program::{ArrayId, Program, Role, TileId};
use outcrop_store::{DType, Dims};
pub use solve::solve;
pub use triangular::{Triangle, solve_triangular};

/// A program that an operation is added to, and how.
pub struct Place<'a> {
    /// Whose memory there is.
    pub runtime: &'a Runtime,
    /// Gets the steps.
    pub program: &'a mut Program,
    /// Those of the device that has most of the data.
    pub speeds: Speeds,
    /// Which way through the tiles, of those that there are: the first promises the least reading, the last one may
    /// take the least memory.
    pub way: usize,
    /// What makes tiles of operands that are not there.
    pub makers: &'a dyn Makers,
}

/// What makes tiles of operands whenever they are needed, which are better made again than written and read back.
pub trait Makers {
    /// Whether the tiles of an array have to be made.
    fn make_tiles_of(&self, array: ArrayId) -> bool;

    /// Adds the step that makes a tile, whether it is in memory or not.
    fn make(&self, program: &mut Program, tile: TileId);
}

/// All tiles are there.
impl Makers for () {
    fn make_tiles_of(&self, _array: ArrayId) -> bool {
        false
    }

    fn make(&self, _program: &mut Program, _tile: TileId) {}
}

/// The way that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// For people.
    pub remark: String,
    /// How many ways there are.
    pub count: usize,
    /// Whether this is the one that takes the least memory.
    pub frugal: bool,
    /// Bytes that any schedule of the operation by itself reads, and who says so.
    pub lower_bound: (f64, &'static str),
}

/// Blocks to try, with that of one tile, which needs the least, where memory is tight or little is lost
/// by trying.
fn with_the_least(
    runtime: &Runtime,
    blocks: impl Iterator<Item = (u64, u64)>,
    capacity: usize,
    step: usize,
    steps: u64,
) -> Vec<(u64, u64)> {
    let tight = capacity < 4 * step || capacity < runtime.limit() / 2 || steps < 50_000;
    let mut found: Vec<_> = blocks.collect();
    if (tight || found.is_empty()) && !found.contains(&(1, 1)) {
        found.push((1, 1));
    }
    found
}

/// Bytes that are read for an element of the factors, of which there are so many in all: fewer than it has in memory where
/// it is converted as it is loaded, or made of what is less.
fn read_size(program: &Program, dtype: DType, elements: u64) -> f64 {
    let inputs = (0..program.tiles() as u32).map(TileId);
    let inputs = inputs.filter(|&tile| program.array_at(program.array_of(tile)).role == Role::Input);
    let read: u64 = inputs.map(|tile| program.cost(tile).load).sum();
    (read as f64 / elements.max(1) as f64).min(dtype.size() as f64)
}

/// How many ways are tried, to find the best: fewer where each is long to plan.
fn candidates(steps: u64) -> usize {
    if steps > 500_000 { 1 } else { 4 }
}

/// The one of several ways that is asked for, or the last.
fn chosen<T: Copy>(ways: &[T], way: usize) -> T {
    ways[way.min(ways.len() - 1)]
}

/// The side of square tiles where nothing else says how to cut: of 2 MiB, larger ones where the budget
/// is large, so that programs stay short; smaller ones where it would hold less than some dozens.
pub fn side(runtime: &Runtime, itemsize: u64) -> u64 {
    let limit = runtime.limit() as u64;
    let bytes = (limit / 128).clamp(2 << 20, 32 << 20).min(limit / 48);
    let side = ((bytes / itemsize) as f64).sqrt() as u64;
    if side >= 64 { side / 64 * 64 } else { side.max(8) / 8 * 8 }
}

/// The shape of a tile with these extents along the axes of a matrix.
fn tile_shape(ndim: usize, axes: Axes, rows: u64, cols: u64) -> Dims {
    let mut tile: Dims = std::iter::repeat_n(1, ndim).collect();
    axes.rows.into_iter().for_each(|x| tile[x] = rows);
    axes.cols.into_iter().for_each(|x| tile[x] = cols);
    tile
}
