"""Several computations: at once, one inside another, and one after the other as one operation."""

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]

MIB = 1 << 20


def slow(values: Values, gate: threading.Event, begun: threading.Event) -> oc.Array:
    """Elements that are not to be had before the gate opens."""

    def part(i: Values, j: Values) -> Values:
        begun.set()
        assert gate.wait(60)
        return values[i, j]

    return oc.fromfunction(part, values.shape, values.dtype)


# -- at once -----------------------------------------------------------------------------------


def test_a_second_one_waits(desk: Desk, random: Make) -> None:
    """However long; a plan does not wait, and is for the memory that there will be."""
    oc.config(memory="1MiB")
    a, b = random((300, 300), "float64"), random((300, 300), "float64", 1)
    A, B = desk.put(a), desk.put(b)
    alone = oc.plan(A @ B)
    gate, begun = threading.Event(), threading.Event()
    found: dict[str, Values] = {}

    def first() -> None:
        found["first"] = desk.read((slow(a, gate, begun) @ B).save(desk.path / "first.zarr"))

    def second() -> None:
        found["second"] = (A[:100] @ B).compute()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    try:
        meanwhile = oc.plan(A @ B)
        assert (meanwhile.bytes_read, meanwhile.peak_bytes) == (alone.bytes_read, alone.peak_bytes)
        time.sleep(0.3)
        assert found == {}
    finally:
        gate.set()
        for thread in threads:
            thread.join()
    np.testing.assert_allclose(found["first"], a @ b, atol=1e-10)
    np.testing.assert_allclose(found["second"], a[:100] @ b, atol=1e-10)


def test_copies_wait_as_well(desk: Desk, random: Make) -> None:
    oc.config(memory="1MiB")
    a = random((300, 300), "float64")
    A = desk.put(a)
    gate, begun = threading.Event(), threading.Event()
    other = threading.Thread(
        target=lambda: (slow(a, gate, begun) @ A).save(desk.path / "product.zarr")
    )
    copied: list[oc.Array] = []
    copying = threading.Thread(target=lambda: copied.append(A.save(desk.path / "copy.zarr")))
    other.start()
    assert begun.wait(60)
    copying.start()
    time.sleep(0.1)
    gate.set()
    other.join()
    copying.join()
    np.testing.assert_array_equal(desk.read(copied[0]), a)


def test_small_reads_and_writes_wait_for_memory(desk: Desk, random: Make) -> None:
    """A computation has all of it; they go on when some comes back, and say so where none does."""
    oc.config(memory="2MiB")
    a = random((300, 300), "float64")
    A = desk.put(a, 150)
    W = oc.create(desk.path / "w.zarr", (300, 300), tile=150)
    gate, begun = threading.Event(), threading.Event()
    other = threading.Thread(
        target=lambda: (slow(a, gate, begun) @ A).save(desk.path / "product.zarr")
    )
    other.start()
    assert begun.wait(60)
    opener = threading.Timer(0.5, gate.set)
    opener.start()
    try:
        assert A[5, 5].item() == a[5, 5]
        W[7, 7] = 3
        assert W[7, 7].item() == 3
        for _, block in A.tiles():
            np.testing.assert_array_equal(block, a[:150, :150])
            break
    finally:
        gate.set()
        other.join()
    W.abort()


def test_settings_may_change_meanwhile(desk: Desk, random: Make) -> None:
    """While other threads read, and while something is computed."""
    a = random((200, 200), "float64")
    A = desk.put(a)
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                assert A[3, 4].item() == a[3, 4]
                np.testing.assert_array_equal(A[:50].compute(), a[:50])
        except BaseException as failure:
            failures.append(failure)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(20):
        oc.config(threads=1 + i % 2, memory=(1 + i % 3) * MIB)
    stop.set()
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    assert [str(failure) for failure in failures] == []

    def progress(done: int, total: int) -> None:
        oc.config(threads=3)

    oc.config(memory="1MiB", threads=2)
    (A @ A).save(desk.new(), progress=progress)
    (A @ A).save(desk.new())
    run = oc.last_run()
    assert run is not None
    assert run.flops == 2 * 200**3


# -- what has just been written ----------------------------------------------------------------


def test_assignments_are_seen_through_conversions(desk: Desk, positive_definite: Make) -> None:
    """Changed tiles in memory are written before anything that is made of their array is read."""
    oc.config(memory="4MiB")
    path = desk.put(np.eye(90, dtype="int32")).path
    b = np.ones((90, 20))
    with oc.open(path, "r+") as A:
        A[4, 5] = 7
        expected = np.eye(90)
        expected[4, 5] = 7
        np.testing.assert_array_equal((A @ b).compute(), expected @ b)
    h = positive_definite(90, "complex128")
    path = desk.put(h).path
    with oc.open(path, "r+") as H:
        H[0, 0] = h[0, 0] = 9
        expected = np.linalg.cholesky(h.conj())
        np.testing.assert_allclose(oc.linalg.cholesky(H.conj()).compute(), expected, atol=1e-10)


