//! The kernel's files, below a folder that tests put their own into.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

/// Where `/proc`, `/sys` and the like are.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// Those of this machine.
    pub(crate) fn system() -> Self {
        Self("/".into())
    }

    /// The text of a file, without the space around it; `None` if it is not there or may not be
    /// read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read(self.0.join(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// The number that a file holds.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// The names in a folder, in order; none if it is not there.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join(path)) else { return Vec::new() };
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.filter_map(Result::ok).map(name).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use tempfile::TempDir;

    use super::*;

    /// A machine made of files.
    pub(crate) struct Machine {
        folder: TempDir,
    }

    impl Machine {
        pub(crate) fn of(files: &[(&str, &str)]) -> Self {
            let machine = Self { folder: TempDir::with_prefix("taut-doctor-").unwrap() };
            for (path, text) in files {
                let path = machine.folder.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            machine
        }

        pub(crate) fn root(&self) -> Root {
            Root(self.folder.path().to_owned())
        }
    }

    #[test]
    fn what_is_not_there_is_nothing_and_no_failure() {
        let machine = Machine::of(&[("proc/sys/a", " 12\n"), ("proc/sys/b", "x")]);
        let root = machine.root();
        assert_eq!((root.number("proc/sys/a"), root.number::<i64>("proc/sys/b")), (Some(12), None));
        assert_eq!((root.read("proc/none"), root.number::<u8>("proc/sys")), (None, None));
        assert_eq!(
            (root.list("proc/sys"), root.list("sys")),
            (vec!["a".into(), "b".into()], vec![])
        );
    }
}
