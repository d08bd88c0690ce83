//! Linear algebra on arrays that do not fit the budget, against sums written out.

use outcrop_engine::{Runtime, Settings, Unwatched};
use outcrop_ops::boxes::access;
use outcrop_ops::kernels::{Diagonal, Half};
use outcrop_ops::linalg::{Matrix, Planned, Target, Triangle};
use outcrop_ops::linalg::{cholesky, matmul, solve, solve_triangular};
use outcrop_store::io::EngineChoice;
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::{Canvas, Patch, Store};
use outcrop_store::{ArrayBox, DType, Error};
use std::path::Path;
use std::sync::Arc;

fn runtime(memory: usize) -> Arc<Runtime> {
    Runtime::new(Settings { memory, threads: 2, scratch: None, engine: EngineChoice::Auto }).unwrap()
}

fn canvas(region: ArrayBox, values: &mut [f64]) -> Canvas {
    let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 8);
    // SAFETY: the values are a box of this size, which nobody else uses.
    unsafe { Canvas::new(region, 8, [patch]) }
}

fn stored(runtime: &Runtime, path: &Path, shape: &[u64], tile: &[u64], values: &[f64]) -> Arc<dyn Store> {
    let format = NewFormat::Zarr { tile: Some(tile.into()), labels: Default::default() };
    let store = create(runtime.disk(), path, shape, DType::F64, format, false).unwrap();
    let mut values = values.to_vec();
    access::write(runtime, &store, &canvas(ArrayBox::whole(shape), &mut values), &mut |_, _| true).unwrap();
    access::commit(runtime, &store).unwrap();
    drop(store);
    open(runtime.disk(), path, &As::Found, false).unwrap()
}

fn loaded(runtime: &Runtime, store: &Arc<dyn Store>) -> Vec<f64> {
    let shape = store.info().shape.clone();
    let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
    access::read(runtime, store, &canvas(ArrayBox::whole(&shape), &mut values), &mut |_, _| true).unwrap();
    values
}

/// Numbers between -0.5 and 0.5 that look random.
fn numbers(count: usize, mut seed: u64) -> Vec<f64> {
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn positive(n: usize) -> Vec<f64> {
    let b = numbers(n * n, 7);
    let mut a = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            a[i * n + j] =
                (0..n).map(|k| b[i * n + k] * b[j * n + k]).sum::<f64>() + if i == j { 1.0 } else { 0.0 };
        }
    }
    a
}

fn fresh() -> Target {
    Target::New { tile: None, labels: Default::default() }
}

/// Runs the plan, and checks that it moved what it said, inside the budget.
fn run(runtime: &Runtime, planned: &Planned, path: &Path, shape: &[u64]) -> Result<Vec<f64>, Error> {
    let format = NewFormat::Zarr { tile: Some(planned.output_tile().into()), labels: Default::default() };
    let store = create(runtime.disk(), path, shape, DType::F64, format, true).unwrap();
    let report = planned.run(runtime, &store, None, &mut |_, _| true)?;
    assert_eq!(report.bytes_read, planned.plan.bytes_read(), "read");
    assert_eq!(report.bytes_written, planned.plan.bytes_written(), "written");
    assert!(report.peak_bytes <= runtime.budget().limit() as u64);
    assert!(
        report.peak_bytes <= planned.plan.peak_bytes() as u64 + 64,
        "{} {}",
        report.peak_bytes,
        planned.plan.peak_bytes()
    );
    // Its last tiles stay in memory, for whoever still has it; here nobody has.
    runtime.resident().forget(&store, &ArrayBox::whole(shape));
    drop(store);
    let store = open(runtime.disk(), path, &As::Found, false).unwrap();
    Ok(loaded(runtime, &store))
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

#[test]
fn products_of_all_orientations() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(512 << 10);
    let (m, k, n) = (230, 170, 190);
    let (x, y) = (numbers(m * k, 1), numbers(k * n, 2));
    let transposed =
        |v: &[f64], r: usize, c: usize| -> Vec<f64> { (0..r * c).map(|i| v[i % r * c + i / r]).collect() };
    for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
        let name = |s: &str| dir.path().join(format!("{s}{ta}{tb}"));
        let (m64, k64, n64) = (m as u64, k as u64, n as u64);
        let a = if ta {
            stored(&runtime, &name("a"), &[k64, m64], &[40, 40], &transposed(&x, m, k))
        } else {
            stored(&runtime, &name("a"), &[m64, k64], &[40, 40], &x)
        };
        let b = if tb {
            stored(&runtime, &name("b"), &[n64, k64], &[32, 40], &transposed(&y, k, n))
        } else {
            stored(&runtime, &name("b"), &[k64, n64], &[40, 32], &y)
        };
        let (a, b) = (Matrix::whole(&a).unwrap(), Matrix::whole(&b).unwrap());
        let (a, b) = (if ta { a.transposed() } else { a }, if tb { b.transposed() } else { b });
        let speeds = runtime.speeds(Path::new("/tmp/x"), 0);
        let planned = matmul(&runtime, &a, &b, (false, false), &[m64, n64], &fresh(), speeds)
            .unwrap()
            .plan(&runtime, speeds, &mut Unwatched)
            .unwrap();
        let c = run(&runtime, &planned, &name("c"), &[m64, n64]).unwrap();
        for i in (0..m).step_by(7) {
            for j in 0..n {
                near(c[i * n + j], (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum());
            }
        }
    }
    assert_eq!(runtime.budget().used(), runtime.resident_bytes());
}

