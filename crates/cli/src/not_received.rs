//! A receiver without packets: its addresses, and a check of this machine's firewall.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;

use tautline_doctor::firewall::{Awaited, USUAL, keeps_out};
use tautline_engine::plan::address::{Address, Resolved};
use tautline_engine::plan::sockets::{self, LinkOptions};
use tautline_io::udp::{UdpOptions, interface_label, leaves_by};
use tautline_proto::time::{LocalTime, Span};

/// Timeout before the check. A user who waits for a sender sees only one line.
const TIMEOUT: Span = Span::from_secs(3);

pub(crate) struct NotReceived {
    awaited: Vec<Awaited>,
    limits: Vec<String>,
    since: LocalTime,
    state: LookupState,
}

enum LookupState {
    Waits,
    Requests(JoinHandle<Option<String>>),
    Answered(Option<String>),
}

impl NotReceived {
    pub(crate) fn at<'a>(
        addresses: impl Iterator<Item = (&'a Address, &'a Resolved)> + Clone,
        since: LocalTime,
    ) -> Self {
        // Loopback and non-IP packets pass no firewall.
        let reached = addresses.clone().filter_map(|(_, at)| at.media().zip(at.reports()));
        let reached = reached.filter(|(media, _)| !media.ip().is_loopback());
        let awaited = reached.map(|(media, reports)| Awaited {
            ports: [media.port(), reports.port()],
            // [::] also receives IPv4.
            v6: Some(media.is_ipv6()).filter(|_| !is_any(media)),
            ..USUAL
        });
        let limits = addresses.filter_map(|(address, at)| match sockets::reception(address, at) {
            LinkOptions::Udp(options) => limits(&options),
            LinkOptions::Tcp(_) | LinkOptions::Ethernet(_) => None,
        });
        let limits = limits.collect();
        Self { awaited: awaited.collect(), limits, since, state: LookupState::Waits }
    }

    pub(crate) fn limits(&self) -> String {
        self.limits.join("; ")
    }

    /// Call while no packet arrives. Returns possible reasons once.
    pub(crate) fn still(&mut self, now: LocalTime) -> Option<String> {
        match &self.state {
            LookupState::Waits if now - self.since >= TIMEOUT => self.request(),
            LookupState::Requests(asking) if asking.is_finished() => {
                let blame = self.answer()?;
                let limits = [self.limits(), blame].into_iter().filter(|text| !text.is_empty());
                let limits: Vec<_> = limits.collect();
                return Some(format!("no packets for {TIMEOUT}: {}", limits.join("; ")));
            }
            _ => {}
        }
        None
    }

    /// Call if no packet arrived at all.
    pub(crate) fn blame(&mut self) -> Option<String> {
        if matches!(self.state, LookupState::Waits) {
            self.request();
        }
        self.answer()
    }

    fn request(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        let asking = (!awaited.is_empty())
            .then(|| std::thread::Builder::new().name("taut-firewall".into()))
            .and_then(|thread| thread.spawn(move || keeps_out(&awaited)).ok());
        self.state = asking.map_or(LookupState::Answered(None), LookupState::Requests);
    }

    fn answer(&mut self) -> Option<String> {
        let answer = match std::mem::replace(&mut self.state, LookupState::Answered(None)) {
            LookupState::Waits => None,
            LookupState::Requests(asking) => asking.join().ok().flatten(),
            LookupState::Answered(answer) => answer,
        };
        self.state = LookupState::Answered(answer.clone());
        answer
    }
}

fn is_any(media: SocketAddr) -> bool {
    media.is_ipv6() && media.ip().is_unspecified()
}

/// Joined group with interface, and the only accepted hosts.
fn limits(options: &UdpOptions) -> Option<String> {
    let UdpOptions { join, bind, interface, also_received_at, sources, .. } = options;
    let joined = join.map(|group| {
        // By default, the interface of the kernel's route to the group.
        let routed = || leaves_by(SocketAddr::new(group, bind.port()), options);
        let first = interface.clone().or_else(|| routed().map(interface_label));
        let names: Vec<String> =
            first.into_iter().chain(also_received_at.iter().cloned()).collect();
        let on =
            if names.is_empty() { "an unknown interface".to_owned() } else { names.join(" and ") };
        (format!("{group} was joined on {on}"), "?iface= names another interface")
    });
    let accepted = (!sources.is_empty()).then(|| {
        let sources: Vec<String> = sources.iter().map(IpAddr::to_string).collect();
        let only = format!("only packets from {} are accepted", sources.join(" and "));
        (only, "?source= names other hosts")
    });
    let (facts, hints): (Vec<_>, Vec<_>) = joined.into_iter().chain(accepted).unzip();
    (!facts.is_empty()).then(|| format!("{}; {}", facts.join(" and "), hints.join(", ")))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn reported(address: &str) -> String {
        let address = Address::to_hear(address).unwrap();
        let resolved = address.resolve().unwrap();
        NotReceived::at([(&address, &resolved)].into_iter(), LocalTime::ZERO).limits()
    }

    #[test]
    fn group_interface_and_accepted_hosts_are_named() {
        assert_eq!(reported("rtp://127.0.0.1:5004"), "");
        assert_eq!(reported("avtp://lo/91:E0:F0:00:FE:01"), "");
        snapshot!(reported("rtp://127.0.0.1:5004?source=127.0.0.9"));
        snapshot!(reported("rtp://239.69.77.1:5004?iface=lo"));
        snapshot!(reported("rtp://239.69.77.1:5004?iface=lo,eth7&source=10.0.0.7,10.0.0.9"));
        let routed = reported("rtp://239.69.77.1:5004");
        assert!(routed.starts_with("239.69.77.1 was joined"), "{routed}");
    }
}
