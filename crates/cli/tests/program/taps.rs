//! Taps count as many packets as the programs report; and messages without a tap.

use serde_json::Value;

use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, Running, ordinary, taut, words};
use crate::common::shared;

const ETHERNET: u64 = 14;
const IP: u64 = 20;
const UDP: u64 = 8;

fn at(place: &Namespace, line: &str) -> Call {
    taut(words(line)).within(place)
}

fn messages(running: Running) -> Value {
    running.signal("-INT");
    running.end().well().json()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} is {}", value[name]))
}

/// Frames, packets, and bytes on the link, of IP, and in UDP or TCP. Other directions and
/// interfaces must have none.
#[track_caller]
fn counted(
    seen: &Value,
    interface: &str,
    outgoing: bool,
    kind: &str,
    port: Option<u16>,
) -> [u64; 5] {
    let steps = seen["tap"]["steps"].as_array().unwrap();
    let entries = steps.iter().flat_map(|step| step.as_array().unwrap());
    let of = |entry: &&Value| entry["kind"] == kind && entry["port"] == Value::from(port);
    let mut all = [0; 5];
    for entry in entries.filter(of) {
        assert_eq!(
            (&entry["interface"], &entry["outgoing"]),
            (&interface.into(), &outgoing.into())
        );
        let layers = ["frames", "packets", "link", "ip", "payload"];
        for (all, layer) in all.iter_mut().zip(layers) {
            *all += number(&entry["layers"], layer);
        }
    }
    all
}

#[test]
fn both_ends_of_a_cable_count_the_same_bytes() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Cable { left, right } = &cable;
        let there = right.address;
        let watch = |place: &Namespace, end: &str| {
            at(place, &format!("lab traffic {end} {there}")).start().wait_for("are watched")
        };
        let watches = [watch(left, "--to"), watch(right, "--at")];
        let reads = at(right, "lab loadgen chatter-sink --at 0.0.0.0:7000").start();
        // Each ends by itself. Packets without a reader do not count as sent.
        let multicast = format!("lab loadgen --longest 500ms multicast --by {there}:9");
        let multicast = at(left, &multicast).run().well().json();
        let chatter = format!("lab loadgen --longest 500ms chatter --to {there}:7000");
        let chatter = at(left, &chatter).run().well().json();
        messages(reads);
        for (seen, (place, outgoing)) in
            watches.map(messages).iter().zip([(left, true), (right, false)])
        {
            let counted = |kind, port| counted(seen, &place.interface, outgoing, kind, port);
            assert_eq!(number(&seen["tap"], "dropped"), 0, "{seen:#}");
            let [frames, packets, link, ip, _] = counted("multicast", None);
            let sent = number(&multicast, "packets");
            assert!(sent > 0 && [frames, packets] == [sent, sent], "{packets} of {multicast:#}");
            assert_eq!([link, ip], [ip + ETHERNET * sent, number(&multicast, "bytes")]);
            let [_, packets, link, ip, payload] = counted("udp", Some(7000));
            let sent = number(&chatter, "packets");
            assert_eq!([packets, payload], [sent, number(&chatter, "bytes")], "{chatter:#}");
            assert_eq!(
                [link, ip],
                [payload + (ETHERNET + IP + UDP) * sent, payload + (IP + UDP) * sent]
            );
        }
    });
}

#[test]
fn packets_handed_over_together_are_counted_one_by_one() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        // Between these, the kernel carries a burst as one frame.
        let Some([left, right]) = cable.lay_another() else { return };
        let there = right.address;
        let watch = at(&left, &format!("lab traffic --to {there}")).start().wait_for("are watched");
        let takes = at(&right, "lab loadgen tcp-sink --at 0.0.0.0:7001").start();
        let tcp = format!("lab loadgen --longest 500ms tcp --to {there}:7001 --rate 100Mbit");
        let tcp = at(&left, &tcp).run().well().json();
        let (sent, taken) = (number(&tcp, "bytes"), number(&messages(takes), "bytes"));
        let seen = messages(watch);
        let steps = seen["tap"]["steps"].as_array().unwrap();
        let entries = steps.iter().flat_map(|step| step.as_array().unwrap());
        let left = |entry: &&Value| entry["kind"] == "tcp" && entry["outgoing"] == true;
        let layers: Vec<_> = entries.filter(left).map(|entry| &entry["layers"]).collect();
        let sum = |name: &str| layers.iter().map(|layers| number(layers, name)).sum::<u64>();
        // Packets under way when the reader ended may never have left.
        let carried = sum("payload");
        assert!(taken > 0 && (taken..=sent).contains(&carried), "{taken}, {carried}, {sent}");
        if seen["tap"]["sized"] == false {
            return crate::common::skipped(
                crate::common::Lack::Device,
                "a kernel since 6.2, which says how long segments are",
            );
        }
        // With 1500 bytes, packets carry up to 1460, and most nearly that.
        let (frames, packets) = (sum("frames"), sum("packets"));
        assert!(packets > 2 * frames, "{frames} frames, {packets} packets");
        assert!((carried / 1460..carried / 1000).contains(&packets), "{packets}, {carried} bytes");
        let heads = sum("link") - carried;
        assert!((packets * 54..=packets * 74).contains(&heads), "{packets} packets, {heads} bytes");
    });
}

#[test]
fn unprivileged_run_uses_kernel_counters_and_gives_a_hint() {
    let line =
        "lab network --only silent --scheduler other --settle 1s --duration 1s --report json";
    let Some(call) = ordinary(line) else { return };
    shared(|| {
        let report = call.run().well().json();
        let notes = report["notes"].as_array().unwrap();
        let reported: Vec<_> = notes
            .iter()
            .filter_map(Value::as_str)
            .filter(|note| note.contains("cap_net_raw"))
            .collect();
        assert_eq!(reported.len(), 1, "{notes:#?}");
        let rows = report["rows"].as_array().unwrap();
        let udp = rows.iter().find(|row| row["name"] == "silent: both ends, UDP");
        assert!(udp.unwrap()["in_packets_per_s"].as_f64() > Some(0.0), "{report:#}");
    });
}
