"""The budget holds at every size, and the bytes reported are those the kernel counts."""

from common import ALLOWANCE, GIB, MIB, Claim, arguments, cold, make_array, measured, remove

options = arguments(__doc__)
rows = 16384 // (8 if options.quick else 1)
size = rows * 32768 * 8
zarr, npy, tiled = (options.directory / name for name in ("copy.zarr", "array.npy", "other.zarr"))
make_array(zarr, rows, 32768)
claim = Claim(f"Budgets of 64, 256 and 1024 MiB, {size / GIB:g} GiB", options)
save = "oc.open(sys.argv[1]).save(sys.argv[2], tile={tile})"
jobs = [
    ("copy", zarr, tiled, "None"),
    ("to .npy", zarr, npy, "None"),
    ("from .npy", npy, tiled, "None"),
    ("to odd tiles", zarr, tiled, "(700, 900)"),
]
for budget in (64 * MIB, 256 * MIB, 1024 * MIB):
    limit = budget + ALLOWANCE
    rss, read, written = [], [], []
    for name, source, target, tile in jobs:
        remove(target)
        cold(source)
        run = measured(limit, budget, save.format(tile=tile), str(source), str(target))
        assert run["peak_bytes"] <= budget, (name, run)
        rss.append(run["peak_rss"] / limit)
        read.append(run["kernel_read"] / run["read"])
        written.append(run["kernel_written"] / run["written"])
        print(
            f"    {budget // MIB} MiB, {name}: {run['seconds']:.2f} s, RSS {run['peak_rss'] / MIB:.0f} MiB, "
            f"read {run['read'] / GIB:.3f} GiB (kernel x {read[-1]:.4f}), "
            f"written {run['written'] / GIB:.3f} GiB (kernel x {written[-1]:.4f})"
        )
    claim.row(f"{budget // MIB} MiB: peak RSS / (budget + 200 MiB)", rss, 1.0, 1.0, low=True)
    claim.row(
        f"{budget // MIB} MiB: bytes read, kernel / reported", [max(read)], 1.01, 1.001, low=True
    )
    claim.row(
        f"{budget // MIB} MiB: bytes written, kernel / reported",
        [max(written)],
        1.01,
        1.001,
        low=True,
    )
claim.save()
remove(npy, tiled)
