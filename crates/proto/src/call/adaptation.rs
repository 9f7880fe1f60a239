//! Adapts the coding of a call, or its bit rate alone, to the network: looks at the loss of both directions once a second,
//! and asks for other terms.

use core::cmp::Reverse;

use super::coding_choice::{CodingChoice, SpoiltShare};
use super::terms::{CallOffer, CallTerms, StreamTerms};
use crate::time::{LocalTime, Span};

/// From one look to the next.
const EVERY: Span = Span::from_secs(1);
/// Losses of the previous path are reported for so long: a new connection carries within 1.5 s, a loss is known once a
/// packet follows, and reported within half a second.
const MOVED: Span = Span::from_secs(3);
/// The minimum of packets for a decision: a fifth of those in a second if they are the longest.
const ENOUGH: u64 = 10;

/// Has a call begin with a coding that all networks carry, if the other end has one: the fewest bits first.
pub fn begin_with_few_bits(offer: &mut CallOffer) {
    for stream in [&mut offer.there, &mut offer.back] {
        stream.codings.sort_by_key(|coding| {
            let row = coding.row();
            (!row.begins, row.begins.then_some(Reverse(row.rank)))
        });
    }
}

/// Packets of one direction so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Sent here, if the other end reports what became of them.
    pub sent: Option<u64>,
    /// Due, lost and late, as far as that is known.
    pub fate: Option<[u64; 3]>,
}

#[derive(Debug)]
struct AdaptedStream {
    choice: CodingChoice,
    /// At the last look.
    counted: PacketCounts,
}

/// Both directions of a call, if they have a choice.
#[derive(Debug)]
pub struct Adaptation {
    /// There, and back.
    streams: [Option<AdaptedStream>; 2],
    next: LocalTime,
    /// Earlier losses are those of a previous path.
    settles: LocalTime,
    /// Packets received at the last look.
    heard: Option<u64>,
    /// The direction that waits for an answer: one at a time, so that a refusal is clear.
    asked: Option<usize>,
    /// The packet time that the user asked for, until it is answered.
    ptime: Option<Span>,
    /// The terms that were reported last: users are told another coding, and only see another bit rate.
    told: CallTerms,
}

impl Adaptation {
    /// Of the coding; `None` without a choice.
    pub fn new(terms: &CallTerms, now: LocalTime) -> Option<Self> {
        let choices = [&terms.there, &terms.back].map(|terms| CodingChoice::new(terms, now));
        choices.iter().all(Option::is_some).then(|| Self::by(choices, terms, now))
    }

    /// Of the bit rate alone, up to `most` if the user chose that; `None` without a choice.
    pub fn in_bits(terms: &CallTerms, most: Option<u32>, now: LocalTime) -> Option<Self> {
        let choices = [&terms.there, &terms.back].map(|terms| match most {
            Some(most) => CodingChoice::of_bits_up_to(terms, most, now),
            None => CodingChoice::of_bits(terms, now),
        });
        choices.iter().any(Option::is_some).then(|| Self::by(choices, terms, now))
    }

    fn by(choices: [Option<CodingChoice>; 2], terms: &CallTerms, now: LocalTime) -> Self {
        let stream = |choice| AdaptedStream { choice, counted: PacketCounts::default() };
        Self {
            streams: choices.map(|choice| choice.map(stream)),
            next: now + EVERY,
            settles: now,
            heard: None,
            asked: None,
            ptime: None,
            told: terms.clone(),
        }
    }

    /// The sound goes by another path from now on.
    pub fn moved(&mut self, now: LocalTime) {
        self.settles = now + MOVED;
    }

    /// Whether the present codings are tried in packets of this time.
    pub fn tries(&mut self, ptime: Span) -> bool {
        self.streams.iter_mut().flatten().all(|stream| stream.choice.tries(ptime))
    }

