//! The one socket by which a stream goes to all its destinations, and what they ask of it.

use tautline_io::udp::UdpOptions;

use crate::address::{Address, Resolved};
use crate::failure::Failure;

/// One destination.
type Destination<'a> = (&'a Address, &'a Resolved);

/// Sets interface, TTL and loop as the destinations ask. They share one socket, so those that ask
/// for different things are refused, and so is what means nothing for them.
pub(crate) fn set(
    udp: &mut UdpOptions,
    addresses: &[Address],
    resolved: &[Resolved],
) -> Result<(), Failure> {
    let (groups, hosts): (Vec<Destination<'_>>, Vec<_>) =
        addresses.iter().zip(resolved).partition(|(_, to)| to.rtp.ip().is_multicast());
    for (host, _) in &hosts {
        let meant_for_groups = host.ttl.map(|_| "ttl").or(host.loopback.map(|_| "loop"));
        if let Some(key) = meant_for_groups {
            return Err(Failure::usage(format!(
                "`{key}` is for multicast groups and {host} is none; leave it out"
            )));
        }
    }
    let bound = hosts.iter().find(|(host, _)| host.interface.is_some());
    if let (Some((group, _)), Some((host, _))) = (groups.first(), bound) {
        return Err(Failure::usage(format!(
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
) -> Result<Option<T>, Failure> {
    let Some(first) = destinations.first() else { return Ok(None) };
    let wanted = asked(first);
    match destinations.iter().find(|other| asked(other) != wanted) {
        None => Ok(Some(wanted)),
        Some((other, _)) => Err(Failure::usage(format!(
            "{} and {other} differ in `{key}`, and all --to go out of one socket; give them the \
             same or run one taut per interface",
            first.0
        ))),
    }
}
