//! Files with other bytes before and behind the elements, at offsets that are no block's edge.

use outcrop_store::format::pnm;
use outcrop_store::format::raw::Description;
use outcrop_store::frame::Budget;
use outcrop_store::io::{Cancel, Disk, EngineChoice};
use outcrop_store::store::linear::{Described, NewFile};
use outcrop_store::store::open::{As, NewFormat, create, create_file, open};
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, ByteOrder, DType, Error};
use proptest::prelude::*;
use std::sync::Arc;

fn new(shape: &[u64], byte_order: ByteOrder, offset: u64, preamble: usize, trailer: usize) -> NewFile {
    let description =
        Description { shape: shape.into(), dtype: DType::U16, byte_order, offset, column_major: false };
    NewFile {
        what: Described { description, format: "tiff", attributes: r#"{"photometric":"rgb"}"#.into() },
        preamble: vec![0xaa; preamble],
        trailer: vec![0xbb; trailer],
    }
}

fn store_box(disk: &Disk, budget: &Arc<Budget>, store: &dyn Store, region: &ArrayBox, value: u16) {
    let mut values = vec![value; region.elements() as usize];
    let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 2);
    // SAFETY: as many values as the box has elements.
    let canvas = unsafe { Canvas::new(region.clone(), 2, [patch]) };
    let mut mover = Mover::new(disk, budget, 128 << 10, &Cancel::default()).unwrap();
    store.store(&mut mover, &canvas).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_surrounds_the_elements_stays(
        shape in (1u64..120, 1u64..120),
        preamble in 0usize..9000,
        gap in 0u64..5000,
        trailer in 0usize..9000,
        big: bool,
        boxes in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64), 0..6),
    ) {
        let shape = [shape.0, shape.1];
        let byte_order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tif");
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let budget = Budget::new(64 << 20);
        let offset = preamble as u64 + gap;
        let file = new(&shape, byte_order, offset, preamble, trailer);
        let described = file.what.clone();
        let mut store = create_file(&disk, &path, file, false).unwrap();
        let mut expected = vec![0u16; (shape[0] * shape[1]) as usize];
        for (k, (i, j, m, n)) in boxes.into_iter().enumerate() {
            if k == 3 {
                // The second half goes to the file where it lies.
                let mut mover = Mover::new(&disk, &budget, 128 << 10, &Cancel::default()).unwrap();
                store.commit(&mut mover).unwrap();
                drop(store);
                store = open(&disk, &path, &As::Described(described.clone()), true).unwrap();
            }
            let cut = |n: u64, from: f64, len: f64| {
                let start = (from * n as f64) as u64;
                (start, ((len * (n - start) as f64) as u64).max(1))
            };
            let ((i, m), (j, n)) = (cut(shape[0], i, m), cut(shape[1], j, n));
            let value = 0x0100 + k as u16;
            store_box(&disk, &budget, store.as_ref(), &ArrayBox::new([i, j], [m, n]), value);
            for row in i..i + m {
                expected[(row * shape[1] + j) as usize..][..n as usize].fill(value);
            }
        }
        let mut mover = Mover::new(&disk, &budget, 128 << 10, &Cancel::default()).unwrap();
        store.commit(&mut mover).unwrap();
        prop_assert_eq!(&store.info().attributes, r#"{"photometric":"rgb"}"#);
        let mut bytes = vec![0xaa; preamble];
        bytes.resize(offset as usize, 0);
        bytes.extend(expected.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }));
        bytes.extend(vec![0xbb; trailer]);
        prop_assert!(std::fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn descriptions_that_contradict_themselves_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tif");
    let disk = Disk::new(EngineChoice::Auto).unwrap();
    for file in [
        new(&[4, 4], ByteOrder::Little, 10, 11, 0),
        new(&[4, 4], ByteOrder::Little, u64::MAX - 7, 0, 0),
        new(&[1 << 40, 1 << 40], ByteOrder::Little, 0, 0, 0),
    ] {
        assert!(matches!(create_file(&disk, &path, file, false), Err(Error::Invalid(_))));
    }
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn pnm_files_are_found_by_their_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan");
    let disk = Disk::new(EngineChoice::Auto).unwrap();
    let budget = Budget::new(64 << 20);
    let format = NewFormat::Pnm { kind: pnm::Kind::Ppm, attributes: serde_json::Map::new() };
    let store = create(&disk, &path, &[5, 7, 3], DType::U16, format, false).unwrap();
    store_box(&disk, &budget, store.as_ref(), &ArrayBox::new([0, 0, 0], [5, 7, 3]), 0x0102);
    store.commit(&mut Mover::new(&disk, &budget, 128 << 10, &Cancel::default()).unwrap()).unwrap();
    drop(store);
    let mut bytes = b"P6\n7 5\n65535\n".to_vec();
    bytes.extend([1, 2].repeat(105));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let found = open(&disk, &path, &As::Found, false).unwrap();
    assert_eq!((found.info().format, found.info().shape.as_slice()), ("ppm", &[5, 7, 3][..]));
    assert_eq!(found.info().attributes, r#"{"maxval":65535}"#);
    // Cut off.
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let error = open(&disk, &path, &As::Pnm, false).err().unwrap();
    assert!(matches!(&error, Error::Corrupt { .. }) && error.to_string().contains("(1 missing)"), "{error}");
}
