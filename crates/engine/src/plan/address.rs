//! The user's ADDRESS: `rtp://HOST:PORT?iface=eth0`, or a `.sdp` file.

mod read;
mod resolve;

use core::fmt;
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tautline_dsp::gain::Gain;
use tautline_proto::packet::StreamId;
use tautline_proto::time::Span;
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::sdp::{Description, SdpWarning};

use self::resolve::is_any;

/// An unusable address; the message has the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Invalid.
    #[error("{0}")]
    Unusable(String),
    /// The address may be valid, but the host is unknown or the file is missing.
    #[error("{0}")]
    NotThere(String),
}

/// Address from the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    text: String,
    place: Target,
    is_destination: bool,
    /// Interface name or address.
    pub interface: Option<String>,
    /// Permitted hosts; empty: all.
    pub sources: Vec<IpAddr>,
    /// Multicast TTL.
    pub ttl: Option<u8>,
    /// Whether programs on this host also receive the group.
    pub loopback: Option<bool>,
    /// Gain in a mix.
    pub gain: Gain,
    /// Maximum simultaneous senders, each a stream; `None` for one sender.
    pub senders: Option<NonZeroUsize>,
    /// AVTP stream id to send, or the only one received.
    pub stream: Option<StreamId>,
    /// Maximum deviation of AVTP presentation times from sequence numbers.
    pub tolerance: Option<Span>,
}

/// Sender limit of `?senders=all`: more than play together, and cheap in memory.
pub const ALL_SENDERS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// Maximum of `?senders=`.
pub const MAX_SENDERS: usize = 1024;

/// Maximum presentation-time offset. The 32 bits of nanoseconds reach 2.147 s ahead; the rest is
/// for the clock difference.
pub const MAX_AHEAD: Span = Span::from_millis(2100);

/// Class A priority (IEEE 802.1Q §34.5).
pub const CLASS_A: u8 = 3;

#[derive(Debug, Clone, PartialEq)]
enum Target {
    Udp { form: WireForm, host: String, port: u16 },
    Tcp { host: String, port: u16 },
    Ethernet(EthernetTarget),
    Sdp(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
struct EthernetTarget {
    interface: String,
    /// `None` until claimed.
    address: Option<[u8; 6]>,
    priority: u8,
}

/// An Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EthernetPlace {
    /// Interface, or a VLAN's (`eth0.2`).
    pub interface: String,
    /// Group or unicast address.
    pub address: [u8; 6],
    /// Stream id to send, or the only one received.
    pub stream: Option<StreamId>,
    /// Queue priority; a VLAN's egress map also sets it on the network.
    pub priority: u8,
}

/// Network place of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPlace {
    /// UDP.
    Udp {
        /// Packets.
        media: SocketAddr,
        /// Reports.
        reports: SocketAddr,
    },
    /// TCP, packets and reports.
    Tcp(SocketAddr),
    /// Ethernet, no reports.
    Ethernet(EthernetPlace),
}

/// A resolved address.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Network place.
    pub place: StreamPlace,
    /// Wire form.
    pub form: WireForm,
    /// Stream id to send, or the only one received.
    pub stream: Option<StreamId>,
    /// `.sdp` contents.
    pub description: Option<Description>,
    /// Ignored `.sdp` lines.
    pub warnings: Vec<SdpWarning>,
}

impl Resolved {
    const fn of(place: StreamPlace, form: WireForm, stream: Option<StreamId>) -> Self {
        Self { place, form, stream, description: None, warnings: Vec::new() }
    }

    /// Packets' UDP address.
    pub const fn media(&self) -> Option<SocketAddr> {
        if let StreamPlace::Udp { media, .. } = self.place { Some(media) } else { None }
    }

    /// Reports' address, if any.
    pub const fn reports(&self) -> Option<SocketAddr> {
        match self.place {
            StreamPlace::Udp { reports, .. } => Some(reports),
            StreamPlace::Tcp(place) => Some(place),
            StreamPlace::Ethernet(_) => None,
        }
    }

    /// TCP address.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        if let StreamPlace::Tcp(place) = self.place { Some(place) } else { None }
    }

    /// Ethernet place.
    pub const fn ethernet(&self) -> Option<&EthernetPlace> {
        if let StreamPlace::Ethernet(place) = &self.place { Some(place) } else { None }
    }
}

impl Address {
    /// Whether [`Self::resolve`] can block on the resolver or a file.
    pub fn may_wait(&self) -> bool {
        match &self.place {
            Target::Udp { host, .. } | Target::Tcp { host, .. } => {
                !is_any(host) && host.parse::<IpAddr>().is_err()
            }
            Target::Ethernet(_) => false,
            Target::Sdp(_) => true,
        }
    }

