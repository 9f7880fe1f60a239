use std::net::{IpAddr, Ipv4Addr};

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockId, ClockSource, DisciplinedClock, HostClock, HostReading};
use tautline_proto::device::CaptureFaults;
use tautline_proto::endpoint::{Endpoint, Host, SourceEndpoints};
use tautline_proto::latency::LatencyMethod;
use tautline_proto::packetizer::PacketizerState;
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::rtcp_session::{
    Event, Receiving, ReportArrival, Sending, Session, SessionConfig,
};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use tautline_proto::wire::rtcp::{
    Announcement, Compound, DelaySince, Effective, Item, LossReport, ReportBlock, RtcpReport,
    SenderInfo,
};

use crate::receiver::operations::bytes::Bytes;

/// Reports of an honest peer, and forged, damaged and random datagrams.
///
/// While only the peer sends from its host, the mapping of its clock errs by at most twice the
/// reported uncertainty; older exchanges rest on the estimated rate. The session keeps its rate
/// limit, and everything it writes can be parsed.
pub fn session(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut world = World::new(&mut bytes);
    while !bytes.0.is_empty() {
        world.step(&mut bytes);
    }
}

const OURS: u32 = 0x11;
const PEER: u32 = 0x5e4d;
/// At zero of our clock.
const UTC: Span = Span::from_secs(1_700_000_000);
const REPORT_BYTES: usize = 1400;

const FORMAT: StreamFormat = StreamFormat {
    codec: None,
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    sample: SampleFormat::L24,
    packet: Frames::new(48),
    payload_type: 97,
};

impl<'a> Bytes<'a> {
    fn some(&mut self, count: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        some
    }

    fn one_in(&mut self, count: u8) -> bool {
        self.byte().is_multiple_of(count)
    }

    fn far(&mut self) -> i64 {
        self.long(1000)
    }

    fn span(&mut self) -> Span {
        Span::from_nanos(self.far())
    }

    fn micros(&mut self) -> Span {
        Span::from_micros(self.short().into())
    }
}

/// 0 is the peer's host.
fn host(number: u8) -> Host {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + number % 4)).into()
}

