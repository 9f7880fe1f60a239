//! Path of a call's audio: UDP, TCP if no datagram passes, and UDP again.
//!
//! The caller decides, since only it can open connections. It leaves a path on which nothing
//! arrives at either end ([`PathSilence`]). The called end sends packets even during silence. UDP
//! probes are as long as the first audio datagrams: a path may drop only long datagrams (a black
//! hole, RFC 8899 §1.1).

use super::terms::CallPath;
use crate::time::{LocalTime, Span};

const SILENT: Span = Span::from_secs(1);
/// Delay before UDP silence is reported to the user.
const TOLD_AFTER: Span = Span::from_secs(2);
/// Delay before another report begins a new outage. Reports come once a second.
const HEARD_AGAIN: Span = Span::from_secs(3);
/// Maximum gap in continuous sending. It covers packets of 20 ms, and freezes of the host.
const PAUSE: Span = Span::from_millis(300);
const PROBE_EVERY: Span = Span::from_millis(500);
/// Consecutive returned probes required before the return to UDP.
const ENOUGH_BACK: u32 = 3;
/// If UDP fails again within this time, the number of required probes doubles.
const TOO_EARLY: Span = Span::from_secs(10);
/// Maximum number of doublings.
const MAX_DOUBLED: u32 = 5;

/// Next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStep {
    /// Switch to this path.
    Use(CallPath),
    /// Send a UDP probe.
    Probe,
    /// Report, once per outage, that UDP is silent and TCP not allowed.
    Notify(SilentWay),
}

/// Direction without packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilentWay {
    /// To the called end.
    There,
    /// From the called end.
    Back,
}

/// Chooses the path of the audio.
#[derive(Debug)]
pub struct PathChoice {
    udp: bool,
    tcp: bool,
    path: CallPath,
    /// Last arrival, or the time of the choice.
    received: LocalTime,
    chosen: LocalTime,
    sends: LocalTime,
    sent: LocalTime,
    /// Whether the called end receives nothing via UDP.
    not_received: bool,
    said: LocalTime,
    /// Whether datagrams have reached the called end.
    reached: bool,
    reported_there: bool,
    reported_back: bool,
    probed: LocalTime,
    /// Whether the last probe returned.
    answered: bool,
    back: u32,
    doubled: u32,
}

impl PathChoice {
    /// Begins with the first path.
    pub fn new(paths: &[CallPath], now: LocalTime) -> Self {
        let (udp, tcp) = (paths.contains(&CallPath::Udp), paths.contains(&CallPath::Tcp));
        let path = paths.first().copied().unwrap_or(CallPath::Udp);
        Self {
            udp,
            tcp,
            path,
            received: now,
            chosen: now,
            sends: now,
            sent: LocalTime::ZERO,
            not_received: false,
            said: now,
            reached: false,
            reported_there: false,
            reported_back: false,
            probed: now,
            answered: true,
            back: 0,
            doubled: 0,
        }
    }

    /// Current path.
    pub const fn path(&self) -> CallPath {
        self.path
    }

    /// Records a packet received on the current path.
    pub const fn received(&mut self, now: LocalTime) {
        (self.received, self.reported_back) = (now, false);
    }

    /// Whether datagrams have reached the called end: it reported no silence in time.
    pub const fn has_reached(&self) -> bool {
        self.reached
    }

    /// Records a UDP packet before TCP is connected. May return to UDP.
    pub const fn stay_by_udp(&mut self, now: LocalTime) {
        if self.udp && !self.not_received {
            (self.path, self.received, self.chosen) = (CallPath::Udp, now, now);
        }
    }

    /// Whether only UDP is allowed.
    pub const fn is_by_udp_alone(&self) -> bool {
        self.udp && !self.tcp
    }

    /// Records a sent packet.
    pub fn sent(&mut self, now: LocalTime) {
        if now >= self.sent + PAUSE {
            self.sends = now;
        }
        self.sent = now;
        let begun = self.sends.max(self.chosen);
        self.reached |=
            self.path == CallPath::Udp && !self.not_received && now >= begun + TOLD_AFTER;
    }

    /// Handles a silence report. It counts only if packets were sent all the while.
    pub fn not_received(&mut self, now: LocalTime) -> bool {
        let sending = now >= self.sends.max(self.chosen) + SILENT && now < self.sent + PAUSE;
        let counts = self.path == CallPath::Udp && sending;
        if counts {
            (self.not_received, self.said) = (true, now);
        }
        counts
    }

    /// Changes the allowed paths. Returns a switch if the current path is not among them.
    pub fn allow(&mut self, paths: &[CallPath], now: LocalTime) -> Option<PathStep> {
        (self.udp, self.tcp) = (paths.contains(&CallPath::Udp), paths.contains(&CallPath::Tcp));
        match self.path {
            CallPath::Udp if !self.udp && self.tcp => Some(self.go_by(CallPath::Tcp, now)),
            CallPath::Tcp if !self.tcp && self.udp => Some(self.go_by(CallPath::Udp, now)),
            _ => None,
        }
    }

