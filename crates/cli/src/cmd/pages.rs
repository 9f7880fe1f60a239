//! Man pages and completions, from the same definitions as the command line.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::flags::Taut;

pub(crate) fn man(folder: &Path) -> Result<(), Failure> {
    let write = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Taut::command(), folder)
    };
    write().map_err(|error| failed(folder, &error))
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
