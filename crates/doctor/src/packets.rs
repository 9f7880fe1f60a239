//! Whether packets are carried whole, and kept until they are read.

use tautline_io::udp::UdpOptions;
use tautline_proto::device::Settings;
use tautline_proto::latency::least_latency;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::wire::PacketHeads;

use super::interface::Interface;
use super::root::Root;
use super::{Finding, Requirements, Verdict};

/// IPv4 and UDP headers (RFC 791 §3.1 without options, RFC 768).
const HEADERS: usize = 28;

/// Whether any receiver can keep the latency: packets have to be packed, and a card takes two
/// periods, here as long as a packet.
pub(crate) fn floor(asked: &Requirements) -> Finding {
    const CHECK: &str = "floor";
    let StreamFormat { rate, channels, packet: period, .. } = asked.format;
    let device = Settings { rate, channels, period, periods: 2 };
    let least = least_latency(asked.format.packing_age(period), &device);
    let ptime = asked.format.ptime();
    let what = format!(
        "packets of {ptime} and a card of two such periods take {least}, before hosts and \
         network add theirs"
    );
    if least <= asked.latency {
        return Finding::fine(CHECK, what);
    }
    let why =
        format!("no receiver keeps less; use --latency {least}, or a shorter --ptime and --period");
    Finding::of(Verdict::Spoils, CHECK, what, why)
}

pub(crate) fn longest(interface: &Interface, asked: &Requirements) -> Finding {
    const CHECK: &str = "mtu";
    let Interface { name, mtu, .. } = interface;
    let format = &asked.format;
    let packet = HEADERS + PacketHeads::rtp(true).datagram_bytes(format);
    let (ptime, channels) = (format.ptime(), format.channels);
    let what = format!(
        "{name} carries packets of {mtu} bytes; {ptime} of {channels} channels at {} takes {packet}",
        format.rate
    );
    if packet <= *mtu {
        return Finding::fine(CHECK, what);
    }
    let room = mtu.saturating_sub(packet - format.payload_bytes());
    let fits = format.rate.span_of(Frames::from_len(room / format.frame_bytes().max(1)));
    // Down to what can be typed.
    let fits = Span::from_micros(fits.as_nanos() / 1000);
    let shorter = match fits >= PTIME_RANGE.0 {
        true => format!("--ptime {fits} or less fits"),
        false => "no --ptime is short enough, so fewer --channels fit".to_owned(),
    };
    let why = format!(
        "each goes in parts, and one part lost loses {ptime}; {shorter}, or a larger MTU on every \
         machine and switch between"
    );
    let mend = format!("sudo ip link set dev {name} mtu {}", packet.next_multiple_of(100));
    Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)
}

/// What a socket may keep.
#[derive(Debug, Clone, Copy)]
struct SocketBuffers {
    /// Bytes that a socket may ask for to receive into, and to send from.
    most: Option<[usize; 2]>,
    /// Whether this program may ask for more (`CAP_NET_ADMIN`).
    may_exceed: bool,
}

/// Number of `CAP_NET_ADMIN` (linux/capability.h).
const NET_ADMIN: u32 = 12;

impl SocketBuffers {
    fn read(root: &Root) -> Self {
        let status = root.read("proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        let most = |which: &str| root.number(&format!("proc/sys/net/core/{which}"));
        Self {
            most: most("rmem_max").zip(most("wmem_max")).map(<[usize; 2]>::from),
            may_exceed: bits.is_some_and(|bits| bits >> NET_ADMIN & 1 == 1),
        }
    }
}

pub(crate) fn buffers(root: &Root, asked: &Requirements) -> Finding {
    judge(&SocketBuffers::read(root), asked)
}

fn judge(buffers: &SocketBuffers, asked: &Requirements) -> Finding {
    const CHECK: &str = "socket-buffers";
    let format = &asked.format;
    let packets_per_second = format.rate.hertz() / format.packet.count().max(1) as u32 + 1;
    let datagram_bytes = PacketHeads::rtp(true).datagram_bytes(format);
    let options = UdpOptions { datagram_bytes, packets_per_second, ..UdpOptions::default() };
    // The kernel doubles what is asked for.
    let wanted = options.buffer_bytes() / 2;
    let Some([receive, send]) = buffers.most else {
        return Finding::fine(CHECK, "the system tells no bound on what sockets keep");
    };
    let least = receive.min(send);
    let what = format!(
        "sockets may keep {} KiB, a quarter of a second takes {}",
        least >> 10,
        wanted >> 10
    );
    if buffers.may_exceed || least >= wanted {
        return Finding::fine(CHECK, what);
    }
    let why = "what comes while this machine stands still is lost sooner than it need be";
    let mend = format!("sudo sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}");
    Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;

    #[test]
    fn a_latency_that_no_receiver_keeps_spoils() {
        assert_eq!(floor(&asked(5)).verdict, Verdict::Fine);
        assert_eq!(floor(&asked(3)).verdict, Verdict::Fine);
        let found = floor(&asked(2));
        assert_eq!(found.verdict, Verdict::Spoils);
        assert!(found.why.contains("use --latency 3ms,"), "{}", found.why);
        let mut short = asked(2);
        short.format.packet = Frames::new(32);
        assert_eq!(floor(&short).verdict, Verdict::Fine);
    }

    #[test]
    fn packets_that_are_too_long_at_any_length_want_fewer_channels() {
        let mut wide = asked(5);
        wide.format.rate = tautline_proto::units::Rate::new(192_000).unwrap();
        wide.format.channels = tautline_proto::units::Channels::new(64).unwrap();
        let found = longest(&Interface::wired("eth0"), &wide);
        assert!(found.why.contains("fewer --channels fit"), "{}", found.why);
    }

    #[test]
    fn packets_too_long_for_an_interface_name_the_length_that_fits() {
        assert_eq!(longest(&Interface::wired("eth0"), &asked(5)).verdict, Verdict::Fine);
        let mut wide = asked(5);
        wide.format.channels = tautline_proto::units::Channels::new(16).unwrap();
        let found = longest(&Interface::wired("eth0"), &wide);
        assert_eq!(found.verdict, Verdict::Warns);
        let typed = found.why.split("--ptime ").nth(1).unwrap().split(' ').next().unwrap();
        let ptime = tautline_proto::text::parse_span(typed).unwrap();
        wide.format.packet = wide.format.rate.frames_within(ptime);
        assert_eq!(longest(&Interface::wired("eth0"), &wide).verdict, Verdict::Fine, "{typed}");
        wide.format.packet += Frames::new(2);
        assert_eq!(longest(&Interface::wired("eth0"), &wide).verdict, Verdict::Warns, "{typed}");
    }

    #[test]
    fn small_buffers_warn_who_may_not_exceed_them() {
        let sizes =
            [("proc/sys/net/core/rmem_max", "65536"), ("proc/sys/net/core/wmem_max", "65536")];
        for (caps, verdict) in
            [("0000000000000400", Verdict::Warns), ("0000000000001000", Verdict::Fine)]
        {
            let status = format!("Name:\tx\nCapEff:\t{caps}\n");
            let files = [sizes[0], sizes[1], ("proc/self/status", status.as_str())];
            let read = SocketBuffers::read(&Machine::of(&files).root());
            assert_eq!(judge(&read, &asked(5)).verdict, verdict, "{caps}");
        }
        let most = Some([4 << 20; 2]);
        let found = judge(&SocketBuffers { most, may_exceed: false }, &asked(5));
        assert_eq!(found.verdict, Verdict::Fine);
    }
}
