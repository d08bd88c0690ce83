"""Arrays on disk, far larger than the tiles in which expressions compute here."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Values = NDArray[Any]

BUDGET = "1MiB"


def _at(values: Values, *indices: Any) -> Any:
    return values[indices]


class Desk:
    """A directory to work in."""

    layouts = (
        *("zarr", "npy", "F", "raw", "memory", "function"),
        *("transposed", "reversed", "stepped", "computed"),
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def put(self, values: Values, layout: str = "zarr", tile: Any = None) -> oc.Array:
        """Values in a new file, or wherever else arrays come from."""
        match layout:
            case "memory":
                return oc.asarray(values)
            case "function":
                return oc.fromfunction(partial(_at, values), values.shape, values.dtype)
            case "transposed":
                return self.put(values.T).T
            case "reversed":
                key = (slice(None, None, -1),) * values.ndim
                return self.put(values[key], "npy")[key]
            case "stepped":
                wide = np.zeros((*values.shape[:-1], 3 * values.shape[-1]), values.dtype)
                wide[..., 1::3] = values
                return self.put(wide)[..., 1::3]
            case "computed":
                return oc.concat([self.put(values, "npy")[:5], oc.asarray(values[5:])])
        self.count += 1
        name = self.path / f"{self.count}.{layout if layout in ('zarr', 'raw') else 'npy'}"
        options: dict[str, Any] = {}
        if layout == "zarr":
            options["tile"] = tile or tuple(max(n // 5, 1) for n in values.shape)
        if layout == "F":
            options["order"] = "F"
        with oc.config(memory="64MiB"):
            saved = oc.asarray(values).save(name, **options)
        return saved if layout != "raw" else oc.open(name, shape=values.shape, dtype=values.dtype)

    def check(self, got: Any, expected: Any, *, digits: float = 200) -> None:
        """Shape and type are NumPy's, elements to rounding errors; and bytes are as planned."""
        expected = np.asarray(expected)
        assert isinstance(got, oc.Array)
        plan = oc.plan(got) if got.size and got.layout == "computed" else None
        result = got.save(self.path / "result.zarr", overwrite=True)
        run = oc.last_run()
        if plan is not None:
            assert run is not None
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
            assert run.peak_bytes <= oc.config().memory
        with oc.config(memory="64MiB"):
            self.compare(result.compute(), expected, digits=digits)

    def compare(self, made: Values, expected: Values, *, digits: float = 200) -> None:
        """The same shape and type; the same elements, or nearly so where they are rounded.

        `digits` are units in the last place, of the largest finite element.
        """
        assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
        if digits == 0 or expected.dtype.kind in "biu":
            np.testing.assert_array_equal(made, expected)
            return
        real = expected.real.dtype
        if expected.dtype.kind == "c":
            # NaN is what has one in either part; the other one depends on the order of operations.
            made, expected = (np.where(np.isnan(x), np.nan, x) for x in (made, expected))
        made, expected = (np.ascontiguousarray(x).reshape(-1).view(real) for x in (made, expected))
        tolerance = digits * np.finfo(real).eps
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-300)
        np.testing.assert_allclose(made, expected, rtol=tolerance, atol=tolerance * scale)

    def outcome(self, make: Callable[[], Any]) -> tuple[Any, set[str]]:
        """What a call gives, or raises; and what NumPy warns of meanwhile."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = make()
            except Exception as error:
                result = error
        return result, {str(w.message).partition(" encountered")[0] for w in warned}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with oc.config(memory=BUDGET, threads=2, scratch=tmp_path):
        yield Desk(tmp_path)


@pytest.fixture
def tiny(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk where expressions are computed in tiles of a few elements."""
    monkeypatch.setattr("outcrop.expressions.tiling.tile_sizes._SIZES", (800,))
    return desk
