//! Texts of a zone's decisions and refused claims.

use tautline_proto::zone::{Arbiter, ClaimRefused, EndReason, ZoneEvent};

pub(super) fn event(event: &ZoneEvent) -> String {
    match event {
        ZoneEvent::Started { id, muted_by: None, .. } => format!("announcement {id} plays"),
        ZoneEvent::Started { id, muted_by: Some(by), .. } => {
            format!("announcement {id} is muted: the microphone of {by} is in this zone")
        }
        ZoneEvent::Refused { id, by } => {
            format!("announcement {id} does not play: {by} takes precedence")
        }
        ZoneEvent::Rejected { id, why } => {
            format!("announcement {id} does not play: {}", reason(*why))
        }
        ZoneEvent::Preempted { id, by, .. } => {
            format!("announcement {id} ends early: {by} takes precedence")
        }
        ZoneEvent::Ended { id, why, .. } => match why {
            EndReason::Station => format!("announcement {id} has ended"),
            EndReason::Silence => format!(
                "announcement {id} has ended: no packet for 500 ms; check its station and the network"
            ),
            EndReason::Stopped => format!("announcement {id} has ended: taut stop"),
            EndReason::Longest => {
                format!("announcement {id} has ended: it reached its maximum duration")
            }
        },
    }
}

pub(super) fn refused(address: &str, why: ClaimRefused) -> String {
    format!("{address}: a claim is ignored: {}", reason(why))
}

/// Why a claim has no effect, with the fix.
pub(crate) fn reason(why: ClaimRefused) -> String {
    let text = match why {
        ClaimRefused::OtherZone => "it addresses other zones",
        ClaimRefused::Background => "its priority is below 32; use 32 to 255",
        ClaimRefused::Unmapped => {
            "the station's clock is not known yet; start the station earlier, or set both clocks by \
             NTP or PTP"
        }
        ClaimRefused::Clock => {
            "it left over 1 s ago according to the station's clock; a host repeats old claims, or a \
             clock was set"
        }
        ClaimRefused::Future => "it starts more than 1 s ahead; claim it later",
        ClaimRefused::Over => "its announcement is over",
        ClaimRefused::Changed => {
            "it contradicts an earlier claim of its announcement; use a new number for each \
             announcement"
        }
        ClaimRefused::Full => {
            return format!("{} others take precedence", Arbiter::MAX_ANNOUNCEMENTS);
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::LocalTime;
    use tautline_proto::zone::AnnouncementId;
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn decisions_of_a_zone_name_the_announcements() {
        let [id, by] = [0x12_3456_789a_bcde, 7].map(AnnouncementId);
        let at = LocalTime::ZERO;
        let ended = EndReason::ALL.map(|why| ZoneEvent::Ended { id, at, why });
        let others = [
            ZoneEvent::Started { id, at, muted_by: None },
            ZoneEvent::Started { id, at, muted_by: Some(by) },
            ZoneEvent::Refused { id, by },
            ZoneEvent::Preempted { id, by, at },
            ZoneEvent::Rejected { id, why: ClaimRefused::Clock },
        ];
        let texts: Vec<_> = others.iter().chain(&ended).map(event).collect();
        snapshot!(texts.join("\n"));
    }

    #[test]
    fn refused_claims_name_the_reason() {
        let texts = ClaimRefused::ALL.map(|why| refused("rtp://239.1.1.1:5004", why));
        snapshot!(texts.join("\n"));
    }
}
