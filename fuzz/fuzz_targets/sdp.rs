//! Bytes for the reader of session descriptions; what it accepts can be written, and once written
//! stays the same however often it is read and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_proto::wire::sdp::Description;

fuzz_target!(|text: &[u8]| {
    let description = match Description::read(text) {
        Ok(description) => description,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let once = Description::read(&description.write()).expect("what is written is read");
    let twice = Description::read(&once.write()).expect("what is written is read");
    assert_eq!(once, twice);
    assert_eq!(description.format(Default::default()), once.format(Default::default()));
});
