//! What two ends can, and what they agree on.

use core::fmt;

use thiserror::Error;

use super::packets::NoPackets;
use crate::coder::{NotCoded, Opus};
use crate::latency::{LatencyRule, kept_latency};
use crate::receiver::room_for;
use crate::stream::{Coding, LONGEST_LINK_OFFSET, PTIME_RANGE, StreamFormat, packet_frames};
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};

/// Entries of a list in an offer. More are not read: there are not that many of anything.
pub const MOST_LISTED: usize = 16;

/// What one end can do with a stream of one direction, the better first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamAbilities {
    /// Frames per second.
    pub rates: Vec<Rate>,
    /// Channels of the stream.
    pub channels: Vec<Channels>,
    /// Codings.
    pub codings: Vec<Coding>,
    /// Sound in one packet: the shortest and the longest.
    pub ptimes: (Span, Span),
    /// What the device of this end takes of a latency in this direction, as far as is known before it runs: where it
    /// captures, a period, and where it plays, all of its periods ([`crate::latency::least_latency`]). None where that is not said.
    pub takes: Option<Span>,
}

/// By what the sound may go, the better first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPath {
    /// RTP by UDP.
    Udp,
    /// RTP by TCP (RFC 4571).
    Tcp,
}

impl CallPath {
    /// Its word in messages and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// The path of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Udp, Self::Tcp].into_iter().find(|path| path.name() == name)
    }
}

/// From capture to loudspeaker, of both directions of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLatency {
    /// This is kept.
    Kept(Span),
    /// As the packets ask for, and no more than this: what comes later is late, and is dropped.
    Auto {
        /// What it does not go beyond, unless the way itself takes longer ([`LatencyRule::Auto`]).
        most: Span,
    },
}

impl CallLatency {
    /// As nobody says otherwise.
    pub const AUTO: Self = Self::Auto { most: Self::MOST_AUTO };
    /// What it does not go beyond where nobody says. ITU-T G.114 (05/2003) asks for 150 ms from mouth to ear, by which
    /// nearly all conversations are as though there was none, and for no more than 400 ms whatever the network; this lies
    /// between, and what is waited for beyond it costs a conversation more than the sound is worth that it saves.
    pub const MOST_AUTO: Span = Span::from_millis(250);

    /// The one that is kept; `None` where the packets say it.
    pub const fn kept(self) -> Option<Span> {
        match self {
            Self::Kept(latency) => Some(latency),
            Self::Auto { .. } => None,
        }
    }

    /// The rule by which either end keeps it.
    pub const fn rule(self) -> LatencyRule {
        match self {
            Self::Kept(latency) => LatencyRule::Chosen(latency),
            Self::Auto { most } => LatencyRule::Auto { most: Some(most) },
        }
    }

    /// What of it is more than sound has room for that was given this much; what follows the packets as far as is usual goes
    /// as far as there is room.
    pub fn beyond(self, room: Span) -> Option<Span> {
        match self {
            Self::Kept(latency) => Some(latency).filter(|latency| *latency > room),
            Self::Auto { most } => Some(most).filter(|most| *most > room.max(Self::MOST_AUTO)),
        }
    }

    /// Whether two ends may keep it.
    fn is_possible(self) -> bool {
        let (Self::Kept(span) | Self::Auto { most: span }) = self;
        span > Span::ZERO && span <= LONGEST_LINK_OFFSET
    }
}

impl fmt::Display for CallLatency {
    /// As it is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(latency) => write!(f, "{latency}"),
            &Self::AUTO => f.write_str("auto"),
            Self::Auto { most } => write!(f, "auto:{most}"),
        }
    }
}

/// What one end can: of the stream to the one that is called, of the stream from it, and by what both go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOffer {
    /// To the end that is called.
    pub there: StreamAbilities,
    /// From it.
    pub back: StreamAbilities,
    /// By what; none for a call that is to be without sound at first.
    pub paths: Vec<CallPath>,
    /// What its latency is to be, if anybody says.
    pub latency: Option<CallLatency>,
}

