"""What an expression means: its operands as they were when it was made.

Expressions used to be of their operands as these were when something was first computed of them, or
as they were later: `w = oc.asarray(np.ones(3)); g = w * 0.5; w -= g; g.compute()` gave .25, where
NumPy gives .5, and what had been computed once went on with old elements for ever.
"""

import copy
import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outcrop as oc
from outcrop import _native

# -- in memory -------------------------------------------------------------------------------------


def test_an_operand_in_memory_is_kept_as_it_was() -> None:
    w = oc.asarray(np.ones(3))
    g = w * 0.5
    w -= g
    assert g.compute().tolist() == [0.5, 0.5, 0.5]
    assert w.compute().tolist() == [0.5, 0.5, 0.5]
    w -= g
    assert w.compute().tolist() == [0, 0, 0]
    assert g.compute().tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("given", [np.arange(6.0), list(np.arange(6.0))])
def test_every_way_to_write_to_memory_keeps_what_expressions_mean(given: Any) -> None:
    def writes() -> Iterator[Any]:
        yield lambda a: a.__setitem__(0, 7)
        yield lambda a: a.__setitem__([1, 2], 7)
        yield lambda a: a.__setitem__(a > 2, 7)
        yield lambda a: a[::-2].__setitem__(..., 7)
        yield lambda a: np.add.at(a, [0, 1], 5)
        yield lambda a: np.add(a, 1, out=a)
        yield lambda a: np.multiply(np.arange(6.0), 3, out=a)
        yield lambda a: np.copyto(a, 9)
        yield lambda a: np.put(a, [1], 9)
        yield lambda a: np.putmask(a, np.arange(6) > 2, 9)
        yield lambda a: np.cumsum(a, out=a)
        yield lambda a: a.__imul__(2)

    for write in writes():
        a = oc.asarray(copy.deepcopy(given))
        made = [
            a + 1, a.reshape(2, 3), a[[0, 0, 3]], a.sum(), a.astype("float32"), a.astype("float64"),
            +a, copy.copy(a), copy.deepcopy(a), a @ np.ones(6), oc.asarray(a, copy=True),
            a.cumsum(),
        ]  # fmt: skip
        expected = [
            np.arange(6.0) + 1, np.arange(6.0).reshape(2, 3), np.array([0.0, 0, 3]), np.float64(15),
            np.arange(6, dtype="float32"), *[np.arange(6.0)] * 4, np.float64(15), np.arange(6.0),
            np.arange(6.0).cumsum(),
        ]  # fmt: skip
        view = a[:]
        write(a)
        assert np.array_equal(view, a.compute()), "a view sees what is assigned"
        for one, wanted in zip(made, expected, strict=True):
            assert np.array_equal(one.compute(), wanted)


def test_two_arrays_of_one_memory() -> None:
    memory = np.arange(4.0)
    one, other = oc.asarray(memory), oc.asarray(memory[1:])
    doubled = one * 2
    product = one + memory
    other[0] = 10
    assert memory[1] == 10, "assignment writes through to the NumPy array"
    assert doubled.compute().tolist() == [0, 2, 4, 6]
    assert product.compute().tolist() == [0, 2, 4, 6]
    assert (one * 2).compute().tolist() == [0, 20, 4, 6]


def test_copies_have_elements_of_their_own() -> None:
    memory = np.arange(3.0)
    a = oc.asarray(memory)
    for made in (
        a.copy(), copy.copy(a), copy.deepcopy(a), a.astype(a.dtype), oc.asarray(a, copy=True),
        oc.asarray(memory, copy=True), oc.astype(a, "float64"),
    ):  # fmt: skip
        memory[:] = 5
        assert made.compute().tolist() == [0, 1, 2]
        made[0] = 8
        assert memory.tolist() == [5, 5, 5]
        memory[:] = np.arange(3)
    assert a.astype(a.dtype, copy=False) is a
    assert oc.asarray(memory, copy=False)._source.borrow(a._view) is not None
    for needs in ([1.0, 2.0], np.arange(3, dtype=">f8"), 3):
        with pytest.raises(oc.InvalidArgumentError, match="copy"):
            oc.asarray(needs, copy=False)  # type: ignore[arg-type]


