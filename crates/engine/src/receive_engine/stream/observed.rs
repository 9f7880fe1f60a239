//! What those who look at a received stream are told.

use tautline_proto::ledger::{PacketTrace, Stage};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_report::snapshot::{ClockSnapshot, LatencySnapshot, StreamSnapshot, StreamState};

use super::ReceivedStream;
use crate::receive_engine::mixer::MixerCommand;
use crate::receive_engine::summary;

/// Playout deadline less arrival; of a late packet by how much it missed its turn, below zero.
fn headroom(passage: &PacketTrace) -> Option<Span> {
    match passage.late {
        true => passage.stage(Stage::Device),
        false => Some(passage.taken - passage.arrival),
    }
}

impl ReceivedStream {
    /// Keeps what observers are told, while any is `here`. Once a beat.
    pub(crate) fn look(&mut self, now: LocalTime, here: bool) {
        let commands = &mut self.commands;
        let ask = || commands.push(MixerCommand::Levels(here)).is_ok();
        self.statistics.observed.look(now, here, ask);
        if here {
            let counters = self.source().counters();
            self.statistics.observed.follow(now, || counters);
        }
    }

    pub(crate) fn snapshot(&mut self, now: LocalTime) -> StreamSnapshot {
        let Self { policy, statistics, address, config, .. } = self;
        let status = statistics.status;
        let format = status.map_or(config.format, |status| status.stream.format);
        let state = match policy.recent() {
            _ if policy.refusal().is_some() || policy.contradicted().is_some() => {
                StreamState::Refused
            }
            recent if !recent.any() => StreamState::Awaited,
            recent if recent.silent().is_some() => StreamState::Silent,
            _ => StreamState::Here,
        };
        // The sound is placed on whole frames.
        let rounding = format.rate.span_of(Frames::new(1)).half();
        let nanos = |span: Span| span.as_nanos();
        let headroom = statistics.observed.packets(now).filter_map(headroom).min();
        let mut snapshot = StreamSnapshot {
            address: address.clone(),
            sender: status.as_ref().and_then(summary::sender).map(|sender| sender.from),
            state,
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().to_owned(),
            bitrate: status.and_then(|status| status.stream.bitrate),
            ptime_ns: nanos(format.ptime()),
            latency: LatencySnapshot {
                configured_ns: policy.is_latency_configured().then(|| nanos(policy.link_offset())),
                measured_ns: statistics.recent().map(nanos),
                uncertainty_ns: statistics.known_to().map(|known| nanos(known + rounding)),
                p99_ns: statistics.latency().0.percentile(0.99).map(nanos),
                by: statistics.by().to_owned(),
            },
            depth_ns: policy.arrivals().needed().map(nanos),
            headroom_ns: headroom.map(nanos),
            clock: statistics.clock.as_ref().map(|clock| ClockSnapshot {
                uncertainty_ns: statistics.known_to().map(nanos),
                ..ClockSnapshot::of(clock)
            }),
            ..StreamSnapshot::default()
        };
        statistics.observed.tell(now, summary::worst, &mut snapshot);
        snapshot
    }
}
