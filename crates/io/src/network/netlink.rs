//! Netlink requests and answers (netlink(7), rtnetlink(7)).

use std::io;
use std::os::fd::AsRawFd;

use crate::system::owned;

/// `struct nlmsghdr`: length, type, flags, sequence, sender.
pub(crate) const HEADER: usize = 16;

pub(crate) fn request(
    kind: u16,
    flags: libc::c_int,
    body: &[u8],
    mut take: impl FnMut(&[u8]) -> io::Result<bool>,
) -> io::Result<()> {
    let socket_kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointers, and the descriptor is new.
    let socket =
        unsafe { owned(libc::socket(libc::AF_NETLINK, socket_kind, libc::NETLINK_ROUTE)) }?;
    let mut question = Vec::with_capacity(HEADER + body.len());
    question.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    question.extend(kind.to_ne_bytes());
    question.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    question.extend([0; 8]);
    question.extend(body);
    // SAFETY: start and length of a live vector.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), question.as_ptr().cast(), question.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = vec![0_u8; 64 << 10];
    loop {
        // SAFETY: start and length of a live vector, borrowed uniquely.
        let len =
            unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
        if len == 0 || take(&answer[..len])? {
            return Ok(());
        }
    }
}

/// Passes each message's kind and body to `take`; `true` after the last. Skips malformed messages.
pub(crate) fn each(mut answer: &[u8], mut take: impl FnMut(u16, &[u8])) -> io::Result<bool> {
    while let Some(length) = number(answer, 0).map(|length| length as usize) {
        let Some(message) = answer.get(..length).filter(|message| message.len() >= HEADER) else {
            break;
        };
        match half(message, 4) {
            Some(kind) if i32::from(kind) == libc::NLMSG_DONE => return Ok(true),
            Some(kind) if i32::from(kind) == libc::NLMSG_ERROR => {
                let errno = number(message, HEADER).map_or(0, u32::cast_signed);
                return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
            }
            Some(kind) => take(kind, &message[HEADER..]),
            None => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

pub(crate) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (usize::from(half(attributes, 0)?), half(attributes, 2)?);
        if kind == wanted {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.next_multiple_of(4).max(4)..)?;
    }
}

pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
