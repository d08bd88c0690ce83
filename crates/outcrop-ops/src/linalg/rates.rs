//! How fast products of blocks are here, measured once in a process for each kind.

use crate::kernels::{self, Block};
use outcrop_store::DType;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A kind of product: of an m x k block by a k x n block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    pub dtype: DType,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Which of the factors lie column by column.
    pub transposed: (bool, bool),
}

/// The longest side of a result that is computed to measure: larger ones are no faster.
const SIDE: usize = 512;

/// Products that are timed, after one that is not. The median counts: others may be at work, too.
const REPEATS: usize = 7;

/// Bytes of factors of all threads, one pair after the other, so that they come from memory as those of a run
/// do. It is not charged to the budget, and belongs to what a process may have beside it.
const FACTORS: usize = 48 << 20;

/// Threads that are measured at once. More are expected to disturb each other no further.
const THREADS: usize = 8;

/// Operations in a second of a processor that cannot be measured.
const UNKNOWN: f64 = 1e10;

/// Operations in a second on each of so many threads at once. Measured when it is first asked, in some
/// hundredths of a second.
pub(super) fn rate(product: Product, threads: usize) -> f64 {
    static KNOWN: Mutex<Option<HashMap<(Product, usize), f64>>> = Mutex::new(None);
    let threads = threads.clamp(1, THREADS);
    let product = product.shortened(threads);
    // Not held while it is measured: it would be for ever in a child that is forked meanwhile.
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&rate) = known().get_or_insert_default().get(&(product, threads)) {
        return rate;
    }
    // Without memory or threads to measure with: what runs will say so by itself, should it want as much.
    let Some(rate) = product.measure(threads) else { return UNKNOWN };
    *known().get_or_insert_default().entry((product, threads)).or_insert(rate)
}

impl Product {
    /// One that is as fast, and not long.
    fn shortened(self, threads: usize) -> Product {
        let pairs = match self.dtype {
            DType::C64 | DType::C128 => 1 << 25,
            dtype if kernels::is_floating(dtype) => 1 << 27,
            _ => 1 << 23,
        };
        let (m, n) = (self.m.clamp(1, SIDE), self.n.clamp(1, SIDE));
        let room = FACTORS / threads / (self.dtype.size() * (m + n));
        Product { m, n, k: self.k.clamp(1, (pairs / (m * n)).max(64).min(room)), ..self }
    }

    fn operations(self) -> f64 {
        let pair = if matches!(self.dtype, DType::C64 | DType::C128) { 8.0 } else { 2.0 };
        pair * self.m as f64 * self.n as f64 * self.k as f64
    }

    fn measure(self, threads: usize) -> Option<f64> {
        let slowest = std::thread::scope(|scope| {
            let work = move || self.seconds(FACTORS / threads);
            let start = |_| outcrop_store::thread::start_scoped(scope, "outcrop-measure", work).ok();
            let measuring: Vec<_> = (0..threads).map(start).collect();
            let times = measuring.into_iter().map(|thread| thread?.join().ok()?);
            times.collect::<Option<Vec<f64>>>().map(|times| times.into_iter().fold(0.0, f64::max))
        });
        Some(self.operations() / slowest?.max(1e-9))
    }

    /// Seconds of one product; `None` where there is no memory for it.
    fn seconds(self, factors: usize) -> Option<f64> {
        let Product { dtype, m, n, k, transposed } = self;
        let size = dtype.size();
        let (left, right) = (m * k * size, k * n * size);
        let pairs = (factors / (left + right)).clamp(1, REPEATS + 1);
        // As good as any numbers; in floating point, very small ones might take longer.
        let ones = match dtype {
            DType::F32 | DType::C64 => u64::from(1f32.to_bits()) << 32 | u64::from(1f32.to_bits()),
            DType::F64 | DType::C128 => 1f64.to_bits(),
            _ => 0x0101_0101_0101_0101,
        };
        let mut memory = filled(ones, (m * n * size + pairs * (left + right)).div_ceil(8))?;
        let start = memory.as_mut_ptr().cast::<u8>();
        let block = |at: usize, rows: usize, cols: usize, transposed: bool| {
            let start = start.wrapping_add(at);
            if transposed {
                Block::row_major(start, cols, rows, rows).transposed()
            } else {
                Block::row_major(start, rows, cols, cols)
            }
        };
        let mut workspace = filled(0u64, kernels::gemm_workspace(dtype, m, n, k).div_ceil(8))?;
        let (_, space, _) = {
            // SAFETY: bytes have no invalid values.
            unsafe { workspace.align_to_mut::<u8>() }
        };
        let mut times = [0.0; REPEATS + 1];
        for (i, time) in times.iter_mut().enumerate() {
            let at = m * n * size + i % pairs * (left + right);
            let c = block(0, m, n, false);
            let (a, b) = (block(at, m, k, transposed.0), block(at + left, k, n, transposed.1));
            let begin = Instant::now();
            // SAFETY: the blocks lie one after the other in memory of their size; every pattern of bits is a
            // number, and 0 or 1 in every byte a boolean.
            unsafe { kernels::gemm(dtype, c, true, 1.0, a.plain(), b.plain(), space) };
            *time = begin.elapsed().as_secs_f64();
        }
        let timed = &mut times[1..];
        timed.sort_unstable_by(f64::total_cmp);
        Some(timed[REPEATS / 2])
    }
}

/// Memory that holds the same again and again; `None` where the system has not as much.
fn filled(value: u64, count: usize) -> Option<Vec<u64>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(count).ok()?;
    memory.resize(count, value);
    Some(memory)
}
