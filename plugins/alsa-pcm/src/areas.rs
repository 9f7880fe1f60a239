use core::ffi::c_ulong;

use alsa_sys::snd_pcm_channel_area_t;

pub(crate) struct Areas<'a> {
    channels: &'a [snd_pcm_channel_area_t],
    offset: usize,
    sample: usize,
}

impl<'a> Areas<'a> {
    /// # Safety
    /// `areas` are `channels` areas with samples of `sample` bytes from `offset` on. They hold all
    /// requested frames, stay valid, and have no other users.
    pub(crate) unsafe fn new(
        areas: *const snd_pcm_channel_area_t,
        channels: usize,
        offset: c_ulong,
        sample: usize,
    ) -> Self {
        // SAFETY: the caller guarantees `channels` areas, unchanged during `'a`.
        let channels = unsafe { core::slice::from_raw_parts(areas, channels) };
        Self { channels, offset: offset as usize, sample }
    }

    fn place(&self, area: &snd_pcm_channel_area_t, frame: usize) -> *mut u8 {
        let bits = area.first as usize + (self.offset + frame) * area.step as usize;
        area.addr.cast::<u8>().wrapping_add(bits / 8)
    }

    fn is_interleaved(&self) -> bool {
        let frame = self.channels.len() * self.sample * 8;
        let first = self.channels[0];
        let in_line = |(number, area): (usize, &snd_pcm_channel_area_t)| {
            area.addr == first.addr
                && area.step as usize == frame
                && area.first as usize == first.first as usize + number * self.sample * 8
        };
        self.channels.iter().enumerate().all(in_line)
    }

    pub(crate) fn gather(&self, from: usize, bytes: &mut [u8]) {
        if self.is_interleaved() {
            let start = self.place(&self.channels[0], from);
            // SAFETY: the caller of `new` guarantees these frames; they are contiguous.
            unsafe { core::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), bytes.len()) };
            return;
        }
        let frame = self.channels.len() * self.sample;
        for (number, out) in bytes.chunks_exact_mut(frame).enumerate() {
            for (area, out) in self.channels.iter().zip(out.chunks_exact_mut(self.sample)) {
                let start = self.place(area, from + number);
                // SAFETY: a sample that the caller of `new` guarantees.
                unsafe { core::ptr::copy_nonoverlapping(start, out.as_mut_ptr(), self.sample) };
            }
        }
    }

    pub(crate) fn scatter(&self, from: usize, bytes: &[u8]) {
        if self.is_interleaved() {
            let start = self.place(&self.channels[0], from);
            // SAFETY: the caller of `new` guarantees exclusive, contiguous frames; `bytes` is our
            // own memory.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
            return;
        }
        let frame = self.channels.len() * self.sample;
        for (number, held) in bytes.chunks_exact(frame).enumerate() {
            for (area, held) in self.channels.iter().zip(held.chunks_exact(self.sample)) {
                let start = self.place(area, from + number);
                // SAFETY: the caller of `new` guarantees an exclusive sample; `held` is as long,
                // and our own memory.
                unsafe { core::ptr::copy_nonoverlapping(held.as_ptr(), start, self.sample) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(memory: &mut [u8], first: u32, step: u32) -> snd_pcm_channel_area_t {
        snd_pcm_channel_area_t { addr: memory.as_mut_ptr().cast(), first, step }
    }

    #[test]
    fn interleaved_frames_are_copied_from_the_offset_on() {
        let mut memory: Vec<u8> = (0..16).collect();
        let areas = [area(&mut memory, 0, 32), area(&mut memory, 16, 32)];
        // SAFETY: `areas` has two channels of 16 bits. The first frame is skipped.
        let areas = unsafe { Areas::new(areas.as_ptr(), 2, 1, 2) };
        let mut bytes = [0; 8];
        areas.gather(1, &mut bytes);
        assert_eq!(bytes, [8, 9, 10, 11, 12, 13, 14, 15]);
        areas.scatter(0, &[50, 51, 52, 53]);
        assert_eq!(memory[3..9], [3, 50, 51, 52, 53, 8]);
    }

    #[test]
    fn channels_that_lie_apart_are_interleaved_on_the_way() {
        let (mut left, mut right) = ([1, 2, 3, 4], [5, 6, 7, 8]);
        let areas = [area(&mut left, 0, 16), area(&mut right, 0, 16)];
        // SAFETY: `areas` has two channels of 16 bits with two frames each.
        let areas = unsafe { Areas::new(areas.as_ptr(), 2, 0, 2) };
        let mut bytes = [0; 8];
        areas.gather(0, &mut bytes);
        assert_eq!(bytes, [1, 2, 5, 6, 3, 4, 7, 8]);
        areas.scatter(1, &[9, 10, 11, 12]);
        assert_eq!((left, right), ([1, 2, 9, 10], [5, 6, 11, 12]));
    }
}
