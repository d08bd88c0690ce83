"""The LU factorization with partial pivoting, and what follows from it."""

from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from outcrop.array_api.creation_functions import arange, eye
from outcrop.array_api.elementwise_functions import abs as absolute
from outcrop.array_api.elementwise_functions import log, sign
from outcrop.array_api.manipulation_functions import where
from outcrop.array_api.non_ufunc_functions import tril, triu
from outcrop.array_api.searching_functions import count_nonzero
from outcrop.array_api.statistical_functions import prod
from outcrop.array_api.statistical_functions import sum as total
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray
from outcrop.errors import InvalidArgumentError, InvalidTypeError
from outcrop.expressions.build.arrays import array_of, node_of
from outcrop.expressions.build.reductions import cast
from outcrop.expressions.graph.lu import LU, ExchangeRows, LUSolve, Permutation, Pivots
from outcrop.expressions.graph.matrices import Solve
from outcrop.expressions.graph.nodes import Node
from outcrop.linalg.checks import flag, floating, matrix, square
from outcrop.linalg.diagonals import diagonal

__all__ = [
    "LUFactors",
    "SlogdetResult",
    "det",
    "inv",
    "lu",
    "lu_factor",
    "lu_solve",
    "slogdet",
]


class LUFactors(NamedTuple):
    """What `lu_factor` gives.

    Attributes
    ----------
    lu : Array, shape (m, n)
        L below the diagonal, whose own is all ones; U on and above it.
    piv : Array of int32, shape (min(m, n),)
        Row ``i`` of the matrix is exchanged with row ``piv[i]``, one after the other; from 0 on.
    """

    lu: Array
    piv: Array


class SlogdetResult(NamedTuple):
    """What `slogdet` gives.

    Attributes
    ----------
    sign : Array
        Of no dimension: -1, 0 or 1, or of complex matrices a number of absolute value 1, or 0.
    logabsdet : Array
        Of no dimension: the logarithm of the determinant's absolute value.
    """

    sign: Array
    logabsdet: Array


def _factored(a: Array, dtype: np.dtype[Any]) -> LU:
    return LU.of(cast(node_of(a), dtype))


def lu_factor(a: Array | ArrayLike, /) -> LUFactors:
    """Factor a matrix as ``P A = L U``, with partial pivoting.

    Parameters
    ----------
    a : array_like, shape (m, n)
        The matrix.

    Returns
    -------
    LUFactors
        ``lu`` and ``piv``, lazy, as LAPACK's `getrf` and SciPy's `lu_factor` have them. They are
        computed together where they are saved together (`outcrop.save`), or used in one expression;
        each by itself would be computed by itself.

    Raises
    ------
    InvalidArgumentError
        `a` is not a matrix.
    NotFiniteError
        When it is computed: there is NaN or infinity in `a`.

    Notes
    -----
    A singular matrix is factored, too; a pivot is zero then. A column of tiles is in memory as a
    whole while its pivots are looked for. With memory for w columns, ``n^3 / (3 w)`` elements are
    read beside the matrix itself; or, where that is less, about ``n^3 / sqrt(M)`` with memory for M
    elements, and twice the matrix for every halving of n columns down to w.

    Examples
    --------
    >>> A = oc.random.default_rng(1).normal(size=(300, 300))
    >>> factors = oc.linalg.lu_factor(A)
    >>> done = oc.save({"lu.zarr": factors.lu, "piv.zarr": factors.piv})
    >>> x = oc.linalg.lu_solve((done["lu.zarr"], done["piv.zarr"]), np.ones(300))
    >>> bool(np.allclose(A.compute() @ x.compute(), 1))
    True
    """
    x = asarray(a)
    factors = _factored(x, matrix(x, "lu_factor"))
    return LUFactors(array_of(factors), array_of(Pivots.of(factors)))


