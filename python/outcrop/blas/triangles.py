"""Products with triangular matrices, and systems with them, in place of the other matrix."""

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
from outcrop.blas.products import operated, scaled
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.graph.blas import Call

__all__ = ["trmm", "trsm"]


def _triangular(
    name: str,
    alpha: complex,
    operands: tuple[Matrix, Changed],
    side: str,
    uplo: str,
    trans_a: str | int,
    diag: str,
) -> Change:
    is_left = choice(side, "side", "LR") == "L"
    lower = choice(uplo, "uplo", "LU") == "L"
    how = transposition(trans_a, "trans_a")
    unit = choice(diag, "diag", "NU") == "U"
    A, B = operands
    target = target_of(B, "B")
    a = factor(A, "A", target, "B")
    one = scalar(alpha, "alpha", target.dtype)
    order = target.shape[0 if is_left else 1]
    if a.shape != (order, order):
        raise InvalidArgumentError(
            f"{name}: A of shape {a.shape} does not fit B of shape {target.shape}; "
            f"({order}, {order}) would"
        )
    if one == 0 or not target.size:
        return scaled(target, B, name, 0.0)
    triangle, conjugate = operated(a, how)
    if how != "N":
        lower = not lower
    if not is_left:
        # B A is the transpose of A^T B^T.
        triangle, lower = triangle.T, not lower
    call = Call(
        name,
        "multiply" if name == "trmm" else "solve",
        one,
        turned=(False, False, not is_left),
        conjugates=(conjugate, False),
        lower=lower,
        unit=unit,
    )
    return Change(B, target, (triangle,), call)


@Routine
def trmm(
    alpha: complex,
    A: Matrix,
    B: Changed,
    /,
    *,
    side: str = "L",
    uplo: str = "L",
    trans_a: str | int = "N",
    diag: str = "N",
    progress: Progress | None = None,
) -> Change:
    """``B = alpha op(A) B``, or ``B = alpha B op(A)``, with a triangular `A`.

    Parameters
    ----------
    alpha : complex
        Real where the matrices are. Where it is zero, neither matrix is read.
    A : array_like, shape (m, m), or (n, n) on the right side
        The triangular matrix, of which one half is read.
    B : Array or numpy.ndarray, shape (m, n)
        What is changed, of float32, float64, complex64 or complex128; `A` is converted to that,
        where NumPy calls it safe (so are integers of 64 bits to float64).
    side : {"L", "R"}
        On which side of `B` `A` stands.
    uplo : {"L", "U"}
        Which half of `A` is read.
    trans_a : {"N", "T", "C"}
        What op is: nothing, transposed, or transposed and conjugated; also 0, 1, 2.
    diag : {"N", "U"}
        Whether the diagonal of `A` is what it holds, or all ones; it is not read then.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    Array or numpy.ndarray
        `B`.

    Raises
    ------
    BudgetError, InvalidArgumentError, InvalidTypeError
        As for `gemm`.

    Examples
    --------
    >>> A = np.array([[1.0, np.nan], [2.0, 3.0]])
    >>> oc.blas.trmm(1.0, A, np.ones((2, 1)))
    array([[1.],
           [5.]])
    """
    return _triangular("trmm", alpha, (A, B), side, uplo, trans_a, diag).telling(progress)


@Routine
def trsm(
    alpha: complex,
    A: Matrix,
    B: Changed,
    /,
    *,
    side: str = "L",
    uplo: str = "L",
    trans_a: str | int = "N",
    diag: str = "N",
    progress: Progress | None = None,
) -> Change:
    """Solve ``op(A) X = alpha B``, or ``X op(A) = alpha B``, with a triangular `A`; `B` becomes X.

    Parameters
    ----------
    alpha : complex
        Real where the matrices are. Where it is zero, neither matrix is read.
    A : array_like, shape (m, m), or (n, n) on the right side
        The triangular matrix, of which one half is read.
    B : Array or numpy.ndarray, shape (m, n)
        What is changed, of float32, float64, complex64 or complex128; `A` is converted to that,
        where NumPy calls it safe (so are integers of 64 bits to float64).
    side : {"L", "R"}
        On which side of X `A` stands.
    uplo : {"L", "U"}
        Which half of `A` is read.
    trans_a : {"N", "T", "C"}
        What op is: nothing, transposed, or transposed and conjugated; also 0, 1, 2.
    diag : {"N", "U"}
        Whether the diagonal of `A` is what it holds, or all ones; it is not read then.
    progress : callable, optional
        Called with what is done and what there is to do, at most ten times a second.

    Returns
    -------
    Array or numpy.ndarray
        `B`.

    Raises
    ------
    BudgetError, InvalidArgumentError, InvalidTypeError
        As for `gemm`.
    SingularMatrixError
        An element of the diagonal is zero; `B` stays as it was. ``index`` is the place of the first
        one, counted from 1.

    Examples
    --------
    >>> A = np.array([[1.0, np.nan], [2.0, 3.0]])
    >>> oc.blas.trsm(1.0, A, np.array([[1.0], [5.0]]))
    array([[1.],
           [1.]])
    """
    return _triangular("trsm", alpha, (A, B), side, uplo, trans_a, diag).telling(progress)
