"""What cannot be computed is said in time, by the right error, and costs nothing that was there."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc
from outcrop import _native

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

N, TILE = 200, 32
linalg = oc.linalg


def ones(*shape: int) -> Values:
    return np.ones(shape)


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: linalg.cholesky(ones(3, 4)),
        lambda: linalg.cholesky(ones(3)),
        lambda: linalg.cholesky(ones()),
        lambda: linalg.cholesky(ones(2, 3, 3)),
        lambda: linalg.solve(ones(3, 4), ones(3), assume="pos"),
        lambda: linalg.solve(ones(3), ones(3), assume="pos"),
        lambda: linalg.solve(ones(3, 3), ones(4), assume="pos"),
        lambda: linalg.solve(ones(3, 3), ones(4, 3), assume="pos"),
        lambda: linalg.solve(ones(3, 3), ones(), assume="pos"),
        lambda: linalg.solve(ones(3, 3), ones(3, 2, 2), assume="pos"),
        lambda: linalg.solve(ones(3, 3), ones(3), assume="tridiagonal"),
        lambda: linalg.solve_triangular(ones(3, 4), ones(3)),
        lambda: linalg.solve_triangular(ones(2, 3, 3), ones(3)),
        lambda: linalg.solve_triangular(ones(3, 3), ones(1, 3)),
        lambda: linalg.solve_triangular(ones(3, 3), ones(3), trans=3),
        lambda: linalg.solve_triangular(ones(3, 3), ones(3), trans="H"),
        lambda: linalg.solve_triangular(ones(3, 3), ones(3), trans=None),  # type: ignore[arg-type]
        lambda: linalg.solve_triangular(ones(3, 3), ones(3), trans=[0]),  # type: ignore[arg-type]
        lambda: oc.matmul(ones(3, 4), ones(3, 4)),
        lambda: oc.matmul(ones(3), ones(4)),
        lambda: oc.matmul(ones(3, 4), ones(3)),
        lambda: oc.matmul(ones(3), ones(4, 3)),
        lambda: oc.matmul(ones(), ones(3)),
        lambda: oc.matmul(ones(3), 2.0),
    ],
)
def test_shapes_and_arguments_that_make_no_sense(call: Callable[[], object]) -> None:
    """Known at once, without computing, and as NumPy's `ValueError`."""
    with pytest.raises(oc.InvalidArgumentError) as caught:
        call()
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("dtype", ["U3", "S3", "O", "M8[s]", "float16", "longdouble"])
def test_elements_that_are_no_numbers(dtype: str) -> None:
    bad = np.zeros((3, 3), dtype)
    for call in (
        lambda: oc.matmul(bad, ones(3, 3)),
        lambda: oc.matmul(ones(3, 3), bad),
        lambda: linalg.cholesky(bad),
        lambda: linalg.solve(ones(3, 3), bad, assume="pos"),
        lambda: linalg.solve(ones(3, 3), bad),
        lambda: linalg.lu_factor(bad),
        lambda: linalg.inv(bad),
        lambda: linalg.solve_triangular(bad, ones(3)),
    ):
        with pytest.raises((oc.InvalidTypeError, oc.UnsupportedError)):
            call()


def test_flags_that_are_neither_true_nor_false() -> None:
    for call in (
        lambda: linalg.cholesky(ones(3, 3), upper="no"),  # type: ignore[arg-type]
        lambda: linalg.solve_triangular(ones(3, 3), ones(3), lower=2),
        lambda: linalg.solve_triangular(ones(3, 3), ones(3), unit_diagonal=None),  # type: ignore[arg-type]
    ):
        with pytest.raises(oc.InvalidTypeError, match="must be True or False"):
            call()


def test_an_operator_between_what_does_not_fit() -> None:
    A = oc.asarray(ones(3, 3))
    for call in (lambda: A @ 2, lambda: "text" @ A, lambda: A @ {}):
        with pytest.raises((oc.OutcropError, TypeError)):
            call()


# -- numbers -----------------------------------------------------------------------------------

