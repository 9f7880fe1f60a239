//! Reads numbers from bytes, for tests and the fuzz target `session`.

/// Returns zeros at the end.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from(self.short()) << 16 | u32::from(self.short())
    }

    /// Small numbers, multiples of `step`, or the ends of the range.
    pub(crate) fn long(&mut self, step: i64) -> i64 {
        match self.byte() % 6 {
            0 => 0,
            1 => i64::from(self.short() as i16),
            2 => i64::from(self.word() as i32) * step,
            3 => i64::MAX - i64::from(self.byte() % 2),
            4 => i64::MIN + i64::from(self.byte() % 2),
            _ => (i64::from(self.word()) << 32) | i64::from(self.word()),
        }
    }
}
