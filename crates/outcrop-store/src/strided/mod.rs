//! Copies between strided n-dimensional blocks of memory.
//!
//! A block is first brought to a normal form: no axis of extent 1, every destination stride positive, axes
//! sorted by destination stride with the largest outermost, axes merged where both sides allow it, and
//! runs of 2 to 16 bytes that stay together made one item. What remains is one of three things:
//! - the innermost axis is contiguous on both sides: rows are copied;
//! - it is contiguous in the destination while another axis is contiguous in the source: planes of the two
//!   axes are transposed (`transpose`); so are planes of items of other sizes up to 15 bytes, such as pixels;
//! - anything else: a loop over lines of items (`lines`), in blocks where that keeps source cache lines in use.
//!
//! Copies too large for the cache are written around it, as far as whole destination lines are written.

mod lines;
#[cfg(test)]
mod tests;
mod transpose;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

use lines::{Item, Line, MapLine, RowLine};
use smallvec::SmallVec;

/// Bytes from which a copy is written around the cache, about what an L2 cache holds. Blocks of this size and
/// more come from memory and go there; smaller ones may be at hand, and are soon used.
const STREAM_BYTES: usize = 1 << 20;

/// The same for small elements that are transposed, as a share of it. Transposing these takes long enough in the cache for
/// stores around it to be no slower, and in memory they save reading the destination.
const STREAM_PLANES: usize = 4;

/// Bytes of a row from which it may be written around the cache: the incomplete lines at the ends of shorter
/// rows cost more than that saves.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STREAM_ROW: usize = 1024;

/// Bytes of a row from which it is copied by itself and not as an item of a line.
const LONG_ROW: usize = 384;

/// Copies an n-dimensional block of elements of `itemsize` bytes (1, 2, 4, 8 or 16) between two strided
/// places that do not overlap.
///
/// Strides are in bytes and may be negative; in the source they may be zero. Neither side need be aligned.
/// A block without axes is one element.
///
/// # Panics
/// Where `itemsize` is another number, or the strides and the shape differ in their number of axes.
///
/// # Safety
/// For every index inside `shape`, `itemsize` bytes at the address it gives must be valid for reads (`src`)
/// and for writes (`dst`), and no byte may belong to both sides.
pub unsafe fn copy(
    dst: *mut u8,
    dst_strides: &[isize],
    src: *const u8,
    src_strides: &[isize],
    shape: &[u64],
    itemsize: usize,
) {
    // SAFETY: the caller keeps this contract, which is the same.
    unsafe { copy_swapped(dst, dst_strides, src, src_strides, shape, itemsize, 1) }
}

/// Copies as [`copy`] does, and reverses the bytes of every `word`-byte number on the way.
///
/// `word` is 1 (a plain copy), `itemsize`, or `itemsize / 2` (complex numbers).
///
/// # Panics
/// As [`copy`], and where `word` is another number.
///
/// # Safety
/// As [`copy`].
pub unsafe fn copy_swapped(
    dst: *mut u8,
    dst_strides: &[isize],
    src: *const u8,
    src_strides: &[isize],
    shape: &[u64],
    itemsize: usize,
    word: usize,
) {
    let means = Means { isa: Isa::detect(), stream_bytes: STREAM_BYTES };
    // SAFETY: the caller keeps this contract, which is the same; the processor has what was detected.
    unsafe { copy_with(dst, dst_strides, src, src_strides, shape, itemsize, word, means) }
}

/// Copies as [`copy_swapped`] does, by means of the caller's choice.
///
/// # Safety
/// As [`copy`]; the processor has the instructions.
#[allow(clippy::too_many_arguments)]
unsafe fn copy_with(
    dst: *mut u8,
    dst_strides: &[isize],
    src: *const u8,
    src_strides: &[isize],
    shape: &[u64],
    itemsize: usize,
    word: usize,
    means: Means,
) {
    assert!(matches!(itemsize, 1 | 2 | 4 | 8 | 16), "elements of {itemsize} bytes");
    assert!(word == 1 || word == itemsize || word * 2 == itemsize, "words of {word} in {itemsize} bytes");
    assert!(
        dst_strides.len() == shape.len() && src_strides.len() == shape.len(),
        "{} axes with {} and {} strides",
        shape.len(),
        dst_strides.len(),
        src_strides.len()
    );
    if shape.contains(&0) {
        return;
    }
    let mut block = Block::new(dst, dst_strides, src, src_strides, shape);
    let itemsize = block.widen_items(itemsize, word);
    // SAFETY: the block addresses the caller's bytes, in another order; items of the new size are runs of
    // the caller's elements that lie together on both sides.
    unsafe {
        match itemsize {
            1 => move_items::<u8>(&block, word, means),
            2 => move_items::<u16>(&block, word, means),
            4 => move_items::<u32>(&block, word, means),
            8 => move_items::<u64>(&block, word, means),
            _ => move_items::<u128>(&block, word, means),
        }
    }
}

