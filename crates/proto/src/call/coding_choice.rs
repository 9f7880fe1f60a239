//! In what the sound of one direction is coded, where that is to follow what the network carries.
//!
//! It begins with few bits and climbs while nothing is spoilt, a rung in two seconds. Where more is sent than is carried,
//! what arrives is what is carried: that is the measure by which the rung is chosen that it falls to, and the bit rate
//! where the rung has a choice of that: it is lowered before the rung is left, and raised before the next is tried. Loss
//! that fewer bits do not lessen is the path's own, and nothing to fall for. Where the other end said what becomes of the
//! packets and says nothing more, though its sound comes, its words find no room beside that: then fewer bits are sent, too.

use crate::stream::Coding;
use crate::time::{LocalTime, Span};

use super::terms::StreamTerms;

/// More than this share of a second's packets spoilt, twice in a row, is too much to go on with,
const SPOILT: f64 = 0.02;
/// and this at once.
const SPOILT_BADLY: f64 = 0.1;
/// Of what was carried so much is used: others send, too, and a queue has to run empty.
const USED: f64 = 0.85;
/// What left before fewer bits were sent is still judged so long, which is not looked at;
const SETTLES: Span = Span::from_secs(2);
/// and what waits in a queue, which runs empty by what is spared, is late so long.
const DRAINS: Span = Span::from_secs(8);
/// So long nothing is spoilt before more is tried, at first and where that much was carried when less was last asked for,
const FIRST_PATIENCE: Span = Span::from_secs(2);
/// after the first that failed,
const PATIENCE: Span = Span::from_secs(10);
/// and no longer than this, of four times as long each time that one failed.
const MOST_PATIENCE: Span = Span::from_secs(1800);
/// A rung that is left within this failed.
const TRIAL: Span = Span::from_secs(10);
/// The most that is taken for the path's own loss.
const MOST_OWN: f64 = 0.2;
/// So many seconds are looked at for whether fewer bits helped.
const JUDGED: usize = 3;
/// What chance adds to a share, in standard deviations, is no sign of anything: of an hour's seconds, one is beyond.
const CHANCE: f64 = 3.5;
/// By how much of its error what is known of that is corrected each second.
const OWN_FOLLOWS: f64 = 0.05;

/// A bit rate is raised by so much at a time: what is spoilt by too much is a third at the most, for a second,
const RAISED: f64 = 1.5;
/// or by this much more where that is all there is,
const LAST_STEP: f64 = 1.1;
/// and whole thousands are chosen of it.
const BITRATE_STEP: f64 = 1000.0;
/// Of what speech loses its copies make good so much: of one packet in 20 the next is there but for one in 20 of these.
const MENDED: f64 = 0.05;

/// Of what is to be used so much is, where bits can be chosen, until what waits in a queue has come.
const DRAINED_BY: f64 = 0.6;
/// A fall so soon after another is one of it: what had come was more than is carried, as a queue took some.
const SAME_FALL: Span = Span::from_secs(15);

/// The other end reports twice a second: so many seconds in a row without one are six reports that were lost, which of
/// 10 % lost by chance is one in a million.
const UNTOLD: u32 = 3;
/// Seconds that are further apart than this are not in a row.
const IN_A_ROW: Span = Span::from_millis(2_500);
/// What is taken for lost then: how much it is nobody says, and by half at a time the fewest bits are soon come to.
const UNTOLD_LOST: f64 = 0.5;

/// Bits beside the sound of each packet: IPv4 and UDP 28 bytes, RTP 12, the sender's instants 20, the seal 16.
const HEADS: f64 = 8.0 * 76.0;

/// What became of one direction's packets in about a second, as shares of those that were due.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpoiltShare {
    /// Packets that were due.
    pub due: u64,
    /// Never came.
    pub lost: f64,
    /// Came when their sound had been due.
    pub late: f64,
}

/// A coding, and what it takes.
#[derive(Debug, Clone, Copy)]
struct CodingStep {
    terms: StreamTerms,
    /// Bits per second by IP, of the least bit rate where there is a choice.
    rate: f64,
    /// Between what bit rates there is one.
    bits: Option<(u32, u32)>,
}

