//! Sorted runs, merged as they are loaded.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::frame::charged;
use crate::layout::{AxisOrder, Layout};
use crate::shape::{ArrayBox, TileGrid};
use crate::store::transfer::canvas::{Canvas, Patch, dense_strides};
use crate::store::{Extents, Info, Mover, Staging, Store};
use std::sync::Arc;

/// Runs, in stores of one row each.
pub struct Runs {
    /// The stores.
    pub stores: Vec<Arc<dyn Store>>,
    /// In which of them each run is, and where it begins there: line after line.
    pub starts: Vec<(usize, u64)>,
}

/// How runs are merged.
pub struct Cuts {
    /// Elements of a line that are merged at once; the last ones may be fewer.
    pub row: u64,
    /// For each row of each line, where in each run the elements begin that are merged for it: those before come before
    /// the row.
    pub low: Vec<u32>,
    /// The same for where they end: those behind come behind the row.
    pub high: Vec<u32>,
    /// Whether runs descend.
    pub descending: bool,
}

/// Lines that are made of as many sorted runs each, in order: the elements themselves, or what stands in other runs at
/// their places. Of equal elements, those of the first runs come first. A tile is a row, merged each time that some of
/// it is loaded.
pub struct MergedArray {
    values: Runs,
    others: Option<Runs>,
    cuts: Cuts,
    /// Runs of a line.
    runs: usize,
    /// Elements that are merged for a row, at most.
    most: usize,
    merge: Merge,
    info: Info,
    grid: TileGrid,
}

impl MergedArray {
    /// Lines of this many elements, merged of runs that are cut so.
    ///
    /// # Errors
    /// [`Error::Invalid`] where cuts and runs do not make up such lines.
    pub fn of(values: Runs, others: Option<Runs>, shape: [u64; 2], cuts: Cuts) -> Result<Arc<dyn Store>> {
        let invalid = |why: &str| Err(Error::invalid(format!("runs to be merged {why}")));
        let [lines, length] = shape;
        let Some(first) = values.stores.first().map(|store| store.info().clone()) else {
            return invalid("are in one store at least");
        };
        let made = others.as_ref().unwrap_or(&values);
        let Some(own) = made.stores.first().map(|store| store.info().clone()) else {
            return invalid("have others in one store at least");
        };
        for (part, dtype) in [(&values, first.dtype), (made, own.dtype)] {
            if part
                .stores
                .iter()
                .map(|s| s.info())
                .any(|i| i.shape.len() != 2 || i.shape[0] != 1 || i.dtype != dtype)
            {
                return invalid("are in stores of one row and one type");
            }
        }
        if lines * length * cuts.row == 0 || others.is_some() && own.dtype != DType::I64 {
            return invalid("have elements, and others of 8 bytes");
        }
        let rows = length.div_ceil(cuts.row);
        let runs = values.starts.len() / lines as usize;
        if runs == 0
            || values.starts.len() != made.starts.len()
            || values.starts.len() as u64 != lines * runs as u64
            || cuts.low.len() as u64 != lines * rows * runs as u64
            || cuts.high.len() != cuts.low.len()
        {
            return invalid("are as many in each line, and cut for each of its rows");
        }
        let mut most = 0;
        for (i, (low, high)) in cuts.low.chunks_exact(runs).zip(cuts.high.chunks_exact(runs)).enumerate() {
            let (line, row) = (i / rows as usize, i as u64 % rows);
            let sum = |places: &[u32]| places.iter().map(|&n| u64::from(n)).sum::<u64>();
            let (begin, end) = (row * cuts.row, length.min((row + 1) * cuts.row));
            if low.iter().zip(high).any(|(from, to)| from > to) || sum(low) > begin || sum(high) < end {
                return invalid("are cut before and behind their rows");
            }
            most = most.max((sum(high) - sum(low)) as usize);
            for part in [&values, made] {
                let is_there = |(&(store, start), &end): (&(usize, u64), &u32)| {
                    let whole = part.stores.get(store).map(|store| store.info().shape[1]);
                    whole.is_some_and(|whole| start.checked_add(end.into()).is_some_and(|end| end <= whole))
                };
                if !part.starts[line * runs..].iter().zip(high).all(is_there) {
                    return invalid("are no longer than what there is");
                }
            }
        }
        let tile = [1, cuts.row.min(length)];
        let info = Info {
            shape: shape.as_slice().into(),
            tile: tile.as_slice().into(),
            layout: Layout::Tiled,
            writable: false,
            ..own
        };
        let grid = TileGrid::new(&info.shape, &info.tile)?;
        let merge = merger(first.dtype, cuts.descending);
        Ok(Arc::new(MergedArray { values, others, cuts, runs, most, merge, info, grid }))
    }

