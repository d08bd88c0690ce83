"""Turning a picture larger than memory, by Outcrop and by others, with the same memory.

Files are bare bytes (NumPy's memmap), Zarr (Dask) and PGM (pamflip, vips); cold, and synced at the
end. Pixels are compared for all eight orientations on a small picture.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import ALLOWANCE, MIB, Claim, arguments, cold, limited, measured, remove
from sides import environment
from sides.linear import attempt

import outcrop as oc

options = arguments(__doc__)
rows, columns = (11587, 23167) if options.quick else (46341, 92683)
memory = rows * columns // 8
limit = memory + ALLOWANCE
directory = options.directory
job = str(Path(__file__).parent / "sides" / "turn_job.py")
names = ("page.raw", "turned.raw", "page.pgm", "turned.pgm", "page.zarr", "turned.zarr", "turned.v")
page, turned, pgm, pgm_turned, tiles, tiles_turned, vips_turned = (directory / n for n in names)
remove(*(directory / name for name in names))

PATIENCE = 300
"""Seconds after which a rival is stopped. It counts with so many, the fewest that it takes."""
TRANSPOSE = f"oc.transpose(sys.argv[1], sys.argv[2], shape=({rows}, {columns}), dtype='u1')"
SMALL = 331, 517
FLIPS = {
    "transpose": ("-transpose", None),
    "rotate 90": ("-rotate90", "d270"),
    "rotate 180": ("-rotate180", "d180"),
    "rotate 270": ("-rotate270", "d90"),
    "flip 0": ("-topbottom", "vertical"),
    "flip 1": ("-leftright", "horizontal"),
    "transverse": ("-rotate90 -leftright", None),
    "nothing": ("-null", None),
}


def same_pixels() -> list[str]:
    """Orientations in which what others make is not what we make."""
    wrong = []
    with tempfile.TemporaryDirectory(dir=directory) as name:
        place = Path(name)
        picture = np.random.default_rng(5).integers(0, 256, SMALL, dtype="u1")
        oc.asarray(picture).save(place / "in.pgm")
        small = oc.open(place / "in.pgm")
        ours = {
            "transpose": oc.transpose(small),
            "rotate 90": oc.rotate(small),
            "rotate 180": oc.rotate(small, None, 180),
            "rotate 270": oc.rotate(small, None, 270),
            "flip 0": oc.flip(small, axis=0),
            "flip 1": oc.flip(small, axis=1),
            "transverse": oc.flip(oc.transpose(small)),
            "nothing": small,
        }
        for what, (pamflip, vips) in FLIPS.items():
            mine = ours[what].save(place / "mine.pgm", overwrite=True).compute()
            flags = {"transverse": ["-xform=transpose,leftright,topbottom"]}
            if shutil.which("pamflip"):
                command = ["pamflip", *flags.get(what, pamflip.split()), str(place / "in.pgm")]
                with (place / "other.pgm").open("wb") as out:
                    subprocess.run(command, stdout=out, check=True)
                if not np.array_equal(oc.open(place / "other.pgm").compute(), mine):
                    wrong.append(f"pamflip {what}")
            if vips is not None and shutil.which("vips"):
                verb = "rot" if vips.startswith("d") else "flip"
                where = [str(place / "in.pgm"), str(place / "vips.pgm")]
                subprocess.run(["vips", verb, *where, vips], check=True)
                if not np.array_equal(oc.open(place / "vips.pgm").compute(), mine):
                    wrong.append(f"vips {what}")
    return wrong


claim = Claim("Turning a picture of 4 GiB in an eighth of its size, and others", options)
rng = np.random.default_rng(1)
block = rng.integers(0, 256, 1009 * columns, dtype="u1")
for path, head in ((page, b""), (pgm, f"P5\n{columns} {rows}\n255\n".encode())):
    with path.open("wb") as file:
        file.write(head)
        for i in range(0, rows, 1009):
            file.write(block[: min(1009, rows - i) * columns].tobytes())
cold(page)
ours = measured(limit, memory, TRANSPOSE, str(page), str(turned))
remove(turned)
cold(pgm)
picture = measured(limit, memory, "oc.rotate(sys.argv[1], sys.argv[2])", str(pgm), str(pgm_turned))
remove(pgm_turned)
lines = [
    ["Outcrop, raw", f"{ours['seconds']:.1f} s"],
    ["Outcrop, PGM, rotated", f"{picture['seconds']:.1f} s"],
]


def other(name: str, seconds: float | None, why: str, own: float, floor: float | None) -> None:
    """A rival's time."""
    lines.append([name, f"{seconds:.1f} s" if seconds is not None else why])
    print(f"    {name}: {lines[-1][1]} (ours {own:.1f} s)")
    stopped = why.startswith("not done")
    if floor is not None and (seconds is not None or stopped):
        least = ", at least" if stopped else ""
        ratio = (PATIENCE if seconds is None else seconds) / own
        claim.row(f"time of {name} / ours{least}", [ratio], floor, floor, low=False)


