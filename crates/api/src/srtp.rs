//! SRTP and SRTCP (RFC 3711, AES-GCM per RFC 7714).
//!
//! Overhead per packet: 16 bytes for AES-GCM, 10 for `AES_CM_128_HMAC_SHA1_80`, and 4 more for
//! RTCP. No two packets may have the same key, SSRC and index: [`SrtpSeal`] only counts up, and
//! each run has a random SSRC.
//!
//! An RTP packet can arrive twice, unless it is 4096 packets older than its source's newest; the
//! receiver detects duplicates ([decision
//! 50](../../../docs/internals/decisions/0050-streams-are-sealed-by-srtp.md)). RTCP packets are
//! decrypted only once.

mod cipher;
mod derive;
mod key;
mod packet;
mod received;

use core::fmt;

use tautline_io::socket::seal::Seal;

use self::cipher::{Cipher, PacketId};
use self::derive::Of;
pub use self::key::{MasterKey, NoMasterKey, Profile};
pub use self::key::{allow_description, read_key, write_key};
use self::packet::{RtpParts, is_rtcp, is_version_two, rtcp_ssrc};
use self::received::{OLDEST, RollOverSearch, SourceTable, estimate};

/// Maximum length of a UDP datagram.
const LONGEST: usize = 1 << 16;
const MAX_SENT: usize = 16;
/// Maximum packets per key: RTP, then RTCP (RFC 3711 §9.2).
const MAX_RTP: u64 = 1 << 48;
const MAX_RTCP: u64 = 1 << 31;

/// Encrypts with one master key and decrypts with another.
///
/// Two values can share keys, one each for RTP and RTCP (RFC 5761 §4). For each SSRC, only one of
/// the values may encrypt RTP, and only one may encrypt RTCP.
pub struct SrtpSeal {
    sending: Keys,
    receiving: Keys,
    /// Newest index per source.
    sent: [Option<(u32, u64)>; MAX_SENT],
    sent_reports: u64,
    received: SourceTable,
    received_reports: SourceTable,
    search: RollOverSearch,
    /// To decrypt again with another index.
    kept: Box<[u8]>,
}

struct Keys {
    profile: Profile,
    rtp: Cipher,
    rtcp: Cipher,
}

impl Keys {
    fn of(master: &MasterKey) -> Self {
        Self {
            profile: master.profile(),
            rtp: Cipher::derived(master, Of::Rtp),
            rtcp: Cipher::derived(master, Of::Rtcp),
        }
    }
}

impl SrtpSeal {
    /// Encrypts with `sending` and decrypts with `receiving`.
    pub fn new(sending: &MasterKey, receiving: &MasterKey) -> Self {
        Self::with(Keys::of(sending), Keys::of(receiving))
    }

    /// Decrypts no RTP with AES-GCM; needs 64 kB less.
    pub fn for_reports(sending: &MasterKey, receiving: &MasterKey) -> Self {
        let mut seal = Self::new(sending, receiving);
        seal.kept = Box::default();
        seal
    }

    /// For a stream with a single key.
    pub fn shared(key: &MasterKey) -> Self {
        Self::new(key, key)
    }

    fn with(sending: Keys, receiving: Keys) -> Self {
        // Written, so that its pages are in memory before the first packet.
        let mut kept = vec![1; LONGEST].into_boxed_slice();
        kept.fill(0);
        Self {
            sending,
            receiving,
            sent: [None; MAX_SENT],
            sent_reports: 0,
            received: SourceTable::new(),
            received_reports: SourceTable::new(),
            search: RollOverSearch::default(),
            kept,
        }
    }

