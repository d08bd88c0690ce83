"""Every public function on every type of element, wherever it lies, against NumPy.

What is called is said in tables of text, since NumPy and Outcrop are asked for the very same.
"""

import itertools
import pickle
import re
import zlib
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop import linalg, random
from outcrop.array_api import (
    creation_functions,
    manipulation_functions,
    neighbours,
    non_ufunc_functions,
    order_statistics,
    searching_functions,
    sorting_functions,
    splitting_functions,
    statistical_functions,
)
from outcrop.arrays import views
from outcrop.linalg import products

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
]

TABLES: dict[Any, str] = {
    statistical_functions: """
        all(a)  all(a, axis=1)  all(a, axis=(0, 2), keepdims=True)  any(a)  any(a, axis=-1)
        any(m, axis=(), keepdims=True)  any(a, axis=0, where=w)  average(a)  average(m, axis=0)
        average(m, weights=v[:8] * v[:8] + 1, axis=1)  max(a)
        max(a, axis=(0, 1))  max(m, axis=1, keepdims=True)  max(a, axis=2, where=w, initial=1)
        mean(a)  mean(a, axis=(0, 2))  mean(m, axis=0, keepdims=True)
        mean(m, axis=1, dtype='float32')  min(a)  min(a, axis=0)  min(m, axis=(), keepdims=True)
        min(m, axis=0, initial=0)  nanmax(a, axis=0)  nanmean(m, axis=1)  nanmin(a)
        nanprod(m, axis=1)  nanstd(m, axis=0)  nansum(a, axis=(0, 2))  nanvar(a, axis=1)
        prod(m[:9, :7])  prod(a, axis=1)
        prod(a, axis=2, dtype='complex64')  prod(m, axis=0, initial=2)  ptp(a, axis=1)  ptp(m)
        std(a)  std(a, axis=(1, 2))
        std(m, axis=0, keepdims=True)  std(m, axis=1, correction=1)  sum(a)  sum(a, axis=1)
        sum(a, axis=(0, 2), keepdims=True)  sum(m, axis=0, dtype='complex128')
        sum(a, axis=0, where=w)  sum(m, axis=1, initial=3)  sum(m, axis=())  var(a)  var(a, axis=0)
        var(a, axis=(0, -1), keepdims=True)  var(m, axis=0, correction=1.5)  var(m, axis=())
        cumulative_prod(v)  cumulative_prod(a, axis=1)
        cumulative_prod(m, axis=0, dtype='complex128')  cumulative_sum(v)  cumulative_sum(a, axis=0)
        cumulative_sum(a, axis=2)  cumulative_sum(m, axis=-2, dtype='float64')
        cumulative_sum(m, axis=0, include_initial=True)  diff(a, axis=0)  diff(m, n=2)
        nancumprod(m, axis=0)  nancumsum(a, axis=1)  trapezoid(m, axis=0)  trapezoid(v)
    """,
    searching_functions: """
        argmax(v)  argmax(a, axis=0)  argmax(a)  argmin(m)
        argmax(a, axis=2, keepdims=True)  argmin(v)  argmin(a, axis=-2)  argmin(m.T, axis=0)
        count_nonzero(a)  count_nonzero(a, axis=1)  count_nonzero(a, axis=(0, 1), keepdims=True)
        nanargmax(a, axis=1)  nanargmin(m)
    """,
    order_statistics: """
        median(a)  median(a, axis=1)  median(a, axis=(0, 2), keepdims=True)  median(m.T, axis=0)
        nanmedian(m, axis=1)  nanmedian(a)  nanquantile(m, 0.3, axis=0)  nanpercentile(v, 30)
        percentile(a, [5, 70], axis=2)  quantile(m, [[0.2], [0.9]], axis=1, method='higher')
        quantile(a, [0, 0.1, 0.5, 1], method='lower')  quantile(a, 0.37, keepdims=True)
        quantile(v, 0.61, method='inverted_cdf')
    """,
    sorting_functions: """
        argsort(a, axis=0, stable=True)  argsort(m, stable=True)  argsort(v, stable=True)
        partition(a, 5, axis=1)  partition(m, (1, -2))  sort(a)  sort(a, axis=1)  sort(m.T, axis=0)
        sort(v)  sort(a[::-1, 3:], axis=0)[:, :9]
    """,
    neighbours: """
        gradient(a, axis=1)  gradient(m, 0.5, axis=0, edge_order=2)  gradient(v)
        gradient(n, axis=-1, edge_order=2)  gradient(a, axis=(2, 0))[1]
        lib.stride_tricks.sliding_window_view(m, 4, axis=1)
        lib.stride_tricks.sliding_window_view(a, (3, 2), axis=(0, -1)).sum(axis=(-1, -2))
        lib.stride_tricks.sliding_window_view(v, (5, 2), axis=(0, 0))[::3]
        lib.stride_tricks.sliding_window_view(v, 0)
    """,
    non_ufunc_functions: """
        round(a * 2.5)  round(m * 0.37, 1)  round(k, -1)  round(z / 3, 3)  real(a)  real(m.T)
        imag(a)  imag(v)  nan_to_num(a)  nan_to_num(m, nan=3, posinf=1)  isclose(a, a[:1])
        isclose(m, m + 1e-9)
        isclose(m, 2, rtol=0.3)  isclose(v, v, atol=0.5, equal_nan=True)  isclose(1, v)
        tril(m)  tril(a, k=-3)  tril(v)
        triu(m.T, k=2)  triu(a)  triu(v, k=-40)
    """,
    manipulation_functions: """
        astype(a, 'int16')  astype(m.T, 'complex64')  astype(v, 'bool')  astype(a, 'uint8')
        broadcast_to(v, (40, 75))  broadcast_to(m[:, :1], (3, 150, 41))  broadcast_to(z, (30, 20))
        broadcast_to(v, (0, 75))  clip(a, 1, 3)  clip(m, None, 2)  clip(a, a[:1], 4)
        clip(m, 0, None)  concat([a[:9], a[3:5], a[:7] + a[7:14]])  concat((m, m[:, :3]), axis=1)
        concat([m, m[:0], v[None, :8]])  concat([v, w[0, 0], v])  expand_dims(m, axis=0)
        expand_dims(m, axis=(1, -1))  expand_dims(z, axis=0)  squeeze(a[:, :1], axis=1)
        squeeze(m[:1, 3:4], axis=(0, -1))  stack([m, m[::-1], m + m])  stack([v, v], axis=-1)
        stack([z, z])  take(a, k, axis=0)  take(m, k[:9] % 8, axis=-1)  take(v, k)
        take(m + m, [], axis=0)  where(w, a, a + a)  where(m > 1, m, 0)
        where(w[0, 0], 1.5, a[3, 4])  where(v, v, z)
    """,
    products: """
        einsum('ij,jk->ik', m, n)  einsum('ij,ij->j', m, m)  einsum('ijk->k', a)
        einsum('ij->ji', m)  einsum('i,j,k->kij', v[:9], v[:5], v)
        einsum('ijk,kl->ijl', a, a[0].T[:, :6])  einsum('ij,jk,kl', m, n, n.T)
        einsum('ij,ij', m, m)  einsum('ij,j->ij', m, n[:, 0])  einsum('ijk,ilk->ijl', a, a)
        outer(v, v)  outer(v, n[0])  tensordot(m, n, axes=1)  tensordot(a, a, axes=([0, 1], [0, 1]))
        tensordot(m, v[:4], axes=0)  tensordot(a, a[0, :, :, None])
        tensordot(a[:9], a[7:], axes=(2, 2))[::3]  vecdot(a, a)  vecdot(m, m, axis=0)
        vecdot(m, n[:, 0])
    """,
    linalg: """
        matmul(m, n)  matmul(v[:8], n)  matmul(m, v[:8])  matmul(v, v)  matmul(m.T, m)
    """,
    views: """
        a[::-20, :, 3:8, None] * a[0, :1]  a.T + a.T[:, ::-1]  (m + m)[7::-3, -2]
        ((m + m) @ n)[::9, :, None]  (a + a)[-1, ::-1, 3:4].T  a.sum(axis=1)[::-1] + a[::-1, 0]
        (m + m[::-1])[5:-5:2] * m[5:-5:2]  where(w, a, 0)[::-1].max(axis=0)
        concat([m, m])[3:-3:7, ::-1] + 1  (v + v)[None, 4] * v[9:10]
        permute_dims(a + a, (2, 0, 1))[1]  flip(m + m, axis=0)  flip(a)[::2]  (m + m).T @ m[::-1]
    """,
    creation_functions: """
        arange(7000)  arange(3, 9000, 2)  arange(500, -7.5, -0.25)  arange(2, 2)
        arange(0, 9, dtype=t)  empty(0, dtype=t)  empty_like(m[:0])  eye(90)
        eye(70, 90, k=-3, dtype=t)  eye(3, 0)  full((70, 90), 7)
        full(9, 2.5, dtype=t)  full((), True)  full((3, 0), 1)  full_like(m, 3)
        full_like(a, 1, dtype='uint8')  linspace(-1, 7, 9000)  linspace(0, 5, 70, dtype='int32')
        linspace(2, 3, 900, endpoint=False)  linspace(0, 1, 0)  linspace(4, 9, 1)
        linspace(7, 1, 2, dtype='float32')  ones((70, 90))  ones(0, dtype=t)  ones_like(m)
        linspace(0, 2j, 70)  ones_like(m, dtype='complex64')
        zeros((70, 90), dtype=t)  zeros(())  zeros_like(a)
        zeros_like(v, dtype='int8')
    """,
}
"""Calls of the functions of a module. `a` has three axes, `m` and `n` two, `v` one, `z` none;
`w` are truth values like `a`, `k` integers, `t` is the type."""

