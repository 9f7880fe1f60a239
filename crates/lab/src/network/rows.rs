use tautline_dsp::format::SampleFormat;

use super::TrafficSeries;
use super::mix::TappedSide;
use super::parts::{Packets, listed};
use crate::loadgen::Noise;
use crate::report::ReportRow;
use crate::traffic::{CarriedTraffic, Layers, PROTOCOLS, TrafficInterface, TrafficWindow};

fn flow(
    name: String,
    window: &TrafficWindow<'_>,
    [received, sent]: [CarriedTraffic; 2],
) -> ReportRow {
    let mut row = ReportRow::named(name);
    let megabits = |way: CarriedTraffic| window.per_second(way.bytes) * 8.0 / 1e6;
    row.add("in_mbit_per_s", "in, Mbit/s", megabits(received));
    row.add("out_mbit_per_s", "out, Mbit/s", megabits(sent));
    row.add("in_packets_per_s", "in, packets/s", window.per_second(received.packets));
    row.add("out_packets_per_s", "out, packets/s", window.per_second(sent.packets));
    row
}

impl TrafficSeries {
    pub(super) fn span(&self, side: usize) -> Option<[i64; 2]> {
        let instants: Vec<i64> = match side {
            0 => self.outcome.departures.iter().map(|packet| packet.handed).collect(),
            _ => self.outcome.arrivals.iter().map(|packet| packet.arrival).collect(),
        };
        Some([*instants.iter().min()?, *instants.iter().max()?])
    }

    fn window(&self, side: usize) -> Option<TrafficWindow<'_>> {
        self.watched[side].within(self.span(side)?)
    }

    pub(super) fn port(&self) -> Option<u16> {
        let address = &self.outcome.sent.streams.first()?.address;
        address.rsplit(':').next()?.parse().ok()
    }

    /// The sender's interface towards the receiver, or the receiver's interface with its own
    /// address.
    fn main(
        &self,
        side: usize,
    ) -> Option<(TrafficWindow<'_>, String, TrafficInterface, [CarriedTraffic; 2])> {
        let window = self.window(side)?;
        let [sender, receiver] = self.watched.each_ref().map(|seen| seen.interface.as_deref());
        // Loopback traffic also arrives there.
        let wanted = if side == 0 || sender == Some("lo") { sender? } else { receiver? };
        let mut all = window.interfaces().into_iter();
        let (name, interface, ways) = all.find(|(name, ..)| name == wanted)?;
        Some((window, name, interface, ways))
    }

    fn media(&self, [begin, end]: [i64; 2]) -> u64 {
        let packets = self.outcome.departures.iter();
        packets.filter(|packet| (begin..=end).contains(&packet.handed)).count() as u64
    }

    fn payload(&self) -> Option<usize> {
        let stream = self.outcome.sent.streams.first()?;
        let formats = [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32];
        let format = formats.into_iter().find(|format| stream.format == format.name())?;
        let frames = u64::try_from(stream.ptime_ns).ok()? * u64::from(stream.rate);
        let frames = (frames + 500_000_000) / 1_000_000_000;
        Some(frames as usize * stream.channels * format.bytes())
    }

    fn layers(&self, interface: (&str, &TrafficInterface), stamped: bool) -> Layers {
        let address = self.outcome.sent.streams.first().map_or("", |stream| &stream.address);
        let (name, counts) = interface;
        Layers {
            stamped,
            v6: address.contains('['),
            mtu: counts.mtu as usize,
            ethernet: name != "lo",
        }
    }
}

pub(super) fn carried(
    case: &str,
    seen: &TrafficSeries,
    noise: Noise,
    one_machine: bool,
) -> Vec<ReportRow> {
    let mut rows = Vec::new();
    for (side, name) in sides(one_machine).iter().enumerate() {
        let Some(window) = seen.window(side) else { continue };
        for (interface, _, ways) in window.interfaces() {
            let mut row = flow(format!("{case}: {name}, {interface}"), &window, ways);
            let main = seen.main(side).is_some_and(|(_, main, ..)| main == interface);
            if let Some(listed) = listed(noise).filter(|_| main && !one_machine) {
                row.add("thesis_in_mbit_per_s", "thesis, in, Mbit/s", listed[side][0]);
                row.add("thesis_out_mbit_per_s", "thesis, out, Mbit/s", listed[side][1]);
            }
            rows.push(row);
        }
        let nobody = window.without_receivers();
        if nobody > 0 {
            rows.push(packets(format!("{case}: {name}, unwanted IP"), &window, [nobody, 0]));
        }
    }
    rows
}