/// Fills a strided block with copies of one element of 1, 2, 4, 8 or 16 bytes.
///
/// # Panics
/// As [`copy`].
///
/// # Safety
/// For every index inside `shape`, `element.len()` bytes at the address it gives must be valid for writes
/// and outside `element`.
pub unsafe fn fill(dst: *mut u8, dst_strides: &[isize], shape: &[u64], element: &[u8]) {
    let zeros: SmallVec<[isize; 8]> = SmallVec::from_elem(0, shape.len());
    // SAFETY: every index reads `element`; the caller vouches for the writes.
    unsafe { copy(dst, dst_strides, element.as_ptr(), &zeros, shape, element.len()) }
}

/// One axis of a block: extent, and strides in bytes.
#[derive(Clone, Copy)]
struct Axis {
    n: usize,
    dst: isize,
    src: isize,
}

type Axes = SmallVec<[Axis; 8]>;

/// A non-empty block in the normal form described at the top.
struct Block {
    dst: *mut u8,
    src: *const u8,
    axes: Axes,
}

impl Block {
    fn new(
        mut dst: *mut u8,
        dst_strides: &[isize],
        mut src: *const u8,
        src_strides: &[isize],
        shape: &[u64],
    ) -> Block {
        let mut axes = Axes::new();
        for ((&n, &d), &s) in shape.iter().zip(dst_strides).zip(src_strides) {
            let n = n as usize;
            if n == 1 {
                continue;
            }
            if d < 0 {
                let last = (n - 1) as isize;
                dst = dst.wrapping_offset(last * d);
                src = src.wrapping_offset(last * s);
                axes.push(Axis { n, dst: -d, src: -s });
            } else {
                axes.push(Axis { n, dst: d, src: s });
            }
        }
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.dst));
        let mut merged = Axes::new();
        for axis in axes {
            match merged.last_mut() {
                Some(outer)
                    if outer.dst == axis.dst * axis.n as isize && outer.src == axis.src * axis.n as isize =>
                {
                    *outer = Axis { n: outer.n * axis.n, ..axis };
                }
                _ => merged.push(axis),
            }
        }
        Block { dst, src, axes: merged }
    }

    /// Makes one item of an innermost run of elements that lie together on both sides, where its bytes are
    /// an item's, and returns the size of items.
    fn widen_items(&mut self, itemsize: usize, word: usize) -> usize {
        if let Some(&Axis { n, dst, src }) = self.axes.last() {
            let wide = n.saturating_mul(itemsize);
            let together = dst == itemsize as isize && src == itemsize as isize;
            if together && matches!(wide, 2 | 4 | 8 | 16) && (word == 1 || word * 2 == wide) {
                self.axes.pop();
                return wide;
            }
        }
        itemsize
    }

    fn bytes(&self, itemsize: usize) -> usize {
        self.axes.iter().fold(itemsize, |bytes, axis| bytes.saturating_mul(axis.n))
    }
}

/// The instructions to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Isa {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2,
    /// The foundation, with operations on bytes and words, and AVX2.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512,
}

impl Isa {
    fn detect() -> Isa {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx2")
            {
                return Isa::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Isa::Avx2;
            }
        }
        Isa::Portable
    }
}

/// How a block is moved.
#[derive(Clone, Copy)]
struct Means {
    isa: Isa,
    /// Bytes from which a block is written around the cache.
    stream_bytes: usize,
}

/// Copies a block of items of type `T`, reversing words of `word` bytes.
///
/// # Safety
/// Every index of the block addresses an item that may be read, and one elsewhere that may be written.
unsafe fn move_items<T: Item>(block: &Block, word: usize, means: Means) {
    // SAFETY: the caller's contract is handed on.
    unsafe {
        if word == 1 {
            move_mapped(block, means, true, |item: T| item)
        } else if word == T::BYTES {
            move_mapped(block, means, false, T::reversed)
        } else {
            move_mapped(block, means, false, T::halves_reversed)
        }
    }
}

