//! The child of each stream and library, as a program for these tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_host::child::main(std::env::args_os().skip(1))
}
