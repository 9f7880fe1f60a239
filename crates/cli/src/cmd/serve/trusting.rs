//! Whoever is trusted no more is neither heard nor hears, however long its call has lasted: a handshake looks at the list
//! once.

use std::sync::Arc;

use tautline_api::trust::{HostKey, TrustStore};
use tautline_proto::call::answering::Answering;
use tautline_proto::call::message::CallReason;
use tautline_proto::time::LocalTime;

use crate::cmd::call_end::trust_watch::TrustWatch;

/// What both ends are told.
const WHY: &str =
    "the caller is trusted no more; taut trust NAME KEY, where it called, trusts it again";

pub(super) struct CallersTrust {
    trust: Arc<TrustStore>,
    watch: TrustWatch,
    /// What was told last of a list that cannot be read.
    unreadable: Option<String>,
}

impl CallersTrust {
    pub(super) fn new(trust: Arc<TrustStore>) -> Self {
        Self { trust, watch: TrustWatch::default(), unreadable: None }
    }

    /// Has those part who are trusted no more, each second. A list that cannot be read names nobody: why it cannot is
    /// returned, once.
    pub(super) fn keep(&mut self, answering: &mut Answering, now: LocalTime) -> Option<String> {
        if !self.watch.is_due(now) {
            return None;
        }
        let is_trusted =
            |peer| self.trust.trusts_still(HostKey::new(peer), None).unwrap_or_default();
        answering.keep_trusted(is_trusted, &CallReason::new(WHY), now);
        let unreadable = self.trust.trusted().hosts().err().map(|error| error.to_string());
        let told = core::mem::replace(&mut self.unreadable, unreadable);
        self.unreadable.clone().filter(|_| told != self.unreadable)
    }
}