    /// Where the pieces of a tile begin and end in its runs.
    fn pieces(&self, tile: &[u64]) -> (&[u32], &[u32]) {
        let first = self.grid.linear_index(tile) as usize * self.runs;
        let own = first..first + self.runs;
        (&self.cuts.low[own.clone()], &self.cuts.high[own])
    }

    /// The stores that have the pieces of a tile, and the box of each there.
    fn places<'a>(
        &'a self,
        part: &'a Runs,
        tile: &[u64],
    ) -> impl Iterator<Item = (&'a Arc<dyn Store>, ArrayBox)> {
        let (from, to) = self.pieces(tile);
        let starts = &part.starts[tile[0] as usize * self.runs..];
        starts.iter().zip(from.iter().zip(to)).filter(|(_, (from, to))| from < to).map(
            |(&(store, start), (&from, &to))| {
                let place = ArrayBox::new([0, start + u64::from(from)], [1, u64::from(to - from)]);
                (&part.stores[store], place)
            },
        )
    }

    fn parts(&self) -> impl Iterator<Item = &Runs> {
        std::iter::once(&self.values).chain(&self.others)
    }

    fn stores(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        self.parts().flat_map(|part| &part.stores)
    }

    /// The sum of something over all pieces of the tiles that a box touches.
    fn sum(
        &self,
        region: &ArrayBox,
        each: impl Fn(&Arc<dyn Store>, &ArrayBox) -> Result<u64>,
    ) -> Result<u64> {
        let mut sum = 0;
        for tile in self.grid.tiles_of(region) {
            for part in self.parts() {
                for (store, place) in self.places(part, &tile) {
                    sum += each(store, &place)?;
                }
            }
        }
        Ok(sum)
    }

    /// Bytes of staging memory for what is merged for a row, once of each kind.
    fn row_bytes(&self) -> [usize; 2] {
        let others = self.others.as_ref().map_or(0, |_| charged(self.most * size_of::<i64>()));
        [charged(self.most * self.values.stores[0].info().dtype.size()), others]
    }

    /// Bytes of staging memory in which rows are merged: from one half to the other, and back.
    fn workspace(&self) -> usize {
        2 * self.row_bytes().iter().sum::<usize>()
    }

    /// Loads the pieces of a tile to memory, one behind the other.
    ///
    /// # Safety
    /// There is room for the tile, and nobody else uses it.
    unsafe fn gather(&self, mover: &mut Mover, part: &Runs, tile: &[u64], memory: *mut u8) -> Result<()> {
        let size = part.stores[0].info().dtype.size();
        let mut at = 0;
        for (store, place) in self.places(part, tile) {
            let bytes = place.shape[1] as usize * size;
            let patch = Patch::dense(place.clone(), memory.wrapping_add(at), bytes, size);
            // SAFETY: the caller's promise; pieces have memory of their own.
            store.load(mover, &unsafe { Canvas::new(place, size, [patch]) })?;
            at += bytes;
        }
        Ok(())
    }

    fn load_tile(&self, mover: &mut Mover, tile: &[u64], canvas: &Canvas) -> Result<()> {
        mover.cancel.check()?;
        let whole = self.grid.tile_box(tile);
        let Some(common) = whole.intersect(canvas.region()) else { return Ok(()) };
        let [own, other] = self.row_bytes();
        mover.beside(self.workspace(), |mover, memory| {
            let places = [0, own, 2 * own, 2 * own + other].map(|at| memory.wrapping_add(at));
            // SAFETY: the workspace has room for a row twice of each kind, and is ours meanwhile.
            unsafe { self.gather(mover, &self.values, tile, places[0])? };
            if let Some(others) = &self.others {
                // SAFETY: as above.
                unsafe { self.gather(mover, others, tile, places[2])? };
            }
            let (from, to) = self.pieces(tile);
            let lengths = from.iter().zip(to).map(|(from, to)| (to - from) as usize).filter(|&n| n > 0);
            let others = self.others.as_ref().map(|_| [places[2], places[3]].map(<*mut u8>::cast));
            // SAFETY: pieces of these lengths, which are sorted, were loaded there one behind the other; the memory
            // is aligned for any element.
            let swapped = unsafe { (self.merge)([places[0], places[1]], others, lengths.collect()) };
            let made = places[if self.others.is_some() { 2 } else { 0 } + usize::from(swapped)];
            let size = self.info.dtype.size();
            // What was merged begins with elements that come before the row.
            let before = whole.start[1] - from.iter().map(|&n| u64::from(n)).sum::<u64>();
            let skipped = (before + common.start[1] - whole.start[1]) as usize * size;
            let strides = dense_strides(&whole.shape, size);
            // SAFETY: the row is there, whole, behind these.
            unsafe { canvas.scatter(&common, made.wrapping_add(skipped), &strides, 1) };
            Ok(())
        })
    }
}

