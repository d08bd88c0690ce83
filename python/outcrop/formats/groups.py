"""The Zarr group that an array stands in, and what that asks of it."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outcrop import _native
from outcrop.errors import (
    CorruptArrayError,
    InvalidArgumentError,
    OutcropError,
    StorageError,
    UnsupportedError,
)
from outcrop.process.files import open_file, read_at_most

__all__ = [
    "Group",
    "Node",
    "check_around",
    "described",
    "group_around",
    "group_at",
    "only_member",
    "version_in",
]

_MOST = 64 << 20
"""The most bytes of metadata that are read; consolidated metadata may have many."""

_MOST_OF_ARRAY = 4 << 20
"""The most bytes of metadata of an array, which the compiled core reads."""

_MOST_NAMED = 12
"""Arrays that a message names."""

_MOST_OF_MEMBER = 64 << 10
"""The most bytes of a member that is looked into. Python takes many times as many."""

_VERSIONS = {"zarr.json": 3, ".zgroup": 2}
"""The version of Zarr of which a group is, by the file that says so."""


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
        """The names of the arrays in the group, and of what may be one and is damaged."""
        return sorted(
            entry.name
            for entry in os.scandir(self.path)
            if entry.is_dir() and _look(Path(entry.path)).may_be_array
        )

    def members(self) -> list[str]:
        """The names of all arrays below the group, those of groups in it with slashes.

        What is damaged, so that it may be an array, is among them: who opens it is told.
        """
        found: list[str] = []
        rest = [""]
        while rest:
            inside = rest.pop()
            for entry in os.scandir(self.path / inside):
                # A link may lead round in a circle.
                if not entry.is_dir(follow_symlinks=False):
                    continue
                name = f"{inside}/{entry.name}" if inside else entry.name
                node = _look(self.path / name)
                if node.may_be_array:
                    found.append(name)
                elif node.zarr_format is not None:
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
        The group holds several, which it names, or none; or it is of no version that is known.
    CorruptArrayError
        It is a group whose metadata is damaged.
    """
    node = _look(Path(path)) if os.path.isdir(path) else Node()
    if node.unsound is not None and not node.is_told_by_core:
        raise type(node.unsound)(f"{path}: {node.unsound}")
    if node.zarr_format is None:
        return None
    group = Group(Path(path), node.zarr_format)
    names = group.members()
    if len(names) == 1:
        only = os.path.join(path, names[0])
        # It may be damaged: then that is said here, too.
        return only_member(only) or only
    if not names:
        raise UnsupportedError(f"{path}: is a Zarr group, and holds no arrays")
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(names[:_MOST_NAMED])
    raise UnsupportedError(
        f"{path}: is a Zarr group; it holds {listed}{more}; name one of them, such as "
        f"{os.path.join(path, names[0])!r}"
    )


def group_at(path: Path) -> Group | None:
    """The group that is at a path; None where there is none, or one that is damaged."""
    version = _look(path).zarr_format
    return None if version is None else Group(path, version)


def check_around(path: str) -> None:
    """Refuse a place for something new in what is neither an array nor a group, and was one.

    Raises
    ------
    CorruptArrayError
        The metadata of what it would stand in is damaged.
    UnsupportedError
        It is large, or of no version that is known.
    """
    for above in Path(os.path.realpath(path)).parents:
        unsound = _look(above).unsound
        if unsound is not None:
            raise type(unsound)(
                f"{path}: would stand in {above}, and there {unsound}; save it somewhere else, or "
                "mend that first"
            )


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


@dataclass(frozen=True)
class Node:
    """What stands in a directory, by its metadata: nothing of Zarr's, if all are as they are here.

    Attributes
    ----------
    is_array : bool
        Whether it is an array, as far as that is looked at here.
    zarr_format : int, optional
        The version of a group.
    unsound : OutcropError, optional
        What is wrong with metadata that is of neither.
    is_told_by_core : bool
        Whether the compiled core says more exactly what is wrong.
    """

    is_array: bool = False
    zarr_format: int | None = None
    unsound: OutcropError | None = None
    is_told_by_core: bool = False

    @property
    def may_be_array(self) -> bool:
        """Whether it is an array, or was perhaps one."""
        return self.is_array or self.unsound is not None


def _look(path: Path) -> Node:
    """What stands in a directory."""
    for file in ("zarr.json", ".zarray", ".zgroup"):
        if not (path / file).is_file():
            continue
        if file == ".zarray":
            return Node(is_array=True)
        try:
            with open_file(str(path / file)) as opened:
                text = read_at_most(opened, _MOST)
                size = os.fstat(opened.fileno()).st_size
        except (OSError, StorageError):
            # Whoever needs it will say why it cannot be read.
            continue
        if text is None:
            what = (
                f"{file} has {size} bytes, and of groups no more than {_MOST >> 20} MiB are read, "
                "which is for attributes, and consolidated metadata where there is any"
            )
            return Node(unsound=UnsupportedError(what))
        return described(file, text)
    return Node()


def described(file: str, text: bytes) -> Node:
    """What `zarr.json` or `.zgroup` says."""
    kind, version = _native.json_members(text, ["node_type", "zarr_format"])
    if file == "zarr.json" and kind == b'"array"':
        return Node(is_array=True)
    if file == "zarr.json" and kind != b'"group"':
        what = f"{file} is damaged: it says of neither an array nor a group"
        return Node(unsound=CorruptArrayError(what), is_told_by_core=len(text) <= _MOST_OF_ARRAY)
    known = _VERSIONS[file]
    if version == str(known).encode():
        return Node(zarr_format=known)
    if version is None or not version.isdigit():
        return Node(unsound=CorruptArrayError(f"{file} is damaged: it says of no version of Zarr"))
    what = f"{file} is of a group of version {version[:20].decode()} of Zarr; {known} is known"
    return Node(unsound=UnsupportedError(what))


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
