//! Of the commands about who this machine is and whom it trusts.

use std::path::PathBuf;

use clap::Args;
use tautline_api::srtp::Profile;
use tautline_api::trust::HostKey;

use super::PlainKind;
use crate::help;
use tautline_ui::readers::parse;

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
