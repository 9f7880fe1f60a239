//! Two hosts' logs with a simulated clock offset.

use tautline_trial::snapshot;

use tautline_proto::clock::Exchange;
use tautline_proto::time::WallTime;

use super::super::joined::join;
use super::super::log::{DeviceLog, LogEnd, LogLine};
use super::*;
use crate::hosts::HostTimeline;
use crate::report::LabReport;

const BEGUN: LocalTime = LocalTime::from_nanos(900_000_000_000);
const DELAY: Span = Span::from_micros(12_345);

#[derive(Clone, Copy, Default)]
struct FarHost {
    ahead: Span,
    jump: Span,
    round_trip: Span,
    waits_back: bool,
}

impl FarHost {
    fn shows(&self, at: LocalTime) -> LocalTime {
        let jump = if at >= BEGUN + Span::from_secs(3) { self.jump } else { Span::ZERO };
        at + self.ahead + jump
    }

    /// All delay is in one direction.
    fn timeline(&self) -> HostTimeline {
        let mut timeline = HostTimeline::Exchanged(Box::default());
        for count in -10..40 {
            let requested = BEGUN + Span::from_millis(200 * count);
            let way = if self.waits_back { Span::ZERO } else { self.round_trip };
            let there = WallTime::of_local(self.shows(requested + way), Span::ZERO);
            timeline.observe(Exchange {
                requested,
                peer_received: there,
                peer_answered: there,
                answered: requested + self.round_trip,
                reading_error: Span::from_nanos(1),
            });
        }
        timeline
    }
}

fn logs([player, hearer]: [FarHost; 2]) -> [DeviceLog; 2] {
    let log = |host: &FarHost| DeviceLog {
        begun: host.shows(BEGUN),
        settings: SETTINGS,
        played: Vec::new(),
        received: Vec::new(),
        end: LogEnd::default(),
    };
    let (mut plays, mut handles) = (log(&player), log(&hearer));
    for mark in 0..600 {
        let (played, received) = at(mark, 0);
        let met = BEGUN + (played.at - LocalTime::ZERO);
        plays.played.push(Played { at: player.shows(met), uncertainty: UNSURE, ..played });
        let met = hearer.shows(met + DELAY);
        handles.received.push(JudgedMark { at: met, uncertainty: UNSURE, ..received });
    }
    handles.end.end_ns = hearer.shows(BEGUN + Span::from_secs(7)).as_nanos();
    [plays, handles].map(written)
}

fn written(log: DeviceLog) -> DeviceLog {
    DeviceLog::read(&text(&log)).unwrap()
}

fn text(log: &DeviceLog) -> String {
    let begin = super::super::log::LogBegin::of(log.begun, &log.settings);
    let lines = core::iter::once(LogLine::Begun(begin))
        .chain(log.played.iter().map(LogLine::from))
        .chain(log.received.iter().map(LogLine::from))
        .chain([LogLine::Ended(log.end.clone())]);
    let mut text = Vec::new();
    lines.for_each(|line| line.write(&mut text).unwrap());
    String::from_utf8(text).unwrap()
}

fn between(max_uncertainty: Span) -> DelayBetween {
    let options = DelayOptions {
        configured: None,
        settle: Span::from_secs(1),
        duration: Some(Span::from_secs(4)),
        scheduler: Scheduler::Other,
        channel: 0,
        mark: MarkKind::Wide,
        level_db: Marker::LEVEL_DB,
    };
    let devices = ["here", "there"].map(str::to_owned);
    DelayBetween { devices, settings: SETTINGS, options, max_uncertainty }
}

fn joined(hosts: [FarHost; 2], max_uncertainty: Span) -> LabReport {
    let clocks = hosts.map(|host| host.timeline());
    let found = join(logs(hosts), &clocks, &between(max_uncertainty)).unwrap();
    found.report(["here", "there"])
}

fn figure(report: &LabReport, key: &str) -> serde_json::Value {
    serde_json::to_value(&report.rows[0]).unwrap()[key].clone()
}

