//! Arrays that lie in one file in many blocks, each through codecs, such as data sets of HDF5 with filters: read only.
//!
//! A grid cuts the array into *chunks*, all of which have the same shape in the file: those at the high edges hang over.
//! Whoever has read the file's metadata says where each lies. Codecs are Zarr's; a chunk may have gone without some of
//! them, as HDF5 allows where a filter would not make it shorter.

use super::codecs::{Codecs, Element, describe};
use super::extents::{InFile, Place, Wanted, extents, failed, load_extent, sort};
use super::in_parts;
use super::load::{Sink, Trouble, is_too_long};
use crate::dtype::{ByteOrder, DType};
use crate::error::{Error, Result};
use crate::format::{FormatError, crc32};
use crate::io::{Access, Disk, DiskFile};
use crate::layout::Layout;
use crate::shape::{ArrayBox, Dims, TileGrid, Tuple, checked_nbytes};
use crate::store::transfer::canvas::{Canvas, Strides};
use crate::store::{Finding, Info, Mover, Staging, Store, cut_together};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use zarrs::metadata::v3::MetadataV3;

/// The most bytes that are read at once, unless a chunk has more. Chunks side by side with as many bytes of elements are
/// moved together: one request after the other would take as long as each of them alone.
const TOGETHER: u64 = 1 << 18;

/// A chunk in the file.
#[derive(Clone, Copy, Debug)]
pub struct EncodedChunk {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; 0 where it is not in the file, and has the fill value.
    pub bytes: u64,
    /// The codecs that it went without: bit `i` for number `i`.
    pub without: u32,
    /// The CRC-32 of its bytes, where that is known.
    pub sum: Option<u32>,
}

/// Where the elements of an array lie in a file, and how they are encoded.
#[derive(Clone, Debug)]
pub struct EncodedChunks {
    /// Extents in elements.
    pub shape: Dims,
    /// Type of the elements.
    pub dtype: DType,
    /// Byte order of the numbers.
    pub byte_order: ByteOrder,
    /// Extents of a chunk.
    pub chunk: Dims,
    /// Every chunk in row-major order of the grid.
    pub chunks: Arc<[EncodedChunk]>,
    /// From bytes to bytes, in the order in which they encode: a JSON list as in `zarr.json`.
    pub codecs: String,
    /// The bytes of an element in chunks that are not there.
    pub fill: Vec<u8>,
    /// What the array is called in its file, for messages.
    pub name: String,
    /// For [`Info`], as are the attributes.
    pub format: &'static str,
    /// A JSON object.
    pub attributes: String,
}

/// An array in many encoded blocks of one file.
pub struct EncodedArray {
    info: Info,
    grid: TileGrid,
    chunks: Arc<[EncodedChunk]>,
    element: Element,
    /// By the codecs that chunks go without; those that go without none come first.
    codecs: Vec<(u32, Codecs)>,
    strides: Strides,
    file: DiskFile,
    called: String,
    /// Bytes of the longest chunk.
    longest: u64,
    /// Bytes from the first chunk's start to the last one's end, with what lies between.
    reach: u64,
}