    /// Records a returned probe.
    pub const fn probe_back(&mut self) {
        if !self.answered {
            self.answered = true;
            self.back += 1;
        }
    }

    /// Handles timeouts.
    pub fn poll(&mut self, now: LocalTime) -> Option<PathStep> {
        match self.path {
            CallPath::Udp if self.tcp && (self.not_received || now >= self.received + SILENT) => {
                let early = self.back > 0 && now < self.chosen + TOO_EARLY;
                self.doubled = if early { (self.doubled + 1).min(MAX_DOUBLED) } else { 0 };
                Some(self.go_by(CallPath::Tcp, now))
            }
            CallPath::Tcp if self.udp && self.back >= ENOUGH_BACK << self.doubled => {
                Some(self.go_by(CallPath::Udp, now))
            }
            CallPath::Tcp if self.udp && now >= self.probed + PROBE_EVERY => {
                if !self.answered {
                    self.back = 0;
                }
                (self.answered, self.probed) = (false, now);
                Some(PathStep::Probe)
            }
            CallPath::Udp if !self.tcp => self.silence(now).map(PathStep::Notify),
            _ => None,
        }
    }

    fn silence(&mut self, now: LocalTime) -> Option<SilentWay> {
        if self.not_received && now >= self.said + HEARD_AGAIN {
            (self.not_received, self.reported_there) = (false, false);
        }
        if self.not_received && !core::mem::replace(&mut self.reported_there, true) {
            return Some(SilentWay::There);
        }
        let silent = now >= self.received + TOLD_AFTER;
        (silent && !core::mem::replace(&mut self.reported_back, true)).then_some(SilentWay::Back)
    }

    fn go_by(&mut self, path: CallPath, now: LocalTime) -> PathStep {
        (self.path, self.received, self.chosen) = (path, now, now);
        match path {
            CallPath::Tcp => (self.back, self.answered, self.probed) = (0, true, now),
            CallPath::Udp => {
                (self.not_received, self.reported_there, self.reported_back) =
                    (false, false, false);
            }
        }
        PathStep::Use(path)
    }

    /// Time of the next [`Self::poll`], or [`LocalTime::NEVER`].
    pub fn deadline(&self) -> LocalTime {
        match self.path {
            CallPath::Udp if self.tcp && self.not_received => self.chosen,
            CallPath::Udp if self.tcp => self.received + SILENT,
            CallPath::Tcp if self.udp => self.probed + PROBE_EVERY,
            CallPath::Udp if self.not_received && !self.reported_there => self.chosen,
            CallPath::Udp if !self.tcp && !self.reported_back => self.received + TOLD_AFTER,
            _ => LocalTime::NEVER,
        }
    }
}

/// Detects at the called end that no packet arrives.
#[derive(Debug)]
pub struct PathSilence {
    received: u64,
    transport: u32,
    since: LocalTime,
}

impl PathSilence {
    /// Begins without packets.
    pub const fn new(now: LocalTime) -> Self {
        Self { received: 0, transport: 0, since: now }
    }

    /// Updates the received packets and the transport. Returns `true` after each second of silence.
    pub fn poll(&mut self, received: u64, transport: u32, now: LocalTime) -> bool {
        let silent = (received, transport) == (self.received, self.transport);
        let notify = silent && now >= self.since + SILENT;
        if notify || !silent {
            *self = Self { received, transport, since: now };
        }
        notify
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [CallPath; 2] = [CallPath::Udp, CallPath::Tcp];

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    /// Runs in steps of 20 ms. Returns the switches.
    fn pass(choice: &mut PathChoice, (from, to): (i64, i64), udp: bool) -> Vec<(i64, CallPath)> {
        let mut moved = Vec::new();
        for now in (from..to).step_by(20) {
            if udp || choice.path() == CallPath::Tcp {
                choice.received(at(now));
            }
            while let Some(step) = choice.poll(at(now)) {
                match step {
                    PathStep::Use(path) => moved.push((now, path)),
                    PathStep::Probe if udp => choice.probe_back(),
                    PathStep::Probe | PathStep::Notify(_) => {}
                }
            }
        }
        moved
    }

    #[test]
    fn moves_to_tcp_without_datagrams_and_back() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(pass(&mut choice, (0, 5_000), true), []);
        let moved = pass(&mut choice, (5_000, 30_000), false);
        assert_eq!(moved, [(5_980, CallPath::Tcp)], "a second after the last packet");
        let moved = pass(&mut choice, (30_000, 60_000), true);
        assert!(matches!(moved[..], [(30_000..=32_000, CallPath::Udp)]), "{moved:?}");
    }

    #[test]
    fn unreliable_path_is_retried_ever_later() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..4 {
            let left = pass(&mut choice, (now, now + 2_000), false);
            assert_eq!(left.len(), 1, "{left:?}");
            let mut at_tcp = left[0].0;
            while choice.path() == CallPath::Tcp {
                at_tcp += 20;
                while let Some(step) = choice.poll(at(at_tcp)) {
                    if step == PathStep::Probe {
                        choice.probe_back();
                    }
                }
            }
            waits.push(at_tcp - left[0].0);
            now = at_tcp;
        }
        assert!(waits.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
    }

