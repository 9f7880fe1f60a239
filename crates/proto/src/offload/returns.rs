//! Sound from a worker, placed by frame position and played after a constant delay.
//!
//! In each run the host pushes its input ([`Returns::push_dry`]), places answers
//! ([`Returns::place`], [`Returns::arrived`]), and pulls as many frames ([`Returns::pull`]), sent
//! `delay` frames ago. Received frames pass bit for bit. Missing frames are concealed and logged
//! ([`Returns::poll_damage`]), as is the cross-fade of 1 ms after each gap.

mod damage;
mod entries;
mod levels;
mod marks;
mod playing;
mod rings;

pub use entries::{Cause, Damage};

use self::damage::DamageLedger;
use self::marks::{FrameMark, FrameMarks};
use self::playing::StoodIn;
use self::rings::ChannelRing;

/// Sound played for missing frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// The delayed input at the plugin's recent level, never above its peak; silence if unknown.
    Matched,
    /// The delayed input, perhaps much louder than the plugin.
    Dry,
    /// Predicted continuation, faded to silence after 50 ms.
    Conceal,
    /// The last 20 ms, backward and forward, faded to silence after 50 ms.
    LastGood,
}

/// Configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnsConfig {
    /// Channels sent.
    pub inputs: usize,
    /// Channels returned.
    pub outputs: usize,
    /// In Hz.
    pub rate: u32,
    /// Maximum output delay, in frames.
    pub delay: u32,
    /// Maximum frames per run.
    pub max_frames: u32,
    /// Sound for missing frames.
    pub replacement: Replacement,
}

/// Composition of a run, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PulledReturns {
    /// Returned, with or without cross-fade.
    pub wet: u32,
    /// Concealed.
    pub concealed: u32,
    /// Returned, but cross-faded.
    pub faded: u32,
    /// Silence before the first sent frame.
    pub before: u32,
}

/// Counters, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReturnsCounters {
    /// Played as returned, or cross-faded.
    pub wet: u64,
    /// Concealed.
    pub concealed: u64,
    /// Returned late.
    pub late: u64,
    /// Returned for positions that were never sent.
    pub misplaced: u64,
}

/// Places answers and plays them.
#[derive(Debug, Clone)]
pub struct Returns {
    config: ReturnsConfig,
    delay: u32,
    plugin_latency: u32,
    clock: u64,
    wet: ChannelRing,
    marks: FrameMarks,
    dry: ChannelRing,
    concealed: StoodIn,
    ledger: DamageLedger,
    has_worker: bool,
    /// Channel after channel.
    run: Box<[f32]>,
    counters: ReturnsCounters,
}

impl Returns {
    /// Divisor of a second: maximum latency of a plugin.
    const LATENCY_PART: u32 = 8;

    /// Only this function allocates.
    pub fn new(config: ReturnsConfig) -> Self {
        let ReturnsConfig { inputs, outputs, rate, delay, max_frames, replacement } = config;
        let concealed = StoodIn::new(replacement, outputs, rate, max_frames);
        let reach = delay as usize + max_frames as usize;
        let kept = reach + concealed.learns_from().max(1);
        Self {
            delay,
            plugin_latency: 0,
            clock: 0,
            wet: ChannelRing::new(outputs, kept),
            marks: FrameMarks::new(reach),
            dry: ChannelRing::new(inputs, reach + (rate / Self::LATENCY_PART) as usize),
            concealed,
            ledger: DamageLedger::new(rate),
            has_worker: true,
            run: vec![0.0; outputs * max_frames as usize].into(),
            counters: ReturnsCounters::default(),
            config,
        }
    }

    /// Begins an epoch with this output delay, up to the maximum.
    pub fn begin(&mut self, delay: u32) {
        self.delay = delay.min(self.config.delay);
        self.clock = 0;
        self.marks.clear_all();
        self.concealed.begin();
        self.ledger.begin();
    }

