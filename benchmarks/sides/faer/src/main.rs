//! The rate of faer's product or Cholesky factor of matrices in memory, on several threads.
//!
//! `in-memory-rate gemm|cholesky float32|float64|complex64|complex128 N THREADS` prints one line of JSON.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, Mat, Par, c32, c64};
use std::time::Instant;

/// Side of the problem that is solved first, so that threads and code are warm.
const WARM_UP: usize = 1024;

/// Seconds of one product of two full matrices.
fn gemm<T: ComplexField>(n: usize, par: Par, of: fn(f64) -> T) -> f64 {
    let value = |i: usize, j: usize| of(((i * 31 + j * 17) % 1009) as f64 / 1009.0 - 0.5);
    let a = Mat::from_fn(n, n, value);
    let b = Mat::from_fn(n, n, |i, j| value(j, i));
    // Written before, as the other matrices are, so that its pages are there.
    let mut c = Mat::from_fn(n, n, |_, _| of(1.0));
    let start = Instant::now();
    matmul(&mut c, Accum::Replace, &a, &b, of(1.0), par);
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(&c);
    seconds
}

/// Seconds of one factorization in place.
fn cholesky<T: ComplexField>(n: usize, par: Par, of: fn(f64) -> T) -> f64 {
    let mut a =
        Mat::from_fn(n, n, |i, j| of(1.0 / (1 + i.abs_diff(j)) as f64 + if i == j { 4.0 } else { 0.0 }));
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<T>(n, par, Default::default()));
    let start = Instant::now();
    cholesky_in_place(a.as_mut(), Default::default(), par, MemStack::new(&mut memory), Default::default())
        .expect("positive definite");
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(&a);
    seconds
}

fn measure<T: ComplexField>(job: &str, n: usize, par: Par, of: fn(f64) -> T) -> f64 {
    let run = match job {
        "gemm" => gemm,
        "cholesky" => cholesky,
        other => panic!("{other} is neither gemm nor cholesky"),
    };
    run(WARM_UP.min(n), par, of);
    run(n, par, of)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [job, dtype, n, threads] = &args[..] else { panic!("arguments: gemm|cholesky DTYPE N THREADS") };
    let (n, threads) = (n.parse().expect("N"), threads.parse().expect("THREADS"));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the only pool");
    let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let seconds = match &dtype[..] {
        "float32" => measure::<f32>(job, n, par, |x| x as f32),
        "float64" => measure::<f64>(job, n, par, |x| x),
        "complex64" => measure::<c32>(job, n, par, |x| c32::new(x as f32, 0.0)),
        "complex128" => measure::<c64>(job, n, par, |x| c64::new(x, 0.0)),
        other => panic!("unknown dtype {other}"),
    };
    println!("{{\"seconds\": {seconds}}}");
}
