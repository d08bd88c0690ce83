"""Sweeps on the command line."""

from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop.cli import main

pytest.importorskip("numba")

U = np.random.default_rng(3).random((60, 80))
F = np.zeros_like(U)


@pytest.fixture(autouse=True)
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    oc.asarray(U).save("u.zarr", tile=16)
    oc.asarray(F).save("f.npy")


def same(path: str, expected: oc.Array) -> None:
    np.testing.assert_array_equal(oc.open(path).compute(), expected.compute())


def test_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    line = "sweep gauss-seidel u.zarr f.npy v.npy --sweeps 4"
    assert main(line.split()) == 0
    same("v.npy", oc.sweeps.gauss_seidel(U, F, sweeps=4))
    assert main([*line.split(), "--plan"]) == 0
    assert "4 in flight" in capsys.readouterr().out
    # Over what was given.
    assert (
        main(
            [
                "sweep",
                "sor",
                "u.zarr",
                "f.npy",
                "u.zarr",
                "--omega",
                "1.5",
                "--sweeps",
                "2",
                "--overwrite",
            ]
        )
        == 0
    )
    same("u.zarr", oc.sweeps.sor(U, F, 1.5, sweeps=2))


def test_until_nothing_changes() -> None:
    line = "sweep red-black u.zarr f.npy v.zarr --sweeps 500 --until 1e-3 --check-every 10"
    assert main(line.split()) == 0
    same("v.zarr", oc.sweeps.red_black(U, F, sweeps=500, until=1e-3, check_every=10))


REFUSED: dict[str, str] = {
    "gauss-seidel u.zarr v.zarr": "takes 2 arrays (U F) and RESULT",
    "sor u.zarr f.npy v.zarr": "sor takes --omega",
    "jacobi u.zarr f.npy v.zarr --omega 1": "jacobi takes no --omega",
    "jacobi u.zarr f.npy v.zarr --check-every 2": "--check-every says when --until",
    "diagonal u.zarr f.npy v.zarr": "is not one of",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_makes_no_sense(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *line.split()]) == 2
    assert REFUSED[line] in capsys.readouterr().err
    assert not Path("v.zarr").exists()
