//! Anonymous memory of the system.

use super::refusals::MEMORY;
use super::{FRAME_ALIGN, HUGE};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A range of anonymous memory, unmapped on drop. It may be a piece of what was mapped at once, or consist of several.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// The process that has the memory; in a forked child something else may lie there.
    pid: u32,
}

// SAFETY: a mapping is plain memory owned by this value; nothing about it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references give out no access to the memory except through `Frame`'s methods,
// which ask for `&mut` or for the caller's promise.
unsafe impl Sync for Mapping {}

/// Address space that is left to others: to the many small things of a process, of which the C library cannot do
/// without some, such as what a thread needs to begin.
const MARGIN: usize = 4 << 20;

/// Whether the process may have only so much address space.
pub(crate) fn has_bounds() -> bool {
    getrlimit(Resource::As).current.is_some()
}

/// An error where less than `bytes` and a margin are left of the address space that the process may have.
pub(crate) fn headroom(bytes: usize) -> io::Result<()> {
    if MEMORY.next() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    if !has_bounds() {
        return Ok(());
    }
    // SAFETY: an anonymous private mapping at an address the kernel chooses touches no memory that exists.
    let probe = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes + MARGIN, ProtFlags::empty(), MapFlags::PRIVATE)
    }?;
    // SAFETY: the mapping was just made.
    Ok(unsafe { munmap(probe, bytes + MARGIN) }?)
}

impl Mapping {
    /// New memory, which ends where `before` starts if that is possible, so that the two can be joined.
    pub(super) fn new(len: usize, before: Option<usize>) -> io::Result<Mapping> {
        let align = if len >= HUGE { HUGE } else { FRAME_ALIGN };
        let adjacent =
            before.and_then(|end| end.checked_sub(len)).filter(|start| start.is_multiple_of(align));
        let start = match adjacent.and_then(|start| Self::map_at(start, len)) {
            Some(start) => start,
            None => Self::map_anywhere(len, align)?,
        };
        let mapping = Mapping {
            start: NonNull::new(start as *mut u8).expect("mmap never returns address 0"),
            len,
            pid: std::process::id(),
        };
        // SAFETY: the range is our own mapping.
        unsafe {
            madvise(start as *mut c_void, len, Advice::LinuxDontFork)?;
            if align == HUGE {
                // Refused where huge pages are off; only speed depends on it.
                let _ = madvise(start as *mut c_void, len, Advice::LinuxHugepage);
            }
        }
        headroom(0)?;
        Ok(mapping)
    }

    fn map_anywhere(len: usize, align: usize) -> io::Result<usize> {
        let span = if align > FRAME_ALIGN { len + align } else { len };
        // SAFETY: an anonymous private mapping at an address the kernel chooses touches no memory
        // that exists.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), span, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }? as usize;
        let start = base.next_multiple_of(align);
        for (from, to) in [(base, start), (start + len, base + span)] {
            if from < to {
                // SAFETY: both ranges lie inside the mapping made above and outside the part kept.
                let _ = unsafe { munmap(from as *mut c_void, to - from) };
            }
        }
        Ok(start)
    }

