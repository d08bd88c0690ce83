//! How long a device takes for requests of different sizes.

use outcrop_store::profile::{Arranging, Lasting, Profile};

/// What a request costs beside its bytes, in bytes that could be moved in the time, and bytes in a second, where
/// nothing was measured.
const REQUEST: f64 = 16384.0;
const RATE: f64 = 1e9;

/// Seconds that the file system takes for each piece of a new file that is not written after the one before it.
/// (Measured, ext4: 24 KiB 1.0, 64 KiB 1.5, 144 KiB 1.9, 8 MiB 2.2 GB/s.)
const SCATTERED: f64 = 12e-6;

/// What part of the time that devices need to store what was written at once is left at the end of a run, however long
/// that was: the last of what was written.
/// (Measured: 0.2 to 2.7 s after four runs that wrote 4 GiB in 6 to 7 s, where the profile said 3.4.)
const LEFT: f64 = 0.3;

/// Bytes of the largest request that is made: longer pieces of files are several requests.
const LARGEST: u64 = 2 << 20;

/// The device that an array lies on.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Option<Profile>,
}

impl Device {
    /// A device with this profile, or one of which nothing is known.
    pub fn new(profile: Option<Profile>) -> Device {
        Device { profile }
    }

    /// Whether its speed was measured.
    pub fn is_measured(&self) -> bool {
        self.profile.is_some()
    }

    /// Seconds for reading `count` pieces of `bytes` bytes each.
    pub fn read(&self, bytes: u64, count: u64) -> f64 {
        seconds(bytes, count, |request, count| match &self.profile {
            Some(profile) => profile.read_seconds(request, count),
            None => unknown(request, count),
        })
    }

    /// Seconds for writing `count` pieces of `bytes` bytes each, where nothing was written before, or `again`
    /// over what this run has written.
    pub fn write(&self, bytes: u64, count: u64, again: bool) -> f64 {
        let known = seconds(bytes, count, |request, count| match &self.profile {
            Some(profile) => profile.write_seconds(request, count),
            None => unknown(request, count),
        });
        let known = known * self.slower(again);
        if again { known } else { known + count as f64 * SCATTERED }
    }

    /// The fewest seconds in which `read` bytes are read and `written` bytes written, together; `again` as for
    /// [`write`](Self::write).
    pub fn both(&self, read: u64, written: u64, again: bool) -> f64 {
        (read as f64 + written as f64) / self.rates(again)[2]
    }

    /// Seconds in which the device reads and writes at once what takes it `reading` and `writing` seconds alone: their
    /// sum where it does one thing at a time, and the longer of them where neither is in the other's way. Between
    /// these, the norm of the two that is right for large requests, which were measured in both directions at once.
    pub fn at_once(&self, reading: f64, writing: f64, again: bool) -> f64 {
        let [read, write, both] = self.rates(again);
        let (mut least, mut most) = NORMS;
        for _ in 0..40 {
            let between = (least + most) / 2.0;
            // The larger the exponent, the less time.
            let fits = norm(between, 1.0 / read, 1.0 / write) >= 2.0 / both;
            *if fits { &mut least } else { &mut most } = between;
        }
        norm(least, reading, writing)
    }

    /// Bytes in a second of large requests: read, written, and in both directions at once.
    fn rates(&self, again: bool) -> [f64; 3] {
        self.profile.as_ref().map_or([RATE, RATE, 1.5 * RATE], |p| {
            let read = LARGEST as f64 / p.read_seconds(LARGEST, 1);
            let [write, both] = if again { [p.rewrites, p.both] } else { [p.first_writes, p.first_both] };
            [read, write.bytes_per_second, both.bytes_per_second]
        })
    }

    /// Seconds until so many bytes of memory, used for the first time, are there.
    pub fn first_use(&self, bytes: usize) -> f64 {
        self.profile.as_ref().map_or(0.0, |p| p.first_use_seconds(bytes as u64))
    }

    /// Seconds until `bytes` bytes are durable that are written while as much is read, the first of them after `first`
    /// seconds, and the last after `last`.
    ///
    /// A device that takes bytes faster than it stores them stores without a pause from the first one on. So all that a
    /// run gains by writing the last one early it waits for in the end.
    pub fn durable(&self, bytes: u64, first: f64, last: f64) -> f64 {
        let Some(p) = &self.profile else { return last };
        // Devices that take bytes more slowly where some were before have stored more of them by then.
        let mean = |of: fn(&Lasting) -> f64| bytes as f64 * (of(&p.both) + of(&p.first_both)) / 2.0;
        let storing = mean(|found| 2.0 / found.bytes_per_second + found.keeping);
        let left = LEFT * mean(|found| found.keeping);
        (first + storing).max(last + left)
    }

