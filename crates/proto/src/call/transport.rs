//! The transports of a call's sound, one after the other: UDP, or TCP if no datagram passes. Each has a number, of which its
//! keys are made, so no two of a call have the same.
//!
//! The caller chooses ([`CallerTransport`], by [`PathChoice`]), and the end that is called follows ([`CalledTransport`]).

use super::path::{PathChoice, PathSilence, PathStep, SilentWay};
use super::terms::CallPath;
use crate::time::{LocalTime, Span};

/// From a connection that was not made, or was lost, to the next try.
const RETRY_AFTER: Span = Span::from_millis(500);
/// Connections that were made and came to nothing since one was used.
const MAX_AHEAD: u32 = 8;
/// A caller moves on by no more at once.
const MAX_MOVED: u32 = 1 << 16;

/// Numbers of the transports of one call, at the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransportNumbers {
    /// The highest that was used.
    used: Option<u32>,
    /// Changes to sound that were asked for since it began last. The other end has a number for each that it begins, and
    /// may begin some that are over before they begin here: it follows to a higher number, and goes back to none.
    asked: u32,
}

impl TransportNumbers {
    /// That of the first transport of sound that begins now; `None` if none is left.
    pub fn first(&self) -> Option<u32> {
        let first = self.used.map_or(Some(0), |used| used.checked_add(1))?;
        first.checked_add(self.asked.saturating_sub(1))
    }

    /// Sound is asked for while there is none.
    pub const fn ask(&mut self) {
        self.asked = self.asked.saturating_add(1);
    }

    /// Sound began.
    pub const fn begin(&mut self) {
        self.asked = 0;
    }

    /// Sound is over, which used numbers up to that of its transport.
    pub fn end(&mut self, transport: &CallerTransport) {
        self.used = self.used.max(Some(transport.used));
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportStep {
    /// Use UDP from now on, with the keys of this number.
    UseUdp(u32),
    /// Make a connection: [`CallerTransport::connected`] and [`CallerTransport::goes_by_tcp`], or
    /// [`CallerTransport::not_connected`].
    Connect,
    /// Send this probe by UDP, as long as the datagrams of sound
    /// ([`CallTerms::datagram_bytes`](super::terms::CallTerms::datagram_bytes)): [`CallerTransport::probe_back`].
    Probe(u64),
    /// Report that nothing passes this way by UDP, though nothing else may be used.
    Report(SilentWay),
    /// No number is left for another transport: the sound is over.
    UsedUp,
}

/// What becomes of the sound of a call as terms are agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundChange {
    /// It begins: the devices are opened, and the first transport is there before the first packet.
    Begins(TransportStep),
    /// Another call takes over the devices, which run.
    Restarts(TransportStep),
    /// It goes on.
    GoesOn,
    /// There is none, or none any more.
    Ends,
}

/// The connection that is to carry sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// There is none, or it is lost.
    Down,
    Connecting,
    Up,
}

/// Decides at the caller by which transport sound goes, from its begin to its end.
#[derive(Debug)]
pub struct CallerTransport {
    choice: PathChoice,
    /// The one that is used.
    path: CallPath,
    number: u32,
    /// The highest number that was used, shown to the other end or not.
    used: u32,
    /// Packets received and sent.
    heard: u64,
    sent: u64,
    /// Since when both ends have sound. To open the devices takes a while: this is the first look after that.
    began: LocalTime,
    is_open: bool,
    connection: Connection,
    /// No lost connection is made again before.
    retry_at: LocalTime,
    /// Whether TCP may not be used any more.
    leaves_tcp: bool,
    probed: u64,
}

