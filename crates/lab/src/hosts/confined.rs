//! Limits programs with control groups, version 1 or 2 (cgroups(7)), one per program.

use std::fs;
use std::io;
use std::iter::{once, successors};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChildLimits {
    /// Share of one processor, in percent; 100 only counts usage.
    pub cpu_percent: Option<u32>,
    /// Memory in bytes above which the kernel reclaims.
    pub memory_high: Option<u64>,
    /// Child whose group this one shares.
    pub alongside: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    pub cpu_ns: Option<u64>,
    pub periods: u64,
    pub throttled: u64,
    pub throttled_ns: u64,
    pub above_high: Option<u64>,
}

/// Quota period in µs, as the kernel and containers use.
const PERIOD: u64 = 100_000;
/// Maximum real-time percentage of a processor (sched(7): 950 ms of each second).
const MAX_REAL_TIME: u32 = 95;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tree {
    Unified(PathBuf),
    Own(PathBuf),
}

/// Control group, removed on drop, after its programs ended.
#[derive(Debug, Default)]
pub(super) struct Group {
    folders: Vec<PathBuf>,
}

/// `unified` lists version 2 controllers.
fn tree(
    mounts: &str,
    root: &Path,
    controller: &str,
    unified: impl Fn(&Path) -> String,
) -> Option<Tree> {
    let each = || {
        mounts.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let (at, kind, options) = (words.nth(1)?, words.next()?, words.next()?);
            Some((root.join(at.trim_start_matches('/')), kind, options))
        })
    };
    let own = each().find(|(_, kind, options)| {
        *kind == "cgroup" && options.split(',').any(|option| option == controller)
    });
    if let Some((at, ..)) = own {
        return Some(Tree::Own(at));
    }
    let mut all = each().filter(|(_, kind, _)| *kind == "cgroup2").map(|(at, ..)| at);
    all.find(|at| unified(at).split_whitespace().any(|one| one == controller)).map(Tree::Unified)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "\nhint: run as root, with control groups that are not read-only"
            }
            _ => "",
        };
        format!(
            "cannot limit a control group: writing '{text}' to {}: {error}{hint}",
            path.display()
        )
    })
}

impl Group {
    pub(super) fn make(name: &str, limits: &ChildLimits) -> Result<Self, String> {
        let mut group = Self::default();
        if let Some(percent) = limits.cpu_percent {
            group.limit_cpu(name, percent)?;
        }
        if let Some(bytes) = limits.memory_high {
            let Tree::Unified(root) = found("memory")? else {
                return Err(
                    "memory.high needs control groups of version 2, but memory is in version 1 \
                     here\nhint: boot with systemd.unified_cgroup_hierarchy=1"
                        .into(),
                );
            };
            let folder = group.open(&root, name, Some("memory"))?;
            write(&folder.join("memory.high"), &bytes.to_string())?;
        }
        Ok(group)
    }

    fn limit_cpu(&mut self, name: &str, percent: u32) -> Result<(), String> {
        let quota = PERIOD * u64::from(percent) / 100;
        match found("cpu")? {
            Tree::Unified(root) => {
                let folder = self.open(&root, name, Some("cpu"))?;
                let maximum = if percent >= 100 { "max".into() } else { quota.to_string() };
                write(&folder.join("cpu.max"), &format!("{maximum} {PERIOD}"))
            }
            Tree::Own(root) => {
                let folder = self.open(&root, name, None)?;
                // With real-time group scheduling, FIFO fails without a share.
                let share = PERIOD * u64::from(percent.min(MAX_REAL_TIME)) / 100;
                let _ = write(&folder.join("cpu.rt_period_us"), &PERIOD.to_string());
                let _ = write(&folder.join("cpu.rt_runtime_us"), &share.to_string());
                let maximum = if percent >= 100 { "-1".into() } else { quota.to_string() };
                write(&folder.join("cpu.cfs_period_us"), &PERIOD.to_string())?;
                write(&folder.join("cpu.cfs_quota_us"), &maximum)?;
                if let Ok(Tree::Own(other)) = found("cpuacct")
                    && other != root
                {
                    self.open(&other, name, None)?;
                }
                Ok(())
            }
        }
    }

    fn open(&mut self, root: &Path, name: &str, on: Option<&str>) -> Result<PathBuf, String> {
        let folder = root.join(name);
        if let Some(controller) = on {
            let list = root.join("cgroup.subtree_control");
            let has = fs::read_to_string(&list).unwrap_or_default();
            if !has.split_whitespace().any(|one| one == controller) {
                write(&list, &format!("+{controller}"))?;
            }
        }
        if !self.folders.contains(&folder) {
            fs::create_dir(&folder).map_err(|error| {
                format!(
                    "cannot create control group {}: {error}\nhint: run as root",
                    folder.display()
                )
            })?;
            self.folders.push(folder.clone());
        }
        Ok(folder)
    }