    /// How fast all threads together put bytes in order that are in no cache, where that was measured.
    pub fn arranging(&self) -> Option<Arranging> {
        self.profile.as_ref().and_then(|p| p.arranging)
    }

    /// How many times as long as for a moment writing takes, whatever the size of requests; `again` as for
    /// [`write`](Self::write).
    fn slower(&self, again: bool) -> f64 {
        let [_, lasting, _] = self.rates(again);
        let rate = |p: &Profile| LARGEST as f64 / p.write_seconds(LARGEST, 1).max(1e-12);
        self.profile.as_ref().map_or(1.0, |p| rate(p) / lasting).max(1.0)
    }
}

/// Exponents of norms that are considered: from a sum to nearly the larger.
const NORMS: (f64, f64) = (1.0, 16.0);

fn norm(exponent: f64, one: f64, other: f64) -> f64 {
    let larger = one.max(other);
    if larger == 0.0 {
        return 0.0;
    }
    larger * ((one / larger).powf(exponent) + (other / larger).powf(exponent)).powf(1.0 / exponent)
}

fn unknown(request: u64, count: u64) -> f64 {
    count as f64 * (request as f64 + REQUEST) / RATE
}

/// Pieces of files as requests.
fn seconds(bytes: u64, count: u64, each: impl Fn(u64, u64) -> f64) -> f64 {
    if bytes <= LARGEST {
        return each(bytes.max(1), count);
    }
    count as f64 * bytes as f64 / LARGEST as f64 * each(LARGEST, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcrop_store::profile::{self, Point};
    use std::path::Path;

    /// A device that reads, and writes in space that it has used, 2 GB/s; in other space, half of that.
    fn thin() -> Device {
        let lasting = |bytes_per_second| Lasting { bytes_per_second, keeping: 0.0 };
        let points = |rate| vec![Point { request: 1 << 20, depth: 4, bytes_per_second: rate }];
        Device::new(Some(Profile {
            version: 0,
            directory: ".".into(),
            device: profile::Device::of(Path::new(".")).unwrap(),
            engine: String::new(),
            reasons: Vec::new(),
            direct: true,
            alignment: 4096,
            date: 0,
            quick: true,
            reads: points(2e9),
            writes: points(2e9),
            both: lasting(3e9),
            first_both: lasting(1.5e9),
            first_writes: lasting(1e9),
            rewrites: lasting(2e9),
            memory: Vec::new(),
            arranging: None,
        }))
    }

    #[test]
    fn what_is_written_early_is_waited_for_and_what_is_written_late_is_stored_by_then() {
        let mut thin = thin();
        let profile = thin.profile.as_mut().unwrap();
        (profile.both.keeping, profile.first_both.keeping) = (1e-9, 1e-9);
        // One second for reading and writing, on average over both kinds of space, another one for storing; all of it,
        // or that of what is written last.
        let seconds = |first, last| thin.durable(1_000_000_000, first, last);
        assert!((seconds(0.5, 1.0) - 2.5).abs() < 1e-9);
        assert!((seconds(0.5, 9.0) - 9.0 - LEFT).abs() < 1e-9);
        assert_eq!(Device::new(None).durable(1 << 30, 0.5, 9.0), 9.0);
    }

    #[test]
    fn new_space_is_written_to_more_slowly_alone_and_beside_reading() {
        let (thin, gigabyte) = (thin(), 1_000_000_000);
        let is = |seconds: f64, expected: f64| (seconds - expected).abs() < 0.01 * expected;
        assert!(is(thin.write(gigabyte, 1, true), 0.5));
        assert!(is(thin.write(gigabyte, 1, false), 1.0));
        assert!(is(thin.both(gigabyte, gigabyte, true), 2.0 / 3.0));
        assert!(is(thin.both(gigabyte, gigabyte, false), 4.0 / 3.0));
        // As long as each takes alone for one byte in both directions: what was measured.
        assert!(is(thin.at_once(0.5, 0.5, true), 2.0 / 3.0));
        assert!(is(thin.at_once(0.5, 1.0, false), 4.0 / 3.0));
    }
}
