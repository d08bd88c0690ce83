"""Zarr arrays in zip archives, which are only read (decision 048).

What ``zarr.storage.ZipStore`` writes, or ``zip -0 -r`` makes of a directory. Chunks are read by the
compiled core where they lie in the archive, through codecs that go from bytes to bytes; shards,
transposed chunks, and those with other codecs are read by Zarr-Python, as other libraries' arrays
are.
"""

import json
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.errors import (
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    OutcropError,
    StorageError,
    UnsupportedError,
)
from outcrop.formats.data_sets import DESCRIBED, MOST_CHUNKS, Container, DataSet, Member
from outcrop.formats.groups import described
from outcrop.formats.others import is_npz
from outcrop.formats.zarr_metadata import ArrayMetadata, array_metadata, senseless
from outcrop.formats.zip_archives import Archive, is_zip

__all__ = ["ZIP", "ZipChildren", "ZipFiles", "children_of", "elements_of", "members_of"]

ZIP = "zip"
"""The format of arrays in such files."""

_MOST_METADATA = 4 << 20
"""The most bytes of an array's metadata, as the compiled core has it of those in directories."""

_MOST_OF_GROUP = 64 << 20
"""The most bytes of a group's, which may have that of all arrays in it."""

_MOST_NAMED = 12
"""Arrays that a message names."""

_MORE = 1 << 20
"""Bytes that an encoded chunk may have besides twice those of its elements."""

_V3, _V2, _GROUP_V2, _ATTRIBUTES_V2 = "zarr.json", ".zarray", ".zgroup", ".zattrs"

_UPDATE = ".outcrop-update"
"""Where an array of ours has a change that is being carried out."""


class ZipFiles(Container):
    """Zarr arrays in zip archives."""

    name: ClassVar[str] = ZIP
    file: ClassVar[str] = "zip archive"
    title: ClassVar[str] = "arrays in zip archives"
    unchanged: ClassVar[str] = "arrays in zip archives are only read"
    writing: ClassVar[str] = "'zip -0 -r' packs a directory again"

    def recognises(self, path: str) -> bool:
        """Whether a file is a zip archive, and not one of NumPy's."""
        return is_zip(path) and not is_npz(path)

    def open(self, path: str, inside: str) -> DataSet:
        """Open an array by its name in an archive, or the only one in a group."""
        return _open_array(path, inside)

    def names(self, path: str, inside: str) -> dict[str, bool]:
        """Of groups, those with arrays in them."""
        at = _cleaned(inside)
        front = len(at) + 1 if at else 0
        below = [name[front:].partition("/") for name in members_of(path, inside) or ()]
        return {name: bool(slash) for name, slash, _ in below}

    def damage(self, path: str, inside: str) -> Iterator[tuple[int, str | None]]:
        """For each entry of an array, how many there are, and what is wrong with it."""
        with _reading(path), Archive(path) as archive:
            nodes = _Nodes(archive)
            entries = nodes.entries_of(nodes.one(inside))
            for name in entries:
                yield len(entries), archive.damage_of(name)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OutcropError:
        raise
    except OSError as error:
        reason = f"{path}: cannot read the file: {error.strerror}"
        raise StorageError(reason, errno=error.errno) from None


# -- what is in an archive -------------------------------------------------------------------------


