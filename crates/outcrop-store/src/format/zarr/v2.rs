//! `.zarray`: enough of it to say what an array is, and to refuse what cannot be read. The chunks of a
//! Zarr v2 array are always decoded elsewhere.

use super::parse::{MAX_CODECS, dims, document, member, text};
use crate::dtype::{ByteOrder, DType};
use crate::format::{FormatError, malformed, nbytes, parse_typestr, quoted, unsupported};
use crate::shape::{Dims, Tuple};
use serde_json::Value;

/// The metadata of a Zarr v2 array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V2Meta {
    /// Extents in elements; empty for a 0-d array.
    pub shape: Dims,
    /// Extents of a chunk in elements, each at least 1.
    pub tile: Dims,
    /// Type of the elements.
    pub dtype: DType,
    /// Byte order of the numbers inside a decoded chunk.
    pub byte_order: ByteOrder,
    /// Whether the elements of a chunk lie in column-major (Fortran) order.
    pub column_major: bool,
    /// The codecs in the order in which they are applied when writing: filters, then the compressor.
    pub codecs: Vec<String>,
}

/// Parses `.zarray`.
///
/// # Errors
/// `Malformed` for broken or contradictory metadata, `NewerVersion` for a format above 2, `Unsupported`
/// for structured, object, string, date and other types of elements that Outcrop has not.
pub fn parse_v2(zarray_json: &[u8]) -> Result<V2Meta, FormatError> {
    let document = document(zarray_json, super::V2_METADATA_FILE)?.members;
    match member(&document, "zarr_format")? {
        Value::Number(n) if n.as_u64() == Some(2) => {}
        Value::Number(n) if n.as_u64().is_some_and(|n| n > 2) => {
            return Err(FormatError::NewerVersion(format!("zarr_format {n} in .zarray; 2 is known")));
        }
        other => return malformed(format!("zarr_format is {}, not 2", quoted(&other.to_string()))),
    }
    let (dtype, byte_order) = match member(&document, "dtype")? {
        Value::String(dtype) => parse_typestr(dtype)?,
        fields @ Value::Array(_) => {
            return unsupported(format!(
                "structured elements are not supported: dtype {}",
                quoted(&fields.to_string())
            ));
        }
        other => {
            return malformed(format!("dtype is {}, not a type string", quoted(&other.to_string())));
        }
    };
    let shape = dims(member(&document, "shape")?, "shape")?;
    let tile = dims(member(&document, "chunks")?, "chunks")?;
    if tile.len() != shape.len() || tile.contains(&0) {
        return malformed(format!("chunks {} do not fit shape {}", Tuple(&tile), Tuple(&shape)));
    }
    nbytes(&shape, dtype)?;
    nbytes(&tile, dtype)?;
    let column_major = match text(member(&document, "order")?, "order")? {
        "C" => false,
        "F" => true,
        other => return malformed(format!("order is {}, neither C nor F", quoted(other))),
    };
    let mut codecs = Vec::new();
    match document.get("filters") {
        None | Some(Value::Null) => {}
        Some(Value::Array(filters)) => {
            for filter in filters {
                codecs.push(codec_id(filter)?);
            }
        }
        Some(other) => return malformed(format!("filters is {}, not a list", quoted(&other.to_string()))),
    }
    match document.get("compressor") {
        None | Some(Value::Null) => {}
        Some(compressor) => codecs.push(codec_id(compressor)?),
    }
    if codecs.len() > MAX_CODECS {
        return unsupported(format!("{} codecs, at most {MAX_CODECS} are possible", codecs.len()));
    }
    Ok(V2Meta { shape, tile, dtype, byte_order, column_major, codecs })
}

fn codec_id(codec: &Value) -> Result<String, FormatError> {
    match codec.get("id") {
        Some(Value::String(id)) => Ok(id.clone()),
        _ => malformed(format!("a codec without id: {}", quoted(&codec.to_string()))),
    }
}
