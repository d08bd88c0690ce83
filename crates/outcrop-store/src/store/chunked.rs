//! Arrays that lie in one file in many blocks, such as TIFF files in tiles: read only.
//!
//! A grid cuts the array into *chunks*. Each is a row-major array of its own at some offset of the file,
//! so that a box of it consists of runs, as in [`crate::layout::linear`].

use super::transfer::canvas::{Canvas, dense_strides};
use super::transfer::seams::BLOCK;
use super::{Finding, Info, Mover, Staging, Store, cut_together};
use crate::dtype::{ByteOrder, DType};
use crate::error::{Error, Result};
use crate::frame::charged;
use crate::io::{Access, Direction, Disk, DiskFile, Transfer};
use crate::layout::linear::Interval;
use crate::layout::{Layout, LinearLayout, Runs};
use crate::shape::{ArrayBox, Dims, TileGrid, Tuple, checked_nbytes, elements};
use smallvec::SmallVec;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

/// The most bytes that are read of a chunk at once.
const PART: u64 = 1 << 20;
const LEAST_STAGING: usize = 64 << 10;
/// Bytes of staging memory by which enough requests are in flight.
const WANTED_STAGING: usize = 4 << 20;
/// Tiles have at most about so many bytes: of larger chunks, they are parts.
const MOST_TILE: u64 = 8 << 20;
/// Of chunks that are slabs of rows, as many as have so many bytes are one tile.
const LEAST_TILE: u64 = 1 << 20;
/// Of smaller chunks, those side by side are moved together up to so many bytes: one request after the other would
/// take as long as each of them alone.
const TOGETHER: u64 = 1 << 18;

/// Where the elements of an array lie in a file, and what they are.
#[derive(Clone, Debug)]
pub struct Chunks {
    /// Extents in elements.
    pub shape: Dims,
    /// Type of the elements.
    pub dtype: DType,
    /// Byte order of the numbers.
    pub byte_order: ByteOrder,
    /// Extents of a chunk.
    pub chunk: Dims,
    /// Offset of every chunk in row-major order of the grid; 0 for one that is not in the file, and whose
    /// elements are zero.
    pub offsets: Arc<[u64]>,
    /// Whether chunks at the high edges are as large in the file as any other; else they end with the
    /// array.
    pub padded: bool,
    /// For [`Info`], as are the attributes.
    pub format: &'static str,
    /// A JSON object.
    pub attributes: String,
}

/// An array in many blocks of one file.
pub struct ChunkedArray {
    info: Info,
    chunks: Chunks,
    grid: TileGrid,
    file: DiskFile,
    /// Bytes that one number takes where its order on disk is not the machine's; else 1.
    swap: usize,
}

/// A box of one chunk that is read at once.
struct Part {
    /// The chunk's place in the array.
    origin: Dims,
    layout: LinearLayout,
    /// In the chunk.
    region: ArrayBox,
}

impl Part {
    fn runs(&self) -> Runs {
        self.layout.runs(&self.region)
    }

    fn intervals(&self) -> SmallVec<[Interval; 4]> {
        self.runs().intervals(BLOCK as u64).collect()
    }

    /// A box of the chunk as a box of the array.
    fn in_array(&self, region: &ArrayBox) -> ArrayBox {
        let start = region.start.iter().zip(&self.origin).map(|(s, o)| s + o).collect();
        ArrayBox { start, shape: region.shape.clone() }
    }
}

/// Intervals of the file, and their places in the staging memory.
type Places = SmallVec<[(Interval, usize); 4]>;

/// Parts that the staging memory holds at once.
#[derive(Default)]
struct Round {
    parts: Vec<(Part, Places)>,
    reads: Vec<Read>,
}

/// What is read by one request: intervals that touch, of chunks that follow one another in the file. They share the
/// block in which one ends and the next begins.
struct Read {
    interval: Interval,
    place: usize,
    /// Where the chunk ends that is last in it: the file may, too.
    end: u64,
}

