//! Asks the nodes of a building.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tautline_api::client::{AskError, WorkerAddress, WorkerClient};
use tautline_api::trust::{TrustError, TrustStore};
use tautline_api::v1::{NODE_PORT, NodeState, ZoneChange, ZoneState};

use tautline_proto::time::Span;

use crate::place::is_own;
use crate::{NotHere, Site};

/// Time in which a node answers.
const LIMIT: Duration = Duration::from_secs(3);

/// This machine's clock, in Unix nanoseconds.
pub(crate) fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or_default()
}

/// The node's clock minus this one: the offset next to zero at which the node answered between
/// both times.
fn clock_offset(asked: i64, answered: i64, received: i64) -> Span {
    // A node of an earlier version reports no time.
    if answered == 0 {
        return Span::ZERO;
    }
    let (least, most) = (answered.saturating_sub(received), answered.saturating_sub(asked));
    Span::from_nanos(0.clamp(least, most.max(least)))
}

/// Client of all nodes.
pub struct NodeClient<'a> {
    site: &'a Site,
    trust: Arc<TrustStore>,
}

/// Answer of a node.
#[derive(Debug)]
pub struct Asked {
    /// Name of the node.
    pub node: String,
    /// Its state, or why there is none.
    pub state: Result<NodeState, AskFailed>,
    /// The node's clock minus this machine's, as near to zero as the duration of the request
    /// permits: clocks that NTP or PTP keeps agree better than a request can tell.
    pub clock: Span,
}

/// Why a node did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskFailed {
    /// No address.
    #[error(transparent)]
    Place(#[from] NotHere),
    /// No valid answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The file has no such zone.
    #[error("the building file has no zone {0}")]
    NoZone(String),
}

impl<'a> NodeClient<'a> {
    /// Uses the trust store of this user.
    pub fn new(site: &'a Site) -> Result<Self, TrustError> {
        Ok(Self { site, trust: TrustStore::usual()? })
    }

    /// Asks these nodes at the same time.
    pub fn states<'n>(&self, nodes: impl IntoIterator<Item = &'n str>) -> Vec<Asked> {
        std::thread::scope(|scope| {
            let ask = |node: &'n str| {
                scope.spawn(move || {
                    let asked = unix_nanos();
                    let state = self.state(node);
                    let clock = state.as_ref().map_or(Span::ZERO, |state| {
                        clock_offset(asked, state.now_ns, unix_nanos())
                    });
                    Asked { node: node.to_owned(), state, clock }
                })
            };
            let asked: Vec<_> = nodes.into_iter().map(ask).collect();
            let joined = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
            let joined =
                joined.map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect()
        })
    }

    /// Changes a zone at its node.
    pub fn change(&self, change: &ZoneChange) -> Result<ZoneState, AskFailed> {
        let zone = self.site.zones.get(&change.zone);
        let zone = zone.ok_or_else(|| AskFailed::NoZone(change.zone.clone()))?;
        Ok(self.client(&zone.node)?.change_zone(change)?)
    }

    fn state(&self, node: &str) -> Result<NodeState, AskFailed> {
        Ok(self.client(node)?.node()?)
    }

    /// This machine answers without encryption by loopback.
    fn client(&self, node: &str) -> Result<WorkerClient, AskFailed> {
        let place = self.site.place(Some(node))?;
        let host = match is_own(place.address) {
            true => "127.0.0.1".to_owned(),
            false => place.address.to_string(),
        };
        let address = WorkerAddress { name: None, host, port: NODE_PORT };
        Ok(WorkerClient::new(&address, Some(Arc::clone(&self.trust))).within(LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_the_nearest_to_zero_that_the_request_permits() {
        let offset = |answered| clock_offset(1000, answered, 1400).as_nanos();
        // In between, the clocks may agree.
        assert_eq!([1000, 1200, 1400].map(offset), [0; 3]);
        assert_eq!([900, 2000, 0].map(offset), [-100, 600, 0]);
    }
}
