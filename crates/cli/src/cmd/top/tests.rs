use tautline_report::GapReport;
use tautline_report::snapshot::{
    ClockSnapshot, FollowedClockSnapshot, FollowedClockState, LatencySnapshot, Meter,
    OffloadSnapshot, SecondCounts, Snapshot, StageLength, StreamSnapshot, StreamState, WorstStages,
    ZoneSnapshot,
};
use tautline_trial::{shape_in_help, shape_of_json, snapshot};

use core::ops::ControlFlow;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::*;

struct Talker {
    folder: tempfile::TempDir,
    listener: UnixListener,
    talks: Option<UnixStream>,
}

impl Talker {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(format!("{}.sock", std::process::id()));
        Self { listener: UnixListener::bind(socket).unwrap(), folder, talks: None }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(format!("{}.sock", std::process::id()))
    }

    fn says(&mut self, programs: &mut Programs, bytes: &[u8]) {
        programs.look(&[self.socket()]);
        if self.talks.is_none() {
            self.talks = Some(self.listener.accept().unwrap().0);
        }
        let mut talks = self.talks.as_ref().unwrap();
        for piece in bytes.chunks(1 << 14) {
            let _ = talks.write_all(piece);
            programs.handle(at(0));
        }
    }
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn stage(name: &str, ns: i64) -> StageLength {
    StageLength { name: name.to_owned().into(), ns }
}

fn received() -> StreamSnapshot {
    let meter = |peak| Meter { peak_db: Some(peak), rms_db: Some(peak - 3.0) };
    let counters = [("packets_received", 9_000), ("lost", 7), ("late", 2), ("xruns", 0)];
    StreamSnapshot {
        address: "rtp://0.0.0.0:5004".into(),
        sender: Some("10.0.0.7:5004".into()),
        state: StreamState::Connected,
        rate: 48_000,
        channels: 2,
        format: "l24".into(),
        bitrate: None,
        transport: None,
        muted: false,
        ptime_ns: 1_000_000,
        latency: LatencySnapshot {
            configured_ns: Some(5_000_000),
            measured_ns: Some(5_000_000),
            uncertainty_ns: Some(12_000),
            p99_ns: Some(5_100_000),
            method: "sound".into(),
        },
        stages: vec![stage("wire", 250_000), stage("buffer", 750_000), stage("device", 3_000_000)],
        target_delay_ns: Some(4_200_000),
        target_delay_has_repair: false,
        headroom_ns: Some(-400_000),
        counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
        gaps: None,
        second: SecondCounts {
            interval_ns: 1_000_000_000,
            packets: 996,
            lost: 4,
            loss_share: Some(0.004),
            ..SecondCounts::default()
        },
        meters: Some(vec![meter(-18.0), meter(-60.0)]),
        worst: Some(WorstStages {
            rtp_timestamp: 4711,
            total_ns: Some(6_000_000),
            stages: vec![stage("wire", 2_000_000)],
        }),
        clock: None,
    }
}

fn run(streams: Vec<StreamSnapshot>) -> Snapshot {
    Snapshot {
        schema: 2,
        pid: 4242,
        role: "recv".into(),
        command: "taut recv --from rtp://0.0.0.0:5004".into(),
        elapsed_ns: 9_000_000_000,
        streams,
        ..Snapshot::default()
    }
}

fn reported(snapshot: &Snapshot) -> Programs {
    let mut programs = Programs::default();
    let line = serde_json::to_string(snapshot).unwrap() + "\n";
    Talker::new().says(&mut programs, line.as_bytes());
    programs
}

fn drawn(programs: &Programs, choice: &StreamRow, size: (usize, usize)) -> Vec<String> {
    let lines = screen::draw(programs, choice, size).into_iter().map(|line| line.text);
    let mut lines: Vec<_> = lines.map(|text| text.trim_end().to_owned()).collect();
    assert!(lines.len() <= size.1 && lines.iter().all(|line| line.chars().count() <= size.0));
    lines.resize(size.1, String::new());
    lines
}

