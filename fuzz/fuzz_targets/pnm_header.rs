//! Any header of a PGM, PPM or PAM file is refused or parsed, and what is parsed survives being written
//! again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcrop_store::format::pnm::{Header, check_rest, parse};

fuzz_target!(|data: &[u8]| {
    let _ = check_rest(data);
    let Ok(Some(header)) = parse(data) else { return };
    assert!(header.data_offset as usize <= data.len());
    let written = header.encode();
    let expected = Header { data_offset: written.len() as u64, ..header };
    assert_eq!(parse(&written), Ok(Some(expected)));
});
