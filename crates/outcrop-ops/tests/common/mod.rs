//! Programs of linear algebra on stored arrays, which the tests and an example make.

#![allow(dead_code, reason = "each uses its part")]

use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::plan::{self, Plan};
use outcrop_engine::program::{ArrayId, Program, Role};
use outcrop_engine::{Runtime, Settings, Unwatched};
use outcrop_ops::arrays::{self, New, Target};
use outcrop_ops::boxes::access;
use outcrop_ops::kernels::Half;
use outcrop_ops::linalg::{Axes, Place, Tiles, Way, cholesky, matmul};
use outcrop_store::io::EngineChoice;
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::{Canvas, Patch, Store};
use outcrop_store::{ArrayBox, DType, Dims, Result};
use std::path::Path;
use std::sync::Arc;

pub fn runtime(memory: usize) -> Arc<Runtime> {
    Runtime::new(Settings { memory, threads: 2, scratch: None, engine: EngineChoice::Auto }).unwrap()
}

pub fn canvas(region: ArrayBox, values: &mut [f64]) -> Canvas {
    assert_eq!(values.len() as u64, region.shape.iter().product::<u64>());
    let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 8);
    // SAFETY: the values are a box of this size, which nobody else uses.
    unsafe { Canvas::new(region, 8, [patch]) }
}

/// An array on disk.
pub fn stored(runtime: &Runtime, path: &Path, shape: &[u64], tile: &[u64], values: &[f64]) -> Arc<dyn Store> {
    let format =
        NewFormat::Zarr { tile: Some(tile.into()), encoding: Default::default(), labels: Default::default() };
    let store = create(runtime.disk(), path, shape, DType::F64, format, false).unwrap();
    let mut values = values.to_vec();
    access::write(runtime, &store, &canvas(ArrayBox::whole(shape), &mut values), &mut |_, _| true).unwrap();
    access::commit(runtime, &store).unwrap();
    drop(store);
    open(runtime.disk(), path, &As::Found, false).unwrap()
}

/// Numbers between -0.5 and 0.5 that look random.
pub fn numbers(count: usize, mut seed: u64) -> Vec<f64> {
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// Of a matrix, or a column.
fn axes_of(shape: &[u64]) -> Axes {
    if shape.len() == 1 { Axes::COLUMN } else { Axes::MATRIX }
}

/// A stored matrix, or column, as an operation takes it.
#[derive(Clone)]
pub struct Given {
    store: Arc<dyn Store>,
    axes: Axes,
    tile: Dims,
}

impl Given {
    /// In the tiles that it has on disk.
    pub fn new(store: &Arc<dyn Store>) -> Given {
        let info = store.info();
        Given { store: Arc::clone(store), axes: axes_of(&info.shape), tile: info.tile.clone() }
    }

    /// In other tiles, along the axes of the array.
    pub fn cut(self, tile: &[u64]) -> Given {
        Given { tile: tile.into(), ..self }
    }

    pub fn transposed(self) -> Given {
        Given { axes: self.axes.transposed(), ..self }
    }

    /// Rows and columns, of extents along the axes of the array.
    fn along(&self, extents: &[u64]) -> (u64, u64) {
        let of = |axis: Option<usize>| axis.map_or(1, |a| extents[a]);
        (of(self.axes.rows), of(self.axes.cols))
    }

    fn shape(&self) -> (u64, u64) {
        self.along(&self.store.info().shape)
    }

    fn tile(&self) -> (u64, u64) {
        self.along(&self.tile)
    }
}

/// A program being made.
pub struct Draft<'a> {
    runtime: &'a Runtime,
    pub program: Program,
    stores: Vec<Option<Arc<dyn Store>>>,
    speeds: Speeds,
    way: usize,
    /// The most ways that an operation has.
    ways: usize,
}

