//! A UDP socket as the kernel knows it, with its options in Rust's types.

use core::mem::MaybeUninit;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tautline_proto::time::Span;

use crate::socket::address::{RawAddress, STORAGE_LEN, decode};
use crate::socket::forks;
use crate::system::checked;

/// A non-blocking datagram socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// What may be given to and read from `setsockopt` byte by byte: plain C structures.
///
/// # Safety
/// All zeros are a valid value.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: every value of an integer may be read and written, 0 among them.
unsafe impl Plain for u8 {}
// SAFETY: every value of an integer may be read and written, 0 among them.
unsafe impl Plain for u64 {}
// SAFETY: every value of an integer may be read and written, 0 among them.
unsafe impl Plain for libc::c_int {}
// SAFETY: every value of an integer may be read and written, 0 among them.
unsafe impl Plain for u32 {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::ip_mreqn {}
// SAFETY: a C structure of integers and an address, which is integers.
unsafe impl Plain for libc::group_req {}
// SAFETY: a C structure of integers and addresses, which are integers.
unsafe impl Plain for libc::group_source_req {}
// SAFETY: a C structure of a raw pointer, which may be null, and a length.
unsafe impl Plain for libc::iovec {}
// SAFETY: a C structure of integers and raw pointers, which may be null.
unsafe impl Plain for libc::mmsghdr {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::timeval {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::sockaddr_storage {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: a C structure of a length and a raw pointer, which may be null.
unsafe impl Plain for libc::sock_fprog {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::sock_txtime {}
// SAFETY: a C structure of integers.
unsafe impl Plain for libc::tcp_info {}

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
    /// A socket of the family that `address` belongs to. IPv6 sockets carry IPv6 alone at first, so that
    /// sources are never IPv4 addresses in disguise.
    pub(crate) fn for_family_of(address: &SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let socket = Self::of(family, libc::SOCK_DGRAM)?;
        if address.is_ipv6() {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        Ok(socket)
    }

    /// A socket that only asks the kernel about interfaces.
    pub(crate) fn for_questions() -> io::Result<Self> {
        Self::of(libc::AF_INET, libc::SOCK_DGRAM)
    }

    /// A socket for whole frames, to which none comes before it is bound.
    pub(crate) fn for_frames() -> io::Result<Self> {
        Self::of(libc::AF_PACKET, libc::SOCK_RAW)
    }

    /// The same for what is behind the heads of frames, which the kernel writes and takes off.
    pub(crate) fn for_datagrams_of_frames() -> io::Result<Self> {
        Self::of(libc::AF_PACKET, libc::SOCK_DGRAM)
    }

    fn of(family: libc::c_int, kind: libc::c_int) -> io::Result<Self> {
        let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: a descriptor just made, owned by nobody else.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        forks::remember(fd);
        Ok(socket)
    }

    /// Takes over a socket that somebody else opened.
    pub(crate) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let fd = descriptor.as_raw_fd();
        // SAFETY: no pointers; the flags are those that the socket has, and one more.
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

    /// `setsockopt` with a number.
    pub(crate) fn set(&self, level: libc::c_int, name: libc::c_int, value: i32) -> io::Result<()> {
        self.set_plain(level, name, &value)
    }

    /// `setsockopt` with a structure.
    pub(crate) fn set_plain<T: Plain>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: &T,
    ) -> io::Result<()> {
        self.set_bytes(level, name, core::ptr::from_ref(value).cast(), size_of::<T>())
    }

    /// `setsockopt` with text, without its end.
    pub(crate) fn set_text(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        text: &[u8],
    ) -> io::Result<()> {
        self.set_bytes(level, name, text.as_ptr(), text.len())
    }

    fn set_bytes(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        start: *const u8,
        len: usize,
    ) -> io::Result<()> {
        let len = len as libc::socklen_t;
        // SAFETY: both callers pass the start and length of a value that lives through the call.
        checked(unsafe { libc::setsockopt(self.fd(), level, name, start.cast(), len) }).map(drop)
    }

    /// `getsockopt` of a number.
    pub(crate) fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
        self.plain(level, name)
    }

    /// `getsockopt` of a structure; what an older kernel does not know of it is zero.
    pub(crate) fn plain<T: Plain>(&self, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
        let mut value = MaybeUninit::<T>::zeroed();
        let mut len = size_of::<T>() as libc::socklen_t;
        let start = value.as_mut_ptr().cast();
        // SAFETY: `value` has the `len` bytes that the call may write.
        checked(unsafe { libc::getsockopt(self.fd(), level, name, start, &raw mut len) })?;
        // SAFETY: all zeros are a valid value of it, and so is what the call wrote of one of the kernel's.
        Ok(unsafe { value.assume_init() })
    }

    /// From now on calls wait, for `patience` at most.
    pub(crate) fn block(&self, patience: Span) -> io::Result<()> {
        // SAFETY: no pointers; the flags are those that the socket has, less one.
        unsafe {
            let flags = checked(libc::fcntl(self.fd(), libc::F_GETFL))?;
            checked(libc::fcntl(self.fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK))?;
        }
        let micros = (patience.as_nanos() / 1000).max(1);
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
        // SAFETY: zeroed before and an address now.
        decode(unsafe { storage.assume_init_ref() })
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
    }

    pub(crate) fn send_to(&self, datagram: &[u8], destination: SocketAddr) -> io::Result<()> {
        let raw = RawAddress::from(destination);
        let start = (&raw const raw.storage).cast();
        // SAFETY: both pointers with their lengths are of values that live through the call.
        let sent = unsafe {
            libc::sendto(
                self.fd(),
                datagram.as_ptr().cast(),
                datagram.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                start,
                raw.len,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
