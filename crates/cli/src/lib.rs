//! `taut` without its `main`, so that fuzz targets can call its parsers.

mod cmd;
mod columns;
mod config;
mod control;
mod details;
mod flags;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod help;
mod messages;
mod not_received;
mod on_lost;
mod outcome;
mod page;
mod redundancy;
mod sealing;
mod show;
mod sound_files;
mod systemd;
mod voice;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use config::Arguments;
use failure::Failure;
use flags::{Command, Taut};
use tautline_host::child::{SCAN, WORK};
use tautline_ui::{failure, live, report_file, screen};

pub fn main() -> ExitCode {
    tautline_io::output::ignore_file_size_signal();
    // Child processes of `taut work` and `taut plugins` read no options and no file.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == SCAN || word == WORK) {
        return tautline_host::child::main(std::env::args_os().skip(1));
    }
    match config::arguments().and_then(|arguments| run(understand(&arguments)?.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen::complain(&failure);
            ExitCode::from(failure.status)
        }
    }
}

fn understand(arguments: &Arguments) -> Result<Taut, Failure> {
    let words = without_help_of_help(&arguments.words);
    Taut::try_parse_from(words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => arguments.refuse(error),
    })
}

/// clap would look for a command named `--help`.
fn without_help_of_help(words: &[OsString]) -> &[OsString] {
    let Some((flag, before)) = words.split_last() else { return words };
    let is_help = match before {
        [_, help] => help == "help",
        [_, group, help] => {
            ["demo", "lab", "schedule", "site"].iter().any(|it| group == it) && help == "help"
        }
        _ => false,
    };
    if is_help && (flag == "--help" || flag == "-h") { before } else { words }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(flags) => cmd::demo::run(&flags),
        Command::Send(mut flags) => cmd::send::run(&mut flags),
        Command::Recv(flags) => cmd::recv::run(&flags),
        Command::Serve(flags) => cmd::serve::run(&flags),
        Command::Call(mut flags) => cmd::call::run(&mut flags),
        Command::Devices(flags) => cmd::devices::run(&flags),
        Command::Doctor(flags) => cmd::doctor::run(&flags),
        Command::Top(flags) => cmd::top::run(&flags),
        Command::Work(flags) => cmd::work::run(&flags),
        Command::Plugins(flags) => cmd::plugins::run(&flags),
        Command::Id(flags) => cmd::id::run(&flags),
        Command::SrtpKey(flags) => cmd::srtp_key::run(&flags),
        Command::Trust(flags) => cmd::trust::run(&flags),
        Command::Site(flags::Site::Check(flags)) => cmd::site::check(&flags),
        Command::Site(flags::Site::Push(flags)) => cmd::site::push(&flags),
        Command::Node(flags) => cmd::node::run(&flags),
        Command::Zones(flags) => cmd::zones::list(&flags),
        Command::Zone(flags) => cmd::zones::change(&flags),
        Command::Preset(flags) => cmd::schedule::preset(&flags),
        Command::Schedule(flags::ScheduleCommand::Next(flags)) => cmd::schedule::next(&flags),
        Command::Ack(flags) => cmd::zones::acknowledge(&flags),
        Command::Page(flags) => cmd::announce::page(&flags),
        Command::Play(flags) => cmd::announce::play(&flags),
        Command::Say(flags) => cmd::announce::say(&flags),
        Command::Stop(flags) => cmd::announce::stop(&flags),
        Command::Pair(flags) => cmd::pair::run(&flags),
        Command::Join(flags) => cmd::join::run(&flags),
        Command::Compare(flags) => cmd::compare::run(&flags),
        #[cfg(feature = "lab")]
        Command::Lab(lab) => lab.run(),
        #[cfg(not(feature = "lab"))]
        Command::Lab(_) => Err(Failure::without_lab("lab")),
        Command::Man(flags) => cmd::pages::man(&flags.out),
        Command::Completions(flags) => cmd::pages::completions(&flags.out),
    }
}

#[cfg(test)]
mod tests {
    /// With LTO, the last linked crate's opt-level applies to all crates; "s" vectorizes no loop
    /// (docs/internals/decisions/0034-loops-are-compiled-twice.md).
    #[test]
    fn the_crate_that_is_linked_last_is_not_made_small() {
        let workspace: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
        let profiles = workspace["profile"].as_table().unwrap();
        let dist = &profiles["dist"];
        assert_eq!(dist["lto"].as_str(), Some("fat"), "else this asks for nothing");
        assert_eq!(dist["inherits"].as_str(), Some("release"));
        let level = |name: &str| {
            let own = |profile: &&str| profiles[*profile]["package"].get(name);
            let package = ["dist", "release"].iter().find_map(own)?;
            package.get("opt-level").cloned()
        };
        assert_eq!(level("toml"), Some("s".into()), "read as cargo reads it");
        for last in ["tautline-cli", "tautline-alsa-pcm", "tautline-ladspa-proxy"] {
            let level = level(last);
            assert!(level.as_ref().is_none_or(|level| *level == 3.into()), "{last}: {level:?}");
        }
    }
}
