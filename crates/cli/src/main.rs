//! `taut`, the one program people run.

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_cli::main()
}
