//! Sends frames; always completes a begun one.

use rtrb::{Consumer, Producer};
use tautline_proto::time::LocalTime;
use tautline_proto::wire::framed::{LENGTH_BYTES, length};

use crate::socket::descriptor::Socket;
use crate::system::errno;
use crate::thread::memory::{self, prefault};
use crate::thread::realtime::permit;

const AT_ONCE: usize = 16;
pub(super) const REPORT_BYTES: usize = 1500;
const REPORTS: usize = 8;

/// Null packets (RFC 4571). Over 536 bytes are acknowledged immediately (RFC 9293).
const NULL_PACKETS: [u8; 300 * LENGTH_BYTES] = [0; 300 * LENGTH_BYTES];

#[derive(Clone, Copy)]
pub(super) struct QueuedReport {
    len: usize,
    bytes: [u8; REPORT_BYTES],
}

impl QueuedReport {
    pub(super) fn of(report: &[u8]) -> Option<Self> {
        let mut bytes = [0; REPORT_BYTES];
        bytes.get_mut(..report.len())?.copy_from_slice(report);
        Some(Self { len: report.len(), bytes })
    }
}

pub(super) struct Outflow {
    rest: Box<[u8]>,
    from: usize,
    until: usize,
    reports: [Consumer<QueuedReport>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendProgress {
    All,
    Some,
}

impl Outflow {
    pub(super) fn new(datagram_bytes: usize) -> (Self, [Producer<QueuedReport>; 2]) {
        let ((one_in, one), (other_in, other)) = (memory::ring(REPORTS), memory::ring(REPORTS));
        let longest = LENGTH_BYTES + datagram_bytes.max(REPORT_BYTES);
        let mut rest = vec![0; longest].into_boxed_slice();
        memory::prefault(&mut rest);
        (Self { rest, from: 0, until: 0, reports: [one, other] }, [one_in, other_in])
    }

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
                let _ = self.reports[index].pop();
                if !self.keep_rest(&length, frame, count) {
                    return Ok(SendProgress::Some);
                }
            }
        }
        Ok(SendProgress::All)
    }

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

/// Returns the number of bytes accepted, `None` without room, or the `errno`.
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
            // SAFETY: the vectors point to borrowed bytes, which the kernel only reads.
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

pub(super) struct WaitingFrames {
    bytes: Box<[u8]>,
    slots: Box<[(usize, LocalTime)]>,
    slot_bytes: usize,
    first: usize,
    count: usize,
}

impl WaitingFrames {
    pub(super) fn new(slots: usize, slot_bytes: usize) -> Self {
        let slots = slots.max(1);
        let mut bytes = vec![0; slots * slot_bytes].into_boxed_slice();
        prefault(&mut bytes);
        let slots = vec![(0, LocalTime::ZERO); slots].into_boxed_slice();
        Self { bytes, slots, slot_bytes, first: 0, count: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, datagram: &[u8], since: LocalTime) -> u64 {
        let dropped = self.count == self.slots.len();
        if dropped {
            self.pop();
        }
        let slot = (self.first + self.count) % self.slots.len();
        let len = datagram.len().min(self.slot_bytes);
        self.bytes[slot * self.slot_bytes..][..len].copy_from_slice(&datagram[..len]);
        self.slots[slot] = (len, since);
        self.count += 1;
        u64::from(dropped)
    }

    pub(super) fn get(&self, ahead: usize) -> Option<&[u8]> {
        if ahead >= self.count {
            return None;
        }
        let slot = (self.first + ahead) % self.slots.len();
        Some(&self.bytes[slot * self.slot_bytes..][..self.slots[slot].0])
    }

    pub(super) fn pop(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) % self.slots.len();
            self.count -= 1;
        }
    }

    pub(super) fn drop_before(&mut self, instant: LocalTime) -> u64 {
        let before = self.count;
        while self.count > 0 && self.slots[self.first].1 < instant {
            self.pop();
        }
        (before - self.count) as u64
    }

    pub(super) fn clear(&mut self) -> u64 {
        core::mem::take(&mut self.count) as u64
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::Span;

    use super::*;

    #[test]
    fn oldest_frames_are_dropped_first() {
        let at = |n: u8| LocalTime::ZERO + Span::from_millis(n.into());
        let mut waiting = WaitingFrames::new(3, 4);
        let dropped: u64 = (0..5).map(|n| waiting.push(&[n; 2], at(n))).sum();
        assert_eq!((dropped, waiting.len()), (2, 3));
        let all: Vec<_> = (0..4).filter_map(|n| waiting.get(n)).collect();
        assert_eq!(all, [[2; 2], [3; 2], [4; 2]]);
        assert_eq!(waiting.drop_before(at(4)), 2);
        assert_eq!((waiting.get(0), waiting.get(1)), (Some(&[4, 4][..]), None));
        waiting.pop();
        assert_eq!((waiting.clear(), waiting.get(0)), (0, None));
    }
}
