"""What comes with an array from elsewhere: links, and names of ours that somebody else prepared.

Nothing outside the array is read, moved or written, and reading changes nothing.
"""

import json
import os
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc
from outcrop import _native

pytestmark = pytest.mark.filterwarnings("ignore::outcrop.errors.OutcropWarning")

SHAPE, TILE = (40, 60), (10, 20)
VALUES = np.arange(40 * 60.0).reshape(SHAPE)
OTHER = -VALUES - 1

State = dict[str, tuple[int, bytes]]


def state(directory: Path) -> State:
    """Every name below a directory, with what it is and holds; times of change, too."""
    found: State = {}
    for place, folders, files in os.walk(directory):
        for name in [*folders, *files]:
            path = Path(place) / name
            meta = path.lstat()
            if stat.S_ISLNK(meta.st_mode):
                content = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(meta.st_mode):
                content = path.read_bytes()
            else:
                content = b""
            key = str(path.relative_to(directory))
            found[key] = (meta.st_mode, content + b" %d %d" % (meta.st_mtime_ns, meta.st_ino))
    return found


def make(path: Path, kind: str, values: np.ndarray = VALUES) -> Path:
    """An array of twelve tiles, of one kind: `ours`, `v2`, `v3` or `sharded`."""
    if kind == "ours":
        oc.asarray(values).save(path, tile=TILE)
        return path
    codecs: object = [{"id": "zlib", "level": 1}]
    if kind == "v3":
        codecs = [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    elif kind == "sharded":
        inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
        index = [*inner, {"name": "crc32c"}]
        sharding = {"chunk_shape": [5, 10], "codecs": inner, "index_codecs": index}
        codecs = [{"name": "sharding_indexed", "configuration": sharding}]
    version = 2 if kind == "v2" else 3
    with oc.create(path, values.shape, tile=TILE, codecs=codecs, zarr_format=version) as array:
        array[...] = values
    return path


@pytest.fixture(params=["ours", "v2", "v3", "sharded"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tile_of(kind: str) -> str:
    return "1.1" if kind == "v2" else "c/1/1"


def names_of(kind: str) -> list[str]:
    """What an array consists of."""
    if kind == "v2":
        return [".zarray", ".zattrs", "1.1"]
    index = [".outcrop-index"] if kind == "ours" else []
    return ["zarr.json", *index, "c", "c/1", "c/1/1"]


def use(path: Path) -> list[np.ndarray]:
    """Read an array in every way; errors are typed, and what is read is given back."""
    read = []
    for work in (
        lambda: oc.open(path).compute(),
        lambda: oc.open(path)[11:13, 21:23].compute(),
        lambda: oc.open(path, "r").attributes,
    ):
        with suppress(oc.OutcropError):
            read.append(work())
    with suppress(oc.OutcropError):
        store = _native.open(str(path), "r", None, None, None, 0, "C")
        store.verify(False, None)
        assert store.stored_bytes > 0
    return [values for values in read if isinstance(values, np.ndarray)]


def write(path: Path) -> None:
    """Change an array, as far as that is possible."""
    with suppress(oc.OutcropError), oc.open(path, "r+") as array:
        array[...] = 5


# -- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["outside", "within", "nowhere"])
def test_no_link_below_an_array_is_followed(tmp_path: Path, kind: str, to: str) -> None:
    for i, name in enumerate(names_of(kind)):
        array = make(tmp_path / f"{i}.zarr", kind)
        outside = tmp_path / f"outside-{i}"
        twin = make(tmp_path / f"twin-{i}.zarr", kind, OTHER)
        place = array / name
        moved = {"outside": outside, "within": array / "elsewhere", "nowhere": outside}[to]
        if to == "nowhere":
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        else:
            shutil.move(place, moved)
        place.symlink_to(os.path.relpath(moved, place.parent))
        if to == "outside":
            # Of another array, whose parts would all fit.
            shutil.rmtree(outside) if outside.is_dir() else outside.unlink()
            shutil.copytree(twin / name, outside) if (twin / name).is_dir() else shutil.copy(
                twin / name, outside
            )
        before = state(tmp_path)
        with pytest.raises(oc.OutcropError):
            oc.open(array).compute()
        assert use(array) in ([], [VALUES[11:13, 21:23]]), name
        assert state(tmp_path) == before, name
        write(array)
        after = {n: s for n, s in state(tmp_path).items() if not n.startswith(array.name)}
        assert after == {n: s for n, s in before.items() if not n.startswith(array.name)}, name


def test_what_the_user_names_may_be_a_link(tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").mkdir()
    make(tmp_path / "real" / "a.zarr", kind)
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "link.zarr").symlink_to("way/a.zarr")
    for path in (tmp_path / "way" / "a.zarr", tmp_path / "link.zarr"):
        np.testing.assert_array_equal(oc.open(path).compute(), VALUES)
    with oc.open(tmp_path / "link.zarr", "r+") as array:
        array[:10] = 3
    np.testing.assert_array_equal(
        oc.open(tmp_path / "real" / "a.zarr")[:11, 0].compute()[9:], [3, 600]
    )
    oc.asarray(OTHER).save(tmp_path / "link.zarr", overwrite=True)
    assert (tmp_path / "link.zarr").is_symlink()
    np.testing.assert_array_equal(oc.open(tmp_path / "real" / "a.zarr").compute(), OTHER)


@pytest.mark.parametrize("what", ["fifo", "directory", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str, what: str) -> None:
    for i, name in enumerate(n for n in names_of(kind) if n not in ("c", "c/1")):
        array = make(tmp_path / f"{i}.zarr", kind)
        place = array / name
        place.unlink()
        if what == "fifo":
            os.mkfifo(place)
        elif what == "directory":
            place.mkdir()
        else:
            try:
                os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
            except PermissionError:
                pytest.skip("only root makes devices")
        before = state(tmp_path)
        with pytest.raises(oc.OutcropError):
            oc.open(array).compute()
        use(array)
        assert state(tmp_path) == before
        write(array)


def test_removal_follows_no_link(tmp_path: Path, kind: str) -> None:
    """Leftovers, real and prepared, go; what they lead to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    make(outside / "b.zarr", kind)
    array = make(tmp_path / "a.zarr", kind)
    before = state(outside)
    for place in (array / ".outcrop-update", tmp_path / ".a.zarr.outcrop-new"):
        (place / "c").mkdir(parents=True)
        (place / "c" / "1").symlink_to(outside)
        (place / "link").symlink_to(outside / "b.zarr")
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    with oc.open(array, "r+") as changed:
        changed[...] = OTHER
    assert not (array / ".outcrop-update").exists()
    oc.asarray(VALUES).save(array, tile=TILE, overwrite=True)
    assert not (tmp_path / ".a.zarr.outcrop-new").exists()
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    assert state(outside) == before


def test_names_that_are_links_themselves(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    array = make(tmp_path / "a.zarr", kind)
    (tmp_path / ".a.zarr.outcrop-new").symlink_to("outside")
    before = state(outside)
    with pytest.raises(oc.OutcropError):
        oc.asarray(VALUES).save(array, overwrite=True)
    (tmp_path / ".a.zarr.outcrop-new").unlink()
    (array / ".outcrop-old").symlink_to("../outside")
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    with oc.open(array, "r+") as changed:
        changed[:10] = 1
    assert not (array / ".outcrop-old").is_symlink()
    assert state(outside) == before


# -- updates -----------------------------------------------------------------------------------


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def record(*runs: tuple[int, int], flags: int = 0, shape: tuple[int, ...] = SHAPE) -> bytes:
    body = b"OUTCRUPD" + struct.pack("<IIQQ", 1, flags, len(runs), len(shape))
    body += struct.pack(f"<{2 * len(shape)}Q", *shape, *TILE)
    for first, count in runs:
        body += struct.pack("<QQ", first, count)
    return body + struct.pack("<I", crc32c(body))


def link_in(update: Path, outside: Path, kind: str) -> None:
    """A file from outside would become a tile."""
    place = update / tile_of(kind)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside / "secret")


def link_of_a_folder(update: Path, outside: Path, kind: str) -> None:
    """A folder outside would be emptied into the array."""
    (update / "c").symlink_to(outside)


def link_itself(update: Path, outside: Path, kind: str) -> None:
    shutil.rmtree(update)
    update.symlink_to(outside)


def link_out(update: Path, outside: Path, kind: str) -> None:
    """A tile would be moved over a file outside."""
    array = update.parent
    if kind == "v2":
        (array / "1.1").unlink()
        (array / "1.1").symlink_to(outside / "secret")
    else:
        shutil.rmtree(array / "c")
        (array / "c").symlink_to(outside)
    place = update / tile_of(kind)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"x" * 100)


def other_names(update: Path, outside: Path, kind: str) -> None:
    (update / "evil.py").write_text("print()")
    (update / "c").mkdir()
    (update / "c" / "hook").write_text("print()")


def fifo(update: Path, outside: Path, kind: str) -> None:
    place = update / tile_of(kind)
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)


PREPARED: list[Callable[[Path, Path, str], None]] = [
    link_in,
    link_of_a_folder,
    link_itself,
    link_out,
    other_names,
    fifo,
]
RECORDS: dict[str, bytes] = {
    "empty": b"",
    "names": b"c/1/1\n../../outside/secret\n",
    "valid": record((4, 1)),
    "of all": record((0, 12), flags=3),
    "of another": record((0, 1), shape=(41, 60)),
    "beyond": record((0, 1 << 40)),
    "damaged": record((4, 1))[:-1] + b"?",
    "link": b"",
}


@pytest.mark.parametrize("prepare", PREPARED, ids=lambda f: f.__name__)
def test_an_update_that_somebody_prepared(
    tmp_path: Path, kind: str, prepare: Callable[[Path, Path, str], None]
) -> None:
    for i, (how, commit) in enumerate(RECORDS.items()):
        place = tmp_path / str(i)
        outside = place / "outside"
        (outside / "1").mkdir(parents=True)
        for name in ("secret", "1/1", "commit"):
            (outside / name).write_bytes(b"secret " * 100)
        array = make(place / "a.zarr", kind)
        update = array / ".outcrop-update"
        update.mkdir()
        prepare(update, outside, kind)
        if how == "link":
            if not update.is_symlink():
                (update / "commit").symlink_to(outside / "commit")
        else:
            (update / "commit").write_bytes(commit)
        before = state(place)
        for found in use(array):
            expected = VALUES if found.shape == SHAPE else VALUES[11:13, 21:23]
            np.testing.assert_array_equal(found, expected, str((how, prepare)))
        assert state(place) == before, how
        write(array)
        assert state(outside) == {
            n.removeprefix("outside/"): s for n, s in before.items() if n.startswith("outside/")
        }, how
        assert not [
            p
            for p in array.rglob("*")
            if p.name in ("evil.py", "hook") and ".outcrop-update" not in p.parts
        ], how
        # What of it was moved, if anything was, is a file of the array's own.
        assert not [
            p
            for p in array.rglob("*")
            if p.is_symlink() and ".outcrop-update" not in p.parts and prepare is not link_out
        ], how


def with_a_tile(array: Path, values: np.ndarray, commit: bytes) -> None:
    """A change of tile (1, 1) that somebody prepared."""
    make(array.with_name("other.zarr"), "ours", values)
    place = array / ".outcrop-update" / tile_of("ours")
    place.parent.mkdir(parents=True)
    shutil.copy(array.with_name("other.zarr") / tile_of("ours"), place)
    (array / ".outcrop-update" / "commit").write_bytes(commit)


@pytest.mark.parametrize("flags", [0, 1, 2])
def test_a_change_without_its_index_is_none(tmp_path: Path, flags: int) -> None:
    """Its tile did not fit the index, and readers were told to open the array again, for ever."""
    array = make(tmp_path / "a.zarr", "ours")
    with_a_tile(array, OTHER, record((4, 1), flags=flags))
    before = state(array)
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    with pytest.raises(oc.CorruptArrayError, match=r"a\.zarr: \.outcrop-update .* leaves out"):
        oc.open(array, "r+")
    assert state(array) == before


@pytest.mark.parametrize("commit", ["garbage", "decided"])
def test_a_damaged_tile_beside_a_change_is_damaged(tmp_path: Path, commit: str) -> None:
    """What is under way when an array is opened is no reason to open it again."""
    array = make(tmp_path / "a.zarr", "ours")
    damaged = array / tile_of("ours")
    if commit == "garbage":
        with_a_tile(array, OTHER, b"garbage")
    else:
        cut_short(array, 4)
        damaged = array / ".outcrop-update" / tile_of("ours")
    shutil.copy(damaged.with_name("0"), damaged)
    for _ in range(2):
        opened = oc.open(array)
        for _ in range(2):
            with pytest.raises(oc.CorruptArrayError, match=r"tile \(1, 1\).*not the one recorded"):
                opened.compute()


def test_metadata_that_others_made_anew_is_no_change(tmp_path: Path) -> None:
    """The index that they left tells the tiles, and not that the array has changed."""
    array = make(tmp_path / "a.zarr", "ours")
    text = json.loads((array / "zarr.json").read_text())
    del text["outcrop"]
    (array / "zarr.json").write_text(json.dumps(text))
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    shutil.copy(array / "c" / "1" / "0", array / tile_of("ours"))
    with pytest.raises(oc.CorruptArrayError, match=r"tile \(1, 1\).*not the one recorded"):
        oc.open(array).compute()


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=120), sound=st.booleans(), at=st.integers(0, 119))
def test_any_record_is_refused_or_carried_out_whole(
    tmp_path: Path, data: bytes, sound: bool, at: int
) -> None:
    array = tmp_path / "a.zarr"
    if not array.exists():
        make(array, "ours")
    body = bytearray(record((4, 1))[:-4])
    body[at % len(body) :] = data
    commit = bytes(body) + (struct.pack("<I", crc32c(bytes(body))) if sound else data[:4])
    update = array / ".outcrop-update"
    update.mkdir(exist_ok=True)
    (update / "commit").write_bytes(commit)
    before = state(tmp_path)
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    assert state(tmp_path) == before
    # Carried out, since it lists what is there already, or refused and left.
    with suppress(oc.CorruptArrayError), oc.open(array, "r+"):
        pass
    np.testing.assert_array_equal(oc.open(array).compute(), VALUES)


def test_commands_that_read_change_nothing(tmp_path: Path) -> None:
    array = make(tmp_path / "a.zarr", "ours")
    (tmp_path / "secret").write_bytes(b"secret")
    link_in(array / ".outcrop-update", tmp_path, "ours")
    (array / ".outcrop-update" / "commit").write_bytes(b"")
    before = state(tmp_path)
    for command in ("info", "verify"):
        ended = subprocess.run(
            [sys.executable, "-m", "outcrop", command, array],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stderr
    assert state(tmp_path) == before


# Changes all tiles, and is killed at a renaming: the first three are those of the index, of
# zarr.json and of the decision.
WRITER = """
import sys, warnings
import numpy as np
import outcrop as oc
from outcrop import _native
from outcrop.errors import OutcropWarning
warnings.simplefilter("ignore", OutcropWarning)
oc.config(memory="8MiB")
array = oc.open(sys.argv[1], "r+")
array[:35] = -np.arange(35 * 60.0).reshape(35, 60) - 1
_native.inject_faults(f"rename:{sys.argv[2]}:kill:once")
array.close()
"""
CHANGED = np.concatenate([OTHER[:35], VALUES[35:]])


def cut_short(array: Path, nth: int) -> None:
    subprocess.run([sys.executable, "-c", WRITER, array, str(nth)], check=False, timeout=60)
    assert (array / ".outcrop-update" / "commit").exists()


@pytest.fixture(params=[0, 1, 5, 11, 13])
def moved(request: pytest.FixtureRequest) -> int:
    """How many files had been renamed when the writer was killed."""
    return int(request.param)


def test_a_decided_update_is_read_where_it_lies(tmp_path: Path, kind: str, moved: int) -> None:
    array = make(tmp_path / "a.zarr", kind)
    # Behind twelve tiles come the index and zarr.json, where they are replaced.
    cut_short(array, 4 + moved if kind == "ours" else 2 + min(moved, 11))
    before = state(tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(oc.open(array).compute(), CHANGED)
        np.testing.assert_array_equal(oc.open(array)[9:31:3, 7].compute(), CHANGED[9:31:3, 7])
        assert len(use(array)) == 2
        oc.open(array).save(tmp_path / "copy.zarr", overwrite=True)
        np.testing.assert_array_equal(oc.open(tmp_path / "copy.zarr").compute(), CHANGED)
        shutil.rmtree(tmp_path / "copy.zarr")
    assert state(array) == {
        n.removeprefix("a.zarr/"): s for n, s in before.items() if n.startswith("a.zarr/")
    }
    # An open reader goes on while it is carried out.
    reader = oc.open(array)
    with oc.open(array, "r+") as writer:
        np.testing.assert_array_equal(writer.compute(), CHANGED)
    assert not (array / ".outcrop-update").exists()
    np.testing.assert_array_equal(reader.compute(), CHANGED)
    np.testing.assert_array_equal(oc.open(array).compute(), CHANGED)


def test_a_decided_update_on_a_read_only_mount(tmp_path: Path, kind: str) -> None:
    origin, mounted = tmp_path / "origin", tmp_path / "mounted"
    origin.mkdir()
    mounted.mkdir()
    cut_short(make(origin / "a.zarr", kind), 6)
    for command in (["--bind", str(origin)], ["-o", "remount,ro,bind"]):
        mount = ["mount", *command, str(mounted)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no read-only mount is possible here")
    try:
        np.testing.assert_array_equal(oc.open(mounted / "a.zarr").compute(), CHANGED)
        with pytest.raises(oc.OutcropError):
            oc.open(mounted / "a.zarr", "r+")
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


@pytest.fixture
def _root() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    yield


@pytest.mark.usefixtures("_root")
def test_an_update_of_another_user(tmp_path: Path, kind: str) -> None:
    array = make(tmp_path / "a.zarr", kind)
    cut_short(array, 4 if kind == "ours" else 2)
    os.chown(array / ".outcrop-update", 12345, -1)
    before = state(tmp_path)
    if kind == "ours":
        np.testing.assert_array_equal(oc.open(array).compute(), VALUES)
    else:
        # Nobody can say which chunks are old.
        with pytest.raises(oc.CorruptArrayError, match=r"\.outcrop-update.*belongs to user 12345"):
            oc.open(array)
    with pytest.raises(oc.CorruptArrayError, match=r"\.outcrop-update.*belongs to user 12345"):
        oc.open(array, "r+")
    assert state(tmp_path) == before
    # It is that of whoever owns the array.
    os.chown(array, 12345, -1)
    np.testing.assert_array_equal(oc.open(array).compute(), CHANGED)


def test_a_decided_update_of_which_a_part_is_gone(tmp_path: Path, kind: str) -> None:
    array = make(tmp_path / "a.zarr", kind)
    cut_short(array, 6)
    name = "2.2" if kind == "v2" else "c/2/2"
    (array / ".outcrop-update" / name).unlink()
    (array / name).unlink()
    before = state(tmp_path)
    with pytest.raises(oc.CorruptArrayError, match=rf"{name}.*missing|missing.*{name}"):
        oc.open(array, "r+")
    with pytest.raises(oc.CorruptArrayError, match="missing"):
        oc.open(array).compute()
    assert state(tmp_path) == before
