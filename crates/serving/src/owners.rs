//! Only the owner and this machine's own key may see or close a stream.

use std::collections::{BTreeMap, BTreeSet};

use tautline_api::trust::HostKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actor {
    Machine,
    Peer(HostKey),
    Local,
}

#[derive(Debug, Default)]
pub(crate) struct StreamOwners(BTreeMap<u32, Actor>);

impl StreamOwners {
    /// Adds a stream, and removes streams that are not `open`.
    pub(crate) fn insert(&mut self, id: u32, owner: Actor, open: &BTreeSet<u32>) {
        self.0.retain(|id, _| open.contains(id));
        self.0.insert(id, owner);
    }

    pub(crate) fn permits(&self, id: u32, actor: Actor) -> bool {
        actor == Actor::Machine || self.0.get(&id) == Some(&actor)
    }

    pub(crate) fn is_foreign(&self, id: u32, actor: Actor) -> bool {
        self.0.contains_key(&id) && !self.permits(id, actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_machine_alone_are_permitted() {
        let (desk, rack) = (Actor::Peer(HostKey::new([1; 32])), Actor::Peer(HostKey::new([2; 32])));
        let mut owners = StreamOwners::default();
        owners.insert(7, desk, &[7].into());
        owners.insert(8, Actor::Local, &[7, 8].into());
        let permitted = |actor| (owners.permits(7, actor), owners.permits(8, actor));
        assert_eq!(permitted(desk), (true, false));
        assert_eq!(permitted(rack), (false, false));
        assert_eq!(permitted(Actor::Local), (false, true));
        assert_eq!(permitted(Actor::Machine), (true, true));
        assert!(owners.is_foreign(7, rack) && !owners.is_foreign(9, rack));
    }

    #[test]
    fn ended_streams_are_forgotten() {
        let mut owners = StreamOwners::default();
        (0..1000).for_each(|id| owners.insert(id, Actor::Local, &[id].into()));
        assert_eq!(owners.0.len(), 1);
    }
}
