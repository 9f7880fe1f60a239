//! Abilities of two ends, and their agreed terms.

use core::cmp::Reverse;
use core::fmt;

use thiserror::Error;

use super::message::{ADAPTS_VERSION, AFTER_LOSS_VERSION};
use super::packets::NoPackets;
pub use super::packets::StreamTerms;
use crate::codec::{NotCoded, Opus};
use crate::congestion::CodingLimits;
use crate::jitter_buffer::room_for;
use crate::latency::{LatencyRule, kept_latency};
use crate::redundancy::{Bounds, ETHERNET, MAX_WINDOW, Redundancy};
use crate::send_policy::{BASE_BYTES, Limits, Regulator, TAG};
use crate::stream::{Coding, DEFAULT_PTIMES, LONGEST_LINK_OFFSET, PTIME_RANGE};
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};
use crate::wire::PacketHeads;

/// Maximum list entries in an offer; longer lists are rejected.
pub const MAX_LISTED: usize = 16;

/// Limits of datagrams, so that they fit Ethernet even with IPv6 headers.
const BOUNDS: Bounds = Bounds {
    max_bytes: ETHERNET - 20 - TAG,
    budget: PTIME_RANGE.1.times(MAX_WINDOW as i64),
    ..Regulator::OFF.bounds()
};

/// Abilities for one direction, preferred first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamAbilities {
    /// In Hz.
    pub rates: Vec<Rate>,
    /// Channel counts.
    pub channels: Vec<Channels>,
    /// Codings.
    pub codings: Vec<Coding>,
    /// Minimum and maximum packet duration.
    pub ptimes: (Span, Span),
    /// Device latency, if known: one period for capture, all periods for playback
    /// ([`crate::latency::min_latency`]).
    pub takes: Option<Span>,
}

tautline_dsp::named_enum! {
    /// Transport protocol of the audio.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CallPath {
        /// RTP over UDP.
        Udp = "udp",
        /// RTP over TCP (RFC 4571).
        Tcp = "tcp",
    }
}

/// Latency from capture to playback, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLatency {
    /// Fixed.
    Kept(Span),
    /// Adapts to packet delays; packets later than the maximum are dropped.
    Auto {
        /// Maximum, unless the network delay is longer ([`LatencyRule::Auto`]).
        maximum: Span,
    },
}

impl CallLatency {
    /// Default latency.
    pub const AUTO: Self = Self::Auto { maximum: Self::MAX_AUTO };
    /// Default maximum. Beyond it, delay harms more than late packets. ITU-T G.114 (05/2003)
    /// recommends at most 150 ms from mouth to ear, and never more than 400 ms.
    pub const MAX_AUTO: Span = Span::from_millis(250);

    /// Fixed latency, if any.
    pub const fn kept(self) -> Option<Span> {
        match self {
            Self::Kept(latency) => Some(latency),
            Self::Auto { .. } => None,
        }
    }

    /// Latency rule for either end.
    pub const fn rule(self) -> LatencyRule {
        match self {
            Self::Kept(latency) => LatencyRule::Chosen(latency),
            Self::Auto { maximum } => LatencyRule::Auto { maximum: Some(maximum) },
        }
    }

    /// The latency if it exceeds the room of the buffers.
    pub fn beyond(self, room: Span) -> Option<Span> {
        match self {
            Self::Kept(latency) => Some(latency).filter(|latency| *latency > room),
            Self::Auto { maximum } => {
                Some(maximum).filter(|maximum| *maximum > room.max(Self::MAX_AUTO))
            }
        }
    }

    fn is_possible(self) -> bool {
        let (Self::Kept(span) | Self::Auto { maximum: span }) = self;
        span > Span::ZERO && span <= LONGEST_LINK_OFFSET
    }
}

impl fmt::Display for CallLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(latency) => write!(f, "{latency}"),
            &Self::AUTO => f.write_str("auto"),
            Self::Auto { maximum } => write!(f, "auto:{maximum}"),
        }
    }
}

/// Adaptation to the network. Each sender decides for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallAdaptation {
    /// Codings to choose from. If empty, only the bit rate of a variable-rate coding adapts.
    pub codings: Vec<Coding>,
    /// Maximum bit rate of variable-rate codings.
    pub max_bitrate: Option<u32>,
    /// Whether each sender keeps the agreed coding until a heavy loss. Since version 7.
    pub after_loss: bool,
}

