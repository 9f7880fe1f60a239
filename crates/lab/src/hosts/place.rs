//! Place of an experiment, and the command that starts its agent.

use core::fmt;
use core::str::FromStr;
use std::process::Command;

use super::HostError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPlace {
    Local,
    Namespace(String),
    Ssh(String),
}

impl FromStr for HostPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |name: &str| {
            // A leading hyphen would be an option of ssh or ip.
            (!name.is_empty() && !name.starts_with('-')).then(|| name.to_owned())
        };
        let place = match text.split_once(':') {
            None if text == "local" => Some(Self::Local),
            Some(("netns", name)) => named(name).map(Self::Namespace),
            Some(("ssh", name)) => named(name).map(Self::Ssh),
            _ => None,
        };
        place.ok_or_else(|| {
            format!(
                "invalid place '{text}': must be local, netns:NAME or \
                                     ssh:HOST"
            )
        })
    }
}

impl fmt::Display for HostPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Namespace(name) => write!(f, "netns:{name}"),
            Self::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

impl HostPlace {
    pub(super) fn command(&self) -> Result<Command, HostError> {
        let here = std::env::current_exe().map_err(|error| HostError::NotStarted {
            place: self.to_string(),
            why: format!("cannot find this program: {error}"),
        })?;
        let mut command = match self {
            Self::Local => Command::new(&here),
            Self::Namespace(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(&here);
                command
            }
            Self::Ssh(host) => {
                let mut command = Command::new("ssh");
                command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
                // Detects a lost connection.
                command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
                command.args(["--", host, "taut"]);
                command
            }
        };
        command.args(["lab", "agent"]);
        Ok(command)
    }
}
