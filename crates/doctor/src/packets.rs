use tautline_audio::jack::JackServer;
use tautline_io::udp::UdpOptions;
use tautline_proto::device::Settings;
use tautline_proto::latency::LatencySum;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::wire::PacketHeads;

use crate::Verdict::{Failure, Warning};
use crate::network::Interface;
use crate::{Finding, Machine, Requirements};

/// RFC 791 §3.1 without options, RFC 768.
const HEADERS: usize = 28;

/// The latency must hold one packet, two card periods of the same length, and the network. A JACK
/// server sets the periods instead, and has its own check.
pub(crate) fn minimum(requested: &Requirements, jack: Option<&JackServer>) -> Option<Finding> {
    jack.is_none().then(|| without_server(requested))
}

fn without_server(requested: &Requirements) -> Finding {
    let StreamFormat { rate, channels, packet: period, .. } = requested.format;
    let device = Settings { rate, channels, period, periods: 2 };
    let needs = LatencySum::of(requested.format.packing_age(period), &device);
    let what = format!("with two card periods as long as a packet: {needs}");
    if !needs.is_beyond(requested.latency) {
        return Finding::passed(what);
    }
    let why = format!(
        "packets will be late; use --latency {}, or a shorter --ptime and --period",
        needs.total()
    );
    Finding::new(Failure, what, why)
}

pub(crate) fn longest(interface: &Interface, format: &StreamFormat) -> Finding {
    let Interface { name, mtu, .. } = interface;
    let packet = HEADERS + PacketHeads::rtp(true).datagram_bytes(format);
    let (ptime, channels) = (format.ptime(), format.channels);
    let what = format!(
        "{name} carries packets of {mtu} bytes; {ptime} of {channels} channels at {} takes {packet}",
        format.rate
    );
    if packet <= *mtu {
        return Finding::passed(what);
    }
    let room = mtu.saturating_sub(packet - format.payload_bytes());
    let fits = format.rate.span_of(Frames::from_len(room / format.frame_bytes().max(1)));
    let fits = Span::from_micros(fits.as_nanos() / 1000);
    let shorter = match fits >= PTIME_RANGE.0 {
        true => format!("use --ptime {fits} or less"),
        false => "no --ptime is short enough: use fewer --channels".to_owned(),
    };
    let why = format!(
        "each packet is fragmented, and a lost fragment loses {ptime}; {shorter}, or a larger MTU \
         on every machine and switch between"
    );
    let fix = format!("sudo ip link set dev {name} mtu {}", packet.next_multiple_of(100));
    Finding::new(Warning, what, why).fix(fix)
}

/// `CAP_NET_ADMIN`: sockets may exceed the limits.
const NET_ADMIN: u32 = 12;

pub(crate) fn buffers(machine: &Machine, format: &StreamFormat) -> Finding {
    let packets_per_second = format.rate.hertz() / format.packet.count().max(1) as u32 + 1;
    let datagram_bytes = PacketHeads::rtp(true).datagram_bytes(format);
    let options = UdpOptions { datagram_bytes, packets_per_second, ..UdpOptions::default() };
    // The kernel doubles the requested size.
    let wanted = options.buffer_bytes() / 2;
    let bound = |which: &str| machine.number::<usize>(&format!("proc/sys/net/core/{which}"));
    let Some((receive, send)) = bound("rmem_max").zip(bound("wmem_max")) else {
        return Finding::passed("the system reports no limit of socket buffers");
    };
    let capabilities = machine.own_status("CapEff:");
    let capabilities = capabilities.and_then(|bits| u64::from_str_radix(&bits, 16).ok());
    let may_exceed = capabilities.is_some_and(|bits| bits >> NET_ADMIN & 1 == 1);
    let minimum = receive.min(send);
    let what = format!(
        "socket buffers are limited to {} KiB, but a quarter of a second takes {}",
        minimum >> 10,
        wanted >> 10
    );
    if may_exceed || minimum >= wanted {
        return Finding::passed(what);
    }
    let why = "packets that arrive while this machine stalls are lost early";
    let fix = format!("sudo sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}");
    Finding::new(Warning, what, why).fix(fix)
}

#[cfg(test)]
mod tests {
    use tautline_proto::units::{Channels, Rate};

    use super::*;
    use crate::Verdict::Passed;
    use crate::tests::requested;

    #[test]
    fn a_latency_that_no_receiver_keeps_spoils() {
        let minimum = |requested: &Requirements| minimum(requested, None).unwrap();
        assert_eq!(minimum(&requested(5)).verdict, Passed);
        assert_eq!(minimum(&requested(4)).verdict, Passed);
        let found = minimum(&requested(3));
        assert_eq!(found.verdict, Failure);
        assert!(found.reason.unwrap().contains("use --latency 4ms,"));
        let mut short = requested(3);
        short.format.packet = Frames::new(32);
        assert_eq!(minimum(&short).verdict, Passed);
    }

    #[test]
    fn jack_server_sets_the_minimum_itself() {
        let server = JackServer::new(48_000, Frames::new(1024), None);
        assert_eq!(minimum(&requested(5), Some(&server)), None);
    }

    #[test]
    fn packets_that_are_too_long_at_any_length_want_fewer_channels() {
        let mut wide = requested(5);
        wide.format.rate = Rate::new(192_000).unwrap();
        wide.format.channels = Channels::new(64).unwrap();
        let found = longest(&Interface::wired("eth0"), &wide.format);
        assert!(found.reason.unwrap().contains("use fewer --channels"));
    }

    #[test]
    fn packets_too_long_for_an_interface_name_the_length_that_fits() {
        assert_eq!(longest(&Interface::wired("eth0"), &requested(5).format).verdict, Passed);
        let mut wide = requested(5);
        wide.format.channels = Channels::new(16).unwrap();
        let found = longest(&Interface::wired("eth0"), &wide.format);
        assert_eq!(found.verdict, Warning);
        let why = found.reason.unwrap();
        let typed = why.split("--ptime ").nth(1).unwrap().split(' ').next().unwrap();
        let ptime = tautline_proto::text::parse_span(typed).unwrap();
        wide.format.packet = wide.format.rate.frames_within(ptime);
        assert_eq!(longest(&Interface::wired("eth0"), &wide.format).verdict, Passed, "{typed}");
        wide.format.packet += Frames::new(2);
        assert_eq!(longest(&Interface::wired("eth0"), &wide.format).verdict, Warning, "{typed}");
    }

    #[test]
    fn small_buffers_warn_users_without_privileges() {
        let sizes =
            [("proc/sys/net/core/rmem_max", "65536"), ("proc/sys/net/core/wmem_max", "65536")];
        for (caps, verdict) in [("0000000000000400", Warning), ("0000000000001000", Passed)] {
            let status = format!("Name:\tx\nCapEff:\t{caps}\n");
            let files = [sizes[0], sizes[1], ("proc/self/status", status.as_str())];
            assert_eq!(
                buffers(&Machine::of(&files), &requested(5).format).verdict,
                verdict,
                "{caps}"
            );
        }
        let large =
            ["rmem_max", "wmem_max"].map(|name| (format!("proc/sys/net/core/{name}"), "4194304"));
        assert_eq!(buffers(&Machine::of(&large), &requested(5).format).verdict, Passed);
    }
}
