"""One tree of errors, each also what users already catch."""

import errno
import pickle
from typing import Any

import numpy as np
import pytest

import outcrop as oc

BUILT_IN = {
    oc.CorruptArrayError: OSError,
    oc.StorageFullError: OSError,
    oc.StorageError: OSError,
    oc.StoragePermissionError: (oc.StorageError, PermissionError),
    oc.ArrayNotFoundError: FileNotFoundError,
    oc.ArrayExistsError: FileExistsError,
    oc.ArrayBusyError: OSError,
    oc.BudgetError: MemoryError,
    oc.UnsupportedError: ValueError,
    oc.InvalidArgumentError: ValueError,
    oc.InvalidTypeError: TypeError,
    oc.BoxIndexError: IndexError,
    oc.ClosedArrayError: ValueError,
    oc.ForkedProcessError: RuntimeError,
    oc.NotPositiveDefiniteError: np.linalg.LinAlgError,
    oc.SingularMatrixError: np.linalg.LinAlgError,
}


@pytest.mark.parametrize("kind", BUILT_IN)
def test_one_message(kind: type[oc.OutcropError]) -> None:
    bases = BUILT_IN[kind]
    for base in bases if isinstance(bases, tuple) else (bases,):
        assert issubclass(kind, base)
    assert issubclass(kind, oc.OutcropError)
    error = kind("a.zarr: what happened")
    assert str(error) == "a.zarr: what happened"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)


def test_errno_is_kept() -> None:
    error = oc.StorageError("a.zarr: cannot write", errno=errno.EIO)
    assert error.errno == errno.EIO
    error.errno = errno.EROFS
    assert str(error) == "a.zarr: cannot write"
    assert pickle.loads(pickle.dumps(error)).errno == errno.EROFS
    assert oc.ArrayNotFoundError("none").errno is None


def test_index_is_kept() -> None:
    error = oc.NotPositiveDefiniteError("the pivot is -1", 7)
    assert pickle.loads(pickle.dumps(error)).index == 7
    error = oc.SingularMatrixError("the pivot is 0")
    assert error.index is None
    error.index = 3
    assert pickle.loads(pickle.dumps(error)).index == 3


def test_what_is_needed_is_kept() -> None:
    error = oc.BudgetError("the program needs 4096 bytes", 4096)
    assert pickle.loads(pickle.dumps(error)).needed == 4096
    assert oc.BudgetError("too little").needed is None


@pytest.mark.parametrize(
    "call",
    [
        lambda A, d: oc.zeros(3, dtype=d),
        lambda A, d: oc.arange(3, dtype=d),
        lambda A, d: oc.linspace(0, 1, 3, dtype=d),
        lambda A, d: oc.eye(3, dtype=d),
        lambda A, d: oc.asarray([1], dtype=d),
        lambda A, d: A.astype(d),
        lambda A, d: (A * 2).astype(d),
        lambda A, d: A.sum(dtype=d),
        lambda A, d: A.mean(dtype=d),
        lambda A, d: A.std(dtype=d),
        lambda A, d: oc.nanmean(A, dtype=d),
        lambda A, d: np.add(A, 1, dtype=d),
        lambda A, d: oc.map(np.sin, A, dtype=d),
        lambda A, d: oc.fromfunction(lambda i: i, (3,), d),
        lambda A, d: oc.create("a.zarr", (3,), d),
        lambda A, d: oc.random.default_rng(1).random(3, dtype=d),
        lambda A, d: oc.random.default_rng(1).integers(0, 3, 3, dtype=d),
    ],
)
def test_what_is_no_type_is_an_error_of_ours(call: Any) -> None:
    for wrong in ("nonsense", object()):
        with pytest.raises(oc.InvalidTypeError, match="data type"):
            call(oc.asarray(np.arange(6.0)), wrong)
