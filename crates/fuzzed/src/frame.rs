use tautline_io::network::tap::frames;
use tautline_lab::traffic::frames::{LayerBytes, TapLink, read_frame};
use tautline_proto::time::LocalTime;

/// Every frame is within its block, and no layer is longer than the one around it.
pub fn frame(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    for sized in [false, true] {
        frames(rest, sized, &mut LocalTime::from_nanos, &mut |frame| {
            assert!(rest.as_ptr_range().contains(&frame.head.as_ptr()) || frame.head.is_empty());
            assert!(frame.head.len() <= rest.len());
            count(TapLink::of(frame.hardware), frame.bytes, frame.segment, frame.head);
        });
    }
    let typed = TapLink::Typed(rest.first_chunk().map_or(0, |kind| u16::from_be_bytes(*kind)));
    let link = [TapLink::Ethernet, TapLink::Loopback, TapLink::Bare, typed][usize::from(first & 3)];
    let segment = (first & 4 != 0).then_some(u16::from(*first));
    count(link, rest.len() << (first >> 5), segment, rest);
}

fn count(link: TapLink, bytes: usize, segment: Option<u16>, head: &[u8]) {
    let read = read_frame(link, bytes, segment, head);
    let LayerBytes { frames, packets, datagrams, link, ip, transport, payload, rtp_payload } =
        read.layers;
    assert!(frames == 1 && packets >= 1 && datagrams <= packets);
    assert!(rtp_payload <= payload && payload <= transport && transport <= ip && ip <= link);
}
