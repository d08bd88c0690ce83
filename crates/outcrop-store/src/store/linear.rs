//! Files in which the elements are one row-major or column-major block: `.npy`, raw, PNM, and TIFF where
//! its strips follow one another. They are read and written where they lie.
//!
//! A new file is built under a [`Claim`] and appears at commit. A file that was opened for writing
//! is written in place, as `numpy.memmap` does: there is no old version beside it, and what was
//! stored before a crash stays.

mod file;
mod load;
mod panels;
mod save;
pub(super) mod traffic;

pub use file::{Described, NewFile};
pub use panels::Panels;

use super::commit::claim::{Claim, Kind, holder, try_lock};
use super::transfer::canvas::Canvas;
use super::transfer::edges::{Cuts, Edges};
use super::transfer::seams::{BLOCK, Seams, Waiting};
use super::{Finding, Info, Mover, Staging, Store};
use crate::dtype::ByteOrder;
use crate::error::{Error, Result};
use crate::io::disk::{Disk, Promise, parent_of};
use crate::io::{Access, Direction, DiskFile, Transfer};
use crate::layout::{Layout, LinearLayout};
use crate::shape::{ArrayBox, Dims};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

const LEAST_STAGING: usize = 64 << 10;
const WANTED_STAGING: usize = 4 << 20;
/// Bytes of a run that is worth three requests, of its whole blocks and of those at its ends.
const LEAST_STRAIGHT: usize = 4 * BLOCK;
/// Bytes of the boxes that move best: whole slabs of the slowest axes.
const SLAB: u64 = 8 << 20;

enum State {
    Reading,
    /// Written in place, and locked.
    InPlace {
        dirty: bool,
    },
    Creating(Claim),
    Closed,
}

/// An array in one file.
pub struct LinearArray {
    info: Info,
    layout: LinearLayout,
    shared: Arc<Shared>,
}

/// What all arrays have that show the elements of one file in some shape.
struct Shared {
    disk: Arc<Disk>,
    /// Bytes that one number takes where its order on disk is not the machine's; else 1.
    swap: usize,
    file: DiskFile,
    seams: Mutex<Seams>,
    /// How many blocks may wait there.
    may_wait: AtomicUsize,
    /// Of a new file, what stands before the first element in its block.
    before: Vec<u8>,
    /// Whether a box was stored in part only.
    torn: AtomicBool,
    /// Held alone while waiting blocks are completed from the file and written, and together by those
    /// who write blocks whole. Two threads that each read, complete and write one block would lose
    /// what one of them has; and an old piece must not be written after the whole block is.
    flushing: RwLock<()>,
    state: Mutex<State>,
    /// Of a new file, its space.
    promise: Option<Promise>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Boxes of a row-major or column-major array that are long runs of about [`SLAB`] bytes.
fn slab(layout: &LinearLayout) -> Dims {
    let shape = layout.file_order(&layout.shape);
    let mut room = (SLAB / layout.itemsize as u64).max(1);
    let mut tile: Dims = shape.iter().map(|_| 1).collect();
    for axis in (0..shape.len()).rev() {
        tile[axis] = shape[axis].clamp(1, room);
        room /= tile[axis];
        if room <= 1 {
            break;
        }
    }
    layout.array_order(&tile)
}

impl LinearArray {
    fn in_file(
        disk: &Arc<Disk>,
        path: &Path,
        file: DiskFile,
        what: Described,
        writable: bool,
    ) -> Result<LinearArray> {
        what.description.check(file.len()?).map_err(|e| e.at(path))?;
        if writable && !try_lock(&file, path)? {
            return Err(Error::Busy { path: path.into(), holder: holder(path) });
        }
        let state = if writable { State::InPlace { dirty: false } } else { State::Reading };
        Ok(Self::assemble(disk, path, file, what, writable, state))
    }

    fn assemble(
        disk: &Arc<Disk>,
        path: &Path,
        file: DiskFile,
        what: Described,
        writable: bool,
        state: State,
    ) -> LinearArray {
        let Described { description: what, format, attributes } = what;
        let layout = LinearLayout::new(&what.shape, what.dtype.size(), what.column_major, what.offset);
        let big = what.byte_order == ByteOrder::Big;
        let info = Info {
            path: path.into(),
            shape: what.shape.clone(),
            dtype: what.dtype,
            tile: slab(&layout),
            layout: if what.column_major { Layout::ColumnMajor } else { Layout::RowMajor },
            format,
            codecs: if big { "big-endian".into() } else { "none".into() },
            attributes,
            writable,
        };
        let swap = if big { what.dtype.word_size() } else { 1 };
        let shared = Shared {
            disk: Arc::clone(disk),
            swap,
            file,
            seams: Mutex::default(),
            may_wait: AtomicUsize::new(Seams::MOST),
            before: Vec::new(),
            torn: AtomicBool::new(false),
            flushing: RwLock::default(),
            state: Mutex::new(state),
            promise: None,
        };
        LinearArray { info, layout, shared: Arc::new(shared) }
    }

