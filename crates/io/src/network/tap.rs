//! Captures this network namespace's frames (packet(7)). Needs `CAP_NET_RAW`. The kernel copies
//! [`SNAP`] bytes of each into a shared ring (`TPACKET_V3`,
//! Documentation/networking/packet_mmap.rst) and wakes the reader once per block.

use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;

use tautline_proto::time::{LocalTime, Span};

use crate::clock::now;
use crate::socket::address::RawAddress;
use crate::socket::descriptor::Socket;
use crate::socket::interface;
use crate::socket::timestamp::StampClock;
use crate::system::checked;

/// Bytes per frame: headers up to RTP's with `taut`'s extension, behind two VLAN tags, IPv6 and an
/// extension header.
pub const SNAP: u32 = 128;
/// Maximum delay of an incomplete block.
pub const RETIRES: Span = Span::from_millis(50);

/// A sent or received frame, or several merged frames (GSO, GRO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TappedFrame<'a> {
    /// Interface index.
    pub interface: u32,
    /// Interface type (`ARPHRD_…`, linux/if_arp.h).
    pub hardware: u16,
    /// Whether the frame was sent.
    pub outgoing: bool,
    /// Monotonic timestamp; the time of reading if the kernel's is implausible.
    pub at: LocalTime,
    /// Bytes with link header, without checksum.
    pub bytes: usize,
    /// Payload bytes per segment, if several.
    pub segment: Option<u16>,
    /// The frame's first bytes.
    pub head: &'a [u8],
}

/// Frame counts of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapStatistics {
    /// Captured frames, including those not yet read.
    pub seen: u64,
    /// Frames dropped by a full ring.
    pub dropped: u64,
}

/// An open tap.
pub struct FrameTap {
    ring: TapRing,
    socket: Socket,
    stamps: StampClock,
    statistics: TapStatistics,
    sized: bool,
}

impl FrameTap {
    /// Opens a tap with at least `room` bytes. Captures from now on.
    pub fn open(room: usize) -> io::Result<Self> {
        let socket = Socket::for_frames()?;
        let keep = libc::sock_filter { code: RETURN_CONSTANT, jt: 0, jf: 0, k: SNAP };
        let program = libc::sock_fprog { len: 1, filter: (&raw const keep).cast_mut() };
        socket.set_plain(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        let sized =
            tells_segments() && socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).is_ok();
        let ring = TapRing::of(&socket, room, RETIRES)?;
        socket.bind_raw(&RawAddress::of_ethernet([0; 6], 0, libc::ETH_P_ALL as u16))?;
        let stamps = StampClock::new(now());
        Ok(Self { ring, socket, stamps, statistics: TapStatistics::default(), sized })
    }

    /// Whether segment lengths are known.
    pub const fn knows_segments(&self) -> bool {
        self.sized
    }

