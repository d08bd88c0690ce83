//! What a run cost.

use std::sync::Arc;
use std::time::Duration;

/// The cost of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What ran, such as `copy`.
    pub operation: &'static str,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Wall time.
    pub elapsed: Duration,
    /// Time in which data moved while steps ran; where there are no steps, in which loads and stores
    /// were both under way.
    pub overlap: Duration,
    /// Time in which data moved. Zero where it is not kept.
    pub io_busy: Duration,
    /// Arithmetic operations.
    pub work: f64,
    /// By kernel, the time of its steps, added up over all threads.
    pub kernels: Vec<(Arc<str>, Duration)>,
    /// By kernel and array, what was moved for its steps.
    pub traffic: Vec<Traffic>,
    /// Most bytes of the budget in use at once.
    pub peak_bytes: u64,
    /// Most memory the process has had resident so far, in bytes, as the kernel says.
    pub peak_rss: u64,
}

/// What was moved of an array for the steps of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The kernel.
    pub kernel: Arc<str>,
    /// The array.
    pub array: Arc<str>,
    /// Bytes that were loaded.
    pub bytes_read: u64,
    /// Bytes that were stored.
    pub bytes_written: u64,
    /// How long threads had nothing to do until a tile was loaded, added up over all of them.
    pub waited: Duration,
}

impl Traffic {
    /// Adds this to what is known of its kernel and array.
    pub(crate) fn add_to(&self, all: &mut Vec<Traffic>) {
        match all.iter_mut().find(|one| one.kernel == self.kernel && one.array == self.array) {
            Some(one) => {
                one.bytes_read += self.bytes_read;
                one.bytes_written += self.bytes_written;
                one.waited += self.waited;
            }
            None => all.push(self.clone()),
        }
    }
}

impl Report {
    /// Adds what another run did, and its peaks.
    pub fn add(&mut self, other: &Report) {
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.elapsed += other.elapsed;
        self.work += other.work;
        self.overlap += other.overlap;
        self.io_busy += other.io_busy;
        for (name, time) in &other.kernels {
            match self.kernels.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += *time,
                None => self.kernels.push((Arc::clone(name), *time)),
            }
        }
        for one in &other.traffic {
            one.add_to(&mut self.traffic);
        }
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.peak_rss = self.peak_rss.max(other.peak_rss);
    }
}

/// The process's peak resident set in bytes; 0 where the kernel does not say.
pub fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
