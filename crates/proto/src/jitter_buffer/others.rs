//! Counts packets with unexpected payload types.

/// Unexpected payload type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherType {
    /// RTP payload type, 0 to 127.
    pub payload_type: u8,
    /// Number of packets.
    pub packets: u64,
}

/// Packet counters, for the device thread.
#[derive(Debug)]
pub(super) struct OtherTypes {
    counts: Box<[u64; Self::TYPES]>,
    maximum: Option<u8>,
}

impl OtherTypes {
    const TYPES: usize = 128;

    pub(super) fn new() -> Self {
        Self { counts: Box::new([0; Self::TYPES]), maximum: None }
    }

    pub(super) fn count(&mut self, payload_type: u8) {
        // RTCP packets look like this (RFC 5761 §4).
        if (64..96).contains(&payload_type) {
            return;
        }
        let Some(count) = self.counts.get_mut(usize::from(payload_type)) else { return };
        *count += 1;
        let count = *count;
        if self.maximum().is_none_or(|maximum| count > maximum.packets) {
            self.maximum = Some(payload_type);
        }
    }

    pub(super) fn maximum(&self) -> Option<OtherType> {
        let payload_type = self.maximum?;
        let packets = *self.counts.get(usize::from(payload_type))?;
        Some(OtherType { payload_type, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_frequent_payload_type_is_named_without_reports() {
        let mut others = OtherTypes::new();
        assert_eq!(others.maximum(), None);
        for payload_type in [72, 72, 72, 13, 97, 97, 72, 127] {
            others.count(payload_type);
        }
        assert_eq!(others.maximum(), Some(OtherType { payload_type: 97, packets: 2 }));
        (0..2).for_each(|_| others.count(13));
        assert_eq!(others.maximum(), Some(OtherType { payload_type: 13, packets: 3 }));
    }
}
