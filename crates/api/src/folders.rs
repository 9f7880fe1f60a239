//! Where programs of this host keep what they can make again.

use std::path::PathBuf;

/// The folder, whether it is there or not; `None` if this process has no home.
pub fn cache_folder() -> Option<PathBuf> {
    // The XDG Base Directory Specification has it so: a path that is relative does not count.
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("tautline"))
}
