//! Parses addresses; errors have hints.

use core::ops::RangeInclusive;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::path::Path;

use tautline_dsp::gain::Gain;
use tautline_proto::packet::StreamId;
use tautline_proto::text::parse_span;
use tautline_proto::time::Span;
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::{self, Encapsulation};

use super::{ALL_SENDERS, Address, CLASS_A, EthernetTarget, MAX_SENDERS, Target};

const FORMS: &str = "write rtp://HOST:PORT or the path of a .sdp file";
const ALL_FORMS: &str = "write rtp://HOST:PORT, rtp+tcp://HOST:PORT, avtp://INTERFACE/ADDRESS, avtp+udp://HOST or the path of a .sdp file";
const RTP: &str = "write rtp://HOST:5004";
const RTP_BY_TCP: &str = "write rtp+tcp://HOST:5004";
const AVTP_BY_UDP: &str = "write avtp+udp://HOST:17220";
const ETHERNET: &str = "write avtp://eth0/91:E0:F0:00:FE:01";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressRole {
    To,
    From,
}

fn parse_host(
    rest: &str,
    text: &str,
    (protocol, written): (&str, &str),
) -> Result<(String, u16), String> {
    let unusable = || format!("no valid {protocol} port in '{text}'\nhint: {written}");
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(unusable)?;
    if port.parse::<u16>().is_err() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(format!(
            "invalid {protocol} port {port} in '{text}': must be 1 to {}",
            u16::MAX - 1
        ));
    }
    // As a destination, UDP port 0 is invalid; as a source, it is random.
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(unusable)?;
    if host.contains('/') {
        return Err(format!(
            "unexpected / before the {protocol} port in '{text}'\nhint: {}",
            meant(text)
        ));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((host, port))
}

fn avtp_host(rest: &str, text: &str) -> Result<(String, u16), String> {
    match rest.trim_end_matches('/').split_once('/') {
        Some((interface, address)) => {
            let meant = octets::<6>(address).filter(|_| !interface.contains(':'));
            let by_ethernet = meant.map_or("avtp://eth0/91:E0:F0:00:FE:01".to_owned(), |_| {
                format!("avtp://{interface}/{address}")
            });
            Err(format!(
                "unexpected / in '{text}'\nhint: {AVTP_BY_UDP}, or {by_ethernet} for Ethernet frames"
            ))
        }
        None => parse_host(&with_port(rest), text, ("UDP", AVTP_BY_UDP)),
    }
}

fn meant(text: &str) -> String {
    let text = after_beginning(text);
    let (place, query) = text.split_once('?').unwrap_or((text, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    if let Ok(six) = place.parse::<Ipv6Addr>() {
        return format!("write rtp://[{six}]:5004{query}");
    }
    match place.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            format!("write rtp://{text}")
        }
        None if place.parse::<Ipv4Addr>().is_ok() => format!("write rtp://{place}:5004{query}"),
        _ => FORMS.to_owned(),
    }
}

fn is_host(text: &str) -> bool {
    let of_v6 = text.starts_with('[') && text.ends_with(']');
    !text.is_empty() && !text.contains('/') && (of_v6 || !text.contains(':'))
}

/// Drops an incomplete scheme: `rtp:/HOST`, `rtp:HOST`, `//HOST`.
fn after_beginning(text: &str) -> &str {
    let rest = text.strip_prefix("rtp").filter(|rest| rest.starts_with([':', '/']));
    match rest.or(text.starts_with('/').then_some(text)) {
        Some(rest) => rest.trim_start_matches([':', '/']),
        None => text,
    }
}

fn unknown_to_ethernet(key: &str, end: AddressRole) -> Option<&'static str> {
    match (key, end) {
        ("streamid", _)
        | ("prio", AddressRole::To)
        | ("volume" | "senders" | "tolerance", AddressRole::From) => None,
        (_, AddressRole::To) => Some("streamid or prio"),
        (_, AddressRole::From) => Some("streamid, tolerance, volume or senders"),
    }
}

/// Tolerances of presentation times, which wrap after 4.3 s. More than a second is useless.
const TOLERANCES: RangeInclusive<Span> = Span::from_micros(1)..=Span::from_secs(1);

