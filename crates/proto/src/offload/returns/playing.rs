//! Conceals missing frames.

use core::f64::consts::PI;

use tautline_dsp::conceal::Concealer;

use super::Replacement;
use super::levels::Levels;
use super::rings::ChannelRing;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlayingState {
    Wet,
    Hole {
        age: usize,
    },
    /// Fading out, since sound returned `risen` frames ago.
    Back {
        age: usize,
        risen: usize,
    },
}

pub(super) struct RunPiece<'a> {
    /// Channels of `maximum` frames.
    pub(super) run: &'a mut [f32],
    pub(super) maximum: usize,
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) position: u64,
}

impl RunPiece<'_> {
    fn channel(&mut self, channel: usize) -> &mut [f32] {
        &mut self.run[channel * self.maximum + self.at..][..self.len]
    }
}

#[derive(Debug, Clone)]
pub(super) struct StoodIn {
    kind: Replacement,
    state: PlayingState,
    rise: Box<[f32]>,
    fall: Box<[f32]>,
    held: Box<[f32]>,
    /// Newest first.
    last: Box<[f32]>,
    last_frames: usize,
    concealer: Option<Concealer>,
    levels: Option<Levels>,
    reported: u64,
    frames: Box<[f32]>,
    other: Box<[f32]>,
}

type Handed<'a> = (&'a ChannelRing, u32);

impl StoodIn {
    pub(super) fn new(kind: Replacement, outputs: usize, rate: u32, max_frames: u32) -> Self {
        let millis = |count: usize| rate as usize * count / 1000;
        let concealer = (kind == Replacement::Conceal).then(|| Concealer::new(outputs, rate));
        let last_frames = if kind == Replacement::LastGood { millis(20).max(1) } else { 0 };
        let frames = if concealer.is_some() { outputs * max_frames as usize } else { 0 };
        let hold = core::iter::repeat_n(1.0, millis(10));
        let levels = (kind == Replacement::Matched).then(|| Levels::new(outputs, rate, millis(1)));
        Self {
            kind,
            state: PlayingState::Wet,
            rise: half_cosine(millis(1)).map(|gone| 1.0 - gone).collect(),
            fall: hold.chain(half_cosine(millis(40))).collect(),
            held: vec![0.0; outputs].into(),
            last: vec![0.0; outputs * last_frames].into(),
            last_frames,
            concealer,
            levels,
            reported: 0,
            frames: vec![0.0; frames].into(),
            other: vec![0.0; max_frames as usize].into(),
        }
    }

    /// Played frames to keep.
    pub(super) fn learns_from(&self) -> usize {
        self.concealer.as_ref().map_or(self.last_frames, Concealer::learns_from)
    }

    pub(super) fn fade(&self) -> usize {
        self.rise.len()
    }

    pub(super) fn is_transparent(&self) -> bool {
        self.state == PlayingState::Wet
    }

    pub(super) fn begin(&mut self) {
        self.state = PlayingState::Wet;
        self.reported = 0;
        if let Some(levels) = &mut self.levels {
            levels.begin();
        }
        if let Some(concealer) = &mut self.concealer {
            // Overwrites the old epoch.
            self.frames.fill(0.0);
            let mut left = concealer.learns_from();
            while left > 0 && !self.frames.is_empty() {
                concealer.passed(&self.frames);
                left = left.saturating_sub(self.other.len());
            }
        }
    }

    pub(super) fn begin_hole(&mut self, position: u64, wet: &ChannelRing) {
        self.state = PlayingState::Hole { age: 0 };
        if let Some(levels) = &mut self.levels {
            levels.begin_hole();
        }
        for (channel, held) in self.held.iter_mut().enumerate() {
            *held = position.checked_sub(1).map_or(0.0, |last| wet.at(channel, last));
        }
        if self.last_frames > 0 {
            for (channel, last) in self.last.chunks_exact_mut(self.last_frames).enumerate() {
                for (back, sample) in last.iter_mut().enumerate() {
                    let at = position.checked_sub(back as u64 + 1);
                    *sample = at.map_or(0.0, |at| wet.at(channel, at));
                }
            }
        }
        self.notify(position, wet);
    }

    pub(super) fn handle(
        &mut self,
        position: u64,
        frames: usize,
        wet: &ChannelRing,
        dry: Handed<'_>,
    ) {
        let Some(levels) = &mut self.levels else { return };
        let (dry, latency) = dry;
        // Silence before the first input.
        let Some(handed) = position.checked_sub(latency.into()) else { return };
        for channel in 0..wet.channels() {
            let of = if dry.channels() == 1 { 0 } else { channel };
            let of = if of < dry.channels() {
                dry.pieces(of, handed, frames)
            } else {
                Default::default()
            };
            levels.handle(channel, wet.pieces(channel, position, frames), of);
        }
        levels.advance(frames);
    }

    fn notify(&mut self, until: u64, wet: &ChannelRing) {
        let Some(concealer) = &mut self.concealer else { return };
        let (channels, maximum) = (wet.channels(), self.other.len());
        let mut from = self.reported.max(until.saturating_sub(concealer.learns_from() as u64));
        while from < until && maximum > 0 {
            let len = (until - from).min(maximum as u64) as usize;
            for channel in 0..channels {
                let other = &mut self.other[..len];
                wet.read(channel, from, other);
                for (frame, sample) in self.frames.chunks_exact_mut(channels).zip(other) {
                    frame[channel] = *sample;
                }
            }
            concealer.passed(&self.frames[..len * channels]);
            from += len as u64;
        }
        self.reported = until;
    }

