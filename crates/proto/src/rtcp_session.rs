//! RTCP session of the two ends of a stream. Does no I/O.
//!
//! Run it on an ordinary thread. Pass each received report to [`Session::handle`], set the state of
//! the stream ([`Session::set_sending`], [`Session::set_receiving`]), and send the output of
//! [`Session::poll`] at [`Session::deadline`]. Each report requests the peer's clock and answers the
//! peer's request (RFC 3611 §4.4, §4.5). Both ends thus learn the other's wall clock, the round
//! trip, and the uncertainty.

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

/// Configuration of this end.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// SSRC of this end. A sender uses the SSRC of its stream.
    pub ssrc: u32,
    /// Canonical name of this end (RFC 7022).
    pub cname: String,
    /// Constant difference of wall clock and local clock.
    pub wall_offset: Span,
    /// Name of the local clock, if any.
    pub host: Option<HostClock>,
}

/// State of the sent stream for reports.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Stream format.
    pub format: StreamFormat,
    /// Promised latency.
    pub link_offset: Span,
    /// Maximum age of a packet's first frame at departure.
    pub packing_age: Span,
    /// Whether the stream adapts to its path.
    pub wants_feedback: bool,
    /// Name of the capture card's clock, if known.
    pub card: Option<ClockId>,
    /// RTP timestamp of media time 0.
    pub timestamp: u32,
    /// Packetizer state.
    pub state: PacketizerState,
}

/// State of the received stream for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiving {
    /// Received stream.
    pub ssrc: u32,
    /// Packets expected so far (RFC 3550 A.3).
    pub expected: u64,
    /// Packets received so far.
    pub received: u64,
    /// Highest sequence number, extended.
    pub highest_sequence: u32,
    /// Interarrival jitter in frames.
    pub jitter: u32,
    /// Promised and measured latency of this receiver, with the uncertainty.
    pub effective: Option<Effective>,
    /// Losses.
    pub losses: Option<LossReport>,
}

/// Source and time of a received report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportArrival {
    /// Source host.
    pub from: Host,
    /// Kernel timestamp.
    pub at: LocalTime,
    /// Maximum error of the timestamp.
    pub stamp_uncertainty: Span,
}

impl ReportArrival {
    /// Arrival with an exact timestamp.
    pub const fn exact(from: Host, at: LocalTime) -> Self {
        Self { from, at, stamp_uncertainty: Span::ZERO }
    }
}

/// Bytes of a buffer for the longest datagram of a session: a path probe. Jumbo frames hold no more.
pub const MAX_DATAGRAM: usize = 9000;

/// Information from a peer's report, with the peer's SSRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// New mapping of the peer's clock.
    Mapped(u32, ClockMapping),
    /// RTP timestamp of a frame of the peer's stream, and its capture time on the peer's wall
    /// clock.
    Captured(u32, u32, WallTime),
    /// The peer's stream announcement.
    Announced(u32, Announcement),
    /// Reception of our stream at the peer.
    Reception(u32, ReportBlock),
    /// Latency of our stream at the peer.
    Effective(u32, Effective),
    /// Losses of our stream at the peer.
    Losses(u32, LossReport),
    /// The peer's measurement of our stream's path.
    Feedback(u32, PathFeedback),
    /// The probe with this name reached the peer.
    Passed(u32, u32),
    /// The peer left.
    Left(u32),
}

impl Event {
    /// SSRC of the peer.
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

/// One end of an RTCP session.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    peers: Vec<Peer>,
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    /// Path measurement to send.
    feedback: Option<PathFeedback>,
    /// Probe to send: its name and its length in bytes.
    probe: Option<(u32, usize)>,
    /// Answer to send: the stream and the name of the probe.
    passed: Option<(u32, u32)>,
    /// SSRC of the playing source, and its addresses.
    heard: Option<(u32, SourceEndpoints)>,
    /// Number of reports with the source's SSRC from other hosts.
    foreign: u64,
    kept: Option<DisciplinedClock>,
    /// Expected and received packets at the last report, for the fraction lost.
    reported: (u64, u64),
    /// Our last requests: the timestamp sent, and the exact time.
    asked: [(CompactNtp, LocalTime); Self::QUESTIONS],
    reports: u32,
    next: LocalTime,
    hurry: Hurry,
}

impl Session {
    /// Maximum report interval. RFC 3550's 5 s suits conferences. Streams need clock readings more
    /// often, which RFC 3550 §6.2 allows for private profiles.
    pub const INTERVAL: Span = Span::from_millis(500);
    /// Interval of the first reports. The clocks are mapped within the first packets.
    const HASTE: Span = Span::from_millis(20);
    const HASTY_REPORTS: u32 = 10;
    /// Interval of the first reports if the stream adapts to its path, because the path may be
    /// slow.
    const HASTE_ON_THIN_PATHS: Span = Span::from_millis(100);
    /// Number of requests per peer that are answered at once. Eight quick exchanges give the clock
    /// estimate its first minimum.
    const HURRIED: u32 = 8;
    /// Peers that are silent for this long get no answers: ten intervals.
    const FORGOTTEN: Span = Span::from_secs(5);
    const QUESTIONS: usize = 16;
    /// Maximum answers per report: the number of report blocks that one report holds. They fit any
    /// MTU.
    const ANSWERS: usize = 31;
    /// DLRR is in units of 1/65536 s, rounded to nearest: the maximum error is 7.63 µs. The rest
    /// covers the rounding of NTP timestamps and of halves to whole nanoseconds.
    const READING_ERROR: Span = Span::from_nanos(7_633);

