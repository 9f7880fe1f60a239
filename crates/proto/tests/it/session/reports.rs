//! Stream information at each end, and its absence.

use tautline_proto::endpoint::Host as From;
use tautline_proto::latency::LatencyMethod;
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::rtcp_session::{Event, Receiving, ReportArrival, Session, SessionConfig};
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_proto::wire::rtcp::{Effective, LossReport};

use super::talk::{FORMAT, LISTENER, SENDER, Talk, steady};

#[test]
fn the_stream_and_its_promise_are_announced() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.run(Span::from_millis(100));
    let announced = talk.reported(1).find_map(|event| match event {
        Event::Announced(ssrc, announcement) => Some((*ssrc, *announcement)),
        _ => None,
    });
    let (ssrc, announcement) = announced.expect("announced");
    assert_eq!((ssrc, announcement.link_offset), (SENDER, Span::from_millis(5)));
    assert_eq!(announcement.format, FORMAT);
}

#[test]
fn a_sender_report_pairs_a_frame_with_its_capture() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.run(Span::from_secs(3));
    let mut seen = 0;
    for event in talk.reported(1) {
        let Event::Captured(ssrc, rtp_timestamp, wall) = event else { continue };
        let captured = LocalTime::from_nanos(5_001_000_000_000);
        let since = *wall - WallTime::of_local(captured, talk.hosts[0].wall_offset);
        let frames = i64::from(*rtp_timestamp) - 1000 - 288;
        let error = since - FORMAT.rate.span_of(Frames::new(frames));
        assert!(error.abs() <= Span::from_micros(11), "{error}");
        assert_eq!(*ssrc, SENDER);
        seen += 1;
    }
    assert!(seen > 5);
}

#[test]
fn the_latency_reached_and_the_loss_go_back_to_the_sender() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(2)));
    let effective = Effective {
        ssrc: SENDER,
        configured: Span::from_millis(5),
        effective: Span::from_micros(5_010),
        uncertainty: Span::from_micros(20),
        needed: None,
        method: Some(LatencyMethod::Due),
    };
    let tally = Tally { expected: 1000, missing: 50, runs: 20, beyond: 0 };
    let losses = LossReport { ssrc: SENDER, tally, repaired: 48, lost: 2, late: 1 };
    let received = Receiving {
        ssrc: SENDER,
        expected: 1000,
        received: 1000,
        highest_sequence: 0x0001_0005,
        jitter: 3,
        effective: Some(effective),
        losses: Some(losses),
    };
    talk.hosts[1].session.set_receiving(received);
    talk.run(Span::from_secs(5));
    talk.hosts[1].session.set_receiving(Receiving { expected: 2000, received: 1750, ..received });
    talk.run(Span::from_secs(5));
    let blocks: Vec<_> = talk
        .reported(0)
        .filter_map(|e| if let Event::Reception(_, block) = e { Some(*block) } else { None })
        .collect();
    let last = blocks.last().expect("reported");
    assert_eq!((last.ssrc, last.highest_sequence, last.jitter), (SENDER, 0x0001_0005, 3));
    assert_eq!((last.fraction_lost, last.cumulative_lost), (0, 250));
    let fractions: Vec<_> = blocks.iter().map(|b| b.fraction_lost).filter(|f| *f > 0).collect();
    assert_eq!(fractions, [64], "a quarter, reported once");
    assert!(talk.reported(0).any(|event| *event == Event::Effective(LISTENER, effective)));
    assert!(talk.reported(0).any(|event| *event == Event::Losses(LISTENER, losses)));
}

#[test]
fn duplicates_make_the_loss_negative_and_the_fraction_nothing() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.hosts[1].session.set_receiving(Receiving {
        ssrc: SENDER,
        expected: 100,
        received: 140,
        ..Receiving::default()
    });
    talk.run(Span::from_secs(2));
    let block = talk.reported(0).find_map(|event| match event {
        Event::Reception(_, block) => Some(*block),
        _ => None,
    });
    let block = block.expect("reported");
    assert_eq!((block.fraction_lost, block.cumulative_lost), (0, -40));
}

#[test]
fn another_stream_begins_its_own_count_of_loss() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    let received = Receiving { ssrc: 99, expected: 1000, received: 900, ..Receiving::default() };
    talk.hosts[1].session.set_receiving(received);
    talk.run(Span::from_secs(2));
    // SSRC 99 was unknown, so there was no report.
    let received = Receiving { ssrc: SENDER, expected: 2000, received: 1000, ..received };
    talk.hosts[1].session.set_receiving(received);
    talk.run(Span::from_secs(2));
    let again = Receiving { ssrc: LISTENER + 1, expected: 10, received: 10, ..received };
    talk.hosts[1].session.set_receiving(again);
    talk.hosts[1].session.set_receiving(Receiving { expected: 2100, received: 1075, ..received });
    talk.run(Span::from_secs(2));
    let fractions: Vec<_> = talk
        .reported(0)
        .filter_map(|e| if let Event::Reception(_, block) = e { Some(block) } else { None })
        .map(|block| block.fraction_lost)
        .filter(|fraction| *fraction > 0)
        .collect();
    assert_eq!(fractions, [128, 124]);
}

#[test]
fn leaving_member_is_reported_and_not_awaited() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.run(Span::from_secs(2));
    let mut buffer = [0; 1500];
    let local = talk.hosts[0].local(talk.now);
    let written = talk.hosts[0].session.leave(local, &mut buffer).expect("there is room");
    talk.on_the_way.clear();
    let bye = buffer[..written].to_vec();
    let arrival = talk.hosts[1].local(talk.now);
    let mut left = vec![];
    talk.hosts[1]
        .session
        .handle(&bye, ReportArrival::exact(From::UNKNOWN, arrival), |event| left.push(event))
        .unwrap();
    assert_eq!(left.last(), Some(&Event::Left(SENDER)));
    assert!(talk.hosts[1].session.deadline().is_never());
}

#[test]
fn idle_host_reports_nothing() {
    let config =
        SessionConfig { ssrc: 1, cname: "alone".into(), wall_offset: Span::ZERO, host: None };
    let mut session = Session::new(config);
    assert!(session.deadline().is_never());
    assert_eq!(session.poll(LocalTime::from_nanos(1 << 50), &mut [0; 1500]), None);
}
