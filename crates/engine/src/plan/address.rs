//! ADDRESS as people write it: `rtp://HOST:PORT?iface=eth0`, or a `.sdp` file.

use core::fmt;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use tautline_dsp::gain::Gain;
use tautline_proto::wire::sdp::Description;

/// An address that cannot be used: one sentence that ends with the mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nobody could use it so.
    #[error("{0}")]
    Unusable(String),
    /// It may be right, and could not be opened: a name that nobody knows, a description that is
    /// not there.
    #[error("{0}")]
    NotThere(String),
}

/// An address as somebody gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    text: String,
    place: Target,
    /// Interface by name or address.
    pub interface: Option<String>,
    /// The only hosts to hear; all where there are none.
    pub sources: Vec<IpAddr>,
    /// Routers a multicast packet may pass, plus one.
    pub ttl: Option<u8>,
    /// Whether programs on this host hear what is sent to a group.
    pub loopback: Option<bool>,
    /// Gain of the stream in a mix.
    pub gain: Gain,
    /// How many senders are heard there at once, each as a stream of its own; `None` is one.
    pub senders: Option<NonZeroUsize>,
}

/// As many as `?senders=all` hears at once: more than people play together, and in memory little.
pub const ALL_SENDERS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// The most that may be asked for.
pub const MOST_SENDERS: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
enum Target {
    Rtp { host: String, port: u16 },
    Sdp(PathBuf),
}

/// What an address stands for.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Where packets go or come.
    pub rtp: SocketAddr,
    /// Where reports go or come.
    pub rtcp: SocketAddr,
    /// What a `.sdp` file says.
    pub description: Option<Description>,
}

const FORMS: &str = "write rtp://HOST:PORT or the path of a .sdp file";

/// Which end an address is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressRole {
    To,
    From,
}

fn parse_host(rest: &str, text: &str) -> Result<Target, String> {
    let unusable = || format!("`{text}` has no UDP port; write rtp://HOST:5004");
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(unusable)?;
    if port.parse::<u16>().is_err() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(format!(
            "{port} is too large for a UDP port in `{text}`; write one up to {}",
            u16::MAX - 1
        ));
    }
    // Nobody can be sent to at UDP port 0, and nobody would know what it came to be here.
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(unusable)?;
    if host.contains('/') {
        return Err(format!("`{text}` has a / before its UDP port; {}", meant(text)));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Target::Rtp { host, port })
}

/// What to write instead of an address without its beginning, or with a part of it.
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

/// What follows a beginning that lacks a slash or the colon: `rtp:/HOST`, `rtp:HOST`, `//HOST`.
fn after_beginning(text: &str) -> &str {
    let rest = text.strip_prefix("rtp").filter(|rest| rest.starts_with([':', '/']));
    match rest.or(text.starts_with('/').then_some(text)) {
        Some(rest) => rest.trim_start_matches([':', '/']),
        None => text,
    }
}

fn with_scheme(text: &str) -> String {
    // What begins wrongly is refused with what was meant.
    let begins = text.contains("://") || text.starts_with("rtp:/") || text.starts_with('/');
    if begins { text.to_owned() } else { format!("rtp://{text}") }
}

impl Address {
    /// Reads what follows `--to`.
    pub fn to_send_to(text: &str) -> Result<Self, String> {
        Self::read(text, AddressRole::To)
    }

    /// Reads what follows `--from`.
    pub fn to_hear(text: &str) -> Result<Self, String> {
        Self::read(text, AddressRole::From)
    }

    /// Reads where a relay listens: `rtp://` may be left out.
    pub fn to_listen_at(text: &str) -> Result<Self, String> {
        Self::read(&with_scheme(text), AddressRole::From)
    }

    /// Reads where a relay hands on to: `rtp://` may be left out.
    pub fn to_relay_to(text: &str) -> Result<Self, String> {
        Self::read(&with_scheme(text), AddressRole::To)
    }

