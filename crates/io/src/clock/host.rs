//! Which host this is, and so which clock its programs share.

use std::fs;
use std::sync::OnceLock;

use tautline_proto::clock::HostClock;

/// Named by the kernel at each boot, at random.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// By how much the clocks of this program's time namespace are ahead of the host's
/// (time_namespaces(7)); not there where the kernel has none.
const AHEAD: &str = "/proc/self/timens_offsets";

/// The monotonic clock that this program reads, which all programs of this host share, those in
/// containers too; `None` where the kernel does not name its boots. Reads files the first time: for
/// ordinary threads.
pub fn host_clock() -> Option<HostClock> {
    static HOST: OnceLock<Option<HostClock>> = OnceLock::new();
    *HOST.get_or_init(|| {
        let boot = fs::read_to_string(BOOT).ok().filter(|boot| !boot.trim().is_empty())?;
        let ahead = fs::read_to_string(AHEAD).unwrap_or_default();
        Some(HostClock::of(format!("{boot}{}", monotonic(&ahead)).as_bytes()))
    })
}

/// What is said of the monotonic clock, if that is ahead.
fn monotonic(ahead: &str) -> String {
    let line = ahead.lines().find_map(|line| line.trim().strip_prefix("monotonic"));
    let words = line.unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    if words.iter().all(|word| *word == "0") { String::new() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_one_boot_share_a_clock_unless_their_namespaces_move_it() {
        assert_eq!(
            monotonic("monotonic           0         0\nboottime            7         0\n"),
            ""
        );
        assert_eq!(monotonic(""), "");
        assert_eq!(monotonic("monotonic       86400         0\nboottime  0 0\n"), "86400 0");
    }
}
