"""Fixtures for every test and for the examples in docstrings."""

from collections.abc import Iterator

import numpy as np
import pytest

import outcrop as oc


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
