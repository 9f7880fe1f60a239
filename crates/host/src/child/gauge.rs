//! Progress of the plugin's thread.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use tautline_api::v1::WorkCounters;
use tautline_engine::offload::working::WorkStanding;
use tautline_proto::offload::inbound::PluginState;
use tautline_proto::time::Span;

use crate::plan::ChildStanding;

#[derive(Debug, Default)]
pub(super) struct Gauge {
    turns: AtomicU64,
    busy_ns: AtomicU64,
    longest_ns: AtomicU64,
    replayed: AtomicU64,
    odd_controls: AtomicU64,
    latency: AtomicU32,
    epoch: AtomicU32,
    dirty: AtomicBool,
    counts: [AtomicU64; COUNTS],
}

const COUNTS: usize = 9;

impl Gauge {
    pub(super) fn begin(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, took: Span, latency: u32) {
        let nanos = took.as_nanos().max(0) as u64;
        self.busy_ns.fetch_add(nanos, Ordering::Relaxed);
        self.longest_ns.fetch_max(nanos, Ordering::Relaxed);
        self.latency.store(latency, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_replayed(&self) {
        self.replayed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_odd_controls(&self) {
        self.odd_controls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn publish(&self, standing: &WorkStanding) {
        self.epoch.store(standing.epoch.unwrap_or(0), Ordering::Relaxed);
        self.dirty.store(standing.state != PluginState::Clean, Ordering::Relaxed);
        let (there, link) = (standing.machine.there, standing.link);
        let counts: [u64; COUNTS] = [
            standing.machine.back.blocks,
            there.requests,
            there.gone,
            link.received,
            link.sent,
            there.duplicates,
            there.invalid,
            there.foreign + there.late,
            link.auth_failed,
        ];
        self.counts
            .iter()
            .zip(counts)
            .for_each(|(shown, count)| shown.store(count, Ordering::Relaxed));
    }

    pub(super) fn under_way(&self) -> Option<u64> {
        let turns = self.turns.load(Ordering::Relaxed);
        (turns % 2 == 1).then_some(turns)
    }

    pub(super) fn standing(&self) -> ChildStanding {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [
            blocks,
            retransmit_requests,
            expired,
            received,
            sent,
            duplicate,
            invalid,
            other_stream,
            auth_failed,
        ] = self.counts.each_ref().map(number);
        ChildStanding {
            epoch: self.epoch.load(Ordering::Relaxed),
            dirty: self.dirty.load(Ordering::Relaxed),
            latency: self.latency.load(Ordering::Relaxed),
            odd_controls: number(&self.odd_controls),
            counters: WorkCounters {
                blocks,
                retransmitted: number(&self.replayed),
                retransmit_requests,
                expired,
                received,
                sent,
                duplicate,
                invalid,
                other_stream,
                auth_failed,
                busy_ns: number(&self.busy_ns),
                longest_ns: number(&self.longest_ns),
            },
        }
    }
}
