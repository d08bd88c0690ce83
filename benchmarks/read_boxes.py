"""Boxes of a row-major file, and single tiles in any order, come at the device's speed."""

from common import ALLOWANCE, GIB, MIB, Claim, arguments, cold, fio, make_array, outcrop

options = arguments(__doc__)
side = 65536 // (4 if options.quick else 1)
raw, tiles = (options.directory / name for name in ("boxes.raw", "copy.zarr"))
size = side * side
claim = Claim(
    f"Boxes of {side} x {side // 4} B of a row-major u8 file of {size / GIB:g} GiB", options
)
if not raw.exists() or raw.stat().st_size != size:
    body = (
        "before = io(); start = time.perf_counter()\n"
        f"oc.fromfunction(lambda i, j: (i ^ j).astype('u1'), ({side}, {side}), 'u1').save(sys.argv[1], overwrite=True)\n"
        "seconds = time.perf_counter() - start; report()"
    )
    outcrop(2 * GIB, 256 * MIB, body, str(raw))
budget = size // 4 + 128 * MIB
limit = budget + ALLOWANCE
width = side // 4
# Two boxes are measured. One before them makes the process's memory warm, so that what is measured
# is reading and not the machine's first touch of its pages; its time is shown, too.
body = f"""
A = oc.open(sys.argv[1], shape=({side}, {side}), dtype="u1")
times = []
for first in (0, {width}, {3 * width}):
    if len(times) == 1:
        before = io()
    start = time.perf_counter()
    box = A[:, first:first + {width}].compute()
    times.append(time.perf_counter() - start)
    assert box.shape == ({side}, {width}) and box[5, 7] == ((5 ^ (first + 7)) & 255)
    del box
seconds = sum(times[1:])
report(first=times[0])
"""
boxes = []
for _ in range(options.rounds):
    cold(raw)
    run = outcrop(limit, budget, body, str(raw))
    cold(raw)
    reference = max(fio(raw, size, "randread", 16384, depth) for depth in (64, 256))
    rate = 2 * side * width / run["seconds"]
    boxes.append(rate / reference)
    print(
        f"    boxes {rate / 1e9:.2f} GB/s (the first {side * width / run['first'] / 1e9:.2f}), "
        f"fio random 16 KiB {reference / 1e9:.2f} GB/s"
    )
claim.row(
    "rate of boxes / best of fio random 16 KiB, depth 64 and 256", boxes, 0.8, 0.95, low=False
)

rows = 16384 // (8 if options.quick else 1)
make_array(tiles, rows, 32768)
budget, random = 256 * MIB, []
body = f"""
A = oc.open(sys.argv[1])
order = np.random.default_rng(1).permutation({rows // 1024 * 32})
boxes = [((int(k) // 32 * 1024, int(k) % 32 * 1024), (1024, 1024)) for k in order]
from outcrop import _native
S = _native.open(sys.argv[1], "r", None, None, None, 0, "C")
before = io(); start = time.perf_counter()
count = 0
for block in S.reader(boxes):
    count += block.nbytes
seconds = time.perf_counter() - start
report(count=count)
"""
for _ in range(options.rounds):
    cold(tiles)
    run = outcrop(budget + ALLOWANCE, budget, body, str(tiles))
    cold(raw)
    reference = fio(raw, size, "randread", MIB, 32)
    random.append(run["count"] / run["seconds"] / reference)
    print(
        f"    tiles {run['count'] / run['seconds'] / 1e9:.2f} GB/s, fio random 1 MiB {reference / 1e9:.2f} GB/s"
    )
claim.row("rate of random 8 MiB tiles / fio random 1 MiB x 32", random, 0.85, 0.95, low=False)
claim.save()