def test_copies_of_expressions_copy_the_memory_of_others_alone(tmp_path: Path) -> None:
    """All was computed to scratch, of an array on disk times a few numbers of NumPy's."""
    chance = np.random.default_rng(2)
    large, row, one = chance.random((700, 500)), chance.random(500), chance.random((700, 1))
    oc.asarray(large).save(tmp_path / "a.zarr")
    repeated = np.broadcast_to(one, large.shape)
    with oc.config(memory="1MiB"):
        a = oc.open(tmp_path / "a.zarr")
        for given, expected in (
            (a * row, large * row),
            (a[::-1] + repeated * row, large[::-1] + repeated * row),
            # More than goes along in memory: all of it is computed.
            (a * large, large * large),
        ):
            copies = [given.astype(given.dtype), given.copy(), +given]
            kept, row[:], one[:] = (row.copy(), one.copy()), -1, -1
            changed, large[:] = large.copy(), 0
            with oc.config(memory="64MiB"):
                for made in copies:
                    assert np.array_equal(made.compute(), expected)
            row[:], one[:], large[:] = *kept, changed
        before = oc.last_run()
        (a * row).astype(a.dtype)
        assert oc.last_run() is before or oc.last_run() == before


def test_what_is_handed_out_is_not_what_expressions_mean() -> None:
    a = oc.asarray([3.0, 4.0])
    length = oc.linalg.norm(a)
    kept = (a @ a)[None]
    assert kept[0].compute() == 25
    np.asarray(kept)[0] = 1
    assert kept[0].compute() == 25
    np.asarray(a)[0] = 0
    np.array(a)[0] = 0
    assert length.compute() == 5
    assert kept[0].compute() == 25
    assert a.tolist() == [3, 4]


def test_memory_of_our_own_is_handed_out_as_a_copy_or_to_be_looked_at() -> None:
    """`np.asarray(w)` was writable memory of `w`, and of what expressions took it for."""
    own: list[Any] = [
        oc.asarray([3, 3, 3]),
        oc.asarray(np.full(3, 3), copy=True),
        oc.asarray(np.full(3, 3)).copy(),
        oc.asarray(np.full((3, 3), 3), copy=True)[1],
    ]
    for w in own:
        g = w * 2
        np.asarray(w)[...] = 0
        np.asarray(w, copy=None)[...] = 0
        np.asarray(w, w.dtype)[...] = 0
        assert g.compute().tolist() == [6, 6, 6] and w.tolist() == [3, 3, 3]
        looked_at = np.asarray(w, copy=False)
        with pytest.raises(ValueError, match="read-only"):
            looked_at[0] = 0
        w[0] = 5
        assert looked_at.tolist() == [5, 3, 3] and g.compute().tolist() == [6, 6, 6]
        # Nor do functions that NumPy does in memory give it away.
        for result in (np.trim_zeros(w), np.real_if_close(w)):
            with pytest.raises(ValueError, match="read-only"):
                result[0] = 0
    plain = np.full(3, 3)
    given = oc.asarray(plain)
    for handed_out in (np.asarray(given), np.asarray(given, copy=False)):
        assert np.shares_memory(handed_out, plain) and handed_out.flags.writeable
    # One element stands for all, which nobody can change.
    assert np.asarray(oc.zeros((10**6, 10**6))).shape == (10**6, 10**6)


def test_memory_that_is_handed_out_counts() -> None:
    def used() -> int:
        return int(_native.status()["used"])

    with oc.config(memory="64MiB"):
        w = oc.asarray(np.ones(10**6), copy=True)
        before = used()
        for hand_out, nbytes in (
            (oc.Array.compute, w.nbytes),
            (np.asarray, w.nbytes),
            (np.array, w.nbytes),
            (lambda w: np.asarray(w, copy=False), 0),
        ):
            kept = hand_out(w)
            assert used() - before == nbytes, hand_out
            del kept
            assert used() == before


