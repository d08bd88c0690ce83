//! The metadata of foreign arrays, versions 2 and 3: read, and made for new arrays.

use super::bounded;
use super::codecs::{Codecs, Element, Sorted, describe, make_codec, most_between, refused};
use crate::dtype::{ByteOrder, DType};
use crate::error::{Error, Result};
use crate::format::zarr::Names;
use crate::format::zarr::{
    self, Attributes, Labelled, Labels, ParsedDocument, V2_ATTRIBUTES_FILE, parse_document, parse_fill_value,
};
use crate::format::{FormatError, MAX_METADATA_BYTES};
use crate::io::disk::{Disk, DiskDir};
use crate::shape::TileGrid;
use crate::store::commit::update::is_missing;
use crate::store::tiled::unlabelled;
use serde::Serializer;
use serde::ser::SerializeMap;
use serde_json::{Map, Value, json};
use smallvec::SmallVec;
use std::path::Path;
use zarrs::array::ChunkKeyEncoding;
use zarrs::array::chunk_key_encoding::V2ChunkKeyEncoding;
use zarrs::array::codec::api::Codec;
use zarrs::metadata::ChunkKeySeparator;
use zarrs::metadata::v2::MetadataV2;
use zarrs::metadata::v3::MetadataV3;

/// What an array is.
pub(super) struct Meta {
    pub(super) grid: TileGrid,
    pub(super) element: Element,
    pub(super) attributes: Attributes,
    pub(super) labelled: Labelled,
    pub(super) keys: ChunkKeyEncoding,
    pub(super) codecs: Codecs,
    /// The codecs, for people.
    pub(super) description: String,
}

/// The metadata files of a new array, by name, in the order in which they are written: without the
/// last there is no array.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

/// Reads the metadata of the array in a directory.
pub(super) fn read(disk: &Disk, path: &Path, dir: &DiskDir) -> Result<Meta> {
    let read = |name: &str| match disk.read_small_beneath(dir, name, MAX_METADATA_BYTES as u64) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(other) => Err(other),
    };
    if let Some(json) = read(zarr::METADATA_FILE)? {
        return parse_v3(&json).map_err(|e| e.at(path));
    }
    let json = disk.read_small_beneath(dir, zarr::V2_METADATA_FILE, MAX_METADATA_BYTES as u64)?;
    parse_v2(&json, read(V2_ATTRIBUTES_FILE)?.as_deref()).map_err(|e| e.at(path))
}

/// Parses a `zarr.json`.
pub(super) fn parse_v3(json: &[u8]) -> Result<Meta, FormatError> {
    // Everything that asks for no decoder is checked there, messages included.
    zarr::parse(json)?;
    let ParsedDocument { members: document, attributes } = parse_document(json, zarr::METADATA_FILE)?;
    let shape: Vec<u64> = typed(&document, "shape")?;
    let data_type: MetadataV3 = typed(&document, "data_type")?;
    let dtype = DType::from_name(data_type.name()).ok_or_else(|| {
        FormatError::Unsupported(format!("data_type {:?} is not supported", data_type.name()))
    })?;
    let grid: MetadataV3 = typed(&document, "chunk_grid")?;
    if grid.name() != "regular" {
        return Err(FormatError::Unsupported(format!("chunk grid {:?} is not supported", grid.name())));
    }
    let tile = grid.configuration().and_then(|c| c.get("chunk_shape")).cloned().unwrap_or_default();
    let tile: Vec<u64> = serde_json::from_value(tile).map_err(|e| malformed("chunk_shape", &e))?;
    let fill = parse_fill_value(document.get("fill_value").unwrap_or(&Value::Null), dtype)?;
    let keys: MetadataV3 = typed(&document, "chunk_key_encoding")?;
    let keys = ChunkKeyEncoding::from_metadata(&keys).map_err(|e| FormatError::Unsupported(e.to_string()))?;
    let list: Vec<MetadataV3> = typed(&document, "codecs")?;
    let element = Element::new(dtype, &fill)?;
    let codecs = Codecs::new(&list, &tile, &element, true)?;
    let attributes = attributes.map(|text| Attributes::of(&text, "attributes")).transpose()?;
    let mut attributes = attributes.unwrap_or_default();
    let names = attributes.take_names(shape.len());
    let dimension_names = typed::<Option<Names>>(&document, "dimension_names")?.or(names);
    let labelled = Labelled { zarr_format: 3, dimension_names, fill_value: Some(fill) };
    let grid = TileGrid { shape: shape.into(), tile: tile.into() };
    Ok(Meta { grid, element, attributes, labelled, keys, codecs, description: describe(&list) })
}

