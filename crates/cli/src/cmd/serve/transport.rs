//! By what the sound of a call goes, at the end that is called.

use tautline_api::call::{CallKeys, MediaTicket, PathProbes};
use tautline_api::seal::SECRET_BYTES;
use tautline_proto::call::CallId;
use tautline_proto::call::terms::CallPath;

/// Connections that were made and came to nothing since one was used.
const MOST_AHEAD: u32 = 8;
/// The most that a caller moves on by at once: more is nothing that taut says.
const MOST_MOVED: u32 = 1 << 16;

pub(super) struct CalledTransport {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    /// Of the one that is used: later ones have higher numbers.
    number: u32,
    pub(super) path: CallPath,
    pub(super) probes: PathProbes,
    /// Those of the next connections.
    tickets: Vec<(u32, MediaTicket)>,
}

impl CalledTransport {
    /// That of a call which begins, by UDP.
    pub(super) fn of(secret: [u8; SECRET_BYTES], call: CallId) -> Self {
        let probes = PathProbes::new(&CallKeys::of(&secret, call, 0).probe);
        let path = CallPath::Udp;
        let mut first = Self { secret, call, number: 0, path, probes, tickets: Vec::new() };
        first.go_to(0, path);
        first
    }

    /// The one of that number is used from now on.
    fn go_to(&mut self, number: u32, path: CallPath) {
        (self.number, self.path) = (number, path);
        let next = (1..=MOST_AHEAD).filter_map(|ahead| number.checked_add(ahead));
        let ticket = |number| (number, MediaTicket::of(&self.secret, self.call, number));
        self.tickets = next.map(ticket).collect();
    }

    /// The number of the one that is used.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn keys(&self) -> CallKeys {
        CallKeys::of(&self.secret, self.call, self.number)
    }

    /// The caller says by what the sound goes: whether that is UDP, which is to be used from now on. A connection is used
    /// as it comes.
    pub(super) fn goes_by(&mut self, path: CallPath, number: u32) -> bool {
        let moved = number.checked_sub(self.number);
        if !moved.is_some_and(|moved| (1..=MOST_MOVED).contains(&moved)) {
            return false;
        }
        match path {
            CallPath::Udp => self.go_to(number, path),
            // Those between came to nothing, and this one comes.
            CallPath::Tcp => self.go_to(number - 1, self.path),
        }
        path == CallPath::Udp
    }

    /// There is sound again, after there was none: what it is sealed by is used for nothing else. Whether
    /// there is a number left for that.
    #[must_use]
    pub(super) fn sounds_anew(&mut self) -> bool {
        let number = self.number.checked_add(1);
        number.iter().for_each(|number| self.go_to(*number, CallPath::Udp));
        number.is_some()
    }

    /// Uses the connection with this ticket, if it is one of this call that was not shown yet.
    pub(super) fn takes(&mut self, ticket: &MediaTicket) -> bool {
        let found = self.tickets.iter().find(|(_, expected)| expected.is(ticket));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        self.go_to(number, CallPath::Tcp);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_that_begins_anew_has_other_keys_and_a_caller_that_says_its_number_changes_nothing() {
        let mut transport = CalledTransport::of([1; SECRET_BYTES], CallId([7; 16]));
        let before = transport.keys();
        assert!(transport.sounds_anew());
        assert_ne!(transport.keys().there.key, before.there.key);
        assert_eq!(
            transport.keys().there.key,
            CallKeys::of(&[1; 32], CallId([7; 16]), 1).there.key
        );
        assert!(!transport.goes_by(CallPath::Udp, 1), "it is used already");
        transport.number = u32::MAX;
        assert!(!transport.sounds_anew(), "none is left");
    }
}
