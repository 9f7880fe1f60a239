//! Offers, and changes to agreed terms.

use tautline_engine::control::{Answer, CannotChange, Changed, SendChange};
use tautline_proto::call::terms::{CallLatency, CallOffer, CallPath, StreamAbilities};
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{Coding, PTIME_RANGE};
use tautline_proto::time::Span;

use crate::{Config, DeviceChoice, Side};

pub(crate) fn codings() -> Vec<Coding> {
    let mut codings = Coding::ALL.to_vec();
    codings.sort_by_key(|coding| coding.row().rank);
    codings
}

pub(crate) const fn latency_by(rule: LatencyRule) -> CallLatency {
    match rule {
        LatencyRule::Chosen(latency) => CallLatency::Kept(latency),
        LatencyRule::Usual | LatencyRule::Auto { maximum: None } => CallLatency::AUTO,
        LatencyRule::Auto { maximum: Some(maximum) } => CallLatency::Auto { maximum },
    }
}

/// Latency one `step` from `now`. Steps end at the minimum; below it, the result is too short.
pub(crate) fn next_latency(now: Span, step: Span, minimum: Span) -> Span {
    let next = now + step;
    if now > minimum { next.max(minimum) } else { next.max(Span::ZERO) }
}

pub(crate) fn offer(
    config: &Config,
    choice: &DeviceChoice,
    side: Side,
    paths: &[CallPath],
) -> CallOffer {
    let codings = config.format.map_or_else(codings, |requested| vec![requested]);
    let [sent, received] = choice.first.take().map(|takes| StreamAbilities {
        rates: choice.rates(),
        channels: choice.channels(),
        codings: codings.clone(),
        ptimes: (config.ptime, PTIME_RANGE.1),
        takes: Some(takes),
    });
    let (there, back) = match side {
        Side::Caller => (sent, received),
        Side::Called => (received, sent),
    };
    let latency = config.latency.map(latency_by);
    let (paths, redundancy) = (paths.to_vec(), config.redundancy);
    CallOffer { there, back, paths, latency, adapts: None, redundancy }
}

/// Text of a selectable bit rate.
pub fn bits_in_words(bits: Option<u32>) -> String {
    bits.map_or(String::new(), |bits| format!(" at {} kbit/s", bits / 1000))
}

/// Changes packet time and codec, or neither.
pub(crate) fn adopt_coding(
    request: &dyn Fn(SendChange) -> Answer,
    ptime: Span,
    coding: Coding,
) -> Result<(), CannotChange> {
    let Changed::Sending(before) = request(SendChange::Status)? else { return Ok(()) };
    if before.ptime == ptime && before.format.is_coded_as(coding) {
        return if before.format == coding {
            Ok(())
        } else {
            request(SendChange::Format(coding)).map(drop)
        };
    }
    // Either order may need a combination that no codec supports.
    let (other, back) = match request(SendChange::Ptime(ptime)) {
        Ok(_) => (SendChange::Format(coding), SendChange::Ptime(before.ptime)),
        Err(_) => {
            request(SendChange::Format(coding))?;
            (SendChange::Ptime(ptime), SendChange::Format(before.format))
        }
    };
    match request(other) {
        Ok(_) => Ok(()),
        Err(why) => request(back).and(Err(why)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tautline_dsp::format::SampleFormat;
    use tautline_dsp::gain::Gain;
    use tautline_engine::control::{Fader, SendStanding};
    use tautline_proto::redundancy::Redundancy;
    use tautline_proto::send_policy::ReceiverCounts;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    fn adopted(
        from: (Span, Coding),
        to: (Span, Coding),
        codecs: &[Coding],
    ) -> ((Span, Coding), bool) {
        let sent = Cell::new(from);
        let take = |(ptime, coding): (Span, Coding), changed| {
            let stereo = (Rate::HZ_48000, Channels::STEREO);
            let fits = coding.shortest(stereo, (ptime, ptime)).is_some();
            let made = fits && codecs.contains(&coding);
            made.then(|| sent.set((ptime, coding))).map(|()| changed).ok_or(CannotChange::Busy)
        };
        let request = |change| match change {
            SendChange::Ptime(ptime) => take((ptime, sent.get().1), Changed::Ptime(ptime)),
            SendChange::Format(coding) => take((sent.get().0, coding), Changed::Format(coding)),
            _ => Ok(Changed::Sending(SendStanding {
                latency: Span::ZERO,
                auto: true,
                ptime: sent.get().0,
                format: sent.get().1,
                redundancy: Redundancy::Off,
                repair_budget: Span::ZERO,
                volume: Fader { gain: Gain::UNITY, muted: false },
                address: String::new(),
                receivers: ReceiverCounts::default(),
            })),
        };
        let made = adopt_coding(&request, to.0, to.1).is_ok();
        (sent.get(), made)
    }

    #[test]
    fn last_step_of_the_latency_ends_at_the_minimum() {
        let at = Span::from_micros;
        let (step, minimum) = (at(1_000), at(7_300));
        assert_eq!(next_latency(at(9_000), -step, minimum), at(8_000));
        assert_eq!(next_latency(at(8_000), -step, minimum), minimum);
        assert_eq!(next_latency(at(8_000), step, minimum), at(9_000));
        assert_eq!(next_latency(minimum, -step, minimum), at(6_300), "rejected");
        assert_eq!(next_latency(at(500), -step, minimum), Span::ZERO);
    }

    #[test]
    fn packet_time_and_coding_change_together_or_not_at_all() {
        let ms = Span::from_millis;
        let (l24, music, voice) =
            (Coding::from(SampleFormat::L24), Coding::OPUS, Coding::OPUS_VOICE);
        for (from, to) in [
            ((ms(1), l24), (ms(5), music)),
            ((ms(5), music), (ms(1), l24)),
            ((ms(5), music), (ms(10), voice)),
            ((ms(10), voice), (ms(5), music)),
        ] {
            assert_eq!(adopted(from, to, &[l24, music, voice]), (to, true), "{from:?}");
            assert_eq!(adopted(from, to, &[from.1]), (from, false), "{from:?}");
        }
        assert_eq!(adopted((ms(5), music), (ms(30), l24), &[l24, music]), ((ms(5), music), false));
    }
}
