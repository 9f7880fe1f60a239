//! Report formats, for printing and for files, whose suffix selects the format.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::{PathBufValueParser, TypedValueParser};
use tautline_io::output::{OutputFile, write_hint};
use tautline_report::csv;

use crate::failure::Failure;
use crate::screen;

/// What to print at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportKind {
    /// A page for people
    Text,
    /// The whole report for programs
    Json,
    /// A page for a browser, with charts
    Html,
    /// Nothing
    None,
}

/// What to print at the end, where there is nothing to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlainKind {
    /// A page for people
    Text,
    /// The whole report for programs
    Json,
    /// Nothing
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    Json,
    Csv,
    Html,
    Txt,
    Svg,
}

impl FileFormat {
    pub const fn is_drawn(self) -> bool {
        matches!(self, Self::Html | Self::Svg)
    }

    fn of(path: &Path) -> Option<Self> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).map(str::to_lowercase);
        match suffix.as_deref() {
            Some("json") => Some(Self::Json),
            Some("csv") => Some(Self::Csv),
            Some("html") => Some(Self::Html),
            Some("txt") => Some(Self::Txt),
            Some("svg") => Some(Self::Svg),
            // A pipe or a device has no suffix.
            _ if path.metadata().is_ok_and(|there| !there.is_file()) => Some(Self::Json),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ReportPath {
    path: PathBuf,
    format: FileFormat,
}

impl TryFrom<PathBuf> for ReportPath {
    type Error = &'static str;

    fn try_from(path: PathBuf) -> Result<Self, Self::Error> {
        match FileFormat::of(&path) {
            Some(format) => Ok(Self { path, format }),
            None => Err("must end in .json, .csv, .html, .txt or .svg"),
        }
    }
}

pub fn report_path() -> impl TypedValueParser<Value = ReportPath> {
    PathBufValueParser::new().try_map(ReportPath::try_from)
}

/// Opened before the run, to fail early.
pub struct ReportFiles(Vec<(FileFormat, ReportFile)>);

impl ReportFiles {
    pub fn create(paths: &[ReportPath]) -> Result<Self, Failure> {
        let create =
            |ReportPath { path, format }: &ReportPath| Ok((*format, ReportFile::create(path)?));
        paths.iter().map(create).collect::<Result<_, _>>().map(Self)
    }

    pub fn any_drawn(&self) -> bool {
        self.0.iter().any(|(format, _)| format.is_drawn())
    }

    /// Writes each file, even if another fails. CSV is derived from JSON.
    pub fn write(
        self,
        render: impl Fn(FileFormat) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let write = |(format, file): (FileFormat, ReportFile)| match format {
            FileFormat::Csv => {
                let table = csv::table(&render(FileFormat::Json)?);
                file.write(&table.map_err(|error| Failure::running(error.to_string()))?)
            }
            format => file.write(&render(format)?),
        };
        let written: Vec<_> = self.0.into_iter().map(write).collect();
        written.into_iter().collect()
    }

    /// Writes the files, then prints: the reader of standard output may be gone.
    pub fn write_and_print(
        self,
        kind: ReportKind,
        render: impl Fn(FileFormat) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let written = self.write(&render);
        print(kind, render)?;
        written
    }
}

/// Prints a report as `kind`.
pub fn print(
    kind: ReportKind,
    render: impl Fn(FileFormat) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let format = match kind {
        ReportKind::Text => FileFormat::Txt,
        ReportKind::Json => FileFormat::Json,
        ReportKind::Html => FileFormat::Html,
        ReportKind::None => return Ok(()),
    };
    screen::print(&render(format)?);
    Ok(())
}

/// A report file. An existing file stays until the report is complete.
pub struct ReportFile {
    path: PathBuf,
    way: WrittenHow,
}

enum WrittenHow {
    /// Written to a temporary file, then renamed.
    Alongside,
    /// Written directly, for a pipe or device.
    Into(OutputFile),
}

impl ReportFile {
    pub fn create(path: &Path) -> Result<Self, Failure> {
        match Self::prepare(path) {
            Ok(file) => Ok(file),
            Err(error) => Err(Failure::open(format!(
                "writing {}: {error}\nhint: name a file in an existing folder that you can write to",
                path.display()
            ))),
        }
    }

    fn prepare(path: &Path) -> io::Result<Self> {
        match OutputFile::append(path) {
            Ok(output) => match output.file() {
                Some(file) if file.metadata()?.is_file() => {
                    let path = path.canonicalize()?;
                    Ok(Self { path, way: WrittenHow::Alongside })
                }
                _ => Ok(Self { path: path.to_owned(), way: WrittenHow::Into(output) }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {
                File::create(path)?;
                let made = path.canonicalize()?;
                std::fs::remove_file(&made)?;
                Ok(Self { path: made, way: WrittenHow::Alongside })
            }
            Err(error) => Err(error),
        }
    }

    pub fn write(self, report: &str) -> Result<(), Failure> {
        let path = &self.path;
        let written = match self.way {
            WrittenHow::Alongside => alongside(path, report.as_bytes()),
            WrittenHow::Into(mut file) => file.write_all(report.as_bytes()),
        };
        written.map_err(|error| {
            let hint = write_hint(&error, path, "free space on this disk");
            Failure::running(format!(
                "writing the report {}: {error}\nhint: {hint}",
                path.display()
            ))
        })
    }
}

fn alongside(path: &Path, report: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let mut file = match File::create_new(&part) {
        Ok(file) => file,
        // The file may be writable in a read-only folder.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return std::fs::write(path, report);
        }
        Err(error) => return Err(error),
    };
    let mut put = || {
        file.write_all(report)?;
        if let Ok(before) = path.metadata() {
            file.set_permissions(before.permissions())?;
        }
        std::fs::rename(&part, path)
    };
    let put = put();
    if put.is_err() {
        // Report the original error.
        let _ = std::fs::remove_file(&part);
    }
    put
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn failed_run_keeps_the_old_report() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old.json", "new.json"].map(|name| folder.path().join(name));
        std::fs::write(&old, "kept").unwrap();
        let paths = [&old, &new].map(|path| ReportPath::try_from(path.clone()).unwrap());
        drop(ReportFiles::create(&paths));
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "kept");
        assert_eq!(files(folder.path()), ["old.json"]);
    }

    #[test]
    fn suffix_decides_the_format_and_an_unknown_one_is_refused() {
        let format =
            |path: &str| ReportPath::try_from(PathBuf::from(path)).map(|path| path.format).ok();
        for (path, known) in [
            ("x.json", FileFormat::Json),
            ("a.b/x.CSV", FileFormat::Csv),
            ("x.json.html", FileFormat::Html),
            ("x.txt", FileFormat::Txt),
            ("x.svg", FileFormat::Svg),
            ("/dev/null", FileFormat::Json),
        ] {
            assert_eq!(format(path), Some(known), "{path}");
        }
        for path in ["x", "x.", "x.xml", "x.jsn", "json", ".json", "a.json/x", "x.htm", ""] {
            assert_eq!(format(path), None, "{path}");
        }
    }

    #[test]
    fn each_file_has_its_own_format() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let paths = ["a.txt", "b.csv", "c.json"].map(file);
        let paths = paths.map(|path| ReportPath::try_from(path.clone()).unwrap());
        let render = |format| {
            Ok(match format {
                FileFormat::Txt => "text".to_owned(),
                FileFormat::Json => r#"{"rows":[{"name":"one","x":1}]}"#.to_owned(),
                other => panic!("{other:?}"),
            })
        };
        assert!(ReportFiles::create(&paths).and_then(|files| files.write(render)).is_ok());
        let written = ["a.txt", "b.csv"].map(|name| std::fs::read_to_string(file(name)).unwrap());
        assert_eq!(written, ["text", "name,x\none,1\n"]);
    }

    #[test]
    fn report_replaces_the_old_file_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [old, link] = ["old.json", "link.json"].map(|name| folder.path().join(name));
        std::fs::write(&old, "a longer one").unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        assert!(ReportFile::create(&link).and_then(|file| file.write("new")).is_ok());
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(files(folder.path()), ["link.json", "old.json"]);
    }

    #[test]
    fn failed_report_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("report.json");
        let file = ReportFile::create(&place);
        std::fs::create_dir(&place).unwrap();
        assert!(file.and_then(|file| file.write("new")).is_err());
        assert_eq!(files(folder.path()), ["report.json"]);
    }

    #[test]
    fn pipe_that_no_program_reads_has_its_own_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let written = ReportFile::create(&path).and_then(|file| file.write("unread"));
        let reported = written.err().map(|failure| failure.to_string()).unwrap();
        let end = format!(
            "no program reads it\nhint: start its reader first, as in: cat {}",
            path.display()
        );
        assert!(reported.ends_with(&end), "{reported}");
    }

    #[test]
    fn report_is_written_into_a_pipe() {
        let (mut read, write) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", write.as_raw_fd());
        let file = ReportFile::create(Path::new(&path));
        assert!(file.and_then(|file| file.write("to the other end")).is_ok());
        drop(write);
        let mut received = String::new();
        read.read_to_string(&mut received).unwrap();
        assert_eq!(received, "to the other end");
    }
}
