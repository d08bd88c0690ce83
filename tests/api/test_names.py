"""Public names: which are shown and completed, and what is said of those that there are not."""

import inspect
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop import blas, linalg, numpy_names, random
from outcrop.arrays import public_names

MODULES = {
    "outcrop": oc,
    **{
        f"outcrop.{name}": getattr(oc, name)
        for name in oc.__all__
        if inspect.ismodule(getattr(oc, name))
    },
}


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return MODULES[request.param]


def _error(owner: object, name: str) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert caught.value.name == name
    assert f"has no attribute {name!r}" in str(caught.value)
    return str(caught.value)


# -- what is shown ---------------------------------------------------------------------------------


def test_modules_show_their_public_names_only(module: ModuleType) -> None:
    assert len(MODULES) > 5
    assert dir(module) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_modules_give_their_public_names_only(module: ModuleType) -> None:
    taken: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", taken)
    del taken["__builtins__"]
    assert taken.keys() == set(module.__all__)
    assert all(taken[name] is getattr(module, name) for name in taken)


def test_submodules_are_imported_as_ever() -> None:
    from outcrop.linalg import norms

    assert inspect.ismodule(norms)


def test_what_completes_names_shows_them() -> None:
    jedi = pytest.importorskip("jedi")
    known = {"oc": oc, "A": oc.zeros((3, 3))}

    def completed(text: str) -> set[str]:
        names = {one.name for one in jedi.Interpreter(text, [known]).complete()}
        return {name for name in names if not name.startswith("__")}

    for name, module in MODULES.items():
        text = name.replace("outcrop", "oc") + "."
        public = {one for one in module.__all__ if not one.startswith("__")}
        assert completed(text) == public, name
    assert {"exp", "expm1", "expand_dims"} < completed("oc.ex")
    methods = {name for name in dir(oc.Array) if not name.startswith("_")}
    assert methods <= completed("A.")
    # Of what has not been called, types are what annotations say.
    for text in (
        *("(A + 1).", "A[1:].", "A.T.", "A.sum().", "A.clip(0, 1)."),
        *("oc.exp(A).", "oc.vstack([A, A]).", "oc.linalg.solve(A, A).", "oc.fft.fft(A)."),
        *(
            "oc.random.default_rng(1).random(3).",
            "oc.linalg.lu(A)[0].",
            "oc.nonzero(A)[0].",
            "oc.atleast_1d(A).",
        ),
        *("oc.save({'a.npy': A})['a.npy'].", "oc.lib.stride_tricks.sliding_window_view(A, 2)."),
    ):
        assert {"compute", "save", "sum"} <= completed(text), text
    assert {"bytes_read", "explain", "waste"} <= completed("oc.plan(A).")
    assert {"bytes_read", "explain"} <= completed("oc.last_run().")


# -- names that there are not ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("concatenat", "did you mean 'concatenate'?"),
        ("cholesky", "use instead: oc.linalg.cholesky"),
        ("rfft", "use instead: oc.fft.rfft"),
        ("gemm", "use instead: oc.blas.gemm"),
        ("linalg.choleski", "did you mean 'cholesky'?"),
        ("linalg.svd", "numpy.linalg.svd takes arrays of outcrop, if memory has room"),
        ("linalg.multi_dot", "numpy.linalg.multi_dot takes arrays of outcrop"),
        ("linalg.einsum", "use instead: oc.einsum"),
        ("linalg.potrf", "use instead: oc.linalg.cholesky"),
        ("linalg.LinAlgError", "use instead: oc.NotPositiveDefiniteError"),
        ("blas.dgemm", "did you mean 'gemm'?"),
        ("blas.gemv", "use instead: A @ x"),
        ("fft.rftt", "did you mean 'rfft'?"),
        ("random.defualt_rng", "did you mean 'default_rng'?"),
        ("random.normal", "use instead: oc.random.default_rng(seed).normal"),
        ("random.randn", "use instead: oc.random.default_rng(seed).standard_normal"),
        ("sweeps.jacoby", "did you mean 'jacobi'?"),
        ("sweeps.sweep", "use instead: oc.sweep"),
    ],
)
def test_unknown_names_say_what_is_meant(name: str, message: str) -> None:
    where, _, name = f"outcrop.{name}".rpartition(".")
    assert f"module {where!r} has no attribute {name!r}; {message}" in _error(MODULES[where], name)


def test_every_name_is_found_by_what_is_almost_it(module: ModuleType) -> None:
    for name in module.__all__:
        almost = name + name[-1]
        if len(name) > 3 and not name.startswith("_") and not hasattr(module, almost):
            assert re.search("did you mean|use instead", _error(module, almost)), name


def test_other_names_are_errors_as_ever(module: ModuleType) -> None:
    for name in ("xyzzy", "__wrapped__", "_private", "np" * 20):
        assert not hasattr(module, name)
        assert _error(module, name).endswith(f"no attribute {name!r}")


# -- attributes that there are not -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tranpose", "; did you mean 'transpose'?"),
        ("shap", "; did you mean 'shape'?"),
        ("sort", "; use instead: oc.sort(A, ...)"),
        ("median", "; use instead: oc.median(A, ...)"),
        ("inv", "; use instead: oc.linalg.inv(A, ...)"),
        ("values", "; use instead: A.compute()"),
        ("xyzzy", ""),
        ("_private", ""),
        ("__array_interface__", ""),
        # These are no functions.
        ("random", ""),
        ("float64", ""),
    ],
)
def test_unknown_attributes_say_what_is_meant(name: str, message: str) -> None:
    array = oc.zeros((2, 2))
    assert not hasattr(array, name)
    assert _error(array, name) == f"'Array' object has no attribute {name!r}{message}"


def test_every_attribute_of_numpys_is_there_or_told_of() -> None:
    array = oc.zeros((2, 2))
    for name in dir(np.ndarray):
        if not name.startswith("_") and not hasattr(array, name):
            assert "; use instead: " in _error(array, name)


def test_what_a_property_raises_is_told() -> None:
    class Broken(oc.Array):
        @property
        def broken(self) -> int:
            raise AttributeError("of its own")

    with pytest.raises(AttributeError, match=r"^of its own$"):
        _ = Broken(oc.zeros(2)._source).broken


def test_what_is_said_is_true() -> None:
    tables = {
        oc: numpy_names.INSTEAD,
        linalg: linalg._INSTEAD,
        blas: blas._INSTEAD,
        random: random._INSTEAD,
        oc.Array: public_names.INSTEAD_OF_ATTRIBUTES,
    }
    array = oc.zeros((2, 2))
    for owner, table in tables.items():
        for name, text in table.items():
            assert not hasattr(owner, name), name
            words = re.findall(r"\b(oc|A|numpy)((?:\.\w+)+)", text)
            assert words or not re.search(r"\w\.\w", text), text
            for root, path in words:
                found: Any = {"oc": oc, "A": array, "numpy": np}[root]
                for part in path[1:].split("."):
                    found = getattr(found, part)
    made = oc.random.default_rng(1)
    for text in random._INSTEAD.values():
        method = text.rpartition(".")[2]
        assert hasattr(made, method) or method == "default_rng(seed)"
    assert issubclass(oc.SingularMatrixError, np.linalg.LinAlgError)
    assert issubclass(oc.NotPositiveDefiniteError, np.linalg.LinAlgError)
