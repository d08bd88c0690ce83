//! What three programs move by each policy of eviction. Prints a table.

use outcrop_engine::schedule::{self, Policy};
use outcrop_engine::{Runtime, Settings, Unwatched};
use outcrop_ops::kernels::Half;
use outcrop_ops::linalg::{Matrix, Target, cholesky, matmul, solve};
use outcrop_store::io::{Cancel, EngineChoice};
use outcrop_store::store::open::{NewFormat, create};
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, DType, Result};
use std::path::Path;
use std::sync::Arc;

/// A matrix of zeros on disk.
fn zeros(runtime: &Runtime, path: &Path, shape: &[u64], tile: &[u64]) -> Result<Arc<dyn Store>> {
    let format = NewFormat::Zarr { tile: Some(tile.into()), labels: Default::default() };
    let store = create(runtime.disk(), path, shape, DType::F64, format, true)?;
    let mut mover = Mover::new(runtime.disk(), runtime.budget(), 1 << 16, &Cancel::default())?;
    let mut values = vec![0f64; shape.iter().product::<u64>() as usize];
    let whole = ArrayBox::whole(shape);
    let patch = Patch::dense(whole.clone(), values.as_mut_ptr().cast(), 0, 8);
    // SAFETY: the values are as many as the box has.
    store.store(&mut mover, &unsafe { Canvas::new(whole, 8, [patch]) })?;
    store.commit(&mut mover)?;
    Ok(store)
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let settings = Settings { memory: 5 << 20, threads: 2, scratch: None, engine: EngineChoice::Auto };
    let runtime = Runtime::new(settings)?;
    // Tiles of 32 x 32 stand for any: all that counts is how many there are, and how many fit.
    let a = Matrix::whole(&zeros(&runtime, &dir.path().join("a"), &[1280, 1280], &[32, 32])?)?;
    let b = Matrix::whole(&zeros(&runtime, &dir.path().join("b"), &[1280, 32], &[32, 32])?)?;
    let speeds = runtime.speeds(dir.path(), 0);
    let free = Target::New { tile: None, labels: Default::default() };
    let jobs = [
        matmul(&runtime, &a, &a, (false, false), &[1280, 1280], &free, speeds)?,
        cholesky(&runtime, &a, Half::Lower, &free, speeds)?,
        solve(&runtime, &a, &b, &[1280, 32], &free, speeds)?,
    ];
    println!("MiB read + written, the best program of each job, 40 x 40 tiles");
    println!("{:24} {:>14} {:>14} {:>14} {:>14}", "", "next use", "clean first", "LRU, clean 1st", "LRU");
    for job in jobs {
        let plan = job.plan(&runtime, speeds, &mut Unwatched)?.plan;
        let capacity = plan.schedule.peak;
        let moved = |policy| -> Result<String> {
            let found = schedule::schedule(&plan.program, capacity, &[], policy, &mut Unwatched)?;
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            Ok(format!("{:.1} + {:.1}", mib(found.bytes_read()), mib(found.bytes_written())))
        };
        println!(
            "{:24} {:>14} {:>14} {:>14} {:>14}",
            format!("{}, {} in memory", plan.program.name, capacity / plan.program.arrays()[0].frame),
            moved(Policy::NextUse { store: 1.0 })?,
            moved(Policy::CleanFirst)?,
            moved(Policy::CleanFirstLru)?,
            moved(Policy::Lru)?,
        );
    }
    Ok(())
}