    /// Stores the result in `wet`.
    pub(super) fn replacement(
        &mut self,
        piece: &mut RunPiece<'_>,
        wet: &mut ChannelRing,
        dry: Handed<'_>,
    ) {
        if !matches!(self.state, PlayingState::Hole { .. }) {
            self.begin_hole(piece.position, wet);
        }
        let PlayingState::Hole { age } = self.state else { return };
        self.state = PlayingState::Hole { age: age.saturating_add(piece.len) };
        if let Some(concealer) = &mut self.concealer {
            let frames = &mut self.frames[..piece.len * wet.channels()];
            concealer.conceal(frames);
            self.reported = piece.position + piece.len as u64;
            spread(frames, piece, wet.channels());
        }
        let position = piece.position;
        for channel in 0..wet.channels() {
            let out = piece.channel(channel);
            self.make(channel, age, (dry, position), out);
            if matches!(self.kind, Replacement::Dry | Replacement::Matched) {
                let rise = self.rise.iter().skip(age);
                for (sample, rise) in out.iter_mut().zip(rise) {
                    *sample = *sample * rise + self.held[channel] * (1.0 - rise);
                }
            }
            wet.write(channel, position, out);
        }
    }

    /// Returns the cross-faded frames.
    pub(super) fn come_back(
        &mut self,
        piece: &mut RunPiece<'_>,
        wet: &mut ChannelRing,
        dry: Handed<'_>,
    ) -> u32 {
        self.handle(piece.position, piece.len, wet, dry);
        for channel in 0..wet.channels() {
            let position = piece.position;
            wet.read(channel, position, piece.channel(channel));
        }
        let (age, risen) = match self.state {
            PlayingState::Wet => return 0,
            PlayingState::Hole { age } => (age, 0),
            PlayingState::Back { age, risen } => (age, risen),
        };
        let fading = piece.len.min(self.rise.len() - risen);
        self.fade_in(piece, wet, dry, (age, risen, fading));
        self.state = if risen + fading == self.rise.len() {
            PlayingState::Wet
        } else {
            PlayingState::Back { age: age.saturating_add(fading), risen: risen + fading }
        };
        fading as u32
    }

    fn fade_in(
        &mut self,
        piece: &mut RunPiece<'_>,
        wet: &mut ChannelRing,
        dry: Handed<'_>,
        (age, risen, fading): (usize, usize, usize),
    ) {
        let (position, channels) = (piece.position, wet.channels());
        if let Some(concealer) = &mut self.concealer {
            let frames = &mut self.frames[..fading * channels];
            gather(frames, piece, channels);
            concealer.sound(frames);
            self.reported = position + fading as u64;
            let mut faded = RunPiece { len: fading, run: piece.run, ..*piece };
            spread(frames, &mut faded, channels);
        }
        for channel in 0..channels {
            let out = &mut piece.channel(channel)[..fading];
            let mut other = core::mem::take(&mut self.other);
            self.make(channel, age, (dry, position), &mut other[..fading]);
            if self.kind != Replacement::Conceal {
                let rise = &self.rise[risen..];
                for ((sample, other), rise) in out.iter_mut().zip(&other[..]).zip(rise) {
                    *sample = *sample * rise + other * (1.0 - rise);
                }
            }
            self.other = other;
            wet.write(channel, position, out);
        }
    }

    /// Conceals, unless the concealer does.
    fn make(
        &mut self,
        channel: usize,
        age: usize,
        (dry, position): (Handed<'_>, u64),
        out: &mut [f32],
    ) {
        match self.kind {
            Replacement::Conceal => {}
            Replacement::LastGood => self.repeat(channel, age, out),
            Replacement::Dry | Replacement::Matched => {
                handed(dry, channel, position, out);
                if let Some(levels) = &mut self.levels {
                    levels.play(channel, out);
                }
            }
        }
    }

    fn repeat(&self, channel: usize, age: usize, out: &mut [f32]) {
        let last = &self.last[channel * self.last_frames..][..self.last_frames];
        for (ahead, sample) in out.iter_mut().enumerate() {
            let age = age + ahead;
            let level = self.fall.get(age).copied().unwrap_or(0.0);
            let turn = age % (2 * self.last_frames);
            let at = turn.min(2 * self.last_frames - 1 - turn);
            *sample = if level > 0.0 { last[at] * level } else { 0.0 };
        }
    }
}

/// Input of a channel, or the only input, delayed by `latency`.
fn handed((dry, latency): Handed<'_>, channel: usize, position: u64, out: &mut [f32]) {
    let channel = if dry.channels() == 1 { 0 } else { channel };
    let before = u64::from(latency).saturating_sub(position).min(out.len() as u64) as usize;
    let (silence, sound) = out.split_at_mut(before);
    silence.fill(0.0);
    if channel < dry.channels() {
        dry.read(channel, (position + before as u64).saturating_sub(latency.into()), sound);
    } else {
        sound.fill(0.0);
    }
}

fn spread(frames: &[f32], piece: &mut RunPiece<'_>, channels: usize) {
    for channel in 0..channels {
        let out = piece.channel(channel);
        for (sample, frame) in out.iter_mut().zip(frames.chunks_exact(channels)) {
            *sample = frame[channel];
        }
    }
}

fn gather(frames: &mut [f32], piece: &mut RunPiece<'_>, channels: usize) {
    for channel in 0..channels {
        let from = piece.channel(channel);
        for (sample, frame) in from.iter().zip(frames.chunks_exact_mut(channels)) {
            frame[channel] = *sample;
        }
    }
}

/// Falls from nearly 1 to nearly 0.
fn half_cosine(frames: usize) -> impl Iterator<Item = f32> {
    let step = PI / (frames + 1) as f64;
    (1..=frames).map(move |index| (0.5 + 0.5 * (step * index as f64).cos()) as f32)
}
