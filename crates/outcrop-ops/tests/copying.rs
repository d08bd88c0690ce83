//! Copies in any orientation, in budgets much smaller than the array, against moving element by element.

use outcrop_engine::{Runtime, Settings};
use outcrop_ops::boxes::access;
use outcrop_ops::relayout;
use outcrop_store::io::EngineChoice;
use outcrop_store::store::adapters::oriented::Orientation;
use outcrop_store::store::linear::Described;
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::{Canvas, Patch, Store};
use outcrop_store::{ArrayBox, DType, Error};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

fn runtime(memory: usize) -> Arc<Runtime> {
    Runtime::new(Settings { memory, threads: 2, scratch: None, engine: EngineChoice::Auto }).unwrap()
}

fn canvas(region: ArrayBox, bytes: &mut [u8], itemsize: usize) -> Canvas {
    let patch = Patch::dense(region.clone(), bytes.as_mut_ptr(), 0, itemsize);
    // SAFETY: the bytes are a box of this size, which nobody else uses.
    unsafe { Canvas::new(region, itemsize, [patch]) }
}

/// Bytes that tell elements apart.
fn elements(count: usize) -> Vec<u8> {
    (0..count as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect()
}

/// What an array of this shape looks like in another orientation.
fn turned(bytes: &[u8], shape: &[u64], itemsize: usize, o: &Orientation) -> Vec<u8> {
    let shown = o.of(shape);
    let mut own = vec![itemsize as isize; shape.len()];
    for a in (1..shape.len()).rev() {
        own[a - 1] = own[a] * shape[a] as isize;
    }
    let step = |a: usize| if o.reversed[a] { -own[o.axes[a]] } else { own[o.axes[a]] };
    let first: isize =
        (0..shape.len()).filter(|&a| o.reversed[a]).map(|a| own[o.axes[a]] * (shown[a] as isize - 1)).sum();
    let mut out = Vec::with_capacity(bytes.len());
    // Row by row: tests run without optimization, too.
    let (rows, last) = (ArrayBox::whole(&shown[..shown.len() - 1]), shown.len() - 1);
    for index in outcrop_store::shape::BoxIndices::new(&rows) {
        let mut at = first + index.iter().enumerate().map(|(a, &i)| i as isize * step(a)).sum::<isize>();
        for _ in 0..shown[last] {
            out.extend_from_slice(&bytes[at as usize..at as usize + itemsize]);
            at += step(last);
        }
    }
    out
}

#[derive(Clone, Debug)]
enum Kind {
    Npy(bool),
    Raw(bool),
    Zarr(Vec<u64>),
}

impl Kind {
    fn format(&self, shape: &[u64]) -> NewFormat {
        match self {
            Kind::Npy(column_major) => NewFormat::Npy { column_major: *column_major },
            Kind::Raw(column_major) => NewFormat::Raw { column_major: *column_major },
            Kind::Zarr(tile) => NewFormat::Zarr {
                tile: Some(tile.iter().zip(shape).map(|(&t, &n)| t.min(n).max(1)).collect()),
                encoding: Default::default(),
                labels: Default::default(),
            },
        }
    }
}

fn stored(path: &Path, shape: &[u64], dtype: DType, kind: &Kind, bytes: &[u8]) -> Arc<dyn Store> {
    let runtime = runtime(1 << 30);
    let store = create(runtime.disk(), path, shape, dtype, kind.format(shape), false).unwrap();
    let mut bytes = bytes.to_vec();
    let canvas = canvas(ArrayBox::whole(shape), &mut bytes, dtype.size());
    access::write(&runtime, &store, &canvas, &mut |_, _| true).unwrap();
    access::commit(&runtime, &store).unwrap();
    store
}

/// Copies, and checks elements, bytes, and memory. Gives the number of passes, and bytes read; `None` where the budget is refused.
fn check(
    memory: usize,
    shape: &[u64],
    dtype: DType,
    from: &Kind,
    to: &Kind,
    orientation: &Orientation,
) -> Option<(usize, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let itemsize = dtype.size();
    let bytes = elements(shape.iter().product::<u64>() as usize * itemsize);
    let source = stored(&dir.path().join("source"), shape, dtype, from, &bytes);
    let runtime = runtime(memory);
    let shown = orientation.of(shape);
    let path = dir.path().join("target");
    let target = create(runtime.disk(), &path, &shown, dtype, to.format(&shown), false).unwrap();
    let whole = ArrayBox::whole(shape);
    let plan = match relayout::plan(&runtime, &source, &whole, Some(orientation), &target) {
        Err(Error::Budget { needed, budget, .. }) => {
            assert!(needed > budget);
            target.abort();
            return None;
        }
        other => other.unwrap(),
    };
    let facts = plan.passes().unwrap();
    let planned_read: u64 = facts.iter().map(|p| p.bytes_read).sum();
    let planned_written: u64 = facts.iter().map(|p| p.bytes_written).sum();
    let report =
        relayout::copy(&runtime, &source, &whole, Some(orientation), &target, &mut |_, _| true).unwrap();
    assert!(report.peak_bytes <= memory as u64);
    assert!(
        report.peak_bytes <= plan.peak_bytes() as u64,
        "{} of {}: {:?}",
        report.peak_bytes,
        plan.peak_bytes(),
        plan.passes()
    );
    access::commit(&runtime, &target).unwrap();
    drop(target);
    let target = open(runtime.disk(), &path, &as_what(to, &shown, dtype), false).unwrap();
    let big = self::runtime(1 << 30);
    let mut found = vec![0; bytes.len()];
    let canvas = canvas(ArrayBox::whole(&shown), &mut found, itemsize);
    access::read(&big, &target, &canvas, &mut |_, _| true).unwrap();
    assert!(found == turned(&bytes, shape, itemsize, orientation), "{:?}", plan.passes());
    assert!(plan.peak_bytes() <= memory);
    assert_eq!(report.bytes_read, planned_read, "read: {:?}", plan.passes());
    // A file's last block is written together with what waits for it.
    assert!(
        planned_written.abs_diff(report.bytes_written) <= 4096,
        "written {}, planned {planned_written}: {:?}",
        report.bytes_written,
        plan.passes()
    );
    Some((facts.len(), report.bytes_read))
}

fn as_what(kind: &Kind, shape: &[u64], dtype: DType) -> As {
    match kind {
        Kind::Npy(_) => As::Npy,
        Kind::Zarr(_) => As::Zarr,
        Kind::Raw(column_major) => As::Described(Described::raw(outcrop_store::format::raw::Description {
            shape: shape.into(),
            dtype,
            byte_order: outcrop_store::dtype::ByteOrder::Little,
            offset: 0,
            column_major: *column_major,
        })),
    }
}

fn orientation(axes: &[usize], reversed: &[bool]) -> Orientation {
    Orientation::new(axes, reversed).unwrap()
}

#[test]
fn two_passes_where_memory_is_small() {
    let transposed = orientation(&[1, 0], &[false, false]);
    let shape = [4099, 7001];
    let moved =
        |memory| check(memory, &shape, DType::U8, &Kind::Raw(false), &Kind::Raw(false), &transposed).unwrap();
    let (passes, _) = moved(1 << 20);
    assert_eq!(passes, 2);
    // One pass, or two of which the second one finds most of it in memory: as fast as the processor is in tests, they
    // take nearly the same time.
    let (_, bytes_read) = moved(64 << 20);
    assert!(bytes_read < 2 * shape.iter().product::<u64>(), "{bytes_read}");
}

#[test]
fn edges_are_kept_where_groups_lie_beside_one_another() {
    let shape = [300, 70_001];
    for (axes, reversed) in [([1, 0], [false, false]), ([1, 0], [true, false]), ([1, 0], [false, true])] {
        let o = orientation(&axes, &reversed);
        let moved = check(12 << 20, &shape, DType::F32, &Kind::Npy(false), &Kind::Npy(false), &o);
        assert_eq!(moved.map(|(passes, _)| passes), Some(1));
    }
}

/// Where memory holds two groups, frames are runs of the target. The number of panels is no multiple of those that are
/// stored together, nor that of elements of those in a panel.
#[test]
fn frames_that_are_runs_of_the_target() {
    let o = orientation(&[2, 1, 0], &[false, false, true]);
    for memory in (11..20).map(|n| n << 18) {
        let to = Kind::Npy(false);
        let moved = check(memory, &[67, 71, 1013], DType::F32, &Kind::Raw(false), &to, &o);
        assert_eq!(moved.map(|(passes, _)| passes), Some(2));
    }
}

/// More panels than blocks may wait were zeros in the result: pieces that came after the others of their block
/// had been written still waited when the second pass began.
#[test]
fn blocks_that_wait_between_two_passes_are_written() {
    let transposed = orientation(&[1, 0], &[false, false]);
    let moved = check(256 << 10, &[3001, 2999], DType::U8, &Kind::Raw(false), &Kind::Raw(false), &transposed);
    assert_eq!(moved.map(|(passes, _)| passes), Some(2));
    let tiles = Kind::Zarr(vec![700, 300]);
    check(900 << 10, &[3001, 2999], DType::U8, &tiles, &Kind::Raw(false), &transposed);
}

/// Tiles of an array that is shown backwards begin where they do on disk, not where a tiling from 0 on would.
#[test]
fn tiles_are_read_once_whichever_way_they_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let shape = [1000, 1000];
    let bytes = elements(8_000_000);
    let source = stored(&dir.path().join("source"), &shape, DType::F64, &Kind::Zarr(vec![300, 300]), &bytes);
    let runtime = runtime(256 << 20);
    let turn = orientation(&[0, 1], &[true, true]);
    let format = NewFormat::Raw { column_major: false };
    let target =
        create(runtime.disk(), &dir.path().join("target"), &shape, DType::F64, format, false).unwrap();
    let plan = relayout::plan(&runtime, &source, &ArrayBox::whole(&shape), Some(&turn), &target).unwrap();
    let read: u64 = plan.passes().unwrap().iter().map(|p| p.bytes_read).sum();
    let each = (300_u64 * 300 * 8 + 4).next_multiple_of(4096);
    assert_eq!(read, 16 * each);
}

