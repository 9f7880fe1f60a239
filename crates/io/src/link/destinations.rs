//! Destinations of packets.

use tautline_proto::endpoint::Endpoint;

/// A fixed-size set of destinations, which a real-time thread can receive without allocating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destinations {
    all: [Option<Endpoint>; Self::MOST],
}

impl Destinations {
    /// Maximum number of destinations set while a link sends.
    pub const MOST: usize = 16;

    /// No destinations: packets are dropped.
    pub const NONE: Self = Self { all: [None; Self::MOST] };

    /// A single destination.
    pub const fn one(destination: Endpoint) -> Self {
        let mut set = Self::NONE;
        set.all[0] = Some(destination);
        set
    }

    /// The destinations in `all`, or `None` if they exceed [`Destinations::MOST`].
    pub fn new<T: Copy + Into<Endpoint>>(all: &[T]) -> Option<Self> {
        let mut set = Self::NONE;
        set.all.get_mut(..all.len())?.iter_mut().zip(all).for_each(|(slot, one)| {
            *slot = Some((*one).into());
        });
        Some(set)
    }

    /// Iterates over the destinations.
    pub fn iter(&self) -> impl Iterator<Item = Endpoint> + Clone + '_ {
        self.all.iter().map_while(|one| *one)
    }
}

/// Parameters that a sending link was opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// Destinations of every packet, across all networks.
    pub destinations: Vec<Endpoint>,
    /// The two networks that carry everything redundantly, if so.
    pub networks: Option<(String, String)>,
    /// Maximum datagram size in bytes.
    pub datagram_bytes: usize,
    /// Whether a wire thread spaces packets by their departure times.
    pub ringed: bool,
}
