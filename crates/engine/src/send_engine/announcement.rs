//! Claims of an announcement, on the ordinary thread.

use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::zone::{ClaimSender, Targets};

use crate::plan::zone::{AnnouncementPlan, InvalidTargets};
use crate::send_engine::stream::SentStream;

pub(crate) struct SentAnnouncement {
    plan: AnnouncementPlan,
    targets: Box<[[u8; 2]]>,
    /// From the first captured frame on.
    claims: Option<ClaimSender>,
}

impl SentAnnouncement {
    /// Maximum delay of the first claim after the first block.
    const HASTE: Span = Span::from_micros(500);

    pub(crate) fn new(plan: AnnouncementPlan) -> Result<Self, InvalidTargets> {
        Ok(Self { targets: plan.targets()?, plan, claims: None })
    }
}

impl SentStream {
    /// Time of the next claim.
    pub(crate) fn claim_due(&self) -> LocalTime {
        match &self.announcement {
            None => LocalTime::NEVER,
            Some(SentAnnouncement { claims: Some(claims), .. }) => claims.poll_timeout(),
            Some(_) => now() + SentAnnouncement::HASTE,
        }
    }

    /// Sends a due claim. The announcement starts with its first frame.
    pub(crate) fn claim_zones(&mut self) {
        let Self { announcement, conversation, policy, last, .. } = self;
        let Some(SentAnnouncement { plan, targets, claims }) = announcement else { return };
        let Some(first) = last.first else { return };
        let starts = || conversation.session.wall(first + policy.link_offset());
        let now = now();
        let claims = claims.get_or_insert_with(|| ClaimSender::new(plan.claim(starts()), now));
        let claim = claims.poll(now, conversation.session.wall(now));
        if let Some((claim, targets)) = claim.zip(Targets::new(targets)) {
            conversation.claim(&claim, targets);
        }
    }

    /// Claims the end, once: the goodbye and the silence after it protect it from loss.
    pub(crate) fn claim_end(&mut self) {
        let Self { announcement, conversation, policy, last, .. } = self;
        let Some(SentAnnouncement { claims: Some(claims), .. }) = announcement else { return };
        let last = last.state.reference.map(|(_, capture)| capture + policy.format().ptime());
        let ends = last.map(|last| conversation.session.wall(last + policy.link_offset()));
        claims.end(ends.unwrap_or(claims.claim().starts), now());
        self.claim_zones();
    }
}