RANDOM = {
    "random((300, 40))": (0.5, 12**-0.5),
    "random(9000, dtype='float32')": (0.5, 12**-0.5),
    "random()": None,
    "standard_normal((70, 5, 39))": (0, 1),
    "standard_normal((3, 3000), dtype='float32')": (0, 1),
    "normal(3, 0.5, (300, 40))": (3, 0.5),
    "uniform(-1, 5, (40, 300))": (2, 6 * 12**-0.5),
    "integers(-5, 5, 9000)": (-0.5, 99**0.5 / 12**0.5),
    "integers(200, size=(90, 90), dtype='uint8')": (99.5, 39999**0.5 / 12**0.5),
}
"""Calls of a generator's methods, with mean and standard deviation."""

OTHERS = {
    "allclose": "test_closeness",
    "digitize": "test_counting",
    "interp": "test_counting",
    "isin": "test_counting",
    "searchsorted": "test_counting",
    "map": "test_functions_of_the_users",
    "lib": "the windows that slide",
    "top_k": "test_sorting",
    **dict.fromkeys(
        ("array_split", "broadcast_arrays", "moveaxis", "pad", "repeat", "reshape", "roll"),
        "test_arrangement",
    ),
    **dict.fromkeys(("split", "swapaxes", "tile", "unstack"), "test_arrangement"),
    **dict.fromkeys(("broadcast_shapes", "from_dlpack", "meshgrid"), "test_standard"),
    "matrix_transpose": "test_names",
    "Generator": "RANDOM",
    "default_rng": "RANDOM",
}
"""What has no twin in NumPy, or other arguments, and where it is tested."""

