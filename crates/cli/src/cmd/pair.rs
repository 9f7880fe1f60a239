use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use rustix::termios::{QueueSelector, tcflush};
use serde::Deserialize;
use tautline_api::trust::pairing::{Pairing, PairingAddress, PairingError};
use tautline_api::trust::{HostKey, TrustStore, host_name};

use crate::failure::Failure;
use crate::flags::{PairFlags, PairTarget};
use crate::screen;

pub(crate) fn run(flags: &PairFlags) -> Result<(), Failure> {
    let store = TrustStore::usual()?;
    match &flags.target {
        Some(PairTarget::Ssh { name, destination }) => by_ssh(&store, name.as_deref(), destination),
        Some(PairTarget::Host(whom)) => call(&store, whom),
        None => wait(&store, flags.listen, flags.name.as_deref()),
    }
}

fn call(store: &Arc<TrustStore>, whom: &PairingAddress) -> Result<(), Failure> {
    let pairing = Pairing::dial(whom, store).map_err(failure)?;
    let peer = Peer::of(&pairing, whom.0.name.as_deref());
    let host = &whom.0.host;
    // In addresses to call, IPv6 has brackets.
    let place = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    compare(store, pairing, &peer, Some(&place))
}

/// Maximum concurrent exchanges. A silent host has a timeout of 5 s.
const EXCHANGES: usize = 8;

/// Ends once a host is paired, or a host that could know the code disconnects. More attempts would
/// be more guesses.
fn wait(store: &Arc<TrustStore>, listen: SocketAddr, name: Option<&str>) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::open(format!(
            "listening on TCP {listen}: {error}\nhint: choose another address or port with --listen"
        ))
    };
    let listener = TcpListener::bind(listen).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    screen::notify(&format!(
        "run `taut pair HOST` on the other machine, with this machine's address; waiting at {address}"
    ));
    let (ended, exchanges) = sync_channel(0);
    for _ in 0..EXCHANGES {
        let (listener, store, ended) =
            (listener.try_clone().map_err(cannot)?, Arc::clone(store), ended.clone());
        std::thread::spawn(move || {
            while let Ok((stream, from)) = listener.accept() {
                if ended.send((from.ip(), Pairing::answer(stream, &store))).is_err() {
                    break;
                }
            }
        });
    }
    let mut reported = BTreeSet::new();
    for (from, pairing) in exchanges {
        match pairing {
            Ok(pairing) => {
                let peer = Peer::of(&pairing, name);
                return compare(store, pairing, &peer, None);
            }
            Err(error) if error.is_before_code() => {
                if reported.len() < MAX_TOLD && reported.insert(from) {
                    screen::notify(&format!("{from}: {error}"));
                }
            }
            Err(error) => return Err(failure(error)),
        }
    }
    Ok(())
}

/// Maximum addresses reported: port scans connect, too.
const MAX_TOLD: usize = 20;

fn compare(
    store: &TrustStore,
    pairing: Pairing,
    peer: &Peer,
    place: Option<&str>,
) -> Result<(), Failure> {
    if let Err(taken) = peer.check(store) {
        pairing.reject_name(&peer.name);
        return Err(taken);
    }
    screen::notify(&format!("code: {}, of {}", pairing.code(), peer.name));
    screen::notify("type y if the other screen shows the same code, otherwise n:");
    // Discards keys typed before the question. Fails if standard input is not a terminal.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::running(format!("reading the answer: {error}")))?;
    let same = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if same {
        screen::notify("waiting for the other machine's answer");
    }
    pairing.confirm(same).map_err(failure)?;
    peer.trust(store, place)
}

#[derive(Deserialize)]
struct Peer {
    name: String,
    #[serde(deserialize_with = "key")]
    key: HostKey,
}

fn key<'a, D: serde::Deserializer<'a>>(from: D) -> Result<HostKey, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

impl Peer {
    fn of(pairing: &Pairing, name: Option<&str>) -> Self {
        let name = name.unwrap_or(pairing.peer_name()).to_owned();
        Self { name, key: pairing.peer_key() }
    }

    fn check(&self, store: &TrustStore) -> Result<(), Failure> {
        let Self { name, key } = self;
        match store.trusted().hosts()?.key(name).filter(|known| known != key) {
            Some(known) => Err(Failure::usage(format!(
                "{name} is already the name of a machine with the key {known}; this one has {key}\n\
                 hint: if {name} has a new key, first taut trust --remove {name}; if not, choose another name: \
                 taut pair NAME=HOST, or --name NAME where it waits"
            ))),
            None => Ok(()),
        }
    }

