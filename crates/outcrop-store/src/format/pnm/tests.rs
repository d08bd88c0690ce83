use super::*;
use proptest::prelude::*;

fn parsed(bytes: &[u8]) -> Header {
    parse(bytes).unwrap().expect("a whole header")
}

fn refusal(bytes: &[u8]) -> String {
    parse(bytes).unwrap_err().to_string()
}

#[test]
fn headers_of_all_kinds() {
    let header = parsed(b"P5\n4 3\n255\nabcd");
    assert_eq!((header.kind, header.shape.as_slice(), header.maxval), (Kind::Pgm, &[3, 4][..], 255));
    assert_eq!((header.data_offset, header.dtype()), (11, DType::U8));
    let header = parsed(b"P6 4\t3\r1023 ");
    assert_eq!(
        (header.kind, header.shape.as_slice(), header.dtype()),
        (Kind::Ppm, &[3, 4, 3][..], DType::U16)
    );
    let header = parsed(
        b"P7\n# made by hand\nHEIGHT 3\n  WIDTH  4 \n\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB\nTUPLTYPE ALPHA\nENDHDR\nabc",
    );
    assert_eq!((header.kind, header.shape.as_slice()), (Kind::Pam, &[3, 4, 4][..]));
    assert_eq!(header.tupltype.as_deref(), Some("RGB ALPHA"));
    assert_eq!(header.attributes(), json!({"maxval": 255, "tupltype": "RGB ALPHA"}));
    let flat = parsed(b"P7\nHEIGHT 3\nWIDTH 4\nDEPTH 1\nMAXVAL 1\nENDHDR\n");
    assert_eq!((flat.shape.as_slice(), flat.attributes()), (&[3, 4][..], json!({"maxval": 1})));
}

#[test]
fn comments_stand_wherever_whitespace_may() {
    for text in [
        &b"P5#one\n#two\n4 3\n255\n"[..],
        b"P5\n4#width 7\n3 #height\r255\n",
        b"P5 4 # 9 9\n # again\n\n3\n#\n255 ",
        b"P5 4 3 255# the line's end is the one whitespace\n",
    ] {
        let header = parsed(text);
        assert_eq!((header.shape.as_slice(), header.maxval), (&[3, 4][..], 255));
        assert_eq!(header.data_offset, text.len() as u64);
    }
    // Behind the one whitespace the raster begins, whatever its bytes look like.
    assert_eq!(parsed(b"P5 4 3 255\n# is data\n").data_offset, 11);
}

#[test]
fn what_is_cut_off_may_go_on() {
    let whole = b"P5\n#x\n4 3\n255\n";
    for at in 3..whole.len() {
        assert_eq!(parse(&whole[..at]), Ok(None), "{at}");
    }
    let mut endless = b"P5\n#".to_vec();
    endless.resize(MAX_HEADER, b'x');
    assert!(refusal(&endless).contains("more than 1048576 bytes"));
}

#[test]
fn says_what_is_wrong() {
    for (text, part) in [
        (&b"P4\n4 3\n"[..], "packs eight pixels"),
        (b"P2\n4 3\n255\n", "decimal digits (P2)"),
        (b"P8\n4 3\n255\n", "not a PGM"),
        (b"P55 4 3 255\n", "not a PGM"),
        (b"\x89PNG", "not a PGM"),
        (b"", "not a PGM"),
        (b"P5\n-4 3\n255\n", "width is not a number: \"-\""),
        (b"P5\n4 3x\n255\n", "height is not a number: \"3x\""),
        (b"P5\n4 3\n0\n", "maxval is 0"),
        (b"P5\n4 3\n65536\n", "maxval is 65536"),
        (b"P5\n0 3\n255\n", "width is 0"),
        (b"P5\n99999999999999999999999 3\n255\n", "width is not a number"),
        (b"P6\n9999999999 9999999999\n255\n", "too large"),
        (b"P7\nWIDTH 4\nENDHDR\n", "no HEIGHT"),
        (b"P7\nWIDTH four\nENDHDR\n", "WIDTH is not a number: \"four\""),
        (b"P7\nCOLOUR 4\nENDHDR\n", "unknown line \"COLOUR 4\""),
        (b"P7\n\xff\nENDHDR\n", "not text"),
    ] {
        let message = refusal(text);
        assert!(message.contains(part), "{}: {message}", String::from_utf8_lossy(text));
    }
}

