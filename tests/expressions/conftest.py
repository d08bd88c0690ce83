"""Arrays on disk, far larger than the tiles in which expressions compute here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import outcrop as oc

Values = NDArray[Any]

BUDGET = "1MiB"


class Desk:
    """A directory to work in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def put(self, values: Values, layout: str = "zarr", tile: Any = None) -> oc.Array:
        """Store values in a new file."""
        self.count += 1
        name = self.path / f"{self.count}.{'npy' if layout != 'zarr' else 'zarr'}"
        options: dict[str, Any] = {}
        if layout == "zarr":
            options["tile"] = tile or tuple(max(n // 5, 1) for n in values.shape)
        if layout == "F":
            options["order"] = "F"
        with oc.config(memory="64MiB"):
            return oc.asarray(values).save(name, **options)

    def check(self, got: Any, expected: Any, *, exact: bool = False, digits: float = 200) -> None:
        """Shape and type are NumPy's, and elements, to rounding errors or to the last bit."""
        expected = np.asarray(expected)
        assert isinstance(got, oc.Array)
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        plan = oc.plan(got) if got.size and got.layout == "computed" else None
        with oc.config(memory=BUDGET):
            result = got.save(self.path / "result.zarr", overwrite=True)
            run = oc.last_run()
        assert plan is None or run is not None
        if run is not None:
            assert run.peak_bytes <= 1 << 20
        with oc.config(memory="64MiB"):
            made = result.compute()
        if exact or expected.dtype.kind in "biu":
            np.testing.assert_array_equal(made, expected)
        else:
            precision = np.finfo(expected.dtype).eps
            scale = np.nanmax(np.abs(expected[np.isfinite(expected)]), initial=1e-300)
            np.testing.assert_allclose(
                made, expected, rtol=digits * precision, atol=digits * precision * scale
            )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with oc.config(memory=BUDGET, threads=2, scratch=tmp_path):
        yield Desk(tmp_path)
