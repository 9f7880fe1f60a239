//! Packets in sequence order. A packet's turn is when its first frame is played. Missing then, it
//! counts as lost until it arrives.

#[cfg(test)]
mod tests;

use core::ops::Range;

use crate::ledger::{Origin, Outcome, PacketTrace, SenderInstants};
use crate::packet::{Instants, held_of, held_steps};
use crate::placement::Placement;
use crate::source::Source;
use crate::time::{Frames, LocalTime, MediaTime, Span, WallTime};

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) sequence: i64,
    pub(super) media: MediaTime,
    pub(super) frames: Frames,
    pub(super) capture: Option<WallTime>,
    pub(super) instants: Option<Instants>,
    pub(super) arrival: LocalTime,
    pub(super) read: LocalTime,
    pub(super) whole: bool,
    /// The times are the times of the restoring packet; no trace.
    pub(super) repaired: bool,
}

/// Fits a cache line: each stream has thousands.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedSlot {
    pub(super) sequence: i64,
    pub(super) media: MediaTime,
    arrival: LocalTime,
    capture: Option<WallTime>,
    /// Time from arrival to reading in ns, at most 4.29 s.
    read: u32,
    /// Taken, packed and handed in ns, if `stamped`.
    instants: [u32; 3],
    /// Holding time ([`held_steps`]).
    held: u16,
    stamped: bool,
    /// 16 bits suffice for 64 kB.
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

    pub(super) const fn brings_back(self, sequence: i64, media: MediaTime) -> Self {
        Self { sequence, media, whole: true, repaired: true, ..self }
    }

    /// Trace of a packet with its turn at `now` and its first frame at the DAC at `dac`.
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
                .filter(|_| placement.captures_reported())
                .map(|capture| Origin { capture, sender }),
            arrival: self.arrival,
            read: self.arrival + Span::from_nanos(self.read.into()),
            taken: now,
            written: now,
            resample,
            dac,
            outcome: if self.whole { Outcome::Played } else { Outcome::Late },
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

#[inline]
fn nanos(span: Span) -> u32 {
    u32::try_from(span.as_nanos()).unwrap_or_else(|_| end_of_nanos(span))
}

#[cold]
#[inline(never)]
fn end_of_nanos(span: Span) -> u32 {
    if span < Span::ZERO { 0 } else { u32::MAX }
}

#[derive(Debug, Clone, Copy)]
enum PacketPlace {
    Empty,
    Arrived(PackedSlot),
    Lost(i64),
}

/// Packets whose turns ended before a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Abandoned {
    pub(super) lost: u64,
    /// Received in time but not played.
    pub(super) not_received: u64,
    /// Played without a trace: too many for the places.
    pub(super) unfollowed: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) lost: u64,
    /// Frames in gaps between consecutive packets.
    pub(super) skipped: u64,
}

#[derive(Debug)]
pub(super) struct Turns {
    places: Box<[PacketPlace]>,
    next: i64,
    /// End of the last packet. The next one begins there, unless the sender left a gap.
    follows: Option<MediaTime>,
}

impl Turns {
    /// Search distance after a missing packet.
    const LOOK_AHEAD: i64 = 64;

    /// Only this function allocates.
    pub(super) fn new(packets: usize) -> Self {
        let places = vec![PacketPlace::Empty; packets.next_power_of_two()].into();
        Self { places, next: 0, follows: None }
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(PacketPlace::Empty);
    }

    pub(super) fn begin(&mut self, sequence: i64) {
        (self.next, self.follows) = (sequence, None);
    }

    pub(super) fn begin_no_later(&mut self, sequence: i64) {
        self.next = self.next.min(sequence);
    }

    pub(super) fn has(&self, sequence: i64) -> bool {
        self.kept(sequence).is_some()
    }

    /// Ends turns whose places are needed up to `sequence`. Their frames from `place` on still
    /// play.
    pub(super) fn make_room(
        &mut self,
        sequence: i64,
        place: impl FnOnce() -> Option<MediaTime>,
    ) -> Abandoned {
        let oldest = sequence.saturating_sub(self.places.len() as i64 - 1);
        let mut given_up = Abandoned::default();
        if self.next >= oldest {
            return given_up;
        }
        let place = place();
        // Numbers further back are not expected.
        self.next = self.next.max(oldest.saturating_sub(self.places.len() as i64));
        while self.next < oldest {
            match self.arrived(self.next) {
                Some(slot) => {
                    let in_time = u64::from(slot.whole && !slot.repaired);
                    match place.is_none_or(|place| slot.media < place) {
                        true => given_up.not_received += in_time,
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

    /// Returns whether the packet was counted as lost.
    #[inline]
    pub(super) fn keep(&mut self, arrived: impl Into<PackedSlot>) -> bool {
        let kept = arrived.into();
        let index = self.index(kept.sequence);
        let place = &mut self.places[index];
        let was_lost = matches!(place, PacketPlace::Lost(sequence) if *sequence == kept.sequence);
        *place = PacketPlace::Arrived(kept);
        was_lost
    }

    /// Ends turns that begin before the end of `frames`. Reports packets to `notify`, counts
    /// missing packets.
    pub(super) fn take(
        &mut self,
        frames: &Range<MediaTime>,
        source: &Source,
        mut notify: impl FnMut(&PackedSlot),
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
                        notify(kept);
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

    /// Frames between a packet and the previous packet, if that was received.
    fn gap_before(&self, next: &PackedSlot, frames: &Range<MediaTime>) -> u64 {
        let Some(before) = self.kept(next.sequence - 1) else { return 0 };
        let from = before.end().max(frames.start);
        (next.media.min(frames.end) - from).max(Frames::ZERO).as_len() as u64
    }

    /// End of the previous packet, before the next received packet.
    fn begin_of_missing(&self, source: &Source) -> MediaTime {
        let begin = self.follows.unwrap_or_else(|| source.media_of(self.next));
        let mut near = self.next + 1..=source.highest().min(self.next + Self::LOOK_AHEAD);
        let after = near.find_map(|sequence| self.kept(sequence));
        after.map_or(begin, |kept| begin.min(kept.media - Frames::new(1)))
    }

    pub(super) fn arrived(&self, sequence: i64) -> Option<Slot> {
        self.kept(sequence).map(Slot::from)
    }

    fn kept(&self, sequence: i64) -> Option<&PackedSlot> {
        match &self.places[self.index(sequence)] {
            PacketPlace::Arrived(kept) if kept.sequence == sequence => Some(kept),
            _ => None,
        }
    }

    fn index(&self, sequence: i64) -> usize {
        sequence as usize & (self.places.len() - 1)
    }
}
