//! Every path against a copy index by index.

use super::*;
use proptest::prelude::*;

/// One side of a copy: a buffer, and where the block lies in it.
#[derive(Clone, Debug)]
struct Side {
    offset: usize,
    strides: Vec<isize>,
    len: usize,
}

/// How the axes of one side are laid out.
#[derive(Clone, Debug)]
struct Plan {
    /// Sorted to give the order of axes, outermost first.
    keys: Vec<u32>,
    /// Which axes run backwards.
    negative: Vec<bool>,
    /// Which axes have stride zero.
    zero: Vec<bool>,
    /// Bytes between neighbours along an axis, beyond what the inner axes need.
    gaps: Vec<usize>,
    /// Bytes before the block.
    offset: usize,
}

impl Plan {
    fn side(&self, shape: &[u64], itemsize: usize) -> Side {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|&axis| self.keys[axis]);
        let mut strides = vec![0isize; shape.len()];
        let (mut low, mut extent) = (0usize, itemsize);
        for &axis in order.iter().rev() {
            if self.zero[axis] {
                continue;
            }
            let step = extent + self.gaps[axis];
            let reach = step * (shape[axis].max(1) as usize - 1);
            strides[axis] = if self.negative[axis] { -(step as isize) } else { step as isize };
            if self.negative[axis] {
                low += reach;
            }
            extent += reach;
        }
        Side { offset: self.offset + low, strides, len: self.offset + extent + 70 }
    }
}

fn plan(writable: bool, ndim: usize) -> impl Strategy<Value = Plan> {
    let zero = if writable { 0.0 } else { 0.15 };
    (
        prop::collection::vec(any::<u32>(), ndim),
        prop::collection::vec(prop::bool::weighted(0.25), ndim),
        prop::collection::vec(prop::bool::weighted(zero), ndim),
        prop::collection::vec(prop_oneof![4 => Just(0usize), 1 => 1..40usize, 1 => Just(64usize)], ndim),
        0..130usize,
    )
        .prop_map(|(keys, negative, zero, gaps, offset)| Plan { keys, negative, zero, gaps, offset })
}

/// Shapes of at most a few ten thousand elements, with a liking for one or two long axes.
fn shape() -> impl Strategy<Value = Vec<u64>> {
    let long = if cfg!(miri) { 20u64 } else { 400 };
    prop_oneof![
        2 => prop::collection::vec(0..7u64, 0..6),
        2 => prop::collection::vec(1..7u64, 0..6),
        3 => (1..long, 1..long).prop_map(|(a, b)| vec![a, b]),
        1 => (1..5u64, 1..long / 2, 1..60u64).prop_map(|(a, b, c)| vec![a, b, c]),
        1 => (1..long, 1..5u64, 1..60u64, 1..3u64).prop_map(|(a, b, c, d)| vec![a, b, c, d]),
        1 => (1..long, 1..long / 2, 1..4u64).prop_map(|(a, b, c)| vec![a, b, c]),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<u64>,
    itemsize: usize,
    word: usize,
    dst: Side,
    src: Side,
}

fn case() -> impl Strategy<Value = Case> {
    (shape(), 0..5usize, 0..3usize).prop_flat_map(|(shape, size, word)| {
        let itemsize = 1 << size;
        let word = [1, itemsize, (itemsize / 2).max(1)][word];
        let ndim = shape.len();
        (plan(true, ndim), plan(false, ndim)).prop_map(move |(dst, src)| Case {
            dst: dst.side(&shape, itemsize),
            src: src.side(&shape, itemsize),
            shape: shape.clone(),
            itemsize,
            word,
        })
    })
}

/// Calls `visit` with the places of an element on both sides, for every index of a shape.
fn each(shape: &[u64], a: (isize, &[isize]), b: (isize, &[isize]), visit: &mut impl FnMut(usize, usize)) {
    let Some((&n, inner)) = shape.split_first() else {
        return visit(a.0 as usize, b.0 as usize);
    };
    for k in 0..n as isize {
        each(inner, (a.0 + k * a.1[0], &a.1[1..]), (b.0 + k * b.1[0], &b.1[1..]), visit);
    }
}

impl Side {
    fn start(&self) -> (isize, &[isize]) {
        (self.offset as isize, &self.strides)
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n as u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

/// Copies with one set of instructions and compares the whole destination buffer, guard bytes included.
fn check(case: &Case, isa: Isa, stream: bool) {
    let src = bytes(case.src.len);
    let mut expected = vec![0xa5u8; case.dst.len];
    each(&case.shape, case.dst.start(), case.src.start(), &mut |to, from| {
        let item = &mut expected[to..to + case.itemsize];
        item.copy_from_slice(&src[from..from + case.itemsize]);
        if case.word > 1 {
            item.chunks_mut(case.word).for_each(<[u8]>::reverse);
        }
    });
    let mut dst = vec![0xa5u8; case.dst.len];
    let to = dst.as_mut_ptr().wrapping_add(case.dst.offset);
    let from = src.as_ptr().wrapping_add(case.src.offset);
    // SAFETY: the plans keep every index inside the two buffers.
    unsafe {
        copy_with(
            to,
            &case.dst.strides,
            from,
            &case.src.strides,
            &case.shape,
            case.itemsize,
            case.word,
            Means { isa, stream_bytes: if stream { 0 } else { usize::MAX } },
        );
    }
    assert!(dst == expected, "{isa:?}, stream {stream}: {case:?}");
}

/// The sets of instructions that this processor has.
fn isas() -> Vec<Isa> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    match Isa::detect() {
        Isa::Avx512 => return vec![Isa::Portable, Isa::Avx2, Isa::Avx512],
        Isa::Avx2 => return vec![Isa::Portable, Isa::Avx2],
        Isa::Portable => {}
    }
    vec![Isa::Portable]
}

fn check_all(case: &Case) {
    for isa in isas() {
        check(case, isa, false);
        check(case, isa, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 24 } else { 300 }))]

    #[test]
    fn equals_a_copy_index_by_index(case in case()) {
        check_all(&case);
    }

    #[test]
    fn fill_writes_every_element_and_nothing_else(
        (shape, dst, itemsize) in (shape(), 0..5usize).prop_flat_map(|(shape, size)| {
            let ndim = shape.len();
            plan(true, ndim).prop_map(move |p| (shape.clone(), p.side(&shape, 1 << size), 1usize << size))
        })
    ) {
        let element = bytes(itemsize);
        let mut expected = vec![0x5au8; dst.len];
        each(&shape, dst.start(), dst.start(), &mut |at, _| {
            expected[at..at + itemsize].copy_from_slice(&element);
        });
        let mut actual = vec![0x5au8; dst.len];
        // SAFETY: the plan keeps every index inside the buffer.
        unsafe { fill(actual.as_mut_ptr().wrapping_add(dst.offset), &dst.strides, &shape, &element) };
        prop_assert!(actual == expected);
    }
}