impl CodingStep {
    /// Of a coding, from the least bit rate to this where there is a choice; `None` where it takes no such stream.
    fn new(terms: StreamTerms, most: Option<u32>) -> Option<Self> {
        let bits = terms.coding.coder.zip(most).and_then(|(coder, most)| {
            let (least, _) = coder.rules().adapted_bitrates(terms.channels)?;
            Some((least.min(most), most))
        });
        let terms = bits.map_or(terms, |(least, _)| terms.at_bitrate(least));
        let format = terms.format(0)?;
        let packets = f64::from(terms.rate.hertz()) / format.packet.count() as f64;
        let left = terms.coding.coder.map_or(1.0, |coder| coder.rules().mean_share());
        let bytes = format.payload_bytes() as f64;
        Some(Self { terms, rate: packets * (8.0 * bytes * left + HEADS), bits })
    }

    /// The same in packets of this time, or the shortest that it is tried in; `None` where it takes none such.
    fn in_packets_of(&self, ptime: Span) -> Option<Self> {
        let coding = self.terms.coding;
        let least = coding.row().adapts_from.unwrap_or_default();
        let terms = StreamTerms { ptime: ptime.max(least), ..self.terms }.coded(coding);
        Self::new(terms, self.bits.map(|(_, most)| most))
    }

    /// Bits per second by IP of this bit rate.
    fn rate_at(&self, bitrate: u32) -> f64 {
        self.bits.map_or(self.rate, |(least, _)| self.rate + f64::from(bitrate) - f64::from(least))
    }

    /// The highest bit rate that takes no more than this; 0 where there is no choice.
    fn fitting(&self, rate: f64) -> u32 {
        let Some((least, most)) = self.bits else { return 0 };
        let bitrate = f64::from(least) + rate - self.rate;
        ((bitrate / BITRATE_STEP).floor() * BITRATE_STEP).clamp(least.into(), most.into()) as u32
    }

    /// What copies of earlier sound make good of what is lost.
    fn mended(&self, lost: f64) -> f64 {
        let has_copies = self.terms.coding.coder.is_some_and(|coder| coder.rules().has_copies());
        if has_copies { lost.min(MENDED) } else { 0.0 }
    }
}

/// Decides in what a direction is coded.
#[derive(Debug)]
pub struct CodingChoice {
    /// What takes the most bits first.
    rungs: Vec<CodingStep>,
    at: usize,
    /// In how many bits per second, where the rung has a choice.
    bitrate: u32,
    /// When the rung was come to, and whether from below.
    since: LocalTime,
    climbed: bool,
    /// When what waited in queues as a rung was left has come.
    drained: LocalTime,
    /// The bit rate from then on, at the latest.
    then: Option<u32>,
    /// When more bits were sent than are carried, last.
    failed: Option<LocalTime>,
    /// So much of it, in bits per second by IP.
    carried: f64,
    /// From when on nothing was spoilt.
    clean: Option<LocalTime>,
    /// How long that has to be.
    patience: Span,
    /// Whether the second before was spoilt.
    bad: bool,
    /// What was spoilt when the rung above was left, until it is known whether that helped, and what was since.
    fell: Option<(f64, [f64; JUDGED])>,
    judged: usize,
    /// What is spoilt whatever is sent.
    own: f64,
    /// Whether it was ever told what became of packets, and seconds since in which it was not, with the last of them.
    told: bool,
    untold: (u32, LocalTime),
}

impl CodingChoice {
    /// Begins with the coding of the fewest bits that is good for any sound; `None` if fewer than two take such a stream.
    pub fn new(terms: &StreamTerms, now: LocalTime) -> Option<Self> {
        let of = |coding: Coding| {
            let least = coding.row().adapts_from?;
            let terms = StreamTerms { ptime: terms.ptime.max(least), ..*terms };
            let terms = terms.coded(coding.usual_for(terms.channels));
            let within = coding.coder.and_then(|it| it.rules().adapted_bitrates(terms.channels));
            CodingStep::new(terms, within.map(|(_, most)| most))
        };
        let mut codings = Coding::ALL;
        codings.sort_unstable_by_key(|coding| coding.row().rank);
        let rungs: Vec<CodingStep> = codings.into_iter().filter_map(of).collect();
        let first = rungs.iter().rposition(|rung| rung.terms.coding.row().begins);
        let at = first.unwrap_or(rungs.len().saturating_sub(1));
        let bitrate = rungs.get(at)?.terms.coding.usual_for(terms.channels).bitrate();
        (rungs.len() > 1).then(|| Self::beginning(rungs, at, bitrate, now))
    }

