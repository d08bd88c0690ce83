"""xarray with our arrays underneath: files it opens, what it computes, and what it writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import outcrop as oc

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata:UserWarning",
    "ignore:The data type:FutureWarning",
    "ignore:.*does not have a Zarr V3 specification",
    "ignore:Numcodecs codecs:UserWarning",
)

TIMES, LATS, LONS = 240, 60, 80
SHAPE = TIMES, LATS, LONS


@pytest.fixture(autouse=True)
def little_memory() -> Any:
    """Less than half of an array."""
    with oc.config(memory="2MiB", threads=2):
        yield


def plain() -> xr.Dataset:
    """Temperatures, with something missing, a mask, text and times, in memory."""
    chance = np.random.default_rng(0)
    made = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), chance.normal(280, 5, SHAPE).astype("f4")),
            "mask": (("lat", "lon"), chance.random(SHAPE[1:]) > 0.3),
            "name": ("lat", [f"row {i}" for i in range(LATS)]),
        },
        coords={
            "time": pd.date_range("2000-01-01", periods=TIMES, freq="MS"),
            "lat": np.linspace(-90, 90, LATS),
            "lon": np.linspace(0, 359, LONS),
        },
        attrs={"title": "a test"},
    )
    made.t2m.attrs["units"] = "K"
    made.t2m[3, 4, 5] = np.nan
    return made


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("xarray")
    with pytest.MonkeyPatch.context():
        for version in (2, 3):
            plain().to_zarr(place / f"v{version}.zarr", zarr_format=version, consolidated=False)
    return place


def loaded(made: Any) -> Any:
    """In memory, with room for it."""
    with oc.config(memory="64MiB"):
        return made.compute()


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_is_a_dataset(stored: Path, version: int) -> None:
    path = stored / f"v{version}.zarr"
    ours = xr.open_dataset(path, engine="outcrop")
    assert isinstance(ours.t2m.data, oc.Array)
    assert ours.t2m.chunks == ours.t2m.data.chunks
    assert isinstance(loaded(ours).t2m.data, np.ndarray)
    with xr.open_dataset(path, engine="zarr", chunks=None, consolidated=False) as theirs:
        xr.testing.assert_identical(loaded(ours), theirs.load())
    few = xr.open_dataset(path, engine="outcrop", drop_variables=["t2m", "name"])
    assert set(few.data_vars) == {"mask"}


@pytest.mark.parametrize("chunks", [{}, {"time": 120}, "auto"])
def test_chunks_are_what_results_are_stored_in(stored: Path, tmp_path: Path, chunks: Any) -> None:
    path = stored / "v3.zarr"
    for engine in ("outcrop", "zarr"):
        more = {"consolidated": False} if engine == "zarr" else {}
        made = xr.open_dataset(
            path, engine=engine, chunks=chunks, chunked_array_type="outcrop", **more
        )
        assert isinstance(made.t2m.data, oc.Array)
        if chunks == {"time": 120}:
            assert made.t2m.chunks[0] == (120, 120)
    made = made[["t2m"]].drop_encoding()
    with oc.config(memory="8MiB"):
        made.to_zarr(tmp_path / "new.zarr", consolidated=False)
    array = zarr.open_array(tmp_path / "new.zarr" / "t2m")
    assert array.chunks == tuple(extents[0] for extents in made.t2m.chunks)
    np.testing.assert_array_equal(array[...], plain().t2m)


JOBS: dict[str, Callable[[xr.Dataset], Any]] = {
    "mean": lambda d: d.t2m.mean("time"),
    "mean of all": lambda d: d.t2m.mean("time", skipna=False),
    "std": lambda d: d.t2m.std("time"),
    "variance": lambda d: d.t2m.var("time", ddof=1),
    "maximum": lambda d: d.t2m.max(),
    "sum": lambda d: d.t2m.sum(("lat", "lon")),
    "median": lambda d: d.t2m.median("time"),
    "quantiles": lambda d: d.t2m.quantile([0.1, 0.9], "time"),
    "anomaly": lambda d: d.t2m - d.t2m.mean("time"),
    "by month": lambda d: d.t2m.groupby("time.month").mean(),
    "anomaly by month": lambda d: d.t2m.groupby("time.month") - d.t2m.groupby("time.month").mean(),
    "by year": lambda d: d.t2m.resample(time="YS").mean(),
    "first of a year": lambda d: d.t2m.groupby("time.year").first(),
    "bins": lambda d: d.t2m.groupby_bins("lat", [-90, 0, 90]).mean(),
    "rolling": lambda d: d.t2m.rolling(time=3).mean(),
    "coarser": lambda d: d.t2m.coarsen(lat=4, lon=4).mean(),
    "where": lambda d: d.t2m.where(d.mask),
    "either": lambda d: xr.where(d.t2m > 280, d.t2m, 0),
    "selected": lambda d: d.t2m.sel(lat=slice(0, 40), lon=[0, 359]),
    "picked": lambda d: d.t2m.isel(time=[3, 1, 2], lat=slice(None, None, -1)),
    "interpolated": lambda d: d.t2m.interp(lat=[1.0, 2.0, 3.0]),
    "differences": lambda d: d.t2m.diff("time"),
    "gradient": lambda d: d.t2m.differentiate("lat"),
    "integral": lambda d: d.t2m.fillna(0).integrate("lat"),
    "running sum": lambda d: d.t2m.cumsum("time"),
    "shifted": lambda d: d.t2m.shift(time=2),
    "rolled": lambda d: d.t2m.roll(lon=5),
    "padded": lambda d: d.t2m.pad(lat=2, constant_values=0),
    "without gaps": lambda d: d.t2m.dropna("time"),
    "where it is most": lambda d: d.t2m.argmax("time"),
    "weighted": lambda d: d.t2m.weighted(np.cos(np.deg2rad(d.lat))).mean(("lat", "lon")),
    "product": lambda d: xr.dot(d.t2m.fillna(0), d.t2m.mean("time"), dim=("lat", "lon")),
    "correlation": lambda d: xr.corr(d.t2m, d.t2m.mean(("lat", "lon")), "time"),
    "stacked": lambda d: d.t2m.stack(p=("lat", "lon")),
    "there and back": lambda d: d.t2m.stack(p=("lat", "lon")).unstack("p"),
    "joined": lambda d: xr.concat([d.t2m, d.t2m], "time"),
    "transposed": lambda d: d.t2m.transpose("lon", "time", "lat"),
    "constant": lambda d: xr.full_like(d.t2m, 3.0),
    "zeros": lambda d: xr.zeros_like(d.t2m),
    "ufunc": lambda d: np.exp(d.t2m / 300),
    "missing": lambda d: d.t2m.isnull().sum("time"),
    "several": lambda d: d[["t2m", "mask"]].mean(("lat", "lon")),
    "lines": lambda d: xr.apply_ufunc(
        np.ptp,
        d.t2m,
        input_core_dims=[["time"]],
        kwargs={"axis": -1},
        dask="parallelized",
        output_dtypes=["f4"],
        dask_gufunc_kwargs={"allow_rechunk": True},
    ),
    "lines of two": lambda d: xr.apply_ufunc(
        lambda x, y: (x * y).sum(-1),
        d.t2m,
        d.t2m.mean("time").expand_dims(time=TIMES).astype("f8"),
        input_core_dims=[["time"], ["time"]],
        dask="parallelized",
        output_dtypes=["f8"],
        dask_gufunc_kwargs={"allow_rechunk": True},
    ),
    "line by line": lambda d: xr.apply_ufunc(
        lambda x: np.sort(x)[:3],
        d.t2m.isel(lat=slice(0, 5), lon=slice(0, 5)),
        input_core_dims=[["time"]],
        output_core_dims=[["k"]],
        vectorize=True,
        dask="parallelized",
        output_dtypes=["f4"],
        dask_gufunc_kwargs={"allow_rechunk": True, "output_sizes": {"k": 3}},
    ),
    "element by element": lambda d: xr.apply_ufunc(np.sqrt, d.t2m, dask="parallelized"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("job", JOBS)
def test_what_is_computed(stored: Path, job: str) -> None:
    ours = JOBS[job](xr.open_dataset(stored / "v3.zarr", engine="outcrop"))
    for variable in ours.data_vars.values() if isinstance(ours, xr.Dataset) else [ours]:
        assert isinstance(variable.data, oc.Array)
    expected = JOBS[job](plain())
    xr.testing.assert_allclose(loaded(ours), expected, rtol=1e-4, atol=2e-3)


def test_what_is_weighted_by_numbers_in_memory_is_read_once(stored: Path) -> None:
    """xarray's sums copy what has the type already, and a copy was computed to scratch."""
    data = xr.open_dataset(stored / "v3.zarr", engine="outcrop").t2m
    weights = xr.DataArray(np.arange(TIMES, dtype="f4"), dims="time")
    trend = (data * weights).sum("time")
    plan = oc.plan(trend.data)
    assert plan.bytes_read < 1.05 * oc.plan(data.data.sum()).bytes_read
    xr.testing.assert_allclose(trend.compute(), (plain().t2m * weights).sum("time"), rtol=1e-4)