#[test]
fn both_cholesky_factors() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(640 << 10);
    let n = 333;
    let values = positive(n);
    let a = stored(&runtime, &dir.path().join("a"), &[n as u64; 2], &[32, 32], &values);
    for (half, flipped) in
        [(Half::Lower, false), (Half::Upper, false), (Half::Lower, true), (Half::Upper, true)]
    {
        let mut given = Matrix::whole(&a).unwrap();
        if flipped {
            given = given.transposed();
        }
        let speeds = runtime.speeds(Path::new("/tmp/x"), 0);
        let planned = cholesky(&runtime, &given, half, &fresh(), speeds)
            .unwrap()
            .plan(&runtime, speeds, &mut Unwatched)
            .unwrap();
        let l = run(&runtime, &planned, &dir.path().join("l"), &[n as u64; 2]).unwrap();
        let at = |i: usize, j: usize| if half == Half::Lower { l[i * n + j] } else { l[j * n + i] };
        for i in 0..n {
            for j in 0..n {
                if j > i {
                    assert_eq!(at(i, j), 0.0, "{i} {j}");
                } else if i % 5 == 0 {
                    near((0..=j).map(|k| at(i, k) * at(j, k)).sum(), values[i * n + j]);
                }
            }
        }
    }
}

#[test]
fn the_failing_pivot_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(640 << 10);
    let n = 200;
    let mut values = positive(n);
    values[150 * n + 150] = -1.0;
    let a = stored(&runtime, &dir.path().join("a"), &[n as u64; 2], &[32, 32], &values);
    let speeds = runtime.speeds(Path::new("/tmp/x"), 0);
    let given = Matrix::whole(&a).unwrap();
    let planned = cholesky(&runtime, &given, Half::Lower, &fresh(), speeds)
        .unwrap()
        .plan(&runtime, speeds, &mut Unwatched)
        .unwrap();
    let failed = run(&runtime, &planned, &dir.path().join("l"), &[n as u64; 2]);
    assert!(matches!(failed, Err(Error::Numerical { index: 151, .. })), "{failed:?}");
    assert!(!dir.path().join("l").exists());
    drop((a, given, planned));
    assert_eq!(runtime.budget().used(), runtime.resident_bytes());
}

#[test]
fn systems_are_solved() {
    let dir = tempfile::tempdir().unwrap();
    let n = 300;
    let values = positive(n);
    for (memory, m) in [(1 << 20, 1), (768 << 10, 70), (8 << 20, 5)] {
        let runtime = runtime(memory);
        let a = stored(&runtime, &dir.path().join(format!("a{m}")), &[n as u64; 2], &[32, 32], &values);
        let x = numbers(n * m, 3);
        let b: Vec<f64> =
            (0..n * m).map(|i| (0..n).map(|k| values[i / m * n + k] * x[k * m + i % m]).sum()).collect();
        let shape: Vec<u64> = if m == 1 { vec![n as u64] } else { vec![n as u64, m as u64] };
        let tile: Vec<u64> = if m == 1 { vec![32] } else { vec![32, 32] };
        let b = stored(&runtime, &dir.path().join(format!("b{m}")), &shape, &tile, &b);
        let speeds = runtime.speeds(Path::new("/tmp/x"), 0);
        let (am, bm) = (Matrix::whole(&a).unwrap(), Matrix::whole(&b).unwrap());
        let planned = solve(&runtime, &am, &bm, &shape, &fresh(), speeds)
            .unwrap()
            .plan(&runtime, speeds, &mut Unwatched)
            .unwrap();
        let found = run(&runtime, &planned, &dir.path().join(format!("x{m}")), &shape).unwrap();
        for i in 0..n * m {
            near(found[i], x[i]);
        }
    }
}

