use tautline_proto::endpoint::{Endpoint, Host as From, SourceEndpoints};
use tautline_proto::rtcp_session::{Event, ReportArrival, Session, SessionConfig};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::{Announcement, RtcpReport};

use super::talk::{FORMAT, LISTENER, SENDER, Talk, steady};

#[test]
fn thousand_strangers_do_not_evict_the_peer() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.run(Span::from_secs(3));
    let before = talk.hosts[0].reports.len();
    for stranger in 0..1000_u32 {
        talk.run(Span::from_millis(1));
        let wall = talk.hosts[0].wall(talk.now);
        let ntp = tautline_proto::wire::ntp::NtpTime::from_unix_nanos(wall.as_unix_nanos());
        let ssrc = stranger.wrapping_mul(0x9E37_79B1) | 0x8000_0000;
        let report =
            RtcpReport { reference_time: Some(ntp), cname: "who", ..RtcpReport::new(ssrc) };
        let mut bytes = [0; 500];
        let written = report.write(&mut bytes).unwrap();
        let arrival = talk.hosts[0].local(talk.now);
        talk.hosts[0]
            .session
            .handle(&bytes[..written], ReportArrival::exact(From::UNKNOWN, arrival), |_| {})
            .expect("a valid report");
    }
    let hurried = talk.hosts[0].reports.len() - before;
    assert!(hurried <= 100, "{hurried} reports in a second");
    let known = format!("{:?}", talk.hosts[0].session).matches("Peer {").count();
    assert!(known <= 64, "{known} peers");
    let since = talk
        .mapped
        .iter()
        .filter(|(host, at)| *host == 0 && talk.now - *at <= Span::from_millis(600));
    assert!(since.count() >= 1, "the true peer is still mapped");
    let best = talk.reported(0).filter_map(|e| match e {
        Event::Mapped(_, mapping) => Some(mapping.uncertainty),
        _ => None,
    });
    assert!(best.max().expect("mapped") < Span::from_millis(2));
}

#[test]
fn an_answer_to_no_question_maps_nothing() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.run(Span::from_micros(10));
    let ntp = tautline_proto::wire::ntp::NtpTime::from_unix_nanos(1_700_000_000_000_000_000);
    let answer = tautline_proto::wire::rtcp::DelaySince {
        ssrc: SENDER,
        // No reference time yet (RFC 3611 §4.5).
        last_reference: tautline_proto::wire::ntp::CompactNtp::NONE,
        delay: tautline_proto::wire::ntp::CompactSpan::from_bits(0),
    };
    let report = RtcpReport { reference_time: Some(ntp), delays: &[answer], ..RtcpReport::new(5) };
    let mut bytes = [0; 500];
    let written = report.write(&mut bytes).unwrap();
    let arrival = talk.hosts[0].local(talk.now);
    let mut events = vec![];
    talk.hosts[0]
        .session
        .handle(&bytes[..written], ReportArrival::exact(From::UNKNOWN, arrival), |event| {
            events.push(event)
        })
        .unwrap();
    assert!(!events.iter().any(|event| matches!(event, Event::Mapped(..))), "{events:?}");
}

/// Events of a report while the source is elsewhere.
fn reported(session: &mut Session, from: From, bytes: &[u8], at: LocalTime) -> Vec<Event> {
    let mut events = vec![];
    let whole = session.handle(bytes, ReportArrival::exact(from, at), |event| events.push(event));
    assert_eq!(whole, Ok(()));
    events
}

fn address(text: &str) -> Endpoint {
    Endpoint::new(text.parse().expect("an address"), 1)
}

#[test]
fn known_source_accepts_no_reports_of_another_host() {
    let wall_offset = Span::from_secs(1_700_000_000);
    let config =
        SessionConfig { ssrc: LISTENER, cname: "listener".into(), wall_offset, host: None };
    let mut listener = Session::new(config);
    let [own, other] = ["10.0.0.1:5004", "10.0.0.9:5004"].map(address);
    let now = LocalTime::ZERO + Span::from_secs(1);
    let mut report = RtcpReport::new(SENDER);
    let announcement = |millis| Announcement {
        link_offset: Span::from_millis(millis),
        format: FORMAT,
        packing_age: Span::from_millis(1),
        host: None,
        card: None,
        wants_feedback: false,
    };
    let mut write = |announced, bye| {
        let mut buffer = [0; 1400];
        (report.announcement, report.bye) = (Some(announcement(announced)), bye);
        let written = report.write(&mut buffer).unwrap();
        buffer[..written].to_vec()
    };
    let (truth, lie, goodbye) = (write(5, false), write(500, false), write(500, true));
    // Before that, both hosts are separate authors.
    assert_eq!(reported(&mut listener, own.host(), &truth, now).len(), 1);
    assert_eq!(reported(&mut listener, other.host(), &lie, now).len(), 1);
    listener.set_received(Some((SENDER, SourceEndpoints::only(own))));
    assert_eq!(listener.announcement(SENDER), Some(announcement(5)), "that of the playing source");
    for forged in [&lie, &goodbye] {
        assert_eq!(reported(&mut listener, other.host(), forged, now), []);
    }
    assert_eq!((listener.foreign(), listener.announcement(SENDER)), (2, Some(announcement(5))));
    // A second network of the sender.
    let both = SourceEndpoints::only(own)
        .with(Endpoint::new("10.1.0.1:5004".parse().unwrap(), 2))
        .unwrap();
    listener.set_received(Some((SENDER, both)));
    let more = write(7, false);
    let by_the_other = address("10.1.0.1:5005").host();
    assert_eq!(reported(&mut listener, by_the_other, &more, now).len(), 1);
    assert_eq!(listener.announcement(SENDER), Some(announcement(7)));
    let mut own_name = RtcpReport::new(0x99);
    own_name.bye = true;
    let mut buffer = [0; 1400];
    let written = own_name.write(&mut buffer).unwrap();
    let left = reported(&mut listener, other.host(), &buffer[..written], now);
    assert_eq!(left, [Event::Left(0x99)]);
}
