//! The memory that a tap shares with the kernel: blocks, of which each is the kernel's until it hands it
//! over, and its again once it was read.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;

use tautline_proto::time::Span;

use crate::socket::descriptor::Socket;
use crate::system::checked;

/// Of a block: a multiple of every page size, and room for a thousand frames cut short.
const BLOCK: usize = 1 << 18;
/// What the kernel wants to be told and, with blocks, does not go by.
const FRAME: u32 = 2048;
/// Where the kernel says whose a block is.
const STATUS: usize = core::mem::offset_of!(libc::tpacket_block_desc, hdr)
    + core::mem::offset_of!(libc::tpacket_hdr_v1, block_status);

pub(super) struct TapRing {
    start: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the memory is this value's alone, and the kernel's, whichever thread has it.
unsafe impl Send for TapRing {}

impl TapRing {
    /// Of so many bytes at least.
    pub(super) fn of(socket: &Socket, room: usize, retires: Span) -> io::Result<Self> {
        let blocks = room.div_ceil(BLOCK).max(2);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME,
            tp_frame_nr: blocks as u32 * (BLOCK as u32 / FRAME),
            tp_retire_blk_tov: (retires.as_nanos() / 1_000_000) as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set_plain(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping of what the kernel has just laid out for this socket.
        let start = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(found) if start != libc::MAP_FAILED => Ok(Self { start: found, blocks, next: 0 }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Hands the next block that is full to `read`, and gives it back to the kernel; false if none is.
    pub(super) fn take(&mut self, read: &mut dyn FnMut(&[u8])) -> bool {
        // SAFETY: `next` is below the number of blocks; the status is aligned to its size, as blocks are
        // to pages, and is only read and written as an atomic.
        let (block, status) = unsafe {
            let block = self.start.add(self.next * BLOCK);
            (block, AtomicU32::from_ptr(block.add(STATUS).as_ptr().cast()))
        };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: a block that was handed over is not written until it is given back, below.
        read(unsafe { core::slice::from_raw_parts(block.as_ptr(), BLOCK) });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }
}

impl Drop for TapRing {
    fn drop(&mut self) {
        // SAFETY: the very mapping that was made, into which nothing leads any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// What the kernel counted of this socket since it was asked last.
pub(super) fn statistics(socket: &Socket) -> io::Result<libc::tpacket_stats_v3> {
    let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
    // SAFETY: `counts` has the `length` bytes that the call may write.
    checked(unsafe {
        libc::getsockopt(
            socket.fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut length,
        )
    })?;
    Ok(counts)
}
