"""Zarr arrays in zip archives, which are only read (decision 048).

What ``zarr.storage.ZipStore`` writes, or ``zip -0 -r`` makes of a directory. Chunks that are nothing
but their elements are read by the compiled core where they lie in the archive; those with codecs are
read by Zarr-Python, as other libraries' arrays are.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.checks import check_dtype, check_shape
from outcrop.errors import (
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    OutcropError,
    StorageError,
    UnsupportedError,
)
from outcrop.formats.data_sets import Container, DataSet, Member
from outcrop.formats.others import is_npz
from outcrop.formats.zip_archives import Archive, is_zip

__all__ = ["ZIP", "ZipChildren", "ZipFiles", "children_of", "elements_of", "members_of"]

ZIP = "zip"
"""The format of arrays in such files."""

_DESCRIBED = "tiff"
"""What the compiled core calls files whose metadata others have read."""

_MOST_METADATA = 4 << 20
"""The most bytes of an array's metadata; the compiled core reads no more of those in directories."""

_MOST_OF_GROUP = 64 << 20
"""The most bytes of a group's, which may have that of all arrays in it."""

_MOST_CHUNKS = 1 << 20
"""Chunks whose places are listed. Each takes some tens of bytes while an archive is opened."""

_MOST_NAMED = 12
"""Arrays that a message names."""

_MORE = 1 << 20
"""Bytes that an encoded chunk may have besides twice those of its elements."""

_V3, _V2, _GROUP_V2, _ATTRIBUTES_V2 = "zarr.json", ".zarray", ".zgroup", ".zattrs"

_OURS = 1
"""The version of our own arrays, as the compiled core has it."""

_UPDATE = ".outcrop-update"
"""Where an array of ours has a change that is being carried out."""

_NAMES = "_ARRAY_DIMENSIONS"
"""The attribute that has names of axes, in version 2 and at times in 3."""

_KNOWN = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding"),
    *("fill_value", "codecs", "attributes", "dimension_names", "storage_transformers", "outcrop"),
}
"""Members of ``zarr.json`` that say nothing of chunks but what is understood here."""


class ZipFiles(Container):
    """Zarr arrays in zip archives."""

    name: ClassVar[str] = ZIP
    file: ClassVar[str] = "zip archive"
    title: ClassVar[str] = "arrays in zip archives"
    writing: ClassVar[str] = "'zip -0 -r' packs a directory again"

    def recognises(self, path: str) -> bool:
        return is_zip(path) and not is_npz(path)

    def open(self, path: str, inside: str) -> DataSet:
        return _open_array(path, inside)

    def damage(self, path: str, inside: str) -> Iterator[tuple[int, str | None]]:
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
        """
        if at not in self._kinds and at in self._files:
            self._kinds[at] = self._kind(at)
        return self._kinds.get(at)

    def _kind(self, at: str) -> str:
        file = self._files[at]
        if file != _V3:
            return "array" if file == _V2 else "group"
        name = _joined(at, _V3)
        text = self.archive.read(name, _MOST_OF_GROUP)
        found = _native.json_members(text, ["node_type"])[0]
        kind = {b'"array"': "array", b'"group"': "group"}.get(found or b"")
        if kind is None:
            raise CorruptArrayError(f"{self.archive.path}: {name} says neither array nor group")
        return kind

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
                f"{path}: is a zip archive without a Zarr array in it, and nothing else is read of "
                "archives; unpack it first"
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


# -- metadata --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Meta:
    """What metadata say of an array.

    Attributes
    ----------
    zarr_format : int
        2 or 3.
    shape, chunk : tuple of int
        Extents.
    dtype : numpy.dtype
        Of the elements of a chunk, in their byte order.
    codecs : tuple of str
        The names of what chunks are encoded with, in the order of encoding.
    attributes : dict
        Without names of axes.
    dimension_names : tuple, optional
        A name or none for every axis.
    fill_value : numpy.generic, optional
        What elements are that were never written, where that is said.
    key : callable, optional
        The name of the chunk at a place in the grid; None where that is not known here.
    behind : int, optional
        Bytes behind the elements of a chunk that is nothing but these; None of others.
    """

    zarr_format: int
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]
    codecs: tuple[str, ...]
    attributes: dict[str, Any]
    dimension_names: tuple[str | None, ...] | None
    fill_value: np.generic | None
    key: Callable[[tuple[int, ...]], str] | None
    behind: int | None

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk, strict=True))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the elements of a chunk."""
        return math.prod(self.chunk) * self.dtype.itemsize

    @property
    def fills_with_zeros(self) -> bool:
        """Whether an element that was never written is zero."""
        return self.fill_value is None or not any(self.fill_value.tobytes())


