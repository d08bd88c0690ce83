//! A box of an array that is there gets other elements: all of them, or those of one half of a matrix.
//!
//! Arrays in tiles are stored by tiles. Of a tile that keeps some of its elements, these are loaded before. A file that
//! is one block of elements is changed where it lies; what the blocks at the ends of runs hold besides is read by its
//! store, which writes out what waits after every piece: so what is moved does not depend on which piece comes first.

use crate::boxes::access::{canvas_on, frame_bytes};
use crate::boxes::movement::{threads_beside, whole_tiles};
use crate::kernels::Half;
use outcrop_engine::report::Report;
use outcrop_engine::stream::{self, Frames, Job, Threads};
use outcrop_engine::{Runtime, Watch};
use outcrop_store::frame::{Frame, charged};
use outcrop_store::layout::Layout;
use outcrop_store::shape::row_major_strides;
use outcrop_store::store::{Canvas, Mover, Patch, Staging, Store};
use outcrop_store::{ArrayBox, Error, Result, TileGrid};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a piece, at most, where memory does not ask for smaller ones.
const PIECE: u64 = 8 << 20;
/// Runs of a piece of a file: the blocks at their ends wait together.
const RUNS: u64 = 1024;

/// What is stored at once.
#[derive(Clone, Debug)]
struct Piece {
    /// The box that is stored, of the target.
    outer: ArrayBox,
    /// What of it changes.
    inner: ArrayBox,
    /// Whether only a half of that does: it lies on the diagonal.
    on_diagonal: bool,
}

impl Piece {
    fn of(inner: ArrayBox) -> Piece {
        Piece { outer: inner.clone(), inner, on_diagonal: false }
    }

    /// Whether some of what is stored is as it was.
    fn keeps(&self) -> bool {
        self.on_diagonal || self.outer != self.inner
    }
}

/// A source, and where its elements go.
#[derive(Clone, Copy)]
pub struct Overlay<'a> {
    /// The new elements.
    pub source: &'a Arc<dyn Store>,
    /// What is changed.
    pub target: &'a Arc<dyn Store>,
    /// Where the source's first element goes.
    pub start: &'a [u64],
    /// Of a square matrix, the half that changes.
    pub half: Option<Half>,
}

