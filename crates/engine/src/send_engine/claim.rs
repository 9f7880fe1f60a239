//! Stops a stream that loses its address to a preferred host, and moves it to the next claim.

use std::sync::Arc;

use tautline_io::ethernet::EthernetAddress;
use tautline_io::link::destinations::Outbound;
use tautline_proto::endpoint::Endpoint;

use crate::plan::claim::{ClaimStanding, ClaimedAddress};

pub(crate) struct FollowedClaim {
    pub(super) claim: Arc<ClaimedAddress>,
    network: u32,
}

impl FollowedClaim {
    pub(crate) fn of(claim: Arc<ClaimedAddress>, outbound: &Outbound) -> Self {
        Self { claim, network: outbound.destinations.first().map_or(0, Endpoint::network) }
    }

    pub(super) const fn endpoint(&self, address: EthernetAddress) -> Endpoint {
        Endpoint::Ethernet { address, network: self.network }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    Stay,
    /// Stop sending: this host owns the group now.
    Leave(EthernetAddress),
    Go(EthernetAddress),
}

pub(super) fn follow(goes_to: Option<EthernetAddress>, standing: ClaimStanding) -> Follow {
    match standing {
        ClaimStanding::Held(address) if goes_to != Some(address) => Follow::Go(address),
        ClaimStanding::Lost { to } if goes_to.is_some() => Follow::Leave(to),
        _ => Follow::Stay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: EthernetAddress = [0x91, 0xE0, 0xF0, 0, 1, 1];
    const NEXT: EthernetAddress = [0x91, 0xE0, 0xF0, 0, 2, 2];
    const OTHER: EthernetAddress = [0x02, 0, 0, 0, 0, 1];

    #[test]
    fn stream_moves_from_a_lost_claim_to_the_next() {
        let lost = ClaimStanding::Lost { to: OTHER };
        for (goes_to, standing, does) in [
            (Some(OURS), ClaimStanding::Held(OURS), Follow::Stay),
            (Some(OURS), lost, Follow::Leave(OTHER)),
            (None, lost, Follow::Stay),
            (None, ClaimStanding::Held(NEXT), Follow::Go(NEXT)),
            (Some(NEXT), ClaimStanding::Held(NEXT), Follow::Stay),
            (Some(OURS), ClaimStanding::Held(NEXT), Follow::Go(NEXT)),
        ] {
            assert_eq!(follow(goes_to, standing), does, "{goes_to:?} {standing:?}");
        }
    }
}
