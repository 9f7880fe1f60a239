use core::iter::from_fn;
use core::ops::ControlFlow;

const ESCAPE: u8 = 0x1b;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopKey {
    Up,
    Down,
    /// Toggles between one stream and all.
    Alone,
    End,
}

impl TopKey {
    /// `next` returns the key's next byte, if any: arrows are sequences (ECMA-48 §5.4), Escape is
    /// one byte.
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

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StreamRow {
    pub(super) stream: usize,
    pub(super) alone: bool,
    streams: usize,
}

impl StreamRow {
    pub(super) fn keep_within(&mut self, streams: usize) {
        self.streams = streams;
        self.stream = self.stream.min(streams.saturating_sub(1));
    }

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
