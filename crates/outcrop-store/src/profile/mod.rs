//! The measured speed of a directory's device.
//!
//! - [`Profile`]: the figures, and what follows from them: request sizes, and predicted seconds.
//! - [`measure`]: how they are taken, and [`measure_memory`] those of memory.
//! - [`load`], [`save`]: where they are kept, so that a device is measured once.
//! - [`ensure`]: the three together.

mod cache;
mod device;
mod measure;
mod memory;

pub use cache::{load, save};
pub use device::Device;
pub use measure::measure;
pub use memory::{Arranging, FirstUse, measure_memory};

use crate::error::Result;
use crate::io::disk::Tuning;
use crate::io::{Cancel, Disk};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the stored form. A profile of another version is measured again.
const VERSION: u32 = 4;

/// The part of the best bandwidth that a request size must reach to be chosen: a little bandwidth is
/// given for smaller requests, with which loads start and end sooner.
const ENOUGH: f64 = 0.95;

/// The bandwidth of requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of a request.
    pub request: u64,
    /// Requests in flight: the fewest that gave the best bandwidth of those tried.
    pub depth: u32,
    /// Bytes moved in a second.
    pub bytes_per_second: f64,
}

/// How fast some GiB are moved, and how long it then takes until what was written is durable.
///
/// A device may say that it has what is only in a memory of its own. Some take gigabytes in this way, four times as fast
/// as they store them; whoever wants a result to be durable waits for the rest in the end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lasting {
    /// Bytes moved in a second.
    pub bytes_per_second: f64,
    /// Seconds for each byte written, after the last one.
    pub keeping: f64,
}

impl Lasting {
    /// Seconds until so many bytes, all of which are written, are durable.
    pub fn seconds(&self, bytes: u64) -> f64 {
        bytes as f64 * (1.0 / self.bytes_per_second + self.keeping)
    }

    fn is_sound(&self) -> bool {
        is_rate(self.bytes_per_second) && self.keeping.is_finite() && self.keeping >= 0.0
    }
}

/// How fast a directory's device is, and how it was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The version of this form.
    pub version: u32,
    /// The directory in which it was measured.
    pub directory: PathBuf,
    /// The device.
    pub device: Device,
    /// The engine with which it was measured.
    pub engine: String,
    /// Why the other engines were not used, one line each.
    pub reasons: Vec<String>,
    /// Whether requests bypassed the page cache.
    pub direct: bool,
    /// Offsets, lengths and memory of requests were multiples of this many bytes.
    pub alignment: u64,
    /// When it was measured, in seconds since 1970.
    pub date: u64,
    /// Whether it was measured in a second rather than in twenty.
    pub quick: bool,
    /// Reads at random offsets, by request size.
    pub reads: Vec<Point>,
    /// Writes one after the other into a file's unwritten extents, on blocks that the device has used
    /// before, by request size, for a moment: not until they are durable.
    pub writes: Vec<Point>,
    /// Large requests in both directions at once, reads and writes together, over what was written before.
    pub both: Lasting,
    /// The same where what is written is space that was just allocated.
    pub first_both: Lasting,
    /// Large writes to space that was just allocated. Where devices allocate on the first write, this is slower than
    /// [`rewrites`](Self::rewrites), and concerns what a run leaves.
    pub first_writes: Lasting,
    /// The same over what was written before.
    pub rewrites: Lasting,
    /// Memory used for the first time, by how much that is; empty where that was not measured.
    #[serde(default)]
    pub memory: Vec<FirstUse>,
    /// How fast elements are put in order in memory; `None` where that was not measured.
    #[serde(default)]
    pub arranging: Option<Arranging>,
}

impl Profile {
    /// Request sizes and depth for this device: the smallest requests that reach 95 % of the best
    /// bandwidth, and as many in flight as any size up to those needs. A queue has one depth for all
    /// requests, and small ones, of which an untiled array has many, need the most.
    pub fn tuning(&self) -> Tuning {
        let mut tuning = Tuning::default();
        let (reads, writes) = (up_to_sufficient(&self.reads), up_to_sufficient(&self.writes));
        tuning.read_request = reads.last().map_or(tuning.read_request, |p| p.request as usize);
        tuning.write_request = writes.last().map_or(tuning.write_request, |p| p.request as usize);
        tuning.depth = reads.iter().chain(writes).map(|p| p.depth as usize).max().unwrap_or(tuning.depth);
        tuning
    }

    /// Seconds that `count` reads of `request` bytes take, enough of them in flight.
    ///
    /// Never less for larger requests. Zero where nothing was measured.
    pub fn read_seconds(&self, request: u64, count: u64) -> f64 {
        count as f64 * seconds_each(&self.reads, request)
    }

