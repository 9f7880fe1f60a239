//! Assigns senders on a link to places, by address and stream id. Allocates only at set-up.

#[cfg(test)]
mod tests;

use crate::endpoint::Endpoint;
use crate::packet::StreamId;
use crate::receive_policy::recent::GONE;
use crate::source::Source;
use crate::time::{LocalTime, Span};

#[derive(Debug, Clone, Copy)]
struct ListedSender {
    stream: StreamId,
    from: Endpoint,
    received: LocalTime,
    packets: u64,
}

/// Packets without a place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unplaced {
    /// Number of packets.
    pub packets: u64,
    /// Source of the newest packet.
    pub from: Option<Endpoint>,
}

/// Senders on one link, in places numbered from 0.
#[derive(Debug)]
pub struct Senders {
    places: Box<[Option<ListedSender>]>,
    /// Sorted by stream id, with capacity for all.
    by_name: Vec<(StreamId, usize)>,
    /// The place whose packet followed last. Senders with equal packet times alternate.
    after: Box<[usize]>,
    last: usize,
    unplaced: Unplaced,
}

impl Senders {
    /// Timeout after a single packet. Real senders send more packets within it, even on busy Wi-Fi.
    const STRAY: Span = Span::from_millis(250);
    /// Maximum delay of packets after a goodbye.
    const REST: Span = Span::from_millis(100);

    /// Only this function allocates.
    pub fn new(maximum: usize) -> Self {
        Self {
            places: vec![None; maximum].into_boxed_slice(),
            by_name: Vec::with_capacity(maximum),
            after: vec![0; maximum].into_boxed_slice(),
            last: 0,
            unplaced: Unplaced::default(),
        }
    }

    /// Occupied places.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Packets without a place.
    pub const fn unplaced(&self) -> Unplaced {
        self.unplaced
    }

    /// Packets from this place.
    pub fn packets(&self, place: usize) -> u64 {
        self.places.get(place).copied().flatten().map_or(0, |sender| sender.packets)
    }

    /// Place of a known sender; counts the packet.
    #[inline]
    pub fn find(&mut self, stream: StreamId, from: Endpoint, arrival: LocalTime) -> Option<usize> {
        let next = self.after.get(self.last).copied()?;
        let expected =
            self.places[next].as_ref().is_some_and(|s| (s.stream, s.from) == (stream, from));
        let place = if expected { next } else { self.look_up(stream, from, arrival)? };
        if let Some(sender) = &mut self.places[place] {
            (sender.received, sender.from) = (arrival, from);
            sender.packets += 1;
        }
        self.after[self.last] = place;
        self.last = place;
        Some(place)
    }

    fn look_up(&self, stream: StreamId, from: Endpoint, arrival: LocalTime) -> Option<usize> {
        let named = self.by_name.partition_point(|(name, _)| name.0 < stream.0);
        let same = self.by_name[named..].iter().take_while(|(name, _)| *name == stream);
        let same = same.filter_map(|(_, place)| Some((*place, self.places[*place].as_ref()?)));
        // Prefer an exact match over a possible match.
        let exact = same.clone().find(|(_, sender)| sender.from == from);
        let found = exact.or_else(|| same.clone().find(|(_, s)| s.may_be_at(from, arrival)));
        found.map(|(place, _)| place)
    }

    /// Assigns a place. `None` if all places are occupied.
    pub fn admit(&mut self, stream: StreamId, from: Endpoint, arrival: LocalTime) -> Option<usize> {
        let Some(free) = self.places.iter().position(Option::is_none) else {
            self.turn_away(from);
            return None;
        };
        self.places[free] = Some(ListedSender { stream, from, received: arrival, packets: 1 });
        let named = self.by_name.partition_point(|(name, _)| name.0 < stream.0);
        // Always true; proves to the compiler that nothing allocates.
        if self.by_name.len() < self.by_name.capacity() {
            self.by_name.insert(named, (stream, free));
        }
        self.after[self.last] = free;
        self.last = free;
        Some(free)
    }

    /// Counts a packet of a sender without a place.
    pub fn turn_away(&mut self, from: Endpoint) {
        self.unplaced.packets += 1;
        self.unplaced.from = Some(from);
    }

    /// Whether the sender ended: by a goodbye and its `latency`, by silence, or as a stray.
    pub fn is_over(&self, place: usize, now: LocalTime, goodbye: bool, latency: Span) -> bool {
        let Some(sender) = self.places.get(place).copied().flatten() else { return false };
        let silent = now - sender.received;
        let stray = sender.packets < 2 && silent > Self::STRAY.max(latency);
        stray || silent > GONE || goodbye && silent > latency + Self::REST
    }

    /// Frees this place.
    pub fn leave(&mut self, place: usize) {
        self.by_name.retain(|(_, taken)| *taken != place);
        if let Some(sender) = self.places.get_mut(place) {
            *sender = None;
        }
    }
}

impl ListedSender {
    /// Whether this may be the sender's address too, via a second network or after a move.
    fn may_be_at(&self, from: Endpoint, arrival: LocalTime) -> bool {
        let other_network = from.network() != self.from.network();
        other_network || arrival - self.received > Source::MOVED
    }
}
