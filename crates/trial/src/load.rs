//! Share of the machine used by processes outside this session.

use std::fs::{read_dir, read_to_string};

/// In kernel ticks (`proc_stat(5)`, `proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    all: u64,
    idle: u64,
    /// Processes of this session, with awaited children and programs of other tests.
    own: u64,
}

impl Load {
    pub(crate) fn now() -> Self {
        let read = |file: &str| read_to_string(file).unwrap_or_default();
        let listed = read_dir("/proc").into_iter().flatten().flatten();
        let mut numbers: Vec<u32> =
            listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        // By descending id: a process that ends meanwhile may count twice, but is never missed.
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let stat = |number| read_to_string(format!("/proc/{number}/stat")).ok();
        let processes = numbers.into_iter().filter_map(stat);
        Self::of(&read("/proc/stat"), &read("/proc/self/stat"), processes)
    }

    /// Missing data counts as zero.
    fn of(machine: &str, process: &str, processes: impl Iterator<Item = String>) -> Self {
        let figures = |words: &str| -> Vec<u64> {
            words.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
        };
        // user, nice, system, idle, iowait, irq, softirq, steal.
        let cores = figures(machine.lines().next().unwrap_or("").trim_start_matches("cpu"));
        let sum =
            |places: core::ops::Range<usize>| cores.iter().take(places.end).skip(places.start);
        // The program name can contain anything.
        let after =
            |process: &str| figures(process.rsplit_once(')').map_or("", |(_, after)| after));
        let session = |after: &[u64]| after.get(3).copied();
        let ours = session(&after(process));
        let own = processes.map(|process| after(&process));
        let own = own.filter(|after| ours.is_some() && session(after) == ours);
        Self {
            all: sum(0..8).sum(),
            idle: sum(3..5).sum(),
            own: own.map(|after| after.iter().skip(11).take(4).sum::<u64>()).sum(),
        }
    }

    /// 0 if the time is too short.
    pub(crate) fn others_since(&self, before: &Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        let own = self.own.saturating_sub(before.own);
        let others = all.saturating_sub(idle).saturating_sub(own);
        if all == 0 { 0.0 } else { others as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    fn load(user: u64, idle: u64, steal: u64, own: u64) -> Load {
        let machine = format!("cpu  {user} 1 2 {idle} 3 4 5 {steal} 600 700\ncpu0 9 9 9 9 9\n");
        let process = |session, own| {
            format!("77 (a (b) c) S 1 2 {session} 4 5 6 7 8 9 10 {own} 0 20 30 20 0")
        };
        let processes = [process(3, own), process(4, 1000), process(3, 0)].into_iter();
        Load::of(&machine, &process(3, own), processes)
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(load(100, 50, 7, 9), Load { all: 172, idle: 53, own: 9 + 50 + 50 });
        let nobody = std::iter::once(String::new());
        assert_eq!(Load::of("", "", nobody), Load { all: 0, idle: 0, own: 0 });
    }

    #[test]
    fn cpu_time_of_others_is_computed() {
        let before = load(0, 0, 0, 0);
        assert_eq!(load(200, 0, 0, 200).others_since(&before), 0.0);
        assert_eq!(load(200, 0, 0, 50).others_since(&before), 0.75);
        assert_eq!(load(0, 100, 100, 0).others_since(&before), 0.5);
        assert_eq!(before.others_since(&before), 0.0);
    }

    #[test]
    fn machine_reports_its_state() {
        let load = Load::now();
        assert!(load.all > 0 && load.idle <= load.all, "{load:?}");
    }

    fn used(id: u32) -> u64 {
        let said = read_to_string(format!("/proc/{id}/stat")).unwrap();
        let after = said.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(4);
        after.map(|word| word.parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn a_program_that_still_runs_is_the_tests_own() {
        let before = Load::now();
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while used(child.id()) < 30 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let used = used(child.id());
        let own = Load::now().own.saturating_sub(before.own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used >= 30 && own >= used, "{own} of {used}");
    }
}
