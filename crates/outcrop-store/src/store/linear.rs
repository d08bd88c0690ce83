//! `.npy` and raw files: row-major or column-major arrays, read and written where they lie.
//!
//! A new file is built under a [`Claim`] and appears at commit. A file that was opened for writing
//! is written in place, as `numpy.memmap` does: there is no old version beside it, and what was
//! stored before a crash stays.

use super::canvas::{Canvas, dense_strides};
use super::claim::{Claim, Kind, holder, try_lock};
use super::seams::{BLOCK, Seam, Seams};
use super::{Finding, Info, Mover, Staging, Store};
use crate::dtype::{ByteOrder, DType};
use crate::error::{Error, Result};
use crate::format::{npy, raw};
use crate::io::disk::{Disk, parent_of};
use crate::io::{Access, Direction, DiskFile, Transfer};
use crate::layout::{Layout, LinearLayout, Runs};
use crate::shape::{ArrayBox, Dims, checked_nbytes};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const LEAST_STAGING: usize = 64 << 10;
const WANTED_STAGING: usize = 4 << 20;
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
    disk: Arc<Disk>,
    layout: LinearLayout,
    /// Bytes that one number takes where its order on disk is not the machine's; else 1.
    swap: usize,
    file: DiskFile,
    seams: Mutex<Seams>,
    state: Mutex<State>,
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
    layout.file_order(&tile)
}

impl LinearArray {
    /// Opens a `.npy` file.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Unsupported`], [`Error::Busy`], the operating system's.
    pub fn open_npy(disk: &Arc<Disk>, path: &Path, writable: bool) -> Result<LinearArray> {
        let file = open(disk, path, writable)?;
        let file_len = file.len()?;
        let start = disk.read_prefix(path, 12)?;
        let preamble_len = npy::header_len(&start).map_err(|e| e.at(path))?;
        let preamble = disk.read_prefix(path, preamble_len)?;
        let header = npy::parse(&preamble).map_err(|e| e.at(path))?;
        let description = raw::Description {
            shape: header.shape,
            dtype: header.dtype,
            byte_order: header.byte_order,
            offset: header.data_offset,
            column_major: header.column_major,
        };
        Self::in_file(disk, path, file, file_len, &description, "npy", writable)
    }

    /// Opens a raw file as the description says.
    ///
    /// # Errors
    /// As for [`open_npy`](Self::open_npy).
    pub fn open_raw(
        disk: &Arc<Disk>,
        path: &Path,
        what: &raw::Description,
        writable: bool,
    ) -> Result<LinearArray> {
        let file = open(disk, path, writable)?;
        let file_len = file.len()?;
        Self::in_file(disk, path, file, file_len, what, "raw", writable)
    }

    fn in_file(
        disk: &Arc<Disk>,
        path: &Path,
        file: DiskFile,
        file_len: u64,
        what: &raw::Description,
        format: &'static str,
        writable: bool,
    ) -> Result<LinearArray> {
        what.check(file_len).map_err(|e| e.at(path))?;
        if writable && !try_lock(&file, path)? {
            return Err(Error::Busy { path: path.into(), holder: holder(path) });
        }
        let state = if writable { State::InPlace { dirty: false } } else { State::Reading };
        Ok(Self::assemble(disk, path, file, what, format, writable, state))
    }

