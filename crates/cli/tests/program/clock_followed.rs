//! The receiver follows a media clock (CRF) over Ethernet and UDP, and plays the stream by it.

use std::net::{Ipv4Addr, UdpSocket};

use tautline_proto::packet::StreamId;
use tautline_proto::time::WallTime;
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::ETHERTYPE;
use tautline_proto::wire::avtp::crf::CrfHead;

use crate::common::messages;
use crate::common::network::Cable;
use crate::common::program::{call, taut, words};
use crate::common::report::Report;
use crate::common::{Folder, Onlooker, free_udp_ports, shared};

const GROUPS: [&str; 2] = ["91:E0:F0:00:FE:08", "91:E0:F0:00:FE:09"];
const GROUP_BYTES: [u8; 6] = [0x91, 0xE0, 0xF0, 0, 0xFE, 8];
const HEAD: CrfHead = CrfHead {
    stream: StreamId(0x0222_3344_5566_0008),
    number: 0,
    restarts: false,
    uncertain: false,
    nominal: Rate::HZ_48000,
    interval: 96,
};
const ID: &str = "02:22:33:44:55:66:0008";
/// Rate offsets in ppm of the clock and of the sender's independent card.
const TOLD: f64 = 93.0;
const CARD: f64 = 50.0;
const BYTES: usize = 28;

/// 500 packets per second.
fn pdu(number: i64) -> Vec<u8> {
    let after = (number as f64 * 2e6 / (1.0 + TOLD * 1e-6)) as i64;
    let time = WallTime::from_unix_nanos(1_795_000_000_000_000_000 + after);
    CrfHead { number: number as u8, ..HEAD }.write(&[time])
}

/// Sends a file as frames of `length` bytes, one every 2 ms.
const TALKER: &str = "import socket, sys, time\n\
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
    s.bind((sys.argv[1], 0))\n\
    frames = open(sys.argv[2], 'rb').read()\n\
    length = int(sys.argv[3])\n\
    for at in range(0, len(frames), length):\n    s.send(frames[at:at + length]); time.sleep(0.002)\n";

fn noted(report: &Report, matter: &str) -> usize {
    report.notes().iter().filter(|note| note.contains(matter)).count()
}

#[track_caller]
fn is_followed(report: &Report, received: u64, lost: u64) {
    let clock = &report.0["clock"];
    let reported = format!("{:#}", report.0);
    assert_eq!((&clock["stream"], &clock["lost"]), (&ID.into(), &lost.into()), "{reported}");
    assert_eq!(clock["packets_received"], received, "{reported}");
    let (rate, unsure) = (clock["rate_ppm"].as_f64().unwrap(), clock["uncertainty_ppm"].as_f64());
    assert!((rate - TOLD).abs() < 0.2, "{reported}");
    assert!(unsure.unwrap() < 2.0, "{reported}");
    assert!(clock["holdover_since_ns"].is_i64(), "{reported}");
    assert_eq!(noted(report, messages::CLOCK_SILENT), 1, "{reported}");
    assert_eq!(noted(report, messages::CLOCK_UNHEARD), 0, "{reported}");
    let card = report.stream("/clock/card_ppm").as_f64().unwrap();
    assert!((card - TOLD).abs() < (card - CARD).abs() / 2.0, "{reported}");
}

const BOTH: &str = "--latency 400ms --period 240 --periods 32 --no-stall-monitor --format l24";

#[test]
fn stream_follows_a_clock_received_over_ethernet() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let [left, right] = [&cable.left, &cable.right].map(|end| end.interface.clone());
        let recv = format!(
            "recv --from avtp://{right}/{} --clock avtp://{right}/{}?streamid={ID} --rate 48000 --channels 2 \
             --output null: --duration 9s --report json {BOTH}",
            GROUPS[1], GROUPS[0]
        );
        let recv = taut(words(&recv)).within(&cable.right).start().listening();
        let send = format!(
            "send --input virtual:?tone=440&ppm={CARD} --to avtp://{left}/{} --ptime 1ms {BOTH}",
            GROUPS[1]
        );
        let send = taut(words(&send)).within(&cable.left).start();
        let mut frames = Vec::new();
        for number in (0..2500).filter(|number| ![700, 1000, 1001].contains(number)) {
            frames.extend(GROUP_BYTES);
            frames.extend([2, 0x22, 0x33, 0x44, 0x55, 0x66]);
            frames.extend(ETHERTYPE.to_be_bytes());
            frames.extend(pdu(number));
        }
        std::fs::write(folder.file("frames"), frames).unwrap();
        let length = (14 + BYTES).to_string();
        let talker = ["-c", TALKER, &left, "frames", &length];
        call("python3", talker).in_folder(folder.path()).within(&cable.left).run().well();
        let report = recv.end().report();
        send.signal("-INT");
        send.end();
        is_followed(&report, 2497, 3);
        assert_eq!(report.count("missing_frames"), 0, "{:#}", report.0);
    });
}

#[test]
fn clock_at_the_streams_address_uses_the_same_socket() {
    shared(|| {
        let (place, onlooker) = (free_udp_ports(), Onlooker::new());
        let copy = onlooker.address().replace("rtp:", "avtp+udp:");
        let recv = format!(
            "recv --from avtp+udp://127.0.0.1:{place} --clock avtp+udp://127.0.0.1:{place}?streamid={ID} \
             --output null: --duration 9s --report json --latency 400ms --period 240 --periods 32 --no-stall-monitor"
        );
        let recv = taut(words(&recv)).controlled().start().listening();
        let talker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let notify = |number: i64| {
            let datagram = [&(number as u32).to_be_bytes(), pdu(number).as_slice()].concat();
            talker.send_to(&datagram, (Ipv4Addr::LOCALHOST, place)).unwrap();
        };
        (0..5).for_each(notify);
        let send = format!(
            "send --input virtual:?tone=440&ppm={CARD} --to avtp+udp://127.0.0.1:{place} --to {copy} --ptime 1ms {BOTH}"
        );
        let send = taut(words(&send)).start();
        // The receiver's card is open by then.
        onlooker.see(500);
        for number in 500..1500 {
            onlooker.see(4);
            notify(number);
        }
        let elsewhere = format!("from avtp+udp://127.0.0.1:{}", free_udp_ports());
        let recv = recv.request(&elsewhere, "the clock of --clock comes to the same address");
        let report = recv.end().report();
        send.signal("-INT");
        send.end();
        is_followed(&report, 1000, 0);
        assert_eq!(report.count("invalid"), 0, "{:#}", report.0);
        assert_eq!(report.0["clock"]["invalid"], serde_json::json!([]), "{:#}", report.0);
        assert!(report.count("packets_received") > 4000, "{:#}", report.0);
    });
}
