//! Queues with launch times.

use tautline_io::network::qdisc::QueueDiscipline;
use tautline_io::network::route::lower;
use tautline_proto::time::Span;

use super::PacingMode;

/// Time from hand-over to queue: system calls, and the tick that reads a queue.
const MARGIN: Span = Span::from_micros(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaunchQueue {
    pub(super) mode: PacingMode,
    /// Minimum time before the launch at which the queue needs a packet.
    pub(super) minimum: Span,
    /// Time before the requested launch at which the queue releases a packet.
    pub(super) ahead: Span,
    /// Time before the launch at which the driver gets a packet. Probes take the driver's timestamp
    /// as departure.
    pub(super) stamped_ahead: Span,
}

impl LaunchQueue {
    const fn of(mode: PacingMode) -> Self {
        Self { mode, minimum: Span::ZERO, ahead: Span::ZERO, stamped_ahead: Span::ZERO }
    }
}

/// Whether an interface, or a VLAN's card, has an etf queue, which drops packets without launch
/// times.
pub(super) fn has_etf(all: &[QueueDiscipline], interfaces: &[u32]) -> bool {
    let at = |interface| all.iter().any(|q| q.interface == interface && q.kind == "etf");
    interfaces.iter().any(|own| at(*own) || lower(*own).is_some_and(at))
}

/// Queues that support launch times equally at all interfaces, most regular first.
pub(super) fn queues(all: &[QueueDiscipline], interfaces: &[u32]) -> Vec<LaunchQueue> {
    let of = |interface: &u32| {
        let own = queues_at(all, *interface);
        let card = || lower(*interface).map_or_else(Vec::new, |card| queues_at(all, card));
        if own.is_empty() { card() } else { own }
    };
    let Some((first, others)) = interfaces.split_first() else { return Vec::new() };
    others.iter().map(of).fold(of(first), |common, other| {
        let alike = |queue: LaunchQueue| {
            let same =
                |other: &&LaunchQueue| (other.mode, other.ahead) == (queue.mode, queue.ahead);
            let same = other.iter().find(same)?;
            Some(LaunchQueue { minimum: queue.minimum.max(same.minimum), ..queue })
        };
        common.into_iter().filter_map(alike).collect()
    })
}

fn queues_at(all: &[QueueDiscipline], interface: u32) -> Vec<LaunchQueue> {
    let of_it = all.iter().filter(|queue| queue.interface == interface);
    let mut queues: Vec<LaunchQueue> = of_it
        .filter_map(|queue| match (queue.kind.as_str(), queue.etf) {
            ("fq", _) => Some(LaunchQueue::of(PacingMode::Fq)),
            // An etf queue with deadlines has no launch times; an etf queue with another clock
            // misreads our launch times.
            ("etf", Some(etf)) if etf.by_tai && !etf.deadlines => {
                Some(match etf.offload {
                    true => {
                        let (minimum, stamped_ahead) = (etf.delta + MARGIN, etf.delta);
                        LaunchQueue {
                            minimum,
                            stamped_ahead,
                            ..LaunchQueue::of(PacingMode::Offload)
                        }
                    }
                    // If the card does not offload launch times, early packets leave immediately.
                    false => LaunchQueue { ahead: etf.delta, ..LaunchQueue::of(PacingMode::Etf) },
                })
            }
            _ => None,
        })
        .collect();
    queues.sort_by_key(|queue| (queue.mode, queue.minimum));
    queues.dedup_by_key(|queue| queue.mode);
    queues
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_io::network::qdisc::{EtfSettings, QdiscPlace};

    fn queue(kind: &str, etf: Option<EtfSettings>) -> QueueDiscipline {
        QueueDiscipline { interface: 2, kind: kind.to_owned(), place: QdiscPlace::Below, etf }
    }

    #[test]
    fn launch_time_queues_are_listed_most_regular_first() {
        let delta = Span::from_micros(300);
        let etf = EtfSettings { delta, by_tai: true, offload: false, deadlines: false };
        let all = [
            queue("fq", None),
            queue("pfifo_fast", None),
            queue("etf", Some(EtfSettings { by_tai: false, ..etf })),
            queue("etf", Some(EtfSettings { deadlines: true, ..etf })),
            queue("etf", None),
            queue("etf", Some(etf)),
            queue("etf", Some(EtfSettings { offload: true, ..etf })),
            QueueDiscipline { interface: 3, ..queue("fq", None) },
        ];
        let found = queues(&all, &[2]);
        let modes: Vec<_> = found.iter().map(|queue| (queue.mode, queue.minimum)).collect();
        let none = Span::ZERO;
        assert_eq!(
            modes,
            [
                (PacingMode::Offload, delta + MARGIN),
                (PacingMode::Etf, none),
                (PacingMode::Fq, none)
            ]
        );
        assert_eq!(found.iter().map(|queue| queue.ahead).collect::<Vec<_>>(), [none, delta, none]);
        let stamped: Vec<_> = found.iter().map(|queue| queue.stamped_ahead).collect();
        assert_eq!(stamped, [delta, none, none], "a card that launches has packets before");
        assert!(has_etf(&all, &[3, 2]) && !has_etf(&all, &[3]));
        assert_eq!(queues(&all, &[4]), []);
    }

    #[test]
    fn two_networks_use_launch_times_only_with_equal_queues() {
        let delta = Span::from_micros(300);
        let settings = EtfSettings { delta, by_tai: true, offload: false, deadlines: false };
        let at = |interface, kind, etf| QueueDiscipline { interface, ..queue(kind, etf) };
        let longer = EtfSettings { delta: delta.times(2), ..settings };
        let offload = |delta| EtfSettings { offload: true, delta, ..settings };
        let all = [
            at(1, "fq", None),
            at(1, "etf", Some(settings)),
            at(2, "etf", Some(longer)),
            at(2, "fq", None),
            at(3, "etf", Some(settings)),
            at(4, "etf", Some(offload(delta))),
            at(5, "etf", Some(offload(delta.times(2)))),
        ];
        let modes = |interfaces: &[u32]| {
            queues(&all, interfaces).iter().map(|queue| queue.mode).collect::<Vec<_>>()
        };
        assert_eq!(modes(&[1, 2]), [PacingMode::Fq]);
        assert_eq!(modes(&[1, 3]), [PacingMode::Etf]);
        assert_eq!(modes(&[2, 3]), []);
        assert_eq!(queues(&all, &[4, 5])[0].minimum, delta.times(2) + MARGIN);
    }
}