    /// Greater than all earlier indexes, whatever the sequence number.
    fn next_index(&mut self, ssrc: u32, sequence: u16) -> Option<u64> {
        // Finds the source's own slot or the first free one.
        let place = self.sent.iter_mut().find(|place| place.is_none_or(|(of, _)| of == ssrc))?;
        let Some((_, newest)) = place else {
            let index = u64::from(sequence);
            *place = Some((ssrc, index));
            return Some(index);
        };
        let ahead = sequence.wrapping_sub(*newest as u16);
        let index = newest.checked_add(u64::from(ahead)).filter(|_| ahead > 0)?;
        (index < MAX_RTP).then(|| *newest = index).map(|()| index)
    }

    fn seal_rtp(&mut self, bytes: &mut [u8], len: usize) -> Option<usize> {
        if bytes.len() < len + self.sending.rtp.rtp_room() {
            return None;
        }
        let packet = bytes.get_mut(..len)?;
        let parts = RtpParts::read(packet)?;
        let sealable = parts.to_seal(packet)?;
        let index = self.next_index(parts.ssrc, parts.sequence)?;
        self.sending.rtp.seal_rtp(bytes, len, sealable, PacketId { ssrc: parts.ssrc, index })
    }

    fn seal_rtcp(&mut self, bytes: &mut [u8], len: usize) -> Option<usize> {
        let ssrc = rtcp_ssrc(bytes.get(..len)?)?;
        let index = self.sent_reports;
        if index >= MAX_RTCP || bytes.len() < len + self.sending.rtcp.rtcp_room() {
            return None;
        }
        self.sent_reports += 1;
        self.sending.rtcp.seal_rtcp(bytes, len, PacketId { ssrc, index })
    }

    fn open_rtp(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let Self { receiving: Keys { rtp, .. }, received, search, kept, .. } = self;
        let len = bytes.len().checked_sub(rtp.rtp_room())?;
        let parts = RtpParts::read(&bytes[..len])?;
        let RtpParts { ssrc, sequence, .. } = parts;
        let newest = received.newest(ssrc);
        let near = newest.map_or(u64::from(sequence), |newest| estimate(newest, sequence));
        let mut open = |index: u64| {
            let id = PacketId { ssrc, index };
            rtp.open_rtp(bytes, kept, parts.sealed(), id).map(|_| index)
        };
        let fresh = newest.is_none_or(|newest| near + OLDEST > newest);
        let mut index = if fresh { open(near) } else { None };
        if index.is_none() {
            // Only later ones: an old packet never counts as new.
            let later = search.next().map(|rolled| near + (rolled << 16));
            index = later.filter(|index| *index < MAX_RTP).find_map(&mut open);
            if index.is_some() {
                search.found();
            }
        }
        received.note(ssrc, index?);
        parts.restore(&mut bytes[..len]);
        Some(len)
    }

    fn open_rtcp(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let rtcp = &self.receiving.rtcp;
        let ssrc = rtcp_ssrc(bytes)?;
        // Unencrypted SRTCP is rejected.
        let (index, true) = rtcp.rtcp_word(bytes)? else { return None };
        let index = u64::from(index);
        if self.received_reports.arrived(ssrc, index) {
            return None;
        }
        let len = rtcp.open_rtcp(bytes, PacketId { ssrc, index })?;
        self.received_reports.note(ssrc, index);
        Some(len)
    }
}

impl Seal for SrtpSeal {
    fn room(&self) -> usize {
        self.sending.profile.room().max(self.receiving.profile.room())
    }

    /// 0 for an invalid packet, without room, or for a used index.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        let sealed = match is_rtcp(bytes) {
            true => self.seal_rtcp(bytes, len),
            false => self.seal_rtp(bytes, len),
        };
        sealed.unwrap_or(0)
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        if !is_version_two(bytes) {
            return None;
        }
        let len = match is_rtcp(bytes) {
            true => self.open_rtcp(bytes),
            false => self.open_rtp(bytes),
        };
        Some(&bytes[..len?])
    }
}

impl fmt::Debug for SrtpSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sending, receiving) = (self.sending.profile, self.receiving.profile);
        write!(f, "SrtpSeal {{ sending: {sending}, receiving: {receiving} }}")
    }
}

#[cfg(test)]
mod tests;
