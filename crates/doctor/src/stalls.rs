//! Whether the machine runs at all.

use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::stall::{Stall, StallWitness};
use tautline_proto::time::Span;

use super::root::Root;
use super::{Finding, Requirements, Verdict};

/// For how long stalls are watched for.
const WATCHED: Span = Span::from_secs(1);
/// From one look at the witness to the next.
const BEAT: Span = Span::from_millis(50);

pub(crate) fn check(root: &Root, asked: &Requirements) -> Finding {
    stalls(&watch(), is_virtual(root), asked)
}

/// Whether this machine is somebody else's program: `hypervisor` among the flags of its processor,
/// or a device tree that says so.
fn is_virtual(root: &Root) -> bool {
    let processor = root.read("proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
        || root.has("sys/hypervisor/type")
        || root.has("proc/device-tree/hypervisor")
}

/// What the witness saw.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Watched {
    /// Of all cores at once,
    stalls: Vec<Stall>,
    /// and of one while others ran.
    single: Vec<Stall>,
    /// Whether they are the host's for certain.
    certain: bool,
}

fn watch() -> Watched {
    let mut witness = StallWitness::start_dense();
    let end = now() + WATCHED;
    while now() < end {
        sleep_until(end.min(now() + BEAT));
        witness.poll();
    }
    let certain = witness.trust().refused.is_none();
    let log = witness.log();
    Watched { stalls: log.seen_by_all().collect(), single: log.seen_by_one().collect(), certain }
}

/// How often, and for how long at most.
fn times(stalls: &[Stall]) -> Option<(String, Span)> {
    let longest = stalls.iter().map(Stall::length).max()?;
    let longest = Span::from_micros(longest.as_nanos() / 1000);
    let count = stalls.len();
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    Some((times, longest))
}

fn stalls(watched: &Watched, is_virtual: bool, asked: &Requirements) -> Finding {
    const CHECK: &str = "stalls";
    let machine = if is_virtual { "this virtual machine" } else { "this machine" };
    let [all, single] = [&watched.stalls, &watched.single].map(|stalls| times(stalls));
    let what = match (&all, &single) {
        (None, None) => {
            return Finding::fine(CHECK, format!("{machine} never stood still in {WATCHED}"));
        }
        (Some((times, longest)), None) => {
            format!("{machine} stood still {times} in {WATCHED}, for {longest} at most")
        }
        (None, Some((times, longest))) => format!(
            "{machine} never stood still in {WATCHED}, but single cores of it did {times}, for {longest} \
             at most"
        ),
        (Some((times, longest)), Some((single, most))) => format!(
            "{machine} stood still {times} in {WATCHED}, for {longest} at most, and single cores \
             of it {single}, for {most} at most"
        ),
    };
    let longest = all.iter().chain(&single).map(|(_, longest)| *longest).max();
    let longest = longest.unwrap_or(Span::ZERO);
    let spoils = watched.certain && longest > asked.latency.half();
    let verdict = if spoils { Verdict::Spoils } else { Verdict::Warns };
    let why = match (watched.certain, is_virtual, &all) {
        (false, ..) => {
            "it may have been other programs: without real-time priority nobody can tell"
        }
        (true, true, _) => {
            "its host ran something else meanwhile, and what was due is late; give it cores of its \
             own, or more latency, as this tries"
        }
        (true, false, Some(_)) => {
            "its firmware or a driver held every core up; more latency rides it out, as this tries"
        }
        (true, false, None) => {
            "a driver held it up, and the sound of threads on it is late; more latency rides it out, as \
             this tries"
        }
    };
    Finding::of(verdict, CHECK, what, why).seen_by(ridden_out(longest))
}

/// A run whose card's buffer is twice as long as such a stall, and its latency twice that.
fn ridden_out(stall: Span) -> String {
    let micros = u64::try_from(stall.as_nanos() / 1000).unwrap_or(0);
    let periods = (2 * micros).div_ceil(1000).clamp(2, 64);
    let latency = (2 * periods).next_multiple_of(10) + 10;
    format!("taut demo --latency {latency}ms --periods {periods}")
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_proto::time::LocalTime;

    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;

    fn stood_still(millis: &[i64], certain: bool) -> Watched {
        let from = LocalTime::ZERO;
        let stall = |&millis: &i64| Stall { from, to: from + Span::from_millis(millis) };
        Watched { stalls: millis.iter().map(stall).collect(), single: Vec::new(), certain }
    }

    #[test]
    fn a_stall_spoils_what_it_takes_half_of() {
        let judged =
            |millis: &[i64], certain| stalls(&stood_still(millis, certain), true, &asked(5));
        assert_eq!(judged(&[], true).verdict, Verdict::Fine);
        assert_eq!(judged(&[2], true).verdict, Verdict::Warns);
        assert_eq!(judged(&[3], true).verdict, Verdict::Spoils);
        let found = judged(&[2, 12], true);
        assert_eq!(found.verdict, Verdict::Spoils);
        snapshot!(found.what);
        assert_eq!(found.look(), Some("taut demo --latency 60ms --periods 24"));
        assert_eq!(judged(&[2, 12], false).verdict, Verdict::Warns, "it may have been others");
    }

    #[test]
    fn a_core_that_stands_still_alone_is_told_and_judged_as_all_of_them_are() {
        let judged = |all: &[i64], single: &[i64]| {
            let single = stood_still(single, true).stalls;
            stalls(&Watched { single, ..stood_still(all, true) }, true, &asked(5))
        };
        let found = judged(&[], &[1, 2]);
        assert_eq!(found.verdict, Verdict::Warns);
        snapshot!(found.what);
        assert_eq!(judged(&[], &[4]).verdict, Verdict::Spoils);
        let both = judged(&[1], &[12]);
        assert_eq!(both.verdict, Verdict::Spoils);
        snapshot!(both.what);
        assert_eq!(both.look(), Some("taut demo --latency 60ms --periods 24"));
    }

    #[test]
    fn a_virtual_machine_is_known_by_its_processor() {
        for (flags, yes) in [("flags : fpu hypervisor sse", true), ("flags : fpu sse", false)] {
            assert_eq!(is_virtual(&Machine::of(&[("proc/cpuinfo", flags)]).root()), yes);
        }
    }
}