/// What was agreed on for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamTerms {
    /// Frames per second.
    pub rate: Rate,
    /// Channels of the stream.
    pub channels: Channels,
    /// Coding of the sound.
    pub coding: Coding,
    /// Sound in one packet: no more than this.
    pub ptime: Span,
}

/// What was agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTerms {
    /// To the end that is called.
    pub there: StreamTerms,
    /// From it.
    pub back: StreamTerms,
    /// By what the sound may go, the better first. None while the call is without sound.
    pub paths: Vec<CallPath>,
    /// From capture to loudspeaker.
    pub latency: CallLatency,
}

/// What an end cannot do of terms. Each is a sentence with the mend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotHad {
    /// Devices keep theirs.
    #[error("rate and channels stay as the call began; hang up and call anew")]
    Shape,
    /// There are none such anywhere.
    #[error(transparent)]
    Packets(#[from] NoPackets),
    /// There are none such here.
    #[error(
        "packets of {asked} are not had here, and those of {least} to {most} are; ask for these, or give that side a \
         shorter --ptime"
    )]
    Length {
        /// What was asked for.
        asked: Span,
        /// The shortest that are had.
        least: Span,
        /// The longest.
        most: Span,
    },
    /// It is another than those here.
    #[error("{asked} is not had here, and {had} is; ask for another format")]
    Coding {
        /// Its name.
        asked: &'static str,
        /// Those that are had.
        had: String,
    },
    /// There is none such here.
    #[error("that transport is not had here; ask for another")]
    Path,
    /// Nobody keeps it.
    #[error(
        "a latency of {0} is not kept; ask for one above 0 and of no more than {LONGEST_LINK_OFFSET}"
    )]
    Latency(Span),
}

/// Why two ends do not come together. Each is a sentence with the mend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoTerms {
    /// A list is empty or absurdly long.
    #[error(
        "the offer lists {count} {what}, and 1 to {MOST_LISTED} are read; update taut on the side that calls"
    )]
    Listed {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// There is nothing that both can, of what is counted.
    #[error(
        "of {direction}, the two sides have no {what} in common: the one that calls has {theirs}, the other {ours}; {mend}"
    )]
    Unlike {
        /// "the sound to the one that is called".
        direction: &'static str,
        /// What.
        what: &'static str,
        /// What the caller can: numbers.
        theirs: String,
        /// What the one that is called can.
        ours: String,
        /// What to do.
        mend: String,
    },
    /// What both can code is not had in such a stream.
    #[error(
        "of {direction}, {coding} is had {had}, and this call has {has}; leave --format out where it says {coding}, or give both {flag}"
    )]
    Uncoded {
        /// "the sound to the one that is called".
        direction: &'static str,
        /// Its name.
        coding: &'static str,
        /// In what streams it is had.
        had: String,
        /// What the stream is instead.
        has: String,
        /// What makes it such a stream.
        flag: String,
    },
    /// There is nothing that both can.
    #[error("of {direction}, the two sides have no {what} in common; {mend}")]
    Apart {
        /// "the sound to the one that is called".
        direction: &'static str,
        /// What.
        what: &'static str,
        /// What to do.
        mend: &'static str,
    },
}

impl StreamTerms {
    /// The same in another coding, in packets that it takes, as near as may be.
    #[must_use]
    pub fn coded(self, coding: Coding) -> Self {
        let shortest = |least| coding.shortest((self.rate, self.channels), (least, PTIME_RANGE.1));
        let ptime = shortest(self.ptime).or_else(|| shortest(PTIME_RANGE.0));
        Self { coding, ptime: ptime.unwrap_or(self.ptime), ..self }
    }

    /// The same in so many bits per second, where its coding has a choice of that.
    #[must_use]
    pub const fn at_bitrate(self, bitrate: u32) -> Self {
        Self { coding: self.coding.at_bitrate(bitrate), ..self }
    }

    /// What its packets look like; `None` where no whole frame fits, or too many, or what compresses them takes none
    /// such.
    pub fn format(&self, payload_type: u8) -> Option<StreamFormat> {
        let Self { rate, channels, coding: Coding { sample, coder }, ptime } = *self;
        let packet = packet_frames(rate, ptime).ok()?;
        let format = StreamFormat { rate, channels, sample, coder, packet, payload_type };
        coder.is_none_or(|coder| coder.check((rate, channels), packet).is_ok()).then_some(format)
    }
}

