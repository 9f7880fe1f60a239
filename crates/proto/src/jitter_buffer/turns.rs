//! The packets of a stream in the order of their numbers, each with its turn: the moment its first
//! frame is played. What has not come by then is lost, until it comes late.

#[cfg(test)]
mod tests;

use core::ops::Range;

use crate::ledger::{Origin, PacketTrace, SenderInstants};
use crate::packet::{Instants, held_of, held_steps};
use crate::placement::Placement;
use crate::source::Source;
use crate::time::{Frames, LocalTime, MediaTime, Span, WallTime};

/// What is kept of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) sequence: i64,
    pub(super) media: MediaTime,
    pub(super) frames: Frames,
    pub(super) capture: Option<WallTime>,
    pub(super) instants: Option<Instants>,
    pub(super) arrival: LocalTime,
    pub(super) read: LocalTime,
    /// Whether every frame of it came in time.
    pub(super) whole: bool,
    /// Whether it did not come but was rebuilt: its instants are those of the packet that brought it
    /// back, and nobody is told of its passage.
    pub(super) repaired: bool,
}

/// A [`Slot`] in one line of a processor's cache, since there are thousands of places in each stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedSlot {
    pub(super) sequence: i64,
    pub(super) media: MediaTime,
    arrival: LocalTime,
    capture: Option<WallTime>,
    /// How long after its arrival it was read, in ns; 4.29 s where that was longer.
    read: u32,
    /// Taken, packed and handed, in ns, as on the wire, if `stamped`.
    instants: [u32; 3],
    /// What it was held for ([`held_steps`]).
    held: u16,
    stamped: bool,
    /// A datagram of 64 kB holds no more.
    frames: u16,
    whole: bool,
    repaired: bool,
}

const _: () = assert!(size_of::<PacketPlace>() <= 64);

impl PackedSlot {
    pub(super) fn frames(&self) -> Frames {
        Frames::new(self.frames.into())
    }

    fn instants(&self) -> Option<Instants> {
        let [taken, packed, handed] = self.instants.map(|nanos| Span::from_nanos(nanos.into()));
        let held = held_of(self.held);
        self.stamped.then_some(Instants { taken, packed, handed, held })
    }

    pub(super) const fn arrival(&self) -> LocalTime {
        self.arrival
    }

    pub(super) fn end(&self) -> MediaTime {
        self.media + self.frames()
    }

    /// What is kept of another packet that this one brought back.
    pub(super) const fn brings_back(self, sequence: i64, media: MediaTime) -> Self {
        Self { sequence, media, whole: true, repaired: true, ..self }
    }

    /// The ledger of the packet, whose turn has come at `now` and whose first frame meets the DAC
    /// at `dac`, `resample` later than those before the resampler reads ahead.
    #[inline]
    pub(super) fn passage(
        &self,
        placement: &Placement,
        now: LocalTime,
        dac: LocalTime,
        resample: Span,
    ) -> PacketTrace {
        let capture = match self.capture {
            Some(wall) => placement.local(wall),
            None => placement.capture(self.media),
        };
        let sender = capture.and_then(|capture| {
            let after = |span: Span| capture + span;
            let Instants { taken, packed, handed, held } = self.instants()?;
            Some(SenderInstants {
                taken: after(taken),
                packed: after(packed),
                handed: after(handed),
                launched: after(handed + held),
            })
        });
        let stands_in = || Some(placement.presentation(self.media)? - placement.link_offset());
        PacketTrace {
            media: self.media,
            reference: capture.or_else(stands_in),
            origin: capture
                .filter(|_| placement.captures_told())
                .map(|capture| Origin { capture, sender }),
            arrival: self.arrival,
            read: self.arrival + Span::from_nanos(self.read.into()),
            taken: now,
            written: now,
            resample,
            dac,
            late: !self.whole,
        }
    }
}

impl From<&Slot> for PackedSlot {
    #[inline]
    fn from(slot: &Slot) -> Self {
        let &Slot { sequence, media, frames, capture, arrival, whole, repaired, .. } = slot;
        let instants = slot.instants.unwrap_or_default();
        Self {
            sequence,
            media,
            arrival,
            capture,
            read: nanos(slot.read - arrival),
            instants: [instants.taken, instants.packed, instants.handed].map(nanos),
            held: held_steps(instants.held),
            stamped: slot.instants.is_some(),
            frames: u16::try_from(frames.as_len()).unwrap_or(u16::MAX),
            whole,
            repaired,
        }
    }
}

impl From<&PackedSlot> for Slot {
    fn from(kept: &PackedSlot) -> Self {
        let &PackedSlot { sequence, media, arrival, capture, whole, repaired, .. } = kept;
        let span = |nanos: u32| Span::from_nanos(nanos.into());
        let instants = kept.instants();
        let (read, frames) = (arrival + span(kept.read), Frames::new(kept.frames.into()));
        Self { sequence, media, frames, capture, instants, arrival, read, whole, repaired }
    }
}

/// In 32 bits, from none to 4.29 s.
#[inline]
fn nanos(span: Span) -> u32 {
    u32::try_from(span.as_nanos()).unwrap_or_else(|_| end_of_nanos(span))
}

/// Of a span that 32 bits do not hold.
#[cold]
#[inline(never)]
fn end_of_nanos(span: Span) -> u32 {
    if span < Span::ZERO { 0 } else { u32::MAX }
}

#[derive(Debug, Clone, Copy)]
enum PacketPlace {
    Empty,
    Came(PackedSlot),
    /// The turn of the packet with this number ended without it.
    Lost(i64),
}

/// Packets whose turns were ended before anybody asked for them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GivenUp {
    /// Those that had not come.
    pub(super) lost: u64,
    /// Those that had come in time.
    pub(super) unheard: u64,
    /// Those that had come in time and lie in the playout still, to be heard: so many packets are so short
    /// that there are no places for all.
    pub(super) unfollowed: u64,
}

