//! Several senders at one link, told apart by where they send from and the name of their stream: who
//! has a place, for how long, and who found none. For the device's thread: nothing here allocates after
//! set-up.
//!
//! A datagram's sender is looked for first ([`Senders::find`]); one that is not known gets the next free
//! place ([`Senders::admit`]) and keeps it until it is over ([`Senders::is_over`], [`Senders::leave`]).

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
    heard: LocalTime,
    packets: u64,
}

/// Who sent what found no place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unplaced {
    /// Packets of senders without a place.
    pub packets: u64,
    /// From where the newest came.
    pub from: Option<Endpoint>,
}

/// The senders at one link, each at a place that is numbered from 0.
#[derive(Debug)]
pub struct Senders {
    places: Box<[Option<ListedSender>]>,
    /// The streams that have places, by name, and where; room for all.
    by_name: Vec<(StreamId, usize)>,
    /// By place: whose packet came after one of this sender's the last time. Packets of senders that
    /// are as long come in turn.
    after: Box<[usize]>,
    last: usize,
    unplaced: Unplaced,
}

impl Senders {
    /// A sender of one packet alone was none: whoever sends goes on within this time, which is longer
    /// than a busy wireless network holds packets up.
    const STRAY: Span = Span::from_millis(250);
    /// What comes after a goodbye is held up by less.
    const REST: Span = Span::from_millis(100);

    /// Nobody has come yet; `most` may be there at once. Allocates; nothing later does.
    pub fn new(most: usize) -> Self {
        Self {
            places: vec![None; most].into_boxed_slice(),
            by_name: Vec::with_capacity(most),
            after: vec![0; most].into_boxed_slice(),
            last: 0,
            unplaced: Unplaced::default(),
        }
    }

    /// How many have a place.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// What found no place.
    pub const fn unplaced(&self) -> Unplaced {
        self.unplaced
    }

    /// How many packets the sender at this place has sent.
    pub fn packets(&self, place: usize) -> u64 {
        self.places.get(place).copied().flatten().map_or(0, |sender| sender.packets)
    }

    /// Finds the place of the sender of a packet of `stream` that came from there, and notes that it
    /// came. `None` where it has none.
    #[inline]
    pub fn find(&mut self, stream: StreamId, from: Endpoint, arrival: LocalTime) -> Option<usize> {
        let next = self.after.get(self.last).copied()?;
        let expected =
            self.places[next].as_ref().is_some_and(|s| (s.stream, s.from) == (stream, from));
        let place = if expected { next } else { self.look_up(stream, from, arrival)? };
        if let Some(sender) = &mut self.places[place] {
            (sender.heard, sender.from) = (arrival, from);
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
        // The very one, or else the one that may come from there too.
        let exact = same.clone().find(|(_, sender)| sender.from == from);
        let found = exact.or_else(|| same.clone().find(|(_, s)| s.may_be_at(from, arrival)));
        found.map(|(place, _)| place)
    }

    /// Gives the sender of a packet that [`Self::find`] does not know a place. `None` if none is free.
    pub fn admit(&mut self, stream: StreamId, from: Endpoint, arrival: LocalTime) -> Option<usize> {
        let Some(free) = self.places.iter().position(Option::is_none) else {
            self.turn_away(from);
            return None;
        };
        self.places[free] = Some(ListedSender { stream, from, heard: arrival, packets: 1 });
        let named = self.by_name.partition_point(|(name, _)| name.0 < stream.0);
        // There is room for all places; asked here for the compiler to see that none is made.
        if self.by_name.len() < self.by_name.capacity() {
            self.by_name.insert(named, (stream, free));
        }
        self.after[self.last] = free;
        self.last = free;
        Some(free)
    }

    /// Counts a packet for whose sender nothing is laid out.
    pub fn turn_away(&mut self, from: Endpoint) {
        self.unplaced.packets += 1;
        self.unplaced.from = Some(from);
    }

    /// Whether the sender at this place is over: it said goodbye and all that it sent was played at its
    /// `latency`, it sends no more, or it was a stray packet.
    pub fn is_over(&self, place: usize, now: LocalTime, goodbye: bool, latency: Span) -> bool {
        let Some(sender) = self.places.get(place).copied().flatten() else { return false };
        let silent = now - sender.heard;
        let stray = sender.packets < 2 && silent > Self::STRAY.max(latency);
        stray || silent > GONE || goodbye && silent > latency + Self::REST
    }

    /// Frees the place.
    pub fn leave(&mut self, place: usize) {
        self.by_name.retain(|(_, taken)| *taken != place);
        if let Some(sender) = self.places.get_mut(place) {
            *sender = None;
        }
    }
}

impl ListedSender {
    /// Whether its packets may come from there, too, or by now: by a second network, or as it moved.
    /// Its receiver judges whether they are the same.
    fn may_be_at(&self, from: Endpoint, arrival: LocalTime) -> bool {
        let other_network = from.network() != self.from.network();
        other_network || arrival - self.heard > Source::MOVED
    }
}