    /// Raises the output delay from the next run on; the difference is concealed. Returns the
    /// delay.
    pub fn set_delay(&mut self, delay: u32) -> u32 {
        let delay = delay.min(self.config.delay);
        if delay <= self.delay {
            return self.delay;
        }
        let was = self.clock.saturating_sub(self.delay.into());
        if self.clock > u64::from(self.delay) {
            let from = self.clock.saturating_sub(delay.into());
            self.concealed.begin_hole(was, &self.wet);
            self.ledger.note(from, (was - from) as u32, Cause::Grown, self.config.replacement);
        }
        self.ledger.noted_until(was);
        self.delay = delay;
        delay
    }

    /// From input to output, in frames.
    pub const fn delay(&self) -> u32 {
        self.delay
    }

    /// Sets the plugin's own latency, compensated up to 125 ms.
    pub fn set_plugin_latency(&mut self, frames: u32) {
        self.plugin_latency = frames.min(self.config.rate / Self::LATENCY_PART);
    }

    /// Sets whether there is a worker.
    pub fn set_worker(&mut self, is_there: bool) {
        self.has_worker = is_there;
    }

    /// Cross-faded frames after a gap: 1 ms.
    pub fn fade_frames(&self) -> u32 {
        self.concealed.fade() as u32
    }

    /// Counters since the start.
    pub const fn counters(&self) -> ReturnsCounters {
        self.counters
    }

    /// Next frame to play; 0 before the first.
    pub const fn turn(&self) -> u64 {
        self.clock.saturating_sub(self.delay as u64)
    }

    /// Adds a channel of the input.
    pub fn push_dry(&mut self, channel: usize, samples: &[f32]) {
        self.push_dry_by(channel, samples.len() as u32, |from, piece| {
            piece.copy_from_slice(&samples[from..][..piece.len()]);
        });
    }

    /// Adds a channel in place, in one or two pieces with the frames before each.
    #[inline]
    pub fn push_dry_by(
        &mut self,
        channel: usize,
        frames: u32,
        write: impl FnMut(usize, &mut [f32]),
    ) {
        if channel < self.config.inputs {
            let maximum = frames.min(self.config.max_frames) as usize;
            self.dry.write_by(channel, self.clock, maximum, write);
        }
    }

    /// The [input](Self::push_dry) of a channel; the second piece may be empty.
    #[inline]
    pub fn dry(&self, channel: usize, frames: u32) -> [&[f32]; 2] {
        let maximum = frames.min(self.config.max_frames) as usize;
        self.dry.pieces(channel, self.clock, maximum)
    }

    /// Places a channel. Ignores late or never sent frames.
    pub fn place(&mut self, position: u64, channel: usize, samples: &[f32]) {
        self.place_by(position, channel, samples.len() as u32, |from, piece| {
            piece.copy_from_slice(&samples[from..][..piece.len()]);
        });
    }

    /// Places a channel in place, in one or two pieces with the frames before each.
    #[inline]
    pub fn place_by(
        &mut self,
        position: u64,
        channel: usize,
        frames: u32,
        mut write: impl FnMut(usize, &mut [f32]),
    ) {
        let (from, until) = self.in_time(position, frames.into());
        if channel < self.config.outputs && from < until {
            let skipped = (from - position) as usize;
            let count = (until - from) as usize;
            self.wet.write_by(channel, from, count, |at, piece| write(skipped + at, piece));
        }
    }

    /// Marks placed frames; `clean`: the plugin processed all earlier blocks. Returns the frames in
    /// time.
    pub fn arrived(&mut self, position: u64, frames: u32, clean: bool) -> u32 {
        let (from, until) = self.in_time(position, frames.into());
        let end = position.saturating_add(frames.into());
        let turn = self.turn();
        if position < turn {
            self.arrived_late(position, (end.min(turn) - position) as u32);
        }
        self.counters.misplaced += end.saturating_sub(until.max(turn).max(position));
        if from >= until {
            return 0;
        }
        let frames = (until - from) as usize;
        self.marks.mark(from, frames, if clean { FrameMark::Clean } else { FrameMark::Dirty });
        frames as u32
    }

    /// Records late frames that were not placed.
    pub fn arrived_late(&mut self, position: u64, frames: u32) {
        self.counters.late += u64::from(frames);
        self.ledger.arrived_late(position..position.saturating_add(frames.into()));
    }