SHAPES = {"a": (41, 30, 37), "m": (150, 8), "n": (8, 75), "v": (75,), "z": ()}
NOTHING = SHAPES | {"a": (41, 0, 37), "m": (0, 8)}
ONE = {"a": (1, 1, 1), "m": (1, 1), "n": (1, 1), "v": (1,), "z": ()}

BUDGETS = {neighbours: "2MiB", products: "3MiB", linalg: "3MiB", views: "3MiB"}
"""Of those who need more than 1 MiB for so small arrays: products are packed."""


def name_of(module: Any) -> str:
    return str(module.__name__).rpartition(".")[2]


def cases(text: str) -> list[str]:
    """The calls of a table, which are two spaces apart."""
    return [case for line in text.splitlines() for case in line.strip().split("  ") if case]


def sample(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Numbers that are small, so that only few sums and products overflow."""
    chance = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind in "biu":
        return chance.integers(0, 2 if kind == "b" else 5, shape).astype(dtype)
    real = chance.uniform(-2, 2, shape)
    return (real + 1j * chance.uniform(-2, 2, shape) if kind == "c" else real).astype(dtype)


def operands(dtype: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    made = {name: sample(dtype, shape, i) for i, (name, shape) in enumerate(shapes.items())}
    return made | {"w": sample("bool", shapes["a"], 7)}


def asked(module: Any, case: str, given: dict[str, Any], dtype: str) -> Any:
    more = {"k": np.array([*range(20, 5, -1), *range(30), -3, 7, 7]), "t": dtype}
    return eval(case, {**vars(module), **given, **more})


class Twins:
    """The same operands for NumPy, and for Outcrop in every layout."""

    def __init__(self, desk: Any, dtype: str, shapes: dict[str, tuple[int, ...]] = SHAPES) -> None:
        self.desk, self.dtype = desk, dtype
        self.plain = operands(dtype, shapes)
        self._arrays: dict[str, dict[str, oc.Array]] = {}

    def arrays(self, layout: str) -> dict[str, oc.Array]:
        if layout not in self._arrays:
            self._arrays[layout] = {
                name: self.desk.put(values, layout if values.size and values.ndim else "memory")
                for name, values in self.plain.items()
            }
        return self._arrays[layout]

    def ours(self, case: str) -> oc.Array:
        """Each case meets each layout with some type, the same one in every run."""
        layouts = self.desk.layouts
        layout = layouts[zlib.crc32(f"{case} {self.dtype}".encode()) % len(layouts)]
        found: oc.Array = asked(oc, case, self.arrays(layout), self.dtype)
        return found

    def theirs(self, case: str) -> Any:
        return np.asarray(asked(np, case, self.plain, self.dtype))


def test_no_function_is_forgotten() -> None:
    modules = (
        creation_functions,
        non_ufunc_functions,
        manipulation_functions,
        neighbours,
        order_statistics,
        products,
        searching_functions,
        sorting_functions,
        splitting_functions,
        statistical_functions,
    )
    for module in modules:
        called = set(re.findall(r"(\w+)\(", TABLES.get(module, "")))
        assert set(module.__all__) <= called | set(OTHERS), module.__name__
    assert set(random.__all__) <= set(OTHERS)
    methods = {name for name in vars(random.Generator) if not name.startswith("_")}
    assert methods == {case.partition("(")[0] for case in RANDOM}


@pytest.mark.parametrize("module", TABLES, ids=name_of)
@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    ],
)
def test_every_function(desk: Any, module: Any, dtype: str) -> None:
    agree(Twins(desk, dtype), module)


def agree(twins: Twins, module: Any) -> None:
    with oc.config(memory=BUDGETS.get(module, "1MiB")):
        for case in cases(TABLES[module]):
            agrees(twins, case)


def agrees(twins: Twins, case: str) -> None:
    try:
        expected = twins.theirs(case)
    except Exception as error:
        kind = next(k for k in (TypeError, ValueError, IndexError) if isinstance(error, k))
        with pytest.raises(oc.OutcropError) as raised:
            twins.ours(case).compute()
        assert isinstance(raised.value, kind)
    else:
        twins.desk.compare(twins.ours(case).compute(), expected)


@pytest.mark.parametrize("module", TABLES, ids=name_of)
@pytest.mark.parametrize("shapes", [NOTHING, ONE], ids=["nothing", "one"])
def test_of_hardly_anything(desk: Any, module: Any, shapes: Any) -> None:
    for dtype in ("int16", "complex64"):
        agree(Twins(desk, dtype, shapes), module)


def test_prediction(desk: Any) -> None:
    """`Desk.check` compares what is moved with what was planned."""
    twins = Twins(desk, "float64")
    for module, table in TABLES.items():
        for case in cases(table):
            with oc.config(memory=BUDGETS.get(module, "1MiB")):
                desk.check(twins.ours(case), twins.theirs(case))


@pytest.mark.parametrize("module", TABLES, ids=name_of)
def test_several_results(desk: Any, module: Any) -> None:
    twins = Twins(desk, "int32")
    chosen = [case for case in cases(TABLES[module]) if twins.theirs(case).size]
    suffixes = itertools.cycle(["zarr", "npy", "raw"])
    with oc.config(memory="24MiB"):
        wanted = {
            desk.path / f"result{i}.{suffix}": twins.ours(case)
            for i, (case, suffix) in enumerate(zip(chosen, suffixes, strict=False))
        }
        made = oc.save(wanted)
        for case, array in zip(chosen, made.values(), strict=True):
            desk.compare(array.compute(), twins.theirs(case))


@pytest.mark.parametrize("module", TABLES, ids=name_of)
def test_the_same_bits(desk: Any, module: Any) -> None:
    """Whatever the number of threads is."""
    twins = Twins(desk, "float32")
    for case in cases(TABLES[module]):
        found = set()
        for threads in (1, 2, 3):
            with oc.config(memory=BUDGETS.get(module, "1MiB"), threads=threads):
                found.add(twins.ours(case).compute().tobytes())
        assert len(found) == 1, case


@pytest.mark.parametrize("module", TABLES, ids=name_of)
def test_pickles(desk: Any, module: Any) -> None:
    twins = Twins(desk, "float64")
    with oc.config(memory=BUDGETS.get(module, "1MiB")):
        for case in cases(TABLES[module]):
            made = twins.ours(case)
            found = pickle.loads(pickle.dumps(made))
            assert found.compute().tobytes() == made.compute().tobytes(), case


@pytest.mark.parametrize("budget", ["4MiB", "40MiB"])
def test_other_budgets(desk: Any, budget: str) -> None:
    twins = Twins(desk, "int64")
    with oc.config(memory=budget):
        for case in itertools.chain(*map(cases, TABLES.values())):
            agrees(twins, case)


@pytest.mark.parametrize("case", RANDOM)
def test_random_arrays(desk: Any, case: str) -> None:
    """Elements depend on seed, shape and place alone."""

    def made(seed: int = 5) -> oc.Array:
        array: oc.Array = eval(case, {}, Methods(oc.random.default_rng(seed)))
        return array

    array, whole = made(), made().compute()
    assert (array.shape, array.dtype) == (whole.shape, whole.dtype)
    other = eval(case, {}, Methods(generator := oc.random.default_rng(5)))
    again = eval(case, {}, Methods(generator))
    assert other.compute().tobytes() == whole.tobytes()
    for one in (again, made(6)):
        assert one.compute().tobytes() != whole.tobytes()
    key = tuple(slice(n // 3, None, -2 if n > 9 else 1) for n in whole.shape)
    np.testing.assert_array_equal(array[key].compute(), whole[key])
    tiled = array.save(desk.path / "r.zarr", tile=tuple(max(n // 7, 1) for n in whole.shape))
    np.testing.assert_array_equal(tiled.compute(), whole)
    for threads in (1, 2):
        with oc.config(threads=threads, memory="600KiB"):
            np.testing.assert_array_equal((made() + made().T.T * 0).compute(), whole)
    if (moments := RANDOM[case]) is not None:
        mean, deviation = moments
        assert abs(float(whole.mean()) - mean) < 5 * deviation / whole.size**0.5
        assert float(whole.std()) == pytest.approx(deviation, rel=0.05)


class Methods(dict[str, Any]):
    """The names of a generator's methods."""

    def __init__(self, generator: oc.random.Generator) -> None:
        super().__init__((n, getattr(generator, n)) for n in dir(generator) if n[0] != "_")