    /// Ten seconds with audio via UDP in one direction, and in the other direction if `there`.
    fn one_way(
        choice: &mut PathChoice,
        from: i64,
        there: bool,
        sends: bool,
    ) -> Vec<(i64, CallPath)> {
        let (mut moved, mut word) = (Vec::new(), None);
        let (mut silence, mut arrived, mut number) = (PathSilence::new(at(from)), 0, 0);
        for now in (from..from + 10_000).step_by(20) {
            choice.received(at(now));
            if choice.path() == CallPath::Tcp {
                // Before the connection was made.
                choice.stay_by_udp(at(now));
            }
            if sends {
                choice.sent(at(now));
            }
            arrived += u64::from(sends && (there || choice.path() == CallPath::Tcp));
            if silence.poll(arrived, number, at(now)) {
                word = Some(now + 40);
            }
            if word.take_if(|due| *due <= now).is_some() {
                choice.not_received(at(now));
            }
            while let Some(step) = choice.poll(at(now)) {
                match step {
                    PathStep::Use(path) => {
                        number += 1;
                        moved.push((now - from, path));
                    }
                    PathStep::Probe if there => choice.probe_back(),
                    PathStep::Probe | PathStep::Notify(_) => {}
                }
            }
        }
        moved
    }

    #[test]
    fn silence_at_the_other_end_moves_to_tcp_and_back() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(one_way(&mut choice, 0, true, true), []);
        let moved = one_way(&mut choice, 10_000, false, true);
        assert_eq!(moved, [(1_040, CallPath::Tcp)], "a second plus the report's delay");
        assert_eq!(one_way(&mut choice, 20_000, false, true), [], "it stays on TCP");
        let moved = one_way(&mut choice, 30_000, true, true);
        assert!(matches!(moved[..], [(0..=2_000, CallPath::Udp)]), "{moved:?}");
    }

    #[test]
    fn silence_report_without_sent_packets_moves_nothing() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(one_way(&mut choice, 0, false, false), []);
        choice.sent(at(10_000));
        assert!(!choice.not_received(at(10_200)));
        let mut choice = PathChoice::new(&[CallPath::Udp], at(0));
        assert_eq!(one_way(&mut choice, 0, false, true), [], "no other path is allowed");
    }

    #[test]
    fn udp_only_silence_is_reported_once_per_direction() {
        let mut choice = PathChoice::new(&[CallPath::Udp], at(0));
        let mut reported = |seconds: core::ops::Range<i64>, there: bool, back: bool| {
            let mut reported = Vec::new();
            for now in (seconds.start * 1_000..seconds.end * 1_000).step_by(20) {
                choice.sent(at(now));
                if back {
                    choice.received(at(now));
                }
                if !there && now % 1_000 == 0 {
                    choice.not_received(at(now));
                }
                while let Some(step) = choice.poll(at(now)) {
                    reported.push((now, step));
                }
            }
            reported
        };
        let (there, back) = (PathStep::Notify(SilentWay::There), PathStep::Notify(SilentWay::Back));
        assert_eq!(reported(0..10, true, true), []);
        assert_eq!(reported(10..20, false, true), [(10_000, there)]);
        assert_eq!(reported(20..30, true, false), [(21_980, back)]);
        assert_eq!(reported(30..40, true, true), []);
        assert_eq!(reported(40..50, false, false), [(40_000, there), (41_980, back)]);
    }

    #[test]
    fn disallowed_path_is_left_at_once_for_good() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(choice.allow(&BOTH, at(10)), None);
        assert_eq!(choice.allow(&[CallPath::Tcp], at(20)), Some(PathStep::Use(CallPath::Tcp)));
        choice.stay_by_udp(at(30));
        assert_eq!(choice.path(), CallPath::Tcp, "even if UDP packets arrive");
        assert_eq!(pass(&mut choice, (40, 20_000), true), []);
        assert_eq!(choice.allow(&[CallPath::Udp], at(20_000)), Some(PathStep::Use(CallPath::Udp)));
        assert_eq!(pass(&mut choice, (20_000, 40_000), false), []);
        assert_eq!(choice.allow(&BOTH, at(40_000)), None);
        assert_eq!(pass(&mut choice, (40_000, 41_000), false).len(), 1);
    }

    #[test]
    fn where_one_path_alone_is_agreed_on_none_other_is_used() {
        let mut choice = PathChoice::new(&[CallPath::Udp], at(0));
        assert_eq!(pass(&mut choice, (0, 20_000), false), []);
        assert_eq!(choice.deadline(), LocalTime::NEVER);
        let mut choice = PathChoice::new(&[CallPath::Tcp], at(0));
        assert_eq!(pass(&mut choice, (0, 20_000), true), []);
    }
}
