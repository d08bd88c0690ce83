//! Every kernel against the definition of what it computes, with the error bounds of LAPACK's tests.

use super::*;
use proptest::prelude::*;

const FLOATING: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug)]
struct Lie {
    transposed: bool,
    pad: usize,
    /// Elements between neighbours, less one.
    gap: usize,
    backwards: [bool; 2],
    /// Elements before the first.
    skip: usize,
}

const DENSE: Lie = Lie { transposed: false, pad: 0, gap: 0, backwards: [false; 2], skip: 0 };
const ACROSS: Lie = Lie { transposed: true, ..DENSE };

fn lie() -> impl Strategy<Value = Lie> {
    let gap = prop_oneof![5 => Just(0usize), 1 => 1..3usize];
    let backwards = prop_oneof![5 => Just([false; 2]), 1 => any::<[bool; 2]>()];
    (any::<bool>(), 0..9usize, gap, backwards, 0..5usize)
        .prop_map(|(transposed, pad, gap, backwards, skip)| Lie { transposed, pad, gap, backwards, skip })
}

fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..6usize, 5 => 6..40usize, 1 => 60..150usize]
}

fn floating() -> impl Strategy<Value = DType> {
    prop::sample::select(&FLOATING[..])
}

fn half() -> impl Strategy<Value = Half> {
    prop_oneof![Just(Half::Lower), Just(Half::Upper)]
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Z(f64, f64);

impl Z {
    fn times(self, o: Z) -> Z {
        Z(self.0 * o.0 - self.1 * o.1, self.0 * o.1 + self.1 * o.0)
    }
    fn plus(self, o: Z) -> Z {
        Z(self.0 + o.0, self.1 + o.1)
    }
    fn minus(self, o: Z) -> Z {
        Z(self.0 - o.0, self.1 - o.1)
    }
    fn conj(self) -> Z {
        Z(self.0, -self.1)
    }
    fn abs(self) -> f64 {
        self.0.hypot(self.1)
    }
}

/// A matrix in memory of its own, 64 bytes aligned, with NaN in between.
#[derive(Clone)]
struct Matrix {
    memory: Vec<u128>,
    dtype: DType,
    offset: usize,
    rows: usize,
    cols: usize,
    strides: [isize; 2],
}

impl Matrix {
    fn new(dtype: DType, rows: usize, cols: usize, lie: Lie) -> Matrix {
        let (outer, inner) = if lie.transposed { (cols, rows) } else { (rows, cols) };
        let step = (lie.gap + 1) as isize;
        let line = step * inner as isize + lie.pad as isize;
        let mut strides = [line, step];
        let mut offset = lie.skip;
        for (axis, extent) in [outer, inner].into_iter().enumerate() {
            if lie.backwards[axis] && extent > 0 {
                offset += strides[axis] as usize * (extent - 1);
                strides[axis] = -strides[axis];
            }
        }
        if lie.transposed {
            strides.reverse();
        }
        let bytes = (lie.skip + line as usize * outer + 8) * dtype.size();
        // All ones are NaN in each float.
        let memory = vec![u128::MAX; bytes.div_ceil(16)];
        Matrix { memory, dtype, offset, rows, cols, strides }
    }

    fn random(dtype: DType, rows: usize, cols: usize, lie: Lie, seed: &mut u64) -> Matrix {
        let mut matrix = Matrix::new(dtype, rows, cols, lie);
        matrix.fill(|_, _| Z(random(seed), random(seed)));
        matrix
    }

    fn fill(&mut self, mut value: impl FnMut(usize, usize) -> Z) {
        for i in 0..self.rows {
            for j in 0..self.cols {
                self.set(i, j, value(i, j));
            }
        }
    }

    fn block(&mut self) -> Block {
        let start = self.memory.as_mut_ptr().cast::<u8>().wrapping_add(self.offset * self.dtype.size());
        let [row_stride, col_stride] = self.strides;
        Block { start, rows: self.rows, cols: self.cols, row_stride, col_stride }
    }

    fn place(&self, i: usize, j: usize) -> usize {
        assert!(i < self.rows && j < self.cols);
        (self.offset as isize + i as isize * self.strides[0] + j as isize * self.strides[1]) as usize
    }

    fn get(&self, i: usize, j: usize) -> Z {
        let at = self.place(i, j);
        let start = self.memory.as_ptr();
        // SAFETY: the place is inside the memory.
        unsafe {
            match self.dtype {
                DType::F32 => Z(f64::from(start.cast::<f32>().add(at).read()), 0.0),
                DType::F64 => Z(start.cast::<f64>().add(at).read(), 0.0),
                DType::C64 => {
                    let [re, im] = start.cast::<[f32; 2]>().add(at).read();
                    Z(f64::from(re), f64::from(im))
                }
                _ => {
                    let [re, im] = start.cast::<[f64; 2]>().add(at).read();
                    Z(re, im)
                }
            }
        }
    }

    fn set(&mut self, i: usize, j: usize, value: Z) {
        let at = self.place(i, j);
        let start = self.memory.as_mut_ptr();
        // SAFETY: the place is inside the memory.
        unsafe {
            match self.dtype {
                DType::F32 => start.cast::<f32>().add(at).write(value.0 as f32),
                DType::F64 => start.cast::<f64>().add(at).write(value.0),
                DType::C64 => start.cast::<[f32; 2]>().add(at).write([value.0 as f32, value.1 as f32]),
                _ => start.cast::<[f64; 2]>().add(at).write([value.0, value.1]),
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the memory's own bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * 16) }
    }

    /// Whether all bytes are those of `before` but for the elements that `written` names.
    fn only(&self, before: &Matrix, written: impl Fn(usize, usize) -> bool) -> bool {
        let size = self.dtype.size();
        let mut expected = before.bytes().to_vec();
        for i in 0..self.rows {
            for j in 0..self.cols {
                if written(i, j) {
                    let at = self.place(i, j) * size;
                    expected[at..at + size].copy_from_slice(&self.bytes()[at..at + size]);
                }
            }
        }
        expected == self.bytes()
    }
}

fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 40) as f64 / (1u64 << 23) as f64 - 1.0
}

fn eps(dtype: DType) -> f64 {
    if dtype.word_size() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

fn in_half(half: Half, i: usize, j: usize) -> bool {
    match half {
        Half::Lower => i >= j,
        Half::Upper => i <= j,
    }
}

fn value(matrix: &Matrix, conj: bool, i: usize, j: usize) -> Z {
    let value = matrix.get(i, j);
    if conj { value.conj() } else { value }
}

/// Row i of the first times column j of the second, and the same of the absolute values.
fn inner(depth: usize, a: impl Fn(usize) -> Z, b: impl Fn(usize) -> Z) -> (Z, f64) {
    (0..depth).fold((Z(0.0, 0.0), 0.0), |(sum, size), k| {
        (sum.plus(a(k).times(b(k))), size + a(k).abs() * b(k).abs())
    })
}

#[derive(Clone, Debug)]
struct Product {
    dtype: DType,
    extents: [usize; 3],
    lies: [Lie; 3],
    conj: [bool; 2],
    accumulate: bool,
    alpha: f64,
    seed: u64,
    workspace: bool,
}

fn product() -> impl Strategy<Value = Product> {
    (
        floating(),
        [extent(), extent(), extent()],
        [lie(), lie(), lie()],
        any::<[bool; 2]>(),
        any::<bool>(),
        prop::sample::select(&[1.0, -1.0, 0.37][..]),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(dtype, extents, lies, conj, accumulate, alpha, seed, workspace)| Product {
            dtype,
            extents,
            lies,
            conj,
            accumulate,
            alpha,
            seed,
            workspace,
        })
}

fn check_product(case: &Product, half: Option<Half>) {
    let Product { dtype, extents: [m, n, depth], conj, accumulate, alpha, .. } = *case;
    let mut seed = case.seed;
    let mut a = Matrix::random(dtype, m, depth, case.lies[0], &mut seed);
    let mut b = Matrix::random(dtype, depth, n, case.lies[1], &mut seed);
    let counts = |i, j| half.is_none_or(|half| in_half(half, i, j));
    let mut c = Matrix::new(dtype, m, n, case.lies[2]);
    // What is not read is NaN.
    c.fill(|i, j| if accumulate && counts(i, j) { Z(0.5, -0.25) } else { Z(f64::NAN, f64::NAN) });
    let before = c.clone();
    let mut workspace = vec![0xffu8; if case.workspace { gemm_workspace(dtype, m, n, depth) } else { 0 }];
    let left = Operand { block: a.block(), conj: conj[0] };
    let right = Operand { block: b.block(), conj: conj[1] };
    // SAFETY: three matrices with memory of their own.
    unsafe {
        match half {
            None => gemm(dtype, c.block(), accumulate, alpha, left, right, &mut workspace),
            Some(half) => {
                gemm_half(dtype, half, c.block(), accumulate, alpha, left, right, &mut workspace);
            }
        }
    }
    assert!(c.only(&before, counts), "wrote elsewhere: {case:?}");
    for i in 0..m {
        for j in (0..n).filter(|&j| counts(i, j)) {
            let (sum, size) = inner(depth, |k| value(&a, conj[0], i, k), |k| value(&b, conj[1], k, j));
            let start = if accumulate { before.get(i, j) } else { Z(0.0, 0.0) };
            let expected = Z(alpha * sum.0, alpha * sum.1).plus(start);
            let error = c.get(i, j).minus(expected).abs();
            let bound = eps(dtype) * (depth + 8) as f64 * (size + start.abs());
            assert!(error <= bound, "({i}, {j}): {:?}, not {expected:?}: {case:?}", c.get(i, j));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn products(case in product()) {
        check_product(&case, None);
    }

    #[test]
    fn halves_of_products(mut case in product(), half in half()) {
        case.extents[1] = case.extents[0];
        check_product(&case, Some(half));
    }
}

/// Products deeper than a panel, and beyond the sizes that the library treats as small; with vectors that are
/// longer than what is used at once.
#[test]
fn large_products() {
    for dtype in FLOATING {
        for (extents, half) in [
            ([50, 49, 530], None),
            ([49, 49, 520], Some(Half::Lower)),
            ([11, 1, 4500], None),
            ([1, 4500, 19], None),
        ] {
            for bits in 0..8 {
                let lies = [0, 1, 2].map(|i| if bits >> i & 1 == 1 { ACROSS } else { DENSE });
                let case = Product {
                    dtype,
                    extents,
                    lies,
                    conj: [bits & 1 == 1, bits & 2 == 0],
                    accumulate: bits & 4 == 0,
                    alpha: -1.0,
                    seed: bits,
                    workspace: true,
                };
                check_product(&case, half);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Solve {
    dtype: DType,
    half: Half,
    unit: bool,
    conj: bool,
    order: usize,
    columns: usize,
    lies: [Lie; 2],
    seed: u64,
    workspace: bool,
    /// Times a power of two as large as this, up or down, for each row of T.
    graded: i32,
}

fn check_solve(case: &Solve) {
    let Solve { dtype, half, unit, conj, order, columns, .. } = *case;
    let mut seed = case.seed;
    let mut t = Matrix::new(dtype, order, order, case.lies[0]);
    let scale = 1.0 / (order as f64).max(1.0);
    t.fill(|i, j| {
        let grade = 2f64.powi(if i % 3 == 0 { -case.graded } else { case.graded * (i as i32 % 2) });
        if i == j && !unit {
            Z(grade * (1.5 + random(&mut seed)), grade * random(&mut seed))
        } else if in_half(half, i, j) && i != j {
            Z(grade * scale * random(&mut seed), grade * scale * random(&mut seed))
        } else {
            Z(f64::NAN, f64::NAN)
        }
    });
    let mut b = Matrix::random(dtype, order, columns, case.lies[1], &mut seed);
    let (before, factor) = (b.clone(), t.clone());
    let bytes = if case.workspace { solve_triangular_workspace(dtype, order, columns) } else { 0 };
    let mut workspace = vec![0xffu8; bytes];
    let diagonal = if unit { Diagonal::Unit } else { Diagonal::Stored };
    let operand = Operand { block: t.block(), conj };
    // SAFETY: matrices with memory of their own.
    unsafe { solve_triangular(dtype, half, diagonal, operand, b.block(), &mut workspace) };
    assert!(b.only(&before, |_, _| true) && t.bytes() == factor.bytes(), "wrote elsewhere: {case:?}");
    let element = |i: usize, k: usize| match (i == k, in_half(half, i, k)) {
        (true, _) if unit => Z(1.0, 0.0),
        (_, true) => value(&t, conj, i, k),
        _ => Z(0.0, 0.0),
    };
    for i in 0..order {
        for j in 0..columns {
            let (sum, size) = inner(order, |k| element(i, k), |k| b.get(k, j));
            let error = sum.minus(before.get(i, j)).abs();
            let bound = eps(dtype) * (order + 8) as f64 * (size + before.get(i, j).abs());
            assert!(error <= bound, "({i}, {j}): off by {error:e} of {bound:e}: {case:?}");
        }
    }
}

#[derive(Clone, Debug)]
struct Factor {
    dtype: DType,
    half: Half,
    order: usize,
    lie: Lie,
    seed: u64,
    workspace: bool,
}

/// A positive definite matrix in one half, NaN in the other; imaginary parts of the diagonal are rubbish.
fn definite(case: &Factor) -> Matrix {
    let Factor { dtype, half, order, lie, .. } = *case;
    let mut seed = case.seed;
    let mut a = Matrix::new(dtype, order, order, lie);
    a.fill(|i, j| {
        if i == j {
            Z(1.0 + order as f64 * (1.0 + random(&mut seed)) + i as f64 * 0.5, f64::NAN)
        } else if in_half(half, i, j) {
            Z(0.4 * random(&mut seed), 0.4 * random(&mut seed))
        } else {
            Z(f64::NAN, f64::NAN)
        }
    });
    // Diagonally dominant, so that it is definite.
    for i in 0..order {
        let others: f64 = (0..order)
            .filter(|&j| j != i)
            .map(|j| if in_half(half, i, j) { a.get(i, j) } else { a.get(j, i) }.abs())
            .sum();
        a.set(i, i, Z(others + 0.1 + 0.05 * i as f64, 7.0));
    }
    a
}

fn check_factor(case: &Factor) {
    let Factor { dtype, half, order, .. } = *case;
    let mut a = definite(case);
    let before = a.clone();
    let mut workspace = vec![0xffu8; if case.workspace { cholesky_workspace(dtype, order) } else { 0 }];
    // SAFETY: a matrix with memory of its own.
    let result = unsafe { cholesky(dtype, half, a.block(), &mut workspace) };
    assert_eq!(result, Ok(()), "{case:?}");
    assert!(a.only(&before, |i, j| in_half(half, i, j)), "wrote elsewhere: {case:?}");
    // L, whichever half it is in.
    let factor = |i: usize, j: usize| match half {
        _ if j > i => Z(0.0, 0.0),
        Half::Lower => a.get(i, j),
        Half::Upper => a.get(j, i).conj(),
    };
    for i in 0..order {
        assert!(factor(i, i).0 > 0.0 && factor(i, i).1 == 0.0, "diagonal: {case:?}");
        for j in 0..=i {
            let (sum, size) = inner(order, |k| factor(i, k), |k| factor(j, k).conj());
            let expected = match half {
                _ if i == j => Z(before.get(i, i).0, 0.0),
                Half::Lower => before.get(i, j),
                Half::Upper => before.get(j, i).conj(),
            };
            let error = sum.minus(expected).abs();
            let bound = eps(dtype) * (order + 8) as f64 * size;
            assert!(error <= bound, "({i}, {j}): off by {error:e} of {bound:e}: {case:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn solutions(
        (dtype, half, unit, conj) in (floating(), half(), any::<bool>(), any::<bool>()),
        (order, columns, lies) in (extent(), extent(), [lie(), lie()]),
        (seed, workspace, graded) in (any::<u64>(), any::<bool>(), prop_oneof![3 => Just(0), 1 => Just(20)]),
    ) {
        let graded = if unit { 0 } else { graded };
        check_solve(&Solve { dtype, half, unit, conj, order, columns, lies, seed, workspace, graded });
    }

    #[test]
    fn factors(
        (dtype, half, order, lie) in (floating(), half(), extent(), lie()),
        (seed, workspace) in (any::<u64>(), any::<bool>()),
    ) {
        check_factor(&Factor { dtype, half, order, lie, seed, workspace });
    }
}

/// More right-hand sides than are copied at once, and orders of several blocks.
#[test]
fn large_solutions_and_factors() {
    for dtype in FLOATING {
        for (half, lie) in [(Half::Lower, DENSE), (Half::Upper, DENSE), (Half::Lower, ACROSS)] {
            check_factor(&Factor { dtype, half, order: 201, lie, seed: 3, workspace: true });
            let (conj, seed, workspace) = (lie.transposed, 5, true);
            for (lies, graded) in [([lie, ACROSS], 0), ([DENSE, lie], 0), ([lie, DENSE], 45)] {
                let (order, columns) = if graded == 0 { (70, 150) } else { (140, 40) };
                let unit = false;
                check_solve(&Solve {
                    dtype,
                    half,
                    unit,
                    conj,
                    order,
                    columns,
                    lies,
                    seed,
                    workspace,
                    graded,
                });
            }
        }
    }
}

/// The library multiplies by reciprocals and by quotients, which overflow here; LAPACK's result does not.
#[test]
fn solves_with_extreme_factors() {
    let mut t = Matrix::new(DType::F64, 2, 2, DENSE);
    let mut b = Matrix::new(DType::F64, 2, 1, DENSE);
    let solved = |t: &mut Matrix, b: &mut Matrix| {
        let operand = t.block().plain();
        // SAFETY: matrices with memory of their own.
        unsafe { solve_triangular(t.dtype, Half::Lower, Diagonal::Stored, operand, b.block(), &mut []) };
        (b.get(0, 0), b.get(1, 0))
    };
    t.fill(|i, j| Z([[1.0, f64::NAN], [1e200, 1e-200]][i][j], 0.0));
    b.fill(|i, _| Z([1e-300, 0.0][i], 0.0));
    let (x, y) = solved(&mut t, &mut b);
    assert!(x.0 == 1e-300 && (y.0 / -1e100 - 1.0).abs() < 1e-15, "{x:?} {y:?}");
    t.fill(|i, j| Z([[1.0, f64::NAN], [0.0, 5e-324]][i][j], 0.0));
    b.fill(|i, _| Z([0.0, 1e-323][i], 0.0));
    assert_eq!(solved(&mut t, &mut b), (Z(0.0, 0.0), Z(2.0, 0.0)));

    let mut t = Matrix::new(DType::C128, 2, 2, DENSE);
    let mut b = Matrix::new(DType::C128, 2, 1, DENSE);
    t.fill(|i, j| if i == j { Z(3e200, 4e200) } else { Z(0.0, 0.0) });
    b.fill(|_, _| Z(3e200, 4e200));
    assert_eq!(solved(&mut t, &mut b), (Z(1.0, 0.0), Z(1.0, 0.0)));
}

/// Tiny, huge and graded matrices have factors, too.
#[test]
fn factors_of_graded_matrices() {
    for (scale, step) in [(f64::MIN_POSITIVE * 2f64.powi(-18), 0), (2f64.powi(1000), 0), (1.0, 7)] {
        let mut a = definite(&Factor {
            dtype: DType::F64,
            half: Half::Lower,
            order: 90,
            lie: DENSE,
            seed: 1,
            workspace: false,
        });
        let plain = a.clone();
        let grade = |i: usize| 2f64.powi(step * (i as i32 - 45));
        a.fill(|i, j| Z(plain.get(i, j).0 * grade(i) * grade(j) * scale, 0.0));
        let before = a.clone();
        // SAFETY: a matrix with memory of its own.
        assert_eq!(unsafe { cholesky(DType::F64, Half::Lower, a.block(), &mut []) }, Ok(()));
        for i in 0..90 {
            for j in 0..=i {
                let (sum, size) = inner(j + 1, |k| a.get(i, k), |k| a.get(j, k));
                // Products and elements near the least number have fewer digits.
                let bound = 300.0 * (f64::EPSILON * size + 5e-324);
                assert!((sum.0 - before.get(i, j).0).abs() <= bound, "({i}, {j}) of {scale:e}, {step}");
            }
        }
    }
}

/// Which minor is not positive; and never a factor of NaN.
#[test]
fn indefinite_matrices_are_found() {
    for dtype in FLOATING {
        for half in [Half::Lower, Half::Upper] {
            for order in [1, 2, 9, 65, 150] {
                for bad in [0, order / 2, order - 1] {
                    for pivot in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
                        let case = Factor { dtype, half, order, lie: DENSE, seed: 2, workspace: true };
                        let mut a = definite(&case);
                        a.set(bad, bad, Z(pivot, 1.0));
                        let before = a.clone();
                        let mut workspace = vec![0; cholesky_workspace(dtype, order)];
                        // SAFETY: a matrix with memory of its own.
                        let result = unsafe { cholesky(dtype, half, a.block(), &mut workspace) };
                        assert_eq!(result, Err(bad), "{dtype} {half:?} {order} {pivot}");
                        assert!(a.only(&before, |i, j| in_half(half, i, j)));
                    }
                    // NaN beside the diagonal reaches the pivot of its row, or an infinity's.
                    for rubbish in [f64::NAN, f64::INFINITY] {
                        let case = Factor { dtype, half, order, lie: DENSE, seed: 2, workspace: true };
                        let mut a = definite(&case);
                        let (row, col) = (order - 1, bad);
                        if row == col {
                            continue;
                        }
                        let place = if half == Half::Lower { (row, col) } else { (col, row) };
                        a.set(place.0, place.1, Z(rubbish, 0.0));
                        // SAFETY: a matrix with memory of its own.
                        let result = unsafe { cholesky(dtype, half, a.block(), &mut []) };
                        assert_eq!(result, Err(row), "{dtype} {half:?} {order} {rubbish}");
                    }
                }
            }
        }
    }
}

#[test]
fn nan_and_infinity_propagate() {
    for dtype in FLOATING {
        for order in [1, 5, 30, 70] {
            for lie in [DENSE, ACROSS] {
                let mut seed = 9;
                let mut a = Matrix::random(dtype, order, order, lie, &mut seed);
                let mut b = Matrix::random(dtype, order, order, lie, &mut seed);
                let mut c = Matrix::new(dtype, order, order, lie);
                let bad = order / 2;
                a.set(bad, bad, Z(f64::NAN, 0.0));
                b.fill(|i, j| if i == bad { Z(0.0, 0.0) } else { b_value(i, j) });
                let mut workspace = vec![0; gemm_workspace(dtype, order, order, order)];
                let (left, right) = (a.block().plain(), b.block().plain());
                // SAFETY: matrices with memory of their own.
                unsafe { gemm(dtype, c.block(), false, 1.0, left, right, &mut workspace) };
                for i in 0..order {
                    for j in 0..order {
                        // Not even a zero stops NaN.
                        assert_eq!(c.get(i, j).0.is_nan(), i == bad, "{dtype} {order} ({i}, {j})");
                    }
                }
            }
        }
    }
    fn b_value(i: usize, j: usize) -> Z {
        Z(i as f64 - j as f64, 0.5)
    }
}

#[test]
fn the_first_zero_of_a_diagonal() {
    for dtype in FLOATING {
        let mut a = Matrix::random(dtype, 5, 7, ACROSS, &mut 4);
        // SAFETY: a matrix with memory of its own.
        let first = |a: &mut Matrix| unsafe { first_zero_diagonal(dtype, a.block()) };
        a.set(2, 2, Z(f64::NAN, 0.0));
        assert_eq!(first(&mut a), None);
        a.set(4, 4, Z(-0.0, 0.0));
        assert_eq!(first(&mut a), Some(4));
        a.set(1, 1, Z(0.0, 0.0));
        assert_eq!(first(&mut a), Some(1));
    }
}

/// The same bits, wherever the blocks begin, and whatever the workspace holds.
#[test]
fn results_depend_on_the_arguments_alone() {
    for dtype in FLOATING {
        for order in [1, 7, 33, 100] {
            for rows in [1, order] {
                let mut results = Vec::new();
                for skip in 0..4 {
                    let lie = Lie { skip, ..DENSE };
                    let mut seed = 1;
                    let mut a = Matrix::random(dtype, rows, order, lie, &mut seed);
                    let mut b = Matrix::random(dtype, order, order, lie, &mut seed);
                    let mut c = Matrix::new(dtype, rows, order, lie);
                    let (left, right) = (a.block().plain(), b.block().transposed().plain());
                    let mut workspace = vec![skip as u8; gemm_workspace(dtype, rows, order, order)];
                    // SAFETY: matrices with memory of their own.
                    unsafe { gemm(dtype, c.block(), false, 1.0, left, right, &mut workspace) };
                    let bits: Vec<[u64; 2]> = (0..rows * order)
                        .map(|at| c.get(at / order, at % order))
                        .map(|z| [z.0.to_bits(), z.1.to_bits()])
                        .collect();
                    results.push(bits);
                }
                assert!(results.iter().all(|r| r == &results[0]), "{dtype} {rows} x {order}");
            }
        }
    }
}

fn whole_value(dtype: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0u8; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = i128::from_le_bytes(wide);
    let bits = 8 * bytes.len();
    let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    if signed && value >> (bits - 1) & 1 == 1 { value - (1 << bits) } else { value }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn products_of_whole_numbers(
        dtype in prop::sample::select(&DType::ALL[..9]),
        [m, n, depth] in [extent(), extent(), extent()],
        lies in [lie(), lie(), lie()],
        (accumulate, negative, mut seed) in (any::<bool>(), any::<bool>(), any::<u64>()),
    ) {
        let size = dtype.size();
        let truth = dtype == DType::Bool;
        let mut scatter = |matrix: &mut Matrix| {
            for i in 0..matrix.rows {
                for j in 0..matrix.cols {
                    let at = matrix.place(i, j) * size;
                    random(&mut seed);
                    let number = if truth { u64::from(seed >> 61 == 0) } else { seed.rotate_left(20) };
                    // SAFETY: inside the matrix's memory.
                    unsafe {
                        let start = matrix.memory.as_mut_ptr().cast::<u8>().add(at);
                        std::ptr::copy_nonoverlapping(number.to_le_bytes().as_ptr(), start, size);
                    }
                }
            }
        };
        let [mut a, mut b, mut c] =
            [(m, depth, lies[0]), (depth, n, lies[1]), (m, n, lies[2])]
                .map(|(rows, cols, lie)| Matrix::new(dtype, rows, cols, lie));
        scatter(&mut a);
        scatter(&mut b);
        scatter(&mut c);
        let before = c.clone();
        let alpha = if negative && !truth { -1 } else { 1 };
        let (left, right) = (a.block().plain(), b.block().plain());
        // SAFETY: matrices with memory of their own.
        unsafe { gemm(dtype, c.block(), accumulate, f64::from(alpha), left, right, &mut []) };
        prop_assert!(c.only(&before, |_, _| true));
        let element = |matrix: &Matrix, i: usize, j: usize| {
            let at = matrix.place(i, j) * size;
            whole_value(dtype, &matrix.bytes()[at..at + size])
        };
        for i in 0..m {
            for j in 0..n {
                let start = if accumulate { element(&before, i, j) } else { 0 };
                let sum = (0..depth).fold(start, |sum, k| {
                    let product = element(&a, i, k).wrapping_mul(element(&b, k, j));
                    sum.wrapping_add(product.wrapping_mul(i128::from(alpha)))
                });
                let expected = if truth { i128::from(sum != 0) } else {
                    whole_value(dtype, &sum.to_le_bytes()[..size])
                };
                prop_assert_eq!(element(&c, i, j), expected);
            }
        }
    }
}

/// Matrices of any shape in several blocks, against what their factors multiply to, with and without memory for copies.
fn check_lu(dtype: DType, heights: &[usize], cols: usize, lies: [Lie; 2], seed: u64, with_workspace: bool) {
    let mut seed = seed;
    let side = heights[0];
    let mut tiles: Vec<Matrix> = heights
        .iter()
        .enumerate()
        .map(|(i, &rows)| Matrix::random(dtype, rows, cols, lies[i % 2], &mut seed))
        .collect();
    let before = tiles.clone();
    let at = |tiles: &[Matrix], row: usize, col: usize| tiles[row / side].get(row % side, col);
    let rows: usize = heights.iter().sum();
    let blocks: Vec<Block> = tiles.iter_mut().map(Matrix::block).collect();
    let mut pivots = vec![usize::MAX; side.min(cols)];
    let bytes = if with_workspace { lu::workspace(dtype, rows, cols) + 4096 } else { 0 };
    let mut workspace = vec![0; bytes];
    let stack = lu::Stack::new(&blocks, dtype.size());
    // SAFETY: blocks of matrices of their own.
    let found = unsafe { super::lu(dtype, stack, &mut pivots, &mut workspace, &Cancel::default()) };
    assert_eq!(found.unwrap(), lu::Pivots::default());
    for (tile, before) in tiles.iter().zip(&before) {
        assert!(tile.only(before, |_, _| true));
    }
    let mut order: Vec<usize> = (0..rows).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        assert!((i..rows).contains(&pivot));
        order.swap(i, pivot);
    }
    let most = if matches!(dtype, DType::C64 | DType::C128) { 2.0f64.sqrt() } else { 1.0 };
    for (row, &given) in order.iter().enumerate() {
        for col in 0..cols {
            let lower = |k: usize| if k == row { Z(1.0, 0.0) } else { at(&tiles, row, k) };
            let depth = (row.min(col) + 1).min(pivots.len());
            let (product, size) = inner(depth, lower, |k| at(&tiles, k, col));
            let error = product.minus(at(&before, given, col)).abs();
            assert!(error <= 4.0 * (depth as f64 + 2.0) * eps(dtype) * size, "{row} {col}: {error} {size}");
            if col < row.min(pivots.len()) {
                assert!(at(&tiles, row, col).abs() <= most * (1.0 + 4.0 * eps(dtype)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn factors_with_pivots(
        dtype in floating(),
        (side, whole, last) in (1..40usize, 0..4usize, 0..40usize),
        cols in 1..70usize,
        lies in [lie(), lie()],
        (seed, workspace) in (any::<u64>(), any::<bool>()),
    ) {
        // Only a single block may be lower than there are columns.
        let (side, mut heights) = if whole == 0 { (side, vec![side]) } else { (side.max(cols), Vec::new()) };
        heights.extend(std::iter::repeat_n(side, whole));
        if whole > 0 && last > 0 {
            heights.push(last.min(side));
        }
        check_lu(dtype, &heights, cols, lies, seed, workspace);
    }
}

#[test]
fn large_factors_with_pivots() {
    for dtype in FLOATING {
        check_lu(dtype, &[150, 150, 77], 150, [DENSE, ACROSS], 3, true);
        check_lu(dtype, &[90], 200, [ACROSS, DENSE], 4, true);
    }
}

#[test]
fn pivots_that_are_remarkable() {
    for dtype in FLOATING {
        for (place, value) in [((2, 2), 0.0), ((4, 1), f64::NAN), ((5, 3), f64::INFINITY)] {
            let mut a = Matrix::new(dtype, 6, 6, DENSE);
            a.fill(|i, j| Z(if i == j { 1.0 } else { 0.0 }, 0.0));
            a.set(place.0, place.1, Z(value, 0.0));
            let (blocks, mut pivots) = ([a.block()], vec![0; 6]);
            let stack = lu::Stack::new(&blocks, dtype.size());
            // SAFETY: a block of a matrix of its own.
            let found = unsafe { super::lu(dtype, stack, &mut pivots, &mut [], &Cancel::default()) }.unwrap();
            if value == 0.0 {
                assert_eq!(found, lu::Pivots { zero: Some(2), not_finite: None });
            } else {
                assert_eq!(found.not_finite, Some(place.1));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// `P^T A P = L D L^H`, or L D L^T, of the lower half alone; pivots are small multiples of what they eliminate.
    #[test]
    fn symmetric_factors(
        dtype in floating(),
        hermitian in any::<bool>(),
        n in extent(),
        lies in (lie(), lie()),
        zeros in 0..3usize,
        mut seed in any::<u64>(),
    ) {
        let mut given = Matrix::random(dtype, n, n, lies.0, &mut seed);
        for i in 0..n {
            let Z(re, im) = given.get(i, i);
            // Diagonals that are zero need blocks of two.
            let re = if zeros > 0 { 0.0 } else { re };
            given.set(i, i, if hermitian { Z(re, 0.0) } else { Z(re, if zeros > 0 { 0.0 } else { im }) });
        }
        let (mut a, mut d) = (given.clone(), Matrix::new(dtype, n, 2, lies.1));
        let (mut order, cancel) = (vec![0; n], Cancel::default());
        let mut workspace = vec![0; ldl::workspace(dtype, n)];
        // SAFETY: the matrices and the workspace are the test's.
        let stop = unsafe {
            ldl::factor(dtype, a.block(), hermitian, d.block(), &mut order, &mut workspace, &cancel).unwrap()
        };
        if let Some(stop) = stop {
            prop_assert_eq!(stop, ldl::Stop::Zero(n - 1));
            prop_assert!(zeros > 0);
            return Ok(());
        }
        let of = |i: usize, j: usize| match (i >= j, hermitian) {
            (true, _) => given.get(i, j),
            (false, true) => given.get(j, i).conj(),
            (false, false) => given.get(j, i),
        };
        let other = |value: Z| if hermitian { value.conj() } else { value };
        let diagonal = |i: usize, j: usize| match (i, j) {
            _ if i == j => d.get(i, 0),
            _ if i == j + 1 => d.get(j, 1),
            _ if j == i + 1 => other(d.get(i, 1)),
            _ => Z(0.0, 0.0),
        };
        for i in 0..n {
            prop_assert_eq!(a.get(i, i), Z(1.0, 0.0));
            prop_assert!((i + 1..n).all(|j| a.get(i, j) == Z(0.0, 0.0)));
        }
        let rows: Vec<Vec<Z>> = (0..n)
            .map(|i| (0..n).map(|j| inner(n, |k| a.get(i, k), |k| diagonal(k, j)).0).collect())
            .collect();
        for i in 0..n {
            for j in 0..=i {
                let (sum, size) = inner(n, |k| rows[i][k], |k| other(a.get(j, k)));
                let error = sum.minus(of(order[i], order[j])).abs();
                prop_assert!(error <= 8.0 * (n + 8) as f64 * eps(dtype) * (size + 1.0), "{i}, {j}: {error}");
            }
        }
    }

    /// `L L^H + V V^H`, and back again, with rows below the block on the diagonal.
    #[test]
    fn updates_of_factors(
        dtype in floating(),
        (n, m, k) in (1..70usize, 0..150usize, 1..6usize),
        lies in (lie(), lie(), lie()),
        mut seed in any::<u64>(),
    ) {
        let rows = n + m;
        let mut l = Matrix::random(dtype, rows, n, lies.0, &mut seed);
        (0..n).for_each(|i| l.set(i, i, Z(2.0 + random(&mut seed), 0.0)));
        let mut v = Matrix::random(dtype, rows, k, lies.1, &mut seed);
        let (first, given) = (l.clone(), v.clone());
        let mut found = Matrix::new(dtype, n, 2 * k, lies.2);
        let (size, cancel) = (dtype.size(), Cancel::default());
        let mut workspace = vec![0; update::workspace(dtype, n, k)];
        let product = |x: &Matrix, i: usize, j: usize| {
            inner(n.min(j + 1), |p| if p <= i { x.get(i, p) } else { Z(0.0, 0.0) }, |p| x.get(j, p).conj())
        };
        for down in [false, true] {
            if down {
                v = given.clone();
            }
            let before = l.clone();
            let (x, y) = (l.block(), v.block());
            let rotations = found.block();
            let top = (x.part(0..n, 0..n, size), y.part(0..n, 0..k, size), rotations);
            let below = (x.part(n..rows, 0..n, size), y.part(n..rows, 0..k, size), rotations);
            // SAFETY: the matrices and the workspace are the test's.
            unsafe {
                prop_assert_eq!(update::find(dtype, top, down, &mut workspace, &cancel).unwrap(), Ok(()));
                update::apply(dtype, below, down, &mut workspace, &cancel).unwrap();
            }
            for i in 0..rows {
                for j in 0..n.min(i + 1) {
                    let (old, size) = product(&before, i, j);
                    let (change, more) = inner(k, |p| given.get(i, p), |p| given.get(j, p).conj());
                    let expected = if down { old.minus(change) } else { old.plus(change) };
                    let error = product(&l, i, j).0.minus(expected).abs();
                    prop_assert!(error <= 100.0 * (n + k) as f64 * eps(dtype) * (size + more + 1.0), "{i}, {j}: {error}");
                }
            }
        }
        for i in 0..rows {
            for j in 0..n.min(i + 1) {
                // Of the factor itself, errors may be as large as its condition.
                let (expected, size) = product(&first, i, j);
                let more = inner(k, |p| given.get(i, p), |p| given.get(j, p).conj()).1;
                let error = product(&l, i, j).0.minus(expected).abs();
                prop_assert!(error <= 200.0 * (n + k) as f64 * eps(dtype) * (size + more + 1.0), "{i}, {j}: {error}");
            }
        }
    }
}
