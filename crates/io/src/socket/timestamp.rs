//! Kernel timestamps, converted to the monotonic clock.
//!
//! The offset of `CLOCK_REALTIME` is constant except for steps. Readings narrow it, until a step
//! makes one disagree.
//!
//! `SO_TIMESTAMPING` excludes `SO_TIMESTAMPNS`: the kernel would answer under the other's name
//! (`Documentation/networking/timestamping.rst`, §1.4).

use std::io;

use tautline_proto::time::{LocalTime, Span};

use crate::clock::{BRACKETS, Bracket, nanos_of};
use crate::socket::descriptor::Socket;

/// Maximum age of the offset. A step invalidates at most these timestamps.
const REFRESH_AFTER: Span = Span::from_millis(10);
/// How long queues may hold timestamps from before a step.
const STEP_MEMORY: Span = Span::from_secs(1);
/// Error of a constant offset by rounding, in nanoseconds.
const ROUNDING: i64 = 2;
/// Maximum lead of a timestamp. Those further ahead do not fit the mapping.
const FUTURE: Span = Span::from_millis(1);
/// Maximum age of a timestamp. Older timestamps are not arrivals: some kernels give looped-back
/// multicast its launch time.
const PAST: Span = Span::from_secs(10);

pub(crate) fn enable(socket: &Socket) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    socket.set_plain(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

pub(crate) fn restart_numbers(socket: &Socket) -> io::Result<()> {
    let without = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    socket.set_plain(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &without)?;
    enable(socket)
}

/// Maps `CLOCK_REALTIME` to [`LocalTime`].
#[derive(Debug, Clone)]
pub(crate) struct StampClock {
    offset: Bracket,
    learned: LocalTime,
    step: Option<ClockStep>,
}

#[derive(Debug, Clone, Copy)]
struct ClockStep {
    before: Bracket,
    from: LocalTime,
    until: LocalTime,
}

impl StampClock {
    pub(crate) fn new(now: LocalTime) -> Self {
        Self::starting_with(Bracket::tightest(BRACKETS), now)
    }

    const fn starting_with(offset: Bracket, learned: LocalTime) -> Self {
        Self { offset, learned, step: None }
    }

    pub(crate) fn refresh(&mut self, now: LocalTime) {
        if now - self.learned >= REFRESH_AFTER {
            self.learn(Bracket::tightest(1), now);
        }
    }

    /// Maps `stamp` (`CLOCK_REALTIME`, ns) read at `read`, with its uncertainty; `None` if
    /// implausible even after a new reading.
    pub(crate) fn localise(&mut self, stamp: i64, read: LocalTime) -> Option<(LocalTime, Span)> {
        let found = self.map(stamp, read).or_else(|| {
            self.learn(Bracket::tightest(BRACKETS), crate::clock::now());
            self.map(stamp, read)
        });
        found.map(|(at, uncertainty)| (at.min(read), uncertainty))
    }

    fn learn(&mut self, reading: Bracket, now: LocalTime) {
        let minimum = self.offset.minimum.max(reading.minimum - ROUNDING);
        let maximum = self.offset.maximum.min(reading.maximum + ROUNDING);
        if minimum <= maximum {
            self.offset = Bracket { minimum, maximum };
            if self.step.is_some_and(|step| now - step.until > STEP_MEMORY) {
                self.step = None;
            }
        } else {
            self.step = Some(ClockStep { before: self.offset, from: self.learned, until: now });
            self.offset = reading;
        }
        self.learned = now;
    }

    fn map(&self, stamp: i64, read: LocalTime) -> Option<(LocalTime, Span)> {
        let by = |offset: &Bracket| LocalTime::from_nanos(stamp - offset.offset().as_nanos());
        let after = by(&self.offset);
        let uncertainty = self.offset.uncertainty();
        let sensible = |at: LocalTime| at <= read + FUTURE && at >= read - PAST;
        let Some(step) = &self.step else {
            return sensible(after).then_some((after, uncertainty));
        };
        let before = by(&step.before);
        let may_be_after = sensible(after) && after >= step.from;
        let may_be_before =
            sensible(before) && before <= step.until && before >= step.from - STEP_MEMORY;
        match (may_be_before, may_be_after) {
            (false, true) => Some((after, uncertainty)),
            (true, false) => Some((before, step.before.uncertainty())),
            (true, true) => Some((after, (after - before).abs() + uncertainty)),
            (false, false) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ancillary {
    pub(crate) stamp: Option<i64>,
    pub(crate) overflow: Option<u32>,
    /// Number of the sent datagram (`SOF_TIMESTAMPING_OPT_ID`).
    pub(crate) transmit_id: Option<u32>,
    pub(crate) dropped_by_queue: Option<u64>,
    pub(crate) interface: u32,
}

/// Capacity in 8-byte words: timestamp, overflow count, interface, extended error with IPv6
/// address.
pub(crate) const CONTROL_WORDS: usize = 24;

/// `SO_EE_ORIGIN_TXTIME` (linux/errqueue.h).
const ORIGIN_LAUNCH: u8 = 6;
/// `PACKET_TX_TIMESTAMP` (linux/if_packet.h).
pub(crate) const PACKET_TX_TIMESTAMP: libc::c_int = 16;

/// # Safety
/// `recvmsg` or `recvmmsg` has filled `header`; its control buffer is still alive.
pub(crate) unsafe fn ancillary(header: &libc::msghdr) -> Ancillary {
    let mut reported = Ancillary::default();
    // SAFETY: the caller guarantees that the header describes a live control buffer.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: the macros return only headers that lie wholly in the control buffer, and the
        // kernel writes each with its data.
        unsafe {
            read_control(&mut reported, &*control, libc::CMSG_DATA(control));
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    reported
}

/// # Safety
/// `data` points to the data that `control` describes.
unsafe fn read_control(reported: &mut Ancillary, control: &libc::cmsghdr, data: *const u8) {
    // SAFETY: each type is read only under the kernel's level and type, if the given length holds
    // it; unaligned reads.
    unsafe {
        let holds = |len: usize| control.cmsg_len >= libc::CMSG_LEN(len as u32) as usize;
        match (control.cmsg_level, control.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) if holds(size_of::<libc::timespec>()) => {
                let stamp = nanos_of(&data.cast::<libc::timespec>().read_unaligned());
                reported.stamp = (stamp != 0).then_some(stamp);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if holds(size_of::<u32>()) => {
                reported.overflow = Some(data.cast::<u32>().read_unaligned());
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if holds(size_of::<libc::in_pktinfo>()) => {
                let index = data.cast::<libc::in_pktinfo>().read_unaligned().ipi_ifindex;
                reported.interface = index.unsigned_abs();
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if holds(size_of::<libc::in6_pktinfo>()) => {
                reported.interface = data.cast::<libc::in6_pktinfo>().read_unaligned().ipi6_ifindex;
            }
            (libc::SOL_IP, libc::IP_RECVERR)
            | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP)
                if holds(size_of::<libc::sock_extended_err>()) =>
            {
                let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                match error.ee_origin {
                    libc::SO_EE_ORIGIN_TIMESTAMPING => reported.transmit_id = Some(error.ee_data),
                    ORIGIN_LAUNCH => {
                        reported.dropped_by_queue =
                            Some(u64::from(error.ee_data) << 32 | u64::from(error.ee_info));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const fn at(nanos: i64) -> LocalTime {
        LocalTime::from_nanos(nanos)
    }
    const fn around(offset: i64, half: i64) -> Bracket {
        Bracket { minimum: offset - half, maximum: offset + half }
    }
    const HOUR: i64 = 3_600_000_000_000;
    const EPOCH: i64 = 1_700_000_000_000_000_000;

    #[test]
    fn every_reading_narrows_the_uncertainty() {
        let mut clock = StampClock::starting_with(around(EPOCH, 500), at(0));
        assert_eq!(clock.map(EPOCH + 7, at(100)), Some((at(7), Span::from_nanos(500))));
        clock.learn(around(EPOCH + 480, 100), at(10));
        let (_, uncertainty) = clock.map(EPOCH, at(1_000)).unwrap();
        assert!(uncertainty <= Span::from_nanos(65), "{uncertainty}");
    }

    #[test]
    fn a_step_of_an_hour_either_way_moves_no_arrival() {
        for step in [HOUR, -HOUR] {
            let mut clock = StampClock::starting_with(around(EPOCH, 20), at(2_000_000_000));
            clock.learn(around(EPOCH + step, 20), at(2_010_000_000));
            let old = clock.map(EPOCH + 2_003_000_000, at(2_010_000_000));
            let new = clock.map(EPOCH + step + 2_008_000_000, at(2_010_000_000));
            assert_eq!(old, Some((at(2_003_000_000), Span::from_nanos(20))));
            assert_eq!(new, Some((at(2_008_000_000), Span::from_nanos(20))));
        }
    }

    #[test]
    fn small_step_raises_the_uncertainty() {
        let mut clock = StampClock::starting_with(around(EPOCH, 20), at(2_000_000_000));
        clock.learn(around(EPOCH - 500_000, 20), at(2_010_000_000));
        let (_, uncertainty) = clock.map(EPOCH + 2_005_000_000, at(2_010_000_000)).unwrap();
        assert_eq!(uncertainty, Span::from_nanos(500_020));
    }

    #[test]
    fn after_a_small_step_new_stamps_are_certain_again() {
        let mut clock = StampClock::starting_with(around(EPOCH, 20), at(2_000_000_000));
        clock.learn(around(EPOCH + 50_000_000, 20), at(2_010_000_000));
        let taken = 2_030_000_000;
        let mapped = clock.map(EPOCH + 50_000_000 + taken, at(2_110_000_000));
        assert_eq!(mapped, Some((at(taken), Span::from_nanos(20))));
    }

    #[test]
    fn a_stamp_from_the_future_is_no_stamp() {
        let clock = StampClock::starting_with(around(EPOCH, 20), at(0));
        assert_eq!(clock.map(EPOCH + HOUR, at(1_000)), None);
    }

    #[test]
    fn a_step_is_forgotten_when_no_queue_can_remember_it() {
        let mut clock = StampClock::starting_with(around(EPOCH, 20), at(0));
        clock.learn(around(EPOCH + HOUR, 20), at(10_000_000));
        clock.learn(around(EPOCH + HOUR, 20), at(3_000_000_000));
        assert!(clock.step.is_none());
    }

    pub(crate) fn reported(
        level: libc::c_int,
        kind: libc::c_int,
        error: libc::sock_extended_err,
    ) -> Ancillary {
        let mut control = [0u64; CONTROL_WORDS];
        // SAFETY: a zeroed msghdr is valid; the buffer is aligned, holds an extended error, and
        // lives as long.
        unsafe {
            let mut header: libc::msghdr = core::mem::zeroed();
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen =
                libc::CMSG_SPACE(size_of::<libc::sock_extended_err>() as u32) as usize;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len =
                libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) as usize;
            libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().write_unaligned(error);
            ancillary(&header)
        }
    }

    pub(crate) const fn dropped(launch: u64, ee_code: u8, errno: i32) -> libc::sock_extended_err {
        libc::sock_extended_err {
            ee_errno: errno.unsigned_abs(),
            ee_origin: ORIGIN_LAUNCH,
            ee_type: 0,
            ee_code,
            ee_pad: 0,
            ee_info: launch as u32,
            ee_data: (launch >> 32) as u32,
        }
    }

    #[test]
    fn drop_report_has_the_full_launch_time_on_all_sockets() {
        const LAUNCH: u64 = 1_700_000_037_123_456_789;
        /// `SO_EE_CODE_TXTIME_INVALID_PARAM` and `_MISSED` (linux/errqueue.h), with `errno`
        /// (net/sched/sch_etf.c).
        const CODES: [(u8, libc::c_int); 2] = [(1, libc::EINVAL), (2, libc::ECANCELED)];
        let kinds = [
            (libc::SOL_IP, libc::IP_RECVERR),
            (libc::SOL_IPV6, libc::IPV6_RECVERR),
            (libc::SOL_PACKET, PACKET_TX_TIMESTAMP),
        ];
        for (level, kind) in kinds {
            for (ee_code, errno) in CODES {
                let dropped = dropped(LAUNCH, ee_code, errno);
                let expected = Ancillary { dropped_by_queue: Some(LAUNCH), ..Ancillary::default() };
                assert_eq!(reported(level, kind, dropped), expected, "{level} {ee_code}");
                let stamp = libc::sock_extended_err {
                    ee_errno: libc::ENOMSG.unsigned_abs(),
                    ee_origin: libc::SO_EE_ORIGIN_TIMESTAMPING,
                    ..dropped
                };
                let expected =
                    Ancillary { transmit_id: Some(stamp.ee_data), ..Ancillary::default() };
                assert_eq!(reported(level, kind, stamp), expected, "{level} {ee_code}");
                let icmp =
                    libc::sock_extended_err { ee_origin: libc::SO_EE_ORIGIN_ICMP, ..dropped };
                assert_eq!(reported(level, kind, icmp), Ancillary::default(), "{level} {ee_code}");
            }
        }
    }
}
