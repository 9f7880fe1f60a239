//! Opus by libopus.

#![expect(unsafe_code, reason = "libopus is a library of C")]

use core::ffi::c_int;
use core::ptr::NonNull;

use opusic_sys as sys;
use tautline_proto::codec::{Codec, Decode, Encode, Opus, OpusTuning, Undecodable};
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

#[cfg(feature = "bundled")]
use crate::dred::DredReader;
use crate::{CodecFactory, NoEncoder, OpusRefused};

impl CodecFactory for Opus {
    fn encoder(&self, format: &StreamFormat) -> Result<Box<dyn Encode>, NoEncoder> {
        Ok(Box::new(OpusEncoder::new(*self, format.channels)?))
    }

    fn decoder(&self, rate: Rate, channels: Channels) -> Option<Box<dyn Decode>> {
        Some(Box::new(OpusDecoder::new(rate, channels).ok()?))
    }
}

/// Frames of Opus's shortest step: 2.5 ms.
const STEP: usize = 120;

/// Loss percentage until a report arrives. It enables in-band FEC.
const EXPECTED_LOSS: c_int = 10;

/// Encoder complexity (maximum 10). A higher complexity makes no audible difference.
const VOICE_COMPLEXITY: c_int = 5;

const DEEP_COMPLEXITY: c_int = 5;

/// Duration of redundancy in units of 10 ms.
#[cfg(feature = "bundled")]
const DRED_DURATION: c_int = 20;

#[derive(Debug)]
pub struct OpusEncoder {
    state: NonNull<sys::OpusEncoder>,
    opus: Opus,
    channels: Channels,
}

// SAFETY: libopus touches the state only in calls that get it.
unsafe impl Send for OpusEncoder {}

impl OpusEncoder {
    /// Encodes one or two channels at 48 kHz. Only this function allocates.
    pub fn new(opus: Opus, channels: Channels) -> Result<Self, OpusRefused> {
        let application = match opus.tuning {
            OpusTuning::Music => sys::OPUS_APPLICATION_RESTRICTED_LOWDELAY,
            OpusTuning::Voice => sys::OPUS_APPLICATION_VOIP,
        };
        let (rate, count) = (Opus::RATE.hertz() as i32, channels.count() as c_int);
        let mut error = 0;
        // SAFETY: the call accepts any numbers, and the result's place is borrowed.
        let state = unsafe { sys::opus_encoder_create(rate, count, application, &mut error) };
        let state =
            NonNull::new(state).filter(|_| error == sys::OPUS_OK).ok_or(OpusRefused(error))?;
        let mut encoder = Self { state, opus, channels };
        let set = |encoder: &mut Self, settings: &[(c_int, c_int)]| {
            settings.iter().try_for_each(|(request, value)| encoder.set(*request, *value))
        };
        let bitrate = opus.bitrate as c_int;
        set(
            &mut encoder,
            &[(sys::OPUS_SET_BITRATE_REQUEST, bitrate), (sys::OPUS_SET_VBR_REQUEST, 0)],
        )?;
        if opus.tuning == OpusTuning::Voice {
            set(
                &mut encoder,
                &[
                    (sys::OPUS_SET_SIGNAL_REQUEST, sys::OPUS_SIGNAL_VOICE),
                    (sys::OPUS_SET_INBAND_FEC_REQUEST, 1),
                    (sys::OPUS_SET_PACKET_LOSS_PERC_REQUEST, EXPECTED_LOSS),
                    (sys::OPUS_SET_COMPLEXITY_REQUEST, VOICE_COMPLEXITY),
                ],
            )?;
        }
        Ok(encoder)
    }

    fn set(&mut self, request: c_int, value: c_int) -> Result<(), OpusRefused> {
        // SAFETY: the state is alive; every request here takes one number.
        let answer = unsafe { sys::opus_encoder_ctl(self.state.as_ptr(), request, value) };
        if answer == sys::OPUS_OK { Ok(()) } else { Err(OpusRefused(answer)) }
    }

