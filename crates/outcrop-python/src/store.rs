//! Arrays on disk.

use crate::block::array_over;
use crate::convert::{attributes_of, box_of, canvas_of, dtype_of, labels_of, tuple};
use crate::ending::{detached, remember};
use crate::errors::{to_python, warn};
use crate::function::Raised;
use crate::process::runtime;
use crate::reader::BoxReader;
use crate::watch::PyWatch;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray, PyUntypedArrayMethods};
use outcrop_engine::Runtime;
use outcrop_engine::runtime::run_queue;
use outcrop_ops::boxes::{access, verify};
use outcrop_store::format::pnm;
use outcrop_store::format::raw::Description;
use outcrop_store::format::zarr::{Encoding, Labelled, consolidated};
use outcrop_store::store::adapters::merged::{Cuts, MergedArray, Runs};
use outcrop_store::store::adapters::oriented::{Orientation, OrientedArray};
use outcrop_store::store::adapters::sampled::SampledArray;
use outcrop_store::store::adapters::section::SectionArray;
use outcrop_store::store::chunked::Chunks;
use outcrop_store::store::foreign::encoded::{EncodedChunk, EncodedChunks};
use outcrop_store::store::linear::{Described, NewFile};
use outcrop_store::store::open::{As, NewFormat};
use outcrop_store::store::{Canvas, Info, Patch};
use outcrop_store::{ArrayBox, Error, store};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Results below this size are NumPy's own memory, and not charged to the budget.
const SMALL: u64 = 1 << 20;

type Inner = Arc<dyn store::Store>;

/// An array on disk.
#[pyclass(frozen)]
pub struct Store {
    inner: Mutex<Option<Inner>>,
    info: Info,
    labelled: Option<Labelled>,
    /// As the user wrote it.
    path: PathBuf,
    pid: u32,
    /// Of an array made by a Python function, what that raised.
    raised: Option<Raised>,
    /// Whether an assignment of several writes ended before all were done.
    torn: AtomicBool,
}

impl Store {
    fn new(inner: Inner, path: &Path) -> Store {
        Store::of(inner, path, None)
    }

    pub fn of(inner: Inner, path: &Path, raised: Option<Raised>) -> Store {
        let info = inner.info().clone();
        let labelled = inner.labelled();
        Store {
            inner: Mutex::new(Some(inner)),
            info,
            labelled,
            path: path.into(),
            pid: std::process::id(),
            raised,
            torn: AtomicBool::new(false),
        }
    }

    pub fn raised(&self) -> Option<Raised> {
        self.raised.clone()
    }

    /// What the function that gives its elements has raised since this was last asked, if one gives them.
    pub fn take_raised(&self) -> Option<PyErr> {
        self.raised.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn held(&self) -> Option<Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn inner(&self, py: Python<'_>) -> PyResult<(Arc<Runtime>, Inner)> {
        if self.pid != std::process::id() {
            return Err(to_python(py, Error::Forked));
        }
        let closed =
            || to_python(py, Error::invalid(format!("{}: the array is closed", self.path.display())));
        Ok((runtime(py)?, self.held().ok_or_else(closed)?))
    }
}

/// Runs `work` without the GIL, watching for signals.
pub fn run<T: Send>(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut PyWatch) -> outcrop_store::Result<T> + Send,
) -> PyResult<T> {
    let mut watch = PyWatch::new(progress);
    let result = detached(py, || work(&mut watch))?;
    let value = result.map_err(|e| watch.exception(py, e))?;
    warn(py, runtime.disk().take_warnings())?;
    Ok(value)
}

