//! Metadata of Zarr arrays: `zarr.json` of version 3, and `.zarray` of version 2.
//!
//! A *native* array is stored in the way Outcrop stores its own: a regular grid of chunks, one file
//! each, of little-endian elements, with or without a CRC-32C at the end, or with frontiers ([`Encoding`]). Its
//! chunks are tiles, read and written directly. Every other sound array is *foreign* and goes through a decoder.
//!
//! An array made by Outcrop carries one extension member in its `zarr.json`, which other programs
//! ignore and keep, as the specification asks of them:
//!
//! ```json
//! "outcrop": { "must_understand": false, "version": 1, "index_crc32c": 3735928559 }
//! ```
//!
//! `index_crc32c` is the [`stamp`](super::index::stamp) of the tile index that belongs to it.
//!
//! Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>.

use crate::dtype::DType;
use crate::format::{FormatError, MAX_METADATA_BYTES, malformed};
use crate::layout::Frontiers;
use crate::shape::{Dims, TileGrid};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use smallvec::SmallVec;

mod attributes;
pub mod consolidated;
mod encoding;
mod fill;
mod labels;
mod parse;
#[cfg(test)]
mod tests;
mod v2;

pub use attributes::Attributes;
pub use encoding::Encoding;
pub(crate) use fill::parse as parse_fill_value;
pub use labels::{Labelled, Labels, Names};
pub use parse::parse;
pub(crate) use parse::{Document as ParsedDocument, MAX_CODECS, document as parse_document};
pub use v2::{V2Meta, parse_v2};

/// File name of the metadata of an array of Zarr v3.
pub const METADATA_FILE: &str = "zarr.json";

/// File name of the metadata of an array of Zarr v2.
pub const V2_METADATA_FILE: &str = ".zarray";

/// File name of the attributes of an array of Zarr v2.
pub const V2_ATTRIBUTES_FILE: &str = ".zattrs";

/// The member of `zarr.json` that marks an array of Outcrop's.
const OURS: &str = "outcrop";

/// The version of the `outcrop` member that this program writes.
pub const OURS_VERSION: u32 = 1;

/// What a sound `zarr.json` describes.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// An array whose chunks Outcrop reads and writes itself.
    Native(ArrayMeta),
    /// An array that needs a general Zarr decoder.
    Foreign {
        /// What makes it foreign, such as `codec "zstd"`.
        reason: String,
    },
}

/// The names of the files of an array's tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEncoding {
    /// `c/0/1` with the separator `/`, `c` for a 0-d array.
    Default {
        /// `/` or `.`.
        separator: char,
    },
    /// `0.1` with the separator `.`, as in Zarr v2; `0` for a 0-d array.
    V2 {
        /// `/` or `.`.
        separator: char,
    },
}

/// What the extension member of an array made by Outcrop says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The [`stamp`](super::index::stamp) of the tile index.
    pub index_crc32c: u32,
    /// Version of the member; [`OURS_VERSION`] in what this program writes.
    pub format: u32,
}

/// The metadata of a native array.
///
/// What [`parse`] returns keeps: `shape` and `tile` have as many axes as each other, the extents of
/// `tile` are at least 1 and fit the encoding, the bytes of the array and of one tile's file fit a signed 64-bit
/// integer.
/// [`encode`](Self::encode) expects the same.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayMeta {
    /// Extents in elements; empty for a 0-d array.
    pub shape: Dims,
    /// Type of the elements.
    pub dtype: DType,
    /// Extents of a tile (chunk) in elements. Tiles at the high edges are stored whole, overhang
    /// included.
    pub tile: Dims,
    /// How a tile's file is made of its elements.
    pub encoding: Encoding,
    /// The names of the tiles' files.
    pub key_encoding: KeyEncoding,
    /// The little-endian bytes of the element that stands for those of tiles never written.
    pub fill_value: SmallVec<[u8; 16]>,
    /// The user's attributes.
    pub attributes: Attributes,
    /// A name or none for every axis.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// Set if Outcrop made the array.
    pub ours: Option<Ours>,
}

/// An error where so much metadata could not be read again.
pub(crate) fn check_length(file: &str, bytes: usize) -> Result<(), FormatError> {
    match bytes {
        ..=MAX_METADATA_BYTES => Ok(()),
        _ => malformed(format!("{file} has {bytes} bytes, more than {MAX_METADATA_BYTES}")),
    }
}

