"""Compiled functions that are kept on disk: another process need not compile them again."""

import functools
import hashlib
import math
import numbers
import pickle
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from outcrop import _native
from outcrop.compiled.compiler import numba_module
from outcrop.process.cache import Cache

__all__ = ["compiled_function", "digest", "meaning_of", "named"]

_MOST = 64 << 20
"""Bytes of compiled functions that are kept."""

_cache = Cache("compiled", _MOST)


def meaning_of(names: Mapping[str, Any]) -> str | None:
    """What names mean, as text: numbers, and modules and functions of math and NumPy.

    None where there is something else, such as a function of the user's, of which nobody knows what
    it depends on.
    """
    found = []
    for name in sorted(names):
        value = names[name]
        if value is math:
            told = "math"
        elif value is np:
            told = "numpy"
        elif isinstance(value, numbers.Number | np.generic):
            told = f"{type(value).__name__} {value!r}"
        elif isinstance(value, np.ufunc):
            own = str(value.__name__)
            if getattr(np, own, None) is not value:
                return None
            told = f"numpy.{own}"
        elif getattr(value, "__module__", None) in ("math", "numpy", "builtins"):
            told = f"{value.__module__}.{value.__qualname__}"
        else:
            return None
        found.append(f"{name}={told}")
    return "; ".join(found)


def digest(kind: str, parts: Iterable[object]) -> str:
    """A name for what is made of some parts by this version, on this machine.

    Parameters
    ----------
    kind : str
        What is made.
    parts : iterable
        What it is made of, whose representations tell it from all else.
    """
    found = hashlib.sha256(repr((kind, _versions())).encode())
    for part in parts:
        found.update(b"\0" + repr(part).encode("utf-8", "surrogatepass"))
    return found.hexdigest()[:40]


@functools.cache
def _versions() -> tuple[object, ...]:
    """All that decides what is made, besides what it is made of."""
    numba = numba_module()
    import llvmlite  # type: ignore[import-untyped]
    from numba.core.registry import cpu_target

    try:
        import islpy

        isl: object = (islpy.version.VERSION_TEXT,)
    except (ImportError, AttributeError):
        isl = None
    code = hashlib.sha256()
    package = Path(__file__).parent.parent
    for folder in ("compiled", "loops", "sweeps"):
        for path in sorted((package / folder).glob("*.py")):
            code.update(path.read_bytes())
    return (
        _native.__version__,
        code.hexdigest(),
        numba.__version__,
        llvmlite.__version__,
        isl,
        sys.version,
        np.__version__,
        platform.machine(),
        # The instructions that the processor has.
        cpu_target.target_context.codegen().magic_tuple(),
        numba.config.OPT,
    )


def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a function a name that no other one has.

    Numba makes the names of machine code of it; two of one name, from two processes, would be taken
    for each other.
    """
    function.__name__ = function.__qualname__ = f"{function.__name__}_{name}"
    # Where Numba looks for it again.
    function.__module__ = __name__
    return function


class _Kept:
    """What Numba asks for a compiled function, and tells when it has compiled one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The function as it is kept; None where it is not."""
        from numba.core.compiler import CompileResult

        content = _cache.get(self._name)
        if content is None:
            return None
        try:
            target_context.refresh()
            parts = pickle.loads(content)
            made = CompileResult._rebuild(target_context, *parts)  # type: ignore[no-untyped-call]
        except Exception:
            # By another version after all: it is compiled anew, and takes its place.
            return None
        return made if made.signature == signature else None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keep a function."""
        from numba.core import serialize

        if made.lifted or made.library.has_dynamic_globals:
            return
        try:
            content = serialize.dumps(made._reduce())  # type: ignore[no-untyped-call]
        except Exception:
            # Something in it cannot be written down.
            return
        _cache.put(self._name, content)


def compiled_function(function: Callable[..., Any], name: str | None) -> Any:
    """What Numba makes of a kernel: a C function, as the engine calls it.

    Parameters
    ----------
    function : callable
        Of ``starts, axes, arguments, workspace, nbytes, stop``; gives 0.
    name : str or None
        Under which it is kept, a `digest`; it is `named` so, too, and so are the functions that it
        calls. None where it is not kept.

    Returns
    -------
    numba.core.ccallback.CFunc
        Its ``address`` is valid as long as it lives.
    """
    numba: ModuleType = numba_module()
    address = numba.int64
    signature = numba.int32(*[address] * 4, numba.uint64, address)
    if name is None:
        return numba.cfunc(signature, error_model="numpy")(function)
    from numba.core.ccallback import CFunc

    options = {"error_model": "numpy"}
    parts = tuple(signature.args), signature.return_type
    made = CFunc(named(function, name), parts, locals={}, options=options)
    made._cache = _Kept(name)  # type: ignore[attr-defined]
    made.compile()
    return made
