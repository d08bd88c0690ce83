//! Memory for small things when the system has none left.
//!
//! Whatever is large is asked for where it may fail: frames, staging memory, the room of codecs. Beside that there
//! are the many small things of any program, an error's message among them, and where one of those cannot be had,
//! Rust ends the process. So what the system refuses comes from a reserve, until what is large has been
//! refused in its turn, and an exception says so.

use outcrop_store::frame::refusals::HEAP;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Address space; what is never used of it takes no memory.
const BYTES: usize = 16 << 20;

#[repr(align(4096))]
struct Space(UnsafeCell<[u8; BYTES]>);

// SAFETY: no part is given to two callers: `NEXT` only grows while anything is in use.
unsafe impl Sync for Space {}

static SPACE: Space = Space(UnsafeCell::new([0; BYTES]));
/// Where the next piece begins, and how many are in use, in one number so that both change at once.
static STATE: AtomicUsize = AtomicUsize::new(0);
/// One piece in use.
const PIECE: usize = 1 << 32;
const AT: usize = PIECE - 1;

/// The system's allocator with a reserve.
struct WithReserve;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

fn start() -> usize {
    SPACE.0.get() as usize
}

fn is_reserved(memory: *mut u8) -> bool {
    (start()..start() + BYTES).contains(&(memory as usize))
}

/// A piece of the reserve, or null.
#[cold]
fn take(layout: Layout) -> *mut u8 {
    let mut offset = 0;
    let taken = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
        offset = (start() + (state & AT)).checked_next_multiple_of(layout.align())? - start();
        let end = offset.checked_add(layout.size()).filter(|&end| end <= BYTES)?;
        Some((state & !AT) + PIECE + end)
    });
    match taken {
        Ok(_) => (start() + offset) as *mut u8,
        Err(_) => null_mut(),
    }
}

/// Gives a piece back; with the last one, all of the reserve is there again.
#[cold]
fn give_back() {
    let _ = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
        let left = state - PIECE;
        Some(if left & !AT == 0 { 0 } else { left })
    });
}

// SAFETY: the system's allocator keeps the contract; pieces of the reserve are disjoint, aligned, within it, and
// are never handed to the system.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        let memory = if HEAP.next() { null_mut() } else { unsafe { System.alloc(layout) } };
        if memory.is_null() { take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        let memory = if HEAP.next() { null_mut() } else { unsafe { System.alloc_zeroed(layout) } };
        if !memory.is_null() {
            return memory;
        }
        let memory = take(layout);
        if !memory.is_null() {
            // SAFETY: the piece has that many bytes.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_reserved(memory) {
            give_back();
        } else {
            // SAFETY: passed on from the caller.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_reserved(memory) && !HEAP.next() {
            // SAFETY: passed on from the caller.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller promises that the size is one for this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is not zero, as the caller promises.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both have that many bytes, and the new piece is nobody else's.
            unsafe { std::ptr::copy_nonoverlapping(memory, moved, layout.size().min(size)) };
            // SAFETY: passed on from the caller.
            unsafe { self.dealloc(memory, layout) };
        }
        moved
    }
}