    /// The user asked for packets of this time: once they are agreed on, all is tried in them.
    pub const fn asks_for(&mut self, ptime: Span) {
        self.ptime = Some(ptime);
    }

    /// Other terms to ask for, if it is time. `heard` counts received packets, while there is a control connection.
    pub fn poll(
        &mut self,
        terms: &CallTerms,
        heard: Option<u64>,
        counts: impl FnOnce() -> [Option<PacketCounts>; 2],
        now: LocalTime,
    ) -> Option<CallTerms> {
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        if now < self.settles {
            self.streams
                .iter_mut()
                .flatten()
                .for_each(|stream| stream.counted = PacketCounts::default());
            self.heard = None;
            return None;
        }
        let before = core::mem::replace(&mut self.heard, heard);
        let is_there = heard.zip(before).is_some_and(|(heard, before)| heard > before);
        for (stream, counts) in self.streams.iter_mut().zip(counts()) {
            if let (Some(stream), Some(counts)) = (stream, counts) {
                stream.look(now, is_there, counts);
            }
        }
        for (way, stream) in self.streams.iter().enumerate() {
            let chosen = stream.as_ref().and_then(|stream| stream.choice.terms());
            let Some(StreamTerms { coding, ptime, .. }) = chosen else { continue };
            let mut wanted = terms.clone();
            let changed = if way == 0 { &mut wanted.there } else { &mut wanted.back };
            (changed.coding, changed.ptime) = (coding, ptime);
            if wanted != *terms {
                self.asked = Some(way);
                return Some(wanted);
            }
        }
        None
    }

    /// The request was accepted: whether the user should know.
    pub fn answered(&mut self, terms: &CallTerms) -> bool {
        let alike = |now: &StreamTerms, told: &StreamTerms| {
            now.coding.is_coded_as(told.coding) && now.ptime == told.ptime
        };
        let is_so = |ptime: &mut Span| terms.there.ptime == *ptime && terms.back.ptime == *ptime;
        if let Some(ptime) = self.ptime.take_if(is_so) {
            self.streams.iter_mut().flatten().for_each(|stream| stream.choice.takes(ptime));
        }
        let told = core::mem::replace(&mut self.told, terms.clone());
        let is_new = !alike(&terms.there, &told.there) || !alike(&terms.back, &told.back);
        self.asked.take().is_some() && is_new
    }

    /// The request was lost: whether there was one.
    pub fn dropped(&mut self) -> bool {
        self.ptime = None;
        self.asked.take().is_some()
    }

    /// The other end refused: whether that answers a request made here.
    pub fn refused(&mut self, now: LocalTime) -> bool {
        self.ptime = None;
        let Some(way) = self.asked.take() else { return false };
        if let Some(Some(stream)) = self.streams.get_mut(way) {
            stream.choice.refused(now);
        }
        // The next is asked for at once.
        self.next = now;
        true
    }
}

impl AdaptedStream {
    /// `is_there` if packets of the other end arrived since the last look.
    fn look(&mut self, now: LocalTime, is_there: bool, counts: PacketCounts) {
        let before = self.counted;
        self.counted = PacketCounts { fate: counts.fate.or(before.fate), ..counts };
        let sent = counts.sent.zip(before.sent);
        let sent = sent.map_or(0, |(sent, before)| sent.saturating_sub(before));
        let fates = counts.fate.zip(before.fate);
        let [due, lost, late] = fates.map_or([0; 3], |(counts, before)| {
            core::array::from_fn(|of| counts[of].saturating_sub(before[of]))
        });
        if due < ENOUGH {
            if is_there && sent >= ENOUGH {
                self.choice.untold(now);
            }
            return;
        }
        // Losses in an outage are reported before the packets that were due in it: these do not count.
        if lost.saturating_add(late) <= due {
            let share = |count: u64| count as f64 / due as f64;
            let spoilt = SpoiltShare { due, lost: share(lost), late: share(late) };
            self.choice.observed(now, spoilt);
        }
    }
}
