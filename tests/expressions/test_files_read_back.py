"""Results in flat files that the same plan reads back."""

from typing import Any

import numpy as np
import pytest

import outcrop as oc


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [77, 512])
def test_as_many_bytes_as_planned(desk: Any, columns: int, threads: int) -> None:
    # Blocks at the ends of tiles were written whenever a tile beside them was read back.
    plain = np.random.default_rng(0).standard_normal((5000 * 77 // columns, columns))
    array = desk.put(plain, "npy") * 2
    with oc.config(memory="1MiB", threads=threads):
        for i in range(3):
            results = {
                str(desk.path / f"double{i}.npy"): array,
                str(desk.path / f"centred{i}.npy"): array - array.mean(0),
            }
            plan = oc.plan(results)
            oc.save(results)
            run = oc.last_run()
            assert run is not None
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
            double, centred = (np.load(name) for name in results)
            np.testing.assert_array_equal(double, plain * 2)
            np.testing.assert_allclose(centred, plain * 2 - (plain * 2).mean(0), atol=1e-12)
