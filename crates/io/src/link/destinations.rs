//! Where packets go.

use tautline_proto::endpoint::Endpoint;

/// A set of destinations of a fixed size, which a real-time thread can take without allocating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destinations {
    all: [Option<Endpoint>; Self::MOST],
}

impl Destinations {
    /// The most that a link can be given while it sends.
    pub const MOST: usize = 16;

    /// Nowhere: what is sent is let go.
    pub const NONE: Self = Self { all: [None; Self::MOST] };

    /// This one alone.
    pub const fn one(destination: Endpoint) -> Self {
        let mut set = Self::NONE;
        set.all[0] = Some(destination);
        set
    }

    /// The destinations of `all`, or `None` if they are more than [`Destinations::MOST`].
    pub fn new<T: Copy + Into<Endpoint>>(all: &[T]) -> Option<Self> {
        let mut set = Self::NONE;
        set.all.get_mut(..all.len())?.iter_mut().zip(all).for_each(|(slot, one)| {
            *slot = Some((*one).into());
        });
        Some(set)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Endpoint> + Clone + '_ {
        self.all.iter().map_while(|one| *one)
    }
}

/// What a link that sends was opened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// Where every packet goes, by whichever network.
    pub destinations: Vec<Endpoint>,
    /// The two networks by which everything goes, if it does.
    pub networks: Option<(String, String)>,
    /// The largest datagram in bytes.
    pub datagram_bytes: usize,
    /// Whether a wire thread spaces packets by their departure times.
    pub ringed: bool,
}