#[pymethods]
impl Store {
    #[getter]
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, &self.info.shape)
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.info.dtype.name()
    }

    #[getter]
    fn tile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, &self.info.tile)
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.info.layout.name()
    }

    /// The axes in the order in which elements follow one another on disk, slowest first; None of what is tiled.
    #[getter]
    fn file_axes(&self, py: Python<'_>) -> PyResult<Option<Vec<usize>>> {
        Ok(self.inner(py)?.1.file_axes().map(|axes| axes.to_vec()))
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.info.format
    }

    #[getter]
    fn codecs(&self) -> &str {
        &self.info.codecs
    }

    /// How many elements thick the frontiers are that tiles have beside them; None where they have none.
    #[getter]
    fn thickness(&self) -> Option<u64> {
        self.held()?.thickness()
    }

    #[getter]
    fn attributes(&self) -> &str {
        &self.info.attributes
    }

    /// 2 or 3; None of what is no Zarr array.
    #[getter]
    fn zarr_format(&self) -> Option<u8> {
        self.labelled.as_ref().map(|l| l.zarr_format)
    }

    #[getter]
    fn dimension_names(&self) -> Option<Vec<Option<String>>> {
        self.labelled.as_ref()?.dimension_names.clone()
    }

    /// The bytes of the element.
    #[getter]
    fn fill_value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.labelled.as_ref()?.fill_value.as_ref().map(|fill| PyBytes::new(py, fill))
    }

    #[getter]
    fn writable(&self) -> bool {
        self.info.writable
    }

    #[getter]
    fn closed(&self) -> bool {
        self.held().is_none()
    }

    #[getter]
    fn committed(&self) -> bool {
        self.held().is_some_and(|inner| !inner.is_pending())
    }

    #[getter]
    fn torn(&self) -> bool {
        self.torn.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_torn(&self, torn: bool) {
        self.torn.store(torn, Ordering::Relaxed);
    }

    #[getter]
    fn stored_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        let (_, inner) = self.inner(py)?;
        detached(py, || inner.stored_bytes())?.map_err(|e| to_python(py, e))
    }

    fn bytes_to_load(&self, py: Python<'_>, start: Vec<u64>, shape: Vec<u64>) -> PyResult<u64> {
        let (_, inner) = self.inner(py)?;
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&self.info.shape).map_err(|e| to_python(py, e))?;
        detached(py, || inner.bytes_to_load(&region))?.map_err(|e| to_python(py, e))
    }

    fn read<'py>(&self, py: Python<'py>, start: Vec<u64>, shape: Vec<u64>) -> PyResult<Bound<'py, PyAny>> {
        let (runtime, inner) = self.inner(py)?;
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&self.info.shape).map_err(|e| to_python(py, e))?;
        let dtype = self.info.dtype;
        if self.info.box_bytes(&shape) < SMALL {
            let array = py.import("numpy")?.call_method1("empty", (tuple(py, &shape)?, dtype.name()))?;
            // SAFETY: nobody else knows the new array.
            let canvas = unsafe { canvas_of(array.cast::<PyUntypedArray>()?, &start, dtype)? };
            run(py, &runtime, None, |watch| access::read(&runtime, &inner, &canvas, watch))?;
            return Ok(array);
        }
        let frame = run(py, &runtime, None, |watch| {
            let bytes = access::frame_bytes(inner.as_ref(), &region);
            let frame = runtime.frame(bytes, &format!("a result of {bytes} bytes"))?;
            let patch = Patch::dense(region.clone(), frame.as_ptr(), frame.len(), dtype.size());
            // SAFETY: the frame was made for this box, and nobody else knows it.
            let canvas = unsafe { Canvas::new(region, dtype.size(), [patch]) };
            access::read(&runtime, &inner, &canvas, watch)?;
            frame.share_with_children();
            Ok(frame)
        })?;
        array_over(py, Arc::new(frame), &shape, dtype)
    }

    /// What tells whether a box has changed, and when it did last, where something does.
    fn stamp(&self, py: Python<'_>, start: Vec<u64>, shape: Vec<u64>) -> PyResult<Option<(u64, i64)>> {
        let (_, inner) = self.inner(py)?;
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&self.info.shape).map_err(|e| to_python(py, e))?;
        detached(py, || inner.stamp(&region))?.map_err(|e| to_python(py, e))
    }

    fn reader(&self, py: Python<'_>, boxes: Vec<(Vec<u64>, Vec<u64>)>) -> PyResult<BoxReader> {
        let (runtime, inner) = self.inner(py)?;
        let boxes: Vec<ArrayBox> = boxes.iter().map(|(s, e)| box_of(py, s, e)).collect::<PyResult<_>>()?;
        let reader =
            run(py, &runtime, None, |_| outcrop_ops::boxes::reader::Reader::new(&runtime, &inner, boxes))?;
        Ok(BoxReader::new(reader, self.info.dtype))
    }

    /// The same array without axes that stand at one index each, with the axes that are left in another order, or
    /// backwards; to be read.
    fn shown(
        &self,
        py: Python<'_>,
        at: Vec<(usize, u64)>,
        axes: Vec<usize>,
        reversed: Vec<bool>,
    ) -> PyResult<Store> {
        let (_, inner) = self.inner(py)?;
        let shown = SectionArray::of(&inner, &at)
            .and_then(|section| OrientedArray::of(&section, Orientation::new(&axes, &reversed)?))
            .map_err(|error| to_python(py, error))?;
        let path = shown.info().path.clone();
        Ok(Store::new(shown, &path))
    }

    /// Along each of some axes, the indices `first + step * k` for `k < count`, each of which is loaded by itself.
    fn sampled(&self, py: Python<'_>, indices: Vec<(usize, (u64, u64, u64))>) -> PyResult<Store> {
        let (_, inner) = self.inner(py)?;
        let sampled = indices
            .into_iter()
            .try_fold(inner, |inner, (axis, indices)| SampledArray::of(&inner, axis, indices))
            .map_err(|error| to_python(py, error))?;
        let path = sampled.info().path.clone();
        Ok(Store::new(sampled, &path))
    }

    fn write(&self, py: Python<'_>, start: Vec<u64>, value: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let (runtime, inner) = self.inner(py)?;
        if value.shape().len() != start.len() {
            return Err(to_python(py, Error::invalid("a box and its value differ in dimensions")));
        }
        // SAFETY: the caller holds the array; that nobody changes it meanwhile is theirs to see to, as
        // with every NumPy operation that releases the GIL.
        let canvas = unsafe { canvas_of(value, &start, self.info.dtype)? };
        run(py, &runtime, None, |watch| access::write(&runtime, &inner, &canvas, watch))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let (runtime, inner) = self.inner(py)?;
        run(py, &runtime, None, |_| access::flush(&runtime, &inner))
    }

    /// Writes out what of it is changed in memory, and lets go of what is in memory of it: a run will change it.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let (runtime, inner) = self.inner(py)?;
        run(py, &runtime, None, |_| access::settle(&runtime, &inner))
    }

    fn commit(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        commit(py, vec![slf])
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        if self.pid != std::process::id() {
            return Ok(());
        }
        let runtime = runtime(py)?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(inner) = inner {
            detached(py, || access::abort(&runtime, &inner))?;
        }
        Ok(())
    }

    #[pyo3(signature = (accept, progress))]
    fn verify(&self, py: Python<'_>, accept: bool, progress: Option<Py<PyAny>>) -> PyResult<Vec<String>> {
        let (runtime, inner) = self.inner(py)?;
        run(py, &runtime, progress, |watch| verify::verify(&runtime, &inner, accept, watch))
    }
}

