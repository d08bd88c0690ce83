//! Lines: items one after the other at constant distances on both sides.

use super::Isa;
use std::marker::PhantomData;

/// An element, or a few that travel together.
pub(super) trait Item: Copy {
    /// Bytes of an item.
    const BYTES: usize = size_of::<Self>();
    /// The item with its bytes reversed.
    fn reversed(self) -> Self;
    /// The item with the bytes of either half reversed.
    fn halves_reversed(self) -> Self;
}

macro_rules! items {
    ($($t:ty),*) => {$(
        impl Item for $t {
            #[inline(always)]
            fn reversed(self) -> Self {
                self.swap_bytes()
            }
            #[inline(always)]
            fn halves_reversed(self) -> Self {
                self.swap_bytes().rotate_left(<$t>::BITS / 2)
            }
        }
    )*};
}
items!(u8, u16, u32, u64, u128);

/// How the items of a line are moved.
pub(super) trait Line: Copy {
    /// Moves `n` items that lie `dst_step` and `src_step` bytes apart.
    ///
    /// # Safety
    /// Every item may be read, and one elsewhere written.
    unsafe fn run(self, dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, n: usize);
}

/// Moves a line with the widest instructions that `isa` stands for.
///
/// # Safety
/// As [`Line::run`]; the processor has the instructions.
#[inline]
pub(super) unsafe fn run<L: Line>(
    line: L,
    dst: *mut u8,
    dst_step: isize,
    src: *const u8,
    src_step: isize,
    n: usize,
    isa: Isa,
) {
    /// # Safety
    /// As [`Line::run`]; the processor has AVX2.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<L: Line>(
        line: L,
        dst: *mut u8,
        dst_step: isize,
        src: *const u8,
        src_step: isize,
        n: usize,
    ) {
        // SAFETY: the caller's contract is handed on.
        unsafe { line.run(dst, dst_step, src, src_step, n) }
    }
    // SAFETY: the caller's contract is handed on; `isa` names what the processor has.
    unsafe {
        match isa {
            Isa::Portable => line.run(dst, dst_step, src, src_step, n),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Isa::Avx2 | Isa::Avx512 => avx2(line, dst, dst_step, src, src_step, n),
        }
    }
}

/// Moves items of type `T` through a function.
pub(super) struct MapLine<T, F> {
    map: F,
    item: PhantomData<T>,
}

impl<T, F: Copy> Clone for MapLine<T, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, F: Copy> Copy for MapLine<T, F> {}

impl<T: Item, F: Fn(T) -> T + Copy> MapLine<T, F> {
    pub(super) fn new(map: F) -> Self {
        MapLine { map, item: PhantomData }
    }

    /// Moves items whose steps are known to the compiler where they are constants of the caller.
    ///
    /// # Safety
    /// As [`Line::run`].
    #[inline(always)]
    unsafe fn steps(self, dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, n: usize) {
        for k in 0..n as isize {
            // SAFETY: item `k` of the line; neither side is assumed to be aligned.
            unsafe {
                let item = src.offset(k * src_step).cast::<T>().read_unaligned();
                dst.offset(k * dst_step).cast::<T>().write_unaligned((self.map)(item));
            }
        }
    }
}

impl<T: Item, F: Fn(T) -> T + Copy> Line for MapLine<T, F> {
    // SAFETY: what the caller promises is what the trait asks for.
    #[inline(always)]
    unsafe fn run(self, dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, n: usize) {
        let size = T::BYTES as isize;
        // SAFETY: the caller's contract is handed on. The cases differ only in what the compiler knows: it
        // makes vector loops of the first three.
        unsafe {
            if dst_step != size {
                self.steps(dst, dst_step, src, src_step, n);
            } else if src_step == size {
                self.steps(dst, size, src, size, n);
            } else if src_step == -size {
                self.steps(dst, size, src, -size, n);
            } else if src_step == 0 {
                self.steps(dst, size, src, 0, n);
            } else {
                self.steps(dst, size, src, src_step, n);
            }
        }
    }
}

/// Moves rows of bytes: items of any size that are contiguous on both sides.
///
/// For rows this short a call of the system's copying function takes longer than the copy. A row is moved in
/// chunks of one size instead, the last of which overlaps the one before it.
#[derive(Clone, Copy)]
pub(super) struct RowLine {
    pub(super) bytes: usize,
}

impl RowLine {
    /// Moves rows of at least `CHUNK` bytes.
    ///
    /// # Safety
    /// As [`Line::run`].
    #[inline(always)]
    unsafe fn chunks<const CHUNK: usize>(
        self,
        dst: *mut u8,
        dst_step: isize,
        src: *const u8,
        src_step: isize,
        n: usize,
    ) {
        let last = self.bytes - CHUNK;
        for k in 0..n as isize {
            // SAFETY: row `k` of the line; chunks start at most `CHUNK` bytes before its end.
            unsafe {
                let (dst, src) = (dst.offset(k * dst_step), src.offset(k * src_step));
                let mut at = 0;
                while at < last {
                    chunk::<CHUNK>(dst.add(at), src.add(at));
                    at += CHUNK;
                }
                chunk::<CHUNK>(dst.add(last), src.add(last));
            }
        }
    }
}

/// Copies `CHUNK` bytes through registers.
///
/// # Safety
/// The bytes may be read, and written at `dst`.
#[inline(always)]
unsafe fn chunk<const CHUNK: usize>(dst: *mut u8, src: *const u8) {
    // SAFETY: the caller's contract; arrays of bytes need no alignment.
    unsafe { dst.cast::<[u8; CHUNK]>().write(src.cast::<[u8; CHUNK]>().read()) }
}

impl Line for RowLine {
    // SAFETY: what the caller promises is what the trait asks for.
    #[inline(always)]
    unsafe fn run(self, dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, n: usize) {
        // SAFETY: the caller's contract is handed on, with chunks no longer than a row.
        unsafe {
            match self.bytes {
                0 => {}
                1 => self.chunks::<1>(dst, dst_step, src, src_step, n),
                2..4 => self.chunks::<2>(dst, dst_step, src, src_step, n),
                4..8 => self.chunks::<4>(dst, dst_step, src, src_step, n),
                8..16 => self.chunks::<8>(dst, dst_step, src, src_step, n),
                16..32 => self.chunks::<16>(dst, dst_step, src, src_step, n),
                _ => self.chunks::<32>(dst, dst_step, src, src_step, n),
            }
        }
    }
}
