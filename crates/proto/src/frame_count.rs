//! Media time of packets that say when they are to be presented, and count no frames (AVTP).
//!
//! By their numbers: the frames of one follow those of the one before, whatever its time says, which is of
//! another clock than the sound's and may be stepped. Times tell only what so few bits cannot, how often
//! the numbers came round in an outage, and where the talker began anew.
//!
//! An outage and a pause look alike, as nothing comes in either. What tells them apart is that a talker which
//! goes on unheard goes on numbering: after an outage the number is, of all 256, the one that the time asks for, and
//! the time is a whole number of packets on, as near as its times ever were. After a pause the number
//! goes on from before it, or begins anew, and so do its times, wherever between two packets.
//!
//! By UDP packets have two numbers, their own of 8 bits and one of 32 that stands before them. The latter tells more,
//! but some talkers leave it at zero, and some count by it what they send of several streams: it is gone by while it
//! moves in step with the former.

use crate::packet::{PacketHead, PresentationTime, Presented, StreamId};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

/// Counts the frames of the stream that is heard.
#[derive(Debug, Clone)]
pub struct FrameCounter {
    tolerance: Span,
    heard: Option<CountedPacket>,
    /// One that does not follow from it, until the next tells.
    doubted: Option<CountedPacket>,
}

/// A packet and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedPacket {
    stream: StreamId,
    /// The number that it goes by.
    number: Wrapped,
    /// The one that it carries, and its own.
    carried: Wrapped,
    own: Wrapped,
    /// Whether the one that it carries has moved as its own has.
    in_step: bool,
    restarts: bool,
    frames: Frames,
    media: i64,
    /// The last time that was told, of which frame, and when it came: times are sparse in some streams.
    told: Option<(PresentationTime, i64, LocalTime)>,
    /// How far the times of late were from where the numbers put them.
    uneven: Span,
    sequel: Sequel,
}

/// How a packet comes after those that were heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// It goes on from them; what its number leaves out did not come.
    GoesOn,
    /// Its talker paused or began anew, by its number and its time: there was nothing between.
    Anew,
    /// The same, and the talker says so (`mr`), with a time as far ahead as it ever was: one packet that lies
    /// cuts no sound.
    SaidAnew,
}

impl CountedPacket {
    /// The media time of its first frame, as packets carry it.
    pub const fn media(&self) -> Wrapped {
        Wrapped::of(self.media, 32)
    }

    /// Its number: the one that it carries, or, where that does not count the packets of the stream, as many after
    /// the one before as its own says and its time.
    pub const fn number(&self) -> Wrapped {
        self.number
    }

    pub(crate) const fn sequel(&self) -> Sequel {
        self.sequel
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Its number and its time, if it has one, agree, but for so much.
    Agreed(i64, Span),
    /// They do not: by its time.
    Astray(i64),
}

/// How far a packet is ahead of another, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    packets: i64,
    /// Of the number that says so: beyond, it comes round.
    bits: u32,
    /// Whether the number that the packet carries still moves as its own does.
    in_step: bool,
}

impl FrameCounter {
    /// The default of how far a presentation time may be from where the sequence number places its packet. Beyond it
    /// the talker has begun anew. Less than what makes a [source](crate::source) doubt, more than disciplined clocks
    /// are stepped by.
    pub(crate) const TOLERANCE: Span = Span::from_millis(20);
    /// What times are off by at the most that tell an outage from a pause: talkers round them, and some take them
    /// from when they woke.
    const NEAR: Span = Span::from_millis(1);
    /// What the clock of the sound and that of the times may part by in an outage, as a part of it.
    const DRIFT: i64 = 2000;
    /// Numbers tell an outage from a pause while what times may be off by is less than this part of a round: else
    /// a number would fit by chance.
    const CHANCE: i64 = 16;

    /// With such a tolerance for presentation times (`Self::TOLERANCE` is the default).
    pub const fn new(tolerance: Span) -> Self {
        Self { tolerance, heard: None, doubted: None }
    }

    /// The place of a packet of so many frames that came at `arrival`.
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
            // Who begins anew may number as he did not before.
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

    /// The packet was admitted: the next is counted from there, if it is the newest.
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

    /// Another stream may follow, from wherever it counts.
    pub fn forget(&mut self) {
        *self = Self::new(self.tolerance);
    }
}

impl CountedPacket {
    /// By the number that it carries, or by its own from where that does not move in step.
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
        // An older packet, that was held up, has the older word.
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
        // A clock that is stepped is heard all the while, a talker that pauses is not.
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

    /// Whether the next is to be presented as long after it came as this one.
    fn leads_alike(&self, next: &Self, tolerance: Span) -> bool {
        let (Some((before, _, came)), Some((time, _, arrived))) = (self.told, next.told) else {
            return false;
        };
        let passed = arrived - came;
        let led = Self::unwrapped(time.since(before), passed) - passed;
        led.abs() <= tolerance + passed.abs().divided(FrameCounter::DRIFT)
    }

    /// How far times are off of late, where the next one is off by so much.
    fn uneven_with(&self, off: Span) -> Span {
        (self.uneven - self.uneven.divided(256)).max(off.min(FrameCounter::NEAR))
    }

    /// Times come round every 4.295 s: the one of these that is nearest to what passed.
    fn unwrapped(since: Span, passed: Span) -> Span {
        const ROUND: i64 = 1 << 32;
        let rounds = ((passed - since).as_nanos() + ROUND / 2).div_euclid(ROUND);
        since + Span::from_nanos(rounds * ROUND)
    }
}

#[cfg(test)]
mod tests;