def lu_solve(
    lu_and_piv: tuple[Array | ArrayLike, Array | ArrayLike],
    b: Array | ArrayLike,
    /,
    *,
    trans: int | str = 0,
) -> Array:
    """Solve ``op(A) x = b`` with the factors of A.

    Parameters
    ----------
    lu_and_piv : tuple of array_like, shapes (n, n) and (n,)
        What `lu_factor` gives for A.
    b : array_like, shape (n,) or (n, m)
        One right-hand side, or several.
    trans : {0, 1, 2, "N", "T", "C"}
        What op is: 0 or "N", nothing; 1 or "T", transposed; 2 or "C", transposed and conjugated.

    Returns
    -------
    Array, shape of `b`
        The solution, lazy.

    Raises
    ------
    InvalidArgumentError
        Shapes do not match; when it is computed: what `piv` holds are no pivots.
    SingularMatrixError
        When it is computed: an element of the diagonal of U is zero.

    Examples
    --------
    >>> A = np.array([[0.0, 2.0], [1.0, 1.0]])
    >>> oc.linalg.lu_solve(oc.linalg.lu_factor(A), np.array([2.0, 3.0])).compute()
    array([2., 1.])
    """
    if not isinstance(lu_and_piv, tuple | list) or len(lu_and_piv) != 2:
        raise InvalidTypeError("lu_solve takes what lu_factor gives: a tuple of two arrays")
    factors, piv = (asarray(x) for x in lu_and_piv)
    given = asarray(b)
    dtype = np.result_type(square(factors, "lu_solve"), floating(given.dtype))
    n = factors.shape[0]
    if given.ndim not in (1, 2) or given.shape[0] != n:
        raise InvalidArgumentError(
            f"lu_solve: right-hand sides of shape {given.shape} do not fit factors of shape "
            f"{factors.shape}; ({n},) or ({n}, m) would"
        )
    if piv.shape != (n,) or piv.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"lu_solve: pivots are {n} whole numbers, not of shape {piv.shape} and type {piv.dtype}"
        )
    solution = LUSolve.of(
        cast(node_of(factors), dtype),
        cast(node_of(piv), np.dtype(np.int32)),
        cast(node_of(given), dtype),
        meant=meaning(trans),
    )
    return array_of(solution)


def meaning(trans: int | str) -> str:
    """Whether a matrix is meant as it is, "N", or transposed, "T", or conjugated, too, "C"."""
    kinds: dict[object, str] = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}
    if not isinstance(trans, int | str) or trans not in kinds:
        raise InvalidArgumentError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    return kinds[trans]


@overload
def lu(
    a: Array | ArrayLike, /, *, permute_l: Literal[False] = False, p_indices: bool = False
) -> tuple[Array, Array, Array]: ...
@overload
def lu(
    a: Array | ArrayLike, /, *, permute_l: Literal[True], p_indices: bool = False
) -> tuple[Array, Array]: ...
@overload
def lu(
    a: Array | ArrayLike, /, *, permute_l: bool, p_indices: bool = False
) -> tuple[Array, ...]: ...
def lu(
    a: Array | ArrayLike, /, *, permute_l: bool = False, p_indices: bool = False
) -> tuple[Array, ...]:
    """Factor a matrix as ``A = P L U``, with partial pivoting.

    Parameters
    ----------
    a : array_like, shape (m, n)
        The matrix.
    permute_l : bool
        Whether P and L are multiplied.
    p_indices : bool
        Whether P is given as row indices `p`, so that ``A = (L @ U)[p]``; `permute_l` goes first.

    Returns
    -------
    p : Array, shape (m, m) or (m,)
        The permutation. Not with `permute_l`.
    l : Array, shape (m, min(m, n))
        Lower triangular with a unit diagonal, or that with its rows permuted.
    u : Array, shape (min(m, n), n)
        Upper triangular.

    Raises
    ------
    InvalidArgumentError
        `a` is not a matrix.
    NotFiniteError
        When it is computed: there is NaN or infinity in `a`.

    Notes
    -----
    All are lazy, and the matrix is factored once where they are computed together, in one
    expression or saved by `outcrop.save`. Computed one by one, each is of a factorization of its
    own, whose last bits may be others, since these depend on the tiles: of a matrix that is
    singular to the last bit, whose last pivots are chosen among rounding errors, they need not
    belong together.

    Examples
    --------
    >>> A = np.array([[1.0, 2.0], [4.0, 4.0]])
    >>> p, l, u = oc.linalg.lu(A)
    >>> l.compute()
    array([[1.  , 0.  ],
           [0.25, 1.  ]])
    >>> bool(np.allclose((p @ l @ u).compute(), A))
    True
    """
    x = asarray(a)
    dtype = matrix(x, "lu")
    permute_l, p_indices = flag(permute_l, "permute_l"), flag(p_indices, "p_indices")
    factors = _factored(x, dtype)
    m, n = x.shape
    k = min(m, n)
    both = array_of(factors)
    lower = tril(both[:, :k], k=-1) + eye(m, k, dtype=dtype)
    upper = triu(both[:k])
    if permute_l:
        pivots = Pivots.of(factors)
        return array_of(_exchanged(pivots, node_of(lower))), upper
    rows = arange(m) if k == 0 else array_of(Permutation.of(factors))
    if p_indices:
        return rows, lower, upper
    return (rows[:, None] == arange(m)[None, :]).astype(dtype), lower, upper


