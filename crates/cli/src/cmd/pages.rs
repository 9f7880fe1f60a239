//! Man pages and completions, from the same definitions as the command line.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::flags::Taut;

pub(crate) fn man(folder: &Path) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let taut = Taut::command();
        page(&taut, "taut".to_owned(), folder)?;
        for command in taut.get_subcommands().filter(|command| !command.is_hide_set()) {
            page(command, format!("taut-{}", command.get_name()), folder)?;
        }
        Ok(())
    };
    write().map_err(|error| failed(folder, &error))
}

fn page(command: &Command, name: String, folder: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    let path = folder.join(format!("{name}.1"));
    clap_mangen::Man::new(command.clone()).title(name).render(&mut text)?;
    std::fs::write(path, text)
}

pub(crate) fn completions(folder: &Path) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            debug_assert!(Shell::value_variants().contains(&shell), "a known shell");
            clap_complete::generate_to(shell, &mut Taut::command(), "taut", folder)?;
        }
        Ok(())
    };
    write().map_err(|error| failed(folder, &error))
}

fn failed(folder: &Path, error: &io::Error) -> Failure {
    Failure::running(format!("writing into {}: {error}", folder.display()))
}
