//! Shares memory and a wake-up descriptor with another process (memfd_create(2), `SCM_RIGHTS` of
//! unix(7)).

use core::mem::{MaybeUninit, zeroed};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use tautline_proto::time::LocalTime;

use crate::control::Waiter;
use crate::socket::descriptor::poll;
use crate::system::{checked, owned};
use crate::thread::halt::EventDescriptor;
use crate::thread::realtime::permit;

const DESCRIPTORS: usize = 2;
/// Seals that fix the length. Pages can still be released (`PUNCH_HOLE`); a write seal would forbid
/// all writes.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

pub(super) fn unnamed() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string, used only for display; the descriptor is new.
    unsafe { owned(libc::memfd_create(c"taut-program".as_ptr(), flags)) }
}

/// Fixes the length, which mapping processes rely on.
pub(super) fn seal(memory: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no pointers, and the descriptor is open while borrowed.
    checked(unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, SEALS) }).map(drop)
}

pub(super) fn is_sealed(memory: BorrowedFd<'_>) -> bool {
    // SAFETY: the call takes no pointers, and the descriptor is open while borrowed.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

#[repr(C, align(8))]
struct RightsRoom([MaybeUninit<u8>; 64]);

pub(super) fn emit(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: Option<[BorrowedFd<'_>; DESCRIPTORS]>,
) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut ancillary = RightsRoom([MaybeUninit::zeroed(); 64]);
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    if let Some(descriptors) = descriptors {
        let length = (DESCRIPTORS * size_of::<libc::c_int>()) as u32;
        message.msg_control = (&raw mut ancillary).cast();
        // SAFETY: header and two descriptors take 24 of the 64 bytes of `ancillary`, which is
        // aligned for the header.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(length) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(length) as _;
            let place = libc::CMSG_DATA(header).cast::<libc::c_int>();
            for (at, descriptor) in descriptors.iter().enumerate() {
                place.add(at).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: a complete message whose parts outlive the call.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, flags) };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

pub(super) fn handle(
    stream: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<[OwnedFd; DESCRIPTORS]>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut ancillary = RightsRoom([MaybeUninit::zeroed(); 64]);
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut ancillary).cast();
    message.msg_controllen = size_of::<RightsRoom>() as _;
    let flags = libc::MSG_CMSG_CLOEXEC;
    // SAFETY: a complete message whose parts are writable and outlive the call.
    let received = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, flags) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let mut arrived = Vec::new();
    // SAFETY: the kernel wrote complete headers; each `SCM_RIGHTS` descriptor is new, and has no
    // other owner.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as _);
                let place = libc::CMSG_DATA(header).cast::<libc::c_int>();
                for at in 0..bytes / size_of::<libc::c_int>() {
                    arrived.push(OwnedFd::from_raw_fd(place.add(at).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((received, arrived.try_into().ok()))
}

pub(super) fn has_hung_up(stream: &UnixStream) -> bool {
    let mut one = [libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 }];
    poll(&mut one, LocalTime::ZERO)
        && one[0].revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// The program's wake-up: an epoll descriptor that watches the device's event descriptor.
///
/// The program does not get the event descriptor: its file flags would be shared (fcntl(2)), so a
/// program could make it blocking and stall the device.
#[derive(Debug)]
pub struct WakeSign(OwnedFd);

impl AsFd for WakeSign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(super) fn wake_pair() -> io::Result<(EventDescriptor, Waiter)> {
    let (event, sign) = (EventDescriptor::new()?, Waiter::new()?);
    // Edge-triggered: every signal counts, although never read.
    let events = libc::EPOLLIN | libc::EPOLLET;
    sign.change(libc::EPOLL_CTL_ADD, &event, events, 0)?;
    Ok((event, sign))
}

impl WakeSign {
    pub(super) const fn handed(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Makes it unreadable until the next signal.
    pub fn silence(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let _permit = permit("the call does not wait for what has not rung");
        // SAFETY: the array holds one event.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, 0) };
    }
}
