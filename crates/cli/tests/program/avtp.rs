//! AVTP between two networks, over Ethernet and UDP: bit-exact and in time.

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, taut, words};
use crate::common::report::Report;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, Onlooker, free_udp_ports, shared};

/// From the MAAP pool (IEEE 1722-2016, table B.9).
const GROUP: &str = "91:E0:F0:00:FE:07";

/// In frames. The end of a file is padded to one.
const PERIOD: usize = 240;

fn at(place: &Namespace, folder: &Folder, line: &str) -> Call {
    taut(words(line)).in_folder(folder.path()).within(place)
}

fn carried(
    cable: &Cable,
    folder: &Folder,
    (to, from): (&str, &str),
    shape: Shape,
) -> (Sound, Report) {
    let sent = Sound::noise(shape, 1000, 5);
    sent.write(&folder.file("sent.wav"));
    let both = format!(
        "--format {} --latency 400ms --period {PERIOD} --periods 32 --no-stall-monitor",
        shape.coding.word()
    );
    let Shape { rate, channels, .. } = shape;
    let recv = format!(
        "recv --from {from} --rate {rate} --channels {channels} --output file:heard.wav \
         --duration 6s --report json {both}"
    );
    let recv = at(&cable.right, folder, &recv).start().listening();
    let send = format!("send --input file:sent.wav --to {to} --ptime 125us {both}");
    at(&cable.left, folder, &send).run().well();
    (sent, recv.end().report())
}

/// Without a goodbye, the listener conceals for up to 50 ms after the last frames.
fn received(folder: &Folder, sent: &Sound) -> Sound {
    let mut received = Sound::read(&folder.file("heard.wav"));
    let (rate, channels) = (received.shape.rate as usize, received.shape.channels);
    let end = received.begins().unwrap() + sent.frames();
    let last = ((end + rate / 20 + PERIOD) * channels).min(received.samples.len());
    assert!(end * channels <= last, "the recording ends before the sound does");
    received.samples[end * channels..last].fill(0);
    received
}

#[test]
fn sound_crosses_by_ethernet_alone_bit_for_bit() {
    for coding in [FileCoding::L16, FileCoding::L24, FileCoding::F32] {
        shared(|| {
            let Some(cable) = Cable::lay() else { return };
            let folder = Folder::new();
            let [to, from] =
                [&cable.left, &cable.right].map(|end| format!("avtp://{}/{GROUP}", end.interface));
            let shape = Shape { coding, ..Shape::STEREO_24 };
            let (sent, report) = carried(&cable, &folder, (&to, &from), shape);
            report.missed_nothing();
            assert_eq!(report.stream("/latency/configured_ns"), 400_000_000, "{:#}", report.0);
            received(&folder, &sent).is_exactly(&sent);
        });
    }
}

#[test]
fn avtp_talker_reports_nothing_beyond_presentation_times() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let [to, from] =
            [&cable.left, &cable.right].map(|end| format!("avtp://{}/{GROUP}", end.interface));
        let recv = format!(
            "recv --from {from} --rate 48000 --channels 2 --output null: --duration 3s --report json \
             --no-stall-monitor"
        );
        let recv = at(&cable.right, &folder, &recv).start().listening();
        let send = format!(
            "send --input tone:440 --to {to} --latency 60ms --duration 2s --no-stall-monitor"
        );
        at(&cable.left, &folder, &send).run().well();
        let ended = recv.end();
        assert!(!ended.messages.iter().any(|line| line.contains("RTCP")), "{:#?}", ended.messages);
        let report = ended.report();
        let reported = format!("{:#}", report.0);
        assert!(report.count("packets_received") > 1000, "{reported}");
        for unknown in ["configured_ns", "method", "recommended_ns", "measured/p50_ns"] {
            let unknown = format!("/latency/{unknown}");
            assert!(report.stream(&unknown).is_null(), "{unknown}: {reported}");
        }
        let stages = report.stream("/stages").as_array().unwrap().iter();
        let stages: Vec<_> = stages.map(|stage| stage["name"].as_str().unwrap()).collect();
        assert_eq!(stages.first(), Some(&"wakeup"), "{reported}");
        assert!(!stages.contains(&"sender"), "{reported}");
        assert_eq!(report.stream("/latency/basis"), "clock", "{reported}");
        assert!(!report.notes().iter().any(|note| note.contains("arriv")), "{reported}");
        // The talker takes its period and a packet of the 60 ms.
        let lead = report.nanos("/latency/presented/lead/p50_ns");
        assert!((20_000_000..60_000_000).contains(&lead), "{reported}");
        let off = report.nanos("/latency/presented/error/p50_ns");
        assert!(off.abs() < 1_000_000, "{reported}");
    });
}

