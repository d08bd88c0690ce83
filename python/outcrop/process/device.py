"""The measured speed of a directory's disk."""

import json
from collections.abc import Callable
from typing import Any

from outcrop import _native
from outcrop.checks import StrPath, check_path
from outcrop.process.config import ensure_configured

__all__ = ["doctor"]


def doctor(
    dir: StrPath,
    quick: bool = False,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Measure a directory's disk, and keep the result for planning.

    Writes, reads and removes temporary files there. Unless `quick`, it also uses the memory of the
    budget, up to 4 GiB of it, since virtual machines may have to ask their host for that. The
    profile goes to the user's cache directory.

    Parameters
    ----------
    dir : str or os.PathLike
        The directory.
    quick : bool
        Whether to measure less, in a few seconds.
    progress : callable, optional
        Called with the number of measurements done and of all.

    Returns
    -------
    dict
        The device profile: bandwidths in bytes per second by size of request, which I/O engine is
        used and why, and how many seconds memory takes that is used for the first time.

    Raises
    ------
    StorageError, StorageFullError, StoragePermissionError
        The directory cannot be used.

    Examples
    --------
    >>> profile = oc.doctor(".", quick=True)
    >>> isinstance(profile, dict)
    True
    """
    ensure_configured()
    result: dict[str, Any] = json.loads(_native.doctor(check_path(dir), bool(quick), progress))
    return result
