"""Between `.npy` and Zarr at nearly the time of a direct copy, and bit-equal."""

from common import (
    ALLOWANCE,
    GIB,
    MIB,
    Claim,
    arguments,
    cold,
    limited,
    make_array,
    measured,
    remove,
)

options = arguments(__doc__)
rows = 16384 // (8 if options.quick else 1)
size = rows * 32768 * 8
zarr, copied, back = (
    options.directory / name for name in ("copy.zarr", "copied.zarr", "back.zarr")
)
npy, again = options.directory / "array.npy", options.directory / "again.npy"
make_array(zarr, rows, 32768)
budget = 256 * MIB
limit = budget + ALLOWANCE
claim = Claim(f"{size / GIB:g} GiB between .npy and Zarr with 8 MiB tiles, budget 256 MiB", options)
save = "oc.open(sys.argv[1]).save(sys.argv[2])"
# Other than by default: those of the original.
save_in_tiles = "oc.open(sys.argv[1]).save(sys.argv[2], tile=1024)"
to_npy, to_zarr, rss = [], [], []
for _ in range(options.rounds):
    remove(copied, back, npy, again)
    cold(zarr)
    direct = measured(limit, budget, save, str(zarr), str(copied))
    remove(copied)
    cold(zarr)
    out = measured(limit, budget, save, str(zarr), str(npy))
    cold(npy)
    into = measured(limit, budget, save_in_tiles, str(npy), str(back))
    to_npy.append(out["seconds"] / direct["seconds"])
    to_zarr.append(into["seconds"] / direct["seconds"])
    rss += [r["peak_rss"] / limit for r in (direct, out, into)]
    print(
        f"    direct {direct['seconds']:.2f} s, to npy {out['seconds']:.2f} s, to zarr {into['seconds']:.2f} s"
    )
claim.row("Zarr to .npy / direct copy", to_npy, 1.4, 1.1, low=True)
claim.row(".npy to Zarr / direct copy", to_zarr, 1.4, 1.1, low=True)
claim.row("peak RSS / (budget + 200 MiB)", rss, 1.0, 1.0, low=True)
# Bit-equal: the tiles' files, checksums included, are those of the original.
limited(
    limit,
    ["sh", "-c", f"diff -r {zarr}/c {back}/c && cmp {zarr}/.outcrop-index {back}/.outcrop-index"],
)
claim.note("bit-equal after both ways: every tile file and the index of checksums are identical")
claim.save()
remove(copied, back, npy, again)
