//! The options of commands for keys and trust.

use core::str::FromStr;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tautline_api::client::WorkerAddress;
use tautline_api::srtp::Profile;
use tautline_api::trust::pairing::{PAIRING_PORT, PairingAddress};
use tautline_api::trust::{HostKey, TrustError, is_name};

use super::PlainKind;
use super::work::listen_at;
use crate::help;
use tautline_ui::readers::parse;

/// `taut pair`
#[derive(Debug, Args)]
#[command(after_help = help::PAIR)]
pub(crate) struct PairFlags {
    /// Machine on which taut pair waits, or ssh:HOST
    ///
    /// [NAME=]HOST[:PORT]; NAME is what to call it here. [NAME=]ssh:HOST logs in with ssh instead and compares no code;
    /// taut must be installed there. Without HOST, wait for the other machine.
    #[arg(value_name = "HOST", value_parser = parse::<PairTarget>)]
    pub(crate) target: Option<PairTarget>,
    /// Address to wait on
    #[arg(long, value_name = "HOST[:PORT]", default_value = "0.0.0.0", value_parser = pairing_listen,
          conflicts_with = "target")]
    pub(crate) listen: SocketAddr,
    /// Name for the other machine [default: its own]
    #[arg(long, conflicts_with = "target", value_parser = host_name)]
    pub(crate) name: Option<String>,
}

fn host_name(text: &str) -> Result<String, String> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(TrustError::Name(text.to_owned()).to_string())
    }
}

fn pairing_listen(text: &str) -> Result<SocketAddr, String> {
    listen_at(text, PAIRING_PORT)
}

/// `[NAME=]HOST[:PORT]` or `[NAME=]ssh:DESTINATION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PairTarget {
    Ssh { name: Option<String>, destination: String },
    Host(PairingAddress),
}

impl FromStr for PairTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let target = match ssh_destination(text)? {
            Some((_, destination)) if has_port(&destination) => {
                return Err(format!(
                    "{text:?} has a port, but ssh reads its port from ~/.ssh/config\n\
                     hint: write `Port` for this host there, and ssh:HOST here"
                ));
            }
            Some((name, destination)) => Self::Ssh { name, destination },
            None => Self::Host(text.parse()?),
        };
        let (Self::Ssh { name, .. } | Self::Host(PairingAddress(WorkerAddress { name, .. }))) =
            &target;
        name.as_deref().map_or(Ok(String::new()), host_name).map(|_| target.clone())
    }
}

/// Whether a destination of `ssh` ends with a port, which `ssh` does not accept. IPv6 has several
/// colons.
fn has_port(destination: &str) -> bool {
    destination.matches(':').count() == 1
}

/// Splits `[NAME=]ssh:DESTINATION` into name and destination; `None` for another form.
pub(super) fn ssh_destination(text: &str) -> Result<Option<(Option<String>, String)>, String> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (Some(name.to_owned()), place),
        None => (None, text),
    };
    let Some(destination) = place.strip_prefix("ssh:") else { return Ok(None) };
    // ssh expects IPv6 addresses without brackets, and reads a leading hyphen as an option.
    let destination = destination
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(destination);
    if destination.is_empty() || destination.starts_with(['-', '/']) || destination.contains("://")
    {
        return Err(format!(
            "{text:?} has no destination for ssh\nhint: write ssh:HOST or ssh:USER@HOST"
        ));
    }
    Ok(Some((name, destination.to_owned())))
}

/// `taut id`
#[derive(Debug, Args)]
#[command(after_help = help::ID)]
pub(crate) struct Id {
    /// Write certificate and secret key to a folder
    ///
    /// For programs that connect as this machine, such as curl.
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// `taut srtp-key`
#[derive(Debug, Args)]
#[command(after_help = help::SRTP_KEY)]
pub(crate) struct SrtpKey {
    /// File to create; an existing one is kept
    pub(crate) file: PathBuf,
    /// SRTP profile
    ///
    /// AEAD_AES_256_GCM, AEAD_AES_128_GCM, or AES_CM_128_HMAC_SHA1_80 for programs such as ffmpeg.
    #[arg(long, value_name = "PROFILE", default_value_t, value_parser = parse::<Profile>)]
    pub(crate) profile: Profile,
}

/// `taut trust`
#[derive(Debug, Args)]
#[command(after_help = help::TRUST)]
pub(crate) struct TrustFlags {
    /// Name of the other machine
    #[arg(required_unless_present_any = ["list", "remove"], requires = "key")]
    pub(crate) name: Option<String>,
    /// Its key, as printed by taut id there
    #[arg(value_parser = parse::<HostKey>)]
    pub(crate) key: Option<HostKey>,
    /// List trusted machines
    #[arg(long, conflicts_with_all = ["name", "remove"])]
    pub(crate) list: bool,
    /// Remove a machine
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) remove: Option<String>,
    /// With --list: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_destination_to_pair_with_has_no_port() {
        let target = |text: &str| text.parse::<PairTarget>();
        assert!(target("office=ssh:me@10.0.0.2:22").is_err());
        let destination = "2001:db8::2".to_owned();
        let address = PairTarget::Ssh { name: None, destination };
        assert_eq!(target("ssh:[2001:db8::2]"), Ok(address));
    }
}
