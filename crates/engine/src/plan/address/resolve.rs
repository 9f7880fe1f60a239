//! Looks up a host, or reads a description.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::sdp::Description;

use super::read::unnamed;
use super::{Address, AddressError, EthernetPlace, EthernetTarget, Resolved, StreamPlace, Target};

impl Address {
    /// Looks up the host or reads the description. Blocks with the resolver.
    pub fn resolve(&self) -> Result<Resolved, AddressError> {
        self.usable(self.look_up_or_read(false)?)
    }

    /// Like [`Self::resolve`], but also waits for a writer of a pipe.
    pub fn resolve_or_wait(&self) -> Result<Resolved, AddressError> {
        self.usable(self.look_up_or_read(true)?)
    }

    fn usable(&self, resolved: Resolved) -> Result<Resolved, AddressError> {
        let place = resolved.media().or(resolved.tcp()).map(|place| place.ip());
        match place.filter(|ip| self.is_destination && ip.is_unspecified()) {
            Some(ip) => Err(AddressError::Unusable(format!(
                "cannot send to {self}: {ip} is the unspecified address\nhint: name the receiver's address"
            ))),
            None => Ok(resolved),
        }
    }

    fn look_up_or_read(&self, awaits_pipe: bool) -> Result<Resolved, AddressError> {
        match &self.place {
            Target::Udp { form, host, port } => {
                let media = look_up(host, *port)?;
                let above = port.checked_add(1).ok_or_else(|| {
                    AddressError::Unusable(format!(
                        "{self}: RTCP needs the next UDP port, but {port} is the last\nhint: use port 65534 or lower"
                    ))
                })?;
                let reports = SocketAddr::new(media.ip(), above);
                let place = StreamPlace::Udp { media, reports };
                Ok(Resolved::of(place, *form, self.stream))
            }
            Target::Tcp { host, port } => {
                let place = StreamPlace::Tcp(look_up(host, *port)?);
                Ok(Resolved::of(place, WireForm::Rtp, None))
            }
            Target::Ethernet(EthernetTarget { interface, address, priority }) => {
                let address = address.ok_or_else(|| AddressError::Unusable(unnamed(&self.text)))?;
                let (interface, stream, priority) = (interface.clone(), self.stream, *priority);
                let place = EthernetPlace { interface, address, stream, priority };
                let form = WireForm::Avtp(Encapsulation::Ethernet);
                Ok(Resolved::of(StreamPlace::Ethernet(place), form, stream))
            }
            Target::Sdp(path) => {
                let bytes = read_bounded(path, awaits_pipe)?;
                let (description, warnings) = Description::read(&bytes).map_err(|error| {
                    AddressError::NotThere(format!("reading {}: {error}", path.display()))
                })?;
                Ok(Resolved {
                    place: StreamPlace::Udp {
                        media: SocketAddr::new(description.destination, description.rtp_port),
                        reports: SocketAddr::new(description.destination, description.rtcp_port),
                    },
                    form: WireForm::Rtp,
                    stream: None,
                    description: Some(description),
                    warnings,
                })
            }
        }
    }
}

/// Reads a description of bounded length. Waits for the writer of a pipe, or rejects pipes.
fn read_bounded(path: &Path, awaits_pipe: bool) -> Result<Vec<u8>, AddressError> {
    let maximum = tautline_proto::wire::sdp::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = std::fs::metadata(path).and_then(|there| {
        let kind = there.file_type();
        if !(kind.is_file() || kind.is_dir() || kind.is_fifo() && awaits_pipe) {
            return Err(std::io::Error::other("it is a pipe or a device"));
        }
        std::fs::File::open(path)?.take(maximum).read_to_end(&mut bytes)
    });
    read.map_err(|error| {
        let path = path.display();
        AddressError::NotThere(format!(
            "reading {path}: {error}\nhint: name the sender's .sdp file"
        ))
    })?;
    Ok(bytes)
}

pub(super) fn is_any(host: &str) -> bool {
    host.is_empty() || host == "*"
}

fn look_up(host: &str, port: u16) -> Result<SocketAddr, AddressError> {
    if is_any(host) {
        return Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    }
    let unknown = |why: String| {
        AddressError::NotThere(format!(
            "looking up {host}: {why}\nhint: check the name or give an IP address"
        ))
    };
    let mut found = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("it has no address".into()))
}
