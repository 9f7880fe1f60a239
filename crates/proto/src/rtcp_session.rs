//! RTCP session of one end of a stream. Does no I/O; not real-time.
//!
//! Pass received reports to [`Session::handle`]. Send the output of [`Session::poll`] at
//! [`Session::deadline`]. Each report exchanges clock readings with the peer (RFC 3611 §4.4, §4.5).

mod peer;
mod report;

use crate::clock::{ClockId, ClockMapping, DisciplinedClock, Exchange, HostClock};
use crate::congestion::PathFeedback;
use crate::device::CaptureFaults;
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
    /// Own SSRC. A sender uses the SSRC of its stream.
    pub ssrc: u32,
    /// Canonical name (RFC 7022).
    pub cname: String,
    /// Wall clock minus local clock; constant.
    pub wall_offset: Span,
    /// Name of the local clock, if any.
    pub host: Option<HostClock>,
}

/// Sent stream, for reports.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Stream format.
    pub format: StreamFormat,
    /// Promised latency.
    pub link_offset: Span,
    /// Maximum age of a first frame at departure.
    pub packing_age: Span,
    /// Whether the stream adapts to its path.
    pub wants_feedback: bool,
    /// Clock of the capture card, if known.
    pub card: Option<ClockId>,
    /// Faults of the capture device, in total.
    pub capture: CaptureFaults,
    /// RTP timestamp of media time 0.
    pub timestamp: u32,
    /// Packetizer state.
    pub state: PacketizerState,
}

/// Received stream, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiving {
    /// SSRC of the stream.
    pub ssrc: u32,
    /// Packets expected (RFC 3550 A.3).
    pub expected: u64,
    /// Packets received.
    pub received: u64,
    /// Highest sequence number, extended.
    pub highest_sequence: u32,
    /// Interarrival jitter in frames.
    pub jitter: u32,
    /// Promised and measured latency.
    pub effective: Option<Effective>,
    /// Losses.
    pub losses: Option<LossReport>,
}

/// Source and time of a report.
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
    /// Arrival without timestamp error.
    pub const fn exact(from: Host, at: LocalTime) -> Self {
        Self { from, at, stamp_uncertainty: Span::ZERO }
    }
}

/// Maximum datagram length, of a path probe: one jumbo frame.
pub const MAX_DATAGRAM: usize = 9000;

/// Information from a report, with the peer's SSRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// New mapping of the peer's clock.
    Mapped(u32, ClockMapping),
    /// RTP timestamp of a frame, and its capture time on the peer's wall clock.
    Captured(u32, u32, WallTime),
    /// Stream announcement.
    Announced(u32, Announcement),
    /// Reception of our stream.
    Reception(u32, ReportBlock),
    /// Latency of our stream.
    Effective(u32, Effective),
    /// Losses of our stream.
    Losses(u32, LossReport),
    /// Faults of the peer's capture device.
    Capture(u32, CaptureFaults),
    /// Path measurement of our stream.
    Feedback(u32, PathFeedback),
    /// The named probe reached the peer.
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
        | Self::Capture(ssrc, _)
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
    feedback: Option<PathFeedback>,
    /// Name and length in bytes.
    probe: Option<(u32, usize)>,
    /// Stream and probe name.
    passed: Option<(u32, u32)>,
    received: Option<(u32, SourceEndpoints)>,
    foreign: u64,
    kept: Option<DisciplinedClock>,
    reported: (u64, u64),
    /// Last requests: compact timestamp and exact time.
    requested: [(CompactNtp, LocalTime); Self::QUESTIONS],
    reports: u32,
    next: LocalTime,
    hurry: Hurry,
}

impl Session {
    /// Maximum report interval. Clock readings need less than the 5 s of RFC 3550; §6.2 allows it.
    pub const INTERVAL: Span = Span::from_millis(500);
    const HASTE: Span = Span::from_millis(20);
    const HASTY_REPORTS: u32 = 10;
    /// Interval of the first reports of adaptive streams, whose path may be slow.
    const HASTE_ON_THIN_PATHS: Span = Span::from_millis(100);
    /// Requests per peer that are answered immediately.
    const HURRIED: u32 = 8;
    /// Silence of ten intervals after which a peer gets no answers.
    const FORGOTTEN: Span = Span::from_secs(5);
    const QUESTIONS: usize = 16;
    /// Maximum answers per report: one per report block. They fit any MTU.
    const ANSWERS: usize = 31;
    /// Maximum error of a reading: 7.63 µs, as DLRR has units of 1/65536 s. The rest is for NTP
    /// rounding.
    const READING_ERROR: Span = Span::from_nanos(7_633);

