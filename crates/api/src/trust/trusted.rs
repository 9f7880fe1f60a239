//! Trusted hosts: `trusted.toml`, lines of `name = "key"` or `name = "key place"`.

use core::fmt;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use toml::{Table, Value};

use super::files::{self, FileRules, NewFile};
use super::{HostKey, TrustError};

const TRUSTED_FILE: &str = "trusted.toml";
pub(super) const MAX_NAME: usize = 64;
/// Maximum characters of `ssh:`, a user and a host name (RFC 1035 §2.3.4).
const MAX_PLACE: usize = 320;
const HINT: &str = "fix it, or move it away and trust each machine again (taut trust NAME KEY); until then \
                    no machine is trusted";

const EXPECTED: FileRules = FileRules {
    forbidden: 0o022,
    otherwise: (
        "other users can change which machines this one trusts",
        "then check them with taut trust --list",
        0o600,
    ),
    // Room for ten thousand hosts.
    max_bytes: 1 << 20,
    own: true,
};

pub(super) const fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Whether this is a valid host name for the list.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_name_character)
}

fn is_place(place: &str) -> bool {
    let shown = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    (1..=MAX_PLACE).contains(&place.len()) && place.chars().all(shown)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TrustedHost {
    key: HostKey,
    place: Option<String>,
}

/// Trusted hosts by name, in alphabetical order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedHosts(BTreeMap<String, TrustedHost>);

impl TrustedHosts {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over names and keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, HostKey)> {
        self.0.iter().map(|(name, host)| (name.as_str(), host.key))
    }

    /// Key of the host with this name.
    pub fn key(&self, name: &str) -> Option<HostKey> {
        self.0.get(name).map(|host| host.key)
    }

    /// The address, or `ssh:` and a destination.
    pub fn place(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.place.as_deref()
    }

    /// Name of the host with this key, if trusted.
    pub fn name(&self, key: HostKey) -> Option<&str> {
        self.iter().find(|(_, known)| *known == key).map(|(name, _)| name)
    }

    /// Whether the key is trusted: under this name, or any.
    pub fn trusts(&self, key: HostKey, name: Option<&str>) -> bool {
        match name {
            Some(name) => self.key(name) == Some(key),
            None => self.name(key).is_some(),
        }
    }

    /// Parses such a file.
    pub fn read(text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
        })?;
        let hosts = table.into_iter().map(|(name, value)| {
            let Value::String(host) = value else { return Err(format!("{name} has no key")) };
            if !is_name(&name) {
                return Err(TrustError::Name(name).to_string());
            }
            let (key, place) = match host.split_once(' ') {
                Some((key, place)) => (key, Some(place)),
                None => (&*host, None),
            };
            let key = key.parse().map_err(|error| format!("{name}: {error}"))?;
            match place.filter(|place| !is_place(place)) {
                Some(place) => Err(format!("{name}: invalid address {place:?}")),
                None => Ok((name, TrustedHost { key, place: place.map(str::to_owned) })),
            }
        });
        hosts.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for TrustedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# Hosts that this one trusts: taut trust NAME KEY.\n")?;
        self.0.iter().try_for_each(|(name, TrustedHost { key, place })| {
            let place = place.as_ref().map_or(String::new(), |place| format!(" {place}"));
            writeln!(f, "\"{name}\" = \"{key}{place}\"")
        })
    }
}

/// Change time, including permissions, length and inode.
type FileStamp = Option<(i64, i64, u64, u64)>;

/// Changes take effect immediately.
#[derive(Debug)]
pub struct TrustFile {
    path: PathBuf,
    read: Mutex<Option<(FileStamp, Arc<TrustedHosts>)>>,
}

impl TrustFile {
    /// The list in this directory, existing or not.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join(TRUSTED_FILE), read: Mutex::new(None) }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parses the file only after changes.
    pub fn hosts(&self) -> Result<Arc<TrustedHosts>, TrustError> {
        let stamp = self.stamp()?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, hosts)) = read.as_ref().filter(|(of, _)| *of == stamp) {
            debug_assert_eq!(*of, stamp);
            return Ok(Arc::clone(hosts));
        }
        let hosts = Arc::new(self.load()?);
        *read = Some((stamp, Arc::clone(&hosts)));
        Ok(hosts)
    }

    fn load(&self) -> Result<TrustedHosts, TrustError> {
        let text = files::read_in_own_folder(&self.path, &EXPECTED)?;
        TrustedHosts::read(text.as_deref().unwrap_or_default())
            .map_err(|what| TrustError::Content { path: self.path.clone(), what, hint: HINT })
    }

    fn stamp(&self) -> Result<FileStamp, TrustError> {
        match std::fs::metadata(&self.path) {
            Ok(file) => Ok(Some((file.ctime(), file.ctime_nsec(), file.len(), file.ino()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(files::refused("looking at", &self.path, error)),
        }
    }

    /// Returns a different previous key of this name. With the same key, the place stays.
    pub fn trust(&self, name: &str, key: HostKey) -> Result<Option<HostKey>, TrustError> {
        self.trust_at(name, key, None)
    }

    /// Trusts a host that was paired at this place.
    pub fn trust_at(
        &self,
        name: &str,
        key: HostKey,
        place: Option<&str>,
    ) -> Result<Option<HostKey>, TrustError> {
        if !is_name(name) {
            return Err(TrustError::Name(name.chars().take(MAX_NAME).collect()));
        }
        let _held = self.hold()?;
        let mut hosts = self.load()?;
        let place = place.filter(|place| is_place(place)).map(str::to_owned);
        let known = hosts.0.get(name).filter(|host| host.key == key);
        let place = place.or_else(|| known?.place.clone());
        let before = hosts.0.insert(name.to_owned(), TrustedHost { key, place });
        self.write(&hosts)?;
        Ok(before.map(|host| host.key).filter(|before| *before != key))
    }

    /// Returns the key, if it was trusted.
    pub fn remove(&self, name: &str) -> Result<Option<HostKey>, TrustError> {
        let _held = self.hold()?;
        let mut hosts = self.load()?;
        let before = hosts.0.remove(name);
        if before.is_some() {
            self.write(&hosts)?;
        }
        Ok(before.map(|host| host.key))
    }

    fn hold(&self) -> Result<Option<File>, TrustError> {
        self.path.parent().map(files::hold).transpose()
    }

    fn write(&self, hosts: &TrustedHosts) -> Result<(), TrustError> {
        NewFile { path: &self.path, text: &hosts.to_string(), mode: 0o600 }.replace()
    }
}
