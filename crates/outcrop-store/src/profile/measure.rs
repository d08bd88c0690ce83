//! Takes the figures of a profile, on a temporary file.
//!
//! - The file has no name while it is used, so that a killed process leaves nothing.
//! - It is written once before anything is read: space that was only allocated is read as zeros
//!   without asking the device. This first write has a figure of its own, since thin devices find
//!   room for it first. Before each measurement of writes the file's extents are marked as not
//!   written again, so that the file system has the work that it has with the files of new arrays.
//! - Reads take their offsets from a permutation of the whole file, so that within a measurement no
//!   cache on the way sees an offset twice.
//! - Memory is one large frame, like a tile's: on huge pages, which direct I/O of large requests needs
//!   to be fast.
//! - Where the page cache cannot be bypassed, it forgets the file before each measurement, and writes
//!   count as done when they are synced.
//! - What tells how long a run takes ends when all is durable: devices that keep
//!   gigabytes in a memory of their own were seen to take them four times as fast as they store them.
//!   Requests of different sizes are compared by less.

mod bench;
mod file;
mod lanes;
mod random;

use super::{Device, Lasting, Point, Profile, VERSION};
use crate::error::Result;
use crate::io::{Cancel, Disk};
use bench::Bench;
use file::forget_extents;
use lanes::Order;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Memory for all requests in flight.
const MEMORY: usize = 32 << 20;
/// The shallowest queue is chosen of those that reach this part of the best bandwidth.
const ENOUGH: f64 = 0.97;

/// A measurement below this part of the first look was disturbed.
const DISTURBED: f64 = 0.6;
/// Measurements at a depth, at most.
const MEASUREMENTS: usize = 3;

