//! The measured latency is the sound's, whatever the ledger reports.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its road has failed")]

mod common;
mod marks;

use std::collections::VecDeque;
use std::path::PathBuf;

use common::{Between, Road};
use tautline_engine::plan::LinkKind;
use tautline_proto::card_clock::CardClock;
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_report::{LatencyReport, Report, StreamReport};
use tautline_trial::{Window, each, mostly, shared, steady, timed};

const PLANTED: Span = Span::from_millis(1);
const PLANTED_FRAMES: usize = 48;

fn frame() -> i64 {
    Rate::HZ_48000.span_of(Frames::new(1)).as_nanos()
}

struct Later {
    process: Box<dyn Process>,
    waiting: VecDeque<f32>,
}

impl Process for Later {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let flow = self.process.process(cycle);
        for sample in &mut *cycle.playback.samples {
            let now = self.waiting.pop_front().unwrap();
            self.waiting.push_back(core::mem::replace(sample, now));
        }
        flow
    }
}

struct Sooner(Box<dyn Process>);

impl Process for Sooner {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let meets = cycle.playback.meets;
        cycle.playback.meets = meets + PLANTED;
        let flow = self.0.process(cycle);
        cycle.playback.meets = meets;
        flow
    }
}

fn later(process: Box<dyn Process>) -> Box<dyn Process> {
    Box::new(Later { process, waiting: vec![0.0; 2 * PLANTED_FRAMES].into() })
}

fn sooner(process: Box<dyn Process>) -> Box<dyn Process> {
    Box::new(Sooner(process))
}

fn assert_measured(report: &Report, off: Span) {
    mostly(|| report.streams.iter().for_each(|stream| assert_stream_measured(stream, off)));
    report.streams.iter().for_each(assert_each_is_reported);
}

fn assert_stream_measured(stream: &StreamReport, off: Span) {
    let LatencyReport { configured_ns, measured, method, basis, .. } = &stream.latency;
    let LatencyReport { uncertainty_ns, uncertainty_max_ns, trace_error, .. } = &stream.latency;
    assert!(uncertainty_ns <= uncertainty_max_ns);
    let reported = format!("{stream:#?}");
    assert_eq!((method.as_deref(), &**basis), (Some("sound"), "clock"), "{reported}");
    let uncertainty = uncertainty_ns.unwrap();
    let error = measured.p50_ns.unwrap() - configured_ns.unwrap() - off.as_nanos();
    assert!(error.abs() <= frame() + uncertainty, "{error} ns off: {reported}");
    let reckoned = trace_error.p50_ns.unwrap() - off.as_nanos();
    assert!(reckoned.abs() <= frame(), "the computed latency is {reckoned} ns off: {reported}");
    assert_found(stream);
}

/// At least half of the packets outside underruns must be found. With a 2 ms buffer, 45 host stalls
/// per second hid half.
fn assert_found(stream: &StreamReport) {
    const HIDDEN_BY_UNDERRUN: u64 = (1024 + 128) / 48;
    let LatencyReport { measured, not_measured, .. } = &stream.latency;
    let (found, counters) = (measured.count, &stream.counters);
    let hidden = not_measured.no_match.min(counters.xruns * HIDDEN_BY_UNDERRUN);
    assert!(
        found > 100 && found * 2 > counters.received - hidden,
        "{found} of {} were found, {hidden} of the rest hidden by underruns: {not_measured:?} {counters:?}",
        counters.received,
    );
}

fn assert_each_is_reported(stream: &StreamReport) {
    let LatencyReport { measured, not_measured, .. } = &stream.latency;
    let alongside: u64 = not_measured.each().map(|(_, count)| count).iter().sum();
    let arrived = stream.counters.received + stream.counters.lost;
    assert_eq!(measured.count + alongside, arrived - stream.counters.duplicate, "{stream:#?}");
}

struct Line {
    instants: Vec<i64>,
    measured: Option<i64>,
}

impl Line {
    fn lasts(&self) -> Window {
        let instants: Vec<_> = self.instants.iter().copied().map(LocalTime::from_nanos).collect();
        Window::around(&instants)
    }
}

