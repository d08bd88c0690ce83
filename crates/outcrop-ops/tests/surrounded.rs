//! Copies in any orientation to files that hold other bytes before and behind the elements.
//!
//! The first elements share a block with what stands before them. In two passes, what the first pass
//! stored there once waited for the rest of the block, and the second pass read the block without it.

use outcrop_engine::{Runtime, Settings};
use outcrop_ops::boxes::access;
use outcrop_ops::relayout;
use outcrop_store::format::raw::Description;
use outcrop_store::io::EngineChoice;
use outcrop_store::store::adapters::oriented::Orientation;
use outcrop_store::store::linear::{Described, NewFile};
use outcrop_store::store::open::{NewFormat, create, create_file};
use outcrop_store::store::{Canvas, Patch};
use outcrop_store::{ArrayBox, ByteOrder, DType};

fn runtime(memory: usize) -> std::sync::Arc<Runtime> {
    Runtime::new(Settings { memory, threads: 2, scratch: None, engine: EngineChoice::Auto }).unwrap()
}

#[test]
fn what_surrounds_the_elements_stays() {
    let shape = [1500u64, 1300];
    let mut values: Vec<u16> = (0..shape[0] * shape[1]).map(|i| ((i * 40_503) >> 7) as u16).collect();
    let dir = tempfile::tempdir().unwrap();
    let big = runtime(1 << 30);
    let format = NewFormat::Npy { column_major: false };
    let source = create(big.disk(), &dir.path().join("source"), &shape, DType::U16, format, false).unwrap();
    let whole = ArrayBox::whole(&shape);
    let patch = Patch::dense(whole.clone(), values.as_mut_ptr().cast(), 0, 2);
    // SAFETY: as many values as the box has elements.
    let canvas = unsafe { Canvas::new(whole.clone(), 2, [patch]) };
    access::write(&big, &source, &canvas, &mut |_, _| true).unwrap();
    access::commit(&big, &source).unwrap();
    let turned =
        Orientation { axes: [1, 0].into_iter().collect(), reversed: [true, false].into_iter().collect() };
    for (memory, offset, byte_order) in [
        (512 << 10, 17, ByteOrder::Big),
        (512 << 10, 5000, ByteOrder::Little),
        (64 << 20, 17, ByteOrder::Big),
        (64 << 20, 4096, ByteOrder::Little),
    ] {
        let runtime = runtime(memory);
        let shown = turned.of(&shape);
        let description =
            Description { shape: shown.clone(), dtype: DType::U16, byte_order, offset, column_major: false };
        let new = NewFile {
            what: Described { description, format: "tiff", attributes: "{}".into() },
            preamble: vec![0xaa; offset as usize],
            trailer: vec![0xbb; 777],
        };
        let path = dir.path().join(format!("target-{memory}-{offset}"));
        let target = create_file(runtime.disk(), &path, new, false).unwrap();
        let plan = relayout::plan(&runtime, &source, &whole, Some(&turned), &target).unwrap();
        let report =
            relayout::copy(&runtime, &source, &whole, Some(&turned), &target, &mut |_, _| true).unwrap();
        let planned: u64 = plan.passes().unwrap().iter().map(|p| p.bytes_read).sum();
        assert_eq!(report.bytes_read, planned);
        access::commit(&runtime, &target).unwrap();
        let mut expected = vec![0xaa; offset as usize];
        for j in (0..shape[1]).rev() {
            for i in 0..shape[0] {
                let value = values[(i * shape[1] + j) as usize];
                let big = byte_order == ByteOrder::Big;
                expected.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
            }
        }
        expected.extend([0xbb; 777]);
        assert!(std::fs::read(&path).unwrap() == expected, "{memory} {offset}");
    }
}
