//! The options of `taut work` and `taut plugins`.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use tautline_api::client::WorkerAddress;
use tautline_api::v1::PORT;
use tautline_io::thread::Scheduler;

use super::PlainKind;
use crate::help;
use crate::voice::WorkVoiceFlags;
use tautline_ui::readers::parse;

/// `taut work`
#[derive(Debug, Args)]
#[command(after_help = help::WORK, after_long_help = help::WORK_LONG)]
pub(crate) struct WorkFlags {
    /// Address to listen on [default: 127.0.0.1]
    ///
    /// 0.0.0.0 listens on all interfaces. On any address but 127.0.0.1 only trusted machines are accepted (taut pair).
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1",
          hide_default_value = true, value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// File of plugin chains to offer
    ///
    /// See Chains below.
    #[arg(long, value_name = "FILE")]
    pub(crate) chains: Option<PathBuf>,
    /// Folder that plugins may read (repeatable)
    ///
    /// Such as one of samples. By default plugins read only their own folders and the system's libraries.
    #[arg(long, value_name = "FOLDER", value_parser = OsStringValueParser::new().try_map(folder))]
    pub(crate) allow_read: Vec<PathBuf>,
    /// Scheduler of plugin threads
    ///
    /// fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD, or other for none.
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>,
          hide_short_help = true)]
    pub(crate) scheduler: Scheduler,
    /// Maximum number of running plugins
    ///
    /// Plugins and chains together.
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_streams: u32,
    /// Allow unencrypted connections from 127.0.0.1
    ///
    /// To measure the cost of encryption.
    #[arg(long, hide_short_help = true)]
    pub(crate) cleartext: bool,
    #[command(flatten)]
    pub(crate) voice: WorkVoiceFlags,
}

/// `taut plugins`
#[derive(Debug, Args)]
#[command(after_help = help::PLUGINS, after_long_help = help::PLUGINS_LONG)]
pub(crate) struct Plugins {
    /// Machine that runs taut work (repeatable)
    ///
    /// List its plugins instead of those of this machine.
    #[arg(long, value_name = "[NAME=]HOST[:PORT]", value_parser = parse::<WorkerAddress>)]
    pub(crate) worker: Vec<WorkerAddress>,
    /// Save the list for plugin hosts here
    ///
    /// Hosts on this machine then show these plugins through tautline.so, next to those saved before.
    #[arg(long, conflicts_with = "chains")]
    pub(crate) save: bool,
    /// List the saved plugins
    #[arg(long, conflicts_with_all = ["worker", "save", "forget", "chains"])]
    pub(crate) saved: bool,
    /// Forget a worker's plugins (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["worker", "save", "chains"])]
    pub(crate) forget: Vec<String>,
    /// File of plugin chains; see taut work
    #[arg(long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) chains: Option<PathBuf>,
    /// text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// Parses the path of an existing folder; a missing one would be ignored later.
fn folder(name: OsString) -> Result<PathBuf, String> {
    let folder = PathBuf::from(&name);
    match folder.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(format!("{} is not a folder", folder.display())),
        Err(error) => Err(format!("{}: {error}", folder.display())),
    }
}

/// Parses an address of this machine. Port 0 selects a free port.
fn listen(text: &str) -> Result<SocketAddr, String> {
    listen_at(text, PORT)
}

/// Parses an address of this machine, with a default port.
pub(super) fn listen_at(text: &str, usual: u16) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok((address, usual).into());
    }
    let found = match text.rsplit_once(':') {
        Some(_) => text.to_socket_addrs(),
        None => (text, usual).to_socket_addrs(),
    };
    found.ok().and_then(|mut found| found.next()).ok_or_else(|| {
        format!("cannot listen on `{text}`\nhint: use an address of `ip -brief address`, such as 10.0.0.2:{usual}")
    })
}

#[cfg(test)]
mod tests {
    use super::{folder, listen};

    #[test]
    fn folder_that_plugins_may_read_exists() {
        let here = env!("CARGO_MANIFEST_DIR");
        assert!(folder(format!("{here}/src/../src").into()).unwrap().ends_with("src"));
        for (name, words) in [("Cargo.toml", "not a folder"), ("none", "No such file")] {
            let error = folder(format!("{here}/{name}").into()).unwrap_err();
            assert!(error.contains(name) && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_place_to_listen_is_an_address_with_or_without_a_port() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:17230"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("::1", "[::1]:17230"),
            ("[::]", "[::]:17230"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(listen(text).unwrap().to_string(), address, "{text}");
        }
        for text in ["", ":", "127.0.0.1:", "127.0.0.1:70000", "a=127.0.0.1", "no such host"] {
            let error = listen(text).unwrap_err();
            assert!(error.contains("ip -brief address"), "{text}: {error}");
        }
    }
}