    /// Creates a session. The first report is due immediately.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            peers: Vec::new(),
            sending: None,
            receiving: None,
            feedback: None,
            probe: None,
            passed: None,
            received: None,
            foreign: 0,
            kept: None,
            reported: (0, 0),
            requested: [(CompactNtp::NONE, LocalTime::ZERO); Self::QUESTIONS],
            reports: 0,
            next: LocalTime::ZERO,
            hurry: Hurry::new(),
        }
    }

    /// Sets the sent stream.
    pub fn set_sending(&mut self, sending: Sending) {
        self.sending = Some(sending);
    }

    /// Sets the received stream.
    pub fn set_receiving(&mut self, receiving: Receiving) {
        if self.receiving.is_some_and(|before| before.ssrc != receiving.ssrc) {
            self.reported = (0, 0);
        }
        self.receiving = Some(receiving);
    }

    /// Sends a path measurement immediately.
    pub const fn send_feedback(&mut self, feedback: PathFeedback) {
        self.feedback = Some(feedback);
    }

    /// Sends a probe of at most this many bytes. The receiver answers ([`Event::Passed`]).
    pub const fn probe(&mut self, name: u32, bytes: usize) {
        self.probe = Some((name, bytes));
    }

    /// Sets SSRC and addresses of the playing source. Reports with this SSRC are accepted only from
    /// those hosts. Other hosts are separate peers.
    pub fn set_received(&mut self, received: Option<(u32, SourceEndpoints)>) {
        self.received = received;
        if let Some((ssrc, endpoints)) = received {
            self.peers
                .retain(|peer| peer.author.ssrc != ssrc || endpoints.are_of(peer.author.host));
        }
    }

    fn peer(&self, ssrc: u32) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.author.ssrc == ssrc)
    }

    /// Clock mapping of peer `ssrc`.
    pub fn mapping(&self, ssrc: u32) -> Option<ClockMapping> {
        self.peer(ssrc)?.mapping
    }

    /// `at` on the wall clock of own reports.
    pub fn wall(&self, at: LocalTime) -> WallTime {
        WallTime::of_local(at, self.config.wall_offset)
    }

    /// SSRC of own reports.
    pub const fn ssrc(&self) -> u32 {
        self.config.ssrc
    }

    /// Last announcement of peer `ssrc`.
    pub fn announcement(&self, ssrc: u32) -> Option<Announcement> {
        self.peer(ssrc)?.announcement
    }

    /// Reports with the source's SSRC from other hosts.
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Sets UTC minus the local clock; `None` if not synchronised.
    pub fn set_disciplined(&mut self, kept: Option<DisciplinedClock>) {
        self.kept = kept;
    }

    /// Sets wall clock minus local clock.
    pub const fn set_wall_offset(&mut self, offset: Span) {
        self.config.wall_offset = offset;
    }

    /// Time of the next report; [`LocalTime::NEVER`] without recipients.
    pub fn deadline(&self) -> LocalTime {
        let is_due = self.feedback.is_some() || self.probe.is_some() || self.passed.is_some();
        match (&self.sending, self.peers.is_empty()) {
            (None, true) => LocalTime::NEVER,
            _ if is_due => LocalTime::ZERO,
            _ => self.next,
        }
    }

    /// Makes the next report due.
    pub fn hasten(&mut self) {
        self.next = LocalTime::ZERO;
    }

    /// Steps of peer `ssrc`'s clock: it was set, or another host answers.
    pub fn clock_steps(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.steps())
    }

    /// Lasting delay changes on the path of peer `ssrc`.
    pub fn path_changes(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.path_changes())
    }

    /// Rejected clock answers of peer `ssrc`.
    pub fn refused_exchanges(&self, ssrc: u32) -> u32 {
        self.peer(ssrc).map_or(0, |peer| peer.clock.refused())
    }

    /// Handles a report and passes its information to `notify`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrived: ReportArrival,
        mut notify: impl FnMut(Event),
    ) -> Result<(), InvalidReport> {
        if let Some((ssrc, bytes)) = probe_of(datagram) {
            // The answer is shorter than the probe, so it cannot amplify a flood.
            if self.receiving.is_some_and(|receiving| receiving.ssrc == ssrc) {
                self.passed = Some((ssrc, bytes));
            }
            return Ok(());
        }
        let compound = Compound::parse(datagram)?;
        let elsewhere = |of: &(u32, SourceEndpoints)| !of.1.are_of(arrived.from);
        let stranger = self.received.filter(elsewhere).map(|(ssrc, _)| ssrc);
        let mut poses = false;
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
                self.take(ssrc, item, arrived, sent, &mut notify);
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
        notify: &mut impl FnMut(Event),
    ) {
        let (author, received) = (Author { ssrc, host: from }, self.received);
        // With the source's SSRC, only its own hosts reach this point.
        let same = |peer: &Peer| {
            let one = received.is_some_and(|(received, _)| received == ssrc);
            peer.author == author || one && peer.author.ssrc == ssrc
        };
        if let Item::Bye = item {
            self.peers.retain(|peer| !same(peer));
            return notify(Event::Left(ssrc));
        }
        let (own, host) = (self.config.ssrc, self.config.host);
        let requested = self.requested;
        let kept = self.kept;
        let (next, hurry) = (&mut self.next, &mut self.hurry);
        let peer = remember(&mut self.peers, same, author, arrival);
        match item {
            Item::Sender(info) => {
                peer.report = Some((info.ntp.compact(), arrival));
                let wall = WallTime::from_unix_nanos(info.ntp.to_unix_nanos());
                notify(Event::Captured(ssrc, info.rtp_timestamp, wall));
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
                // If timestamps are equal, take the older request: it never makes the round trip
                // too short.
                let question = requested.iter().rfind(|(said, _)| *said == delay.last_reference);
                let Some((_, requested)) = question else { return };
                peer.proven = true;
                let peer_answered = WallTime::from_unix_nanos(sent.to_unix_nanos());
                let mapping = peer.clock.observe(Exchange {
                    requested: *requested,
                    peer_received: peer_answered + -delay.delay.to_span(),
                    peer_answered,
                    answered: arrival,
                    reading_error: Self::READING_ERROR + stamp_uncertainty,
                });
                if let Some(mapping) = mapping.and_then(|m| peer.choice.exchanged(m, arrival)) {
                    peer.mapping = Some(mapping);
                    notify(Event::Mapped(ssrc, mapping));
                }
            }
            Item::Block(block) if block.ssrc == own => notify(Event::Reception(ssrc, block)),
            Item::Announcement(announcement) => {
                peer.announcement = Some(announcement);
                // First, so that the card's clock is known before the mapping.
                notify(Event::Announced(ssrc, announcement));
                let reported = host.zip(announcement.host);
                let offset = reported.and_then(|(ours, theirs)| ours.wall_offset(theirs));
                if let Some(mapping) = offset.and_then(|o| peer.choice.same_host(o, arrival)) {
                    peer.mapping = Some(mapping);
                    notify(Event::Mapped(ssrc, mapping));
                }
            }
            Item::Effective(effective) if effective.ssrc == own => {
                notify(Event::Effective(ssrc, effective));
            }
            Item::Kept(theirs) => {
                let mapping = kept.map(|ours| ours.mapping(&theirs, arrival));
                if let Some(mapping) = mapping.and_then(|m| peer.choice.kept(m, arrival)) {
                    peer.mapping = Some(mapping);
                    notify(Event::Mapped(ssrc, mapping));
                }
            }
            Item::Losses(losses) if losses.ssrc == own => notify(Event::Losses(ssrc, losses)),
            Item::Capture(faults) => notify(Event::Capture(ssrc, faults)),
            Item::Feedback(feedback) if feedback.ssrc == own => {
                notify(Event::Feedback(ssrc, feedback));
            }
            Item::Passed(stream, bytes) if stream == own => notify(Event::Passed(ssrc, bytes)),
            _ => {}
        }
    }

    /// Writes a due report; returns its length. Read `now` immediately before: the report carries
    /// it.
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
        let received = self.peers.iter().filter_map(|peer| peer.announcement);
        let is_thin = sent || received.fold(false, |thin, received| thin | received.wants_feedback);
        let haste = if is_thin { Self::HASTE_ON_THIN_PATHS } else { Self::HASTE };
        let hasty = self.reports <= Self::HASTY_REPORTS;
        self.next = now + if hasty { haste } else { self.interval() };
        self.write(now, false, buffer)
    }

    /// Writes the goodbye report.
    pub fn leave(&mut self, now: LocalTime, buffer: &mut [u8]) -> Option<usize> {
        self.write(now, true, buffer)
    }

    /// 0.8 to 1 times the maximum, by report and host, so that receivers spread (RFC 3550 §6.3.1).
    fn interval(&self) -> Span {
        let mixed = (self.config.ssrc ^ self.reports).wrapping_mul(0x9E37_79B1) >> 16;
        Self::INTERVAL.times(800 + i64::from(mixed % 200)).divided(1000)
    }
}
