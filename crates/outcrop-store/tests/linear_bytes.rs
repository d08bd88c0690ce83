//! What loading a box of a row-major or column-major file reads is known beforehand, exactly.

use outcrop_store::frame::{Budget, charged};
use outcrop_store::io::{Cancel, Disk, EngineChoice};
use outcrop_store::store::open::{NewFormat, create};
use outcrop_store::store::{Canvas, Mover, Patch};
use outcrop_store::{ArrayBox, DType};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn bytes_read_are_those_foretold(
        shape in (1u64..300, 1u64..1500),
        part in (0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64),
        aligned in any::<bool>(),
        column_major in any::<bool>(),
        staging in 64usize..512,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let budget = Budget::new(64 << 20);
        let shape = if aligned { [shape.0 * 4, shape.1.next_multiple_of(512)] } else { [shape.0, shape.1] };
        let path = dir.path().join("a.npy");
        let store = create(&disk, &path, &shape, DType::F64, NewFormat::Npy { column_major }, false).unwrap();
        let mut mover = Mover::new(&disk, &budget, staging << 10, &Cancel::default()).unwrap();
        let mut values: Vec<f64> = (0..shape[0] * shape[1]).map(|i| i as f64).collect();
        let whole = ArrayBox::whole(&shape);
        let patch = Patch::dense(whole.clone(), values.as_mut_ptr().cast(), 0, 8);
        // SAFETY: as many values as the box has elements.
        store.store(&mut mover, &unsafe { Canvas::new(whole, 8, [patch]) }).unwrap();
        store.commit(&mut mover).unwrap();
        let cut = |n: u64, from: f64, len: f64| {
            let start = (from * n as f64) as u64;
            (start, ((len * (n - start) as f64) as u64).max(1))
        };
        let ((i, m), (j, n)) = (cut(shape[0], part.0, part.1), cut(shape[1], part.2, part.3));
        let region = ArrayBox::new([i, j], [m, n]);
        let frame = budget.frame((m * n * 8) as usize, "a box").unwrap();
        let patch = Patch::padded(region.clone(), frame.as_ptr(), frame.len(), &[m, n], 8);
        // SAFETY: the frame has room for the box.
        let canvas = unsafe { Canvas::new(region.clone(), 8, [patch]) };
        let before = disk.counters().read();
        store.load(&mut mover, &canvas).unwrap();
        let foretold = store.bytes_to_load_with(&region, charged(staging << 10)).unwrap();
        prop_assert_eq!(disk.counters().read() - before, foretold);
        let first = f64::from_le_bytes(frame.bytes()[..8].try_into().unwrap());
        prop_assert_eq!(first, (i * shape[1] + j) as f64);
    }
}
