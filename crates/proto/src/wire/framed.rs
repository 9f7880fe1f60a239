//! Datagrams in a byte stream (RFC 4571), each after its length (16 bits, big-endian).

use core::fmt;

/// Length field size.
pub const LENGTH_BYTES: usize = 2;

/// Maximum datagram length.
pub const MAX_FRAMED: usize = u16::MAX as usize;

/// Length field; `None` if empty or too long.
pub fn length(datagram: &[u8]) -> Option<[u8; LENGTH_BYTES]> {
    u16::try_from(datagram.len()).ok().filter(|length| *length > 0).map(u16::to_be_bytes)
}

/// Invalid length; the rest of the stream is unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLongFrame {
    /// In the frame.
    pub length: usize,
    /// Maximum.
    pub maximum: usize,
}

impl fmt::Display for TooLongFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, maximum } = self;
        write!(f, "frame of {length} bytes is too long: must be at most {maximum}")
    }
}

impl core::error::Error for TooLongFrame {}

/// Reassembles datagrams in preallocated memory.
#[derive(Debug)]
pub struct FrameReader {
    bytes: Box<[u8]>,
    from: usize,
    until: usize,
    maximum: usize,
}

impl FrameReader {
    /// Limits datagrams to `maximum` bytes, and reads to `room`.
    pub fn new(maximum: usize, room: usize) -> Self {
        let maximum = maximum.min(MAX_FRAMED);
        let room = room.max(LENGTH_BYTES + maximum);
        Self { bytes: vec![0; room].into_boxed_slice(), from: 0, until: 0, maximum }
    }

    /// Buffer for the next bytes, not empty if [`Self::next_frame`] returned `None`.
    pub fn room(&mut self) -> &mut [u8] {
        // Makes room for an incomplete datagram.
        if self.from == self.until {
            (self.from, self.until) = (0, 0);
        } else if self.bytes.len() - self.from < LENGTH_BYTES + self.maximum {
            self.bytes.copy_within(self.from..self.until, 0);
            (self.from, self.until) = (0, self.until - self.from);
        }
        &mut self.bytes[self.until..]
    }

    /// Records bytes written to [`Self::room`].
    pub fn filled(&mut self, count: usize) {
        self.until = (self.until + count).min(self.bytes.len());
    }

    /// Next datagram. Skips null packets (length 0).
    pub fn next_frame(&mut self) -> Result<Option<&mut [u8]>, TooLongFrame> {
        loop {
            let unread = &self.bytes[self.from..self.until];
            let Some((length, behind)) = unread.split_first_chunk::<LENGTH_BYTES>() else {
                return Ok(None);
            };
            let length = usize::from(u16::from_be_bytes(*length));
            if length > self.maximum {
                return Err(TooLongFrame { length, maximum: self.maximum });
            }
            if behind.len() < length {
                return Ok(None);
            }
            let start = self.from + LENGTH_BYTES;
            self.from = start + length;
            if length > 0 {
                return Ok(Some(&mut self.bytes[start..start + length]));
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], maximum: usize, steps: &[usize]) -> Result<Vec<Vec<u8>>, TooLongFrame> {
        let (mut reader, mut left, mut all) = (FrameReader::new(maximum, 64), bytes, Vec::new());
        let mut steps = steps.iter().cycle();
        while !left.is_empty() {
            let room = reader.room();
            let count = left.len().min(room.len()).min(*steps.next().unwrap());
            assert!(!room.is_empty());
            room[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
            reader.filled(count);
            while let Some(frame) = reader.next_frame()? {
                all.push(frame.to_vec());
            }
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn datagrams_come_out_as_they_went_in_however_the_bytes_come(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..50),
            steps in prop::collection::vec(1usize..200, 1..9),
        ) {
            let mut bytes = Vec::new();
            for datagram in &datagrams {
                bytes.extend(length(datagram).unwrap_or_default());
                bytes.extend(datagram);
            }
            let expected: Vec<_> = datagrams.into_iter().filter(|one| !one.is_empty()).collect();
            prop_assert_eq!(read(&bytes, 100, &steps), Ok(expected));
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            steps in prop::collection::vec(1usize..200, 1..9),
        ) {
            if let Ok(all) = read(&bytes, 300, &steps) {
                prop_assert!(all.iter().all(|one| (1..=300).contains(&one.len())));
            }
        }
    }

    #[test]
    fn too_long_frame_is_rejected_before_it_is_stored() {
        let refused = Err(TooLongFrame { length: 101, maximum: 100 });
        assert_eq!(read(&[0, 1, 7, 0, 101], 100, &[1]), refused);
        assert_eq!(read(&[0, 100], 100, &[1]), Ok(Vec::new()));
        assert_eq!((length(&[]), length(&[0; 65_536])), (None, None));
        assert_eq!(length(&[0; 258]), Some([1, 2]));
    }
}
