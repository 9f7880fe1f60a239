//! A tap: every frame that the interfaces of this network namespace send and receive, cut short, as the
//! kernel sees it (packet(7)). Needs `CAP_NET_RAW`.
//!
//! The kernel copies the first [`SNAP`] bytes of each into a ring that is shared with it
//! (`TPACKET_V3`, Documentation/networking/packet_mmap.rst), and wakes nobody but for a block of them:
//! whoever is watched pays for that copy, and not for a thread that is woken by each packet.

pub mod block;
mod ring;

use std::io;

use tautline_proto::time::{LocalTime, Span};

use crate::clock::now;
use crate::socket::descriptor::Socket;
use crate::socket::timestamp::StampClock;
use crate::system::checked;
use ring::TapRing;

/// Bytes of a frame that are kept: all heads up to that of RTP with the extension of `taut`, behind two
/// tags, IPv6 and an extension head of it.
pub const SNAP: u32 = 128;
/// A block is told of when it is full, or after so long.
pub const RETIRES: Span = Span::from_millis(50);

/// A frame as an interface sent or received it. What a card or the kernel parts or joins in one go is
/// one frame here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TappedFrame<'a> {
    /// The interface's number.
    pub interface: u32,
    /// The kind of the interface (`ARPHRD_…`, linux/if_arp.h).
    pub hardware: u16,
    /// It was sent; else it came, for whomever.
    pub outgoing: bool,
    /// When, on the monotonic clock; when it was read, where the kernel's stamp makes no sense.
    pub at: LocalTime,
    /// Of the frame, with its link head, without its checksum.
    pub bytes: usize,
    /// Bytes of payload in each segment, where it is several that go or came together.
    pub segment: Option<u16>,
    /// Its beginning.
    pub head: &'a [u8],
}

/// What came to a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapStatistics {
    /// Frames that it has, or will have once their block is told of.
    pub seen: u64,
    /// Frames for which the ring had no room.
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
    /// From now on every frame is kept, in so many bytes of memory at least.
    pub fn open(room: usize) -> io::Result<Self> {
        let socket = Socket::for_frames()?;
        // The kernel runs it for each frame: so many bytes of it, whatever it is.
        let keep = libc::sock_filter { code: RETURN_CONSTANT, jt: 0, jf: 0, k: SNAP };
        let program = libc::sock_fprog { len: 1, filter: (&raw const keep).cast_mut() };
        socket.set_plain(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        let sized =
            tells_segments() && socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).is_ok();
        let ring = TapRing::of(&socket, room, RETIRES)?;
        bind_to_all(&socket)?;
        let stamps = StampClock::new(now());
        Ok(Self { ring, socket, stamps, statistics: TapStatistics::default(), sized })
    }

    /// Whether it knows of frames that are several segments how long each is.
    pub const fn knows_segments(&self) -> bool {
        self.sized
    }

    /// Waits until a block can be read, for `most` at most.
    pub fn wait(&self, most: Span) -> io::Result<()> {
        let mut asked = libc::pollfd { fd: self.socket.fd(), events: libc::POLLIN, revents: 0 };
        let most = crate::clock::limit(most);
        // SAFETY: one pollfd and a time, both of which live through the call; no signal mask.
        let answer = unsafe { libc::ppoll(&raw mut asked, 1, &raw const most, core::ptr::null()) };
        match checked(answer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Delivers what full blocks hold, without waiting.
    pub fn read(&mut self, deliver: &mut dyn FnMut(TappedFrame<'_>)) {
        let Self { ring, stamps, sized, .. } = self;
        let read = now();
        stamps.refresh(read);
        while ring.take(&mut |bytes| {
            block::frames(bytes, *sized, &mut |found| {
                let at = stamps.localise(found.stamp, read).map_or(read, |(at, _)| at);
                let block::RingFrame {
                    interface, hardware, outgoing, bytes, segment, head, ..
                } = found;
                deliver(TappedFrame { interface, hardware, outgoing, at, bytes, segment, head });
            });
        }) {}
    }

    /// What came so far.
    pub fn statistics(&mut self) -> io::Result<TapStatistics> {
        // The kernel counts anew from each reading on, and what it dropped among what came.
        let libc::tpacket_stats_v3 { tp_packets, tp_drops, .. } = ring::statistics(&self.socket)?;
        self.statistics.seen += u64::from(tp_packets.saturating_sub(tp_drops));
        self.statistics.dropped += u64::from(tp_drops);
        Ok(self.statistics)
    }
}

/// `BPF_RET | BPF_K` (linux/filter.h): so many bytes are kept.
const RETURN_CONSTANT: u16 = 0x06;

fn bind_to_all(socket: &Socket) -> io::Result<()> {
    // SAFETY: a C structure of integers.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` has the `length` bytes that hold an address.
    checked(unsafe { libc::bind(socket.fd(), (&raw const address).cast(), length) }).map(drop)
}

/// Whether the kernel can say of UDP that it sends or joins as one frame how long its segments are: since
/// 6.2. Those before would not hand out such frames at all, once asked to.
fn tells_segments() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next().and_then(|word| word.parse::<u32>().ok());
    (number(), number()) >= (Some(6), Some(2))
}

/// By what an interface is known, while there is one of this number.
pub fn interface_name(number: u32) -> Option<String> {
    let mut name = [0_u8; libc::IF_NAMESIZE];
    // SAFETY: the call writes a text of at most so many bytes, its end among them.
    let found = unsafe { libc::if_indextoname(number, name.as_mut_ptr().cast()) };
    let name = name.split(|byte| *byte == 0).next().filter(|_| !found.is_null())?;
    Some(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_datagram_is_seen_as_it_leaves_and_as_it_comes_with_its_length_and_its_instant() {
        // Room for what the tests beside this one send meanwhile.
        let mut tap = match FrameTap::open(8 << 20) {
            Ok(tap) => tap,
            Err(why) => {
                let why = format!("a packet socket: {why}");
                return tautline_trial::skipped(tautline_trial::Lack::Privilege, &why);
            }
        };
        // To within this the wall clock's stamps are known on the monotonic one, and never worse later.
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
                // Behind the link head and that of IPv4: this datagram and no other.
                if frame.head.get(36..38) == Some(&port.to_be_bytes()) {
                    let (name, head) = (interface_name(frame.interface), frame.head.len());
                    seen.push((name, frame.outgoing, frame.bytes, head, frame.at));
                }
            });
            read = now();
        }
        // It leaves in the sender's call; whoever hands it to the receiver may be kept waiting after that.
        for (seen, (expected, latest)) in seen.into_iter().zip([(true, sent), (false, read)]) {
            let (name, outgoing, bytes, head, at) = seen;
            assert_eq!((name.as_deref(), outgoing), (Some("lo"), expected));
            assert_eq!((bytes, head), (14 + 20 + 8 + 1000, SNAP as usize));
            let known = begun - unsure..=latest + unsure;
            assert!(known.contains(&at), "{at:?} {known:?}, +-{unsure}");
        }
        // What it had no room for is the host's matter, as others send here too.
        let [first, second] = [0; 2].map(|_| tap.statistics().unwrap());
        assert!(first.seen >= 2 && second.seen >= first.seen, "{first:?} {second:?}");
        assert!(second.dropped >= first.dropped, "{first:?} {second:?}");
    }
}
