"""Sweeps on the command line."""

from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop.cli import main
from outcrop.program.progress import Scale, Settling, Sweeping

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


def test_until_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    line = "sweep red-black u.zarr f.npy v.zarr --sweeps 500 --until 1e-3 --check-every 10"
    assert main(["--report", *line.split()]) == 0
    settled = oc.sweeps.red_black(U, F, sweeps=500, until=1e-3, check_every=10)
    same("v.zarr", settled)
    err = capsys.readouterr().err
    assert isinstance(settled, oc.sweeps.Settled)
    told = f"by {settled.sweeps} sweeps, in the last of which {settled.change:.3g} changed"
    assert told in err and "warning" not in err
    assert main([*line.replace("500", "5").split(), "--overwrite"]) == 0
    assert "more than 0.001 still changes: 10 sweeps" in capsys.readouterr().err


def test_how_far_it_is() -> None:
    class Task:
        completed, total = 0.0, 100.0

    def told(scale: Scale, done: float) -> str:
        task = Task()
        task.completed = done
        return scale.amount(task, 1.0)  # type: ignore[arg-type]

    one = Sweeping(1.0, 1.0, 5, 1)
    assert [told(one, 20.0 * k) for k in range(6)] == [
        f"sweep {n} of 5" for n in (1, 2, 3, 4, 5, 5)
    ]
    three = Sweeping(1.0, 1.0, 8, 3)
    assert told(three, 0) == "sweeps 1-3 of 8"
    assert told(three, 40) == "sweeps 4-6 of 8"
    assert told(three, 100) == "sweeps 7-8 of 8"
    settling = Settling()
    assert told(settling, 1) == ""
    settling.checked(150, 3.25e-5)
    assert told(settling, 1) == "sweep 150, changed 3.2e-05"


REFUSED: dict[str, str] = {
    "gauss-seidel u.zarr v.zarr": "takes 2 arrays (U F) and RESULT",
    "sor u.zarr f.npy v.zarr": "sor takes --omega",
    "jacobi u.zarr f.npy v.zarr --omega 1": "jacobi takes no --omega",
    "jacobi u.zarr f.npy v.zarr --check-every 2": "--check-every says when --until",
    "jacobi u.zarr f.npy v.zarr --resume --until 1": "--resume is for a number of sweeps",
    "jacobi u.zarr f.npy v.zarr --resume --tile 8": "--resume takes neither --tile nor --format",
    "diagonal u.zarr f.npy v.zarr": "is not one of",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_makes_no_sense(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *line.split()]) == 2
    assert REFUSED[line] in capsys.readouterr().err
    assert not Path("v.zarr").exists()
