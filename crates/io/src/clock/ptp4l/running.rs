//! Finds running `ptp4l` processes, their domains and sockets.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tautline_proto::wire::ptp::Domain;

use super::SOCKETS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunningPtp4l {
    pub(super) domain: Option<Domain>,
    pub(super) sockets: [PathBuf; 2],
}

const MAX_BYTES: u64 = 1 << 20;

const WITH_VALUE: &str = "filp";

pub(super) fn running(processes: &Path) -> Vec<RunningPtp4l> {
    let Ok(entries) = fs::read_dir(processes) else { return Vec::new() };
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort_unstable();
    folders.iter().filter_map(|folder| reported(folder)).collect()
}

fn reported(process: &Path) -> Option<RunningPtp4l> {
    // Any user can name a program like this, so only root's and this user's count. SAFETY: no
    // arguments; it cannot fail.
    let trusted = [0, unsafe { libc::geteuid() }];
    if !trusted.contains(&fs::metadata(process).ok()?.uid()) {
        return None;
    }
    if fs::read(process.join("comm")).ok()?.trim_ascii() != b"ptp4l" {
        return None;
    }
    let line = text_of(&process.join("cmdline"))?;
    let options = Options::of(line.split('\0').skip(1));
    let configured = match options.file {
        Some(file) => text_of(&process.join("cwd").join(file)),
        None => Some(String::new()),
    };
    let known = configured.is_some();
    let mut settings = Ptp4lSettings::default();
    settings.read(configured.as_deref().unwrap_or_default());
    options.long.iter().for_each(|(key, value)| settings.set(key, value));
    let Ptp4lSettings { domain, sockets } = settings;
    Some(RunningPtp4l { domain: (known || options.tells_domain()).then_some(domain), sockets })
}

fn text_of(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let at_once = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(at_once).open(path).ok()?;
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Debug, Default)]
struct Options<'a> {
    file: Option<&'a str>,
    long: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    fn of(mut words: impl Iterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        while let Some(word) = words.next() {
            if let Some(long) = word.strip_prefix("--") {
                let pair = long.split_once('=').or_else(|| Some((long, words.next()?)));
                found.long.extend(pair);
            } else if let Some(letters) = word.strip_prefix('-') {
                let Some(at) = letters.find(|letter| WITH_VALUE.contains(letter)) else { continue };
                let (letter, rest) = letters[at..].split_at(1);
                let value = if rest.is_empty() { words.next() } else { Some(rest) };
                found.file = if letter == "f" { value } else { found.file };
            }
        }
        found
    }

    fn tells_domain(&self) -> bool {
        self.long.iter().any(|(key, _)| *key == "domainNumber")
    }
}

#[derive(Debug)]
struct Ptp4lSettings {
    domain: Domain,
    sockets: [PathBuf; 2],
}

impl Default for Ptp4lSettings {
    fn default() -> Self {
        Self { domain: Domain::default(), sockets: SOCKETS.map(PathBuf::from) }
    }
}

impl Ptp4lSettings {
    fn read(&mut self, configuration: &str) {
        let mut global = true;
        for line in configuration.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if line.starts_with('[') {
                global = line == "[global]";
            } else if let Some((key, value)) = line.split_once(char::is_whitespace)
                && global
            {
                self.set(key, value.trim());
            }
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        match (key, number(value)) {
            ("domainNumber", Some(number)) => self.domain.number = number,
            ("transportSpecific", Some(number)) => self.domain.transport = number,
            ("uds_ro_address", _) => self.sockets[0] = value.into(),
            ("uds_address", _) => self.sockets[1] = value.into(),
            _ => {}
        }
    }
}

fn number(text: &str) -> Option<u8> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => u8::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Processes(PathBuf);

    impl Processes {
        fn new(name: &str) -> Self {
            let name = format!("taut-processes-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn with(&self, id: &str, line: &str, configuration: Option<&str>) -> &Self {
            let process = self.0.join(id);
            fs::create_dir_all(process.join("cwd")).unwrap();
            let command = line.split(' ').next().unwrap();
            fs::write(process.join("comm"), format!("{command}\n")).unwrap();
            fs::write(process.join("cmdline"), line.replace(' ', "\0") + "\0").unwrap();
            if let Some(configuration) = configuration {
                fs::write(process.join("cwd/ptp.conf"), configuration).unwrap();
            }
            self
        }

        fn domains(&self) -> Vec<Option<(u8, u8)>> {
            let domain = |reported: RunningPtp4l| {
                reported.domain.map(|domain| (domain.number, domain.transport))
            };
            running(&self.0).into_iter().map(domain).collect()
        }
    }

    impl Drop for Processes {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn ptp4l_command_line_domain_overrides_configuration() {
        let global = "# all\n[global]\ndomainNumber\t\t44\ntransportSpecific 0x1\n";
        let of_a_port = "[global]\ndomainNumber 5\n[eth0]\ndomainNumber 9\ntransportSpecific 1\n";
        let there = Processes::new("domains");
        there
            .with("100", "ptp4l -i eth0 -m", None)
            .with("101", "ptp4l -mf ptp.conf -i eth0", Some(global))
            .with("102", "ptp4l -fptp.conf --domainNumber=24", Some(global))
            .with("103", "ptp4l -f ptp.conf", Some(of_a_port))
            .with("104", "ptp4l -i eth0 --domainNumber 127 --transportSpecific 0x1", None)
            .with("105", "phc2sys -n 3 --domainNumber 3", None)
            .with("106", "ptp4l -f nowhere.conf", None)
            .with("107", "ptp4l -f nowhere.conf --domainNumber 6", None)
            .with("108", "ptp4l --domainNumber", None);
        let known = [(0, 0), (44, 1), (24, 1), (5, 0), (127, 1)].map(Some);
        let mut expected = known.to_vec();
        expected.extend([None, Some((6, 0)), Some((0, 0))]);
        assert_eq!(there.domains(), expected);
        assert!(running(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn daemon_with_other_sockets_is_queried_there() {
        let there = Processes::new("sockets");
        let configuration = "[global]\nuds_address /run/ptp/a\nuds_ro_address /run/ptp/a-ro\n";
        there.with("7", "ptp4l -f ptp.conf --uds_address /run/ptp/b", Some(configuration));
        there.with("8", "ptp4l", None);
        let sockets =
            running(&there.0).into_iter().map(|reported| reported.sockets).collect::<Vec<_>>();
        let own = ["/run/ptp/a-ro", "/run/ptp/b"].map(PathBuf::from);
        assert_eq!(sockets, [own, SOCKETS.map(PathBuf::from)]);
    }
}
