//! Pairing: two hosts exchange keys over an unauthenticated connection, and their users compare a
//! code.
//!
//! The code is six digits of a hash over both keys, both names and a random number of each host.
//! The caller commits to its number and name first, so an attacker has a chance of one in a
//! million. This is numeric comparison of Bluetooth (Core 5.4, volume 3, part H, 2.3.5.6.2) with
//! the hash commitment of ZRTP (RFC 6189 §4.4.1).

use core::fmt;
use core::ops::DerefMut;
use core::str::FromStr;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData, StreamOwned};
use thiserror::Error;

use super::trusted::{MAX_NAME, is_name};
use super::{HostKey, TrustError, TrustStore, host_name, tls};
use crate::client::wire::TimedStream;
use crate::client::{NoWorkerAddress, WorkerAddress};

/// TCP port of `taut pair`.
pub const PAIRING_PORT: u16 = 17251;
const EXCHANGE: Duration = Duration::from_secs(5);
const COMPARISON: Duration = Duration::from_secs(600);

/// `[NAME=]HOST[:PORT]`; the default port is [`PAIRING_PORT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingAddress(pub WorkerAddress);

impl FromStr for PairingAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        WorkerAddress::parse(text, PAIRING_PORT).map(Self).map_err(|NoWorkerAddress(text)| {
            format!(
                "{text:?} is not a machine: write HOST, HOST:PORT, NAME=HOST or ssh:HOST, and an IPv6 address as [::1]:{PAIRING_PORT}"
            )
        })
    }
}

/// Why pairing failed.
#[derive(Debug, Error)]
pub enum PairingError {
    /// The name has no address.
    #[error("{0}: unknown host\nhint: check the name, or write its address")]
    NoSuchHost(WorkerAddress),
    /// Connecting failed.
    #[error("{whom}: {error}\nhint: run `taut pair` there, or look for a firewall that drops TCP {}", whom.port)]
    Unreachable {
        /// Address of the other host.
        whom: WorkerAddress,
        /// Error of the system.
        error: io::Error,
    },
    /// Another program, or a slow host.
    #[error("no pairing: {}\nhint: run `taut pair` on both, one pair of machines at a time", in_words(.0))]
    NoExchange(io::Error),
    /// The peer left after it could know the code: possibly an attack.
    #[error(
        "the other machine left before both codes were confirmed: {}\n\
         hint: run `taut pair` on both again; if this repeats, another machine may be trying codes",
        in_words(.0)
    )]
    Lost(io::Error),
    /// Both ends have the same key.
    #[error(
        "both ends have the same key: this is the same machine and user\nhint: a machine needs no pairing with itself"
    )]
    SameHost,
    /// Protocol violation.
    #[error(
        "the other machine broke the pairing protocol: {0}\nhint: use `taut pair` of the same version on both"
    )]
    Protocol(&'static str),
    /// This host's user reported different codes.
    #[error(
        "the code was not confirmed here; no key was stored\n\
         hint: if the codes differed, a machine in between may have answered: check the address and the network"
    )]
    NotConfirmed,
    /// The other user reported different codes.
    #[error(
        "the code was not confirmed on the other machine; no key was stored\n\
         hint: if the codes differed, a machine in between may have answered: check the address and the network"
    )]
    Refused,
    /// The peer knows another key by this host's name.
    #[error(
        "the other machine has another key for {name}; this machine's key is {key}. No key was stored\n\
         hint: if this machine has a new key, run there: taut trust --remove {name}; if not, choose another name \
         there: taut pair NAME=HOST, or taut pair --name NAME"
    )]
    NameTaken {
        /// Name of this host there.
        name: String,
        /// Key of this host.
        key: HostKey,
    },
    /// This host's key is unusable.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// rustls explains an unexpected end with a link.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

impl PairingError {
    /// Whether the peer cannot know the code yet.
    pub const fn is_before_code(&self) -> bool {
        matches!(self, Self::NoExchange(_) | Self::SameHost)
    }
}

/// Six digits that both users compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairingCode(u32);

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03} {:03}", self.0 / 1000, self.0 % 1000)
    }
}

type Nonce = [u8; 32];

struct Contribution<'a> {
    key: HostKey,
    nonce: Nonce,
    name: &'a str,
}

