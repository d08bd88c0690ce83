//! Any Zarr metadata is refused or parsed, and what is parsed survives being written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcrop_store::format::zarr::{Parsed, parse, parse_v2};

fuzz_target!(|data: &[u8]| {
    let _ = parse_v2(data);
    let Ok(Parsed::Native(meta)) = parse(data) else {
        return;
    };
    assert!(meta.stored_tile_bytes() >= meta.tile_bytes());
    assert_eq!(meta.grid().counts().len(), meta.shape.len());
    assert!(!meta.tile_key(&meta.shape).contains(".."));
    let written = meta.encode();
    assert_eq!(parse(&written), Ok(Parsed::Native(meta)), "{}", String::from_utf8_lossy(&written));
});
