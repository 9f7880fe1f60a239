//! Launch times (`SO_TXTIME`, socket(7)): tc-etf(8) in TAI, tc-fq(8) in monotonic time.

use std::io;

use tautline_proto::ledger::Departure;
use tautline_proto::time::{LocalTime, MediaTime, Span};

use crate::clock::{BRACKETS, Bracket};
use crate::socket::descriptor::Fixed;
use crate::socket::descriptor::Socket;
use crate::thread::memory::prefault;

/// Clock of the launch times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchClock {
    /// `CLOCK_TAI`, for ETF. Needs `CAP_NET_ADMIN`.
    Tai,
    /// `CLOCK_MONOTONIC`, for fq.
    Monotonic,
}

/// Launch times of a link's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchOptions {
    /// Clock of the queue.
    pub clock: LaunchClock,
    /// Delay from due time to launch.
    pub lead: Span,
    /// Minimum from hand-over to launch: the queue drops later packets.
    pub minimum: Span,
    /// Lead of the queue's send before launch.
    pub ahead: Span,
}

impl LaunchOptions {
    /// Launch time of a packet due at `due`, handed over at `handed`.
    pub fn launch(&self, due: LocalTime, handed: LocalTime) -> LocalTime {
        (due + self.lead).max(handed + self.minimum)
    }
}

const REFRESH_AFTER: Span = Span::from_millis(10);
pub(crate) fn request(options: LaunchOptions, socket: &Socket) -> io::Result<()> {
    let clockid = match options.clock {
        LaunchClock::Tai => libc::CLOCK_TAI,
        LaunchClock::Monotonic => libc::CLOCK_MONOTONIC,
    };
    // Reports of dropped packets.
    let requested = libc::sock_txtime { clockid, flags: libc::SOF_TXTIME_REPORT_ERRORS };
    socket.set_plain(libc::SOL_SOCKET, libc::SO_TXTIME, &requested)
}

#[derive(Debug)]
pub(crate) struct Launcher {
    options: LaunchOptions,
    tai: Span,
    read: LocalTime,
    launched: Box<[Launched]>,
    next: usize,
}

#[derive(Debug, Clone, Copy)]
struct Launched {
    time: u64,
    media: MediaTime,
    dropped: bool,
}

/// Empty slot. The kernel reports signed times, so never u64::MAX (−1).
const NOTHING: Launched = Launched { time: u64::MAX, media: MediaTime::ZERO, dropped: false };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    Packet(MediaTime),
    Again,
    Unknown,
}

/// Launch times kept to identify drops: 500 ms of class A.
const KEPT: usize = 4096;

impl Launcher {
    pub(crate) fn of(options: LaunchOptions, socket: &Socket, now: LocalTime) -> io::Result<Self> {
        request(options, socket)?;
        let mut launched = vec![NOTHING; KEPT].into_boxed_slice();
        prefault(&mut launched);
        let tai = Bracket::of(libc::CLOCK_TAI, BRACKETS).offset();
        Ok(Self { options, tai, read: now, launched, next: 0 })
    }

    pub(crate) fn launch(&self, due: LocalTime, handed: LocalTime) -> LocalTime {
        self.options.launch(due, handed)
    }

    pub(crate) fn refresh(&mut self, now: LocalTime) {
        if self.options.clock == LaunchClock::Tai && now - self.read >= REFRESH_AFTER {
            (self.tai, self.read) = (kept(self.tai, Bracket::of(libc::CLOCK_TAI, 2)), now);
        }
    }

    pub(crate) fn time(&mut self, packet: &Departure) -> u64 {
        let nanos = self.nanos(packet.launched + self.options.ahead);
        self.launched[self.next] = Launched { time: nanos, media: packet.media, dropped: false };
        self.next = (self.next + 1) % KEPT;
        nanos
    }

    /// Finds the packet dropped with this launch time. Late packets can share one.
    pub(crate) fn dropped(&mut self, nanos: u64) -> Dropped {
        let (newer, older) = self.launched.split_at_mut(self.next);
        let mut found = Dropped::Unknown;
        for packet in newer.iter_mut().rev().chain(older.iter_mut().rev()) {
            if packet.time == nanos {
                if !packet.dropped {
                    packet.dropped = true;
                    return Dropped::Packet(packet.media);
                }
                found = Dropped::Again;
            }
        }
        found
    }

    const fn nanos(&self, at: LocalTime) -> u64 {
        match self.options.clock {
            LaunchClock::Tai => (at.as_nanos() + self.tai.as_nanos()).cast_unsigned(),
            LaunchClock::Monotonic => at.as_nanos().cast_unsigned(),
        }
    }
}

/// TAI − monotonic clock. Both run at the same rate, so an agreeing reading would only add its
/// error.
fn kept(known: Span, reading: Bracket) -> Span {
    let nanos = known.as_nanos();
    if (reading.minimum..=reading.maximum).contains(&nanos) { known } else { reading.offset() }
}

pub(crate) const LAUNCH_WORDS: usize = 3;