class _Nodes:
    """The arrays and groups of an archive, by their names."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self._files: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        for name in archive.names:
            above, _, last = name.rpartition("/")
            # The metadata of version 3 counts where there is that of both.
            if last in (_V3, _V2, _GROUP_V2) and _is_key(name):
                before = self._files.get(above)
                if before is None or last == _V3 or (last == _V2 and before == _GROUP_V2):
                    self._files[above] = last

    def kind(self, at: str) -> str | None:
        """``"array"`` or ``"group"``; None where there is neither.

        Raises
        ------
        CorruptArrayError
            What describes it is damaged.
        UnsupportedError
            It is a group of a version that is not known.
        """
        if at not in self._kinds and at in self._files:
            self._kinds[at] = self._kind(at)
        return self._kinds.get(at)

    def _kind(self, at: str) -> str:
        file = self._files[at]
        if file == _V2:
            return "array"
        node = described(file, self.archive.read(_joined(at, file), _MOST_OF_GROUP))
        if node.unsound is not None:
            front = f"{self.archive.path}/{at}" if at else self.archive.path
            raise type(node.unsound)(f"{front}: {node.unsound}")
        return "array" if node.is_array else "group"

    def arrays(self, inside: str) -> list[str]:
        """Arrays below a group, or below a folder that is none, and not in another array."""
        front = f"{inside}/" if inside else ""
        found: list[str] = []
        below = ""
        for at in sorted(self._files, key=lambda at: at.split("/")):
            if at == inside or not at.startswith(front) or (below and at.startswith(below)):
                continue
            if self._is_array(at):
                found.append(at)
                below = f"{at}/"
        return found

    def _is_array(self, at: str) -> bool:
        try:
            return self.kind(at) == "array"
        except (CorruptArrayError, UnsupportedError):
            # Opening it will say what is wrong.
            return True

    def one(self, inside: str) -> str:
        """The array of a name, or the only one in a group."""
        path, at = self.archive.path, _cleaned(inside)
        if self.kind(at) == "array":
            return at
        if self.kind(at) is None and not self._is_folder(at):
            raise ArrayNotFoundError(f"{path}: there is no {inside!r} in it; {self.holds('')}")
        found = self.arrays(at)
        if len(found) == 1:
            return found[0]
        if not self._files:
            raise UnsupportedError(
                f"{path}: is a zip archive without a Zarr array in it, which is not read here; "
                "unpack it first"
            )
        what = f"{path}: the group {at!r}" if at else f"{path}: the archive"
        advice = f"; name one, such as {path}/{found[0]}" if found else ""
        raise InvalidArgumentError(f"{what} is not one array: {self.holds(at)}{advice}")

    def _is_folder(self, at: str) -> bool:
        return not at or any(name.startswith(f"{at}/") for name in self._files)

    def holds(self, at: str) -> str:
        """What there is to open, for people."""
        if self.kind(at) == "array":
            return "it is one array"
        names = self.arrays(at)
        if not names:
            return "it holds no array"
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"it holds {', '.join(names[:_MOST_NAMED])}{more}"

    def entries_of(self, at: str) -> list[str]:
        """The entries that an array is made of."""
        front = f"{at}/" if at else ""
        return [name for name in self.archive.names if name.startswith(front) and _is_key(name)]

    def document(self, at: str, file: str, most: int) -> dict[str, Any]:
        """Metadata, a JSON object; an empty one where there is no such file."""
        name = _joined(at, file)
        if name not in self.archive.names:
            return {}
        text = self.archive.read(name, most)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CorruptArrayError(f"{self.archive.path}: {name} is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise CorruptArrayError(f"{self.archive.path}: {name} is not a JSON object")
        return found

    def described(self, at: str) -> tuple[int, dict[str, Any]]:
        """The version of Zarr of an array, and its metadata, that of version 2 with attributes."""
        if self._files[at] == _V3:
            return 3, self.document(at, _V3, _MOST_METADATA)
        meta = self.document(at, _V2, _MOST_METADATA)
        return 2, {**meta, "attributes": self.document(at, _ATTRIBUTES_V2, _MOST_METADATA)}

    def attributes(self, at: str) -> dict[str, Any]:
        """Those of a group."""
        if self._files.get(at) != _V3:
            return self.document(at, _ATTRIBUTES_V2, _MOST_METADATA)
        text = self.archive.read(_joined(at, _V3), _MOST_OF_GROUP)
        # Consolidated metadata stays text: of a group it may be that of thousands of arrays.
        member = _native.json_members(text, ["attributes"])[0]
        if member is None or len(member) > _MOST_METADATA:
            return {}
        try:
            found = json.loads(member)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def members_of(path: str, inside: str = "") -> list[str] | None:
    """The arrays of an archive, or of a group in it, by their names from the root of the archive.

    None where a name is an array's.
    """
    with _reading(path), Archive(path) as archive:
        nodes = _Nodes(archive)
        at = _cleaned(inside)
        if nodes.kind(at) == "array":
            return None
        if nodes.kind(at) is None and not nodes.arrays(at):
            nodes.one(inside)
        return nodes.arrays(at)


@dataclass(frozen=True)
class ZipChildren:
    """What stands in a group of an archive.

    Attributes
    ----------
    attributes : dict
        Those of the group.
    arrays : list of str
        The names of the arrays in the group itself.
    """

    attributes: dict[str, Any]
    arrays: list[str]


def children_of(path: str, inside: str) -> ZipChildren | None:
    """What stands in a group of an archive; None where a name is an array's."""
    with _reading(path), Archive(path) as archive:
        nodes = _Nodes(archive)
        at = _cleaned(inside)
        if nodes.kind(at) is None:
            # The only array there is, or what is wrong.
            nodes.one(inside)
            return None
        if nodes.kind(at) == "array":
            return None
        front = f"{at}/" if at else ""
        names = [name[len(front) :] for name in nodes.arrays(at)]
        return ZipChildren(nodes.attributes(at), [name for name in names if "/" not in name])


def elements_of(path: str, inside: str) -> Any:
    """An array of any type, as Zarr-Python has it."""
    with _reading(path):
        archive = Archive(path)
        nodes = _Nodes(archive)
        at = nodes.one(inside)
        # It stays open as long as there is this.
        return _by_zarr(archive, at, nodes.described(at)[0], _MOST_OF_GROUP)


def _joined(at: str, name: str) -> str:
    return f"{at}/{name}" if at else name


def _cleaned(inside: str) -> str:
    """A name as the archive has it."""
    return "/".join(part for part in inside.split("/") if part not in ("", "."))


def _is_key(name: str) -> bool:
    """Whether an entry can be part of a store: nothing is unpacked, and no other is looked for."""
    return "\0" not in name and not any(part in ("", ".", "..") for part in name.split("/"))


# -- opening ---------------------------------------------------------------------------------------