/// Parses a `.zarray`, and the `.zattrs` beside it.
pub(super) fn parse_v2(json: &[u8], attributes: Option<&[u8]>) -> Result<Meta, FormatError> {
    let known = zarr::parse_v2(json)?;
    let document = parse_document(json, zarr::V2_METADATA_FILE)?.members;
    let attributes = attributes.map(|bytes| Attributes::parse(bytes, V2_ATTRIBUTES_FILE)).transpose()?;
    let mut attributes = attributes.unwrap_or_default();
    let dtype = known.dtype;
    let fill = parse_fill_value(&v2_fill(document.get("fill_value"), dtype), dtype)?;
    let element = Element::new(dtype, &fill)?;
    let has_fill = document.get("fill_value").is_some_and(|fill| !fill.is_null());
    let labelled = Labelled {
        zarr_format: 2,
        dimension_names: attributes.take_names(known.shape.len()),
        fill_value: has_fill.then_some(fill),
    };
    let separator = match document.get("dimension_separator") {
        None | Some(Value::Null) => ChunkKeySeparator::Dot,
        Some(Value::String(s)) if s == "." => ChunkKeySeparator::Dot,
        Some(Value::String(s)) if s == "/" => ChunkKeySeparator::Slash,
        Some(other) => {
            return Err(FormatError::Malformed(format!(
                "dimension_separator is {other}, neither \".\" nor \"/\""
            )));
        }
    };
    let mut described = Vec::new();
    let ndim = known.shape.len();
    let order: SmallVec<[usize; 4]> = if known.column_major && ndim > 1 {
        let order: Vec<usize> = (0..ndim).rev().collect();
        described.push(json!({ "name": "transpose", "configuration": { "order": order } }));
        order.into()
    } else {
        (0..ndim).collect()
    };
    let filters = document.get("filters").and_then(Value::as_array).into_iter().flatten();
    let compressor = document.get("compressor").filter(|c| !c.is_null());
    let big = known.byte_order == ByteOrder::Big;
    let bytes = json!({ "name": "bytes", "configuration": { "endian": if big { "big" } else { "little" } } });
    let mut sorted = Sorted::default();
    let mut later = Vec::new();
    for codec in filters.chain(compressor) {
        let most = most_between(&known.tile, &element);
        let (codec, description) = bounded::within(most, || make_v2_codec(codec, dtype))?;
        match codec {
            Codec::ArrayToArray(_) => {
                sorted.push(codec)?;
                described.push(description);
            }
            _ => later.push((codec, description)),
        }
    }
    // Version 2 has no codec that makes bytes of elements; they are bytes as they are.
    if !later.iter().any(|(codec, _)| matches!(codec, Codec::ArrayToBytes(_))) {
        sorted.push(make_codec(&from_json(bytes.clone(), "bytes")?)?)?;
        described.push(bytes);
    }
    for (codec, description) in later {
        sorted.push(codec)?;
        described.push(description);
    }
    let codecs = Codecs::sorted(order, sorted, big, None, &known.tile, &element)?;
    let described: Vec<MetadataV3> = from_json(described.into(), "codecs")?;
    Ok(Meta {
        grid: TileGrid { shape: known.shape, tile: known.tile },
        element,
        attributes,
        labelled,
        keys: ChunkKeyEncoding::new(V2ChunkKeyEncoding::new(separator)),
        codecs,
        description: describe(&described),
    })
}

