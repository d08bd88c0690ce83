//! Rates of the kernels in Gflop/s on dense row-major tiles: one thread, and the sum of two at once, each
//! with tiles of its own. Medians over the processor time of the thread, so that what else runs on the
//! machine counts less.
//!
//! `cargo run --release -p outcrop-ops --example kernel_rates [PART-OF-A-NAME]`

use outcrop_ops::kernels::{self, Block, Diagonal, Half};
use outcrop_store::dtype::DType;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::time::{Duration, Instant};

const NAMES: [&str; 11] = [
    "gemm C+=AB",
    "gemm C-=AB^H",
    "gemm C+=A^H B",
    "gemm C+=A^H B^H",
    "half C-=AA^H",
    "half C-=A^H A",
    "solve LX=B",
    "solve L^H X=B",
    "solve XL^H=B",
    "cholesky lower",
    "cholesky upper",
];

struct Tile {
    start: *mut u8,
    layout: Layout,
}

impl Tile {
    fn new(bytes: usize) -> Tile {
        let layout = Layout::from_size_align(bytes, 4096).expect("a small power of two");
        // SAFETY: the layout has a size.
        Tile { start: unsafe { alloc_zeroed(layout) }, layout }
    }
}

impl Drop for Tile {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Random numbers in [-0.5, 0.5), with `diagonal` on the diagonal.
fn fill(dtype: DType, tile: &Tile, n: usize, diagonal: f64) {
    let mut state = 1u64;
    let words = dtype.size() / dtype.word_size();
    for i in 0..n * n * words {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut value = (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
        if diagonal != 0.0 && i % ((n + 1) * words) == 0 {
            value = diagonal;
        }
        // SAFETY: inside the tile.
        unsafe {
            match dtype.word_size() {
                4 => tile.start.cast::<f32>().add(i).write(value as f32),
                _ => tile.start.cast::<f64>().add(i).write(value),
            }
        }
    }
}

fn rate(name: &str, dtype: DType, n: usize, duration: Duration) -> f64 {
    let size = dtype.size();
    let [a, b, c] = [0; 3].map(|_| Tile::new(n * n * size));
    let [x, y, z] = [&a, &b, &c].map(|tile| Block::row_major(tile.start, n, n, n));
    fill(dtype, &a, n, n as f64);
    fill(dtype, &b, n, 0.0);
    let bytes = kernels::gemm_workspace(dtype, n, n, n)
        .max(kernels::solve_triangular_workspace(dtype, n, n))
        .max(kernels::cholesky_workspace(dtype, n));
    let mut workspace = vec![0; bytes];
    let w = &mut workspace[..];
    let mut seconds = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < duration {
        fill(dtype, &c, n, if name.starts_with("cholesky") { n as f64 } else { 0.0 });
        let start = processor_seconds();
        // SAFETY: dense tiles of this size, each used as one operand.
        unsafe {
            let (half, stored) = (Half::Lower, Diagonal::Stored);
            match name {
                "gemm C+=AB" => kernels::gemm(dtype, z, true, 1.0, x.plain(), y.plain(), w),
                "gemm C-=AB^H" => kernels::gemm(dtype, z, true, -1.0, x.plain(), y.adjoint(), w),
                "gemm C+=A^H B" => kernels::gemm(dtype, z, true, 1.0, x.adjoint(), y.plain(), w),
                "gemm C+=A^H B^H" => kernels::gemm(dtype, z, true, 1.0, x.adjoint(), y.adjoint(), w),
                "half C-=AA^H" => kernels::gemm_half(dtype, half, z, true, -1.0, x.plain(), x.adjoint(), w),
                "half C-=A^H A" => kernels::gemm_half(dtype, half, z, true, -1.0, x.adjoint(), x.plain(), w),
                "solve LX=B" => kernels::solve_triangular(dtype, half, stored, x.plain(), z, w),
                "solve L^H X=B" => kernels::solve_triangular(dtype, Half::Upper, stored, x.adjoint(), z, w),
                "solve XL^H=B" => {
                    let factor = x.adjoint().transposed();
                    kernels::solve_triangular(dtype, half, stored, factor, z.transposed(), w);
                }
                "cholesky lower" => kernels::cholesky(dtype, half, z, w).expect("dominant diagonal"),
                "cholesky upper" => kernels::cholesky(dtype, Half::Upper, z, w).expect("dominant diagonal"),
                _ => unreachable!(),
            }
        }
        seconds.push(processor_seconds() - start);
    }
    seconds.sort_by(f64::total_cmp);
    let operations = match &name[..4] {
        "gemm" => 2.0,
        "half" | "solv" => 1.0,
        _ => 1.0 / 3.0,
    };
    let complex = if size > dtype.word_size() { 4.0 } else { 1.0 };
    complex * operations * (n as f64).powi(3) / seconds[seconds.len() / 2] / 1e9
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let duration = Duration::from_millis(300);
    let sizes = [(DType::F64, &[256, 512, 1024, 2048][..])]
        .into_iter()
        .chain([DType::F32, DType::C64, DType::C128].map(|dtype| (dtype, &[512, 1024][..])));
    for (dtype, sizes) in sizes {
        for &n in sizes {
            for name in NAMES.into_iter().filter(|name| name.contains(&wanted)) {
                let one = rate(name, dtype, n, duration);
                let threads = [0; 2].map(|_| std::thread::spawn(move || rate(name, dtype, n, duration)));
                let two: f64 = threads.into_iter().map(|t| t.join().expect("no panic")).sum();
                println!("{:10} {n:5} {name:16} {one:7.1} {two:7.1}", dtype.name());
            }
        }
    }
}
