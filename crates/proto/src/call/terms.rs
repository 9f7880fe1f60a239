//! What two ends can, and what they agree on.

use core::cmp::Reverse;
use core::fmt;

use thiserror::Error;

use super::packets::NoPackets;
pub use super::packets::StreamTerms;
use crate::codec::{NotCoded, Opus};
use crate::congestion::CodingLimits;
use crate::jitter_buffer::room_for;
use crate::latency::{LatencyRule, kept_latency};
use crate::redundancy::{Bounds, ETHERNET, MOST_WINDOW, Redundancy};
use crate::send_policy::{BASE_BYTES, Limits, Regulator, TAG};
use crate::stream::{Coding, LONGEST_LINK_OFFSET, PTIME_RANGE, USUAL_PTIMES};
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};
use crate::wire::PacketHeads;

/// Entries of a list in an offer. More are not read: there are not that many of anything.
pub const MOST_LISTED: usize = 16;

/// What redundancy keeps to in calls: no datagram is too long for Ethernet, by IPv6 either, whose header has 20 bytes more.
const BOUNDS: Bounds = Bounds {
    most_bytes: ETHERNET - 20 - TAG,
    budget: PTIME_RANGE.1.times(MOST_WINDOW as i64),
    ..Regulator::OFF.bounds()
};

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

tautline_dsp::named_enum! {
    /// By what the sound may go, the better first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CallPath {
        /// RTP by UDP.
        Udp = "udp",
        /// RTP by TCP (RFC 4571).
        Tcp = "tcp",
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

/// How both directions of a call follow what the network carries: each sender decides for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallAdaptation {
    /// Codings to choose from. Without any, the coding is kept and its bit rate follows, where it has a choice.
    pub codings: Vec<Coding>,
    /// The most bits per second of a coding that has a choice.
    pub most_bitrate: Option<u32>,
}

impl CallAdaptation {
    /// Whether the coding itself follows the network.
    pub const fn is_auto(&self) -> bool {
        self.codings.len() > 1
    }

    /// What of it an end takes that made this offer.
    #[must_use]
    pub fn within(&self, offer: &CallOffer) -> Self {
        let takes = |coding: &&Coding| {
            let has =
                |can: &StreamAbilities| can.codings.iter().any(|one| one.is_coded_as(**coding));
            has(&offer.there) && has(&offer.back)
        };
        let (fewest, greatest) = Opus::BITRATES;
        let most_bitrate = self.most_bitrate.map(|most| most.clamp(fewest, greatest));
        Self { codings: self.codings.iter().filter(takes).copied().collect(), most_bitrate }
    }

