//! What is asked of a stream while it plays.

use tautline_proto::device::Settings;

use super::Desk;
use crate::control::Answer;
use crate::own::{BUSY, Own};
use crate::rx::Command;
use tautline_proto::latency::{LatencyRule, kept_latency};

impl Desk {
    /// Another latency, at once. Answers with the latency that it then has.
    pub(crate) fn set_latency(&mut self, wanted: LatencyRule, device: &Settings) -> Answer {
        let packing_age = self.announced.map(|announced| announced.packing_age);
        let packing_age = packing_age.or(self.needs.packet());
        let least = self.least(packing_age.unwrap_or(self.config.format.ptime()), device);
        let promised = self.announced.map_or(self.link_offset, |announced| announced.link_offset);
        let (rule, link_offset) = match wanted {
            LatencyRule::Chosen(latency) if latency < least => {
                return Err(format!(
                    "{latency} is less than the {least} that the packets of {} and the device here \
                     take; use {least} or more",
                    self.address
                ));
            }
            LatencyRule::Chosen(latency) if latency > self.longest => {
                return Err(format!(
                    "this run has room for {}; start taut again with --latency {latency} for more",
                    self.longest
                ));
            }
            LatencyRule::Chosen(latency) => (wanted, latency),
            LatencyRule::Usual => {
                (LatencyRule::Usual, kept_latency(promised, least).min(self.longest))
            }
            LatencyRule::Auto => (LatencyRule::Auto, self.arrivals.start_at(self.link_offset)),
        };
        let raises = rule == LatencyRule::Usual;
        self.commands.push(Command::Raises(raises)).map_err(|_| BUSY)?;
        self.commands.push(Command::LinkOffset(link_offset)).map_err(|_| BUSY)?;
        (self.rule, self.link_offset) = (rule, link_offset);
        Ok(link_offset.to_string())
    }

    /// Another gain in the mix.
    pub(crate) fn set_gain(&mut self, change: impl FnOnce(&mut Own)) -> Answer {
        let mut own = self.own;
        change(&mut own);
        self.commands.push(Command::Gain(own.wanted())).map_err(|_| BUSY)?;
        self.own = own;
        Ok(format!("volume {own}"))
    }

    /// Takes the place of `other`: what was chosen there is kept here.
    pub(crate) fn inherit(&mut self, other: &Self) {
        (self.own, self.rule) = (other.own, other.rule);
        self.books.word = other.books.word;
        let link_offset = other.link_offset.min(self.longest);
        if self.rule != LatencyRule::Usual
            && self.commands.push(Command::Raises(false)).is_ok()
            && self.commands.push(Command::LinkOffset(link_offset)).is_ok()
        {
            self.link_offset = link_offset;
        }
    }

    /// How it stands, in the words that change it.
    pub(crate) fn status_line(&self) -> String {
        let auto = if self.auto().is_some() { "auto, now " } else { "" };
        let Self { link_offset, own, address, .. } = self;
        format!("latency {auto}{link_offset}, stream volume {own}, from {address}")
    }
}
