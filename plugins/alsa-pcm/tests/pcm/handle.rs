//! A PCM of `type tautline`, opened by ALSA, as in an application.

use core::ffi::{c_int, c_uint, c_ulong, c_void};
use core::ptr::{null_mut, without_provenance};
use std::ffi::CString;
use std::path::PathBuf;

use alsa_sys::*;
use tautline_io::thread::Scheduler;

pub(crate) fn shared_object() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.with_file_name("libasound_module_pcm_tautline.so");
    assert!(built.exists(), "{} was not built", built.display());
    built
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested {
    pub(crate) format: snd_pcm_format_t,
    pub(crate) channels: c_uint,
    pub(crate) rate: c_uint,
    pub(crate) period: c_ulong,
    pub(crate) buffer: c_ulong,
    pub(crate) stubborn: bool,
}

impl Default for Requested {
    /// 16-bit mono at 48 kHz; the buffer survives a freeze of the host.
    fn default() -> Self {
        Self {
            format: SND_PCM_FORMAT_S16_LE,
            channels: 1,
            rate: 48_000,
            period: 480,
            buffer: 9600,
            stubborn: false,
        }
    }
}

pub(crate) struct Handle(pub(crate) *mut snd_pcm_t);

pub(crate) fn answer(value: i64) -> Result<i64, i32> {
    if value < 0 { Err(-value as i32) } else { Ok(value) }
}

impl Handle {
    pub(crate) fn open(keys: &str, stream: snd_pcm_stream_t) -> Result<Self, i32> {
        let _ = Scheduler::Fifo(50).apply();
        let text = format!(
            "pcm_type.tautline {{ lib \"{}\" }}\npcm.net {{ type tautline {keys} }}\n",
            shared_object().display()
        );
        let (mut config, mut pcm) = (null_mut(), null_mut());
        let terminated = CString::new(text.clone()).unwrap();
        // SAFETY: the text has this length, the places for results are valid, and names are
        // NUL-terminated.
        let opened = unsafe {
            answer(
                snd_config_load_string(&raw mut config, terminated.as_ptr(), text.len()).into(),
            )?;
            let opened = snd_pcm_open_lconf(&raw mut pcm, c"net".as_ptr(), stream, 0, config);
            snd_config_delete(config);
            opened
        };
        answer(opened.into()).map(|_| Self(pcm))
    }

    pub(crate) fn to_play(port: u16, more: &str) -> Self {
        Self::open(&format!("to \"127.0.0.1:{port}\" {more}"), SND_PCM_STREAM_PLAYBACK).unwrap()
    }

    pub(crate) fn to_record(port: u16, more: &str) -> Self {
        Self::open(&format!("from \"127.0.0.1:{port}\" {more}"), SND_PCM_STREAM_CAPTURE).unwrap()
    }

    pub(crate) fn set(&self, requested: Requested) -> Result<(), i32> {
        // SAFETY: ALSA's own set-up calls, on an open PCM.
        unsafe {
            let mut hardware = null_mut();
            snd_pcm_hw_params_malloc(&raw mut hardware);
            snd_pcm_hw_params_any(self.0, hardware);
            let access = SND_PCM_ACCESS_RW_INTERLEAVED;
            let (mut period, mut buffer) = (requested.period, requested.buffer);
            let set = [
                snd_pcm_hw_params_set_access(self.0, hardware, access),
                snd_pcm_hw_params_set_format(self.0, hardware, requested.format),
                snd_pcm_hw_params_set_channels(self.0, hardware, requested.channels),
                snd_pcm_hw_params_set_rate(self.0, hardware, requested.rate, 0),
                snd_pcm_hw_params_set_period_size_near(
                    self.0,
                    hardware,
                    &raw mut period,
                    null_mut(),
                ),
                snd_pcm_hw_params_set_buffer_size_near(self.0, hardware, &raw mut buffer),
                snd_pcm_hw_params(self.0, hardware),
            ];
            snd_pcm_hw_params_free(hardware);
            set.into_iter().try_for_each(|set| answer(set.into()).map(|_| ()))?;
            let mut software = null_mut();
            snd_pcm_sw_params_malloc(&raw mut software);
            snd_pcm_sw_params_current(self.0, software);
            let mut boundary = 0;
            snd_pcm_sw_params_get_boundary(software, &raw mut boundary);
            snd_pcm_sw_params_set_start_threshold(self.0, software, boundary);
            if requested.stubborn {
                snd_pcm_sw_params_set_stop_threshold(self.0, software, boundary);
            }
            let set = snd_pcm_sw_params(self.0, software);
            snd_pcm_sw_params_free(software);
            answer(set.into()).map(|_| ())
        }
    }

    pub(crate) fn write<T: Copy>(&self, samples: &[T], frames: usize) -> Result<i64, i32> {
        // SAFETY: the caller gives `samples` of `frames` frames.
        answer(unsafe { snd_pcm_writei(self.0, samples.as_ptr().cast(), frames as c_ulong) })
    }

    #[track_caller]
    pub(crate) fn play(&self, samples: &[i16]) {
        assert_eq!(self.write(samples, samples.len()), Ok(samples.len() as i64));
    }

    pub(crate) fn read(&self, bytes: &mut [u8], frames: usize) -> Result<i64, i32> {
        let to = bytes.as_mut_ptr().cast::<c_void>();
        // SAFETY: the caller gives a buffer of `frames` frames.
        answer(unsafe { snd_pcm_readi(self.0, to, frames as c_ulong) })
    }

    pub(crate) fn delay(&self) -> Result<i64, i32> {
        let mut frames = 0;
        // SAFETY: `frames` is a valid place for the answer.
        answer(unsafe { snd_pcm_delay(self.0, &raw mut frames) }.into()).map(|_| frames)
    }

    pub(crate) fn state(&self) -> snd_pcm_state_t {
        // SAFETY: the PCM is open.
        unsafe { snd_pcm_state(self.0) }
    }

    pub(crate) fn request(
        &self,
        call: unsafe extern "C" fn(*mut snd_pcm_t) -> c_int,
    ) -> Result<i64, i32> {
        // SAFETY: the PCM is open.
        answer(unsafe { call(self.0) }.into())
    }

    pub(crate) fn avail(&self) -> Result<i64, i32> {
        // SAFETY: the PCM is open.
        answer(unsafe { snd_pcm_avail(self.0) })
    }

    pub(crate) fn pause(&self, on: bool) -> Result<i64, i32> {
        // SAFETY: the PCM is open.
        answer(unsafe { snd_pcm_pause(self.0, on.into()) }.into())
    }

    pub(crate) fn can_resume(&self) -> bool {
        // SAFETY: a place for the current parameters, on a PCM that is set up.
        unsafe {
            let mut hardware = null_mut();
            snd_pcm_hw_params_malloc(&raw mut hardware);
            let current = snd_pcm_hw_params_current(self.0, hardware);
            let can = current == 0 && snd_pcm_hw_params_can_resume(hardware) == 1;
            snd_pcm_hw_params_free(hardware);
            can
        }
    }

    pub(crate) fn wait(&self) -> Result<i64, i32> {
        // SAFETY: the PCM is open.
        answer(unsafe { snd_pcm_wait(self.0, 10_000) }.into())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened here, closed once.
        unsafe { snd_pcm_close(self.0) };
        self.0 = without_provenance::<snd_pcm_t>(0).cast_mut();
    }
}
