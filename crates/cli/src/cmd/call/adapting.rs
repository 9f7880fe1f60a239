//! The coding of a call by what the network carries: what became of the packets of either direction is looked at once a
//! second, and the terms that follow from it are asked for.

use tautline_engine::watching::observers::Onlooker;
use tautline_engine::watching::snapshot::StreamSnapshot;
use tautline_io::clock::now;
use tautline_proto::call::coding_choice::{CodingChoice, SpoiltShare};
use tautline_proto::call::terms::{CallOffer, CallTerms};
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};

use super::Calling;

/// From one look to the next.
const EVERY: Span = Span::from_secs(1);
/// So many packets say something: a fifth of what the longest are in a second.
const ENOUGH: u64 = 10;

/// Has a call begin with what all networks carry, where the other end has it.
pub(super) fn begin_with_few_bits(offer: &mut CallOffer) {
    for stream in [&mut offer.there, &mut offer.back] {
        stream.codings.sort_by_key(|coding| *coding != Coding::OPUS);
    }
}

impl Calling<'_> {
    /// Asks for another coding, where the network carries more or less than that of now.
    pub(super) fn turn_coding(&mut self) {
        let Some(call) = self.caller.call().filter(|_| self.asked.is_none()) else { return };
        let wanted = self.adapting.as_mut().and_then(|adapting| adapting.poll(&call.terms, now()));
        wanted.into_iter().for_each(|terms| {
            self.ask_for(terms);
        });
    }
}

/// One direction.
struct AdaptedStream {
    choice: CodingChoice,
    onlooker: Onlooker,
    /// Packets due, lost and late, as they were counted when it was looked at last.
    counted: Option<[u64; 3]>,
}

/// Both directions of a call.
pub(super) struct Adapting {
    there: AdaptedStream,
    back: AdaptedStream,
    /// When it is looked at next.
    next: LocalTime,
    /// What was asked for last, of there and back.
    asked: [bool; 2],
}

impl Adapting {
    /// For a call on these terms, of which these are told; `None` where there is nothing to choose from.
    pub(super) fn new(
        terms: &CallTerms,
        [sent, heard]: [Onlooker; 2],
        now: LocalTime,
    ) -> Option<Self> {
        let stream = |choice, onlooker| AdaptedStream { choice, onlooker, counted: None };
        let there = stream(CodingChoice::new(&terms.there, now)?, sent);
        let back = stream(CodingChoice::new(&terms.back, now)?, heard);
        Some(Self { there, back, next: now + EVERY, asked: [false; 2] })
    }

    /// The terms to be asked for instead of those by which it sounds, if it is time to.
    pub(super) fn poll(&mut self, terms: &CallTerms, now: LocalTime) -> Option<CallTerms> {
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        self.there.look(now, |stream| {
            let count = |name: &str| stream.counters.get(name).copied();
            Some([count("receiver_expected")?, count("receiver_lost")?, 0])
        });
        self.back.look(now, |stream| {
            let count = |name: &str| stream.counters.get(name).copied();
            let [received, lost, late] = ["packets_received", "lost", "late"].map(count);
            // A late packet is among those that were received, and not among those that are lost.
            Some([received? + lost?, lost?, late?])
        });
        let mut wanted = terms.clone();
        let chosen = [self.there.choice.terms(), self.back.choice.terms()];
        for (terms, chosen) in [&mut wanted.there, &mut wanted.back].into_iter().zip(chosen) {
            if let Some(chosen) = chosen {
                (terms.coding, terms.ptime) = (chosen.coding, chosen.ptime);
            }
        }
        self.asked = [wanted.there != terms.there, wanted.back != terms.back];
        (wanted != *terms).then_some(wanted)
    }

    /// The other end keeps to what was: what was asked for is not had there.
    pub(super) fn refused(&mut self, now: LocalTime) {
        let streams = [&mut self.there, &mut self.back].into_iter().zip(self.asked);
        streams.filter(|(_, asked)| *asked).for_each(|(stream, _)| {
            stream.choice.refused(now);
        });
        self.asked = [false; 2];
    }
}

impl AdaptedStream {
    fn look(&mut self, now: LocalTime, count: impl Fn(&StreamSnapshot) -> Option<[u64; 3]>) {
        let newest = self.onlooker.newest();
        let stream = newest.as_ref().and_then(|snapshot| snapshot.streams.first());
        let Some(counted) = stream.and_then(count) else { return };
        let Some(before) = self.counted.replace(counted) else { return };
        let mut grown =
            counted.into_iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        let [due, lost, late] = core::array::from_fn(|_| grown.next().unwrap_or(0));
        if due >= ENOUGH {
            let share = |count: u64| count as f64 / due as f64;
            let spoilt = SpoiltShare { due, lost: share(lost), late: share(late) };
            self.choice.observed(now, spoilt);
        }
    }
}
