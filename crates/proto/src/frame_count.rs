//! Media time of packets with presentation times instead of frame counts (AVTP).
//!
//! Sequence numbers determine positions. Times may drift and step; they show how often short
//! numbers wrapped in an outage, and restarts of the talker. After an outage, one of the 256
//! numbers matches the time. After a pause, the times resume between two packets.
//!
//! Over UDP, packets also carry a 32-bit number for longer outages. It is used while it moves in
//! step with the packet's own number.

use crate::packet::{PacketHead, PresentationTime, Presented, StreamId};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

/// Frame counter of a stream.
#[derive(Debug, Clone)]
pub struct FrameCounter {
    tolerance: Span,
    received: Option<CountedPacket>,
    /// Doubted packet; the next one decides.
    doubted: Option<CountedPacket>,
}

/// A packet and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedPacket {
    stream: StreamId,
    number: Wrapped,
    carried: Wrapped,
    own: Wrapped,
    in_step: bool,
    restarts: bool,
    frames: Frames,
    media: i64,
    /// Presentation time, frame and arrival. Some packets have no presentation time.
    reported: Option<(PresentationTime, i64, LocalTime)>,
    /// Recent error of the times.
    uneven: Span,
    sequel: Sequel,
}

/// Relation of a packet to previous packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// Continues; missing packets are lost.
    GoesOn,
    /// After a pause or restart; nothing is lost.
    Anew,
    /// Announced restart (`mr`) with an equal lead, so a false packet cuts no sound.
    SaidAnew,
}

impl CountedPacket {
    /// Media time of the first frame.
    pub const fn media(&self) -> Wrapped {
        Wrapped::of(self.media, 32)
    }

    /// The carried number if in step, otherwise derived from own number and time.
    pub const fn number(&self) -> Wrapped {
        self.number
    }

    pub(crate) const fn sequel(&self) -> Sequel {
        self.sequel
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Number and time agree to this span.
    Agreed(i64, Span),
    /// They disagree; the position is from the time.
    Astray(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    packets: i64,
    bits: u32,
    in_step: bool,
}

impl FrameCounter {
    /// Default tolerance of a presentation time; beyond it the talker restarted. Exceeds the steps
    /// of disciplined clocks.
    pub(crate) const TOLERANCE: Span = Span::from_millis(20);
    /// Maximum error of times that tell an outage from a pause.
    const NEAR: Span = Span::from_millis(1);
    /// Divisor of the outage: maximum drift of the two clocks.
    const DRIFT: i64 = 2000;
    /// Divisor of the number's range. Beyond this part of the range, numbers match by chance.
    const CHANCE: i64 = 16;

    /// Creates a counter; the default of `tolerance` is `Self::TOLERANCE`.
    pub const fn new(tolerance: Span) -> Self {
        Self { tolerance, received: None, doubted: None }
    }

    /// Position of a packet.
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
            reported: presented.time.map(|time| (time, 0, arrival)),
            uneven: Span::ZERO,
            sequel: Sequel::GoesOn,
        };
        let after = |before: Option<CountedPacket>| {
            let before = before.filter(|before| before.stream == head.stream)?;
            let (follows, steps) = before.follows(&this, rate, self.tolerance);
            Some((follows, steps, before))
        };
        let (received, doubted) = (after(self.received), after(self.doubted));
        let (media, off, before) = match (received, doubted) {
            (Some((Follows::Agreed(media, off), steps, before)), _)
            | (_, Some((Follows::Agreed(media, off), steps, before))) => {
                (media, off, Some((steps, before)))
            }
            // A restarted talker may renumber.
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
        let reported = own.or(before.and_then(|before| before.reported));
        let uneven = before.map_or(off, |before| before.uneven_with(off));
        let sequel = match (received, self.received) {
            (Some((Follows::Astray(_), ..)), Some(received))
                if received.restarts != this.restarts
                    && received.leads_alike(&this, self.tolerance) =>
            {
                Sequel::SaidAnew
            }
            (Some((Follows::Astray(_), ..)), _) => Sequel::Anew,
            _ => Sequel::GoesOn,
        };
        let counted = CountedPacket { number, in_step, media, reported, uneven, sequel, ..this };
        if !matches!(received, Some((Follows::Agreed(..), ..))) {
            self.doubted = Some(counted);
        }
        counted
    }

    /// Records an admitted packet.
    pub fn follow(&mut self, packet: CountedPacket) {
        let newer = |received: &CountedPacket| {
            received.stream != packet.stream
                || received.media < packet.media
                || packet.sequel != Sequel::GoesOn
        };
        if self.received.as_ref().is_none_or(newer) {
            self.received = Some(packet);
            self.doubted = None;
        }
    }

    /// Resets for another stream.
    pub fn forget(&mut self) {
        *self = Self::new(self.tolerance);
    }
}

impl CountedPacket {
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
        let (Some((before, at, arrived_before)), Some((time, _, arrived))) =
            (self.reported, next.reported)
        else {
            return (Follows::Agreed(by_number, Span::ZERO), steps);
        };
        let passed = arrived - arrived_before;
        let since = Self::unwrapped(time.since(before), passed);
        let by_time = at + rate.frames_nearest(since).count();
        let off = |media: i64| rate.span_of(Frames::new(by_time - media)).abs();
        let drift = passed.abs().divided(FrameCounter::DRIFT);
        let frame = rate.span_of(Frames::new(1));
        let near = FrameCounter::NEAR.min(self.uneven.times(2)) + frame + drift;
        // Delayed packets have the older flag.
        if self.restarts != next.restarts && by_time > self.media && off(by_number) > near {
            return (Follows::Astray(by_time), steps);
        }
        let round = next.frames.count() << steps.bits.min(32);
        let rounds = (by_time - by_number + round / 2).div_euclid(round);
        if rounds != 0 {
            let rounded = by_number + rounds * round;
            let notifies = near < rate.span_of(Frames::new(round)).divided(FrameCounter::CHANCE);
            let packets = steps.packets + (rounds << steps.bits.min(32));
            return match notifies && off(rounded) <= near {
                true => (Follows::Agreed(rounded, off(rounded)), Steps { packets, ..steps }),
                false => (Follows::Astray(by_time), steps),
            };
        }
        // Packets keep arriving during a clock step, not during a pause.
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

    /// Whether both packets have the same lead of presentation over arrival.
    fn leads_alike(&self, next: &Self, tolerance: Span) -> bool {
        let (Some((before, _, arrived_before)), Some((time, _, arrived))) =
            (self.reported, next.reported)
        else {
            return false;
        };
        let passed = arrived - arrived_before;
        let led = Self::unwrapped(time.since(before), passed) - passed;
        led.abs() <= tolerance + passed.abs().divided(FrameCounter::DRIFT)
    }

    fn uneven_with(&self, off: Span) -> Span {
        (self.uneven - self.uneven.divided(256)).max(off.min(FrameCounter::NEAR))
    }

    /// Times wrap every 4.295 s.
    fn unwrapped(since: Span, passed: Span) -> Span {
        const ROUND: i64 = 1 << 32;
        let rounds = ((passed - since).as_nanos() + ROUND / 2).div_euclid(ROUND);
        since + Span::from_nanos(rounds * ROUND)
    }
}

#[cfg(test)]
mod tests;
