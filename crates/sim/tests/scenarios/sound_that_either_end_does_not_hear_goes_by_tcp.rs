//! Under test: by what the sound of a call goes where datagrams pass one way alone, and the caller, who decides, may hear
//! all the while.

use tautline_proto::call::path::{PathChoice, PathSilence, PathStep};
use tautline_proto::call::terms::CallPath;
use tautline_proto::time::{LocalTime, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Jitter, Path, PathModel};

const SECOND: i64 = 1_000_000_000;
/// From packet to packet, and from look to look.
const STEP: i64 = 20_000_000;
const BYTES: usize = 300;
/// Nothing passes from here to there.
const CUT: (i64, i64) = (10 * SECOND, 30 * SECOND);

/// Messages under way, each with when it comes.
struct UnderWay<T>(Vec<(i64, T)>);

impl<T> UnderWay<T> {
    fn come(&mut self, now: i64) -> Vec<T> {
        let (due, rest) = core::mem::take(&mut self.0).into_iter().partition(|(at, _)| *at <= now);
        self.0 = rest;
        let due: Vec<(i64, T)> = due;
        due.into_iter().map(|(_, message)| message).collect()
    }
}

/// One end: the transport that is used there, and what came by it.
struct End {
    by: (CallPath, u32),
    coming: UnderWay<u32>,
    came: u64,
    last: i64,
    longest: i64,
}

impl End {
    const fn new() -> Self {
        let coming = UnderWay(Vec::new());
        Self { by: (CallPath::Udp, 0), coming, came: 0, last: 0, longest: 0 }
    }

    /// Sends a packet to the other end by what is used here.
    fn send(&self, path: &mut Path, (now, way): (i64, i64), to: &mut Self) {
        let coming = &mut to.coming.0;
        match self.by {
            (CallPath::Tcp, number) => coming.push((now + way, number)),
            (CallPath::Udp, number) => path.carry(BYTES, TrueTime::from_nanos(now), |at| {
                coming.push((at.as_nanos(), number));
            }),
        }
    }

    /// Whether anything came by the transport that is used here: what others bring is sealed by other keys.
    fn hears(&mut self, now: i64) -> bool {
        let came = self.coming.come(now).into_iter().filter(|number| *number == self.by.1).count();
        if came > 0 {
            self.longest = self.longest.max(now - self.last);
            (self.came, self.last) = (self.came + came as u64, now);
        }
        came > 0
    }
}

/// A minute: the longest silence at the end that is called and at the caller, and when the sound moved to what.
fn minute(cut: [bool; 2], way: Span, seed: u64) -> ([Span; 2], Vec<(i64, CallPath)>) {
    let path = |cut: bool, seed| {
        let outage = (TrueTime::from_nanos(CUT.0), TrueTime::from_nanos(CUT.1));
        let outages = if cut { vec![outage] } else { Vec::new() };
        let jitter = Jitter::Uniform(Span::from_millis(20));
        Path::new(PathModel { outages, jitter, ..PathModel::ideal(way) }, seed)
    };
    let (mut there, mut back) = (path(cut[0], seed), path(cut[1], seed + 1));
    let (mut called, mut caller) = (End::new(), End::new());
    let mut choice = PathChoice::new(&[CallPath::Udp, CallPath::Tcp], LocalTime::ZERO);
    let mut silence = PathSilence::new(LocalTime::ZERO);
    let (mut words, mut shown, mut probes) =
        (UnderWay(Vec::new()), UnderWay(Vec::new()), UnderWay(Vec::new()));
    let (mut connected, mut moved, way) = (None, Vec::new(), way.as_nanos());
    for now in (0..60 * SECOND).step_by(STEP as usize) {
        let at = LocalTime::ZERO + Span::from_nanos(now);
        caller.send(&mut there, (now, way), &mut called);
        called.send(&mut back, (now, way), &mut caller);
        choice.sent(at);
        // The end that is called uses what it is shown, and says what it does not hear.
        shown.come(now).into_iter().for_each(|by| called.by = by);
        called.hears(now);
        let silent = silence.poll(called.came, called.by.1, at);
        if silent && called.by.0 == CallPath::Udp {
            words.0.push((now + way, called.by.1));
        }
        // The caller hears, and decides.
        if caller.hears(now) {
            choice.heard(at);
            if caller.by.0 == CallPath::Udp && choice.path() == CallPath::Tcp {
                choice.stay_by_udp(at);
            }
        }
        for number in words.come(now) {
            if caller.by == (CallPath::Udp, number) {
                choice.unheard(at);
            }
        }
        probes.come(now).into_iter().for_each(|()| choice.probe_back());
        if choice.path() == CallPath::Udp {
            connected = None;
        }
        let mut uses = None;
        match choice.poll(at) {
            // A round trip until it is made.
            Some(PathStep::Use(CallPath::Tcp)) => connected = Some(now + 2 * way),
            Some(PathStep::Use(CallPath::Udp)) => uses = Some(CallPath::Udp),
            Some(PathStep::Probe) => {
                there.carry(BYTES, TrueTime::from_nanos(now), |at| {
                    back.carry(BYTES, at, |at| probes.0.push((at.as_nanos(), ())));
                });
            }
            Some(PathStep::Tell(_)) => panic!("there is another path"),
            None => {}
        }
        if connected.take_if(|made| *made <= now).is_some() {
            uses = Some(CallPath::Tcp);
        }
        if let Some(path) = uses {
            caller.by = (path, caller.by.1 + 1);
            shown.0.push((now + way, caller.by));
            moved.push((now, path));
        }
    }
    ([called.longest, caller.longest].map(Span::from_nanos), moved)
}

#[test]
fn sound_that_either_end_does_not_hear_goes_by_tcp_within_a_second_and_five_ways() {
    for (seed, cut) in (0..).zip([[true, false], [false, true], [true, true]]) {
        for way in [1, 20, 80, 150].map(Span::from_millis) {
            let (silences, moved) = minute(cut, way, 100 * seed);
            let told = format!("{cut:?}, {way} each way: {silences:?}, {moved:?}");
            let paths: Vec<_> = moved.iter().map(|(_, path)| *path).collect();
            assert_eq!(paths, [CallPath::Tcp, CallPath::Udp], "{told}");
            assert!(moved[0].0 < CUT.1, "not in the cut: {told}");
            // Three probes in a row, half a second between two.
            let back = Span::from_nanos(moved[1].0 - CUT.1);
            assert!(back > Span::ZERO && back <= Span::from_millis(2_000) + way.times(2), "{told}");
            // The word of it, a round trip of TCP, and the sound or the ticket; steps and jitter.
            let enough = Span::from_secs(1) + way.times(5) + Span::from_millis(100);
            assert!(silences.iter().all(|silence| *silence <= enough), "{told}");
            let again = minute(cut, way, 100 * seed);
            assert_eq!(again, (silences, moved), "{told}");
        }
    }
    let none = minute([false; 2], Span::from_millis(80), 1);
    assert_eq!(none.1, [], "{none:?}");
}
