"""Data sets of HDF5 files, NetCDF 4 among them, as they are read.

The package ``h5py`` reads metadata, and says where elements are. Those that lie in the file in one
block, or in chunks, as they are or through filters that the core can undo, are read by the compiled
core. What went through others is read by ``h5py``, as other libraries' arrays are.

Nothing in a file leads to another one: external links, external storage and virtual data sets of
other files are refused.
"""

import errno
import fcntl
import json
import math
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from outcrop import _native
from outcrop.checks import check_dtype, check_shape
from outcrop.errors import (
    ArrayBusyError,
    ArrayNotFoundError,
    CorruptArrayError,
    InvalidArgumentError,
    OutcropError,
    StorageError,
    StoragePermissionError,
    UnsupportedError,
)
from outcrop.formats.data_sets import (
    DESCRIBED,
    MOST_CHUNKS,
    NO_SUM,
    Container,
    DataSet,
    Member,
)
from outcrop.formats.other_labels import attributes_of, dimension_names_of, raw_attributes_of
from outcrop.process.files import open_file

__all__ = [
    "HDF5",
    "NO_VARIABLE",
    "SIGNATURE",
    "SUFFIXES",
    "Children",
    "HDF5Files",
    "children_of",
    "elements_of",
    "found_in",
    "h5py_for",
    "is_data_set",
    "is_hdf5",
    "members_of",
    "names_an_axis_only",
    "reading",
    "without_our_locks",
]

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".h5ad")
"""Of files that are made where there are none."""

HDF5 = "hdf5"
"""The format of arrays in such files."""

SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""What a file begins with, or goes on with behind a user block."""

_MOST_USER_BLOCK = 1 << 20
"""How far into a file the signature is looked for; before it there may be anything."""

_MOST_LINKS = 16
"""Soft links from one to the other."""

NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
"""What the attribute NAME of a scale begins with that only names an axis."""

_MOST_NAMED = 12
"""Data sets that a message names."""

_FILTERS = {
    **{1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"},
    **{32000: "lzf", 32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp"},
    **{32015: "zstd", 32026: "blosc2"},
}


class HDF5Files(Container):
    """HDF5 and NetCDF 4."""

    name: ClassVar[str] = HDF5
    file: ClassVar[str] = "HDF5 file"
    title: ClassVar[str] = "data sets of HDF5"
    unchanged: ClassVar[str] = "data sets of HDF5 are not changed where they lie"
    writing: ClassVar[str] = (
        "A.save with overwrite=True puts a new data set in its place, and h5py writes to the file "
        "itself"
    )

    def recognises(self, path: str) -> bool:
        """Whether a file is HDF5."""
        return is_hdf5(path)

    def open(self, path: str, inside: str) -> DataSet:
        """Open a data set by its name in a file, or the only one in a group."""
        return _open_data_set(path, inside)

    def names(self, path: str, inside: str) -> dict[str, bool]:
        """Of groups and data sets; links to other files are left out."""
        return _names_in(path, inside)


# -- files -----------------------------------------------------------------------------------------


def is_hdf5(path: str) -> bool:
    """Whether a file is HDF5, by its first bytes or those behind a user block."""
    try:
        with open_file(path) as file:
            offset = 0
            while offset <= _MOST_USER_BLOCK:
                found = os.pread(file.fileno(), len(SIGNATURE), offset)
                if found == SIGNATURE:
                    return True
                if not found:
                    return False
                offset = 2 * offset or 512
    except (OSError, OutcropError):
        # Opening it will say why.
        pass
    return False


def h5py_for(path: str) -> Any:
    """The package, which a file needs."""
    try:
        import h5py  # type: ignore[import-untyped]
    except ImportError:
        raise UnsupportedError(
            f"{path}: HDF5 and NetCDF 4 need the package h5py; pip install 'outcrop[hdf5]', or "
            "'pip install h5py', brings it"
        ) from None
    return h5py


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Say of whatever h5py raises what it means for who opens a file."""
    try:
        yield
    except (OutcropError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise ArrayNotFoundError(f"{path}: there is no array here", errno=error.errno) from None
    except PermissionError as error:
        reason = os.strerror(error.errno or errno.EACCES)
        what = f"{path}: cannot open: {reason}"
        raise StoragePermissionError(what, errno=error.errno) from None
    except BlockingIOError as error:
        what = f"{path}: is being written by another program, which has locked it"
        raise ArrayBusyError(what, errno=error.errno) from None
    except Exception as error:
        if "already open for" in str(error):
            raise ArrayBusyError(
                f"{path}: says that a program is writing to it; where none is, 'h5clear -s' takes "
                "that back"
            ) from None
        # Metadata that makes no sense make the package raise almost anything.
        text = " ".join(str(error).split()) or type(error).__name__
        number = error.errno if isinstance(error, OSError) else None
        if number in (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC):
            raise StorageError(f"{path}: cannot read: {text}", errno=number) from None
        raise CorruptArrayError(f"{path}: is no sound HDF5 file: {text}") from None


def _opened(path: str) -> Any:
    """The file, by h5py."""
    package = h5py_for(path)
    # Nothing but files, which the operating system lets us read.
    with open_file(path) as file:
        at = os.fstat(file.fileno())
    _let_go_of_what_was((at.st_dev, at.st_ino), (at.st_size, at.st_mtime_ns))
    return package.File(path, "r")


_File = tuple[int, int]
"""Device and inode; or size and time of the last change."""

_open: "dict[_File, list[tuple[_File, weakref.ref[Any]]]]" = {}
"""By file, the data sets whose files are open, and what these were then."""


def _keep_in_mind(path: str, given: Any) -> None:
    """Know of a data set whose file stays open."""
    at = os.stat(path)
    known = _open.setdefault((at.st_dev, at.st_ino), [])
    known[:] = [one for one in known if one[1]() is not None]
    known.append(((at.st_size, at.st_mtime_ns), weakref.ref(given)))


def _let_go_of_what_was(file: _File, state: _File) -> None:
    """Close what is open of a file since before a change.

    HDF5 has what it knows of a file in common for all who have it open, and does not look again:
    elements of the new file would be read from where they were in the old one.
    """
    for before, reference in _open.pop(file, []):
        given = reference()
        if given is None:
            continue
        if before == state:
            _open.setdefault(file, []).append((before, reference))
        elif given.id.valid:
            given.file.close()


@contextmanager
def without_our_locks(descriptor: int) -> Iterator[None]:
    """Let others lock a file meanwhile of which data sets are open here, for reading."""
    at = os.fstat(descriptor)
    known = [one() for _, one in _open.get((at.st_dev, at.st_ino), [])]
    files = [one.file.id.get_vfd_handle() for one in known if one is not None and one.id.valid]
    with suppress(OSError):
        for file in files:
            fcntl.flock(file, fcntl.LOCK_UN)
    try:
        yield
    finally:
        with suppress(OSError):
            for file in files:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


# -- what is in a file -----------------------------------------------------------------------------


def members_of(path: str, inside: str = "") -> list[Member] | None:
    """The data sets of a file, or of a group in it, by name; None where a name is a data set's."""
    with reading(path), _opened(path) as file:
        node = _found(file, path, inside)
        return None if is_data_set(node) else [_member(one) for one in _data_sets(node)]


def _names_in(path: str, inside: str) -> dict[str, bool]:
    """What stands in a group of a file, by name: whether it is a group itself."""
    import h5py

    with reading(path), _opened(path) as file:
        node = _found(file, path, inside)
        found = {}
        for name in () if is_data_set(node) else node:
            if node.id.links.get_info(_encoded(name)).type == _hard():
                kind = node.get(name, getclass=True)
                if kind in (h5py.Group, h5py.Dataset):
                    found[name] = kind is h5py.Group
        return found


@dataclass(frozen=True)
class Children:
    """What stands in a group of a file, as h5py has it.

    Attributes
    ----------
    attributes : dict
        Those of the group.
    data_sets : dict
        By name, those that stand in the group itself, and have elements: what each is, and its
        attributes.
    """

    attributes: dict[str, Any]
    data_sets: dict[str, tuple[Member, dict[str, Any]]]


def children_of(path: str, inside: str) -> Children | None:
    """What stands in a group of a file; None where a name is a data set's."""
    with reading(path), _opened(path) as file:
        node = _found(file, path, inside)
        if is_data_set(node):
            return None
        found = {}
        for name in node:
            if node.id.links.get_info(_encoded(name)).type != _hard():
                continue
            child = node[name]
            if is_data_set(child) and child.shape is not None and not names_an_axis_only(child):
                found[name] = _member(child), raw_attributes_of(child)
        return Children(raw_attributes_of(node), found)


def elements_of(path: str, inside: str) -> NDArray[Any]:
    """The elements of a data set of any type that h5py can read, text as Python's."""
    with reading(path), _opened(path) as file:
        given = _one(file, path, inside)
        is_text = h5py_for(path).check_string_dtype(given.dtype)
        _check_readable(path, f"{path}/{inside}", given)
        made: NDArray[Any] = np.asarray(
            given.asstr()[...] if is_text is not None and is_text.length is None else given[...]
        )
        return made


def names_an_axis_only(given: Any) -> bool:
    """Whether a data set is there to name an axis, and is no variable: NetCDF says so."""
    return str(raw_attributes_of(given, hidden=False).get("NAME", "")).startswith(NO_VARIABLE)


def _hard() -> Any:
    import h5py

    return h5py.h5l.TYPE_HARD


def is_data_set(node: Any) -> bool:
    """Whether what is in a file has elements."""
    import h5py

    return isinstance(node, h5py.Dataset)


def _data_sets(group: Any) -> Iterator[Any]:
    """The data sets below a group, each once: links of a file may go round in circles."""
    import h5py

    seen: set[int] = set()

    def below(node: Any) -> Iterator[Any]:
        address = h5py.h5o.get_info(node.id).addr
        if address in seen:
            return
        seen.add(address)
        for name in node:
            if node.id.links.get_info(_encoded(name)).type != _hard():
                continue
            child = node[name]
            if isinstance(child, h5py.Dataset):
                yield child
            elif isinstance(child, h5py.Group):
                yield from below(child)

    yield from below(group)


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _found(file: Any, path: str, inside: str) -> Any:
    """The group or data set of a name."""
    return _followed(file, file, path, inside, inside, 0)


def found_in(group: Any, path: str, name: str) -> Any:
    """What a name in a group stands for, links inside the file followed."""
    return _followed(group.file, group, path, name, name, 0)


def _followed(file: Any, start: Any, path: str, name: str, inside: str, links: int) -> Any:
    import h5py

    node = file if name.startswith("/") else start
    for part in name.split("/"):
        if part in ("", "."):
            continue
        key = _encoded(part)
        if not isinstance(node, h5py.Group) or not node.id.links.exists(key):
            _missing(file, path, inside)
        kind = node.id.links.get_info(key).type
        if kind == h5py.h5l.TYPE_HARD:
            node = node[part]
        elif kind == h5py.h5l.TYPE_SOFT and links < _MOST_LINKS:
            target = node.id.links.get_val(key).decode("utf-8", "surrogateescape")
            node = _followed(file, node, path, target, inside, links + 1)
        elif kind == h5py.h5l.TYPE_SOFT:
            raise CorruptArrayError(f"{path}: {inside!r} is a link that leads in a circle")
        else:
            raise UnsupportedError(
                f"{path}: {inside!r} is a link to another file, which is not followed; open that "
                "file itself"
            )
    return node


def _missing(file: Any, path: str, inside: str) -> NoReturn:
    raise ArrayNotFoundError(f"{path}: there is no {inside!r} in it; {_holds(path, file)}")


def _holds(path: str, node: Any) -> str:
    """What there is to open, for people."""
    names = [one.name.strip("/") for one in _data_sets(node)]
    if not names:
        return "it holds no data set"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"it holds {', '.join(names[:_MOST_NAMED])}{more}"


def _one(file: Any, path: str, inside: str) -> Any:
    """The data set of a name, or the only one in a group."""
    node = _found(file, path, inside)
    if is_data_set(node):
        return node
    if not hasattr(node, "keys"):
        raise UnsupportedError(f"{path}: {inside!r} is a named type, which has no elements")
    found = list(_data_sets(node))
    # Beside arrays there may be what only names their axes.
    found = [one for one in found if not names_an_axis_only(one)] or found
    if len(found) != 1:
        what = f"{path}: the group {inside!r}" if inside else f"{path}: the file"
        advice = f"; name one, such as {path}/{found[0].name.strip('/')}" if found else ""
        raise InvalidArgumentError(
            f"{what} is not one array: {_holds(path, node)}{advice}",
        )
    return found[0]


def _member(given: Any) -> Member:
    """What a data set is."""
    import h5py

    described = given.id.get_create_plist()
    layouts = {
        h5py.h5d.COMPACT: "compact",
        h5py.h5d.CONTIGUOUS: "contiguous",
        h5py.h5d.CHUNKED: "chunked",
        h5py.h5d.VIRTUAL: "virtual",
    }
    shape = given.shape
    return Member(
        given.name.strip("/"),
        shape,
        given.dtype,
        layouts.get(described.get_layout(), "unknown"),
        given.chunks,
        tuple(_filter_name(one) for one in _filters(described)),
        None if shape is None else dimension_names_of(given, len(shape)),
        int(given.id.get_storage_size()),
    )


def _filters(described: Any) -> list[tuple[Any, ...]]:
    return [described.get_filter(i) for i in range(described.get_nfilters())]


def _filter_name(one: tuple[Any, ...]) -> str:
    return _FILTERS.get(one[0]) or one[3].decode("utf-8", "replace").split(";")[0] or str(one[0])


# -- opening ---------------------------------------------------------------------------------------


def _open_data_set(path: str, inside: str) -> DataSet:
    """Open a data set of a file for reading.

    Raises
    ------
    ArrayNotFoundError
        There is none of this name, or no such file.
    InvalidArgumentError
        What has the name is a group of several data sets.
    UnsupportedError
        Elements of this type, or what they are encoded with, are not known; they are in another
        file; h5py is not installed.
    CorruptArrayError
        The metadata makes no sense, or the file is too short.
    ArrayBusyError, StorageError, StoragePermissionError
        It cannot be read.
    """
    with reading(path):
        file = _opened(path)
        keep = False
        try:
            given = _one(file, path, inside)
            name = f"{path}/{given.name.strip('/')}"
            member = _member(given)
            if member.shape is None:
                raise UnsupportedError(f"{name}: is empty: it has a type, but no shape")
            try:
                dtype = check_dtype(member.dtype, swapped=True)
                shape = check_shape(member.shape, dtype)
            except OutcropError as error:
                raise UnsupportedError(f"{name}: {error}") from None
            attributes = json.dumps(attributes_of(given))
            store = _in_place(path, name, given, member, shape, dtype, attributes)
            if store is None:
                _check_readable(path, name, given)
            fill = _fill_value(given, dtype)
            if store is None:
                _keep_in_mind(path, given)
                keep = True
            return DataSet(member, attributes, fill, store, given if keep else None)
        finally:
            if not keep:
                with suppress(Exception):
                    file.close()


def _fill_value(given: Any, dtype: np.dtype[Any]) -> np.generic | None:
    """The fill value, where one was asked for."""
    import h5py

    if given.id.get_create_plist().fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return None
    element: Any = np.asarray(given.fillvalue).astype(dtype.newbyteorder("="))[()]
    found: np.generic = element
    return found


def _in_place(
    path: str,
    name: str,
    given: Any,
    member: Member,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    attributes: str,
) -> _native.Store | None:
    """What reads elements that lie in the file as they are in memory; None where they do not."""
    import h5py

    described = given.id.get_create_plist()
    plain = (
        0 not in shape
        # Offsets behind a user block are told differently by different versions.
        and given.file.userblock_size == 0
        and described.get_external_count() == 0
        # Not packed, padded or with its parts in another order.
        and given.id.get_type().equal(h5py.h5t.py_create(given.dtype, logical=True))
    )
    if not plain:
        return None
    if member.layout == "contiguous":
        return _in_a_block(path, name, given, shape, dtype, attributes)
    if member.layout != "chunked" or member.chunks is None:
        return None
    grows = [axis for axis, most in enumerate(given.maxshape) if most is None]
    if len(grows) == 1 and grows != [0]:
        # HDF5 puts that axis first in its index of chunks, and says offsets in that order.
        return None
    grid = tuple(-(-n // c) for n, c in zip(shape, member.chunks, strict=True))
    codecs = _codecs(_filters(described), dtype.itemsize)
    if math.prod(grid) > MOST_CHUNKS or codecs is None:
        return None
    chunks = _chunks(name, given, member.chunks, grid)
    fill = np.asarray(given.fillvalue).astype(dtype.newbyteorder("=")).tobytes()
    if not codecs and (chunks[:, 1].all() or not any(fill)):
        # Elements as they are, of which parts are read; zeros where there is no chunk.
        padded, offsets = True, np.ascontiguousarray(chunks[:, 0])
        return _native.open_chunks(
            path, "r", DESCRIBED, shape, dtype.str, member.chunks, offsets, padded, attributes
        )
    if codecs and not _tells_whether_edges_are_filtered(chunks, shape, member.chunks, grid, given):
        return None
    return _native.open_encoded(
        path,
        "r",
        DESCRIBED,
        member.name,
        shape,
        dtype.str,
        member.chunks,
        chunks,
        json.dumps(codecs),
        fill,
        attributes,
    )


def _codecs(filters: Sequence[tuple[Any, ...]], itemsize: int) -> list[dict[str, Any]] | None:
    """Filters as Zarr's codecs; None where the compiled core has not all of them."""
    codecs = []
    for place, (number, _, values, _) in enumerate(filters):
        settings: dict[str, Any]
        match _FILTERS.get(number):
            case "deflate":
                name, settings = "numcodecs.zlib", {"level": min(values[0], 9) if values else 6}
            case "shuffle" if place == 0:
                # Later, there may be bytes that make no whole element.
                name, settings = "numcodecs.shuffle", {"elementsize": (*values, itemsize)[0]}
            case "fletcher32":
                name, settings = "numcodecs.fletcher32", {}
            case "zstd":
                name, settings = "zstd", {"level": 0, "checksum": False}
            case "blosc":
                name = "blosc"
                # Each chunk says itself what it is; these are for writing.
                settings = {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0}
            case _:
                return None
        codecs.append({"name": name, "configuration": settings})
    return codecs


def _tells_whether_edges_are_filtered(
    chunks: NDArray[np.uint64],
    shape: tuple[int, ...],
    chunk: Sequence[int],
    grid: tuple[int, ...],
    given: Any,
) -> bool:
    """Whether chunks at the edges have been through the filters as any other.

    A file may say that those which hang over have not, and ``h5py`` does not tell. They are as long
    as their elements then, which filters seldom make of them.
    """
    nbytes = math.prod(chunk) * given.dtype.itemsize
    hang_over = np.zeros(grid, bool)
    for axis, (n, c) in enumerate(zip(shape, chunk, strict=True)):
        if n % c:
            hang_over[(slice(None),) * axis + (-1,)] = True
    at_edges = chunks[hang_over.ravel()]
    return not ((at_edges[:, 1] == nbytes) & (at_edges[:, 2] == 0)).any()


def _in_a_block(
    path: str,
    name: str,
    given: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    attributes: str,
) -> _native.Store | None:
    offset = given.id.get_offset()
    if offset is None:
        # Nothing was written yet.
        return None
    nbytes, stored = math.prod(shape) * dtype.itemsize, given.id.get_storage_size()
    if stored != nbytes:
        raise CorruptArrayError(f"{name}: has {stored} bytes, and its elements are {nbytes}")
    return _native.open_file(path, "r", DESCRIBED, shape, dtype.str, offset, "C", attributes)


def _chunks(
    name: str, given: Any, chunk: Sequence[int], grid: tuple[int, ...]
) -> NDArray[np.uint64]:
    """Where each chunk begins in the file, its bytes, and bits of the filters that it went without.

    Of one that was never written all of this is 0. There are no checksums of chunks.
    """
    found: NDArray[np.uint64] = np.zeros((math.prod(grid), 4), np.uint64)
    found[:, 3] = NO_SUM
    nbytes = math.prod(chunk) * given.dtype.itemsize
    filters = given.id.get_create_plist().get_nfilters()

    def take(one: Any) -> None:
        at = [start // n for start, n in zip(one.chunk_offset, chunk, strict=True)]
        begins = all(start % n == 0 for start, n in zip(one.chunk_offset, chunk, strict=True))
        inside = all(0 <= i < n for i, n in zip(at, grid, strict=True))
        is_plain = one.filter_mask == (1 << filters) - 1
        sized = one.size == nbytes if is_plain else one.size > 0
        if not (begins and inside and one.byte_offset and sized):
            where = tuple(map(int, one.chunk_offset))
            raise CorruptArrayError(
                f"{name}: the chunk at {where}, of {one.size} bytes at offset "
                f"{one.byte_offset}, makes no sense in chunks of {nbytes} bytes"
            )
        place = int(np.ravel_multi_index(at, grid))
        if found[place, 0]:
            raise CorruptArrayError(f"{name}: has the chunk {tuple(at)} twice")
        found[place, :3] = one.byte_offset, one.size, one.filter_mask

    given.id.chunk_iter(take)
    there = found[found[:, 0] > 0]
    there = there[np.argsort(there[:, 0])]
    if (there[1:, 0] < there[:-1, 0] + there[:-1, 1]).any():
        raise CorruptArrayError(f"{name}: has chunks that lie over one another")
    return found


def _check_readable(path: str, name: str, given: Any) -> None:
    """Refuse what h5py cannot read, or would read from other files."""
    import h5py

    described = given.id.get_create_plist()
    for one in _filters(described):
        if not h5py.h5z.filter_avail(one[0]):
            raise UnsupportedError(
                f"{name}: its chunks are encoded with {_filter_name(one)} (filter {one[0]}), which "
                "h5py lacks; 'import hdf5plugin' brings many (pip install hdf5plugin)"
            )
    others = [
        os.fsdecode(described.get_external(i)[0]) for i in range(described.get_external_count())
    ]
    if given.is_virtual:
        for source in given.virtual_sources():
            if source.file_name != ".":
                others.append(source.file_name)
            elif not _is_plain(given.file, path, source.dset_name):
                others.append(f"by way of {source.dset_name}")
    if others:
        listed = ", ".join(sorted(set(others))[:_MOST_NAMED])
        raise UnsupportedError(
            f"{name}: its elements are in other files ({listed}), which are not followed; "
            "oc.asarray of the h5py.Dataset takes what h5py reads of them"
        )


def _is_plain(file: Any, path: str, name: str) -> bool:
    """Whether a data set has its elements in the file itself."""
    try:
        found = _found(file, path, name)
    except OutcropError:
        return False
    return (
        is_data_set(found)
        and not found.is_virtual
        and found.id.get_create_plist().get_external_count() == 0
    )