impl EncodedArray {
    /// Opens a file as it is described.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the file is too short or a chunk is longer than can be, [`Error::Unsupported`] for
    /// codecs that are not known, [`Error::Invalid`] for a description that contradicts itself, the operating system's.
    pub fn open(disk: &Arc<Disk>, path: &Path, what: EncodedChunks) -> Result<EncodedArray> {
        checked_nbytes(&what.shape, what.dtype.size())?;
        checked_nbytes(&what.chunk, what.dtype.size())?;
        let grid = TileGrid::new(&what.shape, &what.chunk)?;
        if grid.tiles() != what.chunks.len() as u64 || what.fill.len() != what.dtype.size() {
            return Err(Error::invalid(format!(
                "{}: {} chunks of {} do not make an array of {}",
                path.display(),
                what.chunks.len(),
                Tuple(&what.chunk),
                Tuple(&what.shape)
            )));
        }
        let element = Element::new(what.dtype, &what.fill).map_err(|e| e.at(path))?;
        let listed: Vec<MetadataV3> = serde_json::from_str(&what.codecs)
            .map_err(|e| Error::invalid(format!("codecs {:?} make no sense: {e}", what.codecs)))?;
        let big = what.byte_order == ByteOrder::Big;
        let all = with_bytes(&listed, 0, big).map_err(|e| e.at(path))?;
        let mut codecs: Vec<(u32, Codecs)> = Vec::new();
        for without in std::iter::once(0).chain(what.chunks.iter().map(|chunk| chunk.without)) {
            if codecs.iter().all(|(known, _)| *known != without) {
                let made = with_bytes(&listed, without, big)
                    .and_then(|list| Codecs::new(&list, &what.chunk, &element, false));
                codecs.push((without, made.map_err(|e| e.at(path))?));
            }
        }
        let info = Info {
            path: path.into(),
            shape: what.shape,
            dtype: what.dtype,
            tile: what.chunk,
            layout: Layout::Tiled,
            format: what.format,
            codecs: describe(&all),
            attributes: what.attributes,
            writable: false,
        };
        let present = || what.chunks.iter().filter(|chunk| chunk.bytes > 0);
        let longest = present().map(|chunk| chunk.bytes).max().unwrap_or(0);
        let end = present().map(|chunk| chunk.offset.saturating_add(chunk.bytes)).max().unwrap_or(0);
        let reach = end - present().map(|chunk| chunk.offset).min().unwrap_or(0);
        let strides = codecs[0].1.strides();
        let file = disk.open(path, Access::Read)?;
        let array = EncodedArray {
            info,
            grid,
            chunks: what.chunks,
            element,
            codecs,
            strides,
            file,
            called: what.name,
            longest,
            reach,
        };
        array.check_places()?;
        Ok(array)
    }

    /// An error where a chunk reaches beyond the end of the file, or has more bytes than it can.
    fn check_places(&self) -> Result<()> {
        let len = self.file.len()?;
        for (position, chunk) in (0..).zip(self.chunks.iter()) {
            let what = match chunk.offset.checked_add(chunk.bytes) {
                Some(end) if end <= len => {
                    let most = self.codecs(position).most_encoded() as u64;
                    if !is_too_long(chunk.bytes, most) {
                        continue;
                    }
                    format!("has {} bytes, where {most} are possible", chunk.bytes)
                }
                _ => format!(
                    "at offset {} with {} bytes ends behind the file's {len}",
                    chunk.offset, chunk.bytes
                ),
            };
            return Err(Error::corrupt(&self.info.path, format!("{} {what}", self.name(position))));
        }
        Ok(())
    }

    fn name(&self, position: u64) -> String {
        format!("{}: chunk {}", self.called, Tuple(&self.grid.coords(position)))
    }

    /// The chunks of a box that are in the file, in the order in which they lie; `absent` is called for those that are not.
    fn present(&self, region: &ArrayBox, mut absent: impl FnMut(u64)) -> Vec<u64> {
        let mut positions = Vec::new();
        for coords in self.grid.tiles_of(region) {
            let position = self.grid.linear_index(&coords);
            if self.chunks[position as usize].bytes == 0 {
                absent(position);
            } else {
                positions.push(position);
            }
        }
        sort(&mut positions, |position| self.place(position));
        positions
    }

    fn visit(&self, mover: &mut Mover, region: &ArrayBox, canvas: Option<&Canvas>) -> Result<(), Trouble> {
        let sink = &Sink { canvas, fill: &self.element.fill };
        let positions = self.present(region, |position| {
            let common = self.chunk(position).intersect(region).expect("a chunk of the box");
            sink.fill(&common);
        });
        let all = &ArrayBox::whole(&self.info.shape);
        let wanted = Wanted { all, region, sink };
        for extent in extents(positions.iter().map(|&position| self.place(position)), TOGETHER) {
            let found = (&extent, &positions[extent.chunks.clone()]);
            let result = load_extent(mover, &self.file, self, found, (0, None), &wanted);
            self.file.drop_cache();
            result?;
        }
        Ok(())
    }
}