/// Copies a block of items through `map`, which returns its argument where `plain` is true.
///
/// # Safety
/// As [`move_items`].
unsafe fn move_mapped<T: Item>(block: &Block, means: Means, plain: bool, map: impl Fn(T) -> T + Copy) {
    let isa = means.isa;
    let size = T::BYTES as isize;
    let stream = block.bytes(T::BYTES) >= means.stream_bytes;
    let share = if T::BYTES <= 2 { STREAM_PLANES } else { 1 };
    let stream_planes = block.bytes(T::BYTES) >= means.stream_bytes / share;
    let Some((&inner, outer)) = block.axes.split_last() else {
        // SAFETY: a block without axes is one item at its pointers.
        return unsafe { MapLine::new(map).run(block.dst, size, block.src, size, 1) };
    };
    if plain && inner.dst == size && inner.src == size {
        let bytes = inner.n * T::BYTES;
        if let Some(axis) =
            transpose::source_axis(outer, bytes).filter(|_| bytes < 16 && !bytes.is_power_of_two())
        {
            let packed = Block { axes: outer.into(), ..*block };
            // SAFETY: rows of fewer bytes than a type has are its items, contiguous along `axis` in the source
            // and along the last of the other axes in the destination.
            unsafe {
                match bytes {
                    3 => return by_planes(&packed, axis, bytes, isa, stream_planes, true, |item: u32| item),
                    5..=7 => {
                        return by_planes(&packed, axis, bytes, isa, stream_planes, true, |item: u64| item);
                    }
                    _ => return by_planes(&packed, axis, bytes, isa, stream_planes, true, |item: u128| item),
                }
            }
        }
        // SAFETY: the innermost axis is a row of bytes on both sides, and the other axes give the rows.
        return unsafe { by_rows(block, outer, inner.n * T::BYTES, isa, stream) };
    }
    if let Some(axis) = transpose::source_axis(&block.axes, T::BYTES) {
        // SAFETY: `axis` is contiguous in the source and `inner` in the destination.
        return unsafe { by_planes(block, axis, T::BYTES, isa, stream_planes, plain, map) };
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if plain && stream && isa != Isa::Portable && inner.dst == size && inner.src == -size {
        let bytes = inner.n * T::BYTES;
        let aligned =
            block.dst.addr().is_multiple_of(T::BYTES) && outer.iter().all(|axis| axis.dst % size == 0);
        if aligned && bytes >= STREAM_ROW {
            // SAFETY: the innermost axis is a row of items in reverse order, more than a line of them, and the
            // other axes give the rows, all of them aligned.
            return unsafe { by_streamed_rows(block, outer, bytes, T::BYTES, isa) };
        }
    }
    // SAFETY: all axes are handed on, for items of this size.
    unsafe { by_lines(block, &block.axes, isa, MapLine::new(map)) }
}

/// Calls `visit` with the destination and the source of every index of `axes`, the last axis fastest.
fn for_each(axes: &[Axis], mut dst: *mut u8, mut src: *const u8, mut visit: impl FnMut(*mut u8, *const u8)) {
    let mut index: SmallVec<[usize; 8]> = SmallVec::from_elem(0, axes.len());
    loop {
        visit(dst, src);
        let mut k = axes.len();
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            let axis = axes[k];
            index[k] += 1;
            if index[k] < axis.n {
                dst = dst.wrapping_offset(axis.dst);
                src = src.wrapping_offset(axis.src);
                break;
            }
            let back = -((axis.n - 1) as isize);
            dst = dst.wrapping_offset(axis.dst * back);
            src = src.wrapping_offset(axis.src * back);
            index[k] = 0;
        }
    }
}

