//! Bit writer and reader, most significant bit first.

pub(crate) struct RiceWriter<'a> {
    room: &'a mut [u8],
    bytes: usize,
    held: u64,
    /// Held bits, fewer than 8 between calls.
    count: u32,
    full: bool,
}

impl<'a> RiceWriter<'a> {
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { room, bytes: 0, held: 0, count: 0, full: false }
    }

    /// Writes at most 32 bits.
    pub(crate) fn put(&mut self, value: u32, count: u32) {
        let low = u64::from(value) & ((1 << count) - 1);
        self.held = self.held << count | low;
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.push((self.held >> self.count) as u8);
        }
    }

    pub(crate) fn put_unary(&mut self, mut zeros: u32) {
        while zeros >= 24 {
            self.put(0, 24);
            zeros -= 24;
        }
        self.put(1, zeros + 1);
    }

    fn push(&mut self, byte: u8) {
        match self.room.get_mut(self.bytes) {
            Some(place) => *place = byte,
            None => self.full = true,
        }
        self.bytes += 1;
    }

    /// Number of bytes; `None` if the buffer was too small.
    pub(crate) fn finish(mut self) -> Option<usize> {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        (!self.full).then_some(self.bytes)
    }
}

pub(crate) struct RiceReader<'a> {
    rest: &'a [u8],
    held: u64,
    count: u32,
}

impl<'a> RiceReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, held: 0, count: 0 }
    }

    fn fill(&mut self) {
        while self.count <= 56
            && let Some((first, rest)) = self.rest.split_first()
        {
            self.held |= u64::from(*first) << (56 - self.count);
            self.count += 8;
            self.rest = rest;
        }
    }

    /// Reads at most 32 bits; `None` if fewer remain.
    pub(crate) fn get(&mut self, count: u32) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        self.fill();
        self.count = self.count.checked_sub(count)?;
        let value = self.held >> (64 - count);
        self.held <<= count;
        Some(value as u32)
    }

    /// `None` for more than `maximum` zeros.
    pub(crate) fn get_unary(&mut self, maximum: u32) -> Option<u32> {
        let mut zeros = 0;
        loop {
            self.fill();
            if self.count == 0 {
                return None;
            }
            let here = self.held.leading_zeros().min(self.count);
            zeros += here;
            if zeros > maximum {
                return None;
            }
            if here < self.count {
                self.held = if here == 63 { 0 } else { self.held << (here + 1) };
                self.count -= here + 1;
                return Some(zeros);
            }
            (self.held, self.count) = (0, 0);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty() && self.count < 8 && self.held == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_of_zeros_survives_at_any_bit_offset() {
        for before in 0..9 {
            for zeros in 0..200 {
                let mut room = [0xFF; 40];
                let mut writer = RiceWriter::new(&mut room);
                writer.put(0x155, before);
                writer.put_unary(zeros);
                writer.put(5, 3);
                let bytes = writer.finish().expect("room");
                let case = format!("{zeros} after {before} bits");
                let mut reader = RiceReader::new(&room[..bytes]);
                assert_eq!(reader.get(before), Some(0x155 & ((1 << before) - 1)), "{case}");
                assert_eq!(reader.get_unary(200), Some(zeros), "{case}");
                assert_eq!((reader.get(3), reader.is_over()), (Some(5), true), "{case}");
                let mut reader = RiceReader::new(&room[..bytes]);
                reader.get(before);
                assert_eq!(reader.get_unary(zeros.wrapping_sub(1).min(200)).is_some(), zeros == 0);
            }
        }
    }

    #[test]
    fn bits_stay_within_the_buffer() {
        let mut room = [0; 2];
        let mut writer = RiceWriter::new(&mut room);
        writer.put(1, 17);
        assert_eq!(writer.finish(), None);
        let mut reader = RiceReader::new(&[0, 0x80]);
        assert_eq!((reader.get(9), reader.is_over()), (Some(1), true));
        assert_eq!((reader.get(8), reader.get_unary(99)), (None, None));
        assert!(!RiceReader::new(&[0]).is_over(), "a byte is left");
    }
}
