"""What a shell offers when the Tab key is pressed: verbs, options, paths, and names of arrays."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from click.shell_completion import ShellComplete

from outcrop.cli import completion
from outcrop.cli.app import group

Run = Callable[..., Any]


@pytest.fixture
def stores(tmp_path: Path) -> None:
    """Groups of both versions of Zarr, and an HDF5 file, in the command's working directory."""
    h5py = pytest.importorskip("h5py")
    sea = zarr.open_group(tmp_path / "sea.zarr", mode="w")
    for name in ("heat", "deep/er/salt here", "deep/er/wind"):
        sea.create_array(name, shape=(4,), dtype="f8", fill_value=1)
    sea["heat"][...] = 2
    old = zarr.open_group(tmp_path / "old.zarr", mode="w", zarr_format=2)
    for name in ("heat", "hot", "cold"):
        old.create_array(name, shape=(4,), dtype="f8")
    (tmp_path / "sea.zarr" / "notes").mkdir()
    with h5py.File(tmp_path / "sea.h5", "w") as file:
        for name in ("a/b/c", "a/b/d", "top"):
            file[name] = np.zeros(3)
        file["elsewhere"] = h5py.ExternalLink("none.h5", "/x")
    packed = zarr.storage.ZipStore(tmp_path / "sea.zip", mode="w")
    zipped = zarr.open_group(packed, mode="w")
    for name in ("a/b/c", "a/b/d", "top"):
        zipped.create_array(name, shape=(4,), dtype="f8")
    packed.close()
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 and nothing else")
    (tmp_path / "damaged.h5").write_bytes(b"\x89HDF\r\n\x1a\n and nothing else")


def offered(outcrop: Run, line: str, shell: str = "fish") -> list[str]:
    """What click answers a shell, a kind and a word each."""
    words = shlex.split(line.removesuffix(" "))
    last = "" if line.endswith(" ") else words[-1]
    asked = {"COMP_WORDS": line, "COMP_CWORD": shlex.quote(last) if last else ""}
    if shell != "fish":
        asked["COMP_CWORD"] = str(len(words) - (not line.endswith(" ")))
    answer = outcrop(env={"_OUTCROP_COMPLETE": f"{shell}_complete", **asked})
    assert not answer.stderr
    return [line.split("\t")[0] for line in answer.stdout.splitlines() if line]


def test_the_tree_is_that_of_the_command() -> None:
    """Verbs and options are completed from a file, as loading the package takes too long."""
    kept = json.loads(Path(completion.__file__).with_name("tree.json").read_text())
    assert kept == completion.described(group), "python scripts/command_tree.py writes it anew"


COMPLETED = [
    ("outcrop ver", ["plain,verify"]),
    ("outcrop plan l", ["plain,lu"]),
    ("outcrop --engine u", ["plain,uring"]),
    ("outcrop --engine=u", ["plain,uring"]),
    ("outcrop --memory 1GiB convert --fo", ["plain,--format"]),
    ("outcrop --mem", ["plain,--memory"]),
    ("outcrop convert --h", ["plain,--help"]),
    ("outcrop convert a b --format t", ["plain,tiff"]),
    ("outcrop sweep liver", ["plain,livermore23"]),
    ("outcrop sweep jacobi u", ["file,u"]),
    ("outcrop rotate a b -90 --cl", ["plain,--clockwise"]),
    ("outcrop --scratch ", ["dir,"]),
    ("outcrop --timeline r", ["file,r"]),
    ("outcrop timeline r", ["file,r"]),
    ("outcrop completion z", ["plain,zsh"]),
    ("outcrop copy ", ["file,"]),
    ("outcrop copy a sub/b", ["file,sub/b"]),
    ("outcrop copy a b ", []),
]


@pytest.mark.parametrize(("line", "expected"), COMPLETED, ids=[line for line, _ in COMPLETED])
def test_verbs_options_and_paths(outcrop: Run, line: str, expected: list[str]) -> None:
    assert offered(outcrop, line) == expected


