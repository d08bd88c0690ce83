"""Names of arrays inside Zarr groups, HDF5 files and zip archives, for a shell to complete.

Paths outside of them are left to the shell, which knows its own quoting, links and tildes. Nothing
is loaded that takes time, unless names inside a file are asked for.
"""

import json
import os
import stat
from collections.abc import Callable, Mapping

from click.shell_completion import CompletionItem

__all__ = ["complete"]

_MOST_OF_METADATA = 1 << 20
"""Bytes of metadata that are looked into: more, and it is a group's, of many arrays."""

_MOST_LOOKED_INTO = 1000
"""Members of a group of which it is said whether they are groups; of more, no shell shows any."""

_MOST_GROUPS = 64
"""Groups in groups that hold nothing else, which are gone through at once."""

Members = Mapping[str, bool]
"""What stands in a group, by name: whether it is a group itself."""


def complete(incomplete: str) -> list[CompletionItem[str]]:
    """What may stand for an array that begins like this.

    Parameters
    ----------
    incomplete : str
        What has been typed, without quotes.

    Returns
    -------
    list of CompletionItem
        Whole names inside a group or a file, groups with a slash at the end; nothing inside a
        Zarr array; elsewhere one item of the type ``"file"``, by which the shell completes paths.
    """
    above, slash, begun = incomplete.rpartition("/")
    try:
        members = _inside(os.path.expanduser(above or slash)) if slash else None
        if members is None:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(f"{above}/{name}") for name in _matching(members, begun)]
    except Exception:
        # Whatever is wrong there, the line that is being typed is no place to say so.
        return []


def _matching(members: Callable[[str], Members], begun: str) -> list[str]:
    """Names that begin so. Of a single group its members: shells put a space behind one name."""
    inside = ""
    found = {name: kind for name, kind in members("").items() if name.startswith(begun)}
    for _ in range(_MOST_GROUPS):
        if list(found.values()) != [True]:
            break
        (group,) = found
        below = members(f"{inside}{group}")
        if not below:
            break
        inside += f"{group}/"
        found = dict(below)
    return sorted(f"{inside}{name}{'/' if found[name] else ''}" for name in found)


def _inside(path: str) -> Callable[[str], Members] | None:
    """What lists the groups below a path; None where it is in no file or group of arrays."""
    there, rest = path, ""
    while not os.path.lexists(there):
        above, last = os.path.split(there)
        if above == there:
            return None
        there, rest = above or ".", os.path.join(last, rest) if rest else last
    kind = os.stat(there).st_mode
    if stat.S_ISDIR(kind):
        return None if rest else _in_directory(there)
    return _in_file(there, rest) if stat.S_ISREG(kind) else None


# -- Zarr ------------------------------------------------------------------------------------------


def _in_directory(path: str) -> Callable[[str], Members] | None:
    is_group = _is_group(path)
    if is_group is None:
        # What is below an array are its tiles.
        above = os.path.realpath(path)
        while above != (above := os.path.dirname(above)):
            if _is_group(above) is False:
                return lambda inside: {}
        return None
    return lambda inside: _in_group(os.path.join(path, inside)) if is_group else {}


def _in_group(path: str) -> Members:
    with os.scandir(path) as entries:
        names = [entry.name for entry in entries if entry.is_dir()]
    if len(names) > _MOST_LOOKED_INTO:
        return dict.fromkeys(names, False)
    found = ((name, _is_group(os.path.join(path, name))) for name in names)
    return {name: is_group for name, is_group in found if is_group is not None}


def _is_group(path: str) -> bool | None:
    """Whether a directory is a group; False of an array, None of anything else."""
    try:
        # A named pipe is not waited for.
        descriptor = os.open(os.path.join(path, "zarr.json"), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        if os.path.exists(os.path.join(path, ".zarray")):
            return False
        return True if os.path.exists(os.path.join(path, ".zgroup")) else None
    with open(descriptor, "rb") as file:
        text = file.read(_MOST_OF_METADATA + 1)
    if len(text) > _MOST_OF_METADATA:
        return True
    try:
        meta = json.loads(text)
    except ValueError:
        return None
    return isinstance(meta, dict) and meta.get("node_type") == "group"


# -- files -----------------------------------------------------------------------------------------


def _in_file(path: str, inside: str) -> Callable[[str], Members] | None:
    # Loads NumPy, h5py and the compiled core, which only this needs.
    from outcrop.formats.containers import container_of

    kind = container_of(path)
    if kind is None:
        return None
    return lambda below: kind.names(path, "/".join(filter(None, (inside, below))))
