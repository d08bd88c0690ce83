"""Products that are added to a matrix."""

from typing import Any

import numpy as np

from outcrop.arrays.array import Array
from outcrop.blas.arguments import (
    Changed,
    Matrix,
    choice,
    factor,
    scalar,
    target_of,
    transposition,
)
from outcrop.blas.change import Change, Progress, Routine
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.graph.blas import Call

__all__ = ["gemm", "hemm", "symm"]


def operated(a: Array, trans: str) -> tuple[Array, bool]:
    """An operand as it counts, but for the conjugates, and whether those are meant."""
    if trans == "N":
        return a, False
    return a.T, trans == "C" and a.dtype.kind == "c"


def scaled(target: Array, given: Changed, name: str, beta: complex, **half: Any) -> Change:
    """The change where no product is added."""
    if beta == 1 or not target.size:
        return Change(given, target, (), None)
    return Change(given, target, (), Call(name, "scale", beta=beta, **half))


@Routine
def gemm(
    alpha: complex,
    A: Matrix,
    B: Matrix,
    /,
    *,
    beta: complex = 0.0,
    C: Changed,
    trans_a: str | int = "N",
    trans_b: str | int = "N",
    progress: Progress | None = None,
) -> Change:
    """``C = alpha op(A) op(B) + beta C``.

    Parameters
    ----------
    alpha, beta : complex
        Real where the matrices are. Where `alpha` is zero, `A` and `B` are not read; where `beta`
        is, `C` is not.
    A : array_like, shape (m, k), or (k, m) where it is transposed
        A matrix.
    B : array_like, shape (k, n), or (n, k) where it is transposed
        Another one.
    C : Array or numpy.ndarray, shape (m, n)
        What is changed, of float32, float64, complex64 or complex128; the others are converted to
        that, where NumPy calls it safe (so are integers of 64 bits to float64).
    trans_a, trans_b : {"N", "T", "C"}
        What op is of each: nothing, transposed, or transposed and conjugated; also 0, 1, 2.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    Array or numpy.ndarray
        `C`.

    Raises
    ------
    BudgetError
        The memory budget is too small; says which would do.
    InvalidArgumentError
        Shapes do not fit together, an option is none, `C` is read-only, or has elements in common
        with `A` or `B`.
    InvalidTypeError
        An element type, or a number, does not fit.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i, j: i - j, (300, 200), "float64").save("A.zarr")
    >>> with oc.create("C.zarr", (300, 300)) as C:
    ...     _ = oc.blas.gemm(2.0, A, A, C=C, trans_b="T")
    >>> C = oc.open("C.zarr", "r+")
    >>> oc.blas.gemm.plan(-2.0, A, A, beta=1.0, C=C, trans_b="T").operation
    'gemm'
    >>> oc.blas.gemm(-2.0, A, A, beta=1.0, C=C, trans_b="T")[:2, :2].compute()
    array([[0., 0.],
           [0., 0.]])
    """
    first, second = transposition(trans_a, "trans_a"), transposition(trans_b, "trans_b")
    target = target_of(C, "C")
    a, b = factor(A, "A", target, "C"), factor(B, "B", target, "C")
    one, two = scalar(alpha, "alpha", target.dtype), scalar(beta, "beta", target.dtype)
    (a, conj_a), (b, conj_b) = operated(a, first), operated(b, second)
    (m, k), (inner, n) = a.shape, b.shape
    if k != inner or target.shape != (m, n):
        raise InvalidArgumentError(
            f"gemm: op(A) of shape {a.shape} and op(B) of shape {b.shape} do not fit C of shape "
            f"{target.shape}"
        )
    if one == 0 or k == 0 or not target.size:
        return scaled(target, C, "gemm", two).telling(progress)
    call = Call("gemm", "product", one, two, conjugates=(conj_a, conj_b))
    return Change(C, target, (a, b), call).telling(progress)


