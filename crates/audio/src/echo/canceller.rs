#![expect(unsafe_code, reason = "libspeexdsp is a library of C")]

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

/// Echo length: a living room's sound falls by 60 dB in 300 to 500 ms, and libspeexdsp's manual asks for a third of
/// that.
pub const TAIL: Span = Span::from_millis(128);

/// The channels of either side that are learned: each pair of them is a filter of its own.
const MOST_CHANNELS: usize = 2;
const BLOCK: core::ops::RangeInclusive<i64> = 16..=2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCanceller {
    #[error(
        "echo is cancelled for one channel or two, and these are {}; use --channels 2 or --echo keep",
        .0.count()
    )]
    Channels(Channels),
    #[error(
        "echo is cancelled in periods of an even number of frames, 16 to 2048, and these have {}; choose another --period \
         or use --echo keep",
        .0.count()
    )]
    Block(Frames),
    #[error(
        "echo is cancelled where both devices run at one rate, and these run at {captured} and {played}; use --rate or \
         --echo keep"
    )]
    Rates { captured: Rate, played: Rate },
    #[error("libspeexdsp has no memory for a canceller; end other programs, or use --echo keep")]
    Memory,
}

#[derive(Debug)]
pub struct Canceller {
    state: NonNull<SpeexEchoState>,
    captured: Box<[i16]>,
    played: Box<[i16]>,
    left: Box<[i16]>,
    guard: Guard,
    loudspeakers: usize,
}

// SAFETY: the state is memory of its own which libspeexdsp touches only in calls that are given it, from whatever
// thread.
unsafe impl Send for Canceller {}

impl Canceller {
    /// One for blocks of so many frames, of so many microphones and loudspeakers. Allocates; nothing later does.
    pub fn new(
        rate: Rate,
        block: Frames,
        microphones: Channels,
        loudspeakers: Channels,
    ) -> Result<Self, NoCanceller> {
        for channels in [microphones, loudspeakers] {
            if channels.count() > MOST_CHANNELS {
                return Err(NoCanceller::Channels(channels));
            }
        }
        if !BLOCK.contains(&block.count()) || block.count() % 2 != 0 {
            return Err(NoCanceller::Block(block));
        }
        let [heard, played] = [microphones, loudspeakers].map(|side| side.count() as c_int);
        let length = block.count() as c_int;
        let tail = rate.frames_within(TAIL).count() as c_int;
        // SAFETY: it takes any lengths and counts above 0, and answers with a state or with null.
        let state = unsafe { speex_echo_state_init_mc(length, tail, heard, played) };
        let state = NonNull::new(state).ok_or(NoCanceller::Memory)?;
        let mut hertz = rate.hertz() as c_int;
        // SAFETY: the state is alive; this request reads one number, which is borrowed for it. It knows every rate.
        unsafe {
            speex_echo_ctl(state.as_ptr(), SPEEX_ECHO_SET_SAMPLING_RATE, (&raw mut hertz).cast());
        }
        let room = |channels: Channels| vec![0; channels.samples_in(block)].into();
        let (captured, played, left) = (room(microphones), room(loudspeakers), room(microphones));
        let guard = Guard::new(rate, microphones);
        Ok(Self { state, captured, played, left, guard, loudspeakers: loudspeakers.count() })
    }

    /// Takes the echo of `played` out of a block, both interleaved, nominally −1…1. Real-time. Blocks of another length
    /// stay as they are. The library works in 16 bits, so only the echo is taken from it and the rest keeps its
    /// resolution.
    pub fn cancel(&mut self, captured: &mut [f32], played: &[f32]) {
        if captured.len() != self.captured.len() || played.len() != self.played.len() {
            return;
        }
        self.captured.iter_mut().zip(captured.iter()).for_each(|(to, from)| *to = whole(*from));
        self.played.iter_mut().zip(played).for_each(|(to, from)| *to = whole(*from));
        let [heard, plays] = [self.guard.channels, self.loudspeakers];
        if !is_held(&self.captured, heard) || !is_held(&self.played, plays) {
            return;
        }
        // SAFETY: the state is alive, and was made for blocks of as many frames and channels as each of these three
        // holds.
        unsafe {
            speex_echo_cancellation(
                self.state.as_ptr(),
                self.captured.as_ptr(),
                self.played.as_ptr(),
                self.left.as_mut_ptr(),
            );
        }
        if self.guard.is_to_reset(&self.captured, &self.left) {
            // SAFETY: the state is alive.
            unsafe { speex_echo_state_reset(self.state.as_ptr()) }
        }
        let echo = self.captured.iter().zip(self.left.iter());
        for (sample, (heard, left)) in captured.iter_mut().zip(echo) {
            *sample -= (f32::from(*heard) - f32::from(*left)) / SCALE;
        }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        // SAFETY: it was created, and is not used after this.
        unsafe { speex_echo_state_destroy(self.state.as_ptr()) }
    }
}