def test_anomalies_are_stored_in_the_chunks_of_their_source(stored: Path, tmp_path: Path) -> None:
    """Default chunks of what is computed lay across those of its source."""
    data = xr.open_dataset(stored / "v3.zarr", engine="outcrop").t2m
    months = data.groupby("time.month")
    anomaly = months - months.mean()
    assert anomaly.chunks == (data * 2).chunks
    assert all(
        set(own) <= set(whole) or max(own) < max(whole)
        for own, whole in zip(anomaly.chunks, data.chunks, strict=True)
    )
    with oc.config(memory="4MiB"):
        xr.Dataset({"t2m": anomaly.drop_vars("month")}).to_zarr(tmp_path / "a", consolidated=False)
    run, once = oc.last_run(), oc.plan(data.data.sum()).bytes_read
    assert run is not None and run.bytes_read <= 2.1 * once
    found = zarr.open_array(tmp_path / "a" / "t2m")[...]
    months = plain().t2m.groupby("time.month")
    np.testing.assert_allclose(found, months - months.mean(), rtol=1e-3, atol=2e-3)


def test_several_results_are_one_plan(stored: Path) -> None:
    data = xr.open_dataset(stored / "v3.zarr", engine="outcrop").t2m
    once = oc.plan(data.data.sum()).bytes_read
    both = xr.Dataset({"mean": data.mean("time"), "most": data.max("time")}).compute()
    run = oc.last_run()
    assert run is not None
    assert run.bytes_read <= 1.05 * once
    xr.testing.assert_allclose(both["mean"], plain().t2m.mean("time"), atol=1e-3)
    xr.testing.assert_allclose(both["most"], plain().t2m.max("time"))