#[test]
fn triangular_systems_are_solved() {
    let dir = tempfile::tempdir().unwrap();
    let (n, m) = (260, 90);
    let mut values = numbers(n * n, 5);
    (0..n).for_each(|i| values[i * n + i] = 20.0 + i as f64);
    let runtime = runtime(512 << 10);
    let t = stored(&runtime, &dir.path().join("t"), &[n as u64; 2], &[32, 32], &values);
    let x = numbers(n * m, 3);
    for (half, transposed) in
        [(Half::Lower, false), (Half::Upper, false), (Half::Lower, true), (Half::Upper, true)]
    {
        // The half of the matrix as it is used.
        let at = |i: usize, j: usize| {
            let inside = if half == Half::Lower { j <= i } else { j >= i };
            if !inside {
                0.0
            } else if transposed {
                values[j * n + i]
            } else {
                values[i * n + j]
            }
        };
        let b: Vec<f64> = (0..n * m).map(|i| (0..n).map(|k| at(i / m, k) * x[k * m + i % m]).sum()).collect();
        let shape = [n as u64, m as u64];
        let b = stored(&runtime, &dir.path().join(format!("b{half:?}{transposed}")), &shape, &[32, 32], &b);
        let speeds = runtime.speeds(Path::new("/tmp/x"), 0);
        let tm = Matrix::whole(&t).unwrap();
        let tm = if transposed { tm.transposed() } else { tm };
        let what = Triangle { half, diagonal: Diagonal::Stored, conj: false };
        let bm = Matrix::whole(&b).unwrap();
        let planned = solve_triangular(&runtime, &tm, what, &bm, &shape, &fresh(), speeds)
            .unwrap()
            .plan(&runtime, speeds, &mut Unwatched)
            .unwrap();
        let found = run(&runtime, &planned, &dir.path().join("x"), &shape).unwrap();
        for i in 0..n * m {
            near(found[i], x[i]);
        }
    }
}

#[test]
fn next_use_never_moves_more_than_last_use() {
    use outcrop_engine::schedule::{Policy, best, schedule};
    let dir = tempfile::tempdir().unwrap();
    let n = 320;
    let making = runtime(16 << 20);
    let a = stored(&making, &dir.path().join("a"), &[n; 2], &[16, 16], &positive(n as usize));
    let b = stored(&making, &dir.path().join("b"), &[n, 16], &[16, 16], &numbers(n as usize * 16, 4));
    let (a, b) = (Matrix::whole(&a).unwrap(), Matrix::whole(&b).unwrap());
    for memory in [640 << 10, 1 << 20, 2 << 20] {
        let runtime = runtime(memory);
        let speeds = runtime.speeds(Path::new("/tmp/x"), 0);
        let triangle = Triangle { half: Half::Lower, diagonal: Diagonal::Stored, conj: false };
        let jobs = [
            matmul(&runtime, &a, &a, (false, false), &[n, n], &fresh(), speeds).unwrap(),
            cholesky(&runtime, &a, Half::Lower, &fresh(), speeds).unwrap(),
            solve(&runtime, &a, &b, &[n, 16], &fresh(), speeds).unwrap(),
            solve_triangular(&runtime, &a, triangle, &b, &[n, 16], &fresh(), speeds).unwrap(),
        ];
        for job in jobs {
            let program = job.plan(&runtime, speeds, &mut Unwatched).unwrap().plan.program;
            for frames in [4, 7, 20, 60, 200] {
                let capacity = frames * program.arrays()[0].frame;
                let moved = |s: &outcrop_engine::schedule::Schedule| s.bytes_read() + s.bytes_written();
                let found = moved(&best(&program, capacity, &[], &mut Unwatched).unwrap());
                for policy in [Policy::Lru, Policy::CleanFirstLru] {
                    let other = moved(&schedule(&program, capacity, &[], policy, &mut Unwatched).unwrap());
                    assert!(
                        found <= other,
                        "{} with {frames}: {found} > {other} by {policy:?}",
                        program.name
                    );
                }
            }
        }
    }
}