    /// Keeps to the coding of these terms, and chooses its bit rate alone, from that of these on and up to the usual; `None`
    /// where it has no choice.
    pub fn of_bits(terms: &StreamTerms, now: LocalTime) -> Option<Self> {
        let usual = terms.coding.usual_for(terms.channels).bitrate()?;
        Self::of_bits_up_to(terms, usual.max(terms.coding.bitrate()?), now)
    }

    /// The same up to this bit rate, which somebody chose.
    pub fn of_bits_up_to(terms: &StreamTerms, most: u32, now: LocalTime) -> Option<Self> {
        let bitrate = terms.coding.bitrate()?;
        Some(Self::beginning(vec![CodingStep::new(*terms, Some(most))?], 0, Some(bitrate), now))
    }

    fn beginning(rungs: Vec<CodingStep>, at: usize, bitrate: Option<u32>, now: LocalTime) -> Self {
        let bits = rungs.get(at).and_then(|rung| rung.bits);
        let (least, most) = bits.unwrap_or_default();
        Self {
            rungs,
            at,
            bitrate: bitrate.unwrap_or(most).clamp(least, most),
            since: now,
            climbed: false,
            drained: now,
            then: None,
            failed: None,
            carried: f64::INFINITY,
            clean: None,
            patience: FIRST_PATIENCE,
            bad: false,
            fell: None,
            judged: 0,
            own: 0.0,
            told: false,
            untold: (0, now),
        }
    }

    /// Whether it is tried in packets of this time by what it is at now.
    pub fn tries(&self, ptime: Span) -> bool {
        let tried = self.rungs.get(self.at).and_then(|rung| rung.in_packets_of(ptime));
        tried.is_some_and(|rung| rung.terms.ptime == ptime)
    }

    /// From now on in packets of this time, of each coding that is tried in no longer ones alone.
    pub fn takes(&mut self, ptime: Span) {
        for rung in &mut self.rungs {
            *rung = rung.in_packets_of(ptime).unwrap_or(*rung);
        }
    }

    /// What is to be sent.
    pub fn terms(&self) -> Option<StreamTerms> {
        let rung = self.rungs.get(self.at)?;
        Some(if rung.bits.is_some() { rung.terms.at_bitrate(self.bitrate) } else { rung.terms })
    }

    /// The other end does not take what was chosen last: that is not tried again, and what is below it is used; nothing,
    /// once it takes none of these.
    pub fn refused(&mut self, now: LocalTime) -> Option<StreamTerms> {
        if self.at < self.rungs.len() {
            self.rungs.remove(self.at);
            self.at = self.at.min(self.rungs.len().saturating_sub(1));
            let rung = self.rungs.get(self.at);
            self.bitrate = rung.map_or(0, |rung| rung.fitting(f64::INFINITY));
            (self.since, self.climbed, self.clean) = (now, false, None);
        }
        self.terms()
    }

    /// What became of the last second's packets, once a second. The terms to go on by, if those are others.
    pub fn observed(&mut self, now: LocalTime, spoilt: SpoiltShare) -> Option<StreamTerms> {
        let (untold, _) = core::mem::replace(&mut self.untold, (0, now));
        self.told = true;
        if untold >= UNTOLD {
            // This is what became of all that was sent since, and not of what is sent now.
            return None;
        }
        // A rung that was climbed to is judged at once, lest more be spoilt.
        if !self.climbed && now < self.since + SETTLES {
            return None;
        }
        let late = if now < self.drained { 0.0 } else { spoilt.late };
        let share = (spoilt.lost + late).clamp(0.0, 1.0);
        self.judge(share);
        let mended = self.rungs.get(self.at).map_or(0.0, |rung| rung.mended(spoilt.lost));
        let usual = self.own + mended;
        let chance = CHANCE * (usual * (1.0 - usual) / spoilt.due.max(1) as f64).sqrt();
        let excess = (share - usual - chance).max(0.0);
        let bad = core::mem::replace(&mut self.bad, excess > SPOILT);
        if excess > SPOILT_BADLY || bad && self.bad {
            return self.fall(now, spoilt);
        }
        if self.bad {
            self.clean = None;
            return None;
        }
        if spoilt.late <= SPOILT
            && let Some(then) = self.then.take()
        {
            self.bitrate = then;
            return self.terms();
        }
        if self.fell.is_some() {
            return None;
        }
        self.own += (share - self.own) * OWN_FOLLOWS;
        let clean = *self.clean.get_or_insert(now);
        let (at, bitrate) = self.above()?;
        let known = self.rungs.get(at)?.rate_at(bitrate) <= self.carried * USED;
        let patience = if known { FIRST_PATIENCE } else { self.patience };
        if now < clean + patience {
            return None;
        }
        (self.at, self.bitrate) = (at, bitrate);
        self.then = None;
        (self.since, self.climbed, self.clean) = (now, true, None);
        self.terms()
    }