impl Overlay<'_> {
    fn region(&self) -> ArrayBox {
        ArrayBox::new(self.start, &self.source.info().shape)
    }

    fn in_source(&self, region: &ArrayBox) -> ArrayBox {
        let start: Vec<u64> = region.start.iter().zip(self.start).map(|(at, first)| at - first).collect();
        ArrayBox::new(start, &region.shape)
    }

    fn bytes(&self, region: &ArrayBox) -> u64 {
        self.target.info().box_bytes(&region.shape)
    }

    /// Frames of a piece: what is stored, and what is only a part of the elements that are loaded.
    fn frames(&self, piece: &Piece) -> Vec<usize> {
        let stored = frame_bytes(self.target.as_ref(), &piece.outer);
        let beside = if piece.on_diagonal { self.bytes(&piece.inner) as usize } else { 0 };
        vec![stored, beside]
    }

    fn frame_sum(&self, piece: &Piece) -> usize {
        self.frames(piece).iter().map(|&bytes| charged(bytes)).sum()
    }

    fn pieces(&self, limit: usize) -> Result<Vec<Piece>> {
        let region = self.region();
        if region.is_empty() {
            return Ok(Vec::new());
        }
        region.check_inside(&self.target.info().shape)?;
        let Some(axes) = self.target.file_axes() else {
            return self.tiles(&region, PIECE.min(limit as u64 / 8).max(1));
        };
        // Whole tiles of the source are read once, whole rows of the file written once. Where memory does not hold
        // tiles side by side, one of both is done again.
        let most = PIECE.min(limit as u64 / 6).max(1);
        let by_tiles = self.parts_of_file(&region, (axes[0], axes[1]), most, false);
        let by_rows = self.parts_of_file(&region, (axes[0], axes[1]), most, true);
        let moved =
            |pieces: &[Piece]| self.traffic(pieces, usize::MAX >> 1).map(|(read, written)| read + written);
        Ok(if moved(&by_rows)? < moved(&by_tiles)? { by_rows } else { by_tiles })
    }

    /// Bytes that are read and written, with so much staging memory for loads.
    fn traffic(&self, pieces: &[Piece], staging: usize) -> Result<(u64, u64)> {
        let mut read = 0;
        for piece in pieces {
            for part in self.taken(piece) {
                read += self.source.bytes_to_load_with(&part, staging)?;
            }
            if piece.keeps() {
                read += self.target.bytes_to_load_with(&piece.outer, staging)?;
            }
        }
        let stored: Vec<ArrayBox> = pieces.iter().map(|piece| piece.outer.clone()).collect();
        let (again, written) = self.target.bytes_to_change(&stored)?;
        Ok((read + again, written))
    }

    /// Which part of a box changes, whose rows and columns count from the matrix's first.
    fn place(&self, inner: &ArrayBox) -> Place {
        let Some(half) = self.half else { return Place::Inside };
        let own = self.in_source(inner);
        let (rows, cols) = (own.start[0]..own.end(0), own.start[1]..own.end(1));
        let (below, above) = (rows.start + 1 >= cols.end, cols.start + 1 >= rows.end);
        match half {
            _ if below && above => Place::Inside,
            Half::Lower if below => Place::Inside,
            Half::Upper if above => Place::Inside,
            Half::Lower if rows.end <= cols.start => Place::Outside,
            Half::Upper if cols.end <= rows.start => Place::Outside,
            _ => Place::OnDiagonal,
        }
    }

    /// The boxes of the source that a piece is made of. On the diagonal these are what its tiles have of the half: others
    /// may not be stored.
    fn taken(&self, piece: &Piece) -> Vec<ArrayBox> {
        let own = self.in_source(&piece.inner);
        if !piece.on_diagonal || self.source.info().layout != Layout::Tiled {
            return vec![own];
        }
        let in_half = |part: &ArrayBox| {
            let mut shown = part.clone();
            shown.start.iter_mut().zip(self.start).for_each(|(at, first)| *at += first);
            self.place(&shown) != Place::Outside
        };
        self.source.tile_boxes(&own).into_iter().filter(in_half).collect()
    }

    /// Tiles, and where all of them change several at once: what is loaded for them lies otherwise.
    fn tiles(&self, region: &ArrayBox, most: u64) -> Result<Vec<Piece>> {
        let info = self.target.info();
        let grid = TileGrid::new(&info.shape, &info.tile)?;
        let mut side = 1;
        let in_memory = self.source.info().layout != Layout::Tiled;
        let tile = info.box_bytes(&info.tile);
        while self.half.is_none() && !in_memory && (side + 1) * (side + 1) * tile <= most {
            side += 1;
        }
        let groups = TileGrid::new(&info.shape, &info.tile.iter().map(|n| n * side).collect::<Vec<_>>())?;
        let inside = whole_tiles(&grid, region);
        let mut pieces = Vec::new();
        for coords in groups.tiles_of(region) {
            let group = groups.tile_box(&coords);
            if inside.as_ref().is_some_and(|inside| inside.contains(&group)) && self.half.is_none() {
                pieces.push(Piece::of(group));
                continue;
            }
            let part = group.intersect(region).expect("a group of the box");
            for coords in grid.tiles_of(&part) {
                let outer = grid.tile_box(&coords);
                let inner = outer.intersect(region).expect("a tile of the box");
                match self.place(&inner) {
                    Place::Outside => {}
                    place => pieces.push(Piece { outer, inner, on_diagonal: place == Place::OnDiagonal }),
                }
            }
        }
        Ok(pieces)
    }

    /// Parts of a file along its `slow` axis and, where memory holds no more, along the `fast` one. They consist of
    /// whole tiles of the source, where these are not too large; or, `by_rows`, of all of the rows rather.
    fn parts_of_file(
        &self,
        region: &ArrayBox,
        (slow, fast): (usize, usize),
        most: u64,
        by_rows: bool,
    ) -> Vec<Piece> {
        let (info, own) = (self.target.info(), self.source.info());
        let itemsize = info.dtype.size() as u64;
        let tiled = own.layout == Layout::Tiled && !by_rows;
        let (high, wide) = if tiled { (own.tile[slow], own.tile[fast]) } else { (1, 1) };
        let (high, wide) = (high.min(region.shape[slow]), wide.min(region.shape[fast]));
        let elements = (most / itemsize).max(1);
        // Rows of whole tiles; where one is too much, some of its tiles; where one tile is, some of its rows.
        let multiple = |of: u64, fits: u64| if fits >= of { fits / of * of } else { fits.max(1) };
        let width = multiple(wide, elements / high).min(region.shape[fast]).max(wide.min(elements));
        let is_one_run = width == info.shape[fast];
        let fits = elements / width;
        let height = multiple(high, if is_one_run { fits } else { fits.min(RUNS) }).min(region.shape[slow]);
        let boxed = |rows: &Range<u64>, cols: &Range<u64>| {
            let mut part = region.clone();
            (part.start[slow], part.shape[slow]) = (region.start[slow] + rows.start, rows.end - rows.start);
            (part.start[fast], part.shape[fast]) = (region.start[fast] + cols.start, cols.end - cols.start);
            part
        };
        let cut = |whole: Range<u64>, step: u64| {
            let end = whole.end;
            whole.step_by(step as usize).map(move |at| at..(at + step).min(end))
        };
        let mut pieces = Vec::new();
        for rows in cut(0..region.shape[slow], height) {
            let all = 0..region.shape[fast];
            let Some(half) = self.half else {
                pieces.extend(cut(all, width).map(|cols| Piece::of(boxed(&rows, &cols))));
                continue;
            };
            // As rows and columns lie in the file.
            let is_before = (half == Half::Lower) == (slow == 0);
            let beside = if is_before { 0..rows.start } else { rows.end..all.end };
            let diagonal = boxed(&rows, &rows);
            let on_diagonal = Piece { outer: diagonal.clone(), inner: diagonal, on_diagonal: true };
            pieces.extend(cut(beside, width).map(|cols| Piece::of(boxed(&rows, &cols))));
            pieces.push(on_diagonal);
        }
        pieces
    }

    fn threads(&self, limit: usize, pieces: &[Piece]) -> Threads {
        let of_both = |one: Staging, other: Staging| Staging {
            least: one.least.max(other.least),
            wanted: one.wanted.max(other.wanted),
        };
        let load = of_both(self.source.staging(false), self.target.staging(false));
        let largest = pieces.iter().map(|piece| self.frame_sum(piece)).max().unwrap_or(0);
        let mut threads = threads_beside(limit, 2 * largest, load, Some(self.target.staging(false)));
        if self.target.file_axes().is_some() {
            // Blocks that two pieces share are read and written by one after the other.
            threads.storers = 1;
        }
        threads.room = (limit / 2).saturating_sub(threads.staging());
        threads
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Inside,
    Outside,
    OnDiagonal,
}

