//! A host that is trusted no more is neither heard nor hears, however long the call has lasted: a handshake looks at the
//! list once.

use tautline_api::trust::HostKey;
use tautline_io::clock::now;
use tautline_proto::call::message::CallReason;

use super::Calling;
use crate::cmd::call_end::trust_watch::TrustWatch;

#[derive(Default)]
pub(super) struct HostTrust {
    /// Of the host that answered.
    key: Option<HostKey>,
    watch: TrustWatch,
}

impl HostTrust {
    /// The host with this key answered, and was taken.
    pub(super) fn met(&mut self, key: HostKey) {
        self.key = Some(key);
    }
}

impl Calling<'_> {
    /// Hangs up, with a line or without, where the host is trusted no more.
    pub(super) fn turn_trust(&mut self) {
        let Some(key) = self.host_trust.key else { return };
        if !self.host_trust.watch.is_due(now()) {
            return;
        }
        let host = self.host;
        let why = match self.trust.trusts_still(key, host.0.name.as_deref()) {
            Ok(true) => return,
            Ok(false) => {
                format!("{host} is trusted here no more; taut trust NAME KEY trusts it again")
            }
            Err(unreadable) => format!("{host} is trusted here no more: {unreadable}"),
        };
        self.voice.tell(&why);
        self.caller.hang_up(CallReason::new("the host that was called is trusted no more"));
    }
}
