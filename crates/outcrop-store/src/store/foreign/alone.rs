//! `zarrs` on threads of ours.
//!
//! Many chunks are worked on at once, each by one thread of ours, so that `zarrs` needs none. But it asks `rayon` how
//! many there are, which starts them; where the system gives none, that panics, and does so again ever after. And
//! shards inside shards are encoded by `rayon` in any case.

use super::bounded;
use crate::thread;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use zarrs::array::CodecOptions;

/// Options for one thread.
pub(super) fn options() -> CodecOptions {
    static OPTIONS: OnceLock<CodecOptions> = OnceLock::new();
    *OPTIONS.get_or_init(|| {
        // Whoever is the one thread of a pool is told of no other. It stays that, and nothing is started.
        let only = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        drop(zarrs::config::global_config());
        let options = CodecOptions::default().with_concurrent_target(1);
        std::mem::forget(only);
        options
    })
}

/// Threads for an array whose shards hold shards, started when they are needed first.
#[derive(Default)]
pub(super) struct Pool(Mutex<Option<Arc<ThreadPool>>>);

impl Pool {
    /// Does something on these threads; or says why not.
    pub(super) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, String> {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = match &*pool {
            Some(threads) => Arc::clone(threads),
            None => {
                let start = |one: rayon::ThreadBuilder| {
                    let started = thread::start("outcrop-codec", move || one.run());
                    started.map(drop).map_err(io::Error::other)
                };
                let made = ThreadPoolBuilder::new().spawn_handler(start).build();
                let made = Arc::new(made.map_err(|_| bounded::refuse(thread::STACK))?);
                Arc::clone(pool.insert(made))
            }
        };
        drop(pool);
        Ok(threads.install(work))
    }
}
