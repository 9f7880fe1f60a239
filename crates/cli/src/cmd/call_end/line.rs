//! Transports of a call, sealed by its keys.

use std::net::{TcpStream, UdpSocket};

use tautline_api::call::{CallKeys, SrtpSecret};
use tautline_api::srtp::{MasterKey, NoMasterKey, Profile, SrtpSeal};
use tautline_io::link::muxed::{FarAddress, MuxedLine, Seals};
use tautline_io::socket::seal::Seal;
use tautline_io::tcp::{TcpOptions, TcpWatch};
use tautline_io::udp::UdpOptions;

use super::CallLink;

use crate::failure::Failure;

/// Which end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cmd) enum CallSide {
    /// The one that calls.
    Caller,
    /// The one that is called.
    Called,
}

fn master_key(secret: &SrtpSecret) -> Result<MasterKey, NoMasterKey> {
    let bytes = [&secret.key[..], &secret.salt[..]].concat();
    MasterKey::new(Profile::AeadAes256Gcm, &bytes)
}

/// Whoever seals has a value of its own: streams and reports have sources and counts of their own, so no nonce comes
/// twice.
fn seals(keys: &CallKeys, side: CallSide) -> Result<Seals, NoMasterKey> {
    let (sent, heard) = match side {
        CallSide::Caller => (&keys.there, &keys.back),
        CallSide::Called => (&keys.back, &keys.there),
    };
    let (sent, heard) = (master_key(sent)?, master_key(heard)?);
    let seal = || Some(Box::new(SrtpSeal::new(&sent, &heard)) as Box<dyn Seal>);
    Ok(Seals { sending: seal(), receiving: seal(), reports: [seal(), seal()] })
}

/// A line by UDP.
pub(in crate::cmd) fn udp_line(
    socket: UdpSocket,
    options: &UdpOptions,
    far: FarAddress,
    (keys, side): (&CallKeys, CallSide),
) -> Result<MuxedLine, Failure> {
    let seals = seals(keys, side).map_err(|error| Failure::running(error.to_string()))?;
    MuxedLine::udp(socket, options, far, seals).map_err(Failure::from)
}

/// A line by a connection, and what tells when that is lost.
pub(in crate::cmd) fn tcp_line(
    stream: TcpStream,
    link: &CallLink,
    (keys, side): (&CallKeys, CallSide),
) -> Result<(MuxedLine, TcpWatch), Failure> {
    let seals = seals(keys, side).map_err(|error| Failure::running(error.to_string()))?;
    let UdpOptions { datagram_bytes, packets_per_second, batch, .. } = link.udp;
    let options = TcpOptions {
        datagram_bytes,
        packets_per_second,
        batch,
        grows_window: true,
        ..TcpOptions::default()
    };
    MuxedLine::tcp(stream, &options, seals).map_err(Failure::from)
}
