//! The machine that something was measured on.

use std::fs;

use super::HostDescription;

impl HostDescription {
    pub fn here(name: impl Into<String>) -> Self {
        let line = |path| fs::read_to_string(path).ok().map(|text: String| text.trim().to_owned());
        Self {
            name: name.into(),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            processor: processor().unwrap_or_else(|| "unknown processor".into()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            stalls: None,
        }
    }
}

/// As proc_cpuinfo(5) has it of the first core; not all architectures do.
fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
