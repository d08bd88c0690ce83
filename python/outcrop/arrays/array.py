"""The array that a user holds."""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from outcrop.arrays import hooks
from outcrop.arrays.assignment import assign_array, assign_value, read_pieces
from outcrop.arrays.attached import Attach
from outcrop.arrays.chunking import Chunks, regular_chunks
from outcrop.arrays.computed import ComputedSource
from outcrop.arrays.conversion import lazy_source
from outcrop.arrays.kept import clear_kept
from outcrop.arrays.operators import Operators
from outcrop.arrays.pieces import converted_itemsize, with_length
from outcrop.arrays.public_names import missing_attribute
from outcrop.arrays.reducing import Reducing
from outcrop.arrays.saving import save
from outcrop.arrays.scalar_masks import indexed
from outcrop.arrays.shaping import Shaping, by_numpy
from outcrop.arrays.source import ConjugateSource, Source, fitting_tile
from outcrop.arrays.standard import Standard
from outcrop.arrays.views import NewAxis, View, is_array
from outcrop.checks import ShapeLike, StrPath, check_path
from outcrop.errors import (
    BudgetError,
    InvalidArgumentError,
    InvalidTypeError,
)
from outcrop.formats import format_for
from outcrop.formats.codecs import LAYOUTS, Codecs, laid_out
from outcrop.process.config import memory_budget, piece_limit
from outcrop.process.room import charge, room
from outcrop.process.sizes import format_bytes, html_table

__all__ = ["Array"]

_T = TypeVar("_T")

_CHUNKS = 48
"""How many chunks of what is not stored memory holds."""

_BYTES_IN_A_LIST = 48
"""Of each element, with its place in the list."""


def _is_comparable(value: object) -> bool:
    """Whether there are numbers to compare with."""
    return value is not None and not isinstance(value, str | bytes)


def _names_elements(key: Any) -> bool:
    """Whether there is an array in a key."""
    return any(map(is_array, key)) if isinstance(key, tuple) else is_array(key)


