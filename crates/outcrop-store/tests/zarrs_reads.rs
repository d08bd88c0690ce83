//! What is written here is read by `zarrs` itself, which opens the files in its own way.

use outcrop_store::format::zarr::Labels;
use outcrop_store::frame::Budget;
use outcrop_store::io::Cancel;
use outcrop_store::io::disk::{Disk, EngineChoice};
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::transfer::canvas::dense_strides;
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, DType};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use zarrs::array::{Array, ArrayBytes};
use zarrs::filesystem::FilesystemStore;

const SHAPE: [u64; 2] = [50, 60];
const TILE: [u64; 2] = [16, 24];
const BYTES: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
const ZSTD: &str = r#"{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;

/// Every kind of Zarr array that is written: none is our own.
fn kinds() -> Vec<(&'static str, Option<(u8, String)>)> {
    let blosc = r#"{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":8,"blocksize":0}}"#;
    let sharded = format!(
        r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":[8,8],"codecs":[{BYTES},{ZSTD}],
        "index_codecs":[{BYTES},{{"name":"crc32c"}}],"index_location":"end"}}}}"#
    );
    let gzip = r#"{"name":"gzip","configuration":{"level":5}}"#;
    vec![
        ("ours", None),
        ("zstd", Some((3, format!("[{ZSTD}]")))),
        ("gzip", Some((3, format!("[{gzip}]")))),
        ("blosc", Some((3, format!("[{blosc}]")))),
        ("sharded", Some((3, format!("[{sharded}]")))),
        ("v2", Some((2, "[]".into()))),
        ("v2-zstd", Some((2, r#"[{"id":"zstd","level":3}]"#.into()))),
        (
            "v2-blosc",
            Some((2, r#"[{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}]"#.into())),
        ),
    ]
}

fn fill_of(dtype: DType) -> Value {
    match dtype {
        DType::Bool => json!(true),
        DType::F32 | DType::F64 => json!("NaN"),
        DType::C64 | DType::C128 => json!([1.5, "-Infinity"]),
        _ => json!(7),
    }
}

/// The first two rows of tiles; the third is never written.
fn write(disk: &Arc<Disk>, path: &Path, dtype: DType, kind: &Option<(u8, String)>) {
    let budget = Budget::new(64 << 20);
    let labels = Labels {
        attributes: json!({ "units": "m" }).as_object().unwrap().clone().into(),
        dimension_names: Some(vec![Some("y".into()), Some("x".into())]),
        fill_value: Some(fill_of(dtype)),
        place: None,
    };
    let tile = Some(TILE.as_slice().into());
    let format = match kind.clone() {
        None => NewFormat::Zarr { tile, encoding: Default::default(), labels },
        Some((zarr_format, codecs)) => NewFormat::Foreign { zarr_format, codecs, tile, labels },
    };
    let store = create(disk, path, &SHAPE, dtype, format, false).unwrap();
    let region = ArrayBox::new([0, 0], [32, 60]);
    let mut bytes: Vec<u8> = (0..32 * 60 * dtype.size()).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b &= 1);
    }
    let strides = dense_strides(&region.shape, dtype.size());
    let patch = Patch::strided(region.clone(), bytes.as_mut_ptr(), strides);
    // SAFETY: the patch is the whole canvas, over memory that is ours alone.
    let canvas = unsafe { Canvas::new(region, dtype.size(), [patch]) };
    let mut mover = Mover::new(disk, &budget, store.staging(false).least, &Cancel::default()).unwrap();
    store.store(&mut mover, &canvas).unwrap();
    store.commit(&mut mover).unwrap();
}

fn read(disk: &Arc<Disk>, path: &Path) -> (Vec<u8>, Arc<dyn Store>) {
    let budget = Budget::new(64 << 20);
    let store = open(disk, path, &As::Found, false).unwrap();
    let region = ArrayBox::whole(&SHAPE);
    let itemsize = store.info().dtype.size();
    let mut bytes = vec![0xEE; store.info().nbytes() as usize];
    let patch = Patch::strided(region.clone(), bytes.as_mut_ptr(), dense_strides(&SHAPE, itemsize));
    // SAFETY: the patch is the whole canvas, over memory that is ours alone.
    let canvas = unsafe { Canvas::new(region, itemsize, [patch]) };
    let mut mover = Mover::new(disk, &budget, store.staging(false).least, &Cancel::default()).unwrap();
    store.load(&mut mover, &canvas).unwrap();
    (bytes, store)
}

/// Elements, those that were never written among them, and names, of every kind and type, with a fill
/// value that is not zero.
#[test]
fn every_kind_is_read_by_zarrs() {
    let disk = Disk::new(EngineChoice::Auto).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let theirs = Arc::new(FilesystemStore::new(dir.path()).unwrap());
    for dtype in DType::ALL {
        for (name, kind) in kinds() {
            let name = format!("{name}-{}", dtype.name());
            write(&disk, &dir.path().join(&name), dtype, &kind);
            let (ours, store) = read(&disk, &dir.path().join(&name));
            let labelled = store.labelled().unwrap();
            let array = Array::open(Arc::clone(&theirs), &format!("/{name}")).unwrap();
            let found: ArrayBytes = array.retrieve_array_subset(&array.subset_all()).unwrap();
            assert_eq!(found.into_fixed().unwrap().as_ref(), ours, "{name}");
            assert_eq!(ours[ours.len() - dtype.size()..], *labelled.fill_value.unwrap(), "{name}");
            let names: Vec<_> = labelled.dimension_names.unwrap().into_iter().flatten().collect();
            assert_eq!(names, ["y", "x"], "{name}");
            assert_eq!(store.info().attributes, r#"{"units":"m"}"#, "{name}");
            if let Some(theirs) = array.dimension_names() {
                assert_eq!(*theirs, [Some("y".into()), Some("x".into())], "{name}");
            }
        }
    }
}
