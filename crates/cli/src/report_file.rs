//! A report in a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Where the report goes, made before the run: whoever waits an hour for it must not learn then that it
/// cannot be written.
pub(crate) struct ReportFiles(Vec<ReportFile>);

impl ReportFiles {
    pub(crate) fn create(paths: &[PathBuf]) -> Result<Self, Failure> {
        paths.iter().map(|path| ReportFile::create(path)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of them is a page.
    pub(crate) fn any_page(&self) -> bool {
        self.0.iter().any(ReportFile::is_page)
    }

    /// Writes all of them, whatever becomes of one.
    pub(crate) fn write(
        self,
        json: impl Fn() -> Result<String, Failure>,
        page: impl Fn() -> String,
    ) -> Result<(), Failure> {
        let write = |file: ReportFile| match file.is_page() {
            true => file.write(&page()),
            false => file.write(&json()?),
        };
        let written: Vec<_> = self.0.into_iter().map(write).collect();
        written.into_iter().collect()
    }
}

/// One of them.
pub(crate) struct ReportFile {
    path: PathBuf,
    file: File,
}

impl ReportFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        match File::create(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), file }),
            Err(error) => Err(Failure::open(format!(
                "writing {}: {error}; name a file in a folder that is there and that you may \
                 write in",
                path.display()
            ))),
        }
    }

    fn is_page(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
    }

    pub(crate) fn write(mut self, report: &str) -> Result<(), Failure> {
        self.file.write_all(report.as_bytes()).map_err(|error| {
            let path = self.path.display();
            Failure::running(format!("writing the report {path}: {error}; is there room for it?"))
        })
    }
}
