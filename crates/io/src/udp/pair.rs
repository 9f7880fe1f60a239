//! RTP and RTCP on consecutive ports.

use std::net::{Ipv4Addr, SocketAddr};

use crate::control::Control;
use crate::link::destinations::Outbound;
use crate::link::direct::DirectLink;
use crate::link::threaded::{ThreadedLink, WireOptions};
use crate::link::{Link, OpenError};
use crate::socket::seal::Seal;
use crate::thread::Scheduler;
use crate::udp::ControlSocket;
use crate::udp::open::{UdpOptions, open};

const TRIES: usize = 64;

/// An open RTP link with its RTCP channel.
pub struct OpenedStream {
    /// The RTP link.
    pub link: Box<dyn Link>,
    /// The RTCP control channel.
    pub control: Option<Box<dyn Control>>,
    /// For sending; empty for a receiver.
    pub outbound: Outbound,
    /// Both bound addresses, if IP.
    pub local: Option<(SocketAddr, SocketAddr)>,
}

impl OpenedStream {
    /// Both bound addresses; unspecified if not IP.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        let none = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        self.local.unwrap_or((none, none))
    }
}

/// Creates the seals for packets and reports, again for each pair of sockets tried.
pub type MakeSeal<'a> = &'a dyn Fn() -> Box<dyn Seal>;

/// Opens a stream like [`open_pair`], on this thread or a wire thread below `device`.
pub fn open_stream(
    options: &UdpOptions,
    device: Option<Scheduler>,
) -> Result<OpenedStream, OpenError> {
    open_sealed_stream(options, device, None)
}

/// Opens a stream's sockets with `seal`, if given.
pub fn open_sealed_stream(
    options: &UdpOptions,
    device: Option<Scheduler>,
    seal: Option<MakeSeal<'_>>,
) -> Result<OpenedStream, OpenError> {
    let made = || seal.map(|make| make());
    let (direct, control) = find_pair(
        options,
        |options| DirectLink::open_sealed(options, made()),
        |options| ControlSocket::open_sealed(options, made()),
    )?;
    let local = Some((direct.local(), control.local()));
    let outbound = options.outbound(device.is_some());
    let wire = |device| WireOptions::below(device, options.ring_packets()).spacing(options.spacing);
    let link = ThreadedLink::boxed(direct, device.map(wire))?;
    Ok(OpenedStream { link, control: Some(Box::new(control)), outbound, local })
}

/// Opens RTP, and RTCP on the next port (RFC 3550 §11). Port 0: a free even pair.
pub fn open_pair(options: &UdpOptions) -> Result<(DirectLink, ControlSocket), OpenError> {
    find_pair(options, DirectLink::open, ControlSocket::open)
}

/// Like [`open_pair`], with a plain socket for RTP that sends anywhere.
pub fn open_plain_pair(options: &UdpOptions) -> Result<(ControlSocket, ControlSocket), OpenError> {
    find_pair(options, ControlSocket::open, ControlSocket::open)
}

fn find_pair<T>(
    options: &UdpOptions,
    open_media: impl Fn(&UdpOptions) -> Result<T, OpenError>,
    open_reports: impl Fn(&UdpOptions) -> Result<ControlSocket, OpenError>,
) -> Result<(T, ControlSocket), OpenError> {
    let at = |port| open_pair_at(options, port, &open_media, &open_reports);
    if options.bind.port() != 0 {
        return at(options.bind.port());
    }
    let mut tries = 0;
    loop {
        let free = open(options)?.local().map_or(0, |local| local.port());
        match at(free & !1) {
            Err(error) if error.errno == libc::EADDRINUSE && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}

fn open_pair_at<T>(
    options: &UdpOptions,
    port: u16,
    open_media: impl Fn(&UdpOptions) -> Result<T, OpenError>,
    open_reports: impl Fn(&UdpOptions) -> Result<ControlSocket, OpenError>,
) -> Result<(T, ControlSocket), OpenError> {
    let mut media = options.clone();
    media.bind.set_port(port);
    let Some(above) = port.checked_add(1) else {
        return Err(OpenError {
            tried: format!("binding UDP port {port} and the one above for RTCP"),
            answer: "there is no port above".into(),
            hint: "use an even UDP port below 65535".into(),
            errno: 0,
        });
    };
    let media = open_media(&media)?;
    let control = open_reports(&options.for_control(above)).map_err(|mut error| {
        error.tried.push_str(" for RTCP");
        error
    })?;
    Ok((media, control))
}