# -- what NumPy documents as a copy ----------------------------------------------------------------

COPYING: dict[str, Any] = {
    "copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "astype": lambda x: x.astype(x.dtype),
    "np.astype": lambda x: np.astype(x, x.dtype),
    "array": np.array,
    "array like": lambda x: np.array(x, like=x),
    "np.copy": np.copy,
    "positive": lambda x: +x,
    "flatten": lambda x: x.flatten(),
    "flatten F": lambda x: x.flatten("F"),
    "roll 0": lambda x: np.roll(x, 0),
    "roll around": lambda x: np.roll(x, x.size),
    "roll 0 along": lambda x: np.roll(x, 0, 0),
    "roll along none": lambda x: np.roll(x, (), ()),
    "repeat": lambda x: x.repeat(1, 0),
    "repeat all": lambda x: np.repeat(x, 1),
    "repeat each": lambda x: np.repeat(x, [1] * len(x), 0),
    "tile": lambda x: np.tile(x, 1),
    "tile of more axes": lambda x: np.tile(x, (1, 1, 1)),
    "take": lambda x: np.take(x, range(len(x)), 0),
    "take of a row": lambda x: np.take(x, range(x.size)),
    "compress": lambda x: x.compress([True] * len(x), 0),
    "extract": lambda x: np.extract(np.ones(x.shape, bool), x),
    "indices": lambda x: x[list(range(len(x)))],
    "mask": lambda x: x[np.ones(len(x), bool)],
    "concatenate": lambda x: np.concatenate([x]),
    "concatenate rows": lambda x: np.concatenate([x], axis=None),
    "concatenate with nothing": lambda x: np.concatenate([x, x[:0]]),
    "append": lambda x: np.append(x, x[:0], 0),
    "stack": lambda x: np.stack([x]),
    "hstack": lambda x: np.hstack([x]),
    "vstack": lambda x: np.vstack([x]),
    "dstack": lambda x: np.dstack([x]),
    "column_stack": lambda x: np.column_stack([x]),
    "block": lambda x: np.block([x]),
    "pad": lambda x: np.pad(x, 0),
    "pad by index": lambda x: np.pad(x, 0, mode="edge"),
    "delete": lambda x: np.delete(x, [], 0),
    "insert": lambda x: np.insert(x, [], 0, 0),
    "resize": lambda x: np.resize(x, x.shape),
    "nan_to_num": lambda x: np.nan_to_num(x, copy=True),
    "clip": lambda x: np.clip(x, -100, None),
    "round": lambda x: x.round(),
    "where": lambda x: np.where(True, x, 0),
    "select": lambda x: np.select([np.ones(x.shape, bool)], [x]),
    "tril": lambda x: np.tril(x, 100),
    "triu": lambda x: np.triu(x, -100),
    "conjugate": np.conjugate,
    "maximum": lambda x: np.maximum(x, -100),
    "multiply": lambda x: x * 1,
    "sum over no axis": lambda x: np.sum(x, axis=()),
    "max over no axis": lambda x: np.max(x, axis=()),
    "sort": np.sort,
    "meshgrid": lambda x: np.meshgrid(x.ravel(), x.ravel()[:2])[0],
    "fix": np.fix,
    "fabs": np.fabs,
}

WRITES: dict[str, Any] = {
    "element": lambda a: a.__setitem__(0, 77),
    "all": lambda a: a.__setitem__(..., 77),
    "slice": lambda a: a[::-2].__setitem__(..., 77),
    "indices": lambda a: a.__setitem__([0, 1], 77),
    "mask": lambda a: a.__setitem__(np.ones(a.shape, bool), 77),
    "ufunc": lambda a: np.add(a, 7, out=a),
    "operator": lambda a: a.__iadd__(7),
    "at": lambda a: np.add.at(a, 0, 7),
    "copyto": lambda a: np.copyto(a, 77),
    "put": lambda a: np.put(a, [0], 77),
    "put by name": lambda a: np.put(a=a, ind=[0], v=77),
    "place": lambda a: np.place(a, np.ones(a.shape, bool), 77),
    "putmask": lambda a: np.putmask(a, np.ones(a.shape, bool), 77),
    "cumsum": lambda a: np.cumsum(a, 0, out=a),
    "nan_to_num": lambda a: np.nan_to_num(a, copy=False),
}

