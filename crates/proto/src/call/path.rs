//! By what a call's sound goes: UDP, TCP where no datagram passes, and back once one does.
//!
//! The caller decides, as it alone can make connections. It hears the other end's sound all the time, silence
//! too, so a path on which nothing comes is one that does not carry. Nor is one by which nothing comes to the other end,
//! which says so ([`PathSilence`]): what comes from there says nothing of the way there. While TCP is used, probes by UDP, which the
//! other end sends back, say when that carries again. They are as long as the datagrams with which sound begins: a
//! path may drop long ones without a word (a black hole, RFC 8899 §1.1). Whether longer ones pass each sender finds out.

use super::terms::CallPath;
use crate::time::{LocalTime, Span};

/// A path is left if nothing came by it for so long: ten packets of 20 ms, five times over.
const SILENT: Span = Span::from_secs(1);
/// Where UDP alone may be used, people are told of a silence that is so long,
const TOLD_AFTER: Span = Span::from_secs(2);
/// and again where the other end said nothing of one for so long, as it says it once a second.
const HEARD_AGAIN: Span = Span::from_secs(3);
/// Sound is sent without a pause where from packet to packet it takes less than this: the longest hold 20 ms, and a host
/// may freeze.
const PAUSE: Span = Span::from_millis(300);
/// So often UDP is probed while TCP is used.
const PROBE_EVERY: Span = Span::from_millis(500);
/// Probes in a row that come back before UDP is used again.
const ENOUGH_BACK: u32 = 3;
/// A return that fails within this was too early: the next waits twice as many probes,
const TOO_EARLY: Span = Span::from_secs(10);
/// up to this many times over.
const MOST_DOUBLED: u32 = 5;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStep {
    /// Use this from now on.
    Use(CallPath),
    /// Send a probe by UDP, as long as the datagrams with which sound begins.
    Probe,
    /// Tell people that nothing passes this way by UDP, where there is nothing else to use: once, until something does.
    Tell(SilentWay),
}

/// A way by which nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilentWay {
    /// To the end that is called.
    There,
    /// From it.
    Back,
}

/// Decides by what the sound goes.
#[derive(Debug)]
pub struct PathChoice {
    udp: bool,
    tcp: bool,
    path: CallPath,
    /// When something came by it last, or when it was chosen.
    heard: LocalTime,
    chosen: LocalTime,
    /// Since when sound is sent without a pause, and when the last was.
    sends: LocalTime,
    sent: LocalTime,
    /// Whether the other end hears nothing by UDP, or heard nothing when that was left.
    unheard: bool,
    /// When it said so last, and whether people were told of that, and of silence here.
    said: LocalTime,
    told_there: bool,
    told_back: bool,
    probed: LocalTime,
    /// Whether the last probe came back, and how many in a row did.
    answered: bool,
    back: u32,
    doubled: u32,
}

impl PathChoice {
    /// By the first of these, at first.
    pub fn new(paths: &[CallPath], now: LocalTime) -> Self {
        let (udp, tcp) = (paths.contains(&CallPath::Udp), paths.contains(&CallPath::Tcp));
        let path = paths.first().copied().unwrap_or(CallPath::Udp);
        Self {
            udp,
            tcp,
            path,
            heard: now,
            chosen: now,
            sends: now,
            sent: LocalTime::ZERO,
            unheard: false,
            said: now,
            told_there: false,
            told_back: false,
            probed: now,
            answered: true,
            back: 0,
            doubled: 0,
        }
    }

    /// What is used.
    pub const fn path(&self) -> CallPath {
        self.path
    }

    /// The other end's sound came by the path that is used.
    pub const fn heard(&mut self, now: LocalTime) {
        (self.heard, self.told_back) = (now, false);
    }

    /// Sound comes by UDP all the same, before there was anything else to move to: that is used on, where it may be, if that
    /// is why it was left.
    pub const fn stay_by_udp(&mut self, now: LocalTime) {
        if self.udp && !self.unheard {
            (self.path, self.heard, self.chosen) = (CallPath::Udp, now, now);
        }
    }

    /// Whether nothing but UDP may be used.
    pub const fn is_by_udp_alone(&self) -> bool {
        self.udp && !self.tcp
    }

    /// This end's sound was sent.
    pub fn sent(&mut self, now: LocalTime) {
        if now >= self.sent + PAUSE {
            self.sends = now;
        }
        self.sent = now;
    }

    /// The other end says that nothing came there for a second by the path that is used: whether that counts, as sound was
    /// sent all the while.
    pub fn unheard(&mut self, now: LocalTime) -> bool {
        let sending = now >= self.sends.max(self.chosen) + SILENT && now < self.sent + PAUSE;
        let counts = self.path == CallPath::Udp && sending;
        if counts {
            (self.unheard, self.said) = (true, now);
        }
        counts
    }