/// The least latency of one direction, from an end whose device captures so to one whose device plays so: what is not said
/// takes nothing ([`crate::latency::least_latency`]). Nobody's device takes longer than the longest latency there is.
fn least(terms: &StreamTerms, captures: Option<Span>, plays: Option<Span>) -> Span {
    let bounded = |takes: Option<Span>| takes.map(|it| it.clamp(Span::ZERO, LONGEST_LINK_OFFSET));
    let Some(format) = terms.format(0) else { return Span::ZERO };
    let period = bounded(captures).map(|takes| terms.rate.frames_nearest(takes));
    let period = period.filter(|period| *period > Frames::ZERO).unwrap_or(format.packet);
    format.packing_age(period) + bounded(plays).unwrap_or(Span::ZERO)
}

impl StreamTerms {
    /// Whether an end can do that; else what it cannot, with the mend.
    fn fits(&self, can: &StreamAbilities) -> Result<(), NotHad> {
        if !can.rates.contains(&self.rate) || !can.channels.contains(&self.channels) {
            return Err(NotHad::Shape);
        }
        self.packets()?;
        let ((least, most), asked) = (can.ptimes, self.ptime);
        if asked < least || asked > most {
            return Err(NotHad::Length { asked, least, most });
        }
        if !can.codings.iter().any(|coding| coding.is_coded_as(self.coding)) {
            let had: Vec<_> = can.codings.iter().map(|coding| coding.name()).collect();
            return Err(NotHad::Coding { asked: self.coding.name(), had: had.join(", ") });
        }
        Ok(())
    }
}

impl CallTerms {
    /// Whether there is sound: a call without is a line, and goes by no path.
    pub const fn sound(&self) -> bool {
        !self.paths.is_empty()
    }

    /// The longest latency that there is room for at both ends where sound begins by these terms, at the least.
    pub fn room(&self) -> Span {
        let begins = self.latency.kept().unwrap_or(Span::ZERO);
        let room = self.latency.rule().room(begins);
        room_for(room, self.there.rate).min(room_for(room, self.back.rate))
    }

    /// What these two ends keep of the latency that is asked for: that, or where packets and devices leave no time for the
    /// way, the least that will do. It is one for both directions.
    pub fn kept(&self, caller: &CallOffer, called: &CallOffer) -> CallLatency {
        let there = least(&self.there, caller.there.takes, called.there.takes);
        let back = least(&self.back, called.back.takes, caller.back.takes);
        match self.latency {
            CallLatency::Kept(asked) => CallLatency::Kept(kept_latency(asked, there.max(back))),
            auto @ CallLatency::Auto { .. } => auto,
        }
    }

    /// Whether an end that made this offer can do all of it; else what it cannot, with the mend.
    pub fn fits(&self, offer: &CallOffer) -> Result<(), NotHad> {
        self.there.fits(&offer.there)?;
        self.back.fits(&offer.back)?;
        if self.paths.len() > MOST_LISTED
            || !self.paths.iter().all(|path| offer.paths.contains(path))
        {
            return Err(NotHad::Path);
        }
        match self.latency {
            latency if latency.is_possible() => Ok(()),
            CallLatency::Kept(span) | CallLatency::Auto { most: span } => {
                Err(NotHad::Latency(span))
            }
        }
    }
}

impl CallOffer {
    /// What comes of it at an end that can `here`: of each list the first that is in the other's, too, and the latency that
    /// is asked for, or the least that both can keep where that is more ([`CallTerms::kept`]).
    pub fn choose(&self, here: &Self) -> Result<CallTerms, NoTerms> {
        let there = stream_terms(&self.there, &here.there, "the sound to the one that is called")?;
        let back = stream_terms(&self.back, &here.back, "the sound to the one that calls")?;
        let asked = match self.paths.is_empty() {
            true => &[],
            false => in_bounds("paths", &self.paths)?,
        };
        let paths: Vec<_> =
            asked.iter().copied().filter(|path| here.paths.contains(path)).collect();
        if paths.is_empty() && !asked.is_empty() {
            return Err(NoTerms::Apart {
                direction: "the way",
                what: "transport",
                mend: "leave --transport out on one of them",
            });
        }
        let latency = self.latency.or(here.latency).unwrap_or(CallLatency::AUTO);
        let mut terms = CallTerms { there, back, paths, latency };
        if latency.is_possible() {
            terms.latency = terms.kept(self, here);
        }
        if !terms.latency.is_possible() {
            return Err(NoTerms::Apart {
                direction: "the sound",
                what: "latency",
                mend: "give it a --latency of no more than 5 s",
            });
        }
        Ok(terms)
    }
}