/// A fill value of version 2 in the terms of version 3.
fn v2_fill(value: Option<&Value>, dtype: DType) -> Value {
    let complex = dtype.word_size() != dtype.size();
    match value {
        None | Some(Value::Null) if dtype == DType::Bool => Value::Bool(false),
        None | Some(Value::Null) if complex => json!([0, 0]),
        None | Some(Value::Null) => json!(0),
        Some(Value::Number(n)) if dtype == DType::Bool => match n.as_f64() {
            Some(0.0) => Value::Bool(false),
            Some(1.0) => Value::Bool(true),
            _ => Value::Number(n.clone()),
        },
        Some(single @ (Value::Number(_) | Value::String(_))) if complex => json!([single, 0]),
        Some(other) => other.clone(),
    }
}

/// A codec of version 2, and the same in the terms of version 3, for people.
fn make_v2_codec(codec: &Value, dtype: DType) -> Result<(Codec, Value), FormatError> {
    let mut configuration = codec.as_object().cloned().unwrap_or_default();
    let Some(Value::String(id)) = configuration.remove("id") else {
        return Err(FormatError::Malformed(format!("a codec without id: {codec}")));
    };
    if id == "blosc" {
        let v3 = blosc_of_v3(&configuration, dtype)?;
        return Ok((make_codec(&from_json(v3.clone(), "compressor")?)?, v3));
    }
    // zlib's and gzip's own default, which `zarrs` does not know. For reading it means nothing.
    if matches!(id.as_str(), "zlib" | "gzip") && configuration.get("level") == Some(&json!(-1)) {
        configuration.insert("level".into(), json!(6));
    }
    let description = json!({ "name": id, "configuration": configuration });
    configuration.insert("id".into(), Value::String(id.clone()));
    let metadata: MetadataV2 = from_json(Value::Object(configuration), "compressor")?;
    let made = Codec::from_metadata(&metadata).map_err(|e| refused(&id, &e))?;
    Ok((made, description))
}

/// The metadata in version 3 of a Blosc compressor of numcodecs.
fn blosc_of_v3(configuration: &Map<String, Value>, dtype: DType) -> Result<Value, FormatError> {
    let get = |key: &str, default: Value| configuration.get(key).cloned().unwrap_or(default);
    let itemsize = dtype.size();
    let shuffle = match get("shuffle", json!(1)).as_i64() {
        Some(0) => "noshuffle",
        Some(1) => "shuffle",
        Some(2) => "bitshuffle",
        // numcodecs: "bit shuffle will be used for buffers with itemsize 1, and byte shuffle otherwise".
        Some(-1) if itemsize == 1 => "bitshuffle",
        Some(-1) => "shuffle",
        _ => {
            let found = get("shuffle", Value::Null);
            return Err(FormatError::Malformed(format!(
                "codec \"blosc\": shuffle is {found}, not one of -1, 0, 1, 2"
            )));
        }
    };
    Ok(json!({ "name": "blosc", "configuration": {
        "cname": get("cname", json!("lz4")),
        "clevel": get("clevel", json!(5)),
        "shuffle": shuffle,
        "typesize": itemsize,
        "blocksize": get("blocksize", json!(0)),
    } }))
}

/// The metadata of a new array.
pub(super) struct New<'a> {
    pub(super) shape: &'a [u64],
    pub(super) dtype: DType,
    pub(super) tile: &'a [u64],
    /// A JSON list of Zarr v3 codecs, or in version 2 of numcodecs filters with the compressor last.
    pub(super) codecs: &'a str,
    pub(super) labels: &'a Labels,
}

