//! Which queue disciplines this kernel has, so that none is advised that it lacks.

use super::kernel;
use super::root::Root;

/// What a `tc` line may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discipline {
    Fq,
    FqCodel,
    Etf,
    Prio,
    Mqprio,
}

impl Discipline {
    const ALL: [Self; 5] = [Self::Fq, Self::FqCodel, Self::Etf, Self::Prio, Self::Mqprio];

    /// As `tc` has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fq => "fq",
            Self::FqCodel => "fq_codel",
            Self::Etf => "etf",
            Self::Prio => "prio",
            Self::Mqprio => "mqprio",
        }
    }

    fn module(self) -> String {
        format!("sch_{}", self.name())
    }
}

/// Those that a kernel is known to lack: neither loaded, nor built in, nor there to be loaded. Where nothing tells what
/// it has, it lacks none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lacking(Vec<Discipline>);

impl Lacking {
    pub(crate) fn read(root: &Root) -> Self {
        let release = root.read("proc/sys/kernel/osrelease").unwrap_or_default();
        let list = |name: &str| root.read(&format!("lib/modules/{release}/{name}"));
        let lists = list("modules.builtin").zip(list("modules.dep"));
        let config = match lists {
            Some(_) => String::new(),
            None => kernel::config(root, &release),
        };
        let lacks = |one: &Discipline| {
            let module = one.module();
            if root.has(&format!("sys/module/{module}")) {
                return false;
            }
            match &lists {
                Some((built_in, loadable)) => {
                    // Modules may be compressed: sch_fq.ko.xz.
                    let file = format!("/{module}.ko");
                    ![built_in, loadable].iter().any(|list| list.contains(&file))
                }
                None => {
                    let unset = format!("# CONFIG_NET_{} is not set", module.to_uppercase());
                    config.lines().any(|line| line == unset)
                }
            }
        };
        Self(Discipline::ALL.into_iter().filter(lacks).collect())
    }

    pub(crate) fn has(&self, one: Discipline) -> bool {
        self.0.contains(&one)
    }

    #[cfg(test)]
    pub(crate) fn of(lacking: &[Discipline]) -> Self {
        Self(lacking.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0-9\n");

    fn lacking(files: &[(&str, &str)]) -> Vec<&'static str> {
        let files: Vec<_> = [RELEASE].iter().chain(files).copied().collect();
        Lacking::read(&Machine::of(&files).root()).0.into_iter().map(Discipline::name).collect()
    }

    #[test]
    fn a_kernel_lacks_what_is_neither_loaded_nor_built_in_nor_there_to_be_loaded() {
        let built_in =
            ("lib/modules/6.1.0-9/modules.builtin", "kernel/net/sched/sch_fq_codel.ko\n");
        let loadable = (
            "lib/modules/6.1.0-9/modules.dep",
            "kernel/net/sched/sch_prio.ko.xz:\nkernel/net/sched/sch_mqprio.ko.xz: kernel/a/b.ko.xz\n",
        );
        assert_eq!(lacking(&[built_in, loadable]), ["fq", "etf"]);
        let loaded = ("sys/module/sch_fq/refcnt", "2\n");
        assert_eq!(lacking(&[built_in, loadable, loaded]), ["etf"]);
    }

    #[test]
    fn without_a_list_of_modules_its_configuration_tells_and_without_that_it_lacks_none() {
        let config = (
            "boot/config-6.1.0-9",
            "CONFIG_NET_SCH_FQ_CODEL=y\n# CONFIG_NET_SCH_FQ is not set\nCONFIG_NET_SCH_PRIO=m\n",
        );
        assert_eq!(lacking(&[config]), ["fq"]);
        assert!(lacking(&[]).is_empty());
        // One of two lists is none.
        assert!(lacking(&[("lib/modules/6.1.0-9/modules.dep", "")]).is_empty());
    }
}
