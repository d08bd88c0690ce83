//! Transposition of planes.
//!
//! A plane is cut into blocks. Source rows are read in runs of several cache lines, turned by vector kernels
//! into a staging buffer, and go out from there in runs of whole destination lines. Runs of this length are
//! what memory delivers and takes at speed; a kernel's own 16 or 32 bytes are not.
//!
//! Kernels for small elements read many source rows at once. Where these are a large power of two apart, they
//! share few places in the cache and push each other out before they are used up. For elements of 1 and 2
//! bytes the rows are therefore gathered first, one after the other, in groups that fill a kernel.

use super::lines::{Item, Line, MapLine, RowLine};
use super::{Axis, Isa};
use std::mem::MaybeUninit;

/// Bytes of a line of the cache.
const CACHE_LINE: usize = 64;

/// Fewest elements that are worth staging.
const FEWEST: usize = 256;

/// Source rows by which gathering runs ahead of itself.
const ROWS_AHEAD: usize = 6;

/// Rows of elements to be made from columns: element (i, j) goes from `i * SIZE + j * src_stride` to
/// `i * dst_stride + j * SIZE`.
pub(super) struct Plane {
    /// Extent of `i`, the axis contiguous in the source.
    pub(super) rows: usize,
    /// Extent of `j`, the axis contiguous in the destination.
    pub(super) columns: usize,
    /// Distance of destination rows.
    pub(super) dst_stride: isize,
    /// Distance of destination columns in the source.
    pub(super) src_stride: isize,
    /// Whether elements are moved as they are.
    pub(super) plain: bool,
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

/// How a plane of items of some size is cut.
struct Cut {
    /// Bytes of a block's source rows.
    row_bytes: usize,
    /// Bytes of its destination rows.
    column_bytes: usize,
    /// Source rows that a kernel reads at once.
    group: usize,
    /// Whether source rows are gathered for the kernels.
    gather: bool,
}

impl Cut {
    const fn new(size: usize) -> Cut {
        let gather = !matches!(size, 4 | 8);
        let row_bytes = if size <= 2 { 256 } else { 512 };
        let group = if size == 16 { 8 } else { 32 / size };
        let cut = Cut { row_bytes, column_bytes: 256, group, gather };
        assert!(cut.group * cut.row_bytes <= GATHERED);
        assert!(cut.row_bytes / size * cut.pitch() <= TURNED);
        // Whole blocks are whole kernels, and shares of a row are whole lines or more.
        assert!((cut.column_bytes / size).is_multiple_of(cut.group) && cut.column_bytes >= CACHE_LINE);
        cut
    }

