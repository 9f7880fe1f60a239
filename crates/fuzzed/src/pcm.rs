#[path = "../../../plugins/alsa-pcm/src/keys/mod.rs"]
mod keys;

use keys::{PERIODS, Value, read, served};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::Direction;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{LONGEST_LINK_OFFSET, PTIME_RANGE};
use tautline_proto::time::Span;

/// Lines are keys in `asound.conf`. A valid configuration is within bounds and independent of their
/// order; an error names the PCM.
pub fn pcm(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let mut pairs: Vec<(String, Value)> = text.lines().map(pair).collect();
    if let Err(complaint) = served("x", &pairs) {
        assert_eq!(complaint.errno, libc::EINVAL);
        assert!(complaint.sentence.starts_with("pcm.x: "), "{complaint:?}");
    }
    for direction in [Direction::Playback, Direction::Capture] {
        let wish = match read("x", &pairs, direction) {
            Ok(wish) => wish,
            Err(complaint) => {
                assert_eq!(complaint.errno, libc::EINVAL);
                assert!(complaint.sentence.starts_with("pcm.x: "), "{complaint:?}");
                continue;
            }
        };
        assert!((PERIODS.0..=PERIODS.1).contains(&wish.keys.period.count()));
        assert!((PTIME_RANGE.0..=PTIME_RANGE.1).contains(&wish.ptime), "{}", wish.ptime);
        if let LatencyRule::Chosen(latency) = wish.keys.latency {
            assert!(latency > Span::ZERO && latency <= LONGEST_LINK_OFFSET, "{latency}");
        }
        let mut coded = wish.clone();
        for sample in SampleFormat::ALL {
            coded.code_as(sample);
            assert!(!coded.code_as(sample), "a repeated format changes nothing");
        }
        // ALSA keeps each key once.
        let once = pairs
            .iter()
            .enumerate()
            .all(|(at, (key, _))| pairs[..at].iter().all(|(before, _)| before != key));
        pairs.reverse();
        assert!(!once || read("x", &pairs, direction) == Ok(wish));
    }
}

/// `key=text`, `key#integer`, `key~real` or `key{`.
fn pair(line: &str) -> (String, Value) {
    let at = line.find(['=', '#', '~', '{']).unwrap_or(line.len());
    let (key, value) = line.split_at(at);
    let mut chars = value.chars();
    let sign = chars.next();
    let text = chars.as_str();
    let value = match sign {
        Some('#') => Value::Number(text.parse().unwrap_or(i64::MIN)),
        Some('~') => Value::Real(text.parse().unwrap_or(f64::NAN)),
        Some('{') => Value::Other,
        _ => Value::Text(text.to_owned()),
    };
    (key.to_owned(), value)
}
