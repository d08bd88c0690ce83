"""Nests that nobody has thought of, against the plain loops."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

pytest.importorskip("numba")
pytest.importorskip("islpy")

from .plain import plain, stored

N = 96
"""Extents of arrays: what is read lies up to two indices beside of a loop's."""


@st.composite
def nests(draw: st.DrawFn) -> str:
    """The source of a nest of two or three loops over two arrays, a vector and a name."""

    def place(loops: str, *, turned: bool) -> str:
        i, j = loops[:2]
        a, b = draw(st.integers(-2, 2)), draw(st.integers(-2, 2))
        first, second = f"{i} + {a}", f"{j} + {b}"
        return f"{second}, {first}" if turned else f"{first}, {second}"

    def value(loops: str) -> str:
        terms = []
        for _ in range(draw(st.integers(1, 3))):
            array = draw(st.sampled_from("ab"))
            terms.append(f"0.3 * {array}[{place(loops, turned=draw(st.booleans()))}]")
        if draw(st.booleans()):
            terms.append(f"v[{loops[draw(st.integers(0, 1))]}]")
        return " + ".join(terms)

    def body(loops: str, indent: str) -> list[str]:
        lines = []
        for _ in range(draw(st.integers(1, 2))):
            target = draw(st.sampled_from(["a", "b"]))
            own = f"{target}[{place(loops, turned=draw(st.booleans()))}]"
            kind = draw(st.integers(0, 4))
            if kind == 0:
                lines += [f"t = {value(loops)}", f"{own} = t * t - t"]
            elif kind == 1:
                lines += [f"if {loops[0]} + 2 * {loops[1]} < {draw(st.integers(60, 260))}:"]
                lines += [f"    {own} = {value(loops)}"]
            elif kind == 2:
                lines += [f"if {value(loops)} > 0.1:", f"    {own} += 0.5"]
            elif kind == 3:
                lines += [f"total += {value(loops)}", f"v[{loops[0]}] += 0.001 * total"]
            else:
                lines += [f"{own} = 0.2 * {own} + {value(loops)}"]
        return [indent + line for line in lines]

    lines = ["def nest(a, b, v, n, steps):", "    total = 0.0"]
    depth = "    "
    timed = draw(st.booleans())
    if timed:
        lines.append("    for s in range(steps):")
        depth += "    "
    for _ in range(draw(st.integers(1, 2))):
        first = draw(
            st.sampled_from(["range(2, n - 2)", "range(n - 3, 1, -1)", "range(3, n - 2, 2)"])
        )
        second = draw(st.sampled_from(["range(2, n - 2)", "range(2, i + 1)", "range(i, n - 2)"]))
        lines += [f"{depth}for i in {first}:"]
        if draw(st.booleans()):
            lines += [f"{depth}    v[i] = 0.5 * v[i - 1] + {value('ii')}"]
        lines += [f"{depth}    for j in {second}:"]
        lines += body("ij", depth + "        ")
    return "\n".join(lines) + "\n"


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(source=nests(), tile=st.integers(17, 40), seed=st.integers(0, 99))
def test_any_nest_is_right(source: str, tile: int, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    # The same nest comes again where it is looked for a smaller one that fails.
    path = Path(tempfile.mkdtemp(dir=tmp_path))
    (path / "nest.py").write_text(source)
    spec = importlib.util.spec_from_file_location("nest", path / "nest.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = {
        "a": 0.1 * rng.standard_normal((N, N)),
        "b": 0.1 * rng.standard_normal((N, N)),
        "v": 0.1 * rng.standard_normal(N),
        "n": N,
        "steps": 3,
    }
    with np.errstate(all="ignore"):
        expected = plain(module.nest, arguments)
    nest = oc.loops(module.nest)
    own = stored(arguments, ("a", "b", "v"), tile, path)
    with oc.config(memory="256KiB"):
        plan = nest.plan(*own.values())
        nest(*own.values())
    run = oc.last_run()
    assert run is not None
    assert (plan.bytes_read, plan.bytes_written) == (run.bytes_read, run.bytes_written)
    for p in ("a", "b", "v"):
        np.testing.assert_array_equal(own[p].compute(), expected[p], err_msg=source)
        own[p].close()
