//! Vector kernels for x86-64 with AVX2 or AVX-512.
//!
//! Where a function takes `isa`, it is for one of these two, and is inlined where it is known which.

use super::Isa;
use super::lines::Item;
use std::arch::x86_64::*;

/// Orders stores around the cache before all later stores.
pub(super) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() }
}

/// Asks for a line of memory to be brought into the cache; any address may be named.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch reads nothing that the program can see, and faults nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

/// As [`prefetch`], into the second level only.
#[inline(always)]
pub(super) fn prefetch_far(line: *const u8) {
    // SAFETY: a prefetch reads nothing that the program can see, and faults nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
}

/// Copies one line of 64 bytes, around the cache.
///
/// # Safety
/// The line may be read, and written at `dst`, which is a multiple of 64; the processor has what `isa` names.
#[inline(always)]
unsafe fn stream_line(dst: *mut u8, src: *const u8, isa: Isa) {
    // SAFETY: the caller's contract.
    unsafe {
        if isa == Isa::Avx512 {
            return _mm512_stream_si512(dst.cast(), _mm512_loadu_si512(src.cast()));
        }
        let low = _mm256_loadu_si256(src.cast());
        let high = _mm256_loadu_si256(src.add(32).cast());
        _mm256_stream_si256(dst.cast(), low);
        _mm256_stream_si256(dst.add(32).cast(), high);
    }
}

/// A line of 64 bytes with its items of `ITEM` bytes in reverse order; as it is where `ITEM` is 0.
///
/// # Safety
/// The line may be read; the processor has what `isa` names.
#[inline(always)]
unsafe fn reversed_line<const ITEM: usize>(line: *const u8, isa: Isa) -> [u8; 64] {
    const {
        assert!(matches!(ITEM, 0 | 1 | 2 | 4 | 8 | 16));
    }
    // SAFETY: the caller's contract; vectors are as good as arrays of bytes.
    unsafe {
        if ITEM == 0 {
            return line.cast::<[u8; 64]>().read();
        }
        // Items turn round inside lanes, and then the lanes.
        let mut order = [0u8; 16];
        let mut k = 0;
        while k < 16 {
            order[k] = (16 - ITEM.max(1) - k / ITEM.max(1) * ITEM + k % ITEM.max(1)) as u8;
            k += 1;
        }
        let order = _mm_loadu_si128(order.as_ptr().cast());
        if isa == Isa::Avx512 {
            let items = _mm512_shuffle_epi8(_mm512_loadu_si512(line.cast()), _mm512_broadcast_i32x4(order));
            return std::mem::transmute::<__m512i, [u8; 64]>(_mm512_shuffle_i64x2::<0b00_01_10_11>(
                items, items,
            ));
        }
        let order = _mm256_broadcastsi128_si256(order);
        let low = _mm256_shuffle_epi8(_mm256_loadu_si256(line.add(32).cast()), order);
        let high = _mm256_shuffle_epi8(_mm256_loadu_si256(line.cast()), order);
        let (low, high) =
            (_mm256_permute2x128_si256::<1>(low, low), _mm256_permute2x128_si256::<1>(high, high));
        std::mem::transmute::<[__m256i; 2], [u8; 64]>([low, high])
    }
}

