//! Of the commands about who this machine is and whom it trusts.

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
    /// The other machine, on which taut pair waits, and what to call it here: [NAME=]HOST[:PORT]. Or [NAME=]ssh:HOST,
    /// where ssh can log in and taut is installed: nothing has to run there, and no code is compared. Without HOST,
    /// wait for the other machine
    #[arg(value_name = "HOST", value_parser = parse::<PairTarget>)]
    pub(crate) target: Option<PairTarget>,
    /// Address of this machine to wait at
    #[arg(long, value_name = "HOST[:PORT]", default_value = "0.0.0.0", value_parser = pairing_listen,
          conflicts_with = "target")]
    pub(crate) listen: SocketAddr,
    /// What to call the machine that is waited for [default: its host name]
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
            Some((name, destination)) => Self::Ssh { name, destination },
            None => Self::Host(text.parse()?),
        };
        let (Self::Ssh { name, .. } | Self::Host(PairingAddress(WorkerAddress { name, .. }))) =
            &target;
        name.as_deref().map_or(Ok(String::new()), host_name).map(|_| target.clone())
    }
}

/// The name and the destination of `[NAME=]ssh:DESTINATION`; `None` for what is not of that form.
pub(super) fn ssh_destination(text: &str) -> Result<Option<(Option<String>, String)>, String> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (Some(name.to_owned()), place),
        None => (None, text),
    };
    let Some(destination) = place.strip_prefix("ssh:") else { return Ok(None) };
    // ssh itself takes an IPv6 address without brackets, and what begins with a hyphen as an option.
    let destination = destination
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(destination);
    if destination.is_empty() || destination.starts_with(['-', '/']) || destination.contains("://")
    {
        return Err(format!(
            "{text:?} has no destination for ssh: write ssh:HOST or ssh:USER@HOST"
        ));
    }
    Ok(Some((name, destination.to_owned())))
}

/// `taut id`
#[derive(Debug, Args)]
#[command(after_help = help::ID)]
pub(crate) struct Id {
    /// Write the certificate and the secret key into this folder, for programs that are to speak for this
    /// machine, such as curl
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

/// `taut srtp-key`
#[derive(Debug, Args)]
#[command(after_help = help::SRTP_KEY)]
pub(crate) struct SrtpKey {
    /// The file to make; one that is there is kept
    pub(crate) file: PathBuf,
    /// By what packets are sealed: AEAD_AES_256_GCM, AEAD_AES_128_GCM, or AES_CM_128_HMAC_SHA1_80 for programs that have
    /// no other, such as ffmpeg
    #[arg(long, value_name = "PROFILE", default_value_t, value_parser = parse::<Profile>)]
    pub(crate) profile: Profile,
}

/// `taut trust`
#[derive(Debug, Args)]
#[command(after_help = help::TRUST)]
pub(crate) struct TrustFlags {
    /// What the other machine is called here
    #[arg(required_unless_present_any = ["list", "remove"], requires = "key")]
    pub(crate) name: Option<String>,
    /// Its key, as taut id prints it there
    #[arg(value_parser = parse::<HostKey>)]
    pub(crate) key: Option<HostKey>,
    /// List who is trusted
    #[arg(long, conflicts_with_all = ["name", "remove"])]
    pub(crate) list: bool,
    /// Trust this machine no more
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) remove: Option<String>,
    /// What to print with --list
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}
