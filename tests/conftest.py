"""What all tests have in common."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SMALL = 64 << 10


@pytest.fixture(autouse=True)
def _emptied(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty what a test has written, so that the kernel need not write it out.

    Files stay, until the next run removes them: ext4 without a journal does not use the numbers of
    files again for minutes, and looks at each that was removed to find one. Thousands of tiles
    removed after every test made the tests take twice as long.
    """
    directory: Path | None = None
    if "tmp_path" in request.fixturenames:
        directory = request.getfixturevalue("tmp_path")
    yield
    if directory is None:
        return
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            with suppress(OSError):
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode) and found.st_size > SMALL:
                    os.truncate(path, 0)