impl Store for MergedArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        let (mut least, mut wanted) = (0, 0);
        for own in self.stores().map(|store| store.staging(false)) {
            (least, wanted) = (own.least.max(least), own.wanted.max(wanted));
        }
        let workspace = self.workspace();
        Staging { least: workspace + charged(least), wanted: workspace + charged(wanted) }
    }

    fn origin(&self) -> Option<&Arc<dyn Store>> {
        self.values.stores.first()
    }

    fn file_axes(&self) -> Option<AxisOrder> {
        None
    }

    fn extents(&self, region: &ArrayBox) -> Extents {
        let (mut count, mut bytes) = (0, 0);
        for tile in self.grid.tiles_of(region) {
            for part in self.parts() {
                for (store, place) in self.places(part, &tile) {
                    let own = store.extents(&place);
                    (count, bytes) = (count + own.count, bytes + own.count * own.bytes);
                }
            }
        }
        Extents { count, bytes: bytes / count.max(1) }
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        self.sum(region, |store, place| store.bytes_to_load(place))
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        let left = staging.saturating_sub(self.workspace());
        self.sum(region, |store, place| store.bytes_to_load_with(place, left))
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        self.grid.tiles_of(canvas.region()).try_for_each(|tile| self.load_tile(mover, &tile, canvas))
    }

    fn stored_bytes(&self) -> Result<u64> {
        self.stores().map(|store| store.stored_bytes()).sum()
    }
}

// -- merging ----------------------------------------------------------------------------------------

/// Merges sorted pieces of these lengths, from one place to the other and back, with others beside them; whether what
/// is merged is in the second place.
///
/// # Safety
/// Both places have room for all pieces; those at the first one are initialized.
type Merge = unsafe fn([*mut u8; 2], Option<[*mut i64; 2]>, Vec<usize>) -> bool;

/// Numbers in NumPy's order.
trait Ordered: Copy {
    /// Whether it comes before another one: NaN comes behind all numbers.
    fn is_before(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($T:ty),*; $($F:ty),*) => {
        $(impl Ordered for $T {
            fn is_before(self, other: $T) -> bool {
                self < other
            }
        })*
        $(impl Ordered for $F {
            #[allow(clippy::eq_op, reason = "NaN is what differs from itself")]
            fn is_before(self, other: $F) -> bool {
                self < other || (other != other && self == self)
            }
        }
        impl Ordered for [$F; 2] {
            #[allow(clippy::eq_op, clippy::float_cmp, reason = "as NumPy has it")]
            fn is_before(self, other: [$F; 2]) -> bool {
                let ([a, b], [c, d]) = (self, other);
                if a < c {
                    b == b || d != d
                } else if a > c {
                    d != d && b == b
                } else if a == c || (a != a && c != c) {
                    b < d || (d != d && b == b)
                } else {
                    c != c
                }
            }
        })*
    };
}
ordered!(i8, i16, i32, i64, u8, u16, u32, u64; f32, f64);

