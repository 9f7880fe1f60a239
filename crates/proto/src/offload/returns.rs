//! Sound that was made elsewhere: placed by frame position, and given out so many frames later, whatever blocks the host
//! makes.
//!
//! A run of the host pushes its input ([`Returns::push_dry`]), places what has come back ([`Returns::place`],
//! [`Returns::arrived`]), and pulls as many frames ([`Returns::pull`]): those that were handed out `delay` frames ago.
//! What is there passes bit for bit. What is not is stood in for, and noted in the damage ledger
//! ([`Returns::poll_damage`]): the frames that are missing, and those of the millisecond after each run of them, which
//! are cross-faded. No others differ from what they would have been.

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

/// What plays for frames that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// What was handed out, as late as what would have come back, at the level at which the plugin played lately: as
    /// loud on average, and never over its peak. Silence where nothing was heard of it.
    Matched,
    /// What was handed out, as late as what would have come back: it may be much louder than the plugin.
    Dry,
    /// The sound before goes on as predicted, until silence after 50 ms.
    Conceal,
    /// The last 20 ms, backward and forward, until silence after 50 ms.
    LastGood,
}

/// What sound is placed and given out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnsConfig {
    /// Channels that are handed out.
    pub inputs: usize,
    /// Channels that come back.
    pub outputs: usize,
    /// Frames per second.
    pub rate: u32,
    /// The most frames by which what is given out may lag.
    pub delay: u32,
    /// The most frames of a run.
    pub most_frames: u32,
    /// What plays for what is not there.
    pub stand_in: StandIn,
}

/// What the frames of a run were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PulledReturns {
    /// They came back; cross-faded or not.
    pub wet: u32,
    /// They were stood in for.
    pub stood_in: u32,
    /// They came back, and were cross-faded with what stood in before.
    pub faded: u32,
    /// Silence: nothing was handed out so long ago.
    pub before: u32,
}

/// What was counted, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReturnsCounters {
    /// Given out as they came back, or cross-faded.
    pub wet: u64,
    /// Stood in for.
    pub stood_in: u64,
    /// Came after their turn.
    pub late: u64,
    /// Came for positions that were never handed out.
    pub misplaced: u64,
}

/// Places answers and gives them out.
#[derive(Debug, Clone)]
pub struct Returns {
    config: ReturnsConfig,
    delay: u32,
    plugin_latency: u32,
    /// Frames handed out before the present run.
    clock: u64,
    wet: ChannelRing,
    marks: FrameMarks,
    dry: ChannelRing,
    stood_in: StoodIn,
    ledger: DamageLedger,
    has_worker: bool,
    /// A run as it is given out, a channel behind the other.
    run: Box<[f32]>,
    counters: ReturnsCounters,
}

impl Returns {
    /// The most frames that a plugin lags by which what was handed out is held back for, in parts of a second: plugins
    /// that look ahead do so by some milliseconds, and each channel is kept for as long.
    const LATENCY_PART: u32 = 8;

    /// Nothing was handed out yet. Allocates; nothing later does.
    pub fn new(config: ReturnsConfig) -> Self {
        let ReturnsConfig { inputs, outputs, rate, delay, most_frames, stand_in } = config;
        let stood_in = StoodIn::new(stand_in, outputs, rate, most_frames);
        let reach = delay as usize + most_frames as usize;
        let kept = reach + stood_in.learns_from().max(1);
        Self {
            delay,
            plugin_latency: 0,
            clock: 0,
            wet: ChannelRing::new(outputs, kept),
            marks: FrameMarks::new(reach),
            dry: ChannelRing::new(inputs, reach + (rate / Self::LATENCY_PART) as usize),
            stood_in,
            ledger: DamageLedger::new(rate),
            has_worker: true,
            run: vec![0.0; outputs * most_frames as usize].into(),
            counters: ReturnsCounters::default(),
            config,
        }
    }

