"""Fourier transforms of arrays that exceed the budget, and of lines that do."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outcrop as oc

FIXTURES = [HealthCheck.function_scoped_fixture]
RNG = np.random.default_rng(3)
DTYPES = ("int16", "uint8", "float32", "float64", "complex64", "complex128")
OF_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OF_REAL = {"rfft", "ihfft", "rfftn", "rfft2"}
LAYOUTS = ("zarr", "npy", "F", "reversed", "stepped", "computed", "memory", "transposed")


def values(dtype: str, shape: tuple[int, ...]) -> Any:
    """Random ones."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return RNG.integers(0, 90, shape).astype(kind)
    made = RNG.standard_normal(shape)
    return (made + 1j * RNG.standard_normal(shape) if kind.kind == "c" else made).astype(kind)


def both(desk: Any, name: str, array: Any, plain: Any, *args: Any, **options: Any) -> None:
    """The same as NumPy's, by either name, to rounding."""
    expected = getattr(np.fft, name)(plain, *args, **options)
    desk.check(getattr(oc.fft, name)(array, *args, **options), expected, digits=100)


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_along_each_axis(desk: Any, name: str, dtype: str) -> None:
    if name in OF_REAL and dtype.startswith("complex"):
        pytest.skip("of real numbers")
    plain = values(dtype, (60, 45, 64))
    for axis in range(3):
        array = desk.put(plain, LAYOUTS[axis] if dtype == "float32" else "zarr")
        both(desk, name, array, plain, axis=axis)
        both(desk, name, array, plain, n=50, axis=axis, norm="ortho")
        both(desk, name, array, plain, n=71, axis=axis, norm="forward")
        desk.check(
            getattr(np.fft, name)(array, None, axis),
            getattr(np.fft, name)(plain, None, axis),
            digits=100,
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_axes(desk: Any, layout: str) -> None:
    plain = values("float64", (40, 36, 50))
    array = desk.put(plain, layout)
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        both(desk, name, array, plain)
        both(desk, name, array, plain, axes=(2, 0), norm="ortho")
        both(desk, name, array, plain, s=(30, 64), axes=(0, 1))
    for name in ("fft2", "ifft2", "rfft2", "irfft2"):
        both(desk, name, array, plain)
        both(desk, name, array, plain, s=(-1, 20), axes=(0, 2))
    both(desk, "fftn", array, plain, axes=(1, 1))
    half = np.fft.rfftn(plain)
    again = oc.fft.irfftn(oc.fft.rfftn(array), s=plain.shape)
    desk.check(again, np.fft.irfftn(half, plain.shape, (0, 1, 2)), digits=100)


@pytest.mark.parametrize("n", [1 << 17, 3 * 5 * 7 * 1200, 50021])
@pytest.mark.parametrize("layout", ["zarr", "npy", "memory", "function"])
def test_lines_of_which_memory_holds_a_part(desk: Any, layout: str, n: int) -> None:
    names = OF_ONE if layout == "zarr" and n == 1 << 17 else ("fft", "rfft")
    with oc.config(memory="2MiB"):
        for dtype in ("complex128", "float64") if n % 2 == 0 else ("complex128",):
            plain = values(dtype, (n,))
            array = desk.put(plain, layout)
            for name in names:
                if name in OF_REAL and dtype == "complex128":
                    continue
                norm = {"fft": "backward", "ifft": "ortho"}.get(name, "forward")
                # The inverse of half of a spectrum is of a length with fitting factors.
                more = {"n": n} if name in ("irfft", "hfft") else {}
                both(desk, name, array, plain, norm=norm, **more)
        if n % 2:
            half = values("complex128", (n // 2 + 1,))
            both(desk, "irfft", desk.put(half, layout), half, n=n)


def test_several_long_lines(desk: Any) -> None:
    plain = values("float64", (3, 1 << 14, 2))
    for layout, names in (("zarr", OF_ONE), ("F", ("fft", "rfft"))):
        array = desk.put(plain, layout)
        with oc.config(memory="2MiB"):
            for name in names:
                both(desk, name, array, plain, 1 << 14, axis=1)
            both(desk, "fft", array, plain, n=9000, axis=1)
            both(desk, "rfftn", array, plain, s=(4, 20000), axes=(0, 1))
            both(desk, "irfftn", array, plain, s=(2, 30000), axes=(2, 1))


@pytest.mark.parametrize(
    ("layout", "tile", "passes"),
    [
        ("npy", None, 3.1),
        # As many tiles as there are rows of a matrix stay in memory; or a part of them.
        ("zarr", 4096, 3.1),
        ("zarr", 16384, 3.1),
        ("zarr", 32768, 3.1),
        # Memory holds too few of them, and they are put in order first.
        ("zarr", 1 << 17, 4.1),
    ],
)
def test_three_passes_for_a_long_line(desk: Any, layout: str, tile: int, passes: float) -> None:
    plain = values("complex128", (1 << 19,))
    array = desk.put(plain, layout, tile)
    with oc.config(memory="4MiB"):
        transformed = oc.fft.fft(array)
        plan = oc.plan(transformed)
        made = transformed.save(desk.path / "made.zarr", overwrite=True)
    run = oc.last_run()
    assert run is not None
    assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
    assert run.bytes_read <= passes * plain.nbytes
    assert run.bytes_written <= passes * plain.nbytes
    desk.check(made, np.fft.fft(plain), digits=100)


def test_passes_are_done_part_by_part(desk: Any) -> None:
    """What is handed on along the second axis and the third stays in memory, one row at a time."""
    plain = values("complex128", (16, 64, 256))
    for layout, tile in (("zarr", (4, 16, 64)), ("npy", None)):
        array = desk.put(plain, layout, tile)
        with oc.config(memory="1MiB"):
            one = oc.fft.fft(oc.fft.fft(array, axis=1), axis=2)
            plan = oc.plan(one)
            made = one.save(desk.path / "made.zarr", overwrite=True)
        run = oc.last_run()
        assert run is not None
        assert (run.bytes_read, run.bytes_written) == (plan.bytes_read, plan.bytes_written)
        desk.check(made, np.fft.fft2(plain), digits=100)


def test_planes_are_transformed_in_one_pass(desk: Any) -> None:
    plain = values("float64", (300, 40, 50))
    for tile in ((1, 40, 50), (2, 40, 50), (4, 20, 25)):
        oc.fft.fft2(desk.put(plain, "zarr", tile)).save(desk.path / "made.npy", overwrite=True)
        run = oc.last_run()
        assert run is not None
        assert run.bytes_read <= 1.05 * plain.nbytes
        assert run.bytes_written <= 2.05 * plain.nbytes


@settings(max_examples=30, deadline=None, suppress_health_check=FIXTURES)
@given(data=st.data())
def test_any_transform(desk: Any, data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(DTYPES))
    plain = values(dtype, shape)
    array = desk.put(plain, data.draw(st.sampled_from(("zarr", "npy", "memory", "function"))))
    of_real = ("rfftn",) if plain.dtype.kind != "c" else ()
    name = data.draw(st.sampled_from(("fftn", "ifftn", "irfftn", *of_real)))
    axes = data.draw(st.permutations(range(len(shape))))
    axes = axes[: data.draw(st.integers(1, len(shape)))]
    s = [data.draw(st.one_of(st.just(2 * shape[a]), st.integers(1, 60))) for a in axes]
    norm = data.draw(st.sampled_from((None, "backward", "ortho", "forward")))
    with oc.config(memory=data.draw(st.sampled_from(("256KiB", "1MiB", "8MiB")))):
        try:
            both(desk, name, array, plain, s=s, axes=axes, norm=norm)
        except oc.BudgetError as error:
            # With the least budget that there is, it may need a little more, and says how much.
            assert oc.config().memory == 256 << 10 and error.needed <= 512 << 10
            oc.config(memory=error.needed)
            both(desk, name, array, plain, s=s, axes=axes, norm=norm)


def test_frequencies() -> None:
    for name in ("fftfreq", "rfftfreq"):
        own, theirs = getattr(oc.fft, name), getattr(np.fft, name)
        for n, d in ((1, 1.0), (2, 0.3), (7, 1.0), (10, 0.3), (1001, 7.0)):
            made = own(n, d).compute()
            np.testing.assert_array_equal(made, theirs(n, d))
            assert made.dtype == np.float64
    assert oc.fft.fftfreq(8, dtype="float32").dtype == np.float32
    assert oc.fft.fftfreq(1 << 40).shape == (1 << 40,)
    with pytest.raises(oc.InvalidArgumentError, match="at least"):
        oc.fft.fftfreq(0)
    with pytest.raises(oc.InvalidArgumentError, match="zero"):
        oc.fft.rfftfreq(3, 0)
    with pytest.raises(oc.InvalidTypeError):
        oc.fft.fftfreq(2.5)  # type: ignore[arg-type]
    with pytest.raises(oc.InvalidTypeError, match="floating"):
        oc.fft.fftfreq(3, dtype="int32")


def test_shifts(desk: Any) -> None:
    plain = values("float32", (51, 40, 9))
    array = desk.put(plain)
    for axes in (None, 0, (0, 2), -1):
        for name in ("fftshift", "ifftshift"):
            expected = getattr(np.fft, name)(plain, axes)
            desk.check(getattr(oc.fft, name)(array, axes), expected, digits=0)
            desk.check(getattr(np.fft, name)(array, axes=axes), expected, digits=0)


def test_numpys_out(desk: Any) -> None:
    plain = values("complex128", (30, 40))
    out = np.empty_like(plain)
    assert np.fft.fft(desk.put(plain), out=out) is out
    np.testing.assert_allclose(out, np.fft.fft(plain))
    with pytest.raises(oc.InvalidArgumentError, match="out="):
        np.fft.fft(desk.put(plain), out=out[:3])


def test_no_elements() -> None:
    assert oc.fft.fft(oc.zeros((0, 4))).shape == (0, 4)
    np.testing.assert_array_equal(oc.fft.fft(oc.zeros((2, 0)), n=3).compute(), np.zeros((2, 3)))
    assert oc.fft.rfft(oc.zeros((0, 4), dtype="float32")).dtype == np.complex64
    np.testing.assert_array_equal(oc.fft.fftn(oc.asarray(2.0), axes=()).compute(), 2.0)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda a: oc.fft.fft(a, n=0), oc.InvalidArgumentError, "data points"),
        (lambda a: oc.fft.fft(a, n=-1), oc.InvalidArgumentError, "data points"),
        (lambda a: oc.fft.fft(a, n=2.5), oc.InvalidTypeError, "integer"),
        (lambda a: oc.fft.fft(a[:0], axis=0), oc.InvalidArgumentError, "data points"),
        (lambda a: oc.fft.fft(a, axis=2), oc.AxisError, "axis"),
        (lambda a: oc.fft.fft(oc.asarray(1.0)), oc.AxisError, "axis"),
        (lambda a: oc.fft.fft(a, norm="big"), oc.InvalidArgumentError, "norm"),
        (lambda a: oc.fft.fftn(a, s=(1, 2, 3)), oc.AxisError, "axis"),
        (lambda a: oc.fft.fftn(a, s=(1,), axes=(0, 1)), oc.InvalidArgumentError, "lengths"),
        (lambda a: oc.fft.rfft(a + 1j), oc.InvalidTypeError, "rfft"),
        (lambda a: oc.fft.rfftn(a, axes=()), oc.InvalidArgumentError, "axis"),
        (lambda a: oc.fft.irfft(a[:, :1]), oc.InvalidArgumentError, "data points"),
    ],
)
def test_what_is_wrong(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call(oc.ones((3, 4)))


def test_nan_spreads_along_its_line_only(desk: Any) -> None:
    plain = values("float64", (300, 200))
    plain[7, 3] = np.nan
    made = oc.fft.fft(desk.put(plain), axis=0).save(desk.path / "made.npy")
    with oc.config(memory="64MiB"):
        found = np.isnan(made.compute())
    assert found[:, 3].all()
    assert not np.delete(found, 3, axis=1).any()
