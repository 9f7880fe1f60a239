//! Where programs of this host keep their files.

use std::path::PathBuf;

/// The folder of files that can be made again, whether it is there or not; `None` if this process has no home.
pub fn cache_folder() -> Option<PathBuf> {
    // The XDG Base Directory Specification has it so: a path that is relative does not count.
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("tautline"))
}

/// The `tautline.toml` that `tautline.so` reads, with its text: the first that there is. The folder in which somebody
/// else's program was started is not searched.
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
