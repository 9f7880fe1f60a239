//! The randomness of identities.

use std::fs::File;
use std::io::Read;

use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::Identity;

use crate::error::RunError;

/// Random bytes of the kernel's, for identities that must not collide (RFC 3550 §8.1).
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A random identity for a stream.
pub fn random_identity() -> Result<Identity, RunError> {
    let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    let word = |at: usize| {
        u32::from_ne_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
    };
    Ok(Identity { stream: StreamId::from(word(0)), sequence: word(4) as u16, timestamp: word(8) })
}