    /// Trusts the host. With the host's place, its name is enough to call it.
    fn trust(&self, store: &TrustStore, place: Option<&str>) -> Result<(), Failure> {
        let Self { name, key } = self;
        store.trusted().trust_at(name, *key, place)?;
        let next = match place {
            Some(_) => format!("; if taut serve runs there: taut call {name}"),
            None => String::new(),
        };
        screen::notify(&format!("paired: {name} is now trusted here{next}"));
        Ok(())
    }
}

/// Reads the peer's key and list through `ssh`, which has authenticated both hosts. The peer trusts
/// this host only after all checks here.
fn by_ssh(store: &TrustStore, name: Option<&str>, destination: &str) -> Result<(), Failure> {
    let (own_name, own) = (host_name(), store.identity().key());
    // Names (letters, digits, `.-_`) and base64 keys need no shell quoting.
    let there = format!(
        "taut id --report json && taut trust --list --report json && read -r ok && taut trust {own_name} {own}"
    );
    let mut ssh = Command::new("ssh")
        .args(["--", destination, &there])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Failure::open(format!(
                "running ssh: {error}\nhint: install an SSH client, or use taut pair HOST"
            ))
        })?;
    let reported = ssh.stdout.take().and_then(|stdout| read_host(BufReader::new(stdout)));
    // If this is dropped, `read` fails there, and nothing is stored.
    let go_on = ssh.stdin.take();
    let accepted = || {
        let Some((mut peer, theirs)) = reported else { return Ok(None) };
        if peer.key == own {
            return Err(failure(PairingError::SameHost));
        }
        if theirs.trusted.iter().any(|known| known.name == own_name && known.key != own) {
            return Err(Failure::running(format!(
                "{own_name} is the name of a machine with another key there\n\
                 hint: if this is that machine with a new key, first run there: taut trust --remove {own_name}; if \
                 not, run there: taut trust NAME {own}"
            )));
        }
        if let Some(name) = name {
            name.clone_into(&mut peer.name);
        }
        peer.check(store)?;
        Ok(Some(peer))
    };
    let accepted = accepted();
    // If the peer is not accepted, this closes `go_on`, because `read` there waits for its end.
    if let Some(mut go_on) = go_on.filter(|_| matches!(accepted, Ok(Some(_)))) {
        let _ = go_on.write_all(b"ok\n");
    }
    let status =
        ssh.wait().map_err(|error| Failure::running(format!("ssh {destination}: {error}")))?;
    let Some(peer) = accepted?.filter(|_| status.success()) else {
        return Err(ssh_failed(destination, status));
    };
    peer.trust(store, Some(&format!("ssh:{destination}")))
}

#[derive(Deserialize)]
struct PeerList {
    trusted: Vec<Peer>,
}

fn read_host(mut printed: impl BufRead) -> Option<(Peer, PeerList)> {
    // A login shell may print a greeting first.
    loop {
        let bytes = printed.fill_buf().ok().filter(|bytes| !bytes.is_empty())?;
        match bytes.iter().position(|byte| *byte == b'{') {
            Some(at) => break printed.consume(at),
            None => {
                let all = bytes.len();
                printed.consume(all);
            }
        }
    }
    let mut documents = serde_json::Deserializer::from_reader(printed);
    Some((Peer::deserialize(&mut documents).ok()?, PeerList::deserialize(&mut documents).ok()?))
}

fn ssh_failed(destination: &str, status: ExitStatus) -> Failure {
    let sentence = |hint: &str| format!("ssh {destination}: {status}\nhint: {hint}");
    match status.code() {
        Some(255) => Failure::open(sentence("see what ssh printed, or try it by itself")),
        Some(127) => Failure::running(sentence("install taut there, in the PATH of ssh sessions")),
        _ => {
            Failure::running(sentence("install the same version of taut there, and run `taut id`"))
        }
    }
}

fn failure(error: PairingError) -> Failure {
    match error {
        PairingError::Unreachable { .. } => Failure::open(error.to_string()),
        PairingError::Trust(error) => error.into(),
        _ => Failure::running(error.to_string()),
    }
}
