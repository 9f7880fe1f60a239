//! A child: `scan-child FILE` reports a library's plugins, `work-child` runs a stream's. It
//! confines itself before loading. It writes via the original standard output, which plugins cannot
//! reach, and ends with its standard input.

#![expect(unsafe_code, reason = "standard output is kept from plugins")]

mod gauge;
mod noted;
mod soiled;
mod sound;
mod work;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Stdin, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::confinement::{Confinement, folders_of};
use crate::ladspa::library::PluginLibrary;
use crate::process::kill_with_parent;
pub use crate::process::{SCAN, WORK};
use crate::scan::{LibraryAnswer, LibraryRequest};

pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let _ = kill_with_parent();
    let done = match words.first().and_then(|word| word.to_str()) {
        Some(SCAN) if words.len() >= 2 => {
            let readable: Vec<_> = words[2..].iter().map(PathBuf::from).collect();
            run(Path::new(&words[1]), &readable)
        }
        Some(WORK) if matches!(words.len(), 3 | 4) => {
            let numbers = words[1..].iter().map(|word| word.to_str()?.parse().ok());
            match numbers.collect::<Option<Vec<_>>>() {
                Some(numbers) => work::run(&numbers),
                None => Err(io::Error::other("no such descriptor")),
            }
        }
        _ => Err(io::Error::other("no such child")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn parent() -> io::Result<File> {
    let pipe = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // SAFETY: two descriptors of this process, which stay open.
    let answer = unsafe { libc::dup2(io::stderr().as_raw_fd(), io::stdout().as_raw_fd()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(pipe) }
}

fn emit(pipe: &mut File, line: &impl serde::Serialize) -> io::Result<()> {
    let line = serde_json::to_string(line)? + "\n";
    pipe.write_all(line.as_bytes())
}

fn end_with_the_parent(
    lines: BufReader<Stdin>,
    mut line: impl FnMut(Vec<u8>) + Send + 'static,
    last_word: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let watch = move || {
        let mut lines = lines.split(b'\n');
        while let Some(Ok(next)) = lines.next() {
            line(next);
        }
        last_word();
        leave();
    };
    std::thread::Builder::new().name("parent".into()).spawn(watch).map(drop)
}

fn leave() -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(0) }
}

fn run(path: &Path, readable: &[PathBuf]) -> io::Result<()> {
    let mut parent = parent()?;
    let readable: Vec<_> = readable.iter().cloned().chain(folders_of(path)).collect();
    let _ = Confinement::enter(&readable);
    Confinement::fix_scheduling();
    end_with_the_parent(BufReader::new(io::stdin()), |_| (), || ())?;
    let answer = match PluginLibrary::load(path) {
        Ok(library) => {
            let skipped = library.skipped().iter();
            let skipped =
                skipped.map(|it| format!("plugin {} of it: {}", it.index, it.why)).collect();
            let plugins = library.plugins().cloned().collect();
            core::mem::forget(library);
            LibraryAnswer::Library(LibraryRequest { plugins, skipped })
        }
        Err(error) => LibraryAnswer::Refused(error.to_string()),
    };
    emit(&mut parent, &answer)?;
    leave()
}
