//! Transports of a call's audio. Each has a unique number, from which its keys derive.
//!
//! The caller chooses ([`CallerTransport`]), and the called end follows ([`CalledTransport`]).

use super::path::{PathChoice, PathSilence, PathStep, SilentWay};
use super::terms::CallPath;
use crate::time::{LocalTime, Span};

const RETRY_AFTER: Span = Span::from_millis(500);
/// Consecutive connections that fail before use.
const MAX_AHEAD: u32 = 8;
const MAX_MOVED: u32 = 1 << 16;

/// Transport numbers of one call, at the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransportNumbers {
    used: Option<u32>,
    /// The called end numbers each begin, even if it ended before it began here.
    requested: u32,
}

impl TransportNumbers {
    /// First number when audio begins now, if any is left.
    pub fn first(&self) -> Option<u32> {
        let first = self.used.map_or(Some(0), |used| used.checked_add(1))?;
        first.checked_add(self.requested.saturating_sub(1))
    }

    /// Records a request to begin audio.
    pub const fn request(&mut self) {
        self.requested = self.requested.saturating_add(1);
    }

    /// Records that audio began.
    pub const fn begin(&mut self) {
        self.requested = 0;
    }

    /// Records that audio ended.
    pub fn end(&mut self, transport: &CallerTransport) {
        self.used = self.used.max(Some(transport.used));
    }
}

/// Next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportStep {
    /// Switch to UDP, with the keys of this number.
    UseUdp(u32),
    /// Open a TCP connection. Report [`CallerTransport::connected`] and
    /// [`CallerTransport::goes_by_tcp`], or [`CallerTransport::not_connected`].
    Connect,
    /// Send this UDP probe of
    /// [`CallTerms::datagram_bytes`](super::terms::CallTerms::datagram_bytes) bytes. Report
    /// [`CallerTransport::probe_back`].
    Probe(u64),
    /// Report that UDP is silent and TCP not allowed.
    Report(SilentWay),
    /// No number is left: the audio ends.
    UsedUp,
}

/// Effect of new terms on the audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundChange {
    /// Open the devices once the transport is ready.
    Begins(TransportStep),
    /// Another call takes over the running devices.
    Restarts(TransportStep),
    /// Audio continues.
    GoesOn,
    /// Audio ends, or stays off.
    Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Down,
    Connecting,
    Up,
}

/// Chooses the transport at the caller while audio runs.
#[derive(Debug)]
pub struct CallerTransport {
    choice: PathChoice,
    path: CallPath,
    number: u32,
    /// Highest number, announced or not.
    used: u32,
    received: u64,
    /// Whether a datagram has arrived.
    is_reached: bool,
    sent: u64,
    began: LocalTime,
    is_open: bool,
    connection: Connection,
    retry_at: LocalTime,
    leaves_tcp: bool,
    probed: u64,
}

impl CallerTransport {
    /// Begins with the first path. Also returns the first action.
    pub fn begin(paths: &[CallPath], number: u32, now: LocalTime) -> (Self, TransportStep) {
        let path = paths.first().copied().unwrap_or(CallPath::Udp);
        let mut begun = Self {
            choice: PathChoice::new(paths, now),
            path,
            number,
            used: number,
            received: 0,
            is_reached: false,
            sent: 0,
            began: now,
            is_open: false,
            connection: Connection::Down,
            retry_at: now,
            leaves_tcp: false,
            probed: 0,
        };
        let step = match path {
            CallPath::Udp => TransportStep::UseUdp(number),
            CallPath::Tcp => begun.connect(now),
        };
        (begun, step)
    }

    fn connect(&mut self, now: LocalTime) -> TransportStep {
        self.connection = Connection::Connecting;
        self.retry_at = now + RETRY_AFTER;
        TransportStep::Connect
    }

    /// Begin of audio at both ends.
    pub const fn began(&self) -> LocalTime {
        self.began
    }

    /// Current path and number.
    pub const fn used(&self) -> (CallPath, u32) {
        (self.path, self.number)
    }

    /// Whether only UDP is allowed.
    pub const fn is_by_udp_alone(&self) -> bool {
        self.choice.is_by_udp_alone()
    }

    /// Whether datagrams have passed this way, so that no firewall blocks them.
    pub const fn has_passed(&self, way: SilentWay) -> bool {
        match way {
            SilentWay::There => self.choice.has_reached(),
            SilentWay::Back => self.is_reached,
        }
    }

    /// Whether a connection is expected. If not, drop a pending connection.
    pub fn is_connecting(&self) -> bool {
        self.connection == Connection::Connecting
    }

