use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_cli::main()
}