    /// By these alone from now on: what is to be done where that leaves out what is used.
    pub fn allow(&mut self, paths: &[CallPath], now: LocalTime) -> Option<PathStep> {
        (self.udp, self.tcp) = (paths.contains(&CallPath::Udp), paths.contains(&CallPath::Tcp));
        match self.path {
            CallPath::Udp if !self.udp && self.tcp => Some(self.go_by(CallPath::Tcp, now)),
            CallPath::Tcp if !self.tcp && self.udp => Some(self.go_by(CallPath::Udp, now)),
            _ => None,
        }
    }

    /// A probe came back.
    pub const fn probe_back(&mut self) {
        if !self.answered {
            self.answered = true;
            self.back += 1;
        }
    }

    /// Lets time pass.
    pub fn poll(&mut self, now: LocalTime) -> Option<PathStep> {
        match self.path {
            CallPath::Udp if self.tcp && (self.unheard || now >= self.heard + SILENT) => {
                let early = self.back > 0 && now < self.chosen + TOO_EARLY;
                self.doubled = if early { (self.doubled + 1).min(MOST_DOUBLED) } else { 0 };
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
            CallPath::Udp if !self.tcp => self.silence(now).map(PathStep::Tell),
            _ => None,
        }
    }

    /// What people are to be told of UDP, where there is nothing else.
    fn silence(&mut self, now: LocalTime) -> Option<SilentWay> {
        if self.unheard && now >= self.said + HEARD_AGAIN {
            (self.unheard, self.told_there) = (false, false);
        }
        if self.unheard && !core::mem::replace(&mut self.told_there, true) {
            return Some(SilentWay::There);
        }
        let silent = now >= self.heard + TOLD_AFTER;
        (silent && !core::mem::replace(&mut self.told_back, true)).then_some(SilentWay::Back)
    }

    fn go_by(&mut self, path: CallPath, now: LocalTime) -> PathStep {
        (self.path, self.heard, self.chosen) = (path, now, now);
        match path {
            CallPath::Tcp => (self.back, self.answered, self.probed) = (0, true, now),
            CallPath::Udp => {
                (self.unheard, self.told_there, self.told_back) = (false, false, false);
            }
        }
        PathStep::Use(path)
    }

    /// When [`Self::poll`] has something to do; [`LocalTime::NEVER`] if nothing.
    pub fn deadline(&self) -> LocalTime {
        match self.path {
            CallPath::Udp if self.tcp && self.unheard => self.chosen,
            CallPath::Udp if self.tcp => self.heard + SILENT,
            CallPath::Tcp if self.udp => self.probed + PROBE_EVERY,
            CallPath::Udp if self.unheard && !self.told_there => self.chosen,
            CallPath::Udp if !self.tcp && !self.told_back => self.heard + TOLD_AFTER,
            _ => LocalTime::NEVER,
        }
    }
}

/// At the end that is called, of one call: whether anything comes by the path that is used. Its caller, who decides, hears
/// nothing of that by itself.
#[derive(Debug)]
pub struct PathSilence {
    /// Packets, and the number of the transport by which they came.
    heard: u64,
    transport: u32,
    since: LocalTime,
}

impl PathSilence {
    /// Nothing came yet.
    pub const fn new(now: LocalTime) -> Self {
        Self { heard: 0, transport: 0, since: now }
    }