impl Draft<'_> {
    /// Declares what is stored.
    pub fn declare(&mut self, name: &str, given: &Given) -> Result<ArrayId> {
        let region = ArrayBox::whole(&given.store.info().shape);
        let overlap = Dims::from_elem(0, region.ndim());
        let store = &given.store;
        let id = arrays::input(&mut self.program, name, store, &region, &given.tile, &overlap, 0)?;
        self.stores.resize(id.0.into(), None);
        self.stores.push(Some(Arc::clone(store)));
        Ok(id)
    }

    /// As [`Draft::declare`], as the matrix that is meant.
    pub fn input(&mut self, name: &str, given: &Given) -> Result<Tiles> {
        Ok(Tiles::new(self.declare(name, given)?, given.axes))
    }

    /// Declares what is computed and stored, a matrix or a column.
    pub fn output(
        &mut self,
        name: &str,
        shape: &[u64],
        tile: &[u64],
        initial: Option<ArrayId>,
    ) -> Result<Tiles> {
        let target = Target::New { tile: None, labels: Default::default() };
        let new = New { name, dtype: DType::F64, shape, tile, initial };
        Ok(Tiles::new(new.output(&mut self.program, &target)?, axes_of(shape)))
    }

    /// Declares a matrix that is computed and not stored.
    pub fn temporary(&mut self, name: &str, shape: [u64; 2], tile: [u64; 2]) -> Result<Tiles> {
        let new = New { name, dtype: DType::F64, shape: &shape, tile: &tile, initial: None };
        Ok(Tiles::new(new.temporary(&mut self.program)?, Axes::MATRIX))
    }

    /// Adds an operation, on arrays that are declared.
    pub fn add(&mut self, operation: impl FnOnce(Place<'_>) -> Result<Way>) -> Result<()> {
        let Draft { runtime, program, speeds, way, .. } = self;
        let Way { remark, count, lower_bound, .. } =
            operation(Place { runtime, program, speeds: *speeds, way: *way, makers: &() })?;
        self.program.remark = remark;
        self.program.lower_bound = Some(lower_bound);
        self.ways = self.ways.max(count);
        Ok(())
    }

    /// The product of stored matrices, stored.
    pub fn product(&mut self, a: &Given, b: &Given) -> Result<()> {
        let (shape, tile) = ([a.shape().0, b.shape().1], [a.tile().0, b.tile().1]);
        let (a, b) = (self.input("A", a)?, self.input("B", b)?);
        let c = self.output("C", &shape, &tile, None)?;
        self.add(|place| matmul(place, (c, a, b), (false, false)))
    }

    /// The factor of a stored matrix, stored.
    pub fn factor(&mut self, a: &Given, half: Half, whole: bool) -> Result<()> {
        let given = self.declare("A", a)?;
        let shape = &a.store.info().shape;
        // What lies otherwise is copied.
        let initial = (a.axes == Axes::MATRIX).then_some(given);
        let l = self.output("L", shape, &a.tile, initial)?;
        self.add(|place| cholesky(place, (l, Tiles::new(given, a.axes)), half, whole))
    }

    /// What `operation` makes of a stored matrix and right-hand sides, stored.
    pub fn system(
        &mut self,
        a: &Given,
        b: &Given,
        operation: impl FnOnce(Place<'_>, (Tiles, Tiles, Tiles)) -> Result<Way>,
    ) -> Result<()> {
        let (a, given) = (self.input("A", a)?, self.declare("B", b)?);
        let (shape, tile) = (b.shape(), b.tile());
        let x = if b.axes == Axes::COLUMN {
            self.output("X", &[shape.0], &[tile.0], Some(given))?
        } else {
            let initial = (b.axes == Axes::MATRIX).then_some(given);
            self.output("X", &[shape.0, shape.1], &[tile.0, tile.1], initial)?
        };
        self.add(|place| operation(place, (x, a, Tiles::new(given, b.axes))))
    }
}

/// The programs for what `make` adds, one for each way through the tiles.
pub fn programs<'a>(
    runtime: &'a Runtime,
    name: &'static str,
    make: impl Fn(&mut Draft<'a>) -> Result<()>,
) -> Result<Vec<Draft<'a>>> {
    let speeds = runtime.speeds(&std::env::temp_dir(), 0);
    let mut found: Vec<Draft<'a>> = Vec::new();
    while found.last().is_none_or(|last| found.len() < last.ways) {
        let (program, way) = (Program::new(name), found.len());
        let mut draft = Draft { runtime, program, stores: Vec::new(), speeds, way, ways: 1 };
        make(&mut draft)?;
        // Operations declare arrays of their own.
        draft.stores.resize(draft.program.arrays().len(), None);
        found.push(draft);
    }
    Ok(found)
}

/// A plan, with the stores of its arrays.
pub struct Planned {
    pub plan: Plan,
    pub stores: Vec<Option<Arc<dyn Store>>>,
    /// The result's number among them.
    pub output: ArrayId,
}

/// The best of several programs that do the same.
pub fn best(runtime: &Runtime, drafts: Vec<Draft<'_>>) -> Result<Planned> {
    let mut found: Option<(Plan, Vec<_>)> = None;
    for Draft { program, stores, speeds, .. } in drafts {
        let plan = plan::plan(runtime, program, &stores, speeds, true, &mut Unwatched)?;
        if found.as_ref().is_none_or(|(best, _)| plan.is_better_than(best)) {
            found = Some((plan, stores));
        }
    }
    let (plan, stores) = found.expect("a program");
    let output = plan.program.arrays().iter().position(|a| a.role == Role::Output).expect("a result");
    Ok(Planned { plan, stores, output: ArrayId(output as u16) })
}

/// The best program for what `make` adds.
pub fn planned<'a>(
    runtime: &'a Runtime,
    name: &'static str,
    make: impl Fn(&mut Draft<'a>) -> Result<()>,
) -> Result<Planned> {
    best(runtime, programs(runtime, name, make)?)
}
