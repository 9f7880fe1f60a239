//! A UDP socket for RTP and RTCP together, as a line of a [muxed](crate::link::muxed) link.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::link::OpenError;
use crate::link::direct::DirectLink;
use crate::link::muxed::line::{
    FarAddress, Hears, MuxedLine, ReceivingLine, ReportLine, Seals, SendingLine, Speak,
};
use crate::link::muxed::peer::PeerAddress;
use crate::socket::descriptor::Socket;
use crate::udp::UdpOptions;

impl MuxedLine {
    /// A bound UDP socket. Of `options` the largest datagram, the batch, the packets per second and the mark (DSCP) are
    /// heeded, and no addresses; nothing is launched, nor stamped as it leaves.
    pub fn udp(
        socket: impl Into<OwnedFd>,
        options: &UdpOptions,
        far: FarAddress,
        seals: Seals,
    ) -> Result<Self, OpenError> {
        let socket: OwnedFd = socket.into();
        let options = UdpOptions {
            destinations: Vec::new(),
            most_destinations: 1,
            also: None,
            join: None,
            sources: Vec::new(),
            transmit_stamp_every: 0,
            launch: None,
            ..options.clone()
        };
        let another = || -> Result<OwnedFd, OpenError> {
            socket.as_fd().try_clone_to_owned().map_err(|error| {
                let tried = "opening a UDP socket once more".to_owned();
                OpenError::new(tried, &error, "raise the limit of open files (`ulimit -n`)")
            })
        };
        let at = if let FarAddress::At(at) = far { Some(at) } else { None };
        let peer = Arc::new(PeerAddress::new(at));
        let link = DirectLink::over_socket(another()?, &options, seals.sending)?;
        let sending = SendingLine { link: Box::new(link), peer: Some(Arc::clone(&peer)), seen: 0 };
        let hears = UdpOptions { most_destinations: 0, ..options };
        let link = DirectLink::over_socket(another()?, &hears, seals.receiving)?;
        let hears = match far {
            FarAddress::At(_) => Hears::Peer(Arc::clone(&peer)),
            FarAddress::Newest => Hears::Newest(Arc::clone(&peer)),
        };
        let [one, other] = seals.reports;
        let report = |seal| -> Result<ReportLine, OpenError> {
            let socket = Socket::adopt(another()?).map_err(|error| {
                let tried = "taking over a UDP socket for RTCP".to_owned();
                OpenError::new(tried, &error, "hand over a UDP socket that is bound")
            })?;
            Ok(ReportLine { way: Box::new(Datagrams(socket)), seal, peer: Some(Arc::clone(&peer)) })
        };
        let reports = [report(one)?, report(other)?];
        let receiving = ReceivingLine { link: Box::new(link), hears };
        Ok(Self { sending, receiving, reports, peer: Some(peer) })
    }
}

struct Datagrams(Socket);

impl Speak for Datagrams {
    fn speak(&mut self, report: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
        let to = to.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTCONN))?;
        self.0.send_to(report, to)
    }
}