fn lines(ledger: &PathBuf) -> Vec<Line> {
    let text = std::fs::read_to_string(ledger).unwrap();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert_eq!(
        head,
        "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,\
         measured_ns,stream,late,resample_ns,launched"
    );
    let line = |line: &str| {
        let fields: Vec<Option<i64>> = line.split(',').map(|field| field.parse().ok()).collect();
        Line { instants: fields[1..10].iter().flatten().copied().collect(), measured: fields[10] }
    };
    lines.map(line).collect()
}

fn assert_stages(lines: &[Line], report: &Report, off: Span) {
    let mut promised: Vec<i64> = lines
        .iter()
        .filter(|line| line.instants.len() == 9 && line.measured.is_some())
        .map(|line| line.instants[8] - line.instants[7])
        .collect();
    promised.sort_unstable();
    let promised = promised[promised.len() / 2];
    let stages = &report.streams[0].stages;
    let device = stages.iter().find(|stage| stage.name == "device").unwrap().summary.p50_ns;
    let error = device.unwrap() - promised - off.as_nanos();
    mostly(|| assert!(error.abs() <= 2 * frame(), "the device's stage is {error} ns off"));
}

/// Stages are non-negative within the clock uncertainty and add up to the ledger's latency. The
/// packet was found `off` from it.
fn assert_packets(ledger: &PathBuf, report: &Report, off: Span) {
    let uncertainty = report.streams[0].latency.uncertainty_ns.unwrap();
    let lines = lines(ledger);
    assert_stages(&lines, report, off);
    let whole: Vec<_> = lines.iter().filter(|line| line.instants.len() == 9).collect();
    each(whole.iter().map(|line| (line.lasts(), line)), |Line { instants, measured }| {
        let stages: Vec<i64> = instants.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(stages[..7].iter().all(|stage| *stage >= -2 * uncertainty), "{stages:?}");
        let total: i64 = stages.iter().sum();
        let configured = report.streams[0].latency.configured_ns.unwrap();
        assert_eq!(total, instants[8] - instants[0]);
        assert!((total - configured).abs() < 1_000_000, "{total} is not near {configured}");
        if let Some(measured) = measured {
            let error = measured - total - off.as_nanos();
            assert!(error.abs() <= frame(), "{error} ns off: {stages:?}");
        }
    });
    let received = whole.iter().filter(|line| line.measured.is_some()).count();
    mostly(|| {
        assert!(received * 2 > lines.len(), "{received} of {} packets were found", lines.len())
    });
    assert_eq!(received as u64, report.streams[0].latency.measured.count);
}

struct Kept(PathBuf);

