//! Begin of a server's cycles, and frames skipped.
//!
//! `jack_get_cycle_times` filters wake-ups with a loop and counts frames, which reveals missed
//! cycles. But it takes ten seconds to follow an xrun; our own loop is used meanwhile (decision
//! 15).

use std::f64::consts::{SQRT_2, TAU};

use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

/// Bandwidth of the loop in Hz, as in JACK.
const BANDWIDTH: f64 = 0.125;
/// Maximum delay of a wake-up that counts. Wake-ups are never early.
const LATEST: Span = Span::from_micros(200);
/// For this time after a restart, an earlier wake-up counts immediately.
const BEGINNING: Span = Span::from_secs(1);
/// Consecutive late wake-ups that prove a move, by the earliest.
const MOVED: Suspicion = Suspicion { cycles: 8, minimum: Span::from_micros(250) };
const MOVED_BY_XRUN: Suspicion = Suspicion { cycles: 3, minimum: Span::from_micros(100) };
/// Maximum distance of the server's loop. It is accepted again after a second below this.
const JOINED: Span = Span::from_micros(30);
const LONGEST_GAP: Span = Span::from_secs(60);
const AVERAGED: i64 = 256;

#[derive(Debug, Clone, Copy)]
pub(crate) struct CycleTimes {
    pub(crate) began: LocalTime,
    pub(crate) woke: LocalTime,
    /// Server's frame count, modulo 2³².
    pub(crate) count: u32,
    pub(crate) frames: Frames,
    pub(crate) trouble: CycleFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CycleFault {
    None,
    Xrun,
    Break,
}

#[derive(Debug, Clone, Copy)]
struct Suspicion {
    cycles: u32,
    minimum: Span,
}

impl Suspicion {
    const NONE: Self = Self { cycles: 0, minimum: Span::MAX };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) at: LocalTime,
    pub(crate) uncertainty: Span,
    pub(crate) skipped: Frames,
}

#[derive(Debug, Clone)]
pub(crate) struct CycleClock {
    rate: Rate,
    count: Option<u32>,
    own: Option<Loop>,
    suspicion: Suspicion,
    xrun: u32,
    jitter: Span,
}

impl CycleClock {
    pub(crate) fn new(rate: Rate) -> Self {
        let (suspicion, jitter) = (Suspicion::NONE, Span::ZERO);
        Self { rate, count: None, own: None, suspicion, xrun: 0, jitter }
    }

    pub(crate) fn begin(&mut self, reported: CycleTimes) -> Begun {
        let length = self.rate.span_of(reported.frames);
        let behind = self.rate.span_of(self.behind(reported.count));
        let due = self.own.map_or(reported.began - behind, |own| own.expected(reported.woke));
        let error = reported.woke - due;
        let moved = match (self.count, reported.trouble) {
            (None, _) => Some(error).filter(|error| *error > MOVED.minimum),
            (_, CycleFault::Break) if error > length => Some(error),
            (_, trouble) => self.moved_by(error, trouble == CycleFault::Xrun),
        };
        let mut begun = Begun { at: due, uncertainty: self.jitter, skipped: Frames::ZERO };
        if let Some(by) = moved {
            begun = self.move_by(by, begun, &reported);
        } else {
            self.jitter += (error.abs().min(LATEST) - self.jitter).divided(AVERAGED);
        }
        let next = if moved.is_some() { None } else { self.count }.unwrap_or(reported.count);
        self.count = Some(next.wrapping_add(reported.frames.count() as u32));
        if let Some(own) = &mut self.own {
            own.pass(begun.at, (reported.woke - begun.at).min(LATEST), length);
            let near = (begun.at - reported.began).abs() < JOINED;
            own.near = if near { own.near + length } else { Span::ZERO };
            if own.near > BEGINNING {
                self.count = Some(reported.count.wrapping_add(reported.frames.count() as u32));
                self.own = None;
            }
        }
        begun
    }

    fn move_by(&mut self, by: Span, begun: Begun, reported: &CycleTimes) -> Begun {
        let at = begun.at + by;
        let server_is_right = (reported.began - at).abs() < MOVED_BY_XRUN.minimum;
        let at = if server_is_right { reported.began } else { at };
        self.own = if server_is_right { None } else { Some(Loop::from(at)) };
        let skipped = match self.count {
            Some(_) => self.rate.frames_nearest(at - begun.at).max(Frames::ZERO),
            None => Frames::ZERO,
        };
        Begun { at, skipped, ..begun }
    }

    fn behind(&self, count: u32) -> Frames {
        let ahead = count.wrapping_sub(self.count.unwrap_or(count)).cast_signed();
        let ahead = Frames::new(i64::from(ahead));
        let longest = self.rate.frames_within(LONGEST_GAP).count();
        if ahead.count().abs() > longest { Frames::ZERO } else { ahead }
    }

