//! Resource usage of a program; differences exclude its start and end.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tautline_proto::time::Span;

use super::confined::Used;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildUsage {
    /// Its machine's monotonic clock.
    pub at_ns: i64,
    pub cpu_ns: u64,
    pub group: Option<Used>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedBetween {
    pub lasted: Span,
    pub cpu: Span,
    pub group: Option<Used>,
}

impl ChildUsage {
    /// `None` if no time passed, or a thread ended.
    pub fn until(&self, later: &Self) -> Option<UsedBetween> {
        let lasted = Span::from_nanos(later.at_ns.saturating_sub(self.at_ns));
        let cpu = Span::from_nanos(later.cpu_ns.checked_sub(self.cpu_ns)? as i64);
        let group = self.group.zip(later.group).map(|(first, last)| last.since(&first));
        (lasted > Span::ZERO).then_some(UsedBetween { lasted, cpu, group })
    }
}

impl UsedBetween {
    pub fn percent(&self, cpu: Span) -> f64 {
        cpu.as_nanos() as f64 * 100.0 / self.lasted.as_nanos() as f64
    }
}

/// CPU time in ns; for whole processes the kernel only has a resolution of 10 ms.
pub(super) fn threads_time(process: u32) -> Result<u64, String> {
    let folder = format!("/proc/{process}/task");
    let failed = |error: std::io::Error| {
        format!("cannot read {folder}: {error}\nhint: the kernel needs CONFIG_SCHED_INFO")
    };
    let mut sum = 0;
    let mut threads = 0;
    for thread in fs::read_dir(Path::new(&folder)).map_err(failed)? {
        let Ok(text) = fs::read_to_string(thread.map_err(failed)?.path().join("schedstat")) else {
            continue;
        };
        threads += 1;
        sum += text.split(' ').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    }
    if threads == 0 {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_between_two_readings_is_relative_to_their_interval() {
        let group = |cpu_ns, periods| Some(Used { cpu_ns, periods, ..Used::default() });
        let first = ChildUsage { at_ns: 1000, cpu_ns: 700, group: group(Some(900), 2) };
        let last = ChildUsage { at_ns: 2000, cpu_ns: 950, group: group(Some(1400), 12) };
        let used = first.until(&last).unwrap();
        assert_eq!((used.percent(used.cpu), used.group), (25.0, group(Some(500), 10)));
        assert_eq!(last.until(&first), None);
        assert_eq!(first.until(&first), None);
    }

    #[test]
    fn the_threads_of_a_program_that_turns_use_more_and_more() {
        let own = std::process::id();
        let first = threads_time(own).unwrap();
        let begun = std::time::Instant::now();
        while threads_time(own).unwrap() <= first {
            assert!(begun.elapsed().as_secs() < 20, "{first}");
        }
        assert!(threads_time(u32::MAX).is_err());
    }
}
