//! Redundancy of a sent stream.

use super::path_size::PathSize;
use super::requests;
use super::{NoRepair, SendCommand, SendContext, SendNote, SendPolicy, SendRefused};
use crate::latency::{default_repair_time, repair_latency, repair_time};
use crate::redundancy::sizing::Losses;
use crate::redundancy::{Bounds, Layout, MAX_SYMBOLS, MAX_WINDOW, Redundancy};
use crate::time::{LocalTime, Span};

/// Default repair time; covers at least two packets.
pub const DEFAULT_BUDGET: Span = Span::from_millis(10);
const MIN_WINDOW: i64 = 2;
/// Smaller changes of the path change no layout.
const PATH_STEP: Span = Span::from_micros(500);

impl SendPolicy {
    /// Limits of redundancy, by latency and reach of packets.
    pub fn bounds(&self) -> Bounds {
        let config = &self.config;
        let bounds = config.redundancy.bounds();
        let leaves = repair_time(self.likewise().without_network(), config.link_offset);
        let ptime = config.format.ptime();
        let budget = match config.repair_budget {
            // An automatic latency includes the repair time.
            _ if self.is_as_needed() => {
                let minimum = ptime.times(MIN_WINDOW);
                config.repair_budget.unwrap_or(DEFAULT_BUDGET.max(minimum))
            }
            Some(requested) => requested.min((leaves - self.path).max(leaves.min(ptime))),
            None => default_repair_time(leaves, self.path, ptime),
        };
        let max_asked = config.limits.symbols(self.goes_to_group());
        // Longer datagrams may not pass.
        let max_bytes = self.path_size.as_ref().map_or(usize::MAX, PathSize::payload_bytes);
        let max_bytes = max_bytes.min(bounds.max_bytes);
        Bounds { budget: budget.min(self.reach()).max(Span::ZERO), max_asked, max_bytes, ..bounds }
    }

    /// Requested redundancy.
    pub const fn redundancy(&self) -> Redundancy {
        self.config.redundancy.requested()
    }

    /// Current layout.
    pub fn layout(&self) -> Layout {
        self.config.redundancy.layout()
    }

    /// Limits of the current layout.
    pub const fn reckoned_with(&self) -> Bounds {
        self.config.redundancy.bounds()
    }

    fn reach(&self) -> Span {
        self.config.format.ptime().times(MAX_WINDOW as i64)
    }

    pub(super) fn note_repair(&mut self) {
        let (requested, ptime) = (self.redundancy(), self.config.format.ptime());
        let (budget, reach) = (self.bounds().budget, self.reach());
        if requested == Redundancy::Off || self.config.repairs_after_loss {
            return;
        }
        if budget < ptime {
            return self.notes.note(SendNote::NoRepair(self.no_repair(requested)));
        }
        let wanted = self.config.repair_budget.filter(|wanted| *wanted > budget);
        let Some(wanted) = wanted else { return };
        self.notes.note(if budget == reach {
            SendNote::ShortReach { reach, wanted }
        } else {
            let enough = repair_latency(self.likewise().without_network(), wanted.min(reach));
            SendNote::LessRepair { budget, wanted, latency: self.config.link_offset, enough }
        });
    }

    fn no_repair(&self, requested: Redundancy) -> NoRepair {
        let ptime = self.config.format.ptime();
        match self.config.repair_budget {
            Some(budget) if budget < ptime => NoRepair::Budget { budget, ptime },
            _ => NoRepair::Latency {
                latency: self.config.link_offset,
                requested,
                enough: repair_latency(self.likewise().without_network(), ptime),
                ptime,
            },
        }
    }

    /// Updates the time to the farthest receiver: half of its shortest round trip.
    fn measure_path(&mut self) {
        let present = self.receivers.believed().filter(|known| known.is_here());
        let trips = present.filter_map(|known| known.clock?.known_round_trip());
        let path = trips.max().unwrap_or(Span::ZERO).half();
        if (path - self.path).abs() >= PATH_STEP {
            self.path = path;
        }
    }

    /// Updates the layout, as requested or for the highest losses.
    pub(super) fn regulate(&mut self, context: &mut SendContext<'_>) {
        self.measure_path();
        let losses = self.losses(context.now);
        let mut regulator = self.config.redundancy;
        let mut bounds = self.bounds();
        if regulator.requested() == Redundancy::Auto && !losses.is_none() {
            bounds.max_asked = self.symbols_within_rate(&bounds);
        }
        regulator.keep_to(bounds);
        let layout = regulator.poll(context.now, &self.config.format, losses);
        // If the queue is full, retry at the next poll.
        if layout.is_none_or(|layout| (context.command)(SendCommand::Redundancy(layout))) {
            self.config.redundancy = regulator;
        }
        self.count_redundancy(context.now);
        self.note_limit(losses, context.now);
    }

    /// Highest losses of any receiver. An adaptive stream has no redundancy before the first
    /// reported loss.
    fn losses(&self, now: LocalTime) -> Losses {
        if self.config.repairs_after_loss {
            return Losses::NONE;
        }
        let reported = requests::losses(self.receivers.requests(), now);
        match self.is_led {
            true => Losses { share: self.expected_loss.share(), ..reported },
            false => reported,
        }
    }

    fn note_limit(&mut self, losses: Losses, now: LocalTime) {
        let (format, bounds) = (self.config.format, self.bounds());
        let carried = self.layout().reaches().len();
        let reported = self.receivers.requests().any(|request| request.losses(now).is_some());
        if self.limited || !reported || carried < bounds.max_asked.into() {
            return;
        }
        let unbounded = Bounds { max_asked: MAX_SYMBOLS as u8, ..bounds };
        let requested = self.redundancy();
        let symbols = |bounds| requested.layout(&format, bounds, losses).reaches().len();
        let (wanted, got) = (symbols(&unbounded), symbols(&bounds));
        if wanted > got {
            self.limited = true;
            self.notes.note(SendNote::MoreSymbols { wanted, got });
        }
    }

    /// Sets the requested redundancy.
    pub fn set_redundancy(&mut self, requested: Redundancy) -> Result<(), SendRefused> {
        let bounds = self.bounds();
        if requested != Redundancy::Off {
            if !self.config.stamps {
                return Err(SendRefused::NoStamps);
            }
            if bounds.window(&self.config.format) == 0 {
                return Err(SendRefused::NoRepair(self.no_repair(requested)));
            }
        }
        self.config.redundancy.set(requested, bounds);
        self.note_repair();
        Ok(())
    }
}