/// Plain transpositions around the edges of blocks, at several alignments.
#[test]
fn transposes_at_block_edges() {
    let extents: &[u64] = if cfg!(miri) { &[33] } else { &[4, 31, 64, 130, 257, 513] };
    for itemsize in [1usize, 2, 4, 8, 16] {
        for (&rows, &columns) in extents.iter().flat_map(|r| extents.iter().map(move |c| (r, c))) {
            let (down, across) = (rows as usize * itemsize, columns as usize * itemsize);
            let offset = (rows as usize * 7 + columns as usize) % 64;
            check_all(&Case {
                shape: vec![rows, columns],
                itemsize,
                word: 1,
                dst: Side {
                    offset,
                    strides: vec![across as isize, itemsize as isize],
                    len: offset + rows as usize * across + 70,
                },
                src: Side {
                    offset: 3,
                    strides: vec![itemsize as isize, down as isize],
                    len: 3 + columns as usize * down + 70,
                },
            });
        }
    }
}

#[test]
fn rows_of_every_length() {
    for bytes in (1..70u64).chain([127, 128, 255, 383, 384, 385, 1000, 1024, 2111, 5000]) {
        let side = |offset, gap| Side {
            offset,
            strides: vec![(bytes + gap) as isize, 1],
            len: offset + 3 * (bytes + gap) as usize + 70,
        };
        check_all(&Case { shape: vec![3, bytes], itemsize: 1, word: 1, dst: side(5, 3), src: side(1, 9) });
    }
}

/// Rows long enough to be written around the cache, read downwards, from and to places of every alignment.
#[test]
fn reverses_long_rows() {
    for itemsize in [1usize, 2, 4, 8, 16] {
        for (n, offset) in
            [1024, 1031, 1087, 1500, 2111].into_iter().zip([0usize, 1, 16, 48, 63].into_iter().cycle())
        {
            for gap in [0, itemsize, 7] {
                let row = n as usize * itemsize;
                let side = |offset, down: isize| Side {
                    offset,
                    strides: vec![(row + gap) as isize, down * itemsize as isize],
                    len: 160 + 3 * (row + gap),
                };
                let (dst, src) = (side(offset, 1), side(5 + row - itemsize, -1));
                check_all(&Case { shape: vec![3, n], itemsize, word: 1, dst, src });
            }
        }
    }
}

/// Pixels: a few elements that stay together while rows and columns change places.
#[test]
fn transposes_items_of_odd_sizes() {
    let extents: &[u64] = if cfg!(miri) { &[21] } else { &[5, 70, 131] };
    for bytes in (3..16u64).filter(|bytes| !bytes.is_power_of_two()) {
        for (&rows, &columns) in extents.iter().flat_map(|r| extents.iter().map(move |c| (r, c))) {
            // Every direction comes in turn.
            let down = [1, -1][(bytes % 2) as usize];
            let across = [1, -1][(rows / 2 + columns) as usize % 2];
            let (item, size) = (bytes as isize, (rows * columns * bytes) as usize);
            let (row, column) = (item, rows as isize * item + 5);
            let first = if down < 0 { (rows as isize - 1) * row } else { 0 }
                + if across < 0 { (columns as isize - 1) * column } else { 0 };
            check_all(&Case {
                shape: vec![rows, columns, bytes],
                itemsize: 1,
                word: 1,
                dst: Side { offset: 9, strides: vec![columns as isize * item, item, 1], len: 9 + size },
                src: Side {
                    offset: first as usize,
                    strides: vec![down * row, across * column, 1],
                    len: size + 5 * columns as usize,
                },
            });
        }
    }
}
