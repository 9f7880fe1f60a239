//! A block of frames (linux/if_packet.h, `TPACKET_V3`). It is the kernel's, and yet no length in it is trusted.

use core::mem::offset_of;

use tautline_proto::time::LocalTime;

use super::TappedFrame;

const BLOCK_HEAD: usize = offset_of!(libc::tpacket_block_desc, hdr);
const COUNT: usize = BLOCK_HEAD + offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST: usize = BLOCK_HEAD + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const TAG: usize = 4;
/// `struct virtio_net_hdr` (linux/virtio_net.h), right before a frame: whether it has segments, and their length.
const VIRTIO: usize = 10;
const VIRTIO_PARTED: usize = 1;
const VIRTIO_PIECE: usize = 4;

/// Delivers every frame of a block, with a `virtio_net_hdr` before each if `sized`. `at` maps the wall clock's nanoseconds.
pub fn frames<'a>(
    block: &'a [u8],
    sized: bool,
    at: &mut dyn FnMut(i64) -> LocalTime,
    deliver: &mut (impl FnMut(TappedFrame<'a>) + ?Sized),
) {
    let (Some(count), Some(first)) = (long(block, COUNT), long(block, FIRST)) else { return };
    let mut start = first as usize;
    for _ in 0..count {
        let Some(frame) = block.get(start..) else { return };
        if let Some(found) = read(frame, sized, at) {
            deliver(found);
        }
        match long(frame, offset_of!(libc::tpacket3_hdr, tp_next_offset)) {
            Some(next) if next > 0 => start = start.saturating_add(next as usize),
            _ => return,
        }
    }
}

fn read<'a>(
    frame: &'a [u8],
    sized: bool,
    localise: &mut dyn FnMut(i64) -> LocalTime,
) -> Option<TappedFrame<'a>> {
    use libc::{sockaddr_ll as Address, tpacket3_hdr as Head};
    let [seconds, nanos] =
        [offset_of!(Head, tp_sec), offset_of!(Head, tp_nsec)].map(|at| long(frame, at));
    let start = usize::from(word(frame, offset_of!(Head, tp_mac))?);
    let kept = long(frame, offset_of!(Head, tp_snaplen))? as usize;
    let is_tagged = long(frame, offset_of!(Head, tp_status))? & libc::TP_STATUS_VLAN_VALID != 0;
    let bytes = long(frame, offset_of!(Head, tp_len))? as usize;
    let kind = *frame.get(ADDRESS + offset_of!(Address, sll_pkttype))?;
    let piece = || {
        let before = frame.get(start.checked_sub(VIRTIO)?..start)?;
        word(before, VIRTIO_PIECE).filter(|piece| before[VIRTIO_PARTED] != 0 && *piece > 0)
    };
    let stamp = i64::from(seconds?) * 1_000_000_000 + i64::from(nanos?);
    Some(TappedFrame {
        interface: long(frame, ADDRESS + offset_of!(Address, sll_ifindex))?,
        hardware: word(frame, ADDRESS + offset_of!(Address, sll_hatype))?,
        outgoing: kind == libc::PACKET_OUTGOING,
        at: localise(stamp),
        bytes: bytes + if is_tagged { TAG } else { 0 },
        segment: if sized { piece() } else { None },
        head: frame.get(start..start.checked_add(kept)?)?,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of two frames: one that came, with a tag, and one of two segments that left.
    fn block() -> Vec<u8> {
        let mut block = vec![0; 1024];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(COUNT, &2_u32.to_ne_bytes());
        put(FIRST, &48_u32.to_ne_bytes());
        for (at, next, status, kind, piece) in [
            (48, 256_u32, libc::TP_STATUS_VLAN_VALID, libc::PACKET_MULTICAST, [0, 0]),
            (48 + 256, 0, 0, libc::PACKET_OUTGOING, [1, 100]),
        ] {
            for (place, value) in [(0, next), (4, 7), (8, 9), (12, 20), (16, 300), (20, status)] {
                put(at + place, &value.to_ne_bytes());
            }
            put(at + 24, &120_u16.to_ne_bytes());
            put(at + ADDRESS + 4, &3_u32.to_ne_bytes());
            put(at + ADDRESS + 8, &1_u16.to_ne_bytes());
            put(at + ADDRESS + 10, &[kind]);
            put(at + 111, &piece[..1]);
            put(at + 114, &u16::from(piece[1]).to_ne_bytes());
            put(at + 120, &[kind; 20]);
        }
        block
    }

    fn read_all(block: &[u8], sized: bool) -> Vec<TappedFrame<'_>> {
        let mut all = Vec::new();
        frames(block, sized, &mut LocalTime::from_nanos, &mut |frame| all.push(frame));
        all
    }

    #[test]
    fn frames_are_read_with_their_interface_their_way_and_a_tag_that_is_kept_apart() {
        let block = block();
        let expected = |outgoing, bytes, segment, head| TappedFrame {
            interface: 3,
            hardware: 1,
            outgoing,
            at: LocalTime::from_nanos(7_000_000_009),
            bytes,
            segment,
            head,
        };
        let came = expected(false, 304, None, &[libc::PACKET_MULTICAST; 20][..]);
        let left = expected(true, 300, Some(100), &[libc::PACKET_OUTGOING; 20][..]);
        assert_eq!(read_all(&block, true), [came, left]);
        let unsized_left = TappedFrame { segment: None, ..left };
        assert_eq!(read_all(&block, false), [came, unsized_left]);
    }

    #[test]
    fn a_block_that_is_cut_short_or_lies_tells_what_is_whole_and_ends() {
        let whole = block();
        for length in 0..whole.len() {
            assert!(read_all(&whole[..length], true).len() <= 2);
        }
        let mut endless = whole.clone();
        endless[COUNT..COUNT + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(read_all(&endless, true).len(), 2);
        endless[48 + 256..48 + 260].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(read_all(&endless, true).len(), 2);
    }
}