    pub(super) fn take(&self, process: u32) -> Result<(), String> {
        self.folders
            .iter()
            .try_for_each(|folder| write(&folder.join("cgroup.procs"), &process.to_string()))
    }

    pub(super) fn used(&self) -> Used {
        let text = |file: &str| {
            let texts = self.folders.iter().map(|folder| fs::read_to_string(folder.join(file)));
            texts.flatten().find(|text| !text.is_empty())
        };
        let mut used = used(&text("cpu.stat").unwrap_or_default());
        let counted = || text("cpuacct.usage")?.trim().parse().ok();
        used.cpu_ns = used.cpu_ns.or_else(counted);
        used.above_high = text("memory.events").and_then(|text| figure(&text, "high"));
        used
    }
}

fn found(controller: &str) -> Result<Tree, String> {
    let unified = |at: &Path| fs::read_to_string(at.join("cgroup.controllers")).unwrap_or_default();
    // `ip netns exec` hides the control groups in /sys (ip-netns(8)); its callers still see them.
    let seen = once(std::process::id()).chain(ancestors()).find_map(|process| {
        let mounts = fs::read_to_string(format!("/proc/{process}/mounts")).ok()?;
        tree(&mounts, Path::new(&format!("/proc/{process}/root/")), controller, unified)
    });
    seen.ok_or_else(|| {
        format!(
            "no control groups for {controller}\nhint: mount them; the kernel needs CONFIG_CGROUPS"
        )
    })
}

fn ancestors() -> impl Iterator<Item = u32> {
    successors(Some(parent_id()), |process| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent != 0)
    })
}

fn figure(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// `cpu.stat`: µs in version 2, ns in version 1.
fn used(stat: &str) -> Used {
    let micros = |name| figure(stat, name).map(|micros: u64| micros.saturating_mul(1000));
    Used {
        cpu_ns: micros("usage_usec"),
        periods: figure(stat, "nr_periods").unwrap_or(0),
        throttled: figure(stat, "nr_throttled").unwrap_or(0),
        throttled_ns: micros("throttled_usec").or(figure(stat, "throttled_time")).unwrap_or(0),
        above_high: None,
    }
}

impl Used {
    pub(super) fn since(&self, first: &Self) -> Self {
        let step = |last: Option<u64>, first: Option<u64>| Some(last?.saturating_sub(first?));
        Self {
            cpu_ns: step(self.cpu_ns, first.cpu_ns),
            periods: self.periods.saturating_sub(first.periods),
            throttled: self.throttled.saturating_sub(first.throttled),
            throttled_ns: self.throttled_ns.saturating_sub(first.throttled_ns),
            above_high: step(self.above_high, first.above_high),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.folders.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                         cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n\
                         cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
                         cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn a_controller_is_found_in_the_tree_that_has_it() {
        let some = |_: &Path| "hugetlb memory".to_owned();
        let at = |path: &str| PathBuf::from(path);
        let tree = |mounts: &str, controller: &str, unified: fn(&Path) -> String| {
            super::tree(mounts, Path::new("/"), controller, unified)
        };
        assert_eq!(tree(FIRST, "cpu", some), Some(Tree::Own(at("/sys/fs/cgroup/cpu"))));
        assert_eq!(tree(FIRST, "memory", some), Some(Tree::Unified(at("/sys/fs/cgroup/unified"))));
        assert_eq!(tree(FIRST, "io", some), None);
        let first = super::tree(FIRST, Path::new("/proc/1/root/"), "cpu", some);
        assert_eq!(first, Some(Tree::Own(at("/proc/1/root/sys/fs/cgroup/cpu"))));
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        let all = |_: &Path| "cpuset cpu io memory pids\n".to_owned();
        assert_eq!(tree(second, "cpu", all), Some(Tree::Unified(at("/sys/fs/cgroup"))));
        assert_eq!(tree("nonsense\n", "cpu", all), None);
    }

    #[test]
    fn cgroup_usage_is_read_in_both_versions() {
        let first = "nr_periods 10\nnr_throttled 3\nthrottled_time 5000\nnr_bursts 0\n";
        let second = "usage_usec 7\nuser_usec 6\nnr_periods 10\nnr_throttled 3\nthrottled_usec 5\n";
        let known = Used { periods: 10, throttled: 3, throttled_ns: 5000, ..Used::default() };
        assert_eq!(used(first), known);
        assert_eq!(used(second), Used { cpu_ns: Some(7000), ..known });
        assert_eq!(used(""), Used::default());
    }

    #[test]
    fn a_group_is_removed_when_it_is_no_longer_needed() {
        let limits = ChildLimits { cpu_percent: Some(50), ..ChildLimits::default() };
        let name = format!("taut-lab-test-{}", std::process::id());
        match Group::make(&name, &limits) {
            Ok(group) => {
                let folders = group.folders.clone();
                assert!(folders.iter().all(|folder| folder.is_dir()), "{folders:?}");
                drop(group);
                assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
            }
            Err(why) => assert!(why.contains("control group"), "{why}"),
        }
    }
}
