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
try:
    from outcrop.process import starting as _starting
except KeyboardInterrupt:
    # While that was being loaded: the command ends as it will from then on.
    from outcrop.process import starting as _starting

    _starting.interrupted()
    raise

if (_asked := _starting.asked_by_a_shell()) is not None:
    # At every press of the Tab key: nothing else is loaded for that.
    from outcrop.cli.completion import answer as _answer

    raise SystemExit(_answer(_asked))

# isort: split
import typing as _typing

import numpy as _numpy

from outcrop import blas, fft, linalg, random, sweeps
from outcrop import numpy_names as _numpy_names
from outcrop._native import __version__
from outcrop.array_api import (
    creation_functions as _creation_functions,
)
from outcrop.array_api import (
    data_type_functions as _data_type_functions,
)
from outcrop.array_api import (
    data_types as _data_types,
)
from outcrop.array_api import (
    elementwise_functions as _elementwise_functions,
)
from outcrop.array_api import (
    indexing_functions as _indexing_functions,
)
from outcrop.array_api import (
    manipulation_functions as _manipulation_functions,
)
from outcrop.array_api import (
    non_ufunc_functions as _non_ufunc_functions,
)
from outcrop.array_api import (
    numpy_functions as _numpy_functions,  # noqa: F401
)
from outcrop.array_api import (
    numpy_statistics as _numpy_statistics,  # noqa: F401
)
from outcrop.array_api import (
    order_statistics as _order_statistics,
)
from outcrop.array_api import (
    packed as _packed,  # noqa: F401
)
from outcrop.array_api import (
    searching_functions as _searching_functions,
)
from outcrop.array_api import (
    set_functions as _set_functions,
)
from outcrop.array_api import (
    sorting_functions as _sorting_functions,
)
from outcrop.array_api import (
    splitting_functions as _splitting_functions,
)
from outcrop.array_api import (
    statistical_functions as _statistical_functions,
)
from outcrop.array_api.creation_functions import *  # noqa: F403
from outcrop.array_api.data_type_functions import *  # noqa: F403
from outcrop.array_api.data_types import *  # noqa: F403
from outcrop.array_api.elementwise_functions import *  # noqa: F403
from outcrop.array_api.indexing_functions import *  # noqa: F403
from outcrop.array_api.inspection_functions import __array_namespace_info__
from outcrop.array_api.manipulation_functions import *  # noqa: F403
from outcrop.array_api.neighbours import lib
from outcrop.array_api.non_ufunc_functions import *  # noqa: F403
from outcrop.array_api.order_statistics import *  # noqa: F403
from outcrop.array_api.searching_functions import *  # noqa: F403
from outcrop.array_api.set_functions import *  # noqa: F403
from outcrop.array_api.sorting_functions import *  # noqa: F403
from outcrop.array_api.splitting_functions import *  # noqa: F403
from outcrop.array_api.statistical_functions import *  # noqa: F403
from outcrop.arrays.array import Array
from outcrop.arrays.creation import asarray, create, fromfunction, open
from outcrop.arrays.public_names import only_public as _only_public
from outcrop.arrays.standard import __array_api_version__
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
    NotFiniteError,
    NotPositiveDefiniteError,
    OutcropError,
    OutcropWarning,
    SingularMatrixError,
    StaleOperandError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    UnsupportedError,
)
from outcrop.expressions.build.saving import compute, save
from outcrop.interop import external as _external  # noqa: F401
from outcrop.interop.dask_arrays import from_dask
from outcrop.linalg import matmul
from outcrop.linalg import numpy_products as _numpy_products  # noqa: F401
from outcrop.linalg import products as _products
from outcrop.linalg.products import *  # noqa: F403
from outcrop.loops.loops import loops
from outcrop.loops.plan import LoopsPlan
from outcrop.numpy_names import *  # noqa: F403
from outcrop.planning import plan
from outcrop.process import allocator as _allocator  # noqa: F401
from outcrop.process.config import Config, config
from outcrop.process.device import doctor
from outcrop.program.plan import ExpressionPlan, MovementPlan, Plan, SweepPlan
from outcrop.program.report import Run, last_run
from outcrop.reorganize.turning import flip, permute_dims, rotate, transpose
from outcrop.sweeps.decorator import sweep

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
    "LoopsPlan",
    "MovementPlan",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "OutcropError",
    "OutcropWarning",
    "Plan",
    "Run",
    "SingularMatrixError",
    "StaleOperandError",
    "StorageError",
    "StorageFullError",
    "StoragePermissionError",
    "SweepPlan",
    "UnsupportedError",
    "__array_api_version__",
    "__array_namespace_info__",
    "__version__",
    "asarray",
    "blas",
    "compute",
    "config",
    "create",
    "doctor",
    "fft",
    "flip",
    "from_dask",
    "fromfunction",
    "last_run",
    "lib",
    "linalg",
    "loops",
    "matmul",
    "open",
    "permute_dims",
    "plan",
    "random",
    "rotate",
    "save",
    "sweep",
    "sweeps",
    "transpose",
    *_creation_functions.__all__,
    *_data_type_functions.__all__,
    *_data_types.__all__,
    *_elementwise_functions.__all__,
    *_indexing_functions.__all__,
    *_manipulation_functions.__all__,
    *_non_ufunc_functions.__all__,
    *_order_statistics.__all__,
    *_searching_functions.__all__,
    *_set_functions.__all__,
    *_sorting_functions.__all__,
    *_splitting_functions.__all__,
    *_statistical_functions.__all__,
    *_numpy_names.__all__,
    *_products.__all__,
]


if not _typing.TYPE_CHECKING:
    # What checks types shall find names that there are not.
    __getattr__, __dir__ = _only_public(
        __name__, __all__, numpy=_numpy, instead=_numpy_names.INSTEAD
    )
