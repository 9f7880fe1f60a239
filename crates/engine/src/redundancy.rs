//! What the ordinary thread of a sender does for redundancy: it hears what receivers lost, and tells
//! the device's thread what packets are to carry.

use tautline_io::clock::now;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::redundancy::sizing::{Losses, Sizing};
use tautline_proto::wire::rtcp::LossReport;

use crate::control::Answer;
use crate::report;
use crate::send_desk::Desk;
use crate::tx::Command;

/// What one receiver reported of losses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lacked {
    pub(crate) last: Option<LossReport>,
    sizing: Sizing,
}

impl Lacked {
    pub(crate) fn hear(&mut self, losses: LossReport) {
        self.sizing.observe(now(), losses.tally);
        self.last = Some(losses);
    }
}

impl Desk {
    /// Lets packets carry what is asked for, or what the receiver needs that loses most.
    pub(crate) fn regulate(&mut self) {
        let heard = self.receivers.iter().map(|receiver| &receiver.lacked);
        let reported = heard.filter(|lacked| lacked.last.is_some());
        let losses = reported.map(|lacked| lacked.sizing.losses()).reduce(Losses::worse);
        let mut regulator = self.plan.redundancy;
        let layout = regulator.poll(now(), &self.plan.format, losses.unwrap_or(Losses::UNKNOWN));
        // Where the ring is full, at the next turn.
        if layout.is_none_or(|layout| self.commands.push(Command::Redundancy(layout)).is_ok()) {
            self.plan.redundancy = regulator;
        }
    }

    /// Asks for another amount of redundancy.
    pub(crate) fn set_redundancy(&mut self, asked: Redundancy) -> Answer {
        let (bounds, format) = (self.plan.redundancy.bounds(), self.plan.format);
        if asked != Redundancy::Off && bounds.window(&format) == 0 {
            return Err(format!(
                "a budget of {} holds no packet of {}; start taut again with a longer \
                 --redundancy-budget, or use a shorter ptime first",
                bounds.budget,
                format.ptime()
            ));
        }
        self.plan.redundancy.set(asked, bounds);
        Ok(format!("redundancy {asked}"))
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
        })
    }
}
