//! Contacts: switches at GPIO lines of a node that start announcements.
//!
//! They are in `local.toml` of the node, as they depend on the node's wires.

mod debounce;
mod line;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub(crate) use self::line::ContactLine;
use crate::Site;
use crate::local::{LocalError, LocalFile};

/// A contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Name.
    pub name: String,
    /// Path of the chip's device.
    pub(crate) chip: PathBuf,
    /// Number of the line on its chip.
    pub(crate) line: u32,
    /// Whether the contact connects the line to ground when it is closed.
    pub(crate) active_low: bool,
    /// What it starts.
    pub action: ContactAction,
    /// Zones and groups.
    pub to: Vec<String>,
    /// Station; `None` for the only station of this machine.
    pub station: Option<String>,
}

/// Announcement that a contact starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContactAction {
    /// A page while the contact is closed.
    Page,
    /// Plays this message or file, once per closure.
    Play(String),
    /// Plays this message or file, again and again while the contact is closed.
    Repeat(String),
}

/// `[contact.NAME]`
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ContactTable {
    chip: Option<PathBuf>,
    line: Option<u32>,
    #[serde(default)]
    active_low: bool,
    #[serde(default)]
    page: bool,
    play: Option<String>,
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    to: Vec<String>,
    station: Option<String>,
}

impl Contact {
    /// Contacts of this machine.
    ///
    /// # Errors
    ///
    /// If `local.toml` is invalid.
    pub fn all() -> Result<Vec<Self>, LocalError> {
        let path = LocalFile::path();
        if !path.exists() {
            return Ok(Vec::new());
        }
        Self::read(&path, LocalFile::load(&path)?)
    }

    fn read(path: &Path, file: LocalFile) -> Result<Vec<Self>, LocalError> {
        let read = |(name, table): (String, ContactTable)| {
            let ContactTable { chip, line, active_low, page, play, repeat, to, station } = table;
            let invalid = |key, write| {
                let (path, name) = (path.to_owned(), name.clone());
                LocalError::Contact { path, name, key, write }
            };
            let chip =
                chip.ok_or_else(|| invalid("chip", "the chip of the line, such as \"gpiochip0\""))?;
            let line = line
                .ok_or_else(|| invalid("line", "the number of the line at the chip, such as 17"))?;
            let action = match (page, play, repeat) {
                (true, None, false) => ContactAction::Page,
                (false, Some(recording), false) => ContactAction::Play(recording),
                (false, Some(recording), true) => ContactAction::Repeat(recording),
                _ => return Err(invalid("play", "either play = \"MESSAGE\" or page = true")),
            };
            if to.is_empty() {
                return Err(invalid("to", "a list of zones and groups"));
            }
            let chip = Path::new("/dev").join(chip);
            Ok(Self { name, chip, line, active_low, action, to, station })
        };
        file.contact.into_iter().map(read).collect()
    }

    /// Why this building has no such announcement.
    pub(crate) fn mistake(&self, site: &Site) -> Option<String> {
        let named = self.to.iter().map(String::as_str);
        if let Err(name) = site.numbers(named) {
            return Some(format!("the building file has no zone or group {name}"));
        }
        if let Some(name) = self.station.as_ref().filter(|name| !site.stations.contains_key(*name))
        {
            return Some(format!("the building file has no station {name}"));
        }
        match &self.action {
            ContactAction::Play(name) | ContactAction::Repeat(name)
                if !site.messages.contains_key(name) && !Path::new(name).exists() =>
            {
                Some(format!("the building file has no message {name}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Contact>, LocalError> {
        let path = Path::new("local.toml");
        Contact::read(path, LocalFile::parse(path, text)?)
    }

    #[test]
    fn contact_has_a_line_and_an_announcement() {
        let contacts = read(
            "[contact.bell]\nchip = \"gpiochip0\"\nline = 17\nactive-low = true\nplay = \"fire\"\n\
             to = [\"all\"]\nstation = \"panel\"\n\
             [contact.desk]\nchip = \"/tmp/lines\"\nline = 2\npage = true\nto = [\"hall\", \"gym\"]\n\
             [source.radio]\nexec = \"a\"\n",
        );
        let bell = Contact {
            name: "bell".into(),
            chip: "/dev/gpiochip0".into(),
            line: 17,
            active_low: true,
            action: ContactAction::Play("fire".into()),
            to: vec!["all".into()],
            station: Some("panel".into()),
        };
        let desk = Contact {
            name: "desk".into(),
            chip: "/tmp/lines".into(),
            line: 2,
            active_low: false,
            action: ContactAction::Page,
            to: vec!["hall".into(), "gym".into()],
            station: None,
        };
        assert_eq!(contacts.unwrap(), [bell, desk]);
        let alarm = "[contact.alarm]\nchip = \"gpiochip0\"\nline = 1\nplay = \"fire\"\nrepeat = true\nto = [\"all\"]\n";
        assert_eq!(read(alarm).unwrap()[0].action, ContactAction::Repeat("fire".into()));
    }

    #[test]
    fn invalid_contact_is_named() {
        const LINE: &str = "chip = \"gpiochip0\"\nline = 1";
        for (line, value, expected) in [
            ("chip = \"gpiochip0\"", "page = true\nto = [\"hall\"]", "line"),
            ("line = 1", "page = true\nto = [\"hall\"]", "chip"),
            (LINE, "to = [\"hall\"]", "play"),
            (LINE, "page = true\nplay = \"fire\"\nto = [\"hall\"]", "play"),
            (LINE, "page = true\nrepeat = true\nto = [\"hall\"]", "play"),
            (LINE, "page = true\nto = []", "to"),
            (LINE, "page = true", "to"),
        ] {
            let text = format!("[contact.bell]\n{line}\n{value}\n");
            let Err(LocalError::Contact { name, key, .. }) = read(&text) else { panic!("{value}") };
            assert_eq!((name.as_str(), key), ("bell", expected), "{value}");
        }
        let unknown = read("[contact.bell]\nchip = \"gpiochip0\"\nlein = 1\n");
        assert!(matches!(unknown, Err(LocalError::Unreadable { .. })));
    }

    #[test]
    fn names_that_the_building_lacks_are_mistakes() {
        let site = Site::check(crate::tests::VALID.as_bytes()).unwrap();
        let contact = |action, to: &str, station: &str| Contact {
            name: "bell".into(),
            chip: "/dev/gpiochip0".into(),
            line: 1,
            active_low: false,
            action,
            to: vec![to.to_owned()],
            station: Some(station.to_owned()),
        };
        let play = |name: &str| ContactAction::Play(name.to_owned());
        for (contact, named) in [
            (contact(play("fire"), "inside", "desk"), None),
            (contact(play("fire"), "attic", "desk"), Some("attic")),
            (contact(play("fire"), "hall", "porter"), Some("porter")),
            (contact(play("gong"), "hall", "desk"), Some("gong")),
            (contact(ContactAction::Page, "hall", "desk"), None),
        ] {
            let mistake = contact.mistake(&site);
            let found = mistake.as_ref().and_then(|mistake| mistake.split(' ').next_back());
            assert_eq!(found, named);
        }
    }
}