pub(super) fn mixed(case: &str, seen: &TrafficSeries, one_machine: bool) -> Vec<ReportRow> {
    let sides = sides(one_machine).iter().enumerate();
    let each = sides.filter_map(|(side, name)| {
        let case = format!("{case}: {name}");
        match TappedSide::of(seen, side) {
            Some(tapped) => Some(tapped.parts(&case)),
            None => Some(counted(&case, &seen.window(side)?)),
        }
    });
    each.flatten().collect()
}

fn sides(one_machine: bool) -> &'static [&'static str] {
    if one_machine { &["both ends"] } else { &["sender", "receiver"] }
}

fn counted(case: &str, window: &TrafficWindow<'_>) -> Vec<ReportRow> {
    let each = PROTOCOLS.iter().map(|(protocol, received, sent)| {
        (*protocol, [window.protocol(received), window.protocol(sent)])
    });
    let any = each.filter(|(_, [received, sent])| received + sent > 0);
    any.map(|(protocol, ways)| packets(format!("{case}, {protocol}"), window, ways)).collect()
}

fn packets(name: String, window: &TrafficWindow<'_>, [received, sent]: [u64; 2]) -> ReportRow {
    let mut row = ReportRow::named(name);
    row.add("in_packets_per_s", "in, packets/s", window.per_second(received));
    row.add("out_packets_per_s", "out, packets/s", window.per_second(sent));
    row
}

pub(super) fn layers(case: &str, seen: &TrafficSeries, one_machine: bool) -> Vec<ReportRow> {
    let sides = sides(one_machine).iter().enumerate();
    let each = sides.filter_map(|(side, name)| {
        Some(TappedSide::of(seen, side)?.layers(&format!("{case}: {name}")))
    });
    each.flatten().collect()
}

/// Without a tap: all non-audio traffic, including other programs'.
pub(super) fn control(row: &mut ReportRow, seen: &TrafficSeries, stamped: bool) {
    let Some((window, name, interface, [back, there])) = seen.main(0) else { return };
    let tapped = TappedSide::of(seen, 0).and_then(|side| side.control(&name));
    if let Some((kilobits, share)) = tapped {
        row.add("interface", "by", name);
        row.add("control_kbit_per_s", "control, kbit/s", kilobits);
        row.add("control_share", "control, share of all", share);
        return;
    }
    let Some(payload) = seen.payload() else { return };
    let each = seen.layers((&name, &interface), stamped).of(payload).counted as u64;
    let media = seen.media(window.span()) * each;
    // Loopback counts both directions together.
    let all = if name == "lo" { there.bytes } else { there.bytes + back.bytes };
    let control = all.saturating_sub(media);
    row.add("interface", "by", name);
    row.add("control_kbit_per_s", "control, kbit/s", window.per_second(control) * 8.0 / 1e3);
    row.add("control_share", "control, share of all", control as f64 / all.max(1) as f64);
}

pub(super) fn overhead(
    name: &str,
    seen: &TrafficSeries,
    packets: &Packets,
    stamped: bool,
) -> ReportRow {
    let name = format!("{name}, L16: bytes");
    let Some((window, main, counts, [_, sent])) = seen.main(0) else {
        return ReportRow::invalid(
            name,
            "the stream is too short for two readings of the counters, or the interface of its \
             route is unknown",
        );
    };
    let Some(payload) = seen.payload() else {
        return ReportRow::invalid(name, "the sender's report lacks the size of a packet");
    };
    let mut row = ReportRow::named(name);
    let sizes = seen.layers((&main, &counts), stamped).of(payload);
    row.add("interface", "by", main.clone());
    row.add("payload_bytes", "sound, bytes", sizes.payload);
    row.add("rtp_bytes", "RTP, bytes", sizes.rtp);
    row.add("udp_bytes", "UDP, bytes", sizes.udp);
    row.add("ip_bytes", "IP, bytes", sizes.ip);
    row.add("ethernet_bytes", "Ethernet, bytes", sizes.ethernet);
    row.add("overhead_share", "overhead", sizes.overhead());
    let [ethernet, sound] = packets.listed;
    row.add("thesis_ethernet_bytes", "thesis, Ethernet, bytes", ethernet);
    row.add("thesis_overhead_share", "thesis, overhead", 1.0 - sound as f64 / ethernet as f64);
    if let Some(tapped) = TappedSide::of(seen, 0).and_then(|side| side.interface(&main)) {
        tapped.write_sound(&mut row);
    }
    let media = seen.media(window.span());
    if media > 0 {
        // This includes some control traffic that is not in the sum.
        row.add("interface_bytes", "as interfaces count, bytes", sizes.counted);
        row.add("counted_bytes", "counted, bytes", sent.bytes as f64 / media as f64);
    }
    row
}
