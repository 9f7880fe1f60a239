//! A session and all that can be sent to it, in any order: reports of an honest peer, late, twice or
//! not at all; forged ones, broken ones and garbage, from the peer's host and from others.
//!
//! Whoever writes to it: what it says of the honest peer's clock is true to within twice what it says
//! it is unsure of, as long as it knows the peer's host and nobody there lies; it answers no more often
//! than it promises, and what it writes can be read. Twice: the bounds of older exchanges rest on the
//! rate that was found, to ten of its deviations, and whoever chooses every delay can lead it further;
//! to twice is what the estimator sees to.
#![no_main]

#[path = "../../crates/proto/tests/it/receiver_bounds/bytes.rs"]
mod bytes;

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockId, ClockSource, HostClock, HostReading, KeptClock, WallTime};
use tautline_proto::endpoint::{Endpoint, Host, SourceEndpoints};
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::sender::SenderState;
use tautline_proto::session::{Event, Receiving, ReportArrival, Sending, Session, SessionConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use tautline_proto::wire::rtcp::{
    Announcement, Compound, DelaySince, Effective, Item, LossReport, ReportBlock, RtcpReport,
    SenderInfo,
};

use bytes::Bytes;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let mut world = World::new(&mut bytes);
    while !bytes.0.is_empty() {
        world.step(&mut bytes);
    }
});

const OURS: u32 = 0x11;
const PEER: u32 = 0x5e4d;
/// The UTC time at our clock's zero.
const UTC: Span = Span::from_secs(1_700_000_000);
/// The largest report that the engine has room for.
const REPORT_BYTES: usize = 1400;

const FORMAT: StreamFormat = StreamFormat {
    coder: None,
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

/// Hosts on the network: the peer's first, then strangers.
fn host(number: u8) -> Host {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + number % 4)).into()
}

