//! One observer: a line at a time, and nothing more until that was taken.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use tautline_proto::time::{LocalTime, Span};

/// Who takes nothing for so long is dropped.
const PATIENCE: Span = Span::from_secs(2);

pub(super) struct SnapshotReader {
    stream: UnixStream,
    /// What is left of a line that was begun.
    rest: Vec<u8>,
    /// When it last took anything.
    took: LocalTime,
}

impl SnapshotReader {
    pub(super) fn new(stream: UnixStream, now: LocalTime) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, rest: Vec::new(), took: now })
    }

    /// Goes on with what is left; whether it is still there.
    pub(super) fn goes_on(&mut self, now: LocalTime) -> bool {
        self.is_there() && self.write(now)
    }

    /// Tells it a line, or leaves that line out where the one before is not taken yet; whether it is
    /// still there.
    pub(super) fn tell(&mut self, line: &[u8], now: LocalTime) -> bool {
        if self.rest.is_empty() {
            // It has waited for this line and not the line for it.
            self.took = now;
            self.rest.extend_from_slice(line);
        }
        self.write(now)
    }

    /// Bytes that wait for it.
    #[cfg(test)]
    pub(super) fn rest(&self) -> usize {
        self.rest.len()
    }

    fn write(&mut self, now: LocalTime) -> bool {
        while !self.rest.is_empty() {
            match self.stream.write(&self.rest) {
                Ok(0) => return false,
                Ok(taken) => {
                    self.rest.drain(..taken);
                    self.took = now;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return now - self.took < PATIENCE;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether it has not hung up. What it says is of no interest.
    fn is_there(&mut self) -> bool {
        let mut said = [0; 64];
        match self.stream.read(&mut said) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