#[test]
fn behind_the_raster_stands_nothing_or_an_image() {
    for rest in [&b""[..], b"\n", b"P5\n4 3", b" \nP4 1 1", b"P6#x"] {
        assert_eq!(check_rest(rest), Ok(()));
    }
    for rest in [&b"x"[..], b"P5", b"P8\n", b"\0\0\0", &[b' '; REST_BYTES]] {
        assert!(check_rest(rest).is_err());
    }
}

#[test]
fn new_headers_are_checked() {
    let new = |kind, shape: &[u64], dtype, attributes: Value| {
        let Value::Object(attributes) = attributes else { panic!("an object") };
        Header::new(kind, shape, dtype, &attributes).map_err(|e| e.to_string())
    };
    let fine = new(Kind::Pam, &[3, 4, 2], DType::U16, json!({"maxval": 1023})).unwrap();
    assert_eq!((fine.maxval, fine.tupltype.as_deref()), (1023, Some("GRAYSCALE_ALPHA")));
    assert_eq!(parsed(&fine.encode()), fine);
    for (kind, shape, dtype, attributes, part) in [
        (Kind::Pgm, &[3, 4][..], DType::Bool, json!({}), "uint8 or uint16, and not of bool"),
        (Kind::Pgm, &[3, 4, 3], DType::U8, json!({}), "(height, width); this one has (3, 4, 3)"),
        (Kind::Ppm, &[3, 4], DType::U8, json!({}), "(height, width, 3); this one has (3, 4)"),
        (Kind::Pam, &[3, 4, 1], DType::U8, json!({}), "2 or more"),
        (Kind::Pgm, &[3, 0], DType::U8, json!({}), "no extent of 0"),
        (Kind::Pgm, &[3, 4], DType::U8, json!({"maxval": 256}), "1 to 255, and not 256"),
        (Kind::Pgm, &[3, 4], DType::U16, json!({"maxval": 255}), "256 to 65535, and not 255"),
        (Kind::Pgm, &[3, 4], DType::U8, json!({"tupltype": "RGB"}), "no attribute \"tupltype\""),
        (Kind::Pam, &[3, 4], DType::U8, json!({"tupltype": "A\nB"}), "not a line of text"),
    ] {
        let message = new(kind, shape, dtype, attributes).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        kind in 0usize..3, height in 1u64..100_000, width in 1u64..100_000, depth in 1u64..9, maxval in 1u16..,
        tupltype in "[A-Z][A-Z_]{0,20}",
    ) {
        let kind = Kind::ALL[kind];
        let mut shape = vec![height, width];
        match kind {
            Kind::Ppm => shape.push(3),
            Kind::Pam if depth > 1 => shape.push(depth),
            _ => {}
        }
        let dtype = if maxval < 256 { DType::U8 } else { DType::U16 };
        let mut attributes = Map::new();
        attributes.insert("maxval".into(), maxval.into());
        if kind == Kind::Pam {
            attributes.insert("tupltype".into(), tupltype.into());
        }
        let header = Header::new(kind, &shape, dtype, &attributes).unwrap();
        prop_assert_eq!(header.attributes(), Value::Object(attributes));
        prop_assert_eq!(parse(&header.encode()).unwrap(), Some(header));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "P[5-7][ \n#0-9A-Z]{0,60}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            if let Ok(Some(header)) = parse(bytes) {
                prop_assert!(header.data_offset as usize <= bytes.len());
                let again = Header { data_offset: header.encode().len() as u64, ..header.clone() };
                prop_assert_eq!(parse(&header.encode()).unwrap(), Some(again));
            }
            let _ = check_rest(bytes);
        }
    }
}
