//! Wireshark decodes our AVTP packets without complaints, and each field correctly.

use std::process::Command;

use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::{PackedSound, PacketHead, StreamId};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::avtp::crf::CrfHead;
use tautline_proto::wire::avtp::maap::{GroupRange, MaapKind, MaapMessage, POOL};
use tautline_proto::wire::avtp::{ETHERNET_PACK, ETHERTYPE, Encapsulation, UDP_PACK, format_of};
use tautline_proto::wrap::Wrapped;

use crate::common::{Folder, Lack, skipped};

const STREAM: u64 = 0x0222_3344_5566_0007;
const FRAMES: i64 = 6;
/// `format` and number of bits (IEEE 1722-2016, table 13).
const CODINGS: [(SampleFormat, u32, u32); 4] = [
    (SampleFormat::F32, 1, 32),
    (SampleFormat::L32, 2, 32),
    (SampleFormat::L24, 3, 24),
    (SampleFormat::L16, 4, 16),
];
/// `nsr` of rates in hertz (table 14).
const RATES: [(u32, u32); 10] = [
    (8000, 1),
    (16_000, 2),
    (32_000, 3),
    (44_100, 4),
    (48_000, 5),
    (88_200, 6),
    (96_000, 7),
    (176_400, 8),
    (192_000, 9),
    (24_000, 10),
];
const FIELDS: [&str; 15] = [
    "ieee1722.encapsulation_sequence_num",
    "ieee1722.subtype",
    "ieee1722.svfield",
    "ieee1722.verfield",
    "aaf.mrfield",
    "aaf.tvfield",
    "aaf.seqnum",
    "aaf.tufield",
    "aaf.stream_id",
    "aaf.avtp_timestamp",
    "aaf.format_info",
    "aaf.nominal_sample_rate",
    "aaf.channels_per_frame",
    "aaf.bit_depth",
    "aaf.stream_data_len",
];

fn frame(over: Encapsulation, number: i64, format: &StreamFormat, time: i64) -> Vec<u8> {
    let wire = match over {
        Encapsulation::Ethernet => ETHERNET_PACK,
        Encapsulation::Udp => UDP_PACK,
    };
    let mut pdu = vec![0; wire.head_bytes(true, 0)];
    let sound = PackedSound {
        format,
        bytes: format.payload_bytes(),
        presentation: WallTime::from_unix_nanos(time),
        restarts: number as u32,
        uncertain: number % 3 == 0,
    };
    let head = PacketHead {
        stream: StreamId(STREAM),
        number: Wrapped::of(number, wire.number_bits()),
        media: Wrapped::of(0, 32),
        begins: false,
        coding: format.payload_type,
        capture: None,
        instants: None,
    };
    wire.pack(&head, &sound, &[], &mut pdu);
    pdu.extend((0..format.payload_bytes()).map(|byte| byte as u8));
    framed(over, &pdu)
}

fn framed(over: Encapsulation, pdu: &[u8]) -> Vec<u8> {
    // To a group, from a locally administered address.
    let mut frame = vec![0x91, 0xE0, 0xF0, 0, 0xFE, 1, 2, 0x22, 0x33, 0x44, 0x55, 0x66];
    match over {
        Encapsulation::Ethernet => frame.extend(ETHERTYPE.to_be_bytes()),
        Encapsulation::Udp => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((28 + pdu.len() as u16).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend(
                [17_220_u16, 17_220, 8 + pdu.len() as u16, 0].map(u16::to_be_bytes).concat(),
            );
        }
    }
    frame.extend(pdu);
    frame
}

/// tshark's fields and complaints, one line per frame. `None`, with a message, without a tshark
/// that supports them.
fn dissected(frames: &[Vec<u8>], fields: &[&str]) -> Option<Vec<String>> {
    let mut pcap = Vec::new();
    pcap.extend(0xA1B2_C3D4_u32.to_ne_bytes());
    pcap.extend([2_u16, 4].map(u16::to_ne_bytes).concat());
    pcap.extend([0_u32, 0, 65_535, 1].map(u32::to_ne_bytes).concat());
    for (number, frame) in (0_u32..).zip(frames) {
        let length = frame.len() as u32;
        pcap.extend([number, 0, length, length].map(u32::to_ne_bytes).concat());
        pcap.extend(frame);
    }
    let known = Command::new("tshark").args(["-G", "fields"]).output();
    match known.map(|known| String::from_utf8_lossy(&known.stdout).into_owned()) {
        Err(error) => {
            skipped(Lack::Package, &format!("tshark is not installed: {error}"));
            return None;
        }
        Ok(known) if !fields.iter().all(|field| known.contains(field)) => {
            skipped(Lack::Package, "this tshark does not know the format");
            return None;
        }
        Ok(_) => {}
    }
    let folder = Folder::new();
    let path = folder.file("written.pcap");
    std::fs::write(&path, pcap).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields", "-E", "separator=|", "-r"]).arg(&path);
    let complaints = ["_ws.malformed", "_ws.expert.message"];
    for field in fields.iter().chain(&complaints) {
        tshark.args(["-e", field]);
    }
    let read = tshark.output().unwrap();
    let lines = String::from_utf8_lossy(&read.stdout).into_owned();
    let lines: Vec<_> = lines.lines().map(with_numeric_booleans).collect();
    assert_eq!(lines.len(), frames.len(), "{}", String::from_utf8_lossy(&read.stderr));
    Some(lines)
}

/// tshark 4.0 prints 1 and 0, 4.4 True and False.
fn with_numeric_booleans(line: &str) -> String {
    let fields = line.split('|').map(|field| match field {
        "True" => "1",
        "False" => "0",
        other => other,
    });
    fields.collect::<Vec<_>>().join("|")
}

