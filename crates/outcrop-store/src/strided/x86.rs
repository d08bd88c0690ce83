//! Vector kernels for x86-64.

use std::arch::x86_64::*;

/// Orders stores around the cache before all later stores.
pub(super) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() }
}

/// Copies a row, writing whole destination lines around the cache. [`fence`] must follow in the end.
///
/// # Safety
/// `bytes` bytes may be read, and written at `dst`; the sides do not overlap; the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream_row(dst: *mut u8, src: *const u8, bytes: usize) {
    // Far enough ahead to hide the latency of memory.
    const AHEAD: usize = 1024;
    let head = dst.align_offset(64).min(bytes);
    let whole = (bytes - head) / 64 * 64;
    // SAFETY: head, whole lines and tail make up the row; stores around the cache start at a line of the
    // destination. A prefetch may name any address.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, head);
        let (dst, src) = (dst.add(head), src.add(head));
        for at in (0..whole).step_by(64) {
            let low = _mm256_loadu_si256(src.add(at).cast());
            let high = _mm256_loadu_si256(src.add(at + 32).cast());
            _mm_prefetch::<_MM_HINT_T0>(src.wrapping_add(at + AHEAD).cast());
            _mm256_stream_si256(dst.add(at).cast(), low);
            _mm256_stream_si256(dst.add(at + 32).cast(), high);
        }
        std::ptr::copy_nonoverlapping(src.add(whole), dst.add(whole), bytes - head - whole);
    }
}

/// Copies a run that is in the cache, writing whole destination lines around the cache. [`fence`] must follow
/// in the end.
///
/// # Safety
/// As [`stream_row`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream_run(dst: *mut u8, src: *mut u8, bytes: usize, first: bool, last: bool) {
    unsafe {
        let (mut to, mut from, end) = (dst, src.cast_const(), src.add(bytes).cast_const());
        let offset = dst.addr() % 64;
        if first && offset != 0 {
            let head = (64 - offset).min(bytes);
            std::ptr::copy_nonoverlapping(from, to, head);
            from = from.add(head); to = to.add(head);
        } else {
            from = from.sub(offset); to = to.sub(offset);
        }
        let mut left = end.offset_from_unsigned(from);
        while left >= 64 {
            let low = _mm256_loadu_si256(from.cast());
            let high = _mm256_loadu_si256(from.add(32).cast());
            _mm256_stream_si256(to.cast(), low);
            _mm256_stream_si256(to.add(32).cast(), high);
            from = from.add(64); to = to.add(64); left -= 64;
        }
        if last {
            std::ptr::copy_nonoverlapping(from, to, left);
        } else {
            let low = _mm256_loadu_si256(end.sub(64).cast());
            let high = _mm256_loadu_si256(end.sub(32).cast());
            _mm256_storeu_si256(src.sub(64).cast(), low);
            _mm256_storeu_si256(src.sub(32).cast(), high);
        }
    }
}

/// Asks for a line of memory to be brought into the cache; any address may be named.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch reads nothing that the program can see, and faults nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

