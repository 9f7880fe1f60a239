//! Media time of packets that say when they are to be presented, and count no frames (AVTP).
//!
//! By their numbers: the frames of one follow those of the one before, whatever its time says, which is of
//! another clock than the sound's and may be stepped. Times tell only what so few bits cannot, how often
//! the numbers came round in an outage, and where the talker began anew.

use crate::packet::{PacketHead, PresentationTime, Presented, StreamId};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

/// Counts the frames of the stream that is heard.
#[derive(Debug, Clone, Default)]
pub struct FrameCounter {
    /// The newest packet that was admitted.
    heard: Option<CountedPacket>,
    /// One that does not follow from it, until the next tells.
    doubted: Option<CountedPacket>,
}

/// A packet and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedPacket {
    stream: StreamId,
    number: Wrapped,
    restarts: bool,
    frames: Frames,
    /// Of its first frame.
    media: i64,
    /// The last time that was told, of which frame, and when it came: times are sparse in some streams.
    told: Option<(PresentationTime, i64, LocalTime)>,
}

impl CountedPacket {
    /// The media time of its first frame, as packets carry it.
    pub const fn media(&self) -> Wrapped {
        Wrapped::of(self.media, 32)
    }
}

/// Where a packet lies after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Its number and its time, if it has one, agree.
    Agreed(i64),
    /// They do not: by its time.
    Astray(i64),
}

impl FrameCounter {
    /// What times and numbers may be apart by and still be of one stream: less than what makes a
    /// [source](crate::source) doubt, more than clocks are stepped by that are kept.
    const ASTRAY: Span = Span::from_millis(20);
    /// What the clock of the sound and that of the times may be apart by after an outage, beside a thousandth
    /// of it: talkers round their times, and some take them from when they woke.
    const NEAR: Span = Span::from_millis(1);

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
            restarts: presented.restarts,
            frames,
            media: 0,
            told: presented.time.map(|time| (time, 0, arrival)),
        };
        let after = |before: &Option<CountedPacket>| {
            let before = before.as_ref().filter(|before| before.stream == head.stream)?;
            Some((before.follows(&this, rate), before.told))
        };
        let (heard, doubted) = (after(&self.heard), after(&self.doubted));
        let (media, told) = match (heard, doubted) {
            (Some((Follows::Agreed(media), told)), _)
            | (_, Some((Follows::Agreed(media), told)))
            | (Some((Follows::Astray(media), told)), _)
            | (None, Some((Follows::Astray(media), told))) => (media, told),
            (None, None) => (0, None),
        };
        let own = presented.time.map(|time| (time, media, arrival));
        let counted = CountedPacket { media, told: own.or(told), ..this };
        if !matches!(heard, Some((Follows::Agreed(_), _))) {
            self.doubted = Some(counted);
        }
        counted
    }

    /// The packet was admitted: the next is counted from there, if it is the newest.
    pub fn follow(&mut self, packet: CountedPacket) {
        let newer = |heard: &CountedPacket| {
            heard.stream != packet.stream
                || heard.media < packet.media
                || heard.restarts != packet.restarts
        };
        if self.heard.as_ref().is_none_or(newer) {
            self.heard = Some(packet);
            self.doubted = None;
        }
    }

    /// Another stream may follow, from wherever it counts.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl CountedPacket {
    fn follows(&self, next: &Self, rate: Rate) -> Follows {
        let steps = Unwrapper::starting_at(self.number).peek(next.number.value)
            - i64::from(self.number.value);
        let by_number = match steps {
            1.. => self.media + self.frames.count() + (steps - 1) * next.frames.count(),
            _ => self.media + steps * next.frames.count(),
        };
        let (Some((before, at, came)), Some((time, _, arrived))) = (self.told, next.told) else {
            return Follows::Agreed(by_number);
        };
        let since = Self::unwrapped(time.since(before), arrived - came);
        let by_time = at + rate.frames_nearest(since).count();
        // An older packet, that was held up, has the older word.
        if self.restarts != next.restarts && by_time > self.media {
            return Follows::Astray(by_time);
        }
        let round = next.frames.count() << next.number.bits.min(32);
        let rounds = (by_time - by_number + round / 2).div_euclid(round);
        let near = FrameCounter::NEAR + (arrived - came).abs().divided(1000);
        let rounded = by_number + rounds * round;
        if rounds != 0 && rate.span_of(Frames::new(by_time - rounded)).abs() <= near {
            return Follows::Agreed(rounded);
        }
        let astray = rate.span_of(Frames::new(by_time - by_number)).abs();
        if astray <= FrameCounter::ASTRAY {
            Follows::Agreed(by_number)
        } else {
            Follows::Astray(by_time)
        }
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
