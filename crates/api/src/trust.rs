//! Identity and trust, similar to `ssh`: each host has one key pair, and a list of trusted keys.
//!
//! Both are in `$TAUT_HOME`, else `$XDG_CONFIG_HOME/tautline`, else `~/.config/tautline`.

pub(crate) mod files;
mod host_key;
mod identity;
pub mod pairing;
pub mod tls;
mod trusted;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

pub use host_key::{HostKey, NoHostKey};
pub use identity::HostIdentity;
pub use trusted::{TrustFile, TrustedHosts, is_name};

/// Errors from identity and trust files, each with its fix.
#[derive(Debug, Error)]
pub enum TrustError {
    /// No environment variable gives the directory.
    #[error(
        "no folder for this host's key: TAUT_HOME, XDG_CONFIG_HOME and HOME are not set\n\
         hint: set one of them"
    )]
    NoFolder,
    /// A system call failed.
    #[error("{tried} {}: {error}\nhint: {hint}", path.display())]
    Io {
        /// The operation, such as "reading".
        tried: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        error: std::io::Error,
        /// How to fix it.
        hint: &'static str,
    },
    /// Other users can read the key or change the trust list.
    #[error("{what}: the mode of {} is {mode:03o}\nhint: chmod {right:03o} {0}; {hint}", path.display())]
    Rights {
        /// The problem.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Current mode.
        mode: u32,
        /// What to do in addition.
        hint: &'static str,
        /// Required mode.
        right: u32,
    },
    /// Another user owns it.
    #[error(
        "{} belongs to user {owner}\nhint: run as that user, or set TAUT_HOME to a folder of yours",
        path.display()
    )]
    Owner {
        /// A file or its directory.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// The file's content is invalid.
    #[error("{}: {what}\nhint: {hint}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// An invalid host name for the list.
    #[error(
        "invalid host name {0:?}: must be 1 to 64 letters, digits, dots, hyphens and underscores"
    )]
    Name(String),
    /// TLS rejects this host's key.
    #[error(
        "TLS rejects this host's key: {0}\nhint: move identity.pem away, and create a new one with taut id"
    )]
    Unusable(String),
}

/// Directory of identity and trust, per environment `variable`.
pub fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, TrustError> {
    let set = |name| variable(name).filter(|path| path.is_absolute() || name == "TAUT_HOME");
    set("TAUT_HOME")
        .or_else(|| set("XDG_CONFIG_HOME").map(|path| path.join("tautline")))
        .or_else(|| set("HOME").map(|path| path.join(".config/tautline")))
        .ok_or(TrustError::NoFolder)
}

/// That directory for this process.
pub fn usual_folder() -> Result<PathBuf, TrustError> {
    folder(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

/// Name of this host.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let kept = |c: char| if trusted::is_name_character(c) { c } else { '-' };
    let name: String = name.trim().chars().map(kept).take(trusted::MAX_NAME).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// Identity of this host, and its trusted hosts.
#[derive(Debug)]
pub struct TrustStore {
    identity: HostIdentity,
    trusted: TrustFile,
}

impl TrustStore {
    /// Opens the store; creates the key if it is missing.
    pub fn open(folder: &Path) -> Result<Arc<Self>, TrustError> {
        let identity = HostIdentity::load_or_make(folder)?;
        Ok(Arc::new(Self { identity, trusted: TrustFile::in_folder(folder) }))
    }

    /// Opens the default store.
    pub fn usual() -> Result<Arc<Self>, TrustError> {
        Self::open(&usual_folder()?)
    }

    /// Identity of this host.
    pub const fn identity(&self) -> &HostIdentity {
        &self.identity
    }

    /// The list of trusted hosts, always current.
    pub const fn trusted(&self) -> &TrustFile {
        &self.trusted
    }

    /// Whether a host is still trusted: under this name, or any. Without a name, this host's own
    /// key is. An unreadable list trusts no host.
    pub fn trusts_still(&self, key: HostKey, name: Option<&str>) -> Result<bool, TrustError> {
        if name.is_none() && key == self.identity.key() {
            return Ok(true);
        }
        Ok(self.trusted.hosts()?.trusts(key, name))
    }
}

#[cfg(test)]
mod tests;
