//! Adjusts redundancy to requests and reports.

use super::Limits;
use crate::redundancy::sizing::Losses;
use crate::redundancy::{Bounds, ETHERNET, Layout, Redundancy};
use crate::stream::StreamFormat;
use crate::time::{LocalTime, Span};
use crate::wire::rtp;

/// Redundancy of one stream.
#[derive(Debug, Clone, Copy)]
pub struct Regulator {
    requested: Redundancy,
    bounds: Bounds,
    present: Option<(Layout, StreamFormat)>,
    less_since: Option<LocalTime>,
}

impl Regulator {
    /// Wait before a reduction, because losses come in groups.
    const TIMEOUT: Span = Span::from_secs(10);

    /// No redundancy.
    pub const OFF: Self = Self::new(
        Redundancy::Off,
        Bounds {
            wire: rtp::PACK,
            budget: Span::ZERO,
            stamps: true,
            max_bytes: ETHERNET,
            max_asked: Limits::SYMBOLS,
        },
    );

    /// Creates a regulator.
    pub const fn new(requested: Redundancy, bounds: Bounds) -> Self {
        Self { requested, bounds, present: None, less_since: None }
    }

    /// Requested redundancy.
    pub const fn requested(&self) -> Redundancy {
        self.requested
    }

    /// Limits in use.
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Current layout.
    pub fn layout(&self) -> Layout {
        self.present.map_or(Layout::NONE, |(layout, _)| layout)
    }

    /// Changes the request from the next [`Self::poll`] on.
    pub fn set(&mut self, requested: Redundancy, bounds: Bounds) {
        *self = Self::new(requested, bounds);
    }

    /// Changes the limits from the next [`Self::poll`] on.
    pub(crate) fn keep_to(&mut self, bounds: Bounds) {
        if bounds != self.bounds {
            self.set(self.requested, bounds);
        }
    }

    /// Returns a changed layout. `losses` are the highest of any receiver.
    pub fn poll(
        &mut self,
        now: LocalTime,
        format: &StreamFormat,
        losses: Losses,
    ) -> Option<Layout> {
        let wanted = self.requested.layout(format, &self.bounds, losses);
        let settled = self.present.filter(|(_, of)| {
            (of.payload_bytes(), of.packet) == (format.payload_bytes(), format.packet)
        });
        if let Some((layout, _)) = settled {
            if layout == wanted {
                self.less_since = None;
                return None;
            }
            let less = wanted.symbols() <= layout.symbols();
            let since = *self.less_since.get_or_insert(now);
            if less && now - since < Self::TIMEOUT {
                return None;
            }
        }
        self.less_since = None;
        let before = self.present.replace((wanted, *format)).map(|(layout, _)| layout);
        (before != Some(wanted)).then_some(wanted)
    }
}