const NEAR: FarHost = FarHost {
    ahead: Span::ZERO,
    jump: Span::ZERO,
    round_trip: Span::from_micros(120),
    waits_back: false,
};
const FAR: FarHost = FarHost { ahead: Span::from_secs(-5000), ..NEAR };

#[test]
fn marks_between_hosts_are_measured_within_clock_uncertainty() {
    for hosts in [[NEAR, FAR], [FAR, NEAR], [FAR, FAR]] {
        let report = joined(hosts, Span::from_micros(250));
        let row = &report.rows[0];
        assert_eq!(row.invalid, None, "{report}");
        let error = row.measured.unwrap().p50_ns.unwrap() - DELAY.as_nanos();
        let unsure = row.uncertainty.unwrap().as_nanos();
        assert!(error.abs() <= unsure, "{error} {report}");
        // Two half round trips, plus the devices' uncertainties.
        assert!((126_000..200_000).contains(&unsure), "{report}");
        let bound = figure(&report, "uncertainty_95_ns").as_i64().unwrap();
        assert!(bound >= error.abs() && bound > 60_000, "{error} {report}");
        assert_eq!(figure(&report, "marks_played"), 400, "{report}");
        assert_eq!(figure(&report, "marks_missed"), 0, "{report}");
        assert_eq!(figure(&report, "clock_source"), "agents", "{report}");
    }
}

#[test]
fn bound_includes_full_clock_uncertainty_plus_scatter() {
    // Each clock errs by the maximum, in opposite directions.
    for hosts in
        [[NEAR, FarHost { waits_back: true, ..FAR }], [FarHost { waits_back: true, ..FAR }, NEAR]]
    {
        let mut logs = logs(hosts);
        let mut random = fastrand::Rng::with_seed(11);
        let mut noise = || Span::from_micros(random.i64(-400..=400));
        logs[1].received.iter_mut().for_each(|mark| mark.at += noise());
        let clocks = hosts.map(|host| host.timeline());
        let found = join(logs, &clocks, &between(Span::from_micros(250))).unwrap();
        let report = found.report(["here", "there"]);
        let error = report.rows[0].measured.unwrap().p50_ns.unwrap() - DELAY.as_nanos();
        let bound = figure(&report, "uncertainty_95_ns").as_i64().unwrap();
        let clocks = 120_000;
        assert!(error.abs() <= bound, "{error} {report}");
        // The scatter of 400 marks is about 40 µs; the clocks add the rest.
        assert!((clocks + 15_000..clocks + 90_000).contains(&bound), "{error} {report}");
    }
}

#[test]
fn marks_of_one_clock_are_measured_as_sure_as_their_devices_are() {
    let here = FarHost::default();
    let clocks = [HostTimeline::Same, HostTimeline::Same];
    let found = join(logs([here, here]), &clocks, &between(Span::ZERO)).unwrap();
    let report = found.report(["here", "there"]);
    assert_eq!(report.rows[0].invalid, None, "{report}");
    assert_eq!(report.rows[0].measured.unwrap().p50_ns, Some(DELAY.as_nanos()), "{report}");
    assert_eq!(report.rows[0].uncertainty, Some(UNSURE + UNSURE), "{report}");
    assert_eq!(figure(&report, "clock_source"), "host", "{report}");
}

#[test]
fn run_with_uncertain_clocks_is_invalid() {
    let report = joined([NEAR, FAR], Span::from_micros(100));
    let why = report.rows[0].invalid.as_deref().unwrap();
    snapshot!(why);
    assert!(why.contains("--max-uncertainty"), "{why}");
}

#[test]
fn run_with_a_clock_jump_is_invalid() {
    for jump in [Span::from_millis(2), Span::from_secs(-3)] {
        let report = joined([NEAR, FarHost { jump, ..FAR }], Span::from_micros(250));
        let why = report.rows[0].invalid.as_deref().unwrap();
        snapshot!(why);
    }
}

#[test]
fn marks_that_no_exchange_was_near_to_are_not_compared() {
    let clocks = [NEAR.timeline(), HostTimeline::Exchanged(Box::default())];
    let (end, refused) =
        join(logs([NEAR, FAR]), &clocks, &between(Span::from_secs(1))).unwrap_err();
    assert!(end == 1 && refused.contains("sent no clock reading"), "{refused}");
}