/// The codecs of chunks that go without some.
fn with_bytes(listed: &[MetadataV3], without: u32, big: bool) -> Result<Vec<MetadataV3>, FormatError> {
    let endian = if big { "big" } else { "little" };
    let bytes = json!({ "name": "bytes", "configuration": { "endian": endian } });
    let bytes = serde_json::from_value(bytes).map_err(|e| FormatError::Malformed(e.to_string()))?;
    let kept = (0..).zip(listed).filter(|(i, _)| without.checked_shr(*i).unwrap_or(0) & 1 == 0);
    Ok(std::iter::once(bytes).chain(kept.map(|(_, codec)| codec.clone())).collect())
}

impl InFile for EncodedArray {
    fn place(&self, position: u64) -> Place {
        let EncodedChunk { offset, bytes, .. } = self.chunks[position as usize];
        Place { from: offset, to: offset + bytes }
    }

    fn codecs(&self, position: u64) -> &Codecs {
        let without = self.chunks[position as usize].without;
        let found = self.codecs.iter().find(|(known, _)| *known == without);
        &found.expect("codecs were made for every chunk").1
    }

    fn chunk(&self, position: u64) -> ArrayBox {
        let coords = self.grid.coords(position);
        let start: Dims = coords.iter().zip(&self.grid.tile).map(|(at, tile)| at * tile).collect();
        ArrayBox { start, shape: self.grid.tile.clone() }
    }

    fn strides(&self) -> &Strides {
        &self.strides
    }

    fn compare(&self, position: u64, encoded: &[u8]) -> Result<(), String> {
        match self.chunks[position as usize].sum {
            Some(sum) if crc32(encoded) != sum => Err("its CRC-32 does not match".into()),
            _ => Ok(()),
        }
    }

    fn damaged(&self, position: u64, what: String) -> String {
        format!("{} is damaged: {what}", self.name(position))
    }
}