    /// Interface for claiming a group, if none was given.
    pub fn unclaimed(&self) -> Option<&str> {
        match &self.place {
            Target::Ethernet(EthernetTarget { interface, address: None, .. }) => Some(interface),
            _ => None,
        }
    }

    /// Sets the claimed group.
    #[must_use]
    pub fn claimed(mut self, group: [u8; 6]) -> Self {
        if let Target::Ethernet(EthernetTarget { address: address @ None, .. }) = &mut self.place {
            *address = Some(group);
            let at = self.text.find('?').unwrap_or(self.text.len());
            let (place, query) = self.text.split_at(at);
            let [a, b, c, d, e, f] = group;
            let place = place.trim_end_matches('/');
            self.text = format!("{place}/{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}{query}");
        }
        self
    }

    /// Whether the address uses TCP.
    pub const fn is_by_tcp(&self) -> bool {
        matches!(self.place, Target::Tcp { .. })
    }

    /// Wire form; a description means RTP.
    pub const fn form(&self) -> WireForm {
        match &self.place {
            Target::Udp { form, .. } => *form,
            Target::Ethernet(_) => WireForm::Avtp(Encapsulation::Ethernet),
            Target::Tcp { .. } | Target::Sdp(_) => WireForm::Rtp,
        }
    }

    /// Takes the `.sdp` path from `name`, which need not be UTF-8.
    #[must_use]
    pub fn with_bytes_of(mut self, name: &OsStr) -> Self {
        if let Target::Sdp(path) = &mut self.place {
            let bytes = name.as_bytes().split(|byte| *byte == b'?').next().unwrap_or_default();
            *path = OsStr::from_bytes(bytes).into();
        }
        self
    }

    /// The `.sdp` path.
    pub fn file(&self) -> Option<&Path> {
        if let Target::Sdp(path) = &self.place { Some(path) } else { None }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn claimed_ethernet_address_equals_a_given_one() {
        let group = [0x91, 0xE0, 0xF0, 0x00, 0x0A, 0x01];
        let to = |text: &str| Address::to_send_to(text).unwrap();
        for (without, with) in [
            ("avtp://eth0", "avtp://eth0/91:E0:F0:00:0A:01"),
            ("avtp://eth0/", "avtp://eth0/91:E0:F0:00:0A:01"),
            ("avtp://eth0.2?prio=2", "avtp://eth0.2/91:E0:F0:00:0A:01?prio=2"),
        ] {
            let (without, with) = (to(without), to(with));
            assert!(without.unclaimed().is_some_and(|interface| with.text.contains(interface)));
            snapshot!(without.resolve().unwrap_err());
            assert_eq!(without.claimed(group), with);
            assert_eq!(with.unclaimed(), None);
            assert_eq!(with.clone().claimed([1; 6]), with, "it has one");
        }
        assert!(Address::to_hear("avtp://eth0").is_err(), "a receiver needs an address");
        let nowhere = Address::to_send_to("avtp:///91:E0:F0:00:0A:01").unwrap_err();
        snapshot!(nowhere);
    }

    #[test]
    fn unspecified_address_is_not_a_destination() {
        for host in ["0.0.0.0", "[::]", "*", "0"] {
            for scheme in ["rtp", "rtp+tcp", "avtp+udp"] {
                let text = format!("{scheme}://{host}:5004");
                snapshot!(&text, Address::to_send_to(&text).unwrap().resolve().unwrap_err());
                assert!(Address::to_hear(&text).unwrap().resolve().is_ok(), "{text}");
            }
        }
        let relayed = Address::to_relay_to("0.0.0.0:5004").unwrap();
        assert!(relayed.resolve().is_err());
        assert!(Address::to_listen_at("0.0.0.0:5004").unwrap().resolve().is_ok());
    }

    #[test]
    fn description_of_an_unspecified_address_is_not_a_destination() {
        let name = format!("tautline-{}-unspecified.sdp", std::process::id());
        let path = std::env::temp_dir().join(name);
        let sdp = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
                   m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 L24/48000/2\r\n";
        std::fs::write(&path, sdp).unwrap();
        let resolved = Address::to_send_to(path.to_str().unwrap()).unwrap().resolve();
        std::fs::remove_file(&path).unwrap();
        let refused = resolved.unwrap_err().to_string();
        assert!(refused.contains(": 0.0.0.0 is the unspecified address\nhint: name"), "{refused}");
    }

    #[test]
    fn the_path_of_a_description_may_be_any_bytes() {
        let name = OsStr::from_bytes(b"caf\xe9.sdp?volume=-6dB");
        let address = Address::to_hear(&name.to_string_lossy()).unwrap().with_bytes_of(name);
        assert_eq!(address.file(), Some(Path::new(OsStr::from_bytes(b"caf\xe9.sdp"))));
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