    /// Makes a file.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Busy`], [`Error::NoSpace`], [`Error::Invalid`], the operating system's.
    pub fn create(disk: &Arc<Disk>, path: &Path, new: NewFile, overwrite: bool) -> Result<LinearArray> {
        let NewFile { what, preamble, trailer } = new;
        let end = what.end_behind(preamble.len() as u64)?;
        let len = end + trailer.len() as u64;
        let claim = Claim::new(disk, path, Kind::File, overwrite)?;
        let promise = disk.promise(parent_of(path), claim.target(), len)?;
        let file = disk.create(&claim.file_path(), len)?;
        promise.took(file.allocated()?);
        // Kept through the renaming: the array's writer it is from the start.
        try_lock(&file, &claim.file_path())?;
        for (at, bytes) in [(0, &preamble), (end, &trailer)] {
            if !bytes.is_empty() {
                disk.write_unaligned(&file, at, bytes)?;
            }
        }
        let mut seams = Seams::of_new_file(len);
        seams.mark(0, preamble.len() as u64);
        let first = what.description.offset / BLOCK as u64 * BLOCK as u64;
        let mut before = preamble.get(first as usize..).unwrap_or_default().to_vec();
        before.resize((what.description.offset - first) as usize, 0);
        let target = claim.target().to_path_buf();
        let mut array = Self::assemble(disk, &target, file, what, true, State::Creating(claim));
        let shared = Arc::get_mut(&mut array.shared).expect("nobody else has it yet");
        (shared.seams, shared.before) = (Mutex::new(seams), before);
        shared.promise = Some(promise);
        array.begin();
        Ok(array)
    }

    /// Lets the block that the first elements share with what stands before them be whole when they have come: what
    /// is moved in two passes must not wait for the rest of it, or read it. Nothing has to be done for the trailer:
    /// what lies behind the last element is never written with it.
    fn begin(&self) {
        if !self.shared.before.is_empty() {
            let first = self.layout.offset / BLOCK as u64 * BLOCK as u64;
            lock(&self.shared.seams).put(first, &self.shared.before, self.layout.end());
        }
    }

    /// Stores boxes whose elements lie in the file as the layouts say.
    fn store_by(&self, mover: &mut Mover, boxes: impl Iterator<Item = (LinearLayout, Canvas)>) -> Result<()> {
        match &mut *lock(&self.shared.state) {
            State::Creating(_) => {}
            State::InPlace { dirty } => *dirty = true,
            State::Reading => return Err(read_only(&self.info)),
            State::Closed => return Err(Error::invalid("the array is closed")),
        }
        let stored = self.store_boxes(mover, boxes);
        if stored.is_err() {
            self.shared.torn.store(true, Ordering::Relaxed);
        }
        stored
    }

    /// What waits in blocks from a box's first one on. Whatever else was stored before this returns is in the file.
    ///
    /// It stays where it is: were it written, it would have to be read and completed, and what is moved would depend
    /// on what comes first.
    fn waiting(&self, region: &ArrayBox) -> Waiting {
        if !self.info.writable || region.is_empty() {
            return Waiting::default();
        }
        let first = self.layout.runs(region).first;
        let _alone = self.shared.flushing.write().unwrap_or_else(PoisonError::into_inner);
        lock(&self.shared.seams).from(first / BLOCK as u64 * BLOCK as u64)
    }