KINDS: dict[str, Any] = {
    "ours": lambda x, path: oc.asarray(x, copy=True),
    "given": lambda x, path: oc.asarray(x.copy()),
    "a view": lambda x, path: oc.asarray(np.stack([x, x]), copy=True)[1],
    "stored": lambda x, path: stored(x, path / "a.zarr"),
    "stored in place": lambda x, path: stored(x, path / "a.npy"),
}


def stored(x: Any, path: Path) -> oc.Array:
    oc.asarray(x).save(path, overwrite=True)
    return oc.open(path, "r+")


@pytest.mark.parametrize("function", COPYING)
@pytest.mark.parametrize("kind", KINDS)
def test_what_numpy_copies_is_no_view(kind: str, function: str, tmp_path: Path) -> None:
    """`flatten` of one axis, `roll` by nothing and `repeat` of one were the array itself."""
    make = COPYING[function]
    # On disk, writing takes longer, and there is but one way.
    writes = [WRITES[name] for name in (["element", "operator"] if "stored" in kind else WRITES)]
    for plain in (np.arange(4.0), np.arange(6.0).reshape(3, 2)):
        expected = make(plain.copy())
        for write in writes:
            array = KINDS[kind](plain, tmp_path)
            made, before = make(array), array.compute()
            write(array)
            try:
                np.testing.assert_array_equal(np.asarray(made), expected)
            except oc.StaleOperandError:
                assert kind.startswith("stored")
            array.abort()

            array = KINDS[kind](plain, tmp_path)
            made = make(array)
            try:
                write(made)
            except (oc.InvalidArgumentError, oc.UnsupportedError) as error:
                assert (
                    "read-only" in str(error)
                    or "not computed" in str(error)
                    or ("elements in their place" in str(error))
                )
            np.testing.assert_array_equal(array.compute(), before)
            array.abort()


@pytest.mark.parametrize("n", [6, 200])
def test_what_is_computed_from_an_array_of_numpys_agrees_with_itself(n: int) -> None:
    a = np.eye(n) * 5
    x = oc.asarray(a)
    v = x + 4 * oc.eye(n)
    factor, total, product = oc.linalg.cholesky(v), v.sum(), v @ v
    solved = oc.linalg.solve(v, np.ones(n), assume="pos")
    for value in (5, 12, 21):
        a[...] = np.eye(n) * value
        assert v[0, 0].compute() == value + 4
        assert factor[0, 0].compute() ** 2 == pytest.approx(value + 4)
        assert total.compute() == pytest.approx(n * (value + 4))
        assert product[0, 0].compute() == (value + 4) ** 2
        assert (product + 1)[0, 0].compute() == (value + 4) ** 2 + 1
        assert solved[0].compute() == pytest.approx(1 / (value + 4))
        assert (x + 4 * oc.eye(n))[0, 0].compute() == value + 4


