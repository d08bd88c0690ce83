"""Copying a Zarr array costs no more than `cp -r` and `sync`; reading runs at the device's speed."""

from common import (
    ALLOWANCE,
    GIB,
    MIB,
    Claim,
    arguments,
    cold,
    fio,
    limited,
    make_array,
    measured,
    remove,
)

options = arguments(__doc__)
rows = 16384 // (8 if options.quick else 1)
size = rows * 32768 * 8
source, target = options.directory / "copy.zarr", options.directory / "copied.zarr"
reference, scratch = options.directory / "cp.zarr", options.directory / "fio.dat"
make_array(source, rows, 32768)
budget = 256 * MIB
limit = budget + ALLOWANCE
claim = Claim(f"Copy of {size / GIB:g} GiB, 8 MiB tiles, budget 256 MiB", options)
fio(scratch, size, "write", 8 * MIB, 4)

copies, reads, runs = [], [], []
for _ in range(options.rounds):
    remove(reference, target)
    cold(source)
    cp, _ = limited(limit, ["sh", "-c", f"cp -r {source} {reference} && sync"])
    remove(reference)
    cold(source)
    run = measured(
        limit, budget, "oc.open(sys.argv[1]).save(sys.argv[2])", str(source), str(target)
    )
    copies.append(run["seconds"] / cp)
    runs.append(run)
    cold(source)
    body = "from outcrop import _native\nassert not _native.open(sys.argv[1], 'r', None, None, None, 0, 'C').verify(False, None)"
    verify = measured(limit, budget, body, str(source))
    cold(scratch)
    sequential = fio(scratch, size, "read", MIB, 32)
    reads.append(size / verify["seconds"] / sequential)
    print(
        f"    cp + sync {cp:.2f} s, copy {run['seconds']:.2f} s, verify {verify['seconds']:.2f} s, "
        f"fio {sequential / 1e9:.2f} GB/s"
    )
claim.row("time of copy / time of cp -r + sync", copies, 1.0, 0.8, low=True)
claim.row("rate of reading and verifying / fio sequential 1 MiB x 32", reads, 0.85, 0.95, low=False)
for key, kernel in (("read", "kernel_read"), ("written", "kernel_written")):
    claim.row(
        f"bytes {key}: kernel / reported", [r[kernel] / r[key] for r in runs], 1.01, 1.001, low=True
    )
claim.row(
    "peak RSS / (budget + 200 MiB)", [r["peak_rss"] / limit for r in runs], 1.0, 1.0, low=True
)
claim.save()
remove(reference, target, scratch)