fn merger(dtype: DType, descending: bool) -> Merge {
    macro_rules! of {
        ($($D:ident $T:ty),*) => {
            match dtype {
                $(DType::$D => {
                    if descending { merge_all::<$T, true> } else { merge_all::<$T, false> }
                })*
            }
        };
    }
    of!(Bool u8, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
        C64 [f32; 2], C128 [f64; 2])
}

/// # Safety
/// As for [`Merge`]; the places are aligned.
unsafe fn merge_all<T: Ordered, const DESCENDING: bool>(
    places: [*mut u8; 2],
    others: Option<[*mut i64; 2]>,
    mut lengths: Vec<usize>,
) -> bool {
    let total = lengths.iter().sum();
    let mut is_second = false;
    while lengths.len() > 1 {
        let [from, to] = if is_second { [places[1], places[0]] } else { places };
        // SAFETY: the caller's promise; what a round writes is what the next one reads.
        let (from, to) = unsafe {
            (
                std::slice::from_raw_parts(from.cast::<T>(), total),
                std::slice::from_raw_parts_mut(to.cast::<T>(), total),
            )
        };
        let mut beside = others.map(|[a, b]| {
            let [from, to] = if is_second { [b, a] } else { [a, b] };
            // SAFETY: as above.
            unsafe { (std::slice::from_raw_parts(from, total), std::slice::from_raw_parts_mut(to, total)) }
        });
        let (mut at, mut merged) = (0, Vec::with_capacity(lengths.len().div_ceil(2)));
        for pair in lengths.chunks(2) {
            let (n, m) = (pair[0], pair.get(1).copied().unwrap_or(0));
            let (middle, end) = (at + n, at + n + m);
            let is_before = |a: T, b: T| if DESCENDING { b.is_before(a) } else { a.is_before(b) };
            let (one, two, out) = (&from[at..middle], &from[middle..end], &mut to[at..end]);
            match &mut beside {
                None => merge_two(one, two, out, is_before),
                Some((from, to)) => {
                    let beside = (&from[at..middle], &from[middle..end], &mut to[at..end]);
                    merge_beside(one, two, out, beside, is_before);
                }
            }
            merged.push(n + m);
            at = end;
        }
        lengths = merged;
        is_second = !is_second;
    }
    is_second
}

/// Merges two sorted runs; of equal elements, those of the first come first.
fn merge_two<T: Copy>(one: &[T], two: &[T], out: &mut [T], is_before: impl Fn(T, T) -> bool) {
    assert_eq!(out.len(), one.len() + two.len());
    let (mut i, mut j) = (0, 0);
    while i < one.len() && j < two.len() {
        let (a, b) = (one[i], two[j]);
        let is_second = is_before(b, a);
        // SAFETY: i and j are inside their runs, and the result is as long as both.
        unsafe { *out.get_unchecked_mut(i + j) = if is_second { b } else { a } };
        i += usize::from(!is_second);
        j += usize::from(is_second);
    }
    let (rest, last) = out[i + j..].split_at_mut(one.len() - i);
    rest.copy_from_slice(&one[i..]);
    last.copy_from_slice(&two[j..]);
}

