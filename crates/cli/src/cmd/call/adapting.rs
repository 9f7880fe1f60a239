//! The coding of a call by what the network carries, or the bit rate alone of one that is kept to: what became of the
//! packets of either direction is looked at once a second, and the terms that follow from it are asked for.

use tautline_engine::watching::observers::Onlooker;
use tautline_io::clock::now;
use tautline_proto::call::coding_choice::{CodingChoice, SpoiltShare};
use tautline_proto::call::terms::{CallOffer, CallTerms, StreamTerms};
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};

use super::Calling;

/// From one look to the next.
const EVERY: Span = Span::from_secs(1);
/// What a path lost that was left for another is told of for so long: a new connection begins to carry after 1.5 s at the
/// latest, and what is lost is known once something follows it, and reported within half a second.
const MOVED: Span = Span::from_secs(3);
/// So many packets say something: a fifth of what the longest are in a second.
const ENOUGH: u64 = 10;

/// In what a call begins, where the other end has it: what takes the fewest bits of all that music goes by first, and
/// where Opus is not had, which codes 48 kHz alone, what takes the fewest of the rest.
const FEW_BITS: [Coding; 3] = [Coding::OPUS, Coding::LOSSLESS_16, Coding::LOSSLESS_24];

/// Has a call begin with what all networks carry.
pub(super) fn begin_with_few_bits(offer: &mut CallOffer) {
    for stream in [&mut offer.there, &mut offer.back] {
        stream.codings.sort_by_key(|coding| {
            let place = FEW_BITS.into_iter().position(|few| coding.is_coded_as(few));
            place.unwrap_or(FEW_BITS.len())
        });
    }
}

impl Calling<'_> {
    /// Asks for another coding, where the network carries more or less than that of now.
    pub(super) fn turn_coding(&mut self) {
        let Some(call) = self.caller.call().filter(|_| self.caller.asked().is_none()) else {
            return;
        };
        // Where the line is lost, or no sound comes, more is amiss than that reports find no room.
        let heard = self.end.as_ref().map(|end| end.link.heard());
        let heard = heard.filter(|_| self.caller.has_line());
        let adapting = self.adapting.as_mut();
        let wanted = adapting.and_then(|adapting| adapting.poll(&call.terms, heard, now()));
        let Some(terms) = wanted else { return };
        if self.ask_for(terms).is_err()
            && let Some(adapting) = &mut self.adapting
        {
            adapting.dropped();
        }
    }

    /// Has the bit rate follow the network where what people asked for is kept to.
    pub(super) fn adapts(&mut self, terms: &CallTerms) {
        if self.adapting.is_none() && terms.sound() && self.caller.asked().is_none() {
            let watched = self.watched.clone();
            self.adapting = Adapting::in_bits(terms, self.bitrate, watched, now());
        }
    }

    /// Asks for the bits that were chosen, which are no part of an offer.
    pub(super) fn ask_for_bits(&mut self, terms: &CallTerms) {
        let Some(bits) = self.bitrate else { return };
        let (there, back) = (terms.there.at_bitrate(bits), terms.back.at_bitrate(bits));
        let wanted = CallTerms { there, back, ..terms.clone() };
        if wanted != *terms
            && let Err(why) = self.ask_for(wanted)
        {
            self.tell(&crate::words::cannot_change(&why));
        }
    }
}

struct AdaptedStream {
    choice: CodingChoice,
    onlooker: Onlooker,
    /// Packets due, lost and late, as they were counted when it was looked at last.
    counted: Option<[u64; 3]>,
    /// Packets sent, where what became of them is the other end's word.
    sent: Option<u64>,
}

/// What there is to know of one direction.
struct LookedAt {
    /// Packets sent, where what became of them is the other end's word.
    sent: Option<u64>,
    /// Packets due, lost and late, if that is known.
    counted: Option<[u64; 3]>,
}

