use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::{MediaPacket, Pack, PackedSound, PresentationTime, Presented, Unpack};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::avtp::{AafUnpack, ETHERNET_PACK, Encapsulation, UDP_PACK};

/// AAF packets over Ethernet and UDP survive a round trip.
pub fn aaf(datagram: &[u8]) {
    let wires = [(Encapsulation::Ethernet, ETHERNET_PACK), (Encapsulation::Udp, UDP_PACK)];
    for (encapsulation, pack) in wires {
        let unpack = AafUnpack::of(encapsulation, None);
        if let Ok(packet) = unpack.unpack(datagram) {
            assert_eq!(unpack.stream(datagram), Some(packet.head.stream));
            check_frames(&packet);
            check_again(&packet, pack, &*unpack);
        }
    }
}

fn check_frames(packet: &MediaPacket<'_>) {
    let format = StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L24,
        packet: Frames::new(6),
        payload_type: packet.head.coding,
    };
    if let Ok(frames) = packet.frames(&format, Frames::new(192)) {
        assert!((1..=192).contains(&frames.count()));
        assert_eq!(frames.as_len() * format.frame_bytes(), packet.payload.len());
    }
}

fn check_again(packet: &MediaPacket<'_>, pack: &dyn Pack, unpack: &dyn Unpack) {
    let (Some(presented), Some(shape)) = (packet.presented, packet.shape) else { return };
    let (Some(PresentationTime(time)), Some(rate)) = (presented.time, shape.rate) else { return };
    let Ok(channels) = Channels::new(shape.channels.into()) else { return };
    let (sample, payload_type) = (shape.sample, packet.head.coding);
    let format =
        StreamFormat { codec: None, rate, channels, sample, packet: Frames::new(6), payload_type };
    let sound = PackedSound {
        format: &format,
        bytes: packet.payload.len(),
        presentation: WallTime::from_unix_nanos(time.into()),
        restarts: presented.restarts.into(),
        uncertain: presented.uncertain,
    };
    let mut again = vec![0xA5; pack.head_bytes(false, 0)];
    pack.pack(&packet.head, &sound, &[], &mut again);
    again.extend(packet.payload);
    let read = unpack.unpack(&again).expect("a written packet parses");
    assert_eq!((read.head, read.payload), (packet.head, packet.payload));
    let number = packet.head.number.value as u8;
    assert_eq!(read.presented, Some(Presented { number, ..presented }));
    assert_eq!(read.shape, packet.shape);
}
