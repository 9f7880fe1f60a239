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

fn status(millis: i64, (late, lost, xruns): (u64, u64, u64)) -> RxStatus {
    let sample = tautline_dsp::format::SampleFormat::L24;
    RxStatus {
        at: at(millis),
        counters: Counters { late, lost, ..Counters::default() },
        link: LinkCounters::default(),
        receiving: None,
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
        faults: (late + lost + xruns > 0).then(|| Faults { from: at(millis - 10), to: at(millis) }),
        unbooked: 0,
        card: None,
        expected: 0,
        repair: (Span::ZERO, 0),
        paths: crate::paths::Paths::default(),
        quiet: false,
        drift: None,
        out_of_reach: false,
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
    let faults = Some(Faults { from: at(948), to: at(1_000) });
    let statuses = [status(990, (0, 0, 0)), RxStatus { faults, ..status(1_000, (0, 4, 0)) }];
    assert_eq!(judged(&statuses, &stalled(945, 950)), 4);
    assert_eq!(judged(&statuses, &stalled(900, 930)), 0);
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