struct Laying<'a> {
    overlay: Overlay<'a>,
    pieces: Vec<Piece>,
}

impl Laying<'_> {
    fn piece(&self, piece: u64) -> &Piece {
        &self.pieces[piece as usize]
    }

    fn load_source(&self, mover: &mut Mover, piece: &Piece, frames: &Frames) -> Result<()> {
        let Overlay { source, target, half, .. } = self.overlay;
        let itemsize = target.info().dtype.size();
        let own = self.overlay.in_source(&piece.inner);
        let stored = frames.get(0).expect("its store unit comes later");
        let place = place_of(&piece.inner, &piece.outer, itemsize);
        if !piece.on_diagonal {
            let start = stored.as_ptr().wrapping_add(place);
            let strides =
                row_major_strides(&piece.outer.shape).iter().map(|s| s * itemsize as isize).collect();
            // SAFETY: the box lies in the frame, which is this unit's.
            let canvas = unsafe { Canvas::new(own.clone(), itemsize, [Patch::strided(own, start, strides)]) };
            return source.load(mover, &canvas);
        }
        let beside = frames.get(1).expect("given back with the other");
        // SAFETY: the frame is this unit's.
        let canvas = unsafe { canvas_on(&beside, &own, itemsize) };
        self.overlay.taken(piece).iter().try_for_each(|part| source.load(mover, &canvas.part(part)))?;
        let (width, pitch) = (own.shape[1] as usize, piece.outer.shape[1] as usize);
        for i in 0..own.shape[0] {
            // How many columns there are up to the diagonal.
            let upto = (own.start[0] + i + 1).saturating_sub(own.start[1]).min(own.shape[1]) as usize;
            let columns = match half {
                Some(Half::Upper) => {
                    (own.start[0] + i).saturating_sub(own.start[1]).min(own.shape[1]) as usize..width
                }
                _ => 0..upto,
            };
            let from = (i as usize * width + columns.start) * itemsize;
            let to = place + (i as usize * pitch + columns.start) * itemsize;
            // SAFETY: both rows lie in their frames, which are this unit's, and are not the same.
            unsafe {
                let (from, to) = (beside.as_ptr().add(from), stored.as_ptr().add(to));
                to.copy_from_nonoverlapping(from, columns.len() * itemsize);
            }
        }
        Ok(())
    }
}