    /// Waits up to `maximum` for a readable block.
    pub fn wait(&self, maximum: Span) -> io::Result<()> {
        let mut requested = libc::pollfd { fd: self.socket.fd(), events: libc::POLLIN, revents: 0 };
        let maximum = crate::clock::limit(maximum);
        // SAFETY: the pollfd and the time outlive the call, which gets no signal mask.
        let answer =
            unsafe { libc::ppoll(&raw mut requested, 1, &raw const maximum, core::ptr::null()) };
        match checked(answer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Delivers all full blocks' frames without waiting.
    pub fn read(&mut self, deliver: &mut dyn FnMut(TappedFrame<'_>)) {
        let Self { ring, stamps, sized, .. } = self;
        let read = now();
        stamps.refresh(read);
        let mut at = |stamp| stamps.localise(stamp, read).map_or(read, |(at, _)| at);
        while ring.take(&mut |bytes| frames(bytes, *sized, &mut at, deliver)) {}
    }

    /// Returns the frame counts since the tap was opened.
    pub fn statistics(&mut self) -> io::Result<TapStatistics> {
        let level = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let libc::tpacket_stats_v3 { tp_packets, tp_drops, .. } =
            self.socket.plain(level.0, level.1)?;
        self.statistics.seen += u64::from(tp_packets.saturating_sub(tp_drops));
        self.statistics.dropped += u64::from(tp_drops);
        Ok(self.statistics)
    }
}

/// `BPF_RET | BPF_K` (linux/filter.h).
const RETURN_CONSTANT: u16 = 0x06;

/// Whether the kernel reports UDP segment lengths: since 6.2. Older kernels hide such frames.
fn tells_segments() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next().and_then(|word| word.parse::<u32>().ok());
    (number(), number()) >= (Some(6), Some(2))
}

/// Name of the interface with this index.
pub fn interface_name(number: u32) -> Option<String> {
    interface::interface_name(number).ok().map(|name| name.to_string_lossy().into_owned())
}

/// Block size: a multiple of every page size, for a thousand truncated frames.
const BLOCK: usize = 1 << 18;
/// Frame size. The kernel requires one, but ignores it with blocks.
const FRAME: u32 = 2048;
const STATUS: usize = core::mem::offset_of!(libc::tpacket_block_desc, hdr)
    + core::mem::offset_of!(libc::tpacket_hdr_v1, block_status);

struct TapRing {
    start: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the memory belongs to this value, and to the kernel, on any thread.
unsafe impl Send for TapRing {}

impl TapRing {
    fn of(socket: &Socket, room: usize, retires: Span) -> io::Result<Self> {
        let blocks = room.div_ceil(BLOCK).max(2);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME,
            tp_frame_nr: blocks as u32 * (BLOCK as u32 / FRAME),
            tp_retire_blk_tov: (retires.as_nanos() / 1_000_000) as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set_plain(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (length, access) = (blocks * BLOCK, libc::PROT_READ | libc::PROT_WRITE);
        let (anywhere, fd) = (core::ptr::null_mut(), socket.fd());
        // SAFETY: a new mapping of memory that the kernel has just allocated for this socket.
        let start = unsafe { libc::mmap(anywhere, length, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(found) if start != libc::MAP_FAILED => Ok(Self { start: found, blocks, next: 0 }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn take(&mut self, read: &mut dyn FnMut(&[u8])) -> bool {
        // SAFETY: `next` is less than the number of blocks; the status is aligned and accessed only
        // as an atomic.
        let (block, status) = unsafe {
            let block = self.start.add(self.next * BLOCK);
            (block, AtomicU32::from_ptr(block.add(STATUS).as_ptr().cast()))
        };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the kernel does not write this block until the store below returns it.
        read(unsafe { core::slice::from_raw_parts(block.as_ptr(), BLOCK) });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }
}

impl Drop for TapRing {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping created above; no references into it remain.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

const BLOCK_HEAD: usize = offset_of!(libc::tpacket_block_desc, hdr);
const COUNT: usize = BLOCK_HEAD + offset_of!(libc::tpacket_hdr_v1, num_pkts);
const FIRST: usize = BLOCK_HEAD + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const TAG: usize = 4;
/// `struct virtio_net_hdr` (linux/virtio_net.h), directly before a frame: has the segment length.
const VIRTIO: usize = 10;
const VIRTIO_PARTED: usize = 1;
const VIRTIO_PIECE: usize = 4;

/// Delivers a block's frames, each after a `virtio_net_hdr` if `sized`. `at` maps wall-clock
/// nanoseconds.
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

    use std::net::UdpSocket;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn tap_sees_a_datagram_leave_and_arrive() {
        let mut tap = match FrameTap::open(8 << 20) {
            Ok(tap) => tap,
            Err(why) => {
                let why = format!("a packet socket: {why}");
                return tautline_trial::skipped(tautline_trial::Lack::Privilege, &why);
            }
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let (_, unsure) = tap.stamps.localise(wall, now()).unwrap();
        let [sender, receiver] = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = receiver.local_addr().unwrap().port();
        let begun = now();
        sender.send_to(&[7; 1000], receiver.local_addr().unwrap()).unwrap();
        let sent = now();
        let mut seen = Vec::new();
        let mut read = sent;
        while seen.len() < 2 {
            assert!(now() - sent < Span::from_secs(10), "{seen:?}");
            tap.wait(Span::from_millis(200)).unwrap();
            tap.read(&mut |frame| {
                if frame.head.get(36..38) == Some(&port.to_be_bytes()) {
                    let (name, head) = (interface_name(frame.interface), frame.head.len());
                    seen.push((name, frame.outgoing, frame.bytes, head, frame.at));
                }
            });
            read = now();
        }
        for (seen, (expected, latest)) in seen.into_iter().zip([(true, sent), (false, read)]) {
            let (name, outgoing, bytes, head, at) = seen;
            assert_eq!((name.as_deref(), outgoing), (Some("lo"), expected));
            assert_eq!((bytes, head), (14 + 20 + 8 + 1000, SNAP as usize));
            let known = begun - unsure..=latest + unsure;
            assert!(known.contains(&at), "{at:?} {known:?}, +-{unsure}");
        }
        let [first, second] = [0; 2].map(|_| tap.statistics().unwrap());
        assert!(first.seen >= 2 && second.seen >= first.seen, "{first:?} {second:?}");
        assert!(second.dropped >= first.dropped, "{first:?} {second:?}");
    }

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
    fn tap_frames_have_interface_direction_and_tag() {
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
        let arrived = expected(false, 304, None, &[libc::PACKET_MULTICAST; 20][..]);
        let left = expected(true, 300, Some(100), &[libc::PACKET_OUTGOING; 20][..]);
        assert_eq!(read_all(&block, true), [arrived, left]);
        let unsized_left = TappedFrame { segment: None, ..left };
        assert_eq!(read_all(&block, false), [arrived, unsized_left]);
    }

    #[test]
    fn corrupt_tap_block_yields_only_complete_frames() {
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
