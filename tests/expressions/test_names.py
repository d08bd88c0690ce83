"""NumPy's functions by their own names, with all of their arguments, on arrays of ours."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import outcrop as oc

PLAIN = np.arange(48.0).reshape(6, 8) - 20
ROW = PLAIN[2]

LAZY: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda a, v: np.clip(a, a_min=-3, a_max=5),
    "clip, new names": lambda a, v: np.clip(a, min=v),
    "clip integers": lambda a, v: np.clip(a.astype("uint8"), -1, 300),
    "concatenate all": lambda a, v: np.concatenate([a, v, a.T], axis=None),
    "concatenate as": lambda a, v: np.concatenate([a, a], dtype="float32"),
    "stack as": lambda a, v: np.stack([a, a], axis=-1, dtype="int32", casting="unsafe"),
    "vstack": lambda a, v: np.vstack([a, v, a]),
    "hstack": lambda a, v: np.hstack([a, a[:, :2]]),
    "hstack vectors": lambda a, v: np.hstack([v, v]),
    "dstack": lambda a, v: np.dstack([a, a]),
    "dstack vectors": lambda a, v: np.dstack([v, v]),
    "column_stack": lambda a, v: np.column_stack([v, a.T, v]),
    "append": lambda a, v: np.append(a, v),
    "append rows": lambda a, v: np.append(a, [list(range(8))], axis=0),
    "flipud": lambda a, v: np.flipud(a),
    "fliplr": lambda a, v: np.fliplr(a),
    "matrix_transpose": lambda a, v: np.matrix_transpose(a),
    "zeros_like": lambda a, v: np.zeros_like(a),
    "ones_like": lambda a, v: np.ones_like(a, "int16"),
    "full_like": lambda a, v: np.full_like(a, 7, shape=(2, 3)),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy(tiny: Any, name: str) -> None:
    call = LAZY[name]
    tiny.check(call(tiny.put(PLAIN), tiny.put(ROW)), call(PLAIN, ROW))


def test_types_are_known_without_elements(desk: Any) -> None:
    array = oc.zeros((10**6, 10**6), dtype="float32") + 1
    assert np.result_type(array, "int16", 3) == np.float32
    assert np.isrealobj(array)
    assert not np.iscomplexobj(array)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: np.copyto(a, 3),
        lambda a: np.copyto(a, PLAIN[0], where=PLAIN > 3),
        lambda a: np.copyto(a, PLAIN[:, ::-1].astype("int16")),
        lambda a: np.clip(a, 0, 9, out=a),
        lambda a: np.concatenate([PLAIN[:2], PLAIN[:4] + 1], out=a),
        lambda a: np.round(PLAIN / 3, 2, out=a),
        lambda a: np.round(PLAIN, 0, a),
        lambda a: np.nan_to_num(a, copy=False),
        lambda a: np.choose(np.ones((6, 8), int), [PLAIN, PLAIN + 1], out=a),
    ],
)
def test_what_is_changed_in_its_place(desk: Any, call: Callable[[Any], Any]) -> None:
    desk.put(PLAIN)
    plain = PLAIN.copy()
    call(plain)
    for array in (oc.open(desk.path / "1.zarr", "r+"), oc.asarray(PLAIN.copy())):
        call(array)
        desk.compare(array.compute(), plain)
        array.abort()


@pytest.mark.parametrize(
    "call",
    [
        lambda a: np.put(a, [0], 9),
        lambda a: np.putmask(a, PLAIN > 3, 9),
        lambda a: np.place(a, PLAIN > 3, [9]),
        lambda a: np.fill_diagonal(a, 9),
        lambda a: np.put_along_axis(a, np.array([[0]]), 9, 0),
    ],
)
def test_nothing_is_changed_in_a_copy_that_is_lost(desk: Any, call: Callable[[Any], Any]) -> None:
    plain = PLAIN.copy()
    call(plain)
    memory = oc.asarray(PLAIN.copy())
    call(memory)
    desk.compare(memory.compute(), plain)
    desk.put(PLAIN)
    with oc.open(desk.path / "1.zarr", "r+") as array:
        for one in (array, array + 1):
            with pytest.raises(oc.UnsupportedError, match="in their place"):
                call(one)


def test_what_cannot_be_converted(desk: Any) -> None:
    array = oc.asarray(np.zeros((6, 8), "uint8"))
    with pytest.raises(OverflowError, match="300 out of bounds"):
        np.copyto(array, 300)
    for given in (1.5, oc.asarray(PLAIN), np.float32(2)):
        with pytest.raises(oc.InvalidTypeError, match="same_kind"):
            np.copyto(array, given)
    with pytest.raises(oc.InvalidTypeError, match="same_kind"):
        np.concatenate([oc.asarray(PLAIN)], dtype="uint8")
    with pytest.raises(oc.InvalidArgumentError, match="by one name"):
        np.clip(array, a_min=1, min=2, a_max=3)
    with pytest.raises(oc.InvalidArgumentError, match="shape"):
        np.clip(array, 1, 2, out=oc.asarray(np.zeros((3, 6, 8), "uint8")))


def test_what_is_done_in_memory_says_so(desk: Any) -> None:
    array = desk.put(np.zeros(400_000))
    with pytest.raises(oc.BudgetError, match=r"numpy\.copy is done in memory .* take a slice"):
        np.copy(array)
    assert np.copy(array[:9]).flags.writeable


def test_algebra_that_is_our_own() -> None:
    given = np.random.default_rng(3)
    a, b, c = given.random((9, 5)), given.random((5, 40)), given.random((40, 3))
    stack = given.random((4, 3, 5)) - 0.5
    positive = a.T @ a + np.eye(5)
    x = oc.asarray(stack)
    pairs = [
        (np.linalg.multi_dot([oc.asarray(a), b, c]), np.linalg.multi_dot([a, b, c])),
        (np.linalg.multi_dot([oc.asarray(a[0]), b, c[:, 0]]), a[0] @ b @ c[:, 0]),
        (np.linalg.matmul(oc.asarray(a), b), a @ b),
        (np.linalg.tensordot(oc.asarray(a), b, axes=1), a @ b),
        (np.linalg.vecdot(x, stack), np.linalg.vecdot(stack, stack)),
        (np.linalg.matrix_norm(x), np.linalg.matrix_norm(stack)),
        (np.linalg.cholesky(oc.asarray(positive)), np.linalg.cholesky(positive)),
        (np.linalg.cholesky(oc.asarray(positive[None])), np.linalg.cholesky(positive[None])),
        (np.tri(4, 5, 1, like=x), np.tri(4, 5, 1)),
        (np.eye(4, 5, 1, like=x), np.eye(4, 5, 1)),
        (np.full((2, 3), 7, like=x), np.full((2, 3), 7)),
    ]
    for axis in (None, 0, -1, (0, 2), (2, 1)):
        for order in (1, 2, np.inf):
            for kept in (False, True):
                options: Any = {"axis": axis, "ord": order, "keepdims": kept}
                ours = np.linalg.vector_norm(x, **options)
                pairs.append((ours, np.linalg.vector_norm(stack, **options)))
    for ours, theirs in pairs:
        assert ours.shape == theirs.shape
        assert np.allclose(np.asarray(ours), theirs)
    assert np.array_equiv(x, stack)
    assert not np.array_equiv(x, stack[:, :2])
    assert np.can_cast(x, "complex128")
    assert not np.can_cast(x, "float32")
    assert np.common_type(x, oc.ones(3, dtype="complex64")) is np.complex128
    assert np.min_scalar_type(x) == np.float64
    assert np.shares_memory(x, stack)
    assert not np.may_share_memory(oc.ones(3), stack)