fn in_bounds<'a, T>(what: &'static str, list: &'a [T]) -> Result<&'a [T], NoTerms> {
    match list.len() {
        1..=MOST_LISTED => Ok(list),
        count => Err(NoTerms::Listed { what, count }),
    }
}

fn first_common<T: Copy + PartialEq>(
    what: &'static str,
    theirs: &[T],
    ours: &[T],
) -> Result<Option<T>, NoTerms> {
    Ok(in_bounds(what, theirs)?.iter().copied().find(|one| ours.contains(one)))
}

/// What one side can, in words. There are [`MOST_LISTED`] at the most.
fn listed<T: core::fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// That one is alone with what it was told to be, or with what its devices or a file are; or what it has is not had there.
fn unlike<T: fmt::Display>(
    direction: &'static str,
    (what, flag): (&'static str, &'static str),
    theirs: &[T],
    ours: &[T],
) -> NoTerms {
    let mend = match (theirs, ours) {
        ([_], [one, ..]) => {
            let one = one.to_string();
            let one = one.trim_end_matches(" Hz");
            let noun = what.split(' ').next().unwrap_or(what);
            format!(
                "call with {flag} {one} or without {flag}, and convert a file of another {noun} first"
            )
        }
        _ => format!("give the one that is called a {flag} of these"),
    };
    NoTerms::Unlike { direction, what, theirs: listed(theirs), ours: listed(ours), mend }
}

/// That this coding takes no such stream, whatever its packets are; else that none of the packets do.
fn uncoded(direction: &'static str, coding: Coding, (rate, channels): (Rate, Channels)) -> NoTerms {
    let uncoded = |had: String, has, flag| NoTerms::Uncoded {
        direction,
        coding: coding.name(),
        had,
        has,
        flag,
    };
    match coding.coder.map(|coder| coder.check_shape(rate, channels)) {
        Some(Err(NotCoded::Rate(has))) => {
            let had = Opus::RATE;
            uncoded(format!("at {had} alone"), has.to_string(), format!("--rate {}", had.hertz()))
        }
        Some(Err(NotCoded::Channels(has))) => {
            let has = format!("{has} channels");
            uncoded("of one channel or two".to_owned(), has, "--channels 2".to_owned())
        }
        _ => {
            let what = "length of packets that this coding has";
            NoTerms::Apart { direction, what, mend: "leave --ptime and --format out on both" }
        }
    }
}

