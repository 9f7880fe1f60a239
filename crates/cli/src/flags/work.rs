//! Of the commands that run other people's plugins and list them.

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
#[command(after_help = help::WORK)]
pub(crate) struct WorkFlags {
    /// Where to listen: an address of this machine, such as 0.0.0.0 for all. Beyond 127.0.0.1, the
    /// default, only machines that are trusted here are answered (taut trust)
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1",
          value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// What is to be offered beside single plugins: a file of chains, see below
    #[arg(long, value_name = "FILE")]
    pub(crate) chains: Option<PathBuf>,
    /// Let plugins read this folder, such as one of samples; once for each. Without it they read their
    /// own folders and the system's libraries alone
    #[arg(long, value_name = "FOLDER", value_parser = OsStringValueParser::new().try_map(folder))]
    pub(crate) readable: Vec<PathBuf>,
    /// Of the threads that run plugins: fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD or other
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
    /// Plugins, or chains, that are run at once at most
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) most_streams: u32,
    /// Let programs of this machine have datagrams that anybody could read: for measuring what the
    /// seal costs, at 127.0.0.1 alone
    #[arg(long)]
    pub(crate) cleartext: bool,
    #[command(flatten)]
    pub(crate) voice: WorkVoiceFlags,
}

/// `taut plugins`
#[derive(Debug, Args)]
#[command(after_help = help::PLUGINS)]
pub(crate) struct Plugins {
    /// The plugins of another machine, where `taut work` runs, and of no other; once for each
    #[arg(long, value_name = "[NAME=]HOST[:PORT]", value_parser = parse::<WorkerAddress>)]
    pub(crate) worker: Vec<WorkerAddress>,
    /// Keep what they have where tautline.so looks, so that hosts show it: what was kept of others stays
    #[arg(long, conflicts_with = "chains")]
    pub(crate) save: bool,
    /// List what is kept: the plugins that hosts find in tautline.so. No worker is asked
    #[arg(long, conflicts_with_all = ["worker", "save", "forget", "chains"])]
    pub(crate) saved: bool,
    /// Take a worker off what is kept, by its name or its address; once for each
    #[arg(long, value_name = "NAME", conflicts_with_all = ["worker", "save", "chains"])]
    pub(crate) forget: Vec<String>,
    /// What is offered beside single plugins of this machine: see taut work
    #[arg(long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) chains: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

/// Reads a folder that exists: one that does not would be overlooked.
fn folder(name: OsString) -> Result<PathBuf, String> {
    let folder = PathBuf::from(&name);
    match folder.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(format!("{} is not a folder", folder.display())),
        Err(error) => Err(format!("{}: {error}", folder.display())),
    }
}

/// Reads an address of this machine: UDP and TCP ports of 0 stand for any that is free.
fn listen(text: &str) -> Result<SocketAddr, String> {
    listen_at(text, PORT)
}

/// The same with this port where none is given.
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
        format!("`{text}` is no address to listen at; use one of `ip -brief address`, such as 10.0.0.2:{usual}")
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
