"""A reader beside a busy writer sees the old state or the new one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc
from outcrop.arrays import assignment as _assign
from outcrop.arrays import source as _source
from outcrop.arrays import stored as _store

WRITER = """
import sys, time
import numpy as np, outcrop as oc
path, how, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end, k = time.monotonic() + seconds, 0
while time.monotonic() < end:
    k += 1
    if how == "changes":
        with oc.open(path, "r+") as A:
            A[...] = k
    elif how == "foreign":
        with oc.open(path, "r+") as A:
            A[...] = k
        # Readers need a pause that is longer than a read.
        time.sleep(0.03 * (k % 2))
    else:
        oc.asarray(np.full((400, 400), float(k))).save(path, tile=50, overwrite=True)
    print(k, flush=True)
"""


@pytest.mark.parametrize("how", ["changes", "replaces"])
def test_every_read_is_of_one_state(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    oc.asarray(np.zeros((400, 400))).save(path, tile=50)
    arguments = [sys.executable, "-c", WRITER, str(path), how, "3"]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    held, seen, reads = oc.open(path), set(), 0
    while writer.poll() is None:
        for found in (oc.open(path)[...], held[...], held[60:390:7, ::-3]):
            values = np.unique(found.compute())
            assert len(values) == 1, values
            seen.add(values[0])
            reads += 1
        for dtype in ("float32", "int64", "complex128"):
            values = np.unique(np.asarray(held, dtype))
            assert len(values) == 1, values
        blocks = [block for _, block in held.tiles()]
        assert all(len(np.unique(block)) == 1 for block in blocks)
    commits = len(writer.stdout.read().split())
    writer.stdout.close()
    assert writer.returncode == 0 and commits > 3 and reads > 3
    assert len(seen) > 1, "the reader has seen one state only"


def test_an_expression_is_of_its_state_or_stale(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    oc.asarray(np.zeros((400, 400))).save(path, tile=50)
    arguments = [sys.executable, "-c", WRITER, str(path), "changes", "3"]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    outcomes = set()
    while writer.poll() is None:
        A = oc.open(path)
        total = A.sum()
        try:
            # Elements are whole numbers, and all the same.
            assert total.compute() % A.size == 0
            outcomes.add("computed")
        except oc.StaleOperandError:
            outcomes.add("stale")
    assert writer.stdout is not None
    writer.stdout.close()
    assert "computed" in outcomes


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_what_changes_in_the_midst_is_read_again(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once half of it was read, all of it is another: as a whole it is the one or the other."""
    path = tmp_path / "a.zarr"
    oc.asarray(np.zeros((4000, 500))).save(path, tile=50)
    held = oc.open(path)
    ahead, times = _store.StoreSource.read_ahead, []

    def changing(*arguments: Any) -> Iterator[object]:
        for count, found in enumerate(ahead(*arguments)):
            yield found
            if count == 0 and not times:
                times.append(1)
                with oc.open(path, "r+") as changed:
                    changed[...] = 1

    monkeypatch.setattr(_store.StoreSource, "read_ahead", changing)
    for module in (_assign, _source, _store):
        monkeypatch.setattr(module, "piece_limit", lambda: 1 << 20)
    monkeypatch.setattr(_store, "_BATCH", 1)
    with oc.config(memory="64MiB"):
        # A view with steps is read in pieces, whatever its type.
        values = np.unique(np.asarray(held[::2], dtype))
    assert times and values.tolist() == [1], values


@pytest.mark.parametrize("codecs", ["zstd:1", "shards", "v2", "none"])
def test_every_read_without_an_index_is_of_one_state(codecs: str, tmp_path: Path) -> None:
    # Nothing in the chunks themselves says of which state they are.
    path = tmp_path / "a.zarr"
    options: dict[str, Any] = {"codecs": codecs}
    if codecs == "shards":
        inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
        sharding = {"chunk_shape": [25, 25], "codecs": inner, "index_codecs": inner}
        options = {"codecs": [{"name": "sharding_indexed", "configuration": sharding}]}
    elif codecs == "v2":
        options = {"codecs": [{"id": "zlib", "level": 1}], "zarr_format": 2}
    elif codecs == "none":
        options = {}
    oc.asarray(np.zeros((400, 400))).save(path, tile=50, **options)
    if codecs == "none":
        # As other programs write it.
        (path / ".outcrop-index").unlink()
        described = json.loads((path / "zarr.json").read_text())
        del described["outcrop"]
        (path / "zarr.json").write_text(json.dumps(described))
    arguments = [sys.executable, "-c", WRITER, str(path), "foreign", "4"]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    held, seen, reads = oc.open(path), set(), 0
    while writer.poll() is None:
        opened = oc.open(path)
        for found in (
            opened.compute(),
            np.asarray(held),
            np.asarray(held, "float32"),
            held[60:390:7, ::-3].compute(),
        ):
            values = np.unique(found)
            assert len(values) == 1, values
            seen.add(values[0])
            reads += 1
        try:
            saved = held.save(tmp_path / "b.npy", overwrite=True)
        except oc.ChangedArrayError:
            continue
        assert len(np.unique(saved)) == 1
    writer.stdout.close()
    assert writer.returncode == 0 and reads > 8
    assert len(seen) > 1, "the reader has seen one state only"
