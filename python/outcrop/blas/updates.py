"""Updates of a half of a symmetric or Hermitian matrix."""

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
from outcrop.blas.products import scaled
from outcrop.errors import InvalidArgumentError
from outcrop.expressions.graph.blas import Call

__all__ = ["her2k", "herk", "syr2k", "syrk"]


def _update(
    name: str,
    alpha: complex,
    given: tuple[Matrix, ...],
    C: Changed,
    beta: complex,
    uplo: str,
    trans: str | int,
) -> Change:
    hermitian, twice = name.startswith("her"), len(given) > 1
    lower = choice(uplo, "uplo", "LU") == "L"
    target = target_of(C, "C")
    dtype = target.dtype
    is_complex = dtype.kind == "c"
    # Of real matrices, both names and both letters mean the same.
    letters = "NTC" if not is_complex else ("NC" if hermitian else "NT")
    how = transposition(trans, "trans", letters)
    hermitian = hermitian and is_complex
    names = ("A", "B")
    factors: list[Array] = [factor(x, n, target, "C") for x, n in zip(given, names, strict=False)]
    one = scalar(alpha, "alpha", dtype, is_real=hermitian and not twice)
    two = scalar(beta, "beta", dtype, is_real=hermitian)
    n = target.shape[0]
    if how != "N":
        factors = [x.T for x in factors]
    shapes = {x.shape for x in factors}
    if target.shape[1] != n or len(shapes) > 1 or factors[0].shape[0] != n:
        what = " and ".join(
            f"op({n}) of shape {x.shape}" for x, n in zip(factors, names, strict=False)
        )
        raise InvalidArgumentError(
            f"{name}: {what} and C of shape {target.shape} do not fit each other"
        )
    if one == 0 or factors[0].shape[1] == 0 or not target.size:
        return scaled(target, C, name, two, lower=lower, hermitian=hermitian)
    call = Call(
        name,
        "update twice" if twice else "update",
        one,
        two,
        lower=lower,
        hermitian=hermitian,
        first=how == "C" and is_complex,
    )
    return Change(C, target, tuple(factors), call)


@Routine
def syrk(
    alpha: complex,
    A: Matrix,
    /,
    *,
    beta: complex = 0.0,
    C: Changed,
    uplo: str = "L",
    trans: str | int = "N",
    progress: Progress | None = None,
) -> Change:
    """One half of ``C = alpha A A^T + beta C``, or of ``C = alpha A^T A + beta C``.

    Parameters
    ----------
    alpha, beta : complex
        Real where the matrices are. Where `alpha` is zero, `A` is not read; where `beta` is, what
        `C` holds makes no difference.
    A : array_like, shape (n, k), or (k, n) where it is transposed
        The factor.
    C : Array or numpy.ndarray, shape (n, n)
        What is changed, as for `gemm`. The other half stays as it is, to the last bit.
    uplo : {"L", "U"}
        Which half of `C` is changed.
    trans : {"N", "T"}
        Which product: ``A A^T``, or ``A^T A``; also 0, 1. For real matrices, "C" is "T".
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
    >>> oc.blas.syrk(1.0, np.array([[1.0], [2.0]]), C=np.full((2, 2), 7.0))
    array([[1., 7.],
           [2., 4.]])
    """
    return _update("syrk", alpha, (A,), C, beta, uplo, trans).telling(progress)


@Routine
def herk(
    alpha: float,
    A: Matrix,
    /,
    *,
    beta: float = 0.0,
    C: Changed,
    uplo: str = "L",
    trans: str | int = "N",
    progress: Progress | None = None,
) -> Change:
    """One half of ``C = alpha A A^H + beta C``, or of ``C = alpha A^H A + beta C``.

    Parameters
    ----------
    alpha, beta : float
        Where `alpha` is zero, `A` is not read; where `beta` is, what `C` holds makes no difference.
    A : array_like, shape (n, k), or (k, n) where it is transposed
        The factor.
    C : Array or numpy.ndarray, shape (n, n)
        What is changed, as for `gemm`. The other half stays as it is, to the last bit; imaginary
        parts on the diagonal count as zero, and are that afterwards, if anything is changed at all.
    uplo : {"L", "U"}
        Which half of `C` is changed.
    trans : {"N", "C"}
        Which product: ``A A^H``, or ``A^H A``; also 0, 2. For real matrices, "T" is "C".
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
    >>> oc.blas.herk(1.0, np.array([[1.0], [2.0j]]), C=np.full((2, 2), 7.0 + 0j))
    array([[1.+0.j, 7.+0.j],
           [0.+2.j, 4.+0.j]])
    """
    return _update("herk", alpha, (A,), C, beta, uplo, trans).telling(progress)


@Routine
def syr2k(
    alpha: complex,
    A: Matrix,
    B: Matrix,
    /,
    *,
    beta: complex = 0.0,
    C: Changed,
    uplo: str = "L",
    trans: str | int = "N",
    progress: Progress | None = None,
) -> Change:
    """One half of ``C = alpha A B^T + alpha B A^T + beta C``, or with ``A^T B`` and ``B^T A``.

    Parameters
    ----------
    alpha, beta : complex
        Real where the matrices are. Where `alpha` is zero, `A` and `B` are not read; where `beta`
        is, what `C` holds makes no difference.
    A, B : array_like, shape (n, k), or (k, n) where they are transposed
        The factors.
    C : Array or numpy.ndarray, shape (n, n)
        What is changed, as for `gemm`. The other half stays as it is, to the last bit.
    uplo : {"L", "U"}
        Which half of `C` is changed.
    trans : {"N", "T"}
        Which products: ``A B^T`` and ``B A^T``, or ``A^T B`` and ``B^T A``; also 0, 1. For real
        matrices, "C" is "T".
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
    >>> A, B = np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]])
    >>> oc.blas.syr2k(1.0, A, B, C=np.full((2, 2), 7.0))
    array([[ 6.,  7.],
           [10., 16.]])
    """
    return _update("syr2k", alpha, (A, B), C, beta, uplo, trans).telling(progress)


@Routine
def her2k(
    alpha: complex,
    A: Matrix,
    B: Matrix,
    /,
    *,
    beta: float = 0.0,
    C: Changed,
    uplo: str = "L",
    trans: str | int = "N",
    progress: Progress | None = None,
) -> Change:
    """One half of ``C = alpha A B^H + conj(alpha) B A^H + beta C``, or with ``A^H B``, ``B^H A``.

    Parameters
    ----------
    alpha : complex
        Real where the matrices are. Where it is zero, `A` and `B` are not read.
    A, B : array_like, shape (n, k), or (k, n) where they are transposed
        The factors.
    beta : float
        Where it is zero, what `C` holds makes no difference.
    C : Array or numpy.ndarray, shape (n, n)
        What is changed, as for `gemm`. The other half stays as it is, to the last bit; imaginary
        parts on the diagonal count as zero, and are that afterwards, if anything is changed at all.
    uplo : {"L", "U"}
        Which half of `C` is changed.
    trans : {"N", "C"}
        Which products: ``A B^H`` and ``B A^H``, or ``A^H B`` and ``B^H A``; also 0, 2. For real
        matrices, "T" is "C".
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
    >>> A, B = np.array([[1.0], [2.0j]]), np.array([[3.0], [4.0]])
    >>> oc.blas.her2k(1.0, A, B, C=np.full((2, 2), 7.0 + 0j))
    array([[6.+0.j, 7.+0.j],
           [4.+6.j, 0.+0.j]])
    """
    return _update("her2k", alpha, (A, B), C, beta, uplo, trans).telling(progress)