    /// Offset of the block that holds the first element.
    fn first_block(&self) -> u64 {
        self.layout.offset / BLOCK as u64 * BLOCK as u64
    }
}

/// Where a box begins in memory, if it lies there as it does in the file.
fn dense_in_file_order(layout: &LinearLayout, canvas: &Canvas, region: &ArrayBox) -> Option<*mut u8> {
    canvas.dense(region, &layout.dense_strides(&region.shape))
}

fn open(disk: &Disk, path: &Path, writable: bool) -> Result<DiskFile> {
    disk.open(path, if writable { Access::ReadWrite } else { Access::Read })
}

impl Store for LinearArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        staging()
    }

    fn phase(&self, region: &ArrayBox) -> usize {
        traffic::phase(&self.layout, region)
    }

    fn loads_straight(&self, region: &ArrayBox) -> bool {
        // Elements stand where the processor can take them at once.
        let fits = self.shared.swap == 1 && self.layout.offset.is_multiple_of(self.layout.itemsize as u64);
        let runs = self.layout.runs(region);
        fits && self.layout.axes.is_sorted() && runs.count() == 1 && runs.run_bytes >= LEAST_STRAIGHT as u64
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        Ok(traffic::to_load(&self.layout, self.layout.end(), region, usize::MAX >> 1))
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        Ok(traffic::to_load(&self.layout, self.layout.end(), region, staging))
    }

    fn cuts(&self, region: &ArrayBox, staging: usize) -> Option<Cuts> {
        traffic::cuts(&self.layout, region, staging)
    }

    fn bytes_to_store(&self, region: &ArrayBox) -> Result<u64> {
        Ok(traffic::to_store(&self.layout, self.layout.end(), region))
    }

    fn bytes_to_change(&self, boxes: &[ArrayBox]) -> Result<(u64, u64)> {
        let seams = lock(&self.shared.seams);
        Ok(traffic::to_change(&self.layout, self.layout.end(), boxes, &|at| seams.is_written(at)))
    }

    fn panels(self: Arc<Self>, tile: &[u64], axes: &[usize]) -> Option<Arc<dyn Store>> {
        // Of a file that was there before, blocks at the ends would wait for what is not moved.
        let is_new = matches!(*lock(&self.shared.state), State::Creating(_));
        if is_new { Some(Arc::new(Panels::new(self, tile, axes).ok()?)) } else { None }
    }

    fn folded(self: Arc<Self>, shape: &[u64]) -> Option<Arc<dyn Store>> {
        let layout = LinearLayout::new(shape, self.layout.itemsize, false, self.layout.offset);
        let (tile, own) = (slab(&layout), Layout::RowMajor);
        let info = Info { shape: shape.into(), tile, layout: own, ..self.info.clone() };
        Some(Arc::new(LinearArray { info, layout, shared: Arc::clone(&self.shared) }))
    }

    fn let_wait(&self, blocks: usize) {
        self.shared.may_wait.fetch_max(blocks, Ordering::Relaxed);
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        if canvas.region().is_empty() {
            return Ok(());
        }
        let waiting = self.waiting(canvas.region());
        let loaded = self.load_box(&self.layout, mover, canvas, &waiting);
        self.shared.file.drop_cache();
        loaded
    }

    fn load_beside(&self, mover: &mut Mover, canvas: &Canvas, edges: &mut Edges) -> Result<()> {
        let waiting = self.waiting(canvas.region());
        let loaded = self.load_beside_box(&self.layout, mover, canvas, edges, &waiting);
        self.shared.file.drop_cache();
        loaded
    }

    fn store(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        self.store_by(mover, std::iter::once((self.layout.clone(), canvas.part(canvas.region()))))
    }

    fn settle(&self, mover: &mut Mover) -> Result<()> {
        self.flush_seams(mover)
    }

    fn commit_staging(&self) -> usize {
        LEAST_STAGING
    }

    fn commit(&self, mover: &mut Mover) -> Result<()> {
        // What was there before is written in place, and cannot be taken back.
        if self.shared.torn.load(Ordering::Relaxed) && matches!(*lock(&self.shared.state), State::Creating(_))
        {
            self.abort();
            return Err(Error::Incomplete { path: self.info.path.clone() });
        }
        self.flush_seams(mover)?;
        let mut state = lock(&self.shared.state);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Creating(claim) => {
                self.shared.disk.sync(&self.shared.file, &claim.file_path())?;
                claim.publish(Kind::File)?;
                self.shared.file.drop_cache();
                self.shared.promise.iter().for_each(Promise::end);
                *state = State::InPlace { dirty: false };
            }
            State::InPlace { dirty } => {
                *state = State::InPlace { dirty };
                if dirty {
                    self.shared.disk.sync(&self.shared.file, &self.info.path)?;
                    self.shared.file.drop_cache();
                    *state = State::InPlace { dirty: false };
                }
            }
            other => *state = other,
        }
        Ok(())
    }

    fn abort(&self) {
        self.shared.promise.iter().for_each(Promise::end);
        lock(&self.shared.seams).take_all();
        *lock(&self.shared.state) = State::Closed;
    }

    fn is_pending(&self) -> bool {
        matches!(*lock(&self.shared.state), State::Creating(_) | State::InPlace { dirty: true })
    }

    fn stored_bytes(&self) -> Result<u64> {
        self.shared.file.len()
    }

    fn units(&self) -> u64 {
        (self.layout.end() - self.first_block()).div_ceil(WANTED_STAGING as u64)
    }

    fn check(&self, mover: &mut Mover, unit: u64) -> Result<Finding> {
        // There are no checksums here: what can be found is that bytes cannot be read.
        let cancel = mover.cancel.clone();
        let disk = mover.disk;
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let (mut at, end) = (self.first_block() + unit * WANTED_STAGING as u64, self.layout.end());
        let last = (at + WANTED_STAGING as u64).min(end);
        while at < last {
            let len = ((last - at) as usize).next_multiple_of(BLOCK).min(room / BLOCK * BLOCK);
            let need = ((end - at) as usize).min(len);
            let mut read = std::iter::once(Transfer::read(&self.shared.file, at, staging, len, need));
            // SAFETY: the staging memory is ours, and at least `len` bytes long.
            let result =
                unsafe { disk.transfer(queue, &self.shared.file, &mut read, Direction::Read, &cancel) };
            match result {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => return Ok(Finding::Damaged(error.to_string())),
                Ok(()) => at += len as u64,
            }
        }
        Ok(Finding::Sound)
    }
}

pub(super) fn staging() -> Staging {
    Staging { least: LEAST_STAGING, wanted: WANTED_STAGING }
}

pub(super) fn read_only(info: &Info) -> Error {
    let path = info.path.display();
    Error::invalid(format!("{path}: opened for reading; open it with mode=\"r+\" to write to it"))
}
