//! Transposition of planes.
//!
//! A plane is cut into blocks. The source rows of a block are gathered into a small buffer, row by row, so
//! that each source line is used whole while it is there: rows that are a large power of two apart share few
//! places in a cache, and would push each other out while a kernel is still at work on them. From there the
//! block is transposed by vector kernels into a second buffer, whose rows then go out in runs of whole
//! destination lines. Block edges follow the lines of both sides where these lie alike in all rows.

use super::lines::{Item, Line, MapLine, RowLine};
use super::{Axis, Isa};

/// Bytes of each staging buffer; the two fit an L1 cache of 32 KiB, and leave room where smaller blocks do.
const STAGING: usize = 320 << 10;
pub static mut RB:usize=0; pub static mut CB:usize=0; pub static mut PF:usize=0; pub static mut PAD:usize=0; pub static mut DIRECT:usize=0;

/// Bytes of a line of the cache.
const CACHE_LINE: usize = 64;

/// Fewest elements that are worth staging.
const FEWEST: usize = 256;

/// Rows of elements to be made from columns: element (i, j) goes from `i * SIZE + j * src_stride` to
/// `i * dst_stride + j * SIZE`.
pub(super) struct Plane {
    /// Extent of `i`, the axis contiguous in the source.
    pub(super) rows: usize,
    /// Extent of `j`, the axis contiguous in the destination.
    pub(super) columns: usize,
    pub(super) dst_stride: isize,
    pub(super) src_stride: isize,
    /// Whether to write around the cache.
    pub(super) stream: bool,
}

/// The position of the axis along which the source is contiguous, where transposing planes of it and of the
/// last axis is worth while.
pub(super) fn source_axis(axes: &[Axis], size: usize) -> Option<usize> {
    let (inner, outer) = axes.split_last()?;
    if inner.dst != size as isize || inner.src.unsigned_abs() <= size {
        return None;
    }
    let position = outer.iter().position(|axis| axis.src.unsigned_abs() == size)?;
    let rows = outer[position].n;
    (rows >= 4 && inner.n >= 4 && rows.saturating_mul(inner.n) >= FEWEST).then_some(position)
}

/// The two buffers between source and destination.
#[repr(align(64))]
pub(super) struct Staging {
    gathered: [u8; STAGING],
    turned: [u8; STAGING],
}

pub static mut ST: Staging = Staging { gathered: [0; STAGING], turned: [0; STAGING] };
impl Staging { const fn zz()->usize {0}
    pub(super) fn new() -> Staging {
        Staging { gathered: [0; STAGING], turned: [0; STAGING] }
    }
}

/// The shape of blocks for items of a size: bytes of a gathered row and of a transposed one.
const fn block_bytes(size: usize) -> (usize, usize) {
    match size {
        1 => (64, 256),
        2 => (128, 256),
        4 => (256, 256),
        8 => (256, 512),
        _ => (512, 512),
    }
}

/// Transposes a plane.
///
/// # Safety
/// Every index of the plane addresses an item to read and one elsewhere to write; `isa` names what the
/// processor has.
pub(super) unsafe fn run<T: Item>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    staging: &mut Staging,
    isa: Isa,
    map: impl Fn(T) -> T + Copy,
) {
    // SAFETY: the caller's contract is handed on.
    unsafe {
        match isa {
            Isa::Portable => blocks(dst, src, plane, staging, isa, map),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            _ => blocks_avx2(dst, src, plane, staging, isa, map),
        }
    }
}

/// [`blocks`], compiled for AVX2.
///
/// # Safety
/// As [`run`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn blocks_avx2<T: Item>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    staging: &mut Staging,
    isa: Isa,
    map: impl Fn(T) -> T + Copy,
) {
    // SAFETY: the caller's contract is handed on.
    unsafe { blocks(dst, src, plane, staging, isa, map) }
}

