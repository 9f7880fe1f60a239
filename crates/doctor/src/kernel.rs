//! Whether the kernel lets a thread run as soon as it is due.

use std::process::{Command, Stdio};

use tautline_proto::time::Span;

use super::root::Root;
use super::{Finding, Requirements, Verdict};

/// Below this only a kernel that can be interrupted everywhere keeps its word: others have sections
/// of up to a millisecond in drivers.
const NEEDS_RT: Span = Span::from_millis(2);

pub(crate) fn check(root: &Root, asked: &Requirements) -> Finding {
    preemption(&KernelConfig::read(root), asked)
}

/// When the kernel leaves its own work for a thread that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preemption {
    RealTime,
    /// Nearly everywhere. `lazy` differs from `full` for ordinary threads alone.
    Full,
    /// Where it says so.
    Voluntary,
    /// When it is done.
    Never,
    Unknown,
}

#[derive(Debug)]
struct KernelConfig {
    model: Preemption,
    /// Whether the model can be changed while it runs.
    dynamic: bool,
    /// Whether its debugging files are there, to be read and written by root.
    has_debugfs: bool,
    /// As `uname -r` says.
    release: String,
    /// Debian's word for the processor.
    architecture: &'static str,
}

impl KernelConfig {
    fn read(root: &Root) -> Self {
        let version = root.read("proc/version").unwrap_or_default();
        let says = |word: &str| version.split_whitespace().any(|other| other == word);
        let release = root.read("proc/sys/kernel/osrelease").unwrap_or_default();
        let dynamic = says("PREEMPT_DYNAMIC");
        let model = if says("PREEMPT_RT") || root.number("sys/kernel/realtime") == Some(1) {
            Preemption::RealTime
        } else if dynamic {
            chosen(root).unwrap_or_else(|| built(root, &release))
        } else if says("PREEMPT") || says("PREEMPT_LAZY") {
            Preemption::Full
        } else {
            built(root, &release)
        };
        let architecture = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            "arm" => "armmp",
            _ => "amd64",
        };
        let mounts = root.read("proc/mounts").unwrap_or_default();
        let has_debugfs = mounts.lines().any(|line| line.contains(" /sys/kernel/debug debugfs "));
        Self { model, dynamic, has_debugfs, release, architecture }
    }
}

/// What a dynamic kernel was told: now, or when it started.
fn chosen(root: &Root) -> Option<Preemption> {
    let line = root.read("proc/cmdline").unwrap_or_default();
    let started =
        line.split_whitespace().filter_map(|word| word.strip_prefix("preempt=")).next_back();
    let now = root.read("sys/kernel/debug/sched/preempt");
    let now = now.as_deref().and_then(|all| all.split_once('(')?.1.split_once(')'));
    match now.map(|(word, _)| word).or(started)? {
        "full" | "lazy" => Some(Preemption::Full),
        "voluntary" => Some(Preemption::Voluntary),
        "none" => Some(Preemption::Never),
        _ => None,
    }
}

/// With what it was built, as a file beside it says, or as it says itself; nothing where neither does.
pub(crate) fn config(root: &Root, release: &str) -> String {
    let beside = root.read(&format!("boot/config-{release}"));
    beside.or_else(|| unpacked(root, "proc/config.gz")).unwrap_or_default()
}

fn built(root: &Root, release: &str) -> Preemption {
    let config = config(root, release);
    let set = |name: &str| config.lines().any(|line| line == format!("CONFIG_{name}=y"));
    match () {
        () if set("PREEMPT_VOLUNTARY") => Preemption::Voluntary,
        () if set("PREEMPT_NONE") => Preemption::Never,
        () if set("PREEMPT") || set("PREEMPT_LAZY") => Preemption::Full,
        () => Preemption::Unknown,
    }
}

