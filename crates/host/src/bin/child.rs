//! What `taut` starts for each stream and each library, alone: the tests of this crate start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_host::child::main(std::env::args_os().skip(1))
}
