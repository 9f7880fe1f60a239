//! Lines out of what arrives in pieces.

use thiserror::Error;

/// Bytes of a line. The longest message, an offer, has about 1 kB.
pub const MOST_LINE: usize = 8 << 10;

/// What arrived until a line is whole; no longer than a line may be.
#[derive(Debug, Default)]
pub struct LineBuffer(Vec<u8>);

/// Longer than any message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a line of more than {MOST_LINE} bytes, which is no message of a call; update taut on both sides"
)]
pub struct LineTooLong;

impl LineBuffer {
    /// Takes what arrived, and hands on each line that is whole, without its end.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        mut tell: impl FnMut(&[u8]),
    ) -> Result<(), LineTooLong> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&bytes[..end], &bytes[end + 1..]);
            self.fits(line.len())?;
            match self.0.is_empty() {
                true => tell(line),
                false => {
                    self.0.extend_from_slice(line);
                    tell(&self.0);
                    self.0.clear();
                }
            }
            bytes = after;
        }
        self.fits(bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    const fn fits(&self, more: usize) -> Result<(), LineTooLong> {
        if self.0.len() + more > MOST_LINE { Err(LineTooLong) } else { Ok(()) }
    }
}
