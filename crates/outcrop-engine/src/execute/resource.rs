//! Who may use what, in the order of the schedule.
//!
//! A resource is a tile's frame, or the place of a tile on disk. Its uses are granted as they were
//! asked for: any number of readers together, a writer alone. That is all the synchronization there
//! is between loads, steps, stores and drops, and it is what makes results independent of timing.

use crate::program::TileId;
use outcrop_store::Result;
use outcrop_store::frame::{Frame, Reservation};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A key of a node.
pub(super) type NodeKey = u32;
/// A key of a resource.
pub(super) type ResourceKey = u32;

/// What a resource has in memory.
pub(super) enum Memory {
    /// It is a place on disk.
    None,
    /// A frame, from the first use on.
    Reserved(Reservation),
    Frame(Frame),
}

impl Memory {
    /// Bytes that it is charged for.
    pub(super) fn len(&self) -> usize {
        match self {
            Memory::None => 0,
            Memory::Reserved(reservation) => reservation.len(),
            Memory::Frame(frame) => frame.len(),
        }
    }

    /// The frame, for whoever is about to use it.
    pub(super) fn begin(&mut self) -> Result<Option<*mut u8>> {
        if matches!(self, Memory::Reserved(_))
            && let Memory::Reserved(reservation) = std::mem::replace(self, Memory::None)
        {
            *self = Memory::Frame(reservation.into_frame()?);
        }
        Ok(match self {
            Memory::Frame(frame) => Some(frame.as_ptr()),
            _ => None,
        })
    }
}

/// A frame with a tile in it, or a place on disk.
pub(super) struct Resource {
    waiting: VecDeque<(NodeKey, bool)>,
    readers: u32,
    writing: bool,
    /// Of a place on disk, its name among the places.
    pub place: Option<u64>,
    pub tile: TileId,
    pub memory: Memory,
}

impl Resource {
    pub(super) fn of_tile(tile: TileId, memory: Memory) -> Resource {
        Resource { memory, ..Resource::of_place(tile, None) }
    }

    pub(super) fn of_place(tile: TileId, place: Option<u64>) -> Resource {
        Resource { waiting: VecDeque::new(), readers: 0, writing: false, place, tile, memory: Memory::None }
    }

    /// Asks for a use; whether it is granted at once.
    pub(super) fn ask(&mut self, node: NodeKey, write: bool) -> bool {
        if self.waiting.is_empty() && self.grants(write) {
            self.take(write);
            return true;
        }
        self.waiting.push_back((node, write));
        false
    }

    fn grants(&self, write: bool) -> bool {
        !(self.writing || write && self.readers > 0)
    }

    fn take(&mut self, write: bool) {
        if write {
            self.writing = true;
        } else {
            self.readers += 1;
        }
    }

    /// Ends a use, and grants others to `granted`.
    pub(super) fn end(&mut self, write: bool, granted: &mut SmallVec<[NodeKey; 8]>) {
        if write {
            self.writing = false;
        } else {
            self.readers -= 1;
        }
        while let Some(&(node, write)) = self.waiting.front() {
            if !self.grants(write) {
                break;
            }
            self.waiting.pop_front();
            self.take(write);
            granted.push(node);
        }
    }

    /// Whether nobody uses it or waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.readers == 0 && !self.writing && self.waiting.is_empty()
    }
}

/// All of them.
pub(super) type Resources = Slab<Resource>;
