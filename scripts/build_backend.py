"""What pip and other installers build the package with: maturin, once nothing is missing.

Without cargo on the PATH, maturin would fetch a compiler of its own, and what else is missing would
come to light among the messages of a long build. An installer begins by importing this, and what is
missing is said then, in one line. It is read by every Python 3 there is, so that it can say which
are too old.
"""

import os
import re
import subprocess
import sys

_SCRIPTS = os.path.dirname(os.path.abspath(__file__))


def _missing():
    """One line about what is missing; None where nothing is."""
    with open(os.path.join(_SCRIPTS, os.pardir, "pyproject.toml"), encoding="utf-8") as file:
        needed = re.search(r'^requires-python = ">=([\d.]+)"', file.read(), re.MULTILINE).group(1)
    if sys.version_info < tuple(map(int, needed.split("."))):
        found = ".".join(map(str, sys.version_info[:3]))
        return "outcrop: Python {} or newer is needed, and this is {}".format(needed, found)  # noqa: UP032
    check = ["sh", os.path.join(_SCRIPTS, "prerequisites.sh"), "compilers"]
    process = subprocess.Popen(check, cwd=os.path.dirname(_SCRIPTS), stderr=subprocess.PIPE)
    said = process.communicate()[1].decode("utf-8", "replace").strip()
    return said or "outcrop: scripts/prerequisites.sh failed" if process.returncode else None


_line = _missing()
if _line is not None:
    sys.exit(_line)

# It would say that it is not what the package is built with.
os.environ.setdefault("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1")

from maturin import *  # noqa: E402, F403