/// Maximum priority of kernel queues (linux/pkt_sched.h, `TC_PRIO_MAX`).
const MAX_PRIORITY: u8 = 15;

fn ethernet_target(rest: &str, text: &str, end: AddressRole) -> Result<EthernetTarget, String> {
    let rest = rest.trim_end_matches('/');
    let (interface, address) = rest.split_once('/').unwrap_or((rest, ""));
    if interface.is_empty() || interface.starts_with(':') {
        return Err(format!("no interface in '{text}'\nhint: {ETHERNET}"));
    }
    let address = match (address, end) {
        ("", AddressRole::To) => None,
        ("", AddressRole::From) => return Err(unnamed(&format!("'{text}'"))),
        (given, _) => Some(octets::<6>(given).ok_or_else(|| {
            format!("invalid Ethernet address '{given}' in '{text}'\nhint: {ETHERNET}")
        })?),
    };
    if address == Some([0; 6]) {
        return Err(format!(
            "invalid Ethernet address 00:00:00:00:00:00 in '{text}'\nhint: {ETHERNET}"
        ));
    }
    if octets::<6>(interface).is_some() {
        return Err(format!(
            "no interface in '{text}'\nhint: write avtp://INTERFACE/{interface}, as in avtp://eth0/{interface} (`ip link` \
             lists the interfaces)"
        ));
    }
    if let Some((name, _)) = interface.split_once(':') {
        let behind = rest.strip_prefix(interface).unwrap_or_default();
        return Err(format!(
            "invalid interface '{interface}' in '{text}' (Ethernet has no ports)\nhint: write \
             avtp://{name}{behind}"
        ));
    }
    Ok(EthernetTarget { interface: interface.to_owned(), address, priority: CLASS_A })
}

pub(super) fn unnamed(place: &str) -> String {
    format!("no Ethernet address in {place}\nhint: {ETHERNET}")
}

fn octets<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut words = text.split([':', '-']);
    for byte in &mut bytes {
        let word = words.next().filter(|word| (1..=2).contains(&word.len()))?;
        *byte = u8::from_str_radix(word, 16).ok()?;
    }
    words.next().is_none().then_some(bytes)
}

/// Talker's address and number, as in ALSA's `aaf` plugin (`AA:BB:CC:DD:EE:FF:0001`).
fn stream_id(text: &str) -> Option<StreamId> {
    let (address, number) = text.rsplit_once(':')?;
    let [a, b, c, d, e, f] = octets::<6>(address)?;
    let number = u16::from_str_radix(number, 16).ok().filter(|_| number.len() <= 4)?;
    let address = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    Some(StreamId(address << 16 | u64::from(number)))
}

fn with_port(place: &str) -> String {
    let place = place.trim_end_matches('/');
    let port = place.rsplit_once(':').map(|(_, port)| port);
    match port {
        Some(port) if !port.ends_with(']') => place.to_owned(),
        _ => format!("{place}:{}", avtp::UDP_PORT),
    }
}

fn with_scheme(text: &str) -> String {
    let begins = text.contains("://") || text.starts_with("rtp:/") || text.starts_with('/');
    if begins { text.to_owned() } else { format!("rtp://{text}") }
}

impl Address {
    /// Parses `--to`.
    pub fn to_send_to(text: &str) -> Result<Self, String> {
        Self::read(text, AddressRole::To)
    }

    /// Parses `--from`.
    pub fn to_hear(text: &str) -> Result<Self, String> {
        Self::read(text, AddressRole::From)
    }

    /// Parses `--clock`.
    pub fn to_follow(text: &str) -> Result<Self, String> {
        const ETHERNET_KEYS: &[&str] = &["streamid"];
        const UDP_KEYS: &[&str] = &["streamid", "iface", "source"];
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let keys = match place.split_once("://") {
            Some(("avtp", _)) => ETHERNET_KEYS,
            Some(("avtp+udp", _)) => UDP_KEYS,
            _ => {
                return Err(format!(
                    "invalid clock '{text}': must be an AVTP address\nhint: {ETHERNET}"
                ));
            }
        };
        let requested = query.split('&').map(|pair| pair.split('=').next().unwrap_or(pair));
        if let Some(key) = requested.filter(|key| !key.is_empty()).find(|key| !keys.contains(key)) {
            let known = keys.join(" or ");
            return Err(format!("'{key}' does not apply to a clock\nhint: use {known}"));
        }
        Self::read(text, AddressRole::From)
    }

