//! Packets of other programs, read to the last sample.
#![expect(clippy::unwrap_used, reason = "a failure in a shared helper fails the test")]

use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::Unpack;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtcp::{Compound, Item};
use tautline_proto::wire::rtp::{Packet, RtpUnpack};
use tautline_proto::wire::sdp::Description;

const GSTREAMER_L24: &[u8] = include_bytes!("../data/gstreamer-l24.pcap");
const GSTREAMER_L16: &[u8] = include_bytes!("../data/gstreamer-l16-20ms.pcap");
const FFMPEG_L16: &[u8] = include_bytes!("../data/ffmpeg-l16.pcap");
const FFMPEG_SDP: &[u8] = include_bytes!("../data/ffmpeg-l16.sdp");
const SOUND_24: &[u8] = include_bytes!("../data/sound-s24le.raw");
const SOUND_16: &[u8] = include_bytes!("../data/sound-s16le.raw");

/// UDP port and payload of each datagram in a little-endian Ethernet capture.
fn datagrams(pcap: &[u8]) -> Vec<(u16, &[u8])> {
    assert_eq!(pcap[..4], [0xD4, 0xC3, 0xB2, 0xA1], "a little-endian pcap");
    let (mut left, mut found) = (&pcap[24..], Vec::new());
    while !left.is_empty() {
        let len = u32::from_le_bytes(left[8..12].try_into().unwrap()) as usize;
        let ip = &left[16 + 14..16 + len];
        let udp = &ip[usize::from(ip[0] & 0x0F) * 4..];
        let field = |at| u16::from_be_bytes([udp[at], udp[at + 1]]);
        found.push((field(2), &udp[8..field(4).into()]));
        left = &left[16 + len..];
    }
    found
}

fn stereo_48k(sample: SampleFormat, packet: i64, payload_type: u8) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample,
        packet: Frames::new(packet),
        payload_type,
    }
}

fn sound(pcap: &[u8], udp_port: u16, format: &StreamFormat) -> (usize, Vec<u8>) {
    let (mut count, mut bytes) = (0, Vec::new());
    let mut expected: Option<(u16, u32)> = None;
    for (_, datagram) in datagrams(pcap).into_iter().filter(|(port, _)| *port == udp_port) {
        let packet = Packet::parse(datagram).unwrap();
        let unpacked = RtpUnpack::default().unpack(datagram).unwrap();
        let frames = unpacked.frames(format, format.packet).unwrap();
        let (sequence, timestamp) = expected.unwrap_or((packet.sequence, packet.timestamp));
        assert_eq!((packet.sequence, packet.timestamp), (sequence, timestamp), "packet {count}");
        assert_eq!(packet.sender, None);
        let advanced = timestamp.wrapping_add(frames.count() as u32);
        expected = Some((sequence.wrapping_add(1), advanced));
        let samples = packet.payload.chunks_exact(format.sample.bytes());
        bytes.extend(samples.flat_map(|sample| sample.iter().rev()));
        count += 1;
    }
    (count, bytes)
}

#[test]
fn gstreamer_l24_carries_the_sound_bit_for_bit() {
    let (packets, bytes) = sound(GSTREAMER_L24, 41004, &stereo_48k(SampleFormat::L24, 48, 97));
    assert_eq!(packets, 100);
    assert!(bytes == SOUND_24);
}

#[test]
fn gstreamer_l16_20_ms_packets_are_bit_exact() {
    let (packets, bytes) = sound(GSTREAMER_L16, 41014, &stereo_48k(SampleFormat::L16, 960, 96));
    assert_eq!(packets, 8);
    assert!(bytes == SOUND_16[..bytes.len()]);
    assert_eq!(bytes.len(), 8 * 960 * 4);
}

#[test]
fn ffmpeg_l16_carries_the_sound_in_packets_of_any_length() {
    let (packets, bytes) = sound(FFMPEG_L16, 41024, &stereo_48k(SampleFormat::L16, 365, 97));
    assert_eq!(packets, 29);
    assert!(bytes == SOUND_16[..bytes.len()]);
    assert!(bytes.len() > 9_000 * 4);
}

#[test]
fn ffmpeg_describes_the_stream_that_it_sends() {
    let (description, warnings) = Description::read(FFMPEG_SDP).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(description.rtp_port, 41024);
    assert_eq!(description.rtcp_port, 41025);
    assert_eq!(description.packet, None);
    let format = description.format(Frames::new(365));
    assert_eq!(format, stereo_48k(SampleFormat::L16, 365, 97));
    assert!(sound(FFMPEG_L16, description.rtp_port, &format).0 > 0);
}

fn report(pcap: &[u8], udp_port: u16) -> Vec<(u32, String)> {
    let reports: Vec<_> =
        datagrams(pcap).into_iter().filter(|(port, _)| *port == udp_port).collect();
    assert_eq!(reports.len(), 1);
    let mut items = Vec::new();
    Compound::parse(reports[0].1).unwrap().visit(|ssrc, item| {
        items.push((
            ssrc,
            match item {
                Item::Sender(info) => format!("{} packets, {} octets", info.packets, info.octets),
                Item::Cname(name) => format!("named {name}"),
                other => format!("{other:?}"),
            },
        ));
    });
    items
}

#[test]
fn gstreamer_sends_reports_and_a_goodbye() {
    let items = report(GSTREAMER_L24, 41005);
    let stream = Packet::parse(datagrams(GSTREAMER_L24)[0].1).unwrap().ssrc;
    assert!(items.iter().all(|(ssrc, _)| *ssrc == stream), "{items:?}");
    assert_eq!(items[0].1, "500 packets, 144000 octets");
    assert!(items[1].1.starts_with("named user"), "{items:?}");
    assert_eq!(items.last().unwrap().1, "Bye");
}

#[test]
fn ffmpeg_reports_before_its_first_packet() {
    let stream = Packet::parse(datagrams(FFMPEG_L16)[1].1).unwrap().ssrc;
    assert_eq!(report(FFMPEG_L16, 41025), [(stream, "0 packets, 0 octets".to_owned())]);
}