PLACES = [0, 1, 31, 32, 33, 63, 64, 191, 192, 199]


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_the_minor_that_is_not_positive(
    desk: Desk, positive_definite: Make, dtype: str, upper: bool
) -> None:
    """Its order, as LAPACK counts; of several the first."""
    for k in PLACES if dtype == "float64" else (0, 32, 199):
        a = positive_definite(N, dtype)
        a[k, k] = -1
        a[min(k + 40, N - 1), min(k + 40, N - 1)] = -1
        A = desk.put(a, (TILE, 40))
        path = desk.new()
        for x in (
            linalg.cholesky(A, upper=upper),
            linalg.solve(A, ones(N), assume="pos"),
            linalg.solve(A, a, assume="pos"),
        ):
            with pytest.raises(oc.NotPositiveDefiniteError, match=f"order {k + 1} ") as caught:
                x.save(path)
            assert caught.value.index == k + 1
            assert isinstance(caught.value, np.linalg.LinAlgError)
            assert not path.exists()
        with pytest.raises(oc.NotPositiveDefiniteError):
            linalg.cholesky(A, upper=upper)[3].compute()


@pytest.mark.parametrize("value", [0.0, -0.0, -1e-300])
def test_pivots_that_are_just_not_positive(desk: Desk, value: float) -> None:
    a = np.eye(N)
    a[70, 70] = value
    with pytest.raises(oc.NotPositiveDefiniteError) as caught:
        linalg.cholesky(desk.put(a)).save(desk.new())
    assert caught.value.index == 71


def test_a_minor_that_fails_by_what_is_beside_it(desk: Desk) -> None:
    """The pivot itself looks positive."""
    for i, j in ((5, 3), (64, 31), (199, 0)):
        a = np.eye(N)
        a[i, j] = a[j, i] = 1.5
        with pytest.raises(oc.NotPositiveDefiniteError) as caught:
            linalg.cholesky(desk.put(a)).save(desk.new())
        assert caught.value.index == i + 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
def test_what_is_not_finite(desk: Desk, positive_definite: Make, value: float, upper: bool) -> None:
    """An error where it is read; nothing where it is not."""
    a = positive_definite(N, "float64")
    expected = np.linalg.cholesky(a)
    for i, j in ((0, 0), (70, 70), (70, 3), (199, 198), (33, 31), (199, 0)):
        given = a.copy()
        read, unread = ((j, i), (i, j)) if upper else ((i, j), (j, i))
        given[read] = value
        with pytest.raises(oc.NotPositiveDefiniteError) as caught:
            linalg.cholesky(desk.put(given), upper=upper).save(desk.new())
        assert caught.value.index is not None
        assert j + 1 <= caught.value.index <= i + 1
        if i != j:
            given = a.copy()
            given[unread] = value
            found = desk.run(linalg.cholesky(desk.put(given), upper=upper))
            np.testing.assert_allclose(found.T if upper else found, expected, atol=1e-12)


def test_right_hand_sides_that_are_not_finite(desk: Desk, positive_definite: Make) -> None:
    """Each column by itself: what is not finite stays in its column."""
    a, b = positive_definite(N, "float64"), ones(N, 40)
    b[7, 35] = np.nan
    b[150, 3] = np.inf
    A, B = desk.put(a), desk.put(b)
    for x in (linalg.solve(A, B, assume="pos"), linalg.solve_triangular(A, B, lower=True)):
        found = desk.run(x)
        assert set(np.nonzero(~np.isfinite(found).all(axis=0))[0]) == {3, 35}
    assert not np.isfinite(desk.run(A @ B)[:, 35]).any()


@pytest.mark.parametrize("lower", [False, True], ids=["upper", "lower"])
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_triangles_that_are_singular(desk: Desk, random: Make, lower: bool, trans: int) -> None:
    """The first zero on the diagonal is named, whichever way it is solved."""
    for k in (0, 31, 32, 64, 199):
        t = random((N, N), "complex128") + 20 * np.eye(N)
        t[k, k] = 0
        t[min(k + 50, N - 1), min(k + 50, N - 1)] = 0
        T, path = desk.put(t, (TILE, 40)), desk.new()
        x = linalg.solve_triangular(T, ones(N, 3), lower=lower, trans=trans)
        with pytest.raises(oc.SingularMatrixError) as caught:
            x.save(path)
        assert caught.value.index == k + 1
        assert isinstance(caught.value, np.linalg.LinAlgError)
        assert not path.exists()
        x = linalg.solve_triangular(T, ones(N, 3), lower=lower, trans=trans, unit_diagonal=True)
        assert desk.run(x).shape == (N, 3)


# -- targets -----------------------------------------------------------------------------------


