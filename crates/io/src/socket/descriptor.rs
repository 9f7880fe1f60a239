//! A kernel socket and its options.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use tautline_proto::time::{LocalTime, Span};

use crate::clock::{now, timespec};
use crate::socket::address::{RawAddress, STORAGE_LEN, decode};
use crate::socket::forks;
use crate::system::{checked, owned};
use crate::thread::memory::prefault;

#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// Plain C structures for socket options.
///
/// # Safety
/// All zeros are a valid value.
pub(crate) unsafe trait Plain: Copy {}
macro_rules! plain {
    ($($kind:ty),*) => {
        // SAFETY: these are integers and C structures of integers and raw pointers, for which all
        // zeros are valid.
        $(unsafe impl Plain for $kind {})*
    };
}
plain!(u8, u32, u64, libc::c_int, libc::ip_mreqn, libc::group_req, libc::group_source_req);
plain!(libc::iovec, libc::mmsghdr, libc::timeval, libc::sockaddr_storage, libc::tpacket_req3);
plain!(libc::sock_fprog, libc::packet_mreq, libc::sock_txtime, libc::tcp_info, libc::ucred);
plain!(libc::tpacket_stats_v3);

/// Reads a structure; fields unknown to an old kernel are zero.
pub(crate) fn option<T: Plain>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let (fd, start) = (socket.as_fd().as_raw_fd(), value.as_mut_ptr().cast());
    // SAFETY: `value` has the `len` bytes that the call may write.
    checked(unsafe { libc::getsockopt(fd, level, name, start, &raw mut len) })?;
    // SAFETY: all zeros are a valid value, and so is the structure that the kernel wrote.
    Ok(unsafe { value.assume_init() })
}

pub(crate) fn set_option<T: Plain>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &[T],
) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of_val(value) as libc::socklen_t);
    // SAFETY: start and length of values that outlive the call.
    checked(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) }).map(drop)
}

impl Drop for Socket {
    fn drop(&mut self) {
        forks::forget(self.fd());
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Socket {
    /// Creates a socket for `address`. IPv6-only at first, so that no source is a mapped IPv4
    /// address.
    pub(crate) fn for_family_of(address: &SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let socket = Self::of(family, libc::SOCK_DGRAM)?;
        if address.is_ipv6() {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        Ok(socket)
    }

    pub(crate) fn for_questions() -> io::Result<Self> {
        Self::of(libc::AF_INET, libc::SOCK_DGRAM)
    }

    pub(crate) fn for_frames() -> io::Result<Self> {
        Self::of(libc::AF_PACKET, libc::SOCK_RAW)
    }

    pub(crate) fn for_datagrams_of_frames() -> io::Result<Self> {
        Self::of(libc::AF_PACKET, libc::SOCK_DGRAM)
    }

    fn of(family: libc::c_int, kind: libc::c_int) -> io::Result<Self> {
        let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers, and the descriptor is new.
        let socket = Self(unsafe { owned(libc::socket(family, kind, 0)) }?);
        forks::remember(socket.fd());
        Ok(socket)
    }

    pub(crate) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let fd = descriptor.as_raw_fd();
        // SAFETY: the calls take no pointers. The flags are the socket's own plus one.
        unsafe {
            let flags = checked(libc::fcntl(fd, libc::F_GETFL))?;
            checked(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
            checked(libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC))?;
        }
        forks::remember(fd);
        Ok(Self(descriptor))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn set(&self, level: libc::c_int, name: libc::c_int, value: i32) -> io::Result<()> {
        self.set_plain(level, name, &value)
    }

    pub(crate) fn set_plain<T: Plain>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: &T,
    ) -> io::Result<()> {
        set_option(self, level, name, core::slice::from_ref(value))
    }

    pub(crate) fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
        self.plain(level, name)
    }

    pub(crate) fn plain<T: Plain>(&self, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
        option(self, level, name)
    }

    pub(crate) fn block(&self, timeout: Span) -> io::Result<()> {
        // SAFETY: the calls take no pointers. The flags are the socket's own minus one.
        unsafe {
            let flags = checked(libc::fcntl(self.fd(), libc::F_GETFL))?;
            checked(libc::fcntl(self.fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK))?;
        }
        let micros = (timeout.as_nanos() / 1000).max(1);
        let (tv_sec, tv_usec) = (micros / 1_000_000, micros % 1_000_000);
        self.set_plain(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &libc::timeval { tv_sec, tv_usec })
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        self.bind_raw(&address.into())
    }

    pub(crate) fn bind_raw(&self, raw: &RawAddress) -> io::Result<()> {
        let start = (&raw const raw.storage).cast();
        // SAFETY: `start` has `len` bytes that hold an address.
        checked(unsafe { libc::bind(self.fd(), start, raw.len) }).map(drop)
    }

    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let raw = RawAddress::from(address);
        let start = (&raw const raw.storage).cast();
        // SAFETY: `start` has `len` bytes that hold an address.
        checked(unsafe { libc::connect(self.fd(), start, raw.len) }).map(drop)
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut len = STORAGE_LEN;
        // SAFETY: the storage has the `len` bytes that the call may write.
        checked(unsafe {
            libc::getsockname(self.fd(), storage.as_mut_ptr().cast(), &raw mut len)
        })?;
        // SAFETY: zero-initialised, and now holds an address.
        decode(unsafe { storage.assume_init_ref() })
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
    }

