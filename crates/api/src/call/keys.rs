//! Media keys of a call.

use core::fmt;

use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use tautline_proto::call::CallId;

use crate::seal::{SECRET_BYTES, expanded, is_same};

/// RFC 8446 §7.5.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-tautline-call";
const SALT: &[u8] = b"tautline call 1";
/// Length for AES-GCM (RFC 7714 §12).
pub const SALT_BYTES: usize = 12;

/// `None` before the handshake is complete.
pub fn call_secret<Side>(
    connection: &rustls::ConnectionCommon<Side>,
) -> Option<[u8; SECRET_BYTES]> {
    connection.export_keying_material([0; SECRET_BYTES], EXPORTER_LABEL, None).ok()
}

/// SRTP master key and salt (RFC 3711 §3.2.1) for one direction.
#[derive(Clone)]
pub struct SrtpSecret {
    /// 256 bits.
    pub key: [u8; SECRET_BYTES],
    /// 96 bits.
    pub salt: [u8; SALT_BYTES],
}

/// Keys of a call, derived from the connection on which it began.
#[derive(Clone)]
pub struct CallKeys {
    /// Caller to called end.
    pub there: SrtpSecret,
    /// Called end to caller.
    pub back: SrtpSecret,
    /// Authenticates datagrams that probe a path.
    pub probe: [u8; SECRET_BYTES],
    /// One-time ticket that starts a connection for media.
    pub ticket: MediaTicket,
}

/// Ticket that identifies a TCP connection as carrying a call's media.
#[derive(Clone, Copy)]
pub struct MediaTicket(pub [u8; SECRET_BYTES]);

impl MediaTicket {
    /// The ticket alone, as in [`CallKeys::of`].
    pub fn of(secret: &[u8; SECRET_BYTES], call: CallId, transport: u32) -> Self {
        TransportRoot::of(secret, call, transport).ticket()
    }

    /// Bytes before the ticket. TLS and HTTP start with other bytes.
    pub const MAGIC: [u8; 5] = *b"\x01taut";
    /// Total length of prefix and ticket.
    pub const SHOWN_BYTES: usize = Self::MAGIC.len() + SECRET_BYTES;

    /// The first bytes of the connection.
    pub fn shown(&self) -> [u8; Self::SHOWN_BYTES] {
        let mut bytes = [0; Self::SHOWN_BYTES];
        let (magic, ticket) = bytes.split_at_mut(Self::MAGIC.len());
        magic.copy_from_slice(&Self::MAGIC);
        ticket.copy_from_slice(&self.0);
        bytes
    }

    /// Parses the first bytes of a connection.
    pub fn read(bytes: &[u8; Self::SHOWN_BYTES]) -> Option<Self> {
        let ticket = bytes.strip_prefix(&Self::MAGIC)?;
        ticket.try_into().ok().map(Self)
    }

    /// Compares two tickets in constant time.
    pub fn is(&self, other: &Self) -> bool {
        is_same(&self.0, &other.0)
    }
}

impl fmt::Debug for MediaTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MediaTicket")
    }
}

impl fmt::Debug for SrtpSecret {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SrtpSecret")
    }
}

impl fmt::Debug for CallKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallKeys")
    }
}

/// `None` if the system has no random numbers.
pub fn fresh_call() -> Option<CallId> {
    let mut name = [0; 16];
    SystemRandom::new().fill(&mut name).ok()?;
    Some(CallId(name))
}

struct TransportRoot {
    root: Prk,
    call: CallId,
    number: [u8; 4],
}

impl TransportRoot {
    fn of(secret: &[u8; SECRET_BYTES], call: CallId, transport: u32) -> Self {
        let root = Salt::new(HKDF_SHA256, SALT).extract(secret);
        Self { root, call, number: transport.to_be_bytes() }
    }

    fn made_for(&self, what: &[u8]) -> [u8; SECRET_BYTES] {
        expanded(&self.root, &[what, &self.call.0, &self.number])
    }

    fn direction(&self, key: &[u8], salt: &[u8]) -> SrtpSecret {
        // A shorter HKDF output is a prefix of a longer one.
        let mut made = SrtpSecret { key: self.made_for(key), salt: [0; SALT_BYTES] };
        made.salt.copy_from_slice(&self.made_for(salt)[..SALT_BYTES]);
        made
    }

    fn ticket(&self) -> MediaTicket {
        MediaTicket(self.made_for(b"ticket"))
    }
}

impl CallKeys {
    /// HKDF (RFC 5869). Packet counters restart on each transport, so each has its own keys.
    pub fn of(secret: &[u8; SECRET_BYTES], call: CallId, transport: u32) -> Self {
        let root = TransportRoot::of(secret, call, transport);
        Self {
            there: root.direction(b"there key", b"there salt"),
            back: root.direction(b"back key", b"back salt"),
            probe: root.made_for(b"probe"),
            ticket: root.ticket(),
        }
    }
}