@pytest.fixture(params=["matmul", "cholesky", "solve", "solve_triangular", "lu", "general"])
def operation(request: pytest.FixtureRequest) -> Callable[[oc.Array], oc.Array]:
    """Each operation, on one matrix."""
    operations: dict[str, Callable[[oc.Array], oc.Array]] = {
        "matmul": lambda A: A @ A.T,
        "cholesky": lambda A: linalg.cholesky(A),
        "solve": lambda A: linalg.solve(A, A, assume="pos"),
        "solve_triangular": lambda A: linalg.solve_triangular(A, A),
        "lu": lambda A: linalg.lu_factor(A).lu,
        "general": lambda A: linalg.solve(A, A),
    }
    return operations[request.param]


Operation: TypeAlias = Callable[[oc.Array], oc.Array]


def test_targets_that_cannot_be(desk: Desk, positive_definite: Make, operation: Operation) -> None:
    a = positive_definite(N, "float64")
    A = desk.put(a)
    x = operation(A)
    before = sorted(os.listdir(desk.path))
    taken = desk.put(ones(2, 2), 2).path
    with pytest.raises(oc.ArrayExistsError):
        x.save(taken)
    for path in (A.path, Path(A.path.parent, ".", A.path.name)):
        for overwrite in (False, True):
            expected = oc.InvalidArgumentError if overwrite else oc.OutcropError
            with pytest.raises(expected):
                x.save(path, overwrite=overwrite)
    with pytest.raises(oc.OutcropError):
        x.save(A.path / "inside.zarr")
    with pytest.raises(oc.OutcropError):
        x.save(A.path / "c" / "inside.npy")
    with pytest.raises(oc.OutcropError):
        x.save(desk.path, overwrite=True)
    with pytest.raises(oc.OutcropError):
        x.save(desk.path / "no" / "such" / "directory" / "x.zarr")
    link = desk.path / "link.zarr"
    link.symlink_to(A.path)
    with pytest.raises(oc.OutcropError):
        x.save(link, overwrite=True)
    link.unlink()
    np.testing.assert_array_equal(desk.read(A), a)
    np.testing.assert_array_equal(desk.read(oc.open(taken)), 1)
    shutil.rmtree(taken)
    assert sorted(os.listdir(desk.path)) == before
    # And one that can: in place of another array.
    other = desk.put(ones(2, 2), 2).path
    saved = x.save(other, overwrite=True)
    np.testing.assert_array_equal(desk.read(saved), desk.run(x))


def test_not_in_place_of_a_nested_operand(desk: Desk) -> None:
    A, B = desk.put(2 * np.eye(N)), desk.put(np.eye(N))
    x = (A @ B) @ B
    for path in (A.path, B.path):
        with pytest.raises(oc.InvalidArgumentError, match="another path"):
            x.save(path, overwrite=True)
    for part in (x[:50], x.T):
        with pytest.raises(oc.OutcropError):
            part.save(A.path, overwrite=True)
    np.testing.assert_array_equal(desk.read(A), 2 * np.eye(N))
    np.testing.assert_array_equal(desk.read(B), np.eye(N))


def test_directories_in_which_nothing_may_be_written(
    desk: Desk, positive_definite: Make, operation: Operation
) -> None:
    if not os.geteuid():
        pytest.skip("permissions do not bind root")
    A = desk.put(positive_definite(N, "float64"))
    place = desk.path / "place"
    place.mkdir(mode=0o500)
    with pytest.raises(oc.StoragePermissionError):
        operation(A).save(place / "x.zarr")
    place.rmdir()


def test_a_scratch_directory_that_has_gone(desk: Desk, positive_definite: Make) -> None:
    """The factor has nowhere to go."""
    A = desk.put(positive_definite(N, "float64"))
    gone = desk.path / "gone"
    gone.mkdir()
    with oc.config(memory="256KiB", scratch=gone):
        gone.rmdir()
        assert oc.plan(linalg.solve(A, A, assume="pos")).scratch_bytes > 0
        path = desk.new()
        with pytest.raises(oc.OutcropError, match="gone"):
            linalg.solve(A, A, assume="pos").save(path)
        assert not path.exists()
    desk.run(linalg.solve(A, A, assume="pos"))


# -- operands ----------------------------------------------------------------------------------


def test_a_closed_operand(desk: Desk, positive_definite: Make, operation: Operation) -> None:
    A = desk.put(positive_definite(N, "float64"))
    x = operation(A)
    A.close()
    path = desk.new()
    for use in (
        lambda: x.save(path),
        x.compute,
        lambda: oc.plan(x),
        lambda: operation(x).compute(),
    ):
        with pytest.raises(oc.ClosedArrayError, match=r"0\.zarr"):
            use()
    assert not path.exists()


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[777] ^= 16
    file.write_bytes(data)


