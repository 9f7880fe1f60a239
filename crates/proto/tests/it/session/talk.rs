use std::collections::BTreeMap;

use tautline_dsp::format::SampleFormat;
use tautline_proto::device::CaptureFaults;
use tautline_proto::endpoint::Host as From;
use tautline_proto::packetizer::PacketizerState;
use tautline_proto::rtcp_session::{Event, ReportArrival, Sending, Session, SessionConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span, WallTime};
use tautline_proto::units::{Channels, Ppm, Rate};

pub(crate) const SENDER: u32 = 0x5e4d;
pub(crate) const LISTENER: u32 = 0x11;

pub(crate) const FORMAT: StreamFormat = StreamFormat {
    codec: None,
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    sample: SampleFormat::L24,
    packet: Frames::new(48),
    payload_type: 97,
};

pub(crate) struct Host {
    pub(crate) session: Session,
    pub(crate) drift: Ppm,
    /// Monotonic clock at true time 0.
    pub(crate) origin: Span,
    pub(crate) wall_offset: Span,
    pub(crate) events: Vec<(LocalTime, Event)>,
    /// True times.
    pub(crate) reports: Vec<LocalTime>,
}

impl Host {
    pub(crate) fn new(ssrc: u32, drift: Ppm, origin: Span, wall_offset: Span) -> Self {
        let cname = format!("host-{ssrc}");
        let session = Session::new(SessionConfig { ssrc, cname, wall_offset, host: None });
        Self { session, drift, origin, wall_offset, events: vec![], reports: vec![] }
    }

    pub(crate) fn local(&self, at: LocalTime) -> LocalTime {
        LocalTime::ZERO + self.origin + self.drift.stretch(at - LocalTime::ZERO)
    }

    pub(crate) fn wall(&self, at: LocalTime) -> WallTime {
        WallTime::of_local(self.local(at), self.wall_offset)
    }

    pub(crate) fn wakes(&self) -> LocalTime {
        let deadline = self.session.deadline();
        if deadline.is_never() {
            return LocalTime::NEVER;
        }
        let truly = self.drift.unstretch(deadline - (LocalTime::ZERO + self.origin));
        LocalTime::ZERO + truly + Span::from_nanos(2)
    }
}

/// Delay by host and two random numbers; `None`: lost.
pub(crate) type Pipe = Box<dyn FnMut(usize, [u32; 2]) -> Option<Span>>;

pub(crate) struct Talk {
    pub(crate) now: LocalTime,
    pub(crate) hosts: [Host; 2],
    pipe: Pipe,
    pub(crate) on_the_way: BTreeMap<(LocalTime, usize), (usize, Vec<u8>)>,
    sent: usize,
    random: u32,
    pub(crate) mapped: Vec<(usize, LocalTime)>,
}

impl Talk {
    pub(crate) fn new(pipe: Pipe) -> Self {
        Self::between(pipe, [Ppm::ZERO; 2])
    }

    pub(crate) fn between(pipe: Pipe, drifts: [Ppm; 2]) -> Self {
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

    pub(crate) fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random >> 8
    }

    pub(crate) fn run(&mut self, span: Span) {
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

    pub(crate) fn report(&mut self, from: usize) {
        let mut buffer = [0; 1500];
        let local = self.hosts[from].local(self.now);
        let written = self.hosts[from].session.poll(local, &mut buffer).expect("its time has come");
        self.hosts[from].reports.push(self.now);
        self.send(from, buffer[..written].to_vec());
    }

    pub(crate) fn send(&mut self, from: usize, bytes: Vec<u8>) {
        let random = [self.random(), self.random()];
        if let Some(delay) = (self.pipe)(from, random) {
            self.sent += 1;
            self.on_the_way.insert((self.now + delay, self.sent), (1 - from, bytes));
        }
    }

    pub(crate) fn deliver(&mut self) {
        let (_, (to, bytes)) = self.on_the_way.pop_first().expect("one is on the way");
        let arrival = self.hosts[to].local(self.now);
        let mut events = vec![];
        let reported = self.hosts[to].session.handle(
            &bytes,
            ReportArrival::exact(From::UNKNOWN, arrival),
            |e| events.push(e),
        );
        reported.expect("what a session writes can be read");
        for event in events {
            if let Event::Mapped(ssrc, mapping) = event {
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

    pub(crate) fn reported(&self, host: usize) -> impl DoubleEndedIterator<Item = &Event> {
        self.hosts[host].events.iter().map(|(_, event)| event)
    }
}

pub(crate) fn sending() -> Sending {
    let state = PacketizerState {
        packets: 7,
        octets: 2016,
        newest: 6,
        reference: Some((MediaTime::from_frames(288), LocalTime::from_nanos(5_001_000_000_000))),
    };
    let (link_offset, packing_age) = (Span::from_millis(5), Span::from_millis(1));
    Sending {
        format: FORMAT,
        link_offset,
        packing_age,
        wants_feedback: false,
        card: None,
        capture: CaptureFaults::default(),
        timestamp: 1000,
        state,
    }
}

/// Constant delays.
pub(crate) fn steady(there: Span, back: Span) -> Pipe {
    Box::new(move |from, _| Some(if from == 0 { there } else { back }))
}
