//! Keys that are pressed, and the stream that they choose.

use core::iter::from_fn;
use core::ops::ControlFlow;

const ESCAPE: u8 = 0x1b;

/// A key that `taut top` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopKey {
    /// To the stream above.
    Up,
    /// To the stream below.
    Down,
    /// The stream alone, or among the others.
    Alone,
    End,
}

impl TopKey {
    /// Reads a key that begins with `first`. `next` returns a byte that belongs to it, if there is one: arrows are
    /// sequences of several (ECMA-48, 5.4), and Escape is one alone.
    pub(super) fn read(first: u8, mut next: impl FnMut() -> Option<u8>) -> Option<Self> {
        match first {
            b'k' => Some(Self::Up),
            b'j' => Some(Self::Down),
            b'\r' | b'\n' => Some(Self::Alone),
            b'q' => Some(Self::End),
            ESCAPE => match next() {
                None => Some(Self::End),
                Some(b'[' | b'O') => match from_fn(next).find(|byte| matches!(byte, b'@'..=b'~')) {
                    Some(b'A') => Some(Self::Up),
                    Some(b'B') => Some(Self::Down),
                    _ => None,
                },
                Some(_) => None,
            },
            _ => None,
        }
    }
}

/// Which stream is shown, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShownStream {
    /// The how many-th of all.
    pub(super) stream: usize,
    /// Whether it is shown without the others.
    pub(super) alone: bool,
    streams: usize,
}

impl ShownStream {
    /// There are so many streams now.
    pub(super) fn keep_within(&mut self, streams: usize) {
        self.streams = streams;
        self.stream = self.stream.min(streams.saturating_sub(1));
    }

    /// Applies a key, and returns whether to end.
    pub(super) fn apply(&mut self, key: TopKey) -> ControlFlow<()> {
        match key {
            TopKey::Up => self.stream = self.stream.saturating_sub(1),
            TopKey::Down => self.stream += 1,
            TopKey::Alone => self.alone = !self.alone,
            TopKey::End => return ControlFlow::Break(()),
        }
        self.keep_within(self.streams);
        ControlFlow::Continue(())
    }
}
