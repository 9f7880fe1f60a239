//! Who this host is, and whom it trusts: one key pair for each host, made at first use, and a list of the
//! keys of others, as `ssh` has them.
//!
//! Both lie in one folder: `$TAUT_HOME`, else `$XDG_CONFIG_HOME/tautline`, else `~/.config/tautline`. Nobody
//! vouches for anybody: a peer is trusted if its key stands in the list, and what its certificate says
//! besides is not looked at.

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

/// What stands in the way of knowing who one is or whom one trusts. Each is a sentence that ends with the
/// mend.
#[derive(Debug, Error)]
pub enum TrustError {
    /// No variable says where it would lie.
    #[error(
        "none of TAUT_HOME, XDG_CONFIG_HOME and HOME is set, so there is no place for this host's key; \
         set one of them"
    )]
    NoFolder,
    /// The system refused.
    #[error("{tried} {}: {error}; {mend}", path.display())]
    Io {
        /// What was tried: "reading".
        tried: &'static str,
        /// With what.
        path: PathBuf,
        /// What was answered.
        error: std::io::Error,
        /// What to do.
        mend: &'static str,
    },
    /// Others may read the key, or change whom this host trusts.
    #[error("{what}, for the rights of {} are {mode:03o}; {mend}: chmod {right:03o} {0}", path.display())]
    Rights {
        /// "others may read this host's key".
        what: &'static str,
        /// Of which file.
        path: PathBuf,
        /// As they are.
        mode: u32,
        /// What to do besides.
        mend: &'static str,
        /// As they should be.
        right: u32,
    },
    /// It belongs to another user, who may change whom this host trusts.
    #[error(
        "{} belongs to user {owner}; hint: run as that user, or set TAUT_HOME to a folder of yours",
        path.display()
    )]
    Owner {
        /// A file, or its folder.
        path: PathBuf,
        /// The number of its user.
        owner: u32,
    },
    /// The file does not say what it should.
    #[error("{}: {what}; {mend}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// A name that would not stand in the list.
    #[error(
        "{0:?} is no name for a host: 1 to 64 letters, digits, dots, hyphens and underscores are"
    )]
    Name(String),
    /// This host's key makes no certificate, or TLS does not take it.
    #[error(
        "this host's key is of no use to TLS: {0}; move identity.pem away, and taut id makes another"
    )]
    Unusable(String),
}

/// Where identity and trust lie, by the variables that `variable` knows.
pub fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, TrustError> {
    let set = |name| variable(name).filter(|path| path.is_absolute() || name == "TAUT_HOME");
    set("TAUT_HOME")
        .or_else(|| set("XDG_CONFIG_HOME").map(|path| path.join("tautline")))
        .or_else(|| set("HOME").map(|path| path.join(".config/tautline")))
        .ok_or(TrustError::NoFolder)
}

/// Where they lie for this process.
pub fn usual_folder() -> Result<PathBuf, TrustError> {
    folder(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

/// What this host calls itself.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let kept = |c: char| if trusted::is_name_character(c) { c } else { '-' };
    let name: String = name.trim().chars().map(kept).take(trusted::MOST_NAME).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// Who this host is and whom it trusts.
#[derive(Debug)]
pub struct TrustStore {
    identity: HostIdentity,
    trusted: TrustFile,
}

impl TrustStore {
    /// What lies in this folder; the key is made if there is none.
    pub fn open(folder: &Path) -> Result<Arc<Self>, TrustError> {
        let identity = HostIdentity::load_or_make(folder)?;
        Ok(Arc::new(Self { identity, trusted: TrustFile::in_folder(folder) }))
    }

    /// What lies where it usually does.
    pub fn usual() -> Result<Arc<Self>, TrustError> {
        Self::open(&usual_folder()?)
    }

    /// This host's.
    pub const fn identity(&self) -> &HostIdentity {
        &self.identity
    }

    /// The list of others, as it stands whenever it is asked.
    pub const fn trusted(&self) -> &TrustFile {
        &self.trusted
    }

    /// Whether a host that a handshake took is one that it would still take, by the list as it stands now: by this name,
    /// or else by any. Without a name whoever has this host's own key is this host, which needs no list. A list that
    /// cannot be read names nobody: the error says why it cannot.
    pub fn trusts_still(&self, key: HostKey, name: Option<&str>) -> Result<bool, TrustError> {
        if name.is_none() && key == self.identity.key() {
            return Ok(true);
        }
        Ok(self.trusted.hosts()?.trusts(key, name))
    }
}

#[cfg(test)]
mod tests;