# -- one inside another ------------------------------------------------------------------------


def test_functions_may_read(desk: Desk, random: Make) -> None:
    """The arrays of which an operand is made, although the computation has nearly all memory."""
    oc.config(memory="4MiB")
    a, b = random((500, 500), "float64"), random((500, 500), "float64", 1)
    A, B = desk.put(a, 100), desk.put(b, 100)

    def doubled(i: Values, j: Values) -> Values:
        box = A[int(i.min()) : int(i.max()) + 1, int(j.min()) : int(j.max()) + 1]
        return 2 * np.asarray(box)

    x = oc.fromfunction(doubled, (500, 500)) @ B
    start = time.monotonic()
    saved = x.save(desk.new())
    assert time.monotonic() - start < 8
    run = oc.last_run()
    assert run is not None
    assert run.peak_bytes <= 4 * MIB
    np.testing.assert_allclose(desk.read(saved), 2 * a @ b, atol=1e-10)


def test_functions_may_not_compute(desk: Desk, random: Make) -> None:
    """It would wait for itself; that is said at once, and nothing is left."""
    A = desk.put(random((200, 200), "float64"))
    calls = [
        lambda i, j: np.asarray((A[:5] @ A).compute())[0, 0] + i + j,
        lambda i, j: np.asarray(A.save(desk.path / "inner.zarr")[:1])[0, 0] + i + j,
    ]
    for function in calls:
        path = desk.new()
        with pytest.raises(oc.InvalidArgumentError, match="compute what it needs beforehand"):
            (oc.fromfunction(function, (200, 200)) @ A).save(path)
        assert not path.exists()
        assert not (desk.path / "inner.zarr").exists()


def test_the_least_budget_of_functions_that_may_read_works(desk: Desk, random: Make) -> None:
    b = random((700, 700), "float64")
    with oc.config(memory="8MiB"):
        B = desk.put(b, 350)
    x = oc.fromfunction(lambda i, j: i + 2.0 * j, (700, 700)) @ B
    with pytest.raises(oc.BudgetError) as refused:
        oc.plan(x)
    named = re.search(r"the least that works is (\d+) bytes", str(refused.value))
    assert named
    with oc.config(memory=int(named[1])):
        i, j = np.ogrid[:700, :700]
        np.testing.assert_allclose(desk.run(x), (i + 2.0 * j) @ b, rtol=1e-9, atol=1e-6)


# -- as one operation --------------------------------------------------------------------------


def test_the_report_is_of_all(desk: Desk, random: Make) -> None:
    """What is computed on the way, and what is moved to the format asked for, counts."""
    oc.config(memory="1MiB")
    a = random((300, 300), "float64")
    A = desk.put(a, 50)

    def run(x: oc.Array, path: Path) -> oc.Run:
        x.save(path)
        report = oc.last_run()
        assert report is not None
        return report

    one = run(A @ A, desk.new())
    triangle = random((300, 300), "float64") + 300 * np.eye(300)
    two = run(oc.linalg.solve_triangular(desk.put(triangle, 50), A @ A, lower=True), desk.new())
    assert two.operation == "expression"
    assert two.flops > one.flops
    # Of the product, at most what memory does not hold is written.
    assert two.bytes_written <= 2 * one.bytes_written
    assert two.seconds >= two.overlap
    assert two.kernels["gemm"] > 0
    assert two.peak_bytes <= MIB
    flat = run(A @ A, desk.new(".npy"))
    assert flat.flops == one.flops
    assert flat.bytes_written >= one.bytes_written
    small = run(A[:20, :30], desk.new())
    assert (small.operation, small.flops) == ("copy", 0)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("suffix", [".npy", ".raw"])
@pytest.mark.parametrize("shape", [(300, 310), (310, 300), (700, 10), (30, 900)])
def test_files_of_rows_and_columns(
    desk: Desk, random: Make, shape: tuple[int, int], suffix: str, order: str
) -> None:
    """Tiles would be scattered over such a file; they are brought in order first."""
    a, b = random((shape[0], 200), "float64"), random((200, shape[1]), "float64", 1)
    A, B = desk.put(a, 50), desk.put(b, 50)
    path = desk.new(suffix)
    told: list[float] = []
    (A @ B).save(path, order=order, progress=lambda done, total: told.append(done / total))
    assert told == sorted(told)
    assert told[-1] == 1
    if suffix == ".npy":
        found = np.load(path)
    else:
        found = np.fromfile(path, np.float64).reshape(shape, order=order)
    np.testing.assert_allclose(found, a @ b, atol=1e-10)


