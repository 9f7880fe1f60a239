use super::TrafficSeries;
use crate::report::ReportRow;
use crate::traffic::frames::LayerBytes;
use crate::traffic::{MixPart, MixWays, TappedTraffic, TappedWindow};

/// Bytes of Ethernet's checksum, which taps do not see (IEEE 802.3 §3.1.1).
const CHECKSUM: u64 = 4;

const MIXED: [[(&str, &str); 2]; 3] = [
    [("tapped_in_mbit_per_s", "in, Mbit/s"), ("tapped_out_mbit_per_s", "out, Mbit/s")],
    [("tapped_in_packets_per_s", "in, packets/s"), ("tapped_out_packets_per_s", "out, packets/s")],
    [("tapped_in_share", "of all in"), ("tapped_out_share", "of all out")],
];

pub(super) struct TappedSide<'a> {
    window: TappedWindow<'a>,
    port: Option<u16>,
}

pub(super) struct TappedInterface {
    pub(super) name: String,
    ethernet: bool,
    parts: Vec<(MixPart, MixWays)>,
}

impl<'a> TappedSide<'a> {
    pub(super) fn of(seen: &'a TrafficSeries, side: usize) -> Option<Self> {
        let tap = seen.watched[side].tap.as_ref()?;
        Some(Self { window: tap.within(seen.span(side)?)?, port: seen.port() })
    }

    pub(super) fn interfaces(&self) -> Vec<TappedInterface> {
        let all = self.window.parts(self.port).into_iter();
        all.map(|((name, ethernet), parts)| TappedInterface {
            name,
            ethernet,
            parts: parts.into_iter().collect(),
        })
        .collect()
    }

    pub(super) fn interface(&self, name: &str) -> Option<TappedInterface> {
        self.interfaces().into_iter().find(|interface| interface.name == name)
    }

    fn megabits(&self, bytes: u64) -> f64 {
        self.window.per_second(bytes) * 8.0 / 1e6
    }

    /// Rate in kbit/s, and share of all traffic. Counts only sent packets, as loopback shows each
    /// packet twice.
    pub(super) fn control(&self, interface: &str) -> Option<(f64, f64)> {
        let found = self.interface(interface)?;
        let sum = |[received, sent]: MixWays| match interface {
            "lo" => sent.link,
            _ => received.link + sent.link,
        };
        let all: u64 = found.parts.iter().map(|(_, ways)| sum(*ways)).sum();
        let control = sum(found.part(MixPart::Control));
        let kilobits = self.window.per_second(control) * 8.0 / 1e3;
        Some((kilobits, control as f64 / all.max(1) as f64))
    }

    pub(super) fn parts(&self, case: &str) -> Vec<ReportRow> {
        let mut rows = Vec::new();
        for TappedInterface { name, parts, .. } in self.interfaces() {
            let all = |way: usize| parts.iter().map(|(_, ways)| ways[way].link).sum::<u64>();
            let all = [0, 1].map(all);
            for (part, ways) in &parts {
                let mut row = ReportRow::named(format!("{case}, {name}: {}", part.name()));
                let reported = [0, 1].map(|way| {
                    let LayerBytes { link, packets, .. } = ways[way];
                    let share = link as f64 / all[way].max(1) as f64;
                    [self.megabits(link), self.window.per_second(packets), share]
                });
                for (figure, words) in MIXED.into_iter().enumerate() {
                    for (way, (key, words)) in words.into_iter().enumerate() {
                        row.add(key, words, reported[way][figure]);
                    }
                }
                rows.push(row);
            }
        }
        rows
    }

    pub(super) fn layers(&self, case: &str) -> Vec<ReportRow> {
        let mut rows = Vec::new();
        for interface in self.interfaces() {
            for (way, words) in ["in", "out"].into_iter().enumerate() {
                let carried = interface.carried(way);
                let [wire, .., payload, _] = carried;
                if wire == 0 {
                    continue;
                }
                let mut row =
                    ReportRow::named(format!("{case}, {}: {words}, by layer", interface.name));
                for ((key, words), bytes) in LAYERS.into_iter().zip(carried) {
                    row.add(key, words, self.megabits(bytes));
                }
                let overhead = 1.0 - payload as f64 / wire as f64;
                row.add("layers_overhead_share", "overhead", overhead);
                rows.push(row);
            }
        }
        rows
    }
}

const LAYERS: [(&str, &str); 5] = [
    ("ethernet_mbit_per_s", "Ethernet, Mbit/s"),
    ("ip_mbit_per_s", "IP, Mbit/s"),
    ("transport_mbit_per_s", "UDP, TCP, Mbit/s"),
    ("payload_mbit_per_s", "in those, Mbit/s"),
    ("sound_mbit_per_s", "sound, Mbit/s"),
];

