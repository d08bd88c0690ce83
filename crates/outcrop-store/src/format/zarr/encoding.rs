//! How the file of a native array's tile is made of its elements: the codecs that Outcrop runs itself.

use super::parse::{MAX_CODECS, named, wrong_type};
use crate::dtype::DType;
use crate::format::{FormatError, malformed, quoted, unsupported};
use crate::layout::Frontiers;
use serde_json::{Map, Value, json};

/// Bytes that the `crc32c` codec adds to a tile.
pub(super) const CHECKSUM_BYTES: u64 = 4;

/// The name of the codec of tiles with frontiers.
pub(super) const FRONTIER: &str = "outcrop.frontier";

/// Codecs that the decoder for foreign arrays has, by the names in their metadata.
const DECODABLE: &[&str] = &[
    "bytes",
    "endian",
    "crc32c",
    "transpose",
    "reshape",
    "sharding_indexed",
    "packbits",
    "gzip",
    "zstd",
    "blosc",
    "zarrs.squeeze",
    "numcodecs.adler32",
    "numcodecs.bz2",
    "numcodecs.fixedscaleoffset",
    "numcodecs.fletcher32",
    "numcodecs.shuffle",
    "numcodecs.zlib",
];

/// How a tile's file is made of its elements, which are little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// They are the file.
    Plain,
    /// A CRC-32C, little-endian, follows them.
    #[default]
    Checksummed,
    /// They lie as [`Frontiers`] says.
    Frontiers {
        /// Elements of a frontier along its axis.
        thickness: u64,
    },
}

impl Encoding {
    /// What codecs are, as in the JSON of `zarr.json`, or the reason why they are foreign.
    pub(super) fn parse(value: &Value, dtype: DType) -> Result<Result<Encoding, String>, FormatError> {
        let Some(list) = value.as_array() else {
            return wrong_type("codecs", "a list", value);
        };
        let codecs = list.iter().map(|c| named(c, "codec")).collect::<Result<Vec<_>, _>>()?;
        if codecs.len() > MAX_CODECS {
            return unsupported(format!("{} codecs, at most {MAX_CODECS} are possible", codecs.len()));
        }
        if codecs.is_empty() {
            return malformed("codecs is empty; one that makes bytes of an array is needed");
        }
        if let Some((unknown, _)) =
            codecs.iter().find(|(name, _)| !DECODABLE.contains(name) && *name != FRONTIER)
        {
            return unsupported(format!("codec {} is not supported", quoted(unknown)));
        }
        let mut big = false;
        for (name, configuration) in
            codecs.iter().filter(|(name, _)| matches!(*name, "bytes" | "endian" | FRONTIER))
        {
            match configuration.get("endian").map(Value::as_str) {
                Some(Some("little")) => {}
                Some(Some("big")) => big |= dtype.word_size() > 1,
                None if dtype.word_size() == 1 => {}
                None => return malformed(format!("codec {name:?} lacks endian, which {dtype} needs")),
                Some(_) => {
                    return malformed(format!("endian of codec {name:?} is neither \"little\" nor \"big\""));
                }
            }
        }
        // An option that is not known here may change the bytes.
        let plain =
            |at: usize, known: &[&str]| codecs[at].1.keys().all(|option| known.contains(&option.as_str()));
        let names: Vec<&str> = codecs.iter().map(|(name, _)| *name).collect();
        Ok(match names.as_slice() {
            [FRONTIER] => return Self::of_frontiers(&codecs[0].1, big).map(Ok),
            _ if names.contains(&FRONTIER) => {
                return unsupported(format!(
                    "codec {FRONTIER:?} is not supported together with others: what is encoded further has no \
                     frontier that can be read alone"
                ));
            }
            _ if big => Err("big-endian elements".into()),
            ["bytes"] if plain(0, &["endian"]) => Ok(Encoding::Plain),
            ["bytes", "crc32c"] if plain(0, &["endian"]) && plain(1, &[]) => Ok(Encoding::Checksummed),
            _ => Err(match names.iter().find(|name| !matches!(**name, "bytes" | "crc32c")) {
                Some(name) => format!("codec {name:?}"),
                None => format!("the codecs {names:?} in this order or with options"),
            }),
        })
    }

    fn of_frontiers(configuration: &Map<String, Value>, big: bool) -> Result<Encoding, FormatError> {
        if big {
            return unsupported(format!("codec {FRONTIER:?} is not supported with big-endian elements"));
        }
        if let Some(option) = configuration.keys().find(|key| !matches!(key.as_str(), "thickness" | "endian"))
        {
            return unsupported(format!(
                "codec {FRONTIER:?} is not supported with the option {}",
                quoted(option)
            ));
        }
        match configuration.get("thickness").map(|value| (value, value.as_u64())) {
            Some((_, Some(thickness))) => Ok(Encoding::Frontiers { thickness }),
            Some((other, None)) => {
                wrong_type(&format!("thickness of codec {FRONTIER:?}"), "a number of elements", other)
            }
            None => malformed(format!("codec {FRONTIER:?} lacks thickness")),
        }
    }

    /// That of tiles with frontiers, where such a list of codecs, as JSON, names it; `None` where it does not, or is
    /// no list of codecs.
    ///
    /// # Errors
    /// As for `zarr.json`.
    pub fn with_frontiers(codecs: &str, dtype: DType) -> Result<Option<Encoding>, FormatError> {
        let list: Value = serde_json::from_str(codecs).unwrap_or_default();
        let is_named = |codec: &Value| codec.as_str().or(codec["name"].as_str()) == Some(FRONTIER);
        match &list {
            Value::Array(names) if names.iter().any(is_named) => {}
            _ => return Ok(None),
        }
        Ok(Self::parse(&list, dtype)?.ok())
    }

    /// The codecs in the JSON of `zarr.json`.
    pub(super) fn codecs(self, dtype: DType) -> Vec<Value> {
        let mut configuration = Map::new();
        if let Encoding::Frontiers { thickness } = self {
            configuration.insert("thickness".into(), thickness.into());
        }
        if dtype.word_size() > 1 {
            configuration.insert("endian".into(), "little".into());
        }
        let name = if matches!(self, Encoding::Frontiers { .. }) { FRONTIER } else { "bytes" };
        let first = match configuration.is_empty() {
            true => json!({ "name": name }),
            false => json!({ "name": name, "configuration": configuration }),
        };
        match self {
            Encoding::Checksummed => vec![first, json!({ "name": "crc32c" })],
            Encoding::Plain | Encoding::Frontiers { .. } => vec![first],
        }
    }

    /// Where elements lie in the file of a tile of this shape, where they have frontiers.
    ///
    /// # Errors
    /// `Malformed` where the tile is too small for them.
    pub fn frontiers(self, tile: &[u64], dtype: DType) -> Result<Option<Frontiers>, FormatError> {
        match self {
            Encoding::Frontiers { thickness } => Frontiers::new(tile, dtype.size(), thickness).map(Some),
            Encoding::Plain | Encoding::Checksummed => Ok(None),
        }
    }

    /// How many elements thick frontiers are, where there are any.
    pub fn thickness(self) -> Option<u64> {
        match self {
            Encoding::Frontiers { thickness } => Some(thickness),
            Encoding::Plain | Encoding::Checksummed => None,
        }
    }

    /// What there is to say to people.
    pub fn describe(self) -> String {
        match self {
            Encoding::Plain => "bytes".into(),
            Encoding::Checksummed => "bytes, crc32c".into(),
            Encoding::Frontiers { thickness } => format!("{FRONTIER}(thickness {thickness})"),
        }
    }
}