NAMES = [
    ("sea.zarr/", ["sea.zarr/deep/", "sea.zarr/heat"]),
    # Groups that hold nothing else are gone through at once: a shell ends what is single.
    ("sea.zarr/d", ["sea.zarr/deep/er/salt here", "sea.zarr/deep/er/wind"]),
    ("./sea.zarr/h", ["./sea.zarr/heat"]),
    ("sea.zarr/none", []),
    # The tiles of an array are no arrays.
    ("sea.zarr/heat/", []),
    ("sea.zarr/heat/c/", []),
    ("old.zarr/h", ["old.zarr/heat", "old.zarr/hot"]),
    ("sea.h5/", ["sea.h5/a/", "sea.h5/top"]),
    ("sea.h5/a/", ["sea.h5/a/b/c", "sea.h5/a/b/d"]),
    ("sea.h5/top/", []),
    ("sea.h5/none/", []),
    ("damaged.h5/", []),
    ("sea.zip/", ["sea.zip/a/", "sea.zip/top"]),
    ("sea.zip/a/", ["sea.zip/a/b/c", "sea.zip/a/b/d"]),
    ("sea.zip/t", ["sea.zip/top"]),
    ("sea.zip/top/", []),
    ("sea.zip/none/", []),
    ("damaged.zip/", []),
]


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize(("begun", "names"), NAMES, ids=[begun for begun, _ in NAMES])
def test_names_inside(outcrop: Run, begun: str, names: list[str]) -> None:
    assert offered(outcrop, f"outcrop info {begun}") == [f"plain,{name}" for name in names]


@pytest.mark.usefixtures("stores")
def test_home_directories(outcrop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert offered(outcrop, "outcrop info ~/sea.zarr/h") == ["plain,~/sea.zarr/heat"]
    kind, value, _ = offered(outcrop, "outcrop info ~/sea.zarr/h", "zsh")
    assert (kind, value) == ("plain", f"{tmp_path}/sea.zarr/heat")


def test_many_members_are_not_looked_into(outcrop: Run, tmp_path: Path) -> None:
    many = zarr.open_group(tmp_path / "many.zarr", mode="w")
    many.create_array("x0", shape=(4,), dtype="f8")
    for number in range(1, 1200):
        (tmp_path / "many.zarr" / f"x{number}").mkdir()
    assert len(offered(outcrop, "outcrop info many.zarr/x1")) == 311


@pytest.mark.usefixtures("stores")
def test_the_command_itself_completes_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ShellComplete(group, {}, "outcrop", "")
    for line, expected in COMPLETED:
        *words, last = shlex.split(line) + [""] * line.endswith(" ")
        found = asked.get_completions(words[1:], last)
        assert [f"{one.type},{one.value}" for one in found] == expected, line
    for begun, names in NAMES:
        assert [one.value for one in asked.get_completions(["info"], begun)] == names, begun


def test_nothing_else_is_loaded(start: Callable[..., Any], tmp_path: Path) -> None:
    """It is waited for at every press of a key."""
    zarr.open_group(tmp_path / "g.zarr", mode="w").create_array("x", shape=(4,), dtype="f8")
    asked = {"_OUTCROP_COMPLETE": "bash_complete", "COMP_WORDS": "outcrop info g.zarr/"}
    process = start(env={**asked, "COMP_CWORD": "2", "PYTHONPROFILEIMPORTTIME": "1"})
    said, loaded = process.communicate(timeout=60)
    assert said.decode().split() == ["plain,g.zarr/x"]
    names = {line.rpartition("|")[2].strip() for line in loaded.decode().splitlines()}
    assert "outcrop.cli.completion" in names
    assert not names & {
        "numpy",
        "rich",
        "h5py",
        "outcrop._native",
        "outcrop.arrays",
        "outcrop.errors",
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(outcrop: Run, shell: str) -> None:
    script = outcrop("completion", shell).stdout
    assert f"_OUTCROP_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_no_such_shell(outcrop: Run) -> None:
    assert "'csh' is not one of" in outcrop("completion", "csh", status=2).stderr


@pytest.mark.usefixtures("stores")
@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash(outcrop: Run, tmp_path: Path) -> None:
    """Names with spaces are put into the line as bash reads them."""
    (tmp_path / "outcrop").write_text(f'#!/bin/sh\nexec {sys.executable} -m outcrop "$@"\n')
    (tmp_path / "outcrop").chmod(0o755)
    script = outcrop("completion", "bash").stdout.replace("complete -o", ": -o")
    asked = "COMP_WORDS=(outcrop info 'sea.zarr/deep/er/sa'); COMP_CWORD=2"
    shown = f'{script}\n{asked}; _outcrop_completion ./outcrop; printf "<%s>" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", shown], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == r"<sea.zarr/deep/er/salt\ here>", done.stderr
