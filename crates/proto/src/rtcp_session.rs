//! What the two ends of a stream tell each other over RTCP, beside the sound. Without I/O.
//!
//! Drive it from an ordinary thread: [`Session::handle`] every report that arrived, tell it how the
//! stream stands ([`Session::set_sending`], [`Session::set_receiving`]), and at
//! [`Session::deadline`] send what [`Session::poll`] writes. Each report asks for the peer's clock
//! and answers the peer's own question (RFC 3611 §4.4, §4.5), so that both ends learn the other's
//! wall clock, the round trip and how sure that is.

mod peer;
mod report;

use crate::clock::{ClockId, ClockMapping, DisciplinedClock, Exchange, HostClock};
use crate::congestion::PathFeedback;
use crate::endpoint::{Author, Host, SourceEndpoints};
use crate::packetizer::PacketizerState;
use crate::stream::StreamFormat;
use crate::time::{LocalTime, Span, WallTime};
use crate::wire::ntp::{CompactNtp, NtpTime};
use crate::wire::rtcp::{
    Announcement, Compound, Effective, InvalidReport, Item, LossReport, ReportBlock, SenderInfo,
    probe_of, write_feedback, write_passed, write_probe,
};

use peer::{Hurry, Peer, remember};

/// Who this end is.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Our synchronisation source; a sender's is that of its stream.
    pub ssrc: u32,
    /// Our canonical name (RFC 7022).
    pub cname: String,
    /// Wall clock less local clock, frozen.
    pub wall_offset: Span,
    /// What the local clock is, where it has a name.
    pub host: Option<HostClock>,
}

/// What this end sends, as the reports tell it.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// The stream.
    pub format: StreamFormat,
    /// Its promise of latency.
    pub link_offset: Span,
    /// How old the first frame of a packet is at most when the packet leaves.
    pub packing_age: Span,
    /// Whether the stream follows what its path carries.
    pub wants_feedback: bool,
    /// What sets the pace of the card that it is captured by, where that has a name.
    pub card: Option<ClockId>,
    /// The RTP timestamp of media time zero.
    pub timestamp: u32,
    /// How far it is.
    pub state: PacketizerState,
}

/// What this end receives, as the reports tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiving {
    /// The stream heard.
    pub ssrc: u32,
    /// Packets expected so far (RFC 3550 A.3).
    pub expected: u64,
    /// Packets received so far.
    pub received: u64,
    /// Highest sequence number, extended.
    pub highest_sequence: u32,
    /// Interarrival jitter in frames.
    pub jitter: u32,
    /// The latency promised here, reached here, and how sure that is.
    pub effective: Option<Effective>,
    /// What was lacking of it.
    pub losses: Option<LossReport>,
}

/// How a report arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportArrival {
    /// From where.
    pub from: Host,
    /// The kernel's stamp.
    pub at: LocalTime,
    /// How far that may be off.
    pub stamp_uncertainty: Span,
}

impl ReportArrival {
    /// With a stamp that is right.
    pub const fn exact(from: Host, at: LocalTime) -> Self {
        Self { from, at, stamp_uncertainty: Span::ZERO }
    }
}

/// What a peer's report told, each with the peer's synchronisation source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// How to read the peer's clock, which is mapped anew.
    Mapped(u32, ClockMapping),
    /// The RTP timestamp of a frame of the peer's stream, and its instant by the peer's wall clock.
    Captured(u32, u32, WallTime),
    /// What the peer's stream is and promises.
    Announced(u32, Announcement),
    /// How our stream arrives at the peer.
    Reception(u32, ReportBlock),
    /// The latency that the peer reaches with our stream.
    Effective(u32, Effective),
    /// How much of our stream did not reach the peer.
    Losses(u32, LossReport),
    /// What the peer measured of the path of our stream.
    Feedback(u32, PathFeedback),
    /// The probe of this name reached the peer.
    Passed(u32, u32),
    /// The peer left.
    Left(u32),
}

impl Event {
    /// Whose report told it.
    pub const fn ssrc(&self) -> u32 {
        let (Self::Mapped(ssrc, _)
        | Self::Captured(ssrc, ..)
        | Self::Announced(ssrc, _)
        | Self::Reception(ssrc, _)
        | Self::Effective(ssrc, _)
        | Self::Losses(ssrc, _)
        | Self::Feedback(ssrc, _)
        | Self::Passed(ssrc, _)
        | Self::Left(ssrc)) = *self;
        ssrc
    }
}

