"""Fixtures for every test and for the examples in docstrings."""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

# Commands that tests start load compiled modules, as a user's do; and as many tests as there are
# processors run at once, so that NumPy's threads would only be in each other's way.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import pytest

import outcrop as oc

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests that run in a shell's background hand on that they ignore it, and some send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is known of this machine's disks decides which way something is done; tests do not depend
# on it.
os.environ["OUTCROP_CACHE"] = tempfile.mkdtemp(prefix="outcrop-test-cache-")
atexit.register(shutil.rmtree, os.environ["OUTCROP_CACHE"], ignore_errors=True)


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
