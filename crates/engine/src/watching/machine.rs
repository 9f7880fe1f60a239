//! What the reports say of the machine, read from `/proc`; and the randomness of identities.

use std::fs;
use std::io::Read;

use tautline_io::clock::processor_time;
use tautline_io::clock::tai::followed_tai;

use crate::watching::refused::Refused;
use crate::watching::report::{HostReport, TaiReport};

/// What is known before and after a run.
pub(crate) fn host(scheduler: String, stalls: u64, refused: Refused) -> HostReport {
    HostReport {
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        scheduler,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        stalls,
        cpu_ns: processor_time().as_nanos(),
        peak_bytes: peak_memory().unwrap_or(0),
        refused,
        tai: followed_tai().as_ref().map(TaiReport::of),
    }
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn peak_memory() -> Option<u64> {
    let status = line("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Random bytes of the kernel's, for identities that must not collide (RFC 3550 §8.1).
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
