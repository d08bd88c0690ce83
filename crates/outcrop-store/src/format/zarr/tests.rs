//! Tests of Zarr metadata. The documents are those that Zarr-Python 3.1 writes.

use super::*;
use crate::dtype::ByteOrder;
use crate::format::FormatError;
use proptest::prelude::*;
use serde_json::Map;

/// `zarr.create_array(shape=(5, 7), chunks=(2, 3), dtype="f8", compressors=[Crc32cCodec()])`
const NATIVE: &str = r#"{"shape": [5, 7], "data_type": "float64", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0.0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;

const ZSTD: &str = r#"[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}]"#;
const BYTES: &str = r#"[{"name": "bytes", "configuration": {"endian": "little"}}]"#;

/// [`NATIVE`] with other members: text of `json` replaces each.
fn changed(members: &[(&str, &str)]) -> Vec<u8> {
    let mut document: Map<String, Value> = serde_json::from_str(NATIVE).unwrap();
    for (name, json) in members {
        match *json {
            "" => drop(document.remove(*name)),
            json => drop(document.insert((*name).into(), serde_json::from_str(json).unwrap())),
        }
    }
    serde_json::to_vec(&document).unwrap()
}

fn native(json: &[u8]) -> ArrayMeta {
    match parse(json) {
        Ok(Parsed::Native(meta)) => meta,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(json)),
    }
}

fn fill(data_type: &str, value: &str) -> Result<Vec<u8>, FormatError> {
    let json = changed(&[("data_type", &format!("{data_type:?}")), ("fill_value", value)]);
    parse(&json).map(|parsed| match parsed {
        Parsed::Native(meta) => {
            assert_eq!(native(&meta.encode()), meta, "{data_type} {value}");
            meta.fill_value.to_vec()
        }
        Parsed::Foreign { reason } => panic!("{reason}"),
    })
}

