//! The coding of a call by what the network carries, or the bit rate alone of one that is kept to: what became of the
//! packets of either direction is looked at once a second, and the terms that follow from it are asked for.

use tautline_engine::watching::snapshot::StreamSnapshot;
use tautline_proto::call::coding_choice::{CodingChoice, SpoiltShare};
use tautline_proto::call::terms::{CallOffer, CallTerms, StreamTerms};
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};

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
pub(crate) fn begin_with_few_bits(offer: &mut CallOffer) {
    for stream in [&mut offer.there, &mut offer.back] {
        stream.codings.sort_by_key(|coding| {
            let place = FEW_BITS.into_iter().position(|few| coding.is_coded_as(few));
            place.unwrap_or(FEW_BITS.len())
        });
    }
}

struct AdaptedStream {
    choice: CodingChoice,
    /// Packets due, lost and late, as they were counted when it was looked at last.
    counted: Option<[u64; 3]>,
    /// Packets sent, where what became of them is the other end's word.
    sent: Option<u64>,
}

/// Both directions of a call, where there is something to choose in them.
pub(crate) struct Adaptation {
    /// There, and back.
    streams: [Option<AdaptedStream>; 2],
    /// When it is looked at next.
    next: LocalTime,
    /// Before, what was lost was lost by a path that is used no more.
    settles: LocalTime,
    /// Packets that were heard by then.
    heard: Option<u64>,
    /// The direction that was asked for last, until that is answered: one at a time, so that it is known what is refused.
    asked: Option<usize>,
    /// Packets that people asked for, until that is answered.
    ptime: Option<Span>,
    /// What was told of last: people hear of another coding, and see other bits where they look.
    told: CallTerms,
}

impl Adaptation {
    /// For a call on these terms, of which these are told; `None` where there is nothing to choose from.
    pub(crate) fn new(terms: &CallTerms, now: LocalTime) -> Option<Self> {
        let choices = [&terms.there, &terms.back].map(|terms| CodingChoice::new(terms, now));
        choices.iter().all(Option::is_some).then(|| Self::by(choices, terms, now))
    }

    /// For a call whose coding is kept to: of what has a choice, the bit rate, up to `most` if somebody chose that. `None`
    /// where nothing has.
    pub(crate) fn in_bits(terms: &CallTerms, most: Option<u32>, now: LocalTime) -> Option<Self> {
        let choices = [&terms.there, &terms.back].map(|terms| match most {
            Some(most) => CodingChoice::of_bits_up_to(terms, most, now),
            None => CodingChoice::of_bits(terms, now),
        });
        choices.iter().any(Option::is_some).then(|| Self::by(choices, terms, now))
    }

    fn by(choices: [Option<CodingChoice>; 2], terms: &CallTerms, now: LocalTime) -> Self {
        let stream = |choice| AdaptedStream { choice, counted: None, sent: None };
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

    /// The sound goes by another path from now on: what is told of the one before is no measure of it.
    pub(crate) fn moved(&mut self, now: LocalTime) {
        self.settles = now + MOVED;
    }

    /// Whether what both directions are coded in by now is tried in packets of this time.
    pub(crate) fn tries(&mut self, ptime: Span) -> bool {
        self.streams.iter_mut().flatten().all(|stream| stream.choice.tries(ptime))
    }

    /// People asked for packets of this time: once that is so, all is tried in them.
    pub(crate) const fn asks_for(&mut self, ptime: Span) {
        self.ptime = Some(ptime);
    }

    /// The terms to be asked for instead of those by which it sounds, if it is time to. `heard` counts the packets that
    /// came from the other end, while there is a line to it.
    pub(crate) fn poll(
        &mut self,
        terms: &CallTerms,
        heard: Option<u64>,
        measured: [Option<&StreamSnapshot>; 2],
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
                .for_each(|stream| (stream.counted, stream.sent) = (None, None));
            self.heard = None;
            return None;
        }
        let before = core::mem::replace(&mut self.heard, heard);
        let is_there = heard.zip(before).is_some_and(|(heard, before)| heard > before);
        for (way, (stream, measured)) in self.streams.iter_mut().zip(measured).enumerate() {
            let (Some(stream), Some(measured)) = (stream, measured) else { continue };
            let count = |name| measured.counters.get(name).copied();
            let (sent, [due, lost, late]) = match way {
                0 => {
                    let told = ["receiver_expected", "receiver_lost", "receiver_late"].map(count);
                    (count("packets_sent"), told)
                }
                _ => {
                    let [received, lost, late] = ["packets_received", "lost", "late"].map(count);
                    // A late packet is among those that were received, and not among those that are lost.
                    let due = received.zip(lost).map(|(received, lost)| received + lost);
                    (None, [due, lost, late])
                }
            };
            let counted = due.zip(lost).zip(late).map(|((due, lost), late)| [due, lost, late]);
            stream.look(now, is_there, sent, counted);
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

    /// What was asked for is so: whether people are to know.
    pub(crate) fn answered(&mut self, terms: &CallTerms) -> bool {
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

    /// What was asked for came to nothing, and nobody refused it: whether there was anything.
    pub(crate) fn dropped(&mut self) -> bool {
        self.ptime = None;
        self.asked.take().is_some()
    }

    /// The other end keeps to what was: whether that is an answer to what was asked for here, which is not had there.
    pub(crate) fn refused(&mut self, now: LocalTime) -> bool {
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
    /// Takes the counters of a stream: packets sent, if the other end reports what became of them, and packets due, lost and
    /// late. `is_there` if packets of the other end arrived since the last look.
    fn look(
        &mut self,
        now: LocalTime,
        is_there: bool,
        sent: Option<u64>,
        counted: Option<[u64; 3]>,
    ) {
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
