//! Transposition of planes.
//!
//! A plane is cut into blocks. Source rows are read in runs of several cache lines, turned by vector kernels
//! into a staging buffer, and go out from there in runs of whole destination lines. Runs of this length are
//! what memory delivers and takes at speed; a kernel's own 16 or 32 bytes are not.
//!
//! Kernels for small elements read many source rows at once. Where these are a large power of two apart, they
//! share few places in the cache and push each other out before they are used up. For elements of 1 and 2
//! bytes such rows are therefore gathered first, one after the other, in groups that fill a kernel. So are the
//! ends of blocks that do not fill kernels, and items such as pixels of three bytes, which are spread to the
//! size of an element on the way and moved together again in the staging buffer.
//!
//! While a block is written, the source lines of the next are asked for, so that memory is busy both ways all
//! the time; so are the lines at the ends of destination rows, some rows before they are written.

use super::lines::{Item, Line, MapLine, RowLine};
use super::{Axis, Isa};
use std::mem::MaybeUninit;

/// Bytes of a line of the cache.
const CACHE_LINE: usize = 64;

/// Fewest elements that are worth staging.
const FEWEST: usize = 256;

/// Destination rows by which asking for their lines runs ahead of writing them.
const PUTS_AHEAD: usize = 16;

/// Rows of elements to be made from columns: element (i, j) goes from `i * packed + j * src_stride` to
/// `i * dst_stride + j * packed`.
pub(super) struct Plane {
    /// Extent of `i`, the axis contiguous in the source.
    pub(super) rows: usize,
    /// Extent of `j`, the axis contiguous in the destination.
    pub(super) columns: usize,
    /// Distance of destination rows.
    pub(super) dst_stride: isize,
    /// Distance of destination columns in the source.
    pub(super) src_stride: isize,
    /// Bytes of an item in memory, at most those of its type. Where they are fewer, such as the three of a
    /// pixel, the kernels see the item with others behind it that mean nothing.
    pub(super) packed: usize,
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
    /// Whether source rows are gathered for the kernels where they share places in the cache.
    gather: bool,
}

impl Cut {
    const fn new(size: usize) -> Cut {
        let gather = size <= 2;
        let row_bytes = if size <= 2 { 256 } else { 512 };
        let column_bytes = if size <= 2 { 256 } else { 512 };
        let group = 64 / size;
        let cut = Cut { row_bytes, column_bytes, group, gather };
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

const GATHERED: usize = (16 << 10) + 16;
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
            Isa::Avx2 => blocks_avx2(dst, src, plane, staging, map),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Isa::Avx512 => blocks_avx512(dst, src, plane, staging, map),
        }
    }
}

/// [`blocks`], compiled for AVX2.
///
/// # Safety
/// As [`run`]; the processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn blocks_avx2<T: Item>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    staging: &mut Staging,
    map: impl Fn(T) -> T + Copy,
) {
    // SAFETY: the caller's contract is handed on.
    unsafe { blocks(dst, src, plane, staging, Isa::Avx2, map) }
}

