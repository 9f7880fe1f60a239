//! Sends requests to the nodes of a building.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tautline_api::client::{AskError, WorkerAddress, WorkerClient};
use tautline_api::trust::{TrustError, TrustStore};
use tautline_api::v1::{
    Acknowledged, FaultsAck, NODE_PORT, NodeState, SitePush, ZoneChange, ZoneState,
};

use tautline_proto::time::Span;

use crate::files::sha256;
use crate::log::unix_nanos;
use crate::place::is_own;
use crate::{FileFault, NotHere, Site};

/// Timeout of a node's answer.
const LIMIT: Duration = Duration::from_secs(3);
/// Time to copy a file.
const COPY_LIMIT: Duration = Duration::from_secs(60);

/// The node's clock minus this one: the offset next to zero at which the node answered between
/// both times.
fn clock_offset(asked: i64, answered: i64, received: i64) -> Span {
    // A node of an earlier version does not report its time.
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
    /// State of the node, or why the state is unknown.
    pub state: Result<NodeState, AskFailed>,
    /// The node's clock minus this machine's, as near to zero as the duration of the request
    /// permits: clocks that NTP or PTP keeps agree better than a request can tell.
    pub clock: Span,
}

/// Result of a push to a node.
#[derive(Debug)]
pub struct Pushed {
    /// Name of the node.
    pub node: String,
    /// The node's epoch now and the number of copied files, or why the node keeps its old file.
    pub epoch: Result<(u64, usize), AskFailed>,
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
    /// The node lacks files that were sent to it.
    #[error("it lacks files that it was sent\nhint: push again")]
    Lacking,
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
        let ask = |node: &str| {
            let asked = unix_nanos();
            let state = self.state(node);
            let answered = state.as_ref().map_or(0, |state| state.now_ns);
            (state, clock_offset(asked, answered, unix_nanos()))
        };
        let asked = at_once(nodes, ask).into_iter();
        asked.map(|(node, (state, clock))| Asked { node: node.to_owned(), state, clock }).collect()
    }

    /// Copies the building file with these bytes, from this folder, to its nodes. Returns messages
    /// whose recordings are not copied, too.
    pub fn push(
        &self,
        text: &str,
        folder: &Path,
    ) -> Result<(Vec<Pushed>, Vec<FileFault>), FileFault> {
        let (files, left) = self.site.read_files(folder)?;
        let hashed = |(path, bytes): (&std::path::PathBuf, &Vec<u8>)| {
            (path.to_string_lossy().into_owned(), sha256(bytes))
        };
        let push = SitePush { text: text.to_owned(), files: files.iter().map(hashed).collect() };
        let by_hash = push.files.values().map(String::as_str).zip(files.values()).collect();
        let nodes = self.site.nodes.keys().map(String::as_str);
        let pushed = at_once(nodes, |node| self.push_to(node, &push, &by_hash)).into_iter();
        let pushed = pushed.map(|(node, epoch)| Pushed { node: node.to_owned(), epoch });
        Ok((pushed.collect(), left))
    }

    fn push_to(
        &self,
        node: &str,
        push: &SitePush,
        files: &BTreeMap<&str, &Vec<u8>>,
    ) -> Result<(u64, usize), AskFailed> {
        let client = self.client(node)?.within(COPY_LIMIT);
        let mut answer = client.push_site(push)?;
        let copied = answer.missing.len();
        if !answer.missing.is_empty() {
            for hash in &answer.missing {
                let bytes = files.get(hash.as_str()).ok_or(AskFailed::Lacking)?;
                client.stage_file(hash, bytes)?;
            }
            answer = client.push_site(push)?;
        }
        if answer.missing.is_empty() { Ok((answer.epoch, copied)) } else { Err(AskFailed::Lacking) }
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

    /// Client for a node. The node of this machine answers via loopback, without encryption.
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

/// Asks these nodes at the same time.
fn at_once<'n, T: Send>(
    nodes: impl IntoIterator<Item = &'n str>,
    ask: impl Fn(&'n str) -> T + Sync,
) -> Vec<(&'n str, T)> {
    let ask = &ask;
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            nodes.into_iter().map(|node| (node, scope.spawn(move || ask(node)))).collect();
        let joined = asked.into_iter().map(|(node, asked)| {
            (node, asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        joined.collect()
    })
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
