//! Error of kernel timestamps, against the clock before sending.

use std::net::{Ipv4Addr, SocketAddr};

use tautline_io::clock::{now, sleep_until};
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::blocked::BlockedUdp;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime, Span};

use super::figures::add_scatter;
use crate::report::ReportRow;
use crate::statistics::Series;

const PACKETS: i64 = 2000;
const APART: Span = Span::from_micros(125);
/// Timeout of a packet, which stays on this host.
const TIMEOUT: Span = Span::from_secs(5);
const LOOK: Span = Span::from_millis(50);

pub(super) fn error() -> ReportRow {
    const NAME: &str = "timestamps of this host";
    match measured() {
        Ok((series, uncertainty)) => {
            let mut row = ReportRow::named(NAME).with(&series);
            row.uncertainty = Some(uncertainty);
            add_scatter(&mut row);
            row
        }
        Err(why) => ReportRow::invalid(NAME, why),
    }
}

/// Hand-over to arrival timestamp, and uncertainty of the timestamps' clock.
fn measured() -> Result<(Series, Span), String> {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let reported = |error: &dyn core::fmt::Display| format!("packets to this host: {error}");
    let mut receiver =
        BlockedUdp::open(&UdpOptions::receiver(nobody), LOOK).map_err(|error| reported(&error))?;
    let options = UdpOptions::sender(vec![receiver.local()]);
    let mut sender = DirectLink::open(&options).map_err(|error| reported(&error))?;
    let mut series = Series::with_room(PACKETS as usize);
    let mut uncertainty = Span::ZERO;
    let begin = now();
    for packet in 0..PACKETS {
        let due = begin + APART.times(packet);
        sleep_until(due);
        let before = now();
        let mut datagram = packet.to_be_bytes();
        let instants = departure(packet, before);
        sender.queue(&Outgoing { datagram: &mut datagram, instants, handed_at: None, again: None });
        sender.flush();
        let (until, mut arrived) = (before + TIMEOUT, false);
        while !arrived && now() < until {
            let received = receiver.receive(&mut |datagram| {
                if datagram.bytes == packet.to_be_bytes() {
                    arrived = true;
                    series.push(before, datagram.arrival.at - before);
                    uncertainty = uncertainty.max(datagram.arrival.uncertainty);
                }
            });
            received.map_err(|error| reported(&error))?;
        }
        if !arrived {
            return Err(format!(
                "a packet to this host did not arrive within {TIMEOUT}\nhint: repeat the measurement"
            ));
        }
    }
    Ok((series, uncertainty))
}

const fn departure(packet: i64, at: LocalTime) -> Departure {
    Departure::at_once(MediaTime::from_frames(packet), at)
}

const ROUNDED: i64 = 2;
/// Minimum packets. Fewer may all match by chance.
pub(super) const MIN: usize = 100;

/// Whether 90 % of (arrival, launch) pairs have exactly their launch intervals.
pub(super) fn are_launch_times(packets: &[(i64, i64)]) -> bool {
    let alike = packets.windows(2).filter(|pair| {
        let (arrived, launched) =
            (pair[1].0.saturating_sub(pair[0].0), pair[1].1.saturating_sub(pair[0].1));
        arrived.saturating_sub(launched).saturating_abs() <= ROUNDED
    });
    packets.len() > MIN && alike.count() * 10 > packets.len() * 9
}

#[cfg(test)]
mod tests {
    /// Runs alone: on a busy host, timestamps exceed the uncertainty (decision 25).
    mod exclusive {
        use tautline_trial::timed;

        use super::super::*;

        #[test]
        fn each_stamp_of_this_host_is_of_after_the_packet_was_sent() {
            timed(|| {
                let row = error();
                assert_eq!(row.invalid, None);
                let measured = row.measured.unwrap();
                assert_eq!(measured.count, PACKETS as u64);
                let unsure = row.uncertainty.unwrap().as_nanos();
                assert!(measured.min_ns.unwrap() >= -unsure, "{measured:?} {unsure}");
            });
        }
    }

    use super::are_launch_times;

    fn at(hertz: i64, arrival: impl Fn(i64, i64) -> i64) -> Vec<(i64, i64)> {
        let launch = |packet| packet * 6 * 1_000_000_000 / hertz;
        (0..1000).map(|packet| (arrival(packet, launch(packet)), launch(packet))).collect()
    }

    #[test]
    fn launch_time_arrivals_are_recognized_at_any_rate() {
        for hertz in [44_100, 48_000] {
            assert!(are_launch_times(&at(hertz, |_, launch| launch + 12_345)));
            assert!(are_launch_times(&at(hertz, |packet, launch| launch + packet % 2)), "{hertz}");
            let late = |packet: i64, launch| launch + i64::from(packet % 50 == 7) * 40_000;
            assert!(are_launch_times(&at(hertz, late)), "{hertz}");
        }
    }

    #[test]
    fn a_card_that_launches_to_20_ns_is_measured() {
        let stamped = |packet: i64, launch: i64| (launch + packet * 37 % 61) / 8 * 8;
        for hertz in [44_100, 48_000] {
            assert!(!are_launch_times(&at(hertz, stamped)), "{hertz}");
        }
        assert!(!are_launch_times(&at(48_000, |_, launch| launch)[..100]), "too few to tell");
    }
}
