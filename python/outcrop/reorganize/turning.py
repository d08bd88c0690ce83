"""Transposing, rotating and flipping, lazily or from file to file."""

import math
import operator
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from numpy.typing import DTypeLike

from outcrop import _native
from outcrop.arrays.array import Array
from outcrop.arrays.beside import check_replaced
from outcrop.arrays.computed import Progress
from outcrop.arrays.creation import open
from outcrop.arrays.saving import carried, create_store, naming_tiles, part_of
from outcrop.arrays.stored import StoreSource
from outcrop.checks import ShapeLike, StrPath, check_path
from outcrop.errors import AxisError, InvalidArgumentError, InvalidTypeError
from outcrop.formats import format_for, picture_axes
from outcrop.formats.codecs import Codecs
from outcrop.formats.hdf5_writing import let_go_of_finished
from outcrop.formats.labels import Labels, labels_of_new
from outcrop.reorganize.bridge import bridge_sketch, bridged

__all__ = [
    "deliver",
    "exchanged",
    "flip",
    "permute_dims",
    "picture_plane",
    "plane",
    "rotate",
    "target_tile",
    "transpose",
]

Source = Array | StrPath
"""An array, or where one stands."""


def permute_dims(
    x: Source, /, axes: Sequence[int], target: StrPath | None = None, **options: Any
) -> Array:
    """Permute the axes of an array.

    Parameters
    ----------
    x : Array, str or os.PathLike
        An array, or the path of one.
    axes : sequence of int
        For each axis of the result the axis of `x` that it is.
    target : str or os.PathLike, optional
        Where to write the result. Without it, nothing moves: the result is a view.
    **options
        As for `transpose`.

    Returns
    -------
    Array
        A view of `x`, or what was written, opened for reading.

    Raises
    ------
    BoxIndexError, InvalidArgumentError, InvalidTypeError
        The axes are no permutation of those of `x`.

    Examples
    --------
    >>> cube = oc.fromfunction(lambda t, y, x: 100 * t + 10 * y + x, (4, 3, 2), "int32")
    >>> oc.permute_dims(cube, (2, 1, 0)).shape
    (2, 3, 4)
    >>> oc.permute_dims(cube, (1, 2, 0), "moved.npy")[2, 1].compute()
    array([ 21, 121, 221, 321], dtype=int32)
    """
    opened, options = _opened(x, "permute_dims", options)
    return deliver(_permuted(opened, axes), target, "permute_dims", **options)