def _meta(name: str, version: int, given: Mapping[str, Any]) -> _Meta:
    """What metadata say.

    Raises
    ------
    CorruptArrayError
        They make no sense.
    UnsupportedError
        There are no such elements, chunks, or versions.
    """
    if given.get("zarr_format") != version:
        found = given.get("zarr_format")
        if isinstance(found, int) and found > version:
            raise UnsupportedError(f"{name}: is of Zarr {found}, and 2 and 3 are known")
        _is_corrupt(name, "zarr_format", found)
    attributes = given.get("attributes") or {}
    if not isinstance(attributes, dict):
        _is_corrupt(name, "attributes", attributes)
    shape = _extents(name, "shape", given.get("shape"))
    dtype = _dtype(name, given.get("data_type" if version == 3 else "dtype"))
    try:
        check_shape(shape, dtype)
    except OutcropError as error:
        raise UnsupportedError(f"{name}: {error}") from None
    attributes, names = _named(attributes, len(shape))
    if version == 3 and given.get("dimension_names") is not None:
        names = given["dimension_names"]
        sound = isinstance(names, list) and len(names) == len(shape)
        if not sound or not all(one is None or isinstance(one, str) for one in names):
            _is_corrupt(name, "dimension_names", names)
        names = tuple(names)
    chunk, key, behind, order, codecs = _of_v3(name, given) if version == 3 else _of_v2(name, given)
    if len(chunk) != len(shape) or 0 in chunk:
        _is_corrupt(name, "the shape of a chunk", list(chunk))
    if math.prod(chunk) * dtype.itemsize >= 2**63:
        raise UnsupportedError(f"{name}: its chunks are too large to address")
    if order is not None and dtype.itemsize > 1:
        dtype = dtype.newbyteorder(order)
    fill = _fill_value(name, given.get("fill_value"), dtype, version)
    if version == 3 and not set(given) <= _KNOWN:
        # What they mean, another program may know.
        behind = None
    if version == 3 and (ours := given.get("outcrop")) is not None:
        made_by = ours.get("version") if isinstance(ours, dict) else None
        if not isinstance(made_by, int):
            _is_corrupt(name, "outcrop", ours)
        if made_by > _OURS:
            raise UnsupportedError(
                f"{name}: made by a newer Outcrop: array format {made_by}, this version knows "
                f"{_OURS}"
            )
    return _Meta(
        version, shape, chunk, dtype, codecs, attributes, names, fill, key, behind
    )


_Encoding = tuple[
    tuple[int, ...],
    Callable[[tuple[int, ...]], str] | None,
    int | None,
    Any,
    tuple[str, ...],
]
"""The chunk, its key, bytes behind its elements, the order of bytes, and the codecs."""