const SCALE: f32 = 32768.0;

/// In 16 bits; what is too loud is clipped, and what is no number is silence.
fn whole(sample: f32) -> i16 {
    (sample * SCALE).round() as i16
}

/// Of each sample the library takes away this much of the one before (mdf.c, "preemph").
const EMPHASIS: f64 = 0.9;

/// Whether the library's sums hold this block: above 2e9 of its 16 bits as a mean square, which loud treble reaches, it
/// prints a line.
fn is_held(samples: &[i16], channels: usize) -> bool {
    const MOST: f64 = 1.5e9;
    let power = |channel: usize| {
        let one = samples.iter().skip(channel).step_by(channels).map(|sample| f64::from(*sample));
        let differ =
            |last: &mut f64, now: f64| Some(now - EMPHASIS * core::mem::replace(last, now));
        one.scan(0.0, differ).map(|sample| sample * sample).sum::<f64>()
    };
    let frames = (samples.len() / channels) as f64;
    (0..channels).map(power).sum::<f64>() <= MOST * frames
}

/// Resets the filter when it adds sound, as after a change of the room. The library's own rule (mdf.c, "screwed_up": 50
/// blocks in a row) prints a line, which a device's thread must not: this one is stricter.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    channels: usize,
    /// How near to its circle the pole of the filter is that takes out what is steady (mdf.c, filter_dc_notch16).
    radius: f64,
    kept: [([f64; 2], [f64; 2]); MOST_CHANNELS],
    added: u32,
}

impl Guard {
    /// What the library lets pass, as a mean square: 20 000 of its 16 bits (mdf.c, twice 10 000 a frame).
    const QUIET: f64 = 15_000.0;
    const MOST: u32 = 20;
    pub(super) fn new(rate: Rate, channels: Channels) -> Self {
        let radius = match rate.hertz() {
            ..12_000 => 0.9,
            12_000..24_000 => 0.982,
            24_000.. => 0.992,
        };
        Self { channels: channels.count(), radius, kept: Default::default(), added: 0 }
    }

    pub(super) fn is_to_reset(&mut self, captured: &[i16], left: &[i16]) -> bool {
        let (mut before, mut after) = (0.0, 0.0);
        let root = 1.0 - self.radius;
        let second = self.radius * self.radius + 0.7 * root * root;
        let frames = captured.chunks_exact(self.channels).zip(left.chunks_exact(self.channels));
        for (heard, left) in frames {
            for ((heard, left), (notch, last)) in heard.iter().zip(left).zip(&mut self.kept) {
                let (heard, left) = (f64::from(*heard), f64::from(*left));
                let out = notch[0] + heard;
                *notch = [notch[1] + 2.0 * (self.radius * out - heard), heard - second * out];
                let steady = self.radius * out;
                before += (steady - EMPHASIS * last[0]).powi(2);
                after += (left - EMPHASIS * last[1]).powi(2);
                *last = [steady, left];
            }
        }
        let adds = after > before + Self::QUIET * left.len() as f64;
        self.added = if adds { self.added + 1 } else { 0 };
        let reset = self.added >= Self::MOST;
        if reset {
            self.added = 0;
        }
        reset
    }
}

#[repr(C)]
pub(crate) struct SpeexEchoState {
    _opaque: [u8; 0],
}

pub(crate) const SPEEX_ECHO_SET_SAMPLING_RATE: c_int = 24;

#[link(name = "speexdsp")]
unsafe extern "C" {
    pub(crate) fn speex_echo_state_init_mc(
        frame_size: c_int,
        filter_length: c_int,
        nb_mic: c_int,
        nb_speakers: c_int,
    ) -> *mut SpeexEchoState;
    pub(crate) fn speex_echo_state_destroy(state: *mut SpeexEchoState);
    pub(crate) fn speex_echo_cancellation(
        state: *mut SpeexEchoState,
        rec: *const i16,
        play: *const i16,
        out: *mut i16,
    );
    pub(crate) fn speex_echo_state_reset(state: *mut SpeexEchoState);
    pub(crate) fn speex_echo_ctl(
        state: *mut SpeexEchoState,
        request: c_int,
        place: *mut c_void,
    ) -> c_int;
}
