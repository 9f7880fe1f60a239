//! Kernel features: preemption, and confinement of plugins.

use std::process::{Command, Stdio};

use tautline_host::confinement::{Confinement, Missing};
use tautline_proto::time::Span;

use crate::Verdict::{Unknown, Warning};
use crate::{Finding, Machine};

/// Minimum latency without PREEMPT_RT. Other kernels have driver sections of up to 1 ms.
const NEEDS_RT: Span = Span::from_millis(2);
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else if cfg!(target_arch = "arm") {
    "armmp"
} else {
    "amd64"
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preemption {
    RealTime,
    Full,
    Voluntary,
    Never,
    Unknown,
}

pub(crate) fn release(machine: &Machine) -> String {
    machine.read("proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Empty if unknown.
pub(crate) fn config(machine: &Machine) -> String {
    let alongside = machine.read(&format!("boot/config-{}", release(machine)));
    let own = || {
        let file = std::fs::File::open(machine.path("proc/config.gz")).ok()?;
        let mut gzip = Command::new("gzip");
        let output = gzip.arg("-dc").stdin(file).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    alongside.or_else(own).unwrap_or_default()
}

fn model(machine: &Machine) -> (Preemption, bool) {
    let version = machine.read("proc/version").unwrap_or_default();
    let says = |word: &str| version.split_whitespace().any(|part| part == word);
    let is_dynamic = says("PREEMPT_DYNAMIC");
    let model = if says("PREEMPT_RT") || machine.number("sys/kernel/realtime") == Some(1) {
        Preemption::RealTime
    } else if is_dynamic {
        chosen(machine).unwrap_or_else(|| built(machine))
    } else if says("PREEMPT") || says("PREEMPT_LAZY") {
        Preemption::Full
    } else {
        built(machine)
    };
    (model, is_dynamic)
}

fn chosen(machine: &Machine) -> Option<Preemption> {
    let line = machine.read("proc/cmdline").unwrap_or_default();
    let started =
        line.split_whitespace().filter_map(|word| word.strip_prefix("preempt=")).next_back();
    let now = machine.read("sys/kernel/debug/sched/preempt");
    let now = now.as_deref().and_then(|all| all.split_once('(')?.1.split_once(')'));
    match now.map(|(word, _)| word).or(started)? {
        "full" | "lazy" => Some(Preemption::Full),
        "voluntary" => Some(Preemption::Voluntary),
        "none" => Some(Preemption::Never),
        _ => None,
    }
}

fn built(machine: &Machine) -> Preemption {
    let config = config(machine);
    let set = |name: &str| config.lines().any(|line| line == format!("CONFIG_{name}=y"));
    match () {
        () if set("PREEMPT_VOLUNTARY") => Preemption::Voluntary,
        () if set("PREEMPT_NONE") => Preemption::Never,
        () if set("PREEMPT") || set("PREEMPT_LAZY") => Preemption::Full,
        () => Preemption::Unknown,
    }
}

pub(crate) fn preemption(machine: &Machine, latency: Span) -> Finding {
    let (model, is_dynamic) = model(machine);
    let release = release(machine);
    let mounts = machine.read("proc/mounts").unwrap_or_default();
    let has_debugfs = mounts.lines().any(|line| line.contains(" /sys/kernel/debug debugfs "));
    let mount = if has_debugfs { "" } else { "sudo mount -t debugfs none /sys/kernel/debug; " };
    let rt = format!("sudo apt install linux-image-rt-{ARCHITECTURE}");
    let what = match model {
        Preemption::RealTime => return Finding::passed(format!("{release} is PREEMPT_RT")),
        Preemption::Full if latency >= NEEDS_RT => {
            return Finding::passed(format!("{release} preempts (full)"));
        }
        Preemption::Full => {
            let what = format!("{release} is preemptible nearly everywhere, but not PREEMPT_RT");
            let why = format!(
                "below {NEEDS_RT} its longest non-preemptible sections matter; \
                               takes effect at the next boot"
            );
            return Finding::new(Warning, what, why).fix(rt);
        }
        Preemption::Unknown => {
            let what = format!("the preemption mode of {release} is unknown");
            let why = "without preemption the kernel finishes its own work first, and threads \
                       wake late";
            let look = format!("{mount}sudo cat /sys/kernel/debug/sched/preempt");
            return Finding::new(Unknown, what, why).details(look);
        }
        Preemption::Voluntary => format!("{release} preempts only at some points (voluntary)"),
        Preemption::Never => format!("{release} does not preempt its own work (none)"),
    };
    let why = "a system call of another program may block the device's thread for milliseconds";
    if !is_dynamic {
        return Finding::new(Warning, what, why).fix(rt);
    }
    let why = format!("{why}; permanently: preempt=full on the kernel's command line");
    let fix = format!("{mount}echo full | sudo tee /sys/kernel/debug/sched/preempt");
    Finding::new(Warning, what, why).fix(fix)
}

pub(crate) fn confinement(machine: &Machine, found: &Confinement) -> Finding {
    let what = found.to_string();
    if found.is_whole() {
        return Finding::passed(what);
    }
    let mut reach = Vec::new();
    if found.files.is_err() {
        reach.push("read and write this user's files");
    }
    if found.calls.is_err() {
        reach.push("open sockets, start programs and signal other processes");
    }
    let why = format!("a plugin that `taut work` runs can {}", reach.join(", "));
    match &found.files {
        Err(Missing::NotEnabled) => {
            let enabled = machine.read("sys/kernel/security/lsm").unwrap_or_default();
            let modules = format!("landlock,{enabled}");
            let modules = modules.trim_end_matches(',');
            let fix = format!(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX lsm={modules}\"' | sudo tee -a /etc/default/grub && \
                 sudo update-grub"
            );
            let why = format!("{why}; the fix takes effect at the next boot");
            Finding::new(Warning, what, why).fix(fix)
        }
        Err(Missing::NotBuilt) => {
            let why =
                format!("{why}; Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK has Landlock");
            Finding::new(Warning, what, why)
        }
        _ => Finding::new(Warning, what, why),
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0-9");

    #[test]
    fn preemption_model_is_read_from_any_source() {
        const DYNAMIC: &str = "Linux version 6.1 #1 SMP PREEMPT_DYNAMIC Debian";
        const NAMELESS: &str = "Linux version 6.1 #1 SMP";
        const BOOT: &str = "boot/config-6.1.0-9";
        const NEVER: &str = "# CONFIG_PREEMPT_VOLUNTARY is not set\nCONFIG_PREEMPT_NONE=y";
        for (version, file, expected) in [
            ("Linux version 6.1 #1 SMP PREEMPT_RT Debian", ("x", ""), Preemption::RealTime),
            ("Linux 5.10-rt", ("sys/kernel/realtime", "1\n"), Preemption::RealTime),
            ("Linux version 6.1 #1 SMP PREEMPT Debian", ("x", ""), Preemption::Full),
            (
                DYNAMIC,
                ("sys/kernel/debug/sched/preempt", "none (voluntary) full"),
                Preemption::Voluntary,
            ),
            (DYNAMIC, ("proc/cmdline", "quiet preempt=none preempt=full"), Preemption::Full),
            (DYNAMIC, (BOOT, "CONFIG_PREEMPT_VOLUNTARY=y"), Preemption::Voluntary),
            (NAMELESS, (BOOT, NEVER), Preemption::Never),
            (DYNAMIC, ("proc/config.gz", "no archive"), Preemption::Unknown),
            ("", ("x", ""), Preemption::Unknown),
        ] {
            let machine = Machine::of(&[("proc/version", version), RELEASE, file]);
            assert_eq!(model(&machine).0, expected, "{version}: {file:?}");
        }
    }

    #[test]
    fn a_kernel_that_preempts_is_fine_down_to_two_milliseconds() {
        let judged = |version: &str, millis| {
            let mounts = "debugfs /sys/kernel/debug debugfs rw 0 0";
            let built = ("boot/config-6.1.0-9", "CONFIG_PREEMPT_VOLUNTARY=y");
            let files = [("proc/version", version), ("proc/mounts", mounts), RELEASE, built];
            preemption(&Machine::of(&files), Span::from_millis(millis))
        };
        assert_eq!(judged("PREEMPT", 5).verdict, Passed);
        let found = judged("PREEMPT", 1);
        snapshot!(found.fix.unwrap().replace(ARCHITECTURE, "amd64"));
        assert_eq!(judged("PREEMPT_RT", 1).verdict, Passed);
        let found = judged("PREEMPT_DYNAMIC", 5);
        assert_eq!(found.verdict, Warning);
        snapshot!(found.fix.unwrap());
    }

    fn confined(files: Result<u32, Missing>, calls: Result<(), Missing>) -> Finding {
        let machine = Machine::of(&[("sys/kernel/security/lsm", "lockdown,yama")]);
        confinement(&machine, &Confinement { files, calls })
    }

    #[test]
    fn kernel_with_both_features_is_fine() {
        let finding = confined(Ok(7), Ok(()));
        assert_eq!((finding.verdict, finding.reason), (Passed, None));
        assert_eq!(finding.message, "confined by Landlock (ABI 7) and seccomp");
    }

    #[test]
    fn landlock_that_is_off_is_enabled_beside_the_other_modules() {
        let finding = confined(Err(Missing::NotEnabled), Ok(()));
        assert_eq!(finding.verdict, Warning);
        assert!(finding.reason.unwrap().contains("read and write this user's files;"));
        assert!(finding.fix.unwrap().contains("lsm=landlock,lockdown,yama"));
    }

    #[test]
    fn plugin_features_are_listed() {
        let why = confined(Ok(1), Err(Missing::Architecture)).reason.unwrap();
        assert!(why.ends_with("can open sockets, start programs and signal other processes"));
        let finding = confined(Err(Missing::NotBuilt), Ok(()));
        assert_eq!(finding.command(), None);
        assert!(finding.reason.unwrap().contains("Linux 5.13"));
    }
}