/// How long everything may take.
struct Plan {
    requests: &'static [usize],
    /// Depths to try, as far as memory and engine allow.
    depths: &'static [usize],
    /// Bytes of the file, if there is room.
    file: u64,
    /// Writing the file, once and again, stops here, and the file is then as long as it is.
    fill: Duration,
    /// Of a first look at a depth.
    trial: Duration,
    /// Of the measurement at the depth chosen.
    window: Duration,
    /// Of reading and writing at once, before what was written is made durable.
    together: Duration,
    /// After this, on a slow device, first looks are all there is.
    total: Duration,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const QUICK: Plan = Plan {
    requests: &[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB],
    depths: &[1, 16, 64, 128],
    file: 128 << 20,
    fill: Duration::from_millis(300),
    trial: Duration::from_millis(12),
    window: Duration::from_millis(30),
    together: Duration::from_millis(60),
    total: Duration::from_millis(1000),
};

#[rustfmt::skip]
const FULL: Plan = Plan {
    requests: &[
        4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB,
    ],
    depths: &[1, 4, 16, 64, 128],
    file: 1 << 30,
    fill: Duration::from_secs(4),
    trial: Duration::from_millis(50),
    window: Duration::from_millis(250),
    together: Duration::from_secs(4),
    total: Duration::from_secs(20),
};

/// Measures the device that a directory lies on, in about one second where `quick` is set, and in ten
/// to thirty otherwise. It needs 32 MiB of memory and at most a tenth of the free space, for as
/// long as it runs. `progress` is called with the steps done and the steps there are.
///
/// # Errors
/// [`crate::Error::NoSpace`] where less than 80 MiB are free, [`crate::Error::Interrupted`], or the operating
/// system's, such as where the directory cannot be written.
pub fn measure(
    disk: &Arc<Disk>,
    dir: &Path,
    quick: bool,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Profile> {
    let plan = if quick { &QUICK } else { &FULL };
    let device = Device::of(dir)?;
    let mut bench = Bench::new(disk, dir, plan.file, cancel)?;
    let requests: Vec<usize> =
        plan.requests.iter().copied().filter(|&r| r as u64 <= bench.len() / 4).collect();

    let total = 2 * requests.len() as u64 + 4;
    let mut done = 0;
    let mut step = || {
        progress(done, total);
        done += 1;
    };
    step();
    let first_writes = bench.fill(plan.fill)?;
    step();
    let rewrites = bench.refill(plan.fill)?;
    step();
    let mut reads = Vec::new();
    for &request in &requests {
        let order = Order::new(request, bench.len());
        reads.push(best(&mut bench, plan, request, &mut |bench, depth, time| {
            bench.read(&order, depth, time)
        })?);
        step();
    }
    // Before the writes, which leave parts of the file unwritten.
    // As much at once as a run moves: in a moment, devices move more.
    let other = bench.another()?;
    let (first_both, written) = bench.both(&other, bench.len(), plan.together)?;
    step();
    // Only what was written is space that the device has used.
    forget_extents(&other, 0, written);
    let (both, _) = bench.both(&other, written, plan.together)?;
    drop(other);
    step();
    let mut writes = Vec::new();
    for &request in &requests {
        writes.push(best(&mut bench, plan, request, &mut |bench, depth, time| {
            bench.write(request, depth, time)
        })?);
        step();
    }
    // Who stops it after the last step has stopped it.
    cancel.check()?;
    Ok(Profile {
        version: VERSION,
        directory: dir.canonicalize().unwrap_or_else(|_| dir.into()),
        device,
        engine: disk.engine().into(),
        reasons: disk.reasons().to_vec(),
        direct: bench.file().is_direct(),
        alignment: bench.file().block() as u64,
        date: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        quick,
        reads,
        writes,
        both,
        first_both,
        first_writes,
        rewrites,
        memory: Vec::new(),
        arranging: None,
    })
}

/// Measures at a depth, for a time, and gives bytes in a second.
type Measurement<'m, 'a> = dyn FnMut(&mut Bench<'a>, usize, Duration) -> Result<f64> + 'm;

/// The bandwidth of requests of one size at the best depth, found by a short look at each.
///
/// All depths are looked at, because noise can hide for a moment that a deeper queue helps.
fn best<'a>(
    bench: &mut Bench<'a>,
    plan: &Plan,
    request: usize,
    run: &mut Measurement<'_, 'a>,
) -> Result<Point> {
    let most = bench.most(request);
    let depths = plan.depths.iter().copied().filter(|&d| d < most).chain([most]);
    let mut looks: Vec<(usize, f64)> = Vec::new();
    let mut best = 0.0;
    for depth in depths {
        // Draining a deep queue must not take a slow device many times the time there is.
        if best > 0.0 && (depth * request) as f64 / best > 4.0 * plan.trial.as_secs_f64() {
            break;
        }
        let rate = run(bench, depth, plan.trial)?;
        looks.push((depth, rate));
        best = best.max(rate);
    }
    let chosen = looks.into_iter().find(|&(_, rate)| rate >= ENOUGH * best);
    let (depth, look) = chosen.expect("the best look is among the looks");
    // Measured anew, because the best of several looks is the luckiest, too; and again where others used the device
    // meanwhile.
    let mut rate = None;
    for _ in 0..MEASUREMENTS {
        if bench.elapsed() >= plan.total || rate.is_some_and(|rate| rate >= DISTURBED * look) {
            break;
        }
        let measured = run(bench, depth, plan.window)?;
        rate = Some(rate.map_or(measured, |before: f64| before.max(measured)));
    }
    let rate = rate.unwrap_or(look);
    Ok(Point { request: request as u64, depth: depth as u32, bytes_per_second: rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::io::EngineChoice;

    fn quickly(choice: EngineChoice) {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(choice).unwrap();
        let mut steps = Vec::new();
        let profile = measure(&disk, dir.path(), true, &Cancel::default(), &mut |done, total| {
            steps.push((done, total));
        });
        let profile = profile.unwrap();
        assert!(profile.is_sound() && profile.quick, "{profile:?}");
        assert_eq!(profile.engine, disk.engine());
        assert_eq!(profile.reads.len(), profile.writes.len());
        let total = steps[0].1;
        assert!(steps.iter().enumerate().all(|(i, &step)| step == (i as u64, total)), "{steps:?}");
        assert_eq!(steps.len() as u64, total + 1);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
    }

    #[test]
    fn both_engines_are_measured_and_leave_nothing() {
        quickly(EngineChoice::Auto);
        quickly(EngineChoice::Threads);
    }

    #[test]
    fn interrupted_it_stops_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let moments: [fn(u64, u64) -> bool; 2] = [|done, _| done == 2, |done, total| done == total];
        for is_there in moments {
            let cancel = Cancel::default();
            let result = measure(&disk, dir.path(), true, &cancel, &mut |done, total| {
                if is_there(done, total) {
                    cancel.cancel();
                }
            });
            assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn refusals_are_typed_and_name_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let measured = |faults: &str| {
            disk.set_faults(Some(Arc::new(faults.parse().unwrap())));
            measure(&disk, dir.path(), true, &Cancel::default(), &mut |_, _| {})
        };
        let refused = measured("create:1:eperm:once");
        assert!(matches!(&refused, Err(Error::Io { path, .. }) if path == dir.path()), "{refused:?}");
        let full = measured("write:3:enospc:always");
        assert!(matches!(&full, Err(Error::NoSpace { path, .. }) if path == dir.path()), "{full:?}");
        let broken = measured("read:5:eio:always");
        assert!(matches!(&broken, Err(Error::Io { path, .. }) if path == dir.path()), "{broken:?}");
        let missing = measure(&disk, &dir.path().join("missing"), true, &Cancel::default(), &mut |_, _| {});
        assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
