"""A loop nest compiled by Numba over memory maps of .npy files, in a process of its own.

    python nests_job.py NAME ARGUMENTS [MEETING]

ARGUMENTS are JSON: of each parameter, the path of a file or a number; with MEETING, it begins when another one
does. Prints seconds, without compiling, and the bytes that the process has moved, as JSON.
"""

from __future__ import annotations

import json
import sys
import time

import numba
import numpy as np
from nest_programs import PROGRAMS, meet


def io() -> tuple[int, int]:
    """Bytes that this process has read and written."""
    with open("/proc/self/io") as file:
        fields = dict(line.split(": ") for line in file.read().splitlines())
    return int(fields["read_bytes"]), int(fields["write_bytes"])


name, given = sys.argv[1], json.loads(sys.argv[2])
program = PROGRAMS[name]
arguments = {
    p: np.load(value, mmap_mode="r+") if isinstance(value, str) else value
    for p, value in given.items()
}
compiled = numba.njit(program.function, error_model="numpy")
compiled.compile(tuple(map(numba.typeof, arguments.values())))
meet(*sys.argv[3:])
before, start = io(), time.perf_counter()
compiled(*arguments.values())
for p in program.written:
    arguments[p].flush()
seconds = time.perf_counter() - start
after = io()
print(
    json.dumps({"seconds": seconds, "read": after[0] - before[0], "written": after[1] - before[1]})
)