/// Copies `n` rows of `bytes` bytes that lie `dst_step` and `src_step` bytes apart, writing whole destination
/// lines around the cache. Where `item` is not 0, rows are reversed: their items of so many bytes are read
/// downwards from the one at `src`. [`fence`] must follow in the end.
///
/// # Safety
/// Every row may be read, and written elsewhere; the processor has what `isa` names. Rows to be reversed have
/// 64 bytes or more, and all start at multiples of `item` in the destination.
pub(super) unsafe fn stream_rows(
    dst: (*mut u8, isize),
    src: (*const u8, isize),
    n: usize,
    bytes: usize,
    item: usize,
    isa: Isa,
) {
    /// # Safety
    /// As [`stream_rows`].
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<const ITEM: usize>(
        dst: (*mut u8, isize),
        src: (*const u8, isize),
        n: usize,
        bytes: usize,
    ) {
        // SAFETY: the caller's contract is handed on.
        unsafe { stream_rows_with::<ITEM>(dst, src, n, bytes, Isa::Avx2) }
    }
    /// # Safety
    /// As [`stream_rows`].
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn avx512<const ITEM: usize>(
        dst: (*mut u8, isize),
        src: (*const u8, isize),
        n: usize,
        bytes: usize,
    ) {
        // SAFETY: the caller's contract is handed on.
        unsafe { stream_rows_with::<ITEM>(dst, src, n, bytes, Isa::Avx512) }
    }
    // SAFETY: the caller's contract is handed on.
    unsafe {
        match (isa, item) {
            (Isa::Avx512, 0) => avx512::<0>(dst, src, n, bytes),
            (Isa::Avx512, 1) => avx512::<1>(dst, src, n, bytes),
            (Isa::Avx512, 2) => avx512::<2>(dst, src, n, bytes),
            (Isa::Avx512, 4) => avx512::<4>(dst, src, n, bytes),
            (Isa::Avx512, 8) => avx512::<8>(dst, src, n, bytes),
            (Isa::Avx512, _) => avx512::<16>(dst, src, n, bytes),
            (_, 0) => avx2::<0>(dst, src, n, bytes),
            (_, 1) => avx2::<1>(dst, src, n, bytes),
            (_, 2) => avx2::<2>(dst, src, n, bytes),
            (_, 4) => avx2::<4>(dst, src, n, bytes),
            (_, 8) => avx2::<8>(dst, src, n, bytes),
            (_, _) => avx2::<16>(dst, src, n, bytes),
        }
    }
}

/// [`stream_rows`], to be compiled for either.
///
/// # Safety
/// As [`stream_rows`].
#[inline(always)]
unsafe fn stream_rows_with<const ITEM: usize>(
    (dst, dst_step): (*mut u8, isize),
    (src, src_step): (*const u8, isize),
    n: usize,
    bytes: usize,
    isa: Isa,
) {
    // Far enough ahead to hide the latency of memory.
    const AHEAD: usize = 4096;
    for row in 0..n as isize {
        let dst = dst.wrapping_offset(row * dst_step);
        let src = src.wrapping_offset(row * src_step);
        // What comes into the cache next. The processor's own prefetching does not find its way from one row to
        // the next. Every row sets it right: rows that are not aligned have one line more than whole ones.
        let mut ahead = src.wrapping_offset((AHEAD / bytes) as isize * src_step);
        let mut ahead_at = AHEAD % bytes;
        let head = (dst.addr().wrapping_neg() % 64).min(bytes);
        let tail = (bytes - head) % 64;
        // SAFETY: head, whole lines and tail make up the row, and the lines start at multiples of 64. What goes
        // to the 64 bytes at `at` in a reversed row lies as far from the end of what is read, and is inside the
        // row for all lines and for the first and the last 64 bytes.
        unsafe {
            let line_of = |at: usize| src.wrapping_sub(at + 64 - ITEM);
            if ITEM == 0 {
                std::ptr::copy_nonoverlapping(src, dst, head);
            } else {
                let line = reversed_line::<ITEM>(line_of(0), isa);
                std::ptr::copy_nonoverlapping(line.as_ptr(), dst, head);
            }
            for at in (head..bytes - tail).step_by(64) {
                if ITEM == 0 {
                    prefetch(ahead.wrapping_add(ahead_at));
                } else {
                    prefetch(ahead.wrapping_sub(ahead_at));
                }
                ahead_at += 64;
                if ahead_at >= bytes {
                    (ahead, ahead_at) = (ahead.wrapping_offset(src_step), 0);
                }
                if ITEM == 0 {
                    stream_line(dst.add(at), src.add(at), isa);
                } else {
                    let line = reversed_line::<ITEM>(line_of(at), isa);
                    stream_line(dst.add(at), line.as_ptr(), isa);
                }
            }
            if ITEM == 0 {
                std::ptr::copy_nonoverlapping(src.add(bytes - tail), dst.add(bytes - tail), tail);
            } else {
                let line = reversed_line::<ITEM>(line_of(bytes - 64), isa);
                std::ptr::copy_nonoverlapping(line.as_ptr().add(64 - tail), dst.add(bytes - tail), tail);
            }
        }
    }
}

