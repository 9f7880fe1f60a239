//! The wire thread's counters where the device's thread can see them.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::link::LinkCounters;

/// [`LinkCounters`] that one thread writes and another reads. Each is a total of its own, so no
/// order between them is promised.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    totals: [AtomicU64; 17],
    last_error: AtomicI32,
}

impl SharedCounters {
    pub(crate) fn store(&self, counters: &LinkCounters) {
        for (shared, total) in self.totals.iter().zip(totals(counters)) {
            shared.store(total, Ordering::Relaxed);
        }
        self.last_error.store(counters.last_error, Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> LinkCounters {
        let [
            sent,
            send_errors,
            dropped,
            received,
            truncated,
            foreign,
            unopened,
            unstamped,
            kernel_drops,
            ring_drops,
            departures_lost,
            unlaunched,
            unnamed,
            also_sent,
            also_refused,
            let_go,
            overdue,
        ] = self.totals.each_ref().map(|total| total.load(Ordering::Relaxed));
        LinkCounters {
            sent,
            send_errors,
            also: (also_sent, also_refused),
            last_error: self.last_error.load(Ordering::Relaxed),
            dropped,
            received,
            truncated,
            foreign,
            unopened,
            unstamped,
            kernel_drops,
            ring_drops,
            departures_lost,
            unlaunched,
            unnamed,
            let_go,
            overdue,
        }
    }
}

/// Every total, in the order in which `load` takes them.
const fn totals(counters: &LinkCounters) -> [u64; 17] {
    [
        counters.sent,
        counters.send_errors,
        counters.dropped,
        counters.received,
        counters.truncated,
        counters.foreign,
        counters.unopened,
        counters.unstamped,
        counters.kernel_drops,
        counters.ring_drops,
        counters.departures_lost,
        counters.unlaunched,
        counters.unnamed,
        counters.also.0,
        counters.also.1,
        counters.let_go,
        counters.overdue,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_comes_out_where_it_went_in() {
        let counters = LinkCounters {
            sent: 1,
            send_errors: 2,
            last_error: 3,
            dropped: 4,
            received: 5,
            truncated: 6,
            foreign: 7,
            unstamped: 8,
            kernel_drops: 9,
            ring_drops: 10,
            departures_lost: 11,
            also: (12, 13),
            unopened: 14,
            unlaunched: 15,
            unnamed: 16,
            let_go: 17,
            overdue: 18,
        };
        let shared = SharedCounters::default();
        shared.store(&counters);
        assert_eq!(shared.load(), counters);
    }
}
