//! Asks the nodes of a building.

use std::sync::Arc;
use std::time::Duration;

use tautline_api::client::{AskError, WorkerAddress, WorkerClient};
use tautline_api::trust::{TrustError, TrustStore};
use tautline_api::v1::{Acknowledged, FaultsAck, NODE_PORT, NodeState, ZoneChange, ZoneState};

use crate::place::is_own;
use crate::{NotHere, Site};

/// Time in which a node answers.
const LIMIT: Duration = Duration::from_secs(3);

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
                let asked = scope.spawn(move || self.state(node));
                (node, asked)
            };
            let asked: Vec<_> = nodes.into_iter().map(ask).collect();
            let joined = asked.into_iter().map(|(node, asked)| Asked {
                node: node.to_owned(),
                state: asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            });
            joined.collect()
        })
    }

    /// Changes a zone at its node.
    pub fn change(&self, change: &ZoneChange) -> Result<ZoneState, AskFailed> {
        let zone = self.site.zones.get(&change.zone);
        let zone = zone.ok_or_else(|| AskFailed::NoZone(change.zone.clone()))?;
        Ok(self.client(&zone.node)?.change_zone(change)?)
    }

    /// Clears faults of a node that ended.
    pub fn acknowledge(&self, node: &str, request: &FaultsAck) -> Result<Acknowledged, AskFailed> {
        Ok(self.client(node)?.acknowledge(request)?)
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
