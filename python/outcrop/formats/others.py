"""Formats of other programs: known by their suffixes and first bytes, and not written, nor read.

HDF5, which NetCDF 4 is, has data sets, which are read and written (`outcrop.formats.hdf5`); Zarr
arrays in zip archives are read (`outcrop.formats.zip_zarr`).

Whoever names a file ``result.h5`` does not want a Zarr directory of that name, and whoever opens
one wants to know how to get at what is in it.
"""

from dataclasses import dataclass
from pathlib import PurePath

from outcrop.formats.hdf5 import SIGNATURE, SUFFIXES
from outcrop.process.files import open_file

__all__ = ["is_npz", "misnamed", "other_format", "other_suffix"]

_START = 512
"""Bytes of a file that are looked at."""


@dataclass(frozen=True)
class _Other:
    """A format, and what to do about it.

    Attributes
    ----------
    name : str
        What people call it.
    suffixes : tuple of str
        Which file names stand for it.
    begins : tuple of bytes
        What its files begin with; there may be nothing that only they begin with.
    always : bool
        Whether all of its files begin like that.
    reading : str
        How to get at what is in a file; ``{path}`` is its name.
    writing : str
        How a result comes to such a file, where that is simple.
    is_ours : bool
        Whether results are written to such files here.
    """

    name: str
    suffixes: tuple[str, ...]
    begins: tuple[bytes, ...]
    reading: str
    writing: str = ""
    always: bool = True
    is_ours: bool = False


_DATASET = "oc.asarray(h5py.File({path!r})['NAME'])"
_IMAGE = "oc.asarray(PIL.Image.open({path!r})), or a conversion to TIFF without compression"
_TABLE = "pandas reads it, and oc.asarray takes the columns that fit in memory"
_PACKED = "unpack it first"
_COMPRESSED = "leave the suffix out: codecs= compresses"

_OTHERS = (
    _Other(
        "NetCDF",
        (".nc", ".nc3", ".nc4", ".cdf", ".netcdf"),
        (b"CDF\x01", b"CDF\x02", b"CDF\x05"),
        "xarray.open_dataset({path!r}, chunks={{}}).to_zarr('NAME.zarr') makes a Zarr group of "
        "it, whose arrays are opened here; oc.asarray(xarray.open_dataset({path!r})['NAME']) "
        "takes one array",
        "save it into a Zarr group, and xarray.open_zarr(group).to_netcdf(path) writes it",
    ),
    _Other(
        "HDF5",
        SUFFIXES,
        (SIGNATURE,),
        f"{_DATASET} takes one array of it (h5py.File({{path!r}}).visit(print) names them)",
        is_ours=True,
    ),
    _Other(
        "NumPy's archive of several arrays (npz)",
        (".npz",),
        (),
        "oc.asarray(numpy.load({path!r})['NAME']) takes one of them into memory; unpacked, each "
        "is a .npy file that is opened here",
        "save each array to a .npy file, or use numpy.savez for what fits in memory",
    ),
    _Other(
        "MATLAB",
        (".mat",),
        (b"MATLAB ",),
        "scipy.io.loadmat({path!r}) reads it",
        # Version 4 does not.
        always=False,
    ),
    _Other("NIfTI", (".nii", ".nii.gz"), (), "nibabel.load({path!r}).dataobj reads it"),
    _Other("PyTorch", (".pt", ".pth"), (), "torch.load reads it, if you trust it"),
    _Other("safetensors", (".safetensors",), (), "safetensors.safe_open reads it"),
    _Other("FITS", (".fits", ".fit", ".fts"), (b"SIMPLE  =",), "astropy.io.fits reads it"),
    _Other("PNG", (".png",), (b"\x89PNG\r\n\x1a\n",), _IMAGE, "save it as .ppm, .pgm or .tif"),
    _Other("JPEG", (".jpg", ".jpeg"), (b"\xff\xd8\xff",), _IMAGE, "save it as .ppm, .pgm or .tif"),
    _Other("JPEG 2000", (".jp2",), (b"\0\0\0\x0cjP  ",), _IMAGE, "save it as .tif"),
    _Other("GIF", (".gif",), (b"GIF87a", b"GIF89a"), _IMAGE, "save it as .ppm or .tif"),
    _Other("BMP", (".bmp",), (), _IMAGE, "save it as .ppm or .tif"),
    _Other("WebP", (".webp",), (), _IMAGE, "save it as .ppm or .tif"),
    _Other("OpenEXR", (".exr",), (b"\x76\x2f\x31\x01",), "the package OpenEXR reads it"),
    _Other("Parquet", (".parquet", ".pq"), (b"PAR1",), _TABLE),
    # Streams begin otherwise.
    _Other("Arrow", (".arrow", ".feather", ".ipc"), (b"ARROW1", b"FEA1"), _TABLE, always=False),
    _Other("SQLite", (".sqlite", ".sqlite3", ".db"), (b"SQLite format 3\0",), _TABLE),
    _Other("Excel", (".xls", ".xlsx"), (b"\xd0\xcf\x11\xe0",), _TABLE, always=False),
    _Other("R", (".rds", ".rda", ".rdata"), (), "pyreadr.read_r reads it"),
    _Other("Blosc2", (".b2nd", ".b2frame"), (), "oc.asarray(blosc2.open({path!r})[:]) takes it"),
    _Other("N5", (".n5",), (), "zarr-python 2's N5Store reads it"),
    _Other("DICOM", (".dcm",), (), "pydicom.dcmread({path!r}).pixel_array reads it"),
    _Other("PDF", (".pdf",), (b"%PDF-",), "it holds no array", always=False),
    _Other(
        "GRIB",
        (".grib", ".grb", ".grib2", ".grb2"),
        (b"GRIB",),
        "cfgrib reads it, by xarray",
        # Between messages there may be anything.
        always=False,
    ),
    _Other("pickle", (".pkl", ".pickle"), (), "pickle.load reads it, if you trust it"),
    _Other("gzip", (".gz", ".tgz"), (b"\x1f\x8b",), _PACKED, _COMPRESSED),
    _Other("bzip2", (".bz2",), (b"BZh",), _PACKED, _COMPRESSED),
    _Other("xz", (".xz",), (b"\xfd7zXZ\0",), _PACKED, _COMPRESSED),
    _Other(
        "zstd",
        (".zst",),
        (b"\x28\xb5\x2f\xfd",),
        _PACKED,
        _COMPRESSED,
    ),
    _Other(
        "zip",
        (".zip",),
        (b"PK\x03\x04", b"PK\x05\x06"),
        _PACKED,
        "save it to a directory (a name that ends in .zarr), and pack that with zip -0 -r, whose "
        "archives are read here",
    ),
    _Other("tar", (".tar",), (), _PACKED, "save it, and pack that"),
    _Other("JSON", (".json",), (), "json.load reads it"),
    _Other(
        "text",
        (".csv", ".tsv", ".txt"),
        (),
        "numpy.loadtxt or pandas.read_csv reads it, and oc.asarray takes the result",
        "numpy.savetxt writes the blocks of A.tiles(), one after the other",
    ),
)

