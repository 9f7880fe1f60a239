//! Latency changes during playout.

use super::{ReceiveContext, ReceivePolicy};
use crate::jitter_buffer::ReceiveCommand;
use crate::latency::{LatencyRule, LatencySum, kept_latency};
use crate::time::Span;

/// Why a latency change is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyRefused {
    /// Too short for packets and device.
    TooShort {
        /// Requested latency.
        requested: Span,
        /// Sufficient latency.
        needs: LatencySum,
    },
    /// Beyond the buffer.
    TooLong {
        /// Requested latency.
        requested: Span,
        /// Maximum latency of the buffer.
        longest: Span,
    },
    /// Previous commands are still queued.
    Busy,
}

impl ReceivePolicy {
    /// Changes the latency rule, and returns the latency.
    pub fn set_latency(
        &mut self,
        rule: LatencyRule,
        context: &mut ReceiveContext<'_>,
    ) -> Result<Span, LatencyRefused> {
        let packing_age = self.announced.map(|announced| announced.packing_age);
        let packing_age = packing_age.or(self.needs.packet());
        let packing_age = packing_age.unwrap_or(self.format.ptime());
        let needs = LatencySum { packing_age, device: self.takes };
        let minimum = needs.without_network();
        let promised = self.announced.map_or(self.link_offset, |announced| announced.link_offset);
        let longest = self.longest;
        let link_offset = match rule {
            LatencyRule::Chosen(requested) if requested < minimum => {
                return Err(LatencyRefused::TooShort { requested, needs });
            }
            LatencyRule::Chosen(requested) if requested > longest => {
                return Err(LatencyRefused::TooLong { requested, longest });
            }
            LatencyRule::Chosen(requested) => requested,
            LatencyRule::Usual => kept_latency(promised, minimum).min(longest),
            LatencyRule::Auto { maximum } => {
                self.arrivals.set_max(maximum);
                self.arrivals.start_at(self.link_offset)
            }
        };
        let raises = ReceiveCommand::Raises(rule == LatencyRule::Usual);
        let taken =
            (context.command)(raises) && (context.command)(ReceiveCommand::LinkOffset(link_offset));
        if !taken {
            self.arrivals.set_max(self.rule.maximum());
            return Err(LatencyRefused::Busy);
        }
        self.arrivals.set_max(rule.maximum());
        (self.rule, self.link_offset) = (rule, link_offset);
        Ok(link_offset)
    }

    /// Takes over rule and latency of `other`, unless senders determine the latency.
    pub fn inherit(&mut self, other: &Self, context: &mut ReceiveContext<'_>) {
        self.rule = other.rule;
        self.arrivals.set_max(self.rule.maximum());
        let link_offset = other.link_offset.min(self.longest);
        if self.rule != LatencyRule::Usual
            && (context.command)(ReceiveCommand::Raises(false))
            && (context.command)(ReceiveCommand::LinkOffset(link_offset))
        {
            self.link_offset = link_offset;
        }
    }
}
