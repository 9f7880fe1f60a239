//! What those who look at a sent stream are told.

use tautline_io::clock::now;
use tautline_proto::ledger::Departure;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wrap;
use tautline_report::WorstPacket;
use tautline_report::snapshot::{
    ClockSnapshot, LatencySnapshot, Snapshot, StreamSnapshot, StreamState,
};

use super::{STAGES, SentStream, spans};
use crate::monitor::observers::Observers;
use crate::monitor::run::PeerState;
use crate::send_engine::transmitter::TransmitterCommand;

impl SentStream {
    /// Tells those who look how it stands, of a run that began at `began`. Once a beat.
    pub(crate) fn tell_observers(&mut self, observers: &Observers, began: LocalTime) {
        let (now, here, counters) = (now(), observers.are_here(), self.counters());
        let commands = &mut self.commands;
        let ask = || commands.push(TransmitterCommand::Levels(here)).is_ok();
        self.observed.look(now, here, ask);
        self.observed.follow(now, || counters);
        let elapsed = now - began;
        observers.tell(|| Snapshot {
            elapsed_ns: elapsed.as_nanos(),
            streams: vec![self.snapshot(elapsed, now)],
            ..Snapshot::default()
        });
    }

    fn snapshot(&mut self, elapsed: Span, now: LocalTime) -> StreamSnapshot {
        let format = self.policy.format();
        let effective = self.effective();
        let nanos = |span: Span| span.as_nanos();
        let clock = self.policy.believed().find_map(|known| known.clock.as_ref());
        let mut snapshot = StreamSnapshot {
            address: self.config.address.clone(),
            state: match self.peer(elapsed) {
                PeerState::Here => StreamState::Here,
                PeerState::Lost(_) => StreamState::Lost,
                PeerState::Nobody => StreamState::Nobody,
                _ => StreamState::Unknown,
            },
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().to_owned(),
            bitrate: format.coding().bitrate(),
            muted: self.fader.muted,
            ptime_ns: nanos(format.ptime()),
            latency: LatencySnapshot {
                configured_ns: Some(nanos(self.policy.link_offset())),
                measured_ns: effective.map(|(latency, _)| nanos(latency)),
                uncertainty_ns: effective.map(|(_, uncertainty)| nanos(uncertainty)),
                p99_ns: None,
                by: "receivers".to_owned(),
            },
            clock: clock.map(ClockSnapshot::of),
            ..StreamSnapshot::default()
        };
        let start = self.identity.timestamp;
        let way = |departure: &Departure| WorstPacket {
            rtp_timestamp: start.wrapping_add(wrap::rtp_timestamp(departure.media.as_frames())),
            total_ns: None,
            stages: STAGES
                .into_iter()
                .zip(spans(departure))
                .filter_map(|(stage, span)| Some((stage.name().into(), nanos(span?))))
                .collect(),
        };
        self.observed.tell(now, way, &mut snapshot);
        // Of what is sent nobody here says what is lost; receivers do, of what was due at them so far.
        snapshot.second.loss_share = None;
        if let Some(losses) = self.policy.believed().find_map(|known| known.losses) {
            let mut count = |name: &str, count| snapshot.counters.insert(name.to_owned(), count);
            count("receiver_expected", losses.tally.expected.saturating_add(losses.tally.beyond));
            count("receiver_lost", losses.lost);
            count("receiver_late", losses.late);
        }
        snapshot
    }
}