impl Round {
    /// Of the parts that come next, those that fit; `None` after the last one.
    fn next(parts: &mut Peekable<impl Iterator<Item = Part>>, room: usize) -> Option<Round> {
        parts.peek()?;
        let mut round = Round::default();
        let mut filled = 0;
        while let Some(part) = parts.next_if(|part| filled + bytes(&part.intervals()) as usize <= room) {
            let end = part.layout.end();
            let places = part.intervals().into_iter().map(|interval| {
                let place = round.add(interval, filled, end);
                filled = filled.max(place + interval.len as usize);
                (interval, place)
            });
            let places = places.collect();
            round.parts.push((part, places));
        }
        Some(round)
    }

    /// The place of an interval: behind what touches it in the file, else the `free` one.
    fn add(&mut self, interval: Interval, free: usize, end: u64) -> usize {
        if let Some(last) = self.reads.last_mut()
            && let Some(ahead) = interval.offset.checked_sub(last.interval.offset)
            && ahead <= last.interval.len
        {
            last.interval.len = last.interval.len.max(ahead + interval.len);
            last.end = last.end.max(end);
            return last.place + ahead as usize;
        }
        self.reads.push(Read { interval, place: free, end });
        free
    }
}

impl ChunkedArray {
    /// Opens a file as it is described.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the file is too short, [`Error::Invalid`] for a description that contradicts
    /// itself, the operating system's.
    pub fn open(disk: &Arc<Disk>, path: &Path, chunks: Chunks) -> Result<ChunkedArray> {
        let itemsize = chunks.dtype.size();
        checked_nbytes(&chunks.shape, itemsize)?;
        checked_nbytes(&chunks.chunk, itemsize)?;
        let grid = TileGrid::new(&chunks.shape, &chunks.chunk)?;
        if grid.tiles() != chunks.offsets.len() as u64 {
            return Err(Error::invalid(format!(
                "{}: {} chunks of {} do not make an array of {}",
                path.display(),
                chunks.offsets.len(),
                Tuple(&chunks.chunk),
                Tuple(&chunks.shape)
            )));
        }
        let file = disk.open(path, Access::Read)?;
        let big = chunks.byte_order == ByteOrder::Big;
        let info = Info {
            path: path.into(),
            shape: chunks.shape.clone(),
            dtype: chunks.dtype,
            tile: tile(&chunks),
            layout: Layout::Tiled,
            format: chunks.format,
            codecs: if big { "big-endian".into() } else { "none".into() },
            attributes: chunks.attributes.clone(),
            writable: false,
        };
        let swap = if big { chunks.dtype.word_size() } else { 1 };
        let array = ChunkedArray { info, chunks, grid, file, swap };
        array.check_length()?;
        Ok(array)
    }