def test_what_is_computed_is_saved(desk: Desk, random: Make) -> None:
    """What parts were asked of before, and memory holds, is there."""
    oc.config(memory="16MiB")
    a = random((100, 100), "float64")
    A = desk.put(a)
    C = A @ A
    np.testing.assert_allclose(C[3].compute(), (a @ a)[3])
    saved = C.save(desk.new())
    run = oc.last_run()
    assert run is not None
    assert run.flops == 0
    np.testing.assert_allclose(desk.read(saved), a @ a, atol=1e-10)


# -- what memory and the scratch directory held before -----------------------------------------


@pytest.mark.parametrize("upper", [False, True])
def test_beyond_the_diagonal_is_zero(desk: Desk, positive_definite: Make, upper: bool) -> None:
    """Whatever lay in the memory of the result before."""
    n = 300
    oc.config(memory="8MiB")
    h = positive_definite(n, "float64")
    H = desk.put(h, 64)
    expected = np.linalg.cholesky(h)
    expected = expected.T if upper else expected

    def dirty() -> oc.Array:
        held = [(oc.asarray(np.full((n, n), 7e5)) @ np.eye(n)).compute() for _ in range(3)]
        del held
        return oc.linalg.cholesky(H, upper=upper)

    np.testing.assert_allclose(dirty().compute(), expected, atol=1e-9)
    np.testing.assert_allclose(desk.run(dirty() @ np.eye(n)), expected, atol=1e-9)
    for suffix, order in ((".npy", "C"), (".npy", "F"), (".raw", "C")):
        np.testing.assert_allclose(desk.run(dirty(), suffix, order=order), expected, atol=1e-9)
    np.testing.assert_allclose(desk.run(dirty()[:, ::-1]), expected[:, ::-1], atol=1e-9)


def test_abandoned_scratch_is_removed(desk: Desk, random: Make) -> None:
    """That of a process that has gone goes with the next one; what is in use stays."""
    a = random((200, 200), "float64")
    A = desk.put(a)
    abandoned = desk.scratch / ".outcrop-operand-1-1"
    abandoned.mkdir()
    (abandoned / "operand.zarr").write_bytes(b"half a result")
    C = A @ A
    C[:3].compute()
    in_use = os.listdir(desk.scratch)
    assert len(in_use) == 1
    assert abandoned.name not in in_use
    D = C @ A
    D[:3].compute()
    assert len(os.listdir(desk.scratch)) == 2
    np.testing.assert_allclose(C[5:9].compute(), (a @ a)[5:9], atol=1e-10)
    del C, D


def test_a_scratch_directory_that_has_gone(desk: Desk, random: Make) -> None:
    A = desk.put(random((200, 200), "float64"))
    gone = desk.path / "gone"
    gone.mkdir()
    with oc.config(scratch=gone):
        gone.rmdir()
        for x in ((A @ A) @ A, A[::-1] @ A):
            with pytest.raises(oc.StorageError, match="scratch directory"):
                x.save(desk.new())


# -- conjugates --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float64", "int32"])
@pytest.mark.parametrize("memory", ["512KiB", "4MiB"])
def test_conjugates(desk: Desk, random: Make, dtype: str, memory: str) -> None:
    """Of all operands, in any place of a chain of views."""
    oc.config(memory=memory)
    a, b = random((150, 130), dtype), random((150, 90), dtype, 1)
    if dtype == "int32":
        a, b = a % 100, b % 100
    A, B = desk.put(a), desk.put(b)
    at = 2e-3 if dtype == "complex64" else 1e-10
    pairs = [
        (A.conj().T @ B, a.conj().T @ b),
        (A.T.conj() @ B.conj(), (a.T @ b).conj()),
        (A.conj().conj().T @ B, a.T @ b),
        (A[10:120, ::2].conj().T @ B[10:120], a[10:120, ::2].conj().T @ b[10:120]),
        (B.T[5:].conj() @ A[:, 7].conj(), b.T[5:].conj() @ a[:, 7].conj()),
    ]
    for x, expected in pairs:
        assert x.dtype == expected.dtype
        np.testing.assert_allclose(desk.afford(x), expected, atol=at)
    np.testing.assert_array_equal(desk.run(A.conj().T), a.conj().T)
    memory_only = oc.asarray(a).conj()
    np.testing.assert_array_equal(memory_only[3:9].compute(), a[3:9].conj())
    if dtype.startswith("c"):
        assert repr(A.conj()).count("conjugated") == 1
        with pytest.raises(oc.InvalidArgumentError, match="read-only"):
            memory_only[0, 0] = 1


