//! Keeps what packets carry in step with what is asked for and with what receivers report.

use super::Limits;
use crate::redundancy::sizing::Losses;
use crate::redundancy::{Bounds, ETHERNET, Layout, Redundancy};
use crate::stream::StreamFormat;
use crate::time::{LocalTime, Span};
use crate::wire::rtp;

/// Decides what the packets of one stream carry.
#[derive(Debug, Clone, Copy)]
pub struct Regulator {
    asked: Redundancy,
    bounds: Bounds,
    /// What packets carry, and for which format that was reckoned.
    present: Option<(Layout, StreamFormat)>,
    /// Since when less would do.
    less_since: Option<LocalTime>,
}

impl Regulator {
    /// Less is carried only if less has done for so long: losses come in spells.
    const PATIENCE: Span = Span::from_secs(10);

    /// Nothing is asked for.
    pub const OFF: Self = Self::new(
        Redundancy::Off,
        Bounds {
            wire: rtp::PACK,
            budget: Span::ZERO,
            stamps: true,
            most_bytes: ETHERNET,
            most_asked: Limits::SYMBOLS,
        },
    );

    /// Nothing is carried yet.
    pub const fn new(asked: Redundancy, bounds: Bounds) -> Self {
        Self { asked, bounds, present: None, less_since: None }
    }

    /// What is asked for.
    pub const fn asked(&self) -> Redundancy {
        self.asked
    }

    /// What is kept to.
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// What packets carry.
    pub fn layout(&self) -> Layout {
        self.present.map_or(Layout::NONE, |(layout, _)| layout)
    }

    /// Asks for something else, from the next [`Self::poll`] on.
    pub fn set(&mut self, asked: Redundancy, bounds: Bounds) {
        *self = Self::new(asked, bounds);
    }

    /// Keeps to other bounds, at once from the next [`Self::poll`] on.
    pub(crate) fn keep_to(&mut self, bounds: Bounds) {
        if bounds != self.bounds {
            self.set(self.asked, bounds);
        }
    }

    /// What packets of `format` are to carry from now on, if that is another than before. `losses`
    /// are those of the receiver that loses most.
    pub fn poll(
        &mut self,
        now: LocalTime,
        format: &StreamFormat,
        losses: Losses,
    ) -> Option<Layout> {
        let wanted = self.asked.layout(format, &self.bounds, losses);
        let settled = self.present.filter(|(_, of)| {
            (of.payload_bytes(), of.packet) == (format.payload_bytes(), format.packet)
        });
        if let Some((layout, _)) = settled {
            if layout == wanted {
                self.less_since = None;
                return None;
            }
            let less = wanted.reaches().len() <= layout.reaches().len();
            let since = *self.less_since.get_or_insert(now);
            if less && now - since < Self::PATIENCE {
                return None;
            }
        }
        self.less_since = None;
        let before = self.present.replace((wanted, *format)).map(|(layout, _)| layout);
        (before != Some(wanted)).then_some(wanted)
    }
}
