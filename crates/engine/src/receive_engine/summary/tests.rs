//! Tests of how a report attributes faults.

use super::*;
use crate::monitor::levels::levels;
use crate::monitor::sound::FoundPacket;
use crate::plan::probes::Probes;
use tautline_io::link::LinkCounters;
use tautline_io::thread::stall::{Stall, StallLog};
use tautline_proto::arrivals::ArrivalsConfig;
use tautline_proto::clock::{ClockMapping, ClockSource};
use tautline_proto::device::Settings;
use tautline_proto::faults::{Faults, Harm};
use tautline_proto::jitter_buffer::JitterBuffer;
use tautline_proto::latency::LatencyRule;
use tautline_proto::ledger::{Origin, Outcome};
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, LocalTime, MediaTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::RtpUnpack;

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn format() -> StreamFormat {
    let sample = tautline_dsp::format::SampleFormat::L24;
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample,
        packet: Frames::new(48),
        payload_type: StreamFormat::default_payload_type(sample),
    }
}

pub(crate) fn status(millis: i64) -> RxStatus {
    let receiver = JitterBuffer::without_repairer(JitterBufferConfig::new(
        RtpUnpack::usual(),
        format(),
        Span::from_millis(5),
    ));
    RxStatus {
        stream: receiver.status(at(millis)),
        link: LinkCounters::default(),
        paths: Default::default(),
        unmarked: 0,
    }
}

fn later(before: &RxStatus, faults: &[(i64, i64, Harm)]) -> RxStatus {
    let mut status = *before;
    status.stream.at += Span::from_millis(10);
    status.stream.faults = Faults::NONE;
    for (from, to, harm) in faults {
        status.stream.faults.add(at(*from), at(*to), *harm);
        status.stream.counters.late += u64::from(harm.late);
        status.stream.counters.lost += u64::from(harm.lost);
        status.stream.counters.underrun_discarded += u64::from(harm.underrun_discarded);
        status.stream.counters.xruns += u64::from(harm.xruns);
    }
    status
}

fn late(from: i64, to: i64) -> PacketTrace {
    let (capture, arrival) = (at(from), at(to));
    PacketTrace {
        media: MediaTime::ZERO,
        origin: None,
        reference: Some(capture),
        arrival,
        read: arrival,
        taken: arrival,
        written: arrival,
        resample: Span::ZERO,
        dac: capture + Span::from_millis(5),
        outcome: Outcome::Late,
    }
}

fn stalled(from: i64, to: i64) -> StallLog {
    let mut log = StallLog::new(2);
    let stall = Stall { from: at(from), to: at(to) };
    log.record(0, stall);
    log.record(1, stall);
    log
}

struct Reported {
    config: JitterBufferConfig,
    statistics: Statistics,
    arrivals: Arrivals,
    sender_device: CaptureFaults,
}

impl Reported {
    fn new() -> Self {
        let config = JitterBufferConfig::new(RtpUnpack::usual(), format(), Span::from_millis(5));
        let arrivals = Arrivals::new(ArrivalsConfig {
            loss_target: LossTarget::DEFAULT,
            device: Settings {
                rate: Rate::HZ_48000,
                channels: Channels::STEREO,
                period: Frames::new(48),
                periods: 2,
            },
            packing_age: Span::from_millis(1),
            start: config.link_offset,
            longest: Span::from_millis(500),
        });
        let statistics = Statistics::new(Probes::All, levels(0).1);
        Self { config, statistics, arrivals, sender_device: CaptureFaults::default() }
    }

    fn look(&mut self, status: RxStatus, stalls: &StallLog) {
        self.statistics.status = Some(status);
        self.statistics.count_missed(self.sender_device);
        self.arrivals.stand((&status.stream).into(), |from, to| stalls.overlaps(from, to));
    }

    fn report(mut self, stalls: &StallLog) -> StreamReport {
        self.arrivals.finish(|from, to| stalls.overlaps(from, to));
        let received = ReportSource {
            address: "rtp://127.0.0.1:5004",
            sealed: None,
            config: &self.config,
            link_offset: self.config.link_offset,
            reported: true,
            configured: true,
            rule: LatencyRule::Chosen(Span::from_millis(5)),
            statistics: &self.statistics,
            arrivals: &self.arrivals,
            invalid_reports: 0,
            foreign_reports: 0,
            refused_exchanges: 0,
            clock_steps: 0,
            sounded: false,
            refusal: None,
            wrong_type: None,
            announced: None,
            sender_device: self.sender_device,
        };
        received.report()
    }
}