    /// For measurements: copies of packets achieve more with the same bits (decision 70).
    #[cfg(feature = "bundled")]
    pub fn carry_dred(&mut self) -> Result<(), OpusRefused> {
        self.set(sys::OPUS_SET_DRED_DURATION_REQUEST, DRED_DURATION)?;
        self.set(sys::OPUS_SET_INBAND_FEC_REQUEST, 0)
    }

    /// libopus's delay in frames.
    pub fn lookahead(&mut self) -> i32 {
        let mut frames: i32 = 0;
        let place: *mut i32 = &mut frames;
        // SAFETY: the state is alive; this request takes a place for one number.
        unsafe {
            sys::opus_encoder_ctl(self.state.as_ptr(), sys::OPUS_GET_LOOKAHEAD_REQUEST, place);
        }
        frames
    }
}

impl Drop for OpusEncoder {
    fn drop(&mut self) {
        // SAFETY: the state is not used after this.
        unsafe { sys::opus_encoder_destroy(self.state.as_ptr()) }
    }
}

impl Encode for OpusEncoder {
    fn coding(&self) -> Coding {
        Coding { codec: Some(Codec::Opus(self.opus)), ..Coding::OPUS }
    }

    fn encode(&mut self, samples: &[f32], room: &mut [u8]) -> Option<usize> {
        let frames = self.channels.frames_in(samples.len());
        let maximum =
            Codec::Opus(self.opus).payload_bytes((self.channels, frames), 0).min(room.len());
        // SAFETY: the state is alive; the call reads `frames` frames and writes at most `out`.
        let bytes = unsafe {
            sys::opus_encode_float(
                self.state.as_ptr(),
                samples.as_ptr(),
                frames.as_len() as c_int,
                room.as_mut_ptr(),
                maximum as i32,
            )
        };
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    fn set_bitrate(&mut self, bitrate: u32) {
        // Keep the announced bit rate if rejected.
        if self.set(sys::OPUS_SET_BITRATE_REQUEST, bitrate as c_int).is_ok() {
            self.opus.bitrate = bitrate;
        }
    }

    fn expect_loss(&mut self, percent: u8) {
        // Cannot fail for 0 to 100.
        let _ = self.set(sys::OPUS_SET_PACKET_LOSS_PERC_REQUEST, c_int::from(percent.min(100)));
    }

    fn reset(&mut self) {
        // SAFETY: the state is alive; this request takes no argument.
        unsafe {
            sys::opus_encoder_ctl(self.state.as_ptr(), sys::OPUS_RESET_STATE);
        }
    }
}

#[derive(Debug)]
pub struct OpusDecoder {
    state: NonNull<sys::OpusDecoder>,
    channels: Channels,
    is_speech: bool,
    #[cfg(feature = "bundled")]
    dred: DredReader,
}

// SAFETY: libopus touches the state only in calls that get it.
unsafe impl Send for OpusDecoder {}

impl OpusDecoder {
    /// Decodes to one or two channels at 48 kHz. Only this function allocates.
    pub fn new(rate: Rate, channels: Channels) -> Result<Self, OpusRefused> {
        if rate != Opus::RATE || channels.count() > 2 {
            return Err(OpusRefused(sys::OPUS_BAD_ARG));
        }
        let mut error = 0;
        // SAFETY: the call accepts any numbers, and the result's place is borrowed.
        let state = unsafe {
            sys::opus_decoder_create(rate.hertz() as i32, channels.count() as c_int, &mut error)
        };
        let state =
            NonNull::new(state).filter(|_| error == sys::OPUS_OK).ok_or(OpusRefused(error))?;
        Ok(Self {
            state,
            channels,
            is_speech: false,
            #[cfg(feature = "bundled")]
            dred: DredReader::new()?,
        })
    }

