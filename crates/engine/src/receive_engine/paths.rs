//! What each network brought of a stream that comes by several.

use tautline_io::udp::interface_label;
use tautline_proto::jitter_buffer::Received;
use tautline_report::PathReport;

/// Networks that are told apart; what more bring is not counted by network.
const MOST: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NetworkTally {
    /// The index of the interface; 0 for none yet.
    interface: u32,
    received: u64,
    first: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Paths([NetworkTally; MOST]);

impl Paths {
    /// A datagram came by this interface, and this became of it.
    pub(crate) fn count(&mut self, interface: u32, received: &Received<'_>) {
        let first = match received {
            Received::Placed(_) | Received::Partly(..) | Received::Late(_) => 1,
            Received::Duplicate => 0,
            _ => return,
        };
        let known = |path: &&mut NetworkTally| path.interface == interface || path.interface == 0;
        if let Some(path) = self.0.iter_mut().find(known).filter(|_| interface != 0) {
            path.interface = interface;
            path.received += 1;
            path.first += first;
        }
    }

    /// What each network brought, if there were several, of so many packets that were sent.
    pub(crate) fn report(&self, expected: u64) -> Vec<PathReport> {
        let seen = self.0.iter().filter(|path| path.interface != 0);
        let told = seen.map(|path| PathReport {
            interface: interface_label(path.interface),
            received: path.received,
            first: path.first,
            lost: expected.saturating_sub(path.received),
        });
        let told: Vec<PathReport> = told.collect();
        if told.len() > 1 { told } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_has_its_own_count_and_one_alone_is_not_worth_telling() {
        let mut paths = Paths::default();
        paths.count(1, &Received::Duplicate);
        assert!(paths.report(10).is_empty());
        paths.count(7, &Received::Duplicate);
        paths.count(7, &Received::Foreign);
        paths.count(0, &Received::Duplicate);
        let told: Vec<_> = paths.report(10).iter().map(|p| (p.received, p.first, p.lost)).collect();
        assert_eq!(told, [(1, 0, 9), (1, 0, 9)]);
    }
}