fn judged(faults: &[(i64, i64, Harm)], stalls: &StallLog) -> u64 {
    let (mut reported, begun) = (Reported::new(), status(990));
    reported.look(begun, stalls);
    reported.look(later(&begun, faults), stalls);
    reported.report(stalls).counters.host_stalled
}

fn lost(lost: u32) -> Harm {
    Harm { lost, ..Harm::default() }
}

#[test]
fn taps_and_counters_agree_for_the_host() {
    let (mut reported, stalls) = (Reported::new(), stalled(991, 999));
    let begun = status(990);
    reported.look(begun, &stalls);
    let all = Harm { late: 1, lost: 3, underrun_discarded: 89, xruns: 2 };
    let ours = Harm { lost: 1, underrun_discarded: 9, ..Harm::default() };
    reported.arrivals.enter(&late(992, 999));
    let next = later(&begun, &[(960, 970, ours), (992, 999, all)]);
    reported.look(next, &stalls);
    reported.arrivals.enter(&late(993, 1_005));
    let mut last = later(&next, &[(993, 1_005, Harm { late: 1, ..Harm::default() })]);
    last.stream.counters.lost -= 1;
    reported.look(last, &stalls);
    let reported = reported.report(&stalls);
    let (counted, gaps) = (reported.counters, reported.gaps.unwrap());
    assert_eq!((gaps.host_stalled, counted.xruns), (2 + 2 + 89, 2), "{gaps:?}");
    assert_eq!(counted.host_stalled, gaps.host_stalled + counted.xruns, "{counted:?}");
    assert_eq!((gaps.lost, gaps.late_receiver), (1, 9), "{gaps:?}");
}

#[test]
fn faults_in_a_stall_of_all_cores_are_the_hosts() {
    let faults = [(980, 1_000, Harm { late: 0, lost: 3, underrun_discarded: 2, xruns: 1 })];
    assert_eq!(judged(&faults, &stalled(991, 999)), 6);
    let starved = [(980, 1_000, Harm { xruns: 4, ..Harm::default() })];
    assert_eq!(judged(&starved, &stalled(991, 999)), 4);
    assert_eq!(judged(&starved, &stalled(901, 909)), 0);
}

#[test]
fn only_packets_in_flight_during_a_stall_blame_the_host() {
    let faults = [(948, 1_000, lost(4))];
    assert_eq!(judged(&faults, &stalled(945, 950)), 4);
    assert_eq!(judged(&faults, &stalled(900, 930)), 0);
}

#[test]
fn stall_explains_only_overlapping_faults() {
    let faults = [(900, 920, 40), (930, 950, 2), (955, 975, 40), (980, 1_000, 18)]
        .map(|(from, to, count)| (from, to, lost(count)));
    assert_eq!(judged(&faults, &stalled(945, 950)), 2);
    assert_eq!(judged(&faults, &stalled(915, 956)), 82);
}

#[test]
fn a_stall_of_one_core_is_the_programs() {
    let mut log = StallLog::new(2);
    log.record(0, Stall { from: at(991), to: at(999) });
    assert_eq!(judged(&[(980, 1_000, Harm { xruns: 1, ..lost(3) })], &log), 0);
}

#[test]
fn lost_packet_that_arrives_late_is_one_fault() {
    let (mut reported, stalls) = (Reported::new(), stalled(980, 1_020));
    let begun = status(990);
    reported.look(begun, &stalls);
    let next = later(&begun, &[(990, 1_000, lost(1))]);
    reported.look(next, &stalls);
    reported.arrivals.enter(&late(995, 1_005));
    let mut last = later(&next, &[(995, 1_005, Harm { late: 1, ..Harm::default() })]);
    last.stream.counters.lost = 0;
    reported.look(last, &stalls);
    assert_eq!(reported.report(&stalls).counters.host_stalled, 1);
}

#[test]
fn stall_reported_after_the_fault_still_counts() {
    let (mut reported, silent) = (Reported::new(), StallLog::new(2));
    let begun = status(990);
    reported.look(begun, &silent);
    let next = later(&begun, &[(980, 1_000, Harm { xruns: 2, ..lost(5) })]);
    reported.look(next, &silent);
    assert_eq!(reported.report(&stalled(991, 999)).counters.host_stalled, 7);
}