    fn assemble(
        disk: &Arc<Disk>,
        path: &Path,
        file: DiskFile,
        what: &raw::Description,
        format: &'static str,
        writable: bool,
        state: State,
    ) -> LinearArray {
        let layout = LinearLayout {
            shape: what.shape.clone(),
            itemsize: what.dtype.size(),
            column_major: what.column_major,
            offset: what.offset,
        };
        let big = what.byte_order == ByteOrder::Big;
        let info = Info {
            path: path.into(),
            shape: what.shape.clone(),
            dtype: what.dtype,
            tile: slab(&layout),
            layout: if what.column_major { Layout::ColumnMajor } else { Layout::RowMajor },
            format,
            codecs: if big { "big-endian".into() } else { "none".into() },
            attributes: "{}".into(),
            writable,
        };
        let swap = if big { what.dtype.word_size() } else { 1 };
        LinearArray {
            info,
            disk: Arc::clone(disk),
            layout,
            swap,
            file,
            seams: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// Makes a `.npy` file (`npy`), or a file of nothing but elements.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Busy`], [`Error::NoSpace`], the operating system's.
    pub fn create(
        disk: &Arc<Disk>,
        path: &Path,
        shape: &[u64],
        dtype: DType,
        column_major: bool,
        npy: bool,
        overwrite: bool,
    ) -> Result<LinearArray> {
        let nbytes = checked_nbytes(shape, dtype.size())?;
        let claim = Claim::new(disk, path, Kind::File, overwrite)?;
        // Elements start at a block's edge, so that as many requests as possible are aligned.
        let preamble = if npy { npy::encode(dtype, column_major, shape, BLOCK) } else { Vec::new() };
        let len = preamble.len() as u64 + nbytes;
        disk.require_space(parent_of(path), len)?;
        let file = disk.create(&claim.file_path(), len)?;
        // Kept through the renaming: the array's writer it is from the start.
        try_lock(&file, &claim.file_path())?;
        if !preamble.is_empty() {
            disk.write_unaligned(&file, 0, &preamble)?;
        }
        let what = raw::Description {
            shape: shape.into(),
            dtype,
            byte_order: ByteOrder::Little,
            offset: preamble.len() as u64,
            column_major,
        };
        let format = if npy { "npy" } else { "raw" };
        let target = claim.target().to_path_buf();
        Ok(Self::assemble(disk, &target, file, &what, format, true, State::Creating(claim)))
    }

    /// Offset of the block that holds the first element.
    fn first_block(&self) -> u64 {
        self.layout.offset / BLOCK as u64 * BLOCK as u64
    }

    /// Strides in bytes of a block of this shape that is dense in file order.
    fn file_strides(&self, shape: &[u64]) -> super::canvas::Strides {
        let in_file_order = dense_strides(&self.layout.file_order(shape), self.layout.itemsize);
        self.layout.file_order(&in_file_order)
    }

    fn is_dense_in_file_order(&self, canvas: &Canvas, region: &ArrayBox) -> Option<*mut u8> {
        let one_axis = region.shape.iter().filter(|&&n| n > 1).count() <= 1;
        if self.layout.column_major && !one_axis { None } else { canvas.contiguous(region) }
    }

    /// Writes waiting blocks, completed from the file where they are not whole.
    fn write_seams(&self, mover: &mut Mover, mut blocks: BTreeMap<u64, Seam>, whole: bool) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let cancel = mover.cancel.clone();
        let (disk, end) = (mover.disk, self.layout.end());
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let written = (|| {
            if !whole {
                // As many old blocks at once as the staging memory holds.
                let offsets: Vec<u64> = blocks.keys().copied().collect();
                for some in offsets.chunks(room / BLOCK) {
                    let mut reads = some.iter().enumerate().map(|(i, &at)| {
                        let need = (end - at).min(BLOCK as u64) as usize;
                        Transfer::read(&self.file, at, staging.wrapping_add(i * BLOCK), BLOCK, need)
                    });
                    // SAFETY: each read has its own block of staging memory, which is ours until the end.
                    unsafe { disk.transfer(queue, &self.file, &mut reads, Direction::Read, &cancel)? };
                    for (i, at) in some.iter().enumerate() {
                        // SAFETY: the block was read above; bytes behind the file's end are not used.
                        let old =
                            unsafe { std::slice::from_raw_parts(staging.wrapping_add(i * BLOCK), BLOCK) };
                        blocks.get_mut(at).expect("taken from its keys").complete(old);
                    }
                }
            }
            let mut inner = blocks
                .range(..end / BLOCK as u64 * BLOCK as u64)
                .map(|(&at, seam)| Transfer::write(&self.file, at, seam.as_ptr(), BLOCK));
            // SAFETY: the blocks live in the map until the end of this function.
            unsafe { disk.transfer(queue, &self.file, &mut inner, Direction::Write, &cancel)? };
            // The file's last block is not written beyond its end.
            if let Some((&at, seam)) = blocks.range(end / BLOCK as u64 * BLOCK as u64..).next() {
                disk.write_unaligned(&self.file, at, &seam.bytes()[..(end - at) as usize])?;
            }
            Ok(())
        })();
        if written.is_err() && !whole {
            lock(&self.seams).restore(blocks);
        }
        written
    }

    fn flush_seams(&self, mover: &mut Mover) -> Result<()> {
        let blocks = lock(&self.seams).take_all();
        self.write_seams(mover, blocks, false)
    }

    fn load_part(
        &self,
        mover: &mut Mover,
        canvas: &Canvas,
        part: &ArrayBox,
        carry: &mut Carry,
    ) -> Result<()> {
        let cancel = mover.cancel.clone();
        let runs = self.layout.runs(part);
        let block = self.file.block() as u64;
        let aligned = runs.first.is_multiple_of(block)
            && runs.run_bytes.is_multiple_of(block)
            && runs.strides.iter().all(|s| s.is_multiple_of(block));
        let apart =
            runs.strides.last().is_none_or(|&s| s > runs.run_bytes + crate::layout::linear::READ_THROUGH);
        let disk = mover.disk;
        if aligned
            && apart
            && self.swap == 1
            && let Some(start) = self.is_dense_in_file_order(canvas, part)
            && (start as u64).is_multiple_of(block)
        {
            let (queue, _, _) = mover.parts(0)?;
            let len = runs.run_bytes as usize;
            let mut reads = runs
                .offsets()
                .enumerate()
                .map(|(i, at)| Transfer::read(&self.file, at, start.wrapping_add(i * len), len, len));
            // SAFETY: the canvas's memory is ours to fill, and the runs fill disjoint parts of it.
            return unsafe { disk.transfer(queue, &self.file, &mut reads, Direction::Read, &cancel) };
        }
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let end = self.layout.end();
        let mut filled = 0usize;
        let mut places: Vec<(u64, usize)> = Vec::new();
        let mut reads = Vec::new();
        for interval in runs.intervals(block) {
            places.push((interval.offset, filled));
            debug_assert!(filled + interval.len as usize <= room);
            let (mut offset, mut len) = (interval.offset, interval.len as usize);
            if carry.offset == Some(offset) {
                // The block at the seam of two parts was read with the first.
                // SAFETY: `filled + len` bytes of staging memory are ours, as asserted.
                let to = unsafe { std::slice::from_raw_parts_mut(staging.wrapping_add(filled), BLOCK) };
                to.copy_from_slice(&carry.bytes[..]);
                (offset, len, filled) = (offset + block, len - BLOCK, filled + BLOCK);
            }
            if len > 0 {
                let need = (end.saturating_sub(offset) as usize).min(len);
                reads.push(Transfer::read(&self.file, offset, staging.wrapping_add(filled), len, need));
                filled += len;
            }
        }
        // SAFETY: the intervals have disjoint places in the staging memory, which is ours.
        unsafe { disk.transfer(queue, &self.file, &mut reads.into_iter(), Direction::Read, &cancel)? };
        if let Some(last) = filled.checked_sub(BLOCK) {
            // SAFETY: the bytes up to `filled` were read above.
            let from = unsafe { std::slice::from_raw_parts(staging.wrapping_add(last), BLOCK) };
            carry.bytes.copy_from_slice(from);
            let &(offset, place) = places.last().expect("something was read");
            carry.offset = Some(offset + (last - place) as u64);
        }
        self.scatter_runs(canvas, part, &places, staging);
        Ok(())
    }

    /// Copies the runs of a part from their places in the staging memory to the canvas.
    fn scatter_runs(&self, canvas: &Canvas, part: &ArrayBox, places: &[(u64, usize)], staging: *const u8) {
        // Runs inside one interval lie at the file's own strides, so that whole sub-boxes can be
        // copied at once; the outer axes are walked until that holds.
        let mut interval = 0;
        self.each_regular(part, places, &mut |sub, first| {
            while interval + 1 < places.len() && places[interval + 1].0 <= first {
                interval += 1;
            }
            while interval > 0 && places[interval].0 > first {
                interval -= 1;
            }
            let (offset, place) = places[interval];
            let source = staging.wrapping_add(place + (first - offset) as usize);
            let strides = self.file_axis_strides();
            // SAFETY: the interval holds every run of `sub`, at the strides of the file.
            unsafe { canvas.scatter(sub, source, &strides, self.swap) };
        });
    }

    /// Strides in bytes of the array's axes in the file.
    fn file_axis_strides(&self) -> super::canvas::Strides {
        self.file_strides(&self.layout.shape)
    }

    /// Calls `each` for sub-boxes of `part`, in file order, whose runs lie in one interval each; with
    /// the file offset of the first run.
    fn each_regular(&self, part: &ArrayBox, places: &[(u64, usize)], each: &mut dyn FnMut(&ArrayBox, u64)) {
        let runs = self.layout.runs(part);
        let last = runs.last() + runs.run_bytes;
        let holder = |from: u64| places.partition_point(|&(o, _)| o <= from).saturating_sub(1);
        let in_one = holder(runs.first) == holder(last - 1);
        let ndim = part.ndim();
        let to_array =
            |file_axis: usize| if self.layout.column_major { ndim - 1 - file_axis } else { file_axis };
        let axis = (0..ndim).map(to_array).find(|&a| part.shape[a] > 1);
        match axis {
            Some(axis) if !in_one => {
                for i in 0..part.shape[axis] {
                    let mut sub = part.clone();
                    sub.start[axis] += i;
                    sub.shape[axis] = 1;
                    self.each_regular(&sub, places, each);
                }
            }
            _ => each(part, runs.first),
        }
    }

    fn store_part(&self, mover: &mut Mover, canvas: &Canvas, part: &ArrayBox) -> Result<()> {
        let cancel = mover.cancel.clone();
        let runs = self.layout.runs(part);
        let end = self.layout.end();
        let disk = mover.disk;
        let block = BLOCK as u64;
        let len = runs.run_bytes as usize;
        let direct = (self.swap == 1).then(|| self.is_dense_in_file_order(canvas, part)).flatten();
        let (queue, staging, room) = mover.parts(LEAST_STAGING)?;
        let pitch = pitch(&runs);
        let source = match direct {
            // Memory and file must be out of step with the blocks by the same amount.
            Some(start)
                if runs.offsets().enumerate().all(|(i, at)| {
                    (start as u64 + (i * len) as u64).wrapping_sub(at).is_multiple_of(block)
                }) =>
            {
                Source { start, pitch: len, skewed: false }
            }
            _ => {
                debug_assert!(runs.count() as usize * pitch <= room);
                let mut run_box = part.clone();
                let outer = runs.counts.len();
                let ndim = part.ndim();
                let to_array = |a: usize| if self.layout.column_major { ndim - 1 - a } else { a };
                for a in 0..outer {
                    run_box.shape[to_array(a)] = 1;
                }
                let strides = self.file_strides(&run_box.shape);
                let outer_box = ArrayBox::whole(&runs.counts);
                for (i, (at, index)) in
                    runs.offsets().zip(crate::shape::BoxIndices::new(&outer_box)).enumerate()
                {
                    for a in 0..outer {
                        run_box.start[to_array(a)] = part.start[to_array(a)] + index[a];
                    }
                    let skew = if pitch > len { (at % block) as usize } else { 0 };
                    let target = staging.wrapping_add(i * pitch + skew);
                    // SAFETY: the run's place in the staging memory is `pitch` bytes long and ours.
                    unsafe { canvas.gather(&run_box, target, &strides, self.swap) };
                }
                Source { start: staging, pitch, skewed: pitch > len }
            }
        };
        let mut whole = BTreeMap::new();
        let mut writes = Vec::new();
        {
            let mut seams = lock(&self.seams);
            for (i, at) in runs.offsets().enumerate() {
                let skew = if source.skewed { (at % block) as usize } else { 0 };
                let memory = source.start.wrapping_add(i * source.pitch + skew);
                let stop = at + len as u64;
                let from = at.next_multiple_of(block).min(stop);
                let to = (stop / block * block).max(from);
                for (a, b) in [(at, from), (to, stop)] {
                    if a < b {
                        // SAFETY: the run is in memory from `memory` on; `a` and `b` lie inside it.
                        let bytes = unsafe {
                            std::slice::from_raw_parts(
                                memory.wrapping_add((a - at) as usize),
                                (b - a) as usize,
                            )
                        };
                        whole.extend(seams.put(a, bytes, end));
                    }
                }
                if from < to {
                    seams.forget(from, to);
                    let memory = memory.wrapping_add((from - at) as usize);
                    writes.push(Transfer::write(&self.file, from, memory, (to - from) as usize));
                }
            }
        }
        // SAFETY: the runs' memory is the canvas's or the staging memory, neither of which changes
        // before this returns.
        unsafe { disk.transfer(queue, &self.file, &mut writes.into_iter(), Direction::Write, &cancel)? };
        self.write_seams(mover, whole, true)?;
        if lock(&self.seams).len() > Seams::MOST {
            self.flush_seams(mover)?;
        }
        Ok(())
    }
}

struct Source {
    start: *mut u8,
    /// Bytes from one run to the next.
    pitch: usize,
    /// Whether a run starts at its offset's place in a block rather than at `pitch`.
    skewed: bool,
}

/// Bytes of staging memory for each run that is to be written.
fn pitch(runs: &Runs) -> usize {
    let len = runs.run_bytes as usize;
    // A run that may hold a whole block starts where that block will be aligned.
    if len < BLOCK { len } else { (len + BLOCK).next_multiple_of(BLOCK) }
}

/// The block at the end of what was read last, for a next part that begins with it.
struct Carry {
    offset: Option<u64>,
    bytes: Box<[u8; BLOCK]>,
}

fn open(disk: &Disk, path: &Path, writable: bool) -> Result<DiskFile> {
    disk.open(path, if writable { Access::ReadWrite } else { Access::Read })
}

impl Store for LinearArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        Staging { least: LEAST_STAGING, wanted: WANTED_STAGING }
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        if region.is_empty() {
            return Ok(0);
        }
        let end = self.layout.end();
        Ok(self
            .layout
            .runs(region)
            .intervals(BLOCK as u64)
            .map(|i| i.len.min((end - i.offset).next_multiple_of(BLOCK as u64)))
            .sum())
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        if canvas.region().is_empty() {
            return Ok(());
        }
        if !lock(&self.seams).is_empty() {
            self.flush_seams(mover)?;
        }
        let (_, _, room) = mover.parts(LEAST_STAGING)?;
        let mut carry = Carry { offset: None, bytes: Box::new([0; BLOCK]) };
        // A box that needs no staging memory moves in one go.
        let runs = self.layout.runs(canvas.region());
        let straight = runs.run_bytes.is_multiple_of(BLOCK as u64)
            && self
                .is_dense_in_file_order(canvas, canvas.region())
                .is_some_and(|p| (p as usize).is_multiple_of(BLOCK))
            && runs.first.is_multiple_of(BLOCK as u64)
            && runs.strides.iter().all(|s| s.is_multiple_of(BLOCK as u64))
            && runs.strides.last().is_none_or(|&s| s > runs.run_bytes + crate::layout::linear::READ_THROUGH)
            && self.swap == 1;
        let parts = if straight {
            vec![canvas.region().clone()]
        } else {
            let fit = |runs: &Runs| runs.staging(BLOCK as u64) <= room as u64;
            self.layout.split(canvas.region(), BLOCK as u64, &fit)
        };
        for part in parts {
            self.load_part(mover, canvas, &part, &mut carry)?;
        }
        self.file.drop_cache();
        Ok(())
    }

    fn store(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        match &mut *lock(&self.state) {
            State::Creating(_) => {}
            State::InPlace { dirty } => *dirty = true,
            State::Reading => return Err(read_only(&self.info)),
            State::Closed => return Err(Error::invalid("the array is closed")),
        }
        if canvas.region().is_empty() {
            return Ok(());
        }
        let (_, _, room) = mover.parts(LEAST_STAGING)?;
        let fit = |runs: &Runs| runs.count() as usize * pitch(runs) <= room;
        for part in self.layout.split(canvas.region(), BLOCK as u64, &fit) {
            self.store_part(mover, canvas, &part)?;
        }
        Ok(())
    }

    fn commit(&self, mover: &mut Mover) -> Result<()> {
        self.flush_seams(mover)?;
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Creating(claim) => {
                self.disk.sync(&self.file, &claim.file_path())?;
                claim.publish(Kind::File)?;
                self.file.drop_cache();
                *state = State::InPlace { dirty: false };
            }
            State::InPlace { dirty } => {
                *state = State::InPlace { dirty };
                if dirty {
                    self.disk.sync(&self.file, &self.info.path)?;
                    self.file.drop_cache();
                    *state = State::InPlace { dirty: false };
                }
            }
            other => *state = other,
        }
        Ok(())
    }

    fn abort(&self) {
        lock(&self.seams).take_all();
        *lock(&self.state) = State::Closed;
    }

    fn is_pending(&self) -> bool {
        matches!(*lock(&self.state), State::Creating(_) | State::InPlace { dirty: true })
    }

    fn stored_bytes(&self) -> Result<u64> {
        self.file.len()
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
            let mut read = std::iter::once(Transfer::read(&self.file, at, staging, len, need));
            // SAFETY: the staging memory is ours, and at least `len` bytes long.
            let result = unsafe { disk.transfer(queue, &self.file, &mut read, Direction::Read, &cancel) };
            match result {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => return Ok(Finding::Damaged(error.to_string())),
                Ok(()) => at += len as u64,
            }
        }
        Ok(Finding::Sound)
    }
}

pub(super) fn read_only(info: &Info) -> Error {
    let path = info.path.display();
    Error::invalid(format!("{path}: opened for reading; open it with mode=\"r+\" to write to it"))
}
