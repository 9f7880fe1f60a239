//! How much a socket holds of what is not read yet, or not sent.

use std::io;

use crate::socket::descriptor::Socket;

/// Packets that are held at most of a stream that has so many a second: a quarter of a second of them, as a host
/// may freeze for tens of milliseconds; at least two batches.
pub(crate) fn packets(per_second: u32, batch: usize) -> usize {
    (per_second as usize / 4).max(2 * batch).max(64)
}

/// The bytes of a buffer for so many datagrams of this length, at most 64 MiB. A packet takes what the kernel
/// allocates for it: the next power of two above its bytes, headers and `struct skb_shared_info` (together under
/// 512), and 256 for its `struct sk_buff`.
pub(crate) fn bytes(datagram_bytes: usize, packets: usize) -> usize {
    let packet = (datagram_bytes + 512).next_power_of_two() + 256;
    packets.saturating_mul(packet).min(64 << 20)
}

/// Asks for both of a socket's buffers in this size, and to be told what found no room.
pub(crate) fn set(socket: &Socket, bytes: usize) -> io::Result<()> {
    set_one(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)?;
    set_one(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)?;
    socket.set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// Beyond `net.core.rmem_max` if privileged, else as much of it as the system gives.
fn set_one(socket: &Socket, force: i32, ask: i32, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // The kernel doubles what is asked for, to leave half for its own book-keeping; the size asked
    // for here already holds that.
    let half = bytes / 2;
    socket.set(libc::SOL_SOCKET, force, half).or_else(|_| socket.set(libc::SOL_SOCKET, ask, half))
}
