use tautline_audio::{DeviceSpec, SoftwareSpec};

/// A valid device name survives a round trip; an error has a hint.
pub fn device(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let spec: DeviceSpec = match text.parse() {
        Ok(spec) => spec,
        Err(refused) => {
            let refused: tautline_proto::device::DeviceError = refused;
            return assert!(!refused.answer.is_empty() && !refused.hint.is_empty(), "{refused}");
        }
    };
    let name = spec.to_string();
    let again: DeviceSpec = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(again.to_string(), name);
    assert_eq!(name.split(':').next(), text.split(':').next());
    if let DeviceSpec::Software(SoftwareSpec::Virtual(options)) = &spec {
        assert!(options.period.is_none_or(|period| (1..=1 << 16).contains(&period.count())));
        assert!(options.periods.is_none_or(|periods| (2..=1 << 16).contains(&periods)));
    }
    assert_eq!(spec.at_ports().to_string(), name);
}
