"""Dask's arrays of ours, and ours of Dask's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.chunking import normalized_chunks
from outcrop.errors import InvalidTypeError, UnsupportedError
from outcrop.interop.external import ExternalSource

__all__ = ["from_dask"]


def from_dask(x: Any, /) -> Array:
    """Take a Dask array, whose chunks are computed by Dask as they are read.

    Parameters
    ----------
    x : dask.array.Array
        The array, with chunks of known sizes.

    Returns
    -------
    Array
        The array, lazy: each chunk is computed when a tile of it is read, and again where it is
        read again. What Dask takes meanwhile is not in the memory budget; chunks of more than a
        few megabytes, or what takes long, is better stored first.

    Raises
    ------
    InvalidTypeError
        It is no Dask array.
    InvalidArgumentError
        The sizes of its chunks are not known, as after a selection by a mask.
    UnsupportedError
        Its element type is not known.

    See Also
    --------
    asarray : Does the same, of arrays of several libraries.
    Array.to_dask : The way back.

    Examples
    --------
    >>> import dask.array as da
    >>> x = da.ones((300, 200), chunks=100).cumsum(axis=0)
    >>> oc.from_dask(x).mean(axis=1)[:3].compute()
    array([1., 2., 3.])
    """
    kind = type(x)
    if kind.__module__.partition(".")[0] != "dask" or not hasattr(x, "dask"):
        raise InvalidTypeError(
            f"an array of dask.array is wanted, and not {kind.__module__}.{kind.__qualname__}; "
            "oc.asarray takes others"
        )
    return Array(ExternalSource.of(x))


@hooks.to_dask.fill
def _to_dask(array: Array, chunks: Any) -> Any:
    try:
        import dask.array
    except ImportError:
        raise UnsupportedError("Dask is not installed: pip install 'dask[array]'") from None
    if chunks is None:
        chunks = array.chunks
    else:
        chunks = normalized_chunks(chunks, array.shape, array.dtype, previous=array.chunks)
    make: Any = dask.array.from_array
    # A name of its own: by the same name, Dask would take one for the other.
    return make(
        _Blocks(array),
        chunks=chunks,
        asarray=True,
        name=False,
        meta=np.empty((0,) * array.ndim, array.dtype),
    )


class _Blocks:
    """What Dask reads blocks of: each is NumPy's, and not of our memory budget once it is read."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, key: Any) -> NDArray[Any]:
        return np.array(self._array[key].compute())
