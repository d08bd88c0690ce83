"""What tests of loop nests have in common."""

import pytest

from outcrop.loops import remembered


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for programs, whatever earlier runs have found; compiled ones may be used again."""
    monkeypatch.setattr(remembered._cache, "get", lambda _: None)
