//! What two ends of a call say to each other on the control connection.

use super::CallId;
use super::terms::{CallOffer, CallPath, CallTerms};
use crate::text::printable;

/// Of the words here.
pub const CALL_VERSION: u32 = 6;
/// The oldest that is spoken. Others are refused in a sentence.
pub const OLDEST_CALL_VERSION: u32 = 2;
/// From this on it is said what devices take ([`StreamAbilities::takes`]).
///
/// [`StreamAbilities::takes`]: super::terms::StreamAbilities::takes
pub const TAKES_VERSION: u32 = 3;
/// From this on [`CallMessage::Unheard`] is said.
pub const UNHEARD_VERSION: u32 = 4;
/// From this on it is said how far a latency goes that follows the packets, where that is not as usual.
pub const MOST_VERSION: u32 = 4;
/// From this on senders follow what the network carries, by feedback among the packets.
pub const ADAPTS_VERSION: u32 = 5;
/// From this on ends agree on what packets carry of earlier ones.
pub const REDUNDANCY_VERSION: u32 = 6;
/// Characters of a reason that are shown.
pub const MOST_REASON: usize = 300;

/// Why a call is refused or ends: a sentence, written by the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReason(String);

impl CallReason {
    /// That sentence, [printable].
    pub fn new(said: impl AsRef<str>) -> Self {
        Self(printable(said.as_ref(), MOST_REASON))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallMessage {
    /// By the caller, first: this is what it can. With a call's id, it is to go on where it was.
    Call {
        /// From [`OLDEST_CALL_VERSION`] to [`CALL_VERSION`].
        version: u32,
        /// What the caller can.
        offer: CallOffer,
        /// The call that it was in.
        resumes: Option<CallId>,
    },
    /// The answer: a new call.
    Accepted {
        /// By what the call is known.
        call: CallId,
        /// What was chosen.
        terms: CallTerms,
        /// UDP port at the address that was called, at which the sound is heard.
        udp_port: u16,
    },
    /// The answer to one that goes on: nothing changed.
    Resumed,
    /// The answer: no, and why. The line is closed then.
    Refused(CallReason),
    /// Other terms from now on, asked for by the caller.
    Change(CallTerms),
    /// They were taken.
    Changed(CallTerms),
    /// They were not, and why: what was is kept.
    Kept(CallReason),
    /// By the caller: the sound goes by this from now on.
    Path {
        /// By what.
        path: CallPath,
        /// The number of the transport: the first has 0, each that follows one more. Its keys are made of it.
        transport: u32,
    },
    /// By the end that is called, from version [`UNHEARD_VERSION`] on, once in each second of it: nothing has come for a
    /// second by the transport of this number.
    Unheard {
        /// Its number.
        transport: u32,
    },
    /// I am here; to be answered by [`CallMessage::Pong`].
    Ping,
    /// So am I.
    Pong,
    /// The call is over, and why.
    Bye(CallReason),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_cannot_fill_the_log_nor_move_the_cursor() {
        let long = CallReason::new("x".repeat(10_000));
        assert_eq!(long.as_str().chars().count(), MOST_REASON);
        assert_eq!(CallReason::new("a\x1b[2Jb\nc").as_str(), "a\\u{1b}[2Jb\\nc");
    }
}
