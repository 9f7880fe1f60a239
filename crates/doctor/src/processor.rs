//! Processor: frequency, wake-up times of cores, and stalls.

use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::stall::{Stall, StallMonitor};
use tautline_proto::time::Span;

use crate::Verdict::{Failure, Warning};
use crate::{Finding, Machine};

const CORES: &str = "sys/devices/system/cpu";

pub(crate) fn frequency(machine: &Machine) -> Finding {
    let governor = |core| machine.read(&format!("{CORES}/{core}/cpufreq/scaling_governor"));
    let governors: Vec<_> = machine.cores().into_iter().filter_map(governor).collect();
    let slow: Vec<_> = governors.iter().filter(|governor| *governor != "performance").collect();
    match (governors.len(), slow.first()) {
        (0, _) => Finding::passed("this kernel does not change the frequency"),
        (_, None) => Finding::passed("every core has the governor performance"),
        (cores, Some(governor)) => {
            let slow = slow.len();
            let what = format!("{slow} of {cores} cores have the governor {governor}");
            let why = "a core that slowed down while idle takes longer for the next period";
            let fix = "echo performance | sudo tee \
                        /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
            Finding::new(Warning, what, why).fix(fix)
        }
    }
}

/// Divisor of the latency: acceptable wake-up time of a core.
const PART: i64 = 50;

/// Checks the first core.
pub(crate) fn idle(machine: &Machine, latency: Span) -> Finding {
    let folder = format!("{CORES}/cpu0/cpuidle");
    let states = machine.list(&folder).into_iter().filter_map(|state| {
        let number: u32 = state.strip_prefix("state")?.parse().ok()?;
        let file = |name: &str| format!("{folder}/{state}/{name}");
        let is_disabled = machine.number::<u32>(&file("disable")).is_some_and(|value| value != 0);
        let wakes = Span::from_micros(machine.number(&file("latency"))?);
        let name = machine.read(&file("name")).unwrap_or(state);
        (!is_disabled).then_some((number, name, wakes))
    });
    let states: Vec<_> = states.collect();
    let Some((_, name, wakes)) = states.iter().max_by_key(|(.., wakes)| wakes) else {
        return Finding::passed("this kernel puts no core to sleep");
    };
    let what = format!("a core in {name} takes {wakes} to wake");
    let maximum = latency.divided(PART);
    let deep = states.iter().filter(|(.., wakes)| *wakes > maximum);
    let numbers: String = deep.map(|(number, ..)| number.to_string()).collect();
    if numbers.is_empty() {
        return Finding::passed(what);
    }
    let why = format!("more than {maximum}, 1/50 of the latency, each time it waits for a period");
    let fix =
        format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu*/cpuidle/state[{numbers}]/disable");
    Finding::new(Warning, what, why).fix(fix)
}

const WATCHED: Span = Span::from_secs(1);
const BEAT: Span = Span::from_millis(50);

pub(crate) struct Watched {
    all: Vec<Stall>,
    /// Stalls while other cores ran.
    single: Vec<Stall>,
    is_certain: bool,
}

pub(crate) fn watch() -> Watched {
    let mut monitor = StallMonitor::start_dense();
    let end = now() + WATCHED;
    while now() < end {
        sleep_until(end.min(now() + BEAT));
        monitor.poll();
    }
    let is_certain = monitor.trust().refused.is_none();
    let log = monitor.log();
    Watched { all: log.seen_by_all().collect(), single: log.seen_by_one().collect(), is_certain }
}

