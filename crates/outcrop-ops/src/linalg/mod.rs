//! Linear algebra on arrays that do not fit in memory: programs, and how they are planned and run.
//!
//! - [`matrix`]: matrices as boxes of stored arrays.
//! - [`matmul`], [`cholesky`], [`triangular`], [`solve`]: the programs.
//! - `steps`: the kernels they are made of.

mod cholesky;
mod matmul;
pub mod matrix;
mod rates;
mod solve;
pub(crate) mod steps;
mod triangular;

pub use crate::arrays::Target;
pub use cholesky::cholesky;
pub use matmul::matmul;
pub use matrix::{Axes, Matrix};
use outcrop_engine::execute::Timeline;
use outcrop_engine::plan::{self, Plan};
use outcrop_engine::program::{ArrayId, Role};
use outcrop_engine::schedule::Action;
use outcrop_engine::speeds::Speeds;
use outcrop_engine::{Report, Runtime, Watch};
use outcrop_store::format::zarr::Labels;
use outcrop_store::layout::Layout;
use outcrop_store::store::sketch::Sketch;
use outcrop_store::store::{Info, Store};
use outcrop_store::{ArrayBox, Dims, Error, Failure, Result};
pub use solve::solve;
use std::path::Path;
use std::sync::Arc;
use steps::Builder;
pub use triangular::{Triangle, solve_triangular};

/// A job with the programs that do it.
pub struct Job {
    /// By array of every program, the matrix it is.
    inputs: Vec<Option<Matrix>>,
    candidates: Vec<Builder>,
    /// Of a triangular system, the matrix, and the side of its tiles.
    triangle: Option<(Matrix, u64)>,
}

/// A job whose best program has been found.
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    stores: Vec<Option<Arc<dyn Store>>>,
    output: ArrayId,
    triangle: Option<(Matrix, u64)>,
}

impl Job {
    fn new(inputs: Vec<Option<Matrix>>) -> Job {
        Job { inputs, candidates: Vec::new(), triangle: None }
    }

    fn offer(&mut self, builder: Builder) {
        self.candidates.push(builder);
    }

    /// Chooses the program that is predicted to be fastest.
    ///
    /// # Errors
    /// [`outcrop_store::Error::Budget`] naming the least budget; those of the stores.
    pub fn plan(self, runtime: &Runtime, speeds: Speeds, watch: &mut dyn Watch) -> Result<Planned> {
        let stores: Vec<_> = self.inputs.iter().map(|m| m.as_ref().map(|m| Arc::clone(&m.store))).collect();
        let programs = self.candidates.into_iter().map(|b| (b.program, &stores[..])).collect();
        let (_, plan) = plan::choose(runtime, programs, speeds, watch)?;
        let arrays = plan.program.arrays();
        let output = arrays.iter().position(|a| a.role == Role::Output).expect("a job has a result");
        Ok(Planned { plan, stores, output: ArrayId(output as u16), triangle: self.triangle })
    }
}

impl Planned {
    /// The shape of the result's tiles.
    pub fn output_tile(&self) -> &[u64] {
        &self.plan.program.array_at(self.output).grid.tile
    }

    /// The result as a Zarr array at a path, of which nothing is made: what moving it will take, once it is there.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there can be no such array.
    pub fn sketch(&self, path: &Path) -> Result<Sketch> {
        let (program, array) = (&self.plan.program, self.plan.program.array_at(self.output));
        let stored = self.plan.schedule.actions().filter_map(|action| match action {
            Action::Store(tile) if program.array_of(tile) == self.output => Some(program.region(tile)),
            _ => None,
        });
        let number = |tile: ArrayBox| {
            let coords: Dims = tile.start.iter().zip(&array.grid.tile).map(|(s, t)| s / t).collect();
            array.grid.linear_index(&coords)
        };
        let numbers = stored.map(number).collect();
        let info = Info {
            path: path.into(),
            shape: array.shape(),
            dtype: array.dtype,
            tile: array.grid.tile.clone(),
            layout: Layout::Tiled,
            format: "zarr",
            codecs: String::new(),
            attributes: "{}".into(),
            writable: false,
        };
        Ok(Sketch::tiled(info, &Labels::default())?.of_some(numbers))
    }

    /// Computes the result into `output`, and commits that.
    ///
    /// # Errors
    /// Those of the stores; [`outcrop_store::Error::Numerical`]; [`outcrop_store::Error::Interrupted`]
    /// where the watch says so. The output is aborted.
    pub fn run(
        &self,
        runtime: &Runtime,
        output: &Arc<dyn Store>,
        timeline: Option<&Timeline>,
        watch: &mut dyn Watch,
    ) -> Result<Report> {
        let mut stores = self.stores.clone();
        stores.resize(self.plan.program.arrays().len(), None);
        stores[self.output.0 as usize] = Some(Arc::clone(output));
        let done = self.plan.run(runtime, &stores, &(), true, timeline, watch);
        if let (Err(Error::Numerical { failure: Failure::Singular, .. }), Some((t, side))) =
            (&done, &self.triangle)
            && let Some(index) = triangular::first_zero(runtime, t, *side)?
        {
            return Err(steps::singular(index));
        }
        done
    }
}

/// The axes of a result of this shape: of one axis, it is a column if the left factor has rows.
fn result_axes(shape: &[u64], has_rows: bool) -> Axes {
    match (shape.len(), has_rows) {
        (0, _) => Axes::default(),
        (1, true) => Axes::COLUMN,
        (1, false) => Axes::COLUMN.transposed(),
        _ => Axes::MATRIX,
    }
}

/// An extent of tiles near `wanted` that consists of whole tiles of `own`, where the result has its own.
fn aligned(wanted: u64, own: Option<u64>, extent: u64) -> u64 {
    let extent = extent.max(1);
    match own {
        Some(own) if wanted <= own => own,
        // The whole extent consists of whole tiles, too.
        Some(own) => (wanted.div_ceil(own) * own).min(extent.max(own)),
        None => wanted.clamp(1, extent),
    }
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

/// How many programs are made for a job, to find the best: fewer where each is long, since they stand in
/// memory together until one is chosen.
fn candidates(steps: u64) -> usize {
    if steps > 500_000 { 1 } else { 4 }
}

/// The side of square tiles where nothing else says how to cut: of 2 MiB, larger ones where the budget
/// is large, so that programs stay short; smaller ones where it would hold less than some dozens.
fn side(runtime: &Runtime, itemsize: u64) -> u64 {
    let limit = runtime.limit() as u64;
    let bytes = (limit / 128).clamp(2 << 20, 32 << 20).min(limit / 48);
    let side = ((bytes / itemsize) as f64).sqrt() as u64;
    if side >= 64 { side / 64 * 64 } else { side.max(8) / 8 * 8 }
}

/// The shape of a tile with these extents along the axes of a matrix, and 1 along others.
fn tile_shape(ndim: usize, axes: Axes, rows: u64, cols: u64) -> Dims {
    let mut tile: Dims = std::iter::repeat_n(1, ndim).collect();
    axes.rows.into_iter().for_each(|x| tile[x] = rows);
    axes.cols.into_iter().for_each(|x| tile[x] = cols);
    tile
}