def _exchanged(pivots: Node, rows: Node) -> Node:
    return ExchangeRows.of(pivots, rows, backwards=True) if rows.size else rows


def inv(a: Array | ArrayLike, /) -> Array:
    """The inverse of a matrix.

    Parameters
    ----------
    a : array_like, shape (n, n)
        The matrix.

    Returns
    -------
    Array, shape (n, n)
        Its inverse, lazy. Of a system of equations, `solve` gives the solution in less time, and
        more accurately.

    Raises
    ------
    InvalidArgumentError
        `a` is not square.
    SingularMatrixError, NotFiniteError
        When it is computed: see `solve`.

    Examples
    --------
    >>> oc.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]])).compute()
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    x = asarray(a)
    dtype = square(x, "inv")
    unit = node_of(eye(x.shape[0], dtype=dtype))
    return array_of(Solve.of(cast(node_of(x), dtype), unit, positive_definite=False))


def det(a: Array | ArrayLike, /) -> Array:
    """The determinant of a matrix.

    Parameters
    ----------
    a : array_like, shape (n, n)
        The matrix.

    Returns
    -------
    Array, of no dimension
        Its determinant, lazy; 0 of a singular matrix. Of large ones it overflows: see `slogdet`.

    Raises
    ------
    InvalidArgumentError
        `a` is not square.
    NotFiniteError
        When it is computed: there is NaN or infinity in `a`.

    Examples
    --------
    >>> round(float(oc.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]]))), 12)
    -2.0
    """
    factors, exchanges = _for_determinant(a, "det")
    result: Array = prod(factors) * exchanges
    return result


def slogdet(a: Array | ArrayLike, /) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of a matrix's determinant.

    Parameters
    ----------
    a : array_like, shape (n, n)
        The matrix.

    Returns
    -------
    SlogdetResult
        ``sign`` and ``logabsdet``, lazy, of no dimension; 0 and minus infinity if it is singular.

    Raises
    ------
    InvalidArgumentError
        `a` is not square.
    NotFiniteError
        When it is computed: there is NaN or infinity in `a`.

    Examples
    --------
    >>> sign, logarithm = oc.linalg.slogdet(-3 * np.eye(501))
    >>> float(sign), round(float(logarithm), 6)
    (-1.0, 550.404757)
    """
    factors, exchanges = _for_determinant(a, "slogdet")
    size = absolute(factors)
    is_zero = size == 0
    logarithms = where(is_zero, -np.inf, log(where(is_zero, 1, size))).astype(size.dtype)
    return SlogdetResult(prod(sign(factors)) * exchanges, total(logarithms))


def _for_determinant(a: Array | ArrayLike, name: str) -> tuple[Array, Array]:
    """Numbers whose product the determinant is, but for its sign; and that."""
    x = asarray(a)
    dtype = square(x, name)
    n = x.shape[0]
    if n == 0:
        one = asarray(np.ones((), dtype))
        return asarray(np.ones(0, dtype)), one
    factors = _factored(x, dtype)
    exchanges = count_nonzero(array_of(Pivots.of(factors)) != arange(n))
    real = np.zeros(0, dtype).real.dtype
    return diagonal(array_of(factors)), (1 - 2 * (exchanges % 2)).astype(real)