    /// An error where a chunk reaches beyond the end of the file.
    fn check_length(&self) -> Result<()> {
        let len = self.file.len()?;
        for (i, &offset) in self.chunks.offsets.iter().enumerate() {
            let coords = self.grid.coords(i as u64);
            let bytes = self.layout(&coords, offset).nbytes();
            let end = offset.saturating_add(bytes);
            if offset > 0 && end > len {
                return Err(Error::corrupt(
                    &self.info.path,
                    format!(
                        "chunk {} at offset {offset} ends at byte {end}, the file has only {len} ({} missing)",
                        Tuple(&coords),
                        end - len
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Where the elements of a chunk lie.
    fn layout(&self, coords: &[u64], offset: u64) -> LinearLayout {
        let shape =
            if self.chunks.padded { self.grid.tile.clone() } else { self.grid.tile_box(coords).shape };
        LinearLayout::new(&shape, self.info.dtype.size(), false, offset)
    }

    /// The parts in which a box is read with `room` bytes of staging memory, chunk after chunk; `absent` is
    /// called for boxes of the array that are not in the file.
    fn parts<'a>(
        &'a self,
        region: &'a ArrayBox,
        room: usize,
        mut absent: impl FnMut(&ArrayBox) + 'a,
    ) -> impl Iterator<Item = Part> + 'a {
        let (block, most) = (BLOCK as u64, PART.min(room as u64));
        let coords = if region.is_empty() { None } else { Some(self.grid.tiles_of(region)) };
        coords.into_iter().flatten().flat_map(move |coords| {
            let whole = self.grid.tile_box(&coords);
            let common = whole.intersect(region).expect("a chunk of the box");
            let offset = self.chunks.offsets[self.grid.linear_index(&coords) as usize];
            if offset == 0 {
                absent(&common);
                return Vec::new();
            }
            let layout = self.layout(&coords, offset);
            let start: Dims = common.start.iter().zip(&whole.start).map(|(c, w)| c - w).collect();
            let inside = ArrayBox { start, shape: common.shape };
            let boxes = layout.split(&inside, block, &|runs| runs.staging(block) <= most);
            let part = |region| Part { origin: whole.start.clone(), layout: layout.clone(), region };
            boxes.into_iter().map(part).collect()
        })
    }

    /// Reads a box, in as few rounds as the staging memory allows, and hands every part over with the
    /// places of its intervals.
    fn read(
        &self,
        mover: &mut Mover,
        region: &ArrayBox,
        absent: impl FnMut(&ArrayBox),
        mut each: impl FnMut(&Part, &Places, *const u8),
    ) -> Result<()> {
        let cancel = mover.cancel.clone();
        let disk = mover.disk;
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let mut parts = self.parts(region, room, absent).peekable();
        while let Some(round) = Round::next(&mut parts, room) {
            let mut reads =
                round.reads.iter().map(|&Read { interval: Interval { offset, len }, place, end }| {
                    let need = end.saturating_sub(offset).min(len) as usize;
                    Transfer::read(&self.file, offset, staging.wrapping_add(place), len as usize, need)
                });
            // SAFETY: what is read has disjoint places in the staging memory, which is ours.
            let result = unsafe { disk.transfer(queue, &self.file, &mut reads, Direction::Read, &cancel) };
            self.file.drop_cache();
            result?;
            for (part, places) in &round.parts {
                each(part, places, staging);
            }
        }
        Ok(())
    }

    /// Copies a part from the staging memory to the canvas.
    fn scatter(&self, canvas: &Canvas, part: &Part, region: &ArrayBox, places: &Places, staging: *const u8) {
        let runs = part.layout.runs(region);
        let holder = |at: u64| places.partition_point(|(i, _)| i.offset <= at).saturating_sub(1);
        let first = holder(runs.first);
        let axis = (0..region.ndim()).find(|&a| region.shape[a] > 1);
        if let (Some(axis), true) = (axis, first != holder(runs.last())) {
            // Runs inside one interval lie at the chunk's own strides, so that whole boxes are copied at
            // once; the outer axes are walked until that holds.
            for i in 0..region.shape[axis] {
                let mut sub = region.clone();
                sub.start[axis] += i;
                sub.shape[axis] = 1;
                self.scatter(canvas, part, &sub, places, staging);
            }
            return;
        }
        let (interval, place) = places[first];
        let source = staging.wrapping_add(place + (runs.first - interval.offset) as usize);
        let strides = dense_strides(&part.layout.shape, part.layout.itemsize);
        // SAFETY: the interval holds every run of the box, at the strides of the chunk.
        unsafe { canvas.scatter(&part.in_array(region), source, &strides, self.swap) };
    }
}

fn bytes(intervals: &[Interval]) -> u64 {
    intervals.iter().map(|i| i.len).sum()
}

/// The boxes that move best: chunks, parts of chunks that are large, several that are thin slabs.
fn tile(chunks: &Chunks) -> Dims {
    let Chunks { shape, chunk, .. } = chunks;
    let itemsize = chunks.dtype.size() as u64;
    let mut tile: Dims = chunk.iter().zip(shape).map(|(&c, &n)| c.min(n.max(1))).collect();
    let is_cut = |axis: usize| chunk[axis] < shape[axis];
    for axis in 0..tile.len() {
        let per_index = (elements(&tile) / tile[axis]).saturating_mul(itemsize);
        if per_index.saturating_mul(tile[axis]) > MOST_TILE {
            // Reading across the edges of chunks costs no more than reading up to them.
            tile[axis] = (MOST_TILE / per_index).max(1);
        }
    }
    if !chunks.padded
        && let Some(axis) = (0..tile.len()).rev().find(|&axis| is_cut(axis))
        && (axis + 1..tile.len()).all(|a| !is_cut(a))
    {
        let many = LEAST_TILE / (elements(&tile) * itemsize).max(1);
        tile[axis] = (tile[axis] * many.max(1)).min(shape[axis]);
    }
    tile
}

impl Store for ChunkedArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        let tile = self.info.box_bytes(&self.info.tile) as usize;
        let wanted = charged(tile + 2 * BLOCK).clamp(LEAST_STAGING, WANTED_STAGING);
        Staging { least: LEAST_STAGING, wanted }
    }

    fn tile_boxes(&self, region: &ArrayBox) -> Vec<ArrayBox> {
        cut_together(&self.info, TOGETHER, region)
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        self.bytes_to_load_with(region, WANTED_STAGING)
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        let mut parts = self.parts(region, staging, |_| {}).peekable();
        let rounds = std::iter::from_fn(|| Round::next(&mut parts, staging));
        Ok(rounds.flat_map(|round| round.reads).map(|read| read.interval.len).sum())
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let zero = [0; 16];
        let absent = |region: &ArrayBox| canvas.fill(region, &zero[..self.info.dtype.size()]);
        self.read(mover, canvas.region(), absent, |part, places, staging| {
            self.scatter(canvas, part, &part.region, places, staging);
        })
    }

    fn stored_bytes(&self) -> Result<u64> {
        self.file.len()
    }

    fn units(&self) -> u64 {
        self.grid.tiles()
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        // There are no checksums here: what can be found is that bytes cannot be read.
        let region = self.grid.tile_box(&self.grid.coords(unit));
        match self.read(mover, &region, |_| {}, |_, _, _| {}) {
            Ok(()) => Ok(Finding::Sound),
            Err(Error::Io { source, .. }) => {
                let coords = self.grid.coords(unit);
                Ok(Finding::Damaged(format!("chunk {} cannot be read: {source}", Tuple(&coords))))
            }
            Err(other) => Err(other),
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
    use std::io::Write;

    fn chunks(shape: &[u64], chunk: &[u64], padded: bool) -> Chunks {
        Chunks {
            shape: shape.into(),
            dtype: DType::U16,
            byte_order: ByteOrder::Big,
            chunk: chunk.into(),
            offsets: Arc::default(),
            padded,
            format: "tiff",
            attributes: "{}".into(),
        }
    }

    /// The element at an index.
    fn value(shape: &[u64], index: &[u64]) -> u16 {
        index.iter().zip(shape).fold(0, |acc, (&i, &n)| acc * n + i) as u16
    }

    /// Writes the chunks in their order or from the last one on, with gaps, and every seventh not at all.
    fn write(path: &Path, mut what: Chunks, gap: usize, forwards: bool) -> Chunks {
        let grid = TileGrid::new(&what.shape, &what.chunk).unwrap();
        let mut file = vec![7u8; 8];
        let mut offsets = vec![0; grid.tiles() as usize];
        for k in 0..grid.tiles() {
            let i = if forwards { k } else { grid.tiles() - 1 - k };
            if i % 7 == 6 {
                continue;
            }
            file.resize(file.len() + gap, 7);
            offsets[i as usize] = file.len() as u64;
            let inside = grid.tile_box(&grid.coords(i));
            let stored = if what.padded { &what.chunk } else { &inside.shape };
            for index in BoxIndices::new(&ArrayBox::whole(stored)) {
                let at: Dims = index.iter().zip(&inside.start).map(|(i, s)| i + s).collect();
                file.extend(value(&what.shape, &at).to_be_bytes());
            }
        }
        std::fs::File::create(path).unwrap().write_all(&file).unwrap();
        what.offsets = offsets.into();
        what
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn any_box_is_read_as_it_was_written(
            axes in prop::collection::vec((1u64..90, 1u64..40, 0.0..1.0f64, 0.0..1.0f64), 1..4),
            padded: bool,
            gap in prop_oneof![Just(0usize), 0usize..6000],
            forwards: bool,
            room in 0usize..4,
        ) {
            let shape: Dims = axes.iter().map(|a| a.0).collect();
            let chunk: Dims = axes.iter().map(|a| a.1.max(a.0.div_ceil(4))).collect();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            let what = write(&path, chunks(&shape, &chunk, padded), gap, forwards);
            let disk = Disk::new(EngineChoice::Auto).unwrap();
            let budget = Budget::new(64 << 20);
            let store = ChunkedArray::open(&disk, &path, what.clone()).unwrap();
            let start: Dims = axes.iter().map(|a| (a.2 * a.0 as f64) as u64).collect();
            let extent: Dims =
                axes.iter().zip(&start).map(|(a, s)| ((a.3 * (a.0 - s) as f64) as u64).max(1)).collect();
            let region = ArrayBox { start, shape: extent };
            let mut values = vec![1u16; region.elements() as usize];
            let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 2);
            // SAFETY: as many values as the box has elements.
            let canvas = unsafe { Canvas::new(region.clone(), 2, [patch]) };
            let staging = LEAST_STAGING << room;
            let mut mover = Mover::new(&disk, &budget, staging, &Cancel::default()).unwrap();
            let before = disk.counters().read();
            store.load(&mut mover, &canvas).unwrap();
            let foretold = store.bytes_to_load_with(&region, staging).unwrap();
            prop_assert_eq!(disk.counters().read() - before, foretold);
            for (index, found) in BoxIndices::new(&region).zip(values) {
                let coords: Dims = index.iter().zip(&chunk).map(|(i, c)| i / c).collect();
                let absent = store.grid.linear_index(&coords) % 7 == 6;
                prop_assert_eq!(found, if absent { 0 } else { value(&shape, &index) });
            }
            for unit in 0..store.units() {
                prop_assert!(matches!(store.check(&mut mover, unit).unwrap(), Finding::Sound));
            }
        }
    }

    #[test]
    fn a_cut_off_file_is_refused_at_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let what = write(&path, chunks(&[10, 10], &[4, 4], true), 0, false);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 3).unwrap();
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let error = ChunkedArray::open(&disk, &path, what).err().unwrap().to_string();
        assert!(error.contains("chunk (0, 0)") && error.contains("(3 missing)"), "{error}");
    }

    #[test]
    fn small_chunks_are_moved_together_and_share_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let what = write(&path, chunks(&[64, 4096], &[16, 16], true), 0, true);
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let store = ChunkedArray::open(&disk, &path, what).unwrap();
        let boxes = store.tile_boxes(&ArrayBox::whole(&[64, 4096]));
        assert_eq!(boxes.len(), 2);
        assert_eq!(boxes.iter().map(ArrayBox::elements).sum::<u64>(), 64 * 4096);
        // Those of a narrow box are not wider than it is.
        let narrow = ArrayBox::new([3, 500], [61, 20]);
        assert_eq!(store.tile_boxes(&narrow), [narrow]);
        // Alone, each chunk of 512 bytes takes a block or two; every seventh is not there.
        let row = store.bytes_to_load(&ArrayBox::whole(&[16, 4096])).unwrap();
        assert_eq!(row, (220 * 512u64 + 8).next_multiple_of(4096));
    }

    #[test]
    fn tiles_are_worth_moving() {
        let tile = |shape: &[u64], chunk: &[u64], padded| tile(&chunks(shape, chunk, padded)).to_vec();
        assert_eq!(tile(&[5000, 5000], &[256, 256], true), [256, 256]);
        assert_eq!(tile(&[100, 100], &[256, 256], true), [100, 100]);
        // One strip for each plane, and strips of many megabytes.
        assert_eq!(tile(&[3, 10_000, 10_000], &[1, 10_000, 10_000], false), [1, 419, 10_000]);
        assert_eq!(tile(&[10_000, 100_000], &[97, 100_000], false), [41, 100_000]);
        assert_eq!(tile(&[10_000, 1024], &[1, 1024], false), [512, 1024]);
        assert_eq!(tile(&[100, 1024], &[16, 1024], false), [100, 1024]);
    }
}
