//! Compressed payloads, decoded in order at their turn. A payload occupies the place of as many
//! bytes of samples, so any lengths fit. Missing packets are replaced by copies or concealment.

#[cfg(test)]
mod tests;

use core::ops::Range;

use crate::codec::{Codec, Decode, Opus};
use crate::stream::PTIME_RANGE;
use crate::time::{Frames, MediaTime, Span};
use crate::units::{Channels, Rate};

const SAMPLE: usize = size_of::<f32>();
/// At most one packet begins in this many frames.
const GRAIN: i64 = Codec::MIN_FRAMES.count();

#[derive(Debug, Clone, Copy)]
struct WaitingPayload {
    first: MediaTime,
    frames: u16,
    bytes: u16,
    decoder: u8,
}

impl WaitingPayload {
    const NONE: Self =
        Self { first: MediaTime::from_frames(i64::MIN), frames: 0, bytes: 0, decoder: 0 };
}

impl WaitingPayload {
    fn end(&self) -> MediaTime {
        self.first + Frames::new(self.frames.into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    Sound,
    /// First sound of another encoder.
    Seam,
    Concealed,
}

#[derive(Debug)]
pub(crate) struct CodedPlayout {
    decoders: Box<[Box<dyn Decode>]>,
    channels: Channels,
    bytes: Box<[u8]>,
    /// Per [`GRAIN`].
    waiting: Box<[WaitingPayload]>,
    mask: usize,
    /// For the longest packet: half of the playout.
    samples: Box<[f32]>,
    payload: Box<[u8]>,
    /// Frames before are decoded or replaced.
    done: Option<MediaTime>,
    read: MediaTime,
    behind: bool,
    /// Frames from packets, not played yet.
    fresh: Option<Range<MediaTime>>,
    cursor: MediaTime,
    /// Decoder and length of the last packet.
    last: (usize, Frames),
    /// Uncompressed frames may follow decoded frames that end too early.
    seam: bool,
    run: Frames,
    maximum: Frames,
    /// Maximum distance of a packet with copies.
    ahead: Frames,
    /// Maximum distance behind the cursor for decoding.
    back: Frames,
    reach: Frames,
    end: MediaTime,
    ended: bool,
    undecodable: u64,
}

impl CodedPlayout {
    /// Maximum concealed time, after which decoders have faded out (libopus).
    const CONCEALED: Span = Span::from_millis(60);

    /// Maximum age of copies; older copies cost too many bits.
    const COPIES: Span = Span::from_millis(200);

    /// `ring` is a power of two. Only this function allocates.
    pub(super) fn new(
        rate: Rate,
        channels: Channels,
        ring: usize,
        decoders: Vec<Box<dyn Decode>>,
    ) -> Self {
        let longest = ring / 2 * channels.count();
        Self {
            decoders: decoders.into(),
            channels,
            bytes: vec![0; ring * channels.count() * SAMPLE].into(),
            waiting: vec![WaitingPayload::NONE; (ring / GRAIN as usize).max(1)].into(),
            mask: ring - 1,
            samples: vec![0.0; longest].into(),
            payload: vec![0; longest * SAMPLE].into(),
            done: None,
            read: MediaTime::from_frames(i64::MIN),
            behind: false,
            fresh: None,
            cursor: MediaTime::ZERO,
            last: (0, Frames::ZERO),
            seam: false,
            run: Frames::ZERO,
            maximum: rate.frames_within(Self::CONCEALED),
            ahead: rate.frames_within(Self::COPIES),
            back: rate.frames_within(PTIME_RANGE.1),
            reach: Opus::MAX_FRAMES.min(Frames::from_len(ring / 4)),
            end: MediaTime::from_frames(i64::MIN),
            ended: false,
            undecodable: 0,
        }
    }

    pub(crate) fn reads(&self, codec: Codec) -> bool {
        self.decoder(codec).is_some()
    }

    fn decoder(&self, codec: Codec) -> Option<u8> {
        let found = self.decoders.iter().position(|decoder| decoder.codec().is_read_as(codec))?;
        u8::try_from(found).ok()
    }

    pub(super) fn is_beyond(&self, first: MediaTime) -> bool {
        self.done.is_some() && first < self.read
    }

    pub(super) const fn end(&self) -> MediaTime {
        self.end
    }

    pub(crate) const fn undecodable(&self) -> u64 {
        self.undecodable
    }

    pub(crate) fn take_fresh(&mut self) -> Option<Range<MediaTime>> {
        self.fresh.take()
    }

    /// The caller ensures that its frames fit.
    pub(super) fn keep(&mut self, first: MediaTime, frames: Frames, codec: Codec, payload: &[u8]) {
        let Some(decoder) = self.decoder(codec) else { return };
        let lengths = (u16::try_from(frames.count()), u16::try_from(payload.len()));
        // Longer than any datagram or codec.
        let (Ok(short_frames), Ok(bytes)) = lengths else { return };
        self.make_room(first, frames, payload.len());
        let start = self.byte_of(first);
        let before_wrap = payload.len().min(self.bytes.len() - start);
        let (head, tail) = payload.split_at(before_wrap);
        self.bytes[start..start + head.len()].copy_from_slice(head);
        self.bytes[..tail.len()].copy_from_slice(tail);
        let grain = self.grain(first);
        self.waiting[grain] = WaitingPayload { first, frames: short_frames, bytes, decoder };
        self.end = self.end.max(first + frames);
        self.ended = false;
        self.seam |= codec.delay() > Frames::ZERO;
        self.behind |= self.done.is_some_and(|done| first < done);
    }

    /// Drops waiting payloads that overlap, as at a change of coding.
    fn make_room(&mut self, first: MediaTime, frames: Frames, bytes: usize) {
        let near = first - self.reach..first + frames;
        for ahead in 0..self.grains_of(&near) {
            let grain = self.grain(near.start + Frames::new(ahead * GRAIN));
            let other = self.waiting[grain];
            if other.first == first || !near.contains(&other.first) {
                continue;
            }
            let (apart, taken) = match other.first < first {
                true => (first - other.first, usize::from(other.bytes)),
                false => (other.first - first, bytes),
            };
            if self.channels.samples_in(apart) * SAMPLE < taken {
                self.waiting[grain] = WaitingPayload::NONE;
            }
        }
    }

    /// Decodes up to `until`. Frames before `cursor` are not needed.
    pub(super) fn decode_until(
        &mut self,
        cursor: MediaTime,
        until: MediaTime,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) {
        self.cursor = cursor;
        if self.end <= cursor && (self.done.is_none() || self.run >= self.maximum) {
            self.done = None;
            return;
        }
        // Decode skipped frames for the decoder's state, within limits.
        let mut at = match self.done.filter(|done| *done + self.back >= cursor) {
            Some(done) => done,
            None => {
                self.done = None;
                let Some(first) = self.first_received(cursor, until) else { return };
                // Resets the decoder with the next packet.
                self.last = (usize::MAX, Frames::ZERO);
                (self.run, self.read, self.behind) = (self.maximum, first, false);
                first
            }
        };
        if core::mem::take(&mut self.behind) {
            // Decode late packets for their remaining frames and the decoder's state.
            let from = self.read.max(at - Frames::from_len(self.mask / 2));
            while let Some(late) = self.first_from(from.max(self.read), at) {
                at = at.max(self.decode_packet(&late, lay));
            }
            self.done = Some(at);
        }
        while at < until {
            at = self.decode_next(at, until, lay);
            self.done = Some(at);
        }
    }

    fn decode_next(
        &mut self,
        at: MediaTime,
        until: MediaTime,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) -> MediaTime {
        // The coding changed: an earlier packet ends later.
        let reaches = |waiting: &WaitingPayload| waiting.end() > at;
        let over = || self.all_from(at - self.reach, at).find(reaches);
        match self.at(at).or_else(over) {
            Some(waiting) => self.decode_packet(&waiting, lay),
            None => self.replacement(at, until, lay),
        }
    }

    fn decode_packet(
        &mut self,
        waiting: &WaitingPayload,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) -> MediaTime {
        let (at, frames) = (waiting.first, Frames::new(waiting.frames.into()));
        let len = self.channels.samples_in(frames);
        let decoder = usize::from(waiting.decoder);
        self.gather(waiting);
        let delay = |one: usize| {
            self.decoders.get(one).map_or(Frames::ZERO, |decoder| decoder.codec().delay())
        };
        let (before, delay) = (delay(self.last.0), delay(decoder));
        let (mut kind, mut skipped) = (Decoded::Sound, Frames::ZERO);
        if decoder != self.last.0 {
            if before.max(delay) > Frames::ZERO {
                kind = Decoded::Seam;
            }
            self.decoders[decoder].reset();
        } else if at < self.read && delay > Frames::ZERO {
            // Packets of one encoder do not overlap. Play the other encoder from the end of the
            // previous sound.
            (kind, skipped) = (Decoded::Seam, (self.read + delay - at).min(frames));
        }
        (self.last, self.read) = ((decoder, frames), at + frames);
        let payload = &self.payload[..usize::from(waiting.bytes)];
        match self.decoders[decoder].decode(payload, &mut self.samples[..len]) {
            Ok(()) => {
                self.run = Frames::ZERO;
                self.note_fresh(at + skipped..at + frames);
                let from = self.channels.samples_in(skipped);
                lay(at + skipped, &self.samples[from..len], kind);
            }
            Err(_) => {
                self.undecodable += 1;
                self.conceal(at, frames, lay);
            }
        }
        at + frames
    }

    fn replacement(
        &mut self,
        at: MediaTime,
        until: MediaTime,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) -> MediaTime {
        let (decoder, packet) = self.last;
        let packet = if packet > Frames::ZERO { packet } else { Codec::MIN_FRAMES };
        let known = (at + self.ahead).min(self.end).max(until + packet);
        let next = self.first_from(at + Frames::new(1), known);
        let hole = next.map_or(packet, |next| next.first - at);
        let piece = hole.min(packet);
        if let Some(next) = next.filter(|next| usize::from(next.decoder) == decoder) {
            self.gather(&next);
            let payload = &self.payload[..usize::from(next.bytes)];
            let len = self.channels.samples_in(piece);
            if self.decoders[decoder].recover(payload, hole - piece, &mut self.samples[..len]) {
                (self.run, self.read) = (Frames::ZERO, at + piece);
                self.note_fresh(at..at + piece);
                lay(at, &self.samples[..len], Decoded::Sound);
                return at + piece;
            }
        }
        self.conceal(at, piece, lay);
        at + piece
    }

    fn conceal(
        &mut self,
        at: MediaTime,
        frames: Frames,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) {
        if self.ended || self.run >= self.maximum {
            return;
        }
        self.run += frames;
        let len = self.channels.samples_in(frames);
        let out = &mut self.samples[..len];
        if self.decoders.get_mut(self.last.0).is_some_and(|decoder| decoder.conceal(out)) {
            lay(at, &self.samples[..len], Decoded::Concealed);
        }
    }

    /// Whether an uncompressed packet follows decoded packets with a gap.
    pub(super) fn take_seam(&mut self) -> bool {
        core::mem::take(&mut self.seam)
    }

    fn note_fresh(&mut self, frames: Range<MediaTime>) {
        let frames = frames.start.max(self.cursor)..frames.end;
        if frames.is_empty() {
            return;
        }
        self.fresh = Some(match self.fresh.take() {
            Some(fresh) if fresh.end == frames.start => fresh.start..frames.end,
            _ => frames,
        });
    }

    fn gather(&mut self, waiting: &WaitingPayload) {
        let (start, len) = (self.byte_of(waiting.first), usize::from(waiting.bytes));
        let before_wrap = len.min(self.bytes.len() - start);
        let (head, tail) = self.payload[..len].split_at_mut(before_wrap);
        head.copy_from_slice(&self.bytes[start..start + head.len()]);
        tail.copy_from_slice(&self.bytes[..tail.len()]);
    }

    fn at(&self, first: MediaTime) -> Option<WaitingPayload> {
        Some(self.waiting[self.grain(first)]).filter(|waiting| waiting.first == first)
    }

    fn first_from(&self, from: MediaTime, until: MediaTime) -> Option<WaitingPayload> {
        self.all_from(from, until).next()
    }

    fn all_from(
        &self,
        from: MediaTime,
        until: MediaTime,
    ) -> impl Iterator<Item = WaitingPayload> + '_ {
        let range = from..until;
        (0..self.grains_of(&range))
            .map(move |ahead| self.waiting[self.grain(from + Frames::new(ahead * GRAIN))])
            .filter(move |waiting| range.contains(&waiting.first))
    }

    fn grains_of(&self, frames: &Range<MediaTime>) -> i64 {
        let grains = (frames.end - frames.start).count().max(0) / GRAIN + 2;
        grains.min(self.waiting.len() as i64)
    }

    /// One packet before the cursor if available, for the decoder's state.
    fn first_received(&self, cursor: MediaTime, until: MediaTime) -> Option<MediaTime> {
        let (mut from, mut before) = (cursor - self.reach, None);
        loop {
            let next = self.first_from(from, until)?;
            if next.end() > cursor {
                return Some(
                    before.filter(|(_, end)| *end == next.first).map_or(next.first, |(b, _)| b),
                );
            }
            (from, before) = (next.first + Codec::MIN_FRAMES, Some((next.first, next.end())));
        }
    }

    /// Ends concealment.
    pub(super) const fn end_source(&mut self) {
        self.ended = true;
    }

    /// Restarts after a move back beyond the history.
    pub(super) fn rewind(&mut self) {
        let received = self.waiting.iter_mut().filter(|waiting| waiting.first < self.read);
        received.for_each(|waiting| *waiting = WaitingPayload::NONE);
        (self.done, self.behind) = (None, false);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.fill(WaitingPayload::NONE);
        (self.done, self.fresh) = (None, None);
        (self.end, self.ended) = (MediaTime::from_frames(i64::MIN), false);
    }

    fn byte_of(&self, media: MediaTime) -> usize {
        (media.as_frames() as usize & self.mask) * self.channels.count() * SAMPLE
    }

    fn grain(&self, media: MediaTime) -> usize {
        (media.as_frames() as usize & self.mask) / GRAIN as usize % self.waiting.len()
    }

    pub(super) fn reaches(&self, frame: MediaTime) -> bool {
        frame < self.end && self.done.is_some()
    }
}
