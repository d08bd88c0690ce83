"""Expressions made at random, against NumPy."""

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

ROWS, COLUMNS = 157, 93

Pair = tuple[Any, Any]


def leaves(desk: Any) -> list[Pair]:
    chance = np.random.default_rng(9)
    plain = [
        chance.uniform(0.5, 1.5, (ROWS, COLUMNS)),
        chance.uniform(0.5, 1.5, (ROWS, COLUMNS)).astype("float32"),
        chance.uniform(0.5, 1.5, COLUMNS),
        chance.uniform(0.5, 1.5, (ROWS, 1)),
        chance.integers(1, 9, (ROWS, COLUMNS)).astype("int16"),
        chance.uniform(0.5, 1.5, (COLUMNS, COLUMNS)),
    ]
    layouts = ["zarr", "npy", "npy", "zarr", "F", "zarr"]
    return [(desk.put(p, how), p) for p, how in zip(plain, layouts, strict=True)]


UNARY = [
    np.sqrt,
    np.negative,
    lambda x: np.exp(-np.abs(x)),
    lambda x: x.mean(0) if x.ndim else x,
    lambda x: x.sum(-1, keepdims=True) / 100 if x.ndim else x,
    lambda x: x - x.max(),
    lambda x: x.cumsum(0) / 50 if x.ndim else x,
    lambda x: x.T,
    lambda x: x[::-1] if x.ndim else x,
    lambda x: x[..., 1:-1] if x.ndim and x.shape[-1] > 2 else x,
    lambda x: x.std(0) + 1 if x.ndim else x,
    lambda x: x.astype("float32"),
]
BINARY = [
    np.add,
    np.subtract,
    np.maximum,
    lambda x, y: x * y / (1 + np.abs(y)),
    lambda x, y: x @ y / 100 if x.ndim and y.ndim else x + y,
    lambda x, y: np.concatenate([x, y]),
    lambda x, y: np.where(x > y, x, 1),
]


@settings(
    max_examples=60,
    # The same ones each time: how near to zero a difference comes is a matter of luck.
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_graph(desk: Any, data: st.DataObject) -> None:
    pool = leaves(desk) if not hasattr(desk, "pool") else desk.pool
    desk.pool = pool
    pool = list(pool)
    with np.errstate(all="ignore"):
        for _ in range(data.draw(st.integers(1, 9), "steps")):
            one = data.draw(st.integers(0, len(pool) - 1), "one")
            if data.draw(st.booleans(), "alone"):
                operation: Any = data.draw(st.sampled_from(UNARY), "unary")
                given_ = [pool[one]]
            else:
                operation = data.draw(st.sampled_from(BINARY), "binary")
                given_ = [pool[one], pool[data.draw(st.integers(0, len(pool) - 1), "other")]]
            try:
                expected = operation(*(plain for _, plain in given_))
            except ValueError:
                continue
            if expected.size == 0 or expected.dtype == np.float16:
                continue
            pool.append((operation(*(array for array, _ in given_)), expected))
        array, expected = pool[-1]
        with oc.config(memory="64MiB"):
            whole = np.asarray(array)
        plan = oc.plan(array + 0) if array.layout == "computed" else None
        got = (array + 0).save(desk.path / "out.zarr", overwrite=True)
        run = oc.last_run()
        assert run is not None
        if plan is not None:
            assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        with oc.config(memory="64MiB"):
            made = got.compute()
    assert (whole.shape, whole.dtype) == (expected.shape, expected.dtype)
    precision = 1e-3 if any(p.dtype == np.float32 for _, p in pool[6:]) else 1e-8
    finite = np.abs(expected[np.isfinite(expected)].astype("float64"))
    scale = float(finite.max(initial=1e-6))
    for result in (whole, made):
        np.testing.assert_allclose(result, expected, rtol=precision, atol=precision * scale)