    /// A new epoch, in which what is given out lags by `delay` frames, as laid out at most. Nothing of the old one is
    /// given out any more.
    pub fn begin(&mut self, delay: u32) {
        self.delay = delay.min(self.config.delay);
        self.clock = 0;
        self.marks.clear_all();
        self.stood_in.begin();
        self.ledger.begin();
    }

    /// From the next run on, what is given out lags by so many frames, as laid out at most: as many as are more are stood
    /// in for, once. It never lags by less again in this epoch. Returns by how many it lags now.
    pub fn set_delay(&mut self, delay: u32) -> u32 {
        let delay = delay.min(self.config.delay);
        if delay <= self.delay {
            return self.delay;
        }
        let was = self.clock.saturating_sub(self.delay.into());
        if self.clock > u64::from(self.delay) {
            let from = self.clock.saturating_sub(delay.into());
            self.stood_in.begin_hole(was, &self.wet);
            self.ledger.note(from, (was - from) as u32, Cause::Grown, self.config.stand_in);
        }
        self.ledger.noted_until(was);
        self.delay = delay;
        delay
    }

    /// By how many frames what is given out lags behind what is handed out.
    pub const fn delay(&self) -> u32 {
        self.delay
    }

    /// The plugin itself lags by so many frames: what was handed out and stands in is held back as long, an eighth of
    /// a second at most.
    pub fn set_plugin_latency(&mut self, frames: u32) {
        self.plugin_latency = frames.min(self.config.rate / Self::LATENCY_PART);
    }

    /// Whether there is a worker: if not, that is why frames are missing.
    pub fn set_worker(&mut self, is_there: bool) {
        self.has_worker = is_there;
    }

    /// Frames after a run of missing ones that may differ from what came: a millisecond.
    pub fn fade_frames(&self) -> u32 {
        self.stood_in.fade() as u32
    }

    /// What was counted.
    pub const fn counters(&self) -> ReturnsCounters {
        self.counters
    }

    /// The first frame that is given out next, if it is not one before all.
    pub const fn turn(&self) -> u64 {
        self.clock.saturating_sub(self.delay as u64)
    }

    /// A channel of what the present run hands out.
    pub fn push_dry(&mut self, channel: usize, samples: &[f32]) {
        self.push_dry_by(channel, samples.len() as u32, |from, piece| {
            piece.copy_from_slice(&samples[from..][..piece.len()]);
        });
    }

    /// The same, written where it is kept: in one piece or two, each with how many frames came before it.
    #[inline]
    pub fn push_dry_by(
        &mut self,
        channel: usize,
        frames: u32,
        write: impl FnMut(usize, &mut [f32]),
    ) {
        if channel < self.config.inputs {
            let most = frames.min(self.config.most_frames) as usize;
            self.dry.write_by(channel, self.clock, most, write);
        }
    }

    /// What was [pushed](Self::push_dry) of a channel in the present run: in two pieces, of which the second may be empty.
    #[inline]
    pub fn dry(&self, channel: usize, frames: u32) -> [&[f32]; 2] {
        let most = frames.min(self.config.most_frames) as usize;
        self.dry.pieces(channel, self.clock, most)
    }

    /// A channel of what came back, for frames from `position` on. What is over, or was never handed out, is left aside.
    pub fn place(&mut self, position: u64, channel: usize, samples: &[f32]) {
        self.place_by(position, channel, samples.len() as u32, |from, piece| {
            piece.copy_from_slice(&samples[from..][..piece.len()]);
        });
    }

    /// The same, written where it is kept: in one piece or two, each with how many frames of it come before.
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

    /// All channels of these frames have been placed; they are clean if whoever made them had seen all before. Returns how
    /// many were in time.
    pub fn arrived(&mut self, position: u64, frames: u32, clean: bool) -> u32 {
        let (from, until) = self.in_time(position, frames.into());
        let end = position.saturating_add(frames.into());
        let turn = self.turn();
        if position < turn {
            self.came_late(position, (end.min(turn) - position) as u32);
        }
        self.counters.misplaced += end.saturating_sub(until.max(turn).max(position));
        if from >= until {
            return 0;
        }
        let frames = (until - from) as usize;
        self.marks.mark(from, frames, if clean { FrameMark::Clean } else { FrameMark::Dirty });
        frames as u32
    }

