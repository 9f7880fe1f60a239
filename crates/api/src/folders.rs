//! Directories for files of programs.

use std::path::PathBuf;

/// `None` if this process has no home.
pub fn cache_folder() -> Option<PathBuf> {
    // XDG Base Directory Specification.
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("tautline"))
}

/// Path and text of the first `tautline.toml`. Skips the working directory, as the host program
/// chooses it.
pub fn library_config() -> Option<(PathBuf, String)> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let system = folder("XDG_CONFIG_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("tautline"));
    let folders = [folder("TAUT_HOME"), system, Some("/etc/tautline".into())];
    folders.into_iter().flatten().map(|folder| folder.join("tautline.toml")).find_map(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path, text))
    })
}