@pytest.mark.parametrize("tile", [(0, 0), (3, 1), (6, 6), (5, 4)])
def test_a_damaged_operand(
    desk: Desk, positive_definite: Make, operation: Operation, tile: tuple[int, int]
) -> None:
    """The tile is named, and there is no result."""
    a = positive_definite(N, "float64")
    oc.config(memory="300KiB")
    A = desk.put(a)
    path = desk.new()
    flip(A.path / "c" / str(tile[0]) / str(tile[1]))
    before = sorted(os.listdir(desk.path))
    with pytest.raises(
        oc.CorruptArrayError, match=rf"0\.zarr: tile \({tile[0]}, {tile[1]}\).*CRC-32C"
    ):
        operation(A).save(path)
    assert sorted(os.listdir(desk.path)) == before
    other = desk.put(a)
    desk.run(operation(other))


def test_damage_in_the_half_that_is_not_read(desk: Desk, positive_definite: Make) -> None:
    a = positive_definite(N, "float64")
    A = desk.put(a)
    flip(A.path / "c" / "1" / "3")
    np.testing.assert_allclose(desk.run(linalg.cholesky(A)), np.linalg.cholesky(a), atol=1e-12)
    with pytest.raises(oc.CorruptArrayError):
        linalg.cholesky(A, upper=True).save(desk.new())


class UserError(Exception):
    """Raised by a function of the user's."""


@pytest.mark.parametrize("error", [UserError, KeyError, KeyboardInterrupt, MemoryError])
def test_an_exception_in_a_function(
    desk: Desk, operation: Operation, error: type[BaseException]
) -> None:
    """It comes out as itself."""
    calls = []

    def function(i: Values, j: Values) -> Values:
        calls.append(1)
        if len(calls) > 1 or i.size * j.size == N * N:
            raise error("in the function")
        result: Values = 1000.0 * (i == j) + 1
        return result

    A = oc.fromfunction(function, (N, N))
    path = desk.new()
    with pytest.raises(error, match="in the function"):
        operation(A).save(path)
    assert not path.exists()
    with oc.config(memory="1MiB"), pytest.raises(error, match="in the function"):
        operation(A).compute()


def test_a_function_that_gives_nonsense(desk: Desk, operation: Operation) -> None:
    oc.config(memory="1MiB")
    with pytest.raises(oc.InvalidArgumentError, match="gave an array of shape"):
        operation(oc.fromfunction(lambda i, j: ones(3, 5), (N, N))).compute()
    with pytest.raises(oc.InvalidTypeError, match="does not cast"):
        operation(oc.fromfunction(lambda i, j: 1j * i * j, (N, N))).compute()


# -- the system --------------------------------------------------------------------------------


def test_too_small_a_budget(desk: Desk, positive_definite: Make, operation: Operation) -> None:
    oc.config(memory="4MiB")
    A = desk.put(positive_definite(N, "float64"), N)
    path = desk.new()
    with oc.config(memory="256KiB"):
        with pytest.raises(oc.BudgetError, match="the least that works is"):
            operation(A).save(path)
        with pytest.raises(oc.BudgetError):
            operation(A).compute()
    assert not path.exists()
    desk.run(operation(A))


def test_a_part_of_what_does_not_fit(
    desk: Desk, positive_definite: Make, operation: Operation
) -> None:
    """It was tried again and again, until Python's stack was full."""
    oc.config(memory="4MiB")
    A = desk.put(positive_definite(N, "float64"), N)
    with oc.config(memory="256KiB"):
        x = operation(A)
        for use in (x[3:60, ::2].compute, x[3].item if x.ndim == 1 else x[3, 4].item):
            with pytest.raises(oc.BudgetError):
                use()
        with pytest.raises(oc.BudgetError):
            next(x.tiles())
        with pytest.raises(oc.BudgetError):
            (x @ A).save(desk.new())
        assert os.listdir(desk.scratch) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with a mebibyte."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "outcrop-test", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_no_space(
    desk: Desk, small_disk: Path, positive_definite: Make, operation: Operation
) -> None:
    """For the result, and for scratch."""
    n = 400
    A = desk.put(positive_definite(n, "float64"))  # 1.25 MiB
    x = operation(A)
    for name in ("x.zarr", "x.npy"):
        if "cholesky" in repr(x) and name == "x.zarr":
            continue  # half of it fits
        with pytest.raises(oc.StorageFullError, match="needed"):
            x.save(small_disk / name)
        assert os.listdir(small_disk) == []
    with oc.config(scratch=small_disk):
        solve = linalg.solve(desk.put(positive_definite(600, "float64")), ones(600), assume="pos")
        assert oc.plan(solve).scratch_bytes > 1 << 20
        with pytest.raises(oc.StorageFullError, match=str(small_disk)):
            solve.save(desk.new())
        assert os.listdir(small_disk) == []
    desk.run(solve)


