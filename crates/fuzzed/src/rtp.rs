use tautline_dsp::format::SampleFormat;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{ExtensionIds, Header, Packet, RtpUnpack};

/// The fast path and the general path agree; a parsed packet survives a round trip.
pub fn rtp(datagram: &[u8]) {
    let ids = ExtensionIds { capture: Some(14), instants: Some(14), redundancy: Some(14) };
    for ids in [ids, ExtensionIds::DEFAULT, ExtensionIds::NONE] {
        assert_eq!(Packet::parse_with(datagram, ids), Packet::parse_any(datagram, ids));
    }
    let Ok(packet) = Packet::parse(datagram) else { return };
    check_frames(datagram, packet.payload_type);
    let header = Header {
        sequence: packet.sequence,
        timestamp: packet.timestamp,
        ssrc: packet.ssrc,
        marker: packet.marker,
        payload_type: packet.payload_type,
        stamps: packet.sender,
    };
    let mut again = vec![0; header.bytes()];
    assert_eq!(header.write(&mut again), again.len());
    again.extend(packet.payload);
    assert_eq!(Packet::parse(&again), Ok(Packet { carried: None, ..packet }));
    check_carried(&packet, &header);
}

fn check_carried(packet: &Packet<'_>, header: &Header) {
    let mut room = vec![0; 65_536];
    let Some(repair_data) = packet.carried.and_then(|carried| carried.gather(&mut room)) else {
        return;
    };
    let mut again = vec![0; header.bytes_with(repair_data.len())];
    assert_eq!(header.write_with(repair_data, &mut again), again.len());
    again.extend(packet.payload);
    let read = Packet::parse(&again).expect("a written packet parses");
    let mut other = vec![0; 65_536];
    let carried = read.carried.map(|carried| carried.gather(&mut other).expect("it fitted before"));
    assert_eq!(carried.unwrap_or_default(), repair_data);
    assert_eq!((read.payload, read.sender), (packet.payload, packet.sender));
}

fn check_frames(datagram: &[u8], payload_type: u8) {
    let packet = RtpUnpack::usual().unpack(datagram).expect("the same reader reads it");
    let format = StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L24,
        packet: Frames::new(48),
        payload_type,
    };
    if let Ok(frames) = packet.frames(&format, Frames::new(192)) {
        assert!((1..=192).contains(&frames.count()));
        assert_eq!(frames.as_len() * format.frame_bytes(), packet.payload.len());
    }
}
