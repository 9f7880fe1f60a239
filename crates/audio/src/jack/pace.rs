//! Which server a client is of, and so which clock sets its pace.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;

use tautline_io::clock::host_clock;
use tautline_proto::clock::ClockId;

use super::library::Library;

/// Where the servers of this host, or of a container, know each other. JACK makes it once.
const REGISTRY: &str = "/dev/shm/jack-shm-registry";

/// The clock of the server of this name, or of the usual one: a user has one of each name. `None`
/// where it cannot be told from others, as PipeWire in JACK's place, which may drive each client by
/// another card.
pub(super) fn of_server(name: Option<&str>) -> Option<ClockId> {
    Library::get().ok().filter(|library| library.is_jacks())?;
    let usual = || env::var("JACK_DEFAULT_SERVER").unwrap_or_else(|_| "default".to_owned());
    let name = name.map_or_else(usual, str::to_owned);
    let registry = fs::metadata(REGISTRY).ok()?;
    let user = fs::metadata("/proc/self").ok()?.uid();
    let numbers = [registry.dev(), registry.ino(), user.into()].map(u64::to_be_bytes);
    let parts = [b"jack", name.as_bytes(), &numbers[0], &numbers[1], &numbers[2]];
    Some(host_clock()?.id().with(&parts))
}