/// The same with what stands beside the elements.
fn merge_beside<T: Copy>(
    one: &[T],
    two: &[T],
    out: &mut [T],
    (own, other, to): (&[i64], &[i64], &mut [i64]),
    is_before: impl Fn(T, T) -> bool,
) {
    assert!(out.len() == one.len() + two.len() && to.len() == out.len());
    assert!(own.len() == one.len() && other.len() == two.len());
    let (mut i, mut j) = (0, 0);
    while i < one.len() && j < two.len() {
        let (a, b) = (one[i], two[j]);
        let is_second = is_before(b, a);
        // SAFETY: i and j are inside their runs, and the results are as long as both.
        unsafe {
            *out.get_unchecked_mut(i + j) = if is_second { b } else { a };
            *to.get_unchecked_mut(i + j) = if is_second { other[j] } else { own[i] };
        }
        i += usize::from(!is_second);
        j += usize::from(is_second);
    }
    let (rest, last) = out[i + j..].split_at_mut(one.len() - i);
    rest.copy_from_slice(&one[i..]);
    last.copy_from_slice(&two[j..]);
    let (rest, last) = to[i + j..].split_at_mut(own.len() - i);
    rest.copy_from_slice(&own[i..]);
    last.copy_from_slice(&other[j..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::zarr::{Encoding, Labels};
    use crate::store::sketch::Sketch;

    fn row(columns: u64, dtype: DType) -> Arc<dyn Store> {
        let info = Info {
            path: "a.zarr".into(),
            shape: [1, columns].as_slice().into(),
            dtype,
            tile: [1, 10].as_slice().into(),
            layout: Layout::Tiled,
            format: "zarr",
            codecs: String::new(),
            attributes: "{}".into(),
            writable: false,
        };
        Arc::new(Sketch::tiled(info, Encoding::Plain, &Labels::default()).unwrap())
    }

    fn runs(sizes: &[u64], starts: &[(usize, u64)], dtype: DType) -> Runs {
        Runs { stores: sizes.iter().map(|&n| row(n, dtype)).collect(), starts: starts.to_vec() }
    }

    fn cuts(row: u64, low: &[u32], high: &[u32]) -> Cuts {
        Cuts { row, low: low.to_vec(), high: high.to_vec(), descending: false }
    }

    #[test]
    fn a_tile_is_made_of_pieces() {
        // Two lines of two runs of 10, in rows of 12 and 8; for the last one, one more is merged.
        let values = runs(&[20, 20], &[(0, 0), (1, 0), (0, 10), (1, 10)], DType::F64);
        let others = runs(&[40], &[(0, 0), (0, 10), (0, 20), (0, 30)], DType::I64);
        let places = cuts(12, &[0, 0, 10, 2, 0, 0, 5, 6], &[10, 2, 10, 10, 6, 6, 10, 10]);
        let found = MergedArray::of(values, Some(others), [2, 20], places).unwrap();
        assert_eq!(
            (found.info().shape.as_slice(), found.info().tile.as_slice()),
            (&[2, 20][..], &[1, 12][..])
        );
        assert_eq!(found.info().dtype, DType::I64);
        let one = row(10, DType::F64).bytes_to_load(&ArrayBox::new([0, 0], [1, 10])).unwrap();
        for (start, shape, tiles) in [
            ([0, 0], [1, 20], 6),
            ([0, 5], [1, 1], 4),
            ([0, 12], [1, 8], 2),
            ([1, 0], [1, 1], 4),
            ([0, 0], [2, 20], 14),
            ([0, 9], [1, 0], 0),
        ] {
            let region = ArrayBox::new(start, shape);
            assert_eq!(found.bytes_to_load(&region).unwrap(), tiles * one, "{region:?}");
            assert_eq!(found.extents(&region).count, tiles);
        }
        assert!(found.staging(true).least >= 4 * 4096 + 4096);
    }

    #[test]
    fn what_makes_up_no_lines_is_refused() {
        let refused = |starts: &[(usize, u64)], shape, low: &[u32], high: &[u32]| {
            MergedArray::of(runs(&[9], starts, DType::F64), None, shape, cuts(9, low, high)).is_err()
        };
        let two = &[(0, 0), (0, 5)];
        assert!(!refused(two, [1, 9], &[0, 0], &[5, 4]));
        // Runs that are too long, or in no store.
        assert!(refused(two, [1, 9], &[0, 0], &[5, 5]));
        assert!(refused(&[(0, 0), (0, u64::MAX)], [1, 9], &[0, 0], &[5, 4]));
        assert!(refused(&[(0, 0), (1, 5)], [1, 9], &[0, 0], &[5, 4]));
        // Another number of them, or of cuts.
        assert!(refused(two, [1, 9], &[0], &[5]));
        assert!(refused(two, [1, 9], &[0, 0], &[9]));
        assert!(refused(&[], [1, 9], &[], &[]));
        assert!(refused(two, [2, 9], &[0, 0], &[5, 4]));
        assert!(refused(two, [0, 9], &[], &[]));
        assert!(refused(two, [1, 0], &[0, 0], &[0, 0]));
        // Cuts backwards, and such that elements of rows are missing.
        assert!(refused(two, [1, 9], &[5, 0], &[4, 4]));
        assert!(refused(two, [1, 9], &[0, 1], &[5, 4]));
        assert!(refused(two, [1, 9], &[0, 0], &[5, 3]));
        // Stores of several types, or of others that are no places.
        let whole = || cuts(9, &[0, 0], &[5, 4]);
        let mut mixed = runs(&[9], two, DType::F64);
        mixed.stores.push(row(9, DType::F32));
        assert!(MergedArray::of(mixed, None, [1, 9], whole()).is_err());
        let (values, others) = (runs(&[9], two, DType::F64), runs(&[9], two, DType::F64));
        assert!(MergedArray::of(values, Some(others), [1, 9], whole()).is_err());
    }

    /// Sorted pieces, merged, with the places of their elements.
    fn merged<T: Ordered + Default>(pieces: &[Vec<T>], dtype: DType, descending: bool) -> (Vec<T>, Vec<i64>) {
        let mut values = [pieces.concat(), pieces.concat()];
        let count = values[0].len();
        let mut places = [(0..count as i64).collect::<Vec<_>>(), vec![0; count]];
        let lengths: Vec<usize> = pieces.iter().map(Vec::len).collect();
        let merge = merger(dtype, descending);
        let own = values.each_mut().map(|v| v.as_mut_ptr().cast());
        let others = places.each_mut().map(|p| p.as_mut_ptr());
        // SAFETY: both have room for all pieces.
        let swapped = unsafe { merge(own, Some(others), lengths.clone()) };
        let found = usize::from(swapped);
        let result = (values[found].clone(), places[found].clone());
        let mut alone = [pieces.concat(), pieces.concat()];
        // SAFETY: as above.
        let swapped = unsafe { merge(alone.each_mut().map(|v| v.as_mut_ptr().cast()), None, lengths) };
        let same = |a: T, b: T| !a.is_before(b) && !b.is_before(a);
        assert!(alone[usize::from(swapped)].iter().zip(&result.0).all(|(&a, &b)| same(a, b)));
        result
    }

    #[test]
    fn equal_elements_stay_in_their_order() {
        let pieces = [vec![1, 2, 2, 7], vec![2, 7], vec![0, 2, 9], vec![7], vec![2]];
        let (values, places) = merged(&pieces, DType::I32, false);
        assert_eq!(values, [0, 1, 2, 2, 2, 2, 2, 7, 7, 7, 9]);
        assert_eq!(places, [6, 0, 1, 2, 4, 7, 10, 3, 5, 9, 8]);
        let pieces = [vec![7, 2, 2, 1], vec![7, 2], vec![9, 2, 0]];
        let (values, places) = merged(&pieces, DType::I32, true);
        assert_eq!(values, [9, 7, 7, 2, 2, 2, 2, 1, 0]);
        assert_eq!(places, [6, 0, 4, 1, 2, 5, 7, 3, 8]);
        assert_eq!(merged(&[vec![3u8]], DType::U8, false), (vec![3], vec![0]));
        assert_eq!(merged::<u8>(&[], DType::U8, false), (vec![], vec![]));
    }

    #[test]
    fn nan_comes_last() {
        let nan = f64::NAN;
        let (values, places) = merged(&[vec![1.0, nan], vec![-1.0, nan, nan], vec![0.0]], DType::F64, false);
        assert_eq!(places, [2, 5, 0, 1, 3, 4]);
        assert!(values[3..].iter().all(|x| x.is_nan()));
        let (_, places) = merged(&[vec![nan, 1.0], vec![nan, nan, -1.0]], DType::F64, true);
        assert_eq!(places, [0, 2, 3, 1, 4]);
        // Of complex numbers, those with NaN in the imaginary part come first.
        let order = [[0.0, 1.0], [1.0, 0.0], [0.0, nan], [nan, 0.0], [nan, nan]];
        let (_, places) =
            merged(&[vec![order[0], order[3]], vec![order[1], order[2], order[4]]], DType::C128, false);
        assert_eq!(places, [0, 2, 3, 1, 4]);
    }
}