@pytest.mark.parametrize("version", [2, 3])
def test_datasets_are_written_by_one_plan(stored: Path, tmp_path: Path, version: int) -> None:
    data = xr.open_dataset(stored / "v3.zarr", engine="outcrop")[["t2m"]]
    made = data - data.mean("time")
    made["far"] = abs(made.t2m) > 5
    with pytest.MonkeyPatch.context() as patch:
        runs: list[Any] = []
        patch.setattr("outcrop.xarray_plugin.storing.into", _noting(runs))
        made.to_zarr(tmp_path / "new.zarr", zarr_format=version)
    assert runs == [2]
    with xr.open_zarr(tmp_path / "new.zarr", chunks=None) as back:
        expected = plain().t2m - plain().t2m.mean("time")
        np.testing.assert_allclose(back.t2m, expected, atol=1e-3)
        np.testing.assert_array_equal(back.far, abs(back.t2m) > 5)
        assert back.far.dtype == bool
    again = xr.open_dataset(tmp_path / "new.zarr", engine="outcrop")
    assert again.t2m.dims == ("time", "lat", "lon")


def _noting(runs: list[Any]) -> Any:
    from outcrop.expressions.build.saving import into

    def noting(arrays: Any, stores: Any) -> None:
        runs.append(len(arrays))
        into(arrays, stores)

    return noting