def transpose(
    x: Source,
    /,
    target: StrPath | Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    offset: int = 0,
    order: str = "C",
    tile: ShapeLike | None = None,
    format: str | None = None,
    target_order: str = "C",
    overwrite: bool = False,
    codecs: Codecs | None = None,
    via: StrPath | None = None,
    progress: Progress | None = None,
) -> Array:
    """Transpose an array: reverse the order of its axes, or permute them.

    A file is transposed to a file in one pass over the data, or in two where memory is so small
    that one would be slower; `plan` tells which. Whatever the layouts are, the memory budget is
    kept, and the result appears all at once when it is complete.

    Parameters
    ----------
    x : Array, str or os.PathLike
        An array, or the path of one.
    target : str or os.PathLike, optional
        Where to write the result. Without it, nothing moves: the result is a view. `axes` may
        stand here instead, as for `numpy.transpose`.
    axes : sequence of int, optional
        For each axis of the result the axis of `x` that it is. Default: the reverse order, as of
        ``x.T``; where `x` is the path of a picture with several channels (PPM, PAM, TIFF), rows
        and columns change places, and the channels of a pixel stay together.
    shape, dtype, offset, order
        What a raw file holds, as for `open`.
    tile : int or sequence of int, optional
        Zarr only: shape of the result's tiles. Default: the tiles of a tiled `x`, transposed;
        else as for `create`.
    format : str, optional
        The result's format. Default: by the suffix of `target`.
    target_order : {"C", "F"}
        npy and raw only: whether the result is row-major or column-major.
    overwrite : bool
        Whether to replace an array that stands at `target`. That may be the file of `x` itself,
        unless it holds more than `x`, such as further images.
    codecs : str or sequence of mapping, optional
        Zarr only: how tiles are stored, as for `Array.save`. Default: not compressed.
    via : str or os.PathLike, optional
        A directory on a faster disk. What is moved is first copied there as it is, in long
        pieces, and removed in the end.
    progress : callable, optional
        Called with bytes done and bytes in all, at most ten times a second.

    Returns
    -------
    Array
        A view of `x`, or what was written, opened for reading.

    Raises
    ------
    ArrayNotFoundError, CorruptArrayError, UnsupportedError
        There is no array at `x`, it is shorter than it should be, or of an unknown kind.
    ArrayExistsError
        Something stands at `target`, and `overwrite` is False.
    UnsupportedError
        The file of `x` is to be replaced, and holds more than `x`; the result's format cannot
        hold it.
    StorageFullError
        There is no room for the result. This is found before anything moves.
    BudgetError
        The memory budget is too small for the tiles.
    BoxIndexError, InvalidArgumentError, InvalidTypeError
        The axes are no permutation; an option makes no sense.

    Examples
    --------
    >>> np.save("in.npy", np.arange(6).reshape(2, 3))
    >>> oc.transpose("in.npy", "out.npy").compute()
    array([[0, 3],
           [1, 4],
           [2, 5]])
    >>> oc.transpose(oc.open("in.npy"))
    <outcrop.Array int64 (3, 2) 48 bytes, row-major, npy 'in.npy', transposed>
    """
    raw = {"shape": shape, "dtype": dtype, "offset": offset, "order": order}
    opened = _open(x, **raw)
    path: Any = target
    if axes is None and isinstance(target, tuple | list):
        path, axes = None, target
    if axes is None and not isinstance(x, Array):
        axes = exchanged(opened)
    turned = opened.transpose() if axes is None else _permuted(opened, axes)
    return deliver(
        turned,
        path,
        "transpose",
        tile=tile,
        format=format,
        target_order=target_order,
        overwrite=overwrite,
        codecs=codecs,
        via=via,
        progress=progress,
    )


def rotate(
    x: Source,
    /,
    target: StrPath | None = None,
    angle: float = 90,
    *,
    axes: tuple[int, int] | None = None,
    **options: Any,
) -> Array:
    """Rotate by a right angle, two or three, counterclockwise as `numpy.rot90` does.

    Parameters
    ----------
    x : Array, str or os.PathLike
        An array of at least two axes, or the path of one.
    target : str or os.PathLike, optional
        Where to write the result. Without it, nothing moves: the result is a view.
    angle : int
        Degrees, a multiple of 90. Negative ones turn clockwise.
    axes : tuple of int, optional
        The two axes that span the plane; it turns from the first towards the second. Default:
        rows and columns of a picture, or of a view of one that has both, else the first two.
    **options
        As for `transpose`.

    Returns
    -------
    Array
        A view of `x`, or what was written, opened for reading.

    Raises
    ------
    InvalidArgumentError, BoxIndexError
        The angle is no multiple of 90; there are no two such axes.

    Examples
    --------
    >>> np.array([[1, 2, 3], [4, 5, 6]], "uint8").tofile("page.raw")
    >>> oc.rotate("page.raw", "turned.raw", 90, shape=(2, 3), dtype="u1").compute()
    array([[3, 6],
           [2, 5],
           [1, 4]], dtype=uint8)
    >>> oc.rotate(oc.asarray([[1, 2, 3], [4, 5, 6]]), angle=180).compute()
    array([[6, 5, 4],
           [3, 2, 1]])
    """
    quarters = _quarters(angle)
    opened, options = _opened(x, "rotate", options)
    if opened.ndim < 2:
        raise InvalidArgumentError(f"an array of shape {opened.shape} has no plane to be rotated")
    first, second = _axes(opened, plane(opened) if axes is None else axes, 2)
    order = list(range(opened.ndim))
    order[first], order[second] = second, first
    turned = opened
    match quarters:
        case 1:
            turned = _flipped(opened, {second}).transpose(tuple(order))
        case 2:
            turned = _flipped(opened, {first, second})
        case 3:
            turned = _flipped(opened, {first}).transpose(tuple(order))
    return deliver(turned, target, "rotate", **options)