def _of_v3(name: str, given: Mapping[str, Any]) -> _Encoding:
    grid, encoding = given.get("chunk_grid"), given.get("chunk_key_encoding")
    if _name_of(grid) != "regular":
        raise UnsupportedError(f"{name}: the chunk grid {_name_of(grid)!r} is not supported")
    chunk = _extents(name, "chunk_shape", _configuration(grid).get("chunk_shape"))
    kind = _name_of(encoding)
    separator = _configuration(encoding).get("separator", "/" if kind == "default" else ".")
    key = None
    if kind in ("default", "v2") and separator in ("/", "."):
        key = _Keys(kind == "default", separator)
    codecs = given.get("codecs")
    if not isinstance(codecs, list) or not codecs or not all(map(_name_of, codecs)):
        _is_corrupt(name, "codecs", codecs)
    names = tuple(str(_name_of(codec)) for codec in codecs)
    order = _configuration(codecs[0]).get("endian", "little") if names[0] == "bytes" else "little"
    behind = {("bytes",): 0, ("bytes", "crc32c"): 4}.get(names)
    if order not in ("little", "big") or given.get("storage_transformers"):
        behind = None
    return chunk, key, behind, ">" if order == "big" else "<", names


def _of_v2(name: str, given: Mapping[str, Any]) -> _Encoding:
    chunk = _extents(name, "chunks", given.get("chunks"))
    separator = given.get("dimension_separator") or "."
    key = _Keys(False, separator) if separator in ("/", ".") else None
    filters, compressor = given.get("filters") or [], given.get("compressor")
    codecs = [*(filters if isinstance(filters, list) else [filters])]
    codecs += [] if compressor is None else [compressor]
    if not all(isinstance(codec, dict) and isinstance(codec.get("id"), str) for codec in codecs):
        _is_corrupt(name, "filters or compressor", codecs)
    order = given.get("order")
    if order not in ("C", "F"):
        _is_corrupt(name, "order", order)
    is_plain = not codecs and (order == "C" or len(chunk) < 2)
    names = ("bytes", *(codec["id"] for codec in codecs))
    return chunk, key, 0 if is_plain else None, None, names


@dataclass(frozen=True)
class _Keys:
    """Names of chunks."""

    prefixed: bool
    separator: str

    def __call__(self, at: tuple[int, ...]) -> str:
        parts = [*(["c"] if self.prefixed else []), *map(str, at)]
        return self.separator.join(parts) if parts else "0"


def _name_of(given: Any) -> str | None:
    """The name of a codec, a grid or an encoding, which may be all there is of it."""
    found = given.get("name") if isinstance(given, dict) else given
    return found if isinstance(found, str) else None


def _configuration(given: Any) -> dict[str, Any]:
    found = given.get("configuration") if isinstance(given, dict) else None
    return found if isinstance(found, dict) else {}


def _extents(name: str, what: str, given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(n) is int and 0 <= n < 2**63 for n in given):
        _is_corrupt(name, what, given)
    return tuple(given)


def _dtype(name: str, given: Any) -> np.dtype[Any]:
    """The elements, by the name of version 3 or the type string of version 2."""
    text = given if isinstance(given, str) else ""
    if re.fullmatch(r"[a-z]+[0-9]*|[<>|=][a-zA-Z][0-9]+", text):
        try:
            dtype = check_dtype(text, swapped=True)
            if text[0] in "<>|=" or dtype.name == text:
                return dtype
        except OutcropError:
            pass
    raise UnsupportedError(f"{name}: elements of type {_short(given)} are not supported")


def _named(attributes: dict[str, Any], ndim: int) -> tuple[dict[str, Any], Any]:
    """Attributes without the names of axes, and these."""
    names = attributes.get(_NAMES)
    sound = isinstance(names, list) and len(names) == ndim
    if not sound or not all(isinstance(one, str) for one in names):
        return attributes, None
    return {key: value for key, value in attributes.items() if key != _NAMES}, tuple(names)


