//! Layout of a stream's redundancy.

use super::{MAX_SYMBOLS, MAX_WINDOW};

/// Default UDP payload, in an Ethernet frame: 1500 bytes minus 28 (IPv4).
pub const ETHERNET: usize = 1472;

/// Maximum UDP payload, in a jumbo frame of 9000 bytes.
pub const LONGEST: usize = 9000 - 28;

/// Earlier packets that a symbol covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Distance of the oldest from the carrier.
    pub oldest: u8,
    /// Number of packets from there on.
    pub span: u8,
}

/// Redundancy that every packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    reaches: [Reach; MAX_SYMBOLS],
    count: usize,
    /// Distance of a whole repetition (RFC 7198); 0 without a repetition.
    repeat: usize,
    /// Maximum UDP payload.
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

    /// `copies` earlier packets, spread over `window` packets so that a burst rarely loses two.
    pub fn copies(copies: usize, window: usize) -> Self {
        let window = window.clamp(1, MAX_WINDOW);
        let copies = copies.min(window).min(MAX_SYMBOLS);
        (1..=copies).fold(Self::NONE, |layout, copy| {
            let oldest = (window * copy).div_ceil(copies) as u8;
            layout.with(Reach { oldest, span: 1 })
        })
    }

    /// `symbols` repair symbols over the last `window` packets. One of several copies the oldest
    /// packet: after a burst as long as the window, only it can repair that.
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

    /// Every packet repeated `later` packets after it.
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

    /// Limits UDP payloads to `max_bytes`, up to [`LONGEST`], by default [`ETHERNET`].
    #[must_use]
    pub fn within(self, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(LONGEST), ..self }
    }

    /// Maximum UDP payload in bytes.
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Packets covered by each symbol.
    pub fn reaches(&self) -> &[Reach] {
        &self.reaches[..self.count]
    }

    /// Symbols per packet; a repetition counts as one symbol.
    pub fn symbols(&self) -> usize {
        self.count + usize::from(self.repeat > 0)
    }

    /// Distance of a repetition.
    pub fn repeat(&self) -> Option<usize> {
        (self.repeat > 0).then_some(self.repeat)
    }

    /// Packets after a packet that may repair it.
    pub fn window(&self) -> usize {
        let oldest = self.reaches().iter().map(|reach| usize::from(reach.oldest)).max();
        oldest.unwrap_or(0).max(self.repeat)
    }
}
