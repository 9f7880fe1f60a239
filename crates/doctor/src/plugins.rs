//! Whether the kernel confines the plugins that `taut work` runs.

use tautline_host::confinement::{Confinement, Missing};

use super::root::Root;
use super::{Finding, Verdict};

pub(crate) fn check(root: &Root) -> Finding {
    let enabled = root.read("sys/kernel/security/lsm").unwrap_or_default();
    confinement(&Confinement::of_this_kernel(), &enabled)
}

/// `enabled` lists the kernel's security modules, with commas between; it is empty if that cannot be read.
fn confinement(found: &Confinement, enabled: &str) -> Finding {
    const CHECK: &str = "plugins";
    let what = found.to_string();
    if found.is_whole() {
        return Finding::fine(CHECK, what);
    }
    let mut reach = Vec::new();
    if found.files.is_err() {
        reach.push("read and write this user's files");
    }
    if found.calls.is_err() {
        reach.push("open sockets, start programs and signal other processes");
    }
    let mut why = format!("a plugin that `taut work` runs can {}", reach.join(", "));
    match &found.files {
        Err(Missing::NotEnabled) => {
            let modules = match enabled {
                "" => "landlock".to_owned(),
                others => format!("landlock,{others}"),
            };
            let mend = format!(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX lsm={modules}\"' | sudo tee -a /etc/default/grub && \
                 sudo update-grub"
            );
            why += "; the fix takes effect at the next boot";
            Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)
        }
        Err(Missing::NotBuilt) => {
            why += "; Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK has Landlock";
            Finding::of(Verdict::Warns, CHECK, what, why)
        }
        _ => Finding::of(Verdict::Warns, CHECK, what, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: Result<u32, Missing>, calls: Result<(), Missing>) -> Finding {
        confinement(&Confinement { files, calls }, "lockdown,yama")
    }

    #[test]
    fn kernel_with_both_features_is_fine() {
        let finding = found(Ok(7), Ok(()));
        assert_eq!((finding.verdict, finding.why.as_str()), (Verdict::Fine, ""));
        assert_eq!(finding.what, "confined by Landlock (ABI 7) and seccomp");
    }

    #[test]
    fn landlock_that_is_off_is_enabled_beside_the_other_modules() {
        let finding = found(Err(Missing::NotEnabled), Ok(()));
        assert_eq!(finding.verdict, Verdict::Warns);
        assert!(finding.why.contains("read and write this user's files;"), "{finding:?}");
        assert!(finding.mend().unwrap().contains("lsm=landlock,lockdown,yama"), "{finding:?}");
    }

    #[test]
    fn what_a_plugin_can_do_is_named_for_each_feature() {
        let finding = found(Ok(1), Err(Missing::Architecture));
        assert!(
            finding.why.ends_with("can open sockets, start programs and signal other processes")
        );
        let finding = found(Err(Missing::NotBuilt), Ok(()));
        assert!(finding.why.contains("Linux 5.13") && finding.command.is_none(), "{finding:?}");
    }
}
