"""Runs what a page shows, its Python and its commands, in the order in which it stands there."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What every page may print otherwise: times, and what depends on them.
COMPARED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
END = "\x1e"
SHELL = "shell=True, check=True, stdout=subprocess.DEVNULL"


class Page:
    """A document in Markdown."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()

    def blocks(self) -> list[tuple[str, int, list[str]]]:
        """Language, number of the first line, and lines of each block."""
        found: list[tuple[str, int, list[str]]] = []
        inside = False
        for number, line in enumerate(self.text.splitlines(), 1):
            if inside and line.startswith("```"):
                inside = False
            elif inside:
                found[-1][2].append(line)
            elif match := re.match(r"```(.*)", line):
                inside = True
                found.append((match[1], number + 1, []))
        return found

    def script(self) -> str:
        """All of the page as Python, in the lines in which it stands there, which errors name.

        After each block of Python `END` is printed. Of what is for a shell, what calls `outcrop`.
        """
        lines = [""] * (self.text.count("\n") + 1)
        for language, first, block in self.blocks():
            if language == "python":
                lines[first - 1 : first - 1 + len(block)] = block
                lines[first - 1 + len(block)] = f"print({END!r})"
            for number, line in enumerate(block if language == "sh" else [], first):
                if line.startswith("outcrop "):
                    command = line.replace("outcrop", f"'{sys.executable}' -m outcrop", 1)
                    lines[number - 1] = f"import subprocess; subprocess.run({command!r}, {SHELL})"
        return "\n".join(lines)

    def expected(self) -> list[str | None]:
        """What each block of Python prints, where a block of text follows that says so."""
        found: list[str | None] = []
        after = 0
        for language, first, block in self.blocks():
            between = self.text.splitlines()[after : first - 2]
            if language == "python":
                found.append(None)
            elif language == "text" and found and not any(between):
                found[-1] = "\n".join(block) + "\n"
            after = first + len(block)
        return found

    def run(self, directory: Path) -> str:
        """Run the page in an empty directory, and give what it has printed.

        Raises
        ------
        AssertionError
            It has failed, has warned, or has printed something else than it says.
        """
        script = directory / "shown.py"
        script.write_text(self.script())
        # Zarr-Python warns of what xarray asks it for.
        strict = ["-W", "error", "-W", "ignore::UserWarning:zarr"]
        said = run([sys.executable, *strict, script.name], directory)
        printed = said.split(f"{END}\n")
        for (_, first, _), want, got in zip(
            (block for block in self.blocks() if block[0] == "python"),
            self.expected(),
            printed[:-1],
            strict=True,
        ):
            if want is not None:
                same = doctest.OutputChecker().check_output(want, got, COMPARED)
                assert same, f"{self.path.name}, line {first}, prints\n{got}\nand not\n{want}"
        return said.replace(f"{END}\n", "")


def run(command: list[str], directory: Path) -> str:
    """Run a command in a directory, and give what it has printed; what it leaves is there."""
    environment = os.environ | {"OUTCROP_CACHE": str(directory / "cache"), "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
