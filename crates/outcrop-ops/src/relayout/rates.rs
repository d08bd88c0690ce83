//! What the processor can do, measured once in a process.

use outcrop_engine::plan::measured::Measured;
use outcrop_store::strided;
use std::time::Instant;

/// Bytes in a second that one thread turns, of elements of this size, on their way into blocks and out again.
pub(super) fn turned(itemsize: usize) -> f64 {
    static RATES: [Measured; 5] = [const { Measured::new() }; 5];
    RATES[itemsize.ilog2().min(4) as usize].get_or_try(UNKNOWN, || {
        let (rows, columns, item) = (ROWS, BYTES / ROWS / itemsize, itemsize as isize);
        let (long, short) = (item * (columns + APART) as isize, item * (rows + APART) as isize);
        let both = [([item, short], [long, item]), ([long, item], [item, short])];
        let seconds = both.map(|(to, from)| seconds_per_byte([rows, columns], itemsize, to, from));
        Some(1.0 / seconds.into_iter().sum::<Option<f64>>()?)
    })
}

/// Bytes in a second that one thread copies, on their way into frames and out again.
pub(super) fn copied() -> f64 {
    static RATE: Measured = Measured::new();
    RATE.get_or_try(UNKNOWN, || {
        let columns = BYTES / ROWS;
        let strides = [(columns + APART) as isize, 1];
        Some(0.5 / seconds_per_byte([ROWS, columns], 1, strides, strides)?)
    })
}

/// Bytes of what is copied to measure: what was just read is not in a cache either.
const BYTES: usize = 8 << 20;
/// Elements along one of its axes.
const ROWS: usize = 2048;
/// Elements between two lines, as of a part of an array whose lines are no power of two.
const APART: usize = 67;

/// Bytes in a second of a processor that cannot be measured.
const UNKNOWN: f64 = 1e9;

/// How often that is done.
const MEASURED: usize = 3;

/// Seconds that one thread takes for a byte of a block, from and to these strides; `None` where the system has no
/// memory to measure with.
fn seconds_per_byte(shape: [usize; 2], itemsize: usize, to: [isize; 2], from: [isize; 2]) -> Option<f64> {
    let room = (shape[0] + APART) * (shape[1] + APART) * itemsize;
    let (mut source, mut target) = (Vec::new(), Vec::new());
    for (memory, value) in [(&mut source, 1_u8), (&mut target, 2)] {
        memory.try_reserve_exact(room).ok()?;
        memory.resize(room, value);
    }
    let extents = shape.map(|n| n as u64);
    // The best of some, as others may use the processor at any moment.
    let fastest = (0..MEASURED).map(|_| {
        let begin = Instant::now();
        // SAFETY: both blocks have room for the shape at these strides.
        unsafe { strided::copy(target.as_mut_ptr(), &to, source.as_ptr(), &from, &extents, itemsize) };
        std::hint::black_box(&target);
        begin.elapsed().as_secs_f64()
    });
    Some(fastest.fold(f64::INFINITY, f64::min).max(1e-9) / (shape[0] * shape[1] * itemsize) as f64)
}
