"""Any box of any layout equals NumPy's, and copies between any two of them are bit-equal.

The budget is tiny, so that everything is out of core.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import outcrop as oc

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
BUDGETS = ("256KiB", "300KiB", "512KiB", "1MiB")

# Each example makes files; what fails is small enough as it is.
several = settings(
    max_examples=80,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    ndim = draw(st.integers(0, 4))
    # Up to some 100 000 elements, in unequal extents, none and one among them.
    most = {0: 1, 1: 100_000, 2: 400, 3: 50, 4: 18}[ndim]
    extent = st.one_of(st.integers(0, most), st.integers(max(most // 2, 1), most), st.just(1))
    return tuple(draw(extent) for _ in range(ndim))


def values_of(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    """Any bits, not-a-number and denormals included."""
    chance = np.random.default_rng(seed)
    if dtype == "bool":
        return chance.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(chance.bytes(count), dtype).reshape(shape).copy()


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    for extent in shape:
        kind = draw(st.sampled_from(["all", "box", "step", "index"]))
        if kind == "all" or extent == 0:
            key.append(slice(None))
        elif kind == "index":
            key.append(draw(st.integers(-extent, extent - 1)))
        elif kind == "box":
            start = draw(st.integers(0, extent))
            key.append(slice(start, draw(st.integers(start, extent))))
        else:
            bound = st.one_of(st.none(), st.integers(-extent - 2, extent + 2))
            step = draw(st.integers(1, max(extent, 1)))
            key.append(slice(draw(bound), draw(bound), draw(st.sampled_from([1, -1])) * step))
    if draw(st.booleans()):
        key.insert(draw(st.integers(0, len(key))), None)
    return tuple(key)


LAYOUTS = ("zarr", "npy-C", "npy-F", "raw", "raw-F", "foreign")


@st.composite
def tiles(draw: st.DrawFn, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    tile = [draw(st.integers(1, max(extent + 3, 1))) for extent in shape]
    # Tiles of a kilobyte to 64: else the budget is too small, or there are too many files.
    while np.prod(tile) * itemsize > 40_000:
        widest = int(np.argmax(tile))
        tile[widest] = -(-tile[widest] // 2)
    for axis, extent in enumerate(shape):
        while np.prod([-(-n // t) for n, t in zip(shape, tile, strict=True)]) > 150:
            if tile[axis] >= extent or np.prod(tile) * itemsize > 20_000:
                break
            tile[axis] *= 2
    return tuple(tile)


def write(path: Path, values: NDArray[Any], layout: str, data: st.DataObject) -> oc.Array:
    """Store values by other means than what is tested, where there are any."""
    if layout == "zarr":
        tile = data.draw(tiles(values.shape, values.itemsize), label="tile")
        return oc.asarray(values).save(path / "a.zarr", tile=tile)
    if layout == "foreign":
        zarr = pytest.importorskip("zarr")
        tile = data.draw(tiles(values.shape, values.itemsize), label="tile")
        array = zarr.create_array(
            path / "a.zarr",
            shape=values.shape,
            dtype=values.dtype,
            chunks=tuple(min(t, max(n, 1)) for t, n in zip(tile, values.shape, strict=True)),
        )
        array[...] = values
        return oc.open(path / "a.zarr")
    if layout.startswith("npy"):
        ordered = np.array(values, order="F" if layout.endswith("F") else "C")
        big = data.draw(st.booleans(), label="big-endian")
        np.save(path / "a.npy", ordered.astype(ordered.dtype.newbyteorder(">" if big else "=")))
        return oc.open(path / "a.npy")
    offset = data.draw(st.sampled_from([0, 1, 7, 4096, 5000]), label="offset")
    big = data.draw(st.booleans(), label="big-endian")
    order: Literal["C", "F"] = "F" if layout.endswith("F") else "C"
    kind = values.dtype.newbyteorder(">" if big else "<")
    trailer = data.draw(st.sampled_from([b"", b"end"]), label="trailer")
    content = bytes(offset) + values.astype(kind).tobytes(order) + trailer
    (path / "a.raw").write_bytes(content)
    return oc.open(path / "a.raw", shape=values.shape, dtype=kind, offset=offset, order=order)


def same(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=st.data())
@several
def test_reading(layout: str, data: st.DataObject) -> None:
    shape = data.draw(shapes(), label="shape")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    values = values_of(shape, dtype, data.draw(st.integers(0, 99), label="seed"))
    with TemporaryDirectory() as name:
        with oc.config(memory="64MiB"):
            array = write(Path(name), values, layout, data)
        path = array.path
        assert path is not None
        budget = data.draw(st.sampled_from(BUDGETS), label="budget")
        with oc.config(memory="2MiB" if layout == "foreign" else budget):
            for key in data.draw(st.lists(keys(shape), min_size=1, max_size=6), label="keys"):
                expected = values[key]
                if expected.nbytes <= 100 << 10:
                    same(np.asarray(array[key].compute()), expected)
                out = np.empty(expected.shape, dtype)
                for where, block in array[key].tiles():
                    out[where] = block
                same(out, np.asarray(expected))


@pytest.mark.parametrize("layout", ["zarr", "npy-C", "npy-F", "raw", "raw-F"])
@given(data=st.data())
@several
def test_assigning(layout: str, data: st.DataObject) -> None:
    """In any order, to any boxes, into a new array or one that is there."""
    shape = data.draw(shapes(), label="shape")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    expected = values_of(shape, dtype, 0)
    with TemporaryDirectory() as name, oc.config(memory="64MiB"):
        if data.draw(st.booleans(), label="new"):
            expected[...] = 0
            options: dict[str, Any] = {"order": "F" if layout.endswith("F") else "C"}
            if layout == "zarr":
                options = {"tile": data.draw(tiles(shape, expected.itemsize), label="tile")}
            suffix = layout[:3] if layout != "zarr" else "zarr"
            array = oc.create(Path(name, f"a.{suffix}"), shape, dtype, **options)
            reopen: dict[str, Any] = {}
            if suffix == "raw":
                reopen = {"shape": shape, "dtype": dtype, **options}
        else:
            array = write(Path(name), expected, layout, data)
            path = array.path
            assert path is not None
            del array
            if layout.startswith("raw"):
                # As it was described.
                return
            reopen = {}
            array = oc.open(path, "r+")
        path = array.path
        assert path is not None
        oc.config(memory=data.draw(st.sampled_from(BUDGETS), label="budget"))
        for i, key in enumerate(data.draw(st.lists(keys(shape), max_size=6), label="keys")):
            value = values_of(expected[key].shape, dtype, 100 + i)
            expected[key] = value
            array[key] = value
            if expected[key].nbytes <= 100 << 10 and data.draw(st.booleans(), label="read"):
                same(np.asarray(array[key].compute()), expected[key])
        array.close()
        oc.config(memory="64MiB")
        same(oc.open(path, **reopen).compute(), expected)
        if path.suffix == ".npy":
            stored = np.load(path)
            same(stored.astype(stored.dtype.newbyteorder("=")), expected)


@pytest.mark.parametrize("target", ["zarr", "npy", "npy-F", "raw"])
@pytest.mark.parametrize("source", LAYOUTS)
@given(data=st.data())
@settings(several, max_examples=10)
def test_copying(source: str, target: str, data: st.DataObject) -> None:
    shape = data.draw(shapes(), label="shape")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    values = values_of(shape, dtype, 7)
    with TemporaryDirectory() as name:
        path = Path(name)
        with oc.config(memory="64MiB"):
            array = write(path, values, source, data)
        options: dict[str, Any] = {}
        key = data.draw(keys(shape), label="key")
        expected = np.asarray(values[key])
        if target == "zarr":
            options = {"tile": data.draw(tiles(expected.shape, values.itemsize), label="to tile")}
        elif target == "npy-F":
            options = {"order": "F"}
        budget = data.draw(st.sampled_from(BUDGETS), label="budget")
        with oc.config(memory="2MiB" if source == "foreign" else budget):
            out = array[key].save(path / f"out.{target[:4].rstrip('-')}", **options)
            run = oc.last_run()
            assert run is not None
            assert run.peak_bytes <= oc.config().memory
        with oc.config(memory="64MiB"):
            same(out.compute(), expected)
        assert out.path is not None
        if target.startswith("npy"):
            same(np.load(out.path), expected)
            assert np.load(out.path, mmap_mode="r").flags.f_contiguous or target == "npy"
        elif target == "raw":
            assert out.path.read_bytes() == np.ascontiguousarray(expected).tobytes()
        else:
            zarr = pytest.importorskip("zarr")
            same(np.asarray(zarr.open_array(out.path, mode="r")[...]), expected)


@pytest.mark.parametrize("imported", [True, False])
def test_zarr_python_checks_what_we_wrote(tmp_path: Path, imported: bool) -> None:
    pytest.importorskip("zarr")
    for dtype in DTYPES:
        values = values_of((50, 30), dtype, 3)
        oc.asarray(values).save(tmp_path / f"{dtype}.zarr", tile=(16, 7))
        np.save(tmp_path / f"{dtype}.npy", values)
    damaged = tmp_path / "int8.zarr" / "c" / "1" / "1"
    script = f"""
import sys
if {imported}:
    import outcrop
import numpy as np, zarr
assert ("outcrop" in sys.modules) is {imported}
for dtype in {DTYPES}:
    found = zarr.open_array(dtype + ".zarr", mode="r")[...]
    expected = np.load(dtype + ".npy")
    assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes(), dtype
data = bytearray(open({str(damaged)!r}, "rb").read())
data[5] ^= 1
open({str(damaged)!r}, "wb").write(data)
try:
    zarr.open_array("int8.zarr", mode="r")[...]
except Exception as error:
    assert "checksum" in str(error).lower(), error
else:
    raise AssertionError("not noticed")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
