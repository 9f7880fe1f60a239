//! Under test: two ends of a session, joined by a pipe that delays, jitters and loses reports, on
//! clocks that drift. The test knows the true time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockSource, HostClock, KeptClock, WallTime};
use tautline_proto::endpoint::{Endpoint, Host as From, SourceEndpoints};
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::sender::SenderState;
use tautline_proto::session::{Event, Receiving, ReportArrival, Sending, Session, SessionConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};
use tautline_proto::wire::rtcp::{Announcement, Effective, LossReport, RtcpReport};

const SENDER: u32 = 0x5e4d;
const LISTENER: u32 = 0x11;

const FORMAT: StreamFormat = StreamFormat {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    sample: SampleFormat::L24,
    packet: Frames::new(48),
    payload_type: 97,
};

/// One host: its session, its clock, and what it was told.
struct Host {
    session: Session,
    /// How wrong its clock's rate is.
    drift: Ppm,
    /// What its monotonic clock shows at the true time zero.
    origin: Span,
    wall_offset: Span,
    events: Vec<(LocalTime, Event)>,
    /// True times of its reports.
    reports: Vec<LocalTime>,
}

impl Host {
    fn new(ssrc: u32, drift: Ppm, origin: Span, wall_offset: Span) -> Self {
        let cname = format!("host-{ssrc}");
        let session = Session::new(SessionConfig { ssrc, cname, wall_offset, host: None });
        Self { session, drift, origin, wall_offset, events: vec![], reports: vec![] }
    }

    /// Its monotonic clock at this true time.
    fn local(&self, at: LocalTime) -> LocalTime {
        LocalTime::ZERO + self.origin + self.drift.stretch(at - LocalTime::ZERO)
    }

    fn wall(&self, at: LocalTime) -> WallTime {
        WallTime::of_local(self.local(at), self.wall_offset)
    }

    /// The true time at which its deadline has come.
    fn wakes(&self) -> LocalTime {
        let deadline = self.session.deadline();
        if deadline.is_never() {
            return LocalTime::NEVER;
        }
        let truly = self.drift.unstretch(deadline - (LocalTime::ZERO + self.origin));
        LocalTime::ZERO + truly + Span::from_nanos(2)
    }
}

/// What the pipe does to one report: from which host, with two random numbers; `None` loses it.
type Pipe = Box<dyn FnMut(usize, [u32; 2]) -> Option<Span>>;

struct Talk {
    now: LocalTime,
    hosts: [Host; 2],
    pipe: Pipe,
    on_the_way: BTreeMap<(LocalTime, usize), (usize, Vec<u8>)>,
    sent: usize,
    random: u32,
    /// Mappings seen: host, true time.
    mapped: Vec<(usize, LocalTime)>,
}

impl Talk {
    fn new(pipe: Pipe) -> Self {
        Self::between(pipe, [Ppm::ZERO; 2])
    }

    fn between(pipe: Pipe, drifts: [Ppm; 2]) -> Self {
        let wall = Span::from_secs(1_700_000_000);
        let sender = Host::new(SENDER, drifts[0], Span::from_secs(5_000), wall);
        let listener =
            Host::new(LISTENER, drifts[1], Span::from_millis(77_123), wall + Span::from_secs(3));
        let mut talk = Self {
            now: LocalTime::ZERO + Span::from_secs(1),
            hosts: [sender, listener],
            pipe,
            on_the_way: BTreeMap::new(),
            sent: 0,
            random: 12_345,
            mapped: vec![],
        };
        talk.hosts[0].session.set_sending(sending());
        talk
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random >> 8
    }

