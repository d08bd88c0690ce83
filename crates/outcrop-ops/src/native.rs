//! Kernels that were compiled elsewhere: C functions, such as Numba makes, called without the interpreter.

use outcrop_engine::program::{Kernel, Running};
use outcrop_store::shape::row_major_strides;
use outcrop_store::{Error, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::ffi::c_int;

/// A compiled kernel. It is given
///
/// 1. where the first element of each tile is, a pointer each;
/// 2. of each tile, of each of its axes: the index of the first element in its array, how many there are, and bytes from
///    one to the next;
/// 3. the step's arguments;
/// 4. the workspace of its thread, and 5. how many bytes that has;
/// 6. a byte that becomes 1 when the run is to stop, where it may look now and then.
///
/// It returns 0 where all is well, [`STOPPED`] where it was to stop, and other numbers for what has gone wrong.
pub type Function = unsafe extern "C" fn(
    starts: *const *mut u8,
    axes: *const i64,
    arguments: *const u64,
    workspace: *mut u8,
    bytes: u64,
    stop: *const bool,
) -> c_int;

/// What a function returns that has stopped because it was to.
pub const STOPPED: c_int = -1;

/// A kernel that is a compiled function.
pub struct NativeKernel {
    name: String,
    function: Function,
    /// Which argument has the number of the round in its upper half.
    round_at: Option<usize>,
    /// What has to live as long as the function may be called.
    _kept: Box<dyn Any + Send + Sync>,
}

impl NativeKernel {
    /// The kernel of a function, and what has to live as long as it; the name is for people. Where its steps come in
    /// rounds, the upper half of one of their arguments, `round_at`, says in which.
    ///
    /// # Safety
    /// As long as `kept` lives, the function may be called from all threads at once. With the tiles and arguments of the
    /// steps that it is given it touches nothing but elements of these tiles, writes those only that its steps write, and
    /// stays inside the workspace.
    pub unsafe fn new(
        name: &str,
        function: Function,
        round_at: Option<usize>,
        kept: Box<dyn Any + Send + Sync>,
    ) -> NativeKernel {
        NativeKernel { name: name.into(), function, round_at, _kept: kept }
    }
}

impl Kernel for NativeKernel {
    // SAFETY: what the caller promises is what the maker of the kernel has been promised.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let starts: SmallVec<[*mut u8; 8]> = step.tiles.iter().map(|tile| tile.start).collect();
        let mut axes: SmallVec<[i64; 64]> = SmallVec::new();
        for tile in step.tiles {
            let (region, array) = (tile.region(), tile.array());
            let apart = row_major_strides(array.tile_shape());
            for (axis, stride) in apart.iter().enumerate() {
                let bytes = *stride as i64 * array.dtype.size() as i64;
                axes.extend([region.start[axis] as i64, region.shape[axis] as i64, bytes]);
            }
        }
        // SAFETY: as whoever has made the kernel vouches.
        let ended = unsafe {
            (self.function)(
                starts.as_ptr(),
                axes.as_ptr(),
                step.arguments.as_ptr(),
                step.workspace.as_mut_ptr(),
                step.workspace.len() as u64,
                step.cancel.as_ptr(),
            )
        };
        match ended {
            0 => Ok(()),
            STOPPED => Err(Error::Interrupted),
            code => Err(Error::invalid(format!("{}: failed, and says {code}", self.name))),
        }
    }

    fn round(&self, arguments: &[u64]) -> Option<u64> {
        Some(arguments.get(self.round_at?)? >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::{New, Target, input};
    use crate::linalg::{Axes, Place, Tiles, matmul};
    use outcrop_engine::program::{Operand, Program};
    use outcrop_engine::{Runtime, Settings, Unwatched, plan};
    use outcrop_store::frame::Frame;
    use outcrop_store::io::EngineChoice;
    use outcrop_store::store::{Store, memory::MemoryArray};
    use outcrop_store::{ArrayBox, DType};
    use std::path::Path;
    use std::sync::Arc;

    const N: u64 = 40;
    const TILE: u64 = 16;

    /// `out = factor * x + row + 1000 column`, of a tile each; fails where it is told a factor of 0.
    unsafe extern "C" fn weigh(
        starts: *const *mut u8,
        axes: *const i64,
        arguments: *const u64,
        workspace: *mut u8,
        bytes: u64,
        stop: *const bool,
    ) -> c_int {
        // SAFETY: two tiles of two axes each, and one argument, as the test declares.
        unsafe {
            if *stop {
                return STOPPED;
            }
            if *arguments == 0 {
                return 7;
            }
            std::slice::from_raw_parts_mut(workspace, bytes as usize).fill(1);
            let axis = |tile: usize, axis: usize| &*axes.add(6 * tile + 3 * axis).cast::<[i64; 3]>();
            for i in 0..axis(0, 0)[1] {
                for j in 0..axis(0, 1)[1] {
                    let at = |tile: usize| {
                        let offset = i * axis(tile, 0)[2] + j * axis(tile, 1)[2];
                        (*starts.add(tile)).offset(offset as isize).cast::<f64>()
                    };
                    let (row, col) = (axis(0, 0)[0] + i, axis(0, 1)[0] + j);
                    *at(0) = *arguments as f64 * *at(1) + row as f64 + 1000.0 * col as f64;
                }
            }
        }
        0
    }

    fn in_memory(runtime: &Runtime) -> (Arc<Frame>, Arc<dyn Store>) {
        let frame = Arc::new(runtime.frame((N * N * 8) as usize, "a test").unwrap());
        let store = MemoryArray::new(&[N, N], DType::F64, Arc::clone(&frame));
        (frame, Arc::new(store))
    }

    /// Runs a product, and what weighs it by this factor, as one program.
    fn run(factor: u64) -> Result<Vec<f64>> {
        let settings = Settings { memory: 8 << 20, threads: 2, scratch: None, engine: EngineChoice::Auto };
        let runtime = Runtime::new(settings)?;
        let ((values, a), (made, x)) = (in_memory(&runtime), in_memory(&runtime));
        for i in 0..(N * N) as usize {
            // SAFETY: inside the frame, which nobody else has.
            unsafe { *values.as_ptr().cast::<f64>().add(i) = (i % 7) as f64 };
        }
        let speeds = runtime.speeds(Path::new("memory"), 0);
        let (shape, tile) = ([N, N], [TILE, TILE]);
        let new = |name| New { name, dtype: DType::F64, shape: &shape, tile: &tile, initial: None };
        let mut program = Program::new("mixed");
        // SAFETY: the function does what it says.
        let kernel = unsafe { NativeKernel::new("weigh", weigh, None, Box::new(())) };
        let weigh = program.kernel("weigh", 1e9, Arc::new(kernel));
        let given = input(&mut program, "A", &a, &ArrayBox::whole(&shape), &tile, &[0, 0], 0)?;
        let product = new("T").temporary(&mut program)?;
        let result = new("X").output(&mut program, &Target::Store(Arc::clone(&x)))?;
        let [t, a_by_tiles] = [product, given].map(|array| Tiles::new(array, Axes::MATRIX));
        let place = Place { runtime: &runtime, program: &mut program, speeds, way: 0, makers: &() };
        matmul(place, (t, a_by_tiles, a_by_tiles), (false, false))?;
        let count = N.div_ceil(TILE);
        for (i, j) in (0..count).flat_map(|i| (0..count).map(move |j| (i, j))) {
            let operands =
                [Operand::write(program.at(result, i, j)), Operand::read(program.at(product, i, j))];
            program.step(weigh, &operands, &[factor], 1.0);
        }
        let stores = [Some(a), None, Some(x)];
        let planned = plan::plan(&runtime, program, &stores, speeds, true, &mut Unwatched)?;
        let report = planned.run(&runtime, &stores, &(), true, None, &mut |_, _| true)?;
        let names: Vec<&str> = report.kernels.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["weigh", "gemm"]);
        // SAFETY: inside the frame, which nobody writes any more.
        Ok((0..(N * N) as usize).map(|i| unsafe { *made.as_ptr().cast::<f64>().add(i) }).collect())
    }

    #[test]
    fn compiled_functions_and_products_are_steps_of_one_program() {
        let found = run(3).unwrap();
        let a = |i: u64, j: u64| ((i * N + j) % 7) as f64;
        for (i, j) in (0..N).flat_map(|i| (0..N).map(move |j| (i, j))) {
            let product: f64 = (0..N).map(|k| a(i, k) * a(k, j)).sum();
            assert_eq!(found[(i * N + j) as usize], 3.0 * product + i as f64 + 1000.0 * j as f64);
        }
    }

    #[test]
    fn what_goes_wrong_in_a_compiled_function_is_an_error() {
        let error = run(0).unwrap_err();
        assert!(matches!(&error, Error::Invalid { .. }), "{error}");
        assert!(error.to_string().contains("weigh: failed, and says 7"), "{error}");
    }
}