    /// Parses a relay's source; `rtp://` is optional.
    pub fn to_listen_at(text: &str) -> Result<Self, String> {
        Self::read(&with_scheme(text), AddressRole::From)
    }

    /// Parses a relay's destination; `rtp://` is optional.
    pub fn to_relay_to(text: &str) -> Result<Self, String> {
        Self::read(&with_scheme(text), AddressRole::To)
    }

    fn read(text: &str, end: AddressRole) -> Result<Self, String> {
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let nowhere = |written| Err(format!("no host in '{text}'\nhint: {written}"));
        let is_to = end == AddressRole::To;
        let place = match place.split_once("://") {
            Some(("rtp", rest)) if is_to && rest.starts_with(':') => return nowhere(RTP),
            Some(("avtp+udp", "")) if is_to => return nowhere(AVTP_BY_UDP),
            Some(("avtp+udp", rest)) if is_to && rest.starts_with([':', '/']) => {
                return nowhere(AVTP_BY_UDP);
            }
            Some(("rtp", rest)) => {
                let (host, port) = parse_host(rest, text, ("UDP", RTP))?;
                Target::Udp { form: WireForm::Rtp, host, port }
            }
            Some(("avtp+udp", rest)) => {
                let (host, port) = avtp_host(rest, text)?;
                Target::Udp { form: WireForm::Avtp(Encapsulation::Udp), host, port }
            }
            Some(("avtp", rest)) => Target::Ethernet(ethernet_target(rest, text, end)?),
            Some(("rtp+tcp", rest)) if is_to && rest.starts_with(':') => {
                return nowhere(RTP_BY_TCP);
            }
            Some(("rtp+tcp", rest)) => {
                let (host, port) = parse_host(rest, text, ("TCP", RTP_BY_TCP))?;
                Target::Tcp { host, port }
            }
            Some((scheme, _)) => {
                return Err(format!("unknown scheme {scheme}://\nhint: {ALL_FORMS}"));
            }
            None if Path::new(place).extension().is_some_and(|e| e.eq_ignore_ascii_case("sdp")) => {
                Target::Sdp(place.into())
            }
            None => return Err(format!("invalid address '{text}'\nhint: {}", meant(text))),
        };
        let mut address = Self {
            text: text.to_owned(),
            place,
            is_destination: is_to,
            interface: None,
            sources: Vec::new(),
            ttl: None,
            loopback: None,
            gain: Gain::UNITY,
            senders: None,
            stream: None,
            tolerance: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            address.set(pair, end)?;
        }
        let families = |is: fn(&IpAddr) -> bool| address.sources.iter().any(is);
        if families(IpAddr::is_ipv4) && families(IpAddr::is_ipv6) {
            return Err(format!(
                "'source' in '{}' mixes IPv4 and IPv6 addresses\nhint: keep only addresses of the same family",
                address.text
            ));
        }
        if address.sources.len() > 1 {
            address.senders.get_or_insert(ALL_SENDERS);
        }
        Ok(address)
    }