/// Makes all that was written to some arrays durable and visible, one right after the other: signals come before or
/// after.
#[pyfunction]
pub fn commit(py: Python<'_>, stores: Vec<PyRef<'_, Store>>) -> PyResult<()> {
    let held = stores.iter().map(|store| store.inner(py)).collect::<PyResult<Vec<_>>>()?;
    let Some((runtime, _)) = held.first() else { return Ok(()) };
    run(py, runtime, None, |_| held.iter().try_for_each(|(_, inner)| access::commit(runtime, inner)))
}

impl Drop for Store {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(inner) = inner else { return };
        if self.pid != std::process::id() {
            // The parent's, down to its locks and files.
            std::mem::forget(inner);
            return;
        }
        Python::attach(|py| {
            // Changed tiles that are still in memory refer to the array; nobody will ask for them now.
            if let Ok(runtime) = runtime(py) {
                // There is nobody to whom a fault could be told.
                let _ = detached(py, || {
                    runtime.resident().forget(&inner, &ArrayBox::whole(&inner.info().shape));
                });
            }
        });
    }
}

#[pyfunction]
#[pyo3(signature = (path, mode, format, shape, dtype, offset, order))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    mode: &str,
    format: Option<&str>,
    shape: Option<Vec<u64>>,
    dtype: Option<&str>,
    offset: u64,
    order: &str,
) -> PyResult<Store> {
    let what = match (format, shape, dtype) {
        (Some("zarr"), ..) => As::Zarr,
        (Some("npy"), ..) => As::Npy,
        (Some("pnm"), ..) => As::Pnm,
        (None | Some("raw"), Some(shape), Some(dtype)) => {
            As::Described(Described::raw(description(py, &shape, dtype, offset, order)?))
        }
        (Some("raw"), ..) => {
            return Err(to_python(py, Error::invalid("a raw file needs its shape and dtype")));
        }
        _ if mode == "accept" => As::Accepted,
        _ => As::Found,
    };
    open_as(py, &path, mode, &what)
}

