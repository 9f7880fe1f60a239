//! `taut`, the one program people run.

mod address;
mod cmd;
mod config;
mod failure;
mod flags;
mod screen;

use std::process::ExitCode;

use clap::Parser;
use failure::Failure;
use flags::{Command, Taut};

fn main() -> ExitCode {
    match config::arguments().and_then(|arguments| run(Taut::parse_from(arguments).command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen::complain(&failure);
            ExitCode::from(failure.status)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(flags) => cmd::demo::run(&flags),
        Command::Send(flags) => cmd::send::run(&flags),
        Command::Recv(flags) => cmd::recv::run(&flags),
        Command::Devices => {
            cmd::devices::run();
            Ok(())
        }
        Command::Join(flags) => cmd::join::run(&flags),
        Command::Compare(flags) => cmd::compare::run(&flags),
        Command::Man(flags) => cmd::pages::man(&flags.out),
        Command::Completions(flags) => cmd::pages::completions(&flags.out),
    }
}
