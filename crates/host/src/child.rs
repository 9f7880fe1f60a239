//! What a child process does: `scan-child FILE` says what a library has, `work-child` runs plugins
//! for one stream. Before either loads a library it confines itself.
//!
//! What is said to the parent goes by the standard output that the child was given; plugins that
//! write to theirs write to standard error. Where the parent is gone, its end of the standard input
//! is, and the child ends with it, whatever a plugin does.

#![expect(unsafe_code, reason = "standard output is kept from plugins")]

mod gauge;
mod noted;
mod scan;
mod soiled;
mod sound;
mod work;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Stdin, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::process::kill_with_parent;
pub use crate::process::{SCAN, WORK};

/// Does what the words of the command line say, the program's own name not among them.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    // Its start has asked for that already, and it cannot fail for a signal that there is.
    let _ = kill_with_parent();
    let done = match words.first().and_then(|word| word.to_str()) {
        Some(SCAN) if words.len() >= 2 => {
            let readable: Vec<_> = words[2..].iter().map(PathBuf::from).collect();
            scan::run(Path::new(&words[1]), &readable)
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

/// The pipe to the parent. From here on what is written to standard output goes where standard
/// error goes.
fn parent() -> io::Result<File> {
    let pipe = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // SAFETY: two descriptors of this process, whose numbers stay theirs.
    let answer = unsafe { libc::dup2(io::stderr().as_raw_fd(), io::stdout().as_raw_fd()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(pipe) }
}

/// Writes a line to the parent.
fn say(pipe: &mut File, line: &impl serde::Serialize) -> io::Result<()> {
    let line = serde_json::to_string(line)? + "\n";
    pipe.write_all(line.as_bytes())
}

/// Reads the parent's lines on a thread of its own. When the parent closes its end, the process ends, at once but for its
/// last word.
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

/// Ends the process without what libraries do at the end of one.
fn leave() -> ! {
    // SAFETY: it takes a number and does not come back.
    unsafe { libc::_exit(0) }
}
