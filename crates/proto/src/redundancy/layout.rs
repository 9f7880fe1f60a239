//! Which symbols each packet carries: the shape of a stream's redundancy.

use super::{MAX_SYMBOLS, MAX_WINDOW};

/// UDP payload of a datagram that an Ethernet frame carries whole over IPv4: 1500 bytes less 28.
pub const ETHERNET: usize = 1472;

/// The longest datagram that anything is carried in: what fits the jumbo frames of 9000 bytes.
pub const LONGEST: usize = 9000 - 28;

/// Which packets one symbol of every packet covers, by how much earlier they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// The oldest: so many packets before the carrier.
    pub oldest: u8,
    /// How many packets from there on.
    pub span: u8,
}

/// What every packet carries of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    reaches: [Reach; MAX_SYMBOLS],
    count: usize,
    /// The same packet is sent whole once more, so many packets later (RFC 7198); 0 for not.
    repeat: usize,
    /// No packet becomes longer than this by what it carries, in bytes of UDP payload.
    max_bytes: usize,
}

impl Layout {
    /// Nothing.
    pub const NONE: Self = Self {
        reaches: [Reach { oldest: 0, span: 0 }; MAX_SYMBOLS],
        count: 0,
        repeat: 0,
        max_bytes: ETHERNET,
    };

    /// `copies` earlier packets, spread evenly over a window of `window` packets with the last at
    /// its end: the further apart two copies are, the less likely one burst takes both.
    pub fn copies(copies: usize, window: usize) -> Self {
        let window = window.clamp(1, MAX_WINDOW);
        let copies = copies.min(window).min(MAX_SYMBOLS);
        (1..=copies).fold(Self::NONE, |layout, copy| {
            let oldest = (window * copy).div_ceil(copies) as u8;
            layout.with(Reach { oldest, span: 1 })
        })
    }

    /// `symbols` repair symbols of an erasure code over the last `window` packets. Where there are
    /// several, one of them is a copy of the oldest packet: in a burst as long as the window it is
    /// the only symbol that can still save that packet, and it costs the others little.
    pub fn code(symbols: usize, window: usize) -> Self {
        let window = window.clamp(1, MAX_WINDOW) as u8;
        let symbols = symbols.min(window.into()).min(MAX_SYMBOLS);
        if symbols == usize::from(window) {
            return Self::copies(symbols, window.into());
        }
        (0..symbols).fold(Self::NONE, |layout, symbol| {
            let alone = symbol == 0 && symbols > 1;
            layout.with(Reach { oldest: window, span: if alone { 1 } else { window } })
        })
    }

    /// Every packet whole once more, `later` packets after it.
    pub fn repeated(later: usize) -> Self {
        Self { repeat: later.clamp(1, MAX_WINDOW), ..Self::NONE }
    }

    /// The same with one symbol more, if there is room for it.
    #[must_use]
    pub fn with(mut self, reach: Reach) -> Self {
        if let Some(place) = self.reaches.get_mut(self.count) {
            *place = reach;
            self.count += 1;
        }
        self
    }

    /// The same for a path that carries datagrams of so many bytes of UDP payload whole, up to
    /// [`LONGEST`]; it is made for [`ETHERNET`].
    #[must_use]
    pub fn within(self, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(LONGEST), ..self }
    }

    /// No packet becomes longer than this by what it carries.
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// What each symbol covers.
    pub fn reaches(&self) -> &[Reach] {
        &self.reaches[..self.count]
    }

    /// Symbols in each packet; a packet that is sent again whole counts as one.
    pub fn symbols(&self) -> usize {
        self.count + usize::from(self.repeat > 0)
    }

    /// How many packets later each is sent again, if it is.
    pub fn repeat(&self) -> Option<usize> {
        (self.repeat > 0).then_some(self.repeat)
    }

    /// Packets after a packet that may still bring it back.
    pub fn window(&self) -> usize {
        let oldest = self.reaches().iter().map(|reach| usize::from(reach.oldest)).max();
        oldest.unwrap_or(0).max(self.repeat)
    }
}
