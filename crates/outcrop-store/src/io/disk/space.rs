//! Space that is still to be taken: whether a file system has it, counting what others are to take.
//!
//! A new array whose tiles are files takes its space tile by tile. Until it has, the space is
//! [promised](Disk::promise) to it, so that another result, or scratch, on the same file system is refused
//! before anything is computed, rather than one of them on the way.

use super::{Disk, device_of, free_space};
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What lets space go that is only kept to be fast; whether there was any.
type Reclaim = Box<dyn Fn() -> bool + Send + Sync>;

/// The promises of a disk, and what can be had back.
#[derive(Default)]
pub(super) struct Ledger {
    promises: Mutex<Vec<Arc<Entry>>>,
    reclaim: Mutex<Option<Reclaim>>,
}

/// What somebody is to take of a device.
struct Entry {
    device: u64,
    name: PathBuf,
    bytes: u64,
    /// Bytes that are not taken yet.
    left: AtomicU64,
}

/// Space that is counted as taken until this is ended, or goes.
pub struct Promise {
    disk: Arc<Disk>,
    entry: Arc<Entry>,
}

impl Promise {
    /// That some of it is in files now.
    pub fn took(&self, bytes: u64) {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        // The closure never refuses.
        let _ = self.entry.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// That all that will be is taken, or that nothing more will be. Again, nothing happens.
    pub fn end(&self) {
        self.disk.ledger.lock().retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.end();
    }
}

impl Ledger {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Entry>>> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// An error where a directory's file system has not `needed` bytes left beside what is promised.
    ///
    /// # Errors
    /// [`Error::NoSpace`], naming those to whom other space is promised.
    pub fn require_space(&self, dir: &Path, needed: u64) -> Result<()> {
        self.check(&self.ledger.lock(), dir, device_of(dir)?, dir, needed)
    }

    /// Promises the space of what becomes `name` in a directory.
    ///
    /// # Errors
    /// As for [`require_space`](Self::require_space).
    pub fn promise(self: &Arc<Self>, dir: &Path, name: &Path, needed: u64) -> Result<Promise> {
        let device = device_of(dir)?;
        // Looked at and entered in one: two results are not promised the same space.
        let mut promises = self.ledger.lock();
        self.check(&promises, dir, device, name, needed)?;
        let entry = Arc::new(Entry { device, name: name.into(), bytes: needed, left: needed.into() });
        promises.push(Arc::clone(&entry));
        drop(promises);
        Ok(Promise { disk: Arc::clone(self), entry })
    }

    /// Says how space is had back that is only kept because using it again is fast.
    pub fn set_reclaim(&self, reclaim: impl Fn() -> bool + Send + Sync + 'static) {
        *self.ledger.reclaim.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(reclaim));
    }

    /// Has such space back; whether there was any.
    pub(super) fn reclaim(&self) -> bool {
        let reclaim = self.ledger.reclaim.lock().unwrap_or_else(PoisonError::into_inner);
        reclaim.as_ref().is_some_and(|reclaim| reclaim())
    }

    fn check(
        &self,
        promises: &[Arc<Entry>],
        dir: &Path,
        device: u64,
        name: &Path,
        needed: u64,
    ) -> Result<()> {
        let beside = promises.iter().filter(|entry| entry.device == device);
        let promised: u64 = beside.clone().map(|entry| entry.left.load(Ordering::Relaxed)).sum();
        let free = || Ok(free_space(dir)?.saturating_sub(promised));
        if needed <= free()? || (self.reclaim() && needed <= free()?) {
            return Ok(());
        }
        let beside = beside.map(|entry| (entry.name.clone(), entry.bytes)).collect();
        Err(Error::NoSpace { path: name.into(), needed, free: free()?, beside })
    }
}
