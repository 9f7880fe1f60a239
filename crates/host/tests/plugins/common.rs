//! The child program, and misbehaving libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use tautline_host::process::ChildProgram;
use tautline_trial::{Lack, skipped};
use tempfile::TempDir;

pub(crate) fn program() -> ChildProgram {
    ChildProgram::at(env!("CARGO_BIN_EXE_tautline-host-child"))
}

pub(crate) struct Shelf(TempDir);

impl Shelf {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix("taut-plugins-").unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A library with this behaviour (`fixtures/odd.c`), if it can be built.
    pub(crate) fn with(&self, name: &str, does: &[&str]) -> Option<PathBuf> {
        self.built(name, "odd.c", does)
    }

    pub(crate) fn built(&self, name: &str, source: &str, does: &[&str]) -> Option<PathBuf> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugins/fixtures");
        let source = fixtures.join(source);
        let library = self.path().join(format!("{name}.so"));
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        cc.args(does.iter().map(|what| format!("-D{what}")));
        let why = match cc.output() {
            Ok(built) if built.status.success() => return Some(library),
            Ok(built) => String::from_utf8_lossy(&built.stderr).into_owned(),
            Err(error) => format!("cc: {error}"),
        };
        let words = why.lines().find(|line| line.contains("rror")).unwrap_or(&why);
        skipped(Lack::Package, words);
        None
    }
}

/// The distribution's plugin directory, if it has this library.
pub(crate) fn installed(file: &str) -> Option<PathBuf> {
    let folder = PathBuf::from("/usr/lib/ladspa");
    if folder.join(file).exists() {
        return Some(folder);
    }
    skipped(Lack::Package, &format!("{}: No such file", folder.join(file).display()));
    None
}
