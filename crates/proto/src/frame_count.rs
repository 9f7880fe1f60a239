//! Media time of packets with presentation times instead of frame counts (AVTP).
//!
//! Sequence numbers place packets: their frames follow the previous ones, regardless of their times,
//! whose clock may differ and step. Times only show how often the short numbers wrapped
//! during an outage, and where the talker restarted.
//!
//! During an outage and a pause nothing arrives. After an outage, the number among all 256 matches
//! the time, which is a whole number of packets later, as precisely as before. After a pause, the
//! number continues or restarts, and the times resume anywhere between two packets.
//!
//! Over UDP, packets have two numbers: their own with 8 bits and one with 32 bits before them. The
//! latter carries more, but some talkers leave it at zero or count several streams with it. It is
//! used while it moves in step with the former.

use crate::packet::{PacketHead, PresentationTime, Presented, StreamId};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

/// Frame counter of the playing stream.
#[derive(Debug, Clone)]
pub struct FrameCounter {
    tolerance: Span,
    heard: Option<CountedPacket>,
    /// Packet that does not follow, pending the next one.
    doubted: Option<CountedPacket>,
}

/// A packet and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedPacket {
    stream: StreamId,
    number: Wrapped,
    /// Carried 32-bit number, and the packet's own.
    carried: Wrapped,
    own: Wrapped,
    /// Whether the carried number moves in step with the own one.
    in_step: bool,
    restarts: bool,
    frames: Frames,
    media: i64,
    /// Last presentation time, its frame, and its arrival: some streams carry times sparsely.
    told: Option<(PresentationTime, i64, LocalTime)>,
    /// Recent distance of the times from the positions by number.
    uneven: Span,
    sequel: Sequel,
}

/// Relation of a packet to the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// Continues; packets missing by number are lost.
    GoesOn,
    /// The talker paused or restarted, by number and time: nothing is lost between.
    Anew,
    /// Like `Anew`, and announced by the talker (`mr`) with a time as far ahead as before. A single
    /// false packet thus cuts no sound.
    SaidAnew,
}

impl CountedPacket {
    /// Media time of the first frame, as packets carry it.
    pub const fn media(&self) -> Wrapped {
        Wrapped::of(self.media, 32)
    }

    /// Sequence number: the carried one. If that does not count the stream's packets, derived from
    /// its own number and time.
    pub const fn number(&self) -> Wrapped {
        self.number
    }

    pub(crate) const fn sequel(&self) -> Sequel {
        self.sequel
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Number and time, if any, agree up to this distance.
    Agreed(i64, Span),
    /// They do not: position by time.
    Astray(i64),
}

/// Distance between packets by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    packets: i64,
    /// Width of the number used, after which it wraps.
    bits: u32,
    /// Whether the carried number still moves in step with the own one.
    in_step: bool,
}

impl FrameCounter {
    /// Default maximum distance of a presentation time from the position by number; beyond it the
    /// talker restarted. Less than the doubt limit of a [source](crate::source), more than the
    /// steps of disciplined clocks.
    pub(crate) const TOLERANCE: Span = Span::from_millis(20);
    /// Maximum error of times used to distinguish an outage from a pause: talkers round them, and
    /// some use their wake-up times.
    const NEAR: Span = Span::from_millis(1);
    /// Divisor of an outage: maximum drift between the sound's clock and the times' clock.
    const DRIFT: i64 = 2000;
    /// Divisor of the number's range: if times err by more, numbers cannot distinguish outage and
    /// pause, because one may match by chance.
    const CHANCE: i64 = 16;

    /// Creates a counter with this tolerance for presentation times (default `Self::TOLERANCE`).
    pub const fn new(tolerance: Span) -> Self {
        Self { tolerance, heard: None, doubted: None }
    }

    /// Position of a packet of `frames` frames that arrived at `arrival`.
    pub fn count(
        &mut self,
        head: &PacketHead,
        presented: &Presented,
        frames: Frames,
        rate: Rate,
        arrival: LocalTime,
    ) -> CountedPacket {
        let this = CountedPacket {
            stream: head.stream,
            number: head.number,
            carried: head.number,
            own: Wrapped::of(presented.number.into(), 8),
            in_step: true,
            restarts: presented.restarts,
            frames,
            media: 0,
            told: presented.time.map(|time| (time, 0, arrival)),
            uneven: Span::ZERO,
            sequel: Sequel::GoesOn,
        };
        let after = |before: Option<CountedPacket>| {
            let before = before.filter(|before| before.stream == head.stream)?;
            let (follows, steps) = before.follows(&this, rate, self.tolerance);
            Some((follows, steps, before))
        };
        let (heard, doubted) = (after(self.heard), after(self.doubted));
        let (media, off, before) = match (heard, doubted) {
            (Some((Follows::Agreed(media, off), steps, before)), _)
            | (_, Some((Follows::Agreed(media, off), steps, before))) => {
                (media, off, Some((steps, before)))
            }
            // A restarted talker may number differently than before.
            (Some((Follows::Astray(media), steps, before)), _)
            | (None, Some((Follows::Astray(media), steps, before))) => {
                (media, Span::ZERO, Some((Steps { in_step: true, ..steps }, before)))
            }
            (None, None) => (0, Span::ZERO, None),
        };
        let number = before
            .map_or(head.number, |(Steps { packets, .. }, before)| before.number.plus(packets));
        let (in_step, before) =
            (before.is_none_or(|(steps, _)| steps.in_step), before.map(|(_, before)| before));
        let own = presented.time.map(|time| (time, media, arrival));
        let told = own.or(before.and_then(|before| before.told));
        let uneven = before.map_or(off, |before| before.uneven_with(off));
        let sequel = match (heard, self.heard) {
            (Some((Follows::Astray(_), ..)), Some(heard))
                if heard.restarts != this.restarts && heard.leads_alike(&this, self.tolerance) =>
            {
                Sequel::SaidAnew
            }
            (Some((Follows::Astray(_), ..)), _) => Sequel::Anew,
            _ => Sequel::GoesOn,
        };
        let counted = CountedPacket { number, in_step, media, told, uneven, sequel, ..this };
        if !matches!(heard, Some((Follows::Agreed(..), ..))) {
            self.doubted = Some(counted);
        }
        counted
    }

