//! Text as the name of a device: what is accepted is named again by what it displays, and what is
//! refused is answered in one sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_audio::{DeviceSpec, SoftwareSpec};

fuzz_target!(|text: &str| {
    let spec: DeviceSpec = match text.parse() {
        Ok(spec) => spec,
        Err(refused) => {
            let refused: tautline_proto::device::DeviceError = refused;
            return assert!(!refused.answer.is_empty() && !refused.mend.is_empty(), "{refused}");
        }
    };
    // Without its options, which people need not see.
    let name = spec.to_string();
    let again: DeviceSpec = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(again.to_string(), name);
    assert_eq!(name.split(':').next(), text.split(':').next());
    if let DeviceSpec::Software(SoftwareSpec::Virtual(options)) = &spec {
        assert!(options.period.is_none_or(|period| (1..=1 << 16).contains(&period.count())));
        assert!(options.periods.is_none_or(|periods| (2..=1 << 16).contains(&periods)));
    }
    // The same with and without its ports.
    assert_eq!(spec.at_ports().to_string(), name);
});
