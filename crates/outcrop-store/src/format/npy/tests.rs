//! Tests of `.npy` preambles.

use super::*;
use crate::shape::checked_nbytes;
use proptest::prelude::*;

fn v1(header: &str) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out
}

fn descr(descr: &str) -> Result<Header, FormatError> {
    parse(&v1(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (3,), }}\n")))
}

#[test]
fn reads_what_numpy_writes() {
    let numpy = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': True, 'shape': (3, 4), }                                                           \n";
    let header = parse(numpy).unwrap();
    assert_eq!((header.dtype, header.byte_order), (DType::F64, ByteOrder::Little));
    assert_eq!((header.shape.as_slice(), header.column_major), (&[3, 4][..], true));
    assert_eq!(header.data_offset, 128);
    let scalar = parse(b"\x93NUMPY\x01\x00v\x00{'descr': '>c16', 'fortran_order': False, 'shape': (), }                                                             \n").unwrap();
    assert_eq!((scalar.dtype, scalar.byte_order), (DType::C128, ByteOrder::Big));
    assert!(scalar.shape.is_empty());
    let later = b"\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }                                                        \n";
    for version in [2, 3] {
        let mut file = later.to_vec();
        file[6] = version;
        let header = parse(&file).unwrap();
        assert_eq!((header.dtype, header.data_offset), (DType::F64, 128));
        assert_eq!(header.shape.as_slice(), [3, 4]);
    }
}

#[test]
fn reads_what_others_write() {
    let text = r#" {"shape":(3L , 4l),"fortran_order":False,"descr":u'|u1'} "#;
    let header = parse(&v1(text)).unwrap();
    assert_eq!((header.dtype, header.shape.as_slice()), (DType::U8, &[3, 4][..]));
    assert_eq!(descr("'float32'").unwrap().dtype, DType::F32);
    assert_eq!(descr("('<f4')").unwrap().dtype, DType::F32);
}

#[test]
fn names_elements_it_cannot_work_with() {
    for d in ["'|O'", "'<M8[ns]'", "'<U5'", "'|S5'", "'<f2'", "'<f16'", "[('a', '<f4'), ('b', '|O')]"] {
        assert!(matches!(descr(d), Err(FormatError::Unsupported(_))), "{d}");
    }
    assert!(descr("'<f16'").unwrap_err().to_string().contains("\"<f16\""));
    let record = descr("[('temperature', '<f4')]").unwrap_err().to_string();
    assert!(record.contains("'temperature'"), "{record}");
    // A Latin-1 field name, as in version 1, with a quote in it.
    let mut file = v1("{'descr': [('*\\'', '<f4')], 'fortran_order': False, 'shape': (2,), }\n");
    let star = file.iter().position(|&b| b == b'*').unwrap();
    file[star] = 0xe9;
    assert!(matches!(parse(&file), Err(FormatError::Unsupported(_))));
}

#[test]
fn refuses_what_numpy_refuses() {
    for (header, part) in [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'x': 1}", "unknown key \"x\""),
        ("{'descr': '<f8', 'fortran_order': False}", "lacks shape"),
        ("{'descr': '<f8', 'fortran_order': 0, 'shape': (3,)}", "neither True nor False"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3)}", "not a tuple"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': [3]}", "not a tuple"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}", "found '-'"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3.5,)}", "found '.'"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}", "other than non-negative"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)} x", "the end expected"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", "64 bits"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "too large"),
        ("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", "twice"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,", "ends after"),
        ("{'descr': '<f8, 'fortran_order': False, 'shape': (3,)}", "',' expected"),
        ("{'descr': 5, 'fortran_order': False, 'shape': (3,)}", "not a type string"),
        ("", "'{' expected"),
    ] {
        match parse(&v1(header)) {
            Err(FormatError::Malformed(message)) => {
                assert!(message.contains(part), "{header}: {message}")
            }
            other => panic!("{header}: {other:?}"),
        }
    }
    let deep = v1(&format!("{{'descr': {}", "[".repeat(60000)));
    assert!(matches!(parse(&deep), Err(FormatError::Malformed(_))));
}

#[test]
fn wrong_files_and_versions_are_distinct() {
    assert!(matches!(header_len(b"\x93NUMPY\x04\x00v\x00ab"), Err(FormatError::NewerVersion(_))));
    assert!(matches!(header_len(b"\x93NUMPY\x01\x01v\x00ab"), Err(FormatError::NewerVersion(_))));
    assert!(matches!(header_len(b"PK\x03\x04\x14\x00"), Err(FormatError::Unsupported(_))));
    for bad in [
        &b""[..],
        b"\x93NUM",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00v",
        b"\x93NUMPY\x02\x00v\x00\x00",
        b"\x89HDF\r\n\x1a\n",
    ] {
        assert!(matches!(header_len(bad), Err(FormatError::Malformed(_))), "{bad:x?}");
    }
    let huge = b"\x93NUMPY\x02\x00\xff\xff\xff\xff";
    assert!(header_len(huge).unwrap_err().to_string().contains("4294967307"));
    assert_eq!(header_len(b"\x93NUMPY\x01\x00v\x00"), Ok(128));
    assert!(parse(b"\x93NUMPY\x01\x00v\x00{'descr'").unwrap_err().to_string().contains("takes 128 bytes"));
}

#[test]
fn writes_what_numpy_writes() {
    let numpy = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }                                                          \n";
    assert_eq!(encode(DType::F64, false, &[3, 4], 64), numpy[..]);
    assert_eq!(encode(DType::U8, false, &[3], 4096).len(), 4096);
    assert_eq!(encode(DType::U8, false, &[i64::MAX as u64], 1 << 16).len(), MAX_ALIGNMENT);
    let longest = encode(DType::C128, true, &[9_000_000_000_000_000_000; 64], 64);
    assert!(longest.len() < 10000);
}

proptest! {
    #[test]
    fn encoded_headers_read_back(
        d in 0usize..13, column_major: bool, shape in prop::collection::vec(0u64..5000, 0..8), unit in 0usize..140
    ) {
        let dtype = DType::ALL[d];
        prop_assume!(checked_nbytes(&shape, dtype.size()).is_ok());
        let bytes = encode(dtype, column_major, &shape, unit * 64);
        let header = parse(&bytes).unwrap();
        prop_assert_eq!(header.data_offset as usize, bytes.len());
        prop_assert_eq!(bytes.len() % unit.clamp(1, 128).wrapping_mul(64), 0);
        prop_assert_eq!((header.dtype, header.byte_order), (dtype, ByteOrder::Little));
        prop_assert_eq!((header.shape.to_vec(), header.column_major), (shape, column_major));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let _ = parse(&[&b"\x93NUMPY\x01\x00\x40\x00{"[..], &bytes].concat());
    }

    #[test]
    fn any_dict_never_panics(text in r#"[{}()\[\],:'"\\ \nLuTrueFalsNon0-9a-f<>|]{0,120}"#) {
        let _ = parse(&v1(&text));
    }

    #[test]
    fn damaged_headers_never_panic(at in 10usize..128, byte: u8) {
        let mut bytes = encode(DType::F64, false, &[30, 40], 64);
        bytes[at] = byte;
        let _ = parse(&bytes);
    }
}
