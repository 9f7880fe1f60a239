//! Man pages and completions, generated from the clap definitions.

#[cfg(test)]
mod reference;

use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::flags::Taut;

pub(crate) fn man(folder: &Path) -> Result<(), Failure> {
    let write = || {
        std::fs::create_dir_all(folder)?;
        let mut taut = Taut::command().disable_help_subcommand(true);
        taut.build();
        pages(&taut, folder)
    };
    write().map_err(|error| failed(folder, &error))
}

fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        pages(below, folder)?;
    }
    page(command.clone(), folder)
}

/// Text below the options keeps its lines and margin.
fn page(command: Command, folder: &Path) -> io::Result<()> {
    let usage = synopsis(&command);
    let command = command.override_usage(usage);
    let (man, mut page) = (Man::new(command), Vec::new());
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    let page = page.replace(".SH EXTRA\n", ".SH EXAMPLES AND NOTES\n.nf\n.in 0\n");
    std::fs::write(folder.join(man.get_filename()), page)
}

fn synopsis(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or("taut").to_owned()];
    let shown = |required: bool| {
        let all = command.get_arguments().filter(|argument| !argument.is_hide_set());
        all.filter(move |argument| argument.is_required_set() == required)
    };
    words.extend(shown(true).map(word));
    words.extend(shown(false).map(|argument| format!("[{}]", word(argument))));
    words.extend(command.has_subcommands().then(|| "COMMAND ...".to_owned()));
    words.join(" ")
}

fn word(argument: &Arg) -> String {
    let value = argument.get_value_names().unwrap_or_default().join(" ");
    let Some(long) = argument.get_long() else { return value };
    match argument.get_action() {
        ArgAction::Set => format!("--{long} {value}"),
        ArgAction::Append => format!("--{long} {value}..."),
        _ => format!("--{long}"),
    }
}

pub(crate) fn completions(folder: &Path) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut Taut::command(), "taut", folder)?;
        }
        Ok(())
    };
    write().map_err(|error| failed(folder, &error))
}

fn failed(folder: &Path, error: &io::Error) -> Failure {
    Failure::running(format!("writing into {}: {error}", folder.display()))
}
