"""Sums of products, views, joins, and expressions in several passes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

RNG = np.random.default_rng(3)


def test_matrices_and_vectors(desk: Any) -> None:
    plain, other = RNG.standard_normal((3000, 30)), RNG.standard_normal((30, 20))
    array, right = desk.put(plain, "npy"), desk.put(other, "npy")
    vector = RNG.standard_normal(30)
    desk.check((array + 1) @ right, (plain + 1) @ other)
    desk.check((array + 1) @ vector, (plain + 1) @ vector)
    desk.check(vector @ (array - 1).T, (plain - 1) @ vector)
    desk.check((array * 2).T @ (array + 1), (plain * 2).T @ (plain + 1))
    desk.check((array * 2).T @ (array * 2), (plain * 2).T @ (plain * 2))
    desk.check(((array * 2) @ right).T, ((plain * 2) @ other).T)
    desk.check(((array * 2) @ right)[::7, 3], ((plain * 2) @ other)[::7, 3])
    whole = RNG.integers(-5, 5, (900, 40))
    desk.check((desk.put(whole) + 1).T @ whole, (whole + 1).T @ whole)
    logical = whole > 0
    desk.check(desk.put(logical).T @ ~desk.put(logical), logical.T @ ~logical)
    assert float((desk.put(vector) * 2) @ vector) == pytest.approx(float(2 * vector @ vector))


@pytest.mark.parametrize(
    "subscripts",
    ["ij,jk->ik", "ij,ik->jk", "ij,ij->i", "ij,j->", "ij->j", "ij,k->ijk", "ij,jk,kl->il"],
)
def test_einsum(desk: Any, subscripts: str) -> None:
    extents = {"i": 400, "j": 30, "k": 17, "l": 9}
    if subscripts in ("ij,ik->jk", "ij,ij->i"):
        extents["i"] = 3000
    groups = subscripts.partition("->")[0].split(",")
    plain = [RNG.standard_normal([extents[c] for c in group]) for group in groups]
    arrays = [desk.put(values, "npy") + 0 for values in plain]
    # What is summed nearly cancels, where it is all summed to one number.
    digits = 1e4 if subscripts.endswith("->") else 200
    desk.check(oc.einsum(subscripts, *arrays), np.einsum(subscripts, *plain), digits=digits)


def test_tensordot_and_their_like(desk: Any) -> None:
    plain, other = RNG.standard_normal((50, 12, 30)), RNG.standard_normal((12, 30, 8))
    array, right = desk.put(plain), desk.put(other)
    desk.check(oc.tensordot(array, right), np.tensordot(plain, other))
    desk.check(
        oc.tensordot(array, right, axes=([1], [0])), np.tensordot(plain, other, axes=([1], [0]))
    )
    desk.check(oc.vecdot(array, array), (plain * plain).sum(-1))
    desk.check(oc.outer(array[:, 0, 0], right[0, :, 0]), np.outer(plain[:, 0, 0], other[0, :, 0]))
    with pytest.raises(oc.InvalidArgumentError):
        oc.einsum("ij,jk", array, right)


@pytest.mark.parametrize(
    "shapes",
    [
        ((7, 60, 20), (7, 20, 50)), ((7, 60, 20), (20, 50)), ((60, 20), (7, 20, 50)),
        ((3, 1, 60, 20), (5, 20, 50)), ((7, 60, 20), (20,)), ((20,), (7, 20, 50)),
        ((1, 600, 20), (4, 20, 5)), ((2, 3, 4), (2, 4, 0)), ((0, 3, 4), (4, 5)),
        ((300, 3, 20), (20, 4)), ((2, 4000, 20), (20, 30)),
    ],
    ids=str,
)  # fmt: skip
def test_stacks_of_matrices(desk: Any, shapes: Any) -> None:
    for dtype in ("float32", "complex128", "int32"):
        one, other = ((RNG.standard_normal(shape) * 9).astype(dtype) for shape in shapes)
        a, b = oc.asarray(one), oc.asarray(other)
        if one.size and other.size:
            a, b = desk.put(one, "npy"), desk.put(other, "npy")
        desk.check(a @ b, one @ other)
        desk.check((a * 2) @ b, (one * 2) @ other)
        desk.check(np.matmul(one, b), one @ other)


@pytest.mark.skipif(not hasattr(np, "vecmat"), reason="NumPy has no vecmat before version 2.2")
def test_matrices_with_vectors(desk: Any) -> None:
    """As ufuncs: the last axes are a matrix and a vector, and the others broadcast."""
    shapes = [((600, 70), (70,)), ((5, 60, 7), (7,)), ((5, 60, 7), (5, 7)), ((60, 7), (3, 5, 7))]
    for matrix, vector in shapes:
        for dtype in ("float64", "complex64"):
            one, other = (RNG.standard_normal(s) for s in (matrix, vector))
            if dtype == "complex64":
                one, other = (x + 1j * RNG.standard_normal(x.shape) for x in (one, other))
            one, other = one.astype(dtype), other.astype(dtype)
            a, v = desk.put(one, "npy"), desk.put(other, "npy")
            desk.check(np.matvec(a, v), np.matvec(one, other))
            desk.check(np.matvec(a, other), np.matvec(one, other))
            turned = np.swapaxes(one, -1, -2)
            desk.check(np.vecmat(v, a.mT), np.vecmat(other, turned))
            desk.check(np.vecmat(v * 2, a.mT), np.vecmat(other * 2, turned))
    for one, other in ((oc.zeros((3, 4)), 1.0), (oc.zeros(4), np.zeros(4))):
        with pytest.raises(ValueError):
            np.matvec(one, other)
    with pytest.raises(ValueError):
        np.vecmat(np.float64(1), oc.zeros((3, 4)))


def test_stacks_that_do_not_fit() -> None:
    for one, other in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 4, 5)), ((2, 3, 4), (3,))):
        with pytest.raises(ValueError):
            oc.zeros(one) @ oc.zeros(other)


def test_large_matrices_of_a_stack(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product of a pair is computed by itself."""
    monkeypatch.setattr("outcrop.linalg.products._LONG", 40)
    one, other = RNG.standard_normal((3, 50, 60)), RNG.standard_normal((60, 70))
    desk.check(desk.put(one) @ desk.put(other), one @ other)
    two = RNG.standard_normal((3, 60, 70))
    desk.check(desk.put(one) @ desk.put(two), one @ two)
    desk.check(oc.einsum("ij,jk->ki", desk.put(one[0]), other), (one[0] @ other).T)


