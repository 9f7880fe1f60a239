use tautline_api::v1::AnnouncementResult;
use tautline_proto::time::{LocalTime, Span};

use super::speech::speech_within;
use super::talk::TalkKey;
use super::watch::{AnnouncedZone, ZoneNews};

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn zone(name: &str, result: AnnouncementResult) -> AnnouncedZone {
    let plays = result == AnnouncementResult::Playing;
    AnnouncedZone {
        zone: name.to_owned(),
        result,
        by: None,
        started_ns: plays.then_some(1),
        fault: (!plays).then(|| "fault".to_owned()),
        is_known: result != AnnouncementResult::Unknown,
    }
}

const PLAYS: AnnouncementResult = AnnouncementResult::Playing;
const REFUSED: AnnouncementResult = AnnouncementResult::Refused;
const UNKNOWN: AnnouncementResult = AnnouncementResult::Unknown;

#[test]
fn each_zone_is_reported_once_when_it_changes() {
    let mut news = ZoneNews::new(3, false);
    let nothing = ["a", "b", "c"].map(|name| zone(name, UNKNOWN));
    assert!(news.lines(&nothing, false, at(0)).is_empty());
    let some = [zone("a", PLAYS), zone("b", REFUSED), zone("c", UNKNOWN)];
    let lines = news.lines(&some, false, at(1));
    assert_eq!(lines, ["on air in 1 of 3 zones: a", "zone b: fault"]);
    assert!(news.lines(&some, false, at(2)).is_empty());
    assert!(!news.is_settled());
    let all = [zone("a", PLAYS), zone("b", REFUSED), zone("c", PLAYS)];
    assert_eq!(news.lines(&all, false, at(3)), ["on air in 2 of 3 zones: a, c"]);
    assert!(news.is_settled());
}

#[test]
fn speaker_is_called_after_the_chime_when_all_zones_answered() {
    let mut news = ZoneNews::new(2, true);
    let all = [zone("a", PLAYS), zone("b", REFUSED)];
    news.lines(&all, false, at(0));
    assert!(!news.take_ready(), "during the chime");
    news.lines(&all, true, at(900));
    assert!(news.take_ready());
    news.lines(&all, true, at(901));
    assert!(!news.take_ready(), "once");
}

#[test]
fn silent_zone_delays_the_speaker_by_a_second() {
    let mut news = ZoneNews::new(2, true);
    let one = [zone("a", PLAYS), zone("b", UNKNOWN)];
    news.lines(&one, true, at(100));
    news.lines(&one, true, at(1099));
    assert!(!news.take_ready());
    news.lines(&one, true, at(1100));
    assert!(news.take_ready());
}

#[test]
fn speaker_without_a_zone_is_not_called() {
    let mut news = ZoneNews::new(1, true);
    news.lines(&[zone("a", REFUSED)], true, at(0));
    news.lines(&[zone("a", REFUSED)], true, at(5000));
    assert!(!news.take_ready());
}

fn spoken(command: &str, limit: Span) -> Result<String, u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("speech.wav");
    let made = speech_within(command, "the text", &file, limit);
    made.map(|()| std::fs::read_to_string(file).unwrap()).map_err(|failure| failure.status)
}

#[test]
fn speech_program_gets_the_text_and_gives_the_file() {
    let limit = Span::from_secs(30);
    assert_eq!(spoken("tr a-z A-Z", limit), Ok("THE TEXT".to_owned()));
    assert_eq!(spoken("echo ignores its input", limit), Ok("ignores its input\n".to_owned()));
    for failing in ["exit 3", "true", "taut-has-no-such-program"] {
        assert_eq!(spoken(failing, limit), Err(1), "{failing}");
    }
}

#[test]
fn speech_program_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let hangs = format!("sleep 1000 & echo $! > {}; wait", pid.display());
    assert_eq!(spoken(&hangs, Span::from_millis(500)), Err(1));
    let pid = std::fs::read_to_string(pid).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_gone() {
        assert!(std::time::Instant::now() < end, "its child runs");
        std::thread::yield_now();
    }
}

/// Whether the key is on every 50 ms, with presses at these times.
fn is_on(presses: &[i64], until: i64) -> Vec<i64> {
    let mut key = TalkKey::default();
    let times = (0..until).step_by(50).filter(|millis| {
        if presses.contains(millis) {
            key.press(at(*millis));
        }
        key.is_on(at(*millis))
    });
    times.collect()
}

#[test]
fn second_press_ends_the_page() {
    let on = is_on(&[100, 3000], 5000);
    assert_eq!((on.first(), on.last()), (Some(&100), Some(&3150)));
    assert_eq!(on.len(), (3150 - 100) / 50 + 1);
}

#[test]
fn release_of_the_held_key_ends_the_page() {
    // A key that repeats after 600 ms, every 50 ms, until 2 s.
    let repeats: Vec<i64> = [100].into_iter().chain((700..2000).step_by(50)).collect();
    let on = is_on(&repeats, 5000);
    assert_eq!((on.first(), on.last()), (Some(&100), Some(&2100)));
    assert_eq!(on.len(), (2100 - 100) / 50 + 1);
}
