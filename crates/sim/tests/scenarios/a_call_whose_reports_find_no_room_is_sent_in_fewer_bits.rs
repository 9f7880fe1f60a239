//! Under test: in what the sound to the other end of a call is coded, where what that end says of it comes by a way that
//! is narrower than its own sound: a queue that is full has room for short packets before it has any for a report.

use std::fmt::Write;

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::coding_choice::{CodingChoice, SpoiltShare};
use tautline_proto::call::terms::StreamTerms;
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, Path, PathModel};

/// From capture to loudspeaker.
const LATENCY: Span = Span::from_millis(60);
const TERMS: StreamTerms = StreamTerms {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    coding: Coding { sample: SampleFormat::L24, coder: None },
    ptime: Span::from_micros(2500),
};
const SECOND: i64 = 1_000_000_000;
/// From one thing to the next: no packets are shorter, and all are whole ones of it.
const STEP: i64 = 2_500_000;
const REPORT_EVERY: i64 = SECOND / 2;
/// A compound packet of RTCP, sealed: what was sent, what was heard, what is announced, whose it is.
const REPORT_BYTES: usize = 260;
/// RTP, instants and seal.
const HEADS: usize = 48;

/// Packets due, lost and late so far.
type Counts = [u64; 3];

struct Way {
    path: Path,
    choice: CodingChoice,
    terms: StreamTerms,
    sent: u64,
    /// When each that came is due, lost and late ones counted as those after them come.
    counts: Counts,
    missing: u64,
}

impl Way {
    fn by(model: PathModel, seed: u64) -> Self {
        let choice = CodingChoice::new(&TERMS, LocalTime::ZERO).expect("a ladder");
        let terms = choice.terms().expect("one");
        Self { path: Path::new(model, seed), choice, terms, sent: 0, counts: [0; 3], missing: 0 }
    }

    /// Sends a packet, if one is due at this instant: whether it came at all.
    fn send(&mut self, now: TrueTime) -> bool {
        if now.as_nanos() % self.terms.ptime.as_nanos() != 0 {
            return false;
        }
        self.sent += 1;
        let mut came = None;
        let bytes = self.terms.format(0).expect("a format").payload_bytes() + HEADS;
        self.path.carry(bytes, now, |at| came = came.or(Some(at)));
        let Some(at) = came else {
            self.missing += 1;
            return false;
        };
        let [due, lost, late] = &mut self.counts;
        *due += 1 + self.missing;
        *lost += core::mem::take(&mut self.missing);
        *late += u64::from(at.since(now) > LATENCY);
        true
    }

    /// Looks at what became of the last second's packets, as `taut call` does.
    fn look(&mut self, now: LocalTime, before: &mut Counts, counts: Counts, is_there: bool) {
        let [due, lost, late] = core::array::from_fn(|of| counts[of] - before[of]);
        *before = counts;
        let share = |count: u64| count as f64 / due as f64;
        let changed = match due >= 10 {
            true => {
                let spoilt = SpoiltShare { due, lost: share(lost), late: share(late) };
                self.choice.observed(now, spoilt)
            }
            false if is_there => self.choice.untold(now),
            false => None,
        };
        self.terms = changed.unwrap_or(self.terms);
    }
}

/// What the sound there is coded in, second by second, whether a report came in it.
fn call(model: &PathModel, seconds: i64, seed: u64) -> Vec<(StreamTerms, bool)> {
    let (mut there, mut back) = (Way::by(model.clone(), seed), Way::by(model.clone(), seed + 1));
    let (mut told, mut coming): (Counts, Vec<(TrueTime, Counts)>) = ([0; 3], Vec::new());
    let (mut before_there, mut before_back) = ([0; 3], [0; 3]);
    let mut all = Vec::new();
    let (mut is_there, mut reported) = (false, false);
    for step in 0..seconds * (SECOND / STEP) {
        let now = TrueTime::from_nanos(step * STEP);
        there.send(now);
        is_there |= back.send(now);
        if now.as_nanos() % REPORT_EVERY == 0 {
            let counts = there.counts;
            back.path.carry(REPORT_BYTES, now, |at| coming.push((at, counts)));
        }
        coming.retain(|(at, counts)| {
            let came = *at <= now;
            if came {
                (told, reported) = (*counts, true);
            }
            !came
        });
        if (step + 1) % (SECOND / STEP) == 0 {
            let at = LocalTime::ZERO + Span::from_nanos(now.as_nanos());
            all.push((there.terms, reported));
            there.look(at, &mut before_there, told, is_there);
            let counts = back.counts;
            back.look(at, &mut before_back, counts, false);
            (is_there, reported) = (false, false);
        }
    }
    all
}

fn in_words(call: &[(StreamTerms, bool)]) -> String {
    let mut words = String::new();
    for (second, (terms, reported)) in call.iter().enumerate() {
        let bits =
            terms.coding.bitrate().map_or(String::new(), |bits| format!(" {}k", bits / 1000));
        let told = if *reported { "" } else { " untold" };
        let _ = write!(words, "{second}:{}{bits}{told}  ", terms.coding.name());
    }
    words
}

fn narrow(rate: u64) -> PathModel {
    let bottleneck = Some(Bottleneck { rate, queue: (rate / 32) as usize });
    PathModel { bottleneck, ..PathModel::ideal(Span::from_millis(10)) }
}

/// Wide, from 30 s to 90 s as narrow as that, and wide again.
fn narrowed(rate: u64) -> PathModel {
    let changes = vec![
        (TrueTime::from_nanos(30 * SECOND), narrow(rate)),
        (TrueTime::from_nanos(90 * SECOND), narrow(100_000_000)),
    ];
    PathModel { changes, ..narrow(100_000_000) }
}

#[test]
fn a_call_whose_reports_find_no_room_is_sent_in_fewer_bits() {
    // The fewest take 42.4 kbit/s by IP.
    for (rate, seed) in [(20_000, 1), (30_000, 2), (40_000, 3)] {
        let call = call(&narrowed(rate), 600, seed);
        let told = format!("{rate} bit/s, seed {seed}: {}", in_words(&call));
        assert_eq!(call[29].0.coding.name(), "l24", "{told}");
        let untold = call[32..90].iter().filter(|(_, reported)| !reported).count();
        assert!(untold >= 50, "reports come, so this proves nothing: {told}");
        let fewest = |(terms, _): &(StreamTerms, bool)| {
            let (bits, name) = (terms.coding.bitrate(), terms.coding.name());
            (name, bits, terms.ptime) == ("opus-voice", Some(12_000), Span::from_millis(20))
        };
        assert!(call[45..90].iter().all(fewest), "{told}");
        // Once reports come again there is more, by and by.
        let back = call[90..].iter().position(|(terms, _)| terms.coding.name() == "l24");
        assert!(back.is_some_and(|seconds| seconds <= 90), "{back:?}: {told}");
        let again = self::call(&narrowed(rate), 600, seed);
        assert_eq!(in_words(&call), in_words(&again), "{told}");
    }
}
