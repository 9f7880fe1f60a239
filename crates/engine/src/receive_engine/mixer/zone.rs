//! Gains of a zone on the device thread: applies the arbiter's curves, reports received sound.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_proto::time::{LocalTime, WallTime};
use tautline_proto::zone::{GainCurve, ZoneGains};

use super::{MixerInput, Succession, apply_curve};
use crate::control::VOLUME_RAMP;
use crate::plan::zone::VolumeControl;

/// Received sound of announcement stream `ssrc`, up to presentation time `until` on the station's
/// clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnnouncedSound {
    pub(crate) ssrc: u32,
    pub(crate) until: WallTime,
}

pub(crate) struct ZoneMix {
    coming: Consumer<ZoneGains>,
    gains: ZoneGains,
    sound: Producer<AnnouncedSound>,
    volumes: VolumeControl,
}

impl ZoneMix {
    pub(crate) const fn new(
        coming: Consumer<ZoneGains>,
        sound: Producer<AnnouncedSound>,
        volumes: VolumeControl,
    ) -> Self {
        Self { coming, gains: ZoneGains::IDLE, sound, volumes }
    }

    /// Not inlined: that would slow receivers without a zone.
    #[cold]
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        inputs: &mut [MixerInput],
        succession: &mut Succession,
        meets: LocalTime,
    ) {
        if !self.coming.is_empty() {
            self.take_gains();
        }
        let emergency = self.gains.emergency.gain_at(meets) != Gain::SILENCE;
        let volumes = self.volumes.volumes();
        for successor in succession.successors().iter_mut().flatten() {
            successor.input.gain = volumes.program;
        }
        for input in inputs {
            let gain = match input.announces {
                None => volumes.program,
                Some(_) if emergency => volumes.emergency,
                Some(_) => volumes.announcement,
            };
            if input.gain != gain {
                input.gain = gain;
                // Only sound needs a ramp. The first frames of a page need their volume.
                if !input.alive {
                    input.volume = Volume::over(gain, VOLUME_RAMP);
                }
            }
            let Some(reported) = &mut input.announces else { continue };
            let Some(source) = input.receiver.source() else { continue };
            let placement = input.receiver.placement();
            let until = placement.presentation(source.end()).and_then(|at| placement.wall(at));
            let Some(until) = until else { continue };
            let sound = AnnouncedSound { ssrc: source.stream().ssrc(), until };
            // If the ring is full, a later period reports the sound.
            if until != *reported && self.sound.push(sound).is_ok() {
                *reported = until;
            }
        }
    }

    /// Not inlined: every period would touch 4 kB of stack.
    #[cold]
    #[inline(never)]
    fn take_gains(&mut self) {
        while let Ok(gains) = self.coming.pop() {
            self.gains = gains;
        }
    }

    /// Announcements that another announcement displaced are received, but not resampled.
    #[cold]
    #[inline(never)]
    pub(super) fn set_silent(&self, input: &mut MixerInput, first: LocalTime) {
        if input.announces.is_some() {
            let curve = self.curves(input).map(|(curve, _)| curve);
            let silent = |curve: &GainCurve| curve.settled_at(first) == Some(Gain::SILENCE);
            input.receiver.set_silent(curve.is_none_or(silent));
        }
    }

    /// Applies the gains of `input` to frames that are presented from `first` on. Returns whether
    /// they are audible.
    #[cold]
    #[inline(never)]
    pub(super) fn shape(&self, input: &MixerInput, frames: &mut [f32], first: LocalTime) -> bool {
        let Some((curve, mute)) = self.curves(input) else {
            frames.fill(0.0);
            return false;
        };
        [Some(curve), mute]
            .into_iter()
            .flatten()
            .all(|curve| apply_curve(curve, input, frames, first))
    }

    /// Gain of `input`, and the mute if `input` is subject to it.
    fn curves(&self, input: &MixerInput) -> Option<(&GainCurve, Option<&GainCurve>)> {
        let ZoneGains { duck, mute, .. } = &self.gains;
        if input.announces.is_none() {
            return Some((duck, Some(mute)));
        }
        let announced = self.gains.announced(input.receiver.source()?.stream().ssrc())?;
        Some((&announced.curve, announced.is_muted.then_some(mute)))
    }
}