def test_conjugates_of_systems(desk: Desk, random: Make, positive_definite: Make) -> None:
    oc.config(memory="4MiB")
    h, b = positive_definite(150, "complex128"), random((150, 3), "complex128")
    H, B = desk.put(h), desk.put(b)
    close = {"rtol": 1e-9, "atol": 1e-9}
    L = desk.run(oc.linalg.cholesky(H.conj()))
    np.testing.assert_allclose(L @ L.conj().T, h.conj(), **close)
    x = desk.run(oc.linalg.solve(H.conj(), B.conj(), assume="pos"))
    np.testing.assert_allclose(h.conj() @ x, b.conj(), **close)
    for trans in (0, 1, 2):
        t = np.tril(h).conj()
        t = {0: t, 1: t.T, 2: t.conj().T}[trans]
        x = desk.run(oc.linalg.solve_triangular(H.conj(), B, lower=True, trans=trans))
        np.testing.assert_allclose(t @ x, b, **close)
    # Of what is not computed yet.
    C = H @ H
    np.testing.assert_allclose(desk.run(C.conj() @ B), (h @ h).conj() @ b, **close)
    np.testing.assert_allclose(
        desk.run(oc.linalg.cholesky((H @ H).conj())[:1]),
        np.linalg.cholesky((h @ h).conj())[:1],
        **close,
    )


def test_an_array_and_its_own_adjoint(desk: Desk, random: Make) -> None:
    a = random((60, 60), "complex128")
    with oc.asarray(a).save(desk.new(), tile=13) as saved:
        path = saved.path
    with oc.open(path, "r+") as A:
        A[...] = A.conj().T
    np.testing.assert_array_equal(np.asarray(oc.open(path)), a.conj().T)


def test_conjugates_are_not_saved_over_what_they_are_made_of(desk: Desk, random: Make) -> None:
    A = desk.put(random((60, 60), "complex128"))
    a = desk.read(A)
    for x, expected in (
        ((A @ A).conj(), (a @ a).conj()),
        ((A @ A).conj()[:5], (a @ a).conj()[:5]),
        ((A @ A)[:5], (a @ a)[:5]),
    ):
        with pytest.raises(oc.InvalidArgumentError, match="reads, or inside it"):
            x.save(A.path, overwrite=True)
        # Planned as it is run, with no more rows than are asked for.
        np.testing.assert_allclose(desk.run(x), expected)
        run = oc.last_run()
        assert run is not None
        assert 8 * 60 * 60 * len(expected) <= run.flops < 1.02 * 8 * 60 * 60 * len(expected)


def test_conjugates_end_as_their_array_does(desk: Desk, random: Make) -> None:
    a = random((60, 60), "complex128")
    A = oc.create(desk.path / "a.zarr", (60, 60), "complex128", attributes={"of": "me"})
    A[...] = a
    assert A.conj().attributes == {"of": "me"}
    A.close()
    A = oc.open(desk.path / "a.zarr", "r+")
    A[0, 0] = 5
    A.conj().abort()
    assert oc.open(desk.path / "a.zarr")[0, 0].item() == a[0, 0]


def test_memory_that_overlaps_its_conjugate() -> None:
    a = np.arange(50.0) + 1j
    expected = a[::-1].conj().copy()
    oc.asarray(a)[...] = oc.asarray(a[::-1]).conj()
    np.testing.assert_array_equal(a, expected)


# -- large tiles -------------------------------------------------------------------------------


def test_tiles_so_large_that_they_are_computed_in_parts(desk: Desk) -> None:
    """Between the parts an interrupt is noticed; nothing else tells of them."""
    n = 4200
    oc.config(memory="1200MiB")
    chance = np.random.default_rng(3)
    factor = np.tril(chance.standard_normal((n, n))) / n
    factor[np.diag_indices(n)] = 1 + chance.random(n)
    a = factor @ factor.T
    A = oc.asarray(a).save(desk.new(), tile=n)
    L = oc.linalg.cholesky(A).save(desk.new())
    assert abs(np.asarray(L) - factor).max() < 1e-11
    x = chance.standard_normal((n, 3))
    y = np.asarray(oc.linalg.solve_triangular(L, factor @ x, lower=True).compute())
    assert abs(y - x).max() < 1e-10
    a[3000, 3000] = -1
    with pytest.raises(oc.NotPositiveDefiniteError) as failed:
        oc.linalg.cholesky(oc.asarray(a).save(desk.new(), tile=n)).compute()
    assert failed.value.index == 3001