    /// Seconds that `count` writes of `request` bytes take; otherwise as [`read_seconds`](Self::read_seconds).
    pub fn write_seconds(&self, request: u64, count: u64) -> f64 {
        count as f64 * seconds_each(&self.writes, request)
    }

    /// Seconds for using so many bytes of memory for the first time, beside what is done with them. Zero where nothing
    /// was measured.
    pub fn first_use_seconds(&self, bytes: u64) -> f64 {
        memory::seconds(&self.memory, bytes)
    }

    /// Whether the figures can be calculated with.
    fn is_sound(&self) -> bool {
        let sound = |points: &[Point]| {
            !points.is_empty()
                && points.windows(2).all(|w| w[0].request < w[1].request)
                && points.iter().all(|p| p.request > 0 && p.depth > 0 && is_rate(p.bytes_per_second))
        };
        self.version == VERSION
            && sound(&self.reads)
            && sound(&self.writes)
            && [self.both, self.first_both, self.first_writes, self.rewrites].iter().all(Lasting::is_sound)
            && memory::are_sound(&self.memory)
            && self.arranging.is_none_or(|rates| is_rate(rates.turned) && is_rate(rates.copied))
    }
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The points up to the smallest request that is fast enough.
fn up_to_sufficient(points: &[Point]) -> &[Point] {
    let best = points.iter().map(|p| p.bytes_per_second).fold(0.0, f64::max);
    let found = points.iter().position(|p| p.bytes_per_second >= ENOUGH * best);
    found.map_or(&[], |i| &points[..=i])
}

/// Seconds that each of many requests costs.
///
/// Between measured sizes, the logarithm of the time is a straight line over the logarithm of the
/// size: this is exact both where a request costs the same whatever its size and where bandwidth is
/// constant, which are the two ends of every device. Below the smallest size the cost stays, above
/// the largest the bandwidth does. A request that was measured to cost more than a larger one was
/// disturbed, which only ever makes it slower: it costs no more than that.
fn seconds_each(points: &[Point], request: u64) -> f64 {
    let cost = |i: usize| {
        let costs = points[i..].iter().map(|p| p.request as f64 / p.bytes_per_second);
        costs.fold(f64::INFINITY, f64::min)
    };
    let above = points.partition_point(|point| point.request < request);
    match (above.checked_sub(1), points.get(above)) {
        (None, None) => 0.0,
        (None, Some(_)) => cost(0),
        (Some(last), None) => cost(last) * request as f64 / points[last].request as f64,
        (Some(below), Some(point)) => {
            let (from, least) = (points[below].request as f64, cost(below));
            let part = (request as f64 / from).ln() / (point.request as f64 / from).ln();
            least * (cost(above) / least).powf(part)
        }
    }
}

/// The profile of a directory's device for the engine in use: the stored one, or one measured
/// quickly now, and stored.
///
/// # Errors
/// Those of [`measure`].
pub fn ensure(disk: &Arc<Disk>, dir: &Path, cancel: &Cancel) -> Result<Profile> {
    ensure_in(cache::cache_dir().as_deref(), disk, dir, cancel)
}

fn ensure_in(cache: Option<&Path>, disk: &Arc<Disk>, dir: &Path, cancel: &Cancel) -> Result<Profile> {
    let device = Device::of(dir)?;
    if let Some(profile) = cache.and_then(|cache| cache::load_from(cache, &device)) {
        if profile.engine == disk.engine() {
            return Ok(profile);
        }
        log::debug!("the profile of {} is of the {} engine; measuring again", dir.display(), profile.engine);
    }
    let profile = measure(disk, dir, true, cancel, &mut |_, _| {})?;
    if let Some(cache) = cache {
        cache::save_to(cache, &profile);
    }
    Ok(profile)
}

/// Starts a thread that measures.
fn on_thread<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> crate::Result<std::thread::ScopedJoinHandle<'scope, T>> {
    crate::thread::start_scoped(scope, "outcrop-measure", work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::EngineChoice;
    use proptest::prelude::*;

    pub(super) fn points(figures: &[(u64, u32, f64)]) -> Vec<Point> {
        figures
            .iter()
            .map(|&(request, depth, bytes_per_second)| Point { request, depth, bytes_per_second })
            .collect()
    }

    pub(super) fn made_up() -> Profile {
        Profile {
            version: VERSION,
            directory: "/somewhere".into(),
            device: Device { source: "/dev/made-up".into(), file_system: "ext4".into(), number: 7 },
            engine: "uring".into(),
            reasons: vec!["threads: not needed, uring works".into()],
            direct: true,
            alignment: 4096,
            date: 1_700_000_000,
            quick: false,
            reads: points(&[
                (4096, 128, 4e8),
                (65536, 64, 1.9e9),
                (1 << 20, 16, 2.45e9),
                (8 << 20, 4, 2.5e9),
            ]),
            writes: points(&[(4096, 16, 1e8), (65536, 16, 9e8), (1 << 20, 4, 1.8e9), (8 << 20, 4, 3.0e9)]),
            both: Lasting { bytes_per_second: 3.1e9, keeping: 0.0 },
            first_both: Lasting { bytes_per_second: 2.9e9, keeping: 2e-10 },
            first_writes: Lasting { bytes_per_second: 2.2e9, keeping: 3e-10 },
            rewrites: Lasting { bytes_per_second: 2.9e9, keeping: 1e-10 },
            memory: vec![
                FirstUse { bytes: 1 << 26, seconds: 0.01 },
                FirstUse { bytes: 1 << 27, seconds: 0.2 },
            ],
            arranging: Some(Arranging { turned: 3e9, copied: 9e9 }),
        }
    }

    #[test]
    fn the_smallest_sufficient_request_is_chosen() {
        assert_eq!(made_up().tuning(), Tuning { read_request: 1 << 20, write_request: 8 << 20, depth: 128 });
        let flat = Profile { reads: points(&[(4096, 1, 9.6e8), (65536, 4, 1e9)]), ..made_up() };
        assert_eq!(flat.tuning(), Tuning { read_request: 4096, write_request: 8 << 20, depth: 16 });
        let none = Profile { reads: Vec::new(), writes: Vec::new(), ..made_up() };
        assert_eq!(none.tuning(), Tuning::default());
        assert_eq!(none.read_seconds(4096, 10), 0.0);
    }

    #[test]
    fn predictions_meet_the_points_and_continue_beyond_them() {
        let profile = made_up();
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
        near(profile.read_seconds(1 << 20, 100), 100.0 * (1 << 20) as f64 / 2.45e9);
        near(profile.write_seconds(8 << 20, 1), (8 << 20) as f64 / 3.0e9);
        near(profile.read_seconds(512, 1), 4096.0 / 4e8);
        near(profile.write_seconds(64 << 20, 1), (64 << 20) as f64 / 3.0e9);
        // Halfway in the logarithms: the geometric mean of the two costs.
        let (low, high) = (profile.read_seconds(4096, 1), profile.read_seconds(65536, 1));
        near(profile.read_seconds(16384, 1), (low * high).sqrt());
    }

    /// A device that paused for a moment was thought a hundred times slower in all larger requests.
    #[test]
    fn a_disturbed_measurement_counts_for_no_other_size() {
        let sound = made_up();
        let mut reads = sound.reads.clone();
        reads[1].bytes_per_second /= 300.0;
        let disturbed = Profile { reads, ..made_up() };
        for request in [4096, 1 << 20, 5 << 20, 64 << 20] {
            assert_eq!(disturbed.read_seconds(request, 1), sound.read_seconds(request, 1), "{request}");
        }
        assert!(disturbed.read_seconds(65536, 1) <= sound.read_seconds(1 << 20, 1) * (1.0 + 1e-9));
    }

    #[test]
    fn a_device_is_measured_once_for_each_engine() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let ensured = |choice| {
            let disk = Disk::new(choice).unwrap();
            ensure_in(Some(&cache), &disk, dir.path(), &Cancel::default()).unwrap()
        };
        let first = ensured(EngineChoice::Auto);
        assert_eq!(ensured(EngineChoice::Auto), first);
        let other = ensured(EngineChoice::Threads);
        assert_eq!(other.engine, "threads");
        assert_eq!(ensured(EngineChoice::Threads), other);
    }

    proptest! {
        /// Also on points that noise has put out of order.
        #[test]
        fn a_larger_request_never_costs_less(
            rates in proptest::collection::vec(1e6..1e10f64, 1..12),
            mut sizes in (1u64..1 << 26, 1u64..1 << 26),
        ) {
            let reads = rates.iter().enumerate()
                .map(|(i, &rate)| Point { request: 4096 << i, depth: 1, bytes_per_second: rate }).collect();
            let profile = Profile { reads, ..made_up() };
            if sizes.0 > sizes.1 {
                sizes = (sizes.1, sizes.0);
            }
            let (small, large) = (profile.read_seconds(sizes.0, 3), profile.read_seconds(sizes.1, 3));
            prop_assert!(small > 0.0 && small <= large * (1.0 + 1e-9), "{} {}", small, large);
        }
    }
}