    /// So many packets came so far, and this is the number of the transport: whether the caller is to be told that nothing
    /// came for a second, as it is once in each second of that.
    pub fn poll(&mut self, heard: u64, transport: u32, now: LocalTime) -> bool {
        let silent = (heard, transport) == (self.heard, self.transport);
        let tell = silent && now >= self.since + SILENT;
        if tell || !silent {
            *self = Self { heard, transport, since: now };
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [CallPath; 2] = [CallPath::Udp, CallPath::Tcp];

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    /// From `from` to `to`, by beats of 20 ms: whether sound comes by UDP, and whether probes do.
    fn pass(choice: &mut PathChoice, (from, to): (i64, i64), udp: bool) -> Vec<(i64, CallPath)> {
        let mut moved = Vec::new();
        for now in (from..to).step_by(20) {
            if udp || choice.path() == CallPath::Tcp {
                choice.heard(at(now));
            }
            while let Some(step) = choice.poll(at(now)) {
                match step {
                    PathStep::Use(path) => moved.push((now, path)),
                    PathStep::Probe if udp => choice.probe_back(),
                    PathStep::Probe | PathStep::Tell(_) => {}
                }
            }
        }
        moved
    }

    #[test]
    fn sound_moves_to_tcp_when_no_datagram_passes_and_back_when_some_do() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(pass(&mut choice, (0, 5_000), true), []);
        let moved = pass(&mut choice, (5_000, 30_000), false);
        assert_eq!(moved, [(5_980, CallPath::Tcp)], "a second after the last that came");
        let moved = pass(&mut choice, (30_000, 60_000), true);
        assert!(matches!(moved[..], [(30_000..=32_000, CallPath::Udp)]), "{moved:?}");
    }

    #[test]
    fn a_path_that_comes_and_goes_is_returned_to_ever_later() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..4 {
            let left = pass(&mut choice, (now, now + 2_000), false);
            assert_eq!(left.len(), 1, "{left:?}");
            // Probes pass, and sound does not.
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

    /// Ten seconds of sound from `from` on that comes back by UDP, and goes there or not, as probes do; the called end's
    /// word takes 40 ms. `sends` says whether there is anything to send.
    fn one_way(
        choice: &mut PathChoice,
        from: i64,
        there: bool,
        sends: bool,
    ) -> Vec<(i64, CallPath)> {
        let (mut moved, mut word) = (Vec::new(), None);
        let (mut silence, mut came, mut number) = (PathSilence::new(at(from)), 0, 0);
        for now in (from..from + 10_000).step_by(20) {
            choice.heard(at(now));
            if choice.path() == CallPath::Tcp {
                // It came by UDP, while there was no connection yet.
                choice.stay_by_udp(at(now));
            }
            if sends {
                choice.sent(at(now));
            }
            came += u64::from(sends && (there || choice.path() == CallPath::Tcp));
            if silence.poll(came, number, at(now)) {
                word = Some(now + 40);
            }
            if word.take_if(|due| *due <= now).is_some() {
                choice.unheard(at(now));
            }
            while let Some(step) = choice.poll(at(now)) {
                match step {
                    PathStep::Use(path) => {
                        number += 1;
                        moved.push((now - from, path));
                    }
                    PathStep::Probe if there => choice.probe_back(),
                    PathStep::Probe | PathStep::Tell(_) => {}
                }
            }
        }
        moved
    }

    #[test]
    fn sound_that_the_other_end_does_not_hear_moves_to_tcp_and_back_when_it_would() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(one_way(&mut choice, 0, true, true), []);
        let moved = one_way(&mut choice, 10_000, false, true);
        assert_eq!(moved, [(1_040, CallPath::Tcp)], "a second and the way of the word");
        assert_eq!(one_way(&mut choice, 20_000, false, true), [], "it stays there");
        let moved = one_way(&mut choice, 30_000, true, true);
        assert!(matches!(moved[..], [(0..=2_000, CallPath::Udp)]), "{moved:?}");
    }

    #[test]
    fn an_end_that_hears_nothing_because_nothing_is_sent_moves_nothing() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(one_way(&mut choice, 0, false, false), []);
        // The devices of this end ran later than the other end listened.
        choice.sent(at(10_000));
        assert!(!choice.unheard(at(10_200)));
        let mut choice = PathChoice::new(&[CallPath::Udp], at(0));
        assert_eq!(one_way(&mut choice, 0, false, true), [], "there is nothing to move to");
    }

    #[test]
    fn where_nothing_passes_and_udp_alone_may_be_used_people_are_told_once_of_each_way() {
        let mut choice = PathChoice::new(&[CallPath::Udp], at(0));
        // Seconds in which the sound goes there, and comes back.
        let mut told = |seconds: core::ops::Range<i64>, there: bool, back: bool| {
            let mut told = Vec::new();
            for now in (seconds.start * 1_000..seconds.end * 1_000).step_by(20) {
                choice.sent(at(now));
                if back {
                    choice.heard(at(now));
                }
                if !there && now % 1_000 == 0 {
                    choice.unheard(at(now));
                }
                while let Some(step) = choice.poll(at(now)) {
                    told.push((now, step));
                }
            }
            told
        };
        let (there, back) = (PathStep::Tell(SilentWay::There), PathStep::Tell(SilentWay::Back));
        assert_eq!(told(0..10, true, true), []);
        assert_eq!(told(10..20, false, true), [(10_000, there)]);
        assert_eq!(told(20..30, true, false), [(21_980, back)]);
        assert_eq!(told(30..40, true, true), []);
        assert_eq!(told(40..50, false, false), [(40_000, there), (41_980, back)]);
    }

    #[test]
    fn a_path_that_may_be_used_no_more_is_left_at_once_and_not_come_back_to() {
        let mut choice = PathChoice::new(&BOTH, at(0));
        assert_eq!(choice.allow(&BOTH, at(10)), None);
        assert_eq!(choice.allow(&[CallPath::Tcp], at(20)), Some(PathStep::Use(CallPath::Tcp)));
        choice.stay_by_udp(at(30));
        assert_eq!(choice.path(), CallPath::Tcp, "whatever comes by it");
        assert_eq!(pass(&mut choice, (40, 20_000), true), []);
        assert_eq!(choice.allow(&[CallPath::Udp], at(20_000)), Some(PathStep::Use(CallPath::Udp)));
        assert_eq!(pass(&mut choice, (20_000, 40_000), false), []);
        // With both it moves again.
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