impl Contribution<'_> {
    /// Number, length of the name in one byte, name.
    fn revealed(&self) -> Vec<u8> {
        [&self.nonce[..], &*with_length(self.name)].concat()
    }
}

impl PairingCode {
    fn of(caller: &Contribution<'_>, answerer: &Contribution<'_>) -> Self {
        let mut input = tls::PAIRING_PROTOCOL.to_vec();
        for end in [caller, answerer] {
            input.extend(end.key.bytes());
            input.extend(end.revealed());
        }
        let hash = digest(&SHA256, &input);
        let number =
            hash.as_ref().iter().take(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        Self((number % 1_000_000) as u32)
    }
}

/// Two hosts that wait for their users.
pub struct Pairing {
    line: Box<dyn Line>,
    code: PairingCode,
    name: String,
    key: HostKey,
    own: HostKey,
}

const CODES_DIFFER: u8 = 0;
const CODES_AGREE: u8 = 1;
/// The name follows: its length in one byte, and its characters.
const NAME_TAKEN: u8 = 2;

trait Line: Read + Write + Send {}
impl<T: Read + Write + Send> Line for T {}

impl fmt::Debug for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pairing({}, {})", self.name, self.key)
    }
}

impl Pairing {
    /// Blocks for a few seconds per address.
    pub fn dial(whom: &PairingAddress, store: &Arc<TrustStore>) -> Result<Self, PairingError> {
        let whom = &whom.0;
        let unreachable = |error| PairingError::Unreachable { whom: whom.clone(), error };
        let found = (whom.host.as_str(), whom.port).to_socket_addrs();
        let found = found.map_err(|_| PairingError::NoSuchHost(whom.clone()))?;
        let mut failed = io::Error::from(ErrorKind::NotFound);
        for address in found {
            match TcpStream::connect_timeout(&address, EXCHANGE) {
                Ok(stream) => return Self::call(stream, store),
                Err(error) => failed = error,
            }
        }
        Err(unreachable(failed))
    }

    fn call(stream: TcpStream, store: &Arc<TrustStore>) -> Result<Self, PairingError> {
        let server = stream.peer_addr().map_err(PairingError::NoExchange)?;
        let server = ServerName::IpAddress(server.ip().into());
        let connection = ClientConnection::new(tls::pairing_client(store)?, server);
        let (mut line, key) = greeted(connection, stream, store)?;
        let (nonce, name) = (nonce()?, host_name());
        let own = Contribution { key: store.identity().key(), nonce, name: &name };
        let revealed = own.revealed();
        write(&mut line, commitment(&revealed).as_ref()).map_err(PairingError::NoExchange)?;
        let theirs = Revealed::read(&mut line)?;
        write(&mut line, &revealed).map_err(PairingError::Lost)?;
        let code = PairingCode::of(&own, &theirs.by(key));
        Ok(Self::shown(line, code, theirs, [key, own.key]))
    }

    /// Blocks for a few seconds.
    pub fn answer(stream: TcpStream, store: &Arc<TrustStore>) -> Result<Self, PairingError> {
        let connection = ServerConnection::new(tls::pairing_server(store)?);
        let (mut line, key) = greeted(connection, stream, store)?;
        let mut committed = [0; 32];
        line.read_exact(&mut committed).map_err(PairingError::NoExchange)?;
        let (nonce, name) = (nonce()?, host_name());
        let own = Contribution { key: store.identity().key(), nonce, name: &name };
        write(&mut line, &own.revealed()).map_err(PairingError::Lost)?;
        let theirs = Revealed::read(&mut line)?;
        let peer = theirs.by(key);
        if commitment(&peer.revealed()).as_ref() != committed {
            return Err(PairingError::Protocol("its revealed value differs from its commitment"));
        }
        let code = PairingCode::of(&peer, &own);
        Ok(Self::shown(line, code, theirs, [key, own.key]))
    }

    fn shown<C, S>(
        mut line: StreamOwned<C, TimedStream>,
        code: PairingCode,
        Revealed { name, .. }: Revealed,
        [key, own]: [HostKey; 2],
    ) -> Self
    where
        C: DerefMut<Target = ConnectionCommon<S>> + Send + 'static,
        S: SideData + 'static,
    {
        line.sock.until = Instant::now() + COMPARISON;
        Self { line: Box::new(line), code, name, key, own }
    }

