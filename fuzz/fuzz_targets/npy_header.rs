//! Any preamble of a `.npy` file is refused or parsed, and what is parsed survives being written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcrop_store::ByteOrder;
use outcrop_store::format::npy::{Header, encode, parse};

/// Writes a parsed header and reads it back. Only the offset and the byte order may differ.
fn check(preamble: &[u8]) {
    let Ok(header) = parse(preamble) else { return };
    assert!(header.data_offset as usize <= preamble.len());
    for alignment in [64, 4096] {
        let written = encode(header.dtype, header.column_major, &header.shape, alignment);
        assert!(written.len().is_multiple_of(alignment));
        let expected =
            Header { byte_order: ByteOrder::Little, data_offset: written.len() as u64, ..header.clone() };
        assert_eq!(parse(&written), Ok(expected));
    }
}

fuzz_target!(|data: &[u8]| {
    check(data);
    // Once more as the header of a file whose magic and length are right.
    let mut framed = b"\x93NUMPY\x02\x00".to_vec();
    framed.extend_from_slice(&(data.len() as u32).to_le_bytes());
    framed.extend_from_slice(data);
    check(&framed);
});