# -- on disk, by the same array --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.npy", "a.zarr", "a.raw"])
@pytest.mark.parametrize("is_new", [True, False])
def test_assignments_of_an_array_to_itself(tmp_path: Path, name: str, is_new: bool) -> None:
    plain = np.arange(24.0).reshape(6, 4)
    options: dict[str, Any] = {"tile": (2, 3)} if name == "a.zarr" else {}
    a = oc.create(tmp_path / name, plain.shape, **options)
    a[...] = plain
    if not is_new:
        a.close()
        shape: dict[str, Any] = {"shape": (6, 4), "dtype": "f8"} if name == "a.raw" else {}
        a = oc.open(tmp_path / name, "r+", **shape)
    a[...] = a + 1
    plain[...] = plain + 1
    a[1:] = a[:-1] * 2
    plain[1:] = plain[:-1] * 2
    a += 1
    plain += 1
    a -= a.mean(0)
    plain -= plain.mean(0)
    for i in range(1, 6):
        a[i] = a[i - 1] * 1.5 + i
        plain[i] = plain[i - 1] * 1.5 + i
    a[a > 3] = 3
    plain[plain > 3] = 3
    a[[0, 2]] = a[[2, 0]] + a.sum()
    plain[[0, 2]] = plain[[2, 0]] + plain.sum()
    rest, wanted = np.empty((6, 4)), np.empty((6, 4))
    np.divmod(a, 2, out=(a, rest))
    np.divmod(plain, 2, out=(plain, wanted))
    assert np.allclose(rest, wanted)
    assert np.allclose(a.compute(), plain)
    with_pending = a * 2
    assert np.allclose(with_pending.compute(), plain * 2)
    a.flush()
    assert np.allclose(with_pending.compute(), plain * 2)
    a[0, 0] = 1
    with pytest.raises(oc.StaleOperandError, match="assigned"):
        with_pending.compute()
    a.close()


@pytest.mark.parametrize("name", ["a.npy", "a.zarr"])
def test_an_array_is_assigned_what_another_one_of_its_path_gives(tmp_path: Path, name: str) -> None:
    plain = np.arange(24.0).reshape(6, 4)
    oc.asarray(plain).save(tmp_path / name)
    read = oc.open(tmp_path / name)
    values: list[Any] = [
        lambda x: x[::-1] * 2,
        lambda x: x @ np.eye(4),
        lambda x: (x @ x.T)[:, :4],
    ]
    for value in values:
        with oc.open(tmp_path / name, "r+") as a:
            a[...] = value(read)
            assert np.allclose(a.compute(), value(plain))
            a[...] = plain


# -- what is kept ----------------------------------------------------------------------------------