/// `zarr.json` in the order in which it is written: what a reader asks for first comes first.
#[derive(Serialize)]
struct Document<'a> {
    zarr_format: u32,
    node_type: &'static str,
    shape: &'a [u64],
    data_type: &'static str,
    chunk_grid: Value,
    chunk_key_encoding: Value,
    fill_value: Value,
    codecs: Vec<Value>,
    attributes: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimension_names: &'a Option<Vec<Option<String>>>,
    storage_transformers: [Value; 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    outcrop: Option<Value>,
}

impl ArrayMeta {
    /// The metadata of a new array of our own.
    ///
    /// # Errors
    /// `Malformed` where the labels are none for an array of this type and so many axes, or the tile none for the
    /// encoding.
    pub fn of(
        shape: &[u64],
        dtype: DType,
        tile: &[u64],
        encoding: Encoding,
        labels: &Labels,
    ) -> Result<ArrayMeta, FormatError> {
        labels.check(shape.len())?;
        encoding.frontiers(tile, dtype)?;
        let meta = ArrayMeta {
            shape: shape.into(),
            dtype,
            tile: tile.into(),
            encoding,
            key_encoding: KeyEncoding::Default { separator: '/' },
            fill_value: labels.fill_bytes(dtype)?,
            attributes: labels.attributes.clone(),
            dimension_names: labels.dimension_names.clone(),
            ours: None,
        };
        check_length(METADATA_FILE, meta.encode().len())?;
        Ok(meta)
    }

    /// The text of `zarr.json`. The same metadata always gives the same bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (name, separator) = match self.key_encoding {
            KeyEncoding::Default { separator } => ("default", separator),
            KeyEncoding::V2 { separator } => ("v2", separator),
        };
        let document = Document {
            zarr_format: 3,
            node_type: "array",
            shape: &self.shape,
            data_type: self.dtype.name(),
            chunk_grid: json!({ "name": "regular", "configuration": { "chunk_shape": self.tile.as_slice() } }),
            chunk_key_encoding: json!({ "name": name, "configuration": { "separator": separator } }),
            fill_value: fill::encode(&self.fill_value, self.dtype),
            codecs: self.encoding.codecs(self.dtype),
            attributes: self.attributes.pretty(),
            dimension_names: &self.dimension_names,
            storage_transformers: [],
            outcrop: self.ours.map(|ours| {
                json!({ "must_understand": false, "version": ours.format, "index_crc32c": ours.index_crc32c })
            }),
        };
        let mut text = serde_json::to_vec_pretty(&document).expect("maps with string keys always serialize");
        text.push(b'\n');
        text
    }

    /// The file of a tile, relative to the array's directory, with `/` between directories.
    ///
    /// `coords` has one number per axis.
    pub fn tile_key(&self, coords: &[u64]) -> String {
        let (mut key, separator) = match self.key_encoding {
            KeyEncoding::Default { separator } => (String::from("c"), separator),
            KeyEncoding::V2 { separator } => (String::new(), separator),
        };
        for c in coords {
            if !key.is_empty() {
                key.push(separator);
            }
            key.push_str(&c.to_string());
        }
        if key.is_empty() {
            key.push('0');
        }
        key
    }

    /// Bytes of the elements of a whole tile.
    pub fn tile_bytes(&self) -> u64 {
        self.tile.iter().product::<u64>() * self.dtype.size() as u64
    }

    /// Where the elements lie in a tile's file, where they have frontiers.
    pub fn frontiers(&self) -> Option<Frontiers> {
        self.encoding.frontiers(&self.tile, self.dtype).expect("a tile that fits the encoding")
    }

    /// Bytes of a tile's file: [`tile_bytes`](Self::tile_bytes), and what the encoding adds.
    pub fn stored_tile_bytes(&self) -> u64 {
        match self.encoding {
            Encoding::Plain => self.tile_bytes(),
            Encoding::Checksummed => self.tile_bytes() + encoding::CHECKSUM_BYTES,
            Encoding::Frontiers { .. } => self.frontiers().map_or(0, |found| found.file_bytes()),
        }
    }

    /// How the array is cut into tiles.
    pub fn grid(&self) -> TileGrid {
        TileGrid { shape: self.shape.clone(), tile: self.tile.clone() }
    }
}
