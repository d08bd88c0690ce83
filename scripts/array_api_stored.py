"""A plugin of pytest for the test suite of the Python array API standard: what is stored.

Every array that the suite draws is written to disk in tiles of a few elements, and opened again;
the memory budget is 1 MiB. docs/array-api.md says how it is run.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import array_api_tests
import pytest

import outcrop as oc

_numbers = itertools.count()
_directory = ""


def _stored(array: oc.Array) -> oc.Array:
    number = next(_numbers)
    return array.save(Path(_directory) / f"{number}.zarr", tile=1 + number % 3)


def _all_stored(arrays: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(arrays)
    def drawn(*args: Any, **options: Any) -> Any:
        return arrays(*args, **options).map(_stored)

    return drawn


# The suite's own strategies are made of this one.
array_api_tests.xps.arrays = _all_stored(array_api_tests.xps.arrays)


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    global _directory
    with (
        tempfile.TemporaryDirectory() as _directory,
        oc.config(memory="1MiB", scratch=_directory),
    ):
        yield
