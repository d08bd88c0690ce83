//! Random numbers, not secret ones.

use std::time::{SystemTime, UNIX_EPOCH};

/// A generator (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    /// Different every time: a device that has seen the same bytes before might not write them.
    pub(super) fn new() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Random(now ^ u64::from(std::process::id()) << 32)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Bytes that cannot be compressed.
pub(super) fn fill_randomly(bytes: &mut [u8]) {
    let mut random = Random::new();
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_ne_bytes());
    }
}
