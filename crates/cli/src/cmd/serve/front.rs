//! What people have before them where `taut serve` runs on a terminal: who calls, how that stands, and keys.

use std::net::SocketAddr;

use console::Term;
use tautline_proto::device::Stop;

use super::seats::{CallSeats, CallsSeen};
use crate::cmd::call_end::{CallStatus, Pressed, PressedKeys};
use crate::failure::Failure;
use crate::voice::Voice;

/// What the keys do, for those who see them.
const KEYS: &str = "m: mute or unmute this machine for its callers   q: end";

/// Rows of a terminal that says nothing of itself.
const USUAL_ROWS: u16 = 24;
/// Of each call: whose it is, what is sent, what is heard, its latency, and where that goes.
const ROWS_OF_A_CALL: usize = 5;
/// Beside calls: how many there are, how many more than are shown, what keys do, and the cursor.
const OTHER_ROWS: usize = 4;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServeKey {
    /// `m`: mute, or unmute.
    Mute,
}

const fn key(byte: u8) -> Option<Pressed<ServeKey>> {
    match byte {
        b'm' | b'M' => Some(Pressed::Key(ServeKey::Mute)),
        b'q' | b'Q' => Some(Pressed::End),
        _ => None,
    }
}

pub(super) struct ServeFront {
    status: CallStatus,
    keys: Option<PressedKeys<ServeKey>>,
    address: SocketAddr,
    callers: u16,
    /// Whether callers hear nothing of this machine.
    muted: bool,
}

impl ServeFront {
    /// Where `taut serve` listens, and how many callers may be.
    pub(super) fn new(
        voice: Voice,
        (address, callers): (SocketAddr, u16),
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let mut status = CallStatus::on_terminal(voice);
        let keys = match status.are_seen() {
            true => PressedKeys::listen(stop.clone(), key)?,
            false => None,
        };
        keys.iter().for_each(|_| status.with_keys(KEYS));
        Ok(Self { status, keys, address, callers, muted: false })
    }

    pub(super) fn is_seen(&self) -> bool {
        self.status.are_seen()
    }

    /// Takes the keys that were pressed: whether the machine is muted from now on, if that is another than before.
    pub(super) fn turn(&mut self) -> Option<bool> {
        let before = self.muted;
        let pressed = self.keys.iter().flat_map(PressedKeys::pressed);
        for ServeKey::Mute in pressed {
            self.muted = !self.muted;
        }
        (self.muted != before).then_some(self.muted)
    }

    /// Draws how it stands by now.
    pub(super) fn show(&mut self, seats: &mut CallSeats) {
        if !self.is_seen() {
            return;
        }
        let rows = Term::stdout().size_checked().map_or(USUAL_ROWS, |(rows, _)| rows);
        let rows = usize::from(if rows == 0 { USUAL_ROWS } else { rows });
        let most = (rows.saturating_sub(OTHER_ROWS) / ROWS_OF_A_CALL).max(1);
        let seen = seats.seen(most, if self.muted { "muted" } else { "open" });
        let mut lines = vec![self.head(&seen)];
        lines.extend(seen.pages);
        if seen.sounding > most {
            lines.push(format!("and {} more with sound", seen.sounding - most));
        }
        self.status.show(lines);
    }

    fn head(&self, seen: &CallsSeen) -> String {
        let Self { address, callers, muted, .. } = self;
        let CallsSeen { sounding, quiet, .. } = seen;
        let muted = if *muted { "; muted" } else { "" };
        match sounding + quiet {
            0 => format!("nobody calls {address}{muted}"),
            all => format!(
                "{all} of {callers} at {address}: {sounding} with sound, {quiet} without{muted}"
            ),
        }
    }

    /// Takes what is drawn away, for good.
    pub(super) fn end(&mut self) {
        self.status.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_the_same_as_a_capital_and_no_other_key_does_anything() {
        for byte in 0..=u8::MAX {
            let right = match byte.to_ascii_lowercase() {
                b'm' => Some(Pressed::Key(ServeKey::Mute)),
                b'q' => Some(Pressed::End),
                _ => None,
            };
            assert_eq!(key(byte), right, "{:?}", char::from(byte));
        }
    }
}