    /// Among what a sender of this stream may choose.
    pub fn limits(&self, terms: &StreamTerms) -> CodingLimits {
        let codings = if self.is_auto() { self.codings.clone() } else { vec![terms.coding] };
        let most = terms.ptime.max(PTIME_RANGE.1);
        CodingLimits { codings, ptimes: (terms.ptime, most), most_bitrate: self.most_bitrate }
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
    /// How its sound is to follow the network.
    pub adapts: Option<CallAdaptation>,
    /// What packets are to carry of earlier ones, if anybody says.
    pub redundancy: Option<Redundancy>,
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
    /// How its sound follows the network.
    pub adapts: Option<CallAdaptation>,
    /// What packets carry of earlier ones, both ways. Without, each end decides for what it sends.
    pub redundancy: Option<Redundancy>,
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
    #[error("the offer lists {}; update taut on the side that calls", not_read(what, *count))]
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
    /// Devices that are shared, and echo cancellers, have one rate both ways.
    #[error(
        "the call would have {there} there and {back} back; call with a --rate that both sides have"
    )]
    TwoRates {
        /// To the end that is called.
        there: Rate,
        /// From it.
        back: Rate,
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
    /// Whether packets can be made of them, both ways; else why not.
    pub fn packets(&self) -> Result<(), NoPackets> {
        self.there.packets()?;
        self.back.packets().map(drop)
    }

    /// Bytes of the longest datagrams with which audio begins, either way, encrypted, with as much redundancy as they may
    /// carry: probes of a path are as long.
    pub fn datagram_bytes(&self) -> usize {
        let symbols = match self.redundancy {
            None | Some(Redundancy::Off) => 0,
            Some(Redundancy::Auto) => Limits::SYMBOLS,
            Some(Redundancy::Copies(symbols) | Redundancy::Code(symbols)) => symbols,
        };
        let bytes = |terms: &StreamTerms| {
            let format = terms.packets().ok()?;
            // A packet that is sent again is no longer.
            let symbols = BOUNDS.most_symbols(&format).min(symbols.into());
            let carried = BOUNDS.cost_of(&format, symbols);
            Some(PacketHeads::rtp(true).datagram_bytes(&format) + carried + TAG)
        };
        bytes(&self.there).max(bytes(&self.back)).unwrap_or_default().min(BASE_BYTES)
    }

    /// What packets carry of earlier ones, at an end that asks for `own` of what it sends.
    pub fn regulator(&self, own: Option<Redundancy>) -> Regulator {
        Regulator::new(self.redundancy.or(own).unwrap_or_default(), BOUNDS)
    }

    /// The next of the usual lengths of packets, longer or shorter by `way`, that the codings of both directions have; `None`
    /// where there is none.
    pub fn next_ptime(&self, way: core::cmp::Ordering) -> Option<Span> {
        let has = |ptime: &Span| {
            let of = |terms: StreamTerms| StreamTerms { ptime: *ptime, ..terms }.packets().is_ok();
            ptime.cmp(&self.there.ptime) == way && of(self.there) && of(self.back)
        };
        let mut all = USUAL_PTIMES.into_iter();
        match way {
            core::cmp::Ordering::Less => all.rfind(has),
            _ => all.find(has),
        }
    }

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
        if self.there.rate != self.back.rate {
            return Err(NotHad::Shape);
        }
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
    /// Has a call follow the network like this: with what the sound begins, if the coding itself does.
    pub(super) fn adapt(&mut self, adapts: &CallAdaptation) {
        self.adapts = Some(adapts.clone());
        if adapts.is_auto() {
            self.there.codings.clone_from(&adapts.codings);
            self.back.codings.clone_from(&adapts.codings);
            self.begin_with_few_bits();
        }
    }

    /// Has a call begin with a coding that all networks carry, if the other end has one: the fewest bits first.
    pub fn begin_with_few_bits(&mut self) {
        for stream in [&mut self.there, &mut self.back] {
            stream.codings.sort_by_key(|coding| {
                let row = coding.row();
                (!row.begins, row.begins.then_some(Reverse(row.rank)))
            });
        }
    }

    /// What comes of it at an end that can `here`: of each list the first that is in the other's, too, and the latency that
    /// is asked for, or the least that both can keep where that is more ([`CallTerms::kept`]).
    pub fn choose(&self, here: &Self) -> Result<CallTerms, NoTerms> {
        let there = stream_terms(&self.there, &here.there, "the sound to the one that is called")?;
        let back = stream_terms(&self.back, &here.back, "the sound to the one that calls")?;
        if there.rate != back.rate {
            return Err(NoTerms::TwoRates { there: there.rate, back: back.rate });
        }
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
                mend: "call without --transport",
            });
        }
        let latency = self.latency.or(here.latency).unwrap_or(CallLatency::AUTO);
        let adapts = self.adapts.as_ref().map(|asked| asked.within(here));
        let most = adapts.as_ref().and_then(|adapts| adapts.most_bitrate);
        let at_most = |terms: StreamTerms| {
            let coded = most.map(|most| terms.at_bitrate(most));
            coded.filter(|coded| coded.packets().is_ok()).unwrap_or(terms)
        };
        let redundancy = self.redundancy.or(here.redundancy);
        let (there, back) = (at_most(there), at_most(back));
        let mut terms = CallTerms { there, back, paths, latency, adapts, redundancy };
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

fn not_read(what: &str, count: usize) -> String {
    match count {
        0 => format!("no {what}"),
        _ => format!("{count} {what}, and no more than {MOST_LISTED} are read"),
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
mod tests;