@pytest.mark.filterwarnings("default::outcrop.errors.OutcropWarning")
def test_scratch_that_is_too_full_for_the_result(
    desk: Desk, small_disk: Path, random: Make
) -> None:
    """It is written where it belongs all the same, slowly."""
    oc.config(memory="4MiB")
    a = random((600, 600), "float64")
    A = desk.put(a)
    path = desk.new(".npy")
    warned = pytest.warns(oc.errors.OutcropWarning, match="scratch directory is too full")
    with oc.config(scratch=small_disk), warned:
        (A @ A).save(path)
    assert os.listdir(small_disk) == []
    np.testing.assert_allclose(np.load(path), a @ a, atol=1e-10)


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """RLIMIT_FSIZE is told as a typed error, and nothing is left."""
    script = """
import os, resource, signal, warnings
warnings.simplefilter("ignore")
import numpy as np
import outcrop as oc
os.mkdir("scratch")
oc.config(memory="512KiB", scratch="scratch", threads=2)
n = 300
a = np.full((n, n), 1.0) + n * np.eye(n)
A = oc.asarray(a).save("a.zarr", tile=32)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
for name, x in [("c.npy", A @ A), ("c.zarr", A @ A), ("l.zarr", oc.linalg.cholesky(A)),
                ("x.zarr", oc.linalg.solve(A, np.ones(n), assume="pos"))]:
    try:
        x.save(name)
    except oc.OutcropError as error:
        assert isinstance(error, OSError), error
    else:
        raise AssertionError("not refused")
    assert sorted(os.listdir()) == ["a.zarr", "scratch"], os.listdir()
    assert os.listdir("scratch") == []
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
x = oc.linalg.solve(A, np.ones(n), assume="pos").compute()
assert np.allclose(a @ x, 1)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr


# An interrupt may come before what looks through a folder can be closed, and goes with it then.
@pytest.mark.filterwarnings("ignore:unclosed scandir iterator:ResourceWarning")
@pytest.mark.parametrize("delay", [0.002, 0.02, 0.06, 0.2])
def test_interrupted(
    desk: Desk, positive_definite: Make, operation: Operation, delay: float
) -> None:
    """Control-C leaves no result and harms nothing; the process goes on."""
    n = 600
    oc.config(memory="2MiB")
    a = positive_definite(n, "float64")
    A = desk.put(a, 24)
    path = desk.new()
    before = sorted(os.listdir(desk.path))
    done = threading.Event()

    def interrupt() -> None:
        time.sleep(delay)
        if not done.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    x = operation(A)
    thread = threading.Thread(target=interrupt)
    finished = False
    try:
        thread.start()
        try:
            x.save(path)
            finished = path.exists()
        finally:
            done.set()
            thread.join()
    except KeyboardInterrupt:
        # What has been committed at that moment is whole.
        if path.exists() and not finished:
            assert np.isfinite(desk.read(oc.open(path))).all()
    if path.exists():
        shutil.rmtree(path)
    assert sorted(os.listdir(desk.path)) == before
    assert os.listdir(desk.scratch) == []
    np.testing.assert_array_equal(desk.read(A), a)
    del x
    small = desk.put(positive_definite(70, "float64"))
    desk.run(operation(small))


def test_several_threads_compute(desk: Desk, positive_definite: Make, random: Make) -> None:
    """With one budget: one after the other, whoever comes first."""
    oc.config(memory="1MiB")
    a, b = positive_definite(N, "float64"), random((N, 90), "float64")
    A, B = desk.put(a), desk.put(b)
    expected = a @ b, np.linalg.cholesky(a), np.linalg.solve(a, b)
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for i in range(4):
                which = (k + i) % 3
                x = (A @ B, linalg.cholesky(A), linalg.solve(A, B, assume="pos"))[which]
                found = desk.read(x.save(desk.path / f"of {k} {i}.zarr"))
                np.testing.assert_allclose(found, expected[which], atol=1e-9)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(failure) for failure in failures] == []
    failures.clear()
    assert _native.status()["used"] <= 1 << 20