    /// The code to compare.
    pub const fn code(&self) -> PairingCode {
        self.code
    }

    /// Name of the other host: valid for [`TrustFile::trust`](super::TrustFile::trust).
    pub fn peer_name(&self) -> &str {
        &self.name
    }

    /// Authenticated key of the other host.
    pub const fn peer_key(&self) -> HostKey {
        self.key
    }

    /// Sends the user's answer; if `same`, waits for the other host's.
    pub fn confirm(mut self, same: bool) -> Result<(), PairingError> {
        let reported = if same { CODES_AGREE } else { CODES_DIFFER };
        let reported = write(&mut self.line, &[reported]);
        if !same {
            return Err(PairingError::NotConfirmed);
        }
        let mut answer = [0];
        reported.and_then(|()| self.line.read_exact(&mut answer)).map_err(PairingError::Lost)?;
        match answer {
            [CODES_AGREE] => Ok(()),
            [NAME_TAKEN] => {
                let name = read_name(&mut self.line).map_err(PairingError::Lost)?;
                let name = checked_name(name)?;
                Err(PairingError::NameTaken { name, key: self.own })
            }
            _ => Err(PairingError::Refused),
        }
    }

    /// Ends the pairing, because `name` belongs to another key here.
    pub fn reject_name(mut self, name: &str) {
        // If this fails, the peer has left.
        let _ = write(&mut self.line, &[&[NAME_TAKEN], &*with_length(name)].concat());
    }
}

/// Returns the peer's authenticated key.
fn greeted<C, S>(
    connection: Result<C, rustls::Error>,
    stream: TcpStream,
    store: &TrustStore,
) -> Result<(StreamOwned<C, TimedStream>, HostKey), PairingError>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    let shake = || {
        let mut connection = connection.map_err(io::Error::other)?;
        stream.set_nodelay(true)?;
        let mut sock = TimedStream { stream, until: Instant::now() + EXCHANGE };
        connection.complete_io(&mut sock)?;
        Ok(StreamOwned::new(connection, sock))
    };
    let line = shake().map_err(PairingError::NoExchange)?;
    let is_pairing = line.conn.alpn_protocol() == Some(tls::PAIRING_PROTOCOL);
    let (Some(key), true) = (tls::peer_key(&line.conn), is_pairing) else {
        let other = io::Error::new(ErrorKind::InvalidData, "it speaks another protocol");
        return Err(PairingError::NoExchange(other));
    };
    if key == store.identity().key() { Err(PairingError::SameHost) } else { Ok((line, key)) }
}

fn nonce() -> Result<Nonce, PairingError> {
    let mut nonce = Nonce::default();
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| TrustError::Unusable("cannot read random bytes".to_owned()))?;
    Ok(nonce)
}

/// Hashes the name too, so that it cannot change afterwards.
fn commitment(revealed: &[u8]) -> ring::digest::Digest {
    digest(&SHA256, revealed)
}

fn write(line: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    line.write_all(bytes)?;
    line.flush()
}

fn with_length(name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
    [&[length], name.as_bytes()].concat()
}

fn read_name(line: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0];
    line.read_exact(&mut length)?;
    let mut name = vec![0; usize::from(length[0]).min(MAX_NAME + 1)];
    line.read_exact(&mut name)?;
    Ok(name)
}

fn checked_name(name: Vec<u8>) -> Result<String, PairingError> {
    let wrong = "its name is not one of 1 to 64 letters, digits, dots, hyphens and underscores";
    let name = String::from_utf8(name).ok().filter(|name| is_name(name));
    name.ok_or(PairingError::Protocol(wrong))
}

struct Revealed {
    nonce: Nonce,
    name: String,
}

impl Revealed {
    fn read(line: &mut impl Read) -> Result<Self, PairingError> {
        let mut nonce = Nonce::default();
        let read = line.read_exact(&mut nonce).and_then(|()| read_name(line));
        Ok(Self { nonce, name: checked_name(read.map_err(PairingError::Lost)?)? })
    }

    fn by(&self, key: HostKey) -> Contribution<'_> {
        Contribution { key, nonce: self.nonce, name: &self.name }
    }
}

#[cfg(test)]
mod tests;