#[test]
fn talkers_stream_id_has_the_listeners_notation() {
    const ID: &str = "02:22:33:44:55:66:0007";
    let sent = |to: &str, report: &str| {
        let line = format!("send --input tone:440 --duration 20ms --to {to} --report {report}");
        taut(words(&line)).run().well()
    };
    let port = free_udp_ports();
    let to = format!("avtp+udp://127.0.0.1:{port}?streamid={ID}");
    assert_eq!(*sent(&to, "json").report().stream("/stream_id"), ID);
    let text = sent(&to, "text").out;
    assert!(text.contains(&format!(" {ID}\n")), "{text}");
    let by_rtp = sent(&format!("rtp://127.0.0.1:{port}"), "json").report();
    assert!(by_rtp.stream("/stream_id").is_null(), "{:#}", by_rtp.0);
}

#[test]
fn avtp_sender_refuses_redundancy_during_the_run() {
    let to = format!("avtp+udp://127.0.0.1:{}", free_udp_ports());
    let send = format!("send --input tone:440 --to {to} --report none");
    taut(words(&send))
        .controlled()
        .start()
        .refuses("redundancy red:1")
        .request("quit", "ok")
        .end()
        .well();
}

#[test]
fn longest_presentable_time_is_sent() {
    let send = taut(words("send --input null: --duration 10ms --to avtp+udp://127.0.0.1"));
    send.and(["--max-transit-time", "2.098s", "--report", "none"]).run().well();
}

