use std::net::{IpAddr, Ipv4Addr};

use tautline_api::v1::{AnnouncementResult, AnnouncementState, NodeState, ZoneState};
use tautline_proto::time::{LocalTime, Span};
use tautline_site::{Asked, Place, Site};

use super::speech::speech_within;
use super::talk::TalkKey;
use super::watch::{AnnouncedZone, ZoneNews, of_zone};
use super::{failed, usual};

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
        is_own_room: false,
        is_told: false,
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

/// Result in a zone of announcement `own`, in the presence of one of the fire panel.
fn in_zone(own: &str, result: AnnouncementResult, by: Option<&str>) -> AnnouncedZone {
    let announcement = |id: &str, result, (station, priority): (&str, u8)| AnnouncementState {
        id: id.to_owned(),
        result,
        station: Some(station.to_owned()),
        priority: Some(priority),
        ..AnnouncementState::default()
    };
    let page = announcement("page", result, ("desk", 100));
    let page = AnnouncementState { by: by.map(str::to_owned), ..page };
    let announcements = vec![announcement("fire", PLAYS, ("panel", 240)), page];
    let zones = vec![ZoneState { zone: "hall".into(), announcements, ..ZoneState::default() }];
    let state = Ok(NodeState { zones, ..NodeState::default() });
    of_zone("hall", "left", &[Asked { node: "left".into(), state, clock: Span::ZERO }], own)
}

#[test]
fn fault_names_the_station_that_took_precedence() {
    let muted = AnnouncementResult::Muted;
    for result in [REFUSED, AnnouncementResult::Preempted, muted] {
        let fault = in_zone("page", result, Some("fire")).fault.unwrap();
        assert!(fault.contains("station panel with priority 240"), "{fault}");
        let forgotten = in_zone("page", result, Some("gone")).fault.unwrap();
        assert!(!forgotten.contains("panel"), "{forgotten}");
    }
    assert_eq!(in_zone("page", PLAYS, None).fault, None);
    let rooms = [Some("page"), Some("fire"), None].map(|by| in_zone("page", muted, by));
    assert_eq!(rooms.map(|room| room.is_own_room), [true, false, false]);
}

#[test]
fn room_of_the_microphone_is_no_failure_unless_it_is_alone() {
    let own = AnnouncedZone { is_own_room: true, ..zone("office", AnnouncementResult::Muted) };
    assert_eq!(failed(&[zone("hall", PLAYS), own.clone()]), None);
    assert!(failed(&[own]).is_some());
}

#[test]
fn fault_that_a_line_has_is_not_in_the_error() {
    let mut news = ZoneNews::new(2, false);
    let mut all = [zone("a", REFUSED), zone("b", UNKNOWN)];
    news.lines(&all, false, at(0));
    news.mark_told(&mut all);
    let error = failed(&all).unwrap();
    let (told, new) = error.split_once("; ").unwrap();
    assert!(told.ends_with(" a") && new.starts_with("zone b: fault"), "{error}");
    all[0].fault = Some("another".to_owned());
    news.mark_told(&mut all);
    assert!(failed(&all).unwrap().contains("zone a: another"));
}

#[test]
fn station_of_the_own_node_comes_before_those_with_a_key() {
    let stations = |stations: &str| {
        let building = format!(
            "epoch = 1\nannouncements = \"239.255.77.1:5004\"\n[priorities]\npage = 100\n\
             [node.left]\nhost = \"10.0.0.1\"\n[node.left.card.main]\ndevice = \"null:\"\n\
             [zone.hall]\nnumber = 1\nnode = \"left\"\ncard = \"main\"\nchannels = [1]\n{stations}"
        );
        Site::check(building.as_bytes()).unwrap()
    };
    let station = |name: &str, host: &str, rank: u16| {
        format!("[station.{name}]\n{host}\npriority = \"page\"\nrank = {rank}\nto = [\"hall\"]\n")
    };
    let (own, key) = ("node = \"left\"", "key = \"panel\"");
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let names = |site: &Site, node: &str| -> Vec<String> {
        let place = Place { name: node.to_owned(), address };
        usual(site, Some(&place)).into_iter().map(|(name, _)| name.clone()).collect()
    };
    let both = stations(&(station("desk", own, 1) + &station("panel", key, 2)));
    assert_eq!(names(&both, "left"), ["desk"]);
    assert_eq!(names(&both, "right"), ["panel"]);
    let two = stations(&(station("desk", own, 1) + &station("door", own, 2)));
    assert_eq!(names(&two, "left"), ["desk", "door"]);
    assert_eq!(names(&two, "right"), [""; 0]);
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