fn open_as(py: Python<'_>, path: &Path, mode: &str, what: &As) -> PyResult<Store> {
    let runtime = runtime(py)?;
    let writable = mode == "r+";
    let inner = run(py, &runtime, None, |_| store::open::open(runtime.disk(), path, what, writable))?;
    Ok(Store::new(inner, path))
}

fn description(
    py: Python<'_>,
    shape: &[u64],
    dtype: &str,
    offset: u64,
    order: &str,
) -> PyResult<Description> {
    let (dtype, byte_order) = dtype_of(py, dtype)?;
    Ok(Description { shape: shape.into(), dtype, byte_order, offset, column_major: order == "F" })
}

/// The formats whose metadata Python reads and writes.
fn format_name(py: Python<'_>, name: &str) -> PyResult<&'static str> {
    match name {
        "tiff" => Ok("tiff"),
        _ => Err(to_python(py, Error::invalid(format!("{name:?} is not a format of described files")))),
    }
}

/// Opens a file whose elements are one block.
#[pyfunction]
#[pyo3(signature = (path, mode, format, shape, dtype, offset, order, attributes))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn open_file(
    py: Python<'_>,
    path: PathBuf,
    mode: &str,
    format: &str,
    shape: Vec<u64>,
    dtype: &str,
    offset: u64,
    order: &str,
    attributes: String,
) -> PyResult<Store> {
    let description = description(py, &shape, dtype, offset, order)?;
    let what = Described { description, format: format_name(py, format)?, attributes };
    open_as(py, &path, mode, &As::Described(what))
}

/// Opens a file whose elements are many blocks.
#[pyfunction]
#[pyo3(signature = (path, mode, format, shape, dtype, chunk, offsets, padded, attributes))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn open_chunks(
    py: Python<'_>,
    path: PathBuf,
    mode: &str,
    format: &str,
    shape: Vec<u64>,
    dtype: &str,
    chunk: Vec<u64>,
    offsets: PyReadonlyArray1<'_, u64>,
    padded: bool,
    attributes: String,
) -> PyResult<Store> {
    let (dtype, byte_order) = dtype_of(py, dtype)?;
    let what = Chunks {
        shape: shape.as_slice().into(),
        dtype,
        byte_order,
        chunk: chunk.as_slice().into(),
        offsets: offsets.as_array().iter().copied().collect(),
        padded,
        format: format_name(py, format)?,
        attributes,
    };
    open_as(py, &path, mode, &As::Chunked(what))
}

