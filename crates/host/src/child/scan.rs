//! Loads a library and says what it has.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::{end_with_the_parent, leave, parent, say};
use crate::confinement::{Confinement, folders_of};
use crate::ladspa::library::PluginLibrary;
use crate::scan::asked::{AskedLibrary, LibraryAnswer};

pub(super) fn run(path: &Path, readable: &[PathBuf]) -> io::Result<()> {
    let mut parent = parent()?;
    let readable: Vec<_> = readable.iter().cloned().chain(folders_of(path)).collect();
    // What the kernel lacks of it `taut doctor` reports.
    let _ = Confinement::enter(&readable);
    Confinement::fix_scheduling();
    end_with_the_parent(BufReader::new(io::stdin()), |_| (), || ())?;
    let answer = match PluginLibrary::load(path) {
        Ok(library) => {
            let skipped = library.skipped().iter();
            let skipped =
                skipped.map(|it| format!("plugin {} of it: {}", it.index, it.why)).collect();
            let plugins = library.plugins().cloned().collect();
            // Some crash where they are unloaded.
            core::mem::forget(library);
            LibraryAnswer::Library(AskedLibrary { plugins, skipped })
        }
        Err(error) => LibraryAnswer::Refused(error.to_string()),
    };
    say(&mut parent, &answer)?;
    leave()
}