    fn moved_by(&mut self, error: Span, xrun: bool) -> Option<Span> {
        self.xrun = if xrun { 2 * MOVED_BY_XRUN.cycles } else { self.xrun.saturating_sub(1) };
        let enough = if self.xrun > 0 { MOVED_BY_XRUN } else { MOVED };
        let Suspicion { cycles, minimum } = self.suspicion;
        self.suspicion = match error > enough.minimum {
            true if error < minimum - enough.minimum => Suspicion { cycles: 1, minimum: error },
            true => Suspicion { cycles: cycles + 1, minimum: minimum.min(error) },
            false => Suspicion::NONE,
        };
        if error < -MOVED.minimum {
            return Some(error);
        }
        if self.suspicion.cycles < enough.cycles {
            return None;
        }
        Some(std::mem::replace(&mut self.suspicion, Suspicion::NONE).minimum)
    }
}

/// DLL after F. Adriaensen, *Using a DLL to filter time* (2005).
#[derive(Debug, Clone, Copy)]
struct Loop {
    due: LocalTime,
    rest: f64,
    drift: f64,
    age: Span,
    near: Span,
}

impl Loop {
    fn from(due: LocalTime) -> Self {
        Self { due, rest: 0.0, drift: 0.0, age: Span::ZERO, near: Span::ZERO }
    }

    fn expected(&self, woke: LocalTime) -> LocalTime {
        if self.age < BEGINNING { self.due.min(woke) } else { self.due }
    }