/// Writes one block's share of a destination row, whole lines only and around the cache.
///
/// What is left of the last line is put in front of `run`, where the row's next share will start: it stays in
/// the staging buffer until the line is whole. Only the ends of a row, told by `first` and `last`, are written
/// as parts of lines. [`fence`] must follow in the end.
///
/// # Safety
/// - `bytes` bytes may be read at `run` and written at `dst`, and 64 more before `run` may be written.
/// - The shares of a row are written in order, each behind the one before it; `bytes` is at least 64 for all
///   but the last.
/// - The processor has what `isa` names.
#[inline(always)]
pub(super) unsafe fn stream_share(
    dst: *mut u8,
    run: *mut u8,
    bytes: usize,
    (first, last): (bool, bool),
    isa: Isa,
) {
    let offset = dst.addr() % 64;
    // SAFETY: `at` counts from `dst` and `run`, and is negative in what the row's last share left: `offset`
    // bytes, as many as its line has before `dst`. Lines start at multiples of 64.
    unsafe {
        let end = bytes as isize;
        let mut at = -(offset as isize);
        if first && offset != 0 {
            let head = (64 - offset).min(bytes);
            std::ptr::copy_nonoverlapping(run, dst, head);
            at = head as isize;
        }
        while at + 64 <= end {
            stream_line(dst.offset(at), run.offset(at), isa);
            at += 64;
        }
        if last {
            std::ptr::copy_nonoverlapping(run.offset(at), dst.offset(at), (end - at) as usize);
        } else {
            let low = _mm256_loadu_si256(run.offset(end - 64).cast());
            let high = _mm256_loadu_si256(run.offset(end - 32).cast());
            _mm256_storeu_si256(run.sub(64).cast(), low);
            _mm256_storeu_si256(run.sub(32).cast(), high);
        }
    }
}

/// Transposes `rows` rows of `bytes` bytes at `from` into rows at `to`. Both extents are rounded up: `bytes`
/// to 16, `rows` to what a vector has room for.
///
/// # Safety
/// The rounded-up rows may be read and written; the processor has what `isa` names.
#[inline(always)]
pub(super) unsafe fn transpose<T: Item>(
    from: (*const u8, isize),
    rows: usize,
    bytes: usize,
    to: (*mut u8, usize),
    isa: Isa,
) {
    // SAFETY: the caller's contract is handed on; with AVX-512 comes AVX2, whose kernels are as fast for larger
    // items.
    unsafe {
        match (isa, T::BYTES) {
            (Isa::Avx512, 1) => transpose_avx512::<1, 16>(from, rows, bytes, to),
            (Isa::Avx512, 2) => transpose_avx512::<2, 8>(from, rows, bytes, to),
            (_, 1) => transpose_avx2::<1, 16>(from, rows, bytes, to),
            (_, 2) => transpose_avx2::<2, 8>(from, rows, bytes, to),
            (_, 4) => transpose_avx2::<4, 4>(from, rows, bytes, to),
            (_, 8) => transpose_avx2::<8, 2>(from, rows, bytes, to),
            (_, _) => transpose_avx2::<16, 1>(from, rows, bytes, to),
        }
    }
}

