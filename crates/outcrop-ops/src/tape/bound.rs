//! A tape at one step: its values in memory, and running it there.

use super::floating::{Flags, noting};
use super::inner;
use super::view::{PerAxis, View, dense_strides};
use super::{
    Instruction, Loop, MOST_OPERANDS, Matrix, Place, Product, Reduction, Tape, Value, When, is_aligned,
};
use crate::kernels::{self, Block, Half};
use outcrop_engine::program::Tile;
use outcrop_store::io::Cancel;
use outcrop_store::shape::row_major_strides;
use outcrop_store::{DType, Error, Result, strided};
use smallvec::SmallVec;

/// What floating-point errors the instructions of a step have made, by their numbers.
pub(super) type Noted = SmallVec<[(usize, Flags); 2]>;

/// A tape's values at a step.
struct Bound<'a> {
    tape: &'a Tape,
    /// What there is of values now: of those along the line of the strips, a strip.
    views: Vec<View>,
    room: &'a mut [u8],
    /// Indices along the line of strips that are done.
    before: usize,
    noted: Noted,
}

/// Does a step: at these parts of the cut lines, on these tiles.
///
/// # Errors
/// [`Error::Interrupted`]; an error where tiles or workspace do not hold the values.
///
/// # Safety
/// As [`outcrop_engine::program::Kernel::run`]; the step writes the tiles that the tape writes.
pub(super) unsafe fn run(
    tape: &Tape,
    parts: impl Iterator<Item = u64>,
    tiles: &[&Tile<'_>],
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<Noted> {
    let mut extents = tape.lines.extents.clone();
    let mut starts = vec![0_u64; extents.len()];
    for (&(line, extent), part) in tape.lines.cut.iter().zip(parts) {
        let start = part * extent;
        (starts[line], extents[line]) = (start, extent.min(extents[line] - start));
    }
    let (length, memory) = (workspace.len(), workspace.as_mut_ptr());
    if tape.room.end > length {
        return Err(Error::invalid("a workspace without room for products"));
    }
    let strip = tape.lines.strips.map(|(line, strip)| (line, strip.min(extents[line]) as usize));
    let shape = |value: &Value, is_strip: bool| -> PerAxis<usize> {
        let extent = |&line: &usize| match strip {
            Some((along, strip)) if is_strip && line == along => strip,
            _ => extents[line] as usize,
        };
        value.lines.iter().map(extent).collect()
    };
    let mut views = Vec::with_capacity(tape.values.len());
    for value in &tape.values {
        views.push(match &value.place {
            Place::Tile(number, _) => of_tile(value, tiles[*number], shape(value, false), &starts)?,
            Place::Workspace(offset) => {
                of_workspace(value.dtype, memory, length, *offset, shape(value, true))?
            }
            Place::Memory(start, strides) => {
                let first = value.lines.iter().zip(strides).map(|(&line, s)| starts[line] as isize * s);
                let start = start.wrapping_offset(first.sum());
                View { start, shape: shape(value, false), strides: strides.iter().copied().collect() }
            }
        });
    }
    // SAFETY: inside the workspace, and apart from all values, as the tape's maker vouches.
    let room = unsafe { std::slice::from_raw_parts_mut(memory.add(tape.room.start), tape.room.len()) };
    let mut bound = Bound { tape, views, room, before: 0, noted: Noted::new() };
    // SAFETY: the views are of memory that is the step's, as the caller vouches, and checked to be inside it.
    unsafe {
        bound.perform(When::Before)?;
        if let Some((line, strip)) = strip {
            bound.strips(line, strip, extents[line] as usize, cancel)?;
        }
        bound.perform(When::After)?;
    }
    Ok(bound.noted)
}

/// A tile as a value, or what it has of one that begins so along the lines: it may be there for several steps.
fn of_tile(value: &Value, tile: &Tile<'_>, shape: PerAxis<usize>, starts: &[u64]) -> Result<View> {
    let Place::Tile(_, shown) = &value.place else { unreachable!("only for those") };
    let (array, size) = (tile.array(), value.dtype.size());
    let (region, apart) = (tile.region(), row_major_strides(array.tile_shape()));
    let mut first = 0;
    let mut strides = PerAxis::new();
    let mut seen: SmallVec<[usize; 4]> = SmallVec::new();
    let mut fits = array.dtype.size() == size;
    for ((own, &n), &line) in shown.iter().zip(&shape).zip(&value.lines) {
        let (there, stride) = match own.axis {
            Some(axis) if axis < region.shape.len() && !seen.contains(&axis) => {
                seen.push(axis);
                let start = starts[line] * own.step as u64 + own.first as u64;
                let before = start.checked_sub(region.start[axis]);
                first += before.unwrap_or(0) as isize * apart[axis] * size as isize;
                let there = before.map_or(0, |before| region.shape[axis].saturating_sub(before));
                (there.div_ceil(own.step as u64), apart[axis] * own.step as isize)
            }
            Some(_) => (0, 0),
            None => (1, 0),
        };
        // Several views may share a tile, each a part of it.
        fits &= n as u64 <= there;
        strides.push(stride * size as isize);
    }
    let start = tile.start.wrapping_offset(first);
    if !fits || !is_aligned(start, &strides, value.dtype) {
        return Err(Error::invalid(format!("a tile of {} that does not hold {shape:?}", array.name)));
    }
    Ok(View { start, shape, strides })
}

/// A part of the workspace as a value.
fn of_workspace(
    dtype: DType,
    memory: *mut u8,
    length: usize,
    offset: usize,
    shape: PerAxis<usize>,
) -> Result<View> {
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &n| bytes.checked_mul(n));
    let end = bytes.and_then(|bytes| bytes.checked_add(offset));
    let start = memory.wrapping_add(offset);
    if end.is_none_or(|end| end > length) || !is_aligned(start, &[], dtype) {
        return Err(Error::invalid("a workspace that does not hold all values"));
    }
    Ok(View::dense(start, shape, dtype.size()))
}

impl Bound<'_> {
    /// Does what is to be done for each strip.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn strips(&mut self, line: usize, strip: usize, extent: usize, cancel: &Cancel) -> Result<()> {
        let tape = self.tape;
        let along: Vec<(usize, usize)> = tape
            .values
            .iter()
            .enumerate()
            .filter_map(|(i, value)| Some((i, value.lines.iter().position(|&l| l == line)?)))
            .collect();
        while self.before < extent {
            cancel.check()?;
            let here = strip.min(extent - self.before);
            for &(i, axis) in &along {
                let (view, value) = (&mut self.views[i], &tape.values[i]);
                let is_shorter = view.shape[axis] != here;
                view.shape[axis] = here;
                if let Place::Workspace(_) = value.place
                    && is_shorter
                {
                    view.strides = dense_strides(&view.shape, value.dtype.size());
                }
            }
            // SAFETY: as the caller vouches; strips are parts of the views.
            unsafe { self.perform(When::Strip)? };
            self.before += here;
            for &(i, axis) in &along {
                let view = &mut self.views[i];
                if !matches!(tape.values[i].place, Place::Workspace(_)) {
                    view.start = view.start.wrapping_offset(here as isize * view.strides[axis]);
                }
            }
        }
        Ok(())
    }

    /// Does the instructions of one kind.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn perform(&mut self, when: When) -> Result<()> {
        let tape = self.tape;
        for (number, (own, instruction)) in tape.instructions.iter().enumerate() {
            if *own != when {
                continue;
            }
            // SAFETY: as the caller vouches, and the tape's maker.
            unsafe {
                match instruction {
                    Instruction::Loop(own) => {
                        let flags = self.apply(own)?;
                        self.note(number, flags);
                    }
                    Instruction::Reduction(own) => {
                        let flags = self.reduce(own)?;
                        self.note(number, flags);
                    }
                    Instruction::Copy { operand, result } => self.copy(*operand, *result)?,
                    Instruction::Product(product) => self.multiply(product)?,
                    Instruction::Mirror(matrix) => {
                        kernels::mirror(self.matrix(matrix)?, tape.values[matrix.value].dtype.size());
                    }
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`run`].
    unsafe fn apply(&self, own: &Loop) -> Result<Flags> {
        let value = |&v: &usize| (&self.views[v], self.tape.values[v].dtype.size());
        let views: SmallVec<[(&View, usize); MOST_OPERANDS]> = own.values.iter().map(value).collect();
        let mut done = Ok(());
        // SAFETY: as the caller vouches; the function fits the values, as the tape's maker vouches.
        let flags = noting(|| done = unsafe { inner::run(&own.inner, &views) });
        done.map(|()| flags)
    }

    /// # Safety
    /// As [`run`].
    unsafe fn reduce(&self, own: &Reduction) -> Result<Flags> {
        let more = own.part.filter(|_| self.before > 0);
        let into = more.unwrap_or(own.result);
        let (from, to) = (&self.views[own.operand], &self.views[into]);
        let itemsize = self.tape.values[into].dtype.size();
        let mut spread = View { start: to.start, shape: from.shape.clone(), strides: PerAxis::new() };
        let mut first = View { start: from.start, shape: PerAxis::new(), strides: PerAxis::new() };
        for (axis, (&extent, &stride)) in from.shape.iter().zip(&from.strides).enumerate() {
            if own.axes.contains(&axis) {
                spread.strides.push(0);
            } else {
                spread.strides.push(to.strides.get(first.shape.len()).copied().unwrap_or(0));
                first.shape.push(extent);
                first.strides.push(stride);
            }
        }
        if first.shape != to.shape || from.shape.contains(&0) {
            return Err(Error::invalid("a result that does not have the axes that are left"));
        }
        let mut done = Ok(());
        // SAFETY: as the caller vouches; the function fits the values, as the tape's maker vouches.
        let flags = noting(|| unsafe {
            let first = own.initial.map_or(&first, |initial| &self.views[initial]);
            done = copy_view(first, to, itemsize).and_then(|()| {
                inner::reduce(&own.inner, (from, itemsize), (&spread, itemsize), own.initial.is_none())
            });
            if more.is_some() && done.is_ok() {
                let result = (&self.views[own.result], itemsize);
                done = inner::run(&own.inner, &[result, (to, itemsize), result]);
            }
        });
        done.map(|()| flags)
    }

    fn note(&mut self, number: usize, flags: Flags) {
        if flags.is_empty() {
            return;
        }
        match self.noted.iter_mut().find(|(own, _)| *own == number) {
            Some((_, noted)) => *noted = noted.with(flags),
            None => self.noted.push((number, flags)),
        }
    }

    /// # Safety
    /// As [`run`].
    unsafe fn copy(&self, operand: usize, result: usize) -> Result<()> {
        let itemsize = self.tape.values[result].dtype.size();
        // SAFETY: as the caller vouches.
        unsafe { copy_view(&self.views[operand], &self.views[result], itemsize) }
    }

    /// # Safety
    /// As [`run`].
    unsafe fn multiply(&mut self, product: &Product) -> Result<()> {
        let dtype = self.tape.values[product.result.value].dtype;
        let (a, b) = (self.matrix(&product.factors[0])?.plain(), self.matrix(&product.factors[1])?.plain());
        let c = self.matrix(&product.result)?;
        let more = product.accumulates && self.before > 0;
        let extents = (a.block.rows, a.block.cols, b.block.cols);
        if extents != (c.rows, b.block.rows, c.cols) || (product.half && c.rows != c.cols) {
            return Err(Error::invalid("matrices that do not fit"));
        }
        // SAFETY: as the caller vouches; the result is no factor, and not in the room.
        unsafe {
            if product.half {
                kernels::gemm_half(dtype, Half::Lower, c, more, 1.0, a, b, self.room);
            } else {
                kernels::gemm(dtype, c, more, 1.0, a, b, self.room);
            }
        }
        Ok(())
    }

    /// A value as a matrix.
    fn matrix(&self, matrix: &Matrix) -> Result<Block> {
        let (view, size) = (&self.views[matrix.value], self.tape.values[matrix.value].dtype.size() as isize);
        if view.strides.iter().any(|s| s % size != 0) {
            return Err(Error::invalid("a matrix whose elements lie across one another"));
        }
        let axis = |axis: usize| (view.shape[axis], view.strides[axis] / size);
        // An axis that is not there has one index, as far from a second one as NumPy has it.
        let (rows, row_stride, cols, col_stride) = match (matrix.row.map(axis), matrix.col.map(axis)) {
            (Some(row), Some(col)) => (row.0, row.1, col.0, col.1),
            (Some(row), None) => (row.0, row.1, 1, row.1),
            (None, Some(col)) => (1, col.0 as isize * col.1, col.0, col.1),
            (None, None) => (1, 1, 1, 1),
        };
        Ok(Block { start: view.start, rows, cols, row_stride, col_stride })
    }
}

/// Copies elements to a view to whose shape they broadcast.
///
/// # Safety
/// As [`run`].
unsafe fn copy_view(from: &View, to: &View, itemsize: usize) -> Result<()> {
    let missing = to.shape.len().checked_sub(from.shape.len());
    let missing = missing.ok_or_else(|| Error::invalid("a copy with fewer axes"))?;
    let mut strides: PerAxis<isize> = PerAxis::from_elem(0, missing);
    for ((&n, &stride), &wanted) in from.shape.iter().zip(&from.strides).zip(&to.shape[missing..]) {
        if n != wanted && n != 1 {
            return Err(Error::invalid("a copy of another shape"));
        }
        strides.push(if n == wanted { stride } else { 0 });
    }
    let shape: PerAxis<u64> = to.shape.iter().map(|&n| n as u64).collect();
    // SAFETY: as the caller vouches.
    unsafe { strided::copy(to.start, &to.strides, from.start, &strides, &shape, itemsize) };
    Ok(())
}