/// Both directions of a call, where there is something to choose in them.
pub(super) struct Adapting {
    there: Option<AdaptedStream>,
    back: Option<AdaptedStream>,
    /// When it is looked at next.
    next: LocalTime,
    /// Before, what was lost was lost by a path that is used no more.
    settles: LocalTime,
    /// Packets that were heard by then.
    heard: Option<u64>,
    /// The direction that was asked for last, until that is answered: one at a time, so that it is known what is refused.
    asked: Option<AskedWay>,
    /// Packets that people asked for, until that is answered.
    ptime: Option<Span>,
    /// What was told of last: people hear of another coding, and see other bits where they look.
    told: CallTerms,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskedWay {
    There,
    Back,
}

impl Adapting {
    /// For a call on these terms, of which these are told; `None` where there is nothing to choose from.
    pub(super) fn new(
        terms: &CallTerms,
        [sent, heard]: [Onlooker; 2],
        now: LocalTime,
    ) -> Option<Self> {
        let there = CodingChoice::new(&terms.there, now)?;
        let back = CodingChoice::new(&terms.back, now)?;
        Some(Self::by([Some(there), Some(back)], terms, [sent, heard], now))
    }

    /// For a call whose coding is kept to: of what has a choice, the bit rate, up to `most` if somebody chose that. `None`
    /// where nothing has.
    pub(super) fn in_bits(
        terms: &CallTerms,
        most: Option<u32>,
        onlookers: [Onlooker; 2],
        now: LocalTime,
    ) -> Option<Self> {
        let choices = [&terms.there, &terms.back].map(|terms| match most {
            Some(most) => CodingChoice::of_bits_up_to(terms, most, now),
            None => CodingChoice::of_bits(terms, now),
        });
        let any = choices.iter().any(Option::is_some);
        any.then(|| Self::by(choices, terms, onlookers, now))
    }

    fn by(
        [there, back]: [Option<CodingChoice>; 2],
        terms: &CallTerms,
        [sent, heard]: [Onlooker; 2],
        now: LocalTime,
    ) -> Self {
        let stream = |choice: Option<CodingChoice>, onlooker| {
            choice.map(|choice| AdaptedStream { choice, onlooker, counted: None, sent: None })
        };
        let (there, back) = (stream(there, sent), stream(back, heard));
        let (heard, asked, ptime) = (None, None, None);
        let (next, told) = (now + EVERY, terms.clone());
        Self { there, back, next, settles: now, heard, asked, ptime, told }
    }

    /// The sound goes by another path from now on: what is told of the one before is no measure of it.
    pub(super) fn moved(&mut self, now: LocalTime) {
        self.settles = now + MOVED;
    }

    fn streams(&mut self) -> impl Iterator<Item = &mut AdaptedStream> {
        [&mut self.there, &mut self.back].into_iter().flatten()
    }

    /// Whether what both directions are coded in by now is tried in packets of this time.
    pub(super) fn tries(&mut self, ptime: Span) -> bool {
        self.streams().all(|stream| stream.choice.tries(ptime))
    }

    /// People asked for packets of this time: once that is so, all is tried in them.
    pub(super) const fn asks_for(&mut self, ptime: Span) {
        self.ptime = Some(ptime);
    }

    /// The terms to be asked for instead of those by which it sounds, if it is time to. `heard` counts the packets that
    /// came from the other end, while there is a line to it.
    pub(super) fn poll(
        &mut self,
        terms: &CallTerms,
        heard: Option<u64>,
        now: LocalTime,
    ) -> Option<CallTerms> {
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        if now < self.settles {
            self.streams().for_each(|stream| (stream.counted, stream.sent) = (None, None));
            self.heard = None;
            return None;
        }
        let before = core::mem::replace(&mut self.heard, heard);
        let is_there = heard.zip(before).is_some_and(|(heard, before)| heard > before);
        self.there.iter_mut().for_each(|there| {
            there.look(now, is_there, |count| {
                let told = ["receiver_expected", "receiver_lost", "receiver_late"].map(count);
                LookedAt { sent: count("packets_sent"), counted: all(told) }
            })
        });
        self.back.iter_mut().for_each(|back| {
            back.look(now, is_there, |count| {
                let [received, lost, late] = ["packets_received", "lost", "late"].map(count);
                // A late packet is among those that were received, and not among those that are lost.
                let due = received.zip(lost).map(|(received, lost)| received + lost);
                LookedAt { sent: None, counted: all([due, lost, late]) }
            })
        });
        let chosen = |stream: &Option<AdaptedStream>, terms: &StreamTerms| {
            let StreamTerms { coding, ptime, .. } = stream.as_ref()?.choice.terms()?;
            let wanted = StreamTerms { coding, ptime, ..*terms };
            (wanted != *terms).then_some(wanted)
        };
        let there = chosen(&self.there, &terms.there);
        if let Some(there) = there {
            self.asked = Some(AskedWay::There);
            return Some(CallTerms { there, ..terms.clone() });
        }
        let back = chosen(&self.back, &terms.back)?;
        self.asked = Some(AskedWay::Back);
        Some(CallTerms { back, ..terms.clone() })
    }