fn press(choice: &mut StreamRow, bytes: &str) -> ControlFlow<()> {
    let mut bytes = bytes.bytes();
    let first = bytes.next().unwrap();
    let key = TopKey::read(first, || bytes.next());
    assert_eq!(bytes.next(), None, "bytes that are left would be keys of their own");
    key.map_or(ControlFlow::Continue(()), |key| choice.apply(key))
}

#[test]
fn stream_is_drawn_as_a_row_with_stages_and_counters() {
    let screen = drawn(&reported(&run(vec![received()])), &StreamRow::default(), (140, 24));
    let row = &screen[3];
    let cells = [">! recv 4242", "rtp://0.0.0.0:5004", "5.000 ± 0.012 ms", "5.100ms", "-400.0us"];
    let cells = cells.into_iter().chain(["0.40 % 7", "█████▋   -18.0", " -60.0"]);
    cells.for_each(|cell| assert!(row.contains(cell), "{cell:?} in {row:?}"));
    let below = screen[4..].join("\n");
    for reported in [
        "recv 4242: taut recv --from",
        "from 10.0.0.7:5004: l24 48000 Hz, 2 channels, 1.000ms per packet, for 9 s",
        "5.000ms configured, arrivals need 4.200ms; measured from the sound 5.000 ± 0.012 ms",
        "  wire      250.0us  ██\n",
        "  device    3.000ms            ██████████████████████████████",
        "worst of the last minute: the packet of RTP timestamp 4711, wire 2.000ms, total 6.000ms",
        "counters: 2 late, 7 lost, 9000 packets received",
        "peak / RMS in dBFS: -18.0 / -21.0, -60.0 / -63.0",
    ] {
        assert!(below.contains(reported), "{reported:?} in\n{below}");
    }
}

#[test]
fn transport_of_a_calls_sound_is_shown() {
    let call = StreamSnapshot { transport: Some("tcp".into()), ..received() };
    let below = drawn(&reported(&run(vec![call])), &StreamRow::default(), (140, 24)).join("\n");
    snapshot!(below);
}

#[test]
fn directions_of_a_call_are_named() {
    let received = StreamSnapshot { gaps: Some(GapReport::default()), ..received() };
    let call = |stream: &StreamSnapshot| {
        let run = Snapshot { role: "call".into(), ..run(vec![stream.clone()]) };
        drawn(&reported(&run), &StreamRow::default(), (140, 24))[3].clone()
    };
    let sent = StreamSnapshot { gaps: None, ..received.clone() };
    assert!(call(&received).contains("call 4242 in "), "{}", call(&received));
    assert!(call(&sent).contains("call 4242 out "), "{}", call(&sent));
}

#[test]
fn latency_before_an_outage_is_not_shown() {
    let shown = |state| {
        let stream = StreamSnapshot { state, ..received() };
        page::page(&reported(&run(vec![stream])))
    };
    for state in [StreamState::Silent, StreamState::Lost] {
        assert!(!shown(state).contains("5.000 ±"), "{}", shown(state));
    }
    assert_eq!(shown(StreamState::Connected).matches("5.000 ±").count(), 2);
}

#[test]
fn long_list_of_stages_is_wrapped() {
    let worst = WorstStages { stages: vec![stage("wire", 2_000_000); 9], ..WorstStages::default() };
    let stream = StreamSnapshot { worst: Some(worst), ..received() };
    let screen = drawn(&reported(&run(vec![stream])), &StreamRow::default(), (80, 24)).join("\n");
    assert_eq!(screen.matches("wire 2.000ms").count(), 9, "{screen}");
}

#[test]
fn needed_latency_with_repair_time_is_marked() {
    let stream = StreamSnapshot { target_delay_has_repair: true, ..received() };
    let need = "5.000ms configured, arrivals need 4.200ms with repairs; measured";
    let line = messages::latencies(&stream);
    assert!(line.contains(need), "{line}");
}

