//! `taut`, the one program people run: all of it but the file that is run, so that fuzz targets, which
//! are another crate, reach what it reads.

mod cmd;
mod columns;
mod config;
mod control;
mod details;
mod doctor;
mod failure;
mod flags;
#[cfg(fuzzing)]
pub mod fuzzing;
mod help;
mod live;
mod outcome;
mod page;
mod presets;
mod redundancy;
mod report_file;
mod screen;
mod show;
mod unheard;
mod voice;
mod words;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use config::Arguments;
use failure::Failure;
use flags::{Command, Taut};

/// Reads the command line and does what it says; the status says how it went.
pub fn main() -> ExitCode {
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
        Command::Top(flags) => cmd::top::run(&flags),
        Command::Join(flags) => cmd::join::run(&flags),
        Command::Compare(flags) => cmd::compare::run(&flags),
        Command::Lab(lab) => cmd::lab::run(&lab),
        Command::Man(flags) => cmd::pages::man(&flags.out),
        Command::Completions(flags) => cmd::pages::completions(&flags.out),
    }
}
