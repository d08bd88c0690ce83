//! What three programs move by each policy of eviction. Prints a table.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Given, planned, runtime, stored};
use outcrop_engine::Unwatched;
use outcrop_engine::schedule::{self, Policy};
use outcrop_ops::kernels::Half;
use outcrop_ops::linalg::solve;
use outcrop_store::Result;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let runtime = runtime(5 << 20);
    // Tiles of 32 x 32 stand for any: all that counts is how many there are, and how many fit.
    let zeros = |name: &str, shape: [u64; 2]| {
        let values = vec![0.0; (shape[0] * shape[1]) as usize];
        Given::new(&stored(&runtime, &dir.path().join(name), &shape, &[32, 32], &values))
    };
    let (a, b) = (zeros("a", [1280, 1280]), zeros("b", [1280, 32]));
    let all = [
        planned(&runtime, "matmul", |draft| draft.product(&a, &a))?,
        planned(&runtime, "cholesky", |draft| draft.factor(&a, Half::Lower, false))?,
        planned(&runtime, "solve", |draft| draft.system(&a, &b, solve))?,
    ];
    println!("MiB read + written, the best program for each, 40 x 40 tiles");
    println!("{:24} {:>14} {:>14} {:>14} {:>14}", "", "next use", "clean first", "LRU, clean 1st", "LRU");
    for planned in all {
        let plan = planned.plan;
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