    /// Nothing was told of the last second's packets, though some were sent and the other end is heard: in the place of
    /// [`Self::observed`], once a second. The terms to go on by, if those are others. Of an end that never told anything
    /// nothing follows.
    pub fn untold(&mut self, now: LocalTime) -> Option<StreamTerms> {
        if !self.told {
            return None;
        }
        // Nothing more is tried meanwhile.
        self.clean = None;
        let (before, last) = self.untold;
        let seconds = if now - last <= IN_A_ROW { before.saturating_add(1) } else { 1 };
        self.untold = (seconds, now);
        if !seconds.is_multiple_of(UNTOLD) {
            return None;
        }
        let carried = self.rungs.get(self.at)?.rate_at(self.bitrate) * (1.0 - UNTOLD_LOST);
        let (patience, failed) = (self.patience, self.climbed && now < self.since + TRIAL);
        let fewer = self.fall(now, SpoiltShare { due: 0, lost: UNTOLD_LOST, late: 0.0 });
        if !failed {
            // As long as nothing that was tried failed, more is tried as soon as it is told that all is well.
            self.patience = patience;
        }
        // What was lost is a guess: whether fewer bits helped is not judged by it, nothing is gone back to by it, and no
        // more than this is known to be carried, however soon after another fall.
        (self.fell, self.then, self.carried) = (None, None, carried);
        fewer
    }

    /// The next more that is tried: a higher bit rate, or else the rung above; `None` at the top.
    fn above(&self) -> Option<(usize, u32)> {
        let most = self.rungs.get(self.at)?.bits.map_or(0, |(_, most)| most);
        if self.bitrate < most {
            let raised = (f64::from(self.bitrate) * RAISED / BITRATE_STEP).floor() * BITRATE_STEP;
            let is_last = raised * LAST_STEP >= f64::from(most);
            return Some((self.at, if is_last { most } else { raised as u32 }));
        }
        let at = self.at.checked_sub(1)?;
        Some((at, self.rungs.get(at)?.bits.map_or(0, |(least, _)| least)))
    }

    /// Whether it helped to send less: else that is how the path is.
    fn judge(&mut self, share: f64) {
        let Some((before, since)) = &mut self.fell else { return };
        if let Some(place) = since.get_mut(self.judged) {
            *place = share;
            self.judged += 1;
        }
        if self.judged < JUDGED {
            return;
        }
        let mean = since.iter().sum::<f64>() / JUDGED as f64;
        if mean >= *before / 2.0 && mean > SPOILT / 4.0 {
            self.own = mean.min(MOST_OWN);
            (self.patience, self.carried) = (FIRST_PATIENCE, f64::INFINITY);
        }
        self.fell = None;
    }

    fn fall(&mut self, now: LocalTime, spoilt: SpoiltShare) -> Option<StreamTerms> {
        let rate = self.rungs.get(self.at)?.rate_at(self.bitrate);
        let failed = self.climbed && now < self.since + TRIAL;
        let same = self.failed.replace(now).is_some_and(|before| now < before + SAME_FALL);
        self.patience = match (failed, same) {
            (true, _) => Span::from_nanos(self.patience.as_nanos().saturating_mul(4)).max(PATIENCE),
            (false, true) => self.patience.max(PATIENCE),
            (false, false) => PATIENCE,
        };
        self.patience = self.patience.min(MOST_PATIENCE);
        (self.bad, self.clean) = (false, None);
        let carried = rate * (1.0 - spoilt.lost.clamp(0.0, 1.0));
        let used = carried * USED;
        self.carried = if same { self.carried } else { carried };
        // This in fewer bits first; at the bottom the fewest.
        let mut from_here = self.rungs.iter().enumerate().skip(self.at);
        let last = self.rungs.len().checked_sub(1)?;
        let to = from_here.find(|(_, rung)| rung.rate <= used).map_or(last, |(to, _)| to);
        let rung = self.rungs.get(to)?;
        let (then, bitrate) = (rung.fitting(used), rung.fitting(used * DRAINED_BY));
        if (to, bitrate) == (self.at, self.bitrate) {
            return None;
        }
        self.then = (bitrate < then).then_some(then);
        // One that was left for what the path spoils by itself is gone back to soon.
        self.fell = Some((spoilt.lost + spoilt.late, [0.0; JUDGED]));
        self.judged = 0;
        (self.at, self.bitrate, self.since, self.climbed) = (to, bitrate, now, false);
        self.drained = now + DRAINS;
        self.terms()
    }
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::units::{Channels, Rate};