struct World {
    /// By our clock, which is the true time.
    now: LocalTime,
    ours: Session,
    peer: Session,
    /// The peer's clock less ours, and its wall clock less its clock.
    ahead: Span,
    wall_offset: Span,
    /// Whether the peer's host is known and only the peer itself has spoken there.
    known: bool,
    honest: bool,
    /// Whether the exchanges with the peer were believed, and when it was heard last.
    proven: Option<LocalTime>,
    begun: LocalTime,
    reports: i64,
    hastened: i64,
    /// Reports of the peer and ours.
    last: [Vec<u8>; 2],
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let one_host = bytes.byte() % 4 == 0;
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
            state: SenderState { packets: 7, octets: 2016, reference },
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 16 {
            0 => self.now += bytes.micros(),
            1 => self.now += bytes.micros().times(i64::from(bytes.byte())),
            2..=4 => self.speak(bytes),
            5..=7 => self.peer_speaks(bytes),
            8 => self.forge(bytes),
            9 => {
                let count = usize::from(bytes.byte()) * 4;
                let datagram = bytes.some(count).to_vec();
                self.arrives(&datagram, bytes.byte(), Span::ZERO);
            }
            10 => self.damaged(bytes),
            11 => {
                // What the network doubles and delivers late.
                let datagram = self.last[0].clone();
                self.now += bytes.micros();
                self.hear(&datagram, host(0), Span::ZERO);
            }
            12 => self.change(bytes),
            13 => {
                let kept = |offset| KeptClock {
                    offset,
                    uncertainty: Span::from_micros(1),
                    source: ClockSource::System,
                };
                let wider = bytes.micros();
                let wide =
                    |kept: KeptClock| KeptClock { uncertainty: kept.uncertainty + wider, ..kept };
                let is_kept = bytes.byte() % 4 > 0;
                self.ours.set_kept(is_kept.then(|| wide(kept(UTC))));
                self.peer.set_kept(is_kept.then(|| wide(kept(UTC - self.ahead))));
            }
            14 => {
                self.known = bytes.byte() % 4 > 0;
                let at = Endpoint::new("10.0.0.1:5004".parse().expect("an address"), 0);
                self.ours.set_heard(self.known.then_some((PEER, SourceEndpoints::only(at))));
            }
            _ => {
                self.ours.hasten();
                self.hastened += 1;
            }
        }
    }

    /// What this end says of itself changes.
    fn change(&mut self, bytes: &mut Bytes<'_>) {
        if bytes.byte() % 2 == 0 {
            self.ours.set_sending(self.sending(bytes));
        }
        let ssrc = if bytes.byte() % 4 == 0 { bytes.word() } else { PEER };
        let effective = Effective {
            ssrc,
            configured: bytes.span(),
            effective: bytes.span(),
            uncertainty: bytes.span(),
            needed: Some(bytes.span()),
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

    /// Our report, once it is due.
    fn speak(&mut self, bytes: &mut Bytes<'_>) {
        let due = self.ours.deadline();
        let mut buffer = [0; REPORT_BYTES];
        if due > self.now {
            assert_eq!(self.ours.poll(self.now, &mut buffer), None, "not due before its time");
            if due - self.now > Session::INTERVAL {
                return assert!(due.is_never(), "never further than an interval");
            }
            self.now = due;
        }
        let written = self.ours.poll(self.now, &mut buffer).expect("due, and it fits");
        assert!(self.ours.deadline() > self.now, "one report at a time");
        self.reports += 1;
        let elapsed = self.now - self.begun;
        let hurried = 32 * (2 + elapsed.as_nanos() / Session::INTERVAL.as_nanos());
        let regular = 12 + elapsed.as_nanos() / Span::from_millis(400).as_nanos();
        assert!(self.reports <= hurried + regular + self.hastened, "no flood is answered by one");
        self.last[1] = buffer[..written].to_vec();
        let compound = Compound::parse(&self.last[1]).expect("what a session writes can be read");
        compound.visit(|ssrc, _| assert_eq!(ssrc, OURS));
        if bytes.byte() % 4 > 0 {
            self.now += bytes.micros();
            let arrival = self.now + self.ahead;
            let arrived = ReportArrival::exact(host(200), arrival);
            let told = self.peer.handle(&self.last[1], arrived, |_| ());
            told.expect("what a session writes can be read");
        }
    }

    /// A report of the peer, if it is due, and where it arrives.
    fn peer_speaks(&mut self, bytes: &mut Bytes<'_>) {
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
        if fate % 8 > 0 {
            self.now += bytes.micros();
            let stamp = Span::from_micros((fate >> 4).into());
            let datagram = self.last[0].clone();
            self.hear(&datagram, host(0), stamp);
        }
    }

    /// Bytes of the peer's last report or of ours are changed under way.
    fn damaged(&mut self, bytes: &mut Bytes<'_>) {
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

    /// A report that somebody made up.
    fn forge(&mut self, bytes: &mut Bytes<'_>) {
        let ssrcs = [PEER, OURS, 1, bytes.word()];
        let mut ssrc = || ssrcs[usize::from(bytes.byte() % 4)];
        let (whose, of, about) = (ssrc(), ssrc(), ssrc());
        // The questions that we asked are known to whoever reads our reports.
        let mut asked = CompactNtp::from_bits(bytes.word());
        if let Ok(ours) = Compound::parse(&self.last[1]) {
            ours.visit(|_, item| {
                if let Item::ReferenceTime(time) = item {
                    asked = time.compact();
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
        let delays = [DelaySince { ssrc: about, last_reference: asked, delay }];
        let clock = HostClock::of(b"one").told(bytes.span());
        let has = bytes.byte();
        let info = SenderInfo { ntp, rtp_timestamp: bytes.word(), packets: 1, octets: 1 };
        let kept =
            KeptClock { offset: bytes.span(), uncertainty: bytes.span(), source: ClockSource::Ptp };
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
            }),
            effective: (has & 8 > 0).then(|| Effective {
                ssrc: of,
                configured: bytes.span(),
                effective: bytes.span(),
                uncertainty: bytes.span(),
                needed: None,
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

    /// Something that no honest session wrote, from one of the hosts.
    fn arrives(&mut self, datagram: &[u8], from: u8, stamp: Span) {
        // On the peer's own host few lie.
        let from = if from > 250 { 0 } else { 1 + from % 3 };
        self.honest &= from != 0;
        self.hear(datagram, host(from), stamp);
    }

    fn hear(&mut self, datagram: &[u8], from: Host, stamp: Span) {
        let mut told = vec![];
        let arrived = ReportArrival { from, at: self.now + stamp, stamp_uncertainty: stamp };
        let read = self.ours.handle(datagram, arrived, |event| told.push(event));
        assert!(read.is_ok() || told.is_empty(), "what is no report tells nothing");
        assert!(told.len() <= datagram.len(), "it tells no more than was said");
        for event in told {
            self.judge(&event, from);
        }
        let recent = self.proven.is_some_and(|heard| self.now - heard < Span::from_secs(4));
        if recent && self.honest && self.known {
            assert!(self.ours.mapping(PEER).is_some(), "no flood makes it forget the peer");
        }
    }

    fn judge(&mut self, event: &Event, from: Host) {
        let ssrc = event.ssrc();
        assert_ne!(ssrc, OURS, "it does not listen to itself");
        let of_peer = ssrc == PEER && self.known && self.honest;
        assert!(!of_peer || from == host(0), "only the peer's host speaks for it");
        match event {
            Event::Left { .. } if ssrc == PEER => self.proven = None,
            Event::Mapped { mapping, .. } => {
                assert!(mapping.uncertainty >= Span::ZERO && mapping.round_trip >= Span::ZERO);
                if of_peer {
                    let there = WallTime::of_local(self.now + self.ahead, self.wall_offset);
                    let error = mapping.local(there) - self.now;
                    assert!(
                        error.abs() <= mapping.uncertainty.times(2),
                        "off by {error}, said {} by {:?}",
                        mapping.uncertainty,
                        mapping.source
                    );
                    if mapping.source == ClockSource::Exchange {
                        self.proven = Some(self.now);
                    }
                }
            }
            Event::Reception { block, .. } => assert_eq!(block.ssrc, OURS),
            Event::Effective { effective, .. } => assert_eq!(effective.ssrc, OURS),
            Event::Losses { losses, .. } => assert_eq!(losses.ssrc, OURS),
            _ => {}
        }
    }
}
