//! What leaves by a connection: frames, none of which is ever cut short.

use rtrb::{Consumer, Producer};
use tautline_proto::wire::framed::{LENGTH_BYTES, length};

use super::waiting::WaitingFrames;
use crate::socket::descriptor::Socket;
use crate::system::errno;
use crate::thread::memory;
use crate::thread::realtime::permit;

/// Frames that one system call sends at most.
const AT_ONCE: usize = 16;
/// The longest report: what fits an Ethernet frame.
pub(super) const REPORT_BYTES: usize = 1500;
/// Reports that wait to be sent.
const REPORTS: usize = 8;

/// Null packets (RFC 4571): a segment that a receiver acknowledges at once, as it does one that is longer than the 536
/// bytes that it takes for whole at first (RFC 9293).
const NULL_PACKETS: [u8; 300 * LENGTH_BYTES] = [0; 300 * LENGTH_BYTES];

/// One report on its way to whoever writes.
#[derive(Clone, Copy)]
pub(super) struct QueuedReport {
    len: usize,
    bytes: [u8; REPORT_BYTES],
}

impl QueuedReport {
    /// `None` if it is too long.
    pub(super) fn of(report: &[u8]) -> Option<Self> {
        let mut bytes = [0; REPORT_BYTES];
        bytes.get_mut(..report.len())?.copy_from_slice(report);
        Some(Self { len: report.len(), bytes })
    }
}

/// What has begun to leave, and the reports that are to.
pub(super) struct Outflow {
    /// The rest of a frame of which the kernel took a part.
    rest: Box<[u8]>,
    from: usize,
    until: usize,
    reports: [Consumer<QueuedReport>; 2],
}

/// What became of what was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendProgress {
    /// All of it was taken.
    All,
    /// The connection takes no more just now.
    Some,
}

impl Outflow {
    /// For datagrams of so many bytes; and where reports are put.
    pub(super) fn new(datagram_bytes: usize) -> (Self, [Producer<QueuedReport>; 2]) {
        let ((one_in, one), (other_in, other)) = (memory::ring(REPORTS), memory::ring(REPORTS));
        let longest = LENGTH_BYTES + datagram_bytes.max(REPORT_BYTES);
        let mut rest = vec![0; longest].into_boxed_slice();
        memory::prefault(&mut rest);
        (Self { rest, from: 0, until: 0, reports: [one, other] }, [one_in, other_in])
    }

    /// Ends the frame that has begun, and sends the reports that wait; the `errno` if the connection is lost.
    pub(super) fn settle(&mut self, socket: &Socket) -> Result<SendProgress, i32> {
        while self.from < self.until {
            match send(socket, &[&self.rest[self.from..self.until]])? {
                None => return Ok(SendProgress::Some),
                Some(count) => self.from += count,
            }
        }
        for index in 0..self.reports.len() {
            while let Ok(&QueuedReport { len, bytes }) = self.reports[index].peek() {
                let frame = &bytes[..len];
                let Some(length) = length(frame) else {
                    let _ = self.reports[index].pop();
                    continue;
                };
                let Some(count) = send(socket, &[&length, frame])? else {
                    return Ok(SendProgress::Some);
                };
                // The slot that was peeked at; only whoever has the outflow takes any.
                let _ = self.reports[index].pop();
                if !self.keep_rest(&length, frame, count) {
                    return Ok(SendProgress::Some);
                }
            }
        }
        Ok(SendProgress::All)
    }

    /// Sends the datagrams that wait, as many as the connection takes, after all that was to leave before; how many.
    pub(super) fn send(
        &mut self,
        socket: &Socket,
        waiting: &mut WaitingFrames,
    ) -> Result<u64, i32> {
        let mut sent = 0;
        while waiting.len() > 0 && self.settle(socket)? == SendProgress::All {
            let mut lengths = [[0; LENGTH_BYTES]; AT_ONCE];
            let mut count = 0;
            for (ahead, place) in lengths.iter_mut().enumerate() {
                let Some(length) = waiting.get(ahead).and_then(length) else { break };
                (*place, count) = (length, ahead + 1);
            }
            if count == 0 {
                // Nothing that a length can say: none such is queued.
                waiting.pop();
                continue;
            }
            let mut parts: [&[u8]; 2 * AT_ONCE] = [&[]; 2 * AT_ONCE];
            for (ahead, pair) in parts.chunks_exact_mut(2).take(count).enumerate() {
                let frame = waiting.get(ahead).unwrap_or_default();
                pair.copy_from_slice(&[&lengths[ahead], frame]);
            }
            let Some(mut taken) = send(socket, &parts[..2 * count])? else { break };
            for length in &lengths[..count] {
                if taken == 0 {
                    break;
                }
                let frame = waiting.get(0).unwrap_or_default();
                let whole = LENGTH_BYTES + frame.len();
                self.keep_rest(length, frame, taken.min(whole));
                taken -= taken.min(whole);
                waiting.pop();
                sent += 1;
            }
        }
        Ok(sent)
    }

    /// Sends so many segments of null packets, as far as the connection takes them.
    pub(super) fn fill(&mut self, socket: &Socket, segments: u32) -> Result<(), i32> {
        for _ in 0..segments {
            if self.settle(socket)? == SendProgress::Some {
                return Ok(());
            }
            let Some(count) = send(socket, &[&NULL_PACKETS])? else { return Ok(()) };
            self.keep_rest(&[], &NULL_PACKETS, count);
        }
        Ok(())
    }

    /// Keeps what follows the first `count` bytes of a frame; whether there is nothing.
    fn keep_rest(&mut self, length: &[u8], frame: &[u8], count: usize) -> bool {
        let whole = length.len() + frame.len();
        (self.from, self.until) = (count, whole);
        if count < whole {
            self.rest[..length.len()].copy_from_slice(length);
            self.rest[length.len()..whole].copy_from_slice(frame);
        }
        count >= whole
    }
}

/// Sends these bytes one behind the other: how many were taken, `None` where there is no room, or the `errno`.
fn send(socket: &Socket, parts: &[&[u8]]) -> Result<Option<usize>, i32> {
    let mut vectors = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; 2 * AT_ONCE];
    for (vector, part) in vectors.iter_mut().zip(parts) {
        *vector = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
    }
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vectors.as_mut_ptr(), parts.len().min(vectors.len()));
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    loop {
        let taken = {
            let _permit = permit("MSG_DONTWAIT: the call does not wait");
            // SAFETY: the vectors lead to borrowed bytes, which the kernel only reads.
            unsafe { libc::sendmsg(socket.fd(), &raw const message, flags) }
        };
        if taken >= 0 {
            return Ok(Some(taken.unsigned_abs()));
        }
        match errno() {
            libc::EINTR => {}
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => return Ok(None),
            errno => return Err(errno),
        }
    }
}