/// One end of a session.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    peers: Vec<Peer>,
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    /// What was measured of the path, and is not yet sent.
    feedback: Option<PathFeedback>,
    /// A probe to be sent, by what it is answered and its bytes, and an answer to one of that stream.
    probe: Option<(u32, usize)>,
    passed: Option<(u32, u32)>,
    /// The source that is heard, and from where.
    heard: Option<(u32, SourceEndpoints)>,
    /// Reports in its name from elsewhere.
    foreign: u64,
    kept: Option<DisciplinedClock>,
    /// Expected and received at the last report, for the fraction lost.
    reported: (u64, u64),
    /// Our last questions: what they said, and the true instant.
    asked: [(CompactNtp, LocalTime); Self::QUESTIONS],
    reports: u32,
    next: LocalTime,
    hurry: Hurry,
}

impl Session {
    /// At most this between two reports. RFC 3550's five seconds are for conferences; a stream
    /// between machines gives its clock more often, as RFC 3550 §6.2 allows for a private profile.
    pub const INTERVAL: Span = Span::from_millis(500);
    /// The first reports follow each other faster, so that the clocks are mapped within the first
    /// packets.
    const HASTE: Span = Span::from_millis(20);
    const HASTY_REPORTS: u32 = 10;
    /// The same of a stream that follows what its path carries: that may be little.
    const HASTE_ON_THIN_PATHS: Span = Span::from_millis(100);
    /// Questions answered at once, per peer: eight exchanges within a few round trips give the
    /// clock estimate its first minimum.
    const HURRIED: u32 = 8;
    /// A peer unheard this long is not answered any more: ten intervals.
    const FORGOTTEN: Span = Span::from_secs(5);
    const QUESTIONS: usize = 16;
    /// Answers in one report: the number of report blocks of one, so that it fits any MTU.
    const ANSWERS: usize = 31;
    /// DLRR is a count of 1/65536 s, rounded to the nearest: 7.63 µs off at most. The rest are the
    /// roundings of NTP stamps and of halves to whole nanoseconds.
    const READING_ERROR: Span = Span::from_nanos(7_633);

