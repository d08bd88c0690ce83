"""Dense arrays larger than memory.

Outcrop computes with arrays on disk inside a memory budget that it never exceeds.

Examples
--------
>>> with oc.create("A.zarr", (2000, 3000)) as A:
...     A[...] = 1
...     A[100:200, ::2] = np.arange(1500)
>>> oc.open("A.zarr")[150, :5].compute()
array([0., 1., 1., 1., 2.])
"""

# First of all: loading the others takes the time in which a person may press Ctrl-C.
from outcrop import _starting  # noqa: F401

# isort: split
from importlib import metadata as _metadata

from outcrop import (
    _allocator,  # noqa: F401
    along,
    arrangement,
    constants,
    counting,
    elements,
    elementwise,
    linalg,
    manipulation,
    products,
    random,
    searching,
    selection,
    statistical,
)
from outcrop.along import *  # noqa: F403
from outcrop.arrangement import *  # noqa: F403
from outcrop.array import Array
from outcrop.config import Config, config
from outcrop.constants import *  # noqa: F403
from outcrop.counting import *  # noqa: F403
from outcrop.creation import asarray, create, fromfunction, open
from outcrop.device import doctor
from outcrop.elements import *  # noqa: F403
from outcrop.elementwise import *  # noqa: F403
from outcrop.errors import (
    ArrayBusyError,
    ArrayExistsError,
    ArrayNotFoundError,
    AxisError,
    BoxIndexError,
    BudgetError,
    ChangedArrayError,
    ClosedArrayError,
    CorruptArrayError,
    DivisionByZeroError,
    ForkedProcessError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    NotPositiveDefiniteError,
    OutcropError,
    SingularMatrixError,
    StaleOperandError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    UnsupportedError,
)
from outcrop.expressions.saving import save
from outcrop.linalg import matmul
from outcrop.manipulation import *  # noqa: F403
from outcrop.plan import ExpressionPlan, MovementPlan, Plan, plan
from outcrop.products import *  # noqa: F403
from outcrop.reorganize import flip, permute_dims, rotate, transpose
from outcrop.report import Run, last_run
from outcrop.searching import *  # noqa: F403
from outcrop.selection import *  # noqa: F403
from outcrop.statistical import *  # noqa: F403

try:
    __version__ = _metadata.version("outcrop")
except _metadata.PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "Array",
    "ArrayBusyError",
    "ArrayExistsError",
    "ArrayNotFoundError",
    "AxisError",
    "BoxIndexError",
    "BudgetError",
    "ClosedArrayError",
    "Config",
    "ChangedArrayError",
    "CorruptArrayError",
    "DivisionByZeroError",
    "ExpressionPlan",
    "ForkedProcessError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "MovementPlan",
    "NotPositiveDefiniteError",
    "OutcropError",
    "Plan",
    "Run",
    "SingularMatrixError",
    "StaleOperandError",
    "StorageError",
    "StorageFullError",
    "StoragePermissionError",
    "UnsupportedError",
    "__version__",
    "asarray",
    "config",
    "create",
    "doctor",
    "flip",
    "fromfunction",
    "last_run",
    "linalg",
    "matmul",
    "open",
    "permute_dims",
    "plan",
    "random",
    "rotate",
    "save",
    "transpose",
    *along.__all__,
    *arrangement.__all__,
    *constants.__all__,
    *counting.__all__,
    *elements.__all__,
    *elementwise.__all__,
    *manipulation.__all__,
    *products.__all__,
    *searching.__all__,
    *selection.__all__,
    *statistical.__all__,
]