/// Opens a file whose elements are many encoded blocks. `chunks`: rows of offset, bytes, codecs left out, and the CRC-32 or a larger number.
#[pyfunction]
#[pyo3(signature = (path, mode, format, name, shape, dtype, chunk, chunks, codecs, fill, attributes))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn open_encoded(
    py: Python<'_>,
    path: PathBuf,
    mode: &str,
    format: &str,
    name: String,
    shape: Vec<u64>,
    dtype: &str,
    chunk: Vec<u64>,
    chunks: PyReadonlyArray2<'_, u64>,
    codecs: String,
    fill: Vec<u8>,
    attributes: String,
) -> PyResult<Store> {
    let (dtype, byte_order) = dtype_of(py, dtype)?;
    let rows = chunks.as_array();
    if rows.ncols() != 4 {
        let what = "chunks have an offset, bytes, codecs that are left out, and a checksum";
        return Err(to_python(py, Error::invalid(what)));
    }
    let one = |row: numpy::ndarray::ArrayView1<'_, u64>| EncodedChunk {
        offset: row[0],
        bytes: row[1],
        without: row[2] as u32,
        sum: u32::try_from(row[3]).ok(),
    };
    let what = EncodedChunks {
        shape: shape.as_slice().into(),
        dtype,
        byte_order,
        chunk: chunk.as_slice().into(),
        chunks: rows.rows().into_iter().map(one).collect(),
        codecs,
        fill,
        name,
        format: format_name(py, format)?,
        attributes,
    };
    open_as(py, &path, mode, &As::Encoded(what))
}

/// Opens a committed array for reading, in place of the store that wrote it. What of it is in memory
/// stays there.
#[pyfunction]
pub fn reopen(py: Python<'_>, store: &Store) -> PyResult<Store> {
    let (runtime, written) = store.inner(py)?;
    let path = written.info().path.clone();
    let fresh = run(py, &runtime, None, |_| store::open::open(runtime.disk(), &path, &As::Zarr, false))?;
    detached(py, || runtime.resident().rename(&written, &fresh))?;
    store.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(Store::new(fresh, &store.path))
}

#[pyfunction]
#[pyo3(signature = (path, format, shape, dtype, tile, order, codecs, zarr_format, labels, overwrite))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn create(
    py: Python<'_>,
    path: PathBuf,
    format: &str,
    shape: Vec<u64>,
    dtype: &str,
    tile: Option<Vec<u64>>,
    order: &str,
    codecs: Option<String>,
    zarr_format: u8,
    labels: &str,
    overwrite: bool,
) -> PyResult<Store> {
    let runtime = runtime(py)?;
    let (dtype, _) = dtype_of(py, dtype)?;
    let column_major = order == "F";
    let labels = labels_of(py, labels)?;
    let tile = tile.map(|t| t.as_slice().into());
    let format = match (format, pnm::Kind::from_name(format), codecs) {
        ("npy", ..) => NewFormat::Npy { column_major },
        ("raw", ..) => NewFormat::Raw { column_major },
        (_, Some(kind), _) => NewFormat::Pnm { kind, attributes: labels.attributes.to_map() },
        (_, None, Some(codecs)) => NewFormat::encoded(&path, dtype, zarr_format, codecs, tile, labels)
            .map_err(|e| to_python(py, e))?,
        (_, None, None) => NewFormat::Zarr { tile, encoding: Encoding::default(), labels },
    };
    let inner = run(py, &runtime, None, |_| {
        store::open::create(runtime.disk(), &path, &shape, dtype, format, overwrite).inspect(remember)
    })?;
    Ok(Store::new(inner, &path))
}

/// Where runs are: in stores of one row, in which of these each is, and where it begins there.
type Placed<'py> = (Vec<PyRef<'py, Store>>, Vec<(usize, u64)>);