impl CallerTransport {
    /// Begins by the first of these, with that number. What to do first.
    pub fn begin(paths: &[CallPath], number: u32, now: LocalTime) -> (Self, TransportStep) {
        let path = paths.first().copied().unwrap_or(CallPath::Udp);
        let mut begun = Self {
            choice: PathChoice::new(paths, now),
            path,
            number,
            used: number,
            heard: 0,
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

    /// Since when both ends have sound.
    pub const fn began(&self) -> LocalTime {
        self.began
    }

    /// The transport that is used, and its number.
    pub const fn used(&self) -> (CallPath, u32) {
        (self.path, self.number)
    }

    /// Whether nothing but UDP may be used.
    pub const fn is_by_udp_alone(&self) -> bool {
        self.choice.is_by_udp_alone()
    }

    /// Whether a connection is awaited; one that is being made otherwise is dropped.
    pub fn is_connecting(&self) -> bool {
        self.connection == Connection::Connecting
    }

    /// Uses these alone from now on: a connection as soon as there is one.
    pub fn allow(&mut self, paths: &[CallPath], now: LocalTime) {
        if let Some(step) = self.choice.allow(paths, now) {
            self.leaves_tcp = step == PathStep::Use(CallPath::Udp) && self.path == CallPath::Tcp;
        }
    }

    /// So many packets were received and sent by now, and the connection is lost or not.
    pub fn observe(&mut self, heard: u64, sent: u64, is_lost: bool, now: LocalTime) {
        if !self.is_open && now > self.began {
            // Silence before does not count, nor do packets of a call before.
            (self.is_open, self.began, self.heard, self.sent) = (true, now, heard, sent);
            self.choice.heard(now);
        }
        if heard != self.heard {
            self.heard = heard;
            self.choice.heard(now);
            // It was silent for a while, and no connection was made since.
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

    /// The other end has no sound to send: its silence says nothing of the transport.
    pub const fn peer_is_silent(&mut self, now: LocalTime) {
        self.choice.heard(now);
    }

    /// The other end receives nothing by the transport of that number.
    pub fn unheard(&mut self, number: u32, now: LocalTime) {
        if self.used() == (CallPath::Udp, number) {
            self.choice.unheard(now);
        }
    }

    /// This probe came back.
    pub const fn probe_back(&mut self, probe: u64) {
        if probe == self.probed {
            self.choice.probe_back();
        }
    }

    /// A connection was made: the number of the transport that it can be. The other end may see it, whatever becomes of it,
    /// so the number is not used again. [`Self::goes_by_tcp`] uses it.
    pub fn connected(&mut self, now: LocalTime) -> Option<u32> {
        self.not_connected(now);
        self.used = self.used.checked_add(1)?;
        Some(self.used)
    }

    /// No connection was made.
    pub fn not_connected(&mut self, now: LocalTime) {
        self.connection = Connection::Down;
        self.retry_at = now + RETRY_AFTER;
    }

    /// Uses the connection that was made last.
    pub const fn goes_by_tcp(&mut self) {
        self.connection = Connection::Up;
        (self.path, self.number) = (CallPath::Tcp, self.used);
    }

    /// Lets time pass.
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
            PathStep::Tell(way) => TransportStep::Report(way),
        })
    }
}

/// The transports at the end that is called, which follows the caller.
#[derive(Debug)]
pub struct CalledTransport {
    /// Later ones have higher numbers.
    number: u32,
    path: CallPath,
    silence: PathSilence,
    has_sounded: bool,
    /// Since when the devices are opened, until the first look after that.
    opens: Option<LocalTime>,
}

impl CalledTransport {
    /// Begins with UDP.
    pub const fn new(now: LocalTime) -> Self {
        let silence = PathSilence::new(now);
        Self { number: 0, path: CallPath::Udp, silence, has_sounded: false, opens: None }
    }

    /// What is used, and its number.
    pub const fn used(&self) -> (CallPath, u32) {
        (self.path, self.number)
    }

    /// The caller announces its transport: whether that is UDP, to be used from now on. A connection is used as it arrives.
    pub fn announced(&mut self, path: CallPath, number: u32) -> bool {
        let moved = number.checked_sub(self.number);
        if !moved.is_some_and(|moved| (1..=MAX_MOVED).contains(&moved)) {
            return false;
        }
        match path {
            CallPath::Udp => (self.number, self.path) = (number, path),
            // Those between failed, and this one arrives.
            CallPath::Tcp => self.number = number - 1,
        }
        path == CallPath::Udp
    }

    /// Sound begins, each with keys of its own. Whether a number is left for that.
    #[must_use]
    pub fn begin(&mut self, now: LocalTime) -> bool {
        let number = self.number.checked_add(u32::from(self.has_sounded));
        number.iter().for_each(|number| (self.number, self.path) = (*number, CallPath::Udp));
        (self.has_sounded, self.opens) = (true, Some(now));
        number.is_some()
    }

    /// The numbers of connections that may arrive.
    pub fn expected(&self) -> impl Iterator<Item = u32> {
        let number = self.number;
        (1..=MAX_AHEAD).filter_map(move |ahead| number.checked_add(ahead))
    }

    /// The connection with this number arrived, and is used.
    pub const fn goes_by_tcp(&mut self, number: u32) {
        (self.number, self.path) = (number, CallPath::Tcp);
    }

    /// After so many received packets: the number of the transport by which nothing arrives, as the caller is to be told
    /// once in each second in which nothing arrives by UDP.
    pub fn poll(&mut self, heard: u64, now: LocalTime) -> Option<u32> {
        if self.opens.take_if(|since| now > *since).is_some() {
            // Silence before does not count.
            self.silence = PathSilence::new(now);
        }
        let silent = self.silence.poll(heard, self.number, now);
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
    fn no_two_sounds_of_a_call_have_one_number_and_none_is_behind_the_other_ends() {
        let mut made = TransportNumbers::default();
        assert_eq!(made.first(), Some(0), "of a call that begins with sound");
        made.asked = 1;
        assert_eq!(made.first(), Some(0), "of one that is asked for some, as at the other end");
        // Asked for, held before it began here, and asked for again: the other end began twice.
        made.asked = 2;
        assert_eq!(made.first(), Some(1));
        (made.used, made.asked) = (Some(4), 1);
        assert_eq!(made.first(), Some(5));
        made.asked = 3;
        assert_eq!(made.first(), Some(7));
        (made.used, made.asked) = (Some(u32::MAX), 1);
        assert_eq!(made.first(), None, "none is left");
    }

    #[test]
    fn sound_that_begins_again_has_another_number_and_a_caller_that_says_it_changes_nothing() {
        let mut transport = CalledTransport::new(at(0));
        assert!(transport.begin(at(0)));
        assert_eq!(transport.used(), (CallPath::Udp, 0));
        assert!(transport.begin(at(0)));
        assert_eq!(transport.used(), (CallPath::Udp, 1));
        assert!(!transport.announced(CallPath::Udp, 1), "it is used already");
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
    fn a_connection_that_is_not_made_is_tried_again_half_a_second_later() {
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
