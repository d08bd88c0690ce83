"""The tests that docs/reliability.md names are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reliability.md"
CASES = 40


def rows() -> dict[int, list[str]]:
    found = {}
    for line in TABLE.read_text().splitlines():
        if match := re.match(r"\| (\d+) \|", line):
            found[int(match[1])] = re.findall(r"`([\w./-]+::\w+)`", line.split("|")[-2])
    return found


def test_there_is_a_row_for_every_case() -> None:
    assert sorted(rows()) == list(range(1, CASES + 1))


@pytest.mark.parametrize("case", range(1, CASES + 1))
def test_the_tests_of_a_case_are_there(case: int) -> None:
    names = rows()[case]
    assert names
    for name in names:
        path, _, function = name.partition("::")
        text = (ROOT / path).read_text()
        kind = "fn" if path.endswith(".rs") else "def"
        assert re.search(rf"^\s*{kind} {function}\(", text, re.MULTILINE), name
        if kind == "def":
            assert function.startswith("test_") and Path(path).name.startswith("test_"), name
