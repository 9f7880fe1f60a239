//! Several packets to one place as segments of one message (UDP_SEGMENT, udp(7)), which the kernel cuts last. They leave one
//! right after the other, as they would one by one.

use crate::socket::batch::Batch;
use crate::socket::descriptor::Fixed;
use crate::socket::descriptor::Socket;
use crate::system::errno;
use crate::thread::realtime::permit;

/// Segments that the oldest kernel with this option takes in one message.
const MOST: usize = 64;
const MOST_BYTES: usize = 65_535 - 48;
/// Segments are never fragmented: what every path carries whole (RFC 8200 §5), less headers.
const LONGEST: usize = 1280 - 48;

pub(crate) struct Segments {
    request: Fixed<u64>,
    known: bool,
}

impl Segments {
    pub(crate) fn new(known: bool) -> Self {
        // SAFETY: arithmetic on a length.
        let space = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;
        let request = Fixed::<u64>::zeroed(space.div_ceil(8));
        // SAFETY: an array of u64 is aligned for a cmsghdr, and CMSG_SPACE gave the room for the header
        // and the data behind it.
        unsafe {
            let control = request.at(0).cast::<libc::cmsghdr>();
            (*control).cmsg_level = libc::SOL_UDP;
            (*control).cmsg_type = libc::UDP_SEGMENT;
            (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
        }
        Self { request, known }
    }

    pub(crate) fn may_hold(&self, batch: &Batch, queued: usize) -> bool {
        if !self.known || !(2..=MOST).contains(&queued) {
            return false;
        }
        let segment = batch.datagram(0).len();
        let alike = (1..queued - 1).all(|packet| batch.datagram(packet).len() == segment);
        let last = batch.datagram(queued - 1).len();
        alike && last <= segment && segment <= LONGEST && queued * segment <= MOST_BYTES
    }

    /// Sends the header's vectors in segments of so many bytes. False if the system refuses; if it refuses segments as such,
    /// it is not asked again.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        mut header: libc::msghdr,
        segment: usize,
    ) -> bool {
        header.msg_control = self.request.at(0).cast();
        header.msg_controllen = self.request.len() * size_of::<u64>();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let _permit = permit("the socket is non-blocking");
        // SAFETY: the request has room for a u16 and is borrowed uniquely; what the header points to lives.
        let sent = unsafe {
            libc::CMSG_DATA(self.request.at(0).cast()).cast::<u16>().write(segment as u16);
            libc::sendmsg(socket.fd(), &raw const header, flags)
        };
        if sent < 0
            && matches!(errno(), libc::EINVAL | libc::EIO | libc::EOPNOTSUPP | libc::EMSGSIZE)
        {
            self.known = false;
        }
        sent >= 0
    }
}