    /// These frames came after their turn, and were not placed.
    pub fn came_late(&mut self, position: u64, frames: u32) {
        self.counters.late += u64::from(frames);
        self.ledger.came_late(position..position.saturating_add(frames.into()));
    }

    /// What of these frames can still be given out.
    fn in_time(&self, position: u64, frames: u64) -> (u64, u64) {
        let end = self.clock + u64::from(self.config.most_frames);
        let from = position.max(self.turn());
        (from, position.saturating_add(frames).min(end))
    }

    /// Gives out the frames of a run: each channel once, all of its frames, to `sink`. As many as were laid out for at
    /// most.
    pub fn pull(&mut self, frames: u32, sink: &mut dyn FnMut(usize, &[f32])) -> PulledReturns {
        let frames = frames.min(self.config.most_frames);
        let mut pulled = PulledReturns::default();
        let turn = self.turn();
        let before = (u64::from(self.delay).saturating_sub(self.clock)).min(frames.into()) as u32;
        let passes = before == 0
            && self.stood_in.is_transparent()
            && self.marks.all_clean(turn, frames as usize);
        if passes {
            pulled.wet = frames;
            self.pass(turn, frames as usize, sink);
        } else {
            pulled = self.make(turn, before as usize, frames as usize);
            let most = self.config.most_frames as usize;
            for (channel, run) in self.run.chunks_exact(most.max(1)).enumerate() {
                sink(channel, &run[..frames as usize]);
            }
        }
        self.marks.clear(turn, (frames - before) as usize);
        self.clock += u64::from(frames);
        self.ledger.goes_on(self.turn());
        self.counters.wet += u64::from(pulled.wet);
        self.counters.stood_in += u64::from(pulled.stood_in);
        pulled
    }

    /// All is there: it goes out of the ring itself where it lies in one piece.
    fn pass(&mut self, turn: u64, frames: usize, sink: &mut dyn FnMut(usize, &[f32])) {
        self.stood_in.hear(turn, frames, &self.wet, (&self.dry, self.plugin_latency));
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
        let most = self.config.most_frames as usize;
        let mut pulled = PulledReturns { before: before as u32, ..PulledReturns::default() };
        for run in self.run.chunks_exact_mut(most.max(1)) {
            run[..before].fill(0.0);
        }
        let mut at = before;
        while at < frames {
            let position = turn + (at - before) as u64;
            let (mark, len) = self.marks.run(position, frames - at);
            let mut piece = playing::RunPiece { run: &mut self.run, most, at, len, position };
            match mark {
                FrameMark::Missing => {
                    let dry = (&self.dry, self.plugin_latency);
                    self.stood_in.stand_in(&mut piece, &mut self.wet, dry);
                    pulled.stood_in += len as u32;
                }
                FrameMark::Clean | FrameMark::Dirty => {
                    let dry = (&self.dry, self.plugin_latency);
                    let faded = self.stood_in.come_back(&mut piece, &mut self.wet, dry);
                    pulled.faded += faded;
                    pulled.wet += len as u32;
                    if mark == FrameMark::Clean && faded > 0 {
                        self.ledger.note(position, faded, Cause::Faded, self.config.stand_in);
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
        self.ledger.note(position, frames, cause, self.config.stand_in);
    }

    /// The next entry of the damage ledger that is settled: a quarter of a second after its last frame, as until then what
    /// is missing may turn out to be late; or when the epoch is over.
    pub fn poll_damage(&mut self) -> Option<Damage> {
        self.ledger.poll()
    }

    /// Whatever has not come by now never will: all entries are settled.
    pub fn settle(&mut self) {
        self.ledger.settle();
    }

    /// Frames whose damage found the ledger full.
    pub const fn damage_overflow(&self) -> u64 {
        self.ledger.overflow()
    }
}
