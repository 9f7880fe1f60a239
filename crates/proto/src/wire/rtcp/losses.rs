//! What a receiver tells of lost packets beyond the standard report, whose fraction lost knows
//! neither bursts nor repairs.

use crate::redundancy::sizing::Tally;

/// Subtype of a [`LossReport`] among tautline's APP packets.
pub(super) const LOSSES: u8 = 2;

/// Receiver to sender: what was lost of its stream, before and after repair, since it was first
/// heard.
///
/// On the wire, big-endian: stream (32 bits), then counts of packets (64 bits each): expected, missing and its
/// runs, repaired, lost, those of outages, and late, the last two of which older versions do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossReport {
    /// The stream.
    pub ssrc: u32,
    /// What did not come.
    pub tally: Tally,
    /// Of that, what was rebuilt in time.
    pub repaired: u64,
    /// What had not come, nor been rebuilt, when its turn came.
    pub lost: u64,
    /// What came after its turn.
    pub late: u64,
}

impl LossReport {
    pub(super) const BYTES: usize = 60;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let Tally { expected, missing, runs, beyond } = self.tally;
        bytes[..4].copy_from_slice(&self.ssrc.to_be_bytes());
        let counts = [expected, missing, runs, self.repaired, self.lost, beyond, self.late];
        let places = bytes[4..].as_chunks_mut().0.iter_mut();
        places.zip(counts).for_each(|(place, count)| *place = count.to_be_bytes());
        bytes
    }

    /// `None` if it is too short; what follows the known fields is left to later versions.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (ssrc, rest) = bytes.split_first_chunk()?;
        let (counts, _) = rest.as_chunks();
        let &[expected, missing, runs, repaired, lost, ref later @ ..] = counts else {
            return None;
        };
        let count = u64::from_be_bytes;
        let later = |place: usize| later.get(place).map_or(0, |bytes| count(*bytes));
        Some(Self {
            ssrc: u32::from_be_bytes(*ssrc),
            tally: Tally {
                expected: count(expected),
                missing: count(missing),
                runs: count(runs),
                beyond: later(0),
            },
            repaired: count(repaired),
            lost: count(lost),
            late: later(1),
        })
    }
}
