//! Requested redundancy, and the resulting layout.

use core::fmt;
use core::str::FromStr;

use super::layout::Layout;
use super::sizing::{self, Losses};
use super::{MAX_PAYLOAD, MAX_SYMBOLS, MAX_WINDOW, repair_data};
use crate::packet::Pack;
use crate::stream::StreamFormat;
use crate::time::Span;

/// Requested amount of redundancy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redundancy {
    /// None.
    #[default]
    Off,
    /// Copies of earlier packets per packet.
    Copies(u8),
    /// Repair symbols of an erasure code per packet.
    Code(u8),
    /// As required by reported losses.
    Auto,
}

/// Invalid redundancy, with the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a redundancy\nhint: write off, red:1 to red:24, fec:1 to fec:24, or auto")]
pub struct RedundancyError(String);

impl FromStr for Redundancy {
    type Err = RedundancyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = |text: &str| {
            text.parse::<u8>().ok().filter(|n| (1..=MAX_SYMBOLS).contains(&usize::from(*n)))
        };
        let requested = match text.split_once(':') {
            None if text == "off" => Some(Self::Off),
            None if text == "auto" => Some(Self::Auto),
            Some(("red", copies)) => count(copies).map(Self::Copies),
            Some(("fec", symbols)) => count(symbols).map(Self::Code),
            _ => None,
        };
        requested.ok_or_else(|| RedundancyError(text.to_owned()))
    }
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Copies(copies) => write!(f, "red:{copies}"),
            Self::Code(symbols) => write!(f, "fec:{symbols}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// Limits of a stream's redundancy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Writer of the packets.
    pub wire: &'static dyn Pack,
    /// Repair time after departure.
    pub budget: Span,
    /// Whether packets carry instants.
    pub stamps: bool,
    /// Maximum unfragmented UDP payload in bytes.
    pub max_bytes: usize,
    /// Maximum symbols with [`Redundancy::Auto`].
    pub max_asked: u8,
}

impl Bounds {
    /// Packets sent within the budget.
    pub fn window(&self, format: &StreamFormat) -> usize {
        let ptime = format.ptime().as_nanos().max(1);
        usize::try_from(self.budget.as_nanos() / ptime).unwrap_or(0).min(MAX_WINDOW)
    }

    /// Maximum symbols per packet.
    pub fn max_symbols(&self, format: &StreamFormat) -> usize {
        let payload = format.payload_bytes();
        // Packets that are too long or vary in length are repeated whole.
        if payload > MAX_PAYLOAD || !format.is_constant() {
            return 0;
        }
        let maximum = self.max_bytes.saturating_sub(payload);
        let room = self.wire.carried_within(self.stamps, maximum);
        (1..=MAX_SYMBOLS).take_while(|n| repair_data::bytes(*n, payload) <= room).count()
    }

    /// Bytes that up to this many symbols add to a packet.
    pub fn cost_of(&self, format: &StreamFormat, symbols: usize) -> usize {
        let window = self.window(format);
        let maximum = self.max_symbols(format).min(window);
        let layout = match symbols {
            0 => Layout::NONE,
            _ if window > 0 && maximum == 0 => Layout::repeated(window),
            symbols => Layout::copies(symbols.min(maximum), window),
        };
        self.cost(format, &layout)
    }

    /// Bytes that a layout adds to a packet.
    pub fn cost(&self, format: &StreamFormat, layout: &Layout) -> usize {
        let payload = format.payload_bytes();
        let head = |repair_data| self.wire.head_bytes(self.stamps, repair_data);
        let repair_data = repair_data::bytes(layout.reaches().len(), payload);
        let again = layout.repeat().map_or(0, |_| head(0) + payload);
        head(repair_data) - head(0) + again
    }
}

impl Redundancy {
    /// Layout for `format`. If a symbol is too long for the path, packets are repeated whole.
    /// `losses` is for [`Redundancy::Auto`].
    pub fn layout(self, format: &StreamFormat, bounds: &Bounds, losses: Losses) -> Layout {
        let (window, maximum) = (bounds.window(format), bounds.max_symbols(format));
        let layout = match self {
            Self::Off => Layout::NONE,
            _ if window == 0 => Layout::NONE,
            Self::Auto if losses.is_none() || bounds.max_asked == 0 => Layout::NONE,
            _ if maximum == 0 => Layout::repeated(window),
            Self::Copies(copies) => Layout::copies(maximum.min(copies.into()), window),
            Self::Code(symbols) => Layout::code(maximum.min(symbols.into()), window),
            Self::Auto => sizing::fitting(losses, window, maximum.min(bounds.max_asked.into())),
        };
        layout.within(bounds.max_bytes)
    }
}

#[cfg(test)]
mod tests;
