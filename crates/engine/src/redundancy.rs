//! What the ordinary thread of a sender does for redundancy: it hears what receivers lost, and tells
//! the device's thread what packets are to carry.

use tautline_io::clock::now;
use tautline_proto::asks;
use tautline_proto::redundancy::sizing::Losses;
use tautline_proto::redundancy::{Bounds, MOST_SYMBOLS, MOST_WINDOW, Redundancy};
use tautline_proto::time::Span;

use crate::control::Answer;
use crate::report;
use crate::run::Watch;
use crate::send_desk::{Desk, Promise};
use crate::tx::Command;
use tautline_proto::latency::{repair_latency, repair_time};

impl Promise {
    /// What redundancy keeps to: the budget is what is asked for, as far as the latency leaves it and
    /// packets reach.
    fn bounds(&self) -> Bounds {
        let bounds = self.redundancy.bounds();
        let leaves = repair_time(self.likewise(), self.link_offset);
        let budget = match self.repair_budget {
            // Receivers ask for what they need, repairs included: less latency is no reason.
            _ if self.as_needed => self.repair_budget.unwrap_or(bounds.budget),
            Some(asked) => asked.min(leaves),
            None => leaves,
        };
        let most_asked = self.limits.symbols(self.to_group());
        Bounds { budget: budget.min(self.reach()).max(Span::ZERO), most_asked, ..bounds }
    }

    /// The longest budget that packets of this length can use.
    fn reach(&self) -> Span {
        self.format.ptime().times(MOST_WINDOW as i64)
    }

    /// Why packets are repaired in less time than is asked for, or not at all, if that is so.
    fn repair_note(&self) -> Option<String> {
        let (asked, ptime) = (self.redundancy.asked(), self.format.ptime());
        let budget = self.bounds().budget;
        if asked == Redundancy::Off {
            None
        } else if budget < ptime {
            Some(self.no_repair(asked))
        } else {
            let wanted = self.repair_budget.filter(|wanted| *wanted > budget)?;
            Some(if budget == self.reach() {
                format!(
                    "packets are repaired within {budget}, the time of {MOST_WINDOW} packets, and not \
                     the {wanted} of --redundancy-budget; a longer ptime has more"
                )
            } else {
                format!(
                    "packets are repaired within {budget}, which is what a latency of {} leaves, and \
                     not the {wanted} of --redundancy-budget; use a latency of {} for all of it",
                    self.link_offset,
                    repair_latency(self.likewise(), wanted.min(self.reach()))
                )
            })
        }
    }

    /// Why nothing can be repaired.
    fn no_repair(&self, asked: Redundancy) -> String {
        let ptime = self.format.ptime();
        match self.repair_budget {
            Some(budget) if budget < ptime => format!(
                "a budget of {budget} holds no packet of {ptime}; start taut again with a longer \
                 --redundancy-budget, or use a shorter ptime first"
            ),
            _ => format!(
                "a latency of {} leaves no time for redundancy {asked}, which repairs by packets that \
                 come later; use a latency of {} or more, or a ptime below {ptime}",
                self.link_offset,
                repair_latency(self.likewise(), ptime)
            ),
        }
    }
}

impl Desk {
    /// Says so if packets are repaired in less time than is asked for, or not at all.
    pub(crate) fn note_repair(&self, watch: &mut Watch) {
        if let Some(note) = self.plan.repair_note() {
            watch.note(note);
        }
    }

    /// Lets packets carry what is asked for, or what the receiver needs that loses most.
    pub(crate) fn regulate(&mut self, watch: &mut Watch) {
        let asks = self.receivers.iter().map(|receiver| &receiver.ask);
        let losses = asks::losses(asks, now());
        let mut regulator = self.plan.redundancy;
        regulator.keep_to(self.plan.bounds());
        let layout = regulator.poll(now(), &self.plan.format, losses);
        // Where the ring is full, at the next turn.
        if layout.is_none_or(|layout| self.commands.push(Command::Redundancy(layout)).is_ok()) {
            self.plan.redundancy = regulator;
        }
        self.note_limit(losses, watch);
    }

    /// Says so if losses ask for more than receivers may ask for.
    fn note_limit(&mut self, losses: Losses, watch: &mut Watch) {
        let (format, bounds) = (&self.plan.format, self.plan.bounds());
        let carried = self.plan.redundancy.layout().reaches().len();
        let now = now();
        let reported = self.receivers.iter().any(|heard| heard.ask.losses(now).is_some());
        if self.limited || !reported || carried < bounds.most_asked.into() {
            return;
        }
        let unbounded = Bounds { most_asked: MOST_SYMBOLS as u8, ..bounds };
        let asked = self.plan.redundancy.asked();
        let symbols = |bounds| asked.layout(format, bounds, losses).reaches().len();
        if symbols(&unbounded) > symbols(&bounds) {
            self.limited = true;
            watch.note(format!(
                "the losses that receivers report ask for {} symbols in each packet and get {}; give \
                 --redundancy-limit {} for all of them",
                symbols(&unbounded),
                symbols(&bounds),
                symbols(&unbounded)
            ));
        }
    }

    /// Asks for another amount of redundancy.
    pub(crate) fn set_redundancy(&mut self, asked: Redundancy, watch: &mut Watch) -> Answer {
        let (bounds, format) = (self.plan.bounds(), self.plan.format);
        if asked != Redundancy::Off {
            if !self.plan.stamps {
                return Err("it travels in a header extension, and --no-stamps leaves those out; \
                            start taut again without --no-stamps"
                    .into());
            }
            if bounds.window(&format) == 0 {
                return Err(self.plan.no_repair(asked));
            }
        }
        self.plan.redundancy.set(asked, bounds);
        self.note_repair(watch);
        Ok(format!("redundancy {}", self.redundancy_line()))
    }

    /// What is asked for, and the time it has.
    pub(crate) fn redundancy_line(&self) -> String {
        match self.plan.redundancy.asked() {
            Redundancy::Off => "off".into(),
            asked => format!("{asked} within {}", self.plan.bounds().budget),
        }
    }

    /// What packets carry, for the report.
    pub(crate) fn told_redundancy(&self) -> Option<report::Redundancy> {
        let regulator = &self.plan.redundancy;
        let layout = regulator.layout();
        (regulator.asked() != Redundancy::Off).then(|| report::Redundancy {
            asked: regulator.asked().to_string(),
            budget_ns: regulator.bounds().budget.as_nanos(),
            symbols: layout.reaches().len(),
            window: layout.window(),
            repeated: layout.repeat().is_some(),
            bytes: regulator.bounds().cost(&self.plan.format, &layout),
        })
    }
}