    /// Changes the allowed paths. A switch to TCP waits for the connection.
    pub fn allow(&mut self, paths: &[CallPath], now: LocalTime) {
        if let Some(step) = self.choice.allow(paths, now) {
            self.leaves_tcp = step == PathStep::Use(CallPath::Udp) && self.path == CallPath::Tcp;
        }
    }

    /// Updates the packets and the state of the TCP connection.
    pub fn observe(&mut self, received: u64, sent: u64, is_lost: bool, now: LocalTime) {
        if !self.is_open && now > self.began {
            // Earlier silence and packets do not count.
            (self.is_open, self.began, self.received, self.sent) = (true, now, received, sent);
            self.choice.received(now);
        }
        if received != self.received {
            self.received = received;
            self.is_reached |= self.path == CallPath::Udp;
            self.choice.received(now);
            // UDP recovered before TCP was connected.
            if self.path == CallPath::Udp && self.choice.path() == CallPath::Tcp {
                self.choice.stay_by_udp(now);
            }
        }
        if sent != self.sent {
            self.sent = sent;
            self.choice.sent(now);
        }
        let is_unwanted = self.is_connecting() && self.choice.path() == CallPath::Udp;
        if is_unwanted || (self.connection == Connection::Up && is_lost) {
            self.connection = Connection::Down;
        }
    }

    /// Records that the called end has no audio: no failure.
    pub const fn peer_is_silent(&mut self, now: LocalTime) {
        self.choice.received(now);
    }

    /// Handles a silence report of the called end.
    pub fn not_received(&mut self, number: u32, now: LocalTime) {
        if self.used() == (CallPath::Udp, number) {
            self.choice.not_received(now);
        }
    }

    /// Records a returned probe.
    pub const fn probe_back(&mut self, probe: u64) {
        if probe == self.probed {
            self.choice.probe_back();
        }
    }

    /// Records a connection. Returns its number for [`Self::goes_by_tcp`]. Numbers are not reused:
    /// the called end may know them.
    pub fn connected(&mut self, now: LocalTime) -> Option<u32> {
        self.not_connected(now);
        self.used = self.used.checked_add(1)?;
        Some(self.used)
    }

    /// Records a failed connection.
    pub fn not_connected(&mut self, now: LocalTime) {
        self.connection = Connection::Down;
        self.retry_at = now + RETRY_AFTER;
    }

    /// Switches to the newest connection.
    pub const fn goes_by_tcp(&mut self) {
        self.connection = Connection::Up;
        (self.path, self.number) = (CallPath::Tcp, self.used);
    }

    /// Handles timeouts; returns the next action.
    pub fn poll(&mut self, now: LocalTime) -> Option<TransportStep> {
        let is_lost = self.choice.path() == CallPath::Tcp && self.connection == Connection::Down;
        if is_lost && now >= self.retry_at {
            return Some(self.connect(now));
        }
        let leaves_tcp = core::mem::take(&mut self.leaves_tcp);
        let step = leaves_tcp.then_some(PathStep::Use(CallPath::Udp));
        Some(match step.or_else(|| self.choice.poll(now))? {
            PathStep::Use(CallPath::Tcp) => self.connect(now),
            PathStep::Use(CallPath::Udp) => {
                self.connection = Connection::Down;
                let Some(used) = self.used.checked_add(1) else {
                    return Some(TransportStep::UsedUp);
                };
                (self.path, self.number, self.used) = (CallPath::Udp, used, used);
                TransportStep::UseUdp(used)
            }
            PathStep::Probe => {
                self.probed += 1;
                TransportStep::Probe(self.probed)
            }
            PathStep::Notify(way) => TransportStep::Report(way),
        })
    }
}

/// Transport at the called end.
#[derive(Debug)]
pub struct CalledTransport {
    number: u32,
    path: CallPath,
    silence: PathSilence,
    has_sounded: bool,
    /// When the devices opened, until the first observation.
    opens: Option<LocalTime>,
}

impl CalledTransport {
    /// Begins with UDP.
    pub const fn new(now: LocalTime) -> Self {
        let silence = PathSilence::new(now);
        Self { number: 0, path: CallPath::Udp, silence, has_sounded: false, opens: None }
    }

    /// Current path and number.
    pub const fn used(&self) -> (CallPath, u32) {
        (self.path, self.number)
    }

    /// Handles an announcement. Returns whether to switch to UDP now.
    pub fn announced(&mut self, path: CallPath, number: u32) -> bool {
        let moved = number.checked_sub(self.number);
        if !moved.is_some_and(|moved| (1..=MAX_MOVED).contains(&moved)) {
            return false;
        }
        match path {
            CallPath::Udp => (self.number, self.path) = (number, path),
            CallPath::Tcp => self.number = number - 1,
        }
        path == CallPath::Udp
    }

