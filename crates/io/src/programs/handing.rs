//! Memory that is made for another process, and handed over with what wakes it (memfd_create(2), `SCM_RIGHTS` of unix(7)).

use core::mem::{MaybeUninit, zeroed};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::system::checked;

/// What is handed over at once: memory, and what wakes.
const DESCRIPTORS: usize = 2;
/// Longer or shorter it cannot be made. Pages of it can still be given back (`PUNCH_HOLE`): they are zeros then, and the
/// next to touch one takes a page fault. A seal against writing would forbid that, and the program's own writing, too.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Memory without a name, of no length yet, which can be [sealed](seal).
pub(super) fn unnamed() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a name that ends, which is for people alone.
    let fd = checked(unsafe { libc::memfd_create(c"taut-program".as_ptr(), flags) })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// From now on it is as long as it is: who has it mapped can rely on that, whoever else has it.
pub(super) fn seal(memory: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers; the descriptor is open as long as it is borrowed.
    checked(unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, SEALS) }).map(drop)
}

/// Whether it was sealed.
pub(super) fn is_sealed(memory: BorrowedFd<'_>) -> bool {
    // SAFETY: no pointers; the descriptor is open as long as it is borrowed.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

/// Room for what describes the descriptors, aligned as the kernel wants it.
#[repr(C, align(8))]
struct RightsRoom([MaybeUninit<u8>; 64]);

impl RightsRoom {
    const fn new() -> Self {
        Self([MaybeUninit::zeroed(); 64])
    }
}

/// Says these bytes, with these descriptors; does not wait.
pub(super) fn say(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: Option<[BorrowedFd<'_>; DESCRIPTORS]>,
) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut ancillary = RightsRoom::new();
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    if let Some(descriptors) = descriptors {
        let length = (DESCRIPTORS * size_of::<libc::c_int>()) as u32;
        message.msg_control = (&raw mut ancillary).cast();
        // SAFETY: these two compute, from a length; what is written lies within the 64 bytes of `ancillary`, as a
        // header and two descriptors take 24 of them, and it is aligned for the header.
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
    // SAFETY: a whole message whose parts outlive the call.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, flags) };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Hears what is said next, as long as the stream waits for it: how many bytes, and the descriptors that came with them.
pub(super) fn hear(
    stream: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<[OwnedFd; DESCRIPTORS]>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut ancillary = RightsRoom::new();
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut ancillary).cast();
    message.msg_controllen = size_of::<RightsRoom>() as _;
    let flags = libc::MSG_CMSG_CLOEXEC;
    // SAFETY: a whole message whose parts are writable and outlive the call.
    let heard = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, flags) };
    let heard = usize::try_from(heard).map_err(|_| io::Error::last_os_error())?;
    let mut came = Vec::new();
    // SAFETY: the kernel filled in whole headers, within the length that it wrote; each descriptor behind one of
    // `SCM_RIGHTS` is new, and nobody else's.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as _);
                let place = libc::CMSG_DATA(header).cast::<libc::c_int>();
                for at in 0..bytes / size_of::<libc::c_int>() {
                    came.push(OwnedFd::from_raw_fd(place.add(at).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((heard, came.try_into().ok()))
}

/// Whether who is at the other end has closed it, or is no more.
pub(super) fn has_hung_up(stream: &UnixStream) -> bool {
    let events = libc::POLLRDHUP;
    let mut one = libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 };
    // SAFETY: one valid pollfd; it does not wait.
    let answer = unsafe { libc::poll(&raw mut one, 1, 0) };
    answer > 0 && one.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}