    /// Knows nobody yet; the first report is due at once.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            // Most hear one; a group's members come one by one.
            peers: Vec::new(),
            sending: None,
            receiving: None,
            feedback: None,
            probe: None,
            passed: None,
            heard: None,
            foreign: 0,
            kept: None,
            reported: (0, 0),
            asked: [(CompactNtp::NONE, LocalTime::ZERO); Self::QUESTIONS],
            reports: 0,
            next: LocalTime::ZERO,
            hurry: Hurry::new(),
        }
    }

    /// Says what this end sends.
    pub fn set_sending(&mut self, sending: Sending) {
        self.sending = Some(sending);
    }

    /// Says what this end receives.
    pub fn set_receiving(&mut self, receiving: Receiving) {
        if self.receiving.is_some_and(|before| before.ssrc != receiving.ssrc) {
            self.reported = (0, 0);
        }
        self.receiving = Some(receiving);
    }

    /// Sends what was measured of the path at once.
    pub const fn send_feedback(&mut self, feedback: PathFeedback) {
        self.feedback = Some(feedback);
    }

    /// Sends a datagram of so many bytes at once, or of as many as there is room for, which the receiver answers by that name
    /// ([`Event::Passed`]).
    pub const fn probe(&mut self, name: u32, bytes: usize) {
        self.probe = Some((name, bytes));
    }

    /// Says from where the packets of the source are heard: only those hosts speak for it, and as one.
    /// Of any other name each host speaks for itself.
    pub fn set_heard(&mut self, heard: Option<(u32, SourceEndpoints)>) {
        self.heard = heard;
        if let Some((ssrc, endpoints)) = heard {
            self.peers
                .retain(|peer| peer.author.ssrc != ssrc || endpoints.are_of(peer.author.host));
        }
    }

    fn peer(&self, ssrc: u32) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.author.ssrc == ssrc)
    }

    /// How to read the clock of the peer `ssrc`, as it was told last.
    pub fn mapping(&self, ssrc: u32) -> Option<ClockMapping> {
        self.peer(ssrc)?.mapping
    }

    /// What the peer `ssrc` announced last.
    pub fn announcement(&self, ssrc: u32) -> Option<Announcement> {
        self.peer(ssrc)?.announcement
    }

    /// Reports in the name of the source that is heard from where its packets do not come.
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Says how the system clock of this host is kept: UTC less the local clock, and how sure that is.
    /// `None` where it is not.
    pub fn set_kept(&mut self, kept: Option<DisciplinedClock>) {
        self.kept = kept;
    }

    /// The wall clock that it tells its peers is ahead of the local one by so much from now on: theirs is slewed with it,
    /// or steps.
    pub const fn set_wall_offset(&mut self, offset: Span) {
        self.config.wall_offset = offset;
    }

    /// When the next report is due; [`LocalTime::NEVER`] while there is nobody to tell.
    pub fn deadline(&self) -> LocalTime {
        let is_due = self.feedback.is_some() || self.probe.is_some() || self.passed.is_some();
        match (&self.sending, self.peers.is_empty()) {
            (None, true) => LocalTime::NEVER,
            _ if is_due => LocalTime::ZERO,
            _ => self.next,
        }
    }

    /// The next report is due at once: there is news.
    pub fn hasten(&mut self) {
        self.next = LocalTime::ZERO;
    }

    /// How often the clock of the peer `ssrc` contradicted all that was known of it: it was
    /// stepped, or another host answers in its place.
    pub fn clock_steps(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.steps())
    }

    /// How often a leg to or from the peer `ssrc` became longer or shorter for good.
    pub fn path_changes(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.path_changes())
    }

    /// How many answers of the peer `ssrc` about its clock were not believed.
    pub fn refused_exchanges(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.refused())
    }

    /// Takes a datagram that arrived; tells what it said.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrived: ReportArrival,
        mut tell: impl FnMut(Event),
    ) -> Result<(), InvalidReport> {
        if let Some((ssrc, bytes)) = probe_of(datagram) {
            // An answer is shorter than its probe: nobody is flooded by it.
            if self.receiving.is_some_and(|receiving| receiving.ssrc == ssrc) {
                self.passed = Some((ssrc, bytes));
            }
            return Ok(());
        }
        let compound = Compound::parse(datagram)?;
        let elsewhere = |of: &(u32, SourceEndpoints)| !of.1.are_of(arrived.from);
        let stranger = self.heard.filter(elsewhere).map(|(ssrc, _)| ssrc);
        let mut poses = false;
        // The peer's clock when it sent this very datagram: an answer in it counts from there.
        let mut sent = None;
        compound.visit(|ssrc, item| {
            if stranger == Some(ssrc) {
                poses = true;
            } else if ssrc != self.config.ssrc {
                match item {
                    Item::Sender(SenderInfo { ntp, .. }) | Item::ReferenceTime(ntp) => {
                        sent = Some(ntp);
                    }
                    _ => {}
                }
                self.take(ssrc, item, arrived, sent, &mut tell);
            }
        });
        self.foreign += u64::from(poses);
        Ok(())
    }

    fn take(
        &mut self,
        ssrc: u32,
        item: Item<'_>,
        ReportArrival { from, at: arrival, stamp_uncertainty }: ReportArrival,
        sent: Option<NtpTime>,
        tell: &mut impl FnMut(Event),
    ) {
        let (author, heard) = (Author { ssrc, host: from }, self.heard);
        // A report in the name of the source that is heard came this far from one of its hosts only.
        let same = |peer: &Peer| {
            let one = heard.is_some_and(|(heard, _)| heard == ssrc);
            peer.author == author || one && peer.author.ssrc == ssrc
        };
        if let Item::Bye = item {
            self.peers.retain(|peer| !same(peer));
            return tell(Event::Left(ssrc));
        }
        let (own, host) = (self.config.ssrc, self.config.host);
        let asked = self.asked;
        let kept = self.kept;
        let (next, hurry) = (&mut self.next, &mut self.hurry);
        let peer = remember(&mut self.peers, same, author, arrival);
        match item {
            Item::Sender(info) => {
                peer.report = Some((info.ntp.compact(), arrival));
                let wall = WallTime::from_unix_nanos(info.ntp.to_unix_nanos());
                tell(Event::Captured(ssrc, info.rtp_timestamp, wall));
            }
            Item::ReferenceTime(ntp) => {
                peer.question = Some((ntp.compact(), arrival));
                if peer.hurried < Self::HURRIED && hurry.allows(arrival) {
                    peer.hurried += 1;
                    *next = (*next).min(arrival);
                }
            }
            Item::Delay(delay) if delay.ssrc == own => {
                let Some(sent) = sent.filter(|_| !delay.last_reference.is_none()) else { return };
                // Of two questions within one tick of the compact stamp the older is taken: the
                // round trip may look longer, never shorter.
                let question = asked.iter().rfind(|(said, _)| *said == delay.last_reference);
                let Some((_, asked)) = question else { return };
                peer.proven = true;
                let peer_answered = WallTime::from_unix_nanos(sent.to_unix_nanos());
                let mapping = peer.clock.observe(Exchange {
                    asked: *asked,
                    peer_received: peer_answered + -delay.delay.to_span(),
                    peer_answered,
                    answered: arrival,
                    reading_error: Self::READING_ERROR + stamp_uncertainty,
                });
                if let Some(mapping) = mapping.and_then(|m| peer.choice.exchanged(m, arrival)) {
                    peer.mapping = Some(mapping);
                    tell(Event::Mapped(ssrc, mapping));
                }
            }
            Item::Block(block) if block.ssrc == own => tell(Event::Reception(ssrc, block)),
            Item::Announcement(announcement) => {
                peer.announcement = Some(announcement);
                // First, so that whoever goes by the clock of the peer's card knows it with the mapping.
                tell(Event::Announced(ssrc, announcement));
                let told = host.zip(announcement.host);
                let offset = told.and_then(|(ours, theirs)| ours.wall_offset(theirs));
                if let Some(mapping) = offset.and_then(|o| peer.choice.same_host(o, arrival)) {
                    peer.mapping = Some(mapping);
                    tell(Event::Mapped(ssrc, mapping));
                }
            }
            Item::Effective(effective) if effective.ssrc == own => {
                tell(Event::Effective(ssrc, effective));
            }
            Item::Kept(theirs) => {
                let mapping = kept.map(|ours| ours.mapping(&theirs, arrival));
                if let Some(mapping) = mapping.and_then(|m| peer.choice.kept(m, arrival)) {
                    peer.mapping = Some(mapping);
                    tell(Event::Mapped(ssrc, mapping));
                }
            }
            Item::Losses(losses) if losses.ssrc == own => tell(Event::Losses(ssrc, losses)),
            Item::Feedback(feedback) if feedback.ssrc == own => {
                tell(Event::Feedback(ssrc, feedback));
            }
            Item::Passed(stream, bytes) if stream == own => tell(Event::Passed(ssrc, bytes)),
            _ => {}
        }
    }

    /// Writes the report that is due at `now`, if one is, and says how long it is. `now` is read
    /// just before, since it goes into the report as our clock.
    pub fn poll(&mut self, now: LocalTime, buffer: &mut [u8]) -> Option<usize> {
        if now < self.deadline() {
            return None;
        }
        if let Some(feedback) = self.feedback.take() {
            return write_feedback(self.config.ssrc, feedback, buffer);
        }
        if let Some(passed) = self.passed.take() {
            return write_passed(self.config.ssrc, passed, buffer);
        }
        if let Some(probe) = self.probe.take() {
            return write_probe(self.config.ssrc, probe, buffer);
        }
        self.reports += 1;
        let sent = self.sending.is_some_and(|sending| sending.wants_feedback);
        let heard = self.peers.iter().filter_map(|peer| peer.announcement);
        let is_thin = sent || heard.fold(false, |thin, heard| thin | heard.wants_feedback);
        let haste = if is_thin { Self::HASTE_ON_THIN_PATHS } else { Self::HASTE };
        let hasty = self.reports <= Self::HASTY_REPORTS;
        self.next = now + if hasty { haste } else { self.interval() };
        self.write(now, false, buffer)
    }

    /// Writes the last report: goodbye.
    pub fn leave(&mut self, now: LocalTime, buffer: &mut [u8]) -> Option<usize> {
        self.write(now, true, buffer)
    }

    /// Between 0.8 and 1 of the longest interval, different for each report and each host, so that
    /// many receivers do not answer in chorus (RFC 3550 §6.3.1 has the same aim).
    fn interval(&self) -> Span {
        let mixed = (self.config.ssrc ^ self.reports).wrapping_mul(0x9E37_79B1) >> 16;
        Self::INTERVAL.times(800 + i64::from(mixed % 200)).divided(1000)
    }
}
