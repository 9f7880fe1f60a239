use tautline_proto::wire::sdp::Description;

/// Repeated round trips do not change a session description.
pub fn sdp(text: &[u8]) {
    let description = match Description::read(text) {
        Ok((description, warnings)) => {
            assert!(warnings.iter().all(|warning| warning.to_string().lines().count() == 1));
            description
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let again = |written: &Description| {
        Description::read(&written.write()).expect("a written description parses").0
    };
    let once = again(&description);
    assert_eq!(once, again(&once));
    assert_eq!(description.format(Default::default()), once.format(Default::default()));
}
