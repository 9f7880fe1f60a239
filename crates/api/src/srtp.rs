//! What makes packets of RTP and RTCP unreadable to others, and others' packets no part of a stream: SRTP and SRTCP
//! (RFC 3711, AES-GCM by RFC 7714), as other programs have them.
//!
//! Bytes beyond what a packet had: 16 by AES-GCM, 10 by `AES_CM_128_HMAC_SHA1_80`, and 4 more of RTCP. No two packets may
//! be sealed with the same key, SSRC and index, and none are: within a run [`SrtpSeal`] only counts on, and what cannot be
//! sealed so is not sent; a run has an SSRC of 32 random bits. What is sent by a second network or again is what was
//! sealed once.
//!
//! A packet of RTP may rightly come twice so. It is opened as often as it comes, unless it is 4096 packets older than the
//! newest of its source: telling what came before is the receiver's, by its number, and it counts them
//! ([decision 50](../../../docs/decisions/0050-streams-are-sealed-by-srtp.md)). Of RTCP nothing is opened twice.

mod cipher;
mod derive;
mod heard;
mod key;
mod packet;

use core::fmt;

use tautline_io::socket::seal::Seal;

use self::cipher::{Cipher, PacketId};
use self::derive::Of;
use self::heard::{HeardSources, OLDEST, RollOverSearch, estimate};
pub use self::key::{MasterKey, NoMasterKey, Profile};
pub use self::key::{allow_description, read_key, write_key};
use self::packet::{RtpParts, is_rtcp, is_version_two, rtcp_ssrc};

/// The longest datagram that is opened: UDP has none longer.
const LONGEST: usize = 1 << 16;
/// Sources of RTP that one value seals for.
const MOST_SENT: usize = 16;
/// Packets of RTP under one key (RFC 3711 §9.2), and of RTCP.
const MOST_RTP: u64 = 1 << 48;
const MOST_RTCP: u64 = 1 << 31;

/// Seals what leaves with one master key and opens what comes with another, or with the same where a group shares it.
///
/// It tells RTCP from RTP by the second byte (RFC 5761 §4), so one value serves a link that carries both. Where they go
/// by sockets of their own, two values may have the same keys, one for each: RTP and RTCP have different session keys.
/// Two values must not seal RTP, or both RTCP, of one SSRC.
pub struct SrtpSeal {
    sending: Keys,
    receiving: Keys,
    /// Of each source that was sealed for: the index of the newest packet.
    sent: [Option<(u32, u64)>; MOST_SENT],
    /// Reports that were sealed, whosever.
    sent_reports: u64,
    heard: HeardSources,
    heard_reports: HeardSources,
    search: RollOverSearch,
    /// A datagram as it came: what does not open may be tried as another.
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
    /// Seals with the one and opens with the other.
    pub fn new(sending: &MasterKey, receiving: &MasterKey) -> Self {
        Self::with(Keys::of(sending), Keys::of(receiving))
    }

    /// The same, for reports and for links that only send: with AES-GCM it opens no RTP, and takes 64 kB less.
    pub fn for_reports(sending: &MasterKey, receiving: &MasterKey) -> Self {
        let mut seal = Self::new(sending, receiving);
        seal.kept = Box::default();
        seal
    }

    /// Where all seal with the same: a stream with a key that was given.
    pub fn shared(key: &MasterKey) -> Self {
        Self::new(key, key)
    }

    fn with(sending: Keys, receiving: Keys) -> Self {
        // Written to, so that its pages are there before the first packet.
        let mut kept = vec![1; LONGEST].into_boxed_slice();
        kept.fill(0);
        Self {
            sending,
            receiving,
            sent: [None; MOST_SENT],
            sent_reports: 0,
            heard: HeardSources::new(),
            heard_reports: HeardSources::new(),
            search: RollOverSearch::default(),
            kept,
        }
    }

    /// The index of a packet that leaves: greater than all before it, whatever its number.
    fn next_index(&mut self, ssrc: u32, sequence: u16) -> Option<u64> {
        // They fill from the first: what is found is its own place, or the first that is free.
        let place = self.sent.iter_mut().find(|place| place.is_none_or(|(of, _)| of == ssrc))?;
        let Some((_, newest)) = place else {
            let index = u64::from(sequence);
            *place = Some((ssrc, index));
            return Some(index);
        };
        let ahead = sequence.wrapping_sub(*newest as u16);
        let index = newest.checked_add(u64::from(ahead)).filter(|_| ahead > 0)?;
        (index < MOST_RTP).then(|| *newest = index).map(|()| index)
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
        if index >= MOST_RTCP || bytes.len() < len + self.sending.rtcp.rtcp_room() {
            return None;
        }
        self.sent_reports += 1;
        self.sending.rtcp.seal_rtcp(bytes, len, PacketId { ssrc, index })
    }

    fn open_rtp(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let Self { receiving: Keys { rtp, .. }, heard, search, kept, .. } = self;
        let len = bytes.len().checked_sub(rtp.rtp_room())?;
        let parts = RtpParts::read(&bytes[..len])?;
        let RtpParts { ssrc, sequence, .. } = parts;
        let newest = heard.newest(ssrc);
        let near = newest.map_or(u64::from(sequence), |newest| estimate(newest, sequence));
        let mut open = |index: u64| {
            let id = PacketId { ssrc, index };
            rtp.open_rtp(bytes, kept, parts.sealed(), id).map(|_| index)
        };
        let fresh = newest.is_none_or(|newest| near + OLDEST > newest);
        let mut index = if fresh { open(near) } else { None };
        if index.is_none() {
            // Later ones alone: what was sent before is never taken for new.
            let later = search.next().map(|rolled| near + (rolled << 16));
            index = later.filter(|index| *index < MOST_RTP).find_map(&mut open);
            if index.is_some() {
                search.found();
            }
        }
        heard.note(ssrc, index?);
        parts.restore(&mut bytes[..len]);
        Some(len)
    }

    fn open_rtcp(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let rtcp = &self.receiving.rtcp;
        let ssrc = rtcp_ssrc(bytes)?;
        // What others can read was not sealed as is asked for here.
        let (index, true) = rtcp.rtcp_word(bytes)? else { return None };
        let index = u64::from(index);
        if self.heard_reports.came(ssrc, index) {
            return None;
        }
        let len = rtcp.open_rtcp(bytes, PacketId { ssrc, index })?;
        self.heard_reports.note(ssrc, index);
        Some(len)
    }
}

impl Seal for SrtpSeal {
    fn room(&self) -> usize {
        self.sending.profile.room().max(self.receiving.profile.room())
    }

    /// Nothing leaves that is no packet, has no room, or would have the index of another: an empty datagram is what
    /// nobody opens.
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
    /// Nothing of the keys: what is printed is kept by somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sending, receiving) = (self.sending.profile, self.receiving.profile);
        write!(f, "SrtpSeal {{ sending: {sending}, receiving: {receiving} }}")
    }
}

#[cfg(test)]
mod tests;
