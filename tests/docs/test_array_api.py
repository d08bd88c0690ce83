"""What docs/array-api.md lists is so."""

import re
from pathlib import Path

import outcrop as oc
from outcrop import numpy_names

TEXT = (Path(__file__).parents[2] / "docs" / "array-api.md").read_text()


def test_names() -> None:
    listed = set(re.findall(r"`(\w+)`", TEXT.partition("lists and NumPy arrays as well:")[2]))
    assert listed == set(numpy_names.__all__)
    missing = TEXT.partition("| not there yet |")[2].partition("those that NumPy has")[0]
    for name in re.findall(r"`(\w+)`", missing):
        assert name == "linalg" or not hasattr(oc, name)
        assert not hasattr(oc.linalg, name)
