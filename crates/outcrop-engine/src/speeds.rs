//! How fast a device and the processors are.

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
