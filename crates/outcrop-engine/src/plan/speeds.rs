//! How fast a device and the processors are.

use super::device::Device;
use super::measured::Measured;
use crate::runtime::Runtime;
use outcrop_store::format::crc32c;
use outcrop_store::io::disk::parent_of;
use outcrop_store::profile;
use std::path::Path;
use std::time::Instant;

/// Bytes of a request by which a device's speed is judged.
const LARGE: u64 = 2 << 20;
/// Bytes of a request that takes hardly longer than one of a byte.
const SMALL: u64 = 4096;

/// What a prediction assumes of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// Bytes read in a second.
    pub read: f64,
    /// Bytes written in a second.
    pub write: f64,
    /// Bytes moved in a second where both directions are busy.
    pub both: f64,
    /// Seconds that a request takes beside its bytes, enough of them in flight.
    pub request: f64,
    /// Bytes in a second that one thread reads through: loads and stores take the processors' time for
    /// checksums.
    pub checksum: f64,
    /// Threads for steps.
    pub threads: usize,
}

impl Runtime {
    /// The speeds of the device that an array is on, for predictions of runs that move `bytes` bytes
    /// there; made up where the device is not known and the run is small.
    pub fn speeds(&self, array: &Path, bytes: u64) -> Speeds {
        self.tune(array, bytes);
        let threads = self.settings().threads;
        let profile = profile::load(parent_of(array)).ok().flatten();
        match profile.filter(|p| p.engine == self.disk().engine()) {
            Some(profile) => {
                let rate = |seconds: f64| LARGE as f64 / seconds.max(1e-9);
                let read = rate(profile.read_seconds(LARGE, 1));
                // Results are written where nothing was before.
                let write = rate(profile.write_seconds(LARGE, 1)).min(profile.first_writes.bytes_per_second);
                let both = profile.first_both.bytes_per_second.max(read).max(write);
                let request = (profile.read_seconds(SMALL, 1) - SMALL as f64 / read).max(0.0);
                Speeds { read, write, both, request, checksum: checksum_rate(), threads }
            }
            None => {
                let (read, write, both, request) = (1e9, 1e9, 1.5e9, 16e-6);
                Speeds { read, write, both, request, checksum: checksum_rate(), threads }
            }
        }
    }

    /// The device that an array is on, for runs that move `bytes` bytes there.
    pub fn device(&self, array: &Path, bytes: u64) -> Device {
        self.tune(array, bytes);
        let profile = profile::load(parent_of(array)).ok().flatten();
        Device::new(profile.filter(|p| p.engine == self.disk().engine()))
    }
}

/// Bytes in a second that one thread computes the checksum of. Measured once, in a few milliseconds.
fn checksum_rate() -> f64 {
    static RATE: Measured = Measured::new();
    RATE.get_or_try(1e10, || {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(16 << 20).ok()?;
        bytes.resize(16 << 20, 1);
        let begin = Instant::now();
        std::hint::black_box(crc32c(&bytes));
        Some(bytes.len() as f64 / begin.elapsed().as_secs_f64().max(1e-9))
    })
}
