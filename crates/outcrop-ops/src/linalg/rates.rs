//! How fast the kernels are here, measured once in a process.

use crate::kernels::{self, Block};
use outcrop_store::DType;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The side of the blocks that are multiplied.
const SIDE: usize = 512;
/// Products that are timed, after one that is not. The median counts: others may be at work, too.
const REPEATS: usize = 9;

/// Operations of a product in a second on each of so many threads at once. Measured at the first call,
/// in some hundredths of a second.
pub fn rate(dtype: DType, threads: usize) -> f64 {
    static KNOWN: Mutex<Option<HashMap<(DType, usize), f64>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.get_or_insert_default().entry((dtype, threads)).or_insert_with(|| measure(dtype, threads))
}

fn measure(dtype: DType, threads: usize) -> f64 {
    let threads = threads.clamp(1, 64);
    let slowest = std::thread::scope(|scope| {
        let measuring: Vec<_> = (0..threads).map(|_| scope.spawn(|| seconds(dtype))).collect();
        measuring.into_iter().map(|m| m.join().unwrap_or(f64::NAN)).fold(0.0, f64::max)
    });
    let pair = if matches!(dtype, DType::C64 | DType::C128) { 8.0 } else { 2.0 };
    pair * (SIDE as f64).powi(3) / slowest.max(1e-9)
}

/// Seconds of one product.
fn seconds(dtype: DType) -> f64 {
    let bytes = SIDE * SIDE * dtype.size();
    // Ones are valid in every dtype, and cost as much as anything.
    let mut memory = vec![1u64; 3 * bytes / 8];
    let start = memory.as_mut_ptr().cast::<u8>();
    let block = |i: usize| Block::row_major(start.wrapping_add(i * bytes), SIDE, SIDE, SIDE);
    let mut workspace = vec![0u64; kernels::gemm_workspace(dtype, SIDE, SIDE, SIDE).div_ceil(8)];
    let (_, space, _) = {
        // SAFETY: bytes have no invalid values.
        unsafe { workspace.align_to_mut::<u8>() }
    };
    let mut times = [0.0; REPEATS + 1];
    for time in &mut times {
        let begin = Instant::now();
        // SAFETY: three blocks one after the other in memory of their size; every pattern of bits is a
        // number, and 0 or 1 in every byte a boolean.
        unsafe { kernels::gemm(dtype, block(2), false, 1.0, block(0).plain(), block(1).plain(), space) };
        *time = begin.elapsed().as_secs_f64();
    }
    let timed = &mut times[1..];
    timed.sort_unstable_by(f64::total_cmp);
    timed[REPEATS / 2]
}