#[test]
fn clock_error_beyond_the_delay_stays_within_uncertainty() {
    // All 60 ms are in one direction: marks seem 30 ms early.
    let slow = FarHost { round_trip: Span::from_millis(60), ..FAR };
    let here = FarHost::default();
    for hosts in [[here, slow], [slow, here]] {
        let clocks = hosts.map(|host| match host.round_trip {
            Span::ZERO => HostTimeline::Same,
            _ => host.timeline(),
        });
        let found = join(logs(hosts), &clocks, &between(Span::from_secs(1))).unwrap();
        let report = found.report(["here", "there"]);
        let row = &report.rows[0];
        let error = row.measured.unwrap().p50_ns.unwrap() - DELAY.as_nanos();
        assert!(error.abs() > 29_000_000, "{report}");
        assert!(error.abs() <= row.uncertainty.unwrap().as_nanos(), "{error} {report}");
        assert_eq!(figure(&report, "marks_missed"), 0, "{report}");
        assert_eq!(figure(&report, "marks_of_others"), 0, "{report}");
    }
}

#[test]
fn full_log_causes_no_missed_or_foreign_marks() {
    let here = FarHost::default();
    let clocks = || [HostTimeline::Same, HostTimeline::Same];
    for full in [0, 1] {
        let mut logs = logs([here, here]);
        logs[0].played.truncate(if full == 0 { 300 } else { 600 });
        logs[1].received.truncate(if full == 1 { 300 } else { 600 });
        logs[full].end.overflowed = 300;
        let report = join(logs, &clocks(), &between(Span::ZERO)).unwrap().report(["here", "there"]);
        assert_eq!(figure(&report, "marks_missed"), 0, "{report}");
        assert_eq!(figure(&report, "marks_of_others"), 0, "{report}");
        let played = figure(&report, "marks_played").as_i64().unwrap();
        assert!((195..=200).contains(&played), "{report}");
        assert!(report.notes.iter().any(|note| note.contains("300 marks were")), "{report}");
    }
}

#[test]
fn sweeps_closer_than_the_clock_uncertainty_are_rejected() {
    let slow = FarHost { round_trip: Span::from_millis(600), ..FAR };
    let plan = between(Span::from_secs(1));
    let plan =
        DelayBetween { options: DelayOptions { mark: MarkKind::Sweep, ..plan.options }, ..plan };
    let clocks = [HostTimeline::Same, slow.timeline()];
    let (_, why) = join(logs([FarHost::default(), slow]), &clocks, &plan).unwrap_err();
    snapshot!(why);
}

#[test]
fn a_log_with_marks_that_cannot_be_is_refused() {
    let written = written(logs([NEAR, NEAR])[1].clone());
    let spoils: [fn(&mut JudgedMark); 4] = [
        |mark| mark.number = tautline_dsp::timecode::NUMBERS,
        |mark| mark.uncertainty = Span::from_nanos(-1),
        |mark| mark.alongside = -1.0,
        |mark| mark.number = u32::MAX,
    ];
    for spoil in spoils {
        let mut log = written.clone();
        spoil(&mut log.received[3]);
        snapshot!(DeviceLog::read(&text(&log)).unwrap_err());
    }
    let played = "{\"played\":[4294967295,1,1,1]}";
    let whole = text(&written);
    let (begin, rest) = whole.split_once('\n').unwrap();
    let refused = DeviceLog::read(&format!("{begin}\n{played}\n{rest}")).unwrap_err();
    snapshot!(refused);
}

#[test]
fn a_log_that_was_cut_short_is_refused() {
    for text in ["", "{\"begun\":{}}", "taut", "{\"played\":[1,2,3,4]}"] {
        let refused = DeviceLog::read(text).unwrap_err();
        snapshot!(refused);
    }
    let begun = r#"{"begun":{"at_ns":1,"rate":48000,"channels":2,"period":48,"periods":2}}"#;
    snapshot!(DeviceLog::read(begun).unwrap_err());
    let half = format!("{begun}\n{{\"played\":[1,2");
    snapshot!(DeviceLog::read(&half).unwrap_err());
}