def test_operands_leave_the_scratch_directory_with_the_operation(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rng = np.random.default_rng(0)
    plain = rng.random((900, 700))
    a = oc.asarray(plain).save(tmp_path / "a.npy")
    with oc.config(memory="16MiB", scratch=str(scratch)):
        z = oc.linalg.matmul(a.T[:, ::-1], a[::-1]) * 2 + 1
        both = oc.linalg.matmul(z, z.T)
        saved = both.save(tmp_path / "both.zarr")
        gc.collect()
        assert os.listdir(scratch) == []
        wanted = plain.T @ plain * 2 + 1
        assert np.allclose(saved.compute(), wanted @ wanted.T)
        assert float(z.sum()) == pytest.approx(wanted.sum())
        assert os.listdir(scratch) == []
        with oc.open(tmp_path / "a.npy", "r+") as changed:
            changed[0, 0] = 100
        for stale in (z, z.sum(), both, z[0]):
            with pytest.raises(oc.StaleOperandError):
                stale.compute()
        assert os.listdir(scratch) == []


def test_a_kept_result_is_none_of_what_has_changed(tmp_path: Path) -> None:
    a = oc.asarray(np.arange(12.0).reshape(3, 4)).save(tmp_path / "a.zarr")
    total = a.sum(0)
    assert total[1].compute() == 15
    further = total + 1
    assert further[1].compute() == 16
    with oc.open(tmp_path / "a.zarr", "r+") as changed:
        changed[0, 1] = 100
    for stale in (total, total[1], further, further[1], further * 2):
        with pytest.raises(oc.StaleOperandError):
            stale.compute()
    assert (a.sum(0) + 1)[1].compute() == 115


# -- at random -------------------------------------------------------------------------------------

_paths = itertools.count()


class Pair:
    """An array, and the same in NumPy."""

    def __init__(self, made: Any, plain: Any, *, is_view: bool = False) -> None:
        self.made, self.plain, self.is_view = made, plain, is_view


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["memory", "own", "npy", "zarr", "new.npy", "new.zarr"]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["make", "make", "assign", "compute", "part", "inplace", "flush"]),
            st.integers(0, 7),
            st.integers(0, 7),
        ),
        max_size=14,
    ),
)
def test_whatever_is_done_in_between(
    kind: str, steps: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain = np.arange(12.0).reshape(4, 3)
    array = _start(kind, plain.copy(), tmp_path_factory.getbasetemp() / f"meaning{next(_paths)}")
    pairs = [Pair(array, plain, is_view=True)]
    for what, i, j in steps:
        one, other = pairs[i % len(pairs)], pairs[j % len(pairs)]
        if what == "make":
            make = _MAKERS[j % len(_MAKERS)]
            try:
                pairs.append(Pair(make(one.made, other.made), make(one.plain, other.plain).copy()))
            except oc.StaleOperandError:
                _is_stored(kind)
        elif what == "assign":
            value = Pair(float(i), float(i)) if j % 2 else one
            _assign(kind, array, plain, j, value)
        elif what == "inplace":
            _assign(kind, array, plain, None, one)
        elif what == "flush":
            array.flush()
        else:
            _check(kind, one, j if what == "part" else None)
    for pair in pairs:
        _check(kind, pair, None)
    assert np.array_equal(array.compute(), plain)
    array.abort()


def _start(kind: str, plain: Any, path: Path) -> Any:
    if kind == "memory":
        return oc.asarray(plain)
    if kind == "own":
        return oc.asarray(plain, copy=True)
    suffix = "." + kind.rpartition(".")[2]
    options: dict[str, Any] = {"tile": (2, 2)} if suffix == ".zarr" else {}
    if not kind.startswith("new"):
        oc.asarray(plain).save(path.with_suffix(suffix), **options)
        return oc.open(path.with_suffix(suffix), "r+")
    made = oc.create(path.with_suffix(suffix), plain.shape, **options)
    made[...] = plain
    return made


_MAKERS = [
    lambda a, b: a + 1,
    lambda a, b: a * b,
    lambda a, b: a[[3, 0, 1, 1]],
    lambda a, b: a.reshape(3, 4).reshape(4, 3),
    lambda a, b: b - a.sum(0),
    lambda a, b: a.astype("float32").astype("float64"),
    lambda a, b: a.cumsum(axis=0),
    lambda a, b: a @ np.asarray([[2.0, 0, 0], [0, 0, 1], [0, 1, 0]]) + b,
]


def _assign(kind: str, array: Any, plain: Any, at: int | None, value: Pair) -> None:
    try:
        if at is None:
            array += value.made
            plain += value.plain
        elif at % 4 == 1 or np.ndim(value.plain) == 0:
            array[at % 4] = value.made if np.ndim(value.plain) == 0 else value.made[0]
            plain[at % 4] = value.plain if np.ndim(value.plain) == 0 else value.plain[0].copy()
        else:
            array[...] = value.made
            plain[...] = value.plain
    except oc.StaleOperandError:
        _is_stored(kind)


def _check(kind: str, pair: Pair, part: int | None) -> None:
    try:
        found = pair.made.compute() if part is None else pair.made[part % 4].compute()
    except oc.StaleOperandError:
        assert not pair.is_view
        _is_stored(kind)
        return
    assert np.array_equal(found, pair.plain if part is None else pair.plain[part % 4])


def _is_stored(kind: str) -> None:
    assert kind not in ("memory", "own"), "what is in memory is never stale"


def test_parts_that_were_read_do_not_stand_in_the_way(tmp_path: Path) -> None:
    """A chunk of others, in memory for small reads, was taken for a tile of a plan."""
    x = np.random.default_rng(0).standard_normal((6, 8))
    oc.asarray(x).save(tmp_path / "x.zarr", codecs="zstd")
    A = oc.open(tmp_path / "x.zarr")
    np.testing.assert_array_equal(A[0].compute(), x[0])
    np.testing.assert_array_equal(np.asarray((A * 2).save(tmp_path / "y.zarr")), x * 2)