def flip(
    x: Source,
    /,
    target: StrPath | None = None,
    *,
    axis: int | Sequence[int] | None = None,
    **options: Any,
) -> Array:
    """Reverse the order of elements along axes.

    Parameters
    ----------
    x : Array, str or os.PathLike
        An array, or the path of one.
    target : str or os.PathLike, optional
        Where to write the result. Without it, nothing moves: the result is a view.
    axis : int or sequence of int, optional
        Which axes: of a picture, 0 turns it upside down, 1 makes its mirror image; 1 and 2 where
        its channels come first, as in a planar TIFF. Default: all of them; where `x` is the path
        of a picture, rows and columns.
    **options
        As for `transpose`.

    Returns
    -------
    Array
        A view of `x`, or what was written, opened for reading.

    Raises
    ------
    BoxIndexError, InvalidArgumentError, InvalidTypeError
        There is no such axis, or one is named twice.

    Examples
    --------
    >>> oc.flip(oc.asarray([[1, 2, 3], [4, 5, 6]]), axis=1).compute()
    array([[3, 2, 1],
           [6, 5, 4]])
    """
    opened, options = _opened(x, "flip", options)
    if axis is None:
        picture = None if isinstance(x, Array) else picture_plane(opened)
        chosen = picture or tuple(range(opened.ndim))
    else:
        given = [axis] if not isinstance(axis, Sequence) else list(axis)
        chosen = _axes(opened, given, len(given))
    return deliver(_flipped(opened, set(chosen)), target, "flip", **options)


# -- what they share ---------------------------------------------------------------------------

_RAW = {"shape": None, "dtype": None, "offset": 0, "order": "C"}
"""What says how a raw file is to be read, and what each is where nothing is said."""

_TARGET = ("tile", "format", "target_order", "overwrite", "codecs", "via", "progress")


