//! Numbers that are measured once in a process.

use std::sync::atomic::{AtomicU64, Ordering};

/// A positive number that is measured when it is first asked for.
///
/// There is no lock, and two threads may both measure: one that is held while another thread forks is held for ever in
/// the child.
#[derive(Debug, Default)]
pub struct Measured(AtomicU64);

impl Measured {
    /// One that is not measured yet.
    pub const fn new() -> Measured {
        Measured(AtomicU64::new(0))
    }

    /// The number, or another one where it cannot be measured now.
    pub fn get_or_try(&self, otherwise: f64, measure: impl FnOnce() -> Option<f64>) -> f64 {
        let known = f64::from_bits(self.0.load(Ordering::Relaxed));
        if known > 0.0 {
            return known;
        }
        let Some(measured) = measure() else { return otherwise };
        self.0.store(measured.to_bits(), Ordering::Relaxed);
        measured
    }
}