/// The text of a file that gzip made.
fn unpacked(root: &Root, path: &str) -> Option<String> {
    let path = root.path(path);
    let file = std::fs::File::open(path).ok()?;
    let output = Command::new("gzip").arg("-dc").stdin(file).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn preemption(kernel: &KernelConfig, asked: &Requirements) -> Finding {
    const CHECK: &str = "preemption";
    let KernelConfig { model, dynamic, release, architecture, .. } = kernel;
    let mount =
        if kernel.has_debugfs { "" } else { "sudo mount -t debugfs none /sys/kernel/debug; " };
    let latency = asked.latency;
    let rt = format!("sudo apt install linux-image-rt-{architecture}");
    let (what, mend) = match model {
        Preemption::RealTime => {
            return Finding::fine(CHECK, format!("{release} is PREEMPT_RT"));
        }
        Preemption::Full if latency >= NEEDS_RT => {
            return Finding::fine(CHECK, format!("{release} preempts (full)"));
        }
        Preemption::Full => {
            let what = format!("{release} preempts nearly everywhere, and is not PREEMPT_RT");
            let why = format!("below {NEEDS_RT} its longest sections count; with the next boot");
            return Finding::of(Verdict::Warns, CHECK, what, why).mended_by(rt);
        }
        Preemption::Unknown => {
            let what = format!("what {release} preempts is not to be seen");
            let why = "where the kernel finishes its own work first, a thread wakes late";
            let look = format!("{mount}sudo cat /sys/kernel/debug/sched/preempt");
            return Finding::of(Verdict::Unknown, CHECK, what, why).seen_by(look);
        }
        Preemption::Voluntary => (format!("{release} preempts where it says so (voluntary)"), rt),
        Preemption::Never => (format!("{release} finishes its own work first (none)"), rt),
    };
    let mut why =
        "a system call of another program may hold the device's thread up for milliseconds"
            .to_owned();
    if *dynamic {
        why += "; for good: preempt=full on the kernel's command line";
        let mend = format!("{mount}echo full | sudo tee /sys/kernel/debug/sched/preempt");
        return Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend);
    }
    Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;

    const VERSION: &str = "proc/version";

    fn kernel(files: &[(&str, &str)]) -> KernelConfig {
        KernelConfig::read(&Machine::of(files).root())
    }

    #[test]
    fn the_preemption_model_is_read_from_wherever_it_stands() {
        const DYNAMIC: (&str, &str) = (VERSION, "Linux version 6.1 #1 SMP PREEMPT_DYNAMIC Debian");
        const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0-9");
        const BOOT: &str = "boot/config-6.1.0-9";
        let config = |text| kernel(&[(VERSION, "Linux version 6.1 #1 SMP"), RELEASE, (BOOT, text)]);
        for (kernel, model) in [
            (
                kernel(&[(VERSION, "Linux version 6.1 #1 SMP PREEMPT_RT Debian")]),
                Preemption::RealTime,
            ),
            (
                kernel(&[(VERSION, "Linux 5.10-rt"), ("sys/kernel/realtime", "1\n")]),
                Preemption::RealTime,
            ),
            (kernel(&[(VERSION, "Linux version 6.1 #1 SMP PREEMPT Debian")]), Preemption::Full),
            (
                kernel(&[DYNAMIC, ("sys/kernel/debug/sched/preempt", "none (voluntary) full")]),
                Preemption::Voluntary,
            ),
            (
                kernel(&[DYNAMIC, ("proc/cmdline", "quiet preempt=none preempt=full")]),
                Preemption::Full,
            ),
            (
                kernel(&[DYNAMIC, RELEASE, (BOOT, "CONFIG_PREEMPT_VOLUNTARY=y")]),
                Preemption::Voluntary,
            ),
            (
                config("# CONFIG_PREEMPT_VOLUNTARY is not set\nCONFIG_PREEMPT_NONE=y"),
                Preemption::Never,
            ),
            (kernel(&[DYNAMIC, ("proc/config.gz", "no archive")]), Preemption::Unknown),
            (kernel(&[]), Preemption::Unknown),
        ] {
            assert_eq!(kernel.model, model, "{kernel:?}");
        }
    }

    #[test]
    fn a_kernel_that_preempts_is_fine_down_to_two_milliseconds() {
        let kernel = |model, dynamic| KernelConfig {
            model,
            dynamic,
            has_debugfs: true,
            release: "6.1.0-9".to_owned(),
            architecture: "amd64",
        };
        assert_eq!(preemption(&kernel(Preemption::Full, false), &asked(5)).verdict, Verdict::Fine);
        let found = preemption(&kernel(Preemption::Full, false), &asked(1));
        snapshot!(found.mend().unwrap());
        let found = preemption(&kernel(Preemption::RealTime, false), &asked(1));
        assert_eq!(found.verdict, Verdict::Fine);
        let found = preemption(&kernel(Preemption::Voluntary, true), &asked(5));
        assert_eq!(found.verdict, Verdict::Warns);
        snapshot!(found.mend().unwrap());
    }
}