    /// Neural concealment of music costs 0.7 ms per 5 ms packet and improves nothing.
    fn adapt_to(&mut self, payload: &[u8]) {
        let is_speech = payload.first().is_some_and(|toc| toc >> 3 < FIRST_CELT);
        if is_speech != self.is_speech {
            self.is_speech = is_speech;
            let complexity = if is_speech { DEEP_COMPLEXITY } else { 0 };
            // SAFETY: the state is alive; libraries without this request return an error.
            unsafe {
                sys::opus_decoder_ctl(
                    self.state.as_ptr(),
                    sys::OPUS_SET_COMPLEXITY_REQUEST,
                    complexity,
                );
            }
        }
    }

    #[cfg(feature = "bundled")]
    fn recover_with_dred(&mut self, next: &[u8], before: Frames, out: &mut [f32]) -> bool {
        let frames = self.channels.frames_in(out.len());
        let has_all = frames.as_len().is_multiple_of(STEP) && self.dred.read(next, before);
        has_all && self.dred.decode(self.state, before, frames, out)
    }

    #[cfg(not(feature = "bundled"))]
    fn recover_with_dred(&mut self, _next: &[u8], _before: Frames, _out: &mut [f32]) -> bool {
        false
    }

    /// Conceals a loss without a payload. Returns whether it succeeded.
    fn run(&mut self, payload: Option<&[u8]>, out: &mut [f32], before: bool) -> bool {
        let frames = out.len() / self.channels.count();
        let (data, len) = payload.map_or((core::ptr::null(), 0), |p| (p.as_ptr(), p.len()));
        let Ok(len) = i32::try_from(len) else { return false };
        // SAFETY: the state is alive; the call reads at most `len` bytes and writes at most
        // `frames` frames.
        let decoded = unsafe {
            sys::opus_decode_float(
                self.state.as_ptr(),
                data,
                len,
                out.as_mut_ptr(),
                frames as c_int,
                c_int::from(before),
            )
        };
        usize::try_from(decoded) == Ok(frames) && out.iter().all(|sample| sample.is_finite())
    }
}

impl Drop for OpusDecoder {
    fn drop(&mut self) {
        // SAFETY: the state is not used after this.
        unsafe { sys::opus_decoder_destroy(self.state.as_ptr()) }
    }
}

impl Decode for OpusDecoder {
    fn codec(&self) -> Codec {
        Codec::OPUS
    }

    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable> {
        self.adapt_to(payload);
        let decoded = !payload.is_empty() && self.run(Some(payload), out, false);
        if decoded { Ok(()) } else { Err(Undecodable) }
    }

    fn recover(&mut self, next: &[u8], ahead: Frames, out: &mut [f32]) -> bool {
        let frames = self.channels.frames_in(out.len());
        // In-band FEC holds the preceding packet, with the same length.
        let is_next = ahead == Frames::ZERO && Codec::OPUS.frames(next) == Some(frames);
        if is_next && carries_earlier(next) {
            return self.run(Some(next), out, true);
        }
        frames > Frames::ZERO && self.recover_with_dred(next, ahead + frames, out)
    }

    fn conceal(&mut self, out: &mut [f32]) -> bool {
        let frames = out.len() / self.channels.count();
        frames.is_multiple_of(STEP) && frames > 0 && self.run(None, out, false)
    }

    fn reset(&mut self) {
        // SAFETY: the state is alive; this request takes no argument.
        unsafe {
            sys::opus_decoder_ctl(self.state.as_ptr(), sys::OPUS_RESET_STATE);
        }
    }
}

/// RFC 6716 §3.1.
const FIRST_CELT: u8 = 16;

/// Low bit-rate redundancy: flags per channel at the start of the SILK layer (RFC 6716 §4.2.3).
fn carries_earlier(payload: &[u8]) -> bool {
    let &[toc, flags, ..] = payload else { return false };
    let (config, stereo, frames) = (toc >> 3, toc & 4 != 0, toc & 3);
    // Packets of a single frame only.
    let short = config < FIRST_CELT && (config >= 12 || config & 3 < 2);
    short && frames == 0 && (flags & 0x40 != 0 || stereo && flags & 0x10 != 0)
}