/// Does something for every number below `n`, which is at most 16, without a loop: the compiler keeps a long
/// loop, and with it the arrays it runs through in memory.
macro_rules! each {
    ($i:ident in $n:ident, $body:block) => {
        each!(@each $i, $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@each $i:ident, $n:ident, $body:block, $($k:literal)*) => {
        const { assert!($n <= 16) };
        $(if $k < $n {
            let $i = $k;
            $body;
        })*
    };
}

/// The rounds of a transposition inside lanes. Each stands for itself, and so do the steps of a round: the
/// compiler keeps a loop over rounds as a loop, and the vectors in memory.
macro_rules! rounds {
    ($v:ident, $n:ident, $size:ident, $($unpack:ident),*) => {
        if $n > 1 {
            rounds!(@round $v, $n, $size, $($unpack),*);
        }
        if $n > 2 {
            rounds!(@round $v, $n, $size, $($unpack),*);
        }
        if $n > 4 {
            rounds!(@round $v, $n, $size, $($unpack),*);
        }
        if $n > 8 {
            rounds!(@round $v, $n, $size, $($unpack),*);
        }
    };
    (@round $v:ident, $n:ident, $size:ident, $($unpack:ident),*) => {
        let u = $v;
        rounds!(@step $v, u, $n, $size, 0, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 1, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 2, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 3, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 4, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 5, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 6, $($unpack),*);
        rounds!(@step $v, u, $n, $size, 7, $($unpack),*);
    };
    (@step $v:ident, $u:ident, $n:ident, $size:ident, $i:literal, $lo1:ident, $hi1:ident, $lo2:ident, $hi2:ident, $lo4:ident, $hi4:ident, $lo8:ident, $hi8:ident) => {
        if $i < $n / 2 {
            let (a, b) = ($u[$i], $u[$i + $n / 2]);
            ($v[2 * $i], $v[2 * $i + 1]) = match $size {
                1 => ($lo1(a, b), $hi1(a, b)),
                2 => ($lo2(a, b), $hi2(a, b)),
                4 => ($lo4(a, b), $hi4(a, b)),
                _ => ($lo8(a, b), $hi8(a, b)),
            };
        }
    };
}

/// What turns 16 bytes of items of `item` bytes, one behind the other, into items at the start of every `wide`
/// bytes, and back.
#[derive(Clone, Copy)]
pub(super) struct Spacing {
    item: usize,
    wide: usize,
    widen: __m128i,
    /// As `widen`, for items that end where the vector does.
    widen_last: __m128i,
    narrow: __m128i,
}

impl Spacing {
    /// For `item` below `wide`, which is 4, 8 or 16.
    pub(super) fn new(item: usize, wide: usize) -> Spacing {
        let mut orders = [[0x80u8; 16]; 3];
        let many = 16 / wide;
        for (k, byte) in (0..many).flat_map(|k| (0..item).map(move |byte| (k, byte))) {
            orders[0][k * wide + byte] = (k * item + byte) as u8;
            orders[1][k * wide + byte] = (16 - many * item + k * item + byte) as u8;
            orders[2][k * item + byte] = (k * wide + byte) as u8;
        }
        // SAFETY: vectors are as good as arrays of bytes.
        let [widen, widen_last, narrow] =
            unsafe { std::mem::transmute::<[[u8; 16]; 3], [__m128i; 3]>(orders) };
        Spacing { item, wide, widen, widen_last, narrow }
    }

    /// Moves `n` items to the start of every `wide` bytes.
    ///
    /// # Safety
    /// The items may be read, `n` times `wide` bytes and 16 more may be written elsewhere; the processor has
    /// AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn widen(&self, to: *mut u8, from: *const u8, n: usize) {
        let many = 16 / self.wide;
        let bytes = n * self.item;
        // SAFETY: vectors are read inside the items, and written at a multiple of `wide` below `n` times it.
        unsafe {
            if bytes < 16 {
                for k in 0..n {
                    std::ptr::copy_nonoverlapping(from.add(k * self.item), to.add(k * self.wide), self.item);
                }
                return;
            }
            let (mut at, mut wide) = (0, 0);
            while at + 16 <= bytes {
                let items = _mm_loadu_si128(from.add(at).cast());
                _mm_storeu_si128(to.add(wide).cast(), _mm_shuffle_epi8(items, self.widen));
                at += many * self.item;
                wide += 16;
            }
            let last = to.add((n - many) * self.wide);
            if wide < (n - many) * self.wide {
                // Less than a vector's bytes may be one item more than a vector takes.
                let items = _mm_loadu_si128(from.add(bytes - self.item - 16).cast());
                _mm_storeu_si128(last.sub(self.wide).cast(), _mm_shuffle_epi8(items, self.widen_last));
            }
            let items = _mm_loadu_si128(from.add(bytes - 16).cast());
            _mm_storeu_si128(last.cast(), _mm_shuffle_epi8(items, self.widen_last));
        }
    }

    /// Moves `n` items at the start of every `wide` bytes together, in place.
    ///
    /// # Safety
    /// `n` times `wide` bytes, rounded up to 16, may be read, and 16 more may be written; the processor has
    /// AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn narrow(&self, items: *mut u8, n: usize) {
        let step = 16 / self.wide * self.item;
        for k in 0..(n * self.wide).div_ceil(16) {
            // SAFETY: a vector inside the rounded-up items is read; what is written ends before the next.
            unsafe {
                let wide = _mm_loadu_si128(items.add(k * 16).cast());
                _mm_storeu_si128(items.add(k * step).cast(), _mm_shuffle_epi8(wide, self.narrow));
            }
        }
    }
}