/// [`blocks`], compiled for AVX-512.
///
/// # Safety
/// As [`run`]; the processor has AVX-512F and AVX-512BW.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn blocks_avx512<T: Item>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    staging: &mut Staging,
    map: impl Fn(T) -> T + Copy,
) {
    // SAFETY: the caller's contract is handed on.
    unsafe { blocks(dst, src, plane, staging, Isa::Avx512, map) }
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
    let stride = plane.src_stride;
    // A constant for most.
    let packed = if plane.packed == T::BYTES { T::BYTES } else { plane.packed };
    let packing = (packed != T::BYTES).then(|| Packing::new(packed, T::BYTES));
    let direct = isa != Isa::Portable && packing.is_none() && !(cut.gather && crowded(stride));
    // What is not written around the cache may be in it: asking then only takes time.
    if plane.stream {
        Ahead::new(src, stride, rows * packed, most_columns.min(plane.columns), 1).ask();
    }
    while row < plane.rows {
        let rows_after = most_rows.min(plane.rows - row - rows);
        for column in (0..plane.columns).step_by(most_columns) {
            let columns = most_columns.min(plane.columns - column);
            let from = src.wrapping_add(row * packed).wrapping_offset(column as isize * stride);
            let to = dst.wrapping_offset(row as isize * plane.dst_stride).wrapping_add(column * packed);
            let (first, last) = (column == 0, column + columns == plane.columns);
            let stream = plane.stream.then_some((first, last));
            let mut ahead = if !plane.stream {
                Ahead::new(src, stride, 0, 0, 1)
            } else if last {
                let next = src.wrapping_add((row + rows) * packed);
                let columns = most_columns.min(plane.columns);
                Ahead::new(next, stride, rows_after * packed, columns, rows)
            } else {
                let next = from.wrapping_offset(columns as isize * stride);
                let columns = most_columns.min(plane.columns - column - columns);
                Ahead::new(next, stride, rows * packed, columns, rows)
            };
            let ask_for = |r: usize| {
                if let (true, Some(ends)) = (r < rows, stream) {
                    let to = to.wrapping_offset(r as isize * plane.dst_stride);
                    ask_for_ends(to, columns * packed, ends);
                }
            };
            (0..PUTS_AHEAD).for_each(ask_for);
            // SAFETY: the block lies inside the plane and inside a cut; the shares of a destination row are
            // put in order, all but the last of them `column_bytes` long.
            unsafe {
                // What fills kernels is read where it lies, if it may be, and the rest gathered first.
                let (mut r, mut c) = (0, 0);
                if direct {
                    (r, c) = (rows - rows % (16 / T::BYTES), columns - columns % cut.group);
                }
                let turned = staging.turned.as_mut_ptr().cast::<u8>().add(CACHE_LINE);
                if r > 0 && c > 0 {
                    turn::<T>((from, stride), r, c, (turned, cut.pitch()), isa);
                }
                let gathered = &mut staging.gathered;
                if c < columns {
                    let (from, to) = (from.wrapping_offset(c as isize * stride), turned.add(c * T::BYTES));
                    turn_gathered::<T>((from, stride), rows, columns - c, to, packing, gathered, isa);
                }
                if r < rows && c > 0 {
                    let (from, to) = (from.wrapping_add(r * T::BYTES), turned.add(r * cut.pitch()));
                    turn_gathered::<T>((from, stride), rows - r, c, to, packing, gathered, isa);
                }
                for r in 0..rows {
                    let run = turned.add(r * cut.pitch());
                    if !plane.plain {
                        MapLine::new(map).run(run, T::BYTES as isize, run, T::BYTES as isize, columns);
                    }
                    if let Some(packing) = &packing {
                        packing.narrow(run, columns, isa);
                    }
                    ask_for(r + PUTS_AHEAD);
                    let to = to.wrapping_offset(r as isize * plane.dst_stride);
                    put(to, run, columns * packed, stream, isa);
                    ahead.ask();
                }
            }
        }
        row += rows;
        rows = rows_after;
    }
}

/// Whether rows at this distance share so few places in the cache that those of a kernel push each other out:
/// a cache of the first level has a line's places at every 4 KiB, about a dozen of them.
fn crowded(stride: isize) -> bool {
    let beyond = stride.unsigned_abs() % 1024;
    beyond.min(1024 - beyond) < 8
}

/// Source lines that are brought into the cache a few at a time, while the block before them is written:
/// reading and writing then go on side by side, and what is read has the time of a block to arrive.
struct Ahead {
    row: *const u8,
    stride: isize,
    rows: usize,
    /// Lines of a row.
    lines: usize,
    /// Lines of the first row that were asked for.
    line: usize,
    /// Lines to ask for at a time.
    share: usize,
}

impl Ahead {
    /// The lines of `rows` rows of `bytes` bytes, to be asked for in so many shares.
    #[inline(always)]
    fn new(row: *const u8, stride: isize, bytes: usize, rows: usize, shares: usize) -> Ahead {
        let aligned = row.addr().is_multiple_of(CACHE_LINE) && stride % CACHE_LINE as isize == 0;
        let lines = bytes.div_ceil(CACHE_LINE) + usize::from(!aligned);
        let rows = if bytes == 0 { 0 } else { rows };
        Ahead { row, stride, rows, lines, line: 0, share: (lines * rows).div_ceil(shares) }
    }

    /// Asks for the next share.
    #[inline(always)]
    fn ask(&mut self) {
        for _ in 0..self.share {
            if self.rows == 0 {
                return;
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            super::x86::prefetch_far(self.row.wrapping_add(self.line * CACHE_LINE));
            self.line += 1;
            if self.line == self.lines {
                (self.row, self.line) = (self.row.wrapping_offset(self.stride), 0);
                self.rows -= 1;
            }
        }
    }
}

/// Asks for the lines at the ends of a destination row, as far as they are in its first and in its last share:
/// they are not written around the cache, and a store that waits for its line holds up all stores behind it.
#[inline(always)]
fn ask_for_ends(to: *mut u8, bytes: usize, (first, last): (bool, bool)) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if first {
            super::x86::prefetch(to);
        }
        if last {
            super::x86::prefetch(to.wrapping_add(bytes - 1));
        }
    }
    let _ = (to, bytes, first, last);
}