/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn blocks<T: Item>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    staging: &mut Staging,
    isa: Isa,
    map: impl Fn(T) -> T + Copy,
) {
    let (row_bytes, column_bytes) = unsafe { (RB, CB) };
    let (row_bytes, column_bytes) = if row_bytes==0 {block_bytes(T::BYTES)} else {(row_bytes,column_bytes)};
    let pf = unsafe{PF}!=0;
    let direct = unsafe{DIRECT}!=0 && isa != Isa::Portable && T::BYTES < 16;
    let pitch = column_bytes + CACHE_LINE;
    let (most_rows, most_columns) = (row_bytes / T::BYTES, column_bytes / T::BYTES);
    let _=staging; #[allow(static_mut_refs)] let (gathered,turned) = unsafe { (ST.gathered.as_mut_ptr(), ST.turned.as_mut_ptr().add(CACHE_LINE)) };
    let mut row = 0;
    // The first block ends where a line does.
    let mut rows = (most_rows - src.addr() % CACHE_LINE.min(row_bytes) / T::BYTES).min(plane.rows);
    while row < plane.rows {
        let mut column = 0;
        while column < plane.columns {
            let columns = most_columns.min(plane.columns - column);
            let from = src.wrapping_add(row * T::BYTES).wrapping_offset(column as isize * plane.src_stride);
            let to = dst.wrapping_offset(row as isize * plane.dst_stride).wrapping_add(column * T::BYTES);
            let last = column + columns == plane.columns;
            let ahead = if unsafe{PF}>1 && direct { let g=(unsafe{PF}-1)*(16/T::BYTES); if plane.columns-column > columns+g {from.wrapping_offset(g as isize * plane.src_stride)} else {std::ptr::null()} } else if !pf { std::ptr::null() } else if !last {
                from.wrapping_offset(columns as isize * plane.src_stride)
            } else if row + rows < plane.rows {
                src.wrapping_add((row + rows) * T::BYTES)
            } else { std::ptr::null() };
            unsafe {
                if direct && columns == most_columns && rows == most_rows {
                    turn::<T>(from, plane.src_stride, columns, rows, turned, pitch, isa, ahead, plane.src_stride);
                } else {
                    let group = if T::BYTES == 16 { 8 } else { 32 / T::BYTES };
                    let dist = unsafe { PAD };
                    let width = rows * T::BYTES;
                    for g in (0..columns).step_by(group) {
                        let n = group.min(columns - g);
                        for r in g..g + n {
                            let p = from.wrapping_offset(r as isize * plane.src_stride);
                            if dist > 0 && column + r + dist < plane.columns {
                                let q = p.wrapping_offset(dist as isize * plane.src_stride);
                                for at in (0..width).step_by(64) { super::x86::prefetch(q.wrapping_add(at)); }
                            }
                            RowLine { bytes: width }.run(gathered.add((r - g) * row_bytes), 0, p, 0, 1);
                        }
                        turn::<T>(gathered, row_bytes as isize, n, rows, turned.add(g * T::BYTES), pitch, isa, std::ptr::null(), 0);
                    }
                }
                for r in 0..rows {
                    let run = turned.add(r * pitch);
                    MapLine::new(map).run(run, T::BYTES as isize, run, T::BYTES as isize, columns);
                    put(to.wrapping_offset(r as isize * plane.dst_stride), run, columns * T::BYTES, column == 0, last, plane.stream, isa);
                }
            }
            column += columns;
        }
        row += rows;
        rows = most_rows.min(plane.rows - row);
    }
}

/// Copies `n` source rows of `bytes` bytes into the first buffer.
///
/// # Safety
/// The rows may be read, and `n` rows of `stride` bytes written.
#[inline(always)]
unsafe fn gather(
    gathered: *mut u8,
    stride: usize,
    src: *const u8,
    src_stride: isize,
    n: usize,
    bytes: usize,
    whole: usize,
) {
    // SAFETY: the caller's contract. The first case is the second with a length the compiler knows.
    unsafe {
        if bytes == whole {
            RowLine { bytes: whole }.run(gathered, stride as isize, src, src_stride, n);
        } else {
            RowLine { bytes }.run(gathered, stride as isize, src, src_stride, n);
        }
    }
}

/// Transposes `columns` gathered rows of `rows` items into `rows` rows of `columns` items.
///
/// # Safety
/// Both buffers have room for a block rounded up to whole kernels.
#[inline(always)]
unsafe fn turn<T: Item>(
    from: *const u8,
    from_stride: isize,
    columns: usize,
    rows: usize,
    to: *mut u8,
    to_stride: usize,
    isa: Isa,
    ahead: *const u8,
    ahead_stride: isize,
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use super::x86::{transpose_avx2, transpose_avx512};
        let bytes = rows * T::BYTES;
        // SAFETY: the caller's contract; `isa` names what the processor has.
        unsafe {
            match (isa, T::BYTES) {
                (Isa::Avx2, 1) => return transpose_avx2::<1, 16>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx2, 2) => return transpose_avx2::<2, 8>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx2, 4) => return transpose_avx2::<4, 4>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx2, 8) => return transpose_avx2::<8, 2>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx512, 1) => return transpose_avx512::<1, 16>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx512, 2) => return transpose_avx512::<2, 8>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx512, 4) => return transpose_avx512::<4, 4>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                (Isa::Avx512, 8) => return transpose_avx512::<8, 2>(from, from_stride, columns, bytes, to, to_stride, ahead, ahead_stride),
                _ => {}
            }
        }
    }
    let _ = isa;
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: the item lies in the block.
            unsafe {
                let item = from.offset(column as isize * from_stride + (row * T::BYTES) as isize).cast::<T>().read_unaligned();
                to.add(row * to_stride + column * T::BYTES).cast::<T>().write_unaligned(item);
            }
        }
    }
}

/// Writes a run of transposed items.
///
/// # Safety
/// `bytes` bytes may be read, and written at `dst`.
#[inline(always)]
unsafe fn put(dst: *mut u8, run: *mut u8, bytes: usize, first: bool, last: bool, stream: bool, isa: Isa) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if stream && isa != Isa::Portable {
        // SAFETY: the caller's contract; anything but `Portable` includes AVX2.
        return unsafe { super::x86::stream_run(dst, run, bytes, first, last) };
    }
    let _ = (stream, isa);
    // SAFETY: the caller's contract.
    unsafe { RowLine { bytes }.run(dst, 0, run, 0, 1) }
}