    /// Creates a session without peers; the first report is due at once.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            // Most sessions have one peer; group members arrive one by one.
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

    /// Sets the state of the sent stream.
    pub fn set_sending(&mut self, sending: Sending) {
        self.sending = Some(sending);
    }

    /// Sets the state of the received stream.
    pub fn set_receiving(&mut self, receiving: Receiving) {
        if self.receiving.is_some_and(|before| before.ssrc != receiving.ssrc) {
            self.reported = (0, 0);
        }
        self.receiving = Some(receiving);
    }

    /// Sends a path measurement at once.
    pub const fn send_feedback(&mut self, feedback: PathFeedback) {
        self.feedback = Some(feedback);
    }

    /// Sends a probe of this many bytes, or as many as fit. The receiver answers with the name
    /// ([`Event::Passed`]).
    pub const fn probe(&mut self, name: u32, bytes: usize) {
        self.probe = Some((name, bytes));
    }

    /// Sets the SSRC of the playing source, and its addresses. Reports with this SSRC are accepted
    /// only from those hosts, as from one peer. For other SSRCs, each host is a separate peer.
    pub fn set_received(&mut self, heard: Option<(u32, SourceEndpoints)>) {
        self.heard = heard;
        if let Some((ssrc, endpoints)) = heard {
            self.peers
                .retain(|peer| peer.author.ssrc != ssrc || endpoints.are_of(peer.author.host));
        }
    }

    fn peer(&self, ssrc: u32) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.author.ssrc == ssrc)
    }

    /// Current mapping of the clock of peer `ssrc`.
    pub fn mapping(&self, ssrc: u32) -> Option<ClockMapping> {
        self.peer(ssrc)?.mapping
    }

    /// Last announcement of peer `ssrc`.
    pub fn announcement(&self, ssrc: u32) -> Option<Announcement> {
        self.peer(ssrc)?.announcement
    }

    /// Number of reports with the source's SSRC from other hosts.
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Sets the disciplined system clock: UTC minus the local clock, with its uncertainty. `None`
    /// if it is not synchronised.
    pub fn set_kept(&mut self, kept: Option<DisciplinedClock>) {
        self.kept = kept;
    }

    /// Sets the difference of the announced wall clock and the local clock. The peers' mappings
    /// slew with it, or step.
    pub const fn set_wall_offset(&mut self, offset: Span) {
        self.config.wall_offset = offset;
    }

    /// Due time of the next report; [`LocalTime::NEVER`] without recipients.
    pub fn deadline(&self) -> LocalTime {
        let is_due = self.feedback.is_some() || self.probe.is_some() || self.passed.is_some();
        match (&self.sending, self.peers.is_empty()) {
            (None, true) => LocalTime::NEVER,
            _ if is_due => LocalTime::ZERO,
            _ => self.next,
        }
    }

    /// Makes the next report due at once.
    pub fn hasten(&mut self) {
        self.next = LocalTime::ZERO;
    }

    /// Number of steps of peer `ssrc`'s clock: it was set, or another host answers.
    pub fn clock_steps(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.steps())
    }

    /// Number of lasting delay changes of a path to or from peer `ssrc`.
    pub fn path_changes(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.path_changes())
    }

    /// Number of rejected clock answers of peer `ssrc`.
    pub fn refused_exchanges(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.refused())
    }

    /// Handles a received report and passes its information to `tell`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrived: ReportArrival,
        mut tell: impl FnMut(Event),
    ) -> Result<(), InvalidReport> {
        if let Some((ssrc, bytes)) = probe_of(datagram) {
            // An answer is shorter than its probe, so it cannot amplify a flood.
            if self.receiving.is_some_and(|receiving| receiving.ssrc == ssrc) {
                self.passed = Some((ssrc, bytes));
            }
            return Ok(());
        }
        let compound = Compound::parse(datagram)?;
        let elsewhere = |of: &(u32, SourceEndpoints)| !of.1.are_of(arrived.from);
        let stranger = self.heard.filter(elsewhere).map(|(ssrc, _)| ssrc);
        let mut poses = false;
        // The peer's clock when it sent this datagram. The answers in it refer to that time.
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
        // Reports with the source's SSRC reach this point only from the source's own hosts.
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
                // If two requests have the same compact timestamp, use the older. The round trip
                // may then seem longer, never shorter.
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
                // Report the announcement first, so that the card's clock is known before the
                // mapping.
                tell(Event::Announced(ssrc, announcement));
                let reported = host.zip(announcement.host);
                let offset = reported.and_then(|(ours, theirs)| ours.wall_offset(theirs));
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

    /// Writes the report if one is due at `now`, and returns its length. Read `now` immediately
    /// before the call, because it is written to the report as our clock.
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

    /// Writes the goodbye report.
    pub fn leave(&mut self, now: LocalTime, buffer: &mut [u8]) -> Option<usize> {
        self.write(now, true, buffer)
    }

    /// Returns 0.8 to 1 times the maximum interval. It varies with the report and the host, so that
    /// many receivers do not report at the same time. RFC 3550 §6.3.1 has the same purpose.
    fn interval(&self) -> Span {
        let mixed = (self.config.ssrc ^ self.reports).wrapping_mul(0x9E37_79B1) >> 16;
        Self::INTERVAL.times(800 + i64::from(mixed % 200)).divided(1000)
    }
}
