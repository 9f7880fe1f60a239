//! How much of the machine went to others than a test and what it started.

use std::fs::read_to_string;

/// Processor time so far, in ticks of the kernel's own length: those of the machine and those of a
/// process are alike (`proc_stat(5)`, `proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Of all cores, at work or not.
    all: u64,
    idle: u64,
    /// This process, and what it started and saw end.
    own: u64,
}

impl Load {
    pub(crate) fn now() -> Self {
        let read = |file| read_to_string(file).unwrap_or_default();
        Self::of(&read("/proc/stat"), &read("/proc/self/stat"))
    }

    /// By the words of the kernel; nothing where it does not say.
    fn of(machine: &str, process: &str) -> Self {
        let figures = |words: &str| -> Vec<u64> {
            words.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
        };
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is in the first two.
        let cores = figures(machine.lines().next().unwrap_or("").trim_start_matches("cpu"));
        let sum =
            |places: core::ops::Range<usize>| cores.iter().take(places.end).skip(places.start);
        // A program's name may hold anything; 11 fields after it come its times and its children's.
        let after = figures(process.rsplit_once(')').map_or("", |(_, after)| after));
        Self {
            all: sum(0..8).sum(),
            idle: sum(3..5).sum(),
            own: after.iter().skip(11).take(4).sum(),
        }
    }

    /// The share of the machine that went to others since `before`; of a time too short to tell,
    /// none.
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
    use super::*;

    fn load(user: u64, idle: u64, steal: u64, own: u64) -> Load {
        let machine = format!("cpu  {user} 1 2 {idle} 3 4 5 {steal} 600 700\ncpu0 9 9 9 9 9\n");
        let process = format!("77 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 {own} 0 20 30 20 0");
        Load::of(&machine, &process)
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(load(100, 50, 7, 9), Load { all: 172, idle: 53, own: 59 });
        assert_eq!(Load::of("", ""), Load { all: 0, idle: 0, own: 0 });
    }

    #[test]
    fn what_is_neither_idle_nor_the_tests_went_to_others() {
        let before = load(0, 0, 0, 0);
        // Its own work, however much, is not others'.
        assert_eq!(load(200, 0, 0, 200).others_since(&before), 0.0);
        assert_eq!(load(200, 0, 0, 50).others_since(&before), 0.75);
        assert_eq!(load(0, 100, 100, 0).others_since(&before), 0.5);
        assert_eq!(before.others_since(&before), 0.0);
    }

    #[test]
    fn this_machine_says_how_it_is() {
        let load = Load::now();
        assert!(load.all > 0 && load.idle <= load.all, "{load:?}");
    }
}
