//! Media time of packets that carry presentation times instead of frame counts (AVTP).
//!
//! Sequence numbers determine the positions of packets: the frames of a packet follow the frames of
//! the previous one. Presentation times do not, because their clock may drift and step. The times
//! only show how often the short numbers wrapped during an outage, and where the talker restarted.
//!
//! Nothing arrives during an outage or a pause. After an outage, one of the 256 numbers matches the
//! time, which is a whole number of packets later and as precise as before. After a pause, the
//! number continues or restarts, and the times resume anywhere between two packets.
//!
//! Over UDP, packets have two numbers: their own with 8 bits, and a carried one with 32 bits in
//! front. The carried number resolves longer outages, but some talkers leave it at zero or use it
//! for several streams. It is used while it moves in step with the own number.

use crate::packet::{PacketHead, PresentationTime, Presented, StreamId};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

/// Frame counter of the playing stream.
#[derive(Debug, Clone)]
pub struct FrameCounter {
    tolerance: Span,
    heard: Option<CountedPacket>,
    /// Packet that does not follow. The next packet decides.
    doubted: Option<CountedPacket>,
}

/// A packet and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedPacket {
    stream: StreamId,
    number: Wrapped,
    /// The carried 32-bit number, and the packet's own number.
    carried: Wrapped,
    own: Wrapped,
    /// Whether the carried number moves in step with the packet's own number.
    in_step: bool,
    restarts: bool,
    frames: Frames,
    media: i64,
    /// Last presentation time, its frame, and its arrival. Some streams carry times in few packets.
    reported: Option<(PresentationTime, i64, LocalTime)>,
    /// Recent difference of the times and the positions by number.
    uneven: Span,
    sequel: Sequel,
}

/// Relation of a packet to the previous packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequel {
    /// It continues the stream. Packets missing by number are lost.
    GoesOn,
    /// The talker paused or restarted, according to number and time. Nothing is lost in between.
    Anew,
    /// Like `Anew`, and the talker announced it (`mr`), with a time as far ahead as before. A
    /// single false packet thus cuts no sound.
    SaidAnew,
}

impl CountedPacket {
    /// Media time of the first frame, as carried in packets.
    pub const fn media(&self) -> Wrapped {
        Wrapped::of(self.media, 32)
    }

    /// Sequence number: the carried one, if it counts the packets of the stream. Otherwise, it is
    /// derived from the packet's own number and the time.
    pub const fn number(&self) -> Wrapped {
        self.number
    }

    pub(crate) const fn sequel(&self) -> Sequel {
        self.sequel
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Number and time (if any) agree to within this span.
    Agreed(i64, Span),
    /// Number and time disagree. The position is taken from the time.
    Astray(i64),
}

/// Distance between two packets by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    packets: i64,
    /// Width of the number in use, in bits.
    bits: u32,
    /// Whether the carried number still moves in step with the packet's own number.
    in_step: bool,
}

impl FrameCounter {
    /// Default maximum difference of a presentation time and the position by number. Beyond it the
    /// talker restarted. It is less than the doubt limit of a [source](crate::source) and more than
    /// the steps of disciplined clocks.
    pub(crate) const TOLERANCE: Span = Span::from_millis(20);
    /// Maximum error of times that distinguish an outage from a pause. Talkers round times, and
    /// some use their wake-up times.
    const NEAR: Span = Span::from_millis(1);
    /// Divisor of the outage: the maximum drift between the clock of the sound and the clock of the
    /// times.
    const DRIFT: i64 = 2000;
    /// Divisor of the number's range. If times err by more, numbers cannot distinguish an outage
    /// from a pause, because one may match by chance.
    const CHANCE: i64 = 16;

    /// Creates a counter with this tolerance for presentation times. The default is
    /// `Self::TOLERANCE`.
    pub const fn new(tolerance: Span) -> Self {
        Self { tolerance, heard: None, doubted: None }
    }

    /// Returns the position of a packet of `frames` frames that arrived at `arrival`.
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
        let (heard, doubted) = (after(self.heard), after(self.doubted));
        let (media, off, before) = match (heard, doubted) {
            (Some((Follows::Agreed(media, off), steps, before)), _)
            | (_, Some((Follows::Agreed(media, off), steps, before))) => {
                (media, off, Some((steps, before)))
            }
            // A talker may change its numbering when it restarts.
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
        let sequel = match (heard, self.heard) {
            (Some((Follows::Astray(_), ..)), Some(heard))
                if heard.restarts != this.restarts && heard.leads_alike(&this, self.tolerance) =>
            {
                Sequel::SaidAnew
            }
            (Some((Follows::Astray(_), ..)), _) => Sequel::Anew,
            _ => Sequel::GoesOn,
        };
        let counted = CountedPacket { number, in_step, media, reported, uneven, sequel, ..this };
        if !matches!(heard, Some((Follows::Agreed(..), ..))) {
            self.doubted = Some(counted);
        }
        counted
    }

    /// Records an admitted packet. If it is the newest, later packets count from it.
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

    /// Resets the counter. It then accepts another stream at any position.
    pub fn forget(&mut self) {
        *self = Self::new(self.tolerance);
    }
}

impl CountedPacket {
    /// Uses the carried number, or the packet's own number if the two are not in step.
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
        let (Some((before, at, came)), Some((time, _, arrived))) = (self.reported, next.reported)
        else {
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
        // During a clock step packets keep arriving. During a pause they do not.
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

    /// Whether the time from arrival to presentation equals that of the other packet.
    fn leads_alike(&self, next: &Self, tolerance: Span) -> bool {
        let (Some((before, _, came)), Some((time, _, arrived))) = (self.reported, next.reported)
        else {
            return false;
        };
        let passed = arrived - came;
        let led = Self::unwrapped(time.since(before), passed) - passed;
        led.abs() <= tolerance + passed.abs().divided(FrameCounter::DRIFT)
    }

    /// Returns the recent error of times, updated with this one.
    fn uneven_with(&self, off: Span) -> Span {
        (self.uneven - self.uneven.divided(256)).max(off.min(FrameCounter::NEAR))
    }

    /// Times wrap every 4.295 s. Returns the value nearest to the elapsed time.
    fn unwrapped(since: Span, passed: Span) -> Span {
        const ROUND: i64 = 1 << 32;
        let rounds = ((passed - since).as_nanos() + ROUND / 2).div_euclid(ROUND);
        since + Span::from_nanos(rounds * ROUND)
    }
}

#[cfg(test)]
mod tests;