@pytest.mark.parametrize(
    "subscripts",
    [
        "...ij,...jk->...ik", "...i,...i", "i...,...j->...ij", "b...,...->b", "...,...",
        "...ij->...ji", "...ij,jk", "ij...,jk...->ik...",
    ],
)  # fmt: skip
def test_einsum_with_axes_that_broadcast(desk: Any, subscripts: str) -> None:
    for one, other in (((6, 6, 6), (6, 6, 6)), ((1, 6, 6), (6, 6, 6)), ((6, 6), (5, 6, 6))):
        a, b = RNG.standard_normal(one), RNG.standard_normal(other)
        operands = (a, b) if "," in subscripts else (a,)
        try:
            expected = np.einsum(subscripts, *operands)
        except ValueError:
            with pytest.raises(ValueError):
                oc.einsum(subscripts, *operands)
            continue
        desk.check(oc.einsum(subscripts, *operands) + 0, expected + 0)
        desk.check(np.einsum(subscripts, *map(desk.put, operands), optimize=True), expected)
    for wrong in ("ij->", "...i,->...", "ij.,jk", "i,j,k", "...i,...j->ij", "iz->"):
        with pytest.raises(ValueError):
            oc.einsum(wrong, oc.zeros((2, 3, 4)), oc.zeros((2, 3, 4)))


