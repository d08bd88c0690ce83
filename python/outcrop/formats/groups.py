"""The Zarr group that an array stands in, and what that asks of it."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop.errors import InvalidArgumentError, StorageError, UnsupportedError
from outcrop.process.files import open_file, read_at_most

__all__ = ["Group", "group_around", "group_at", "only_member", "version_in"]

_MOST = 64 << 20
"""The most bytes of metadata that are read; consolidated metadata may have many."""

_MOST_NAMED = 12
"""Arrays that a message names."""

_MOST_OF_MEMBER = 64 << 10
"""The most bytes of a member that is looked into. Python takes many times as many."""


@dataclass(frozen=True)
class Group:
    """A group of Zarr arrays.

    Attributes
    ----------
    path : Path
        Where it is.
    zarr_format : int
        2 or 3.
    """

    path: Path
    zarr_format: int

    def arrays(self) -> list[str]:
        """The names of the arrays in the group."""
        return sorted(
            entry.name
            for entry in os.scandir(self.path)
            if entry.is_dir() and _is_array(Path(entry.path))
        )

    def members(self) -> list[str]:
        """The names of all arrays below the group, those of groups in it with slashes."""
        found: list[str] = []
        rest = [""]
        while rest:
            inside = rest.pop()
            for entry in os.scandir(self.path / inside):
                # A link may lead round in a circle.
                if not entry.is_dir(follow_symlinks=False):
                    continue
                name = f"{inside}/{entry.name}" if inside else entry.name
                path = self.path / name
                if _is_array(path):
                    found.append(name)
                elif group_at(path) is not None:
                    rest.append(name)
        return sorted(found)

    def attributes(self) -> dict[str, Any]:
        """What is stored beside the group."""
        if self.zarr_format == 3:
            found = _read(self.path / "zarr.json", "attributes").get("attributes", {})
        else:
            found = _parsed(self.path / ".zattrs")
        return found if isinstance(found, dict) else {}

    def extents(self, array: str) -> dict[str, int]:
        """The extents of the dimensions that arrays in the group have, except for one array."""
        found: dict[str, int] = {}
        for entry in os.scandir(self.path):
            if entry.name != array and entry.is_dir():
                found |= dict(_dimensions(Path(entry.path)))
        return found


def group_around(path: str) -> Group | None:
    """The group that holds what is, or will be, at a path; None where that is in no group."""
    return group_at(Path(os.path.realpath(path)).parent)


def only_member(path: str) -> str | None:
    """The path of the only array in a group; None where a path is no group.

    Raises
    ------
    UnsupportedError
        The group holds several, which it names, or none.
    """
    group = group_at(Path(path)) if os.path.isdir(path) else None
    if group is None:
        return None
    names = group.members()
    if len(names) == 1:
        return os.path.join(path, names[0])
    if not names:
        raise UnsupportedError(f"{path}: is a Zarr group, and holds no arrays")
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(names[:_MOST_NAMED])
    raise UnsupportedError(
        f"{path}: is a Zarr group; it holds {listed}{more}; name one of them, such as "
        f"{os.path.join(path, names[0])!r}"
    )


def group_at(path: Path) -> Group | None:
    """The group that is at a path; None where there is none."""
    if _read(path / "zarr.json", "node_type").get("node_type") == "group":
        return Group(path, 3)
    return Group(path, 2) if (path / ".zgroup").is_file() else None


def version_in(group: Group | None, path: str, wanted: int | None) -> int:
    """The version of Zarr of a new array: the one that is wanted, or the group's, or 3.

    Raises
    ------
    InvalidArgumentError
        The group has another version than the one that is wanted, or there is no such version.
    """
    if wanted is not None and (type(wanted) is not int or wanted not in (2, 3)):
        raise InvalidArgumentError(f"zarr_format must be 2 or 3, got {wanted!r}")
    if group is None:
        return wanted or 3
    if wanted not in (None, group.zarr_format):
        raise InvalidArgumentError(
            f"{path}: zarr_format={wanted} is wanted, and it is to stand in the group "
            f"{group.path}, which is of Zarr {group.zarr_format}: no program would see it there"
        )
    return group.zarr_format


def _is_array(path: Path) -> bool:
    is_new = _read(path / "zarr.json", "node_type").get("node_type") == "array"
    return is_new or (path / ".zarray").is_file()


def _dimensions(array: Path) -> Iterator[tuple[str, int]]:
    meta = _read(array / "zarr.json", "shape", "dimension_names")
    names = meta.get("dimension_names")
    if not meta:
        meta = _read(array / ".zarray", "shape")
        key = "_ARRAY_DIMENSIONS"
        names = _read(array / ".zattrs", key).get(key) if meta else None
    shape = meta.get("shape")
    if isinstance(names, list) and isinstance(shape, list):
        pairs = zip(names, shape, strict=False)
        yield from ((n, s) for n, s in pairs if isinstance(n, str) and isinstance(s, int))


def _parsed(path: Path) -> Any:
    """A file of metadata; nothing where there is none, or none that can be made sense of."""
    try:
        return json.loads(_text(path))
    except (OSError, StorageError, ValueError, RecursionError):
        return {}


def _text(path: Path) -> bytes:
    # A named pipe would be waited for, and anything may stand in a group.
    with open_file(str(path)) as file:
        text = read_at_most(file, _MOST)
    return b"{}" if text is None else text


def _read(path: Path, *names: str) -> dict[str, Any]:
    """Members of metadata; nothing where there are none, or none that can be made sense of."""
    try:
        # The others stay text: of a group they may be millions.
        found = _native.json_members(_text(path), names)
        return {
            name: json.loads(member)
            for name, member in zip(names, found, strict=False)
            if member is not None and len(member) <= _MOST_OF_MEMBER
        }
    except (OSError, StorageError, ValueError, RecursionError):
        return {}