    fn in_time(&self, position: u64, frames: u64) -> (u64, u64) {
        let end = self.clock + u64::from(self.config.max_frames);
        let from = position.max(self.turn());
        (from, position.saturating_add(frames).min(end))
    }

    /// Passes a run of each channel to `sink`.
    pub fn pull(&mut self, frames: u32, sink: &mut dyn FnMut(usize, &[f32])) -> PulledReturns {
        let frames = frames.min(self.config.max_frames);
        let mut pulled = PulledReturns::default();
        let turn = self.turn();
        let before = (u64::from(self.delay).saturating_sub(self.clock)).min(frames.into()) as u32;
        let passes = before == 0
            && self.concealed.is_transparent()
            && self.marks.all_clean(turn, frames as usize);
        if passes {
            pulled.wet = frames;
            self.pass(turn, frames as usize, sink);
        } else {
            pulled = self.make(turn, before as usize, frames as usize);
            let maximum = self.config.max_frames as usize;
            for (channel, run) in self.run.chunks_exact(maximum.max(1)).enumerate() {
                sink(channel, &run[..frames as usize]);
            }
        }
        self.marks.clear(turn, (frames - before) as usize);
        self.clock += u64::from(frames);
        self.ledger.goes_on(self.turn());
        self.counters.wet += u64::from(pulled.wet);
        self.counters.concealed += u64::from(pulled.concealed);
        pulled
    }

    fn pass(&mut self, turn: u64, frames: usize, sink: &mut dyn FnMut(usize, &[f32])) {
        self.concealed.handle(turn, frames, &self.wet, (&self.dry, self.plugin_latency));
        for channel in 0..self.config.outputs {
            if let Some(samples) = self.wet.slice(channel, turn, frames) {
                sink(channel, samples);
            } else {
                let run = &mut self.run[..frames];
                self.wet.read(channel, turn, run);
                sink(channel, run);
            }
        }
    }

    fn make(&mut self, turn: u64, before: usize, frames: usize) -> PulledReturns {
        let maximum = self.config.max_frames as usize;
        let mut pulled = PulledReturns { before: before as u32, ..PulledReturns::default() };
        for run in self.run.chunks_exact_mut(maximum.max(1)) {
            run[..before].fill(0.0);
        }
        let mut at = before;
        while at < frames {
            let position = turn + (at - before) as u64;
            let (mark, len) = self.marks.run(position, frames - at);
            let mut piece = playing::RunPiece { run: &mut self.run, maximum, at, len, position };
            match mark {
                FrameMark::Missing => {
                    let dry = (&self.dry, self.plugin_latency);
                    self.concealed.replacement(&mut piece, &mut self.wet, dry);
                    pulled.concealed += len as u32;
                }
                FrameMark::Clean | FrameMark::Dirty => {
                    let dry = (&self.dry, self.plugin_latency);
                    let faded = self.concealed.come_back(&mut piece, &mut self.wet, dry);
                    pulled.faded += faded;
                    pulled.wet += len as u32;
                    if mark == FrameMark::Clean && faded > 0 {
                        self.ledger.note(position, faded, Cause::Faded, self.config.replacement);
                    }
                }
            }
            self.note(mark, position, len as u32);
            at += len;
        }
        pulled
    }

    fn note(&mut self, mark: FrameMark, position: u64, frames: u32) {
        let cause = match mark {
            FrameMark::Clean => return,
            FrameMark::Dirty => Cause::Dirty,
            FrameMark::Missing if self.has_worker => Cause::Lost,
            FrameMark::Missing => Cause::NoWorker,
        };
        self.ledger.note(position, frames, cause, self.config.replacement);
    }

    /// Next settled entry: 250 ms after its last frame, or when the epoch ends.
    pub fn poll_damage(&mut self) -> Option<Damage> {
        self.ledger.poll()
    }

    /// Settles all entries.
    pub fn settle(&mut self) {
        self.ledger.settle();
    }

    /// Damaged frames that did not fit into the ledger.
    pub const fn damage_overflow(&self) -> u64 {
        self.ledger.overflow()
    }
}
