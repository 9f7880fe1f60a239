//! Addresses and formats as one machine uses them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use tautline_api::srtp::{SrtpSeal, read_key};
use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::address::Address;
use tautline_engine::plan::sockets::LinkOptions;
use tautline_io::socket::seal::Seal;
use tautline_io::thread::Scheduler;
use tautline_io::udp::pair::OpenedStream;
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_proto::zone::Arbiter;

use crate::{Error, Node, Site};

/// The machine's node in the building.
#[derive(Debug, Clone)]
pub struct Place {
    /// Name of the node.
    pub name: String,
    /// Address of the node, which also chooses the network interface.
    pub address: IpAddr,
}

/// Reason why the file has no node for this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHere {
    /// No node has this name.
    #[error("the building file has no node {0:?}\nhint: it has {1}")]
    NoNode(String, String),
    /// No node has an address of this machine.
    #[error(
        "no node of the building file has an address of this machine\nhint: set the host of its node to one, or name \
         the node with --node: {0}"
    )]
    NoAddress(String),
    /// Several nodes have addresses of this machine.
    #[error("this machine has the addresses of {0}\nhint: name one with --node")]
    Several(String),
    /// A host name without an address.
    #[error(
        "the host {host} of node {node} has no address\nhint: write its IP address in the building file"
    )]
    NoHost {
        /// The node.
        node: String,
        /// Its host.
        host: String,
    },
}

impl Site {
    /// Format of all streams that nodes and stations send.
    pub(crate) fn format(&self) -> StreamFormat {
        let sample = SampleFormat::L24;
        StreamFormat {
            codec: None,
            rate: self.rate,
            channels: Channels::STEREO,
            sample,
            // 1 ms is valid at every rate.
            packet: packet_frames(self.rate, PTIME).unwrap_or(self.rate.frames_within(PTIME)),
            payload_type: StreamFormat::default_payload_type(sample),
        }
    }

    /// The node with this name, or the node with an address of this machine.
    pub fn place(&self, name: Option<&str>) -> Result<Place, NotHere> {
        if let Some(name) = name {
            let Some(node) = self.nodes.get(name) else {
                return Err(NotHere::NoNode(name.to_owned(), listed(self.nodes.keys())));
            };
            return place(name, node);
        }
        let places = self.nodes.iter().filter_map(|(name, node)| place(name, node).ok());
        let mut here: Vec<_> = places.filter(|place| is_own(place.address)).collect();
        match (here.pop(), here.is_empty()) {
            (Some(place), true) => Ok(place),
            (None, _) => Err(NotHere::NoAddress(listed(self.nodes.keys()))),
            (Some(place), false) => {
                Err(NotHere::Several(listed(here.iter().chain([&place]).map(|it| &it.name))))
            }
        }
    }

    /// Address at which this place receives the packets of a group.
    pub(crate) fn received_at(&self, group: SocketAddr, place: &Place) -> Result<Address, Error> {
        let interface = place.address;
        let senders = match group == self.announcements {
            true => format!("&senders={}", Arbiter::MAX_ANNOUNCEMENTS),
            false => String::new(),
        };
        Address::to_hear(&format!("rtp://{group}?iface={interface}{senders}")).map_err(Error::Usage)
    }

    /// Sends to a group.
    pub(crate) fn sent_to(
        &self,
        group: SocketAddr,
        interface: Option<IpAddr>,
        only_here: bool,
    ) -> Result<Address, Error> {
        // The kernel loops back multicast packets with TTL 0, and sends none.
        let ttl = only_here.then(|| "ttl=0".to_owned());
        let options = interface.map(|address| format!("iface={address}")).into_iter().chain(ttl);
        let options = options.collect::<Vec<_>>().join("&");
        let options = if options.is_empty() { options } else { format!("?{options}") };
        Address::to_send_to(&format!("rtp://{group}{options}")).map_err(Error::Usage)
    }

    /// Opens a stream of the building, encrypted if the file names a key, with its SRTP profile.
    pub(crate) fn open(
        &self,
        options: &LinkOptions,
        below: Option<Scheduler>,
    ) -> Result<(OpenedStream, Option<&'static str>), Error> {
        let Some(file) = &self.srtp_key_file else { return Ok((options.open(below)?, None)) };
        let key = read_key(&self.folder.join(file))?;
        let seal = || -> Box<dyn Seal> { Box::new(SrtpSeal::shared(&key)) };
        Ok((options.open_sealed(below, Some(&seal))?, Some(key.profile().name())))
    }

    /// Numbers in claims of these zones and groups, or the first unknown name.
    pub fn numbers<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<u16>, &'a str> {
        let number = |name: &'a str| {
            let zone = self.zones.get(name).map(|zone| zone.number);
            zone.or(self.groups.get(name).map(|group| group.number)).ok_or(name)
        };
        names.into_iter().map(number).collect()
    }

    /// Zones that these zones and groups contain, without repetition, in the order of their names.
    pub fn zones_of<'a>(&'a self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let numbers: Vec<u16> =
            names.into_iter().flat_map(|name| self.numbers([name]).unwrap_or_default()).collect();
        let contains = |zone: &str| {
            let own = self.numbers_of(zone);
            numbers.iter().any(|number| own.contains(number))
        };
        self.zones.keys().map(String::as_str).filter(|zone| contains(zone)).collect()
    }
}

/// Sound per packet.
const PTIME: Span = Span::from_millis(1);

fn place(name: &str, node: &Node) -> Result<Place, NotHere> {
    let host = node.host.as_str();
    let address = host.parse::<IpAddr>().ok().or_else(|| {
        let mut found = (host, 0).to_socket_addrs().ok()?;
        found.next().map(|address| address.ip())
    });
    let name = name.to_owned();
    match address {
        Some(address) => Ok(Place { name, address }),
        None => Err(NotHere::NoHost { node: name, host: host.to_owned() }),
    }
}

/// Whether this machine has the address: only then can a socket have it.
pub(crate) fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut names: Vec<_> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.join(", ")
}
