//! State of the system clock, and of hardware clocks that follow PTP.

use core::mem::MaybeUninit;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

use tautline_proto::clock::{ClockSource, DisciplinedClock};
use tautline_proto::time::Span;

use crate::clock::{BRACKETS, Bracket};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// State of the kernel's clock (adjtimex(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Whether the clock is disciplined (`STA_UNSYNC` is not set).
    pub synchronised: bool,
    /// Maximum error.
    pub maximum: Span,
    /// TAI − UTC; zero if unknown.
    pub tai_offset: Span,
}

/// A hardware clock compared with the system clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareClock {
    /// Device path, such as `/dev/ptp0`.
    pub device: String,
    /// Name reported by the driver.
    pub name: String,
    /// Hardware clock − `CLOCK_REALTIME`; `None` if unreadable.
    pub offset: Option<Span>,
    /// Uncertainty of `offset`, ±.
    pub uncertainty: Span,
}

const SAMPLES: usize = 5;
/// Maximum readings per call (linux/ptp_clock.h, `PTP_MAX_SAMPLES`).
const MAX_SAMPLES: usize = 25;
/// Maximum difference between clocks that follow each other via PTP.
const AGREES: Span = Span::from_micros(50);
/// Maximum error of a clock that may follow PTP. NTP over several hops is worse.
pub(super) const FINE: Span = Span::from_millis(1);
/// Names of virtual machines' hardware clocks, which show the host's system clock.
const VIRTUAL: [&str; 4] = ["virtual", "kvm", "hyperv", "vmclock"];

impl KernelClock {
    /// Reads the kernel's clock state; `None` if the call fails.
    pub fn read() -> Option<Self> {
        let mut timex = MaybeUninit::<libc::timex>::zeroed();
        // SAFETY: a zeroed timex has no modes set, so the call only fills it.
        let (state, timex) = unsafe {
            let state = libc::adjtimex(timex.as_mut_ptr());
            (state, timex.assume_init())
        };
        (state >= 0).then(|| Self {
            synchronised: timex.status & libc::STA_UNSYNC == 0 && state != libc::TIME_ERROR,
            maximum: Span::from_micros(timex.maxerror),
            tai_offset: Span::from_secs(timex.tai.into()),
        })
    }
}

/// System clock − monotonic clock; `None` if unsynchronised. Reads files.
pub fn disciplined_clock() -> Option<DisciplinedClock> {
    let kernel = KernelClock::read().filter(|kernel| kernel.synchronised)?;
    let bracket = Bracket::tightest(BRACKETS);
    let by_ptp = if kernel.maximum <= FINE { followed(&kernel, &hardware_clocks()) } else { None };
    let (off, source) = by_ptp.map_or((kernel.maximum, ClockSource::System), |uncertainty| {
        (uncertainty, ClockSource::Ptp)
    });
    Some(DisciplinedClock {
        offset: bracket.offset(),
        uncertainty: off + bracket.uncertainty(),
        source,
    })
}

fn followed(kernel: &KernelClock, clocks: &[HardwareClock]) -> Option<Span> {
    let virtual_one = |name: &str| {
        let name = name.to_ascii_lowercase();
        VIRTUAL.iter().any(|word| name.contains(word))
    };
    let real = clocks.iter().filter(|clock| !virtual_one(&clock.name));
    let apart = real.filter_map(|clock| {
        let offset = clock.offset?;
        let tai = (offset - kernel.tai_offset).abs();
        Some(tai.min(offset.abs()) + clock.uncertainty)
    });
    apart.filter(|apart| *apart <= AGREES).min()
}

/// Returns all hardware clocks of this host.
pub fn hardware_clocks() -> Vec<HardwareClock> {
    let Ok(entries) = fs::read_dir("/sys/class/ptp") else { return Vec::new() };
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    names.sort_unstable();
    names.iter().filter_map(|path| hardware_clock(path)).collect()
}

fn hardware_clock(path: &Path) -> Option<HardwareClock> {
    let device = format!("/dev/{}", path.file_name()?.to_str()?);
    let name = fs::read_to_string(path.join("clock_name")).unwrap_or_default().trim().to_owned();
    let read = File::open(&device).ok().and_then(|file| read_offset(&file));
    let (offset, uncertainty) = read.map_or((None, Span::ZERO), |(at, off)| (Some(at), off));
    Some(HardwareClock { device, name, offset, uncertainty })
}