impl CallAdaptation {
    /// Whether the coding itself adapts.
    pub const fn is_auto(&self) -> bool {
        self.codings.len() > 1
    }

    /// Whether the coding adapts from the start.
    pub const fn is_auto_at_once(&self) -> bool {
        self.is_auto() && !self.after_loss
    }

    /// Without the fields that this version rejects.
    pub(super) fn for_version(self, version: u32) -> Option<Self> {
        match version {
            ..ADAPTS_VERSION => None,
            ..AFTER_LOSS_VERSION if self.after_loss => {
                Some(Self { codings: Vec::new(), after_loss: false, ..self })
            }
            _ => Some(self),
        }
    }

    /// Limits the adaptation to the abilities in this offer.
    #[must_use]
    pub fn within(&self, offer: &CallOffer) -> Self {
        let takes = |coding: &&Coding| {
            let has =
                |can: &StreamAbilities| can.codings.iter().any(|one| one.is_coded_as(**coding));
            has(&offer.there) && has(&offer.back)
        };
        let (fewest, greatest) = Opus::BITRATES;
        let max_bitrate = self.max_bitrate.map(|maximum| maximum.clamp(fewest, greatest));
        let codings = self.codings.iter().filter(takes).copied().collect();
        Self { codings, max_bitrate, after_loss: self.after_loss }
    }

    /// Limits of a sender of this stream.
    pub fn limits(&self, terms: &StreamTerms) -> CodingLimits {
        let codings = if self.is_auto() { self.codings.clone() } else { vec![terms.coding] };
        let maximum = terms.ptime.max(PTIME_RANGE.1);
        CodingLimits {
            codings,
            ptimes: (terms.ptime, maximum),
            max_bitrate: self.max_bitrate,
            // The bit rate of a single coding always adapts.
            after_loss: self.is_auto() && self.after_loss,
        }
    }
}

/// Abilities and requests of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOffer {
    /// Stream to the called end.
    pub there: StreamAbilities,
    /// Stream from the called end.
    pub back: StreamAbilities,
    /// Allowed paths; empty if the call begins on hold.
    pub paths: Vec<CallPath>,
    /// Requested latency.
    pub latency: Option<CallLatency>,
    /// Requested adaptation.
    pub adapts: Option<CallAdaptation>,
    /// Requested redundancy.
    pub redundancy: Option<Redundancy>,
}

/// Agreed terms of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTerms {
    /// Stream to the called end.
    pub there: StreamTerms,
    /// Stream from the called end.
    pub back: StreamTerms,
    /// Allowed paths, preferred first; empty on hold.
    pub paths: Vec<CallPath>,
    /// Latency from capture to playback.
    pub latency: CallLatency,
    /// Adaptation to the network.
    pub adapts: Option<CallAdaptation>,
    /// Redundancy in both directions; `None`: each sender decides.
    pub redundancy: Option<Redundancy>,
}

/// Term that an end does not support.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// Rate or channels changed, but devices keep theirs.
    #[error("rate and channels cannot change during a call\nhint: hang up and call again")]
    Shape,
    /// No packets are possible.
    #[error(transparent)]
    Packets(#[from] NoPackets),
    /// Packet length.
    #[error(
        "unsupported packet length {requested}: must be {minimum} to {maximum}\nhint: use one of these, or give that side a shorter --ptime"
    )]
    Length {
        /// Requested.
        requested: Span,
        /// Minimum.
        minimum: Span,
        /// Maximum.
        maximum: Span,
    },
    /// Coding.
    #[error("unsupported format {requested}: must be one of {had}\nhint: use another")]
    Coding {
        /// Requested.
        requested: &'static str,
        /// Supported.
        had: String,
    },
    /// Path.
    #[error("unsupported transport\nhint: use another")]
    Path,
    /// Latency out of range.
    #[error("invalid latency {0}: must be above 0 and at most {LONGEST_LINK_OFFSET}")]
    Latency(Span),
}