def test_regions_and_what_is_written_later(stored: Path, tmp_path: Path) -> None:
    made = xr.open_dataset(stored / "v3.zarr", engine="outcrop")[["t2m"]] * 2
    path = tmp_path / "new.zarr"
    made.isel(time=slice(0, 90)).to_zarr(path, consolidated=False)
    made.isel(time=slice(90, None)).to_zarr(
        path, append_dim="time", safe_chunks=False, consolidated=False
    )
    expected = plain().t2m * 2
    np.testing.assert_array_equal(zarr.open_array(path / "t2m")[...], expected)
    patch = (made * 0).isel(time=slice(5, 7)).drop_vars(["lat", "lon"])
    patch.to_zarr(path, region={"time": slice(5, 7)}, safe_chunks=False, consolidated=False)
    expected[5:7] *= 0
    np.testing.assert_array_equal(zarr.open_array(path / "t2m")[...], expected)
    later = made.to_zarr(tmp_path / "later.zarr", compute=False, consolidated=False)
    later.compute()
    found = zarr.open_array(tmp_path / "later.zarr" / "t2m")[...]
    np.testing.assert_array_equal(found, plain().t2m * 2)
    made.isel(time=slice(3)).to_netcdf(tmp_path / "new.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "new.nc", engine="scipy") as back:
        np.testing.assert_array_equal(back.t2m, plain().t2m[:3] * 2)


def test_what_fails_leaves_no_elements(stored: Path, tmp_path: Path) -> None:
    data = xr.open_dataset(stored / "v3.zarr", engine="outcrop")[["t2m"]].drop_encoding()

    def fails(block: Any) -> Any:
        raise RuntimeError("on purpose")

    made = data.copy(data={"t2m": oc.map(fails, data.t2m.data, dtype="f4")})
    with pytest.raises(RuntimeError, match="on purpose"):
        made.to_zarr(tmp_path / "new.zarr", consolidated=False)
    assert not list((tmp_path / "new.zarr" / "t2m").glob("c/*"))
    assert not [p for p in tmp_path.rglob("*") if "outcrop" in p.name]


@pytest.fixture
def netcdf(tmp_path: Path) -> Path:
    """What netCDF4 makes of integers that stand for temperatures, of times and of text."""
    path = tmp_path / "sea.nc"
    chance = np.random.default_rng(0)
    raw = chance.integers(-3000, 3000, (60, 40, 50)).astype("i2")
    raw[3, 4, 5] = -32768
    with h5py.File(path, "w") as file:
        scales = []
        for name, values in {
            "time": np.arange(60.0),
            "lat": np.linspace(-90, 90, 40),
            "lon": np.linspace(0, 359, 50),
        }.items():
            scales.append(file.create_dataset(name, data=values))
            scales[-1].make_scale(name)
        file["time"].attrs["units"] = "days since 2000-01-01"
        packed = file.create_dataset(
            "t2m", data=raw, chunks=(20, 20, 25), compression="gzip", shuffle=True
        )
        packed.attrs.update(
            scale_factor=np.array([0.01], "f4"),
            add_offset=np.array([280.0], "f4"),
            _FillValue=np.array([-32768], "i2"),
            units="K",
        )
        deep = file.create_dataset("deep/u10", data=chance.normal(size=raw.shape).astype("f4"))
        for one in (packed, deep):
            for axis, scale in enumerate(scales):
                one.dims[axis].attach_scale(scale)
        file.create_dataset(
            "ports", data=np.array(["Aden", "Oslo"], object), dtype=h5py.string_dtype()
        )
        file.create_dataset("half", data=np.ones(2, "f2"))
        only = file.create_dataset("bound", data=np.zeros(2))
        only.make_scale("This is a netCDF dimension but not a netCDF variable.         2")
        file.attrs["title"] = "a sea"
    return path


def test_netcdf(netcdf: Path) -> None:
    ours = xr.open_dataset(netcdf, engine="outcrop")
    assert isinstance(ours.t2m.data, oc.Array)
    assert ours.t2m.dims == ("time", "lat", "lon")
    assert set(ours.data_vars) == {"t2m", "ports", "half"}
    assert ours.half.dtype == np.float16
    assert ours.ports.values.tolist() == ["Aden", "Oslo"]
    assert ours.attrs == {"title": "a sea"}
    plain = xr.open_dataset(netcdf, engine="outcrop", mask_and_scale=False, decode_times=False)
    assert plain.t2m.dtype == np.int16
    # xarray's own decoding of what is in memory.
    expected = xr.decode_cf(loaded(plain))
    xr.testing.assert_identical(loaded(ours), expected)
    assert ours.t2m.dtype == np.float32
    assert ours.t2m.encoding["chunksizes"] == (20, 20, 25)
    mean = ours.t2m.mean("time").compute()
    np.testing.assert_allclose(mean, expected.t2m.mean("time"), rtol=1e-5)
    inner = xr.open_dataset(netcdf, engine="outcrop", group="deep")
    assert inner.u10.dims == ("time", "lat", "lon")
    again = xr.open_dataset(netcdf, engine="outcrop", chunks={"time": 40})
    assert again.t2m.chunks[0] == (40, 20)
    assert not isinstance(again.t2m.data, oc.Array)
    xr.testing.assert_identical(again.t2m.compute(), expected.t2m)


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_an_array_is_a_dataset_of_one(tmp_path: Path, suffix: str) -> None:
    values = np.arange(12.0).reshape(3, 4)
    oc.asarray(values).save(tmp_path / f"heat.{suffix}")
    made = xr.open_dataset(tmp_path / f"heat.{suffix}", engine="outcrop")
    np.testing.assert_array_equal(made.heat, values)


def test_what_is_wrong(stored: Path, tmp_path: Path, netcdf: Path) -> None:
    for path in (tmp_path / "none.zarr", netcdf / "none"):
        with pytest.raises(oc.ArrayNotFoundError):
            xr.open_dataset(path, engine="outcrop")
    with pytest.raises(oc.ArrayNotFoundError):
        xr.open_dataset(netcdf, engine="outcrop", group="none")
    data = xr.open_dataset(stored / "v3.zarr", engine="outcrop")
    options = {"dask": "parallelized", "output_dtypes": ["f4"]}
    for chunks in ({"time": -3}, {"time": "much"}, {"time": 1.5}, {"time": (3, 4)}):
        with pytest.raises((oc.OutcropError, TypeError, ValueError)):
            xr.open_dataset(
                stored / "v3.zarr", engine="outcrop", chunks=chunks, chunked_array_type="outcrop"
            )
    wrong = xr.apply_ufunc(
        lambda x: x,
        data.t2m,
        input_core_dims=[["time"]],
        dask_gufunc_kwargs={"allow_rechunk": True},
        **options,
    )
    with pytest.raises(oc.InvalidArgumentError, match="shape"):
        wrong.compute()
    with pytest.raises(oc.UnsupportedError, match="to the bit"):
        xr.apply_ufunc(
            lambda x, y: x.sum(-1),
            data.t2m,
            data.t2m.mean("lon").astype("i8"),
            input_core_dims=[["time"], ["time"]],
            dask_gufunc_kwargs={"allow_rechunk": True},
            **options,
        )
    with pytest.raises(oc.BudgetError):
        (data.t2m + 1).compute()
