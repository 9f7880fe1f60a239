//! Deep redundancy (DRED): a coarse copy of recent speech in each packet.

#![expect(unsafe_code, reason = "libopus is a library of C")]

use core::ffi::c_int;
use core::ptr::NonNull;

use opusic_sys as sys;
use tautline_proto::codec::Opus;
use tautline_proto::time::Frames;

use crate::OpusRefused;

/// Additional frames to read, because the newest may begin within a chunk: 40 ms.
const CHUNK: Frames = Frames::new(1920);

#[derive(Debug)]
pub(crate) struct DredReader {
    decoder: NonNull<sys::OpusDREDDecoder>,
    packet: NonNull<sys::OpusDRED>,
}

// SAFETY: libopus touches both only in calls that get them.
unsafe impl Send for DredReader {}

impl DredReader {
    /// Only this function allocates.
    pub(crate) fn new() -> Result<Self, OpusRefused> {
        let mut error = 0;
        // SAFETY: both write their result to the borrowed place.
        let decoder = NonNull::new(unsafe { sys::opus_dred_decoder_create(&mut error) });
        let decoder = decoder.ok_or(OpusRefused(error))?;
        // SAFETY: as above.
        match NonNull::new(unsafe { sys::opus_dred_alloc(&mut error) }) {
            Some(packet) => Ok(Self { decoder, packet }),
            None => {
                // SAFETY: it is not used after this.
                unsafe { sys::opus_dred_decoder_destroy(decoder.as_ptr()) };
                Err(OpusRefused(error))
            }
        }
    }

    /// Whether the redundancy reaches this far.
    pub(crate) fn read(&mut self, payload: &[u8], back: Frames) -> bool {
        let Ok(len) = i32::try_from(payload.len()) else { return false };
        let (rate, mut end): (i32, c_int) = (Opus::RATE.hertz() as i32, 0);
        let Ok(maximum) = i32::try_from((back + CHUNK).count()) else { return false };
        // SAFETY: both states are alive; the call reads `len` bytes and writes one number.
        let reach = unsafe {
            sys::opus_dred_parse(
                self.decoder.as_ptr(),
                self.packet.as_ptr(),
                payload.as_ptr(),
                len,
                maximum.min(rate),
                rate,
                &mut end,
                0,
            )
        };
        // An error is negative.
        reach > 0 && i64::from(reach) >= back.count()
    }

    pub(crate) fn decode(
        &self,
        decoder: NonNull<sys::OpusDecoder>,
        back: Frames,
        frames: Frames,
        out: &mut [f32],
    ) -> bool {
        let count = frames.as_len() as c_int;
        // SAFETY: both states are alive; `out` holds this many frames of the decoder's channels.
        let decoded = unsafe {
            sys::opus_decoder_dred_decode_float(
                decoder.as_ptr(),
                self.packet.as_ptr(),
                back.count() as i32,
                out.as_mut_ptr(),
                count,
            )
        };
        decoded == count && out.iter().all(|sample| sample.is_finite())
    }
}

impl Drop for DredReader {
    fn drop(&mut self) {
        // SAFETY: they are not used after this.
        unsafe {
            sys::opus_dred_free(self.packet.as_ptr());
            sys::opus_dred_decoder_destroy(self.decoder.as_ptr());
        }
    }
}
