//! Admits streams to a worker while their measured costs fit each core.

use std::collections::BTreeMap;

use tautline_api::v1::PluginCost;

use crate::cost::of_run;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    pub cost: PluginCost,
    pub frames: f64,
    pub period_ns: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "the plugin needs {run:.0} us per {period:.0} us, {share:.0} % of a core, and the least busy core has {left:.0} % \
     left; close streams, use another worker, or set block in tautline.toml if the host's blocks are longer"
)]
pub struct OverloadError {
    run: f64,
    period: f64,
    share: f64,
    left: f64,
}

/// Reserved share of each core. The kernel assigns threads; this only ensures that all fit.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreAdmission {
    cores: usize,
    max_share: f64,
    streams: BTreeMap<u32, CorePromise>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct CorePromise {
    core: usize,
    share: f64,
}

impl Demand {
    pub fn share(&self) -> f64 {
        let share = of_run(self.cost, self.frames) / self.period_ns;
        if share.is_finite() { share } else { f64::INFINITY }
    }
}

impl CoreAdmission {
    pub fn new(cores: usize, max_share: f64) -> Self {
        Self { cores: cores.max(1), max_share, streams: BTreeMap::new() }
    }

    pub fn admit(&mut self, stream: u32, demand: &Demand) -> Result<f64, OverloadError> {
        let used = self.used();
        let least_used = used.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1));
        let (core, used) = least_used.map_or((0, 0.0), |(core, used)| (core, *used));
        let (share, left) = (demand.share(), (self.max_share - used).max(0.0));
        if share > left {
            return Err(OverloadError {
                run: of_run(demand.cost, demand.frames) / 1000.0,
                period: demand.period_ns / 1000.0,
                share: share * 100.0,
                left: left * 100.0,
            });
        }
        self.streams.insert(stream, CorePromise { core, share });
        Ok(share)
    }

    /// Streams to end, in order, for this share: the fewest on one core. `None` if that is not
    /// enough.
    pub fn making_room(&self, share: f64, among: &[u32]) -> Option<Vec<u32>> {
        let used = self.used();
        let of_core = |(core, used): (usize, &f64)| {
            let (mut left, mut ended) = (self.max_share - used, Vec::new());
            for stream in among {
                if share <= left {
                    break;
                }
                if let Some(promise) = self.streams.get(stream).filter(|it| it.core == core) {
                    left += promise.share;
                    ended.push(*stream);
                }
            }
            (share <= left.min(self.max_share)).then_some(ended)
        };
        used.iter().enumerate().filter_map(of_core).min_by_key(Vec::len)
    }

    pub fn correct(&mut self, stream: u32, share: f64) {
        if let Some(promise) = self.streams.get_mut(&stream).filter(|_| share.is_finite()) {
            promise.share = share;
        }
    }

    pub fn release(&mut self, stream: u32) {
        self.streams.remove(&stream);
    }

    pub fn used(&self) -> Vec<f64> {
        let mut used = vec![0.0; self.cores];
        self.streams.values().for_each(|promise| used[promise.core] += promise.share);
        used
    }

    pub const fn max_share(&self) -> f64 {
        self.max_share
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn taking(micros: f64) -> Demand {
        let cost = PluginCost { fixed_ns: micros * 500.0, per_frame_ns: micros * 500.0 / 48.0 };
        Demand { cost, frames: 48.0, period_ns: 1e6 }
    }

    #[test]
    fn streams_fill_the_least_used_core_until_all_are_full() {
        let mut admission = CoreAdmission::new(2, 0.8);
        assert!((admission.admit(1, &taking(500.0)).unwrap() - 0.5).abs() < 1e-9);
        admission.admit(2, &taking(600.0)).unwrap();
        admission.admit(3, &taking(250.0)).unwrap();
        let refused = admission.admit(4, &taking(210.0)).unwrap_err().to_string();
        snapshot!(refused);
        admission.release(2);
        admission.admit(4, &taking(210.0)).unwrap();
        assert!(admission.used().iter().all(|used| *used <= 0.8), "{:?}", admission.used());
    }

    #[test]
    fn measured_cost_of_a_stream_replaces_the_estimate() {
        let mut admission = CoreAdmission::new(1, 0.8);
        admission.admit(1, &taking(100.0)).unwrap();
        admission.correct(1, 0.7);
        assert!(admission.admit(2, &taking(200.0)).is_err());
        admission.correct(1, 0.5);
        admission.admit(2, &taking(200.0)).unwrap();
        admission.correct(9, 0.9);
        assert!((admission.used()[0] - 0.7).abs() < 1e-9);
    }

    #[test]
    fn room_is_made_by_the_fewest_streams_of_one_core() {
        let mut admission = CoreAdmission::new(2, 0.8);
        for (stream, share) in [(1, 300.0), (2, 400.0), (3, 300.0), (4, 400.0)] {
            admission.admit(stream, &taking(share)).unwrap();
        }
        assert_eq!(admission.making_room(0.5, &[1, 2, 3, 4]), Some(vec![1]));
        assert_eq!(admission.making_room(0.5, &[4, 3, 2]), Some(vec![3]), "0.2 is left beside it");
        assert_eq!(admission.making_room(0.7, &[4, 3, 1]), Some(vec![3, 1]));
        assert_eq!(admission.making_room(0.7, &[2, 3]), None);
        assert_eq!(admission.making_room(0.9, &[1, 2, 3, 4]), None, "nor when nothing runs");
        assert_eq!(admission.making_room(f64::INFINITY, &[1, 2, 3, 4]), None);
        assert_eq!(admission.making_room(0.1, &[9]), Some(vec![]));
    }

    #[test]
    fn a_period_of_nothing_is_refused() {
        let mut admission = CoreAdmission::new(1, 0.8);
        for demand in [
            Demand { period_ns: 0.0, ..taking(10.0) },
            Demand { period_ns: 0.0, ..taking(0.0) },
            Demand { period_ns: f64::NAN, ..taking(10.0) },
        ] {
            assert!(admission.admit(1, &demand).is_err(), "{demand:?}");
        }
        assert_eq!(admission.used(), [0.0]);
    }
}
