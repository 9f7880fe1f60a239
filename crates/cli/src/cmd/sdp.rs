//! The session description of a stream that is sent.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use tautline_engine::plan::SendPlan;
use tautline_proto::wire::rtp::ExtensionIds;
use tautline_proto::wire::sdp::{Description, Origin, Reference};

use crate::address::Resolved;
use crate::failure::Failure;
use crate::flags::Send;

/// Writes the description of the stream to the first destination.
pub(crate) fn write(
    path: &Path,
    plan: &SendPlan,
    to: &[Resolved],
    flags: &Send,
) -> Result<(), Failure> {
    let Some(first) = to.first() else { return Ok(()) };
    let multicast = first.rtp.ip().is_multicast();
    let own = match own_address(first) {
        Some(own) => own,
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let description = Description {
        name: flags.input.to_string(),
        origin: Origin { session: u64::from(plan.identity.ssrc), version: 1, address: own },
        destination: first.rtp.ip(),
        rtp_port: first.rtp.port(),
        rtcp_port: first.rtcp.port(),
        ttl: multicast.then_some(plan.udp.ttl),
        sources: if multicast { vec![own] } else { Vec::new() },
        rate: plan.format.rate,
        channels: plan.format.channels,
        sample: plan.format.sample,
        payload_type: plan.format.payload_type,
        packet: Some(plan.format.packet),
        link_offset: Some(plan.link_offset),
        mediaclk_offset: Some(plan.identity.timestamp),
        reference: Reference::Local,
        extensions: if plan.stamps { ExtensionIds::DEFAULT } else { ExtensionIds::NONE },
    };
    std::fs::write(path, description.write()).map_err(|error| {
        Failure::open(format!("writing {}: {error}; is the folder there?", path.display()))
    })
}

/// The address that packets to this destination come from.
fn own_address(to: &Resolved) -> Option<IpAddr> {
    let any: IpAddr = if to.rtp.is_ipv6() {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to.rtp).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}
