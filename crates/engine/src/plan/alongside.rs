//! Clock streams that arrive at an audio stream's socket.

use std::net::SocketAddr;

use tautline_io::link::OpenError;
use tautline_io::link::divided::divide;
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::is_crf;

use super::address::{Address, Resolved};
use super::{ClockPlan, StreamPlan, sockets};

/// Capacity for unread clock packets: over ten beats at 500 per second.
const PACKETS: usize = 256;

/// Whether a clock arrives at a stream's socket. Over Ethernet the kernel separates them.
fn come_together(
    (stream, received): (&Address, &Resolved),
    (clock, reported): (&Address, &Resolved),
) -> bool {
    let avtp = |resolved: &Resolved| resolved.form == WireForm::Avtp(Encapsulation::Udp);
    let (Some(one), Some(other)) = (received.media(), reported.media()) else { return false };
    let alike = (&stream.interface, &stream.sources) == (&clock.interface, &clock.sources);
    alike && avtp(received) && avtp(reported) && covers(one, other)
}

fn covers(bound: SocketAddr, to: SocketAddr) -> bool {
    let every = bound.ip().is_unspecified() && bound.is_ipv4() == to.is_ipv4();
    bound.port() == to.port() && (bound.ip() == to.ip() || every && !to.ip().is_multicast())
}

/// Follows a clock via the first stream's socket that receives the clock, or via a separate socket.
pub fn follow(
    reported: (&Address, &Resolved),
    places: &[(&Address, &Resolved)],
    mut streams: Vec<StreamPlan>,
) -> Result<(Vec<StreamPlan>, Option<ClockPlan>), OpenError> {
    let (address, resolved) = reported;
    let at =
        places.iter().take(streams.len()).position(|received| come_together(*received, reported));
    if let Some(at) = at {
        let (stream, clock) = ClockPlan::alongside(streams.remove(at), address, resolved);
        streams.insert(at, stream);
        return Ok((streams, Some(clock)));
    }
    let opened = sockets::clock(address, resolved).open(None)?;
    Ok((streams, ClockPlan::of(address, resolved, opened)))
}

impl ClockPlan {
    fn alongside(stream: StreamPlan, address: &Address, resolved: &Resolved) -> (StreamPlan, Self) {
        let encapsulation = Encapsulation::Udp;
        let is_aside = Box::new(move |datagram: &[u8]| is_crf(encapsulation, datagram));
        let (link, aside) = divide(stream.link, PACKETS, is_aside);
        let clock = Self {
            address: address.to_string(),
            link: Box::new(aside),
            encapsulation,
            stream: resolved.stream,
        };
        (StreamPlan { link: Box::new(link), carries_clock: true, ..stream }, clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_shares_the_socket_of_an_equal_or_wildcard_address() {
        for (stream, clock, together) in [
            ("avtp+udp://127.0.0.1:17220", "avtp+udp://127.0.0.1:17220", true),
            ("avtp+udp://127.0.0.1", "avtp+udp://127.0.0.1:17220?streamid=2:0:0:0:0:1:7", true),
            ("avtp+udp://*:17220", "avtp+udp://127.0.0.1:17220", true),
            ("avtp+udp://239.69.0.1:17220", "avtp+udp://239.69.0.1:17220", true),
            ("avtp+udp://127.0.0.1:17220", "avtp+udp://127.0.0.1:17222", false),
            ("avtp+udp://127.0.0.1:17220", "avtp+udp://127.0.0.2:17220", false),
            ("avtp+udp://*:17220", "avtp+udp://239.69.0.1:17220", false),
            ("avtp+udp://127.0.0.1:17220", "avtp+udp://127.0.0.1:17220?source=10.0.0.1", false),
            ("rtp://127.0.0.1:17220", "avtp+udp://127.0.0.1:17220", false),
        ] {
            let [one, other] = [stream, clock].map(|text| {
                let address = Address::to_hear(text).unwrap();
                let resolved = address.resolve().unwrap();
                (address, resolved)
            });
            let found = come_together((&one.0, &one.1), (&other.0, &other.1));
            assert_eq!(found, together, "{stream}, {clock}");
        }
    }
}