/// Lines of sorted runs, merged `row` elements at a time; or what stands beside these in other runs. Places where runs
/// are cut are 4 bytes each.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn merged(
    py: Python<'_>,
    values: Placed<'_>,
    others: Option<Placed<'_>>,
    shape: [u64; 2],
    row: u64,
    low: &[u8],
    high: &[u8],
    descending: bool,
) -> PyResult<Store> {
    let runs = |(stores, starts): Placed<'_>| -> PyResult<Runs> {
        let stores = stores.iter().map(|store| Ok(store.inner(py)?.1)).collect::<PyResult<_>>()?;
        Ok(Runs { stores, starts })
    };
    let places = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|&place| u32::from_ne_bytes(place)).collect();
    let cuts = Cuts { row, low: places(low), high: places(high), descending };
    let made = MergedArray::of(runs(values)?, others.map(runs).transpose()?, shape, cuts)
        .map_err(|error| to_python(py, error))?;
    let path = made.info().path.clone();
    Ok(Store::new(made, &path))
}

/// What members of a JSON object are, as their text, without parsing the others; `None` for one that is not there.
#[pyfunction]
pub fn json_members<'py>(
    py: Python<'py>,
    text: &[u8],
    names: Vec<String>,
) -> Vec<Option<Bound<'py, PyBytes>>> {
    let member = |name: &String| Some(PyBytes::new(py, consolidated::member_text(text, name)?));
    names.iter().map(member).collect()
}

/// Bytes before the first element of a PGM, PPM or PAM file, which is not made.
#[pyfunction]
pub fn pnm_offset(
    py: Python<'_>,
    path: PathBuf,
    format: &str,
    shape: Vec<u64>,
    dtype: &str,
    attributes: &str,
) -> PyResult<u64> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let Some(kind) = pnm::Kind::from_name(format) else {
        return Err(to_python(py, Error::invalid(format!("{format:?} is no format of Netpbm's"))));
    };
    let header = pnm::Header::new(kind, &shape, dtype, &attributes_of(py, attributes)?);
    header.map(|h| h.data_offset).map_err(|e| to_python(py, e.at(&path)))
}

/// Makes a file of which Python made the metadata.
#[pyfunction]
#[pyo3(signature = (path, format, shape, dtype, offset, preamble, trailer, attributes, overwrite))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn create_file(
    py: Python<'_>,
    path: PathBuf,
    format: &str,
    shape: Vec<u64>,
    dtype: &str,
    offset: u64,
    preamble: Vec<u8>,
    trailer: Vec<u8>,
    attributes: String,
    overwrite: bool,
) -> PyResult<Store> {
    let runtime = runtime(py)?;
    let description = description(py, &shape, dtype, offset, "C")?;
    let what = Described { description, format: format_name(py, format)?, attributes };
    let new = NewFile { what, preamble, trailer };
    let inner = run(py, &runtime, None, |_| {
        store::open::create_file(runtime.disk(), &path, new, overwrite).inspect(remember)
    })?;
    Ok(Store::new(inner, &path))
}

#[pyfunction]
#[pyo3(signature = (target, function, progress))]
pub fn fill(
    py: Python<'_>,
    target: &Store,
    function: Py<PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let (runtime, to) = target.inner(py)?;
    let dtype = target.info.dtype;
    let mut raised = None;
    let result = {
        let raised = &mut raised;
        run(py, &runtime, progress, |watch| {
            let mut produce = |region: &ArrayBox, frame: &Arc<outcrop_store::frame::Frame>| {
                let called = Python::attach(|py| {
                    let out = array_over(py, Arc::clone(frame), &region.shape, dtype)?;
                    let _call = run_queue::call();
                    function.call1(py, (tuple(py, &region.start)?, out)).map(drop)
                });
                called.map_err(|exception| {
                    *raised = Some(exception);
                    Error::Interrupted
                })
            };
            outcrop_ops::boxes::fill::fill(&runtime, &to, &mut produce, watch).map(drop)
        })
    };
    match raised {
        Some(exception) => Err(exception),
        None => result,
    }
}
