//! What the processor can do, measured once in a process.

use outcrop_engine::measured::Measured;
use outcrop_store::strided;
use std::time::Instant;

/// Bytes in a second that one thread turns, of elements of this size, on their way into blocks and out again.
pub(super) fn turned(itemsize: usize) -> f64 {
    static RATES: [Measured; 5] = [const { Measured::new() }; 5];
    RATES[itemsize.ilog2().min(4) as usize].get_or_measure(|| {
        let item = itemsize as isize;
        1.0 / (seconds_per_byte(itemsize, [item, item * SIDE])
            + seconds_per_byte(itemsize, [item * SIDE, item]))
    })
}

/// Bytes in a second that one thread copies.
pub(super) fn copied() -> f64 {
    static RATE: Measured = Measured::new();
    RATE.get_or_measure(|| 1.0 / seconds_per_byte(1, [SIDE, 1]))
}

/// Elements along each axis of what is copied to measure.
const SIDE: isize = 1024;

/// How often that is done.
const MEASURED: usize = 3;

/// Seconds that one thread takes for a byte of a block at these strides.
fn seconds_per_byte(itemsize: usize, strides: [isize; 2]) -> f64 {
    let bytes = (SIDE * SIDE) as usize * itemsize;
    let from = vec![1_u8; bytes];
    let mut to = vec![2_u8; bytes];
    let (item, shape) = (itemsize as isize, [SIDE as u64; 2]);
    // The best of some, as others may use the processor at any moment.
    let fastest = (0..MEASURED).map(|_| {
        let begin = Instant::now();
        // SAFETY: both blocks have room for the shape at these strides.
        unsafe {
            strided::copy(to.as_mut_ptr(), &[item * SIDE, item], from.as_ptr(), &strides, &shape, itemsize)
        };
        std::hint::black_box(&to);
        begin.elapsed().as_secs_f64()
    });
    fastest.fold(f64::INFINITY, f64::min).max(1e-9) / bytes as f64
}
