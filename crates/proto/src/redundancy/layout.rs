//! Symbols that each packet carries: the layout of a stream's redundancy.

use super::{MAX_SYMBOLS, MAX_WINDOW};

/// Maximum UDP payload in an Ethernet frame with IPv4: 1500 bytes minus 28.
pub const ETHERNET: usize = 1472;

/// Maximum datagram with redundancy: the UDP payload in a jumbo frame of 9000 bytes.
pub const LONGEST: usize = 9000 - 28;

/// Earlier packets that a symbol covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Distance of the oldest one from the carrier, in packets.
    pub oldest: u8,
    /// Number of packets from there on.
    pub span: u8,
}

/// Redundancy that every packet carries for earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    reaches: [Reach; MAX_SYMBOLS],
    count: usize,
    /// Packets after which a packet is repeated whole (RFC 7198); 0 for never.
    repeat: usize,
    /// Maximum datagram length with redundancy, in bytes of UDP payload.
    max_bytes: usize,
}

impl Layout {
    /// No redundancy.
    pub const NONE: Self = Self {
        reaches: [Reach { oldest: 0, span: 0 }; MAX_SYMBOLS],
        count: 0,
        repeat: 0,
        max_bytes: ETHERNET,
    };

    /// `copies` earlier packets, spread evenly over `window` packets with the last at its end: the
    /// further apart two copies are, the less likely one burst loses both.
    pub fn copies(copies: usize, window: usize) -> Self {
        let window = window.clamp(1, MAX_WINDOW);
        let copies = copies.min(window).min(MAX_SYMBOLS);
        (1..=copies).fold(Self::NONE, |layout, copy| {
            let oldest = (window * copy).div_ceil(copies) as u8;
            layout.with(Reach { oldest, span: 1 })
        })
    }

    /// `symbols` repair symbols of an erasure code over the last `window` packets. Of several
    /// symbols, one is a copy of the oldest packet: after a burst as long as the window, only this
    /// symbol can still repair that packet, and it costs the others little.
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

    /// Every packet repeated whole, `later` packets after it.
    pub fn repeated(later: usize) -> Self {
        Self { repeat: later.clamp(1, MAX_WINDOW), ..Self::NONE }
    }

    /// Adds a symbol, if there is room.
    #[must_use]
    pub fn with(mut self, reach: Reach) -> Self {
        if let Some(place) = self.reaches.get_mut(self.count) {
            *place = reach;
            self.count += 1;
        }
        self
    }

    /// Limits datagrams to `max_bytes` of UDP payload, up to [`LONGEST`]. The default is
    /// [`ETHERNET`].
    #[must_use]
    pub fn within(self, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(LONGEST), ..self }
    }

    /// Maximum datagram length with redundancy, in bytes of UDP payload.
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Packets covered by each symbol.
    pub fn reaches(&self) -> &[Reach] {
        &self.reaches[..self.count]
    }

    /// Symbols per packet; a repeated packet counts as one.
    pub fn symbols(&self) -> usize {
        self.count + usize::from(self.repeat > 0)
    }

    /// Packets after which a packet is repeated, if it is.
    pub fn repeat(&self) -> Option<usize> {
        (self.repeat > 0).then_some(self.repeat)
    }

    /// Packets after a packet that may repair it.
    pub fn window(&self) -> usize {
        let oldest = self.reaches().iter().map(|reach| usize::from(reach.oldest)).max();
        oldest.unwrap_or(0).max(self.repeat)
    }
}
