//! Datagrams that probe whether UDP works while a call's media use TCP.
//!
//! Format: `TPRB`, count (64 bits, big-endian), HMAC-SHA256 over both and the direction, zeros. The
//! first bits differ from RTP and RTCP (RFC 3550 §5.1).

use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use crate::seal::SECRET_BYTES;

const MAGIC: [u8; 4] = *b"TPRB";
const COUNT_AT: usize = MAGIC.len();
const TAG_AT: usize = COUNT_AT + 8;
/// Length of a probe without padding.
pub const PROBE_BYTES: usize = TAG_AT + 32;

/// Direction of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeWay {
    /// From the caller.
    There,
    /// Returned to the caller.
    Back,
}

/// Writes and reads the probes of one call.
#[derive(Debug, Clone)]
pub struct PathProbes(Key);

impl PathProbes {
    /// Uses this key: [`super::CallKeys::probe`].
    pub fn new(key: &[u8; SECRET_BYTES]) -> Self {
        Self(Key::new(HMAC_SHA256, key))
    }

    fn signed(way: ProbeWay, count: u64) -> [u8; TAG_AT + 1] {
        let mut signed = [0; TAG_AT + 1];
        signed[..COUNT_AT].copy_from_slice(&MAGIC);
        signed[COUNT_AT..TAG_AT].copy_from_slice(&count.to_be_bytes());
        signed[TAG_AT] = u8::from(way == ProbeWay::Back);
        signed
    }

    /// Returns a probe, padded to `bytes`, at least [`PROBE_BYTES`].
    pub fn written(&self, way: ProbeWay, count: u64, bytes: usize) -> Vec<u8> {
        let signed = Self::signed(way, count);
        let mut probe = vec![0; bytes.max(PROBE_BYTES)];
        probe[..TAG_AT].copy_from_slice(&signed[..TAG_AT]);
        probe[TAG_AT..PROBE_BYTES].copy_from_slice(sign(&self.0, &signed).as_ref());
        probe
    }

    /// Count of an authentic probe in this direction.
    pub fn read(&self, way: ProbeWay, probe: &[u8]) -> Option<u64> {
        let probe: &[u8; PROBE_BYTES] = probe.first_chunk()?;
        let count = u64::from_be_bytes(probe[COUNT_AT..TAG_AT].try_into().ok()?);
        let is_ours = probe.starts_with(&MAGIC);
        let signed = Self::signed(way, count);
        (is_ours && verify(&self.0, &signed, &probe[TAG_AT..]).is_ok()).then_some(count)
    }
}
