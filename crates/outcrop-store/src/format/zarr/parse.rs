//! From the text of `zarr.json` to [`Parsed`].
//!
//! The order of the checks decides what a user is told. The version of our own member comes before
//! everything that a later version might have changed, so that such an array is called new and not
//! broken. Damage to a foreign array is reported here too, not left to the decoder.

use super::{
    ArrayMeta, Attributes, Encoding, KeyEncoding, OURS, OURS_VERSION, Ours, Parsed, check_length, fill,
};
use crate::dtype::DType;
use crate::format::{FormatError, malformed, nbytes, quoted, unsupported};
use crate::shape::{Dims, MAX_NDIM, Tuple};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// The members of `zarr.json` that the specification defines for arrays.
const MEMBERS: &[&str] = &[
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "dimension_names",
    "storage_transformers",
];

/// The most codecs in a list: each takes memory, and time for every chunk.
pub(crate) const MAX_CODECS: usize = 64;

/// The most values in a document besides its attributes: each takes many times the memory of its text.
pub(crate) const MAX_VALUES: usize = 1 << 14;

/// Grids of chunks that the decoder for foreign arrays has, besides the regular one.
const DECODABLE_GRIDS: &[&str] = &["rectangular", "rectilinear", "zarrs.regular_bounded"];

/// Parses `zarr.json`.
///
/// # Errors
/// - `Malformed`: no JSON, a missing or wrongly typed member, a shape that cannot be addressed, parts
///   that contradict each other.
/// - `NewerVersion`: a Zarr format above 3, or an array of a later Outcrop.
/// - `Unsupported`: a group, a type of elements that Outcrop has not, an unknown codec, grid, key
///   encoding, storage transformer or member that must be understood.
pub fn parse(json: &[u8]) -> Result<Parsed, FormatError> {
    let Document { members: document, attributes } = document(json, super::METADATA_FILE)?;
    check_kind(&document)?;
    let ours = document.get(OURS).map(parse_ours).transpose()?;
    check_members(&document)?;

    let dtype = parse_data_type(member(&document, "data_type")?)?;
    let shape = dims(member(&document, "shape")?, "shape")?;
    nbytes(&shape, dtype)?;
    let attributes =
        attributes.map(|text| Attributes::of(&text, "attributes")).transpose()?.unwrap_or_default();
    let dimension_names = parse_dimension_names(document.get("dimension_names"), shape.len())?;
    let fill_value = fill::parse(member(&document, "fill_value")?, dtype)?;

    // All three are checked before one of them is called foreign.
    let grid = parse_grid(member(&document, "chunk_grid")?, &shape, dtype)?;
    let keys = parse_key_encoding(member(&document, "chunk_key_encoding")?)?;
    let codecs = Encoding::parse(member(&document, "codecs")?, dtype)?;
    if let (Ok(tile), Ok(encoding)) = (&grid, &codecs) {
        encoding.frontiers(tile, dtype)?;
    }
    Ok(match (grid, keys, codecs) {
        (Ok(tile), Ok(key_encoding), Ok(encoding)) => Parsed::Native(ArrayMeta {
            shape,
            dtype,
            tile,
            encoding,
            key_encoding,
            fill_value,
            attributes,
            dimension_names,
            ours,
        }),
        (Err(reason), ..) | (_, Err(reason), _) | (_, _, Err(reason)) => Parsed::Foreign { reason },
    })
}

/// Either what a native array has there, or the reason why the array is foreign.
type NativeOr<T> = Result<T, String>;

/// A JSON object that describes an array.
#[derive(Default)]
pub(crate) struct Document {
    /// Its members, but for the attributes.
    pub(crate) members: Map<String, Value>,
    /// The text of the attributes, whatever it is.
    pub(crate) attributes: Option<Box<RawValue>>,
}

/// Parses a JSON object; `file` is for messages. No more memory is taken than [`MAX_VALUES`] need, and a copy of
/// the text.
pub(crate) fn document(json: &[u8], file: &str) -> Result<Document, FormatError> {
    check_length(file, json.len())?;
    let parsed = |json: &[u8]| {
        let left = Cell::new(MAX_VALUES);
        let mut parser = serde_json::Deserializer::from_slice(json);
        let parsed = parser.deserialize_map(Bounded { left: &left, top: true });
        let parsed = parsed.and_then(|parsed| parser.end().map(|()| parsed));
        parsed.map_err(|error| (error, left.get() == 0))
    };
    let parsed = parsed(json).or_else(|(error, full)| match quote_bare_numbers(json) {
        Cow::Owned(mended) if !full => parsed(&mended).map_err(|(_, full)| (error, full)),
        _ => Err((error, full)),
    });
    match parsed {
        Ok(Bound::Document(document)) => Ok(document),
        Ok(Bound::Value(_)) => malformed(format!("{file} is not an object")),
        Err((_, true)) => unsupported(format!("{file} has more than {MAX_VALUES} values besides attributes")),
        Err((error, false)) if error.is_data() => malformed(format!("{file}: {error}")),
        Err((error, false)) => malformed(format!("{file} is not JSON: {error}")),
    }
}