/// How far behind the first element of `outer` that of `inner` lies in memory, in bytes.
fn place_of(inner: &ArrayBox, outer: &ArrayBox, itemsize: usize) -> usize {
    let strides = row_major_strides(&outer.shape);
    let each = inner.start.iter().zip(&outer.start).zip(&strides);
    each.map(|((at, first), &stride)| (at - first) as usize * stride as usize).sum::<usize>() * itemsize
}

/// Memory of a box of the target.
///
/// # Safety
/// As for [`canvas_on`].
unsafe fn stored_canvas(frame: &Frame, piece: &Piece, target: &dyn Store) -> Canvas {
    // SAFETY: the caller's promise.
    unsafe { canvas_on(frame, &piece.outer, target.info().dtype.size()) }
}

impl Job for Laying<'_> {
    fn operation(&self) -> &'static str {
        "write"
    }
    fn pieces(&self) -> u64 {
        self.pieces.len() as u64
    }
    fn frames(&self, piece: u64) -> Vec<usize> {
        self.overlay.frames(self.piece(piece))
    }
    fn load_units(&self, _: u64) -> u64 {
        1
    }
    fn store_units(&self, _: u64) -> u64 {
        1
    }
    fn load(&self, mover: &mut Mover, piece: u64, _: u64, frames: &Frames) -> Result<()> {
        let (piece, target) = (self.piece(piece), self.overlay.target);
        if piece.keeps() {
            let frame = frames.get(0).expect("its store unit comes later");
            // SAFETY: the frame is this unit's.
            target.load(mover, &unsafe { stored_canvas(&frame, piece, target.as_ref()) })?;
        }
        self.load_source(mover, piece, frames)
    }
    fn store(&self, mover: &mut Mover, piece: u64, _: u64, frames: &Frames) -> Result<()> {
        let (piece, target) = (self.piece(piece), self.overlay.target);
        let frame = frames.get(0).expect("given back after this");
        // SAFETY: the piece is loaded, and its frame is not written any more.
        target.store(mover, &unsafe { stored_canvas(&frame, piece, target.as_ref()) })?;
        target.settle(mover)
    }
    fn frees(&self, _: u64, _: u64) -> Range<usize> {
        0..2
    }
    fn progress(&self, piece: u64) -> u64 {
        self.overlay.bytes(&self.piece(piece).inner)
    }
}

/// Stores the source's elements in the target.
///
/// # Errors
/// Those of the stores; [`Error::Budget`]; [`Error::Interrupted`] where the watch says so. What is stored by then of an
/// array of our own can be taken back ([`Store::fail`]).
pub fn lay(runtime: &Runtime, overlay: Overlay<'_>, watch: &mut dyn Watch) -> Result<Report> {
    let target = overlay.target;
    if !target.info().writable {
        let path = target.info().path.display();
        return Err(Error::invalid(format!("{path}: opened for reading")));
    }
    let _turn = runtime.turn(watch)?;
    crate::boxes::access::settle(runtime, target)?;
    runtime.tune(&target.info().path, overlay.bytes(&overlay.region()));
    let pieces = overlay.pieces(runtime.limit())?;
    let threads = overlay.threads(runtime.limit(), &pieces);
    stream::run(runtime, &Laying { overlay, pieces }, threads, watch)
}

/// What [`lay`] takes.
pub struct Expected {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written, without what makes the change visible.
    pub bytes_written: u64,
    /// Bytes of the budget without which it cannot be done.
    pub least_bytes: usize,
    /// Bytes of the budget in use at once, at most.
    pub peak_bytes: usize,
    /// How long it takes.
    pub seconds: f64,
}

/// What [`lay`] would take. The source may be a [`Sketch`](outcrop_store::store::sketch::Sketch).
///
/// # Errors
/// Those of the stores.
pub fn plan(runtime: &Runtime, overlay: Overlay<'_>) -> Result<Expected> {
    let target = overlay.target;
    let pieces = overlay.pieces(runtime.limit())?;
    let threads = overlay.threads(runtime.limit(), &pieces);
    let frames = pieces.iter().map(|piece| overlay.frame_sum(piece));
    let (all, largest) = frames.fold((0, 0), |(all, most), frames| (all + frames, frames.max(most)));
    let (bytes_read, bytes_written) = overlay.traffic(&pieces, threads.load_staging)?;
    let device = runtime.device(&target.info().path, bytes_written);
    Ok(Expected {
        bytes_read,
        bytes_written,
        least_bytes: threads.staging() + largest,
        peak_bytes: threads.staging() + all.min(threads.room.max(largest)),
        seconds: device.both(bytes_read, bytes_written, false),
    })
}
