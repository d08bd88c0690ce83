"""NumPy's transforms, with its arguments, as our own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from outcrop.array_api.dispatch import placed
from outcrop.arrays.array import Array
from outcrop.arrays.registry import implements
from outcrop.fft import frequencies, transforms

__all__: list[str] = []


def _implement(own: Callable[..., Array]) -> None:
    def call(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        return placed(own(a, n, axis, norm), out, "same_kind")

    def call_several(
        a: Any, s: Any = None, axes: Any = _default, norm: Any = None, out: Any = None
    ) -> Any:
        options = {} if axes is _default else {"axes": axes}
        return placed(own(a, s, norm=norm, **options), out, "same_kind")

    is_of_one = own.__name__.endswith("fft")
    implements(getattr(np.fft, own.__name__))(call if is_of_one else call_several)


_default = object()

for _name in transforms.__all__:
    _implement(getattr(transforms, _name))

implements(np.fft.fftshift)(lambda x, axes=None: frequencies.fftshift(x, axes))
implements(np.fft.ifftshift)(lambda x, axes=None: frequencies.ifftshift(x, axes))
