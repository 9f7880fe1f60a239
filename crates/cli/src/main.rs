//! `taut`, the one program people run.

mod cmd;
mod columns;
mod config;
mod control;
mod details;
mod doctor;
mod failure;
mod flags;
mod help;
mod live;
mod outcome;
mod presets;
mod redundancy;
mod screen;
mod show;
mod unheard;
mod voice;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use config::Arguments;
use failure::Failure;
use flags::{Command, Taut};

fn main() -> ExitCode {
    match config::arguments().and_then(|arguments| run(understand(&arguments)?.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen::complain(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// Reads the command line; prints what is asked for instead of a run, such as help, and exits.
fn understand(arguments: &Arguments) -> Result<Taut, Failure> {
    Taut::try_parse_from(&arguments.words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => arguments.refuse(error),
    })
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(flags) => cmd::demo::run(&flags),
        Command::Send(flags) => cmd::send::run(&flags),
        Command::Recv(flags) => cmd::recv::run(&flags),
        Command::Devices(flags) => cmd::devices::run(&flags),
        Command::Doctor(flags) => cmd::doctor::run(&flags),
        Command::Join(flags) => cmd::join::run(&flags),
        Command::Compare(flags) => cmd::compare::run(&flags),
        Command::Lab(lab) => cmd::lab::run(&lab),
        Command::Man(flags) => cmd::pages::man(&flags.out),
        Command::Completions(flags) => cmd::pages::completions(&flags.out),
    }
}