    /// What was asked for is so: whether people are to know.
    pub(super) fn answered(&mut self, terms: &CallTerms) -> bool {
        let alike = |now: &StreamTerms, told: &StreamTerms| {
            now.coding.is_coded_as(told.coding) && now.ptime == told.ptime
        };
        let is_so = |ptime: &mut Span| terms.there.ptime == *ptime && terms.back.ptime == *ptime;
        if let Some(ptime) = self.ptime.take_if(is_so) {
            self.streams().for_each(|stream| stream.choice.takes(ptime));
        }
        let told = core::mem::replace(&mut self.told, terms.clone());
        let is_new = !alike(&terms.there, &told.there) || !alike(&terms.back, &told.back);
        self.asked.take().is_some() && is_new
    }

    /// What was asked for came to nothing, and nobody refused it: whether there was anything.
    pub(super) fn dropped(&mut self) -> bool {
        self.ptime = None;
        self.asked.take().is_some()
    }

    /// The other end keeps to what was: whether that is an answer to what was asked for here, which is not had there.
    pub(super) fn refused(&mut self, now: LocalTime) -> bool {
        self.ptime = None;
        let stream = match self.asked.take() {
            None => return false,
            Some(AskedWay::There) => &mut self.there,
            Some(AskedWay::Back) => &mut self.back,
        };
        stream.iter_mut().for_each(|stream| {
            stream.choice.refused(now);
        });
        // The next is asked for at once.
        self.next = now;
        true
    }
}

/// All of them, if each is known.
fn all([due, lost, late]: [Option<u64>; 3]) -> Option<[u64; 3]> {
    Some([due?, lost?, late?])
}

impl AdaptedStream {
    /// Takes what became of the packets since it was looked last. `is_there` says whether the other end was heard since.
    fn look(
        &mut self,
        now: LocalTime,
        is_there: bool,
        look: impl FnOnce(&dyn Fn(&str) -> Option<u64>) -> LookedAt,
    ) {
        let newest = self.onlooker.newest();
        let Some(stream) = newest.as_ref().and_then(|snapshot| snapshot.streams.first()) else {
            return;
        };
        let LookedAt { sent, counted } = look(&|name| stream.counters.get(name).copied());
        let sent_before = core::mem::replace(&mut self.sent, sent);
        let sent = sent.zip(sent_before).map_or(0, |(sent, before)| sent.saturating_sub(before));
        let [due, lost, late] = counted.map_or([0; 3], |counted| {
            let before = self.counted.replace(counted).unwrap_or(counted);
            core::array::from_fn(|of| counted[of].saturating_sub(before[of]))
        });
        if due < ENOUGH {
            if is_there && sent >= ENOUGH {
                self.choice.untold(now);
            }
            return;
        }
        // What was lost in an outage is told of before those that were due in it: that is no measure.
        if lost.saturating_add(late) <= due {
            let share = |count: u64| count as f64 / due as f64;
            let spoilt = SpoiltShare { due, lost: share(lost), late: share(late) };
            self.choice.observed(now, spoilt);
        }
    }
}
