//! Man pages and completions, from the same definitions as the command line.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::flags::Taut;

pub(crate) fn man(folder: &Path) -> Result<(), Failure> {
    let write = || {
        std::fs::create_dir_all(folder)?;
        let mut taut = Taut::command().disable_help_subcommand(true);
        taut.build();
        let commands = taut.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        commands.chain([taut.clone()]).try_for_each(|command| page(command, folder))
    };
    write().map_err(|error| failed(folder, &error))
}

/// Writes the page of one command. What stands below the options keeps its lines and its own
/// margin, as examples and tables need it.
fn page(command: Command, folder: &Path) -> io::Result<()> {
    let (man, mut page) = (Man::new(command), Vec::new());
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    let page = page.replace(".SH EXTRA\n", ".SH EXAMPLES AND NOTES\n.nf\n.in 0\n");
    std::fs::write(folder.join(man.get_filename()), page)
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
