//! By what the transports of a call are made.

use std::net::SocketAddr;

use tautline_api::seal::SECRET_BYTES;

#[derive(Clone, Copy)]
pub(super) struct CallMade {
    pub(super) secret: [u8; SECRET_BYTES],
    /// Where the other end was called.
    pub(super) called: SocketAddr,
    /// The highest number of a transport that was used: no two have the same keys.
    pub(super) used: Option<u32>,
    /// Changes to sound that were asked for since it began last. The other end has a number for each that it begins, and
    /// may begin some that are over before they begin here: it follows to a higher number, and goes back to none.
    pub(super) asked: u32,
}

impl CallMade {
    /// Of a call that begins on the line with this secret, made to `called`.
    pub(super) const fn new(secret: [u8; SECRET_BYTES], called: SocketAddr) -> Self {
        Self { secret, called, used: None, asked: 0 }
    }

    /// The number of the first transport of sound that begins now; none where none is left.
    pub(super) fn number(&self) -> Option<u32> {
        let first = self.used.map_or(Some(0), |used| used.checked_add(1))?;
        first.checked_add(self.asked.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sounds_of_a_call_have_one_number_and_none_is_behind_the_other_ends() {
        let mut made = CallMade::new([1; SECRET_BYTES], ([127, 0, 0, 1], 1).into());
        assert_eq!(made.number(), Some(0), "of a call that begins with sound");
        made.asked = 1;
        assert_eq!(made.number(), Some(0), "of one that is asked for some, as at the other end");
        // Asked for, held before it began here, and asked for again: the other end began twice.
        made.asked = 2;
        assert_eq!(made.number(), Some(1));
        (made.used, made.asked) = (Some(4), 1);
        assert_eq!(made.number(), Some(5));
        made.asked = 3;
        assert_eq!(made.number(), Some(7));
        (made.used, made.asked) = (Some(u32::MAX), 1);
        assert_eq!(made.number(), None, "none is left");
    }
}