impl Store for EncodedArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, exact: bool) -> Staging {
        let whole = self.grid.shape.iter().zip(&self.grid.tile).all(|(n, tile)| n.is_multiple_of(*tile));
        // Smaller chunks are moved together, into memory that has not the layout of one.
        let straight = exact && whole && self.codecs[0].1.bytes as u64 > TOGETHER;
        let heap = self.codecs.iter().map(|(_, codecs)| match codecs.straight() {
            Some(_) if straight => codecs.straight_heap(),
            _ => codecs.decode_heap(),
        });
        let read = self.longest.max(TOGETHER.min(self.reach)) as usize;
        let needed = in_parts(read.saturating_add(heap.max().unwrap_or(0)));
        Staging { least: needed, wanted: needed }
    }

    fn tile_boxes(&self, region: &ArrayBox) -> Vec<ArrayBox> {
        cut_together(&self.info, TOGETHER, region)
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        let positions = self.present(region, |_| {});
        let places = positions.iter().map(|&position| self.place(position));
        Ok(extents(places, TOGETHER).map(|extent| extent.bytes()).sum())
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        self.visit(mover, canvas.region(), Some(canvas))
            .map_err(|trouble| failed(trouble, |what| Error::corrupt(&self.info.path, what)))
    }

    fn stored_bytes(&self) -> Result<u64> {
        self.file.len()
    }

    fn units(&self) -> u64 {
        self.grid.tiles()
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        let mut damage = None;
        let found = self.visit(mover, &self.grid.tile_box(&self.grid.coords(unit)), None);
        let result = found.map_err(|trouble| {
            failed(trouble, |what| {
                damage = Some(what.clone());
                Error::corrupt(&self.info.path, what)
            })
        });
        match (result, damage) {
            (Ok(()), _) => Ok(Finding::Sound),
            (Err(_), Some(what)) => Ok(Finding::Damaged(what)),
            (Err(Error::Io { source, .. }), None) => {
                Ok(Finding::Damaged(format!("{} cannot be read: {source}", self.name(unit))))
            }
            (Err(other), None) => Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Budget;
    use crate::io::{Cancel, EngineChoice};
    use crate::shape::BoxIndices;
    use crate::store::Patch;
    use proptest::prelude::*;

    const SHUFFLE: &str = r#"{"name":"numcodecs.shuffle","configuration":{"elementsize":2}}"#;
    const ZLIB: &str = r#"{"name":"numcodecs.zlib","configuration":{"level":1}}"#;
    const SUM: &str = r#"{"name":"numcodecs.fletcher32","configuration":{}}"#;
    const FILL: u16 = 0x1234;

    /// The element at an index.
    fn value(shape: &[u64], index: &[u64]) -> u16 {
        index.iter().zip(shape).fold(0, |acc, (&i, &n)| acc * n + i) as u16
    }

    /// Writes the chunks in their order or from the last one on, with gaps, every seventh not at all, and every fifth
    /// without its first codec.
    fn write(
        path: &Path,
        shape: &[u64],
        chunk: &[u64],
        codecs: &[&str],
        gap: usize,
        forwards: bool,
    ) -> EncodedChunks {
        let grid = TileGrid::new(shape, chunk).unwrap();
        let element = Element::new(DType::U16, &FILL.to_ne_bytes()).unwrap();
        let listed: Vec<MetadataV3> = serde_json::from_str(&format!("[{}]", codecs.join(","))).unwrap();
        let mut file = vec![7u8; 8];
        let mut chunks =
            vec![EncodedChunk { offset: 0, bytes: 0, without: 0, sum: None }; grid.tiles() as usize];
        for k in 0..grid.tiles() {
            let i = if forwards { k } else { grid.tiles() - 1 - k };
            if i % 7 == 6 {
                continue;
            }
            let without = u32::from(i % 5 == 4 && !codecs.is_empty());
            let start: Dims = grid.coords(i).iter().zip(chunk).map(|(at, n)| at * n).collect();
            let all = ArrayBox { start, shape: chunk.into() };
            let elements: Vec<u8> =
                BoxIndices::new(&all).flat_map(|index| value(shape, &index).to_be_bytes()).collect();
            // They have the file's byte order already.
            let list = with_bytes(&listed, without, false).unwrap();
            let encoded =
                Codecs::new(&list, chunk, &element, false).unwrap().encode(&elements).unwrap().into_owned();
            file.resize(file.len() + gap, 7);
            let sum = (i % 2 == 0).then(|| crc32(&encoded));
            chunks[i as usize] =
                EncodedChunk { offset: file.len() as u64, bytes: encoded.len() as u64, without, sum };
            file.extend(encoded);
        }
        std::fs::write(path, &file).unwrap();
        EncodedChunks {
            shape: shape.into(),
            dtype: DType::U16,
            byte_order: ByteOrder::Big,
            chunk: chunk.into(),
            chunks: chunks.into(),
            codecs: format!("[{}]", codecs.join(",")),
            fill: FILL.to_ne_bytes().into(),
            name: "x".into(),
            format: "tiff",
            attributes: "{}".into(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn any_box_is_read_as_it_was_written(
            axes in prop::collection::vec((1u64..60, 1u64..30, 0.0..1.0f64, 0.0..1.0f64), 1..4),
            codecs in prop::sample::select(vec![
                vec![], vec![SHUFFLE], vec![ZLIB], vec![SHUFFLE, ZLIB], vec![SUM, ZLIB], vec![SHUFFLE, ZLIB, SUM],
            ]),
            gap in prop_oneof![Just(0usize), 0usize..100_000],
            forwards: bool,
        ) {
            let shape: Dims = axes.iter().map(|a| a.0).collect();
            let chunk: Dims = axes.iter().map(|a| a.1.max(a.0.div_ceil(4))).collect();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            let what = write(&path, &shape, &chunk, &codecs, gap, forwards);
            let disk = Disk::new(EngineChoice::Auto).unwrap();
            let budget = Budget::new(64 << 20);
            let store = EncodedArray::open(&disk, &path, what).unwrap();
            let start: Dims = axes.iter().map(|a| (a.2 * a.0 as f64) as u64).collect();
            let extent: Dims =
                axes.iter().zip(&start).map(|(a, s)| ((a.3 * (a.0 - s) as f64) as u64).max(1)).collect();
            let region = ArrayBox { start, shape: extent };
            let mut values = vec![1u16; region.elements() as usize];
            let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 2);
            // SAFETY: as many values as the box has elements.
            let canvas = unsafe { Canvas::new(region.clone(), 2, [patch]) };
            let mut mover =
                Mover::new(&disk, &budget, store.staging(false).least, &Cancel::default()).unwrap();
            let before = disk.counters().read();
            budget.reset_peak();
            store.load(&mut mover, &canvas).unwrap();
            prop_assert_eq!(budget.peak(), budget.used());
            prop_assert_eq!(disk.counters().read() - before, store.bytes_to_load(&region).unwrap());
            for (index, found) in BoxIndices::new(&region).zip(values) {
                let coords: Dims = index.iter().zip(&chunk).map(|(i, c)| i / c).collect();
                let absent = store.grid.linear_index(&coords) % 7 == 6;
                prop_assert_eq!(found, if absent { FILL } else { value(&shape, &index) });
            }
            for unit in 0..store.units() {
                prop_assert!(matches!(store.check(&mut mover, unit).unwrap(), Finding::Sound));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let sound = write(&path, &[40, 40], &[16, 16], &[SHUFFLE, ZLIB], 0, true);
        let refused = |what: EncodedChunks| EncodedArray::open(&disk, &path, what).err().unwrap().to_string();
        let with = |at: usize, chunk: EncodedChunk| {
            let mut chunks = sound.chunks.to_vec();
            chunks[at] = chunk;
            EncodedChunks { chunks: chunks.into(), ..sound.clone() }
        };
        let beyond = EncodedChunk { offset: 1 << 40, bytes: 5, without: 0, sum: None };
        assert!(refused(with(3, beyond)).contains("chunk (1, 0) at offset"));
        let overflows = EncodedChunk { offset: u64::MAX, bytes: 5, without: 0, sum: None };
        assert!(refused(with(3, overflows)).contains("ends behind"));
        let unknown = EncodedChunks { codecs: r#"[{"name":"nobody"}]"#.into(), ..sound.clone() };
        assert!(refused(unknown).contains("nobody"));
        let few = EncodedChunks { chunks: sound.chunks[1..].into(), ..sound.clone() };
        assert!(refused(few).contains("do not make an array"));
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 3).unwrap();
        assert!(refused(sound.clone()).contains("ends behind the file's"));
    }

    #[test]
    fn a_checksum_is_compared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let what = write(&path, &[40, 40], &[16, 16], &[], 0, true);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[what.chunks[2].offset as usize] ^= 1;
        bytes[what.chunks[3].offset as usize] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let store = EncodedArray::open(&disk, &path, what).unwrap();
        let budget = Budget::new(1 << 20);
        let mut mover = Mover::new(&disk, &budget, store.staging(false).least, &Cancel::default()).unwrap();
        let mut found = |unit| store.check(&mut mover, unit).unwrap();
        assert!(
            matches!(found(2), Finding::Damaged(what) if what.contains("chunk (0, 2) is damaged: its CRC-32"))
        );
        // Of this one, none is known.
        assert!(matches!(found(3), Finding::Sound));
    }

    #[test]
    fn a_chunk_longer_than_it_can_be_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let mut what = write(&path, &[4, 4], &[4, 4], &[ZLIB], 0, true);
        std::fs::write(&path, vec![0; 4 << 20]).unwrap();
        what.chunks = [EncodedChunk { offset: 8, bytes: 3 << 20, without: 0, sum: None }].into();
        let error = EncodedArray::open(&disk, &path, what).err().unwrap().to_string();
        assert!(error.contains("are possible"), "{error}");
    }
}
