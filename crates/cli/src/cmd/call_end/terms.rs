//! What this end of a call offers, and what it makes of what was agreed on.

use tautline_engine::control::{Answer, CannotChange, Changed, SendChange};
use tautline_proto::call::terms::{
    CallLatency, CallOffer, CallPath, CallTerms, StreamAbilities, StreamTerms,
};
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{Coding, PTIME_RANGE};
use tautline_proto::time::Span;

use super::{CallSide, DeviceChoice};
use crate::flags::EndFlags;

/// Codings that are had here, the better first.
fn codings() -> Vec<Coding> {
    let mut codings = Coding::ALL.to_vec();
    codings.sort_by_key(|coding| coding.row().rank);
    codings
}

/// What this end can, with devices of this choice: of what it sends and of what it hears.
fn abilities(flags: &EndFlags, choice: &DeviceChoice) -> [StreamAbilities; 2] {
    let codings = match flags.format {
        Some(asked) => vec![asked],
        None => codings(),
    };
    choice.first().take().map(|takes| StreamAbilities {
        rates: choice.rates(),
        channels: choice.channels(),
        codings: codings.clone(),
        ptimes: (flags.ptime, PTIME_RANGE.1),
        takes: Some(takes),
    })
}

/// What the latency is to be, if anybody says: one that follows the packets as far as is usual is what nobody asks for.
fn latency(flags: &EndFlags) -> Option<CallLatency> {
    flags.timing.latency.filter(|rule| *rule != LatencyRule::AUTO).map(latency_by)
}

/// The latency of a call by such a rule.
pub(in crate::cmd) fn latency_by(rule: LatencyRule) -> CallLatency {
    match rule {
        LatencyRule::Chosen(latency) => CallLatency::Kept(latency),
        LatencyRule::Usual => CallLatency::AUTO,
        LatencyRule::Auto { most } => {
            CallLatency::Auto { most: most.unwrap_or(CallLatency::MOST_AUTO) }
        }
    }
}

/// The offer of this end, which sends `there` or `back`.
pub(in crate::cmd) fn offer(
    flags: &EndFlags,
    choice: &DeviceChoice,
    side: CallSide,
    paths: Vec<CallPath>,
) -> CallOffer {
    let [sent, heard] = abilities(flags, choice);
    let (there, back) = match side {
        CallSide::Caller => (sent, heard),
        CallSide::Called => (heard, sent),
    };
    CallOffer { there, back, paths, latency: latency(flags) }
}

/// What this side sends and hears of what was agreed on.
pub(in crate::cmd) const fn directions(
    terms: &CallTerms,
    side: CallSide,
) -> (StreamTerms, StreamTerms) {
    match side {
        CallSide::Caller => (terms.there, terms.back),
        CallSide::Called => (terms.back, terms.there),
    }
}

/// At how many bits a coding goes, where it has a choice of that: words that follow others.
pub(in crate::cmd) fn bits_in_words(coding: Coding) -> String {
    let bits = coding.bitrate();
    bits.map_or(String::new(), |bits| format!(" at {} kbit/s", bits / 1000))
}

/// What was agreed on.
pub(in crate::cmd) fn in_words(terms: &CallTerms) -> String {
    let stream = |terms: &StreamTerms| {
        format!(
            "{} {}, {} channels, {} per packet{}",
            terms.coding.name(),
            terms.rate,
            terms.channels,
            terms.ptime,
            bits_in_words(terms.coding)
        )
    };
    let latency = terms.latency;
    if terms.there == terms.back {
        return format!("{} both ways, latency {latency}", stream(&terms.there));
    }
    format!("there {}; back {}; latency {latency}", stream(&terms.there), stream(&terms.back))
}

/// That the latency which was agreed on is more than this end asked for, where it is.
pub(in crate::cmd) fn raised(flags: &EndFlags, terms: &CallTerms) -> Option<String> {
    let asked = latency(flags).and_then(CallLatency::kept);
    let (asked, kept) = asked.zip(terms.latency.kept()).filter(|(asked, kept)| kept > asked)?;
    Some(format!(
        "a latency of {asked} was asked for, and the packets and devices of both ends leave no time for less than {kept}: \
         that is kept; give both shorter periods (--period, --periods) or shorter packets (--ptime) for less"
    ))
}

/// Has packets of this time in this coding sent, or those that were before.
pub(super) fn adopt_coding(
    ask: &dyn Fn(SendChange) -> Answer,
    ptime: Span,
    coding: Coding,
) -> Result<(), CannotChange> {
    let Changed::Sending(before) = ask(SendChange::Status)? else { return Ok(()) };
    if before.ptime == ptime && before.format.is_coded_as(coding) {
        // In other bits its packets are as they were.
        return if before.format == coding {
            Ok(())
        } else {
            ask(SendChange::Format(coding)).map(drop)
        };
    }
    // What codes now may not take those packets, or what is to code takes no others.
    let (other, back) = match ask(SendChange::Ptime(ptime)) {
        Ok(_) => (SendChange::Format(coding), SendChange::Ptime(before.ptime)),
        Err(_) => {
            ask(SendChange::Format(coding))?;
            (SendChange::Ptime(ptime), SendChange::Format(before.format))
        }
    };
    match ask(other) {
        Ok(_) => Ok(()),
        // Of a change that is told to be refused nothing is made.
        Err(why) => ask(back).and(Err(why)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tautline_dsp::format::SampleFormat;
    use tautline_dsp::gain::Gain;
    use tautline_engine::control::{Fader, SendStanding};
    use tautline_proto::redundancy::Redundancy;
    use tautline_proto::sending::ReceiverCounts;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    /// What is sent after a change from this to that was asked for of a sender that codes only by these, and whether it
    /// was made.
    fn adopted(
        from: (Span, Coding),
        to: (Span, Coding),
        coders: &[Coding],
    ) -> ((Span, Coding), bool) {
        let sent = Cell::new(from);
        let take = |(ptime, coding): (Span, Coding), changed| {
            let stereo = (Rate::HZ_48000, Channels::STEREO);
            let fits = coding.shortest(stereo, (ptime, ptime)).is_some();
            let made = fits && coders.contains(&coding);
            made.then(|| sent.set((ptime, coding))).map(|()| changed).ok_or(CannotChange::Busy)
        };
        let ask = |change| match change {
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
        let made = adopt_coding(&ask, to.0, to.1).is_ok();
        (sent.get(), made)
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
        // What no coding takes is refused whichever comes first.
        assert_eq!(adopted((ms(5), music), (ms(30), l24), &[l24, music]), ((ms(5), music), false));
    }
}