#[test]
fn narrow_terminal_omits_columns_and_tiny_one_cuts_lines() {
    let programs = reported(&run(vec![received()]));
    let narrow = drawn(&programs, &StreamRow::default(), (80, 24));
    assert!(narrow[2].contains("LATENCY") && narrow[2].contains("LOSS"), "{narrow:#?}");
    assert!(!narrow[2].contains("P99") && !narrow[2].contains("METERS"), "{narrow:#?}");
    for size in [(1, 1), (3, 2), (20, 5), (500, 3)] {
        assert_eq!(drawn(&programs, &StreamRow::default(), size).len(), size.1);
    }
}

#[test]
fn keys_choose_a_stream_show_it_alone_and_end() {
    let other = StreamSnapshot { address: "rtp://0.0.0.0:5006".into(), ..received() };
    let programs = reported(&run(vec![received(), other]));
    let mut choice = StreamRow::default();
    choice.keep_within(programs.streams().count());
    let _ = press(&mut choice, "\x1b[B");
    let screen = drawn(&programs, &choice, (140, 24));
    assert!(screen[3].starts_with(" ! recv") && screen[4].starts_with(">! recv"), "{screen:#?}");
    assert!(screen[7].starts_with("rtp://0.0.0.0:5006 from"), "{screen:#?}");
    let _ = press(&mut choice, "j");
    assert_eq!(choice.stream, 1, "there are no more");
    let _ = press(&mut choice, "\r");
    let alone = drawn(&programs, &choice, (140, 24));
    assert!(alone[3].starts_with("rtp://0.0.0.0:5006 from"), "{alone:#?}");
    let _ = press(&mut choice, "\x1bOA");
    choice.keep_within(0);
    assert_eq!((choice.stream, choice.alone), (0, true));
    // Page up, Ctrl+Right, F1, Alt+Q.
    for other in ["x", "\x1b[5~", "\x1b[1;5C", "\x1bOP", "\x1bq"] {
        assert!(press(&mut choice, other).is_continue(), "{other:?}");
    }
    assert_eq!((choice.stream, choice.alone), (0, true));
    for end in ["q", "\x1b"] {
        assert!(press(&mut choice, end).is_break(), "{end:?}");
    }
}