#[test]
fn unreliable_talker_clock_gives_no_certain_figures() {
    let known = |uncertain: u64, source: ClockSource, here: bool| {
        let mut reported = Reported::new();
        let mut begun = status(990);
        begun.stream.counters.uncertain_clock = uncertain;
        reported.statistics.tai_is_uncertain = here;
        reported.look(begun, &StallLog::new(1));
        let mut clock = ClockMapping::known(Span::ZERO, Span::from_micros(3));
        clock.source = source;
        reported.statistics.clock = Some(clock);
        let played = PacketTrace {
            origin: Some(Origin { capture: at(980), sender: None }),
            outcome: Outcome::Played,
            ..late(981, 982)
        };
        (0..100).for_each(|_| reported.statistics.promise(&played));
        let report = reported.report(&StallLog::new(1));
        assert_eq!(report.counters.uncertain_clock, uncertain);
        let (clock, latency) = (report.clock.unwrap(), report.latency);
        assert_eq!(clock.uncertainty_ns.is_some(), latency.uncertainty_ns.is_some());
        assert_eq!(clock.uncertainty_ns.is_some(), latency.uncertainty_max_ns.is_some());
        clock.uncertainty_ns
    };
    assert_eq!(known(0, ClockSource::Tai, false), Some(3_000));
    assert_eq!(known(1, ClockSource::Tai, false), None);
    assert_eq!(known(0, ClockSource::Tai, true), None);
    for (uncertain, here) in [(1, false), (0, true)] {
        let by_another_clock = known(uncertain, ClockSource::Exchange, here);
        assert_eq!(by_another_clock, Some(3_000));
    }
}

#[test]
fn measured_and_unmeasured_packets_add_up() {
    let (mut reported, stalls) = (Reported::new(), StallLog::new(1));
    let played = |millis| PacketTrace {
        origin: Some(Origin { capture: at(millis), sender: None }),
        outcome: Outcome::Played,
        ..late(millis, millis + 1)
    };
    for millis in 0..100 {
        let passage = played(millis);
        assert!(reported.statistics.probe(&passage));
        reported.statistics.promise(&passage);
        if millis >= 7 {
            let measured = Span::from_millis(5);
            reported.statistics.found(FoundPacket {
                media: passage.media,
                measured,
                error: Span::ZERO,
            });
        }
    }
    reported.statistics.unfound = Unfound([4, 2, 1, 0]);
    let mut status = status(990);
    // 100 played, 3 late, 9 lost, 20 rebuilt of which 5 arrived after all, 2 too early.
    status.stream.counters.received = 100 + 3 + 5 + 2 + 6;
    status.stream.counters.duplicate = 6;
    status.stream.counters.late = 3;
    status.stream.counters.lost = 9;
    status.stream.counters.repaired = 20;
    status.stream.counters.repaired_arrived = 5;
    reported.look(status, &stalls);
    let report = reported.report(&stalls);
    let (latency, c) = (report.latency, report.counters);
    let unmeasured: u64 = latency.not_measured.each().iter().map(|(_, count)| count).sum();
    assert_eq!((latency.method.as_deref(), latency.measured.count), (Some("sound"), 93));
    assert_eq!(latency.not_measured.not_played, 2);
    let packets = c.received - c.duplicate + c.lost + c.repaired - c.repaired_arrived;
    assert_eq!((latency.measured.count + unmeasured, packets), (134, 134));
}

#[test]
fn sound_that_the_sender_never_sent_counts_in_packets() {
    let not_sent = |skipped_frames| {
        let mut reported = Reported::new();
        let mut status = status(990);
        status.stream.counters.skipped_frames = skipped_frames;
        reported.look(status, &StallLog::new(1));
        let gaps = reported.report(&StallLog::new(1)).gaps.unwrap();
        assert_eq!(gaps.faults(), [0, 0, gaps.not_sent, 0, 0]);
        gaps.not_sent
    };
    // Packets have 48 frames.
    assert_eq!([0, 48 * 478, 48 * 478 + 1].map(not_sent), [0, 478, 479]);
}

#[test]
fn silence_instead_of_a_lost_device_is_missed_sound() {
    let mut reported = Reported::new();
    let mut status = status(990);
    status.stream.counters.received = 1_000;
    status.stream.counters.skipped_frames = 48 * 100;
    reported.sender_device = CaptureFaults { xruns: 3, replaced: Span::from_millis(250) };
    reported.look(status, &StallLog::new(1));
    let report = reported.report(&StallLog::new(1));
    assert_eq!((report.missed(), report.arrived(), report.needed()), (350, 750, 1_100));
    let device = SenderDeviceReport { xruns: 3, replaced_ns: 250_000_000 };
    assert_eq!(report.sender_device, Some(device));
}