/// Turns a part of a block by way of the buffer of gathered rows, in which groups may be incomplete.
///
/// # Safety
/// The part may be read and is no larger than a cut. At `to` it may be written in rows of a cut's pitch, with
/// the extents rounded up.
#[inline(always)]
unsafe fn turn_gathered<T: Item>(
    (from, stride): (*const u8, isize),
    rows: usize,
    columns: usize,
    to: *mut u8,
    packing: Option<Packing>,
    gathered: &mut [u8; GATHERED],
    isa: Isa,
) {
    let cut = const { Cut::new(T::BYTES) };
    let bytes = rows * T::BYTES;
    let gathered = gathered.as_mut_ptr();
    for start in (0..columns).step_by(cut.group) {
        let n = cut.group.min(columns - start);
        // SAFETY: the rows of a group fit the buffer; every byte of it has a value.
        unsafe {
            for k in 0..n {
                let row = from.wrapping_offset((start + k) as isize * stride);
                let to = gathered.add(k * cut.row_bytes);
                match &packing {
                    Some(packing) => packing.widen(to, row, rows, isa),
                    None => RowLine { bytes }.run(to, 0, row, 0, 1),
                }
            }
            let from = (gathered.cast_const(), cut.row_bytes as isize);
            turn::<T>(from, rows, n, (to.add(start * T::BYTES), cut.pitch()), isa);
        }
    }
}

/// The way of items between memory, where they take fewer bytes than their type, and the kernels.
#[derive(Clone, Copy)]
struct Packing {
    packed: usize,
    wide: usize,
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    vectors: super::x86::Spacing,
}

impl Packing {
    fn new(packed: usize, wide: usize) -> Packing {
        Packing {
            packed,
            wide,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            vectors: super::x86::Spacing::new(packed, wide),
        }
    }

    /// Spreads `n` items. What is between them afterwards means nothing.
    ///
    /// # Safety
    /// The items may be read, and `n` items of the type and 16 bytes beyond written elsewhere.
    #[inline(always)]
    unsafe fn widen(&self, to: *mut u8, from: *const u8, n: usize, isa: Isa) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if isa != Isa::Portable {
            // SAFETY: the caller's contract is handed on.
            return unsafe { self.vectors.widen(to, from, n) };
        }
        let _ = isa;
        for k in 0..n {
            // SAFETY: item `k`.
            unsafe {
                let (to, from) = (to.add(k * self.wide), from.add(k * self.packed));
                std::ptr::copy_nonoverlapping(from, to, self.packed);
            }
        }
    }

    /// Moves `n` items together again, in place.
    ///
    /// # Safety
    /// `n` items of the type may be read, and as many more as fill 16 bytes; 16 bytes beyond may be written.
    #[inline(always)]
    unsafe fn narrow(&self, items: *mut u8, n: usize, isa: Isa) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if isa != Isa::Portable {
            // SAFETY: the caller's contract is handed on.
            return unsafe { self.vectors.narrow(items, n) };
        }
        let _ = isa;
        for k in 1..n {
            // SAFETY: item `k` moves towards the start.
            unsafe { std::ptr::copy(items.add(k * self.wide), items.add(k * self.packed), self.packed) }
        }
    }
}

/// Transposes `columns` rows of `rows` items each into `rows` rows of `columns` items. The vector kernels
/// round both extents up to whole groups.
///
/// # Safety
/// The items may be read, and written at `to`, with the extents rounded up.
#[inline(always)]
unsafe fn turn<T: Item>(
    from: (*const u8, isize),
    rows: usize,
    columns: usize,
    to: (*mut u8, usize),
    isa: Isa,
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if isa != Isa::Portable {
        // SAFETY: the caller's contract is handed on; `isa` names what the processor has.
        return unsafe { super::x86::transpose::<T>(from, columns, rows * T::BYTES, to, isa) };
    }
    let _ = isa;
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
    if let (Some((first, last)), true) = (stream, isa != Isa::Portable) {
        // SAFETY: the caller's contract is handed on.
        return unsafe { super::x86::stream_share(dst, run, bytes, (first, last), isa) };
    }
    let _ = (stream, isa);
    // SAFETY: the caller's contract is handed on, for a line of one row.
    unsafe { RowLine { bytes }.run(dst, 0, run, 0, 1) }
}