/// Makes a function that transposes a matrix of items between two staging buffers.
///
/// A vector consists of 16-byte lanes. Each lane takes part in its own transposition of `N` by `N` items,
/// where `N` of them fill a lane: lane `l` of vector `r` is loaded from row `l * N + r`. Interleaving vector
/// `i` with vector `i + N/2`, low halves into vector `2i` and high halves into `2i + 1`, rotates the bits of
/// an item's position (row bits, then column bits) by one place; after log2(N) rounds rows and columns have
/// changed places, and vector `c` holds column `c` of `lanes * N` rows.
macro_rules! transposer {
    (
        $name:ident, $features:literal, $vector:ty, $lanes:literal, $load:ident, $store:ident, $zero:ident,
        [$($size:literal: $low:ident $high:ident),*]
    ) => {
        /// Transposes `rows` rows of `bytes` bytes at `from` into rows at `to`, for items of `SIZE` bytes,
        /// `N` = 16 / `SIZE`. Both extents are rounded up to whole kernels: `bytes` to 16, `rows` to
        /// `N` times the lanes of a vector.
        ///
        /// # Safety
        /// The rounded-up rows may be read and written; the processor has the instructions.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<const SIZE: usize, const N: usize>(
            from: *const u8,
            from_stride: isize,
            rows: usize,
            bytes: usize,
            to: *mut u8,
            to_stride: usize,
            ahead: *const u8,
            ahead_stride: isize,
        ) {
            const { assert!(SIZE * N == 16) };
            for row in (0..rows).step_by(N) {
                for at in (0..bytes).step_by(32) {
                    if !ahead.is_null() {
                        let share = N / 2;
                        let first = row + at / 32 % 2 * share;
                        for r in first..first + share {
                            prefetch(ahead.wrapping_offset(r as isize * ahead_stride).wrapping_add(at & !63));
                        }
                    }
                    let mut v = [$zero(); N];
                    for r in 0..N {
                        // SAFETY: the lanes are 16 bytes at `at` of rows `row + r + l * N`.
                        v[r] = unsafe { _mm256_loadu_si256(from.offset((row + r) as isize * from_stride + at as isize).cast()) };
                    }
                    for _ in 0..N.ilog2() {
                        let u = v;
                        for i in 0..N / 2 {
                            (v[2 * i], v[2 * i + 1]) = match SIZE {
                                $($size => ($low(u[i], u[i + N / 2]), $high(u[i], u[i + N / 2])),)*
                                _ => unreachable!(),
                            };
                        }
                    }
                    for c in 0..N {
                        // SAFETY: columns `row..` of row `at / SIZE + c` of the destination.
                        unsafe { _mm_storeu_si128(to.add((at / SIZE + c) * to_stride + row * SIZE).cast(), _mm256_castsi256_si128(v[c])); _mm_storeu_si128(to.add((at / SIZE + N + c) * to_stride + row * SIZE).cast(), _mm256_extracti128_si256::<1>(v[c])); };
                    }
                }
            }
        }
    };
}

transposer!(transpose_avx2, "avx2", __m256i, 2, load_2, _mm256_storeu_si256, _mm256_setzero_si256, [
    1: _mm256_unpacklo_epi8 _mm256_unpackhi_epi8,
    2: _mm256_unpacklo_epi16 _mm256_unpackhi_epi16,
    4: _mm256_unpacklo_epi32 _mm256_unpackhi_epi32,
    8: _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
]);

transposer!(transpose_avx512, "avx2,avx512f,avx512vl,avx512bw", __m256i, 2, load_2, _mm256_storeu_si256, _mm256_setzero_si256, [
    1: _mm256_unpacklo_epi8 _mm256_unpackhi_epi8,
    2: _mm256_unpacklo_epi16 _mm256_unpackhi_epi16,
    4: _mm256_unpacklo_epi32 _mm256_unpackhi_epi32,
    8: _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
]);

/// Loads two lanes of 16 bytes, `step` bytes apart.
///
/// # Safety
/// The bytes may be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_2(from: *const u8, step: isize) -> __m256i {
    // SAFETY: the caller's contract.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(from.cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(from.offset(step).cast()))
    }
}

/// Loads four lanes of 16 bytes, `step` bytes apart.
///
/// # Safety
/// The bytes may be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load_4(from: *const u8, step: isize) -> __m512i {
    // SAFETY: the caller's contract.
    unsafe {
        let v = _mm512_castsi128_si512(_mm_loadu_si128(from.cast()));
        let v = _mm512_inserti32x4::<1>(v, _mm_loadu_si128(from.offset(step).cast()));
        let v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(from.offset(2 * step).cast()));
        _mm512_inserti32x4::<3>(v, _mm_loadu_si128(from.offset(3 * step).cast()))
    }
}