/// Reason why two ends cannot agree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoTerms {
    /// A list is empty or too long.
    #[error("invalid offer: {}\nhint: update taut on the caller", not_read(what, *count))]
    Listed {
        /// Name of the list.
        what: &'static str,
        /// Number of entries.
        count: usize,
    },
    /// No common value of a numeric property.
    #[error(
        "no common {what} for {direction}: the caller has {theirs}, the called end {ours}\nhint: {hint}"
    )]
    Unlike {
        /// Direction of the audio.
        direction: &'static str,
        /// Property.
        what: &'static str,
        /// The caller's values.
        theirs: String,
        /// The called end's values.
        ours: String,
        /// Fix.
        hint: String,
    },
    /// Different rates: shared devices and echo cancellers need one rate.
    #[error(
        "the call would have {there} to the called end and {back} from it\nhint: call with a --rate that both ends support"
    )]
    TwoRates {
        /// To the called end.
        there: Rate,
        /// From the called end.
        back: Rate,
    },
    /// The common coding does not support the stream.
    #[error(
        "{coding} requires {had}, but {direction} has {has}\nhint: remove --format {coding}, or give both ends {flag}"
    )]
    Uncoded {
        /// Direction of the audio.
        direction: &'static str,
        /// Coding.
        coding: &'static str,
        /// Supported streams.
        had: String,
        /// This stream.
        has: String,
        /// Option that fixes it.
        flag: String,
    },
    /// No common value of another property.
    #[error("no common {what} for {direction}\nhint: {hint}")]
    Apart {
        /// Direction of the audio.
        direction: &'static str,
        /// Property.
        what: &'static str,
        /// Fix.
        hint: &'static str,
    },
}

/// [`crate::latency::min_latency`]; unknown device latencies count as zero.
fn minimum(terms: &StreamTerms, captures: Option<Span>, plays: Option<Span>) -> Span {
    let bounded = |takes: Option<Span>| takes.map(|it| it.clamp(Span::ZERO, LONGEST_LINK_OFFSET));
    let Some(format) = terms.format(0) else { return Span::ZERO };
    let period = bounded(captures).map(|takes| terms.rate.frames_nearest(takes));
    let period = period.filter(|period| *period > Frames::ZERO).unwrap_or(format.packet);
    format.packing_age(period) + bounded(plays).unwrap_or(Span::ZERO)
}

impl StreamTerms {
    fn fits(&self, can: &StreamAbilities) -> Result<(), Unsupported> {
        if !can.rates.contains(&self.rate) || !can.channels.contains(&self.channels) {
            return Err(Unsupported::Shape);
        }
        self.packets()?;
        let ((minimum, maximum), requested) = (can.ptimes, self.ptime);
        if self.are_shorter_than(minimum) || requested > maximum {
            return Err(Unsupported::Length { requested, minimum, maximum });
        }
        if !can.codings.iter().any(|coding| coding.is_coded_as(self.coding)) {
            let had: Vec<_> = can.codings.iter().map(|coding| coding.name()).collect();
            return Err(Unsupported::Coding { requested: self.coding.name(), had: had.join(", ") });
        }
        Ok(())
    }
}

impl CallTerms {
    /// Checks whether packets are possible in both directions.
    pub fn packets(&self) -> Result<(), NoPackets> {
        self.there.packets()?;
        self.back.packets().map(drop)
    }

    /// Maximum bytes of the first audio datagrams and probes.
    pub fn datagram_bytes(&self) -> usize {
        let symbols = match self.regulator(None).requested() {
            Redundancy::Off => 0,
            Redundancy::Auto => Limits::SYMBOLS,
            Redundancy::Copies(symbols) | Redundancy::Code(symbols) => symbols,
        };
        let bytes = |terms: &StreamTerms| {
            let format = terms.packets().ok()?;
            // Whole repeats add no bytes.
            let symbols = BOUNDS.max_symbols(&format).min(symbols.into());
            let carried = BOUNDS.cost_of(&format, symbols);
            Some(PacketHeads::rtp(true).datagram_bytes(&format) + carried + TAG)
        };
        bytes(&self.there).max(bytes(&self.back)).unwrap_or_default().min(BASE_BYTES)
    }

    /// Redundancy of an end that requests `own`. By default, a call without a fixed format repairs
    /// an audible loss: if its copies do not fit the path, it adapts.
    pub fn regulator(&self, own: Option<Redundancy>) -> Regulator {
        let adapts = self.adapts.as_ref().is_some_and(CallAdaptation::is_auto);
        let usual = if adapts { Redundancy::Auto } else { Redundancy::Off };
        Regulator::new(self.redundancy.or(own).unwrap_or(usual), BOUNDS)
    }