    /// Begins audio with new keys, if a number is left.
    #[must_use]
    pub fn begin(&mut self, now: LocalTime) -> bool {
        let number = self.number.checked_add(u32::from(self.has_sounded));
        number.iter().for_each(|number| (self.number, self.path) = (*number, CallPath::Udp));
        (self.has_sounded, self.opens) = (true, Some(now));
        number.is_some()
    }

    /// Numbers of TCP connections that may arrive.
    pub fn expected(&self) -> impl Iterator<Item = u32> {
        let number = self.number;
        (1..=MAX_AHEAD).filter_map(move |ahead| number.checked_add(ahead))
    }

    /// Switches to the TCP connection with this number.
    pub const fn goes_by_tcp(&mut self, number: u32) {
        (self.number, self.path) = (number, CallPath::Tcp);
    }

    /// Returns the number of a silent UDP transport, once a second.
    pub fn poll(&mut self, received: u64, now: LocalTime) -> Option<u32> {
        if self.opens.take_if(|since| now > *since).is_some() {
            self.silence = PathSilence::new(now);
        }
        let silent = self.silence.poll(received, self.number, now);
        (silent && self.path == CallPath::Udp).then_some(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn transport_numbers_are_unique_and_never_behind_the_peer() {
        let mut made = TransportNumbers::default();
        assert_eq!(made.first(), Some(0), "the call begins with audio");
        made.requested = 1;
        assert_eq!(made.first(), Some(0), "audio is requested, as at the called end");
        // Requested twice, with a hold between.
        made.requested = 2;
        assert_eq!(made.first(), Some(1));
        (made.used, made.requested) = (Some(4), 1);
        assert_eq!(made.first(), Some(5));
        made.requested = 3;
        assert_eq!(made.first(), Some(7));
        (made.used, made.requested) = (Some(u32::MAX), 1);
        assert_eq!(made.first(), None, "none is left");
    }

    #[test]
    fn restarted_audio_has_a_new_number() {
        let mut transport = CalledTransport::new(at(0));
        assert!(transport.begin(at(0)));
        assert_eq!(transport.used(), (CallPath::Udp, 0));
        assert!(transport.begin(at(0)));
        assert_eq!(transport.used(), (CallPath::Udp, 1));
        assert!(!transport.announced(CallPath::Udp, 1), "it is already in use");
        transport.number = u32::MAX;
        assert!(!transport.begin(at(0)), "none is left");
    }

    #[test]
    fn end_of_the_peers_sound_moves_nothing_and_a_silent_path_does() {
        let paths = [CallPath::Udp, CallPath::Tcp];
        let (mut transport, _) = CallerTransport::begin(&paths, 0, at(0));
        transport.observe(0, 0, false, at(20));
        let mut steps = |has_left: bool, from: i64| {
            let beats = (from..from + 10_000).step_by(20).map(at);
            let mut beat = |now| {
                transport.observe(1, 0, false, now);
                if has_left {
                    transport.peer_is_silent(now);
                }
                transport.poll(now)
            };
            beats.filter_map(&mut beat).count()
        };
        assert_eq!(steps(true, 40), 0);
        assert_ne!(steps(false, 10_040), 0);
    }

    #[test]
    fn path_that_carried_datagrams_is_known_per_direction() {
        let passed = |there: bool, back: bool| {
            let (mut transport, _) = CallerTransport::begin(&[CallPath::Udp], 0, at(0));
            for millis in (20..5_000).step_by(20) {
                let received = if back { millis as u64 } else { 0 };
                transport.observe(received, millis as u64, false, at(millis));
                if !there && millis % 1_000 == 0 {
                    transport.not_received(0, at(millis));
                }
            }
            [SilentWay::There, SilentWay::Back].map(|way| transport.has_passed(way))
        };
        for ways in [[true, true], [true, false], [false, true], [false, false]] {
            assert_eq!(passed(ways[0], ways[1]), ways);
        }
    }

    #[test]
    fn failed_connection_is_retried_after_half_a_second() {
        let (mut transport, step) = CallerTransport::begin(&[CallPath::Tcp], 0, at(0));
        assert_eq!(step, TransportStep::Connect);
        transport.not_connected(at(40));
        assert_eq!(transport.poll(at(539)), None);
        assert_eq!(transport.poll(at(540)), Some(TransportStep::Connect));
        assert_eq!(transport.connected(at(600)), Some(1));
        transport.goes_by_tcp();
        assert_eq!((transport.used(), transport.poll(at(5_000))), ((CallPath::Tcp, 1), None));
        transport.observe(0, 0, true, at(5_000));
        assert_eq!(transport.poll(at(5_000)), Some(TransportStep::Connect), "it is lost");
    }
}
