"""A stored operand that has changed after an expression was made of it.

What had been computed of it went on with the old elements, silently, beside fresh expressions that
had the new ones.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.arrays import stamps

N = 40


def values() -> np.ndarray[Any, Any]:
    """A positive definite matrix of whole numbers that every format holds."""
    return (np.eye(N) * 100 + np.add.outer(np.arange(N), np.arange(N)) % 3).astype("uint8")


def by_array(path: Path) -> None:
    with again(path, "r+") as array:
        array[0, 0] = 200


def by_function(path: Path) -> None:
    array = again(path, "r+")
    array += oc.asarray(np.eye(N, dtype="uint8"))
    array.close()


def by_process(path: Path) -> None:
    raw = ", shape=(40, 40), dtype='uint8'" if path.suffix == ".raw" else ""
    script = f"import outcrop as oc\nwith oc.open({str(path)!r}, 'r+'{raw}) as a: a[0, 0] = 200"
    subprocess.run([sys.executable, "-c", script], check=True)


def by_memory(path: Path) -> None:
    offset = path.stat().st_size - N * N
    memory = np.memmap(path, "uint8", "r+", offset, (N, N))
    memory[0, 0] = 200
    memory.flush()


def by_bytes(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xc8")


def by_replacing(path: Path) -> None:
    other = path.with_name("other" + path.suffix)
    changed = values()
    changed[0, 0] = 200
    oc.asarray(changed).save(other)
    os.replace(other, path)


def by_saving(path: Path) -> None:
    changed = values()
    changed[0, 0] = 200
    oc.asarray(changed).save(path, overwrite=True)


def by_zarr(path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_array(str(path), mode="r+")[0, 0] = 200


def by_renewing(path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(
        str(path), shape=(N, N), chunks=(7, 9), dtype="uint8", overwrite=True, compressors=[]
    )
    made[...] = values() + np.eye(N, dtype="uint8")


CHANGES: dict[str, list[Callable[[Path], None]]] = {
    "a.npy": [by_array, by_function, by_process, by_memory, by_bytes, by_replacing, by_saving],
    "a.raw": [by_array, by_process, by_memory, by_replacing],
    "a.pgm": [by_array, by_process, by_memory, by_saving],
    "a.zarr": [by_array, by_function, by_process, by_saving],
    "foreign.zarr": [by_zarr, by_renewing],
    "plain.zarr": [by_zarr, by_renewing],
}


def again(path: Path, mode: str = "r") -> Any:
    options: dict[str, Any] = {"shape": (N, N), "dtype": "uint8"} if path.suffix == ".raw" else {}
    return oc.open(path, mode, **options)


def made(path: Path) -> None:
    if path.name in ("foreign.zarr", "plain.zarr"):
        zarr = pytest.importorskip("zarr")
        # What is not compressed is read as arrays of ours are, and has no index either.
        codecs = [zarr.codecs.ZstdCodec()] if path.name == "foreign.zarr" else []
        array = zarr.create_array(
            str(path), shape=(N, N), chunks=(8, 8), dtype="uint8", compressors=codecs
        )
        array[...] = values()
        return
    oc.asarray(values()).save(path, **({"tile": (16, 16)} if path.suffix == ".zarr" else {}))


EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "elements": lambda a: a + 4 * oc.eye(N),
    "sum": lambda a: a.sum(axis=0, dtype="int64"),
    "cholesky": lambda a: oc.linalg.cholesky(a),
    "solve": lambda a: oc.linalg.solve(a, np.arange(N), assume="pos"),
    "triangular": lambda a: oc.linalg.solve_triangular(a, np.ones(N), lower=True),
    "product": lambda a: oc.matmul(a, a.T) * 1.0,
    "large product": lambda a: oc.linalg.outer(a[0], a[1]),
    "of an expression": lambda a: oc.linalg.cholesky(a + 4 * oc.eye(N)) @ np.ones(N),
    "swept": lambda a: oc.sweeps.gauss_seidel(a, a, sweeps=2),
    "rows": lambda a: a[[3, 0, 0]],
    "points": lambda a: a[[3, 0], [0, 0]],
    "reshaped": lambda a: a.reshape(-1),
    "converted": lambda a: a.astype("complex64").conj(),
    "of a type that it has": lambda a: a.astype("uint8"),
    "part": lambda a: (a[:10, ::2] - 1)[0],
    "backwards": lambda a: a[::-1] + 1,
    "joined": lambda a: oc.concat([a, a]),
}


def assigned(x: Any, path: Path) -> None:
    with oc.create(path, x.shape, x.dtype) as array:
        array[...] = x


USES: dict[str, Callable[[Any, Path], Any]] = {
    "compute": lambda x, there: x.compute(),
    "part": lambda x, there: x[..., :1].compute(),
    "numpy": lambda x, there: np.asarray(x),
    "as": lambda x, there: np.asarray(x, "complex128"),
    "tiles": lambda x, there: list(x.tiles()),
    "save": lambda x, there: x.save(there / "saved.zarr"),
    "save as a file": lambda x, there: x.save(there / "saved.npy"),
    "save several": lambda x, there: oc.save({there / "1.npy": x, there / "2.zarr": x * 2}),
    "plan": lambda x, there: oc.plan(x),
    "plan several": lambda x, there: oc.plan({there / "1.npy": x * 1, there / "2.zarr": x * 2}),
    "further": lambda x, there: (x * 2).sum().compute(),
    "factor": lambda x, there: (x.reshape(-1) @ np.ones(x.size)).compute(),
    "assign": lambda x, there: assigned(x, there / "to.npy"),
    "item": lambda x, there: x[(0,) * x.ndim].item(),
    "selected": lambda x, there: x[[0, 0]].compute(),
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, c) for name, changes in CHANGES.items() for c in changes]
)
@pytest.mark.parametrize("is_used", [False, True], ids=["fresh", "used"])
def test_every_expression_of_what_changed(
    tmp_path: Path, name: str, change: Callable[[Path], None], is_used: bool
) -> None:
    path = tmp_path / name
    made(path)
    array = again(path)
    old = values()
    before = {what: make(array) for what, make in EXPRESSIONS.items()}
    if is_used:
        for what, one in before.items():
            wanted = one.compute()
            assert np.array_equal(one[..., :1].compute(), wanted[..., :1]), what
    change(path)
    changed = again(path).compute()
    assert not np.array_equal(changed, old)
    for what, one in before.items():
        for use in ("compute", "part", "further"):
            with pytest.raises(oc.StaleOperandError, match=path.name):
                pytest.fail(f"{what}, {use}: {USES[use](one, tmp_path)}")
    assert np.array_equal(array.compute(), changed), "a view is of what is there"
    for what, make in EXPRESSIONS.items():
        found = make(array).compute()
        wanted = make(again(path)).compute()
        assert np.allclose(found, wanted), what
        if what == "elements":
            assert np.array_equal(found, changed + 4 * np.eye(N))


@pytest.mark.parametrize("change", [by_array, by_process, by_zarr])
@pytest.mark.parametrize("options", [{"codecs": "zstd"}, {"zarr_format": 2}])
def test_of_more_chunks_than_are_looked_at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr(stamps, "CHUNKS", 20)
    path = tmp_path / "a.zarr"
    oc.asarray(values()).save(path, tile=(4, 4), **options)
    array = again(path)
    product, total = array @ array.T * 1.0, array.sum()
    before = product[0, 0].compute(), int(total)
    assert (product[0, 0].compute(), int(total)) == before
    time.sleep(0.02)
    change(path)
    for stale in (product[0, 0], product, total, total + 1):
        with pytest.raises(oc.StaleOperandError):
            stale.compute()
    assert int(again(path).sum()) == int(again(path).compute().sum()) != before[1]


def test_what_another_program_writes_into_an_array_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    made(path)
    array = again(path)
    factor, total = oc.linalg.cholesky(array + 4 * oc.eye(N)), array.sum(axis=0)
    factor[0, 0].compute(), total.compute()
    by_zarr(path)
    for used in (factor[0, 0], factor, total, total + 1):
        with pytest.raises(oc.StaleOperandError):
            used.compute()
    with pytest.raises(oc.CorruptArrayError):
        (again(path) + 1).compute()


@pytest.mark.parametrize("options", [{}, {"codecs": "zstd"}, {"zarr_format": 2}])
def test_what_is_not_committed_makes_nothing_stale(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.zarr"
    oc.asarray(values()).save(path, tile=(16, 16), **options)
    reader = again(path)
    there = reader + 1
    with again(path, "r+") as writer:
        for i in range(3):
            writer[i, 0] = 7
            own = writer + 1
            for _ in range(2):
                assert own[i, 0].compute() == 8
                assert there[0, 0].compute() == (reader + 1)[0, 0].compute() == 101
            writer.flush()
            assert own[i, 0].compute() == 8 and there[0, 0].compute() == 101
    assert (reader + 1)[0, 0].compute() == 8
    with pytest.raises(oc.StaleOperandError):
        there.compute()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("what", ["elements", "cholesky", "of an expression", "sum", "converted"])
def test_every_use_of_what_changed(tmp_path: Path, use: str, what: str) -> None:
    path = tmp_path / "a.npy"
    made(path)
    one = EXPRESSIONS[what](again(path))
    other = EXPRESSIONS[what](again(path))
    other[..., :1].compute()
    by_array(path)
    (tmp_path / "new").mkdir()
    for stale in (one, other):
        with pytest.raises(oc.StaleOperandError, match="make it anew") as caught:
            USES[use](stale, tmp_path / "new")
        assert isinstance(caught.value, oc.OutcropError)
        assert isinstance(caught.value, RuntimeError)
        del caught
        assert os.listdir(tmp_path / "new") == []


def test_what_a_change_is_called(tmp_path: Path) -> None:
    def told(change: Callable[[Path], object]) -> str:
        path = tmp_path / "a.npy"
        oc.asarray(values()).save(path, overwrite=True)
        expression = again(path) + 1
        change(path)
        with pytest.raises(oc.StaleOperandError) as caught:
            expression.compute()
        return str(caught.value)

    assert "written to at" in told(by_bytes)
    assert "replaced" in told(by_replacing)
    assert "deleted" in told(os.unlink)
    assert "size changed from" in told(lambda path: os.truncate(path, 2000))
    path = tmp_path / "a.zarr"
    made(path)
    expression = again(path) + 1
    by_array(path)
    with pytest.raises(oc.StaleOperandError, match="a change to it was committed at"):
        expression.compute()


def test_what_has_not_changed_is_not_stale(tmp_path: Path) -> None:
    for name in ("a.npy", "a.zarr"):
        path = tmp_path / name
        made(path)
        expression = again(path) + 1
        writer = again(path, "r+")
        own = writer + 1
        writer.flush()
        assert own[0, 0].compute() == expression[0, 0].compute() == 101
        writer.close()
        writer = again(path, "r+")
        writer[0, 0] = 3
        writer.abort() if name == "a.zarr" else writer.close()
        if name == "a.zarr":
            assert expression[0, 0].compute() == 101
        other = again(path)
        assert (other + 1)[1, 1].compute() == 103


def test_changes_within_a_tick(tmp_path: Path) -> None:
    """Times of change advance every few milliseconds; changes are told apart all the same."""
    made(tmp_path / "a.npy")
    array = again(tmp_path / "a.npy")
    for value in range(1, 60):
        expression = array + 0
        with open(tmp_path / "a.npy", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(bytes([value]))
        with pytest.raises(oc.StaleOperandError):
            expression[-1, -1].compute()
        assert (array + 0)[-1, -1].compute() == value


def test_a_stamp_is_of_a_tick_that_is_over() -> None:
    """Where every change that was looked for has a time of its own, as from Linux 6.13 on, the test
    before this one passes without."""
    for _ in range(5):
        changed = time.clock_gettime_ns(stamps._COARSE)
        stamps.when_settled(lambda: None, lambda _, newest=changed: newest)
        assert time.clock_gettime_ns(stamps._COARSE) > changed


# -- memory that was written to before, to whose pages the kernel gives no new time ---------------


MAPPED = ["a.npy", "columns.npy", "a.raw", "a.pgm", "plain.zarr"]

BY_ANOTHER = """
import sys
import numpy as np
memory = np.memmap(sys.argv[1], "uint8", "r+", int(sys.argv[2]), int(sys.argv[3]))
for line in sys.stdin:
    memory[:] = int(line)
    print(flush=True)
