//! State of the machine, from kernel files and from programs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// Below a root folder that tests replace.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    #[cfg(test)]
    _folder: Option<tempfile::TempDir>,
}

impl Machine {
    pub(crate) fn system() -> Self {
        Self {
            root: "/".into(),
            #[cfg(test)]
            _folder: None,
        }
    }

    /// `None` if it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.filter_map(Result::ok).map(name).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Field of `/proc/self/status` (proc_pid_status(5)).
    pub(crate) fn own_status(&self, field: &str) -> Option<String> {
        let status = self.read("proc/self/status")?;
        Some(status.lines().find_map(|line| line.strip_prefix(field))?.trim().to_owned())
    }

    /// Whether the effective user ID (second in "Uid:") is 0.
    pub(crate) fn is_root(&self) -> bool {
        let users = self.own_status("Uid:").unwrap_or_default();
        users.split_whitespace().nth(1) == Some("0")
    }

    /// Whether this is a virtual machine (CPU flag, /sys/hypervisor or device tree).
    pub(crate) fn is_virtual(&self) -> bool {
        let processor = self.read("proc/cpuinfo").unwrap_or_default();
        let flags = processor.lines().find(|line| line.starts_with("flags"));
        flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
            || self.has("sys/hypervisor/type")
            || self.has("proc/device-tree/hypervisor")
    }

    pub(crate) fn cores(&self) -> Vec<String> {
        let mut names = self.list("sys/devices/system/cpu");
        names.retain(|name| {
            name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
        });
        names
    }
}

/// Error output if the program fails. Also searches the administrator's folders.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let folders = ["", "/usr/sbin/", "/sbin/"];
    let output = folders.iter().find_map(|folder| {
        let mut command = Command::new(format!("{folder}{program}"));
        command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output().ok()
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output {
        Some(output) if output.status.success() => Ok(text(&output.stdout)),
        Some(output) => Err(text(&output.stderr)),
        None => Err(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    impl Machine {
        pub(crate) fn of<P: AsRef<str>>(files: &[(P, &str)]) -> Self {
            let folder = TempDir::with_prefix("taut-doctor-").unwrap();
            for (path, text) in files {
                let path = folder.path().join(path.as_ref());
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self { root: folder.path().to_owned(), _folder: Some(folder) }
        }

        pub(crate) fn empty() -> Self {
            Self::of::<&str>(&[])
        }
    }

    #[test]
    fn missing_file_is_none_and_no_failure() {
        let machine = Machine::of(&[("proc/sys/a", " 12\n"), ("proc/sys/b", "x")]);
        let number = machine.number::<i64>("proc/sys/b");
        assert_eq!((machine.number("proc/sys/a"), number), (Some(12), None));
        assert_eq!((machine.read("proc/none"), machine.number::<u8>("proc/sys")), (None, None));
        assert_eq!(machine.list("proc/sys"), ["a", "b"]);
        assert!(machine.list("sys").is_empty());
    }

    #[test]
    fn effective_user_decides_about_root() {
        for (uids, root) in [("0 0 0 0", true), ("1000 0 0 0", true), ("0 1000 0 1000", false)] {
            let status = format!("Name:\ttaut\nUid:\t{}\nGid:\t0\n", uids.replace(' ', "\t"));
            assert_eq!(Machine::of(&[("proc/self/status", &*status)]).is_root(), root, "{uids}");
        }
    }

    #[test]
    fn a_virtual_machine_is_known_by_its_processor() {
        for (flags, yes) in [("flags : fpu hypervisor sse", true), ("flags : fpu sse", false)] {
            assert_eq!(Machine::of(&[("proc/cpuinfo", flags)]).is_virtual(), yes);
        }
    }
}
