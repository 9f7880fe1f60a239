//! TAI, judged by the kernel, hardware clocks and `ptp4l`. All streams of a process share it.

use std::sync::{Mutex, PoisonError};

use tautline_proto::clock::{
    ClockMapping, ClockSource, DisciplinedClock, Keeping, TaiClock, TaiReading, TaiState,
};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::ptp::PtpState;

use super::disciplined::{FINE, KernelClock, disciplined_clock, hardware_clocks};
use super::ptp4l::Ptp4l;
use super::{BRACKETS, Bracket, now};

/// TAI, with its state and uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tai {
    /// Local clock to TAI, from now on.
    pub mapping: ClockMapping,
    /// How TAI is known.
    pub state: TaiState,
    /// Uncertainty, ±; `None` if never known.
    pub uncertainty: Option<Span>,
    /// Whether other hosts should not rely on it.
    pub uncertain: bool,
    /// Number of steps so far.
    pub steps: u32,
    /// State of `ptp4l`, if it runs and answers.
    pub ptp: Option<PtpState>,
}

impl Tai {
    /// TAI − local clock at an instant.
    pub fn offset(&self, local: LocalTime) -> Span {
        let wall = self.mapping.wall(local).as_unix_nanos();
        Span::from_nanos(wall.saturating_sub(local.as_nanos()))
    }
}

const EVERY: Span = Span::from_secs(1);
/// Timeout for `ptp4l`'s first answer, which normally takes under 1 ms.
const FIRST_ANSWER: Span = Span::from_millis(20);

static FOLLOWED: Mutex<Option<Follower>> = Mutex::new(None);

/// The current TAI. Reads files and a socket once a second.
pub fn tai() -> Tai {
    let mut followed = FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner);
    followed.get_or_insert_with(Follower::begin).tai()
}

/// The current TAI if [`tai`] was called before.
pub fn followed_tai() -> Option<Tai> {
    let mut followed = FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner);
    followed.as_mut().map(Follower::tai)
}

const SEARCH_EVERY: Span = Span::from_secs(10);

struct Follower {
    clock: TaiClock,
    daemon: Option<Ptp4l>,
    searched: LocalTime,
    ptp: Option<PtpState>,
    ingress: (i64, LocalTime),
    mapping: ClockMapping,
    read: LocalTime,
}

impl Follower {
    fn begin() -> Self {
        let searched = now();
        let mut daemon = request(None, true);
        let ptp = daemon.as_mut().and_then(|daemon| daemon.wait(FIRST_ANSWER));
        let mut clock = TaiClock::default();
        let mapping = clock.observe(&read(ptp.map(|ptp| (ptp, Span::ZERO))));
        let ingress = (ptp.map_or(0, |ptp| ptp.ingress), now());
        let daemon = request(daemon, false);
        Self { clock, daemon, searched, ptp, ingress, mapping, read: now() }
    }

    fn tai(&mut self) -> Tai {
        if now() - self.read >= EVERY {
            self.turn();
        }
        Tai {
            mapping: self.mapping,
            state: self.clock.state(),
            uncertainty: self.clock.uncertainty(now()),
            uncertain: self.clock.is_uncertain(),
            steps: self.clock.steps(),
            ptp: self.ptp,
        }
    }

    fn turn(&mut self) {
        self.ptp = self.daemon.as_mut().and_then(Ptp4l::handle);
        let thorough = now() - self.searched >= SEARCH_EVERY;
        self.searched = if thorough { now() } else { self.searched };
        self.daemon = request(self.daemon.take(), thorough);
        let ptp = self.ptp.map(|ptp| {
            if ptp.ingress != self.ingress.0 {
                self.ingress = (ptp.ingress, now());
            }
            (ptp, now() - self.ingress.1)
        });
        self.mapping = self.clock.observe(&read(ptp));
        self.read = now();
    }
}

fn request(daemon: Option<Ptp4l>, thorough: bool) -> Option<Ptp4l> {
    let requested = |mut daemon: Ptp4l| daemon.request().is_ok().then_some(daemon);
    daemon.and_then(requested).or_else(|| Ptp4l::find(thorough).and_then(requested))
}

fn read(ptp: Option<(PtpState, Span)>) -> TaiReading {
    let own = hardware_clocks().iter().all(|clock| clock.offset.is_none());
    let kept = keeping(KernelClock::read(), disciplined_clock(), ptp, own);
    let bracket = Bracket::of(libc::CLOCK_TAI, BRACKETS);
    TaiReading { local: now(), offset: bracket.offset(), precision: bracket.uncertainty(), kept }
}