def _symmetric(
    name: str,
    alpha: complex,
    operands: tuple[Matrix, Matrix, Changed],
    beta: complex,
    side: str,
    uplo: str,
) -> Change:
    is_left = choice(side, "side", "LR") == "L"
    lower = choice(uplo, "uplo", "LU") == "L"
    A, B, C = operands
    target = target_of(C, "C")
    a, b = factor(A, "A", target, "C"), factor(B, "B", target, "C")
    one, two = scalar(alpha, "alpha", target.dtype), scalar(beta, "beta", target.dtype)
    order = target.shape[0 if is_left else 1]
    if a.shape != (order, order) or b.shape != target.shape:
        raise InvalidArgumentError(
            f"{name}: A of shape {a.shape} and B of shape {b.shape} do not fit C of shape "
            f"{target.shape}; ({order}, {order}) and {target.shape} would"
        )
    if one == 0 or not target.size:
        return scaled(target, C, name, two)
    hermitian = name == "hemm" and np.issubdtype(target.dtype, np.complexfloating)
    call = Call(
        name, "left" if is_left else "right", one, two, lower=lower, hermitian=bool(hermitian)
    )
    return Change(C, target, (a, b) if is_left else (b, a), call)


@Routine
def symm(
    alpha: complex,
    A: Matrix,
    B: Matrix,
    /,
    *,
    beta: complex = 0.0,
    C: Changed,
    side: str = "L",
    uplo: str = "L",
    progress: Progress | None = None,
) -> Change:
    """``C = alpha A B + beta C``, or ``C = alpha B A + beta C``, with a symmetric `A`.

    Parameters
    ----------
    alpha, beta : complex
        Real where the matrices are. Where `alpha` is zero, `A` and `B` are not read; where `beta`
        is, `C` is not.
    A : array_like, shape (m, m), or (n, n) on the right side
        The symmetric matrix, of which one half is read.
    B : array_like, shape (m, n)
        The other factor.
    C : Array or numpy.ndarray, shape (m, n)
        What is changed, as for `gemm`.
    side : {"L", "R"}
        On which side of `B` `A` stands.
    uplo : {"L", "U"}
        Which half of `A` is read.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    Array or numpy.ndarray
        `C`.

    Raises
    ------
    BudgetError, InvalidArgumentError, InvalidTypeError
        As for `gemm`.

    Examples
    --------
    >>> A, B = np.array([[1.0, np.nan], [2.0, 3.0]]), np.eye(2)
    >>> oc.blas.symm(1.0, A, B, C=np.zeros((2, 2)))
    array([[1., 2.],
           [2., 3.]])
    """
    return _symmetric("symm", alpha, (A, B, C), beta, side, uplo).telling(progress)


@Routine
def hemm(
    alpha: complex,
    A: Matrix,
    B: Matrix,
    /,
    *,
    beta: complex = 0.0,
    C: Changed,
    side: str = "L",
    uplo: str = "L",
    progress: Progress | None = None,
) -> Change:
    """``C = alpha A B + beta C``, or ``C = alpha B A + beta C``, with a Hermitian `A`.

    Parameters
    ----------
    alpha, beta : complex
        Real where the matrices are. Where `alpha` is zero, `A` and `B` are not read; where `beta`
        is, `C` is not.
    A : array_like, shape (m, m), or (n, n) on the right side
        The Hermitian matrix, of which one half is read, and of the diagonal the real parts.
    B : array_like, shape (m, n)
        The other factor.
    C : Array or numpy.ndarray, shape (m, n)
        What is changed, as for `gemm`.
    side : {"L", "R"}
        On which side of `B` `A` stands.
    uplo : {"L", "U"}
        Which half of `A` is read.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    Array or numpy.ndarray
        `C`.

    Raises
    ------
    BudgetError, InvalidArgumentError, InvalidTypeError
        As for `gemm`.

    Examples
    --------
    >>> A, B = np.array([[1, np.nan], [2j, 3]]), np.eye(2)
    >>> oc.blas.hemm(1.0, A, B, C=np.zeros((2, 2), complex))
    array([[1.+0.j, 0.-2.j],
           [0.+2.j, 3.+0.j]])
    """
    return _symmetric("hemm", alpha, (A, B, C), beta, side, uplo).telling(progress)
