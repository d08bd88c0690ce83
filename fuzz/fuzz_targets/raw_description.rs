//! Any description of a raw file is refused or parsed, what is parsed survives being written again, and
//! a file that it accepts is long enough.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcrop_store::format::raw::Description;

fuzz_target!(|input: (u64, &str)| {
    let (file_len, text) = input;
    let Ok(description) = text.parse::<Description>() else {
        return;
    };
    assert_eq!(description.to_string().parse::<Description>().ok().as_ref(), Some(&description));
    if description.check(file_len).is_ok() {
        let bytes = description.nbytes().expect("checked");
        assert!(description.offset <= file_len && bytes <= file_len - description.offset);
    }
});