impl TappedInterface {
    pub(super) fn part(&self, wanted: MixPart) -> MixWays {
        let mut parts = self.parts.iter();
        parts.find(|(part, _)| *part == wanted).map_or_else(MixWays::default, |(_, ways)| *ways)
    }

    fn wire(&self, layers: &LayerBytes) -> u64 {
        layers.link + if self.ethernet { CHECKSUM * layers.packets } else { 0 }
    }

    /// Bytes by layer; audio has the RTP payload.
    fn carried(&self, way: usize) -> [u64; LAYERS.len()] {
        let mut all = [0; LAYERS.len()];
        for (part, ways) in &self.parts {
            let layers = &ways[way];
            let [payload, sound] = match part {
                MixPart::Sound => [layers.rtp_payload; 2],
                _ => [layers.payload, 0],
            };
            let each = [self.wire(layers), layers.ip, layers.transport, payload, sound];
            all.iter_mut().zip(each).for_each(|(sum, bytes)| *sum += bytes);
        }
        all
    }

    pub(super) fn write_sound(&self, row: &mut ReportRow) {
        let [_, sent] = self.part(MixPart::Sound);
        if sent.datagrams == 0 {
            return;
        }
        let each = |bytes: u64| bytes as f64 / sent.datagrams as f64;
        let wire = self.wire(&sent);
        row.add("tapped_packets", "tapped packets", sent.datagrams);
        row.add("tapped_payload_bytes", "sound, tapped, bytes", each(sent.rtp_payload));
        row.add("tapped_rtp_bytes", "RTP, tapped, bytes", each(sent.payload));
        row.add("tapped_udp_bytes", "UDP, tapped, bytes", each(sent.transport));
        row.add("tapped_ip_bytes", "IP, tapped, bytes", each(sent.ip));
        row.add("tapped_ethernet_bytes", "Ethernet, tapped, bytes", each(wire));
        let share = 1.0 - sent.rtp_payload as f64 / wire.max(1) as f64;
        row.add("tapped_overhead_share", "overhead, tapped", share);
    }
}

pub(super) fn notes(case: &str, seen: &TrafficSeries, one_machine: bool) -> Vec<String> {
    let sides = if one_machine { &["both ends"][..] } else { &["the sender", "the receiver"] };
    let mut notes = Vec::new();
    for (side, watched) in sides.iter().zip(&seen.watched) {
        if let Some(why) = &watched.untapped {
            notes.push(format!(
                "at {side}, protocols come from the kernel's counters: in packets, not bytes, and \
                 for all interfaces together; control is everything but sound: {why}"
            ));
        }
        notes.extend(watched.tap.iter().flat_map(|tap| unseen(case, side, tap, seen.port())));
    }
    notes
}

/// Notes on missed frames, or on traffic that cannot be separated from a stream to this port.
fn unseen(case: &str, side: &str, tap: &TappedTraffic, stream: Option<u16>) -> Vec<String> {
    let mut notes = Vec::new();
    if tap.dropped > 0 {
        notes.push(format!(
            "{case}: the tap at {side} saw {} frames and dropped {} more, which are missing in \
             the mix; reduce the load of that host",
            tap.seen, tap.dropped
        ));
    }
    if !tap.sized {
        notes.push(format!(
            "at {side}, packets that were sent or merged together count as one in the mix, with \
             one header: kernels before 6.2 do not report how many; use a newer one"
        ));
    }
    if stream.is_some_and(|stream| !tap.knows(stream)) {
        notes.push(format!(
            "{case}: at {side}, too many UDP ports were in use before the stream, so its sound or \
             control counts as other UDP; end those programs, or use a separate address"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::MixEntry;
    use crate::traffic::frames::TrafficKind;

    fn tap(ports: &[u16], more_ports: bool) -> TappedTraffic {
        let entry = |port: &u16| MixEntry {
            interface: "eth0".to_owned(),
            ethernet: true,
            outgoing: false,
            kind: TrafficKind::Udp,
            port: Some(*port),
            from_port: None,
            layers: LayerBytes::default(),
        };
        let steps = vec![ports.iter().map(entry).collect()];
        TappedTraffic { steps, more_ports, sized: true, ..TappedTraffic::default() }
    }

    #[test]
    fn stream_port_beyond_the_tracked_ports_is_noted() {
        let reported =
            |ports: &[u16], more| unseen("silent", "the sender", &tap(ports, more), Some(5004));
        for ports in [&[7, 8][..], &[7, 5004], &[7, 5005]] {
            let notes = reported(ports, true);
            assert!(notes.len() == 1 && notes[0].contains("counts as other UDP"), "{notes:?}");
            assert_eq!(reported(ports, false), [""; 0]);
        }
        assert_eq!(reported(&[7, 5004, 5005], true), [""; 0]);
        assert_eq!(unseen("silent", "the sender", &tap(&[7], true), None), [""; 0]);
    }
}
