//! Frame transfer between the application's memory and the buffer.

use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, MediaTime};

use super::{Application, Pcm, View};
use crate::areas::Areas;
use crate::complaint::Complaint;
use crate::samples::SampleCoding;
use crate::stream::{SoundEnd, Stream};

pub(super) const CHUNK: usize = 256;

impl Pcm {
    pub(crate) fn transfer(
        &mut self,
        view: &View,
        areas: &Areas<'_>,
        offset: u64,
        size: usize,
    ) -> Result<usize, Complaint> {
        self.follow(view);
        self.stream()?;
        let moved = match self.direction {
            Direction::Playback => self.write(areas, size),
            Direction::Capture => self.read(self.mapped_at(view, offset), areas, size),
        };
        // ALSA moves the application's pointer when this returns.
        let Application { position, pointer } = self.application;
        if !(view.mapped && self.direction == Direction::Capture) {
            let position = position + Frames::from_len(moved);
            let pointer = (pointer + moved as u64) % self.software.boundary.as_len() as u64;
            self.application = Application { position, pointer };
        }
        self.arm();
        Ok(moved)
    }

    fn mapped_at(&self, view: &View, offset: u64) -> MediaTime {
        let Application { position, pointer } = self.application;
        let Some(hardware) = self.hardware.filter(|_| view.mapped) else { return position };
        let buffer = hardware.buffer.as_len() as u64;
        position + Frames::from_len(((offset + buffer - pointer % buffer) % buffer) as usize)
    }

    fn write(&mut self, areas: &Areas<'_>, size: usize) -> usize {
        let at = self.application.position;
        // The card has passed earlier positions.
        let left_out = self.moved.max(self.reported);
        self.put(left_out, (at - left_out).max(Frames::ZERO).as_len(), |_, _, samples| {
            samples.fill(0.0)
        });
        let coding = self.hardware.map_or(SampleCoding::S16, |hardware| hardware.samples);
        self.put(at, size, |frame, bytes, samples| {
            areas.gather(frame, bytes);
            coding.decode(bytes, samples);
        });
        let end = at + Frames::from_len(size);
        self.moved = self.moved.max(end);
        self.set_end(end);
        size
    }

    fn put(
        &mut self,
        position: MediaTime,
        frames: usize,
        mut make: impl FnMut(usize, &mut [u8], &mut [f32]),
    ) {
        let Some(hardware) = self.hardware else { return };
        let Some(Stream { held: SoundEnd::Playing(track), .. }) = &self.stream else { return };
        let channels = hardware.channels.count();
        for first in (0..frames).step_by(CHUNK) {
            let samples = CHUNK.min(frames - first) * channels;
            let bytes = &mut self.bytes[..samples * hardware.samples.bytes()];
            let samples = &mut self.samples[..samples];
            make(first, bytes, samples);
            track.put(position + Frames::from_len(first), samples);
        }
    }

    /// Repeated frames come from the last buffer; skipped frames are dropped.
    fn read(&mut self, at: MediaTime, areas: &Areas<'_>, size: usize) -> usize {
        self.drop_older();
        let left_out = (at - self.moved).max(Frames::ZERO).as_len();
        let _ = self.pull(left_out, |_, _, _| {});
        let again = (self.moved - at).max(Frames::ZERO).as_len().min(size);
        self.repeat(at, again, areas);
        let coding = self.hardware.map_or(SampleCoding::S16, |hardware| hardware.samples);
        again
            + self.pull(size - again, |frame, bytes, samples| {
                coding.encode(samples, bytes);
                areas.scatter(again + frame, bytes);
            })
    }

    fn repeat(&mut self, at: MediaTime, frames: usize, areas: &Areas<'_>) {
        let Some(hardware) = self.hardware else { return };
        let channels = hardware.channels.count();
        let bytes = &mut self.bytes[..channels * hardware.samples.bytes()];
        for frame in 0..frames {
            let place = hardware.place(at + Frames::from_len(frame));
            hardware.samples.encode(&self.read[place..place + channels], bytes);
            areas.scatter(frame, bytes);
        }
    }

    pub(super) fn drop_older(&mut self) {
        let origin = self.standing().map_or(0, |standing| standing.origin);
        let older = origin.saturating_add(self.moved.as_frames() as u64).saturating_sub(self.ever);
        let dropped = self.pull(older as usize, |_, _, _| {});
        self.moved = self.moved - Frames::from_len(dropped);
    }

    /// `take` gets each chunk with its first frame.
    fn pull(&mut self, frames: usize, mut take: impl FnMut(usize, &mut [u8], &[f32])) -> usize {
        let Some((stream, hardware)) = self.stream.as_mut().zip(self.hardware) else { return 0 };
        let SoundEnd::Recording(ring) = &mut stream.held else { return 0 };
        let channels = hardware.channels.count();
        let frames = frames.min(ring.frames());
        for first in (0..frames).step_by(CHUNK) {
            let samples = CHUNK.min(frames - first) * channels;
            let bytes = &mut self.bytes[..samples * hardware.samples.bytes()];
            let samples = &mut self.samples[..samples];
            ring.take(samples);
            for (index, frame) in samples.chunks_exact(channels).enumerate() {
                let place = hardware.place(self.moved + Frames::from_len(first + index));
                self.read[place..place + channels].copy_from_slice(frame);
            }
            take(first, bytes, samples);
        }
        self.moved += Frames::from_len(frames);
        self.ever += frames as u64;
        frames
    }
}
