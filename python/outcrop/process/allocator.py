"""What is freed goes back to the system, and does not add up beside the budget.

By default glibc keeps up to 64 MiB in each of the pools that threads allocate from, once a block of
32 MiB has been freed in one. In programs that compute many things, that came to hundreds of MiB.
"""

import ctypes
import os
from contextlib import suppress

__all__: list[str] = []

# Numbers of malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_SETTINGS = {
    # Blocks beyond this are the system's at once; smaller ones are used again without its help.
    _MMAP_THRESHOLD: ("MALLOC_MMAP_THRESHOLD_", 2 << 20),
    # What a pool keeps at its end.
    _TRIM_THRESHOLD: ("MALLOC_TRIM_THRESHOLD_", 8 << 20),
}

# Other C libraries than glibc have no such settings.
with suppress(AttributeError, OSError):
    _mallopt = ctypes.CDLL(None).mallopt
    for _setting, (_variable, _bytes) in _SETTINGS.items():
        # What the user has set stays.
        if _variable not in os.environ:
            _mallopt(_setting, _bytes)