def _fill_value(name: str, given: Any, dtype: np.dtype[Any], version: int) -> np.generic | None:
    """The fill value; None where version 2 has none."""
    if given is None and version == 2:
        return None
    native = dtype.newbyteorder("=")
    if native.kind == "c":
        parts = [given, 0] if version == 2 and not isinstance(given, list) else given
        if not isinstance(parts, list) or len(parts) != 2:
            _is_corrupt(name, "fill_value", given)
        half = np.dtype(f"f{native.itemsize // 2}")
        pair = np.array([_number(name, part, half, version) for part in parts], half)
        return _element(pair.view(native))
    return _element(np.array([_number(name, given, native, version)], native))


def _element(array: NDArray[Any]) -> np.generic:
    found: np.generic = array[0]
    return found


def _number(name: str, given: Any, dtype: np.dtype[Any], version: int) -> Any:
    """A number of a type, every bit as it is written."""
    if dtype.kind == "f" and isinstance(given, str):
        if given in ("NaN", "Infinity", "-Infinity"):
            return float(given)
        if re.fullmatch(f"0x[0-9a-fA-F]{{{2 * dtype.itemsize}}}", given):
            return np.frombuffer(bytes.fromhex(given[2:])[::-1], dtype)[0]
    elif dtype.kind == "f" and isinstance(given, int | float) and not isinstance(given, bool):
        with np.errstate(all="ignore"):
            return np.array(float(given) if abs(given) < 2**1023 else math.inf).astype(dtype)
    elif dtype.kind == "b" and (isinstance(given, bool) or (version == 2 and given in (0, 1))):
        return bool(given)
    elif dtype.kind in "iu" and isinstance(given, int | float) and not isinstance(given, bool):
        limits = np.iinfo(dtype)
        if math.isfinite(given) and given == int(given) and limits.min <= given <= limits.max:
            return int(given)
    _is_corrupt(name, "fill_value", given)


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _is_corrupt(name: str, what: str, given: Any) -> NoReturn:
    raise CorruptArrayError(f"{name}: its metadata make no sense: {what} is {_short(given)}")


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
        meta = _meta(name, version, document)
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
            given = _by_zarr(archive, at, version, 2 * meta.chunk_bytes + _MORE)
            if tuple(given.shape) != meta.shape:
                _is_corrupt(name, "shape", list(given.shape))
            # Its store has the archive, which is closed with it.
            closing.pop_all()
        attributes = json.dumps(meta.attributes)
        return DataSet(member, attributes, meta.fill_value, store, given, version)


def _in_place(archive: Archive, name: str, front: str, meta: _Meta) -> _native.Store | None:
    """What reads chunks that lie in the archive as they are in memory; None where they do not."""
    grid, nbytes = meta.grid, meta.chunk_bytes + (meta.behind or 0)
    count = math.prod(grid)
    if meta.key is None or count > _MOST_CHUNKS:
        # Which chunks there are is not known: an entry that has a wrong name would be missing.
        archive.check_headers()
        return None
    offsets: NDArray[np.uint64] = np.zeros(count, np.uint64)
    is_plain = meta.behind is not None and count > 0
    missing = 0
    for place, coordinates in enumerate(np.ndindex(*grid)):
        key = front + meta.key(coordinates)
        number = archive.names.get(key)
        if number is None:
            missing += 1
            continue
        archive.check_method(key, number)
        if not archive.is_plain(number):
            is_plain = False
        elif is_plain and archive.stored(number) != nbytes:
            raise CorruptArrayError(
                f"{name}: the chunk {key!r} has {archive.stored(number)} bytes, and its elements "
                f"are {nbytes}"
            )
        elif is_plain:
            offsets[place] = archive.place(key, number)
    if missing:
        # Or are they there under names that the directory has wrong?
        archive.check_headers()
    if not is_plain or (missing and not meta.fills_with_zeros):
        # The compiled core has zeros where there is no chunk.
        return None
    padded = True
    path = os.fspath(archive.path)
    attributes = json.dumps(meta.attributes)
    return _native.open_chunks(
        path, "r", _DESCRIBED, meta.shape, meta.dtype.str, meta.chunk, offsets, padded, attributes
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