    fn pass(&mut self, at: LocalTime, late: Span, length: Span) {
        let nominal = length.as_nanos().max(1) as f64;
        let error = late.as_nanos() as f64;
        let omega = TAU * BANDWIDTH * nominal / 1e9;
        let next = nominal * (1.0 + self.drift) + SQRT_2 * omega * error + self.rest;
        self.drift += omega * omega * error / nominal;
        self.rest = next - next.floor();
        self.due = at + Span::from_nanos(next.floor() as i64);
        self.age += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Frames = Frames::new(48);
    const MILLI: Span = Span::from_millis(1);

    struct Server {
        clock: CycleClock,
        own: Loop,
        count: u32,
    }

    impl Server {
        fn new(start: LocalTime) -> Self {
            let count = u32::MAX - 100;
            Self { clock: CycleClock::new(Rate::HZ_48000), own: Loop::from(start), count }
        }

        fn cycle(&mut self, woke: LocalTime, frames: Frames, xrun: bool) -> Begun {
            let began = self.own.due;
            self.skip(woke, frames);
            let count = self.count.wrapping_sub(frames.count() as u32);
            let trouble = if xrun { CycleFault::Xrun } else { CycleFault::None };
            self.clock.begin(CycleTimes { began, woke, count, frames, trouble })
        }

        fn skip(&mut self, woke: LocalTime, frames: Frames) {
            let due = self.own.due;
            self.own.pass(due, woke - due, Rate::HZ_48000.span_of(frames));
            self.count = self.count.wrapping_add(frames.count() as u32);
        }
    }

    fn lateness(cycle: i64) -> Span {
        Span::from_micros((cycle * 2_654_435_761 % 1009).rem_euclid(64))
    }

    #[test]
    fn in_good_times_the_server_is_believed() {
        let start = LocalTime::from_nanos(5_000_000_000);
        let mut server = Server::new(start);
        for cycle in 0..10_000 {
            let (due, began) = (start + MILLI.times(cycle), server.own.due);
            let late = if cycle % 500 == 499 { Span::from_micros(900) } else { lateness(cycle) };
            let begun = server.cycle(due + late, PERIOD, false);
            assert_eq!((begun.at, begun.skipped), (began, Frames::ZERO));
            let unsure = begun.uncertainty;
            assert!(cycle < 2000 || unsure > Span::from_micros(10), "{unsure}");
            assert!(unsure < Span::from_micros(40), "{unsure}");
        }
    }

    #[test]
    fn xrun_gap_is_reported_and_time_stays_right() {
        let (mut server, mut start) = (Server::new(LocalTime::ZERO), LocalTime::ZERO);
        let (mut worst, mut parted, mut skipped) = (Span::ZERO, 0, Frames::ZERO);
        for cycle in 0..30_000 {
            let disturbed = cycle == 1000;
            if disturbed {
                start += Span::from_millis(10);
            }
            let due = start + MILLI.times(cycle);
            worst = worst.max((server.own.due - due).abs());
            let begun = server.cycle(due + lateness(cycle), PERIOD, disturbed);
            skipped += begun.skipped;
            let early = due - begun.at;
            assert!(
                (1000..1002).contains(&cycle) || early.abs() < Span::from_micros(100),
                "{early}"
            );
            parted += u32::from(server.clock.own.is_some());
        }
        assert!((478..=482).contains(&skipped.count()), "{skipped}");
        assert!((5000..20_000).contains(&parted), "for {parted} cycles");
        assert!(worst > Span::from_millis(9), "the server's own loop lags: {worst}");
    }

    #[test]
    fn cycles_without_a_call_are_reported_in_frames() {
        let mut server = Server::new(LocalTime::ZERO);
        for cycle in 0..100 {
            let due = LocalTime::ZERO + MILLI.times(cycle);
            if (50..53).contains(&cycle) {
                server.skip(due, PERIOD);
                continue;
            }
            let begun = server.cycle(due, PERIOD, cycle == 53);
            assert_eq!(begun.skipped.count(), if cycle == 55 { 144 } else { 0 });
            let behind = if [53, 54].contains(&cycle) { MILLI.times(3) } else { Span::ZERO };
            assert!((begun.at + behind - due).abs() < Span::from_micros(1), "{cycle}");
        }
        assert!(server.clock.own.is_none(), "the server knew all the time");
    }

    #[test]
    fn cycles_that_are_made_up_for_are_not_left_out() {
        let mut clock = CycleClock::new(Rate::HZ_48000);
        // JACK2 calls an unfinished client again for each missed cycle.
        let cycles = [0, 1, 2, 3, 9, 9, 9, 9, 9, 9, 9, 10, 11, 12, 13, 14];
        for (number, cycle) in (0..).zip(cycles) {
            let woke = LocalTime::ZERO + MILLI.times(cycle);
            let trouble = if cycle == 9 { CycleFault::Xrun } else { CycleFault::None };
            let count = 48 * cycle as u32;
            let reported = CycleTimes { began: woke, woke, count, frames: PERIOD, trouble };
            let begun = clock.begin(reported);
            assert_eq!(begun.skipped, Frames::ZERO, "{number}");
            let due = LocalTime::ZERO + MILLI.times(number.min(cycle));
            assert_eq!(begun.at, due, "{number}");
        }
    }

    #[test]
    fn unreported_xrun_is_detected_after_eight_cycles() {
        let mut server = Server::new(LocalTime::ZERO);
        let reported: Vec<i64> = (0..40)
            .map(|cycle| {
                let moved = if cycle < 10 { Span::ZERO } else { Span::from_millis(3) };
                let woke = LocalTime::ZERO + MILLI.times(cycle) + moved;
                server.cycle(woke, PERIOD, false).skipped.count()
            })
            .collect();
        assert!((140..=144).contains(&reported[17]), "{reported:?}");
        assert_eq!(reported.iter().sum::<i64>(), reported[17]);
    }

    #[test]
    fn a_late_wake_up_beside_an_xrun_leaves_nothing_out() {
        let mut server = Server::new(LocalTime::ZERO);
        for cycle in 0..20 {
            let disturbed = cycle == 10;
            let late = if disturbed { Span::from_millis(8) } else { Span::ZERO };
            let length = Frames::new(1024);
            let due = LocalTime::ZERO + Rate::HZ_48000.span_of(Frames::new(1024 * cycle));
            let begun = server.cycle(due + late, length, disturbed);
            assert_eq!(begun.skipped, Frames::ZERO);
            assert!((begun.at - due).abs() < MOVED.minimum, "{cycle}");
        }
    }

    #[test]
    fn client_that_joins_with_wrong_times_is_right_immediately() {
        let mut server = Server::new(LocalTime::ZERO);
        for cycle in 0..500 {
            let due = LocalTime::ZERO + Span::from_millis(7) + MILLI.times(cycle);
            let begun = server.cycle(due, PERIOD, false);
            assert_eq!(begun.skipped, Frames::ZERO);
            assert!((begun.at - due).abs() < Span::from_micros(1), "{cycle}");
        }
    }

    #[test]
    fn cycles_of_any_length_are_followed() {
        let mut due = LocalTime::from_nanos(77);
        let mut server = Server::new(due);
        for cycle in 0..300 {
            let frames = Frames::new([16, 48, 1024, 333][cycle % 4]);
            let begun = server.cycle(due, frames, false);
            assert_eq!(begun.skipped, Frames::ZERO);
            assert!((begun.at - due).abs() < Span::from_micros(1), "{cycle}");
            due += Rate::HZ_48000.span_of(frames);
        }
    }

    #[test]
    fn restarted_count_omits_nothing() {
        let mut server = Server::new(LocalTime::ZERO);
        server.cycle(LocalTime::ZERO, PERIOD, false);
        server.count -= 1000;
        let begun = server.cycle(LocalTime::ZERO + MILLI, PERIOD, false);
        assert_eq!(begun.skipped, Frames::ZERO);
    }
}