/// `own`: no hardware clock that a daemon could set instead.
fn keeping(
    kernel: Option<KernelClock>,
    kept: Option<DisciplinedClock>,
    ptp: Option<(PtpState, Span)>,
    own: bool,
) -> Option<Keeping> {
    // Without a TAI offset the kernel's TAI is UTC.
    let kernel = kernel.filter(|kernel| kernel.tai_offset > Span::ZERO)?;
    let kept = kept?;
    let system = Keeping { source: ClockSource::System, uncertainty: kernel.maximum };
    let by_hardware = kept.source == ClockSource::Ptp;
    let Some((ptp, silent)) = ptp else {
        return Some(Keeping { source: kept.source, uncertainty: kept.uncertainty });
    };
    if !ptp.is_locked() {
        return (!by_hardware).then_some(system);
    }
    // A lost master is detected only after several missing announcements.
    let aged = silent.as_nanos() as f64 * TaiClock::HOLDOVER;
    let uncertainty = ptp.uncertainty() + Span::from_nanos(aged as i64);
    if by_hardware {
        return Some(Keeping {
            source: ClockSource::Ptp,
            uncertainty: uncertainty + kept.uncertainty,
        });
    }
    // Without a hardware clock the daemon sets the system clock; otherwise the daemon sets a
    // hardware clock that the system clock does not follow.
    Some(if own && kernel.maximum <= FINE {
        Keeping { source: ClockSource::Ptp, uncertainty }
    } else {
        system
    })
}

#[cfg(test)]
mod tests {
    use tautline_proto::wire::ptp::{ClockIdentity, PortState};

    use super::*;

    const SLAVE: PtpState = PtpState {
        port: PortState::Slave,
        present: true,
        grandmaster: ClockIdentity([1; 8]),
        offset: Span::from_nanos(-300),
        path_delay: Span::from_nanos(700),
        ingress: 0,
    };

    fn kept_by(
        micros: i64,
        tai: i64,
        source: ClockSource,
        ptp: Option<PtpState>,
    ) -> Option<Keeping> {
        let maximum = Span::from_micros(micros);
        let tai_offset = Span::from_secs(tai);
        let kernel = KernelClock { synchronised: true, maximum, tai_offset };
        let uncertainty = if source == ClockSource::Ptp { Span::from_micros(2) } else { maximum };
        let kept = DisciplinedClock { offset: Span::ZERO, uncertainty, source };
        keeping(Some(kernel), Some(kept), ptp.map(|ptp| (ptp, Span::from_millis(200))), true)
    }

    fn found(
        micros: i64,
        source: ClockSource,
        ptp: Option<PtpState>,
    ) -> Option<(ClockSource, i64)> {
        let kept = kept_by(micros, 37, source, ptp)?;
        Some((kept.source, kept.uncertainty.as_nanos()))
    }

    #[test]
    fn ptp4l_state_counts_if_the_system_clock_follows_it() {
        let system = ClockSource::System;
        assert_eq!(found(200, system, Some(SLAVE)), Some((ClockSource::Ptp, 4_000)));
        assert_eq!(found(200, ClockSource::Ptp, Some(SLAVE)), Some((ClockSource::Ptp, 6_000)));
        assert_eq!(found(4_000, system, Some(SLAVE)), Some((system, 4_000_000)));
        assert_eq!(found(200, ClockSource::Ptp, None), Some((ClockSource::Ptp, 2_000)));
        assert_eq!(found(700, system, None), Some((system, 700_000)));
    }

    #[test]
    fn daemon_without_a_master_keeps_no_clock() {
        let alone = PtpState { port: PortState::Master, present: false, ..SLAVE };
        assert_eq!(found(200, ClockSource::Ptp, Some(alone)), None);
        let by_kernel = found(900, ClockSource::System, Some(alone));
        assert_eq!(by_kernel, Some((ClockSource::System, 900_000)));
        let calibrating = PtpState { port: PortState::Uncalibrated, ..SLAVE };
        assert_eq!(found(200, ClockSource::Ptp, Some(calibrating)), None);
    }

    #[test]
    fn kernel_without_leap_seconds_has_no_tai() {
        assert_eq!(kept_by(200, 0, ClockSource::Ptp, Some(SLAVE)), None);
        assert_eq!(keeping(None, None, Some((SLAVE, Span::ZERO)), true), None);
    }

    #[test]
    fn tai_is_read_here_and_goes_on() {
        let first = tai();
        let read = Bracket::of(libc::CLOCK_TAI, BRACKETS);
        let off = first.offset(now()) - read.offset();
        assert!(off.abs() < Span::from_millis(20), "{off}");
        assert!(followed_tai().is_some());
    }
}
