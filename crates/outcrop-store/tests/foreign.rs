//! Zarr arrays with codecs of other programs: written, reopened, read in any box, damaged.

use outcrop_store::dtype::swap_words;
use outcrop_store::format::zarr::Labels;
use outcrop_store::frame::Budget;
use outcrop_store::io::Cancel;
use outcrop_store::io::disk::{Disk, EngineChoice};
use outcrop_store::io::fault::Faults;
use outcrop_store::shape::{BoxIndices, elements};
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::transfer::canvas::{Strides, dense_strides};
use outcrop_store::store::{Canvas, Finding, Mover, Patch, Store};
use outcrop_store::{ArrayBox, DType, Dims, Error};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

struct Bench {
    disk: Arc<Disk>,
    budget: Arc<Budget>,
    dir: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        Bench { disk, budget: Budget::new(64 << 20), dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mover(&self, store: &dyn Store) -> Mover<'_> {
        Mover::new(&self.disk, &self.budget, store.staging(false).least, &Cancel::default()).unwrap()
    }

    fn try_create(
        &self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        tile: &[u64],
        version: u8,
        codecs: &str,
    ) -> Result<Arc<dyn Store>, Error> {
        let format = NewFormat::Foreign {
            zarr_format: version,
            codecs: codecs.into(),
            tile: Some(tile.into()),
            labels: Labels::parse(r#"{"attributes":{"units":"m"}}"#).unwrap(),
        };
        create(&self.disk, &self.path(name), shape, dtype, format, false)
    }

    fn open(&self, name: &str, writable: bool) -> Arc<dyn Store> {
        open(&self.disk, &self.path(name), &As::Found, writable).unwrap()
    }

    fn store(&self, store: &dyn Store, region: &ArrayBox, bytes: &mut [u8]) -> Result<(), Error> {
        let patch = Patch::strided(region.clone(), bytes.as_mut_ptr(), strides(store, region));
        // SAFETY: the patch is the whole canvas, over memory that is ours alone.
        let canvas = unsafe { Canvas::new(region.clone(), store.info().dtype.size(), [patch]) };
        store.store(&mut self.mover(store), &canvas)
    }

    fn load(&self, store: &dyn Store, region: &ArrayBox) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0xEE; store.info().box_bytes(&region.shape) as usize];
        let patch = Patch::strided(region.clone(), bytes.as_mut_ptr(), strides(store, region));
        // SAFETY: as above.
        let canvas = unsafe { Canvas::new(region.clone(), store.info().dtype.size(), [patch]) };
        store.load(&mut self.mover(store), &canvas).map(|()| bytes)
    }

    /// An array filled whole, committed and closed; what it holds.
    fn filled(
        &self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        tile: &[u64],
        version: u8,
        codecs: &str,
    ) -> Vec<u8> {
        let store = self.try_create(name, shape, dtype, tile, version, codecs).unwrap();
        let whole = ArrayBox::whole(shape);
        let mut bytes = pattern(elements(shape) as usize, dtype);
        self.store(&*store, &whole, &mut bytes).unwrap();
        assert_eq!(self.load(&*store, &whole).unwrap(), bytes, "{name} before its commit");
        store.commit(&mut self.mover(&*store)).unwrap();
        assert_eq!(self.budget.used(), 0, "everything charged comes back");
        bytes
    }
}

fn strides(store: &dyn Store, region: &ArrayBox) -> Strides {
    dense_strides(&region.shape, store.info().dtype.size())
}

/// Elements that compress a little, and are valid for the type.
fn pattern(count: usize, dtype: DType) -> Vec<u8> {
    (0..count * dtype.size())
        .map(|i| match dtype {
            DType::Bool => u8::from(i % 3 == 0),
            _ if i % dtype.size() < 2 => (i.wrapping_mul(2_654_435_761) >> 13) as u8,
            _ => (i / 997) as u8,
        })
        .collect()
}

fn part(whole: &[u8], shape: &[u64], region: &ArrayBox, itemsize: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for index in BoxIndices::new(region) {
        let at = index.iter().zip(shape).fold(0, |acc, (&i, &n)| acc * n + i) as usize * itemsize;
        out.extend_from_slice(&whole[at..at + itemsize]);
    }
    out
}

const SHAPE: [u64; 2] = [50, 60];
const TILE: [u64; 2] = [16, 24];
const BYTES: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
const BIG: &str = r#"{"name":"bytes","configuration":{"endian":"big"}}"#;
const ZSTD: &str = r#"{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;
const GZIP: &str = r#"{"name":"gzip","configuration":{"level":5}}"#;
const CRC: &str = r#"{"name":"crc32c"}"#;
const TRANSPOSE: &str = r#"{"name":"transpose","configuration":{"order":[1,0]}}"#;

fn sharded(inner: &str, codecs: &str, location: &str) -> String {
    format!(
        r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{inner},"codecs":[{codecs}],
        "index_codecs":[{BYTES},{CRC}],"index_location":"{location}"}}}}"#
    )
}

