//! Destinations of packets.

use tautline_proto::endpoint::Endpoint;

/// A fixed-size set of destinations; real-time threads receive it without allocating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destinations {
    all: [Option<Endpoint>; Self::MAX],
}

impl Destinations {
    /// Maximum destinations set while sending.
    pub const MAX: usize = 16;

    /// No destinations: packets are dropped.
    pub const NONE: Self = Self { all: [None; Self::MAX] };

    /// Returns a single destination.
    pub const fn one(destination: Endpoint) -> Self {
        let mut set = Self::NONE;
        set.all[0] = Some(destination);
        set
    }

    /// Creates a set; `None` above [`Destinations::MAX`].
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

/// Parameters of a sending link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// Destinations across all networks.
    pub destinations: Vec<Endpoint>,
    /// Both networks, if each carries every packet.
    pub networks: Option<(String, String)>,
    /// Maximum datagram size in bytes.
    pub datagram_bytes: usize,
    /// Whether a wire thread spaces packets.
    pub ringed: bool,
}