/// What became of the turns that a block ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// Packets that had not come.
    pub(super) lost: u64,
    /// Frames of the block between two packets whose numbers follow each other.
    pub(super) skipped: u64,
}

#[derive(Debug)]
pub(super) struct Turns {
    places: Box<[PacketPlace]>,
    /// The next packet whose turn comes, by extended sequence number.
    next: i64,
    /// The frame after the last packet whose turn ended, where the next one begins unless the
    /// sender left a gap.
    follows: Option<MediaTime>,
}

impl Turns {
    /// How many packets are searched for one that came after a missing one: work is bounded also
    /// where thousands are missing.
    const LOOK_AHEAD: i64 = 64;

    /// Room for at least `packets` at a time. Allocates; nothing later does.
    pub(super) fn new(packets: usize) -> Self {
        let places = vec![PacketPlace::Empty; packets.next_power_of_two()].into();
        Self { places, next: 0, follows: None }
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(PacketPlace::Empty);
    }

    /// The first turn is that of this packet.
    pub(super) fn begin(&mut self, sequence: i64) {
        (self.next, self.follows) = (sequence, None);
    }

    /// The first turn is that of this packet, if it is before the one thought to be first.
    pub(super) fn begin_no_later(&mut self, sequence: i64) {
        self.next = self.next.min(sequence);
    }

    pub(super) fn has(&self, sequence: i64) -> bool {
        self.kept(sequence).is_some()
    }

    /// Ends the turns of those whose places are needed up to this packet: where so many come at once
    /// that they do not fit, nobody asked for the first of them in time; but what lies from `place` on, which is
    /// to be played next, is heard all the same.
    pub(super) fn make_room(
        &mut self,
        sequence: i64,
        place: impl FnOnce() -> Option<MediaTime>,
    ) -> GivenUp {
        let oldest = sequence.saturating_sub(self.places.len() as i64 - 1);
        let mut given_up = GivenUp::default();
        if self.next >= oldest {
            return given_up;
        }
        let place = place();
        // What does not even follow the last ones is no packet that anybody waits for.
        self.next = self.next.max(oldest.saturating_sub(self.places.len() as i64));
        while self.next < oldest {
            match self.came(self.next) {
                Some(slot) => {
                    let in_time = u64::from(slot.whole && !slot.repaired);
                    match place.is_none_or(|place| slot.media < place) {
                        true => given_up.unheard += in_time,
                        false => given_up.unfollowed += in_time,
                    }
                    self.follows = Some(slot.media + slot.frames);
                }
                None => {
                    given_up.lost += 1;
                    self.follows = None;
                }
            }
            self.next += 1;
        }
        given_up
    }

    /// Keeps a packet that came; tells whether it had been counted lost.
    #[inline]
    pub(super) fn keep(&mut self, came: impl Into<PackedSlot>) -> bool {
        let kept = came.into();
        let index = self.index(kept.sequence);
        let place = &mut self.places[index];
        let was_lost = matches!(place, PacketPlace::Lost(sequence) if *sequence == kept.sequence);
        *place = PacketPlace::Came(kept);
        was_lost
    }

    /// Ends the turn of every packet that begins before the end of `frames`, also of those that are
    /// skipped: tells of those that came in time, counts those that did not come.
    pub(super) fn take(
        &mut self,
        frames: &Range<MediaTime>,
        source: &Source,
        mut tell: impl FnMut(&PackedSlot),
    ) -> Taken {
        let mut taken = Taken::default();
        while self.next <= source.highest() {
            let (begin, length) = match self.kept(self.next) {
                Some(kept) => {
                    if self.follows != Some(kept.media) {
                        taken.skipped += self.gap_before(kept, frames);
                    }
                    if kept.media >= frames.end {
                        break;
                    }
                    if kept.whole && !kept.repaired {
                        tell(kept);
                    }
                    (kept.media, kept.frames())
                }
                None => match self.begin_of_missing(source) {
                    begin if begin >= frames.end => break,
                    begin => {
                        let index = self.index(self.next);
                        self.places[index] = PacketPlace::Lost(self.next);
                        taken.lost += 1;
                        (begin, source.packet())
                    }
                },
            };
            self.follows = Some(begin + length);
            self.next += 1;
        }
        taken
    }

    /// How many of these frames lie between a packet and the one before it, if that came.
    fn gap_before(&self, next: &PackedSlot, frames: &Range<MediaTime>) -> u64 {
        let Some(before) = self.kept(next.sequence - 1) else { return 0 };
        let from = before.end().max(frames.start);
        (next.media.min(frames.end) - from).max(Frames::ZERO).as_len() as u64
    }

    /// Where the next packet, which has not come, would begin: where the one before it ended, but
    /// before the first after it that came.
    fn begin_of_missing(&self, source: &Source) -> MediaTime {
        let begin = self.follows.unwrap_or_else(|| source.media_of(self.next));
        let mut near = self.next + 1..=source.highest().min(self.next + Self::LOOK_AHEAD);
        let after = near.find_map(|sequence| self.kept(sequence));
        after.map_or(begin, |kept| begin.min(kept.media - Frames::new(1)))
    }

    pub(super) fn came(&self, sequence: i64) -> Option<Slot> {
        self.kept(sequence).map(Slot::from)
    }

    fn kept(&self, sequence: i64) -> Option<&PackedSlot> {
        match &self.places[self.index(sequence)] {
            PacketPlace::Came(kept) if kept.sequence == sequence => Some(kept),
            _ => None,
        }
    }

    fn index(&self, sequence: i64) -> usize {
        sequence as usize & (self.places.len() - 1)
    }
}