    /// Next longer or shorter default packet length.
    pub fn next_ptime(&self, way: core::cmp::Ordering) -> Option<Span> {
        let has = |ptime: &Span| {
            let of = |terms: StreamTerms| StreamTerms { ptime: *ptime, ..terms }.packets().is_ok();
            ptime.cmp(&self.there.ptime) == way && of(self.there) && of(self.back)
        };
        let mut all = DEFAULT_PTIMES.into_iter();
        match way {
            core::cmp::Ordering::Less => all.rfind(has),
            _ => all.find(has),
        }
    }

    /// Whether the call is not on hold.
    pub const fn sound(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Minimum latency room in the buffers of both ends.
    pub fn room(&self) -> Span {
        let begins = self.latency.kept().unwrap_or(Span::ZERO);
        let room = self.latency.rule().room(begins);
        room_for(room, self.there.rate).min(room_for(room, self.back.rate))
    }

    /// Latency in effect: the requested latency, or a greater minimum of both ends.
    pub fn kept(&self, caller: &CallOffer, called: &CallOffer) -> CallLatency {
        let there = minimum(&self.there, caller.there.takes, called.there.takes);
        let back = minimum(&self.back, called.back.takes, caller.back.takes);
        match self.latency {
            CallLatency::Kept(requested) => {
                CallLatency::Kept(kept_latency(requested, there.max(back)))
            }
            auto @ CallLatency::Auto { .. } => auto,
        }
    }

    /// Checks whether an end with this offer supports the terms.
    pub fn fits(&self, offer: &CallOffer) -> Result<(), Unsupported> {
        self.there.fits(&offer.there)?;
        self.back.fits(&offer.back)?;
        if self.there.rate != self.back.rate {
            return Err(Unsupported::Shape);
        }
        if self.paths.len() > MAX_LISTED
            || !self.paths.iter().all(|path| offer.paths.contains(path))
        {
            return Err(Unsupported::Path);
        }
        match self.latency {
            latency if latency.is_possible() => Ok(()),
            CallLatency::Kept(span) | CallLatency::Auto { maximum: span } => {
                Err(Unsupported::Latency(span))
            }
        }
    }
}

impl CallOffer {
    pub(super) fn adapt(&mut self, adapts: &CallAdaptation) {
        self.adapts = Some(adapts.clone());
        if adapts.is_auto_at_once() {
            self.there.codings.clone_from(&adapts.codings);
            self.back.codings.clone_from(&adapts.codings);
            self.begin_with_few_bits();
        }
    }

    /// Sorts the lowest bit rate first: any network can carry it.
    pub fn begin_with_few_bits(&mut self) {
        for stream in [&mut self.there, &mut self.back] {
            stream.codings.sort_by_key(|coding| {
                let row = coding.row();
                (!row.begins, row.begins.then_some(Reverse(row.rank)))
            });
        }
    }

    /// What the called end `here` requests of a caller that neither adapts nor fixed its coding.
    fn adaptation_of(&self, here: &Self) -> Option<CallAdaptation> {
        // A caller without the field cannot send feedback.
        let requested = self.adapts.as_ref().filter(|requested| !requested.is_auto_at_once())?;
        let called = here.adapts.as_ref()?.within(self);
        let called = CallAdaptation { max_bitrate: requested.max_bitrate, ..called };
        called.is_auto_at_once().then_some(called)
    }

    /// Chooses the first common entry of each list, and the latency in effect
    /// ([`CallTerms::kept`]).
    pub fn choose(&self, here: &Self) -> Result<CallTerms, NoTerms> {
        if let Some(adapts) = self.adaptation_of(here) {
            let mut offer = self.clone();
            offer.adapt(&adapts);
            return offer.choose(here);
        }
        let there = stream_terms(&self.there, &here.there, "audio to the called end")?;
        let back = stream_terms(&self.back, &here.back, "audio to the caller")?;
        if there.rate != back.rate {
            return Err(NoTerms::TwoRates { there: there.rate, back: back.rate });
        }
        let requested = match self.paths.is_empty() {
            true => &[],
            false => in_bounds("paths", &self.paths)?,
        };
        let paths: Vec<_> =
            requested.iter().copied().filter(|path| here.paths.contains(path)).collect();
        if paths.is_empty() && !requested.is_empty() {
            return Err(NoTerms::Apart {
                direction: "the call",
                what: "transport",
                hint: "omit --transport",
            });
        }
        let latency = self.latency.or(here.latency).unwrap_or(CallLatency::AUTO);
        let adapts = self.adapts.as_ref().map(|requested| requested.within(here));
        let maximum = adapts.as_ref().and_then(|adapts| adapts.max_bitrate);
        let at_most = |terms: StreamTerms| {
            let coded = maximum.map(|maximum| terms.at_bitrate(maximum));
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
                direction: "the call",
                what: "latency",
                hint: "use a --latency of at most 5 s",
            });
        }
        Ok(terms)
    }
}