    #[test]
    fn other_packets_leave_what_is_tried_as_it_is_where_that_is_tried_in_them() {
        let ms = Span::from_millis;
        let mut choice = beginning(Span::from_micros(2500));
        assert_eq!(
            choice.terms().map(|terms| terms.ptime),
            Some(ms(5)),
            "of Opus no shorter ones are tried"
        );
        assert!(!choice.tries(Span::from_micros(2500)) && !choice.tries(ms(7)));
        assert!(choice.tries(ms(10)));
        choice.takes(ms(10));
        let now = choice.terms().expect("as before");
        assert_eq!((now.coding.name(), now.ptime), ("opus", ms(10)));
        let lengths: Vec<_> = choice.rungs.iter().map(|rung| rung.terms.ptime).collect();
        assert_eq!(lengths, [ms(10), ms(10), ms(10), ms(10), ms(20)]);
    }

    #[test]
    fn a_bit_rate_that_was_chosen_is_not_gone_beyond() {
        let terms = StreamTerms {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            coding: Coding::OPUS,
            ptime: Span::from_millis(5),
        };
        let mut choice =
            CodingChoice::of_bits_up_to(&terms, 64_000, LocalTime::ZERO).expect("bits");
        let mut now = LocalTime::ZERO;
        for _ in 0..600 {
            now += Span::from_secs(1);
            choice.observed(now, SpoiltShare { due: 200, lost: 0.0, late: 0.0 });
            assert_eq!(choice.terms().and_then(|terms| terms.coding.bitrate()), Some(64_000));
        }
    }

    #[test]
    fn a_coding_that_is_refused_is_not_tried_again_and_at_the_end_none_is() {
        let terms = StreamTerms {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            coding: SampleFormat::L24.into(),
            ptime: Span::from_micros(2500),
        };
        let now = LocalTime::ZERO;
        let mut choice = CodingChoice::new(&terms, now).expect("a ladder");
        let mut refused = Vec::new();
        while let Some(terms) = choice.terms() {
            assert!(!refused.contains(&terms.coding.name()), "{refused:?}");
            refused.push(terms.coding.name());
            choice.refused(now);
        }
        let tried = Coding::ALL.into_iter().filter(|coding| coding.row().adapts_from.is_some());
        assert_eq!(refused.len(), tried.count(), "{refused:?}");
        assert_eq!(choice.refused(now), None);
        assert_eq!(
            choice.observed(now + SETTLES, SpoiltShare { due: 100, lost: 1.0, late: 0.0 }),
            None
        );
    }

    fn beginning(ptime: Span) -> CodingChoice {
        let terms = StreamTerms {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            coding: SampleFormat::L24.into(),
            ptime,
        };
        CodingChoice::new(&terms, LocalTime::ZERO).expect("a ladder")
    }

    fn at(seconds: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_secs(seconds)
    }

    const CLEAN: SpoiltShare = SpoiltShare { due: 100, lost: 0.0, late: 0.0 };