    fn read(text: &str, end: AddressRole) -> Result<Self, String> {
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let place = match place.split_once("://") {
            Some(("rtp", rest)) if end == AddressRole::To && rest.starts_with(':') => {
                return Err(format!("`{text}` names no host; write rtp://HOST:5004"));
            }
            Some(("rtp", rest)) => parse_host(rest, text)?,
            Some((later @ ("rtp+tcp" | "avtp" | "avtp+udp"), _)) => {
                return Err(format!("{later}:// is not in this version yet; use rtp://HOST:PORT"));
            }
            Some((scheme, _)) => return Err(format!("`{scheme}://` is unknown; {FORMS}")),
            None if Path::new(place).extension().is_some_and(|e| e.eq_ignore_ascii_case("sdp")) => {
                Target::Sdp(place.into())
            }
            None => return Err(format!("`{text}` is no address; {}", meant(text))),
        };
        let mut address = Self {
            text: text.to_owned(),
            place,
            interface: None,
            sources: Vec::new(),
            ttl: None,
            loopback: None,
            gain: Gain::UNITY,
            senders: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            address.set(pair, end)?;
        }
        let families = |is: fn(&IpAddr) -> bool| address.sources.iter().any(is);
        if families(IpAddr::is_ipv4) && families(IpAddr::is_ipv6) {
            return Err(format!(
                "`source` in `{}` has addresses of IPv4 and of IPv6, and what is heard comes by one; \
                 leave out those of the other",
                address.text
            ));
        }
        // Whoever names several hosts wants to hear them all.
        if address.sources.len() > 1 {
            address.senders.get_or_insert(ALL_SENDERS);
        }
        Ok(address)
    }

    fn set(&mut self, pair: &str, end: AddressRole) -> Result<(), String> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unusable = |what| format!("`{value}` is no {what} in `{}`", self.text);
        match (key, end) {
            ("iface", _) if value.is_empty() => {
                return Err(unusable("interface such as eth0 or its IP address"));
            }
            ("iface", _) => self.interface = Some(value.to_owned()),
            ("source", AddressRole::From) => {
                let hosts = value.split(',').map(str::parse).collect::<Result<Vec<IpAddr>, _>>();
                self.sources =
                    hosts.map_err(|_| unusable("IP address, or several with , between"))?;
                self.sources.sort_unstable();
                self.sources.dedup();
            }
            ("gain", AddressRole::From) => {
                self.gain = value.parse().map_err(|_| unusable("gain such as -6dB"))?;
            }
            ("senders", AddressRole::From) => {
                self.senders = Some(match (value, value.parse()) {
                    ("all", _) => ALL_SENDERS,
                    (_, Ok(most)) if most <= MOST_SENDERS => NonZeroUsize::new(most)
                        .ok_or_else(|| unusable("number of senders, at least 1, or all"))?,
                    _ => return Err(unusable("number of senders up to 1024, or all")),
                });
            }
            ("ttl", AddressRole::To) => {
                self.ttl = Some(value.parse().map_err(|_| unusable("TTL of 0 to 255"))?);
            }
            ("loop", AddressRole::To) => {
                self.loopback = Some(match value {
                    "0" => false,
                    "1" => true,
                    _ => return Err(unusable("choice of 0 or 1")),
                });
            }
            ("source", AddressRole::To) => {
                return Err("`source` is for --from, where it says which sender to hear; use \
                            iface, ttl or loop"
                    .into());
            }
            ("gain", AddressRole::To) => {
                return Err("`gain` is for --from, where it is that of one stream in a mix; use \
                            --volume for what is sent"
                    .into());
            }
            ("senders", AddressRole::To) => {
                return Err(
                    "`senders` is for --from, where it says how many are heard at once; use \
                            iface, ttl or loop"
                        .into(),
                );
            }
            ("ttl" | "loop", AddressRole::From) => {
                return Err(format!(
                    "`{key}` is for --to, as a receiver sends nothing to a group; leave it out, or \
                     use iface, source or gain, or senders"
                ));
            }
            (_, AddressRole::To) => {
                return Err(format!("`{key}` is unknown after ?; use iface, ttl or loop"));
            }
            (_, AddressRole::From) => {
                return Err(format!(
                    "`{key}` is unknown after ?; use iface, source or gain, or senders"
                ));
            }
        }
        Ok(())
    }

    /// Whether [`Self::resolve`] asks somebody who may take long to answer: the system's resolver, or
    /// a file's disk.
    pub fn may_wait(&self) -> bool {
        match &self.place {
            Target::Rtp { host, .. } => !is_any(host) && host.parse::<IpAddr>().is_err(),
            Target::Sdp(_) => true,
        }
    }

    /// The `.sdp` file that it names, if it does.
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            Target::Rtp { .. } => None,
            Target::Sdp(path) => Some(path),
        }
    }

    /// Looks the host up, or reads the description. Takes as long as the system's resolver does.
    pub fn resolve(&self) -> Result<Resolved, AddressError> {
        match &self.place {
            Target::Rtp { host, port } => {
                let rtp = look_up(host, *port)?;
                let above = port.checked_add(1).ok_or_else(|| {
                    AddressError::Unusable(format!(
                        "{self}: RTCP needs the UDP port above; use one below"
                    ))
                })?;
                Ok(Resolved { rtp, rtcp: SocketAddr::new(rtp.ip(), above), description: None })
            }
            Target::Sdp(path) => {
                let bytes = read_bounded(path)?;
                let description = Description::read(&bytes).map_err(|error| {
                    AddressError::NotThere(format!("reading {}: {error}", path.display()))
                })?;
                Ok(Resolved {
                    rtp: SocketAddr::new(description.destination, description.rtp_port),
                    rtcp: SocketAddr::new(description.destination, description.rtcp_port),
                    description: Some(description),
                })
            }
        }
    }
}