fn stream_terms(
    theirs: &StreamAbilities,
    ours: &StreamAbilities,
    direction: &'static str,
) -> Result<StreamTerms, NoTerms> {
    let apart = |what, mend| NoTerms::Apart { direction, what, mend };
    let rate = first_common("rates", &theirs.rates, &ours.rates)?
        .ok_or_else(|| unlike(direction, ("rate", "--rate"), &theirs.rates, &ours.rates))?;
    let channels =
        first_common("channel counts", &theirs.channels, &ours.channels)?.ok_or_else(|| {
            unlike(
                direction,
                ("number of channels", "--channels"),
                &theirs.channels,
                &ours.channels,
            )
        })?;
    let least = theirs.ptimes.0.max(ours.ptimes.0).max(PTIME_RANGE.0);
    let most = theirs.ptimes.1.min(ours.ptimes.1).min(PTIME_RANGE.1);
    if least > most {
        return Err(apart("length of packets", "leave --ptime out on one of them"));
    }
    // The first that both can, of those that take such a stream.
    let common = in_bounds("codings", &theirs.codings)?.iter();
    let common = common.filter(|coding| ours.codings.iter().any(|one| one.is_coded_as(**coding)));
    let mut common = common.map(|coding| coding.usual_for(channels)).peekable();
    let first = common.peek().copied();
    common
        .find_map(|coding| {
            let ptime = coding.shortest((rate, channels), (least, most))?;
            let terms = StreamTerms { rate, channels, coding, ptime };
            terms.packets().is_ok().then_some(terms)
        })
        .ok_or_else(|| match first {
            Some(coding) => uncoded(direction, coding, (rate, channels)),
            None => apart("coding", "leave --format out on one of them"),
        })
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;

    fn abilities(rates: &[u32], codings: &[SampleFormat]) -> StreamAbilities {
        StreamAbilities {
            rates: rates.iter().map(|hertz| Rate::new(*hertz).unwrap()).collect(),
            channels: vec![Channels::STEREO],
            codings: codings.iter().map(|sample| Coding::from(*sample)).collect(),
            ptimes: (Span::from_millis(1), Span::from_millis(20)),
            takes: None,
        }
    }

    fn offer(rates: &[u32], codings: &[SampleFormat]) -> CallOffer {
        let (there, back) = (abilities(rates, codings), abilities(rates, codings));
        CallOffer { there, back, paths: vec![CallPath::Udp, CallPath::Tcp], latency: None }
    }

    const BOTH: [SampleFormat; 2] = [SampleFormat::L24, SampleFormat::L16];

    #[test]
    fn the_first_that_both_can_is_chosen() {
        let terms = offer(&[96_000, 48_000], &BOTH).choose(&offer(&[48_000, 44_100], &BOTH));
        let terms = terms.unwrap();
        assert_eq!(terms.there.rate, Rate::new(48_000).unwrap());
        assert_eq!(terms.there.coding, SampleFormat::L24.into());
        let terms =
            offer(&[48_000], &BOTH).choose(&offer(&[48_000], &[SampleFormat::L16])).unwrap();
        assert_eq!(terms.back.coding, SampleFormat::L16.into());
    }

    #[test]
    fn packets_are_as_short_as_both_can() {
        let (mut one, mut other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
        one.there.ptimes = (Span::from_micros(125), Span::from_millis(4));
        other.there.ptimes = (Span::from_micros(2500), Span::from_millis(20));
        assert_eq!(one.choose(&other).unwrap().there.ptime, Span::from_micros(2500));
        other.there.ptimes.0 = Span::from_millis(4);
        assert_eq!(one.choose(&other).unwrap().there.ptime, Span::from_millis(4));
        other.there.ptimes.0 = Span::from_millis(5);
        let apart = one.choose(&other).unwrap_err().to_string();
        assert!(apart.contains("length of packets") && apart.contains("--ptime"), "{apart}");
    }

    #[test]
    fn the_latency_is_the_callers_word_then_that_of_the_one_that_is_called() {
        let (mut one, mut other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
        let ms = Span::from_millis;
        assert_eq!(one.choose(&other).unwrap().latency, CallLatency::Auto { most: ms(250) });
        for latency in [CallLatency::Kept(ms(20)), CallLatency::Auto { most: ms(150) }] {
            other.latency = Some(latency);
            assert_eq!(one.choose(&other).unwrap().latency, latency);
        }
        for latency in [CallLatency::Kept(ms(8)), CallLatency::Auto { most: ms(80) }] {
            one.latency = Some(latency);
            assert_eq!(one.choose(&other).unwrap().latency, latency);
        }
        let hour = Span::from_secs(3_600);
        for latency in [CallLatency::Kept(hour), CallLatency::Auto { most: hour }] {
            one.latency = Some(latency);
            assert!(one.choose(&other).is_err(), "memory for an hour");
        }
    }

    #[test]
    fn no_latency_is_agreed_on_that_the_devices_of_both_ends_do_not_keep() {
        let ms = Span::from_millis;
        let (mut one, mut other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
        one.latency = Some(CallLatency::Kept(ms(5)));
        let agreed = |one: &CallOffer, other: &CallOffer| one.choose(other).unwrap().latency;
        assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(5)), "nothing is said of any device");
        // Packets of 1 ms, and the end that is called plays 20 ms ahead.
        other.there.takes = Some(ms(20));
        assert_eq!(
            agreed(&one, &other),
            CallLatency::Kept(ms(22)),
            "and a millisecond for the way"
        );
        // Its packets are 10 ms old when they leave, and the caller plays 30 ms ahead.
        (other.back.takes, one.back.takes) = (Some(ms(10)), Some(ms(30)));
        assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(41)));
        one.latency = Some(CallLatency::Kept(ms(60)));
        assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(60)), "it is kept");
        (one.latency, other.latency) = (None, Some(CallLatency::Kept(ms(5))));
        assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(41)), "whoever asked for less");
        other.latency = None;
        assert_eq!(
            agreed(&one, &other),
            CallLatency::AUTO,
            "what follows the packets follows the devices, too"
        );
        // Who lies is believed as far as there is memory.
        (one.latency, one.back.takes) =
            (Some(CallLatency::Kept(ms(5))), Some(Span::from_secs(i64::MAX / 1_000_000_000)));
        assert!(one.choose(&other).is_err());
    }

    #[test]
    fn an_empty_or_absurd_offer_is_refused_by_its_list() {
        let here = offer(&[48_000], &BOTH);
        let empty = offer(&[], &BOTH).choose(&here).unwrap_err();
        assert_eq!(empty, NoTerms::Listed { what: "rates", count: 0 });
        let absurd = offer(&[8_000; 4_000], &BOTH).choose(&here).unwrap_err();
        assert_eq!(absurd, NoTerms::Listed { what: "rates", count: 4_000 });
        let mut paths = offer(&[48_000], &BOTH);
        paths.paths = vec![CallPath::Udp; 4_000];
        assert_eq!(
            paths.choose(&here).unwrap_err(),
            NoTerms::Listed { what: "paths", count: 4_000 }
        );
    }

    #[test]
    fn an_offer_of_no_path_is_a_call_without_sound_and_no_path_in_common_is_none() {
        let (mut one, mut here) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
        assert!(one.choose(&here).unwrap().sound());
        here.paths = vec![CallPath::Tcp];
        one.paths.clear();
        let terms = one.choose(&here).unwrap();
        assert!(!terms.sound() && terms.fits(&here).is_ok());
        one.paths = vec![CallPath::Udp];
        let apart = one.choose(&here).unwrap_err().to_string();
        assert!(apart.contains("no transport in common"), "{apart}");
    }

    /// What an offer that is like the other but for this is answered.
    fn refused(change: impl Fn(&mut CallOffer)) -> String {
        let here = offer(&[48_000], &BOTH);
        let mut one = here.clone();
        change(&mut one);
        one.choose(&here).unwrap_err().to_string()
    }

    #[test]
    fn each_refusal_of_an_offer_says_of_what_it_is_and_ends_with_its_mend() {
        let ms = Span::from_millis;
        let there = "of the sound to the one that is called, the two sides have no";
        let back = "of the sound to the one that calls, the two sides have no";
        let leave = "leave --ptime out on one of them";
        for (told, sentence) in [
            (
                refused(|one| one.back.rates.clear()),
                "the offer lists 0 rates, and 1 to 16 are read; update taut on the side that calls".to_owned(),
            ),
            (
                refused(|one| one.there.channels = vec![Channels::MONO; 17]),
                "the offer lists 17 channel counts, and 1 to 16 are read; update taut on the side that calls".to_owned(),
            ),
            (
                refused(|one| one.there.codings.clear()),
                "the offer lists 0 codings, and 1 to 16 are read; update taut on the side that calls".to_owned(),
            ),
            (
                refused(|one| one.there.channels = vec![Channels::MONO]),
                format!("{there} number of channels in common: the one that calls has 1, the other 2; call with --channels 2 or without --channels, and convert a file of another number first"),
            ),
            (
                refused(|one| one.there.ptimes = (ms(21), ms(30))),
                format!("{there} length of packets in common; {leave}"),
            ),
            (
                refused(|one| one.back.ptimes = (Span::ZERO, Span::from_micros(999))),
                format!("{back} length of packets in common; {leave}"),
            ),
            (
                refused(|one| one.back.codings = vec![SampleFormat::F32.into()]),
                format!("{back} coding in common; leave --format out on one of them"),
            ),
            (
                refused(|one| one.latency = Some(CallLatency::Kept(Span::ZERO))),
                "of the sound, the two sides have no latency in common; give it a --latency of no more than 5 s".to_owned(),
            ),
        ] {
            assert_eq!(told, sentence);
        }
        let here = CallOffer { paths: vec![CallPath::Tcp], ..offer(&[48_000], &BOTH) };
        let one = CallOffer { paths: vec![CallPath::Udp], ..here.clone() };
        assert_eq!(
            one.choose(&here).unwrap_err().to_string(),
            "of the way, the two sides have no transport in common; leave --transport out on one of them"
        );
        let most = |latency| CallOffer {
            latency: Some(CallLatency::Kept(latency)),
            ..offer(&[48_000], &BOTH)
        };
        assert!(most(LONGEST_LINK_OFFSET).choose(&most(ms(1))).is_ok());
        assert!(most(LONGEST_LINK_OFFSET + Span::from_nanos(1)).choose(&most(ms(1))).is_err());
    }

    #[test]
    fn terms_that_an_end_cannot_keep_are_refused_by_what_it_cannot_with_the_mend() {
        let ms = Span::from_millis;
        let here = offer(&[48_000], &BOTH);
        let terms = here.choose(&here).unwrap();
        assert_eq!(terms.fits(&here), Ok(()));
        let refused = |change: &dyn Fn(&mut CallTerms)| {
            let mut asked = terms.clone();
            change(&mut asked);
            asked.fits(&here).unwrap_err().to_string()
        };
        let began = "rate and channels stay as the call began; hang up and call anew";
        let length = |asked: &str| {
            format!(
                "packets of {asked} are not had here, and those of 1ms to 20ms are; ask for these, or give that side a \
                 shorter --ptime"
            )
        };
        let [short, long] = [
            length("999us"),
            "l24 has no packets of 20.001ms, and of 125us to 20ms; ask for one of these, \
            or for another format first"
                .to_owned(),
        ];
        let opus = "opus has no packets of 1ms, and of 2.5ms, 5ms, 10ms or 20ms; ask for one of these, or for another \
            format first";
        let coding = |asked: &str| {
            format!("{asked} is not had here, and l24, l16 is; ask for another format")
        };
        let [float, lossless] = [coding("f32"), coding("lossless16")];
        let transport = "that transport is not had here; ask for another";
        let latency = |asked: &str| {
            format!("a latency of {asked} is not kept; ask for one above 0 and of no more than 5s")
        };
        let [none, longer, less] = ["0ms", "5.001s", "-1ms"].map(latency);
        type Change<'a> = &'a dyn Fn(&mut CallTerms);
        let cases: [(Change<'_>, &str); 11] = [
            (&|terms| terms.there.rate = Rate::new(44_100).unwrap(), began),
            (&|terms| terms.back.channels = Channels::MONO, began),
            (&|terms| terms.there.ptime = Span::from_micros(999), &short),
            (&|terms| terms.back.ptime = ms(20) + Span::from_micros(1), &long),
            // It is had here, and not in packets of 1 ms.
            (&|terms| terms.back.coding = Coding::OPUS, opus),
            (&|terms| terms.there.coding = SampleFormat::F32.into(), &float),
            (&|terms| terms.back.coding = Coding::LOSSLESS_16, &lossless),
            (&|terms| terms.paths = vec![CallPath::Udp; MOST_LISTED + 1], transport),
            (&|terms| terms.latency = CallLatency::Kept(Span::ZERO), &none),
            (&|terms| terms.latency = CallLatency::Kept(LONGEST_LINK_OFFSET + ms(1)), &longer),
            (&|terms| terms.latency = CallLatency::Kept(ms(-1)), &less),
        ];
        for (change, sentence) in cases {
            assert_eq!(refused(change), sentence);
        }
        let udp = CallOffer { paths: vec![CallPath::Udp], ..here.clone() };
        assert_eq!(terms.fits(&udp), Err(NotHad::Path));
        let mut short = here.clone();
        short.there.ptimes.1 = ms(1);
        assert_eq!(terms.fits(&short), Ok(()), "as long as the longest");
        short.there.ptimes = (Span::from_micros(125), Span::from_micros(500));
        assert!(terms.fits(&short).is_err(), "longer than the longest");
        assert_eq!(
            CallTerms { latency: CallLatency::Kept(LONGEST_LINK_OFFSET), ..terms.clone() }
                .fits(&here),
            Ok(())
        );
        assert_eq!(CallTerms { paths: Vec::new(), ..terms.clone() }.fits(&udp), Ok(()));
    }

    #[test]
    fn of_what_a_caller_can_the_first_is_taken_that_the_other_runs_at() {
        let all = [48_000, 96_000, 44_100, 16_000];
        for hertz in all {
            let one = offer(&all, &BOTH);
            let (called, rate) = (offer(&[hertz], &BOTH), Rate::new(hertz).unwrap());
            let terms = one.choose(&called).unwrap();
            assert_eq!((terms.there.rate, terms.back.rate), (rate, rate));
        }
        let (mut one, mut called) = (offer(&all, &BOTH), offer(&all, &BOTH));
        (one.there.channels, one.back.channels) =
            (vec![Channels::STEREO, Channels::MONO], vec![Channels::STEREO, Channels::MONO]);
        assert_eq!(one.choose(&called).unwrap().there.channels, Channels::STEREO);
        called.there.channels = vec![Channels::MONO];
        let terms = one.choose(&called).unwrap();
        assert_eq!((terms.there.channels, terms.back.channels), (Channels::MONO, Channels::STEREO));
        // Of devices that have neither the caller cannot say another.
        let apart = one.choose(&offer(&[8_000], &BOTH)).unwrap_err().to_string();
        assert!(
            apart.ends_with("the other 8000 Hz; give the one that is called a --rate of these"),
            "{apart}"
        );
    }

    #[test]
    fn a_coding_that_is_not_had_at_the_rate_is_passed_over_or_refused_by_what_it_is_had_at() {
        let rates = [Rate::new(16_000).unwrap()];
        let coded = |codings: &[Coding]| {
            let mut one = offer(&[16_000], &BOTH);
            for stream in [&mut one.there, &mut one.back] {
                (stream.rates, stream.codings) = (rates.to_vec(), codings.to_vec());
            }
            one
        };
        let here = coded(&[Coding::LOSSLESS_16, Coding::OPUS]);
        let terms = coded(&[Coding::OPUS, Coding::LOSSLESS_16]).choose(&here).unwrap();
        assert_eq!(terms.there.coding, Coding::LOSSLESS_16);
        let told = coded(&[Coding::OPUS]).choose(&here).unwrap_err().to_string();
        assert_eq!(
            told,
            "of the sound to the one that is called, opus is had at 48000 Hz alone, and this call has 16000 Hz; \
             leave --format out where it says opus, or give both --rate 48000"
        );
        let mut many = offer(&[48_000], &BOTH);
        for stream in [&mut many.there, &mut many.back] {
            (stream.channels, stream.codings) =
                (vec![Channels::new(6).unwrap()], vec![Coding::OPUS]);
        }
        let told = many.choose(&many).unwrap_err().to_string();
        assert!(
            told.contains("opus is had of one channel or two, and this call has 6 channels; ")
                && told.ends_with("or give both --channels 2"),
            "{told}"
        );
    }

    #[test]
    fn what_is_not_common_is_named_with_the_mend() {
        let apart = offer(&[44_100], &BOTH).choose(&offer(&[48_000], &BOTH)).unwrap_err();
        assert_eq!(
            apart.to_string(),
            "of the sound to the one that is called, the two sides have no rate in common: the one that calls has \
             44100 Hz, the other 48000 Hz; call with --rate 48000 or without --rate, and convert a file of another rate first"
        );
        let (mut one, other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
        one.back.channels = vec![Channels::MONO];
        let apart = one.choose(&other).unwrap_err().to_string();
        assert!(
            apart.contains("number of channels in common: the one that calls has 1, the other 2;"),
            "{apart}"
        );
    }
}
