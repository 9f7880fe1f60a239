//! The keys of a call's sound.

use core::fmt;

use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use tautline_proto::call::CallId;

use crate::seal::{SECRET_BYTES, expanded, is_same};

/// By which TLS makes of its session what nobody else knows (RFC 8446 §7.5).
const EXPORTER_LABEL: &[u8] = b"EXPORTER-tautline-call";
const SALT: &[u8] = b"tautline call 1";
/// Of a master salt of SRTP with AES-GCM (RFC 7714 §12).
pub const SALT_BYTES: usize = 12;

/// What both ends of a connection know and nobody else does; `None` before the handshake is over.
pub fn call_secret<Side>(
    connection: &rustls::ConnectionCommon<Side>,
) -> Option<[u8; SECRET_BYTES]> {
    connection.export_keying_material([0; SECRET_BYTES], EXPORTER_LABEL, None).ok()
}

/// Master key and master salt of SRTP (RFC 3711 §3.2.1) with AES-256-GCM, for one direction.
#[derive(Clone)]
pub struct SrtpSecret {
    /// 256 bits.
    pub key: [u8; SECRET_BYTES],
    /// 96 bits.
    pub salt: [u8; SALT_BYTES],
}

/// Those of both directions of a call, which are those of the connection on which it began, as long as it lasts.
#[derive(Clone)]
pub struct CallKeys {
    /// Of what the caller sends.
    pub there: SrtpSecret,
    /// Of what the end that is called sends.
    pub back: SrtpSecret,
    /// By which datagrams that probe a path are known.
    pub probe: [u8; SECRET_BYTES],
    /// What a connection that is to carry the sound shows first; once.
    pub ticket: MediaTicket,
}

/// By what a TCP connection is known that is to carry the sound of a call: nobody else can make it.
#[derive(Clone, Copy)]
pub struct MediaTicket(pub [u8; SECRET_BYTES]);

impl MediaTicket {
    /// That of [`CallKeys::of`], alone.
    pub fn of(secret: &[u8; SECRET_BYTES], call: CallId, transport: u32) -> Self {
        TransportRoot::of(secret, call, transport).ticket()
    }

    /// What stands before the ticket: the first byte of neither TLS nor HTTP.
    pub const MAGIC: [u8; 5] = *b"\x01taut";
    /// Of all that is shown.
    pub const SHOWN_BYTES: usize = Self::MAGIC.len() + SECRET_BYTES;

    /// What is shown: the first bytes of the connection.
    pub fn shown(&self) -> [u8; Self::SHOWN_BYTES] {
        let mut bytes = [0; Self::SHOWN_BYTES];
        let (magic, ticket) = bytes.split_at_mut(Self::MAGIC.len());
        magic.copy_from_slice(&Self::MAGIC);
        ticket.copy_from_slice(&self.0);
        bytes
    }

    /// The ticket that was shown.
    pub fn read(bytes: &[u8; Self::SHOWN_BYTES]) -> Option<Self> {
        let ticket = bytes.strip_prefix(&Self::MAGIC)?;
        ticket.try_into().ok().map(Self)
    }

    /// Whether it is this one; in the same time wherever they differ.
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
    /// Nothing of it: what is printed is kept by somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SrtpSecret")
    }
}

impl fmt::Debug for CallKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallKeys")
    }
}

/// A name for a call that nobody guesses; `None` where the system gives nothing random.
pub fn fresh_call() -> Option<CallId> {
    let mut name = [0; 16];
    SystemRandom::new().fill(&mut name).ok()?;
    Some(CallId(name))
}

/// What is made of the secret of a connection for one transport of a call.
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
        // Of HKDF a shorter output is how a longer one begins.
        let mut made = SrtpSecret { key: self.made_for(key), salt: [0; SALT_BYTES] };
        made.salt.copy_from_slice(&self.made_for(salt)[..SALT_BYTES]);
        made
    }

    fn ticket(&self) -> MediaTicket {
        MediaTicket(self.made_for(b"ticket"))
    }
}

impl CallKeys {
    /// Those of this call on the connection that has this secret (HKDF, RFC 5869), for the transport of that number
    /// among those that the sound went by: what seals begins to count anew on each, and no key counts twice.
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