    /// `start`, where memory could be mapped right there.
    fn map_at(start: usize, len: usize) -> Option<usize> {
        // SAFETY: the address is only a wish: everything that is mapped already stays as it is.
        let base = unsafe {
            mmap_anonymous(start as *mut c_void, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let base = base.ok()? as usize;
        if base != start {
            // SAFETY: the mapping was just made.
            let _ = unsafe { munmap(base as *mut c_void, len) };
        }
        (base == start).then_some(start)
    }

    /// Where it starts, a multiple of [`FRAME_ALIGN`].
    pub(super) fn start(&self) -> usize {
        self.start.as_ptr() as usize
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Has the system put memory behind it, where there was none.
    pub(super) fn touch(&self) {
        for offset in (0..self.len).step_by(FRAME_ALIGN) {
            // SAFETY: the offset lies inside the range, which nobody else refers to. What is written is not read, but
            // the compiler may not leave it out.
            unsafe { self.as_ptr().add(offset).write_volatile(0) };
        }
    }

    /// Bytes, a multiple of [`FRAME_ALIGN`].
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether this is memory of this process.
    pub(super) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// The first `len` bytes and, if there are more, the others.
    pub(super) fn split(self, len: usize) -> (Mapping, Option<Mapping>) {
        assert!(0 < len && len <= self.len && len.is_multiple_of(FRAME_ALIGN));
        let whole = ManuallyDrop::new(self);
        let rest = (len < whole.len).then(|| Mapping {
            // SAFETY: `len` is below the length of the range.
            start: unsafe { whole.start.add(len) },
            len: whole.len - len,
            pid: whole.pid,
        });
        (Mapping { start: whole.start, len, pid: whole.pid }, rest)
    }

    /// This and `next`, which starts where this ends.
    pub(super) fn join(self, next: Mapping) -> Mapping {
        assert_eq!(self.start() + self.len, next.start());
        let (first, second) = (ManuallyDrop::new(self), ManuallyDrop::new(next));
        Mapping { start: first.start, len: first.len + second.len, pid: first.pid }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        let start = self.start.as_ptr().cast();
        // The range is unmapped even where what lies next to it stays: the kernel would put memory back where it only
        // lost its pages, as part of a huge page that a neighbour uses.
        // SAFETY: the range is ours alone, and nothing refers to it any more.
        if unsafe { munmap(start, self.len) }.is_err() {
            // There are as many mappings as a process may have, and this would have made one more.
            // SAFETY: as above.
            let _ = unsafe { madvise(start, self.len, Advice::LinuxDontNeed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_can_be_mapped_right_below_other_memory() {
        // Something else may lie there now and then; what was mapped then stays, so that the next lies elsewhere.
        let mut apart = Vec::new();
        let together = (0..20).find_map(|_| {
            let upper = Mapping::new(HUGE, None).unwrap();
            let lower = Mapping::new(3 * HUGE, Some(upper.start())).unwrap();
            assert_eq!((lower.start() % HUGE, lower.len()), (0, 3 * HUGE));
            if lower.start() + lower.len() == upper.start() {
                return Some(lower.join(upper));
            }
            apart.extend([lower, upper]);
            None
        });
        let together = together.expect("one of twenty has free addresses below it");
        together.touch();
        assert_eq!(together.len(), 4 * HUGE);
    }

    /// What the kernel has in flight would be copied on the first write after a fork, and on kernels that copy for
    /// the parent, what is read would arrive elsewhere.
    #[test]
    fn children_do_not_get_it() {
        for len in [FRAME_ALIGN, HUGE] {
            let memory = Mapping::new(len, None).unwrap();
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut here = false;
            let flags = maps.lines().find_map(|line| {
                let range = line.split(' ').next().unwrap().split_once('-');
                let number = |digits| usize::from_str_radix(digits, 16).ok();
                if let Some((Some(first), Some(end))) = range.map(|(a, b)| (number(a), number(b))) {
                    here = (first..end).contains(&memory.start());
                }
                line.strip_prefix("VmFlags: ").filter(|_| here)
            });
            assert!(flags.expect("it is mapped").split(' ').any(|flag| flag == "dc"), "{flags:?}");
        }
    }

    #[test]
    fn what_is_mapped_already_is_not_replaced() {
        let there = Mapping::new(HUGE, None).unwrap();
        // SAFETY: the range is this mapping's.
        unsafe { there.as_ptr().write_bytes(7, there.len()) };
        let other = Mapping::new(2 * HUGE, Some(there.start() + there.len())).unwrap();
        assert!(other.start() + other.len() <= there.start() || there.start() + there.len() <= other.start());
        // SAFETY: as above; nothing is written any more.
        let content = unsafe { std::slice::from_raw_parts(there.as_ptr(), there.len()) };
        assert!(content.iter().all(|&byte| byte == 7));
    }
}
