//! Whose fault it was.

use super::*;
use tautline_io::link::LinkCounters;
use tautline_io::stall::{Stall, StallBook};
use tautline_proto::receiver::Counters;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, MediaTime};
use tautline_proto::units::{Channels, Rate};

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

/// Each from, to, and how often.
fn faults(all: &[(i64, i64, u32)]) -> Faults {
    let mut faults = Faults::NONE;
    all.iter().for_each(|(from, to, late)| {
        faults.add(at(*from), at(*to), Harm { late: *late, ..Harm::default() });
    });
    faults
}

fn status(millis: i64, (late, lost, xruns): (u64, u64, u64)) -> RxStatus {
    let sample = tautline_dsp::format::SampleFormat::L24;
    RxStatus {
        at: at(millis),
        counters: Counters { late, lost, ..Counters::default() },
        link: LinkCounters::default(),
        receiving: None,
        ways: Default::default(),
        stranger: None,
        format: StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample,
            packet: Frames::new(48),
            payload_type: StreamFormat::default_payload_type(sample),
        },
        basis: None,
        xruns,
        said_goodbye: false,
        faults: faults(&[(millis - 10, millis, (late + lost + xruns) as u32)]),
        unbooked: 0,
        card: None,
        expected: 0,
        repair: (Span::ZERO, 0),
        paths: crate::paths::Paths::default(),
        quiet: false,
        drift: None,
        out_of_reach: false,
        need: None,
        lead: None,
        other_type: None,
    }
}

/// Two cores that stalled together.
fn stalled(from: i64, to: i64) -> StallBook {
    let mut book = StallBook::new(2);
    let stall = Stall { from: at(from), to: at(to) };
    book.record(0, stall);
    book.record(1, stall);
    book
}

/// The books after these looks at the stream, by this witness.
fn judged(statuses: &[RxStatus], witness: &StallBook) -> u64 {
    let mut books = Books::new();
    for status in statuses {
        books.stand(*status, |from, to| witness.overlaps(from, to));
    }
    books.close(|from, to| witness.overlaps(from, to));
    books.host_stalled
}

#[test]
fn faults_in_a_stall_of_all_cores_are_the_hosts() {
    let statuses = [status(990, (0, 0, 0)), status(1_000, (2, 3, 1)), status(1_010, (2, 3, 1))];
    assert_eq!(judged(&statuses, &stalled(991, 999)), 6);
}

#[test]
fn a_packet_that_was_under_way_in_a_stall_is_the_hosts_and_one_that_was_not_is_not() {
    let faults = faults(&[(948, 1_000, 4)]);
    let statuses = [status(990, (0, 0, 0)), RxStatus { faults, ..status(1_000, (0, 4, 0)) }];
    assert_eq!(judged(&statuses, &stalled(945, 950)), 4);
    assert_eq!(judged(&statuses, &stalled(900, 930)), 0);
}

#[test]
fn a_stall_answers_for_the_faults_that_it_overlaps_and_for_no_other_of_their_window() {
    // Packets that were late all the time, and two that were under way in a stall of 5 ms.
    let faults = faults(&[(900, 920, 40), (930, 950, 2), (955, 975, 40), (980, 1_000, 18)]);
    let statuses = [status(890, (0, 0, 0)), RxStatus { faults, ..status(1_000, (100, 0, 0)) }];
    assert_eq!(judged(&statuses, &stalled(945, 950)), 2);
    assert_eq!(judged(&statuses, &stalled(915, 956)), 82);
}

#[test]
fn a_stall_of_one_core_is_the_programs() {
    let mut book = StallBook::new(2);
    book.record(0, Stall { from: at(991), to: at(999) });
    let statuses = [status(990, (0, 0, 0)), status(1_000, (2, 3, 1))];
    assert_eq!(judged(&statuses, &book), 0);
}

#[test]
fn a_lost_packet_that_comes_late_is_one_fault() {
    let statuses = [status(990, (0, 0, 0)), status(1_000, (0, 1, 0)), status(1_010, (1, 0, 0))];
    assert_eq!(judged(&statuses, &stalled(980, 1_020)), 1);
}

#[test]
fn a_witness_that_speaks_after_the_fault_is_heard() {
    let mut books = Books::new();
    let silent = |_, _| false;
    books.stand(status(990, (0, 0, 0)), silent);
    books.stand(status(1_000, (0, 5, 0)), silent);
    let witness = stalled(991, 999);
    books.stand(status(1_010, (0, 5, 0)), |from, to| witness.overlaps(from, to));
    assert_eq!(books.host_stalled, 5);
}

/// A packet that was played so long after it was captured, if that is known.
fn passage(total: Option<Span>) -> Passage {
    let (arrival, dac) = (at(1_000), at(1_010));
    let capture = total.map(|total| dac - total);
    Passage {
        media: MediaTime::ZERO,
        origin: capture.map(|capture| tautline_proto::ledger::Origin { capture, sender: None }),
        reference: capture,
        arrival,
        read: arrival,
        taken: arrival,
        written: arrival,
        resample: Span::ZERO,
        dac,
        late: false,
    }
}

#[test]
fn a_clock_that_was_known_while_packets_were_played_stays_known_of_them() {
    let mut books = Books::new();
    let with = |basis| RxStatus { basis: Some(basis), ..status(990, (0, 0, 0)) };
    books.stand(with(Basis::Clock), |_, _| false);
    books.promise(&passage(Some(Span::from_millis(20))));
    // The sender is gone, and in ten seconds its clock is as good as unknown.
    books.stand(with(Basis::Arrival), |_, _| false);
    assert_eq!(books.basis(), Some(Basis::Clock));
}

#[test]
fn packets_whose_capture_nobody_knows_are_counted_beside_the_latency() {
    let mut books = Books::new();
    (0..3).for_each(|_| books.promise(&passage(None)));
    assert_eq!((books.basis(), books.unmapped), (Some(Basis::Arrival), 3));
    assert_eq!(books.latency().0.count(), 0);
}

#[test]
fn a_latency_is_the_devices_word_or_when_it_was_due_unless_it_is_heard() {
    for word in [Word::Device, Word::Due] {
        let mut books = Books::new();
        books.word = word;
        books.promise(&passage(Some(Span::from_millis(20))));
        assert_eq!(books.by(), word.name());
        let (media, measured) = (MediaTime::ZERO, Span::from_millis(20));
        books.found(Found { media, measured, error: Span::ZERO });
        assert_eq!(books.by(), "sound");
    }
}

#[test]
fn the_recent_latency_is_that_of_the_newest_packets() {
    let mut books = Books::new();
    assert_eq!(books.recent(), None);
    for millis in (0..1_000).map(|_| 5).chain((0..31).map(|_| 20)) {
        let (media, measured) = (MediaTime::ZERO, Span::from_millis(millis));
        books.found(Found { media, measured, error: Span::ZERO });
    }
    assert_eq!(books.recent(), Some(Span::from_millis(20)));
    assert_eq!(books.latency().0.median(), Some(Span::from_millis(5)));
}
