use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_io::udp::any;
use tautline_proto::time::Span;

use super::{BEAT, LoadgenError, LoadgenReport, Until, message};
use crate::if_inet6::{self, held};
use crate::impair::BitRate;

/// Local scope (RFC 2365 §6.2), unused by these experiments.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 195, 77, 77);
/// Transient, link-local (RFC 4291 §2.7).
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x7461, 0x7574);
/// Discard (RFC 863): no listener.
const DISCARD: u16 = 9;
/// RTP header and 5 ms of 16-bit stereo at 48 kHz, like the thesis's streams.
const MEDIA_BYTES: usize = 12 + 960;
const HEADS: [usize; 2] = [28, 48];

const LISTENING: &str = "listening for chatter at";

fn failed(what: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> LoadgenError {
    move |error| LoadgenError::Socket { what, address, error }
}

pub(super) fn multicast(
    by: SocketAddr,
    rate: BitRate,
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let failed = |error| LoadgenError::NoNetwork { address: by, error };
    let (socket, group) = towards(by).map_err(failed)?;
    let bytes = (MEDIA_BYTES + HEADS[usize::from(group.is_ipv6())]) as u64;
    let interval = (bytes * 8 * 1_000_000_000 / rate.0.max(1)) as i64;
    let mut packet = [0; MEDIA_BYTES];
    packet[..2].copy_from_slice(&[0x80, 0x7f]);
    let mut tally = LoadgenReport::default();
    let begun = now();
    // Packets delayed by a stall are sent later.
    while until.sleep(begun + Span::from_nanos(interval).times(tally.tried() as i64)) {
        packet[2..4].copy_from_slice(&(tally.packets as u16).to_be_bytes());
        tally.sent(socket.send_to(&packet, group).map(|_| bytes));
    }
    if tally.packets == 0 && tally.refused > 0 {
        return Err(failed(io::Error::other("the kernel rejected all packets")));
    }
    Ok(tally)
}

/// Multicast leaves by the network of the bound address.
fn towards(by: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let probe = UdpSocket::bind((any(by.is_ipv6()), 0))?;
    probe.connect(by)?;
    let own = probe.local_addr()?.ip();
    let group = match own {
        IpAddr::V4(_) => (GROUP, DISCARD).into(),
        IpAddr::V6(own) => {
            let text = if_inet6::text();
            let held = held(&text).find(|held| held.address == own);
            let interface = held.map_or(0, |held| held.interface);
            SocketAddrV6::new(GROUP_V6, DISCARD, 0, interface).into()
        }
    };
    Ok((UdpSocket::bind((own, 0))?, group))
}

const BURST: u32 = 16;

pub(super) fn chatter(
    to: SocketAddr,
    rate: u32,
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let failed = failed("sending chatter to", to);
    let socket = UdpSocket::bind((any(to.is_ipv6()), 0)).map_err(&failed)?;
    socket.connect(to).map_err(failed)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut tally = LoadgenReport::default();
    let begun = now();
    let due = |packets: u64| {
        let nanos = (packets as i64).saturating_mul(1_000_000_000) / i64::from(rate.max(1));
        begun + Span::from_nanos(nanos)
    };
    while until.sleep(due(tally.tried())) {
        for _ in 0..random.u32(1..=BURST) {
            let message = message::write(&mut random);
            // Without a listener, ICMP errors count as rejected.
            tally.sent(socket.send(&message).map(|bytes| bytes as u64));
        }
    }
    Ok(tally)
}

pub(super) fn listen(at: SocketAddr, until: &Until<'_>) -> Result<LoadgenReport, LoadgenError> {
    let socket = UdpSocket::bind(at).map_err(failed(LISTENING, at))?;
    listen_by(&socket, at, until)
}

pub(super) fn listen_by(
    socket: &UdpSocket,
    at: SocketAddr,
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let failed = failed(LISTENING, at);
    let beat = Duration::from_nanos(BEAT.as_nanos() as u64);
    socket.set_read_timeout(Some(beat)).map_err(&failed)?;
    let mut tally = LoadgenReport::default();
    let mut room = [0; 2048];
    while !until.is_over() {
        match socket.recv(&mut room) {
            Ok(bytes) => {
                tally.packets += 1;
                tally.bytes += bytes as u64;
                tally.understood += u64::from(message::read(&room[..bytes]).is_some());
            }
            Err(error) if is_no_news(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(tally)
}

pub(super) fn is_no_news(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
