//! `taut pair`

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

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
    compare(store, pairing, &peer)?;
    peer.tell(Some(&whom.0.host));
    Ok(())
}

/// Waits until a host is paired or a user says that the codes differ.
fn wait(store: &Arc<TrustStore>, listen: SocketAddr, name: Option<&str>) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::open(format!(
            "listening on TCP {listen}: {error}\nhint: choose another address or port with --listen"
        ))
    };
    let listener = TcpListener::bind(listen).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    screen::tell(&format!(
        "run `taut pair HOST` on the other machine, HOST an address of this one; waiting at {address}"
    ));
    loop {
        let (stream, from) = listener.accept().map_err(cannot)?;
        let pairing = match Pairing::answer(stream, store) {
            Ok(pairing) => pairing,
            // Port scans and other programs connect, too.
            Err(error) => {
                screen::tell(&format!("{}: {error}", from.ip()));
                continue;
            }
        };
        let peer = Peer::of(&pairing, name);
        compare(store, pairing, &peer)?;
        peer.tell(None);
        return Ok(());
    }
}

/// Shows the code, asks the user, and stores the key if both users confirm.
fn compare(store: &TrustStore, pairing: Pairing, peer: &Peer) -> Result<(), Failure> {
    peer.check(store)?;
    screen::tell(&format!("code: {}, of {}", pairing.code(), peer.name));
    screen::tell("type y if the other screen shows the same code, anything else if not:");
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::running(format!("reading the answer: {error}")))?;
    let same = matches!(answer.trim(), "y" | "Y" | "yes");
    if same {
        screen::tell("waiting for the other machine's answer");
    }
    pairing.confirm(same).map_err(failure)?;
    store.trusted().trust(&peer.name, peer.key)?;
    Ok(())
}

/// The other host.
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

    /// Refuses a name that another host has.
    fn check(&self, store: &TrustStore) -> Result<(), Failure> {
        let Self { name, key } = self;
        match store.trusted().hosts()?.key(name).filter(|known| known != key) {
            Some(_) => Err(Failure::usage(format!(
                "{name} is already the name of a machine with another key\n\
                 hint: choose a name: taut pair NAME=HOST, or --name NAME where it waits; \
                 if {name} has a new key, first taut trust --remove {name}"
            ))),
            None => Ok(()),
        }
    }

    fn tell(&self, host: Option<&str>) {
        let Self { name, .. } = self;
        let next = match host {
            Some(host) => format!("; where taut serve runs there: taut call {name}={host}"),
            None => String::new(),
        };
        screen::tell(&format!("paired with {name}: both machines trust each other{next}"));
    }
}

/// Has `ssh` run `taut trust` and `taut id` there: it has authenticated both hosts already.
fn by_ssh(store: &TrustStore, name: Option<&str>, destination: &str) -> Result<(), Failure> {
    let own = store.identity().key();
    // Names have letters, digits, dots and hyphens, and keys are base64: nothing that a shell reads otherwise.
    let there = format!("taut trust {} {own} && taut id --report json", host_name());
    let ssh =
        Command::new("ssh").args(["--", destination, &there]).stderr(Stdio::inherit()).output();
    let ssh = ssh.map_err(|error| {
        Failure::open(format!(
            "running ssh: {error}\nhint: install an SSH client, or use taut pair HOST"
        ))
    })?;
    if !ssh.status.success() {
        let hint = match ssh.status.code() {
            Some(127) => "install taut there, in the PATH of ssh sessions",
            Some(255) => "try ssh by itself first",
            _ => "run `taut id` there to see what is wrong",
        };
        return Err(Failure::running(format!("ssh {destination}: {}\nhint: {hint}", ssh.status)));
    }
    let mut peer: Peer = serde_json::from_slice(&ssh.stdout).map_err(|error| {
        Failure::running(format!(
            "ssh {destination}: `taut id --report json` printed something else: {error}\n\
             hint: install the same version of taut there"
        ))
    })?;
    if peer.key == own {
        return Err(failure(PairingError::SameHost));
    }
    if let Some(name) = name {
        name.clone_into(&mut peer.name);
    }
    peer.check(store)?;
    store.trusted().trust(&peer.name, peer.key)?;
    let host = destination.rsplit_once('@').map_or(destination, |(_, host)| host);
    peer.tell(Some(host));
    Ok(())
}

fn failure(error: PairingError) -> Failure {
    match error {
        PairingError::Unreachable { .. } => Failure::open(error.to_string()),
        PairingError::Trust(error) => error.into(),
        _ => Failure::running(error.to_string()),
    }
}