def test_products_of_other_names(desk: Any) -> None:
    plain, other = RNG.standard_normal((5, 6, 30)), RNG.standard_normal((6, 30))
    z = plain + 1j * RNG.standard_normal(plain.shape)
    a, b, c = desk.put(plain), desk.put(other), desk.put(z)
    desk.check(oc.vecdot(c, b), np.vecdot(z, other))
    desk.check(np.vecdot(c, b), np.vecdot(z, other))
    desk.check(oc.vecdot(b, c, axis=-2), np.vecdot(other, z, axis=-2))
    desk.check(np.dot(a, other.T), np.dot(plain, other.T))
    desk.check(np.dot(b, plain.swapaxes(1, 2)), np.dot(other, plain.swapaxes(1, 2)))
    desk.check(np.inner(a, b), np.inner(plain, other))
    desk.check(np.dot(a, 2.0), plain * 2)
    desk.check(np.outer(b, b[0]), np.outer(other, other[0]))
    desk.check(oc.linalg.outer(b[0], b[1]), np.outer(other[0], other[1]))
    desk.check(np.tensordot(a, b, axes=([2], [1])), np.tensordot(plain, other, axes=([2], [1])))
    desk.check(oc.linalg.matrix_transpose(a) + 0, plain.swapaxes(1, 2))
    with pytest.raises(ValueError, match="do not match"):
        oc.vecdot(a, other[:, :1])


def test_views_of_what_is_not_computed(desk: Any) -> None:
    plain = RNG.standard_normal((300, 41, 7))
    array = desk.put(plain)
    lazy, expected = np.exp(array) - array.mean(0), np.exp(plain) - plain.mean(0)
    total, sums = lazy.cumsum(0), expected.cumsum(0)
    for key in (
        np.s_[5:250:3], np.s_[..., 2], np.s_[::-1, 3], np.s_[:, None, 4:9], np.s_[7, 8, 3],
        np.s_[-1, ::-2], np.s_[0:0],
    ):  # fmt: skip
        desk.check(lazy[key], expected[key])
        desk.check(lazy[key] * 2, expected[key] * 2)
        desk.check(total[key] + 1, sums[key] + 1)
    for key in (np.s_[5:250:3], np.s_[..., 2], np.s_[::-1, 3:9]):
        desk.check(lazy.transpose(2, 0, 1).T[key] + 0, expected.transpose(2, 0, 1).T[key] + 0)
        desk.check(lazy.sum(1)[key] + 0, expected.sum(1)[key] + 0)
        desk.check(lazy.argmax(1)[key] + 0, expected.argmax(1)[key] + 0)
    desk.check(lazy[1:] - lazy[:-1], expected[1:] - expected[:-1])
    desk.check(lazy + lazy[::-1], expected + expected[::-1])


def test_joins_and_choices(desk: Any) -> None:
    plain, other = RNG.standard_normal((200, 31)), RNG.standard_normal((123, 31))
    a, b = desk.put(plain), desk.put(other, "npy")
    desk.check(oc.concat([a, np.exp(b), a[:5]]), np.concatenate([plain, np.exp(other), plain[:5]]))
    desk.check(np.concatenate([a, a], 1).sum(0), np.concatenate([plain, plain], 1).sum(0))
    desk.check(oc.stack([a, a * 2], axis=1), np.stack([plain, plain * 2], axis=1))
    chosen = RNG.integers(-200, 200, 77)
    desk.check(oc.take(a, chosen, axis=0), plain[chosen])
    desk.check(np.take(np.exp(a), [3, 4, 5, 0], axis=1), np.exp(plain)[:, [3, 4, 5, 0]])
    desk.check(oc.broadcast_to(a.mean(0), (50, 31)), np.broadcast_to(plain.mean(0), (50, 31)))
    desk.check(oc.squeeze(a[:, :1] + 1, axis=1), plain[:, 0] + 1)


def test_a_square_matrix_with_itself(desk: Any) -> None:
    """Its two axes are cut alike, and run apart."""
    plain = RNG.standard_normal((300, 300))
    array = desk.put(plain)
    desk.check(array + array.T, plain + plain.T)
    desk.check((array + array.T).sum(0) - array.sum(1), (plain + plain.T).sum(0) - plain.sum(1))
    lazy = np.exp(array) + 1
    desk.check(lazy * lazy.T, (np.exp(plain) + 1) * (np.exp(plain).T + 1))
    scaled = array.cumsum(0)
    desk.check(scaled + scaled.T, plain.cumsum(0) + plain.cumsum(0).T)


