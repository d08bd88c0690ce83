//! Vector kernels for x86-64 with AVX2.

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
/// The line may be read, and written at `dst`, which is a multiple of 64.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn stream_line(dst: *mut u8, src: *const u8) {
    // SAFETY: the caller's contract.
    unsafe {
        let low = _mm256_loadu_si256(src.cast());
        let high = _mm256_loadu_si256(src.add(32).cast());
        _mm256_stream_si256(dst.cast(), low);
        _mm256_stream_si256(dst.add(32).cast(), high);
    }
}

/// Copies `n` rows of `bytes` bytes that lie `dst_step` and `src_step` bytes apart, writing whole destination
/// lines around the cache. [`fence`] must follow in the end.
///
/// # Safety
/// Every row may be read, and written elsewhere; the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream_rows(
    (dst, dst_step): (*mut u8, isize),
    (src, src_step): (*const u8, isize),
    n: usize,
    bytes: usize,
) {
    // Far enough ahead to hide the latency of memory.
    const AHEAD: usize = 2048;
    // What comes into the cache next. The processor's own prefetching does not find its way from one row to
    // the next.
    let (mut ahead, mut ahead_at) = (src.wrapping_offset((AHEAD / bytes) as isize * src_step), AHEAD % bytes);
    for row in 0..n as isize {
        let dst = dst.wrapping_offset(row * dst_step);
        let src = src.wrapping_offset(row * src_step);
        let head = (dst.addr().wrapping_neg() % 64).min(bytes);
        let tail = (bytes - head) % 64;
        // SAFETY: head, whole lines and tail make up the row, and the lines start at multiples of 64.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, head);
            for at in (head..bytes - tail).step_by(64) {
                prefetch(ahead.wrapping_add(ahead_at));
                ahead_at += 64;
                if ahead_at >= bytes {
                    (ahead, ahead_at) = (ahead.wrapping_offset(src_step), 0);
                }
                stream_line(dst.add(at), src.add(at));
            }
            std::ptr::copy_nonoverlapping(src.add(bytes - tail), dst.add(bytes - tail), tail);
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
/// - The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream_share(dst: *mut u8, run: *mut u8, bytes: usize, first: bool, last: bool) {
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
            stream_line(dst.offset(at), run.offset(at));
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

/// Transposes `rows` rows of `bytes` bytes at `from` into rows at `to`, for items of `SIZE` bytes; `N` is
/// 16 / `SIZE`. Both extents are rounded up: `bytes` to 16, `rows` to 2 `N`.
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
pub(super) unsafe fn transpose<const SIZE: usize, const N: usize>(
    (from, from_stride): (*const u8, isize),
    rows: usize,
    bytes: usize,
    (to, to_stride): (*mut u8, usize),
) {
    const { assert!(SIZE * N == 16) };
    for row in (0..rows).step_by(2 * N) {
        for at in (0..bytes).step_by(16) {
            let mut v = [_mm256_setzero_si256(); N];
            for (r, v) in v.iter_mut().enumerate() {
                let lane = from.wrapping_offset((row + r) as isize * from_stride).wrapping_add(at);
                let next = lane.wrapping_offset(N as isize * from_stride);
                // SAFETY: 16 bytes of rows `row + r` and `row + r + N`.
                *v = unsafe {
                    let low = _mm256_castsi128_si256(_mm_loadu_si128(lane.cast()));
                    _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(next.cast()))
                };
            }
            for _ in 0..N.ilog2() {
                let u = v;
                for i in 0..N / 2 {
                    let (a, b) = (u[i], u[i + N / 2]);
                    (v[2 * i], v[2 * i + 1]) = match SIZE {
                        1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
                        2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
                        4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
                        _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                    };
                }
            }
            for (c, v) in v.into_iter().enumerate() {
                // SAFETY: 2 `N` items of row `at / SIZE + c` of the destination.
                unsafe {
                    _mm256_storeu_si256(to.add((at / SIZE + c) * to_stride + row * SIZE).cast(), v);
                }
            }
        }
    }
}