best: tuple[float, int] | None = None
for side in (2048, 8192):
    cold(page)
    where = [str(page), str(turned), str(rows), str(columns), str(side)]
    patience = PATIENCE if best is None else best[0] * 1.5
    done, why = attempt(limit, [sys.executable, job, "memmap", *where], timeout=patience)
    remove(turned)
    if done is not None and (best is None or done["seconds"] < best[0]):
        best = done["seconds"], side
side = 0 if best is None else best[1]
name = f"NumPy memmap, blocks of {side}" if best else "NumPy memmap"
other(name, best and best[0], "" if best else why, ours["seconds"], 10.0)
remove(page)

python, said = environment.rivals(directory)
claim.note(f"others: {said}")
chunk = 2048
oc.open(pgm).save(tiles, tile=chunk, codecs="none")
for threads in (1, 2):
    cold(tiles)
    where = [str(tiles), str(tiles_turned), str(chunk), str(threads)]
    done, why = attempt(limit, [str(python), job, "dask", *where], timeout=PATIENCE)
    remove(tiles_turned)
    cold(tiles)
    mine = measured(
        limit,
        memory,
        "oc.transpose(sys.argv[1], sys.argv[2], tile=2048)",
        str(tiles),
        str(tiles_turned),
    )
    remove(tiles_turned)
    name = f"Dask, Zarr in tiles of {chunk}, {threads} threads"
    other(name, done and done["seconds"], why, mine["seconds"], 10.0)
remove(tiles)

for name, command in {
    "pamflip -rotate90": f"pamflip -rotate90 -memsize={memory // MIB} {pgm} > {pgm_turned}",
    "vips rot d270": f"vips rot {pgm} {vips_turned} d270",
}.items():
    if shutil.which(name.split()[0]) is None:
        claim.note(f"{name}: not installed")
        continue
    cold(pgm)
    try:
        temporary = {
            "env": {"TMPDIR": str(directory), "PATH": "/usr/bin:/bin"},
            "timeout": PATIENCE,
        }
        seconds, _ = limited(limit, ["sh", "-c", f"{command} && sync"], **temporary)
        other(name, seconds, "", picture["seconds"], None)
    except (subprocess.TimeoutExpired, SystemExit) as error:
        late = isinstance(error, subprocess.TimeoutExpired)
        why = f"not done after {PATIENCE} s" if late else str(error)[-60:]
        other(name, None, why, picture["seconds"], None)
    remove(pgm_turned, vips_turned)
remove(pgm)
wrong = same_pixels()
there = [tool for tool in ("pamflip", "vips") if shutil.which(tool)]
if there:
    differ = ", ".join(wrong) or "no orientation"
    claim.note(f"pixels differ from {' or '.join(there)} in: {differ}")
claim.table("seconds", ["who", "time"], lines)
claim.save()
if wrong:
    raise SystemExit(1)