/// Reads a description, but never much more than one may have, and nothing that has to be waited
/// for, such as a pipe that nobody writes.
fn read_bounded(path: &Path) -> Result<Vec<u8>, AddressError> {
    let most = tautline_proto::wire::sdp::MOST_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = std::fs::metadata(path).and_then(|there| {
        if !(there.is_file() || there.is_dir()) {
            return Err(std::io::Error::other("it is a pipe or a device"));
        }
        std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)
    });
    read.map_err(|error| {
        let path = path.display();
        AddressError::NotThere(format!("reading {path}: {error}; name the sender's .sdp file"))
    })?;
    Ok(bytes)
}

/// Whether it stands for every address of this machine.
fn is_any(host: &str) -> bool {
    host.is_empty() || host == "*"
}

fn look_up(host: &str, port: u16) -> Result<SocketAddr, AddressError> {
    if is_any(host) {
        return Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    }
    let unknown = |why: String| {
        AddressError::NotThere(format!(
            "looking up {host}: {why}; check the name or give an IP address"
        ))
    };
    let mut found = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("it has no address".into()))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suggested_is_not_what_was_refused() {
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
    fn whoever_names_several_hosts_hears_every_sender_of_theirs() {
        let read = |query: &str| Address::to_hear(&format!("rtp://*:5004?{query}"));
        let senders = |query| read(query).unwrap().senders;
        assert_eq!(senders("source=10.0.0.7"), None);
        assert_eq!(senders("source=10.0.0.7,10.0.0.7"), None, "one host");
        assert_eq!(senders("source=10.0.0.7,10.0.0.9"), Some(ALL_SENDERS));
        assert_eq!(senders("senders=2&source=10.0.0.7,10.0.0.9"), NonZeroUsize::new(2));
        for query in ["source=", "source=10.0.0.7,", "source=10.0.0.7,kitchen"] {
            assert!(read(query).unwrap_err().contains("is no IP address"), "{query}");
        }
    }

    #[test]
    fn only_names_and_files_may_keep_one_waiting() {
        for (text, waits) in [
            ("rtp://10.0.0.2:5004", false),
            ("rtp://[::1]:5004?iface=lo", false),
            ("rtp://*:5004", false),
            ("rtp://kitchen:5004", true),
            ("/net/kitchen.sdp", true),
        ] {
            assert_eq!(Address::to_hear(text).unwrap().may_wait(), waits, "{text}");
        }
    }
}