def _open_array(path: str, inside: str) -> DataSet:
    """Open an array of an archive for reading.

    Raises
    ------
    ArrayNotFoundError
        There is none of this name, or no such file.
    InvalidArgumentError
        What has the name is a group of several arrays, or of none.
    UnsupportedError
        Elements of this type, or what they are encoded with, are not known; entries are encrypted;
        the archive has no Zarr arrays; Zarr-Python is not installed.
    CorruptArrayError
        The archive is damaged, or metadata make no sense.
    StorageError
        It cannot be read.
    """
    with _reading(path), ExitStack() as closing:
        archive = closing.enter_context(Archive(path))
        nodes = _Nodes(archive)
        at = nodes.one(inside)
        name = _joined(path, at) if at else path
        version, document = nodes.described(at)
        meta = array_metadata(name, version, document)
        entries = nodes.entries_of(at)
        front = f"{at}/" if at else ""
        if any(entry.startswith(f"{front}{_UPDATE}/") for entry in entries):
            raise UnsupportedError(
                f"{name}: was packed while a change of it was not complete; unpack it, open it "
                "with mode 'r+', which completes the change, and pack it again"
            )
        stored = sum(archive.stored(archive.names[entry]) for entry in entries)
        member = Member(
            at,
            meta.shape,
            meta.dtype,
            "chunked",
            meta.chunk,
            (*meta.codecs, "zip"),
            meta.dimension_names,
            stored,
        )
        store = _in_place(archive, name, front, meta)
        given = None
        if store is None:
            most = max(2 * meta.chunk_bytes + _MORE, _MOST_METADATA)
            given = _by_zarr(archive, at, version, most)
            if tuple(given.shape) != meta.shape:
                senseless(name, "shape", list(given.shape))
            # Its store has the archive, which is closed with it.
            closing.pop_all()
        attributes = json.dumps(meta.attributes)
        return DataSet(member, attributes, meta.fill_value, store, given, version)


def _in_place(archive: Archive, name: str, front: str, meta: ArrayMetadata) -> _native.Store | None:
    """What reads chunks that lie in the archive, if it has their codecs; None where it has not."""
    grid, count = meta.grid, math.prod(meta.grid)
    if meta.key is None or count > MOST_CHUNKS:
        # Which chunks there are is not known: an entry that has a wrong name would be missing.
        archive.check_headers()
        return None
    chunks: NDArray[np.uint64] = np.zeros((count, 4), np.uint64)
    lie_there = count > 0
    missing = 0
    for place, coordinates in enumerate(np.ndindex(*grid) if count else ()):
        key = front + meta.key(coordinates)
        number = archive.names.get(key)
        if number is None:
            missing += 1
            continue
        archive.check_method(key, number)
        if not archive.is_plain(number):
            lie_there = False
        elif lie_there and (meta.behind is not None or meta.undone is not None):
            stored = archive.stored(number)
            chunks[place] = archive.place(key, number), stored, 0, archive.sum_of(number)
            if meta.behind is not None and stored != meta.chunk_bytes + meta.behind:
                raise CorruptArrayError(
                    f"{name}: the chunk {key!r} has {stored} bytes, and its elements are "
                    f"{meta.chunk_bytes + meta.behind}"
                )
    if missing:
        # Or are they there under names that the directory has wrong?
        archive.check_headers()
    if not lie_there:
        return None
    path, attributes = os.fspath(archive.path), json.dumps(meta.attributes)
    described = meta.shape, meta.dtype.str, meta.chunk
    if meta.behind == 0 and (not missing or meta.fills_with_zeros):
        # Elements as they are, of which parts are read; zeros where there is no chunk.
        padded, offsets = True, np.ascontiguousarray(chunks[:, 0])
        return _native.open_chunks(path, "r", DESCRIBED, *described, offsets, padded, attributes)
    if meta.undone is None or (chunks[:, 1] == 0).sum() != missing:
        return None
    zero = np.zeros((), meta.dtype.newbyteorder("="))
    fill = (zero if meta.fill_value is None else meta.fill_value).tobytes()
    codecs = json.dumps(meta.undone)
    return _native.open_encoded(
        path,
        "r",
        DESCRIBED,
        front.strip("/") or "array",
        *described,
        chunks,
        codecs,
        fill,
        attributes,
    )


def _by_zarr(archive: Archive, at: str, version: int, most: int) -> Any:
    """The array as Zarr-Python has it."""
    name = _joined(archive.path, at) if at else archive.path
    try:
        import zarr
    except ImportError:
        raise UnsupportedError(
            f"{name}: what is encoded, compressed, or has another fill value than zero, is read by "
            "Zarr-Python where it lies in a zip archive: pip install 'outcrop[zarr]'; unpacked, it "
            "is read without"
        ) from None
    from outcrop.formats.zip_store import ArchiveStore

    try:
        given: Any = zarr.open_array(
            ArchiveStore(archive, most), path=at, mode="r", zarr_format=3 if version == 3 else 2
        )
    except OutcropError:
        raise
    except Exception as error:
        # Metadata that makes no sense to the package make it raise almost anything.
        text = " ".join(str(error).split()) or type(error).__name__
        raise UnsupportedError(f"{name}: Zarr-Python cannot open it: {text}") from None
    return given