/// Rows of whole blocks are all cut at the same place, so that much more than half a block may be left of each.
#[test]
fn edges_of_rows_that_are_whole_blocks_fit() {
    let transposed = orientation(&[1, 0], &[false, false]);
    let moved = check(9 << 20, &[600, 65_536], DType::U8, &Kind::Raw(false), &Kind::Raw(false), &transposed);
    assert!(moved.is_some());
}

fn kind(ndim: usize) -> impl Strategy<Value = Kind> {
    prop_oneof![
        any::<bool>().prop_map(Kind::Npy),
        any::<bool>().prop_map(Kind::Raw),
        proptest::collection::vec(20u64..90, ndim).prop_map(Kind::Zarr),
    ]
}

fn job() -> impl Strategy<Value = (Vec<u64>, Vec<usize>, Vec<bool>, Kind, Kind)> {
    (1usize..=4).prop_flat_map(|ndim| {
        let most = [400_000, 700, 70, 25][ndim - 1];
        (
            proptest::collection::vec(1..=most as u64, ndim),
            Just((0..ndim).collect::<Vec<_>>()).prop_shuffle(),
            proptest::collection::vec(any::<bool>(), ndim),
            kind(ndim),
            kind(ndim),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn any_orientation_from_any_layout_to_any_other(
        (shape, axes, reversed, from, to) in job(),
        memory in (18u32..22).prop_map(|bits| 1usize << bits),
        dtype in prop_oneof![Just(DType::U8), Just(DType::I16), Just(DType::F32), Just(DType::F64), Just(DType::C128)],
    ) {
        check(memory, &shape, dtype, &from, &to, &orientation(&axes, &reversed));
    }
}
