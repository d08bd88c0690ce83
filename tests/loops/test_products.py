"""Products of matrices in nests, which the kernel of linear algebra does where it may."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

from . import nests

pytest.importorskip("numba")
pytest.importorskip("islpy")

from .plain import plain, stored


def ijk(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def jki(a, b, c):  # type: ignore[no-untyped-def]
    for j in range(c.shape[1]):
        for k in range(a.shape[1]):
            for i in range(c.shape[0]):
                c[i, j] += a[i, k] * b[k, j]


def kij(a, b, c):  # type: ignore[no-untyped-def]
    for k in range(a.shape[1]):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def transposed(a, b, c, alpha):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[0]):
                c[i, j] -= b[j, k] * alpha * a[k, i]


def summed(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def scaled(a, b, c, alpha, beta):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = alpha * s + beta * c[i, j]


def part(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(3, c.shape[0] - 5):
        for j in range(c.shape[1] - 1, 9, -1):
            for k in range(7, 70):
                c[i, j] += a[i - 3, k + 1] * b[k, j]


def chained(a, b, t, d, x):  # type: ignore[no-untyped-def]
    for i in range(t.shape[0]):
        x[i] = i
        for j in range(t.shape[1]):
            t[i, j] = 0.0
            for k in range(a.shape[1]):
                t[i, j] += a[i, k] * b[k, j]
    for i in range(d.shape[0]):
        for j in range(d.shape[1]):
            d[i, j] *= 0.5
            for k in range(t.shape[1]):
                d[i, j] += t[i, k] * b[j, k]
            d[i, j] += x[i]


def batched(a, b, c):  # type: ignore[no-untyped-def]
    for k in range(a.shape[2]):
        for q in range(a.shape[0]):
            for i in range(a.shape[1]):
                for j in range(b.shape[2]):
                    c[q, i, j] += a[q, i, k] * b[q, k, j]


def contracted(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                for q in range(a.shape[2]):
                    c[i, j] += a[i, k, q] * b[q, k, j]


def triangle(low, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(i + 1):
                c[i, j] += low[i, k] * b[k, j]


def _arguments() -> dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]]:
    f = np.random.default_rng(3).standard_normal
    three = {"a": f((110, 120)), "b": f((120, 130)), "c": f((110, 130))}
    others = nests.arguments()
    turned = {"a": f((120, 110)), "b": f((130, 120)), "c": f((110, 130)), "alpha": -1.5}
    singles = {p: v.astype("f4") for p, v in turned.items() if p != "alpha"}
    complexes = {p: (v + 1j * v[::-1]) for p, v in turned.items() if p != "alpha"}
    cubes = {"a": f((5, 60, 70)), "b": f((5, 70, 65)), "c": f((5, 60, 65))}
    return {
        "ijk": (ijk, three, ("c",)),
        "jki": (jki, three, ("c",)),
        "kij": (kij, three, ("c",)),
        "transposed": (transposed, turned, ("c",)),
        "transposed f4": (transposed, {**singles, "alpha": -1.5}, ("c",)),
        "transposed c16": (transposed, {**complexes, "alpha": -1.5}, ("c",)),
        "summed": (summed, three, ("c",)),
        "scaled": (scaled, {**three, "alpha": 0.5, "beta": -2.0}, ("c",)),
        "part": (part, three, ("c",)),
        "chained": (
            chained,
            {"a": three["a"], "b": three["b"], "t": three["c"], "d": f((110, 120)), "x": f(110)},
            ("t", "d", "x"),
        ),
        "batched": (batched, cubes, ("c",)),
        "contracted": (
            contracted,
            {"a": f((60, 9, 70)), "b": f((70, 9, 65)), "c": f((60, 65))},
            ("c",),
        ),
        "triangle": (
            triangle,
            {"low": f((190, 190)), "b": f((190, 90)), "c": f((190, 90))},
            ("c",),
        ),
        **{name: others[name] for name in ("syrk", "lu", "cholesky")},
    }


PRODUCTS = _arguments()


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_products_are_done_by_the_kernel_of_linear_algebra(name: str, tmp_path: Path) -> None:
    function, given, written = PRODUCTS[name]
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)
    nest = oc.loops(order="relaxed")(function)
    with oc.config(memory="512KiB"):
        plan = nest.plan(*own.values())
        nest(*own.values())
        run = oc.last_run()
    assert run is not None
    assert plan.products
    assert "product of matrices: the kernel of linear algebra" in plan.explain()
    assert (plan.bytes_read, plan.bytes_written) == (run.bytes_read, run.bytes_written)
    for p in written:
        limit = {"rtol": 2e-3, "atol": 1e-3} if own[p].dtype == "f4" else {"rtol": 1e-9}
        size = np.abs(expected[p]).max()
        np.testing.assert_allclose(own[p].compute() / size, expected[p] / size, **limit, err_msg=p)


@pytest.mark.parametrize("name", ["ijk", "kij", "summed", "lu"])
def test_in_the_order_as_written_they_are_not(name: str, tmp_path: Path) -> None:
    function, given, written = PRODUCTS[name]
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)
    nest = oc.loops(function)
    with oc.config(memory="512KiB"):
        plan = nest.plan(*own.values())
        nest(*own.values())
    assert not plan.products
    assert "order='relaxed'" in plan.explain()
    for p in written:
        np.testing.assert_array_equal(own[p].compute(), expected[p], err_msg=p)


def test_a_name_that_is_only_stored_takes_no_memory(tmp_path: Path) -> None:
    function, given, written = PRODUCTS["summed"]
    own = stored(given, written, 31, tmp_path)
    with oc.config(memory="512KiB"):
        plan = oc.loops(function).plan(*own.values())
    assert plan.scratch_bytes == 0
    assert [a["name"] for a in plan._facts["arrays"] if a["role"] == "temporary"] == []
    # What is made anew is not read: whole blocks of the disk, a tile of 31 x 31 takes two.
    narrow = oc.loops(order="relaxed")(function)
    with oc.config(memory="1MiB"):
        assert all(t.bytes_read == 0 for t in narrow.plan(*own.values()).traffic if t.array == "c")


def recurrence(c):  # type: ignore[no-untyped-def]
    for i in range(1, c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] += 0.5 * c[i - 1, j]


def powers(a, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            c[i] += c[i] * a[i, j]


def running(a, c, d):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(a.shape[1]):
            c[i] += a[i, j]
            d[i, j] = c[i]


@pytest.mark.parametrize("function", [recurrence, powers, running])
def test_what_is_used_of_a_sum_keeps_its_order(function: Any, tmp_path: Path) -> None:
    """An array that a statement also read was no sum at all, and now its other uses count."""
    f = np.random.default_rng(4).standard_normal
    given: dict[str, Any] = {"a": 0.1 * f((90, 100)), "c": f(90), "d": f((90, 100))}
    if function is recurrence:
        given = {"c": f((90, 100))}
    elif function is powers:
        del given["d"]
    written = tuple(p for p in given if p != "a")
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)
    with oc.config(memory="256KiB"):
        oc.loops(order="relaxed")(function)(*own.values())
    for p in written:
        np.testing.assert_allclose(own[p].compute(), expected[p], rtol=1e-9, err_msg=p)


def test_a_product_moves_what_products_do(tmp_path: Path) -> None:
    """Blocks of the result stay in memory: about as much is read as `matmul` reads."""
    n, tile = 512, 64
    rng = np.random.default_rng(5)
    given = {p: rng.standard_normal((n, n)) for p in "ab"}
    own = stored({**given, "c": np.zeros((n, n))}, ("c",), tile, tmp_path)
    nest = oc.loops(order="relaxed")(summed)
    with oc.config(memory="1MiB", threads=2):
        plan = nest.plan(*own.values())
        other = oc.plan(own["a"] @ own["b"])
        nest(*own.values())
        run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    # It goes over the columns of blocks in one direction only.
    assert plan.bytes_read <= 1.25 * other.bytes_read
    np.testing.assert_allclose(own["c"].compute(), given["a"] @ given["b"], rtol=1e-9, atol=1e-9)


def test_what_is_moved_is_told_by_line_and_array(tmp_path: Path) -> None:
    function, given, written = PRODUCTS["chained"]
    own = stored(given, written, 31, tmp_path)
    nest = oc.loops(function)
    with oc.config(memory="512KiB"):
        plan = nest.plan(*own.values())
        nest(*own.values())
        run = oc.last_run()
    assert run is not None
    moved = [(t.kernel, t.array, t.bytes_read, t.bytes_written) for t in plan.traffic]
    assert moved == [(t.kernel, t.array, t.bytes_read, t.bytes_written) for t in run.traffic]
    assert sum(t.bytes_read for t in run.traffic) == run.bytes_read
    beside = plan._facts["commit_bytes"]
    assert sum(t.bytes_written for t in run.traffic) == run.bytes_written - beside
    assert all(t.waited >= 0 for t in run.traffic)
    first = function.__code__.co_firstlineno
    assert any(f"in line {first + 6}" in line for line in plan.explain().splitlines())
    assert "chained, line" in run.explain()