_BY_SUFFIX = {suffix: other for other in _OTHERS for suffix in other.suffixes}
_BY_NAME = {other.name: other for other in _OTHERS}


def _suffix(path: str) -> str:
    """The suffix of a path, or the last two where those together stand for a format."""
    two = "".join(PurePath(path).suffixes[-2:]).lower()
    return two if two in _BY_SUFFIX else PurePath(path).suffix.lower()


def other_suffix(path: str) -> str | None:
    """What is wrong with a path as the name of a result, and what can be done.

    None where the suffix is not that of a format that only others write.
    """
    suffix = _suffix(path)
    other = _BY_SUFFIX.get(suffix)
    if other is None or other.is_ours:
        return None
    advice = f"; {other.writing}" if other.writing else ""
    return f"the suffix {suffix} stands for {other.name}, which is not written{advice}"


def other_format(path: str) -> str | None:
    """What a file is, by its first bytes or else its suffix, and how to get at what is in it.

    None where it is no format that only others read, as far as is known.
    """
    try:
        with open_file(path) as file:
            start = file.read(_START)
        other, name = _recognised(start, path)
    except OSError:
        # Opening it will say why.
        return None
    if other is None:
        return None
    return f"is {name}, which is not read here; {other.reading.format(path=path)}"


def _recognised(start: bytes, path: str) -> tuple[_Other | None, str]:
    """The format of a file, and what to call it."""
    by_suffix = _BY_SUFFIX.get(PurePath(path).suffix.lower())
    for other in _OTHERS:
        if any(start.startswith(begin) for begin in other.begins):
            if other.name == "zip" and _begins_as_npz(start, path):
                return _BY_NAME[_NPZ], _NPZ
            return other, other.name
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return _BY_NAME["WebP"], "WebP"
    if start[257:262] == b"ustar":
        return _BY_NAME["tar"], "tar"
    if by_suffix is not None and not _tells(by_suffix):
        return by_suffix, by_suffix.name
    return (_BY_NAME["text"], "text") if _is_text(start) else (None, "")


def misnamed(path: str) -> str | None:
    """What is wrong with a file whose suffix stands for a format that begins otherwise.

    None where the suffix does not tell that, or the file begins like another format.
    """
    by_suffix = _BY_SUFFIX.get(PurePath(path).suffix.lower())
    if by_suffix is None or not _tells(by_suffix):
        return None
    try:
        with open_file(path) as file:
            start = file.read(_START)
    except OSError:
        # Opening it will say why.
        return None
    if start.startswith(_NPY) or _recognised(start, path)[0] not in (None, _BY_NAME["text"]):
        return None
    name = "npz" if by_suffix.name == _NPZ else by_suffix.name
    looks = ", and looks like text" if _is_text(start) else ""
    return (
        f"is no {name} file, though its suffix says so: it does not begin like one{looks}"
        "; where it is a raw file, shape= and dtype= describe it"
    )


def _tells(other: _Other) -> bool:
    """Whether a file of a format is known by what it begins with."""
    return other.name == _NPZ or (bool(other.begins) and other.always)


_NPY = b"\x93NUMPY"
"""What a .npy file begins with, whatever it is called."""

_NPZ = "NumPy's archive of several arrays (npz)"


def is_npz(path: str) -> bool:
    """Whether a zip archive is one of NumPy's, by its suffix or the first of its arrays."""
    try:
        with open_file(path) as file:
            return _begins_as_npz(file.read(_START), path)
    except OSError:
        return False


def _begins_as_npz(start: bytes, path: str) -> bool:
    return PurePath(path).suffix.lower() == ".npz" or b".npy" in start[30:]


def _is_text(start: bytes) -> bool:
    """Whether it looks like numbers or words in lines."""
    printable = all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in start)
    return printable and b"\n" in start
