"""Every error that Outcrop raises, in one tree.

Each is also a subclass of the built-in or NumPy error that users already catch, so that
``except OSError`` or ``except numpy.linalg.LinAlgError`` keeps working. The compiled core raises
these classes too, with the message as the only argument.
"""

from typing import Any

import numpy as np

__all__ = [
    "ArrayBusyError",
    "ArrayExistsError",
    "ArrayNotFoundError",
    "AxisError",
    "BoxIndexError",
    "BudgetError",
    "ChangedArrayError",
    "ClosedArrayError",
    "CorruptArrayError",
    "DivisionByZeroError",
    "ForkedProcessError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "OutcropError",
    "OutcropWarning",
    "SingularMatrixError",
    "StaleOperandError",
    "StorageError",
    "StorageFullError",
    "StoragePermissionError",
    "UnsupportedError",
]


class OutcropError(Exception):
    """The root of the tree: catches whatever Outcrop raises by itself."""


class OutcropWarning(UserWarning):
    """Something works, but not as well as it should, such as I/O through the page cache."""


class _OperatingSystemError(OutcropError, OSError):
    """An `OSError` made from one message; ``str()`` shows it as it is.

    ``errno`` is a keyword and a settable attribute instead of the first argument, which would
    make Python compose a message of its own.
    """

    def __init__(self, message: str = "", *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {**self.__dict__, "errno": self.errno}


class CorruptArrayError(_OperatingSystemError):
    """Stored bytes are not what was written: a tile or metadata is damaged, missing or stale."""


class ChangedArrayError(CorruptArrayError):
    """Another program has changed an array since it was opened; opened again, it is sound."""


class StorageError(_OperatingSystemError):
    """The operating system refused an operation on a file; ``errno`` says which way."""


class StorageFullError(_OperatingSystemError):
    """The device has too little room. Says how much is needed and how much is free."""


class StoragePermissionError(StorageError, PermissionError):
    """The process may not read or write there."""


class ArrayNotFoundError(_OperatingSystemError, FileNotFoundError):
    """There is no array under this name."""


class ArrayExistsError(_OperatingSystemError, FileExistsError):
    """Something stands where a new array was to be made."""


class ArrayBusyError(_OperatingSystemError):
    """Another writer has the array, or elements of it that are to be written are attached."""


class BudgetError(OutcropError, MemoryError):
    """The memory budget is too small. Names what would do.

    Parameters
    ----------
    message : str
        What needs how much.
    needed : int, optional
        The least budget that works, in bytes, where it is known. Settable later.
    """

    needed: int | None

    def __init__(self, message: str = "", needed: int | None = None) -> None:
        super().__init__(message)
        self.needed = needed

    # BaseException pickles __dict__ as state, which carries what is needed.


class UnsupportedError(OutcropError, ValueError):
    """A sound request, but one that this version cannot fulfil."""


class InvalidArgumentError(OutcropError, ValueError):
    """An argument makes no sense."""


class InvalidTypeError(OutcropError, TypeError):
    """An argument is of the wrong type."""


class DivisionByZeroError(OutcropError, ZeroDivisionError):
    """Weights add up to zero."""


class BoxIndexError(OutcropError, IndexError):
    """An index lies outside the array, or there are too many of them."""


class AxisError(BoxIndexError, np.exceptions.AxisError):
    """There is no such axis; as NumPy's, it is made from the axis and the number of axes."""


class ClosedArrayError(OutcropError, ValueError):
    """The array has been closed."""


class StaleOperandError(OutcropError, RuntimeError):
    """An array has changed since an expression was made of it, which means it as it was then."""


class ForkedProcessError(OutcropError, RuntimeError):
    """An array opened before a fork is used in the child process."""


class InternalError(OutcropError, RuntimeError):
    """A fault of Outcrop's own, which is to be reported. What was stored is as it was before."""


class _MatrixError(OutcropError, np.linalg.LinAlgError):
    """A numerical failure at one row and column.

    Parameters
    ----------
    message : str
        What happened.
    index : int, optional
        Where it happened: the order of the leading minor, as LAPACK's info, or the place on the
        diagonal, counted from 1. Settable later.
    """

    index: int | None

    def __init__(self, message: str = "", index: int | None = None) -> None:
        super().__init__(message)
        self.index = index

    # BaseException pickles __dict__ as state, which carries the index.


class NotPositiveDefiniteError(_MatrixError):
    """A Cholesky factorization met a pivot that is not positive; ``index`` says where."""


class NotFiniteError(_MatrixError, ValueError):
    """There is NaN or infinity in a matrix that is factored; ``index`` says by which column."""


class SingularMatrixError(_MatrixError):
    """A pivot is exactly zero; ``index`` says where."""


def forget_frames(error: BaseException) -> None:
    """Let go of the frames that an exception, and those that it came from, refer to.

    One that is kept would keep its frame, and that the exception, until garbage is looked for; and
    with it all frames that called it, and the files that these have.
    """
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            rest += [one.__cause__, one.__context__]
