"""What sweeps take, what they refuse, and what their plans say."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

from .plain import plain

numba = pytest.importorskip("numba")

CHANCE = np.random.default_rng(5)
U, F = CHANCE.random((2, 40, 50))


@oc.sweep
def relax(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])


@oc.sweep(inplace=False)
def far(u):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.5 * u[-3, 0] + 0.5 * u[0, 3]


@oc.sweep(directions=((1, 1), (-1, -1)))
def symmetric(u, f):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - f[0, 0])


@oc.sweep(inplace=False, boundary="periodic")
def life(u):  # type: ignore[no-untyped-def]
    n = u[-1, -1] + u[-1, 0] + u[-1, 1] + u[0, -1] + u[0, 1] + u[1, -1] + u[1, 0] + u[1, 1]
    if n == 3:
        u[0, 0] = 1
    elif n != 2:
        u[0, 0] = 0


def same(found: oc.Array, expected: Any) -> None:
    np.testing.assert_array_equal(found.compute(), expected)


@pytest.mark.parametrize("part", [np.s_[:1], np.s_[:, :1], np.s_[:2], np.s_[:, :3], np.s_[:0]])
def test_few_rows_and_columns(part: Any) -> None:
    u, f = U[part], F[part]
    same(relax(u, f, sweeps=3), plain(relax, u, f, sweeps=3)[0])


def test_cells_that_are_read_lie_further_away_than_a_tile(tmp_path: Path) -> None:
    stored = oc.asarray(U).save(tmp_path / "u.zarr", tile=(2, 2))
    same(far(stored, sweeps=4), plain(far, U, sweeps=4)[0])


def test_what_is_no_number_spreads_as_far_as_in_the_plain_loop() -> None:
    u = U.copy()
    u[20, 20], u[5, 5] = np.nan, np.inf
    same(relax(u, F, sweeps=3), plain(relax, u, F, sweeps=3)[0])


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32"])
def test_types(dtype: str) -> None:
    u = (U < 0.4).astype(dtype)
    same(life(u, sweeps=4), plain(life, u, sweeps=4)[0])


def test_float32_is_computed_as_numba_computes_it() -> None:
    u, f = U.astype("f4"), F.astype("f4")

    @numba.njit  # type: ignore[untyped-decorator]
    def loop(u, f):  # type: ignore[no-untyped-def]
        for _ in range(3):
            for i in range(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    near = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                    u[i, j] = 0.25 * (near - f[i, j])

    expected = u.copy()
    loop(expected, f)
    found = relax(u, f, sweeps=3)
    assert found.dtype == np.float32
    same(found, expected)


LAYOUTS: dict[str, Callable[[Path, Any], oc.Array]] = {
    "tiles": lambda d, a: oc.asarray(a).save(d / "a.zarr", tile=(16, 8)),
    "npy": lambda d, a: oc.asarray(a).save(d / "a.npy"),
    "columns": lambda d, a: oc.asarray(a).save(d / "a.npy", order="F"),
    "compressed": lambda d, a: oc.asarray(a).save(d / "a.zarr", tile=8, codecs="zstd"),
    "transposed": lambda d, a: oc.asarray(a.T.copy()).save(d / "a.zarr", tile=16).T,
    "part": lambda d, a: oc.asarray(np.pad(a, 3)).save(d / "a.zarr", tile=16)[3:-3, 3:-3],
    "computed": lambda d, a: oc.asarray(a).save(d / "a.zarr", tile=16) * 1,
    "in memory": lambda d, a: oc.asarray(a),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", ["v.zarr", "v.npy"])
def test_layouts(layout: str, target: str, tmp_path: Path) -> None:
    u = LAYOUTS[layout](tmp_path, U)
    with oc.config(memory="300KiB"):
        found = relax(u, F, sweeps=4).save(tmp_path / target)
    same(found, plain(relax, U, F, sweeps=4)[0])


@pytest.mark.parametrize("name", ["u.zarr", "u.npy"])
def test_over_its_own_input(name: str, tmp_path: Path) -> None:
    u = oc.asarray(U).save(tmp_path / name)
    with pytest.raises(oc.ArrayExistsError):
        relax(u, F, sweeps=2).save(tmp_path / name)
    relax(u, F, sweeps=2).save(tmp_path / name, overwrite=True)
    same(oc.open(tmp_path / name), plain(relax, U, F, sweeps=2)[0])


def test_in_expressions_and_of_expressions(tmp_path: Path) -> None:
    u = oc.asarray(U).save(tmp_path / "u.zarr", tile=16)
    expected = plain(relax, U, F, sweeps=5)[0]
    same(relax(relax(u, F, sweeps=3), F, sweeps=2), expected)
    same(2 * relax(u + 0, F, sweeps=5) - 1, 2 * expected - 1)
    same(relax(u, F, sweeps=5)[3:5, ::7], expected[3:5, ::7])
    same(relax(u, u, sweeps=2), plain(relax, U, U, sweeps=2)[0])
    same(relax(u, F, sweeps=0), U)


def test_what_is_given_stays_as_it_is() -> None:
    u = oc.asarray(U.copy())
    found = relax(u, F, sweeps=2)
    u[...] = 0
    same(found, plain(relax, U, F, sweeps=2)[0])


def test_sweeps_there_and_back_are_not_in_flight(tmp_path: Path) -> None:
    u = oc.asarray(U).save(tmp_path / "u.zarr", tile=16)
    found = symmetric(u, F, sweeps=3)
    plan = oc.plan(found)
    assert isinstance(plan, oc.SweepPlan)
    assert (plan.sweeps, plan.depth) == (3, 1)
    assert plan.reason is not None and "directions" in plan.reason
    assert plan.reason in plan.explain()
    same(found, plain(symmetric, U, F, sweeps=3)[0])


def test_alternating_directions_are_not_in_flight() -> None:
    plan = oc.plan(oc.sweeps.adi(U, 0.5, steps=2))
    assert isinstance(plan, oc.SweepPlan)
    assert plan.reason is not None and "directions alternate" in plan.reason
    assert plan.reason in plan.explain()


def test_all_axes_periodic(tmp_path: Path) -> None:
    u = oc.asarray((U < 0.4).astype("i8")).save(tmp_path / "u.zarr", tile=16)
    plan = oc.plan(life(u, sweeps=6))
    assert isinstance(plan, oc.SweepPlan)
    assert plan.depth == 1 and plan.reason is not None and "periodic" in plan.reason


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_are_moved_once(threads: int, tmp_path: Path) -> None:
    u = oc.asarray(CHANCE.random((1000, 400))).save(tmp_path / "u.zarr", tile=(50, 50))
    f = oc.asarray(CHANCE.random((1000, 400))).save(tmp_path / "f.zarr", tile=(50, 50))
    with oc.config(memory="4MiB", threads=threads):
        plan = oc.plan(relax(u, f, sweeps=16))
        relax(u, f, sweeps=16).save(tmp_path / "v.zarr")
        run = oc.last_run()
    assert isinstance(plan, oc.SweepPlan) and plan.depth == 16 and plan.reason is None
    assert run is not None and run.operation == "sweep"
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    # A file of a tile has more than its elements, to a whole page.
    assert plan.bytes_read == 2 * 20 * 8 * (50 * 50 * 8 + 4096 - 50 * 50 * 8 % 4096)


def test_until_nothing_changes() -> None:
    given = np.zeros((2, 20, 20))
    given[0, 0] = 1
    found = relax(*given, sweeps=2000, until=1e-3, check_every=4).compute()
    count = 0
    expected = given[0]
    while True:
        old, expected = expected, plain(relax, expected, given[1], sweeps=4)[0]
        count += 4
        if abs(old - expected).max() <= 1e-3:
            break
    np.testing.assert_array_equal(found, expected)
    settled = relax(*given, sweeps=2000, until=1e-3, check_every=4)
    assert isinstance(settled, oc.sweeps.Settled)
    assert settled.converged and settled.sweeps == count
    assert settled.change == abs(old - expected).max()
    # As many as there may be, and that is told.
    few = relax(*given, sweeps=6, until=1e-3, check_every=4)
    assert (few.sweeps, few.converged) == (6, False)
    assert few.change > 1e-3
    same(few, plain(relax, *given, sweeps=6)[0])
    assert type(few[1:]) is oc.Array
    none = relax(given[0][:0], given[1][:0], sweeps=6, until=1e-3)
    assert (none.sweeps, none.change, none.converged) == (0, 0.0, True)
    # What is no number never settles.
    given[0, 5, 5] = np.nan
    same(relax(*given, sweeps=6, until=1.0, check_every=3), plain(relax, *given, sweeps=6)[0])


def test_who_looks_on_while_it_settles() -> None:
    given = np.zeros((2, 20, 20))
    given[0, 0] = 1
    seen: list[tuple[int, float]] = []
    told: list[tuple[int, int]] = []
    settled = relax(
        *given,
        sweeps=500,
        until=1e-3,
        check_every=5,
        on_check=lambda *what: seen.append(what),
        progress=lambda *what: told.append(what),
    )
    assert [sweeps for sweeps, _ in seen] == list(range(5, settled.sweeps + 1, 5))
    assert seen[-1] == (settled.sweeps, settled.change)
    shares = [done / total for done, total in told]
    assert shares == sorted(shares) and shares[-1] == 1 and shares[0] < 0.5

    def stop(sweeps: int, change: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        relax(*given, sweeps=500, until=1e-3, on_check=stop)
    with pytest.raises(oc.InvalidArgumentError, match="on_check"):
        relax(*given, sweeps=5, on_check=stop)
    with pytest.raises(oc.InvalidArgumentError, match="an option of saving"):
        relax(*given, sweeps=5, progress=lambda done, total: None)
    for nothing in (-1.0, np.nan):
        with pytest.raises(oc.InvalidArgumentError, match="until="):
            relax(*given, sweeps=5, until=nothing)


def test_progress_of_sweeps_that_are_saved(tmp_path: Path) -> None:
    u = oc.asarray(U).save(tmp_path / "u.zarr", tile=16)
    told: list[tuple[int, int]] = []
    relax(u, F, sweeps=5).save(tmp_path / "v.zarr", progress=lambda *what: told.append(what))
    assert told and told[-1][0] == told[-1][1]


def test_wave() -> None:
    u, before, c = U, F, np.full(U.shape, 0.25)
    found = oc.sweeps.wave_equation(u, before, c, sweeps=3)
    for _ in range(3):
        new = u.copy()
        inner = np.s_[1:-1, 1:-1]
        bent = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[inner]
        new[inner] = 2.0 * u[inner] - before[inner] + c[inner] * bent
        older = before.copy()
        older[inner] = u[inner]
        u, before = new, older
    same(found[0], u)
    same(found[1], before)


def test_red_black() -> None:
    found = oc.sweeps.red_black(U, F, 1.5, sweeps=2)
    u, cells = U.copy(), np.add.outer(*map(np.arange, U.shape)) % 2
    inner = np.s_[1:-1, 1:-1]
    for colour in (0, 1, 0, 1):
        new = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - F[inner])
        updated = u[inner] + 1.5 * (new - u[inner])
        u[inner] = np.where(cells[inner] == colour, updated, u[inner])
    same(found, u)


def test_index_backwards_and_in_rows(tmp_path: Path) -> None:
    @oc.sweep(directions=(-1, 1))
    def numbered(u):  # type: ignore[no-untyped-def]
        u[0, 0] = 100 * oc.sweeps.index(0) + oc.sweeps.index(1) + 0 * u[0, -1]

    u = oc.asarray(np.zeros((30, 40))).save(tmp_path / "u.zarr", tile=(8, 16))
    expected = np.add.outer(100.0 * np.arange(30), np.arange(40))
    expected[:, 0] = 0
    same(numbered(u, sweeps=2), expected)


# -- what is refused -------------------------------------------------------------------------------

REFUSED = {
    "u[1, 0] = 1": r"u is assigned at the offset \(1, 0\)",
    "u[0, 0] = u[i, 0]": "offsets are constant integers, and i is none",
    "u[0, 0] = u[0, 0.5]": "offsets are constant integers",
    "for k in range(3): u[0, 0] = 1": "assignments, if on values, and nothing else",
    "return u": "assignments, if on values, and nothing else",
    "u[0, 0] = u[0]": "u has 2 offsets, and others have 1|u has 1 offsets, and others have 2",
    "u[0, 0] = x": "x is not known here",
    "u[0, 0] = foreign(u[0, 0])": "neither a number nor a function of math, NumPy or Numba",
    "v = 1": "nothing is updated",
    "u[0, 0] = [1]": "List is not part of",
    "u[0, 0, 0, 0] = 1": "1 to 3 axes, and not 4",
    "u[0, 0] = u": "with offsets, and without",
    "u[0, 0] = oc.sweeps.index(2)": "the arrays have 2 axes",
    "u = 1": "u is a parameter",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_functions_that_are_no_updates(statement: str, tmp_path: Path) -> None:
    import importlib.util

    path = tmp_path / "update.py"
    path.write_text(
        f"import outcrop as oc\ndef foreign(x):\n    return x\ndef update(u):\n    {statement}\n"
    )
    spec = importlib.util.spec_from_file_location("update", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(oc.UnsupportedError, match=REFUSED[statement]) as caught:
        oc.sweep(module.update)
    assert f"{path}:" in str(caught.value)


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(oc.InvalidArgumentError, match="unequal shapes"):
        relax(U, F[:3])
    with pytest.raises(oc.InvalidArgumentError, match="1 axes"):
        relax(U[0], F[0])
    with pytest.raises(oc.InvalidTypeError, match="missing"):
        relax(U)
    with pytest.raises(oc.InvalidArgumentError, match="sweeps"):
        relax(U, F, sweeps=-1)
    with pytest.raises(oc.InvalidArgumentError, match="check_every"):
        relax(U, F, check_every=2)
    with pytest.raises(oc.InvalidArgumentError, match="boundary"):
        oc.sweep(boundary="open")(relax.__wrapped__)  # type: ignore[attr-defined]
    with pytest.raises(oc.InvalidArgumentError, match="directions"):
        oc.sweep(directions=(1, 2))(relax.__wrapped__)  # type: ignore[attr-defined]
    with pytest.raises(oc.InvalidTypeError, match="omega"):
        oc.sweeps.sor(U, F, "fast", sweeps=1)  # type: ignore[arg-type]


def test_too_little_memory_names_the_least(tmp_path: Path) -> None:
    u = oc.asarray(CHANCE.random((200, 200))).save(tmp_path / "u.zarr", tile=100)
    with oc.config(memory="300KiB"), pytest.raises(oc.BudgetError) as caught:
        relax(u, u, sweeps=2).save(tmp_path / "v.zarr")
    assert caught.value.needed is not None
    with oc.config(memory=caught.value.needed):
        relax(u, u, sweeps=2).save(tmp_path / "v.zarr")
    same(oc.open(tmp_path / "v.zarr"), plain(relax, u.compute(), u.compute(), sweeps=2)[0])


KILLED = """
import numpy as np, outcrop as oc
from outcrop import _native
oc.config(memory="1MiB", threads=2)
u = oc.open("u.zarr")
v = oc.sweeps.gauss_seidel(u, np.zeros(u.shape), sweeps=5)
assert oc.plan(v)
_native.inject_faults("write:30:kill:once")
v.save("u.zarr", overwrite=True)
"""


def test_killed_over_its_own_input(tmp_path: Path) -> None:
    given = CHANCE.random((300, 300))
    oc.asarray(given).save(tmp_path / "u.zarr", tile=50)
    (tmp_path / "killed.py").write_text(KILLED)
    ended = subprocess.run([sys.executable, "killed.py"], cwd=tmp_path, capture_output=True)
    assert ended.returncode == -9, ended.stderr
    u = oc.open(tmp_path / "u.zarr")
    same(u, given)
    oc.sweeps.gauss_seidel(u, np.zeros(u.shape), sweeps=5).save(tmp_path / "u.zarr", overwrite=True)
    same(oc.open(tmp_path / "u.zarr"), plain(relax, given, 0 * given, sweeps=5)[0])
    assert {path.name for path in tmp_path.iterdir()} == {"u.zarr", "killed.py"}


def test_without_numba(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('not here')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np, outcrop as oc\n"
        "try: oc.sweeps.gauss_seidel(np.ones((3, 3)), np.ones((3, 3)))\n"
        "except oc.UnsupportedError as error: print(error)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert "pip install 'outcrop[sweeps]'" in ended.stdout, ended.stderr


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("shape", [(1, 50), (2, 50), (50, 1), (50, 2), (1, 1)])
def test_periodic_axes_are_as_long_as_offsets(inplace: bool, shape: tuple[int, int]) -> None:
    """Memory beyond the tile was read, or other cells."""

    @oc.sweep(boundary="periodic", inplace=inplace)
    def far(u):  # type: ignore[no-untyped-def]
        u[0, 0] = 0.5 * u[3, 0] + 0.25 * u[-3, 0] + 0.25 * u[0, 3]

    with pytest.raises(oc.InvalidArgumentError, match=r"is periodic and has \d+ indices, fewer"):
        far(np.ones(shape))
    assert far(np.ones((3, 3)), sweeps=2).compute().shape == (3, 3)
    assert far(np.ones((0, 5))).shape == (0, 5)


def test_every_argument_is_looked_at() -> None:
    def mean(u):  # type: ignore[no-untyped-def]
        u[0, 0] = 0.5 * (u[-1, 0] + u[1, 0])

    u, update = np.ones((6, 7)), oc.sweep(mean)
    for boundary in (3, None, ("fixed",), ("fixed", 3), "open"):
        with pytest.raises(oc.InvalidArgumentError, match="boundary="):
            oc.sweep(mean, boundary=boundary)  # type: ignore[call-overload]
    for options in ({"sweeps": True}, {"sweeps": 1.5}, {"until": 0.1, "check_every": True}):
        with pytest.raises(oc.InvalidTypeError, match="= is an integer"):
            update(u, **options)
    for options in ({"sweeps": -1}, {"sweeps": 10**30}, {"until": 0.1, "check_every": 0}):
        with pytest.raises(oc.InvalidArgumentError, match=r"= is from \d to"):
            update(u, **options)
    for name in ("on_check", "progress"):
        with pytest.raises(oc.InvalidTypeError, match=f"{name}= is called"):
            update(u, sweeps=2, until=0.1, **{name: 3})
    for omega in (-0.1, 2.5, float("nan")):
        with pytest.raises(oc.InvalidArgumentError, match="omega is from 0 to 2"):
            oc.sweeps.sor(u, u, omega)
        with pytest.raises(oc.InvalidArgumentError, match="omega is from 0 to 2"):
            oc.sweeps.red_black(u, u, omega)
    with pytest.raises(oc.InvalidArgumentError, match="steps= is from 0"):
        oc.sweeps.adi(u, 1.0, steps=-1)
    with pytest.raises(oc.InvalidArgumentError, match="sweeps= is from 0"):
        oc.sweeps.red_black(u, u, sweeps=-1)


def test_what_there_is_not_and_what_is_too_far_is_refused_by_its_line() -> None:
    def unknown(u):  # type: ignore[no-untyped-def]
        u[0, 0] = math.nosuch(u[0, 0])  # type: ignore[attr-defined]

    def far(u):  # type: ignore[no-untyped-def]
        u[0, 0] = u[-3000000000, 0]

    for function, words in ((unknown, "math has no nosuch"), (far, "offsets are at most")):
        with pytest.raises(oc.UnsupportedError, match=words) as caught:
            oc.sweep(function)
        assert "test_sweeps.py:" in str(caught.value)


@oc.sweep
def both(u, w):  # type: ignore[no-untyped-def]
    u[0, 0] = 0.5 * u[-1, 0] + 0.25 * w[0, 1]
    w[0, 0] = 0.5 * w[-1, 0] + 0.25 * u[0, -1]


@pytest.mark.parametrize("suffix", ["zarr", "npy"])
def test_several_results_are_one_plan_and_one_pass(tmp_path: Path, suffix: str) -> None:
    given = CHANCE.random((2, 300, 300))
    names = [tmp_path / f"{k}.zarr" for k in "ab"]
    with oc.config(memory="1MiB"):
        stored = [oc.asarray(x).save(name, tile=50) for x, name in zip(given, names, strict=True)]
        u, w = both(*stored, sweeps=3)
        for results in (
            {tmp_path / f"u.{suffix}": u, tmp_path / f"w.{suffix}": w},
            {tmp_path / f"alone.{suffix}": w},
        ):
            planned = oc.plan(results)
            made = oc.save(results)
            run = oc.last_run()
            assert run is not None
            assert (run.bytes_read, run.bytes_written) == (
                planned.bytes_read,
                planned.bytes_written,
            )
            if suffix == "zarr":
                assert run.bytes_read <= 1.2 * given.nbytes
                assert run.bytes_written <= 1.2 * given.nbytes * len(results) / 2
            assert [type(one) for one in made.values()] == [oc.Array] * len(results)
        with pytest.raises(oc.ArrayExistsError):
            oc.save({tmp_path / f"other.{suffix}": u, tmp_path / f"w.{suffix}": w})
        assert not (tmp_path / f"other.{suffix}").exists()
    expected = plain(both, *given, sweeps=3)
    for name, one in zip("uw", expected, strict=True):
        np.testing.assert_array_equal(oc.open(tmp_path / f"{name}.{suffix}").compute(), one)
    np.testing.assert_array_equal(oc.open(tmp_path / f"alone.{suffix}").compute(), expected[1])


def test_what_many_ways_lead_to_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two results of each sweep of one were looked at by both of the next: 3^n times in all."""
    calls = 0
    check = type(oc.asarray(U)._source).check_current

    def counted(source: Any) -> None:
        nonlocal calls
        calls += 1
        check(source)

    u, w = oc.asarray(U), oc.asarray(F)
    monkeypatch.setattr(type(u._source), "check_current", counted)
    for _ in range(8):
        u, w = both(u, w)
    u.compute()
    assert 0 < calls < 500