def nmf(X: Any, W: Any, H: Any, iterations: int) -> tuple[Any, Any]:
    for _ in range(iterations):
        W = W * ((X @ H.T) / (W @ H @ H.T))
        H = H * ((W.T @ X) / (W.T @ W @ H))
    return W, H


def test_a_factorization(desk: Any, tmp_path: Path) -> None:
    plain = RNG.random((20_000, 40))
    w, h = RNG.random((20_000, 5)), RNG.random((5, 40))
    X, W, H = desk.put(plain, "npy"), desk.put(w, "npy"), desk.put(h, "npy")
    W, H = nmf(X, W, H, 3)
    expected = nmf(plain, w, h, 3)
    desk.check(W, expected[0])
    desk.check(H, expected[1])
    with oc.config(memory="4MiB"):
        plan = oc.plan(H)
        oc.save({tmp_path / "W.zarr": W, tmp_path / "H.npy": H})
        run = oc.last_run()
    assert run is not None
    # One pass over X for each iteration, of which a part stays in memory; W stays there.
    assert plan.bytes_read < 3 * plain.nbytes + 2 * w.nbytes
    assert run.bytes_written < 1.2 * w.nbytes
    np.testing.assert_allclose(np.load(tmp_path / "H.npy"), expected[1], rtol=1e-10)
    np.testing.assert_allclose(oc.open(tmp_path / "W.zarr").compute(), expected[0], rtol=1e-10)


@pytest.mark.parametrize("rows", [slice(None), slice(19_000)])
def test_a_regression(desk: Any, rows: slice) -> None:
    """A matrix and its transpose are read together, parts of stored ones as well."""
    plain = RNG.standard_normal((20_000, 20))
    late = (RNG.random(20_000) > 0.5).astype(float)
    X, y = desk.put(plain, "npy")[rows], desk.put(late, "npy")[rows]
    plain, late = plain[rows], late[rows]
    w: Any = oc.asarray(np.zeros(20))
    expected = np.zeros(20)
    for _ in range(4):
        w = w - 1e-4 * (X.T @ (1 / (1 + oc.exp(-(X @ w))) - y))
        expected = expected - 1e-4 * (plain.T @ (1 / (1 + np.exp(-(plain @ expected))) - late))
    plan = oc.plan(w)
    # A few blocks are shared by tiles.
    assert plan.bytes_read <= 4.2 * (plain.nbytes + late.nbytes)
    assert plan.bytes_written <= 65536
    desk.check(w, expected)


def once(array: oc.Array, lazy: oc.Array) -> bool:
    """Whether an array is read once, but for blocks of the disk that tiles share."""
    return oc.plan(lazy).bytes_read < 1.2 * array.nbytes


def test_a_shared_product_is_computed_once(desk: Any) -> None:
    """Each update of a factorization of ``A.T @ B`` made it anew, from all of A and B.

    ``A.T @ (B @ H)`` takes fewer operations than ``(A.T @ B) @ H``, but not where there are many H.
    """
    plain = RNG.random((4000, 24))
    w, h = RNG.random((24, 2)), RNG.random((2, 24))
    X = desk.put(plain, "npy")
    found, expected = nmf(X.T @ X, w, h, 5)[0], nmf(plain.T @ plain, w, h, 5)[0]
    assert once(X, found)
    desk.check(found, expected, digits=1e4)


def test_a_view_of_a_sum_is_no_other_sum(desk: Any) -> None:
    """``b`` and ``b[None]`` were two sums, made in two passes; each step of a loop added two."""
    plain = RNG.random((4000, 24))
    X = desk.put(plain, "npy")
    mean, total = X.mean(), X.sum(0)
    lazy = np.concatenate([mean[None] + mean, (total[:, None] * total[None, :])[3], total])
    assert once(X, lazy)
    expected = plain.sum(0)
    desk.check(
        lazy, np.concatenate([[2 * plain.mean()], expected[3] * expected, expected]), digits=1e4
    )
    product = X.T @ (X + 1)
    assert once(X, product.T + product)
    desk.check(product.T + product, plain.T @ (plain + 1) + (plain + 1).T @ plain)