    /// Lets true time pass, report by report.
    fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let arrives = self.on_the_way.keys().next().map_or(LocalTime::NEVER, |key| key.0);
            let wakes = [self.hosts[0].wakes(), self.hosts[1].wakes()];
            let next = arrives.min(wakes[0]).min(wakes[1]);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrives <= next {
                self.deliver();
            } else {
                self.report(usize::from(wakes[1] < wakes[0]));
            }
        }
    }

    fn report(&mut self, from: usize) {
        let mut buffer = [0; 1500];
        let local = self.hosts[from].local(self.now);
        let written = self.hosts[from].session.poll(local, &mut buffer).expect("its time has come");
        self.hosts[from].reports.push(self.now);
        self.send(from, buffer[..written].to_vec());
    }

    fn send(&mut self, from: usize, bytes: Vec<u8>) {
        let random = [self.random(), self.random()];
        if let Some(delay) = (self.pipe)(from, random) {
            self.sent += 1;
            self.on_the_way.insert((self.now + delay, self.sent), (1 - from, bytes));
        }
    }

    fn deliver(&mut self) {
        let (_, (to, bytes)) = self.on_the_way.pop_first().expect("one is on the way");
        let arrival = self.hosts[to].local(self.now);
        let mut events = vec![];
        let told = self.hosts[to].session.handle(
            &bytes,
            ReportArrival::exact(From::UNKNOWN, arrival),
            |e| events.push(e),
        );
        told.expect("what a session writes can be read");
        for event in events {
            if let Event::Mapped { ssrc, mapping } = event {
                let peer = &self.hosts[1 - to];
                assert_eq!(ssrc, [SENDER, LISTENER][1 - to]);
                let error = mapping.local(peer.wall(self.now)) - arrival;
                assert!(
                    error.abs() <= mapping.uncertainty,
                    "off by {error}, said {}",
                    mapping.uncertainty
                );
                self.mapped.push((to, self.now));
            }
            self.hosts[to].events.push((self.now, event));
        }
    }

    fn told(&self, host: usize) -> impl DoubleEndedIterator<Item = &Event> {
        self.hosts[host].events.iter().map(|(_, event)| event)
    }
}

fn sending() -> Sending {
    let state = SenderState {
        packets: 7,
        octets: 2016,
        reference: Some((MediaTime::from_frames(288), LocalTime::from_nanos(5_001_000_000_000))),
    };
    let (link_offset, packing_age) = (Span::from_millis(5), Span::from_millis(1));
    Sending { format: FORMAT, link_offset, packing_age, card: None, timestamp: 1000, state }
}