pub(crate) fn launch_messages(packets: usize, behind: &[u64]) -> Fixed<u64> {
    let words = LAUNCH_WORDS + behind.len();
    let messages = Fixed::<u64>::zeroed(packets * words);
    for packet in 0..packets {
        // SAFETY: `at` points into the array, aligned for a cmsghdr; three words hold its header
        // and data (CMSG_SPACE(8)).
        unsafe {
            let control = messages.at(packet * words).cast::<libc::cmsghdr>();
            (*control).cmsg_level = libc::SOL_SOCKET;
            (*control).cmsg_type = libc::SCM_TXTIME;
            (*control).cmsg_len = libc::CMSG_LEN(size_of::<u64>() as u32) as usize;
            for (index, word) in behind.iter().enumerate() {
                messages.at(packet * words + LAUNCH_WORDS + index).write(*word);
            }
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_times_follow_clock_steps_not_reading_errors() {
        let nanos = Span::from_nanos;
        let reading = |middle: i64| Bracket { minimum: middle - 50, maximum: middle + 50 };
        assert_eq!(kept(nanos(1000), reading(960)), nanos(1000));
        assert_eq!(kept(nanos(1000), reading(1050)), nanos(1000));
        assert_eq!(kept(nanos(1000), reading(1051)), nanos(1051));
        assert_eq!(kept(nanos(1000), reading(-7)), nanos(-7));
    }

    #[test]
    fn recent_dropped_packet_is_found_by_launch_time() {
        let zero = LocalTime::ZERO;
        let (clock, lead) = (LaunchClock::Tai, Span::from_micros(500));
        let ahead = Span::from_micros(300);
        let mut launcher = Launcher {
            options: LaunchOptions { clock, lead, minimum: Span::ZERO, ahead },
            tai: Span::from_secs(37),
            read: zero,
            launched: vec![NOTHING; KEPT].into_boxed_slice(),
            next: 0,
        };
        let handed = |launcher: &mut Launcher, packet: i64| {
            let media = MediaTime::from_frames(6 * packet);
            let launched = zero + Span::from_micros(125).times(packet);
            let (capture, taken, packed, due, handed) = (zero, zero, zero, zero, zero);
            let instants = Departure { media, capture, taken, packed, due, handed, launched };
            (launcher.time(&instants), media)
        };
        let all = 2 * KEPT as i64 + 100;
        let times: Vec<_> = (0..all).map(|packet| handed(&mut launcher, packet)).collect();
        assert_eq!(times[8].0, 37_000_000_000 + 1_000_000 + 300_000);
        let (gone, kept) = times.split_at(times.len() - KEPT);
        for (time, media) in kept {
            assert_eq!(launcher.dropped(*time), Dropped::Packet(*media));
            assert_eq!(launcher.dropped(*time), Dropped::Again, "as of each destination");
        }
        assert!(gone.iter().all(|(time, _)| launcher.dropped(*time) == Dropped::Unknown));
        launcher.tai = launcher.tai - Span::from_micros(125).times(10);
        let (time, media) = handed(&mut launcher, all);
        assert_eq!(time, times[times.len() - 10].0);
        assert_eq!(launcher.dropped(time), Dropped::Packet(media));
        assert_eq!(launcher.dropped(0), Dropped::Unknown);
    }

    #[test]
    fn packets_that_were_too_late_together_are_each_named_once() {
        let (clock, zero) = (LaunchClock::Monotonic, LocalTime::ZERO);
        let options =
            LaunchOptions { clock, lead: Span::ZERO, minimum: Span::ZERO, ahead: Span::ZERO };
        let launched = vec![NOTHING; KEPT].into_boxed_slice();
        let mut launcher = Launcher { options, tai: Span::ZERO, read: zero, launched, next: 0 };
        let packets = [6, 12].map(MediaTime::from_frames);
        for media in packets {
            let (launched, due) = (zero + Span::from_micros(50), zero);
            let instants = Departure {
                media,
                capture: zero,
                taken: zero,
                packed: zero,
                due,
                handed: zero,
                launched,
            };
            assert_eq!(launcher.time(&instants), 50_000);
        }
        let reported = [0; 3].map(|_| launcher.dropped(50_000));
        assert_eq!(
            reported,
            [Dropped::Packet(packets[1]), Dropped::Packet(packets[0]), Dropped::Again]
        );
    }

    #[test]
    fn late_packet_launches_as_soon_as_possible() {
        let at = |micros| LocalTime::ZERO + Span::from_micros(micros);
        let (lead, minimum) = (Span::from_micros(500), Span::from_micros(300));
        let (clock, ahead) = (LaunchClock::Tai, Span::ZERO);
        let options = LaunchOptions { clock, lead, minimum, ahead };
        assert_eq!(options.launch(at(1000), at(1010)), at(1500));
        assert_eq!(options.launch(at(1000), at(1201)), at(1501));
        assert_eq!(options.launch(at(1000), at(9000)), at(9300));
    }
}