/// [`transpose`] for items of `SIZE` bytes; `N` is 16 / `SIZE`. Rows are rounded up to 2 `N`.
///
/// A vector has two lanes of 16 bytes, and each lane takes part in its own transposition of `N` by `N` items:
/// lane `l` of vector `r` is loaded from row `l * N + r`. Interleaving vector `i` with vector `i + N/2`, low
/// halves into vector `2i` and high halves into `2i + 1`, rotates the bits of an item's position (row bits,
/// then column bits) by one place. After log2(N) rounds rows and columns have changed places, and vector `c`
/// holds column `c` of 2 `N` rows.
///
/// # Safety
/// The rounded-up rows may be read and written; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2<const SIZE: usize, const N: usize>(
    (from, from_stride): (*const u8, isize),
    rows: usize,
    bytes: usize,
    (to, to_stride): (*mut u8, usize),
) {
    const { assert!(SIZE * N == 16) };
    for row in (0..rows).step_by(2 * N) {
        for at in (0..bytes).step_by(16) {
            let row_at = |r: usize| from.wrapping_offset((row + r) as isize * from_stride).wrapping_add(at);
            let mut v = [_mm256_setzero_si256(); N];
            each!(r in N, {
                // SAFETY: 16 bytes of rows `row + r` and `row + r + N`.
                v[r] = unsafe {
                    let low = _mm256_castsi128_si256(_mm_loadu_si128(row_at(r).cast()));
                    _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(row_at(r + N).cast()))
                };
            });
            rounds!(
                v,
                N,
                SIZE,
                _mm256_unpacklo_epi8,
                _mm256_unpackhi_epi8,
                _mm256_unpacklo_epi16,
                _mm256_unpackhi_epi16,
                _mm256_unpacklo_epi32,
                _mm256_unpackhi_epi32,
                _mm256_unpacklo_epi64,
                _mm256_unpackhi_epi64
            );
            each!(c in N, {
                // SAFETY: 2 `N` items of row `at / SIZE + c` of the destination.
                unsafe { _mm256_storeu_si256(to.add((at / SIZE + c) * to_stride + row * SIZE).cast(), v[c]) }
            });
        }
    }
}

/// [`transpose`] for items of `SIZE` bytes; `N` is 16 / `SIZE`. As [`transpose_avx2`], with vectors of four
/// lanes: rows are rounded up to 4 `N`.
///
/// # Safety
/// The rounded-up rows may be read and written; the processor has AVX-512F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn transpose_avx512<const SIZE: usize, const N: usize>(
    (from, from_stride): (*const u8, isize),
    rows: usize,
    bytes: usize,
    (to, to_stride): (*mut u8, usize),
) {
    const { assert!(SIZE * N == 16) };
    for row in (0..rows).step_by(4 * N) {
        for at in (0..bytes).step_by(16) {
            let row_at = |r: usize| from.wrapping_offset((row + r) as isize * from_stride).wrapping_add(at);
            let mut v = [_mm512_setzero_si512(); N];
            each!(r in N, {
                // SAFETY: 16 bytes of every `N`th row from `row + r` on.
                v[r] = unsafe {
                    let lanes = _mm512_castsi128_si512(_mm_loadu_si128(row_at(r).cast()));
                    let lanes = _mm512_inserti32x4::<1>(lanes, _mm_loadu_si128(row_at(r + N).cast()));
                    let lanes = _mm512_inserti32x4::<2>(lanes, _mm_loadu_si128(row_at(r + 2 * N).cast()));
                    _mm512_inserti32x4::<3>(lanes, _mm_loadu_si128(row_at(r + 3 * N).cast()))
                };
            });
            rounds!(
                v,
                N,
                SIZE,
                _mm512_unpacklo_epi8,
                _mm512_unpackhi_epi8,
                _mm512_unpacklo_epi16,
                _mm512_unpackhi_epi16,
                _mm512_unpacklo_epi32,
                _mm512_unpackhi_epi32,
                _mm512_unpacklo_epi64,
                _mm512_unpackhi_epi64
            );
            each!(c in N, {
                // SAFETY: 4 `N` items of row `at / SIZE + c` of the destination.
                unsafe { _mm512_storeu_si512(to.add((at / SIZE + c) * to_stride + row * SIZE).cast(), v[c]) }
            });
        }
    }
}
