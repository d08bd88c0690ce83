//! Tapes as Python describes them.

use crate::convert::dtype_of;
use crate::ending::attached;
use crate::errors::to_python;
use numpy::npyffi::objects::PyUFuncObject;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use outcrop_ops::tape::{
    Inner, Instruction, Lines, Loop, Matrix, Place, Product, Reduction, Shown, Tape, Value, When,
};
use outcrop_store::Error;
use pyo3::prelude::*;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

/// A value as a matrix: its number, its axis of rows, and its axis of columns.
type Sides = (usize, Option<usize>, Option<usize>);

#[derive(Default)]
struct Building {
    lines: Lines,
    values: Vec<Value>,
    instructions: Vec<(When, Instruction)>,
    kept: Vec<Py<PyAny>>,
}

// SAFETY: pointers are to what `kept` keeps alive, and used by one thread at a time.
unsafe impl Send for Building {}

/// A tape being made.
#[pyclass(frozen)]
pub struct TapeDraft(Mutex<Building>);

/// A tape, and what has to live as long.
pub struct Made {
    pub tape: Tape,
    pub kept: Vec<Py<PyAny>>,
}

impl TapeDraft {
    /// What has been described, with room for products in the workspace.
    pub fn made(&self, py: Python<'_>, room: (usize, usize)) -> PyResult<Made> {
        let Building { lines, values, instructions, kept } = std::mem::take(&mut *self.lock());
        // SAFETY: what is in memory are arrays, and functions are those of ufuncs, which are kept alive with the tape;
        // Python has placed values in the workspace so that those alive at once do not overlap.
        let tape = unsafe { Tape::new(lines, values, instructions, room.0..room.1) };
        Ok(Made { tape: tape.map_err(|e| to_python(py, e))?, kept })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Building> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn value(&self, py: Python<'_>, dtype: &str, lines: Vec<usize>, place: Place) -> PyResult<usize> {
        let (dtype, _) = dtype_of(py, dtype)?;
        let mut own = self.lock();
        own.values.push(Value { dtype, lines, place });
        Ok(own.values.len() - 1)
    }

    /// The inner loop of a ufunc with this number, which has so many operands and results.
    fn inner(
        &self,
        py: Python<'_>,
        ufunc: &Bound<'_, PyAny>,
        number: usize,
        values: usize,
    ) -> PyResult<Inner> {
        let found = inner_loop(ufunc, number)?.filter(|(_, own)| *own == values);
        let missing = || to_python(py, Error::invalid("no such loop of a ufunc"));
        let (inner, _) = found.ok_or_else(missing)?;
        self.lock().kept.push(ufunc.clone().unbind());
        Ok(inner)
    }

    fn push(&self, when: u8, instruction: Instruction) {
        let when = match when {
            0 => When::Before,
            1 => When::Strip,
            _ => When::After,
        };
        self.lock().instructions.push((when, instruction));
    }
}

#[pymethods]
impl TapeDraft {
    /// `extents` of lines, those that are `cut` and into how many indices, and along which line there are strips of which
    /// length.
    #[new]
    fn new(extents: Vec<u64>, cut: Vec<(usize, u64)>, strips: Option<(usize, u64)>) -> TapeDraft {
        let lines = Lines { extents, cut, strips };
        TapeDraft(Mutex::new(Building { lines, ..Building::default() }))
    }

    /// A value in one of the tape's tiles; `shown` says of each axis, which one of the tile it is, its step, and
    /// the first index.
    fn tile(
        &self,
        py: Python<'_>,
        dtype: &str,
        lines: Vec<usize>,
        number: usize,
        shown: Vec<(Option<usize>, usize, usize)>,
    ) -> PyResult<usize> {
        let shown = shown.into_iter().map(|(axis, step, first)| Shown { axis, step, first }).collect();
        self.value(py, dtype, lines, Place::Tile(number, shown))
    }

    /// A value in the workspace.
    fn passed(&self, py: Python<'_>, dtype: &str, lines: Vec<usize>, offset: usize) -> PyResult<usize> {
        self.value(py, dtype, lines, Place::Workspace(offset))
    }

