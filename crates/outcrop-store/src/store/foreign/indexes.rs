//! Indexes of shards that were read while something was planned, for the load that needs them first.
//!
//! What a plan reads belongs to no run, whose report begins later. So that each byte is told once, an index is read
//! without being counted, kept, and counted by the load that uses it instead of reading it. Who loads the shard again
//! reads it again, as the plan says.

use super::lock;
use super::shards::Index;
use crate::error::{Error, Result};
use crate::io::disk::DiskFile;
use std::collections::HashMap;
use std::sync::Mutex;

/// The most bytes of indexes that an array keeps. No memory is charged for them.
const MOST_KEPT: usize = 1 << 20;

/// Bytes that keeping an index takes beside it.
const BESIDE: usize = 128;

/// What tells whether a file is the one that it was.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) len: u64,
    inode: u64,
    changed: (i64, u64),
}

impl FileState {
    pub(super) fn of(file: &DiskFile) -> Result<FileState> {
        let stat = rustix::fs::fstat(file).map_err(|e| Error::io(file.path(), "inspect the file", e))?;
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        Ok(FileState { len: stat.st_size as u64, inode: stat.st_ino, changed })
    }
}

/// Indexes by the position of their shard.
#[derive(Default)]
pub(super) struct Indexes(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    known: HashMap<u64, (FileState, Index)>,
    bytes: usize,
}

impl Kept {
    fn remove(&mut self, position: u64) -> Option<(FileState, Index)> {
        let found = self.known.remove(&position)?;
        self.bytes -= found.1.bytes() + BESIDE;
        Some(found)
    }
}

impl Indexes {
    /// Keeps the index of a shard, where there is room for it.
    pub(super) fn keep(&self, position: u64, state: FileState, index: Index) {
        let mut kept = lock(&self.0);
        kept.remove(position);
        let bytes = index.bytes() + BESIDE;
        if kept.bytes + bytes <= MOST_KEPT {
            kept.bytes += bytes;
            kept.known.insert(position, (state, index));
        }
    }

    /// Looks at the index of a shard that is as it was.
    pub(super) fn with<T>(
        &self,
        position: u64,
        state: &FileState,
        look: impl FnOnce(&Index) -> T,
    ) -> Option<T> {
        let kept = lock(&self.0);
        kept.known.get(&position).filter(|(then, _)| then == state).map(|(_, index)| look(index))
    }

    /// Takes the index of a shard that is as it was.
    pub(super) fn take(&self, position: u64, state: &FileState) -> Option<Index> {
        let found = lock(&self.0).remove(position);
        found.filter(|(then, _)| then == state).map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(len: u64) -> FileState {
        FileState { len, inode: 1, changed: (0, 0) }
    }

    #[test]
    fn an_index_is_taken_once_and_only_of_the_same_file() {
        let indexes = Indexes::default();
        indexes.keep(3, state(10), Index::zeros(2));
        assert!(indexes.with(3, &state(11), |_| ()).is_none());
        assert!(indexes.with(3, &state(10), |_| ()).is_some());
        assert!(indexes.take(3, &state(10)).is_some());
        assert!(indexes.take(3, &state(10)).is_none());
        indexes.keep(3, state(10), Index::zeros(2));
        assert!(indexes.take(3, &state(11)).is_none());
        assert_eq!(lock(&indexes.0).bytes, 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let indexes = Indexes::default();
        for position in 0..5000 {
            indexes.keep(position, state(1), Index::zeros(100));
        }
        let kept = lock(&indexes.0);
        assert!(kept.bytes <= MOST_KEPT && kept.bytes > MOST_KEPT / 2);
        assert_eq!(kept.bytes, kept.known.len() * (100 * 16 + BESIDE));
    }
}
