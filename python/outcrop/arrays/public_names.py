"""What modules and arrays show of themselves: their public names, and what is said of others."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from outcrop.arrays.numpy_bounds import BOUNDS
from outcrop.arrays.registry import REFUSALS, full_name, implementation

__all__ = ["INSTEAD_OF_ATTRIBUTES", "missing_attribute", "only_public"]

_public: dict[str, Sequence[str]] = {}
"""The names of each module that has called `only_public`."""

_CLOSE = 0.75
"""How alike names are of which one may be meant for the other."""


def only_public(
    module: str,
    names: Sequence[str],
    *,
    numpy: ModuleType | None = None,
    instead: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and the ``__dir__`` of a public module.

    ``dir(module)`` and whatever completes names then show the public ones, and not what the module
    imports; and an error for a name that there is not says which one may be meant.

    Parameters
    ----------
    module : str
        Its name.
    names : sequence of str
        Its ``__all__``.
    numpy : module, optional
        Where NumPy has what this module has.
    instead : mapping of str to str, optional
        What to use for names that are known from elsewhere.
    """
    _public[module] = names

    def unknown(name: str) -> NoReturn:
        hint = _hint(module, name, numpy, instead or {})
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)

    def listed() -> list[str]:
        return sorted(names)

    return unknown, listed


def missing_attribute(array: object, name: str) -> AttributeError:
    """Make the error for an attribute that an `outcrop.Array` has not: it says what there is."""
    hint = ""
    # Libraries try one private name after the other, on every array.
    if not name.startswith("_"):
        hint = (
            _instead(name, INSTEAD_OF_ATTRIBUTES)
            or _as_function(name)
            or _closest(name, dir(type(array)))
        )
    text = f"{type(array).__name__!r} object has no attribute {name!r}{hint}"
    return AttributeError(text, name=name, obj=array)


def _as_function(name: str) -> str:
    """Which function of ours does what would be a method."""
    for module in ("outcrop", "outcrop.linalg", "outcrop.fft"):
        if name in _public[module] and inspect.isroutine(getattr(sys.modules[module], name)):
            return f"; use instead: oc{module.removeprefix('outcrop')}.{name}(A, ...)"
    return ""


INSTEAD_OF_ATTRIBUTES = {
    "H": "A.conj().T",
    "argpartition": "oc.argsort(A)",
    "attrs": "A.attributes",
    "base": "A.path says where the elements are stored, if they are",
    "blocks": "A.tiles()",
    "byteswap": "A.compute().byteswap(); elements are in native byte order",
    "choose": "numpy.choose(A, ...), if memory has room for the elements",
    "chunksize": "A.tile",
    "ctypes": "with A.attach[...] as elements: elements.ctypes",
    "data": "with A.attach[...] as elements: elements.data",
    "dims": "A.dimension_names",
    "dump": "A.save(path)",
    "dumps": "A.save(path)",
    "fill": "A[...] = value",
    "flags": "A.writable",
    "flat": "A.ravel()",
    "getfield": "A.compute().getfield(...)",
    "itemset": "A[key] = value",
    "map_blocks": "oc.map(function, A)",
    "persist": "A.save(path), or A.compute()",
    "put": "A[key] = values, or numpy.put(A, indices, values)",
    "read_only": "A.writable",
    "rechunk": "A.save(path, tile=...)",
    "resize": "A.reshape(shape), or oc.pad(A, ...)",
    "setfield": "A[...] = values",
    "setflags": "oc.open(path, 'r+') can be assigned to, oc.open(path) cannot",
    "strides": "A.tile says in which boxes the elements lie",
    "to_numpy": "A.compute()",
    "to_zarr": "A.save('name.zarr')",
    "tobytes": "A.compute().tobytes()",
    "tofile": "A.save('name.raw')",
    "topk": "oc.top_k(A, k)",
    "values": "A.compute()",
    "view": "A.astype(dtype) converts; A.compute().view(dtype) does not",
    "visualize": "oc.plan(A).show('plan.svg')",
}
"""What does the same as what arrays of NumPy, Dask, Zarr and xarray have."""


def _hint(module: str, name: str, numpy: ModuleType | None, instead: Mapping[str, str]) -> str:
    if name.startswith("_"):
        return ""
    return (
        _instead(name, instead)
        or _elsewhere(module, name)
        or ("" if numpy is None else _of_numpy(numpy, name))
        or _closest(name, _public[module])
    )


def _instead(name: str, instead: Mapping[str, str]) -> str:
    return f"; use instead: {instead[name]}" if name in instead else ""


def _elsewhere(module: str, name: str) -> str:
    """Which other module of ours has it."""
    found = [one for one, names in _public.items() if one != module and name in names]
    return f"; use instead: oc{found[0].removeprefix('outcrop')}.{name}" if found else ""


def _of_numpy(module: ModuleType, name: str) -> str:
    """What NumPy's object of that name does with arrays of ours."""
    theirs: Any = getattr(module, name, None)
    full = f"{module.__name__}.{name}"
    known = callable(theirs) and not isinstance(theirs, type)
    if known and theirs in REFUSALS:
        return f": {REFUSALS[theirs].format(name=full_name(theirs))}"
    if known and (isinstance(theirs, np.ufunc) or implementation(theirs) is not None):
        return f"; {full} takes arrays of outcrop"
    if known and full_name(theirs) in BOUNDS:
        return f"; {full} takes arrays of outcrop, if memory has room for the elements"
    if any(bounded.startswith(f"{full}.") for bounded in BOUNDS):
        return f"; functions of {full} take arrays of outcrop, if memory has room for them"
    return ""


def _closest(name: str, names: Iterable[str]) -> str:
    by_lower = {one.lower(): one for one in names if not one.startswith("_")}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=_CLOSE)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