fn numcodecs(name: &str, configuration: &str) -> String {
    format!(r#"{{"name":"numcodecs.{name}","configuration":{{{configuration}}}}}"#)
}

/// Lists of codecs of Zarr v3, for 2-d arrays with tiles of 16 by 24.
fn v3_lists() -> Vec<String> {
    let inner = format!("{BYTES},{ZSTD},{CRC}");
    let mut lists = vec![
        String::new(),
        ZSTD.into(),
        format!("{BYTES},{GZIP}"),
        BIG.into(),
        format!("{BIG},{ZSTD},{CRC}"),
        TRANSPOSE.into(),
        format!("{TRANSPOSE},{ZSTD}"),
        format!("{TRANSPOSE},{TRANSPOSE},{BYTES},{GZIP}"),
        numcodecs("zlib", r#""level":1"#),
        numcodecs("bz2", r#""level":9"#),
        numcodecs("adler32", ""),
        numcodecs("fletcher32", ""),
        // Of bytes of which there may be an odd number.
        format!("{},{ZSTD},{}", numcodecs("fletcher32", ""), numcodecs("fletcher32", "")),
        format!("{},{ZSTD}", numcodecs("shuffle", r#""elementsize":1"#)),
        sharded("[8,12]", &inner, "end"),
        sharded("[4,24]", &inner, "start"),
        sharded("[8,12]", &format!("{TRANSPOSE},{BIG},{GZIP}"), "end"),
        // The inner chunk's shape is that after the transposition.
        format!("{TRANSPOSE},{}", sharded("[6,8]", &inner, "end")),
        format!("{TRANSPOSE},{}", sharded("[24,4]", &format!("{TRANSPOSE},{BYTES}"), "start")),
        // Shards that are decoded whole: within a compressed file, and within a shard.
        format!("{},{GZIP}", sharded("[8,12]", &inner, "end")),
        sharded("[8,12]", &sharded("[2,3]", &inner, "end"), "end"),
    ];
    for (cname, shuffle) in [
        ("lz4", "shuffle"),
        ("zstd", "bitshuffle"),
        ("blosclz", "noshuffle"),
        ("lz4hc", "shuffle"),
        ("zlib", "shuffle"),
    ] {
        lists.push(format!(
            r#"{{"name":"blosc","configuration":{{"cname":"{cname}","clevel":5,"shuffle":"{shuffle}","typesize":4,"blocksize":0}}}}"#
        ));
    }
    lists.into_iter().map(|list| format!("[{list}]")).collect()
}

fn check_boxes(bench: &Bench, store: &dyn Store, bytes: &[u8], what: &str) {
    let itemsize = store.info().dtype.size();
    for (start, extent) in [
        ([0, 0], [50, 60]),
        ([0, 0], [16, 24]),
        ([15, 23], [2, 2]),
        ([49, 59], [1, 1]),
        ([3, 5], [40, 31]),
        ([7, 7], [0, 3]),
    ] {
        let region = ArrayBox::new(start, extent);
        let loaded = bench.load(store, &region).unwrap();
        assert!(loaded == part(bytes, &SHAPE, &region, itemsize), "{what}, box {region}");
    }
    let mut mover = bench.mover(store);
    for unit in 0..store.units() {
        assert!(matches!(store.check(&mut mover, unit).unwrap(), Finding::Sound), "{what}");
    }
}

#[test]
fn every_codec_of_version_3_round_trips() {
    let bench = Bench::new();
    for (n, list) in v3_lists().iter().enumerate() {
        for dtype in [DType::F64, DType::Bool, DType::I16, DType::C64] {
            let name = format!("{n}-{dtype}.zarr");
            let bytes = bench.filled(&name, &SHAPE, dtype, &TILE, 3, list);
            let store = bench.open(&name, false);
            assert_eq!(store.info().attributes, r#"{"units":"m"}"#);
            check_boxes(&bench, &*store, &bytes, list);
        }
    }
}

#[test]
fn every_codec_of_version_2_round_trips() {
    let bench = Bench::new();
    let lists = [
        "[]",
        r#"{"id":"zlib","level":1}"#,
        r#"{"id":"zlib","level":-1}"#,
        r#"{"id":"gzip","level":1}"#,
        r#"{"id":"bz2","level":1}"#,
        r#"{"id":"zstd","level":0}"#,
        r#"{"id":"zstd","level":3,"checksum":true}"#,
        r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}"#,
        r#"{"id":"blosc","cname":"zstd","clevel":5,"shuffle":-1,"blocksize":0}"#,
        r#"[{"id":"shuffle","elementsize":2},{"id":"zlib","level":1}]"#,
        r#"[{"id":"fletcher32"}]"#,
        r#"[{"id":"adler32"}]"#,
    ];
    for (n, list) in lists.iter().enumerate() {
        for dtype in [DType::F32, DType::I8, DType::C128] {
            let name = format!("{n}-{dtype}.zarr");
            let bytes = bench.filled(&name, &SHAPE, dtype, &TILE, 2, list);
            let store = bench.open(&name, false);
            assert_eq!((store.info().format, store.info().dtype), ("zarr-foreign", dtype));
            assert_eq!(store.info().attributes, r#"{"units":"m"}"#);
            check_boxes(&bench, &*store, &bytes, list);
        }
    }
}

#[test]
fn every_type_round_trips() {
    let bench = Bench::new();
    for dtype in DType::ALL {
        for (version, list) in [(2, r#"{"id":"zlib","level":1}"#.into()), (3, format!("[{GZIP}]"))] {
            let name = format!("{dtype}-{version}.zarr");
            let bytes = bench.filled(&name, &SHAPE, dtype, &TILE, version, &list);
            let store = bench.open(&name, false);
            assert_eq!(store.info().dtype, dtype);
            check_boxes(&bench, &*store, &bytes, &name);
        }
    }
}

#[test]
fn codecs_are_described() {
    let bench = Bench::new();
    bench.filled("a.zarr", &SHAPE, DType::F64, &TILE, 3, &format!("[{ZSTD}]"));
    assert_eq!(bench.open("a.zarr", false).info().codecs, "bytes, zstd(level 3)");
    bench.filled(
        "b.zarr",
        &SHAPE,
        DType::F64,
        &TILE,
        2,
        r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1}"#,
    );
    assert_eq!(bench.open("b.zarr", false).info().codecs, "bytes, blosc(lz4, level 5, shuffle)");
}

#[test]
fn zero_dimensional_one_dimensional_and_empty_arrays() {
    let bench = Bench::new();
    let shapes: [(&[u64], &[u64], u64); 5] = [
        (&[], &[], 1),
        (&[0], &[1], 0),
        (&[0, 5], &[1, 5], 0),
        (&[7], &[3], 3),
        (&[2, 3, 4, 5], &[2, 2, 2, 2], 12),
    ];
    for (n, (shape, tile, units)) in shapes.into_iter().enumerate() {
        for (version, list) in [(3, format!("[{ZSTD}]")), (2, r#"{"id":"zstd","level":1}"#.into())] {
            let name = format!("{n}-{version}.zarr");
            let bytes = bench.filled(&name, shape, DType::F64, tile, version, &list);
            let store = bench.open(&name, false);
            assert_eq!((store.info().shape.as_slice(), store.units()), (shape, units));
            assert_eq!(bench.load(&*store, &ArrayBox::whole(shape)).unwrap(), bytes);
        }
    }
}

#[test]
fn a_missing_chunk_is_the_fill_value() {
    let bench = Bench::new();
    for (n, list) in [ZSTD.into(), sharded("[8,12]", BYTES, "end")].iter().enumerate() {
        let name = format!("{n}.zarr");
        let mut bytes = bench.filled(&name, &SHAPE, DType::I16, &TILE, 3, &format!("[{list}]"));
        let json = bench.path(&name).join("zarr.json");
        let text = std::fs::read_to_string(&json).unwrap().replace("\"fill_value\": 0", "\"fill_value\": -2");
        std::fs::write(&json, text).unwrap();
        std::fs::remove_file(bench.path(&name).join("c/1/1")).unwrap();
        for row in 16..32 {
            for column in 24..48 {
                bytes[(row * 60 + column) * 2..][..2].copy_from_slice(&(-2i16).to_le_bytes());
            }
        }
        let store = bench.open(&name, false);
        check_boxes(&bench, &*store, &bytes, list);
        assert_eq!(store.bytes_to_load(&ArrayBox::new([16, 24], [16, 24])).unwrap(), 0);
    }
}

/// Damages a chunk in many ways: none may pass for other data, or end the process.
#[test]
fn damaged_chunks_are_found() {
    let bench = Bench::new();
    let blosc = r#"{"name":"blosc","configuration":{"cname":"zstd","clevel":5,"shuffle":"shuffle","typesize":8,"blocksize":0}}"#;
    let lists = [
        ZSTD.into(),
        GZIP.into(),
        numcodecs("zlib", r#""level":1"#),
        numcodecs("bz2", r#""level":1"#),
        format!("{GZIP},{CRC}"),
        format!("{blosc},{CRC}"),
        sharded("[8,12]", &format!("{BYTES},{ZSTD}"), "end"),
        sharded("[8,12]", &format!("{BYTES},{ZSTD}"), "start"),
    ];
    for (n, list) in lists.iter().enumerate() {
        let name = format!("{n}.zarr");
        let bytes = bench.filled(&name, &SHAPE, DType::F64, &TILE, 3, &format!("[{list}]"));
        let path = bench.path(&name).join("c/1/2");
        let sound = std::fs::read(&path).unwrap();
        let store = bench.open(&name, false);
        let region = ArrayBox::new([20, 50], [3, 3]);
        let expected = part(&bytes, &SHAPE, &region, 8);
        let mut found = 0;
        let mut damage = |what: &str, damaged: &[u8], must: bool| {
            std::fs::write(&path, damaged).unwrap();
            let finding = store.check(&mut bench.mover(&*store), 5).unwrap();
            match bench.load(&*store, &region) {
                Err(error @ Error::Corrupt { .. }) => {
                    let text = error.to_string();
                    assert!(text.contains(&name) && text.contains("chunk (1, 2) (c/1/2)"), "{text}");
                    assert!(matches!(finding, Finding::Damaged(_)), "{list}, {what}");
                    found += 1;
                }
                // Some bits mean nothing, such as the time in a gzip header; others are in inner
                // chunks that the box does not touch.
                Ok(loaded) if !must => assert_eq!(loaded, expected, "{list}, {what}"),
                other => panic!("{list}, {what}: {other:?}"),
            }
        };
        for len in [0, 1, 3, 7, sound.len() / 2, sound.len() - 1] {
            // Of a shard with its index first, what is cut off may be inner chunks that are not asked for.
            damage(&format!("{len} bytes"), &sound[..len], n != 7 || len < 8);
        }
        damage("zeros", &vec![0; sound.len()], true);
        let tries = sound.len().min(600);
        for i in 0..tries {
            let mut damaged = sound.clone();
            damaged[i * sound.len() / tries] ^= 1 << (i % 8);
            damage(&format!("bit {i}"), &damaged, false);
        }
        assert!(found > 100, "{list}: {found} of {tries}");
        std::fs::write(&path, &sound).unwrap();
        assert_eq!(bench.load(&*store, &region).unwrap(), expected);
    }
}

#[test]
fn what_claims_too_much_is_refused_before_memory_is_taken() {
    let bench = Bench::new();
    bench.filled("a.zarr", &SHAPE, DType::F64, &TILE, 3, &format!("[{ZSTD}]"));
    let first = ArrayBox::new([0, 0], [1, 1]);
    // A Zstandard frame of 2^62 bytes, and after it nothing.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    frame.extend((1u64 << 62).to_le_bytes());
    frame.extend([1, 0, 0]);
    std::fs::write(bench.path("a.zarr/c/0/0"), frame).unwrap();
    let error = bench.load(&*bench.open("a.zarr", false), &first).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    // A file longer than any chunk can be.
    std::fs::File::create(bench.path("a.zarr/c/0/0")).unwrap().set_len(1 << 40).unwrap();
    let error = bench.load(&*bench.open("a.zarr", false), &first).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn links_that_lead_out_are_refused() {
    let bench = Bench::new();
    bench.filled("a.zarr", &SHAPE, DType::F64, &TILE, 3, &format!("[{ZSTD}]"));
    let chunk = bench.path("a.zarr/c/0/0");
    std::fs::rename(&chunk, bench.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../../../elsewhere", &chunk).unwrap();
    let error = bench.load(&*bench.open("a.zarr", false), &ArrayBox::new([0, 0], [1, 1])).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains("leads out"), "{error}");
}

#[test]
fn what_is_not_supported_is_named() {
    let bench = Bench::new();
    let refused = |version, list: &str| {
        bench.try_create("a.zarr", &[4, 4], DType::F64, &[2, 2], version, list).err().expect("an error")
    };
    for (version, list, name) in [
        (3, r#"[{"name":"lz77"}]"#.into(), "lz77"),
        (3, r#"[{"name":"zfp"}]"#.into(), "zfp"),
        (2, r#"{"id":"lzma"}"#.into(), "lzma"),
        (2, r#"[{"id":"delta","dtype":"<f8"},{"id":"zlib","level":1}]"#.into(), "delta"),
        (3, format!("[{}]", sharded("[1,1]", &format!("{BYTES},{{\"name\":\"lz77\"}}"), "end")), "lz77"),
    ] {
        let error = refused(version, &list);
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(name), "{error}");
    }
    for (version, list) in [
        (3, "not json".into()),
        (3, r#"[{"name":"transpose","configuration":{"order":[0,2]}}]"#.into()),
        (3, format!("[{}]", sharded("[2,3]", BYTES, "end"))),
        (4, "[]".into()),
    ] {
        let error = refused(version, &list);
        assert!(matches!(error, Error::Invalid(_) | Error::Unsupported { .. }), "{error}");
    }
    assert!(std::fs::read_dir(bench.dir.path()).unwrap().next().is_none());
}

/// Nothing of a change is visible to others before its commit, and all of it to the one who makes it.
#[test]
fn changes_appear_at_their_commit() {
    let bench = Bench::new();
    for (n, list) in [ZSTD.into(), sharded("[8,12]", &format!("{BYTES},{ZSTD}"), "end")].iter().enumerate() {
        let name = format!("{n}.zarr");
        let old = bench.filled(&name, &SHAPE, DType::F64, &TILE, 3, &format!("[{list}]"));
        let writer = bench.open(&name, true);
        let tile = ArrayBox::new([16, 24], [16, 24]);
        let mut new = vec![5; 16 * 24 * 8];
        bench.store(&*writer, &tile, &mut new).unwrap();
        assert!(writer.is_pending());
        assert_eq!(bench.load(&*writer, &tile).unwrap(), new);
        let reader = bench.open(&name, false);
        assert_eq!(bench.load(&*reader, &tile).unwrap(), part(&old, &SHAPE, &tile, 8));
        assert!(matches!(open(&bench.disk, &bench.path(&name), &As::Found, true), Err(Error::Busy { .. })));
        writer.commit(&mut bench.mover(&*writer)).unwrap();
        assert!(!writer.is_pending() && !bench.path(&name).join(".outcrop-update").exists());
        assert_eq!(bench.load(&*reader, &tile).unwrap(), new);
        // Given up: as before.
        bench.store(&*writer, &tile, &mut vec![6; 16 * 24 * 8]).unwrap();
        writer.abort();
        assert_eq!(bench.load(&*bench.open(&name, false), &tile).unwrap(), new);
        assert!(!bench.path(&name).join(".outcrop-update").exists());
        let second = bench.open(&name, true);
        let error = bench.store(&*second, &ArrayBox::new([0, 0], [1, 1]), &mut [0; 8]).unwrap_err();
        assert!(error.to_string().contains("in part only"), "{error}");
        let error = bench.store(&*reader, &tile, &mut new).unwrap_err();
        assert!(error.to_string().contains("opened for reading"), "{error}");
    }
}

#[test]
fn an_array_that_is_given_up_leaves_nothing() {
    let bench = Bench::new();
    let store = bench.try_create("a.zarr", &SHAPE, DType::F64, &TILE, 3, &format!("[{ZSTD}]")).unwrap();
    bench.store(&*store, &ArrayBox::new([0, 0], [16, 24]), &mut vec![1; 16 * 24 * 8]).unwrap();
    assert!(store.is_pending() && store.stored_bytes().unwrap() > 0);
    drop(store);
    assert!(std::fs::read_dir(bench.dir.path()).unwrap().next().is_none());
}

/// A reader whose array was replaced must not take the chunks that are gone for fill values.
#[test]
fn a_replaced_array_is_noticed() {
    let bench = Bench::new();
    let list = format!("[{ZSTD}]");
    bench.filled("a.zarr", &SHAPE, DType::F64, &TILE, 3, &list);
    let reader = bench.open("a.zarr", false);
    let labels = Labels::default();
    let format = NewFormat::Foreign { zarr_format: 3, codecs: list, tile: None, labels };
    let new = create(&bench.disk, &bench.path("a.zarr"), &SHAPE, DType::F64, format, true).unwrap();
    new.commit(&mut bench.mover(&*new)).unwrap();
    let error = bench.load(&*reader, &ArrayBox::new([0, 0], [1, 1])).unwrap_err();
    assert!(error.to_string().contains("replaced"), "{error}");
}

/// What is predicted is what is read.
#[test]
fn bytes_are_predicted() {
    let bench = Bench::new();
    let inner = format!("{BYTES},{ZSTD}");
    for (n, list) in [ZSTD.into(), sharded("[16,32]", &inner, "end")].iter().enumerate() {
        let name = format!("{n}.zarr");
        bench.filled(&name, &[512, 640], DType::F64, &[256, 256], 3, &format!("[{list}]"));
        let store = bench.open(&name, false);
        for region in [
            ArrayBox::whole(&[512, 640]),
            ArrayBox::new([250, 10], [100, 300]),
            ArrayBox::new([300, 300], [1, 1]),
        ] {
            let expected = store.bytes_to_load(&region).unwrap();
            let before = bench.disk.counters().read();
            bench.load(&*store, &region).unwrap();
            assert_eq!(bench.disk.counters().read() - before, expected, "{list}, {region}");
        }
    }
    // Of a shard of 512 KiB in pieces of 4 KiB, one element takes its piece and the index.
    let store = bench.open("1.zarr", false);
    assert!(store.bytes_to_load(&ArrayBox::new([300, 300], [1, 1])).unwrap() <= 5 * 4096);
}

/// Bytes that this process has read from the device, if the kernel says so.
fn counted_by_the_kernel() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// Indexes of shards that a plan read were told by nobody. The load tells them that uses them; and reads them itself
/// where the plan has been carried out, or the file has changed since.
#[test]
fn indexes_are_counted_once_wherever_they_are_read() {
    let bench = Bench::new();
    let list = format!("[{}]", sharded("[8,8]", &format!("{BYTES},{ZSTD}"), "end"));
    let (shape, tile) = ([2048, 512], [512, 512]);
    let bytes = bench.filled("a.zarr", &shape, DType::F64, &tile, 3, &list);
    let store = bench.open("a.zarr", false);
    // A part of each shard, so that none is read whole.
    let region = ArrayBox::new([0, 0], [2048, 256]);
    let load = || {
        let before = bench.disk.counters().read();
        let found = bench.load(&*store, &region).unwrap();
        assert!(found.chunks(256 * 8).eq(bytes.chunks(512 * 8).map(|row| &row[..256 * 8])));
        bench.disk.counters().read() - before
    };
    let plan = || {
        let before = bench.disk.counters().read();
        let planned = store.bytes_to_load(&region).unwrap();
        assert_eq!(bench.disk.counters().read(), before);
        planned
    };
    let begin = (counted_by_the_kernel(), bench.disk.counters().read());
    let planned = plan();
    assert_eq!((plan(), load(), load()), (planned, planned, planned));
    assert_eq!((plan(), load()), (planned, planned));
    let told = bench.disk.counters().read() - begin.1;
    if let (Some(before), Some(after)) = (begin.0, counted_by_the_kernel())
        && after > before
    {
        // Other tests of this process are counted as well.
        assert!(after - before >= told, "{} {told}", after - before);
    }
    plan();
    let path = bench.path("a.zarr").join("c/1/0");
    let changed = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, changed).unwrap();
    assert_eq!(load(), planned);
}

/// A shard that is wanted whole, or is no longer than what is read rather than skipped, is read with one request.
#[test]
fn small_shards_are_read_at_once() {
    let bench = Bench::new();
    for (location, inner) in [("end", BYTES.to_string()), ("start", format!("{BYTES},{ZSTD}"))] {
        let (name, list) = (format!("{location}.zarr"), format!("[{}]", sharded("[8,8]", &inner, location)));
        let bytes = bench.filled(&name, &[80, 96], DType::F64, &[40, 40], 3, &list);
        let store = bench.open(&name, false);
        let len = |key: &str| std::fs::metadata(bench.path(&name).join(key)).unwrap().len();
        let region = ArrayBox::new([3, 5], [2, 1]);
        assert_eq!(store.bytes_to_load(&region).unwrap(), len("c/0/0").next_multiple_of(4096));
        let found = bench.load(&*store, &region).unwrap();
        assert_eq!(found[..8], bytes[(3 * 96 + 5) * 8..][..8]);
        let before = bench.disk.counters().read();
        assert_eq!(bench.load(&*store, &ArrayBox::whole(&[80, 96])).unwrap(), bytes);
        let files = ["c/0/0", "c/0/1", "c/0/2", "c/1/0", "c/1/1", "c/1/2"];
        let all: u64 = files.iter().map(|key| len(key).next_multiple_of(4096)).sum();
        assert_eq!(bench.disk.counters().read() - before, all);
    }
}

/// Staging is what loading and storing take: nothing beyond it is charged, and with less, the rest.
#[test]
fn staging_is_enough() {
    let bench = Bench::new();
    for list in v3_lists() {
        let dir = tempfile::tempdir_in(bench.dir.path()).unwrap();
        let format = NewFormat::Foreign {
            zarr_format: 3,
            codecs: list.clone(),
            tile: Some(vec![128, 192].into()),
            labels: Labels::default(),
        };
        let path = dir.path().join("a.zarr");
        let store = create(&bench.disk, &path, &[128, 192], DType::F64, format, false).unwrap();
        let whole = ArrayBox::whole(&[128, 192]);
        let mut bytes: Vec<u8> =
            (0..128 * 192 * 8u32).map(|i| (i.wrapping_mul(i ^ 2_654_435_761) >> 11) as u8).collect();
        bench.budget.reset_peak();
        let Ok(()) = bench.store(&*store, &whole, &mut bytes) else { panic!("{list}") };
        store.commit(&mut bench.mover(&*store)).unwrap();
        assert_eq!(bench.budget.peak(), store.staging(false).least, "{list}");
        let reader = open(&bench.disk, &path, &As::Found, false).unwrap();
        if reader.info().format == "zarr" {
            continue;
        }
        bench.budget.reset_peak();
        assert_eq!(bench.load(&*reader, &whole).unwrap(), bytes);
        assert_eq!(bench.budget.peak(), reader.staging(false).least, "{list}");
        // Without staging memory everything is charged by itself.
        let mut mover = Mover::new(&bench.disk, &bench.budget, 0, &Cancel::default()).unwrap();
        let patch = Patch::strided(whole.clone(), bytes.as_mut_ptr(), strides(&*reader, &whole));
        // SAFETY: the patch is the whole canvas, over memory that is ours alone.
        let canvas = unsafe { Canvas::new(whole.clone(), 8, [patch]) };
        bench.budget.reset_peak();
        reader.load(&mut mover, &canvas).unwrap();
        assert!(bench.budget.peak() > 4096);
        drop(mover);
        assert_eq!(bench.budget.used(), 0);
    }
}

/// What a list of codecs leaves between a chunk's file and its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The file is the elements.
    Bare,
    /// They are decoded straight to where they are wanted.
    Straight,
    /// They pass through memory of their own.
    Around,
}

/// Lists of codecs, of arrays of two-byte elements and more.
fn ways() -> Vec<(u8, String, Way)> {
    use Way::{Around, Bare, Straight};
    let blosc = |cname: &str| {
        format!(
            r#"{{"name":"blosc","configuration":{{"cname":"{cname}","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}}}"#
        )
    };
    let mut ways: Vec<(u8, String, Way)> = [
        (ZSTD.into(), Straight),
        (GZIP.into(), Straight),
        (numcodecs("zlib", r#""level":1"#), Straight),
        (numcodecs("bz2", r#""level":9"#), Straight),
        (blosc("lz4"), Straight),
        (blosc("zstd"), Straight),
        (format!("{BYTES},{ZSTD},{CRC}"), Straight),
        (format!("{BYTES},{},{CRC}", blosc("blosclz")), Straight),
        (format!("{BYTES},{CRC},{ZSTD}"), Straight),
        (format!("{BYTES},{ZSTD},{GZIP}"), Straight),
        (format!("{BYTES},{ZSTD},{}", numcodecs("adler32", "")), Around),
        (format!("{BIG},{ZSTD}"), Around),
        (BIG.into(), Around),
        (TRANSPOSE.into(), Around),
        (format!("{TRANSPOSE},{BYTES},{ZSTD}"), Around),
        (format!("{},{ZSTD}", numcodecs("shuffle", r#""elementsize":2"#)), Straight),
        (numcodecs("fletcher32", ""), Straight),
        (format!("{},{GZIP},{}", numcodecs("fletcher32", ""), numcodecs("fletcher32", "")), Straight),
        (format!("{},{},{CRC}", numcodecs("shuffle", r#""elementsize":2"#), blosc("lz4")), Straight),
        (sharded("[5,6]", &format!("{BYTES},{ZSTD}"), "end"), Around),
    ]
    .map(|(list, way)| (3, format!("[{list}]"), way))
    .into();
    ways.extend(
        [
            ("[]", Bare),
            (r#"{"id":"zlib","level":1}"#, Straight),
            (r#"{"id":"zstd","level":0}"#, Straight),
            (r#"{"id":"bz2","level":1}"#, Straight),
            (r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}"#, Straight),
            (r#"[{"id":"shuffle","elementsize":2},{"id":"zlib","level":1}]"#, Straight),
        ]
        .map(|(list, way)| (2, list.into(), way)),
    );
    ways
}

/// Guarded memory for a whole tile, and the canvas of what a box has of it.
struct Framed {
    memory: Vec<u64>,
    bytes: usize,
    canvas: Canvas,
}

const GUARD: usize = 512;

impl Framed {
    fn new(region: &ArrayBox, tile: &[u64], itemsize: usize) -> Framed {
        let bytes = elements(tile) as usize * itemsize;
        let mut memory = vec![0xEEEE_EEEE_EEEE_EEEE_u64; (bytes + 4096) / 8 + GUARD];
        let start = memory.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(4096));
        let patch = Patch::padded(region.clone(), start, bytes, tile, itemsize);
        // SAFETY: the patch is the whole canvas, over memory that lives as long as it.
        let canvas = unsafe { Canvas::new(region.clone(), itemsize, [patch]) };
        Framed { memory, bytes, canvas }
    }

    /// What the box holds, where nothing beside the tile was written to.
    fn found(&self, store: &dyn Store) -> Vec<u8> {
        let region = self.canvas.region();
        let itemsize = store.info().dtype.size();
        let mut found = vec![0; store.info().box_bytes(&region.shape) as usize];
        // SAFETY: the box is the canvas's, and there is room for it.
        unsafe {
            self.canvas.gather(region, found.as_mut_ptr(), &dense_strides(&region.shape, itemsize), 1);
            let (start, _) = self.canvas.address(region);
            let first = self.memory.as_ptr().cast::<u8>();
            let before = std::slice::from_raw_parts(first, start.offset_from(first) as usize);
            let behind = std::slice::from_raw_parts(start.add(self.bytes), GUARD * 8);
            assert!(before.iter().chain(behind).all(|&b| b == 0xEE), "beside the tile");
        }
        found
    }
}

/// Chunks are decoded straight to frames, those that hang over too: then loading takes no memory beside the file's.
#[test]
fn whole_chunks_take_no_memory_beside_their_files() {
    let bench = Bench::new();
    let (shape, tile) = ([230, 130], [100, 60]);
    for (n, (version, list, way)) in ways().into_iter().enumerate() {
        for dtype in [DType::F64, DType::I16] {
            let (name, what) = (format!("{n}-{dtype}.zarr"), format!("{list}, {dtype}"));
            let bytes = bench.filled(&name, &shape, dtype, &tile, version, &list);
            let store = bench.open(&name, false);
            let chunk = store.info().box_bytes(&tile) as usize;
            let around = store.staging(false).least;
            let staging = store.staging_of_whole(&tile);
            match (way, staging) {
                (Way::Bare, Some(staging)) => assert_eq!(staging, 5 * 4096, "{what}"),
                (Way::Straight, Some(staging)) => {
                    // Blosc's blocks are as large as chunks that are as small as these.
                    let most = if list.contains("blosc") { around } else { around + 4096 - chunk };
                    assert!((chunk..=most).contains(&staging), "{what}: {staging}");
                }
                (Way::Around, None) => {}
                other => panic!("{what}: {other:?}"),
            }
            // Tiles that hang over may be wanted without what they have beyond the array.
            assert_eq!(store.staging(true).least, around, "{what}");
            // One tile, and several of them side by side and one below the other.
            for tiles in [tile, [200, 60], [100, 120], [300, 180]] {
                let staging = store.staging_of_whole(&tiles);
                let lie_as_decoded = tiles[1] == tile[1];
                assert_eq!(staging.is_some(), way != Way::Around && lie_as_decoded, "{what}");
                let staging = staging.unwrap_or(around);
                let grid = outcrop_store::TileGrid::new(&shape, &tiles).unwrap();
                for coords in grid.tiles_of(&ArrayBox::whole(&shape)) {
                    let region = grid.tile_box(&coords);
                    let frame = Framed::new(&region, &tiles, dtype.size());
                    let mut mover =
                        Mover::new(&bench.disk, &bench.budget, staging, &Cancel::default()).unwrap();
                    bench.budget.reset_peak();
                    store.load(&mut mover, &frame.canvas).unwrap();
                    assert_eq!(bench.budget.peak(), bench.budget.used(), "{what}, {region}");
                    assert!(
                        frame.found(&*store) == part(&bytes, &shape, &region, dtype.size()),
                        "{what}, {region}"
                    );
                }
            }
            // A part of a chunk leaves the rest of the frame alone.
            let frame = Framed::new(&ArrayBox::new([100, 60], [100, 60]), &tile, dtype.size());
            let inside = ArrayBox::new([110, 60], [90, 60]);
            store.load(&mut bench.mover(&*store), &frame.canvas.part(&inside)).unwrap();
            let found = frame.found(&*store);
            let row = 60 * dtype.size();
            assert!(found[..10 * row].iter().all(|&b| b == 0xEE), "{what}");
            assert!(found[10 * row..] == part(&bytes, &shape, &inside, dtype.size()), "{what}");
        }
    }
}

/// Where all tiles are whole, frames of any kind hold them.
#[test]
fn staging_for_exact_tiles_is_that_of_their_files() {
    let bench = Bench::new();
    for (n, (version, list, way)) in ways().into_iter().enumerate() {
        let name = format!("{n}.zarr");
        bench.filled(&name, &[200, 120], DType::F64, &[100, 60], version, &list);
        let store = bench.open(&name, false);
        let special = store.staging_of_whole(&[100, 60]);
        assert_eq!(store.staging(true).least, special.unwrap_or(store.staging(false).least), "{list}");
        assert_eq!(special.is_some(), way != Way::Around, "{list}");
        // Storing takes what it took.
        let store = bench.open(&name, true);
        assert_eq!(store.staging(true), store.staging(false), "{list}");
    }
}

/// What is wrong with a chunk does not depend on where it is decoded to.
#[test]
fn damage_is_told_alike_wherever_chunks_are_decoded_to() {
    let bench = Bench::new();
    let (shape, tile) = ([20, 30], [20, 30]);
    for (n, (version, list, _)) in ways().into_iter().enumerate() {
        let name = format!("{n}.zarr");
        bench.filled(&name, &shape, DType::F64, &tile, version, &list);
        let small = format!("{n}-small.zarr");
        bench.filled(&small, &[10, 24], DType::F64, &[10, 24], version, &list);
        let large = format!("{n}-large.zarr");
        bench.filled(&large, &[25, 36], DType::F64, &[25, 36], version, &list);
        let key = if version == 3 { "c/0/0" } else { "0.0" };
        let read = |name: &str| std::fs::read(bench.path(name).join(key)).unwrap();
        let good = read(&name);
        let mut bad = vec![vec![], read(&small), read(&large), [&good[..], &good].concat()];
        bad.extend((0..good.len()).step_by(good.len() / 23).map(|at| good[..at].to_vec()));
        bad.extend([&b"\0"[..], b"\0\0\0\0\0", b"garbage"].map(|end| [&good, end].concat()));
        for at in (0..good.len().min(24)).chain((24..good.len()).step_by(good.len() / 97 + 1)) {
            for change in [1, 0x80, 0xFF] {
                let mut changed = good.clone();
                changed[at] ^= change;
                bad.push(changed);
            }
        }
        let store = bench.open(&name, false);
        let whole = ArrayBox::whole(&shape);
        for (which, chunk) in bad.iter().enumerate() {
            std::fs::write(bench.path(&name).join(key), chunk).unwrap();
            let loaded = |frame: &Framed| {
                let loaded = store.load(&mut bench.mover(&*store), &frame.canvas);
                loaded.map(|()| frame.found(&*store)).map_err(|e| e.to_string())
            };
            let straight = loaded(&Framed::new(&whole, &tile, 8));
            let around = loaded(&Framed::new(&whole, &[20, 31], 8));
            assert!(straight == around, "{list}, {which}: {:?}, {:?}", straight.err(), around.err());
        }
    }
}

#[test]
fn several_threads_at_once() {
    let bench = Bench::new();
    let list = format!("[{}]", sharded("[16,32]", &format!("{BYTES},{ZSTD}"), "end"));
    let store = bench.try_create("a.zarr", &[256, 256], DType::F64, &[64, 64], 3, &list).unwrap();
    let bytes = pattern(256 * 256, DType::F64);
    let rows = |n: u64| ArrayBox::new([64 * n, 0], [64, 256]);
    let move_all = |load: bool| {
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (store, bench, bytes) = (&store, &bench, &bytes);
                scope.spawn(move || {
                    let mut mine = part(bytes, &[256, 256], &rows(n), 8);
                    if load {
                        assert_eq!(bench.load(&**store, &rows(n)).unwrap(), mine);
                    } else {
                        bench.store(&**store, &rows(n), &mut mine).unwrap();
                    }
                });
            }
        });
    };
    move_all(false);
    move_all(true);
    store.commit(&mut bench.mover(&*store)).unwrap();
    move_all(true);
}

/// Every operation fails once in turn, and for good: an error of its kind or the right result, and
/// the array is as before or as after.
#[test]
fn faults_leave_the_old_array_or_the_new() {
    let bench = Bench::new();
    let list = format!("[{}]", sharded("[16,32]", &format!("{BYTES},{ZSTD}"), "end"));
    let (shape, tile) = ([128, 128], ArrayBox::new([64, 64], [64, 64]));
    let mut now = bench.filled("a.zarr", &shape, DType::F64, &[64, 64], 3, &list);
    let whole = ArrayBox::whole(&shape);
    let flipped = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for index in BoxIndices::new(&tile) {
            let at = (index[0] * 128 + index[1]) as usize * 8;
            bytes[at..at + 8].iter_mut().for_each(|b| *b ^= 1);
        }
        bytes
    };
    let change = |rules: &str| {
        let faults: Arc<Faults> = Arc::new(rules.parse().unwrap());
        bench.disk.set_faults(Some(Arc::clone(&faults)));
        let result = (|| {
            let store = open(&bench.disk, &bench.path("a.zarr"), &As::Found, true)?;
            let mut bytes = bench.load(&*store, &tile)?;
            bytes.iter_mut().for_each(|b| *b ^= 1);
            bench.store(&*store, &tile, &mut bytes)?;
            store.commit(&mut bench.mover(&*store))
        })();
        bench.disk.set_faults(None);
        (result, faults.seen())
    };
    let (result, operations) = change("");
    result.unwrap();
    now = flipped(&now);
    for times in ["once", "always"] {
        for n in 1..=operations {
            for error in ["eio", "enospc"] {
                let (result, _) = change(&format!("any:{n}:{error}:{times}"));
                let after = bench.load(&*bench.open("a.zarr", true), &whole).unwrap();
                assert_eq!(bench.budget.used(), 0);
                let what = format!("operation {n} of {operations}, {error} {times}");
                match result {
                    Ok(()) => assert!(after == flipped(&now), "{what}"),
                    Err(Error::Io { .. } | Error::NoSpace { .. }) => {
                        assert!(after == now || after == flipped(&now), "{what}: all or nothing");
                    }
                    Err(other) => panic!("{what}: {other}"),
                }
                now = after;
            }
        }
    }
}

/// Column-major and big-endian arrays of version 2, written here byte by byte.
#[test]
fn orders_of_version_2() {
    let bench = Bench::new();
    let (shape, tile): ([u64; 3], [u64; 3]) = ([3, 4, 5], [2, 4, 3]);
    let values = pattern(60, DType::I32);
    for (order, dtype, separator) in [("F", "<i4", "."), ("F", ">i4", "/"), ("C", ">i4", ".")] {
        let path = bench.path("a.zarr");
        std::fs::create_dir(&path).unwrap();
        let zarray = json!({"zarr_format": 2, "shape": shape, "chunks": tile, "dtype": dtype,
            "compressor": null, "fill_value": 9, "order": order, "filters": null, "dimension_separator": separator});
        std::fs::write(path.join(".zarray"), zarray.to_string()).unwrap();
        let grid = outcrop_store::TileGrid::new(&shape, &tile).unwrap();
        let strides: Dims =
            if order == "F" { [1, 2, 8].as_slice().into() } else { [12, 3, 1].as_slice().into() };
        for coords in grid.tiles_of(&ArrayBox::whole(&shape)) {
            let mut chunk = vec![0; 24 * 4];
            for index in BoxIndices::new(&grid.tile_box(&coords)) {
                let from = ((index[0] * 4 + index[1]) * 5 + index[2]) as usize * 4;
                let to: u64 = (0..3).map(|a| (index[a] - coords[a] * tile[a]) * strides[a]).sum();
                chunk[to as usize * 4..][..4].copy_from_slice(&values[from..from + 4]);
            }
            if dtype == ">i4" {
                swap_words(&mut chunk, 4);
            }
            let key = coords.iter().map(u64::to_string).collect::<Vec<_>>().join(separator);
            let file = path.join(key);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, chunk).unwrap();
        }
        let store = bench.open("a.zarr", true);
        let whole = ArrayBox::whole(&shape);
        assert_eq!(bench.load(&*store, &whole).unwrap(), values, "{order} {dtype}");
        let region = ArrayBox::new([1, 1, 2], [2, 2, 2]);
        assert_eq!(bench.load(&*store, &region).unwrap(), part(&values, &shape, &region, 4));
        // Written back in the same order: the same bytes, in a chunk that does not hang over.
        let first = path.join(["0", "0", "0"].join(separator));
        let before = std::fs::read(&first).unwrap();
        bench.store(&*store, &whole, &mut values.clone()).unwrap();
        store.commit(&mut bench.mover(&*store)).unwrap();
        assert_eq!(bench.load(&*bench.open("a.zarr", false), &whole).unwrap(), values);
        assert_eq!(std::fs::read(&first).unwrap(), before, "{order} {dtype}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn structured_and_other_elements_are_refused() {
    let bench = Bench::new();
    let path: &Path = &bench.path("a.zarr");
    std::fs::create_dir(path).unwrap();
    for (dtype, part) in [
        (json!([["a", "<f8"], ["b", "<i4"]]), "structured"),
        (json!("|O"), "objects"),
        (json!("<M8[ns]"), "dates"),
    ] {
        let zarray = json!({"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": dtype,
            "compressor": null, "fill_value": null, "order": "C", "filters": null});
        std::fs::write(path.join(".zarray"), zarray.to_string()).unwrap();
        let error = open(&bench.disk, path, &As::Found, false).err().unwrap();
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(part), "{error}");
    }
}
