"""Products by blocks or cell by cell: what is chosen moves little more than the better way."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

import outcrop as oc
from outcrop.expressions import planner
from outcrop.expressions.rewrite import products

Values: TypeAlias = NDArray[Any]
Desk: TypeAlias = Any  # that of conftest.py
Make: TypeAlias = Callable[..., Values]
Product: TypeAlias = Callable[[oc.Array, oc.Array], oc.Array]

PRODUCTS: dict[str, Product] = {
    "as they are": lambda a, b: a @ b,
    "of the transposed": lambda a, b: a.T @ a,
    "with the transposed": lambda a, b: a @ a.T,
    "of an expression": lambda a, b: (a - 1) @ b,
    "with an expression": lambda a, b: a @ np.exp(b),
    "of a standardized table": lambda a, b: (lambda z: z.T @ z)((a - a.mean(0)) / a.std(0)),
    "with a standardized table": lambda a, b: (lambda z: z @ z.T)((a - a.mean(0)) / a.std(0)),
    "of products": lambda a, b: b.T @ (a.T @ a @ b),
}


@pytest.mark.parametrize("memory", ["2MiB"])
@pytest.mark.parametrize("layout", ["tiles", "rows"])
@pytest.mark.parametrize("shape", [(600, 600, 600), (3000, 150, 60), (200, 3000, 300)], ids=str)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_the_better_way_is_chosen(
    desk: Desk,
    random: Make,
    monkeypatch: pytest.MonkeyPatch,
    product: Product,
    shape: tuple[int, int, int],
    layout: str,
    memory: str,
) -> None:
    m, k, n = shape
    with oc.config(memory="1GiB"):
        if layout == "tiles":
            A, B = (
                desk.put(random(extents, "float64"), tuple(min(64, x) for x in extents))
                for extents in ((m, k), (k, n))
            )
        else:
            order = "C" if layout == "rows" else "F"
            A, B = (
                oc.asarray(random(extents, "float64")).save(desk.new(".npy"), order=order)
                for extents in ((m, k), (k, n))
            )

    def moved() -> int | None:
        try:
            plan = oc.plan(product(A, B))
        except oc.BudgetError:
            return None
        return plan.bytes_read + plan.bytes_written

    with oc.config(memory=memory):
        chosen = moved()
        ways = []
        for by_blocks in (True, False):
            choice = by_blocks, False
            monkeypatch.setattr(products, "_moves_less_by_blocks", lambda *_, c=choice: c)
            monkeypatch.setattr(planner, "others", lambda *_: [])
            ways.append(moved())
    there = [way for way in ways if way is not None]
    if there:
        assert chosen is not None and chosen <= 2 * min(there)


@pytest.mark.parametrize("layout", ["tiles", "zstd", "shards"])
def test_more_memory_does_not_move_far_more(desk: Desk, random: Make, layout: str) -> None:
    """Stored tiles are small, and large once they are converted."""
    table = (3 * random((1000, 2500), "float64")).astype("int8")
    with oc.config(memory="1GiB"):
        if layout == "shards":
            chunks: dict[str, Any] = {"chunks": (125, 125), "shards": (500, 500)}
            stored = zarr.create_array(desk.new(), shape=table.shape, dtype="i1", **chunks)
            stored[...] = table
            A = oc.open(stored.store_path.store.root)
        elif layout == "zstd":
            A = desk.put(table, (350, 450), codecs="zstd")
        else:
            A = desk.put(table, 512)
    least = None
    for memory in ("2MiB", "2.5MiB", "2.75MiB", "3MiB", "3.5MiB", "4MiB", "4.5MiB", "6MiB"):
        with oc.config(memory=memory):
            Z = oc.astype(A, "float32")
            plan = oc.plan(Z @ Z.T)
        moved = plan.bytes_read + plan.bytes_written
        assert least is None or moved < 2 * least, memory
        least = moved if least is None else min(moved, least)


TURNED: dict[str, Callable[[oc.Array], oc.Array]] = {
    "converted": lambda g: g.astype("f8") @ g.T.astype("f8"),
    "turned first": lambda g: (g.T.astype("f8") - 1).T @ (g.T.astype("f8") - 1),
    "functions": lambda g: (np.sqrt(g + 0.5) * 2) @ (np.sqrt(g.T + 0.5) * 2),
    "einsum": lambda g: oc.einsum("ij,jk->ik", g.astype("f8"), g.T.astype("f8")),
}
STRAIGHT: dict[str, Callable[[oc.Array], oc.Array]] = {
    "converted": lambda z: z.astype("f8") @ z.astype("f8").T,
    "turned first": lambda z: (z.astype("f8") - 1) @ (z.astype("f8") - 1).T,
    "functions": lambda z: (np.sqrt(z + 0.5) * 2) @ (np.sqrt(z + 0.5) * 2).T,
    "einsum": lambda z: z.astype("f8") @ z.astype("f8").T,
}


@pytest.mark.parametrize("what", TURNED)
def test_what_is_made_of_the_transposed_is_the_transposed_of_what_is_made(
    desk: Desk, what: str
) -> None:
    # They were two factors, each of which was copied to scratch: 39 sizes read and 34 written.
    values = np.random.default_rng(5).integers(0, 3, (600, 3000), "i1")
    with oc.config(memory="1GiB"):
        g = desk.put(values, (300, 300))
    with oc.config(memory="4MiB"):
        x = TURNED[what](g)
        plan, straight = oc.plan(x), oc.plan(STRAIGHT[what](g))
        assert (plan.bytes_read, plan.bytes_written) == (
            straight.bytes_read,
            straight.bytes_written,
        )
        assert plan.waste < 4
        found = x.compute()
    np.testing.assert_array_equal(found, found.T)
    expected = STRAIGHT[what](values.astype("f8"))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_long_rows_of_a_file_are_not_read_in_short_pieces(desk: Desk) -> None:
    # A relationship matrix of a table of bytes: squares are pieces of few bytes, in blocks of many.
    table = np.random.default_rng(0).integers(0, 3, (750, 25_000)).astype("int8")
    with oc.config(memory="1GiB"):
        G = oc.asarray(table).save(desk.new(".npy"))
    with oc.config(memory="5MiB"):
        Z = (G - G.mean(axis=0, dtype="f4")) / G.std(axis=0, dtype="f4")
        plan = oc.plan(Z @ Z.T)
        # 64 times, as it was.
        assert plan.bytes_read + plan.bytes_written < 8 * G.nbytes
        found = (Z @ Z.T).compute()
    z = table.astype("f8")
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    np.testing.assert_allclose(found, z @ z.T, rtol=1e-4, atol=0.5)