impl Kept {
    fn new(name: &str) -> Self {
        let process = std::process::id();
        Self(std::env::temp_dir().join(format!("tautline-{process}-{name}")))
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.0.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const PERIOD: Span = Span::from_millis(10);

/// Median latency of time marks between converters, and the reported latency. `captures` captures
/// the marks.
fn from_converter_to_converter(name: &str, captures: Between) -> (Span, LatencyReport) {
    let record = Kept::new(&format!("{name}.wav"));
    let road = Road {
        period: 480,
        periods: 6,
        latency: Span::from_millis(100),
        lasts: Span::from_secs(3),
        captures: Some(captures),
        record: record.path(),
        ..Road::default()
    };
    let (mut report, _) = road.run(|process| process, |_| {});
    let [requested, received] = road.started.each_ref().map(|started| *started.0.get().unwrap());
    let starts = [CardClock::start_at_tick(requested), received];
    let delays = marks::delays(&record.0, starts.into());
    assert!(delays.len() > 30, "{} marks were found: {report:#?}", delays.len());
    (delays[delays.len() / 2], report.streams.remove(0).latency)
}

#[test]
fn latency_between_converters_is_configured_and_reported() {
    shared(|| {
        let (took, reported) =
            from_converter_to_converter("true", |p| marks::stamped(p, Span::ZERO));
        let unsure = frame() + reported.uncertainty_ns.unwrap();
        let off = took.as_nanos() - reported.configured_ns.unwrap();
        assert!(off.abs() <= unsure, "it took {took}: {reported:#?}");
        let off = took.as_nanos() - reported.measured.p50_ns.unwrap();
        assert!(off.abs() <= unsure, "it took {took}: {reported:#?}");
        assert_eq!(reported.method.as_deref(), Some("sound"), "{reported:#?}");
    });
}

#[test]
fn wrong_capture_timestamp_shows_in_the_sound_only() {
    shared(|| {
        let (took, reported) = from_converter_to_converter("off", |p| marks::stamped(p, PERIOD));
        let unsure = frame() + reported.uncertainty_ns.unwrap();
        let off = took.as_nanos() - reported.configured_ns.unwrap() - PERIOD.as_nanos();
        assert!(off.abs() <= unsure, "it took {took}: {reported:#?}");
        let off = reported.measured.p50_ns.unwrap() - reported.configured_ns.unwrap();
        assert!(off.abs() <= unsure, "{reported:#?}");
    });
}

#[test]
fn every_sent_packet_is_received_and_counted() {
    let (report, senders) = Road::default().run(|process| process, |_| {});
    let (received, sent) = (&report.streams[0].counters, &senders[0].streams[0].counters);
    // A stall over 20 ms at the sender's card leaves a packet on probation.
    assert_eq!(received.received + received.on_probation, sent.sent, "{report:#?} {senders:#?}");
    assert!(sent.sent > 1_000, "{senders:#?}");
}

/// Run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn the_latency_measured_is_the_latency_configured() {
        timed(|| {
            for latency in [5, 20, 100].map(Span::from_millis) {
                let (report, _) = Road { latency, ..Road::short() }.run(|process| process, |_| {});
                assert_measured(&report, Span::ZERO);
            }
        });
    }

    #[test]
    fn latency_is_measured_through_wire_threads_and_long_periods() {
        timed(|| {
            let road = Road {
                period: 480,
                latency: Span::from_millis(50),
                link: LinkKind::Threaded,
                ringed_receiver: true,
                ..Road::short()
            };
            let (report, senders) = road.run(|process| process, |_| {});
            assert_measured(&report, Span::ZERO);
            assert_eq!(senders.len(), 1);
        });
    }

    #[test]
    fn stages_of_each_packet_add_up_to_its_latency() {
        timed(|| {
            let ledger = Kept::new("stages.csv");
            let road = Road { ledger: ledger.path(), ..Road::default() };
            let (report, _) = road.run(|process| process, |_| {});
            assert_measured(&report, Span::ZERO);
            assert_packets(&ledger.0, &report, Span::ZERO);
        });
    }

    #[test]
    fn sound_later_than_the_log_is_measured_later() {
        timed(|| {
            let ledger = Kept::new("later.csv");
            let road = Road { ledger: ledger.path(), ..Road::default() };
            let (report, _) = road.run(later, |_| {});
            assert_measured(&report, PLANTED);
            assert_packets(&ledger.0, &report, PLANTED);
        });
    }

    #[test]
    fn sound_earlier_than_the_log_is_measured_earlier() {
        timed(|| {
            let ledger = Kept::new("sooner.csv");
            let road = Road { ledger: ledger.path(), ..Road::default() };
            let (report, _) = road.run(sooner, |_| {});
            assert_measured(&report, -PLANTED);
            assert_packets(&ledger.0, &report, -PLANTED);
        });
    }

    #[test]
    fn each_of_two_streams_that_are_mixed_is_placed_by_the_books() {
        steady(|| {
            let (report, _) = Road { streams: 2, ..Road::default() }.run(|process| process, |_| {});
            for stream in &report.streams {
                let error =
                    stream.latency.measured.p50_ns.unwrap() - stream.latency.configured_ns.unwrap();
                assert!(
                    error.abs() <= frame() + stream.latency.uncertainty_ns.unwrap(),
                    "{report:#?}"
                );
            }
        });
    }
}