    fn set(&mut self, pair: &str, end: AddressRole) -> Result<(), String> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unusable = |what: &str, must: &str| {
            format!("invalid {what} '{value}' in '{}': must be {must}", self.text)
        };
        if let (Target::Ethernet(_), Some(known)) = (&self.place, unknown_to_ethernet(key, end)) {
            return Err(format!("'{key}' does not apply to avtp://\nhint: use {known}"));
        }
        if let (Target::Tcp { .. }, false) = (&self.place, key == "volume") {
            return Err(format!(
                "'{key}' does not apply to TCP\nhint: leave it out of {}",
                self.text
            ));
        }
        match (key, end) {
            ("streamid", _) => {
                let stream = stream_id(value).ok_or_else(|| {
                    unusable("stream id", "8 hex bytes, such as AA:BB:CC:DD:EE:FF:0001")
                })?;
                if !matches!(self.form(), WireForm::Avtp(_)) {
                    return Err(format!(
                        "'{key}' applies only to AVTP\nhint: leave it out of {}",
                        self.text
                    ));
                }
                self.stream = Some(stream);
            }
            ("tolerance", AddressRole::From) => {
                let tolerance = parse_span(value).ok().filter(|span| TOLERANCES.contains(span));
                self.tolerance = Some(tolerance.ok_or_else(|| unusable("tolerance", "1us to 1s"))?);
                if !matches!(self.form(), WireForm::Avtp(_)) {
                    return Err(format!(
                        "'{key}' applies only to AVTP\nhint: leave it out of {}",
                        self.text
                    ));
                }
            }
            ("prio", AddressRole::To) => {
                let priority = value.parse().ok().filter(|priority| *priority <= MAX_PRIORITY);
                let priority = priority.ok_or_else(|| unusable("priority", "0 to 15"))?;
                let Target::Ethernet(place) = &mut self.place else {
                    return Err(format!(
                        "'{key}' applies only to avtp://INTERFACE/ADDRESS\nhint: leave it out of {}",
                        self.text
                    ));
                };
                place.priority = priority;
            }
            ("iface", _) if value.is_empty() => {
                return Err(unusable("interface", "a name such as eth0 or its IP address"));
            }
            ("iface", _) => self.interface = Some(value.to_owned()),
            ("source", AddressRole::From) => {
                let hosts = value.split(',').map(str::parse).collect::<Result<Vec<IpAddr>, _>>();
                self.sources =
                    hosts.map_err(|_| unusable("source", "IP addresses separated by commas"))?;
                self.sources.sort_unstable();
                self.sources.dedup();
            }
            ("volume", AddressRole::From) => {
                self.gain = value.parse().map_err(|_| unusable("volume", "like -6dB"))?;
            }
            ("senders", AddressRole::From) => {
                self.senders = Some(match (value, value.parse()) {
                    ("all", _) => ALL_SENDERS,
                    (_, Ok(maximum)) if maximum <= MAX_SENDERS => NonZeroUsize::new(maximum)
                        .ok_or_else(|| unusable("number of senders", "1 to 1024, or all"))?,
                    _ => return Err(unusable("number of senders", "1 to 1024, or all")),
                });
            }
            ("ttl", AddressRole::To) => {
                self.ttl = Some(value.parse().map_err(|_| unusable("TTL", "0 to 255"))?);
            }
            ("loop", AddressRole::To) => {
                self.loopback = Some(match value {
                    "0" => false,
                    "1" => true,
                    _ => return Err(unusable("loop", "0 or 1")),
                });
            }
            ("source", AddressRole::To) => {
                return Err("'source' is only for --from\nhint: use iface, ttl or loop".into());
            }
            ("volume", AddressRole::To) => {
                return Err("'volume' is only for --from\nhint: use --volume".into());
            }
            ("senders", AddressRole::To) => {
                return Err("'senders' is only for --from\nhint: use iface, ttl or loop".into());
            }
            ("ttl" | "loop", AddressRole::From) => {
                return Err(format!(
                    "'{key}' is only for --to\nhint: use iface, source, volume or senders"
                ));
            }
            (_, AddressRole::To) => {
                return Err(format!("unknown key '{key}'\nhint: use iface, ttl or loop"));
            }
            (_, AddressRole::From) => {
                return Err(format!(
                    "unknown key '{key}'\nhint: use iface, source, volume or senders"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn hint_does_not_repeat_the_refused_address() {
        for text in
            ["rtp://studio/left:5004", "studio/left:5004", "//studio/left:5004", "a:0", "::1::1"]
        {
            let why = Address::to_send_to(text).expect_err(text);
            assert!(why.ends_with(FORMS), "{why}");
        }
        let why = Address::to_hear("rtp:/studio:5004").expect_err("one slash");
        assert!(why.ends_with("write rtp://studio:5004"), "{why}");
    }

    #[test]
    fn refused_address_to_receive_from_is_answered_with_its_form() {
        for text in [
            "127.0.0.1:5004",
            "127.0.0.1?iface=lo",
            "::1",
            "studio",
            "rtp:/127.0.0.1:5004",
            "rtp:127.0.0.1:5004?iface=lo",
            "rtp:///127.0.0.1:5004",
            "rtp://127.0.0.1",
            "rtp://127.0.0.1:0",
            "rtp://127.0.0.1:x",
            "rtp://127.0.0.1:65536",
            "rtp://127.0.0.1:5004?gane=-6dB",
            "rtp://239.69.77.3:5004?ttl=4",
            "rtp://239.69.77.3:5004?loop=0",
            "rtp+tcp://127.0.0.1",
            "rtp+tcp://127.0.0.1:5004?ttl=4",
            "avtp://eth0",
        ] {
            snapshot!(text, Address::to_hear(text).expect_err(text));
        }
    }

    #[test]
    fn refused_address_to_send_to_is_answered_with_its_form() {
        for text in [
            "rtp://127.0.0.1:5004?loop=no",
            "rtp://127.0.0.1:5004?source=127.0.0.1",
            "rtp://127.0.0.1:5004?volume=-6dB",
            "rtp://127.0.0.1:5004?iface=",
            "avtp+upd://10.77.0.2",
            "ethernet://eth0",
            "avtp+udp://newc_va/91:E0:F0:00:FE:01",
            "avtp+udp://10.0.0.2:1/x",
            "avtp+udp://10.77.0.2:x",
            "avtp+udp://:17220",
            "avtp://:17220/1:2:3:4:5:6",
            "avtp://eth0:17220/91:E0:F0:00:FE:01",
            "avtp://eth0:17220",
            "avtp://91:E0:F0:00:FE:01",
            "avtp://eth0/00:00:00:00:00:00",
        ] {
            snapshot!(text, Address::to_send_to(text).expect_err(text));
        }
    }

    #[test]
    fn several_source_hosts_admit_all_their_senders() {
        let read = |query: &str| Address::to_hear(&format!("rtp://*:5004?{query}"));
        let senders = |query| read(query).unwrap().senders;
        assert_eq!(senders("source=10.0.0.7"), None);
        assert_eq!(senders("source=10.0.0.7,10.0.0.7"), None, "one host");
        assert_eq!(senders("source=10.0.0.7,10.0.0.9"), Some(ALL_SENDERS));
        assert_eq!(senders("senders=2&source=10.0.0.7,10.0.0.9"), NonZeroUsize::new(2));
        for query in ["source=", "source=10.0.0.7,", "source=10.0.0.7,kitchen"] {
            snapshot!(read(query).unwrap_err());
        }
    }

    #[test]
    fn tolerance_of_presentation_times_is_1_us_to_1_s() {
        let read = |tolerance: &str| {
            Address::to_hear(&format!("avtp://eth0/91:E0:F0:00:0A:01?tolerance={tolerance}"))
        };
        assert_eq!(read("100us").unwrap().tolerance, Some(Span::from_micros(100)));
        assert_eq!(read("1s").unwrap().tolerance, Some(Span::from_secs(1)));
        for refused in ["0us", "2s", "100", ""] {
            snapshot!(refused, read(refused).unwrap_err());
        }
        assert!(Address::to_hear("rtp://*:5004?tolerance=1ms").is_err(), "RTP has no such times");
    }

    #[test]
    fn keys_unknown_to_ethernet_are_rejected_with_alternatives() {
        let group = "avtp://eth0/91:E0:F0:00:0A:01";
        for key in ["ttl=4", "loop=0", "iface=eth1", "source=10.0.0.9", "nosuch=1", "volume=-6dB"] {
            let why = Address::to_send_to(&format!("{group}?{key}")).expect_err(key);
            snapshot!(why);
        }
        for key in ["ttl=4", "iface=eth1", "source=10.0.0.9", "prio=2"] {
            let why = Address::to_hear(&format!("{group}?{key}")).expect_err(key);
            snapshot!(why);
        }
        assert!(Address::to_hear(&format!("{group}?volume=-6dB&senders=2")).is_ok());
        assert!(Address::to_send_to("avtp+udp://10.0.0.9:17220?iface=eth1").is_ok());
    }
}