#[test]
fn avtp_details_have_no_payload_type() {
    shared(|| {
        let (port, onlooker) = (free_udp_ports(), Onlooker::new());
        let recv = format!("recv -v --output null: --from avtp+udp://127.0.0.1:{port}");
        let recv = taut(words(&recv)).and(["--duration", "4s", "--report", "json"]).start();
        let recv = recv.listening();
        let to = onlooker.address().replace("rtp:", "avtp+udp:");
        let send = format!("send -v --input tone:440 --to {to} --duration 3s --report none");
        let send = taut(words(&send)).start();
        // The receiver gets packets of a talker without announcements.
        let talker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for number in 0..100_u32 {
            onlooker.see(20);
            let datagram = [number.to_be_bytes().as_slice(), &pdu(STREAM)].concat();
            talker.send_to(&datagram, (Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        let (sent, received) = (send.end().well(), recv.end());
        let details = |lines: &[String], words: &str| -> Vec<_> {
            lines.iter().filter_map(|line| Some(line.split_once(words)?.1.to_owned())).collect()
        };
        for messages in [&sent.messages, &received.messages] {
            let stream = details(messages, "taut: stream: ");
            assert!(stream.len() == 1 && stream[0].starts_with("l24, 48000 Hz, 2"), "{stream:?}");
        }
        assert_eq!(details(&received.messages, "stream format: "), ["from the packets"]);
    });
}

fn pdu(stream: u64) -> Vec<u8> {
    let mut pdu = vec![0; 24 + 36];
    // AAF; sv and tv; INT_24BIT; 48 kHz and two channels; 24 bits.
    (pdu[0], pdu[1], pdu[16], pdu[17], pdu[18], pdu[19], pdu[21]) = (2, 0x81, 3, 0x50, 2, 24, 36);
    pdu[4..12].copy_from_slice(&stream.to_be_bytes());
    pdu
}

fn strange() -> [(Vec<u8>, &'static str); 10] {
    let but = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = pdu(STREAM);
        change(&mut bytes);
        bytes
    };
    [
        (but(&|b| b.truncate(20)), "truncated"),
        (but(&|b| b[0] = 4), "subtype"),
        (but(&|b| b[1] |= 0x20), "version"),
        (but(&|b| b[1] &= 0x7F), "unnamed"),
        // Another stream, with times four seconds apart.
        (but(&|b| (b[11], b[12]) = (9, 0xEE)), "other-stream"),
        (but(&|b| b[1] &= 0xFE), "untimed"),
        (but(&|b| b[21] = 200), "sound-beyond-end"),
        (but(&|b| b[16] = 0), "format"),
        (but(&|b| b[17] = 0x70), "rate"),
        (but(&|b| b[18] = 3), "channels"),
    ]
}

const STREAM: u64 = 0x0222_3344_5566_0007;

#[test]
fn invalid_avtp_packets_are_counted_by_reason_and_harmless() {
    shared(|| {
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 3000, 9);
        sent.write(&folder.file("sent.wav"));
        let (port, onlooker) = (free_udp_ports(), Onlooker::new());
        let copy = onlooker.address().replace("rtp:", "avtp+udp:");
        let both = "--latency 400ms --period 240 --periods 32 --no-stall-monitor";
        let id = "02:22:33:44:55:66:0007";
        let recv = format!(
            "recv --from avtp+udp://127.0.0.1:{port}?streamid={id} --rate 48000 --channels 2 --format l24 \
             --output file:heard.wav --duration 6s --report json {both}"
        );
        let recv = taut(words(&recv)).in_folder(folder.path()).start().listening();
        let send = format!(
            "send --input file:sent.wav --to avtp+udp://127.0.0.1:{port}?streamid={id} --to {copy} --format l24 {both}"
        );
        let send = taut(words(&send)).in_folder(folder.path()).start();
        let thrower = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for round in 0..100_u32 {
            onlooker.see(20);
            for (pdu, _) in strange() {
                let datagram = [round.to_be_bytes().as_slice(), &pdu].concat();
                thrower.send_to(&datagram, (Ipv4Addr::LOCALHOST, port)).unwrap();
            }
        }
        send.end().well();
        let report = recv.end().report();
        report.missed_nothing();
        received(&folder, &sent).is_exactly(&sent);
        let reported = report.stream("/invalid");
        let reported = reported.as_array().unwrap().iter();
        let mut reported: Vec<_> = reported
            .map(|one| (one["reason"].as_str().unwrap(), one["count"].as_u64().unwrap()))
            .collect();
        reported.sort_unstable();
        let mut thrown = strange().map(|(_, reason)| (reason, 100));
        thrown.sort_unstable();
        assert_eq!(reported, thrown);
        assert_eq!(report.count("invalid"), 1000, "{reported:#?}");
    });
}

#[test]
fn intervals_at_a_group_of_ethernet_are_measured_live() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let [to, from] =
            [&cable.left, &cable.right].map(|end| format!("avtp://{}/{GROUP}", end.interface));
        let listen = format!("lab interval --listen {from} --duration 1s --report json");
        let listens = at(&cable.right, &folder, &listen).start().wait_for("listening at");
        let send = format!("send --input null: --to {to} --ptime 1ms --duration 2s --report none");
        at(&cable.left, &folder, &send).run().well();
        let report = listens.end().report().0;
        let row = &report["rows"][0];
        assert!(row["name"].as_str().unwrap().starts_with("AAF "), "{report:#}");
        assert_eq!(row["configured_ns"], 1_000_000, "{report:#}");
        assert_eq!(row["missed"]["missed"], 0, "{report:#}");
        assert!(row["measured"]["count"].as_u64().unwrap() > 500, "{report:#}");
    });
}
