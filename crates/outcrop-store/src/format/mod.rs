//! Metadata of the formats that Outcrop reads and writes, as pure functions on bytes.
//!
//! - [`npy`]: the preamble of a `.npy` file.
//! - [`zarr`]: `zarr.json` of a Zarr v3 array, and `.zarray` of a Zarr v2 array.
//! - [`index`]: the checksums of an array's tiles, kept beside its `zarr.json`.
//! - [`pnm`]: the header of a PGM, PPM or PAM file.
//! - [`raw`]: a file without metadata, described by the user.
//! - [`update`]: which tiles a decided change of an array replaces.
//!
//! Everything here reads bytes that nobody vouches for. For any input a parser returns a value or a
//! [`FormatError`]; it does not panic, and it allocates no more than a small multiple of the input.
//! A shape that comes out of a parser has passed [`checked_nbytes`], so that later
//! products of its extents cannot overflow.

use crate::dtype::{ByteOrder, DType};
use crate::error::Error;
use crate::shape::checked_nbytes;
use std::path::Path;

pub mod index;
pub mod npy;
pub mod pnm;
pub mod raw;
pub mod update;
pub mod zarr;

/// The most bytes of JSON metadata of an array that are read or written: a longer `zarr.json` or `.zarray` is
/// refused. (What Python makes of attributes takes thirty times as much memory.)
pub const MAX_METADATA_BYTES: usize = 4 << 20;

/// Why metadata was refused. Messages carry the values and name no file; see [`at`](Self::at).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Not of this format, or damaged: a wrong magic, broken syntax, parts that contradict each other.
    #[error("{0}")]
    Malformed(String),
    /// Undamaged, but about another state of the array than its metadata: another program has
    /// changed one of the two.
    #[error("{0}")]
    Stale(String),
    /// Written in a later version of the format than this program knows.
    #[error("{0}")]
    NewerVersion(String),
    /// Sound, but using something that Outcrop cannot work with, such as an unknown codec.
    #[error("{0}")]
    Unsupported(String),
}

impl FormatError {
    /// The error of the file or array at `path`: [`Error::Corrupt`] for what is damaged or stale,
    /// [`Error::Unsupported`] for the rest.
    pub fn at(self, path: &Path) -> Error {
        match self {
            FormatError::Malformed(what) | FormatError::Stale(what) => Error::corrupt(path, what),
            FormatError::NewerVersion(what) | FormatError::Unsupported(what) => {
                Error::unsupported(path, what)
            }
        }
    }
}

/// The CRC-32C (Castagnoli) of `bytes`: that of Zarr's `crc32c` codec and of the tile index.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The CRC-32 of `bytes`, as zip and gzip have it.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

pub(crate) fn malformed<T>(what: impl Into<String>) -> Result<T, FormatError> {
    Err(FormatError::Malformed(what.into()))
}

fn unsupported<T>(what: impl Into<String>) -> Result<T, FormatError> {
    Err(FormatError::Unsupported(what.into()))
}

/// The bytes of an array, or `Malformed` where they cannot be addressed.
fn nbytes(shape: &[u64], dtype: DType) -> Result<u64, FormatError> {
    checked_nbytes(shape, dtype.size()).map_err(|e| FormatError::Malformed(e.to_string()))
}

/// Shows text from a file in a message: quoted, escaped, and cut where it is long.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", &text[..end]),
    }
}

/// Names of NumPy and Zarr for types that Outcrop does not compute with.
const FOREIGN_NAMES: &[&str] = &[
    "float16",
    "float128",
    "longdouble",
    "complex192",
    "complex256",
    "clongdouble",
    "bfloat16",
    "int2",
    "int4",
    "uint2",
    "uint4",
    "object",
    "str",
    "bytes",
    "void",
    "datetime64",
    "timedelta64",
];

/// Parses a NumPy type string or type name, such as `<f8`, `u1` or `float64`.
///
/// # Errors
/// `Unsupported` for a type of NumPy's that Outcrop has not (objects, strings, dates, `float16`,
/// `longdouble`), `Malformed` for what is no type at all.
pub fn parse_typestr(text: &str) -> Result<(DType, ByteOrder), FormatError> {
    if let Some(known) = DType::from_typestr(text) {
        return Ok(known);
    }
    if let Some(dtype) = DType::from_name(text) {
        return Ok((dtype, ByteOrder::Little));
    }
    let core = text.strip_prefix(['<', '>', '=', '|']).unwrap_or(text);
    let what = match core.as_bytes() {
        [b'O', ..] => "Python objects",
        [b'S' | b'a' | b'U' | b'T', ..] => "strings",
        [b'V', ..] => "raw bytes or records",
        [b'M' | b'm', ..] => "dates or durations",
        [b'f' | b'c' | b'i' | b'u' | b'b', digits @ ..]
            if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) =>
        {
            "numbers of another size"
        }
        _ if FOREIGN_NAMES.iter().any(|name| core.starts_with(name)) => "another kind of element",
        _ => return malformed(format!("{} is not an element type", quoted(text))),
    };
    unsupported(format!(
        "elements of type {} ({what}) are not supported; supported are bool, int8 to int64, uint8 to uint64, \
         float32, float64, complex64 and complex128",
        quoted(text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_their_check_values() {
        // Those of the algorithms' definitions (RFC 3720, RFC 1952).
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn three_kinds_of_error_become_two() {
        let path = Path::new("a.npy");
        let of = |e: FormatError| e.at(path);
        assert!(matches!(of(FormatError::Malformed("x".into())), Error::Corrupt { .. }));
        assert!(matches!(of(FormatError::Stale("x".into())), Error::Corrupt { .. }));
        assert!(matches!(of(FormatError::NewerVersion("x".into())), Error::Unsupported { .. }));
        let e = of(FormatError::Unsupported("codec \"lz4\" is not supported".into()));
        assert_eq!(e.to_string(), "a.npy: codec \"lz4\" is not supported");
    }

    #[test]
    fn types_of_numpy_that_outcrop_has_not() {
        for text in
            ["|O", "<U5", "|S5", "<M8[ns]", "<m8", "<f2", "<f16", "<c32", "|V8", "float16", "datetime64"]
        {
            assert!(matches!(parse_typestr(text), Err(FormatError::Unsupported(_))), "{text}");
        }
        for text in ["", "<", "f", "hello", "<q8", "f8x", "é", "<é"] {
            assert!(matches!(parse_typestr(text), Err(FormatError::Malformed(_))), "{text}");
        }
        assert_eq!(parse_typestr(">c16"), Ok((DType::C128, ByteOrder::Big)));
        assert_eq!(parse_typestr("float32"), Ok((DType::F32, ByteOrder::Little)));
    }
}