    pub(crate) fn send_to(&self, datagram: &[u8], destination: SocketAddr) -> io::Result<()> {
        self.send_raw(datagram, &destination.into())
    }

    pub(crate) fn send_raw(&self, datagram: &[u8], to: &RawAddress) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let (name, start) = ((&raw const to.storage).cast(), datagram.as_ptr().cast());
        // SAFETY: both pointers and lengths are of values that outlive the call.
        let sent = unsafe { libc::sendto(self.fd(), start, datagram.len(), flags, name, to.len) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

pub(crate) fn buffered_packets(per_second: u32, batch: usize) -> usize {
    (per_second as usize / 4).max(2 * batch).max(64)
}

/// Buffer size, at most 64 MiB. Per packet the kernel allocates a power of two above bytes, headers
/// and `struct skb_shared_info` (under 512), plus 256 (`struct sk_buff`).
pub(crate) fn buffer_bytes(datagram_bytes: usize, packets: usize) -> usize {
    let packet = (datagram_bytes + 512).next_power_of_two() + 256;
    packets.saturating_mul(packet).min(64 << 20)
}

pub(crate) fn set_buffers(socket: &Socket, bytes: usize) -> io::Result<()> {
    set_one(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)?;
    set_one(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)?;
    socket.set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

fn set_one(socket: &Socket, force: i32, request: i32, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // The kernel doubles the value for overhead, which `bytes` includes.
    let half = bytes / 2;
    socket
        .set(libc::SOL_SOCKET, force, half)
        .or_else(|_| socket.set(libc::SOL_SOCKET, request, half))
}

/// An array that never moves, for kernel structures. Unlike a box it claims no uniqueness.
pub(crate) struct Fixed<T: Plain> {
    start: NonNull<T>,
    len: usize,
}

impl<T: Plain> Fixed<T> {
    pub(crate) fn zeroed(len: usize) -> Self {
        // SAFETY: `Plain` guarantees that all zeros are a valid value.
        let zero: T = unsafe { core::mem::zeroed() };
        let mut boxed = vec![zero; len].into_boxed_slice();
        prefault(&mut boxed);
        Self { start: NonNull::from(Box::leak(boxed)).cast(), len }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.len, "an index of the batch's own making");
        // SAFETY: `index` is inside the array.
        unsafe { self.start.as_ptr().add(index) }
    }
}

impl<T: Plain> Drop for Fixed<T> {
    fn drop(&mut self) {
        let slice = core::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: `zeroed` leaked the slice from a box of exactly this length. Only this drop frees
        // it.
        drop(unsafe { Box::from_raw(slice) });
    }
}

pub(crate) const fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Waits until `until`. Returns `false` on timeout. Signals do not end the wait.
pub(crate) fn poll(polled: &mut [libc::pollfd], until: LocalTime) -> bool {
    loop {
        let left = timespec((until - now()).as_nanos());
        let count = polled.len() as libc::nfds_t;
        // SAFETY: the slice has `count` elements, and there is no signal mask.
        let ready =
            unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const left, core::ptr::null()) };
        if ready > 0 {
            return true;
        }
        if now() >= until {
            return false;
        }
    }
}
