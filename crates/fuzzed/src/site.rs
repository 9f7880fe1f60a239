use tautline_site::{MAX_MISTAKES, Site};

/// A building file is valid, or has mistakes in order of their lines, each with a fix.
pub fn site(bytes: &[u8]) {
    let mistakes = match Site::check(bytes) {
        Ok(site) => {
            for zone in site.zones.keys() {
                assert!(!site.numbers_of(zone).is_empty());
            }
            return;
        }
        Err(mistakes) => mistakes,
    };
    assert!((1..=MAX_MISTAKES + 1).contains(&mistakes.len()));
    assert!(mistakes.is_sorted_by_key(|mistake| mistake.line));
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    for mistake in mistakes {
        assert!((1..=lines).contains(&mistake.line) && mistake.column > 0, "{mistake:?}");
        let text = mistake.to_string();
        assert!(text.contains("\nhint: ") && text.len() < 2000, "{text}");
    }
}