    #[test]
    fn an_end_that_goes_silent_about_what_comes_is_sent_the_fewest_bits_in_the_longest_packets() {
        let mut choice = beginning(Span::from_micros(2500));
        // It climbs to the top, and there nothing more is told.
        let climb = |choice: &mut CodingChoice, (from, to)| {
            for second in from..to {
                choice.observed(at(second), CLEAN);
            }
        };
        climb(&mut choice, (1, 60));
        assert_eq!(choice.terms().unwrap().coding.name(), "l24");
        let mut changes = Vec::new();
        for second in 60..90 {
            changes.extend(choice.untold(at(second)).map(|terms| (second, terms)));
        }
        let seconds: Vec<_> = changes.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds[0], 62, "three seconds in a row: {changes:?}");
        assert!(seconds.len() >= 3 && seconds[2] == 68, "{changes:?}");
        let least = changes.last().unwrap().1;
        assert_eq!((least.coding.name(), least.ptime), ("opus-voice", Span::from_millis(20)));
        assert_eq!(least.coding.bitrate(), Some(12_000));
        assert_eq!(choice.terms(), Some(least), "and nothing more is tried");
        // It is told again, at first of all that was lost meanwhile, and more is tried; what is followed by silence is not
        // tried again so soon.
        let all = SpoiltShare { due: 3_000, lost: 0.6, late: 0.0 };
        assert_eq!(choice.observed(at(90), all), None);
        assert!((91..93).all(|second| choice.observed(at(second), CLEAN).is_none()));
        assert!(choice.observed(at(93), CLEAN).is_some());
        let fewer: Vec<_> = (94..97).filter_map(|second| choice.untold(at(second))).collect();
        assert_eq!(fewer, [least]);
        assert!((97..107).all(|second| choice.observed(at(second), CLEAN).is_none()));
        climb(&mut choice, (107, 2_000));
        assert_eq!(choice.terms().unwrap().coding.name(), "l24");
    }

    #[test]
    fn a_report_that_comes_late_or_seconds_that_are_not_in_a_row_are_no_sign() {
        let mut choice = beginning(Span::from_micros(2500));
        let before = choice.terms();
        for second in (0..60).step_by(3) {
            choice.observed(at(second), SpoiltShare { lost: 0.015, ..CLEAN });
            assert_eq!(choice.untold(at(second + 1)), None);
            assert_eq!(choice.untold(at(second + 2)), None);
        }
        assert_eq!(choice.terms(), before, "and nothing more is tried, as none is clean for long");
        choice.observed(at(60), CLEAN);
        assert!((61..120).step_by(3).all(|second| choice.untold(at(second)).is_none()));
    }

    #[test]
    fn an_end_that_never_tells_anything_is_sent_what_it_was() {
        let mut choice = beginning(Span::from_millis(5));
        let before = choice.terms();
        assert!((1..600).all(|second| choice.untold(at(second)).is_none()));
        assert_eq!(choice.terms(), before);
    }

    /// Of so many packets that chance adds little to a share.
    fn losing(lost: f64) -> SpoiltShare {
        SpoiltShare { due: 1_000, lost, late: 0.0 }
    }

    fn name(choice: &CodingChoice) -> &'static str {
        choice.terms().unwrap().coding.name()
    }

    #[test]
    fn loss_that_fewer_bits_do_not_lessen_is_fallen_for_no_more_and_climbed_with_to_the_top() {
        let mut choice = beginning(Span::from_micros(2500));
        let rate = |choice: &CodingChoice| choice.rungs[choice.at].rate_at(choice.bitrate);
        let (mut before, mut falls) = (rate(&choice), Vec::new());
        for second in 1..300 {
            choice.observed(at(second), losing(0.08));
            let now = rate(&choice);
            falls.extend((now < before).then_some(second));
            before = now;
        }
        let soon = falls.iter().all(|second| *second < 10);
        assert!(!falls.is_empty() && soon, "until it is known that it does not help: {falls:?}");
        assert_eq!(name(&choice), "l24");
    }

    #[test]
    fn loss_that_comes_slowly_is_the_paths_own_and_as_much_at_once_later_is_not() {
        let mut choice = beginning(Span::from_micros(2500));
        for second in 1..60 {
            choice.observed(at(second), losing(0.0));
        }
        assert_eq!(name(&choice), "l24");
        // Up to 10 % in ten minutes, and from there to nothing at once, for two.
        for second in 60..660 {
            let lost = 0.1 * (second - 60) as f64 / 600.0;
            assert_eq!(choice.observed(at(second), losing(lost)), None, "at {lost}");
        }
        for second in 660..780 {
            assert_eq!(choice.observed(at(second), losing(0.0)), None);
        }
        assert_eq!(choice.observed(at(780), losing(0.08)), None, "one second is no sign");
        assert!(choice.observed(at(781), losing(0.08)).is_some(), "what was is forgotten");
    }

    #[test]
    fn of_loss_by_half_a_fifth_is_taken_for_the_paths_own_and_the_fewest_bits_are_sent() {
        let mut choice = beginning(Span::from_micros(2500));
        let mut sent = Vec::new();
        for second in 1..300 {
            choice.observed(at(second), losing(0.5));
            sent.extend(
                (second >= 60).then(|| choice.terms().and_then(|now| now.coding.bitrate())),
            );
        }
        assert!(sent.iter().all(|bits| *bits == Some(12_000)), "{sent:?}");
        assert_eq!(name(&choice), "opus-voice");
    }
}
