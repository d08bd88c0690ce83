"""Where arrays come from."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.conversion import lazy_source, unmasked
from outcrop.arrays.data_sets import DataSetSource, NewDataSetSource
from outcrop.arrays.saving import create_store
from outcrop.arrays.source import FunctionSource, MemorySource
from outcrop.arrays.stamps import stamp_at
from outcrop.arrays.stored import StoreSource
from outcrop.checks import (
    ShapeLike,
    StrPath,
    check_device,
    check_dtype,
    check_order,
    check_path,
    check_shape,
)
from outcrop.errors import (
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    InvalidTypeError,
    OutcropError,
    UnsupportedError,
)
from outcrop.formats import (
    check_format,
    family_of,
    format_for,
    format_of,
    is_self_described,
    misnamed,
    other_format,
    recognised,
    same_format,
)
from outcrop.formats.codecs import Codecs, laid_out
from outcrop.formats.containers import CONTAINERS, Located, container_of, locate
from outcrop.formats.groups import only_member
from outcrop.formats.hdf5 import HDF5
from outcrop.formats.hdf5_names import checked_place
from outcrop.formats.labels import Labels, checked_labels, labels_of_new
from outcrop.process.config import ensure_configured
from outcrop.process.files import check_file

__all__ = ["DESCRIBED", "asarray", "create", "fromfunction", "of_indices", "open"]

DESCRIBED = re.compile(r"(?P<path>.+?):(?P<description>\s*\w+\s*=.*)", re.DOTALL)
"""A path with a description behind it, as there is on the command line."""


def open(
    path: StrPath,
    mode: str = "r",
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    offset: int = 0,
    order: str = "C",
    format: str | None = None,
    page: int = 0,
) -> Array:
    """Open an array on disk. Nothing but its metadata is read.

    Parameters
    ----------
    path : str or os.PathLike
        A Zarr array (v3 or v2), a ``.npy`` file, a PGM, PPM or PAM file, a TIFF file without
        compression (see Notes), a data set of an HDF5 or NetCDF 4 file (``"a.h5/group/name"``), a
        Zarr array in a zip archive (``"a.zarr.zip/group/name"``), or a raw file: bare elements. Of
        an HDF5 file, an archive, or a group of Zarr arrays, that holds one array only, that one.
    mode : {"r", "r+"}
        For reading, or for reading and writing. Changes become visible at `Array.close`.
    shape : int or sequence of int, optional
        Raw files only, and needed there: extents along each axis. The file may be longer.
    dtype : dtype_like, optional
        Raw files only, and needed there. May be big-endian; elements are native in memory.
    offset : int
        Raw files only: bytes before the first element.
    order : {"C", "F"}
        Raw files only: row-major or column-major.
    format : {"zarr", "npy", "raw", "pgm", "ppm", "pam", "pnm", "tiff", "hdf5", "zip"}, optional
        Default: by what is there. With `shape` and `dtype`, a file is raw. ``"pnm"`` is any of
        the three before it.
    page : int
        TIFF only: which of the images in the file, counted from 0.

    Returns
    -------
    Array
        The array, lazy.

    Raises
    ------
    ArrayNotFoundError
        There is none.
    ArrayBusyError
        Mode is ``"r+"``, and another writer has it.
    CorruptArrayError
        Its metadata is damaged, or the file is too short.
    UnsupportedError
        Its dtype, a codec or its version is not known.
    StorageError, StoragePermissionError
        The operating system refuses.
    InvalidArgumentError, InvalidTypeError
        An argument makes no sense.

    Notes
    -----
    The shape of an image is ``(height, width)``, or ``(height, width, samples)`` where its pixels
    have several samples; of a TIFF image that is stored plane by plane, ``(samples, height,
    width)``. TIFF needs the package ``tifffile`` (``outcrop[tiff]``). Images whose strips follow
    one another in the file can be opened with ``"r+"``, tiled ones only for reading.

    HDF5 and NetCDF 4 need the package ``h5py`` (``outcrop[hdf5]``), and are opened for reading
    only; `create` and `Array.save` make new data sets. Data sets as they are, or through deflate,
    shuffle, fletcher32, Zstandard and Blosc, are read where they lie, with the bytes that plans
    say; ``h5py`` decodes the others a few chunks at a time, which are counted as bytes of elements.
    Names of dimensions, attributes and the fill value go along. Nothing is scaled: ``scale_factor``
    and the like are attributes. No link to another file is followed.

    Zip archives, such as ``zarr.storage.ZipStore`` writes, are only read as well. Chunks are read
    where they lie, with the bytes that plans say, through gzip, zlib, bz2, Zstandard, Blosc,
    shuffle and checksums, and compared with the checksums of zip; those of chunks without codecs,
    of which parts are read, by ``outcrop verify`` only. Shards, transposed chunks and other codecs
    need the package ``zarr`` (``outcrop[zarr]``), which decodes them a few at a time, counted as
    bytes of elements. What zip itself has compressed is read the same way.

    Examples
    --------
    >>> np.arange(12, dtype=">f4").tofile("page.raw")
    >>> oc.open("page.raw", shape=(3, 4), dtype=">f4")[1].compute()
    array([4., 5., 6., 7.], dtype=float32)

    >>> _ = oc.asarray(np.full((4, 6, 3), [255, 128, 0], "uint8")).save("orange.ppm")
    >>> image = oc.open("orange.ppm")
    >>> image.shape, image[2, 3].compute(), image.attributes
    ((4, 6, 3), array([255, 128,   0], dtype=uint8), {'maxval': 255})

    >>> import h5py
    >>> with h5py.File("sea.h5", "w") as file:
    ...     file["day/heat"] = np.arange(6.0).reshape(2, 3)
    >>> oc.open("sea.h5/day/heat")[1].compute()
    array([3., 4., 5.])
    """
    name = check_path(path)
    if mode not in ("r", "r+"):
        hint = "; oc.create makes a new array" if mode in ("w", "w+", "w-", "x", "a") else ""
        raise InvalidArgumentError(f"mode must be 'r' or 'r+', got {mode!r}{hint}")
    if written := _as_keywords(name):
        raise ArrayNotFoundError(
            f"{name}: there is no array here; on the command line a description stands in the "
            f"path, and here beside it: {written}"
        )
    if format is not None and format not in CONTAINERS:
        check_format(format)
    if isinstance(page, bool) or not isinstance(page, int | np.integer) or page < 0:
        raise InvalidArgumentError(f"page must be an integer from 0 on, got {page!r}")
    order = check_order(order)
    if (format is None or format in CONTAINERS) and shape is None and dtype is None:
        where = locate(name, format)
        if where is not None:
            return _opened_inside(name, where, mode, {"page": page, "offset": offset})
    if format in CONTAINERS:
        raise _no_container(name, format, described=shape is not None or dtype is not None)
    if format is None and looks_raw(name, described=shape is not None or dtype is not None):
        format = "raw"
    if format in (None, "zarr") and (member := only_member(name)) is not None:
        name = member
    if not os.path.isdir(name):
        # Before it is asked what it holds, which nobody can say of a named pipe.
        check_file(name)
    ensure_configured()
    seen = stamp_at(name) if mode == "r" else None
    if format != "raw":
        if shape is not None or dtype is not None or offset != 0 or order != "C":
            raise InvalidArgumentError(
                f"{name}: shape=, dtype=, offset= and order= describe raw files; this one says "
                "itself what it is (format='raw' reads it as bare elements)"
            )
        if os.path.isfile(name) and os.path.getsize(name) == 0:
            raise CorruptArrayError(f"{name}: the file is empty")
        family = family_of(format or recognised(name))
        if family:
            store = family.open(name, mode, int(page))
            again: Callable[[], _native.Store]
            again = partial(family.open, os.path.abspath(name), "r", int(page))
            if format and not same_format(format, store.format):
                raise InvalidArgumentError(f"{name}: is a {store.format} file, and not {format}")
        elif page:
            raise InvalidArgumentError(f"{name}: page= is for TIFF files")
        elif format is None and (wrong := misnamed(name)):
            raise CorruptArrayError(f"{name}: {wrong}")
        elif format is None and (found := other_format(name)):
            raise UnsupportedError(f"{name}: {found}")
        else:
            store = _native.open(name, mode, format, None, None, 0, "C")
            again = _opening(name, format, None, None, 0, "C")
        once_more = again if mode == "r" else None
        source = StoreSource(store, mode, path=name, page=int(page), again=once_more, seen=seen)
        return Array(source)
    if page:
        raise InvalidArgumentError(f"{name}: page= is for TIFF files")
    if shape is None or dtype is None:
        missing = [word for word, given in (("shape=", shape), ("dtype=", dtype)) if given is None]
        raise InvalidArgumentError(
            f"{name}: {says_nothing(name)}; pass {' and '.join(missing)}, such as "
            f"oc.open({name!r}, shape=(rows, columns), dtype='float32')"
        )
    kind = check_dtype(dtype, swapped=True)
    extents = check_shape(shape, kind)
    if isinstance(offset, bool) or not isinstance(offset, int | np.integer) or offset < 0:
        raise InvalidArgumentError(f"offset must be a number of bytes, got {offset!r}")
    given = (format, extents, kind.str, int(offset), order)
    store = _native.open(name, mode, *given)
    once_more = _opening(name, *given) if mode == "r" else None
    source = StoreSource(store, mode, path=name, offset=int(offset), again=once_more, seen=seen)
    return Array(source)


def _opened_inside(name: str, where: Located, mode: str, options: Mapping[str, int]) -> Array:
    title = where.kind.title
    for option, value in options.items():
        if value:
            raise InvalidArgumentError(f"{name}: {option}= is not for {title}")
    if mode != "r":
        raise UnsupportedError(
            f"{name}: {where.kind.unchanged}; A.save('NAME.zarr') (or outcrop convert) makes an "
            f"array of it that can be written to, and {where.kind.writing}"
        )
    ensure_configured()
    return Array(DataSetSource(where, stamp_at(where.file)))


def _no_container(name: str, format: str, *, described: bool) -> OutcropError:
    """What is wrong with what is to be opened as a file that holds several arrays."""
    what = CONTAINERS[format].file
    if described:
        return InvalidArgumentError(
            f"{name}: shape= and dtype= describe raw files, and {what}s say themselves"
        )
    if not os.path.lexists(name):
        return ArrayNotFoundError(f"{name}: there is no array here")
    check_file(name)
    return CorruptArrayError(f"{name}: is no {what}: it does not begin like one")


def _opening(name: str, *given: Any) -> Callable[[], _native.Store]:
    """What opens an array once more for reading, wherever the process has gone meanwhile."""
    return partial(_native.open, os.path.abspath(name), "r", *given)


def looks_raw(name: str, *, described: bool) -> bool:
    """Whether what stands at a path is taken for a raw file, if no format is given."""
    if format_of(name) == "raw":
        return not os.path.isdir(name) and (described or container_of(name) is None)
    return described and not is_self_described(name) and os.path.isfile(name)


def _as_keywords(name: str) -> str | None:
    """How what the command line takes for a raw file is written in Python; None for other paths."""
    match = DESCRIBED.fullmatch(name)
    # A file may be called anything.
    if match is None or os.path.lexists(name):
        return None
    given = []
    for item in filter(None, match["description"].split(",")):
        key, _, value = (part.strip() for part in item.partition("="))
        if key not in ("shape", "dtype", "offset", "order"):
            return None
        extents = [] if value == "()" else value.lower().split("x")
        if key in ("shape", "offset") and all(extent.isdecimal() for extent in extents):
            numbers = tuple(map(int, extents))
            given.append(f"{key}={numbers if key == 'shape' else value}")
        else:
            given.append(f"{key}={value!r}")
    return f"oc.open({match['path']!r}, {', '.join(given)})"


def says_nothing(name: str) -> str:
    """What is wrong with a raw file that nobody describes."""
    if not os.path.exists(name):
        # Said first: advice on how to describe a file that is not there helps nobody.
        raise ArrayNotFoundError(f"{name}: there is no array here")
    check_file(name)
    if found := other_format(name):
        raise UnsupportedError(f"{name}: {found}; as a raw file, it has to be described")
    return f"a raw file ({Path(name).stat().st_size} bytes) does not say what it holds"


def create(
    path: StrPath,
    shape: ShapeLike,
    dtype: DTypeLike = np.float64,
    *,
    tile: ShapeLike | None = None,
    format: str | None = None,
    order: str = "C",
    codecs: Codecs | None = None,
    zarr_format: int | None = None,
    layout: str | None = None,
    thickness: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    fill_value: Any = None,
    overwrite: bool = False,
) -> Array:
    """Make a new array on disk, filled by assignment.

    It becomes visible, all at once, when it is closed: by `Array.close`, at the end of its
    ``with``, when nothing refers to it any more, or when the interpreter exits normally. An
    exception inside the ``with``, or one that ends a script, leaves nothing. Elements that were
    never assigned are zero, or `fill_value`.

    Parameters
    ----------
    path : str or os.PathLike
        Where. ``"a.h5/group/name"`` is a data set of an HDF5 file, which is made, or takes the
        place of one that is there, with all else that is in that (see `Array.save`).
    shape : int or sequence of int
        Extents along each axis.
    dtype : dtype_like
        bool, a signed or unsigned integer of 8 to 64 bits, float32, float64, complex64 or
        complex128; in native byte order.
    tile : int or sequence of int, optional
        Zarr only: shape of a tile, one integer for the same extent along every axis. Default:
        from 1 MiB for small arrays to 16 MiB for terabytes, or an eighth of a small memory budget;
        whole rows of tables, square in the two largest dimensions of others, in three of cubes.
    format : {"zarr", "npy", "raw", "pgm", "ppm", "pam", "pnm", "tiff", "hdf5"}, optional
        Default: by suffix; ``.npy`` is npy, ``.raw``, ``.bin`` and ``.dat`` are raw, ``.pgm``,
        ``.ppm``, ``.pam`` and ``.pnm`` (whichever of them fits) are Netpbm's, ``.tif`` and
        ``.tiff`` are TIFF; what leads into a file with one of the suffixes of HDF5 (``.h5``,
        ``.hdf5``, ``.hdf``, ``.he5``), or into one that is HDF5, is a data set of that; everything
        else is Zarr.
    order : {"C", "F"}
        npy and raw only: row-major or column-major.
    codecs : str or sequence of mapping, optional
        Zarr only: a short word such as ``"zstd"``, ``"gzip:6"`` or ``"blosc:lz4:5"``, or codecs
        as in ``zarr.json`` (in version 2, a compressor as in ``.zarray``). Default: bytes, then
        crc32c.
    zarr_format : {3, 2}, optional
        Zarr only: the version of Zarr. Default: that of the group in which the array will stand,
        else 3.
    layout : {"tiled", "frontier"}, optional
        Zarr only: how elements lie in a tile's file. ``"frontier"``: the tile's first and
        last `thickness` indices along each axis lie beside the interior, so that each of
        these frontiers, too, is one contiguous read; what is in the corners is stored in
        several. Default: in row-major order.
    thickness : int, optional
        Of frontiers: at most half of each extent of a tile. Default: 1.
    attributes : mapping, optional
        Zarr: what to keep beside the array, as JSON. HDF5: texts, numbers, and lists of them. PGM,
        PPM, PAM: ``maxval``, and for PAM ``tupltype``. TIFF: ``photometric``, ``planarconfig``
        (``"separate"`` for an array of shape ``(samples, height, width)``), ``extrasamples``,
        ``resolution`` (two numbers), ``resolutionunit`` and ``orientation``, with the names of the
        package ``tifffile``; and the texts ``description``, ``documentname``, ``pagename``,
        ``make``, ``model``, ``datetime``, ``artist``, ``hostcomputer`` and ``copyright``.
    dimension_names : sequence of str or None, optional
        Zarr and HDF5: a name or None for every axis. Default: in a group, where xarray needs them,
        names with the array's own in front (``"NAME_dim_0"``); elsewhere none.
    fill_value : scalar, optional
        Zarr only: what elements are that were never assigned. Default: zero, which programs that
        mask fill values do not mask.
    overwrite : bool
        Whether to replace an array that stands there. It stays until the new one is closed.

    Returns
    -------
    Array
        Writable.

    Raises
    ------
    ArrayExistsError
        Something stands there, and `overwrite` is False.
    UnsupportedError
        The dtype is none of those, or the format cannot hold it, or the shape.
    InvalidArgumentError, InvalidTypeError
        An argument makes no sense.
    StorageFullError, StorageError, StoragePermissionError
        It cannot be made there.

    Examples
    --------
    >>> with oc.create("grid.zarr", (400, 300), "float32", tile=(100, 100)) as A:
    ...     A[:, 0] = 1
    ...     A[200:, 1:] = A[:200, :1]
    >>> oc.open("grid.zarr")[198:202, :2].compute()
    array([[1., 0.],
           [1., 0.],
           [1., 1.],
           [1., 1.]], dtype=float32)

    >>> with oc.create("u.zarr", (400, 300), tile=100, layout="frontier", thickness=2) as u:
    ...     u[100:102] = 1
    >>> u = oc.open("u.zarr")
    >>> u.layout, u.thickness, u[101, :3].compute()
    ('frontier', 2, array([1., 1., 1.]))
    """
    kind = check_dtype(dtype)
    extents = check_shape(shape, kind)
    name = check_path(path)
    format = format_for(name, format)
    codecs = laid_out(name, format, layout, thickness, codecs)
    wishes = checked_labels(
        name,
        format,
        extents,
        kind,
        attributes=attributes,
        dimension_names=dimension_names,
        fill_value=fill_value,
    )
    version, labels = labels_of_new(name, format, extents, zarr_format, wishes, Labels())
    if format == HDF5 and tile is not None:
        raise UnsupportedError(
            f"{name}: a data set of HDF5 whose elements are assigned is made in one block, and not "
            "in chunks; save takes tile="
        )
    if format == HDF5 and not labels.fills_with_zeros:
        raise UnsupportedError(
            f"{name}: elements of a new data set of HDF5 are zero before they are assigned; save "
            "takes any fill_value="
        )
    store = create_store(
        path,
        extents,
        kind,
        tile=tile,
        format=format,
        order=order,
        codecs=codecs,
        zarr_format=version if format == "zarr" else zarr_format,
        labels=labels,
        overwrite=overwrite,
    )
    if format == HDF5:
        return Array(NewDataSetSource(store, *checked_place(name), labels))
    return Array(StoreSource(store, "r+"))


def fromfunction(f: Callable[..., Any], shape: ShapeLike, dtype: DTypeLike = np.float64) -> Array:
    """Describe an array by a function of its indices. Nothing is computed yet.

    Parameters
    ----------
    f : callable
        Called for a box of the array at a time (a tile, or the part of one that is wanted) with
        one int64 array per axis: the indices along it, shaped to broadcast against the others.
        Returns the elements of the box, or what broadcasts to its shape. It may be called more
        than once for the same box, so equal indices have to give equal elements.
    shape : int or sequence of int
        Extents along each axis.
    dtype : dtype_like
        Element type. Results of `f` are cast to it under NumPy's rule ``"same_kind"``.

    Returns
    -------
    Array
        Lazy, read-only. What `f` raises comes out of the method that needed its result.

    Raises
    ------
    InvalidArgumentError
        The shape makes no sense; when computed: a result has the wrong shape.
    InvalidTypeError
        `f` cannot be called; when computed: a result does not cast to `dtype`.
    UnsupportedError
        The dtype is not supported.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: np.exp(-abs(i - j) / 100), (20000, 20000))
    >>> A
    <outcrop.Array float64 (20000, 20000) 3.0 GiB, function <lambda>>
    >>> A[5000, 5000:5003].compute().round(3)
    array([1.  , 0.99, 0.98])
    """
    if not callable(f):
        raise InvalidTypeError(f"expected a function, got {type(f).__name__}")
    return _of_function(f, shape, dtype, calls_back=True)


def of_indices(f: Callable[..., Any], shape: ShapeLike, dtype: DTypeLike) -> Array:
    """As `fromfunction`, of a function of our own, which reads nothing."""
    return _of_function(f, shape, dtype, calls_back=False)


def _of_function(
    f: Callable[..., Any], shape: ShapeLike, dtype: DTypeLike, *, calls_back: bool
) -> Array:
    kind = check_dtype(dtype)
    return Array(FunctionSource(f, check_shape(shape, kind), kind, calls_back=calls_back))


def asarray(
    x: ArrayLike | Array,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Array:
    """Take an array in memory, or one of another library, as an `Array`.

    Parameters
    ----------
    x : Array or array_like
        An `Array` comes back as it is. A NumPy array of the right dtype is taken as it is, so
        assigning to elements of either changes both. Expressions do not notice what is written to
        the NumPy array itself: they give what is there when they are computed. (What is assigned
        to the `Array` does not change expressions that were made of it before.) An array of
        another library (a dataset of h5py, an array of Zarr-Python, Dask or xarray; whatever has
        a ``shape``, a ``dtype`` of NumPy's, and slices) is not read now, but by that library, a
        chunk at a time, when it is needed. It must not change meanwhile: that cannot be noticed.
        (A copy of it is read now: to memory, or to the scratch directory where it is large.)
        Memory that the library takes for itself, such as for the tasks of Dask or for caches, does
        not count to the budget. A long `range` is described, as by `arange`.
    dtype : dtype_like, optional
        Default: that of `x`, in native byte order. An `Array` is converted as `Array.astype` does,
        when it is computed.
    device : {"cpu"}, optional
        The only one that there is.
    copy : bool, optional
        True: `x` is copied, so that nobody else can change the elements. False: it is an error
        where it cannot be taken as it is. Default: it is copied where it has to be.

    Returns
    -------
    Array
        With `layout` ``"memory"``, unless `x` is an `Array`, one of another library, or a long
        `range`.

    Raises
    ------
    UnsupportedError
        The dtype is not supported, or some of `x` is masked.
    InvalidArgumentError
        `copy` is False, and a copy is needed.
    InvalidTypeError
        `x` has arrays by name, as a file of h5py has.
    BudgetError
        NumPy takes more to make an array of a list, or another sequence, than is free of the
        memory budget.

    Examples
    --------
    >>> oc.asarray([[1, 2, 3], [4, 5, 6]])[:, ::-1]
    <outcrop.Array int64 (2, 3) 48 bytes, memory[0:2, 2::-1]>
    """
    check_device(device)
    kind = None if dtype is None else check_dtype(dtype)
    if isinstance(x, Array):
        if kind is None or kind == x.dtype:
            return x.copy() if copy else x
        if copy is False:
            raise InvalidArgumentError(
                f"Unable to avoid copy while creating an array as requested: {x.dtype} is not "
                f"{kind}"
            )
        return x.astype(kind)
    lazy = lazy_source(x)
    if lazy is not None:
        if copy is False:
            raise InvalidArgumentError(
                f"Unable to avoid copy while creating an array as requested: {type(x).__name__} is "
                "no array in memory, and its elements are copied as they are read"
            )
        found = Array(lazy)
        found = found if kind is None or kind == found.dtype else found.astype(kind)
        return found.copy() if copy else found
    if isinstance(x, Mapping):
        raise InvalidTypeError(
            f"a {type(x).__name__} is no array, but has arrays by name; pass one of them, such as "
            f"x[{str(next(iter(x), 'NAME'))!r}]"
        )
    if isinstance(x, str | os.PathLike):
        raise InvalidTypeError(
            f"{os.fspath(x)!r} is no array; oc.open opens what is stored at a path"
        )
    array = unmasked(x, kind)
    own = check_dtype(array.dtype, swapped=True)
    if not own.isnative:
        own = own.newbyteorder("=")
    try:
        # Of what is no NumPy array, nobody but NumPy knows.
        taken = np.asarray(x if copy is False else array, own, copy=copy)
    except ValueError as error:
        if copy is not False:
            raise
        raise InvalidArgumentError(str(error)) from None
    ours = copy or isinstance(x, list | tuple | int | float | complex | np.generic)
    ours = ours or (isinstance(x, np.ndarray) and not np.may_share_memory(taken, x))
    return Array(MemorySource(taken, owned=bool(ours)))