fn not_read(what: &str, count: usize) -> String {
    match count {
        0 => format!("no {what}"),
        _ => format!("{count} {what}, must be at most {MAX_LISTED}"),
    }
}

fn in_bounds<'a, T>(what: &'static str, list: &'a [T]) -> Result<&'a [T], NoTerms> {
    match list.len() {
        1..=MAX_LISTED => Ok(list),
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

fn listed<T: core::fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn unlike<T: fmt::Display>(
    direction: &'static str,
    (what, flag): (&'static str, &'static str),
    theirs: &[T],
    ours: &[T],
) -> NoTerms {
    let hint = match (theirs, ours) {
        ([_], [one, ..]) => {
            let one = one.to_string();
            let one = one.trim_end_matches(" Hz");
            format!("call with {flag} {one} or without {flag}, and convert the file first, if any")
        }
        _ => format!("set {flag} at the called end to a value of the caller"),
    };
    NoTerms::Unlike { direction, what, theirs: listed(theirs), ours: listed(ours), hint }
}

fn uncoded(direction: &'static str, coding: Coding, (rate, channels): (Rate, Channels)) -> NoTerms {
    let uncoded = |had: String, has, flag| NoTerms::Uncoded {
        direction,
        coding: coding.name(),
        had,
        has,
        flag,
    };
    match coding.codec.map(|codec| codec.check_shape(rate, channels)) {
        Some(Err(NotCoded::Rate(has))) => {
            let had = Opus::RATE;
            uncoded(had.to_string(), has.to_string(), format!("--rate {}", had.hertz()))
        }
        Some(Err(NotCoded::Channels(has))) => {
            let has = format!("{has} channels");
            uncoded("1 or 2 channels".to_owned(), has, "--channels 2".to_owned())
        }
        _ => {
            let what = "packet length of this format";
            NoTerms::Apart { direction, what, hint: "omit --ptime and --format on both ends" }
        }
    }
}

fn stream_terms(
    theirs: &StreamAbilities,
    ours: &StreamAbilities,
    direction: &'static str,
) -> Result<StreamTerms, NoTerms> {
    let apart = |what, hint| NoTerms::Apart { direction, what, hint };
    let rate = first_common("rates", &theirs.rates, &ours.rates)?
        .ok_or_else(|| unlike(direction, ("rate", "--rate"), &theirs.rates, &ours.rates))?;
    let channels =
        first_common("channel counts", &theirs.channels, &ours.channels)?.ok_or_else(|| {
            unlike(direction, ("channel count", "--channels"), &theirs.channels, &ours.channels)
        })?;
    let minimum = theirs.ptimes.0.max(ours.ptimes.0).max(PTIME_RANGE.0);
    let maximum = theirs.ptimes.1.min(ours.ptimes.1).min(PTIME_RANGE.1);
    if minimum > maximum {
        return Err(apart("packet length", "omit --ptime on one end"));
    }
    let common = in_bounds("codings", &theirs.codings)?.iter();
    let common = common.filter(|coding| ours.codings.iter().any(|one| one.is_coded_as(**coding)));
    let mut common = common.map(|coding| coding.usual_for(channels)).peekable();
    let first = common.peek().copied();
    common
        .find_map(|coding| {
            let ptime = coding.shortest((rate, channels), (minimum, maximum))?;
            let terms = StreamTerms { rate, channels, coding, ptime };
            terms.packets().is_ok().then_some(terms)
        })
        .ok_or_else(|| match first {
            Some(coding) => uncoded(direction, coding, (rate, channels)),
            None => apart("format", "omit --format on one end"),
        })
}

#[cfg(test)]
mod tests;
