"""Nests give what the plain loops give, bit for bit, and move what their plans say."""

from pathlib import Path

import numpy as np
import pytest

import outcrop as oc

from . import more_nests, nests

pytest.importorskip("numba")
pytest.importorskip("islpy")

from .plain import plain, stored

NESTS = {**nests.arguments(), **more_nests.arguments()}


@pytest.mark.parametrize("name", list(NESTS))
def test_nests_are_right_in_little_memory(name: str, tmp_path: Path) -> None:
    function, given, written = NESTS[name]
    expected = plain(function, given)
    own = stored(given, written, 31, tmp_path)
    nest = oc.loops(function)
    with oc.config(memory="256KiB"):
        plan = nest.plan(*own.values())
        nest(*own.values())
        run = oc.last_run()
    assert run is not None
    moved = (run.bytes_read, run.bytes_written)
    assert (plan.bytes_read, plan.bytes_written) == moved
    for p in written:
        np.testing.assert_array_equal(own[p].compute(), expected[p], err_msg=p)
        own[p].close()
    for p in written:
        with oc.open(tmp_path / f"{p}.zarr") as array:
            np.testing.assert_array_equal(array.compute(), expected[p], err_msg=p)
