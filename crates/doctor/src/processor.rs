//! How fast the cores are when a thread wakes, and how soon they are awake.

use tautline_proto::time::Span;

use super::root::Root;
use super::{Finding, Requirements, Verdict};

const CORES: &str = "sys/devices/system/cpu";

pub(crate) fn check(root: &Root, asked: &Requirements) -> Vec<Finding> {
    vec![frequency(&governors(root)), idle(&idle_states(root), asked)]
}

/// The governor of each core whose frequency is changed.
fn governors(root: &Root) -> Vec<String> {
    let cores = root.list(CORES).into_iter().filter(|name| is_core(name));
    cores
        .filter_map(|core| root.read(&format!("{CORES}/{core}/cpufreq/scaling_governor")))
        .collect()
}

fn is_core(name: &str) -> bool {
    let number = name.strip_prefix("cpu").unwrap_or("");
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn frequency(governors: &[String]) -> Finding {
    const CHECK: &str = "cpu-frequency";
    let slow: Vec<_> = governors.iter().filter(|governor| *governor != "performance").collect();
    match (governors.len(), slow.first()) {
        (0, _) => Finding::fine(CHECK, "this kernel leaves the frequency alone"),
        (_, None) => Finding::fine(CHECK, "every core has the governor performance"),
        (cores, Some(governor)) => {
            let slow = slow.len();
            let what = format!("{slow} of {cores} cores have the governor {governor}");
            let why = "a core that slowed down while it waited takes longer for the next period";
            let mend = "echo performance | sudo tee \
                        /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
            Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)
        }
    }
}

/// A state in which a core waits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IdleState {
    number: u32,
    name: String,
    /// How long it takes to be awake again.
    wakes: Span,
}

/// Those that the first core may use; the others are like it.
fn idle_states(root: &Root) -> Vec<IdleState> {
    let folder = format!("{CORES}/cpu0/cpuidle");
    let states = root.list(&folder).into_iter().filter_map(|state| {
        let number = state.strip_prefix("state")?.parse().ok()?;
        let file = |name: &str| format!("{folder}/{state}/{name}");
        let disabled = root.number(&file("disable")).is_some_and(|disabled: u32| disabled != 0);
        let wakes = Span::from_micros(root.number(&file("latency"))?);
        let name = root.read(&file("name")).unwrap_or(state);
        (!disabled).then_some(IdleState { number, name, wakes })
    });
    states.collect()
}

/// A core that takes more of the latency than this part of it to wake is worth a word.
const PART: i64 = 50;

fn idle(states: &[IdleState], asked: &Requirements) -> Finding {
    const CHECK: &str = "idle-states";
    let most = asked.latency.divided(PART);
    let deep: Vec<_> = states.iter().filter(|state| state.wakes > most).collect();
    let Some(deepest) = states.iter().max_by_key(|state| state.wakes) else {
        return Finding::fine(CHECK, "this kernel puts no core to sleep");
    };
    let IdleState { name, wakes, .. } = deepest;
    let what = format!("a core in {name} takes {wakes} to wake");
    if deep.is_empty() {
        return Finding::fine(CHECK, what);
    }
    let numbers: String = deep.iter().map(|state| state.number.to_string()).collect();
    let why =
        format!("more than {most}, a fiftieth of the latency, each time it waits for a period");
    let mend =
        format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu*/cpuidle/state[{numbers}]/disable");
    Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;

    #[test]
    fn governors_that_slow_down_are_counted() {
        let file = |core: &str| format!("{CORES}/{core}/cpufreq/scaling_governor");
        let (first, second, other) = (file("cpu0"), file("cpu1"), file("cpufreq"));
        let files = [(&*first, "performance\n"), (&*second, "powersave\n"), (&*other, "x")];
        let found = frequency(&governors(&Machine::of(&files).root()));
        snapshot!(found.what);
        assert_eq!(found.verdict, Verdict::Warns);
        let found = frequency(&governors(&Machine::of(&files[..1]).root()));
        assert_eq!(found.verdict, Verdict::Fine);
        assert_eq!(frequency(&[]).verdict, Verdict::Fine);
    }

    #[test]
    fn states_that_take_long_to_wake_are_named_unless_they_are_switched_off() {
        let state = |number: u32, what: &str| format!("{CORES}/cpu0/cpuidle/state{number}/{what}");
        let names = [state(0, "latency"), state(1, "latency"), state(2, "latency")];
        let (off, name) = (state(2, "disable"), state(1, "name"));
        let files = [
            (&*names[0], "0"),
            (&*names[1], "890"),
            (&*names[2], "2000"),
            (&*name, "C10"),
            (&*off, "1"),
        ];
        let states = idle_states(&Machine::of(&files).root());
        let found = idle(&states, &asked(5));
        snapshot!(found.what);
        assert!(found.mend().unwrap().ends_with("/state[1]/disable"));
        assert_eq!(idle(&states, &asked(100)).verdict, Verdict::Fine);
        assert_eq!(idle(&[], &asked(5)).verdict, Verdict::Fine);
    }
}
