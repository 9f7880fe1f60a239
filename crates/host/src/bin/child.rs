//! The child process that `taut` starts for each stream and each library, as its own program for
//! this crate's tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_host::child::main(std::env::args_os().skip(1))
}