    /// A value that is an array in memory, all of it.
    fn memory(&self, array: &Bound<'_, PyUntypedArray>, lines: Vec<usize>) -> PyResult<usize> {
        let py = array.py();
        let dtype: String = attached(py, || array.dtype().getattr("name")?.extract())?;
        let extents: Option<Vec<u64>> =
            lines.iter().map(|&line| self.lock().lines.extents.get(line).copied()).collect();
        let shape: Vec<u64> = array.shape().iter().map(|&n| n as u64).collect();
        if extents != Some(shape) {
            return Err(to_python(
                py,
                Error::invalid("an array that does not have the extents of its lines"),
            ));
        }
        // SAFETY: the pointer is to a live array object; its data pointer is only read.
        let start = unsafe { (*array.as_array_ptr()).fields.data }.cast::<u8>();
        let strides = array.strides().to_vec();
        let number = self.value(py, &dtype, lines, Place::Memory(start, strides))?;
        self.lock().kept.push(array.clone().into_any().unbind());
        Ok(number)
    }

    /// An elementwise function: a ufunc's inner loop with this number, of these values, the last of which is the result.
    fn apply(
        &self,
        py: Python<'_>,
        when: u8,
        ufunc: &Bound<'_, PyAny>,
        number: usize,
        values: Vec<usize>,
    ) -> PyResult<()> {
        let inner = self.inner(py, ufunc, number, values.len())?;
        self.push(when, Instruction::Loop(Loop { inner, values }));
        Ok(())
    }

    /// A reduction of a value over axes, by a ufunc's inner loop with this number: from a number, or from the first
    /// elements on; with room for a `part` where each strip adds to what those before have left.
    #[allow(clippy::too_many_arguments, reason = "each has a meaning of its own")]
    fn reduce(
        &self,
        py: Python<'_>,
        when: u8,
        ufunc: &Bound<'_, PyAny>,
        number: usize,
        values: (usize, usize),
        axes: Vec<usize>,
        initial: Option<usize>,
        part: Option<usize>,
    ) -> PyResult<()> {
        let inner = self.inner(py, ufunc, number, 3)?;
        let (operand, result) = values;
        self.push(when, Instruction::Reduction(Reduction { inner, operand, result, axes, initial, part }));
        Ok(())
    }

    /// The same elements.
    fn copy(&self, when: u8, operand: usize, result: usize) {
        self.push(when, Instruction::Copy { operand, result });
    }

    /// A product of matrices.
    fn multiply(&self, when: u8, factors: (Sides, Sides), result: Sides, accumulates: bool, half: bool) {
        let factors = [matrix(factors.0), matrix(factors.1)];
        let product = Product { factors, result: matrix(result), accumulates, half };
        self.push(when, Instruction::Product(product));
    }

    /// Copies what is below the diagonal of a square matrix to above it.
    fn mirror(&self, when: u8, of: Sides) {
        self.push(when, Instruction::Mirror(matrix(of)));
    }
}

/// The inner loop of a ufunc with this number, if it has it and makes one result, and how many operands and results it has.
fn inner_loop(ufunc: &Bound<'_, PyAny>, number: usize) -> PyResult<Option<(Inner, usize)>> {
    if !ufunc.is_instance(&ufunc.py().import("numpy")?.getattr("ufunc")?)? {
        return Ok(None);
    }
    // SAFETY: a live object of this type, whose fields are only read; they never change.
    let fields = unsafe { &(*ufunc.as_ptr().cast::<PyUFuncObject>()).fields };
    if number >= fields.ntypes as usize || fields.nout != 1 || fields.functions.is_null() {
        return Ok(None);
    }
    // SAFETY: there are so many loops, and as many data, if any; the name ends in a zero.
    let (function, data, name) = unsafe {
        let data = if fields.data.is_null() { std::ptr::null_mut() } else { *fields.data.add(number) };
        (*fields.functions.add(number), data, CStr::from_ptr(fields.name))
    };
    let name = name.to_string_lossy().into_owned();
    Ok(function.map(|function| (Inner { name, function, data }, fields.nargs as usize)))
}

/// Whether a ufunc that makes one result has an inner loop with this number.
#[pyfunction]
pub fn has_loop(ufunc: &Bound<'_, PyAny>, number: usize) -> PyResult<bool> {
    Ok(inner_loop(ufunc, number)?.is_some())
}

fn matrix((value, row, col): Sides) -> Matrix {
    Matrix { value, row, col }
}
