//! How long a device takes for requests of different sizes.

use outcrop_store::profile::Profile;

/// What a request costs beside its bytes, in bytes that could be moved in the time, and bytes in a second, where
/// nothing was measured.
const REQUEST: f64 = 16384.0;
const RATE: f64 = 1e9;

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
        seconds(bytes, count, |request, count| match &self.profile {
            Some(profile) => {
                // Space that was just allocated takes longer, whatever the size of requests.
                let known = LARGEST as f64 / profile.write_seconds(LARGEST, 1).max(1e-12);
                let slower = if again { 1.0 } else { (known / profile.first_writes).max(1.0) };
                profile.write_seconds(request, count) * slower
            }
            None => unknown(request, count),
        })
    }

    /// The fewest seconds in which `bytes` bytes are moved, read and written together.
    pub fn both(&self, bytes: u64) -> f64 {
        bytes as f64 / self.profile.as_ref().map_or(1.5 * RATE, |p| p.both)
    }
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