struct World {
    /// True time.
    now: LocalTime,
    ours: Session,
    peer: Session,
    /// The peer's clock minus ours.
    ahead: Span,
    /// The peer's wall clock minus its clock.
    wall_offset: Span,
    known: bool,
    /// Only the peer has sent from its host.
    honest: bool,
    proven: Option<LocalTime>,
    begun: LocalTime,
    reports: i64,
    hastened: i64,
    last: [Vec<u8>; 2],
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let one_host = bytes.one_in(4);
        let host = one_host.then(|| HostClock::of(b"one"));
        let ahead = if one_host { Span::ZERO } else { Span::from_micros(bytes.word().into()) };
        let now = LocalTime::ZERO + Span::from_secs(100) + Span::from_micros(bytes.word().into());
        let wall_offset = Span::from_secs(1_000_000_000) + Span::from_micros(bytes.word().into());
        let config = |ssrc: u32, wall_offset| SessionConfig {
            ssrc,
            cname: format!("host-{ssrc}"),
            wall_offset,
            host,
        };
        let mut world = Self {
            now,
            ours: Session::new(config(OURS, Span::from_secs(77_123))),
            peer: Session::new(config(PEER, wall_offset)),
            ahead,
            wall_offset,
            known: false,
            honest: true,
            proven: None,
            begun: now,
            reports: 0,
            hastened: 0,
            last: [vec![], vec![]],
        };
        world.peer.set_sending(world.sending(bytes));
        world
    }

    fn sending(&self, bytes: &mut Bytes<'_>) -> Sending {
        let reference = Some((MediaTime::from_frames(bytes.far() / 4), self.now));
        Sending {
            format: FORMAT,
            link_offset: Span::from_micros(bytes.word().into()),
            packing_age: Span::from_millis(1),
            card: ClockId::from_bits(bytes.byte().into()),
            timestamp: bytes.word(),
            state: PacketizerState { packets: 7, octets: 2016, newest: 6, reference },
            wants_feedback: false,
            capture: CaptureFaults::default(),
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 16 {
            0 => self.now += bytes.micros(),
            1 => self.now += bytes.micros().times(i64::from(bytes.byte())),
            2..=4 => self.send_report(bytes),
            5..=7 => self.peer_sends_report(bytes),
            8 => self.forge(bytes),
            9 => {
                let count = usize::from(bytes.byte()) * 4;
                let datagram = bytes.some(count).to_vec();
                self.arrives(&datagram, bytes.byte(), Span::ZERO);
            }
            10 => self.damage(bytes),
            11 => {
                let datagram = self.last[0].clone();
                self.now += bytes.micros();
                self.handle(&datagram, host(0), Span::ZERO);
            }
            12 => self.change(bytes),
            13 => {
                let kept = |offset| DisciplinedClock {
                    offset,
                    uncertainty: Span::from_micros(1),
                    source: ClockSource::System,
                };
                let wider = bytes.micros();
                let wide = |kept: DisciplinedClock| DisciplinedClock {
                    uncertainty: kept.uncertainty + wider,
                    ..kept
                };
                let is_kept = !bytes.one_in(4);
                self.ours.set_disciplined(is_kept.then(|| wide(kept(UTC))));
                self.peer.set_disciplined(is_kept.then(|| wide(kept(UTC - self.ahead))));
            }
            14 => {
                self.known = !bytes.one_in(4);
                let at = Endpoint::new("10.0.0.1:5004".parse().expect("an address"), 0);
                self.ours.set_received(self.known.then_some((PEER, SourceEndpoints::only(at))));
            }
            _ => {
                self.ours.hasten();
                self.hastened += 1;
            }
        }
    }

    fn change(&mut self, bytes: &mut Bytes<'_>) {
        if bytes.one_in(2) {
            self.ours.set_sending(self.sending(bytes));
        }
        let ssrc = if bytes.one_in(4) { bytes.word() } else { PEER };
        let effective = Effective {
            ssrc,
            configured: bytes.span(),
            effective: bytes.span(),
            uncertainty: bytes.span(),
            needed: Some(bytes.span()),
            method: Some(LatencyMethod::Sound),
        };
        let losses = LossReport { ssrc, tally: Tally::default(), repaired: 1, lost: 2, late: 3 };
        self.ours.set_receiving(Receiving {
            ssrc,
            expected: bytes.word().into(),
            received: bytes.word().into(),
            highest_sequence: bytes.word(),
            jitter: bytes.word(),
            effective: Some(effective),
            losses: Some(losses),
        });
    }

    fn send_report(&mut self, bytes: &mut Bytes<'_>) {
        let due = self.ours.deadline();
        let mut buffer = [0; REPORT_BYTES];
        if due > self.now {
            assert_eq!(self.ours.poll(self.now, &mut buffer), None, "a report before its time");
            if due - self.now > Session::INTERVAL {
                return assert!(due.is_never(), "the next report is more than an interval away");
            }
            self.now = due;
        }
        let written = self.ours.poll(self.now, &mut buffer).expect("a due report is written");
        assert!(self.ours.deadline() > self.now, "a second report at the same time");
        self.reports += 1;
        let elapsed = self.now - self.begun;
        let hurried = 32 * (2 + elapsed.as_nanos() / Session::INTERVAL.as_nanos());
        let regular = 12 + elapsed.as_nanos() / Span::from_millis(400).as_nanos();
        assert!(
            self.reports <= hurried + regular + self.hastened,
            "{} reports in {elapsed}",
            self.reports
        );
        self.last[1] = buffer[..written].to_vec();
        let compound = Compound::parse(&self.last[1]).expect("a written report parses");
        compound.visit(|ssrc, _| assert_eq!(ssrc, OURS));
        if !bytes.one_in(4) {
            self.now += bytes.micros();
            let arrival = self.now + self.ahead;
            let arrived = ReportArrival::exact(host(200), arrival);
            let handled = self.peer.handle(&self.last[1], arrived, |_| ());
            handled.expect("a written report parses");
        }
    }

    fn peer_sends_report(&mut self, bytes: &mut Bytes<'_>) {
        let mut buffer = [0; REPORT_BYTES];
        let due = self.peer.deadline() - self.ahead;
        if due > self.now && due - self.now < Session::INTERVAL {
            self.now = due;
        }
        let there = self.now + self.ahead;
        let leaves = bytes.byte() == 255;
        let written = if leaves {
            self.peer.leave(there, &mut buffer)
        } else {
            self.peer.poll(there, &mut buffer)
        };
        let Some(written) = written else { return };
        self.last[0] = buffer[..written].to_vec();
        let fate = bytes.byte();
        if !fate.is_multiple_of(8) {
            self.now += bytes.micros();
            let stamp = Span::from_micros((fate >> 4).into());
            let datagram = self.last[0].clone();
            self.handle(&datagram, host(0), stamp);
        }
    }

    fn damage(&mut self, bytes: &mut Bytes<'_>) {
        let mut datagram = self.last[usize::from(bytes.byte() % 2)].clone();
        if datagram.is_empty() {
            return;
        }
        for _ in 0..bytes.byte() % 8 {
            let at = usize::from(bytes.short()) % datagram.len();
            datagram[at] = bytes.byte();
        }
        self.arrives(&datagram, bytes.byte(), Span::ZERO);
    }

    fn forge(&mut self, bytes: &mut Bytes<'_>) {
        let ssrcs = [PEER, OURS, 1, bytes.word()];
        let mut ssrc = || ssrcs[usize::from(bytes.byte() % 4)];
        let (whose, of, about) = (ssrc(), ssrc(), ssrc());
        // An attacker who reads our reports knows our reference times.
        let mut requested = CompactNtp::from_bits(bytes.word());
        if let Ok(ours) = Compound::parse(&self.last[1]) {
            ours.visit(|_, item| {
                if let Item::ReferenceTime(time) = item {
                    requested = time.compact();
                }
            });
        }
        let ntp = NtpTime::from_unix_nanos(bytes.far());
        let blocks = [ReportBlock {
            ssrc: of,
            fraction_lost: bytes.byte(),
            cumulative_lost: bytes.word() as i32 >> 8,
            highest_sequence: bytes.word(),
            jitter: bytes.word(),
            last_report: CompactNtp::from_bits(bytes.word()),
            delay: CompactSpan::from_bits(bytes.word()),
        }];
        let delay = CompactSpan::from_bits(bytes.word());
        let delays = [DelaySince { ssrc: about, last_reference: requested, delay }];
        let clock = HostClock::of(b"one").reported(bytes.span());
        let has = bytes.byte();
        let info = SenderInfo { ntp, rtp_timestamp: bytes.word(), packets: 1, octets: 1 };
        let kept = DisciplinedClock {
            offset: bytes.span(),
            uncertainty: bytes.span(),
            source: ClockSource::Ptp,
        };
        let report = RtcpReport {
            sender: (has & 1 > 0).then_some(info),
            blocks: &blocks,
            cname: "forged",
            reference_time: (has & 2 > 0).then_some(ntp),
            delays: &delays,
            announcement: (has & 4 > 0).then(|| Announcement {
                link_offset: bytes.span(),
                format: FORMAT,
                packing_age: bytes.span(),
                host: Some(HostReading { ..clock }),
                card: None,
                wants_feedback: has & 16 > 0,
            }),
            effective: (has & 8 > 0).then(|| Effective {
                ssrc: of,
                configured: bytes.span(),
                effective: bytes.span(),
                uncertainty: bytes.span(),
                needed: None,
                method: None,
            }),
            losses: None,
            kept: (has & 16 > 0).then_some(kept),
            bye: has & 0xE0 == 0xE0,
            ..RtcpReport::new(whose)
        };
        let mut buffer = [0; REPORT_BYTES];
        let written = report.write(&mut buffer).expect("a report of one of each fits");
        self.arrives(&buffer[..written], bytes.byte(), bytes.micros());
    }

    fn arrives(&mut self, datagram: &[u8], from: u8, stamp: Span) {
        // Attacks from the peer's own host are rare.
        let from = if from > 250 { 0 } else { 1 + from % 3 };
        self.honest &= from != 0;
        self.handle(datagram, host(from), stamp);
    }

    fn handle(&mut self, datagram: &[u8], from: Host, stamp: Span) {
        let mut events = vec![];
        let arrived = ReportArrival { from, at: self.now + stamp, stamp_uncertainty: stamp };
        let read = self.ours.handle(datagram, arrived, |event| events.push(event));
        assert!(read.is_ok() || events.is_empty(), "events from an invalid report");
        assert!(events.len() <= datagram.len(), "more events than bytes");
        for event in events {
            self.judge(&event, from);
        }
        let recent = self.proven.is_some_and(|received| self.now - received < Span::from_secs(4));
        if recent && self.honest && self.known {
            assert!(self.ours.mapping(PEER).is_some(), "forgot the peer");
        }
    }

    fn judge(&mut self, event: &Event, from: Host) {
        let ssrc = event.ssrc();
        assert_ne!(ssrc, OURS, "an event from its own report");
        let of_peer = ssrc == PEER && self.known && self.honest;
        assert!(!of_peer || from == host(0), "an event of the peer from another host");
        match event {
            Event::Left(..) if ssrc == PEER => self.proven = None,
            Event::Mapped(_, mapping) => {
                assert!(mapping.uncertainty >= Span::ZERO && mapping.round_trip >= Span::ZERO);
                if of_peer {
                    let there = WallTime::of_local(self.now + self.ahead, self.wall_offset);
                    let error = mapping.local(there) - self.now;
                    assert!(
                        error.abs() <= mapping.uncertainty.times(2),
                        "off by {error}, reported {} from {:?}",
                        mapping.uncertainty,
                        mapping.source
                    );
                    if mapping.source == ClockSource::Exchange {
                        self.proven = Some(self.now);
                    }
                }
            }
            Event::Reception(_, block) => assert_eq!(block.ssrc, OURS),
            Event::Effective(_, effective) => assert_eq!(effective.ssrc, OURS),
            Event::Losses(_, losses) => assert_eq!(losses.ssrc, OURS),
            _ => {}
        }
    }
}
