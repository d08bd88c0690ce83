"""NumPy's names for what there is here, and what is said of the others."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import outcrop as oc
from outcrop import numpy_names

MATRIX = np.arange(12.0).reshape(3, 4) - 5
GIVEN = {"A": MATRIX, "v": np.array([0.25, 0.5]), "i": np.array([6, 3])}

CALLS = """
    absolute(A)  amax(A, 0)  amax(A, axis=1, keepdims=True)  amin(A)  append(A, v)  arccos(v)
    arccosh(v + 1)  arcsin(v)  arcsinh(v)  arctan(v)  arctan2(v, v)  arctanh(v)  argwhere(A)
    gradient(v)
    around(A / 3, 1)  array(A)  array([1, 2], 'int8')  array(3, ndmin=2)  array_equal(A, A)
    atleast_1d(v)  atleast_2d(v)  atleast_3d(A)  bitwise_not(i)  column_stack([v, v])
    concatenate([A, A], 1)  concatenate([A, v], axis=None)  conjugate(A * 1j)  cumprod(A, 1)
    cumsum(A)  cumsum(A, 0, 'float32')  diag(v, 1)  diag(A)  dot(A, A.T)  dstack([A, A])  fliplr(A)
    flipud(A)  hstack([v, v])  identity(3, 'int16')  inner(A, A)  invert(i)  left_shift(i, 1)
    mod(A, 3)  power(A, 2)  ravel(A, 'F')  right_shift(i, 1)  rot90(A, 2)  trace(A, 1)
    true_divide(A, 2)  unique(i)  vdot(A, A)  vstack([v, v])
"""


def calls() -> list[str]:
    return [call for line in CALLS.splitlines() for call in line.strip().split("  ") if call]


@pytest.mark.parametrize("call", calls())
def test_as_numpy(call: str) -> None:
    ours = {name: oc.asarray(values) for name, values in GIVEN.items()}
    expected = eval("np." + call, {"np": np, **GIVEN})
    # What is given need not be an array of ours.
    for given in (ours, GIVEN):
        found = eval("oc." + call, {"oc": oc, **given})
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert isinstance(found, oc.Array) != call.startswith(("array_equal", "unique"))


def test_every_name_is_compared() -> None:
    compared = {call.partition("(")[0] for call in calls()}
    assert set(numpy_names.__all__) - {"load"} == compared


def test_names_are_numpys_and_have_a_definition() -> None:
    for name in numpy_names.__all__:
        function = getattr(oc, name)
        assert hasattr(np, name)
        own = function.__name__
        assert (own == name) != (name in numpy_names.ALIASES)
        assert f"def {own}(" in inspect.getsource(function)
        assert function.__doc__


def test_arrays_are_copied() -> None:
    elements = MATRIX.copy()
    taken, copied = oc.array(elements, copy=None), oc.array(elements)
    again = oc.array(taken)
    elements[...] = 0
    np.testing.assert_array_equal(copied, MATRIX)
    np.testing.assert_array_equal(again, MATRIX)
    assert not taken.compute().any()
    with pytest.raises(oc.InvalidArgumentError, match="Unable to avoid copy"):
        oc.array(taken, "int8", copy=False)


def test_load(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MATRIX)
    np.testing.assert_array_equal(oc.load(tmp_path / "a.npy"), MATRIX)
    with oc.load(tmp_path / "a.npy", mmap_mode="r+") as array:
        array[0, 0] = 7
    assert np.load(tmp_path / "a.npy")[0, 0] == 7
    with pytest.raises(oc.InvalidArgumentError):
        oc.load(tmp_path / "a.npy", "c")


# -- names that there are not ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("linspac", "did you mean 'linspace'?"),
        ("Zeros", "did you mean 'zeros'?"),
        ("asarry", "did you mean 'asarray'?"),
        ("memmap", "oc.open"),
        ("ndarray", "oc.Array"),
        ("cbrt", "numpy.cbrt takes arrays of outcrop"),
        ("i0", "numpy.i0 takes arrays of outcrop"),
        ("choose", "if memory has room"),
        ("apply_over_axes", "numpy.apply_over_axes of an outcrop.Array is not supported"),
    ],
)
def test_unknown_names_say_what_is_meant(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(oc, name)
    assert f"module 'outcrop' has no attribute '{name}'" in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.name == name