fn times(stalls: &[Stall]) -> Option<(String, Span)> {
    let longest = stalls.iter().map(Stall::length).max()?;
    let longest = Span::from_micros(longest.as_nanos() / 1000);
    let times = match stalls.len() {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    Some((times, longest))
}

pub(crate) fn stalls(watched: &Watched, is_virtual: bool, latency: Span) -> Finding {
    let machine = if is_virtual { "this virtual machine" } else { "this machine" };
    let all = times(&watched.all);
    let single = times(&watched.single);
    let what = match (&all, &single) {
        (None, None) => {
            return Finding::passed(format!("{machine} did not stall in {WATCHED}"));
        }
        (Some((times, longest)), None) => {
            format!("{machine} stalled {times} in {WATCHED}, for at most {longest}")
        }
        (None, Some((times, longest))) => format!(
            "{machine} did not stall in {WATCHED}, but single cores did {times}, for at most \
             {longest}"
        ),
        (Some((times, longest)), Some((single, maximum))) => format!(
            "{machine} stalled {times} in {WATCHED}, for at most {longest}, and single cores \
             {single}, for at most {maximum}"
        ),
    };
    let longest = all.iter().chain(&single).map(|(_, longest)| *longest).max();
    let longest = longest.unwrap_or(Span::ZERO);
    let spoils = watched.is_certain && longest > latency.half();
    let why = match (watched.is_certain, is_virtual, &all) {
        (false, ..) => "other programs may be the cause: unknown without real-time priority",
        (true, true, _) => {
            "its host ran something else meanwhile, so audio is late; give it cores of its own, \
             or use more latency: this command tries it"
        }
        (true, false, Some(_)) => {
            "its firmware or a driver blocked every core; use more latency: this command tries it"
        }
        (true, false, None) => {
            "a driver blocked it, so audio threads on it are late; use more latency: this command \
             tries it"
        }
    };
    // Suggests a card buffer of twice such a stall, and twice that as latency.
    let micros = u64::try_from(longest.as_nanos() / 1000).unwrap_or(0);
    let periods = (2 * micros).div_ceil(1000).clamp(2, 64);
    let ridden_out = (2 * periods).next_multiple_of(10) + 10;
    Finding::new(if spoils { Failure } else { Warning }, what, why)
        .details(format!("taut demo --latency {ridden_out}ms --periods {periods}"))
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::LocalTime;
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    #[test]
    fn governors_that_slow_down_are_counted() {
        let file = |core: &str| format!("{CORES}/{core}/cpufreq/scaling_governor");
        let files = [
            (file("cpu0"), "performance\n"),
            (file("cpu1"), "powersave\n"),
            (file("cpufreq"), "x"),
        ];
        let found = frequency(&Machine::of(&files));
        snapshot!(found.message);
        assert_eq!(found.verdict, Warning);
        assert_eq!(frequency(&Machine::of(&files[..1])).verdict, Passed);
        assert_eq!(frequency(&Machine::empty()).verdict, Passed);
    }

    #[test]
    fn slow_idle_states_are_listed_unless_disabled() {
        let files = [
            ("state0/latency", "0"),
            ("state1/latency", "890"),
            ("state1/name", "C10"),
            ("state2/latency", "2000"),
            ("state2/disable", "1"),
        ];
        let machine =
            Machine::of(&files.map(|(file, text)| (format!("{CORES}/cpu0/cpuidle/{file}"), text)));
        let found = idle(&machine, Span::from_millis(5));
        snapshot!(found.message);
        assert!(found.fix.unwrap().ends_with("/state[1]/disable"));
        assert_eq!(idle(&machine, Span::from_millis(100)).verdict, Passed);
        assert_eq!(idle(&Machine::empty(), Span::from_millis(5)).verdict, Passed);
    }

    fn judged(all: &[i64], single: &[i64], is_certain: bool) -> Finding {
        let from = LocalTime::ZERO;
        let stall = |&millis: &i64| Stall { from, to: from + Span::from_millis(millis) };
        let [all, single] = [all, single].map(|lengths| lengths.iter().map(stall).collect());
        stalls(&Watched { all, single, is_certain }, true, Span::from_millis(5))
    }

    #[test]
    fn stall_of_half_a_row_invalidates_it() {
        assert_eq!(judged(&[], &[], true).verdict, Passed);
        assert_eq!(judged(&[2], &[], true).verdict, Warning);
        assert_eq!(judged(&[3], &[], true).verdict, Failure);
        let found = judged(&[2, 12], &[], true);
        assert_eq!(found.verdict, Failure);
        snapshot!(found.message);
        assert_eq!(found.details.as_deref(), Some("taut demo --latency 60ms --periods 24"));
        let uncertain = judged(&[2, 12], &[], false);
        assert_eq!(uncertain.verdict, Warning, "other programs may be the cause");
    }

    #[test]
    fn single_stalled_core_is_reported_and_judged() {
        let found = judged(&[], &[1, 2], true);
        assert_eq!(found.verdict, Warning);
        snapshot!(found.message);
        assert_eq!(judged(&[], &[4], true).verdict, Failure);
        let both = judged(&[1], &[12], true);
        assert_eq!(both.verdict, Failure);
        snapshot!(both.message);
        assert_eq!(both.details.as_deref(), Some("taut demo --latency 60ms --periods 24"));
    }
}