"""


def mapped_place(directory: Path, name: str) -> tuple[Path, Path, int]:
    """An array of zeros, the file that its elements are in, and from which byte on."""
    path = directory / name
    on = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True)
    if on.stdout.strip() == "tmpfs":
        pytest.skip("tmpfs gives no times to what mapped memory changes")
    if name == "plain.zarr":
        zarr = pytest.importorskip("zarr")
        zarr.create_array(str(path), data=np.ones((N, N), "uint8"), chunks=(N, N), compressors=[])
        return path, path / "c" / "0" / "0", 0
    oc.zeros((N, N), dtype="uint8").save(path, **({"order": "F"} if "columns" in name else {}))
    return path, path, path.stat().st_size - N * N


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_memory_that_was_written_to_before(tmp_path: Path, name: str) -> None:
    path, file, offset = mapped_place(tmp_path, name)
    memory = np.memmap(file, "uint8", "r+", offset, N * N)
    memory[:] = 1
    array = again(path)
    random = np.random.default_rng(1)
    for value in range(2, 50):
        if random.random() < 0.3:
            memory.flush()
        if random.random() < 0.3:
            array = again(path)
        # What is read is written out.
        if random.random() < 0.3:
            assert (array + 1)[-1, 0].compute() == value
        expressions = [array + 1, oc.matmul(array, array) * 1.0, again(path).sum(axis=0)]
        if random.random() < 0.5:
            memory[random.integers(N * N)] = value + 1
        else:
            memory[:] = value
        for expression in expressions:
            with pytest.raises(oc.StaleOperandError, match=path.name):
                use = str(random.choice(["compute", "part", "further", "tiles"]))
                pytest.fail(f"{value} {use}: {USES[use](expression, tmp_path)}")
        memory[:] = value


@pytest.mark.parametrize("name", MAPPED)
def test_memory_that_another_process_has_mapped(tmp_path: Path, name: str) -> None:
    path, file, offset = mapped_place(tmp_path, name)
    command = [sys.executable, "-c", BY_ANOTHER, str(file), str(offset), str(N * N)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdin is not None and child.stdout is not None

        def change(value: int) -> None:
            print(value, file=child.stdin, flush=True)
            child.stdout.readline()  # type: ignore[union-attr]

        change(1)
        array = again(path)
        for value in range(2, 12):
            one = array + 1
            change(value)
            with pytest.raises(oc.StaleOperandError):
                pytest.fail(str(one.compute()))
        child.stdin.close()


def test_tiles_of_a_product_are_of_one_state(tmp_path: Path) -> None:
    n = 300
    path = tmp_path / "a.raw"
    memory = np.memmap(path, "float64", "w+", 0, (n, n))
    memory[:] = 1
    with oc.config(memory="4MiB"):
        array = oc.open(path, shape=(n, n), dtype="float64")
        one = (array @ array) @ array
        memory[:] = 2
        with pytest.raises(oc.StaleOperandError):
            next(one.tiles())
        one = (array @ array) @ array
        tiles = one.tiles()
        assert (next(tiles)[1] == 8 * n * n).all()
        memory[:] = 3
        # What was computed before may be given on.
        with suppress(oc.StaleOperandError):
            for _, block in tiles:
                assert (block == 8 * n * n).all()
        with pytest.raises(oc.StaleOperandError):
            next(one.tiles())


@pytest.mark.parametrize("name", ["a.npy", "a.zarr"])
@pytest.mark.parametrize("target", [None, "saved.npy", "saved.zarr", "several"])
@pytest.mark.parametrize("what", ["elements", "cholesky"])
def test_a_change_in_the_midst_of_a_run(
    tmp_path: Path, name: str, target: str | None, what: str
) -> None:
    """There is an error, and no result of old and new elements; nor does one become visible."""
    path = tmp_path / name
    made(path)
    once = threading.Event()

    def slowly(i: Any, j: Any) -> Any:
        if not once.is_set():
            once.set()
            by_process(path)
        return i * 0 + j * 0

    late = oc.fromfunction(slowly, (N, N), "float64")
    one = again(path) + late if what == "elements" else oc.linalg.cholesky(again(path) + late)
    (tmp_path / "new").mkdir()
    with pytest.raises(oc.StaleOperandError, match=name):
        if target is None:
            one.compute()
        elif target == "several":
            there = tmp_path / "new"
            oc.save({there / "1.npy": one, there / "2.zarr": one * 2})
        else:
            one.save(tmp_path / "new" / target)
    assert once.is_set()
    assert os.listdir(tmp_path / "new") == []