/// A pipe that takes as long each time, maybe differently there and back.
fn steady(there: Span, back: Span) -> Pipe {
    Box::new(move |from, _| Some(if from == 0 { there } else { back }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_mapping_is_never_further_off_than_it_says(
        // A path all of one side and next to nothing on the other leaves the bound no slack.
        there in prop_oneof![0_i64..3, 0_i64..40_000],
        back in prop_oneof![0_i64..3, 0_i64..40_000],
        jitter in prop_oneof![0_u32..3, 0_u32..20_000],
        loss in 0_u32..50,
        // Together within the 15 ppm that are assumed.
        drifts in [-7_500_000_i64..=7_500_000, -7_500_000_i64..=7_500_000],
    ) {
        let pipe = move |from: usize, [lot, delay]: [u32; 2]| {
            let least = Span::from_micros(if from == 0 { there } else { back });
            let more = Span::from_micros(i64::from(delay % (jitter + 1)));
            (lot % 100 >= loss).then_some(least + more)
        };
        let mut talk = Talk::between(Box::new(pipe), drifts.map(Ppm::from_millionths));
        talk.run(Span::from_secs(60));
        prop_assert!(talk.mapped.iter().any(|(host, _)| *host == 0));
        prop_assert!(talk.mapped.iter().any(|(host, _)| *host == 1));
    }

    #[test]
    fn both_clocks_are_mapped_within_three_round_trips(
        there in 1_i64..150_000,
        back in 1_i64..150_000,
    ) {
        let (there, back) = (Span::from_micros(there), Span::from_micros(back));
        let mut talk = Talk::new(steady(there, back));
        let start = talk.now;
        talk.run(Span::from_secs(2));
        for host in [0, 1] {
            let first = talk.mapped.iter().find(|(mapped, _)| *mapped == host);
            let took = first.expect("mapped").1 - start;
            prop_assert!(took <= (there + back).times(3), "host {host}: {took}");
        }
    }

    #[test]
    fn reports_are_half_a_second_apart_at_most_and_soon_no_closer(delay in 0_i64..100_000) {
        let delay = Span::from_micros(delay);
        let mut talk = Talk::new(steady(delay, delay));
        talk.run(Span::from_secs(20));
        for host in &talk.hosts {
            let apart = |two: &[LocalTime]| two[1] - two[0];
            prop_assert!(host.reports.windows(2).all(|two| apart(two) <= Span::from_millis(500)));
            let begun = host.reports[0];
            let within = |from, to| {
                let (from, to) = (begun + Span::from_secs(from), begun + Span::from_secs(to));
                host.reports.iter().filter(|at| (from..to).contains(*at)).count()
            };
            prop_assert!(within(0, 1) <= 24, "{} in the first second", within(0, 1));
            for second in 2..18 {
                prop_assert!(within(second, second + 1) <= 3);
            }
        }
    }
}

#[test]
fn a_symmetric_path_gives_the_offset_itself() {
    let delay = Span::from_micros(100);
    let mut talk = Talk::new(steady(delay, delay));
    talk.run(Span::from_secs(10));
    let mapping = talk
        .told(1)
        .filter_map(|e| if let Event::Mapped { mapping, .. } = e { Some(*mapping) } else { None })
        .next_back()
        .expect("mapped");
    let error = mapping.local(talk.hosts[0].wall(talk.now)) - talk.hosts[1].local(talk.now);
    assert!(error.abs() <= Span::from_micros(5), "{error}");
    assert!((mapping.round_trip - delay.times(2)).abs() <= Span::from_micros(8));
    assert!(mapping.uncertainty <= Span::from_micros(120), "{}", mapping.uncertainty);
}

/// The mapping that the listener uses after ten seconds of a path that takes 4 ms there and 1 ms back,
/// where both system clocks are known to `micros`, and how far it is off.
fn kept(micros: i64) -> (ClockSource, Span) {
    let mut talk = Talk::new(steady(Span::from_millis(4), Span::from_millis(1)));
    for host in &mut talk.hosts {
        host.session.set_kept(Some(KeptClock {
            offset: Span::from_secs(1_000_000) - host.origin,
            uncertainty: Span::from_micros(micros),
            source: ClockSource::System,
        }));
    }
    talk.run(Span::from_secs(10));
    let mapping = talk
        .told(1)
        .filter_map(|e| if let Event::Mapped { mapping, .. } = e { Some(*mapping) } else { None })
        .next_back()
        .expect("mapped");
    let error = mapping.local(talk.hosts[0].wall(talk.now)) - talk.hosts[1].local(talk.now);
    (mapping.source, error.abs())
}

#[test]
fn a_system_clock_that_is_surer_than_the_round_trip_takes_its_place() {
    // Half of the round trip is 2.5 ms, and that it is lopsided cannot be seen.
    let (source, error) = kept(100);
    assert_eq!(source, ClockSource::System);
    assert!(error <= Span::from_micros(1), "{error}");
    let (source, error) = kept(5_000);
    assert_eq!(source, ClockSource::Exchange);
    assert!((error - Span::from_micros(1_500)).abs() <= Span::from_micros(10), "{error}");
}

#[test]
fn a_report_that_waits_for_the_first_route_makes_no_later_one_odd() {
    // The first packets to a host wait until it is found (ARP), those of one end alone.
    for (slow_end, count, millis) in
        [(0, 1, 10), (0, 1, 65), (1, 1, 65), (0, 2, 30), (1, 3, 65), (0, 1, 300)]
    {
        let mut sent = [0; 2];
        let pipe = move |from: usize, [_, delay]: [u32; 2]| {
            sent[from] += 1;
            let waits = from == slow_end && sent[from] <= count;
            let usual = Span::from_micros(110 + i64::from(delay % 10));
            Some(if waits { Span::from_millis(millis) } else { usual })
        };
        let mut talk = Talk::new(Box::new(pipe));
        talk.run(Span::from_secs(40));
        for (host, peer) in [(0, LISTENER), (1, SENDER)] {
            let session = &talk.hosts[host].session;
            let odd = (session.path_changes(peer), session.refused_exchanges(peer));
            assert_eq!(odd, (0, 0), "{count} of {slow_end} took {millis} ms; host {host}");
        }
    }
}

#[test]
fn a_stepped_clock_is_noticed_once_and_followed() {
    let delay = Span::from_micros(200);
    let mut talk = Talk::new(steady(delay, delay));
    talk.run(Span::from_secs(10));
    assert_eq!(talk.hosts[1].session.clock_steps(SENDER), 0);
    // The sender's program starts again with another wall clock; only that is other.
    let wall = talk.hosts[0].wall_offset + Span::from_millis(30);
    talk.hosts[0] = Host::new(SENDER, Ppm::ZERO, talk.hosts[0].origin, wall);
    talk.hosts[0].session.set_sending(sending());
    talk.run(Span::from_secs(10));
    assert_eq!(talk.hosts[1].session.clock_steps(SENDER), 1);
}

#[test]
fn the_stream_and_its_promise_are_announced() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    talk.run(Span::from_millis(100));
    let announced = talk.told(1).find_map(|event| match event {
        Event::Announced { ssrc, announcement } => Some((*ssrc, *announcement)),
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
    for event in talk.told(1) {
        let Event::Captured { ssrc, rtp_timestamp, wall } = event else { continue };
        // Frame 288 was captured when the sender's clock showed 5001 s.
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
    };
    let tally = Tally { expected: 1000, missing: 50, runs: 20, beyond: 0 };
    let losses = LossReport { ssrc: SENDER, tally, repaired: 48, lost: 2 };
    let heard = Receiving {
        ssrc: SENDER,
        expected: 1000,
        received: 1000,
        highest_sequence: 0x0001_0005,
        jitter: 3,
        effective: Some(effective),
        losses: Some(losses),
    };
    talk.hosts[1].session.set_receiving(heard);
    talk.run(Span::from_secs(5));
    // A quarter of the next thousand gets lost.
    talk.hosts[1].session.set_receiving(Receiving { expected: 2000, received: 1750, ..heard });
    talk.run(Span::from_secs(5));
    let blocks: Vec<_> = talk
        .told(0)
        .filter_map(|e| if let Event::Reception { block, .. } = e { Some(*block) } else { None })
        .collect();
    let last = blocks.last().expect("reported");
    assert_eq!((last.ssrc, last.highest_sequence, last.jitter), (SENDER, 0x0001_0005, 3));
    assert_eq!((last.fraction_lost, last.cumulative_lost), (0, 250));
    let fractions: Vec<_> = blocks.iter().map(|b| b.fraction_lost).filter(|f| *f > 0).collect();
    assert_eq!(fractions, [64], "a quarter, told once");
    assert!(talk.told(0).any(|event| *event == Event::Effective { ssrc: LISTENER, effective }));
    assert!(talk.told(0).any(|event| *event == Event::Losses { ssrc: LISTENER, losses }));
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
    let block = talk.told(0).find_map(|event| match event {
        Event::Reception { block, .. } => Some(*block),
        _ => None,
    });
    let block = block.expect("reported");
    assert_eq!((block.fraction_lost, block.cumulative_lost), (0, -40));
}

#[test]
fn another_stream_begins_its_own_count_of_loss() {
    let mut talk = Talk::new(steady(Span::from_millis(1), Span::from_millis(1)));
    let heard = Receiving { ssrc: 99, expected: 1000, received: 900, ..Receiving::default() };
    talk.hosts[1].session.set_receiving(heard);
    talk.run(Span::from_secs(2));
    // Nobody of number 99 was ever heard of, so nothing was told; now the sender's is heard.
    let heard = Receiving { ssrc: SENDER, expected: 2000, received: 1000, ..heard };
    talk.hosts[1].session.set_receiving(heard);
    talk.run(Span::from_secs(2));
    let again = Receiving { ssrc: LISTENER + 1, expected: 10, received: 10, ..heard };
    talk.hosts[1].session.set_receiving(again);
    talk.hosts[1].session.set_receiving(Receiving { expected: 2100, received: 1075, ..heard });
    talk.run(Span::from_secs(2));
    let fractions: Vec<_> = talk
        .told(0)
        .filter_map(|e| if let Event::Reception { block, .. } = e { Some(block) } else { None })
        .map(|block| block.fraction_lost)
        .filter(|fraction| *fraction > 0)
        .collect();
    // Half lost; then, of a stream that counts from its start again, 1025 of 2100.
    assert_eq!(fractions, [128, 124]);
}

#[test]
fn who_leaves_is_told_of_and_then_nobody_is_waited_for() {
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
    assert_eq!(left.last(), Some(&Event::Left { ssrc: SENDER }));
    assert!(talk.hosts[1].session.deadline().is_never());
}

#[test]
fn a_host_that_hears_and_sends_nothing_says_nothing() {
    let config =
        SessionConfig { ssrc: 1, cname: "alone".into(), wall_offset: Span::ZERO, host: None };
    let mut session = Session::new(config);
    assert!(session.deadline().is_never());
    assert_eq!(session.poll(LocalTime::from_nanos(1 << 50), &mut [0; 1500]), None);
}

#[test]
fn a_thousand_strangers_neither_grow_it_nor_hurry_it_nor_drive_out_the_peer() {
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
    let best = talk.told(0).filter_map(|e| match e {
        Event::Mapped { mapping, .. } => Some(mapping.uncertainty),
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
        // "No reference time came yet" (RFC 3611 §4.5).
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
    assert!(!events.iter().any(|event| matches!(event, Event::Mapped { .. })), "{events:?}");
}

/// What a session is told by this report from a host, with a source heard from elsewhere.
fn told(session: &mut Session, from: From, bytes: &[u8], at: LocalTime) -> Vec<Event> {
    let mut events = vec![];
    let whole = session.handle(bytes, ReportArrival::exact(from, at), |event| events.push(event));
    assert_eq!(whole, Ok(()));
    events
}

fn address(text: &str) -> Endpoint {
    Endpoint::new(text.parse().expect("an address"), 1)
}

#[test]
fn once_a_source_is_heard_no_other_host_speaks_for_it() {
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
    };
    let mut write = |announced, bye| {
        let mut buffer = [0; 1400];
        (report.announcement, report.bye) = (Some(announcement(announced)), bye);
        let written = report.write(&mut buffer).unwrap();
        buffer[..written].to_vec()
    };
    let (truth, lie, goodbye) = (write(5, false), write(500, false), write(500, true));
    // Before, whoever may be it, and each is another.
    assert_eq!(told(&mut listener, own.host(), &truth, now).len(), 1);
    assert_eq!(told(&mut listener, other.host(), &lie, now).len(), 1);
    listener.set_heard(Some((SENDER, SourceEndpoints::only(own))));
    assert_eq!(listener.announcement(SENDER), Some(announcement(5)), "of the one that is heard");
    for forged in [&lie, &goodbye] {
        assert_eq!(told(&mut listener, other.host(), forged, now), []);
    }
    assert_eq!((listener.foreign(), listener.announcement(SENDER)), (2, Some(announcement(5))));
    // By a second network it speaks as one.
    let both = SourceEndpoints::only(own)
        .with(Endpoint::new("10.1.0.1:5004".parse().unwrap(), 2))
        .unwrap();
    listener.set_heard(Some((SENDER, both)));
    let more = write(7, false);
    let by_the_other = address("10.1.0.1:5005").host();
    assert_eq!(told(&mut listener, by_the_other, &more, now).len(), 1);
    assert_eq!(listener.announcement(SENDER), Some(announcement(7)));
    // A stranger may say what it likes of itself.
    let mut own_name = RtcpReport::new(0x99);
    own_name.bye = true;
    let mut buffer = [0; 1400];
    let written = own_name.write(&mut buffer).unwrap();
    let left = told(&mut listener, other.host(), &buffer[..written], now);
    assert_eq!(left, [Event::Left { ssrc: 0x99 }]);
}

#[test]
fn a_peer_on_the_same_host_is_mapped_by_its_first_report() {
    let (here, offset) = (HostClock::of(b"this boot"), Span::from_secs(1_000));
    let session = |ssrc, wall_offset, host| {
        Session::new(SessionConfig { ssrc, cname: "one".into(), wall_offset, host })
    };
    let now = LocalTime::from_nanos(5_000_000_000);
    let mut sender = session(1, offset, Some(here));
    sender.set_sending(sending());
    let mut buffer = [0; 1400];
    let bytes = sender.poll(now, &mut buffer).unwrap();
    for host in [Some(here), Some(HostClock::of(b"another")), None] {
        let mut mapped = None;
        let mut receiver = session(2, Span::ZERO, host);
        let arrival = now + Span::from_millis(3);
        let told = receiver.handle(
            &buffer[..bytes],
            ReportArrival::exact(From::UNKNOWN, arrival),
            |event| {
                if let Event::Mapped { mapping, .. } = event {
                    mapped = Some(mapping);
                }
            },
        );
        assert_eq!(told, Ok(()));
        assert_eq!(mapped.is_some(), host == Some(here));
        let Some(mapping) = mapped else { continue };
        assert_eq!((mapping.source, mapping.uncertainty), (ClockSource::Host, Span::ZERO));
        assert_eq!(receiver.mapping(1), Some(mapping), "for whoever asks once packets are heard");
        let later = now + Span::from_secs(86_400);
        assert_eq!(mapping.wall(later), WallTime::of_local(later, offset));
        assert_eq!(mapping.uncertainty_at(later), Some(Span::ZERO));
    }
}