#[test]
fn wireshark_dissects_every_kind_of_packet() {
    let mut frames = Vec::new();
    let mut expected = Vec::new();
    for over in [Encapsulation::Ethernet, Encapsulation::Udp] {
        for ((sample, coding, bits), (hertz, rate)) in
            CODINGS.into_iter().flat_map(|coding| RATES.map(|rate| (coding, rate)))
        {
            for channels in 1..=8 {
                let number = expected.len() as i64 + 250;
                let time = number * 0x1234_5678;
                let format = StreamFormat {
                    codec: None,
                    rate: Rate::new(hertz).unwrap(),
                    channels: Channels::new(channels).unwrap(),
                    sample,
                    packet: Frames::new(FRAMES),
                    payload_type: format_of(sample),
                };
                let frame = frame(over, number, &format, time);
                frames.push(frame);
                let encapsulated = match over {
                    Encapsulation::Ethernet => String::new(),
                    Encapsulation::Udp => format!("0x{number:08x}"),
                };
                let (restarts, uncertain) = (number % 2, u8::from(number % 3 == 0));
                expected.push(format!(
                    "{encapsulated}|0x02|1|0x00|{restarts}|1|{}|{uncertain}|0x{STREAM:016x}|{}|0x{coding:02x}|\
                     0x{rate:04x}|{channels}|{bits}|{}||",
                    number % 256,
                    time as u32,
                    FRAMES as u32 * channels * bits / 8,
                ));
            }
        }
    }
    let Some(lines) = dissected(&frames, &FIELDS) else { return };
    for (line, expected) in lines.into_iter().zip(expected) {
        assert_eq!(line, expected, "{}", FIELDS.join("|"));
    }
}

const CLOCK_FIELDS: [&str; 14] = [
    "ieee1722.encapsulation_sequence_num",
    "ieee1722.subtype",
    "ieee1722.svfield",
    "ieee1722.verfield",
    "crf.mrfield",
    "crf.fsfield",
    "crf.tufield",
    "crf.seqnum",
    "crf.type",
    "crf.stream_id",
    "crf.pull",
    "crf.base_frequency",
    "crf.data_len",
    "crf.timestamp_interval",
];

#[test]
fn wireshark_dissects_clock_packets() {
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for over in [Encapsulation::Ethernet, Encapsulation::Udp] {
        for (count, interval) in [(1, 96), (6, 160), (48, 1)] {
            for (restarts, uncertain) in [(false, false), (true, false), (false, true)] {
                let number = (expected.len() as u8).wrapping_add(250);
                let nominal = Rate::HZ_48000;
                let stream = StreamId(STREAM);
                let head = CrfHead { stream, number, restarts, uncertain, nominal, interval };
                let first = WallTime::from_unix_nanos(0x1234_5678_9ABC_DEF0);
                let times: Vec<_> = (0..count).map(|at| first + head.nominal_span(at)).collect();
                let encapsulated = match over {
                    Encapsulation::Ethernet => String::new(),
                    Encapsulation::Udp => format!("0x{number:08x}"),
                };
                let before: &[u8] = if encapsulated.is_empty() { &[] } else { &[0, 0, 0, number] };
                frames.push(framed(over, &[before, &head.write(&times)].concat()));
                let (restarts, uncertain) = (u8::from(restarts), u8::from(uncertain));
                expected.push(format!(
                    "{encapsulated}|0x04|1|0x00|{restarts}|0|{uncertain}|{number}|0x01|0x{STREAM:016x}|0x00000000|48000|{}|\
                     {interval}||",
                    8 * count,
                ));
            }
        }
    }
    let Some(lines) = dissected(&frames, &CLOCK_FIELDS) else { return };
    for (line, expected) in lines.into_iter().zip(expected) {
        assert_eq!(line, expected, "{}", CLOCK_FIELDS.join("|"));
    }
}

const CLAIM_FIELDS: [&str; 11] = [
    "ieee1722.subtype",
    "ieee1722.svfield",
    "ieee1722.verfield",
    "maap.message_type",
    "maap.version",
    "maap.data_length",
    "maap.stream_id",
    "maap.req_start_addr",
    "maap.req_count",
    "maap.conflict_start_addr",
    "maap.conflict_count",
];

#[test]
fn wireshark_dissects_maap() {
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    let kinds = [(MaapKind::Probe, 1), (MaapKind::Defend, 2), (MaapKind::Announce, 3)];
    for (kind, number) in kinds {
        for at in [0, 0x1234, POOL.count - 1] {
            let own = GroupRange::only(POOL.at(at));
            let message = match kind {
                // Another host may claim many together.
                MaapKind::Defend => MaapMessage { kind, requested: POOL, conflict: own },
                _ => MaapMessage::about(kind, own),
            };
            frames.push(framed(Encapsulation::Ethernet, &message.write()));
            let reported = |range: GroupRange| {
                let address = range.first.map(|byte| format!("{byte:02x}")).join(":");
                format!("{address}|0x{:04x}", range.count)
            };
            expected.push(format!(
                "0xfe|0|0x00|0x{number:02x}|0x01|0x0010|0x0000000000000000|{}|{}||",
                reported(message.requested),
                reported(message.conflict),
            ));
        }
    }
    let Some(lines) = dissected(&frames, &CLAIM_FIELDS) else { return };
    for (line, expected) in lines.into_iter().zip(expected) {
        assert_eq!(line, expected, "{}", CLAIM_FIELDS.join("|"));
    }
}
