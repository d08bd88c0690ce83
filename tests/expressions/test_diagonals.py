"""Diagonals, traces and letters that a group has twice, against NumPy."""

from typing import Any

import numpy as np
import pytest

import outcrop as oc

RNG = np.random.default_rng(31)
MATRIX = RNG.standard_normal((700, 900))
STACK = RNG.standard_normal((40, 50, 60))


@pytest.mark.parametrize("offset", [-800, -300, -1, 0, 7, 250, 900])
def test_diagonals_of_matrices(desk: Any, offset: int) -> None:
    for array in (desk.put(MATRIX, "npy"), desk.put(MATRIX) + 0, desk.put(MATRIX.T.copy()).T):
        desk.check(oc.diagonal(array, offset=offset), np.diagonal(MATRIX, offset))
        desk.check(np.trace(array, offset), np.trace(MATRIX, offset), digits=1e4)
        desk.check(np.diag(array, offset), np.diag(MATRIX, offset))


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 0), (-1, -2)])
def test_diagonals_of_stacks(desk: Any, axes: tuple[int, int]) -> None:
    array = desk.put(STACK)
    for offset in (-45, 0, 3):
        desk.check(np.diagonal(array, offset, *axes), np.diagonal(STACK, offset, *axes))
        expected = np.trace(STACK, offset, *axes)
        desk.check(array.trace(offset, *axes), expected, digits=1e4)
    desk.check(np.linalg.diagonal(array, offset=5), np.linalg.diagonal(STACK, offset=5))
    desk.check(oc.linalg.trace(array), np.linalg.trace(STACK), digits=1e4)


def test_only_blocks_on_the_diagonal_are_read_and_computed(desk: Any) -> None:
    array = desk.put(np.zeros((4000, 4000)), "npy")
    plan = oc.plan(oc.diagonal(np.sqrt(array)), desk.path / "diagonal.npy")
    # Rows of blocks begin and end inside blocks of the disk.
    assert plan.bytes_read < 0.4 * array.nbytes
    tiled = desk.put(np.zeros((2000, 2000)), tile=(50, 50))
    plan = oc.plan(oc.linalg.trace(tiled), desk.path / "trace.npy")
    assert plan.bytes_read < 0.3 * tiled.nbytes


@pytest.mark.parametrize("k", [-5, 0, 3])
def test_matrices_of_a_diagonal(desk: Any, k: int) -> None:
    vector = RNG.standard_normal(300)
    desk.check(np.diag(desk.put(vector), k), np.diag(vector, k))


@pytest.mark.parametrize(
    "subscripts",
    ["ii", "ii->i", "ii,ij->j", "ij,jj->i", "ii,jj", "ii,ii->i"],
)
def test_letters_that_a_matrix_has_twice(desk: Any, subscripts: str) -> None:
    square = RNG.standard_normal((600, 600))
    count = 1 + subscripts.count(",")
    expected = np.einsum(subscripts, *[square] * count)
    arrays = [desk.put(square) for _ in range(count)]
    desk.check(oc.einsum(subscripts, *arrays), expected, digits=1e4)


@pytest.mark.parametrize("subscripts", ["ijji", "ijji->ji", "ikki->", "...i->i...", "ijki->kj"])
def test_letters_that_a_stack_has_twice(desk: Any, subscripts: str) -> None:
    stack = RNG.standard_normal((9, 30, 30, 9))
    desk.check(oc.einsum(subscripts, desk.put(stack)), np.einsum(subscripts, stack), digits=1e4)


def test_what_has_no_elements_or_no_diagonal(desk: Any) -> None:
    for shape in ((0, 0), (0, 5), (3, 0)):
        empty = np.zeros(shape)
        desk.check(np.diagonal(desk.put(empty)), np.diagonal(empty))
        desk.check(np.trace(desk.put(empty)), np.trace(empty))
    desk.check(oc.einsum("iij->j", oc.zeros((0, 0, 2))), np.zeros(2))
    with pytest.raises(oc.InvalidArgumentError, match="two axes"):
        oc.diagonal(oc.zeros(3))
    with pytest.raises(oc.InvalidArgumentError, match="same"):
        oc.diagonal(oc.zeros((3, 3, 3)), axis1=0, axis2=-3)
    with pytest.raises(oc.AxisError):
        oc.diagonal(oc.zeros((3, 3)), axis2=2)
    with pytest.raises(oc.InvalidArgumentError, match="3 and 4 elements"):
        oc.einsum("ii", oc.zeros((3, 4)))
    with pytest.raises(oc.InvalidArgumentError, match="1- or 2-d"):
        np.diag(oc.zeros((3, 3, 3)))


def test_places_of_what_is_not_zero(desk: Any) -> None:
    sparse = STACK * (abs(STACK) > 2.5)
    desk.check(np.argwhere(desk.put(sparse)), np.argwhere(sparse))
    for number in (0.0, 3.0):
        desk.check(np.argwhere(oc.asarray(number)), np.argwhere(number))