    /// Distance of rows in the staging buffer: the room in front holds what is left of an unfinished line.
    const fn pitch(&self) -> usize {
        self.column_bytes + CACHE_LINE
    }
}

const GATHERED: usize = 8 << 10;
const TURNED: usize = 80 << 10;

/// The buffers between source and destination. Kernels read the first beyond what was gathered; of the second
/// nothing is read that was not written before.
#[repr(align(64))]
pub(super) struct Staging {
    gathered: [u8; GATHERED],
    turned: MaybeUninit<[u8; TURNED]>,
}

impl Staging {
    pub(super) fn new() -> Box<Staging> {
        // Made on the heap: worker threads may have small stacks.
        let mut staging: Box<MaybeUninit<Staging>> = Box::new_uninit();
        // SAFETY: the first buffer is given its zeros here; the second needs no value.
        unsafe {
            (&raw mut (*staging.as_mut_ptr()).gathered).write_bytes(0, 1);
            staging.assume_init()
        }
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
            Isa::Avx2 => blocks_avx2(dst, src, plane, staging, isa, map),
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

/// Transposes a plane block by block, along destination rows first.
///
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
    let cut = const { Cut::new(T::BYTES) };
    let most_columns = cut.column_bytes / T::BYTES;
    let most_rows = cut.row_bytes / T::BYTES;
    let mut row = 0;
    // The first block ends where a source line does.
    let mut rows = (most_rows - src.addr() % CACHE_LINE / T::BYTES).min(plane.rows);
    while row < plane.rows {
        for column in (0..plane.columns).step_by(most_columns) {
            let columns = most_columns.min(plane.columns - column);
            let from = src.wrapping_add(row * T::BYTES).wrapping_offset(column as isize * plane.src_stride);
            let to = dst.wrapping_offset(row as isize * plane.dst_stride).wrapping_add(column * T::BYTES);
            let (first, last) = (column == 0, column + columns == plane.columns);
            // SAFETY: the block lies inside the plane and inside a cut; the shares of a destination row are
            // put in order, all but the last of them `column_bytes` long.
            unsafe {
                if cut.gather || isa == Isa::Portable || columns < most_columns || rows < most_rows {
                    let beyond = plane.columns - column - columns;
                    turn_gathered::<T>(from, plane.src_stride, rows, columns, beyond, staging, isa);
                } else {
                    let near = cut.group as isize * plane.src_stride;
                    let ahead = if last { std::ptr::null() } else { from.wrapping_offset(near) };
                    let to = staging.turned.as_mut_ptr().cast::<u8>().add(CACHE_LINE);
                    turn::<T>((from, plane.src_stride), rows, columns, (to, cut.pitch()), ahead, isa);
                }
                for r in 0..rows {
                    let run = staging.turned.as_mut_ptr().cast::<u8>().add(CACHE_LINE + r * cut.pitch());
                    if !plane.plain {
                        MapLine::new(map).run(run, T::BYTES as isize, run, T::BYTES as isize, columns);
                    }
                    let to = to.wrapping_offset(r as isize * plane.dst_stride);
                    put(to, run, columns * T::BYTES, plane.stream.then_some((first, last)), isa);
                }
            }
        }
        row += rows;
        rows = most_rows.min(plane.rows - row);
    }
}

/// Turns a block by way of the buffer of gathered rows, in which groups may be incomplete. `beyond` more
/// source rows follow those of the block.
///
/// # Safety
/// The block may be read and is no larger than a cut.
#[inline(always)]
unsafe fn turn_gathered<T: Item>(
    from: *const u8,
    stride: isize,
    rows: usize,
    columns: usize,
    beyond: usize,
    staging: &mut Staging,
    isa: Isa,
) {
    let cut = const { Cut::new(T::BYTES) };
    let bytes = rows * T::BYTES;
    let gathered = staging.gathered.as_mut_ptr();
    let turned = staging.turned.as_mut_ptr().cast::<u8>();
    for start in (0..columns).step_by(cut.group) {
        let n = cut.group.min(columns - start);
        // SAFETY: the rows of a group fit the first buffer, its columns the second, rounded up as well; every
        // byte of the first has a value.
        unsafe {
            for k in 0..n {
                let row = from.wrapping_offset((start + k) as isize * stride);
                if start + k + ROWS_AHEAD < columns + beyond {
                    prefetch_run(row.wrapping_offset(ROWS_AHEAD as isize * stride), bytes);
                }
                RowLine { bytes }.run(gathered.add(k * cut.row_bytes), 0, row, 0, 1);
            }
            let to = turned.add(CACHE_LINE + start * T::BYTES);
            let from = (gathered.cast_const(), cut.row_bytes as isize);
            turn::<T>(from, rows, n, (to, cut.pitch()), std::ptr::null(), isa);
        }
    }
}

/// Asks for a run of bytes to be brought into the cache, where the processor can be asked.
#[inline(always)]
fn prefetch_run(run: *const u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for at in (0..bytes).step_by(CACHE_LINE) {
        super::x86::prefetch(run.wrapping_add(at));
    }
    let _ = (run, bytes);
}

/// Transposes `columns` rows of `rows` items each into `rows` rows of `columns` items. The vector kernels
/// round both extents up to whole groups, and prefetch rows that lie at `ahead` unless it is null.
///
/// # Safety
/// The items may be read, and written at `to`, with the extents rounded up.
#[inline(always)]
unsafe fn turn<T: Item>(
    from: (*const u8, isize),
    rows: usize,
    columns: usize,
    to: (*mut u8, usize),
    ahead: *const u8,
    isa: Isa,
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if isa == Isa::Avx2 {
        use super::x86::transpose;
        let bytes = rows * T::BYTES;
        // SAFETY: the caller's contract is handed on.
        unsafe {
            match T::BYTES {
                1 => return transpose::<1, 16>(from, columns, bytes, to, ahead),
                2 => return transpose::<2, 8>(from, columns, bytes, to, ahead),
                4 => return transpose::<4, 4>(from, columns, bytes, to, ahead),
                8 => return transpose::<8, 2>(from, columns, bytes, to, ahead),
                _ => {}
            }
        }
    }
    let _ = (ahead, isa);
    for row in 0..rows {
        for column in 0..columns {
            let item = from.0.wrapping_offset(column as isize * from.1).wrapping_add(row * T::BYTES);
            // SAFETY: the item lies in the block, on both sides.
            unsafe {
                let item = item.cast::<T>().read_unaligned();
                to.0.add(row * to.1 + column * T::BYTES).cast::<T>().write_unaligned(item);
            }
        }
    }
}

/// Writes one block's share of a destination row; around the cache where `stream` tells whether it is the
/// first and whether it is the last share.
///
/// # Safety
/// `bytes` bytes may be read, and written at `dst`. For streaming, as for the kernel.
#[inline(always)]
unsafe fn put(dst: *mut u8, run: *mut u8, bytes: usize, stream: Option<(bool, bool)>, isa: Isa) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let (Some((first, last)), Isa::Avx2) = (stream, isa) {
        // SAFETY: the caller's contract is handed on.
        return unsafe { super::x86::stream_share(dst, run, bytes, first, last) };
    }
    let _ = (stream, isa);
    // SAFETY: the caller's contract is handed on, for a line of one row.
    unsafe { RowLine { bytes }.run(dst, 0, run, 0, 1) }
}