def test_a_product_larger_than_a_tile(desk: Any) -> None:
    """Cut like an array to be moved, it took its factors from the disk once for each part."""
    plain = RNG.random((4000, 68))
    X = desk.put(plain, "npy")
    assert 68 * 68 * 8 > 32 << 10
    assert once(X, X.T @ X / len(X))
    desk.check(X.T @ X / len(X), plain.T @ plain / len(plain))
    normal, expected = X - X.mean(0), plain - plain.mean(0)
    plan = oc.plan(normal.T @ normal)
    assert plan.bytes_read < 2.2 * X.nbytes
    assert plan.bytes_written < 0.1 * X.nbytes
    desk.check(normal.T @ normal, expected.T @ expected)


def test_rows_of_several_tiles(desk: Any) -> None:
    """A product with the matrix and one with its transpose are of one pass, if rows fit."""
    plain = RNG.random((4000, 120))
    X = desk.put(plain, tile=(40, 64))
    r = X.T @ np.tanh(X @ np.ones(120))
    assert oc.plan(r).bytes_read < 1.5 * X.nbytes  # files of tiles are longer than tiles
    desk.check(r, plain.T @ np.tanh(plain @ np.ones(120)))


def test_results_do_not_depend_on_threads(desk: Any) -> None:
    plain = RNG.standard_normal((9000, 23)).astype("float32")
    array = desk.put(plain, "npy")
    lazy = (np.exp(array) / array.std(0)).sum(0) @ (array.T @ array)
    found = []
    for threads in (1, 2, 4):
        with oc.config(memory="2MiB", threads=threads):
            fresh = lazy + 0
            found.append(fresh.compute().tobytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_a_matrix_times_itself(desk: Any, dtype: str) -> None:
    """Half of a symmetric product is computed, and the other half is there, too."""
    plain = np.random.default_rng(4).integers(-5, 6, (3001, 131)).astype(dtype)
    array = desk.put(plain, "npy")
    with oc.config(memory="3MiB"):
        desk.check(array.T @ array, plain.T @ plain)
        desk.check((array + 1).T @ (array + 1), (plain + 1).T @ (plain + 1))
        desk.check(array[:90] @ array[:90].T, plain[:90] @ plain[:90].T)
        desk.check(array.conj().T @ array, plain.conj().T @ plain)
        desk.check(oc.einsum("ki,kj->ji", array, array), plain.T @ plain)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128, np.int64])
@pytest.mark.parametrize("shape", [(4, 3), (150, 40), (40, 150)])
def test_a_product_with_itself_and_its_transpose(
    desk: Any, shape: tuple[int, int], kind: type
) -> None:
    plain = RNG.integers(-9, 9, shape).astype(kind)
    array = desk.put(plain, "npy") + 0
    square, there = array @ array.T, plain @ plain.T
    desk.check(square + square.T, there + there.T)
    desk.check(oc.concat([square, square.T + 1]), np.concatenate([there, there.T + 1]))
    desk.check(oc.reshape(-square, -1, order="F"), np.reshape(-there, -1, order="F"))
    desk.check(oc.einsum("ij,kj->ki", array, array), there)
    for subscripts in ("ik,jk->ik", "ik,jk->jk"):
        desk.check(oc.einsum(subscripts, array, array), np.einsum(subscripts, plain, plain))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_read_once_for_a_vector(desk: Any, order: Any) -> None:
    """However large the matrix is on both sides, on its own and in a loop."""
    plain, vector = RNG.standard_normal((700, 900)), RNG.standard_normal(900)
    A = desk.put(np.asarray(plain, order=order), "npy")
    few = RNG.standard_normal((900, 3))
    for passes, product, expected in (
        (1, A @ vector, plain @ vector),
        (1, vector @ A.T, vector @ plain.T),
        (1, A @ few, plain @ few),
        (2, A.T @ (A @ vector - 1), plain.T @ (plain @ vector - 1)),
    ):
        assert oc.plan(product).bytes_read < 1.2 * passes * A.nbytes
        desk.check(product, expected, digits=1000)
