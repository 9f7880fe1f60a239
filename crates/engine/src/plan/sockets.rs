//! Sockets as addresses ask for them: the one by which a stream goes to all its destinations, and
//! that at which one is heard.

use std::num::NonZeroUsize;

use tautline_dsp::format::SampleFormat;
use tautline_io::udp::UdpOptions;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat};
use tautline_proto::time::Frames;
use tautline_proto::units::Rate;

use super::too_long::datagram_bytes;
use crate::plan::address::{Address, AddressError, Resolved};

/// One destination.
type Destination<'a> = (&'a Address, &'a Resolved);

/// Sets interface, TTL and loop as the destinations ask. They share one socket, so those that ask
/// for different things are refused, and so is what means nothing for them.
pub fn set(
    udp: &mut UdpOptions,
    addresses: &[Address],
    resolved: &[Resolved],
) -> Result<(), AddressError> {
    let (groups, hosts): (Vec<Destination<'_>>, Vec<_>) =
        addresses.iter().zip(resolved).partition(|(_, to)| to.rtp.ip().is_multicast());
    for (host, _) in &hosts {
        let meant_for_groups = host.ttl.map(|_| "ttl").or(host.loopback.map(|_| "loop"));
        if let Some(key) = meant_for_groups {
            return Err(AddressError::Unusable(format!(
                "`{key}` is for multicast groups and {host} is none; leave it out"
            )));
        }
    }
    let bound = hosts.iter().find(|(host, _)| host.interface.is_some());
    if let (Some((group, _)), Some((host, _))) = (groups.first(), bound) {
        return Err(AddressError::Unusable(format!(
            "{host} beside the group {group} goes by this machine's routes; leave its iface out, \
             or run one taut for each"
        )));
    }
    let interface = |(to, _): &Destination<'_>| to.interface.clone();
    udp.interface =
        agreed("iface", if groups.is_empty() { &hosts } else { &groups }, interface)?.flatten();
    let default = udp.ttl;
    let ttl = |(to, resolved): &Destination<'_>| {
        let described = resolved.description.as_ref().and_then(|description| description.ttl);
        to.ttl.or(described).unwrap_or(default)
    };
    udp.ttl = agreed("ttl", &groups, ttl)?.unwrap_or(default);
    udp.loopback = agreed("loop", &groups, |(to, _)| to.loopback.unwrap_or(true))?.unwrap_or(true);
    Ok(())
}

/// What all of them ask for; `None` if there are none.
fn agreed<T: PartialEq>(
    key: &str,
    destinations: &[Destination<'_>],
    asked: impl Fn(&Destination<'_>) -> T,
) -> Result<Option<T>, AddressError> {
    let Some(first) = destinations.first() else { return Ok(None) };
    let wanted = asked(first);
    match destinations.iter().find(|other| asked(other) != wanted) {
        None => Ok(Some(wanted)),
        Some((other, _)) => Err(AddressError::Unusable(format!(
            "{} and {other} differ in `{key}`, and all --to go out of one socket; give them the \
             same or run one taut per interface",
            first.0
        ))),
    }
}

/// Hears what `address` stands for.
pub fn reception(address: &Address, resolved: &Resolved) -> UdpOptions {
    let mut options = UdpOptions::receiver(resolved.rtp);
    let described = resolved.description.as_ref();
    let mut interfaces = address.interface.iter().flat_map(|names| names.split(','));
    options.interface = interfaces.next().map(str::to_owned);
    options.also_heard_at = interfaces.map(str::to_owned).collect();
    options.sources.clone_from(&address.sources);
    if options.sources.is_empty() {
        options.sources.extend(described.iter().flat_map(|d| &d.sources));
    }
    options
}

/// The same with room for a stream like `format`, in packets of any length.
pub fn receiving((address, resolved): Destination<'_>, format: &StreamFormat) -> UdpOptions {
    let mut options = reception(address, resolved);
    let longest = format.rate.frames_within(PTIME_RANGE.1);
    // In whatever coding: the sender may change it.
    let widest = StreamFormat { sample: SampleFormat::F32, packet: longest, ..*format };
    options.datagram_bytes = datagram_bytes(&widest, true).clamp(1472, 65_507);
    let senders = address.senders.map_or(1, NonZeroUsize::get) as u32;
    options.packets_per_second = senders * packets_per_second(format.rate, format.packet);
    options
}

/// Packets of so many frames that a stream sends in a second, rounded up.
pub(super) fn packets_per_second(rate: Rate, packet: Frames) -> u32 {
    rate.hertz() / packet.count().max(1) as u32 + 1
}
