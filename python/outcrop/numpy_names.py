"""NumPy's names for what there is here: one table of them, and what is said of the others."""

from outcrop.array_api import (
    elementwise_functions,
    non_ufunc_functions,
)
from outcrop.array_api.neighbours import gradient
from outcrop.array_api.numpy_arrangement import (
    append,
    argwhere,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    column_stack,
    concatenate,
    diag,
    dstack,
    fliplr,
    flipud,
    hstack,
    ravel,
    rot90,
    trace,
    vstack,
)
from outcrop.array_api.numpy_functions import array, array_equal, identity
from outcrop.array_api.numpy_statistics import amax, amin, cumprod, cumsum
from outcrop.array_api.set_functions import unique
from outcrop.arrays.array import Array
from outcrop.arrays.creation import open
from outcrop.checks import StrPath
from outcrop.linalg.numpy_products import vdot
from outcrop.linalg.products import dot, inner

# What the standard calls by another name.
absolute = elementwise_functions.abs
arccos = elementwise_functions.acos
arccosh = elementwise_functions.acosh
arcsin = elementwise_functions.asin
arcsinh = elementwise_functions.asinh
arctan = elementwise_functions.atan
arctan2 = elementwise_functions.atan2
arctanh = elementwise_functions.atanh
around = non_ufunc_functions.round
bitwise_not = elementwise_functions.bitwise_invert
conjugate = elementwise_functions.conj
invert = elementwise_functions.bitwise_invert
left_shift = elementwise_functions.bitwise_left_shift
mod = elementwise_functions.remainder
power = elementwise_functions.pow
right_shift = elementwise_functions.bitwise_right_shift
true_divide = elementwise_functions.divide

ALIASES = (
    "absolute",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "bitwise_not",
    "conjugate",
    "invert",
    "left_shift",
    "mod",
    "power",
    "right_shift",
    "true_divide",
)
"""The second names of functions."""

__all__ = [
    "absolute",
    "amax",
    "amin",
    "append",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argwhere",
    "around",
    "array",
    "array_equal",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "bitwise_not",
    "column_stack",
    "concatenate",
    "conjugate",
    "cumprod",
    "cumsum",
    "diag",
    "dot",
    "dstack",
    "fliplr",
    "flipud",
    "gradient",
    "hstack",
    "identity",
    "inner",
    "invert",
    "left_shift",
    "load",
    "mod",
    "power",
    "ravel",
    "right_shift",
    "rot90",
    "trace",
    "true_divide",
    "unique",
    "vdot",
    "vstack",
]


def load(file: StrPath, mmap_mode: str | None = None) -> Array:
    """Open an array on disk, as `open` does; `numpy.load` would read all of it.

    Parameters
    ----------
    file : str or os.PathLike
        A ``.npy`` file, or any other that `open` takes.
    mmap_mode : {"r", "r+"}, optional
        Whether to read only, which is the default, or to write as well.

    Raises
    ------
    ArrayNotFoundError, CorruptArrayError, UnsupportedError
        As `open` does.
    InvalidArgumentError
        There is no such mode.

    Examples
    --------
    >>> np.save("a.npy", np.arange(6))
    >>> oc.load("a.npy")[::2].compute()
    array([0, 2, 4])
    """
    return open(file, "r" if mmap_mode is None else mmap_mode)


# -- names that there are not ----------------------------------------------------------------------

INSTEAD = {
    "apply_along_axis": "oc.map applies a function of yours block by block",
    "ascontiguousarray": "A.save(path) and A.compute() give elements in row-major order",
    "asfortranarray": "A.save(path, order='F') writes elements in column-major order",
    "asanyarray": "oc.asarray",
    "bool8": "oc.bool",
    "bool_": "oc.bool",
    "cdouble": "oc.complex128",
    "copy": "A.copy()",
    "copyto": "A[...] = values, or numpy.copyto",
    "csingle": "oc.complex64",
    "double": "oc.float64",
    "dtype": "oc.float64 and its like are the types; numpy.dtype makes one of a name",
    "float": "oc.float64",
    "frombuffer": "oc.asarray(numpy.frombuffer(...))",
    "fromfile": "oc.open(path, shape=..., dtype=...) opens bare elements, and reads nothing",
    "genfromtxt": "oc.asarray(numpy.genfromtxt(...))",
    "int": "oc.int64",
    "loadtxt": "oc.asarray(numpy.loadtxt(...))",
    "matrix": "oc.asarray makes arrays with two axes, and @ multiplies them",
    "memmap": "oc.open(path, 'r+') opens .npy; shape=, dtype= and offset= are for bare elements",
    "mgrid": "oc.meshgrid(..., indexing='ij')",
    "ndarray": "oc.Array",
    "ndenumerate": "for key, block in A.tiles()",
    "nditer": "for key, block in A.tiles()",
    "ndim": "A.ndim",
    "ogrid": "oc.meshgrid(..., indexing='ij')",
    "product": "oc.prod",
    "row_stack": "oc.vstack",
    "savetxt": "A.save(path)",
    "savez": "oc.save({path: array, ...}) writes several arrays in one run",
    "savez_compressed": "oc.save({path: array, ...}), and codecs= of A.save",
    "shape": "A.shape",
    "single": "oc.float32",
    "size": "A.size",
    "sometrue": "oc.any",
    "alltrue": "oc.all",
    "cumproduct": "oc.cumprod",
    "trapz": "oc.trapezoid",
    "vectorize": "oc.map applies a function of yours block by block",
}
"""Well-known names of NumPy's that it is not worth to have, and what does the same."""
