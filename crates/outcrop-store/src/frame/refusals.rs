//! Memory that the system is said not to have, for tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which requests of one kind are refused.
pub struct Refusals {
    armed: AtomicBool,
    always: AtomicBool,
    nth: AtomicU64,
    seen: AtomicU64,
}

/// Requests for memory that is large: mappings of frames, stacks of threads, the room of codecs.
pub static MEMORY: Refusals = Refusals::none();

/// Requests for anything on the heap. Who allocates asks here; this crate has no allocator of its own.
pub static HEAP: Refusals = Refusals::none();

impl Refusals {
    const fn none() -> Refusals {
        Refusals {
            armed: AtomicBool::new(false),
            always: AtomicBool::new(false),
            nth: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }

    /// Refuses the `nth` request from now on, counted from 1, and with `always` every later one; or none.
    pub fn set(&self, rule: Option<(u64, bool)>) {
        self.armed.store(false, Ordering::SeqCst);
        let Some((nth, always)) = rule else { return };
        self.nth.store(nth, Ordering::SeqCst);
        self.always.store(always, Ordering::SeqCst);
        self.seen.store(0, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Requests seen since the rule was set.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }

    /// Counts a request, and says whether it is refused.
    #[inline]
    pub fn next(&self) -> bool {
        self.armed.load(Ordering::Relaxed) && self.count()
    }

    #[cold]
    fn count(&self) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        let nth = self.nth.load(Ordering::Relaxed);
        seen == nth || seen > nth && self.always.load(Ordering::Relaxed)
    }
}