/// Copies rows of `bytes` bytes, one for every index of `outer`.
///
/// # Safety
/// Every index of `outer` addresses `bytes` bytes to read and as many elsewhere to write.
unsafe fn by_rows(block: &Block, outer: &[Axis], bytes: usize, isa: Isa, stream: bool) {
    if bytes < LONG_ROW && !outer.is_empty() {
        // SAFETY: each row is one item of the lines.
        return unsafe { by_lines(block, outer, isa, RowLine { bytes }) };
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if stream && isa != Isa::Portable && bytes >= STREAM_ROW {
        // SAFETY: the caller's contract is handed on.
        return unsafe { by_streamed_rows(block, outer, bytes, 0, isa) };
    }
    let _ = stream;
    for_each(outer, block.dst, block.src, |dst, src| {
        // SAFETY: a row may be read and written, and the sides do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) }
    });
}

/// Copies rows around the cache, in reverse order of their items of `item` bytes where that is not 0.
///
/// # Safety
/// Every index of `outer` addresses rows as [`x86::stream_rows`] asks for; the processor has what `isa` names.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn by_streamed_rows(block: &Block, outer: &[Axis], bytes: usize, item: usize, isa: Isa) {
    let one = Axis { n: 1, dst: 0, src: 0 };
    let (&inner, outer) = outer.split_last().unwrap_or((&one, &[]));
    for_each(outer, block.dst, block.src, |dst, src| {
        // SAFETY: `inner` gives rows at every index of the other axes; the processor has what `isa` names.
        unsafe { x86::stream_rows((dst, inner.dst), (src, inner.src), inner.n, bytes, item, isa) }
    });
    x86::fence();
}

/// Copies a block whose axis at position `axis` is contiguous in the source, with items of `packed` bytes, no
/// more than their type has.
///
/// # Safety
/// As [`move_items`] for items of `packed` bytes; the last axis is contiguous in the destination.
unsafe fn by_planes<T: Item>(
    block: &Block,
    axis: usize,
    packed: usize,
    isa: Isa,
    stream: bool,
    plain: bool,
    map: impl Fn(T) -> T + Copy,
) {
    let mut outer = block.axes.clone();
    let columns = outer.pop().expect("two axes at least");
    let mut rows = outer.remove(axis);
    let (mut dst, mut src) = (block.dst, block.src);
    if rows.src < 0 {
        // The other way round, the source is read upwards; the destination's direction is free.
        let last = (rows.n - 1) as isize;
        dst = dst.wrapping_offset(last * rows.dst);
        src = src.wrapping_offset(last * rows.src);
        rows.dst = -rows.dst;
    }
    let plane = transpose::Plane {
        rows: rows.n,
        columns: columns.n,
        dst_stride: rows.dst,
        src_stride: columns.src,
        packed,
        plain,
        stream,
    };
    let mut staging = transpose::Staging::new();
    for_each(&outer, dst, src, |dst, src| {
        // SAFETY: the two axes taken out span a plane at every index of the others.
        unsafe { transpose::run(dst, src, &plane, &mut staging, isa, map) }
    });
    // The stores come before whatever the caller does next, such as telling another thread of the block.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if stream && isa != Isa::Portable {
        x86::fence();
    }
}

/// Copies the items of a block by lines along its last axis. Where the source is denser along another axis,
/// lines are cut short and lie in blocks with that axis, so that source lines in the cache are used whole.
///
/// # Safety
/// Every index of `axes` addresses an item of `line` to read, and one elsewhere to write.
unsafe fn by_lines<L: Line>(block: &Block, axes: &[Axis], isa: Isa, line: L) {
    const BLOCK: usize = 32;
    let (&inner, outer) = axes.split_last().expect("an axis at least");
    let dense = outer
        .iter()
        .enumerate()
        .filter(|(_, axis)| axis.src != 0 && axis.src.unsigned_abs() < inner.src.unsigned_abs())
        .min_by_key(|(_, axis)| axis.src.unsigned_abs());
    let Some((position, &other)) = dense else {
        for_each(outer, block.dst, block.src, |dst, src| {
            // SAFETY: a line of the innermost axis starts at every index of the others.
            unsafe { lines::run(line, dst, inner.dst, src, inner.src, inner.n, isa) }
        });
        return;
    };
    let mut outer: Axes = outer.into();
    outer.remove(position);
    for_each(&outer, block.dst, block.src, |dst, src| {
        for column in (0..inner.n).step_by(BLOCK) {
            let count = BLOCK.min(inner.n - column);
            for row in 0..other.n {
                let (column, row) = (column as isize, row as isize);
                let dst = dst.wrapping_offset(column * inner.dst + row * other.dst);
                let src = src.wrapping_offset(column * inner.src + row * other.src);
                // SAFETY: `count` indices of the innermost axis from `column` on are inside the block.
                unsafe { lines::run(line, dst, inner.dst, src, inner.src, count, isa) }
            }
        }
    });
}