impl New<'_> {
    /// The files of a new array of this version.
    pub(super) fn files(self, zarr_format: u8, path: &Path) -> Result<(Meta, Files)> {
        let (shape, tile) = (self.shape, self.tile);
        crate::shape::checked_nbytes(shape, self.dtype.size())?;
        crate::shape::checked_nbytes(tile, self.dtype.size())?;
        TileGrid::new(shape, tile)?;
        self.labels.check(shape.len()).map_err(|e| unlabelled(path, e))?;
        let codecs: Value = serde_json::from_str(self.codecs)
            .map_err(|e| Error::invalid(format!("codecs {:?} are not JSON: {e}", self.codecs)))?;
        let list = match codecs {
            Value::Array(list) => list,
            Value::Null => vec![],
            one => vec![one],
        };
        let made = match zarr_format {
            2 => self.v2(list),
            3 => self.v3(list),
            other => return Err(Error::invalid(format!("zarr_format {other}; 2 and 3 can be written"))),
        };
        // What is malformed here is what was asked for, not what is stored.
        made.map_err(|e| unlabelled(path, e))
    }

    fn v3(self, mut list: Vec<Value>) -> Result<(Meta, Files), FormatError> {
        let mut arrays = 0;
        let mut core = false;
        for codec in &list {
            match make_codec(&from_json(codec.clone(), "codecs")?)? {
                Codec::ArrayToArray(_) => arrays += 1,
                Codec::ArrayToBytes(_) => core = true,
                Codec::BytesToBytes(_) => {}
            }
        }
        if !core {
            list.insert(arrays, json!({ "name": "bytes", "configuration": { "endian": "little" } }));
        }
        let mut document = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": self.dtype.name(),
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": self.tile } },
            "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
            "fill_value": self.labels.fill_json(self.dtype)?,
            "codecs": list,
            "attributes": null,
            "storage_transformers": [],
        });
        if let Some(names) = &self.labels.dimension_names {
            document["dimension_names"] = json!(names);
        }
        let json = pretty(&document, Some(&self.labels.attributes));
        Ok((parse_v3(&json)?, vec![(zarr::METADATA_FILE, json)]))
    }

    fn v2(self, mut list: Vec<Value>) -> Result<(Meta, Files), FormatError> {
        let compressor = list.pop();
        let order = if self.dtype.word_size() == 1 { '|' } else { '<' };
        let document = json!({
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.tile,
            "dtype": format!("{order}{}", self.dtype.typestr()),
            "compressor": compressor,
            "fill_value": self.labels.fill_json_v2(self.dtype)?,
            "order": "C",
            "filters": if list.is_empty() { Value::Null } else { Value::Array(list) },
            "dimension_separator": ".",
        });
        let json = pretty(&document, None);
        let attributes = [self.labels.attributes_v2().pretty().get().as_bytes(), b"\n"].concat();
        let meta = parse_v2(&json, Some(&attributes))?;
        Ok((meta, vec![(V2_ATTRIBUTES_FILE, attributes), (zarr::V2_METADATA_FILE, json)]))
    }
}

/// The text of a document, in which the attributes take the place of the member of their name.
fn pretty(document: &Value, attributes: Option<&Attributes>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut write = || -> serde_json::Result<()> {
        let mut serializer = serde_json::Serializer::pretty(&mut text);
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in document.as_object().into_iter().flatten() {
            match attributes.filter(|_| name == "attributes") {
                Some(attributes) => map.serialize_entry(name, &attributes.pretty())?,
                None => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    };
    write().expect("maps with string keys always serialize");
    text.push(b'\n');
    text
}

fn typed<T: serde::de::DeserializeOwned>(
    document: &Map<String, Value>,
    name: &str,
) -> Result<T, FormatError> {
    from_json(document.get(name).cloned().unwrap_or_default(), name)
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value, name: &str) -> Result<T, FormatError> {
    serde_json::from_value(value).map_err(|e| malformed(name, &e))
}

fn malformed(name: &str, error: &serde_json::Error) -> FormatError {
    FormatError::Malformed(format!("{name} cannot be understood: {error}"))
}