    /// Records an admitted packet; if it is the newest, later ones count from it.
    pub fn follow(&mut self, packet: CountedPacket) {
        let newer = |heard: &CountedPacket| {
            heard.stream != packet.stream
                || heard.media < packet.media
                || packet.sequel != Sequel::GoesOn
        };
        if self.heard.as_ref().is_none_or(newer) {
            self.heard = Some(packet);
            self.doubted = None;
        }
    }

    /// Accepts another stream, from any position.
    pub fn forget(&mut self) {
        *self = Self::new(self.tolerance);
    }
}

impl CountedPacket {
    /// Uses the carried number, or the own one if they are not in step.
    fn steps_to(&self, next: &Self) -> Steps {
        let ahead = |from: Wrapped, to: Wrapped| {
            Unwrapper::starting_at(from).peek(to.value) - i64::from(from.value)
        };
        let (carried, own) = (ahead(self.carried, next.carried), ahead(self.own, next.own));
        let in_step = self.in_step && Wrapped::of(carried - own, self.own.bits).value == 0;
        match in_step {
            true => Steps { packets: carried, bits: next.carried.bits, in_step },
            false => Steps { packets: own, bits: next.own.bits, in_step },
        }
    }

    fn follows(&self, next: &Self, rate: Rate, tolerance: Span) -> (Follows, Steps) {
        let steps = self.steps_to(next);
        let by_number = match steps.packets {
            ahead @ 1.. => self.media + self.frames.count() + (ahead - 1) * next.frames.count(),
            behind => self.media + behind * next.frames.count(),
        };
        let (Some((before, at, came)), Some((time, _, arrived))) = (self.told, next.told) else {
            return (Follows::Agreed(by_number, Span::ZERO), steps);
        };
        let passed = arrived - came;
        let since = Self::unwrapped(time.since(before), passed);
        let by_time = at + rate.frames_nearest(since).count();
        let off = |media: i64| rate.span_of(Frames::new(by_time - media)).abs();
        let drift = passed.abs().divided(FrameCounter::DRIFT);
        let frame = rate.span_of(Frames::new(1));
        let near = FrameCounter::NEAR.min(self.uneven.times(2)) + frame + drift;
        // A delayed older packet has the older flag.
        if self.restarts != next.restarts && by_time > self.media && off(by_number) > near {
            return (Follows::Astray(by_time), steps);
        }
        let round = next.frames.count() << steps.bits.min(32);
        let rounds = (by_time - by_number + round / 2).div_euclid(round);
        if rounds != 0 {
            let rounded = by_number + rounds * round;
            let tells = near < rate.span_of(Frames::new(round)).divided(FrameCounter::CHANCE);
            let packets = steps.packets + (rounds << steps.bits.min(32));
            return match tells && off(rounded) <= near {
                true => (Follows::Agreed(rounded, off(rounded)), Steps { packets, ..steps }),
                false => (Follows::Astray(by_time), steps),
            };
        }
        // During a clock step packets keep arriving, during a pause they do not.
        let waited = |media: i64| (passed - rate.span_of(Frames::new(media - at))).abs();
        let paused = steps.packets != 1
            && off(by_number) > FrameCounter::NEAR.min(tolerance) + drift
            && waited(by_time) < waited(by_number);
        let follows = match paused || off(by_number) > tolerance + drift {
            true => Follows::Astray(by_time),
            false => Follows::Agreed(by_number, off(by_number)),
        };
        (follows, steps)
    }

    /// Whether the time from arrival to presentation equals this packet's.
    fn leads_alike(&self, next: &Self, tolerance: Span) -> bool {
        let (Some((before, _, came)), Some((time, _, arrived))) = (self.told, next.told) else {
            return false;
        };
        let passed = arrived - came;
        let led = Self::unwrapped(time.since(before), passed) - passed;
        led.abs() <= tolerance + passed.abs().divided(FrameCounter::DRIFT)
    }

    /// Recent error of times, updated with this one.
    fn uneven_with(&self, off: Span) -> Span {
        (self.uneven - self.uneven.divided(256)).max(off.min(FrameCounter::NEAR))
    }

    /// Times wrap every 4.295 s: returns the one nearest to the elapsed time.
    fn unwrapped(since: Span, passed: Span) -> Span {
        const ROUND: i64 = 1 << 32;
        let rounds = ((passed - since).as_nanos() + ROUND / 2).div_euclid(ROUND);
        since + Span::from_nanos(rounds * ROUND)
    }
}

#[cfg(test)]
mod tests;
