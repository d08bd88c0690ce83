"""A factor that a half is updated by is read once where memory holds the half, and not twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc


def stored(path: Path, rows: int, columns: int) -> Any:
    values = np.random.default_rng(0).random((rows, columns))
    oc.asarray(values).save(path, tile=64).close()
    return oc.open(path, "r+")


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_factor_is_read_once_where_memory_holds_the_half(tmp_path: Path, trans: str) -> None:
    shape = (384, 1536) if trans == "N" else (1536, 384)
    a, c = stored(tmp_path / "a.zarr", *shape), stored(tmp_path / "c.zarr", 384, 384)
    with oc.config(memory=2 << 20, threads=1, scratch=tmp_path):
        oc.blas.syrk(1.0, a, beta=1.0, C=c, trans=trans)
        run = oc.last_run()
    assert run is not None
    # A tile of 32 KiB has its checksum in a block of its own; of C there are 21 of 36 tiles.
    tile = 36 << 10
    assert run.bytes_read == (6 * 24 + 21) * tile
    assert run.bytes_written <= 21 * tile + (16 << 10)


def test_of_a_symmetric_matrix_one_half_is_read(tmp_path: Path) -> None:
    a, b = stored(tmp_path / "a.zarr", 384, 384), stored(tmp_path / "b.zarr", 384, 64)
    c = stored(tmp_path / "c.zarr", 384, 64)
    with oc.config(memory=8 << 20, threads=1, scratch=tmp_path):
        oc.blas.symm(1.0, a, b, C=c, uplo="U")
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read == (21 + 6) * (36 << 10)
        oc.blas.trsm(1.0, a, c)
        run = oc.last_run()
    assert run is not None
    assert run.bytes_read <= (21 + 6) * (36 << 10)


SPREAD = np.random.default_rng(5).standard_normal((160, 200))


def placed(
    path: Path,
    kind: str,
    values: Any,
    start: tuple[int, int] = (0, 0),
    tile: tuple[int, int] = (56, 40),
) -> Any:
    """A part of an array that is stored somehow, with these elements; what is around it is NaN."""
    end = [0 if first == 0 else 11 for first in start]
    around = [(first, last) for first, last in zip(start, end, strict=True)]
    whole = np.pad(values, around, constant_values=np.nan)
    if kind in ("npy", "fortran", "raw"):
        name = path / ("c.raw" if kind == "raw" else "c.npy")
        if kind == "raw":
            whole.tofile(name)
            array = oc.open(name, "r+", shape=whole.shape, dtype="f8")
        else:
            np.save(name, np.asfortranarray(whole) if kind == "fortran" else whole)
            array = oc.open(name, "r+")
    else:
        codecs = "zstd" if kind == "zstd" else None
        oc.asarray(whole).save(path / "c.zarr", tile=tile, codecs=codecs).close()
        array = oc.open(path / "c.zarr", "r+")
    return array[tuple(slice(s, s + n) for s, n in zip(start, values.shape, strict=True))]


@pytest.mark.parametrize("name", ["gemm", "syrk", "her2k", "trmm"])
@pytest.mark.parametrize("start", [(0, 0), (7, 0), (5, 9)])
@pytest.mark.parametrize("kind", ["zarr", "zstd", "npy", "fortran", "raw"])
def test_bytes_are_planned_wherever_the_matrix_is(
    tmp_path: Path, kind: str, start: tuple[int, int], name: str
) -> None:
    """Parts of tiles, and files that are changed where they lie, in little memory and in much."""
    for number, (memory, is_turned) in enumerate([(288 << 10, False), (640 << 10, True)]):
        place = tmp_path / str(number)
        place.mkdir()
        shape = (150, 150) if name in ("syrk", "her2k") else (130, 160) if is_turned else (160, 130)
        before = np.random.default_rng(7).standard_normal(shape)
        c = placed(place, kind, before, start)
        c, wanted = (c.T, before.T.copy()) if is_turned else (c, before.copy())
        m, n = wanted.shape
        a, b = SPREAD[:m, :70], SPREAD[:n, 70:140].T
        lower = np.tri(m, n, dtype=np.bool_)
        args: tuple[Any, ...]
        options: dict[str, Any] = {"beta": -1.0, "C": c}
        if name == "gemm":
            args, new = (2.0, a, b), 2 * a @ b - wanted
        elif name == "syrk":
            args, new = (2.0, a), np.where(lower, 2 * a @ a.T - wanted, wanted)
        elif name == "her2k":
            args, twice = (2.0, a, b.T), 2 * (a @ b + b.T @ a.T) - wanted
            new, options["uplo"] = np.where(lower.T, twice, wanted), "U"
        else:
            args, options = (2.0, SPREAD[:m, :m], c), {}
            new = 2 * np.tril(SPREAD[:m, :m]) @ wanted
        routine = getattr(oc.blas, name)
        with oc.config(memory=memory, threads=2, scratch=place):
            plan = routine.plan(*args, **options)
            assert plan.is_exact == (kind != "zstd")
            routine(*args, **options)
            run = oc.last_run()
        assert run is not None
        assert run.peak_bytes <= memory
        if plan.is_exact:
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        else:
            # What is compressed is only read: of that, the size is known.
            assert run.bytes_read == plan.bytes_read
            assert run.bytes_written <= plan.bytes_written
        with oc.config(memory="64MiB"):
            np.testing.assert_allclose(c.compute(), new, atol=1e-10)
            rest = c._source.read(c._view.whole(c._source.shape))
            assert np.isnan(rest).sum() == rest.size - before.size
        c._source.close()


@pytest.mark.parametrize("kind", ["zarr", "zstd"])
def test_a_budget_that_is_named_does(tmp_path: Path, kind: str) -> None:
    """Writing the result takes memory as well, which was not asked for before it was computed."""
    before = np.zeros((300, 300))
    c = placed(tmp_path, kind, before, (3, 5), tile=(200, 250))
    factors = np.ones((300, 20)), np.ones((20, 300))
    with oc.config(memory=256 << 10, scratch=tmp_path):
        with pytest.raises(oc.BudgetError) as caught:
            oc.blas.gemm(1.0, *factors, C=c)
        with pytest.raises(oc.BudgetError) as planned:
            oc.blas.gemm.plan(1.0, *factors, C=c)
    least = caught.value.needed
    assert least is not None
    assert planned.value.needed == least
    with oc.config(memory=least, scratch=tmp_path):
        oc.blas.gemm(1.0, *factors, C=c)
    with oc.config(memory="64MiB"):
        np.testing.assert_array_equal(c.compute(), 20)


@pytest.mark.parametrize("kind", ["zarr", "npy"])
@pytest.mark.parametrize("start", [(0, 0), (3, 5)])
def test_progress_is_told(tmp_path: Path, kind: str, start: tuple[int, int]) -> None:
    c = placed(tmp_path, kind, np.zeros((160, 160)), start)
    told: list[tuple[int, int]] = []
    with oc.config(memory="512KiB", scratch=tmp_path):
        oc.blas.gemm(1.0, SPREAD[:, :160], SPREAD[:, :160], C=c, progress=lambda *x: told.append(x))
    assert told
    assert all(0 <= done <= total for done, total in told)
    assert [done / total for done, total in told] == sorted(done / total for done, total in told)
    assert told[-1][0] == told[-1][1]


STEPPED: dict[str, dict[str, Any]] = {
    "strips": {"tile": (402, 20)},
    "odd": {"tile": (70, 130)},
    "default": {},
    "npy": {"order": "C"},
    "fortran": {"order": "F"},
}


@pytest.mark.parametrize("layout", STEPPED)
@pytest.mark.parametrize("routine", ["gemm", "syrk"])
@pytest.mark.parametrize("memory", ["2MiB", "4MiB"])
def test_of_what_leaves_rows_out_bytes_are_planned_from_above(
    tmp_path: Path, layout: str, routine: str, memory: str
) -> None:
    """Written tile by tile of the result, a stored tile may be written several times."""
    chance = np.random.default_rng(0)
    before = chance.normal(size=(402, 201)) + 1j * chance.normal(size=(402, 201))
    factor = chance.normal(size=(201, 68)) + 0j
    path = tmp_path / ("c.npy" if "order" in STEPPED[layout] else "c.zarr")
    with oc.config(memory="64MiB"):
        oc.asarray(before).save(path, **STEPPED[layout])
    product = factor @ factor.T
    expected = before.copy()
    if routine == "gemm":
        given: tuple[Any, ...] = (1.0, factor, factor.T)
        expected[1::2] = product + 0.5 * before[1::2]
    else:
        given = (1.0, factor)
        half = np.tril(np.ones(product.shape, bool))
        expected[1::2][half] = (product + 0.5 * before[1::2])[half]
    with oc.config(memory=memory, scratch=tmp_path), oc.open(path, "r+") as c:
        call = getattr(oc.blas, routine)
        plan = call.plan(*given, beta=0.5, C=c[1::2])
        call(*given, beta=0.5, C=c[1::2])
        run = oc.last_run()
        assert run is not None
        assert not plan.is_exact
        assert run.bytes_read <= plan.bytes_read
        assert run.bytes_written <= plan.bytes_written
    with oc.config(memory="64MiB"):
        np.testing.assert_allclose(oc.open(path).compute(), expected, rtol=1e-12)
