use tautline_proto::wire::sdp::Description;

/// Parses the bytes as a session description. A valid description can be written, and repeated round trips do not
/// change it.
pub fn sdp(text: &[u8]) {
    let description = match Description::read(text) {
        Ok(description) => description,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let once = Description::read(&description.write()).expect("a written description parses");
    let twice = Description::read(&once.write()).expect("a written description parses");
    assert_eq!(once, twice);
    assert_eq!(description.format(Default::default()), once.format(Default::default()));
}