/// `struct ptp_clock_time` (linux/ptp_clock.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ClockTime {
    seconds: i64,
    nanos: u32,
    reserved: u32,
}

impl ClockTime {
    const fn as_nanos(self) -> i64 {
        self.seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(self.nanos as i64)
    }
}

/// `struct ptp_sys_offset_extended` (linux/ptp_clock.h): readings of system, hardware, system
/// clock.
#[repr(C)]
struct Samples {
    count: u32,
    reserved: [u32; 3],
    times: [[ClockTime; 3]; MAX_SAMPLES],
}

/// `_IOWR('=', 9, struct ptp_sys_offset_extended)` (linux/ptp_clock.h).
const SYS_OFFSET_EXTENDED: libc::c_ulong =
    3 << 30 | (size_of::<Samples>() as libc::c_ulong) << 16 | (b'=' as libc::c_ulong) << 8 | 9;

fn read_offset(file: &File) -> Option<(Span, Span)> {
    let mut samples = Samples {
        count: SAMPLES as u32,
        reserved: [0; 3],
        times: [[ClockTime::default(); 3]; MAX_SAMPLES],
    };
    // SAFETY: the request takes this structure, which outlives the call. The kernel refuses it on
    // other files.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), SYS_OFFSET_EXTENDED as _, &mut samples) };
    if answer < 0 {
        return None;
    }
    narrowest(&samples.times[..SAMPLES])
}

fn narrowest(samples: &[[ClockTime; 3]]) -> Option<(Span, Span)> {
    let readings = samples.iter().map(|three| three.map(ClockTime::as_nanos));
    let [before, there, after] = readings.min_by_key(|[before, _, after]| after - before)?;
    let middle = before + (after - before) / 2;
    Some((Span::from_nanos(there - middle), Span::from_nanos((after - before) / 2 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(name: &str, nanos: i64) -> HardwareClock {
        HardwareClock {
            device: "/dev/ptp0".to_owned(),
            name: name.to_owned(),
            offset: Some(Span::from_nanos(nanos)),
            uncertainty: Span::from_nanos(500),
        }
    }

    const KERNEL: KernelClock = KernelClock {
        synchronised: true,
        maximum: Span::from_micros(400),
        tai_offset: Span::from_secs(37),
    };

    #[test]
    fn a_hardware_clock_in_tai_or_utc_is_followed_and_no_other() {
        let tai = 37 * NANOS_PER_SECOND;
        let found = |nanos| followed(&KERNEL, &[clock("igb", nanos)]);
        assert_eq!(found(tai + 800), Some(Span::from_nanos(1_300)));
        assert_eq!(found(-200), Some(Span::from_nanos(700)));
        assert_eq!(found(tai + 60_000), None);
        assert_eq!(found(5 * NANOS_PER_SECOND), None);
        assert_eq!(followed(&KERNEL, &[]), None);
    }

    #[test]
    fn the_clock_of_a_virtual_machines_host_is_no_ptp() {
        assert_eq!(followed(&KERNEL, &[clock("KVM virtual PTP", 0)]), None);
        let both = [clock("KVM virtual PTP", 0), clock("mlx5_ptp", 2_000)];
        assert_eq!(followed(&KERNEL, &both), Some(Span::from_nanos(2_500)));
    }

    #[test]
    fn the_narrowest_sample_counts() {
        let at = |nanos: u32| ClockTime { seconds: 7, nanos, reserved: 0 };
        let samples = [
            [at(1_000), at(900_000), at(801_000)],
            [at(2_000), at(52_000), at(3_000)],
            [at(3_000), at(1), at(90_000)],
        ];
        assert_eq!(narrowest(&samples), Some((Span::from_nanos(49_500), Span::from_nanos(501))));
        assert_eq!(narrowest(&[]), None);
    }

    #[test]
    fn the_kernel_answers_here_and_an_unkept_clock_is_not_relied_on() {
        let kernel = KernelClock::read().expect("adjtimex without modes needs no privilege");
        let kept = disciplined_clock();
        assert_eq!(kept.is_some(), kernel.synchronised);
        for clock in hardware_clocks() {
            assert!(clock.device.starts_with("/dev/ptp"), "{clock:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_clock_has_no_offset() {
        let file = File::open("/dev/null").expect("there on every Linux");
        assert_eq!(read_offset(&file), None);
    }
}