/// Parses JSON; `file` is for messages.
pub(super) fn from_json<T: DeserializeOwned>(json: &[u8], file: &str) -> Result<T, FormatError> {
    check_length(file, json.len())?;
    let parsed = serde_json::from_slice(json).or_else(|error| match quote_bare_numbers(json) {
        Cow::Owned(mended) => serde_json::from_slice(&mended).map_err(|_| error),
        Cow::Borrowed(_) => Err(error),
    });
    parsed.map_err(|error| FormatError::Malformed(format!("{file} is not JSON: {error}")))
}

/// Makes values of JSON, as many as are left.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    left: &'a Cell<usize>,
    /// Whether the value is the whole document.
    top: bool,
}

enum Bound {
    Document(Document),
    Value(Value),
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 {
            return Err(D::Error::custom("too many values"));
        }
        match deserializer.deserialize_any(self)? {
            Bound::Value(value) => Ok(value),
            Bound::Document(document) => Ok(Value::Object(document.members)),
        }
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Bound;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Bound, E> {
        Ok(Bound::Value(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Bound, E> {
        Ok(Bound::Value(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Bound, E> {
        Ok(Bound::Value(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Bound, E> {
        Ok(Bound::Value(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Bound, E> {
        Ok(Bound::Value(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Bound, E> {
        Ok(Bound::Value(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bound, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Bounded { top: false, ..self })? {
            values.push(value);
        }
        Ok(Bound::Value(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bound, A::Error> {
        let mut document = Document::default();
        while let Some(name) = map.next_key::<String>()? {
            if self.top && name == "attributes" {
                document.attributes = Some(map.next_value()?);
                continue;
            }
            let value = map.next_value_seed(Bounded { top: false, ..self })?;
            document.members.insert(name, value);
        }
        Ok(if self.top { Bound::Document(document) } else { Bound::Value(Value::Object(document.members)) })
    }
}

/// Puts the bare words `NaN`, `Infinity` and `-Infinity` in quotes.
///
/// They are not JSON, but Python writes them, and Zarr-Python lets them into attributes.
fn quote_bare_numbers(json: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut copied, mut at) = (Vec::new(), 0, 0);
    let mut in_string = false;
    while at < json.len() {
        let word = [&b"-Infinity"[..], b"Infinity", b"NaN"].into_iter().find(|w| json[at..].starts_with(w));
        match (json[at], word) {
            (b'"', _) => in_string = !in_string,
            (b'\\', _) if in_string => at += 1,
            (_, Some(word)) if !in_string => {
                out.extend_from_slice(&json[copied..at]);
                out.push(b'"');
                out.extend_from_slice(word);
                out.push(b'"');
                at += word.len();
                copied = at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.extend_from_slice(&json[copied..]);
    Cow::Owned(out)
}

/// A member that must be there.
pub(super) fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a Value, FormatError> {
    match object.get(name) {
        Some(value) => Ok(value),
        None => malformed(format!("{name} is missing")),
    }
}

pub(super) fn wrong_type<T>(name: &str, wanted: &str, found: &Value) -> Result<T, FormatError> {
    wrong_text(name, wanted, &found.to_string())
}

pub(super) fn wrong_text<T>(name: &str, wanted: &str, found: &str) -> Result<T, FormatError> {
    malformed(format!("{name} is {}, not {wanted}", quoted(found)))
}

/// A member that must be a string.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, FormatError> {
    value.as_str().map_or_else(|| wrong_type(name, "a string", value), Ok)
}

/// A member that must be a list of non-negative integers, one for each axis.
pub(super) fn dims(value: &Value, name: &str) -> Result<Dims, FormatError> {
    let Some(list) = value.as_array() else {
        return wrong_type(name, "a list of integers", value);
    };
    if list.len() > MAX_NDIM {
        return unsupported(format!("{name} has {} dimensions, at most {MAX_NDIM} are possible", list.len()));
    }
    list.iter()
        .map(|n| n.as_u64().map_or_else(|| wrong_type(name, "a list of non-negative integers", value), Ok))
        .collect()
}

/// The name and the configuration of an extension point.
type Named<'a> = (&'a str, Cow<'a, Map<String, Value>>);

/// Reads an extension point: an object, or a name alone.
pub(super) fn named<'a>(value: &'a Value, what: &str) -> Result<Named<'a>, FormatError> {
    if let Value::String(name) = value {
        return Ok((name, Cow::Owned(Map::new())));
    }
    let Some(name) = value.get("name").and_then(Value::as_str) else {
        return wrong_type(what, "an object with a name", value);
    };
    match value.get("configuration") {
        None => Ok((name, Cow::Owned(Map::new()))),
        Some(Value::Object(configuration)) => Ok((name, Cow::Borrowed(configuration))),
        Some(other) => wrong_type(&format!("configuration of {what} {}", quoted(name)), "an object", other),
    }
}

/// Checks that this is the metadata of an array, of the format 3.
fn check_kind(document: &Map<String, Value>) -> Result<(), FormatError> {
    let format = member(document, "zarr_format")?;
    match format.as_u64() {
        Some(3) => {}
        Some(n) if n > 3 => {
            return Err(FormatError::NewerVersion(format!("zarr_format {n} is not known; 2 and 3 are")));
        }
        _ => return wrong_type("zarr_format", "3", format),
    }
    match text(member(document, "node_type")?, "node_type")? {
        "array" => Ok(()),
        "group" => unsupported("this is a Zarr group; name an array in it"),
        other => malformed(format!("node_type is {}, neither \"array\" nor \"group\"", quoted(other))),
    }
}

/// Refuses storage transformers, and unknown members except those that may be ignored.
fn check_members(document: &Map<String, Value>) -> Result<(), FormatError> {
    match document.get("storage_transformers") {
        None => {}
        Some(Value::Array(transformers)) => {
            if let Some(first) = transformers.first() {
                let (name, _) = named(first, "storage transformer")?;
                return unsupported(format!("storage transformer {} is not known", quoted(name)));
            }
        }
        Some(other) => return wrong_type("storage_transformers", "a list", other),
    }
    for (name, value) in document {
        let ignorable = value.get("must_understand") == Some(&Value::Bool(false));
        if !ignorable && name != OURS && !MEMBERS.contains(&name.as_str()) {
            return unsupported(format!("the array needs a reader that understands {}", quoted(name)));
        }
    }
    Ok(())
}

fn parse_ours(value: &Value) -> Result<Ours, FormatError> {
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    match number("version") {
        Some(version) if version > u64::from(OURS_VERSION) => Err(FormatError::NewerVersion(format!(
            "made by a newer Outcrop: array format {version}, this version knows {OURS_VERSION}"
        ))),
        Some(1) => match number("index_crc32c").map(u32::try_from) {
            Some(Ok(index_crc32c)) => Ok(Ours { index_crc32c, format: 1 }),
            _ => wrong_type(OURS, "an object with a 32-bit index_crc32c", value),
        },
        _ => wrong_type(OURS, "an object with a version", value),
    }
}

fn parse_data_type(value: &Value) -> Result<DType, FormatError> {
    let (name, configuration) = named(value, "data_type")?;
    match DType::from_name(name) {
        Some(dtype) if configuration.is_empty() => Ok(dtype),
        Some(_) => unsupported(format!("data_type {} is not known", quoted(&value.to_string()))),
        None => unsupported(format!(
            "data_type {} is not supported; supported are bool, int8 to int64, uint8 to uint64, float32, \
             float64, complex64 and complex128",
            quoted(name)
        )),
    }
}

fn parse_dimension_names(
    value: Option<&Value>,
    ndim: usize,
) -> Result<Option<Vec<Option<String>>>, FormatError> {
    let list = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(other) => return wrong_type("dimension_names", "a list", other),
    };
    if list.len() != ndim {
        return malformed(format!("dimension_names has {} names for {ndim} dimensions", list.len()));
    }
    list.iter()
        .map(|name| match name {
            Value::Null => Ok(None),
            Value::String(name) => Ok(Some(name.clone())),
            other => wrong_type("a dimension name", "a string or null", other),
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

fn parse_grid(value: &Value, shape: &[u64], dtype: DType) -> Result<NativeOr<Dims>, FormatError> {
    let (name, configuration) = named(value, "chunk_grid")?;
    if DECODABLE_GRIDS.contains(&name) {
        return Ok(Err(format!("chunk grid {name:?}")));
    }
    if name != "regular" {
        return unsupported(format!("chunk grid {} is not known", quoted(name)));
    }
    let tile = dims(member(&configuration, "chunk_shape")?, "chunk_shape")?;
    if tile.len() != shape.len() {
        return malformed(format!(
            "chunk_shape {} and shape {} have different numbers of dimensions",
            Tuple(&tile),
            Tuple(shape)
        ));
    }
    if tile.contains(&0) {
        return malformed(format!("chunk_shape {} has an extent of zero", Tuple(&tile)));
    }
    nbytes(&tile, dtype)?;
    Ok(Ok(tile))
}

fn parse_key_encoding(value: &Value) -> Result<NativeOr<KeyEncoding>, FormatError> {
    let (name, configuration) = named(value, "chunk_key_encoding")?;
    let separator = match configuration.get("separator") {
        None => None,
        Some(Value::String(s)) if s == "/" => Some('/'),
        Some(Value::String(s)) if s == "." => Some('.'),
        Some(other) => return wrong_type("separator of chunk_key_encoding", "\"/\" or \".\"", other),
    };
    match name {
        "default" => Ok(Ok(KeyEncoding::Default { separator: separator.unwrap_or('/') })),
        "v2" => Ok(Ok(KeyEncoding::V2 { separator: separator.unwrap_or('.') })),
        "zarrs.default_suffix" => Ok(Err(format!("chunk key encoding {name:?}"))),
        _ => unsupported(format!("chunk key encoding {} is not known", quoted(name))),
    }
}