#[test]
fn arrays_of_zarr_python_are_native_where_their_bytes_are_plain() {
    let meta = native(NATIVE.as_bytes());
    assert_eq!((meta.shape.as_slice(), meta.tile.as_slice()), (&[5, 7][..], &[2, 3][..]));
    assert_eq!((meta.dtype, meta.encoding, meta.ours), (DType::F64, Encoding::Checksummed, None));
    assert_eq!((meta.tile_bytes(), meta.stored_tile_bytes()), (48, 52));
    assert_eq!(meta.fill_value.as_slice(), [0; 8]);
    assert_eq!(meta.grid().tiles(), 9);
    assert_eq!(native(&meta.encode()), meta);
    let plain = native(&changed(&[("codecs", BYTES)]));
    assert_eq!((plain.encoding, plain.stored_tile_bytes()), (Encoding::Plain, 48));
    // One-byte elements have no byte order; a shorthand of version 3.1 is a name alone.
    for codecs in [
        r#"[{"name": "bytes"}]"#,
        r#"["bytes"]"#,
        r#"[{"name": "bytes", "configuration": {"endian": "big"}}]"#,
    ] {
        native(&changed(&[("data_type", "\"uint8\""), ("codecs", codecs)]));
    }
    native(&changed(&[("data_type", r#"{"name": "float64"}"#)]));
}

#[test]
fn tiles_with_frontiers_are_native() {
    let codec = |configuration: &str| {
        let codecs = format!(r#"[{{"name": "outcrop.frontier", "configuration": {configuration}}}]"#);
        parse(&changed(&[("chunk_grid", GRID), ("codecs", &codecs)]))
    };
    const GRID: &str = r#"{"name": "regular", "configuration": {"chunk_shape": [4, 6]}}"#;
    let Ok(Parsed::Native(meta)) = codec(r#"{"thickness": 2, "endian": "little"}"#) else { panic!() };
    assert_eq!(meta.encoding, Encoding::Frontiers { thickness: 2 });
    assert_eq!(meta.stored_tile_bytes(), (24 + 16) * 8 + 100);
    assert_eq!(native(&meta.encode()), meta);
    for (configuration, is_malformed) in [
        (r#"{"thickness": 3, "endian": "little"}"#, true),
        (r#"{"thickness": 0, "endian": "little"}"#, true),
        (r#"{"thickness": 1.5, "endian": "little"}"#, true),
        (r#"{"endian": "little"}"#, true),
        (r#"{"thickness": 1}"#, true),
        (r#"{"thickness": 1, "endian": "middle"}"#, true),
        (r#"{"thickness": 1, "endian": "big"}"#, false),
        (r#"{"thickness": 1, "endian": "little", "packed": true}"#, false),
    ] {
        match codec(configuration).unwrap_err() {
            FormatError::Malformed(_) => assert!(is_malformed, "{configuration}"),
            FormatError::Unsupported(_) => assert!(!is_malformed, "{configuration}"),
            other => panic!("{configuration}: {other}"),
        }
    }
    let behind =
        r#"[{"name": "outcrop.frontier", "configuration": {"thickness": 1, "endian": "little"}}, "zstd"]"#;
    let error = parse(&changed(&[("chunk_grid", GRID), ("codecs", behind)])).unwrap_err();
    assert!(matches!(error, FormatError::Unsupported(_)), "{error}");
}

#[test]
fn names_of_dimensions_and_attributes_are_kept() {
    let json = changed(&[
        ("dimension_names", r#"["x", null]"#),
        ("attributes", r#"{"unit": "K", "b": [1, {"c": null}]}"#),
    ]);
    let meta = native(&json);
    assert_eq!(meta.dimension_names, Some(vec![Some("x".into()), None]));
    assert_eq!(meta.attributes.to_map()["unit"], "K");
    assert_eq!(native(&meta.encode()), meta);
}

#[test]
fn bare_nan_of_python_is_read() {
    let text =
        NATIVE.replace(r#""attributes": {}"#, r#""attributes": {"v": [NaN, -Infinity, 1], "t": "\"NaN\\"}"#);
    let meta = native(text.as_bytes());
    assert_eq!(meta.attributes.to_map()["v"], json!(["NaN", "-Infinity", 1]));
    assert_eq!(meta.attributes.to_map()["t"], "\"NaN\\");
    let text = NATIVE.replace(r#""fill_value": 0.0"#, r#""fill_value": NaN"#);
    assert_eq!(native(text.as_bytes()).fill_value.as_slice(), f64::NAN.to_le_bytes());
}

#[test]
fn other_encodings_are_foreign() {
    let shards = r#"[{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}}]"#;
    let transposed = r#"[{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}]"#;
    let big = r#"[{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]"#;
    let twice = r#"[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}, {"name": "crc32c"}]"#;
    for (member, json, part) in [
        ("codecs", ZSTD, "codec \"zstd\""),
        ("codecs", shards, "codec \"sharding_indexed\""),
        ("codecs", transposed, "codec \"transpose\""),
        ("codecs", big, "big-endian"),
        ("codecs", twice, "in this order"),
        ("chunk_grid", r#"{"name": "rectilinear", "configuration": {}}"#, "chunk grid \"rectilinear\""),
    ] {
        match parse(&changed(&[(member, json)])) {
            Ok(Parsed::Foreign { reason }) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{json}: {other:?}"),
        }
    }
}

#[test]
fn what_nobody_can_read_is_unsupported() {
    for (member, json, part) in [
        (
            "data_type",
            r#"{"name": "structured", "configuration": {"fields": [["a", "float32"]]}}"#,
            "\"structured\"",
        ),
        ("data_type", r#""string""#, "\"string\""),
        ("data_type", r#""float16""#, "\"float16\""),
        ("data_type", r#""bfloat16""#, "\"bfloat16\""),
        (
            "data_type",
            r#"{"name": "numpy.datetime64", "configuration": {"unit": "ns"}}"#,
            "\"numpy.datetime64\"",
        ),
        (
            "codecs",
            r#"[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "lzma"}]"#,
            "codec \"lzma\"",
        ),
        ("chunk_grid", r#"{"name": "hexagonal"}"#, "\"hexagonal\""),
        ("chunk_key_encoding", r#"{"name": "hashed"}"#, "\"hashed\""),
        ("storage_transformers", r#"[{"name": "encrypted"}]"#, "\"encrypted\""),
        ("virtual", r#"{"must_understand": true}"#, "\"virtual\""),
        ("virtual", "5", "\"virtual\""),
        ("node_type", r#""group""#, "this is a Zarr group; name an array in it"),
    ] {
        match parse(&changed(&[(member, json)])) {
            Err(FormatError::Unsupported(message)) => assert!(message.contains(part), "{message}"),
            other => panic!("{json}: {other:?}"),
        }
    }
    native(&changed(&[("virtual", r#"{"must_understand": false, "x": 1}"#)]));
    let group = br#"{"attributes": {}, "zarr_format": 3, "node_type": "group"}"#;
    assert!(matches!(parse(group), Err(FormatError::Unsupported(_))));
}

#[test]
fn broken_documents_are_malformed() {
    for name in [
        "shape",
        "data_type",
        "chunk_grid",
        "chunk_key_encoding",
        "fill_value",
        "codecs",
        "zarr_format",
        "node_type",
    ] {
        let error = parse(&changed(&[(name, "")])).unwrap_err();
        assert_eq!(error, FormatError::Malformed(format!("{name} is missing")));
    }
    for (member, json) in [
        ("shape", "[5.0, 7]"),
        ("shape", "[-5, 7]"),
        ("shape", "[5]"),
        ("shape", "5"),
        ("shape", "[true, 7]"),
        ("shape", "[4294967296, 4294967296]"),
        ("shape", "[99999999999999999999, 7]"),
        ("chunk_grid", r#"{"name": "regular", "configuration": {"chunk_shape": [2, 0]}}"#),
        ("chunk_grid", r#"{"name": "regular", "configuration": {"chunk_shape": [2]}}"#),
        ("chunk_grid", r#"{"name": "regular", "configuration": {"chunk_shape": [4294967296, 4294967296]}}"#),
        ("chunk_grid", r#"{"name": "regular", "configuration": [2, 3]}"#),
        ("chunk_grid", r#"{"name": "regular"}"#),
        ("chunk_grid", "7"),
        ("chunk_key_encoding", r#"{"name": "default", "configuration": {"separator": "../"}}"#),
        ("data_type", "8"),
        ("codecs", "[]"),
        ("codecs", "{}"),
        ("codecs", r#"[{"name": "bytes"}]"#),
        ("codecs", r#"[{"name": "bytes", "configuration": {"endian": "middle"}}]"#),
        ("codecs", "[7]"),
        ("attributes", "[]"),
        ("dimension_names", r#"["x"]"#),
        ("dimension_names", r#"["x", 1]"#),
        ("storage_transformers", "{}"),
        ("node_type", r#""tree""#),
        ("zarr_format", "2"),
        ("zarr_format", "\"3\""),
        ("fill_value", "null"),
        ("outcrop", r#"{"must_understand": false, "version": 0, "index_crc32c": 1}"#),
        ("outcrop", r#"{"must_understand": false, "version": 1}"#),
        ("outcrop", r#"{"must_understand": false, "version": 1, "index_crc32c": 4294967296}"#),
        ("outcrop", "5"),
    ] {
        let result = parse(&changed(&[(member, json)]));
        assert!(matches!(result, Err(FormatError::Malformed(_))), "{member} {json}: {result:?}");
    }
    for text in ["", "{", "[]", "{\"zarr_format\": 3", &"[".repeat(100_000), "\u{0}"] {
        assert!(matches!(parse(text.as_bytes()), Err(FormatError::Malformed(_))));
    }
}

#[test]
fn newer_versions_are_named_as_such() {
    for (member, json) in [
        ("zarr_format", "4"),
        ("outcrop", r#"{"must_understand": false, "version": 2, "index": "elsewhere"}"#),
        ("outcrop", r#"{"must_understand": true, "version": 2}"#),
    ] {
        // A later version may use a codec that is not known yet.
        let json = changed(&[(member, json), ("codecs", r#"["frontier"]"#)]);
        assert!(matches!(parse(&json), Err(FormatError::NewerVersion(_))));
    }
}

#[test]
fn fill_values_keep_every_bit() {
    let f32s = |x: f32| Ok(x.to_le_bytes().to_vec());
    assert_eq!(fill("float32", "0.1"), f32s(0.1));
    assert_eq!(fill("float32", "-0.0"), f32s(-0.0));
    assert_eq!(fill("float32", "\"-Infinity\""), f32s(f32::NEG_INFINITY));
    assert_eq!(fill("float32", "\"NaN\""), Ok(vec![0, 0, 0xc0, 0x7f]));
    assert_eq!(fill("float32", "\"0x7fc00001\""), Ok(vec![1, 0, 0xc0, 0x7f]));
    assert_eq!(fill("float64", "\"0xfff8000000000000\""), Ok(vec![0, 0, 0, 0, 0, 0, 0xf8, 0xff]));
    assert_eq!(fill("float64", "5e-324"), Ok(vec![1, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(fill("float64", "7"), Ok(7f64.to_le_bytes().to_vec()));
    assert_eq!(fill("int8", "-128"), Ok(vec![0x80]));
    assert_eq!(fill("int16", "-2.0"), Ok(vec![0xfe, 0xff]));
    assert_eq!(fill("uint64", "18446744073709551615"), Ok(vec![0xff; 8]));
    assert_eq!(fill("int64", "-9223372036854775808"), Ok(i64::MIN.to_le_bytes().to_vec()));
    assert_eq!(fill("bool", "true"), Ok(vec![1]));
    let complex = fill("complex64", r#"["NaN", "-Infinity"]"#).unwrap();
    assert_eq!(complex, [0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0xff]);
    assert_eq!(fill("complex128", r#"[1.5, 0]"#).unwrap()[..8], 1.5f64.to_le_bytes());
}

#[test]
fn fill_values_of_another_type_are_malformed() {
    for (data_type, value) in [
        ("bool", "0"),
        ("bool", "\"true\""),
        ("uint8", "256"),
        ("uint8", "-1"),
        ("int8", "128"),
        ("int32", "1.5"),
        ("int64", "9223372036854775808"),
        ("uint64", "18446744073709551616"),
        ("int32", "\"NaN\""),
        ("float32", "1e39"),
        ("float32", "\"0x7fc0000\""),
        ("float32", "\"0x+fc00000\""),
        ("float64", "\"nan\""),
        ("float64", "true"),
        ("complex64", "[1.0]"),
        ("complex64", "0"),
        ("complex64", "[0, 0, 0]"),
    ] {
        assert!(matches!(fill(data_type, value), Err(FormatError::Malformed(_))), "{data_type} {value}");
    }
}

#[test]
fn tiles_have_the_keys_of_the_specification() {
    let mut meta = native(NATIVE.as_bytes());
    for (encoding, key, scalar) in [
        (KeyEncoding::Default { separator: '/' }, "c/0/12", "c"),
        (KeyEncoding::Default { separator: '.' }, "c.0.12", "c"),
        (KeyEncoding::V2 { separator: '.' }, "0.12", "0"),
        (KeyEncoding::V2 { separator: '/' }, "0/12", "0"),
    ] {
        meta.key_encoding = encoding;
        assert_eq!((meta.tile_key(&[0, 12]), meta.tile_key(&[])), (key.into(), scalar.into()));
        assert_eq!(native(&meta.encode()), meta);
    }
    let v2 = native(&changed(&[("chunk_key_encoding", r#"{"name": "v2"}"#)]));
    assert_eq!(v2.key_encoding, KeyEncoding::V2 { separator: '.' });
    let default = native(&changed(&[("chunk_key_encoding", r#""default""#)]));
    assert_eq!(default.key_encoding, KeyEncoding::Default { separator: '/' });
}

#[test]
fn our_own_arrays_are_marked() {
    let mut meta = native(NATIVE.as_bytes());
    meta.ours = Some(Ours { index_crc32c: u32::MAX, format: OURS_VERSION });
    let text = String::from_utf8(meta.encode()).unwrap();
    assert!(text.contains("\n  \"outcrop\": {\n") && text.ends_with("}\n"), "{text}");
    assert!(
        text.contains("\"must_understand\": false") && text.contains("\"index_crc32c\": 4294967295"),
        "{text}"
    );
    assert_eq!(native(text.as_bytes()), meta);
}

#[test]
fn zarr_v2_is_described() {
    let json = br#"{"shape": [5, 7], "chunks": [2, 3], "dtype": ">f8", "fill_value": 0.0, "order": "F", "filters": [{"id": "delta"}], "dimension_separator": ".", "compressor": {"id": "zstd", "level": 0}, "zarr_format": 2}"#;
    let meta = parse_v2(json).unwrap();
    assert_eq!((meta.dtype, meta.byte_order, meta.column_major), (DType::F64, ByteOrder::Big, true));
    assert_eq!((meta.shape.as_slice(), meta.tile.as_slice()), (&[5, 7][..], &[2, 3][..]));
    assert_eq!(meta.codecs, ["delta", "zstd"]);
    let with = |from: &str, to: &str| parse_v2(String::from_utf8_lossy(json).replace(from, to).as_bytes());
    assert!(matches!(with("\">f8\"", r#"[["a", "<f4"]]"#), Err(FormatError::Unsupported(_))));
    assert!(matches!(with(">f8", "|O"), Err(FormatError::Unsupported(_))));
    assert!(matches!(with("\"zarr_format\": 2", "\"zarr_format\": 3"), Err(FormatError::NewerVersion(_))));
    for (from, to) in [
        ("\"zarr_format\": 2", "\"zarr_format\": 1"),
        ("[2, 3]", "[2, 0]"),
        ("[2, 3]", "[2]"),
        ("[5, 7]", "[5, 7.0]"),
        ("\"F\"", "\"K\""),
        (">f8", ">q8"),
        ("{\"id\": \"delta\"}", "5"),
        ("\"chunks\"", "\"chunk\""),
    ] {
        assert!(matches!(with(from, to), Err(FormatError::Malformed(_))), "{to}");
    }
}

fn any_meta() -> impl Strategy<Value = ArrayMeta> {
    let axes = prop::collection::vec((0u64..1 << 12, 1u64..1 << 12), 0..5);
    let flags = (any::<u8>(), any::<bool>(), any::<bool>(), any::<Option<u32>>(), any::<bool>());
    (axes, 0usize..13, any::<[u8; 16]>(), flags, "\\PC{0,8}").prop_map(|(axes, d, bits, flags, text)| {
        let dtype = DType::ALL[d];
        let (shape, tile): (Dims, Dims) = axes.into_iter().unzip();
        let (coded, v2, dotted, stamp, named) = flags;
        let most = tile.iter().min().map_or(3, |n| n / 2);
        let encoding = match coded % 3 {
            0 => Encoding::Plain,
            2 if most > 0 => Encoding::Frontiers { thickness: 1 + u64::from(coded) % most },
            _ => Encoding::Checksummed,
        };
        let separator = if dotted { '.' } else { '/' };
        let mut fill_value: SmallVec<[u8; 16]> = SmallVec::from_slice(&bits[..dtype.size()]);
        if dtype == DType::Bool {
            fill_value[0] &= 1;
        }
        ArrayMeta {
            dimension_names: named
                .then(|| (0..shape.len()).map(|a| (a != 1).then(|| text.clone())).collect()),
            shape,
            dtype,
            tile,
            encoding,
            key_encoding: if v2 { KeyEncoding::V2 { separator } } else { KeyEncoding::Default { separator } },
            fill_value,
            attributes: Map::from_iter([(text.clone(), json!({ "a": [1, text] }))]).into(),
            ours: stamp.map(|index_crc32c| Ours { index_crc32c, format: OURS_VERSION }),
        }
    })
}

proptest! {
    #[test]
    fn encoded_metadata_reads_back(meta in any_meta()) {
        let text = meta.encode();
        prop_assert_eq!(native(&text), meta.clone());
        prop_assert_eq!(meta.encode(), text);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (parse(&bytes), parse_v2(&bytes));
    }

    #[test]
    fn damaged_metadata_never_panics(at in 0..NATIVE.len(), byte: u8, cut in 0..NATIVE.len()) {
        let mut bytes = NATIVE.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = parse(&bytes);
        let _ = parse(&bytes[..cut]);
    }

    #[test]
    fn odd_members_never_panic(which in 0usize..9, json in r#"(-?[0-9]{1,20}(\.5)?|"[a-zNI0x]{0,9}"|\[(0|1|99999999999){0,1}\]|null|true|\{\})"#) {
        let names = ["shape", "data_type", "chunk_grid", "fill_value", "codecs", "outcrop", "attributes", "dimension_names", "storage_transformers"];
        if let Ok(json) = serde_json::from_str::<Value>(&json) {
            let _ = parse(&changed(&[(names[which], &json.to_string())]));
        }
    }
}