#[test]
fn zone_shows_its_announcement() {
    let still = StreamSnapshot { second: SecondCounts::default(), ..received() };
    let page = |announcement: Option<&str>, program_gain: f64| {
        let zone = ZoneSnapshot {
            announcement: announcement.map(Into::into),
            program_gain,
            ..ZoneSnapshot::default()
        };
        page::page(&reported(&Snapshot { zone: Some(zone), ..run(vec![still.clone()]) }))
    };
    let id = Some("000000000000002a");
    let pages = [page(None, 1.0), page(id, 0.1), page(id, 0.0), page(None, 0.5)];
    let lines = pages.iter().flat_map(|page| page.lines().filter(|line| line.contains("zone")));
    snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn followed_clock_shows_its_rate_and_silence() {
    let still = StreamSnapshot { second: SecondCounts::default(), ..received() };
    let page = |clock: &FollowedClockSnapshot| {
        page::page(&reported(&Snapshot { clock: Some(clock.clone()), ..run(vec![still.clone()]) }))
    };
    let mut clock = FollowedClockSnapshot {
        address: "avtp://eth0/91:E0:F0:00:FE:08".into(),
        state: FollowedClockState::Waiting,
        ..FollowedClockSnapshot::default()
    };
    let not_received = page(&clock);
    snapshot!(not_received);
    clock.stream = Some("02:22:33:44:55:66:0007".into());
    clock.state = FollowedClockState::Locked;
    let new = page(&clock);
    snapshot!(new);
    (clock.rate_ppm, clock.uncertainty_ppm) = (Some(-12.345), Some(0.204));
    let received = page(&clock);
    snapshot!(received);
    assert!(!received.contains("! recv"), "{received}");
    (clock.state, clock.holdover_ns) = (FollowedClockState::Holdover, Some(12_400_000_000));
    let held = page(&clock);
    snapshot!(held);
    assert!(held.contains("! recv"), "{held}");
}

#[test]
fn of_many_streams_the_chosen_one_is_seen() {
    let programs = reported(&run(vec![received(); 100]));
    let mut choice = StreamRow::default();
    choice.keep_within(100);
    for _ in 0..99 {
        let _ = press(&mut choice, "\x1b[B");
    }
    let screen = drawn(&programs, &choice, (100, 20));
    assert_eq!(screen.iter().filter(|line| line.starts_with('>')).count(), 1, "{screen:#?}");
    assert!(screen.join("\n").contains("l24 48000 Hz"), "{screen:#?}");
}

#[test]
fn running_plugins_show_their_client_and_counts() {
    let worked = OffloadSnapshot {
        id: 3,
        plugin: "cmt:freeverb3".into(),
        client: "desk\u{7} (10.0.0.2)".into(),
        phase: "running".into(),
        share: 0.0625,
        blocks: 9000,
        missed: 2,
        restarts: 1,
    };
    let work = Snapshot { role: "work".into(), offloads: vec![worked], ..run(Vec::new()) };
    let programs = reported(&work);
    let page = page::page(&programs);
    snapshot!(page.trim());
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'), "{page:?}");
    let screen = drawn(&programs, &StreamRow::default(), (120, 10)).join("\n");
    assert!(page.trim().lines().all(|line| screen.contains(line.trim())), "{screen}");
    assert!(programs.have_reported_all());
    let idle = page::page(&reported(&Snapshot { offloads: Vec::new(), ..work }));
    assert_eq!(idle.trim().lines().count(), 1, "{idle}");
}

#[test]
fn top_without_programs_has_a_hint() {
    let nothing = Programs::default();
    let page = page::page(&nothing);
    assert!(page.contains("start one, such as taut demo") && page.lines().count() == 1, "{page}");
    snapshot!(drawn(&nothing, &StreamRow::default(), (120, 5))[2]);
    let json: serde_json::Value = serde_json::from_str(&page::json(&nothing).unwrap()).unwrap();
    assert_eq!(json, serde_json::json!({"schema": 2, "programs": [], "unreadable": []}));
}

#[test]
fn help_gives_the_shape_of_the_json() {
    let worst = Some(WorstStages::default());
    let stages = vec![StageLength::default()];
    let (clock, counters) = (Some(ClockSnapshot::default()), Default::default());
    let stream = StreamSnapshot { worst, stages, counters, clock, ..received() };
    let clock = Some(FollowedClockSnapshot::default());
    let offloads = vec![OffloadSnapshot::default()];
    let all = Snapshot { clock, offloads, ..run(vec![stream]) };
    let line = serde_json::to_string(&all).unwrap() + "\n";
    let (mut programs, talkers) = (Programs::default(), [Talker::new(), Talker::new()]);
    programs.look(&talkers.each_ref().map(Talker::socket));
    let mut talks = talkers.each_ref().map(|talker| talker.listener.accept().unwrap().0);
    for (talks, said) in talks.iter_mut().zip([&*line, "hello\n"]) {
        talks.write_all(said.as_bytes()).unwrap();
    }
    programs.handle(at(0));
    let mut written = shape_of_json(&page::json(&programs).unwrap());
    let mut help = shape_in_help(crate::help::TOP_LONG, "{ \"schema\"");
    written.sort();
    help.sort();
    assert_eq!(written, help);
}

#[test]
fn program_without_a_snapshot_shows_only_the_reason() {
    let foreign: [(&[u8], &str); 5] = [
        (b"hello\n", "invalid snapshot"),
        (b"{\"schema\": 9}\n", "schema 9 instead of 2"),
        (b"{\"schema\": 2, \"streams\": 5}\n", "invalid snapshot"),
        (b"\xff\xfe\n[]\n", "schema null"),
        (&[b'x'; 9 << 20], "too much data"),
    ];
    for (said, why) in foreign {
        let (mut programs, mut talker) = (Programs::default(), Talker::new());
        talker.says(&mut programs, said);
        assert_eq!(programs.streams().count(), 0);
        let page = page::page(&programs);
        let named = format!("process {}: ", std::process::id());
        assert!(page.starts_with(&named) && page.contains(why), "{page}");
        assert!(programs.have_reported_all(), "there is nothing to wait for");
        let screen = drawn(&programs, &StreamRow::default(), (120, 6)).concat();
        assert!(screen.contains(&named), "{screen}");
    }
}

#[test]
fn a_program_that_stopped_talking_is_not_shown_as_it_was() {
    let (mut programs, mut talker) = (Programs::default(), Talker::new());
    talker.says(&mut programs, b"");
    programs.handle(at(0));
    assert_eq!(page::page(&programs).trim(), "", "it is too early to say");
    let line = serde_json::to_string(&run(vec![received()])).unwrap() + "\n";
    talker.says(&mut programs, line.as_bytes());
    programs.handle(at(900));
    assert_eq!(programs.streams().count(), 1);
    programs.handle(at(1_100));
    assert_eq!(programs.streams().count(), 0);
    snapshot!(page::page(&programs));
    talker.says(&mut programs, line.as_bytes());
    assert_eq!(programs.streams().count(), 1, "it went on");
    programs.look(&[]);
    assert!(programs.is_empty(), "it ended");
}

#[test]
fn line_in_pieces_is_read_whole_and_the_newest_counts() {
    let (mut programs, mut talker) = (Programs::default(), Talker::new());
    let line = |seconds: i64| {
        let run = Snapshot { elapsed_ns: seconds * 1_000_000_000, ..run(vec![received()]) };
        serde_json::to_string(&run).unwrap() + "\n"
    };
    let both = line(1) + &line(2);
    let (first, rest) = both.split_at(both.len() - 10);
    talker.says(&mut programs, first.as_bytes());
    assert!(page::page(&programs).contains("for 1 s"));
    talker.says(&mut programs, rest.as_bytes());
    assert!(page::page(&programs).contains("for 2 s"));
}

#[test]
fn messages_contain_no_terminal_commands() {
    let address = "rtp://\u{1b}[2J".to_owned();
    let worse = StreamSnapshot { address, format: "\u{7}\n".into(), ..received() };
    let mut programs = reported(&Snapshot { role: "\r\u{1b}c".into(), ..run(vec![worse]) });
    let page = page::page(&programs);
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'), "{page:?}");
    assert_eq!(page.lines().next().unwrap().split_whitespace().next(), Some("PROGRAM"));
    programs.handle(at(0));
    drawn(&programs, &StreamRow::default(), (80, 24));
}

#[test]
fn latency_on_one_clock_has_a_nonzero_uncertainty() {
    let latency = LatencySnapshot { uncertainty_ns: Some(0), ..received().latency };
    let page = page::page(&reported(&run(vec![StreamSnapshot { latency, ..received() }])));
    assert!(page.contains("5.000 ms") && !page.contains("±"), "{page}");
}

#[test]
fn lengths_beyond_all_reason_are_drawn_too() {
    let stages = vec![stage("wire", i64::MAX), stage("x", i64::MIN), stage("device", i64::MAX)];
    let meters = Some(vec![Meter { peak_db: Some(1e300), rms_db: None }; 100]);
    let latency = LatencySnapshot { measured_ns: Some(i64::MIN), ..Default::default() };
    let odd = StreamSnapshot { stages, meters, latency, ..received() };
    let page = page::page(&reported(&run(vec![odd])));
    assert!(page.contains("████████████████…"), "{page}");
}

#[test]
fn sender_with_a_lost_receiver_is_marked() {
    let second = SecondCounts::default();
    let lost = StreamSnapshot { state: StreamState::Lost, second, ..received() };
    let page = page::page(&reported(&Snapshot { role: "send".into(), ..run(vec![lost]) }));
    let row = page.lines().nth(1).unwrap();
    assert!(row.starts_with('!') && row.contains("receiver lost"), "{page}");
}
