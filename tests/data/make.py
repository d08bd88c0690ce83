"""Makes the arrays of this folder, as the installed version of Outcrop writes them.

``python tests/data/make.py`` makes a folder for the version, or adds the arrays that it has not.
What is there stays as it is, since every later version has to read it. What each array holds is in
``tests/formats/test_stored_data.py``.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import outcrop as oc

NAMES: dict[str, Any] = {
    "dimension_names": ("y", "x"),
    "attributes": {"units": "m", "steps": [1, None, "µ"]},
}
OF_HDF5: dict[str, Any] = {
    "dimension_names": ("y", "x"),
    "attributes": {"units": "m", "steps": [1, 2, 3]},
}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [2, 3],
        "codecs": [LITTLE, ZSTD],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
    },
}

CHANGE = """
import sys
import numpy as np, outcrop as oc
from outcrop import _native
array = oc.open(sys.argv[1], "r+")
array[2:5] = -1 - np.arange(21.0).reshape(3, 7)
_native.inject_faults(f"rename:{sys.argv[2]}:kill:once")
array.close()
"""
"""Changes six of nine tiles, and is killed at a renaming: the first three are those of the index,
of ``zarr.json`` and of the decision."""


def ramp(shape: tuple[int, ...], dtype: str) -> Any:
    count = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return (count * (1 - 0.5j) if dtype.startswith("complex") else count / 2).astype(dtype)


def make(folder: Path) -> None:
    """Every array."""
    with oc.create(folder / "f8.zarr", (7, 5), tile=(3, 2), fill_value=-1.5, **NAMES) as array:
        # The last row of tiles is never written.
        array[:6] = ramp((6, 5), "f8")
    oc.asarray(ramp((3, 4, 5), "complex64")).save(
        folder / "c8.zarr", tile=(2, 3, 4), dimension_names=("t", None, "x"), attributes={"k": 1.5}
    )
    oc.asarray(np.float64(2.5)).save(folder / "point.zarr")
    oc.asarray(np.zeros((0, 4), "int32")).save(folder / "empty.zarr")
    for name, version, codecs in (
        ("v2-plain.zarr", 2, "none"),
        ("v2-zlib.zarr", 2, [{"id": "zlib", "level": 1}]),
        ("zstd.zarr", 3, [LITTLE, ZSTD]),
        ("sharded.zarr", 3, [SHARDS]),
    ):
        oc.asarray(ramp((7, 10), "int16")).save(
            folder / name, tile=(4, 6), zarr_format=version, codecs=codecs, **NAMES
        )
    oc.asarray(ramp((7, 10), "int16")).save(
        folder / "frontiers.zarr", tile=(4, 6), layout="frontier", thickness=2, **NAMES
    )
    oc.asarray(ramp((4, 6), "float32")).save(folder / "c.npy")
    oc.asarray(ramp((4, 6), "float32")).save(folder / "f.npy", order="F")
    oc.asarray(ramp((4, 6), "int64")).save(folder / "c.raw")
    oc.asarray(ramp((4, 6), "uint16")).save(folder / "grey.pgm")
    oc.asarray(ramp((4, 6, 3), "uint8")).save(folder / "colour.ppm")
    oc.asarray(ramp((4, 6), "uint16")).save(folder / "grey.tif")
    oc.asarray(ramp((5, 6), "float32")).save(folder / "chunks.h5/g/heat", tile=(2, 4), **OF_HDF5)
    for name, renaming in (("decided.zarr", 4), ("half-done.zarr", 7), ("undecided.zarr", 3)):
        oc.asarray(ramp((6, 7), "f8")).save(folder / name, tile=(2, 3))
        subprocess.run([sys.executable, "-c", CHANGE, folder / name, str(renaming)], check=False)
        assert (folder / name / ".outcrop-update").is_dir()


if __name__ == "__main__":
    place = Path(__file__).parent / ".".join(oc.__version__.split(".")[:2])
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        make(Path(made))
        for array in sorted(Path(made).iterdir()):
            if not (place / array.name).exists():
                (shutil.copytree if array.is_dir() else shutil.copy2)(array, place / array.name)
                print(f"new: {array.name}")
    names = (path for path in place.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    files = sorted(names)
    sums = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.relative_to(place)}" for f in files]
    (place / "SHA256SUMS").write_text("\n".join(sums) + "\n")
