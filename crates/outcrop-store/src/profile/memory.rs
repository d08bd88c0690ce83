//! What it costs to use memory for the first time.

use crate::error::Result;
use crate::frame::{Budget, Frame};
use crate::io::Cancel;
use crate::profile::on_thread;
use crate::strided;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are used at once. The time is noted when it is as many as before again.
const STEP: usize = 64 << 20;
/// Bytes of all, at most.
const MOST: usize = 4 << 30;
/// After this, no more is used.
const ENOUGH: Duration = Duration::from_secs(3);
/// Bytes of a small page, each of which may be one of its own.
const PAGE: usize = 4096;
/// Frames in which elements are put in order: together they are larger than caches.
const ARRANGED: usize = 4;
/// Threads that do it, at most, and the rows of what each turns.
const MOST_THREADS: usize = 256;
const ROWS: usize = 1000;

/// How long all threads took to use so much memory for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstUse {
    /// Bytes.
    pub bytes: u64,
    /// Seconds for all of them.
    pub seconds: f64,
}

/// How fast elements are put in order by all threads at once, in memory that is in no cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arranging {
    /// Bytes in a second, elements of one byte each, of which rows become columns.
    pub turned: f64,
    /// Bytes in a second that are copied as they lie.
    pub copied: f64,
}

/// Uses what is free of the budget, 4 GiB at most, puts elements in order in a part of it, and gives it back. `watch` is
/// called after every 64 MiB.
///
/// Next to nothing on most machines. Virtual ones that give memory back to their host while they are idle have some at
/// hand, and then need seconds for each GiB, which is longer than writing and reading as much.
///
/// # Errors
/// [`crate::Error::Interrupted`]; [`crate::Error::OutOfMemory`] where the system refuses what the budget allows.
pub fn measure_memory(
    budget: &Arc<Budget>,
    threads: usize,
    cancel: &Cancel,
    watch: &mut dyn FnMut(),
) -> Result<(Vec<FirstUse>, Option<Arranging>)> {
    // Only what is not in use yet shows it.
    budget.trim();
    let (mut frames, mut points) = (Vec::new(), Vec::new());
    let mut taken = Duration::ZERO;
    while let Some(mut frame) = budget.try_frame(STEP)? {
        let begin = Instant::now();
        std::thread::scope(|scope| -> Result<()> {
            for part in frame.bytes_mut().chunks_mut(STEP.div_ceil(threads.max(1))) {
                on_thread(scope, || part.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1))?;
            }
            Ok(())
        })?;
        taken += begin.elapsed();
        frames.push(frame);
        let used = frames.len() * STEP;
        if frames.len().is_power_of_two() {
            points.push(FirstUse { bytes: used as u64, seconds: taken.as_secs_f64() });
            if used >= MOST || taken >= ENOUGH {
                break;
            }
        }
        watch();
        cancel.check()?;
    }
    let arranging = match frames.len() {
        0 => None,
        count => {
            let last = count.saturating_sub(ARRANGED);
            let mut rate = |turn| arranged(&mut frames[last..], threads, turn);
            Some(Arranging { turned: rate(true)?, copied: rate(false)? })
        }
    };
    drop(frames);
    budget.trim();
    Ok((points, arranging))
}

/// Bytes in a second that all threads put in order, each from one half of its part of a frame to the other.
fn arranged(frames: &mut [Frame], threads: usize, turn: bool) -> Result<f64> {
    let begin = Instant::now();
    let mut bytes = 0;
    for frame in frames {
        let part = STEP / threads.clamp(1, MOST_THREADS);
        bytes += STEP / part * (part / 2 / ROWS * ROWS);
        std::thread::scope(|scope| -> Result<()> {
            for part in frame.bytes_mut()[..STEP / part * part].chunks_exact_mut(part) {
                on_thread(scope, move || {
                    let (from, to) = part.split_at_mut(part.len() / 2);
                    let columns = from.len() / ROWS;
                    let to_strides = if turn { [1, ROWS as isize] } else { [columns as isize, 1] };
                    let shape = [ROWS as u64, columns as u64];
                    // SAFETY: either half is at least as long as rows and columns say.
                    unsafe {
                        strided::copy(
                            to.as_mut_ptr(),
                            &to_strides,
                            from.as_ptr(),
                            &[columns as isize, 1],
                            &shape,
                            1,
                        );
                    }
                })?;
            }
            Ok(())
        })?;
    }
    Ok(bytes as f64 / begin.elapsed().as_secs_f64().max(1e-9))
}

/// Seconds for using so many bytes: between measured sizes on a straight line, beyond them as between the last two.
pub(super) fn seconds(points: &[FirstUse], bytes: u64) -> f64 {
    let (mut before, mut slope) = ((0.0, 0.0), 0.0);
    for point in points {
        slope = (point.seconds - before.1) / (point.bytes as f64 - before.0);
        if bytes <= point.bytes {
            break;
        }
        before = (point.bytes as f64, point.seconds);
    }
    before.1 + slope * (bytes as f64 - before.0)
}

/// Whether the figures can be calculated with.
pub(super) fn are_sound(points: &[FirstUse]) -> bool {
    let grow = |w: &[FirstUse]| w[0].bytes < w[1].bytes && w[0].seconds <= w[1].seconds;
    points.iter().all(|p| p.bytes > 0 && p.seconds.is_finite() && p.seconds >= 0.0)
        && points.windows(2).all(grow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_budget_is_used_and_given_back() {
        let budget = Budget::new(300 << 20);
        let (points, arranging) = measure_memory(&budget, 2, &Cancel::default(), &mut || {}).unwrap();
        let arranging = arranging.unwrap();
        assert!(arranging.turned > 0.0 && arranging.copied > 0.0, "{arranging:?}");
        let sizes: Vec<u64> = points.iter().map(|p| p.bytes >> 20).collect();
        assert!(are_sound(&points) && [64, 128, 256].starts_with(&sizes) && !sizes.is_empty(), "{points:?}");
        assert_eq!(budget.used(), 0);
        let nothing = measure_memory(&Budget::new(1 << 20), 2, &Cancel::default(), &mut || {});
        assert_eq!(nothing.unwrap(), (Vec::new(), None));
        let cancel = Cancel::default();
        let stopped = measure_memory(&budget, 2, &cancel, &mut || cancel.cancel());
        assert!(matches!(stopped, Err(crate::Error::Interrupted)), "{stopped:?}");
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn predictions_meet_the_points_and_continue_beyond_them() {
        let points = [(100, 1.0), (200, 1.5), (400, 5.5)].map(|(bytes, seconds)| FirstUse { bytes, seconds });
        for (bytes, expected) in
            [(0, 0.0), (50, 0.5), (100, 1.0), (150, 1.25), (300, 3.5), (400, 5.5), (600, 9.5)]
        {
            assert!((seconds(&points, bytes) - expected).abs() < 1e-9, "{bytes}");
        }
        assert_eq!(seconds(&[], 1 << 40), 0.0);
    }
}
