//! Linear algebra on arrays that do not fit the budget, against sums written out.

mod common;

use common::{Draft, Given, Planned, best, canvas, numbers, planned, programs, runtime, stored};
use outcrop_engine::{Runtime, Unwatched};
use outcrop_ops::boxes::access;
use outcrop_ops::kernels::{Diagonal, Half};
use outcrop_ops::linalg::{Axes, Tiles, Triangle};
use outcrop_ops::linalg::{cholesky, matmul, solve, solve_triangular};
use outcrop_store::store::Store;
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::{ArrayBox, DType, Error, Result};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

fn loaded(runtime: &Runtime, store: &Arc<dyn Store>) -> Vec<f64> {
    let shape = store.info().shape.clone();
    let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
    access::read(runtime, store, &canvas(ArrayBox::whole(&shape), &mut values), &mut |_, _| true).unwrap();
    values
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

/// Runs the plan, and checks that it moved what it said, inside the budget.
fn run(runtime: &Runtime, planned: &Planned, path: &Path) -> Result<Vec<f64>> {
    let Planned { plan, stores, output } = planned;
    let array = plan.program.array_at(*output);
    let (shape, tile) = (array.shape(), array.grid.tile.clone());
    let format =
        NewFormat::Zarr { tile: Some(tile), encoding: Default::default(), labels: Default::default() };
    let store = create(runtime.disk(), path, &shape, DType::F64, format, true).unwrap();
    let mut stores = stores.clone();
    stores[output.0 as usize] = Some(Arc::clone(&store));
    let report = plan.run(runtime, &stores, &(), true, None, &mut |_, _| true)?;
    assert_eq!(report.bytes_read, plan.bytes_read(), "read");
    assert_eq!(report.bytes_written, plan.bytes_written(), "written");
    assert!(report.peak_bytes <= runtime.budget().limit() as u64);
    assert!(
        report.peak_bytes <= plan.peak_bytes() as u64 + 64,
        "{} {}",
        report.peak_bytes,
        plan.peak_bytes()
    );
    // Its last tiles stay in memory, for whoever still has it; here nobody has.
    runtime.resident().forget(&store, &ArrayBox::whole(&shape));
    drop((store, stores));
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
        let (a, b) = (Given::new(&a), Given::new(&b));
        let (a, b) = (if ta { a.transposed() } else { a }, if tb { b.transposed() } else { b });
        let planned = planned(&runtime, "matmul", |draft| draft.product(&a, &b)).unwrap();
        let c = run(&runtime, &planned, &name("c")).unwrap();
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
        let given = Given::new(&a);
        let given = if flipped { given.transposed() } else { given };
        let planned = planned(&runtime, "cholesky", |draft| draft.factor(&given, half, false)).unwrap();
        let l = run(&runtime, &planned, &dir.path().join("l")).unwrap();
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
    let given = Given::new(&a);
    let planned = planned(&runtime, "cholesky", |draft| draft.factor(&given, Half::Lower, false)).unwrap();
    let failed = run(&runtime, &planned, &dir.path().join("l"));
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
        let (a, b) = (Given::new(&a), Given::new(&b));
        let planned = planned(&runtime, "solve", |draft| draft.system(&a, &b, solve)).unwrap();
        let found = run(&runtime, &planned, &dir.path().join(format!("x{m}"))).unwrap();
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
        let (t, b) = (Given::new(&t), Given::new(&b));
        let t = if transposed { t.transposed() } else { t };
        let what = Triangle { half, diagonal: Diagonal::Stored, conj: false };
        let planned = planned(&runtime, "solve_triangular", |draft| {
            draft.system(&t, &b, |place, three| solve_triangular(place, three, what))
        });
        let found = run(&runtime, &planned.unwrap(), &dir.path().join("x")).unwrap();
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
    let (a, b) = (Given::new(&a), Given::new(&b));
    let triangle = Triangle { half: Half::Lower, diagonal: Diagonal::Stored, conj: false };
    for memory in [640 << 10, 1 << 20, 2 << 20] {
        let runtime = runtime(memory);
        let all = [
            planned(&runtime, "matmul", |draft| draft.product(&a, &a)),
            planned(&runtime, "cholesky", |draft| draft.factor(&a, Half::Lower, false)),
            planned(&runtime, "solve", |draft| draft.system(&a, &b, solve)),
            planned(&runtime, "solve_triangular", |draft| {
                draft.system(&a, &b, |place, three| solve_triangular(place, three, triangle))
            }),
        ];
        for planned in all {
            let program = planned.unwrap().plan.program;
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

/// What each way through the tiles gives, and the plan of each. Those that do not fit the budget say so.
fn by_all_ways<'a>(
    runtime: &'a Runtime,
    path: &Path,
    make: impl Fn(&mut Draft<'a>) -> Result<()>,
) -> Vec<(Planned, Vec<f64>)> {
    let mut found = Vec::new();
    for draft in programs(runtime, "a way", make).unwrap() {
        // Planned when it is its turn: of what was read before, some is still in memory.
        match best(runtime, vec![draft]) {
            Err(Error::Budget { needed, budget, .. }) => assert!(needed > budget, "{needed} {budget}"),
            planned => {
                let planned = planned.unwrap();
                let values = run(runtime, &planned, path).unwrap();
                found.push((planned, values));
            }
        }
    }
    found
}

/// All the same to the last bit, and near to what is expected.
fn check(found: &[(Planned, Vec<f64>)], expected: &[f64]) {
    let (_, first) = found.first().expect("a way that fits the budget");
    assert_eq!(first.len(), expected.len());
    first.iter().zip(expected).for_each(|(a, b)| near(*a, *b));
    for (planned, values) in found {
        assert_eq!(values, first, "{}", planned.plan.program.remark);
    }
}

/// The sums of a product, `m` x `k` with `k` x `n`.
fn multiplied(x: &[f64], y: &[f64], (m, k, n): (usize, usize, usize)) -> Vec<f64> {
    let sum = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum();
    (0..m * n).map(|at| sum(at / n, at % n)).collect()
}

/// The matrix with its rows as columns.
fn turned(x: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols).map(|at| x[at % rows * cols + at / rows]).collect()
}

/// The lower factor, element by element.
fn lower_factor(a: &[f64], n: usize) -> Vec<f64> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let rest = a[i * n + j] - (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum::<f64>();
            l[i * n + j] = if i == j { rest.sqrt() } else { rest / l[j * n + j] };
        }
    }
    l
}

#[test]
fn a_factor_of_a_product_is_multiplied_in_one_program() {
    let dir = tempfile::tempdir().unwrap();
    let (n, depth, m) = (200, 230, 90);
    let (n64, m64) = (n as u64, m as u64);
    let (x, y) = (numbers(n * depth, 1), numbers(n * m, 2));
    let l = lower_factor(&multiplied(&x, &turned(&x, n, depth), (n, depth, n)), n);
    let expected = multiplied(&l, &y, (n, n, m));
    for (memory, fits) in [(512 << 10, false), (8 << 20, true)] {
        let runtime = runtime(memory);
        let path = |name: &str| dir.path().join(format!("{name}{memory}"));
        let x = Given::new(&stored(&runtime, &path("x"), &[n64, depth as u64], &[32, 40], &x));
        let y = Given::new(&stored(&runtime, &path("y"), &[n64, m64], &[32, 24], &y));
        let found = by_all_ways(&runtime, &path("c"), |draft| {
            let (x, y) = (draft.declare("X", &x)?, draft.input("Y", &y)?);
            let square = draft.temporary("X X^T", [n64; 2], [32; 2])?;
            let l = draft.temporary("L", [n64; 2], [32; 2])?;
            let c = draft.output("C", &[n64, m64], &[32, 24], None)?;
            let (x, turned) = (Tiles::new(x, Axes::MATRIX), Tiles::new(x, Axes::MATRIX.transposed()));
            draft.add(|place| matmul(place, (square, x, turned), (false, false)))?;
            // The product takes all of its tiles.
            draft.add(|place| cholesky(place, (l, square), Half::Lower, true))?;
            draft.add(|place| matmul(place, (c, l, y), (false, false)))
        });
        assert!(found.len() > 1);
        check(&found, &expected);
        for (planned, _) in &found {
            // Where memory holds them, what is between the operations goes nowhere.
            assert_eq!(planned.plan.schedule.scratch == 0, fits, "{}", planned.plan.program.remark);
        }
    }
}

/// A matrix or column on disk, in tiles of its own: as it is or transposed, taken in tiles of `tile`.
fn given(
    runtime: &Runtime,
    path: &Path,
    values: &[f64],
    (shape, tile): ((usize, usize), (u64, u64)),
    Lie { transposed, own }: Lie,
) -> Given {
    let (rows, cols) = shape;
    let (values, shape, tile) = if transposed {
        (turned(values, rows, cols), [cols as u64, rows as u64], [tile.1, tile.0])
    } else {
        (values.to_vec(), [rows as u64, cols as u64], [tile.0, tile.1])
    };
    let on_disk = own.map_or(tile, |(a, b)| [a, b]);
    let given = Given::new(&stored(runtime, path, &shape, &on_disk, &values)).cut(&tile);
    if transposed { given.transposed() } else { given }
}

/// How a matrix lies on disk.
#[derive(Clone, Copy, Debug)]
struct Lie {
    transposed: bool,
    /// Its tiles there, if not those of the program.
    own: Option<(u64, u64)>,
}

fn lie() -> impl Strategy<Value = Lie> {
    let own = prop_oneof![Just(None), (7u64..50, 7u64..50).prop_map(Some)];
    (any::<bool>(), own).prop_map(|(transposed, own)| Lie { transposed, own })
}

/// A matrix with NaN in the half that is not read.
fn half_of(values: &[f64], n: usize, half: Half) -> Vec<f64> {
    let read = |at: usize| if half == Half::Lower { at % n <= at / n } else { at % n >= at / n };
    (0..n * n).map(|at| if read(at) { values[at] } else { f64::NAN }).collect()
}

/// Budgets that hold some dozens of tiles, or all.
fn memory() -> impl Strategy<Value = usize> {
    (320usize..1600).prop_map(|kib| kib << 10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn all_ways_of_products_are_the_same(
        (m, k, n) in (1usize..130, 1usize..130, 1usize..130),
        (tm, tk, tn) in (9u64..41, 9u64..41, 9u64..41),
        lies in [lie(), lie()],
        memory in memory(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime(memory);
        let (x, y) = (numbers(m * k, 1), numbers(k * n, 2));
        let a = given(&runtime, &dir.path().join("a"), &x, ((m, k), (tm, tk)), lies[0]);
        let b = given(&runtime, &dir.path().join("b"), &y, ((k, n), (tk, tn)), lies[1]);
        let found = by_all_ways(&runtime, &dir.path().join("c"), |draft| draft.product(&a, &b));
        check(&found, &multiplied(&x, &y, (m, k, n)));
    }

    #[test]
    fn all_ways_of_factors_are_the_same(
        n in 1usize..170,
        side in 9u64..41,
        lie in lie(),
        upper in any::<bool>(),
        whole in any::<bool>(),
        memory in memory(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime(memory);
        let values = positive(n);
        let half = if upper { Half::Upper } else { Half::Lower };
        let x = half_of(&values, n, half);
        let a = given(&runtime, &dir.path().join("a"), &x, ((n, n), (side, side)), lie);
        let found = by_all_ways(&runtime, &dir.path().join("l"), |draft| draft.factor(&a, half, whole));
        let l = lower_factor(&values, n);
        check(&found, &if upper { turned(&l, n, n) } else { l });
    }

    #[test]
    fn all_ways_of_systems_are_the_same(
        (n, m) in (1usize..150, 1usize..80),
        (side, wide) in (9u64..41, 9u64..41),
        lies in [lie(), lie()],
        memory in memory(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime(memory);
        let (values, x) = (positive(n), numbers(n * m, 3));
        let b = multiplied(&values, &x, (n, n, m));
        let lower = half_of(&values, n, Half::Lower);
        let a = given(&runtime, &dir.path().join("a"), &lower, ((n, n), (side, side)), lies[0]);
        let b = given(&runtime, &dir.path().join("b"), &b, ((n, m), (side, wide)), lies[1]);
        let found = by_all_ways(&runtime, &dir.path().join("x"), |draft| draft.system(&a, &b, solve));
        check(&found, &x);
    }
}