def _opened(x: Source, operation: str, options: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    """The array, and the options that do not say what it is."""
    for key in options:
        if key not in _RAW and key not in _TARGET:
            raise InvalidTypeError(f"{operation}() got an unexpected keyword argument {key!r}")
    rest = {key: value for key, value in options.items() if key not in _RAW}
    return _open(x, **{key: options[key] for key in _RAW if key in options}), rest


def _open(x: Source, **raw: Any) -> Array:
    # By type first: a dtype is equal to None where it is that of floats, an array to nothing.
    given = {
        key: value
        for key, value in raw.items()
        if type(value) is not type(_RAW[key]) or value != _RAW[key]
    }
    if isinstance(x, Array):
        if given:
            raise InvalidArgumentError(f"{', '.join(given)}: for raw files, not for arrays")
        return x
    try:
        path = check_path(x)
    except InvalidTypeError:
        raise InvalidTypeError(
            f"expected an outcrop.Array or a path, got {type(x).__name__}; oc.asarray makes an "
            "Array of what is in memory"
        ) from None
    return open(path, **given)


def _quarters(angle: Any) -> int:
    """How many right angles, 0 to 3."""
    if isinstance(angle, Real) and not isinstance(angle, bool):
        degrees = int(angle) if isinstance(angle, Integral) else float(angle)
        if isinstance(degrees, int) or math.isfinite(degrees):
            quarters, rest = divmod(degrees, 90)
            if rest == 0:
                return int(quarters) % 4
    raise InvalidArgumentError(f"angle must be a multiple of 90 degrees, got {angle!r}")


def _permuted(array: Array, axes: Any) -> Array:
    try:
        order = tuple(axes)
    except TypeError:
        raise InvalidTypeError(f"axes must be a sequence of integers, got {axes!r}") from None
    return array.transpose(order)


def picture_plane(array: Array) -> tuple[int, int] | None:
    """Rows and columns of a picture, wherever a view has them; None where it has not both."""
    if array.format not in ("pgm", "ppm", "pam", "tiff"):
        return None
    pixel = picture_axes(array.attributes, len(array._view.source_shape))
    found = [i for i, axis in enumerate(array._view.axes) if axis in pixel]
    return (found[0], found[1]) if len(found) == 2 else None


def plane(array: Array) -> tuple[int, ...]:
    """Rows and columns: of a picture, or the first two axes; the only one where there is one."""
    return picture_plane(array) or tuple(range(min(array.ndim, 2)))


def exchanged(array: Array) -> tuple[int, ...] | None:
    """The axes of a picture with rows and columns exchanged; None where it is none."""
    picture = picture_plane(array)
    if picture is None:
        return None
    row, column = picture
    order = list(range(array.ndim))
    order[row], order[column] = column, row
    return tuple(order)


def _axes(array: Array, given: Sequence[int], count: int) -> tuple[int, ...]:
    """Axes of an array, none twice."""
    try:
        axes = [operator.index(axis) for axis in given]
    except TypeError as error:
        raise InvalidTypeError(f"axes: {error}") from None
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise AxisError(axis, array.ndim)
    found = tuple(axis % array.ndim for axis in axes)
    if len(set(found)) != count or len(found) != count:
        raise InvalidArgumentError(f"{count} different axes are wanted, got {tuple(given)}")
    return found


def _flipped(array: Array, axes: set[int]) -> Array:
    every, backwards = slice(None), slice(None, None, -1)
    return array[tuple(backwards if axis in axes else every for axis in range(array.ndim))]


def deliver(
    turned: Array,
    target: StrPath | None,
    operation: str,
    *,
    tile: ShapeLike | None = None,
    format: str | None = None,
    target_order: str = "C",
    overwrite: bool = False,
    codecs: Codecs | None = None,
    via: StrPath | None = None,
    progress: Progress | None = None,
) -> Array:
    """The view itself, or what becomes of it on disk."""
    if target is None:
        optional: dict[str, Any] = {"tile": tile, "format": format, "codecs": codecs, "via": via}
        optional["progress"] = progress
        given = {name: value is not None for name, value in optional.items()}
        given |= {"overwrite": bool(overwrite), "target_order": target_order != "C"}
        if useless := [name for name, is_given in given.items() if is_given]:
            raise InvalidArgumentError(f"{', '.join(useless)}: {operation} has no target here")
        return turned
    if tile is None:
        tile = target_tile(turned, target, format)
    options: dict[str, Any] = {"tile": tile, "format": format, "order": target_order}
    options |= {"overwrite": overwrite, "codecs": codecs}
    if via is None:
        return turned.save(target, progress=progress, **options)
    _check_target(turned, target, via, **options)
    progress = _in_bytes(progress, turned.nbytes)
    with (
        _native.Operation(),
        bridged(turned, via, part_of(progress, 0.0, 0.4)) as near,
    ):
        return near.save(target, progress=part_of(progress, 0.4, 1.0), **options)


def _in_bytes(progress: Progress | None, nbytes: int) -> Progress | None:
    """What tells of parts of a whole as bytes of the result, which is what people look for."""
    if progress is None:
        return None
    return lambda done, total: progress(nbytes * done // max(total, 1), nbytes)


def _check_target(
    turned: Array,
    target: StrPath,
    via: StrPath,
    *,
    tile: ShapeLike | None,
    format: str | None,
    order: str,
    overwrite: bool,
    codecs: Codecs | None,
) -> None:
    """Find out what stands in the way of the result before anything is copied to another disk."""
    source, view = turned._source, turned._view
    name = check_path(target)
    format = format_for(name, format)
    if overwrite and isinstance(source, StoreSource) and source.path is not None:
        check_replaced(source, name)
    along = carried(source, view, format)
    version, labels = labels_of_new(name, format, turned.shape, None, Labels(), along)
    store = create_store(
        name,
        turned.shape,
        turned.dtype,
        tile=tile,
        format=format,
        order=order,
        codecs=codecs,
        zarr_format=version,
        labels=labels,
        overwrite=overwrite,
    )
    try:
        if isinstance(source, StoreSource) and view.turn is not None:
            near, seen = bridge_sketch(source, view, via), view.of_box()
            with naming_tiles(source, store):
                _native.plan_copy(near, *seen.box, seen.turn, store)
    finally:
        store.abort()
        let_go_of_finished()


def target_tile(turned: Array, target: StrPath, format: str | None) -> tuple[int, ...] | None:
    """The tiles of a Zarr array that is turned to another one: its own ones, turned.

    None where the default is as good.
    """
    tiled = turned.format in ("zarr", "zarr-foreign")
    wanted = format_for(check_path(target), format)
    return turned.tile if tiled and wanted == "zarr" and turned.size else None