class Array(Shaping, Reducing, Standard, Operators):
    """An n-dimensional array that need not fit in memory.

    Made by `open`, `create`, `fromfunction` and `asarray`, not directly. Indexing gives another
    `Array`, a view, and reads nothing; `compute`, `numpy.asarray`, `tiles` and `save` read.
    Assignment to a key writes to disk.

    Items of a key may be arrays of integers, and masks. A mask that is an `Array` is computed at
    once, because it decides on the shape. Where the indices, 8 bytes each, take more than an eighth
    of the memory budget, what they select is computed as well: to memory, or to the scratch
    directory where it takes more than an eighth, too.

    Everything else that is made of arrays, such as ``A + 1``, ``A.sum()``, ``A[[3, 1]]`` or
    ``oc.linalg.solve(A, b)``, is an expression, and means its operands as they were when it was
    made. An array in memory is copied before something is assigned to it that an expression needs.
    Where an array on disk has changed since, by whatever program, every use of the expression
    raises `StaleOperandError`; a change in the midst of one does, too. A NumPy array is taken as it
    is: what is written to it directly, all expressions of it see. Views, such as ``A[2:5]`` and
    ``A.T``, are NumPy's views: they see what is assigned.

    An array that `create` made, and changes to one that `open` gave in mode ``"r+"``, become
    visible to others when the array is closed: by `close`, at the end of its ``with``, when
    neither it nor a view of it is referred to any more, or when the interpreter exits normally.

    Examples
    --------
    >>> with oc.create("squares.zarr", (1000,), "int64", tile=100) as A:
    ...     A[...] = np.arange(1000) ** 2
    >>> A = oc.open("squares.zarr")
    >>> A
    <outcrop.Array int64 (1000,) 7.8 KiB, tiled 100, zarr 'squares.zarr'>
    >>> A[10:20:3].compute()
    array([100, 169, 256, 361])
    """

    __slots__ = ("__weakref__", "_chunks", "_source", "_view")

    def __init__(self, source: Source, view: View | None = None) -> None:
        self._chunks: Chunks | None = None
        self._source = source
        self._view = View.whole(source.shape) if view is None else view

    # -- what it is --------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents along each axis."""
        return self._view.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type, in native byte order."""
        return self._source.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._view.axes)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._view.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory; on disk it may be less or more."""
        return self.size * self.itemsize

    @property
    def T(self) -> "Array":  # noqa: N802
        """A view with the axes in reverse order.

        Examples
        --------
        >>> A = oc.fromfunction(lambda i, j: 10 * i + j, (3, 2), "int64")
        >>> A.T
        <outcrop.Array int64 (2, 3) 48 bytes, function <lambda>, transposed>
        >>> A.T[1].compute()
        array([ 1, 11, 21])
        """
        return self.transpose()

    @property
    def mT(self) -> "Array":  # noqa: N802
        """A view with the last two axes exchanged: a stack of matrices, each transposed.

        Raises
        ------
        InvalidArgumentError
            There are fewer than two axes.
        """
        if self.ndim < 2:
            raise InvalidArgumentError("matrix transpose with ndim < 2 is undefined")
        *outer, row, column = range(self.ndim)
        return self.transpose(*outer, column, row)

    def transpose(self, *axes: Any) -> "Array":
        """A view with the axes in another order, which reads nothing.

        Parameters
        ----------
        *axes : int
            For each axis of the view, which axis of this array it is; also as one sequence.
            Default: all of them in reverse order.

        Raises
        ------
        BoxIndexError
            An axis out of bounds.
        InvalidArgumentError
            Too few axes, too many, or one twice.

        Examples
        --------
        >>> A = oc.fromfunction(lambda i, j, k: i + j + k, (2, 3, 4))
        >>> A.transpose(2, 0, 1)
        <outcrop.Array float64 (4, 2, 3) 192 bytes, function <lambda>, transposed (2, 0, 1)>
        """
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Iterable)):
            return Array(self._source, self._view.transpose(axes[0]))
        return Array(self._source, self._view.transpose(axes or None))

    def conj(self) -> "Array":
        """The complex conjugate of every element, which reads nothing.

        ``A.conj().T @ B`` conjugates while it multiplies. Of real numbers, this is the array
        itself; of complex ones an expression, which means them as they are now.

        Examples
        --------
        >>> A = oc.fromfunction(lambda i, j: i + 1j * j, (2, 2), "complex128")
        >>> A.conj().T.compute()
        array([[0.-0.j, 1.-0.j],
               [0.-1.j, 1.-1.j]])
        """
        if self.dtype.kind != "c":
            return self
        if isinstance(self._source, ConjugateSource):
            return Array(self._source.source, self._view)
        if isinstance(self._source, ComputedSource) and self._source.result is None:
            made: Array = np.conjugate(self)  # type: ignore[assignment]
            return made
        return Array(ConjugateSource(self._source.now()), self._view)

    @property
    def tile(self) -> tuple[int, ...]:
        """Shape of the boxes that are moved as a unit, in elements of this array.

        Along an axis with a step, a tile of the array on disk holds fewer selected elements.
        """
        view, result = self._view, []
        for position, axis in enumerate(view.axes):
            if isinstance(axis, NewAxis):
                result.append(1)
                continue
            tile, span = self._source.tile[axis], view.span(position)
            whole = view.selectors[axis] == View.whole(view.source_shape).selectors[axis]
            selected = max(tile // abs(span.step), 1)
            result.append(tile if whole else min(selected, max(span.length, 1)))
        return tuple(result)

    @property
    def chunks(self) -> Chunks:
        """The extents of tiles along each axis, one after the other, as Dask has them.

        Of what is not stored, such as would suit it: those of the largest stored array of its shape
        that it is made of, or default ones, and parts of them where memory does not hold dozens. In
        which parts it is computed is planned.

        Examples
        --------
        >>> oc.asarray(np.eye(5)).save("eye.zarr", tile=(2, 5)).chunks
        ((2, 2, 1), (5,))
        """
        if self._chunks is not None:
            return self._chunks
        if self.path is not None:
            return regular_chunks(self.shape, self.tile)
        alike = self._source.tile_alike if self._view.is_whole else None
        return regular_chunks(self.shape, fitting_tile(self.shape, self.dtype, _CHUNKS, alike))

    @property
    def layout(self) -> str:
        """How the elements lie.

        ``"tiled"``, ``"frontier"``, ``"row-major"`` or ``"column-major"`` on disk; ``"memory"``;
        ``"function"``; ``"computed"`` for what is not computed yet.
        """
        return self._source.layout if self.thickness is None else "frontier"

    @property
    def thickness(self) -> int | None:
        """How many elements thick the frontiers are that are stored beside tiles.

        None where there are none.

        Examples
        --------
        >>> oc.asarray(np.eye(8)).save("eye.zarr", tile=4, layout="frontier").thickness
        1
        """
        return self._source.thickness

    @property
    def format(self) -> str | None:
        """On disk ``"zarr"``, ``"zarr-foreign"`` (made by another program), ``"npy"``, ``"raw"``.

        ``"pgm"``, ``"ppm"``, ``"pam"`` or ``"tiff"`` of an image, ``"hdf5"`` of a data set of HDF5
        or NetCDF 4, ``"zip"`` of a Zarr array in a zip archive. None elsewhere.
        """
        return self._source.format

    @property
    def path(self) -> Path | None:
        """Where it is stored, None where it is not; a data set's name follows that of its file."""
        return self._source.path

    @property
    def attributes(self) -> dict[str, Any]:
        """What is stored beside the elements. A copy: changes to it are not stored.

        Zarr's, and HDF5's as far as JSON can say them; of an image, what `outcrop.create` takes
        for its format. Empty elsewhere.
        """
        return self._source.attributes

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The names of the axes, each with its axis; None where there are none.

        Those of a Zarr array, version 2 included, where xarray keeps them as an attribute; of a
        data set of HDF5, the names of its dimension scales, or its labels.

        Examples
        --------
        >>> with oc.create("sea.zarr", (2, 3, 4), dimension_names=("time", "y", "x")) as A:
        ...     A[...] = 1
        >>> oc.open("sea.zarr")[0, :, None].T.dimension_names
        ('x', None, 'y')
        """
        names = self._source.dimension_names
        if names is None:
            return None
        return tuple(names[a] if isinstance(a, int) else None for a in self._view.axes)

    @property
    def fill_value(self) -> Any:
        """What elements are that were never written, where Zarr or HDF5 says so, else None."""
        return self._source.fill_value

    @property
    def writable(self) -> bool:
        """Whether elements can be assigned."""
        return self._source.writable

    # -- selecting and assigning -------------------------------------------------------------

    def __getitem__(self, key: Any) -> "Array":
        if _names_elements(key):
            return hooks.selected(self, key)
        return Array(self._source, indexed(self._view, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the elements that a key names, as in NumPy.

        Views of the array see the new elements. An expression means its operands as they were when
        it was made: of an array in memory, it keeps the old elements; of one on disk, using it
        raises `StaleOperandError` from now on. Where an assignment fails or is interrupted between,
        an array on disk is not left half changed: closing it then raises `StorageError`, and its
        old state stays, unless all of it was assigned meanwhile. (Files that are changed in place,
        such as ``.npy``, have no old state.)
        """
        if _names_elements(key):
            for used in (key, value) if not isinstance(key, tuple) else (*key, value):
                if isinstance(used, Array):
                    used._source.check_open()
            with self._source.changing(whole=False):
                hooks.assigned(self, key, value)
            return
        view = indexed(self._view, key)
        if isinstance(value, Array):
            value._source.check_open()
        else:
            lazy = lazy_source(value)
            value = value if lazy is None else Array(lazy)
        with self._source.changing(whole=view.is_whole):
            if isinstance(value, Array):
                assign_array(self._source, view, value)
            else:
                assign_value(self._source, view, value)

    @property
    def attach(self) -> Attach:
        """What keeps elements in memory until they are released: ``with A.attach[key] as rows``.

        Indexed with integers and slices of step 1, it gives an `Attachment`. Its ``with`` gives a
        NumPy array, and releases it at the end; without, that is its ``array``, and `release` lets
        go. The same elements have the same address for as long as they are attached, however
        often that is, and so have parts of them. They count to the memory budget.

        Of an array that can be written the elements can be, and are written back with the last
        release, as an assignment would do it; but what an exception ends is discarded, and so is
        what `discard` lets go. The array itself, and what is computed of it, has the new elements
        from then on, and until then others cannot be assigned to their place. What is never
        released is when nothing shows it any more, or the array is closed, with a warning.

        Raises
        ------
        BudgetError
            They are larger than what is free of the memory budget. Names the least that works.
        ArrayBusyError
            The array can be written, and a part of them is attached. Attach first what contains
            the other.
        UnsupportedError
            Steps other than 1; arrays that are computed.

        Examples
        --------
        >>> A = oc.create("sums.zarr", (1000, 3), "int64")
        >>> with A.attach[:10] as rows:
        ...     rows[:, 0] = range(10)
        ...     rows[1:, 1] = rows[:-1, 0] + rows[1:, 0]
        >>> A[8:11, :2].compute()
        array([[ 8, 15],
               [ 9, 17],
               [ 0,  0]])
        """
        return Attach(self._source, self._view)

    def __len__(self) -> int:
        if not self.ndim:
            raise InvalidTypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator["Array"]:
        if not self.ndim:
            raise InvalidTypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    # -- reading -----------------------------------------------------------------------------

    def compute(self) -> NDArray[Any]:
        """Read the array into memory.

        Returns
        -------
        numpy.ndarray
            An array of this shape and dtype that belongs to the caller, also where the source is
            an array in memory. Of shape ``()`` where this array is.

        Raises
        ------
        BudgetError
            Where it is larger than what is free of the memory budget, to which results count for
            as long as you hold them.
        CorruptArrayError, StorageError
            Where it cannot be read.

        Examples
        --------
        >>> oc.fromfunction(lambda i, j: 10 * i + j, (100, 10), "int64")[3:5, ::4].compute()
        array([[30, 34, 38],
               [40, 44, 48]])
        """
        self._check_fits(self.dtype)
        self._source.check_open()
        elements = self._source.read(self._view)
        self._source.check_current()
        charge(elements)
        return elements

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """The elements for NumPy: in memory that was passed in where they lie there, else a copy.

        Without a copy (``copy=False``), memory of our own can be looked at, and not be written to.
        """
        target = self.dtype if dtype is None else np.dtype(dtype)
        self._source.check_open()
        if not copy and target == self.dtype:
            lent = self._source.lend(self._view, is_asked=copy is False)
            if lent is not None:
                return lent
        if copy is False:
            raise InvalidArgumentError(
                "Unable to avoid copy while creating an array as requested: the elements are "
                "not in memory, or are of another type."
            )
        if target == self.dtype:
            return self.compute()
        each = converted_itemsize(self.dtype, target)
        self._check_fits(target, each)
        with room(self.size * each, "converted elements"):
            out = np.empty(self.shape, with_length(self.dtype, target))
            self._source.read_into(out, self._view)
            self._source.check_current()
        charge(out, self.size * each)
        return out

    def tiles(self) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Read the array tile by tile, ahead of the loop.

        Tiles larger than an eighth of the memory budget come in parts.

        Yields
        ------
        key : tuple of slice
            Where the block is: ``A[key]`` selects the same elements.
        block : numpy.ndarray
            The elements. It belongs to the caller.

        Examples
        --------
        >>> A = oc.fromfunction(lambda i, j: i + j, (2000, 2000))
        >>> float(sum(block.sum() for key, block in A.tiles()))
        7996000000.0
        """
        self._source.check_open()
        return read_pieces(self._source, self._view, merge=False)

    def _check_fits(self, dtype: np.dtype[Any], each: int | None = None) -> None:
        budget = memory_budget()
        nbytes = self.size * (dtype.itemsize if each is None else each)
        # What is not read in one go comes through a piece beside the result.
        direct = self._view.is_dense and dtype == self.dtype
        if nbytes + (0 if direct else min(piece_limit(), nbytes)) <= budget:
            return
        raise BudgetError(
            f"an array of shape {self.shape} and dtype {dtype} has {format_bytes(nbytes)} "
            f"({nbytes} bytes), and the memory budget is {format_bytes(budget)}; take a slice "
            "(A[...].compute()), go tile by tile (for key, block in A.tiles()), write it to disk "
            "(A.save(path)), or raise the budget (oc.config(memory=...))"
        )

    # -- writing -----------------------------------------------------------------------------

    def save(
        self,
        path: StrPath,
        *,
        tile: ShapeLike | None = None,
        format: str | None = None,
        order: str = "C",
        overwrite: bool = False,
        codecs: Codecs | None = None,
        zarr_format: int | None = None,
        layout: str | None = None,
        thickness: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        dimension_names: Sequence[str | None] | None = None,
        fill_value: Any = None,
        progress: Callable[[int, int], None] | None = None,
        resume: bool = False,
    ) -> "Array":
        """Write the array to disk, where it appears all at once when it is complete.

        Parameters
        ----------
        path : str or os.PathLike
            Where to. ``"a.h5/group/name"`` is a data set of an HDF5 file (see Notes).
        tile : int or sequence of int, optional
            Zarr: shape of a tile, one integer for the same extent along every axis; HDF5: that of
            a chunk, and one block by default. Default for Zarr: from 1 MiB for small arrays to 16
            MiB for terabytes, or an eighth of a small memory budget; whole rows of tables, square
            in the two largest dimensions of others, in three of cubes.
        format : {"zarr", "npy", "raw", "pgm", "ppm", "pam", "pnm", "tiff", "hdf5"}, optional
            Default: by suffix; ``.npy`` is npy, ``.raw``, ``.bin`` and ``.dat`` are raw, ``.pgm``,
            ``.ppm``, ``.pam`` and ``.pnm`` (whichever of them fits) are Netpbm's, ``.tif`` and
            ``.tiff`` are TIFF; what leads into a file with one of the suffixes of HDF5 (``.h5``,
            ``.hdf5``, ``.hdf``, ``.he5``), or into one that is HDF5, is a data set of that;
            everything else is Zarr.
        order : {"C", "F"}
            npy and raw only: row-major or column-major.
        overwrite : bool
            Whether to replace an array that stands there.
        codecs : str or sequence of mapping, optional
            Zarr only: a short word such as ``"zstd"``, ``"gzip:6"`` or ``"blosc:lz4:5"``, or
            codecs as in ``zarr.json`` (in version 2, a compressor as in ``.zarray``). Default:
            bytes, then crc32c.
        zarr_format : {3, 2}, optional
            Zarr only: the version of Zarr. Default: that of the group in which the array will
            stand, else 3.
        layout : {"tiled", "frontier"}, optional
            Zarr only: how elements lie in a tile's file. ``"frontier"``: the tile's first and
            last `thickness` indices along each axis lie beside the interior, so that each of
            these frontiers, too, is one contiguous read; what is in the corners is stored in
            several. Default: in row-major order.
        thickness : int, optional
            Of frontiers: at most half of each extent of a tile. Default: 1.
        attributes, dimension_names, fill_value : optional
            As for `outcrop.create`, in place of those that go with the array. Those are, of an
            array on disk or a view of it: its attributes, its fill value, and the names of its
            axes, each with its axis. An axis that is new has no name; a name that arrays beside
            the new one have for another extent gets the array's own in front. What xarray masks
            stays what it masks: in version 2 of Zarr by the fill value, in version 3 by the
            attribute ``_FillValue``. What is computed has none of them.
        progress : callable, optional
            Called with bytes done and bytes in all, at most ten times a second.
        resume : bool
            For a factor of a matrix that is stored, and for what sweeps give: go on where a run
            that was stopped, or killed, has got to, as `outcrop.save` does. Without, what such a
            run has left is removed.

        Returns
        -------
        Array
            The result, opened for reading. To images, those attributes go that hold for the
            result; to npy and raw files none.

        Raises
        ------
        ArrayExistsError
            Something stands there, and `overwrite` is False.
        StorageFullError, StorageError
            It cannot be written. Nothing is left behind.
        ArrayBusyError
            Another writer is at work there; or an HDF5 file is open elsewhere.
        UnsupportedError
            The format cannot hold it, or the HDF5 file is one to which nothing can be added.
        BudgetError
            The memory budget is too small for the tiles.

        Notes
        -----
        HDF5 needs the package ``h5py`` (``outcrop[hdf5]``). Groups are made where there are none. A
        file that is there already is copied, on the same file system, and the copy takes its place
        with the new data set in it: so whoever reads has the old file or the new one, and a plan
        counts what is copied. Names of axes become dimension scales, as xarray and netCDF4 have
        them. There are no filters.

        Examples
        --------
        >>> oc.fromfunction(lambda i, j: 1 / (1 + i + j), (300, 200)).save("hilbert.npy")
        <outcrop.Array float64 (300, 200) 468.8 KiB, row-major, npy 'hilbert.npy'>

        >>> import h5py
        >>> sea = oc.asarray(np.arange(12.0).reshape(3, 4))
        >>> _ = sea.save("sea.h5/day/heat", dimension_names=("y", "x"))
        >>> _ = sea.T.save("sea.h5/day/turned", tile=2)
        >>> with h5py.File("sea.h5") as file:
        ...     file["day/turned"].chunks, file["day/heat"].dims[1][0].name
        ((2, 2), '/day/x')
        """
        if resume:
            labels = (attributes, dimension_names, fill_value)
            options = (tile, format, codecs, zarr_format, layout, thickness, *labels)
            if any(option is not None for option in options) or order != "C":
                raise InvalidArgumentError("what is resumed has no options beside its path")
            return hooks.saved_resumably(self, path, overwrite, progress)
        name = check_path(path)
        codecs = laid_out(name, format_for(name, format), layout, thickness, codecs)
        clear_kept(name)
        result = save(
            self._source,
            self._view,
            path,
            tile=tile,
            format=format,
            order=order,
            overwrite=overwrite,
            codecs=codecs,
            zarr_format=zarr_format,
            attributes=attributes,
            dimension_names=dimension_names,
            fill_value=fill_value,
            progress=progress,
        )
        return Array(result)

    def mask_and_scale(self) -> "Array":
        """Give the numbers that elements stand for, by the CF conventions.

        Packed elements times the attribute ``scale_factor``, plus ``add_offset``; NaN for those
        that are equal to ``_FillValue``, to one of ``missing_value``, or to what Zarr's version 2
        has for a fill value. ``_Unsigned`` says whether integers are.

        Returns
        -------
        Array
            An expression, of float64 where elements are scaled. Where some are only missing, of
            their own type if they are floating point numbers, of float32 if they are integers of
            at most 16 bits, else of float64. The array itself where no attribute says anything.

        Raises
        ------
        InvalidArgumentError
            An attribute is no number, or elements are none.

        Examples
        --------
        >>> packed = oc.asarray(np.array([0, 150, -1], "int16"))
        >>> _ = packed.save("t.zarr", attributes={"scale_factor": 0.5, "_FillValue": -1})
        >>> oc.open("t.zarr").mask_and_scale().compute()
        array([ 0., 75., nan])
        """
        return hooks.mask_and_scale(self)

    def to_dask(self, chunks: Any = None) -> Any:
        """Give the array to Dask, which reads a block of it for each of its tasks.

        Parameters
        ----------
        chunks : int, str, or a sequence or mapping of those for each axis, optional
            The extents of blocks, as `dask.array.from_array` takes them: -1 for all of an axis,
            ``"auto"`` for multiples of the tiles that suit, ``"64MiB"`` for so much. Default:
            `chunks`, the tiles.

        Returns
        -------
        dask.array.Array
            The array, lazy. What Dask holds is not in the memory budget, but for the block that
            is being read. An expression is computed once, when the first block of it is read.

        Raises
        ------
        UnsupportedError
            Dask is not installed.
        InvalidArgumentError, InvalidTypeError
            The chunks make no sense.

        See Also
        --------
        from_dask : The way back.

        Examples
        --------
        >>> x = oc.asarray(np.eye(100)).to_dask(chunks=50)
        >>> x.numblocks, float((x @ x).trace().compute())
        ((2, 2), 100.0)
        """
        return hooks.to_dask(self, chunks)

    def flush(self) -> None:
        """Write what is in memory to disk. Makes nothing visible; that is what `close` does."""
        self._source.flush()

    def close(self) -> None:
        """Make what was written durable and visible, and let go of the files.

        Closes the array on disk, and so every view of it. Closing twice, or an array that is not
        on disk, does nothing.

        Raises
        ------
        StorageFullError, StorageError
            It could not be made durable. The state before is what remains.
        """
        self._source.close()

    def abort(self) -> None:
        """Forget what was written since the array was opened or created, and close it.

        A new array vanishes.

        Examples
        --------
        >>> A = oc.create("regretted.zarr", (3, 3))
        >>> A.abort()
        >>> oc.open("regretted.zarr")
        Traceback (most recent call last):
        ...
        outcrop.errors.ArrayNotFoundError: ...
        """
        self._source.abort()

    def __enter__(self) -> "Array":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A child process leaves the block too, but the array is its parent's to finish.
        if self._source.is_of_parent_process:
            return
        if kind is None:
            self.close()
        else:
            self.abort()

    # -- as a number -------------------------------------------------------------------------

    def _as_scalar(self, convert: Callable[[NDArray[Any]], _T]) -> _T:
        """What NumPy makes of an array of this size, its errors included."""
        if self.size == 1:
            array = self.compute()
        else:
            # Looks like the array, and is one zero.
            array = np.broadcast_to(np.zeros((), self.dtype), self.shape)
        try:
            return convert(array)
        except TypeError as error:
            raise InvalidTypeError(str(error)) from None
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    def __bool__(self) -> bool:
        return self._as_scalar(bool)

    def __int__(self) -> int:
        return self._as_scalar(int)

    def __float__(self) -> float:
        return self._as_scalar(float)

    def __complex__(self) -> complex:
        return self._as_scalar(complex)

    def __index__(self) -> int:
        return self._as_scalar(operator.index)

    def __round__(self, ndigits: int | None = None) -> Any:
        def convert(array: Any) -> Any:
            return round(array[()], ndigits)

        return self._as_scalar(convert)

    def __format__(self, spec: str) -> str:
        # An array of one number is often what a reduction leaves, and written as that number.
        return str(self) if not spec else self._as_scalar(lambda array: format(array[()], spec))

    def item(self, *index: int) -> Any:
        """Read one element as a Python number.

        Parameters
        ----------
        *index : int
            Nothing, for an array of one element; or one index into the flattened array; or one
            per axis.

        Raises
        ------
        InvalidArgumentError
            There is not exactly one element, and no index.
        BoxIndexError
            The index lies outside.

        Examples
        --------
        >>> oc.asarray([[1, 2], [3, 4]]).item(1, 0)
        3
        """
        if not index:
            return self._as_scalar(lambda array: array.item())
        if len(index) == 1 and self.ndim != 1:
            flat = Array(self._source, View.whole((self.size,)).index(index[0]))._view.selectors[0]
            assert isinstance(flat, int)
            index = tuple(int(i) for i in np.unravel_index(flat, self.shape))
        if len(index) != self.ndim:
            raise InvalidArgumentError("incorrect number of indices for array")
        return self[index].item()

    def tolist(self) -> Any:
        """Read the array as nested lists of Python numbers.

        Raises
        ------
        BudgetError
            Where it is larger than the memory budget.

        Examples
        --------
        >>> oc.asarray([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        self._source.check_open()
        borrowed = self._source.borrow(self._view)
        with room(self.size * _BYTES_IN_A_LIST, "a list of the elements"):
            return (self.compute() if borrowed is None else borrowed).tolist()

    # -- copies ------------------------------------------------------------------------------

    def copy(self) -> "Array":
        """A copy of an array in memory; of another one, an expression with its elements.

        What is assigned to the array afterwards does not change what the copy means. Where nobody
        could tell that the elements have changed, which are those of another library or are made
        from memory that was passed in, they are read or computed now: to memory, or to the scratch
        directory where they take more than an eighth of the memory budget.

        Raises
        ------
        BudgetError
            What is in memory is larger than what is free of the memory budget.
        StorageFullError
            The scratch directory has no room for it.

        Examples
        --------
        >>> A = oc.asarray([1, 2, 3])
        >>> B = A.copy()
        >>> A[0] = 9
        >>> B.compute()
        array([1, 2, 3])
        """
        return hooks.copied(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "Array":
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # What is on disk goes by its path, an expression by what it is made of (decision 054).
        return Array, (self._source, self._view)

    # -- NumPy's protocols -------------------------------------------------------------------

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return hooks.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        return hooks.function(function, args, kwargs)

    def astype(self, dtype: DTypeLike, *, casting: str = "unsafe", copy: bool = True) -> "Array":
        """The array with its elements converted, as `numpy.ndarray.astype` converts them.

        Nothing is computed before it is asked for. Where the elements have that type already, the
        array is copied as by `copy`, which reads those of another library; without `copy`, it is
        the array itself.
        """
        return hooks.astype(self, dtype, casting, copy=copy)

    def __eq__(self, other: object) -> "Array":  # type: ignore[override]
        """Compare elements; with what is no number, such as None, none are equal."""
        return super().__eq__(other) if _is_comparable(other) else self._all(False)

    def __ne__(self, other: object) -> "Array":  # type: ignore[override]
        return super().__ne__(other) if _is_comparable(other) else self._all(True)

    def _all(self, value: bool) -> "Array":
        made: Array = np.full_like(self, value, np.bool_)  # type: ignore[assignment]
        return made

    def __contains__(self, value: object) -> bool:
        """Whether an element is equal: computes."""
        return bool((self == value).any())

    def __pow__(self, other: Any) -> "Array":
        if type(other) is int and other == 2:
            # As NumPy does, and of booleans with another type than `numpy.power`.
            squared: Array = hooks.ufunc(np.square, "__call__", (self,), {})
            return squared
        return super().__pow__(other)

    # -- elements ----------------------------------------------------------------------------

    def dot(self, b: Any, out: "Array | None" = None) -> "Array":
        """See `numpy.dot`; it is lazy."""
        return by_numpy(np.dot, self, b, out=out)

    conjugate = conj

    @property
    def real(self) -> "Array":
        """The real parts of the elements; lazy."""
        return np.real(self)

    @property
    def imag(self) -> "Array":
        """The imaginary parts of the elements; lazy."""
        return np.imag(self)

    # -- names that there are not -------------------------------------------------------------

    if not TYPE_CHECKING:
        # What checks types shall find them.

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # What a property raises, which has led here.
                return object.__getattribute__(self, name)
            raise missing_attribute(self, name)

    # -- for people --------------------------------------------------------------------------

    def _facts(self) -> dict[str, str]:
        source, view = self._source, self._view
        layout = self.layout
        if layout in LAYOUTS:
            layout += " " + " x ".join(map(str, source.tile)) if source.tile else ""
        shape = f"{self.shape} {format_bytes(self.nbytes)}"
        # A selection is named by its place in the source, and so as it was before it was permuted.
        where = source.describe("" if view.straight().is_whole else str(view))
        where += view.transposition
        return {"dtype": str(self.dtype), "shape": shape, "layout": layout, "where": where}

    def __repr__(self) -> str:
        facts = self._facts()
        if self.layout in ("memory", "function", "computed"):
            del facts["layout"]
        dtype, shape, *rest = facts.values()
        return f"<outcrop.Array {dtype} {shape}, {', '.join(rest)}>"

    def _repr_html_(self) -> str:
        facts = self._facts()
        tiles = math.prod(-(-n // t) for n, t in zip(self.shape, self.tile, strict=True))
        rows = {
            "dtype": facts["dtype"],
            "shape": str(self.shape),
            "size": f"{format_bytes(self.nbytes)} in {tiles} tile{'' if tiles == 1 else 's'}",
            "layout": facts["layout"],
            "where": facts["where"],
        }
        return html_table("outcrop.Array", rows)
