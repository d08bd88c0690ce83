"""Fixtures for every test and for the examples in docstrings."""

import signal
from collections.abc import Iterator

import numpy as np
import pytest

import outcrop as oc

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests that run in a shell's background hand on that they ignore it, and some send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _examples_run_in_an_empty_directory(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
        namespace = request.getfixturevalue("doctest_namespace")
        namespace["np"] = np
        namespace["oc"] = oc
        with oc.config(memory="1GiB"):
            yield
    else:
        yield
