//! Payloads that wait for their turn as they came, and what decodes them then, in order.
//!
//! They are addressed by media time, as frames are: a payload lies where as many bytes of decoded samples would,
//! so that room for frames is room for payloads of any length, and none can take another's. What is decoded is the
//! next packet, or what stands for it: what the one after it carries, or what the decoder makes of those before.

#[cfg(test)]
mod tests;

use core::ops::Range;

use crate::codec::{Codec, Decode, Opus};
use crate::stream::PTIME_RANGE;
use crate::time::{Frames, MediaTime, Span};
use crate::units::{Channels, Rate};

/// Bytes of a decoded sample.
const SAMPLE: usize = size_of::<f32>();
/// No two packets begin in so many frames: none has fewer ([`Codec::LEAST_FRAMES`]).
const GRAIN: i64 = Codec::LEAST_FRAMES.count();

/// A payload that waits.
#[derive(Debug, Clone, Copy)]
struct WaitingPayload {
    first: MediaTime,
    frames: u16,
    bytes: u16,
    /// Which decoder reads it.
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

/// What frames that were decoded are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    /// Those of a packet, be it by way of another.
    Sound,
    /// The same of the first of a coding: they do not follow what was before.
    Seam,
    /// What the decoder made of the packets before.
    Concealed,
}

/// What waits, and what decodes it.
#[derive(Debug)]
pub(crate) struct CodedPlayout {
    decoders: Box<[Box<dyn Decode>]>,
    channels: Channels,
    /// Payloads, each from where its first frame lies.
    bytes: Box<[u8]>,
    /// What begins in which [`GRAIN`].
    waiting: Box<[WaitingPayload]>,
    /// Frames of the ring less one.
    mask: usize,
    /// Room for the frames of the longest packet: half of what the playout holds.
    samples: Box<[f32]>,
    /// Room for a payload that lies in two parts, and the one after it.
    payload: Box<[u8]>,
    /// All before this frame was decoded, or something stands for it.
    done: Option<MediaTime>,
    /// The end of the last packet that was decoded: none before is.
    read: MediaTime,
    /// Whether a packet came for which something stands already.
    behind: bool,
    /// What the last block had decoded of packets, of what is still to be heard.
    fresh: Option<Range<MediaTime>>,
    /// The first frame of that block.
    cursor: MediaTime,
    /// The decoder of the last packet, and its length.
    last: (usize, Frames),
    /// Whether decoded frames that lack some of the sound are followed by others.
    seam: bool,
    /// What was concealed in a row.
    run: Frames,
    /// No more than this is.
    most: Frames,
    /// How far after a lost frame a packet is searched for copies of it.
    ahead: Frames,
    /// What lies further back than this when its turn comes is not decoded.
    back: Frames,
    /// No packet that is sought by what it holds begins sooner before that.
    reach: Frames,
    /// The end of what came.
    end: MediaTime,
    /// The source has ended.
    ended: bool,
    /// Payloads that were none.
    undecodable: u64,
}

impl CodedPlayout {
    /// After this long a decoder has nothing left that sounds like what was: libopus has faded out by then.
    const CONCEALED: Span = Span::from_millis(60);

    /// Copies of sound that is further back than this cost more bits than they are worth.
    const COPIES: Span = Span::from_millis(200);

    /// Room for what a playout of so many frames holds, a power of two. Allocates; nothing later does.
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
            most: rate.frames_within(Self::CONCEALED),
            ahead: rate.frames_within(Self::COPIES),
            back: rate.frames_within(PTIME_RANGE.1),
            reach: Opus::MOST_FRAMES.min(Frames::from_len(ring / 4)),
            end: MediaTime::from_frames(i64::MIN),
            ended: false,
            undecodable: 0,
        }
    }

    /// Whether any decoder reads what that coder wrote.
    pub(crate) fn reads(&self, coder: Codec) -> bool {
        self.decoder(coder).is_some()
    }

    fn decoder(&self, coder: Codec) -> Option<u8> {
        let found = self.decoders.iter().position(|decoder| decoder.coder().is_read_as(coder))?;
        u8::try_from(found).ok()
    }

    /// Whether a packet of these frames comes when the decoder is beyond it: one after it was decoded.
    pub(super) fn is_beyond(&self, first: MediaTime) -> bool {
        self.done.is_some() && first < self.read
    }

    /// The end of what came.
    pub(super) const fn end(&self) -> MediaTime {
        self.end
    }

    /// Payloads that were none, so far.
    pub(crate) const fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// What the last block had decoded of packets, from the first frame to the last.
    pub(crate) fn take_fresh(&mut self) -> Option<Range<MediaTime>> {
        self.fresh.take()
    }

    /// Keeps a payload of so many frames until its turn. The caller knows that they fit.
    pub(super) fn keep(&mut self, first: MediaTime, frames: Frames, coder: Codec, payload: &[u8]) {
        let Some(decoder) = self.decoder(coder) else { return };
        let lengths = (u16::try_from(frames.count()), u16::try_from(payload.len()));
        // No datagram is longer, and no codec has packets of so many frames.
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
        self.seam |= coder.delay() > Frames::ZERO;
        self.behind |= self.done.is_some_and(|done| first < done);
    }

    /// Drops what waits where these bytes are to lie: packets that overlap, as those before and after a change of
    /// coding do, may share some.
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

    /// Decodes what is needed for all frames before `until` to be there, of which those before `cursor` are not
    /// needed any more; gives each run of frames to `lay`.
    pub(super) fn decode_until(
        &mut self,
        cursor: MediaTime,
        until: MediaTime,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) {
        self.cursor = cursor;
        if self.end <= cursor && (self.done.is_none() || self.run >= self.most) {
            // Nothing waits, as it is in all streams that are not coded.
            self.done = None;
            return;
        }
        // What a card left out is decoded, so that the decoder knows it, unless it is too much for one block.
        let mut at = match self.done.filter(|done| *done + self.back >= cursor) {
            Some(done) => done,
            None => {
                self.done = None;
                let Some(first) = self.first_heard(cursor, until) else { return };
                // Whichever is next begins with a reset.
                self.last = (usize::MAX, Frames::ZERO);
                (self.run, self.read, self.behind) = (self.most, first, false);
                first
            }
        };
        if core::mem::take(&mut self.behind) {
            // Of what something stands for already the rest is heard, and the decoder knows it.
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

    /// Decodes what begins at `at`, or what stands for it; where that ends.
    fn decode_next(
        &mut self,
        at: MediaTime,
        until: MediaTime,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) -> MediaTime {
        // What begins sooner and ends later overlaps the one before: the coding changed.
        let reaches = |waiting: &WaitingPayload| waiting.end() > at;
        let over = || self.all_from(at - self.reach, at).find(reaches);
        match self.at(at).or_else(over) {
            Some(waiting) => self.decode_packet(&waiting, lay),
            None => self.stand_in(at, until, lay),
        }
    }

    /// Decodes a packet; where it ends.
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
            self.decoders.get(one).map_or(Frames::ZERO, |decoder| decoder.coder().delay())
        };
        let (before, delay) = (delay(self.last.0), delay(decoder));
        let (mut kind, mut skipped) = (Decoded::Sound, Frames::ZERO);
        if decoder != self.last.0 {
            if before.max(delay) > Frames::ZERO {
                kind = Decoded::Seam;
            }
            self.decoders[decoder].reset();
        } else if at < self.read && delay > Frames::ZERO {
            // Packets of one encoder do not overlap: another began where the sound of the one before ends.
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

    /// Lays what stands for frames that did not come; where that ends.
    fn stand_in(
        &mut self,
        at: MediaTime,
        until: MediaTime,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) -> MediaTime {
        let (decoder, packet) = self.last;
        let packet = if packet > Frames::ZERO { packet } else { Codec::LEAST_FRAMES };
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

    /// Lays what the last decoder has in place of frames that are not there, if it has anything.
    fn conceal(
        &mut self,
        at: MediaTime,
        frames: Frames,
        lay: &mut impl FnMut(MediaTime, &[f32], Decoded),
    ) {
        if self.ended || self.run >= self.most {
            return;
        }
        self.run += frames;
        let len = self.channels.samples_in(frames);
        let out = &mut self.samples[..len];
        if self.decoders.get_mut(self.last.0).is_some_and(|decoder| decoder.conceal(out)) {
            lay(at, &self.samples[..len], Decoded::Concealed);
        }
    }

    /// Whether frames that need no decoder are the first after decoded ones that do not lead up to them.
    pub(super) fn take_seam(&mut self) -> bool {
        core::mem::take(&mut self.seam)
    }

    fn note_fresh(&mut self, frames: Range<MediaTime>) {
        // What is before is not laid.
        let frames = frames.start.max(self.cursor)..frames.end;
        if frames.is_empty() {
            return;
        }
        self.fresh = Some(match self.fresh.take() {
            Some(fresh) if fresh.end == frames.start => fresh.start..frames.end,
            _ => frames,
        });
    }

    /// The payload in one piece.
    fn gather(&mut self, waiting: &WaitingPayload) {
        let (start, len) = (self.byte_of(waiting.first), usize::from(waiting.bytes));
        let before_wrap = len.min(self.bytes.len() - start);
        let (head, tail) = self.payload[..len].split_at_mut(before_wrap);
        head.copy_from_slice(&self.bytes[start..start + head.len()]);
        tail.copy_from_slice(&self.bytes[..tail.len()]);
    }

    /// The packet that begins there.
    fn at(&self, first: MediaTime) -> Option<WaitingPayload> {
        Some(self.waiting[self.grain(first)]).filter(|waiting| waiting.first == first)
    }

    /// The first packet that begins from `from` on, and before `until`.
    fn first_from(&self, from: MediaTime, until: MediaTime) -> Option<WaitingPayload> {
        self.all_from(from, until).next()
    }

    /// The packets that begin from `from` on, and before `until`, in their order.
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

    /// How many grains these frames lie in, of those that there are.
    fn grains_of(&self, frames: &Range<MediaTime>) -> i64 {
        let grains = (frames.end - frames.start).count().max(0) / GRAIN + 2;
        grains.min(self.waiting.len() as i64)
    }

    /// Where to begin, for the frames from `cursor` to `until`: one packet before what is heard, if that is there, so that
    /// the decoder has found its way by then.
    fn first_heard(&self, cursor: MediaTime, until: MediaTime) -> Option<MediaTime> {
        let (mut from, mut before) = (cursor - self.reach, None);
        loop {
            let next = self.first_from(from, until)?;
            if next.end() > cursor {
                return Some(
                    before.filter(|(_, end)| *end == next.first).map_or(next.first, |(b, _)| b),
                );
            }
            (from, before) = (next.first + Codec::LEAST_FRAMES, Some((next.first, next.end())));
        }
    }

    /// The source has ended: nothing is concealed from now on.
    pub(super) const fn end_source(&mut self) {
        self.ended = true;
    }

    /// What is heard next lies further back than what is kept of the past: it is found anew.
    pub(super) fn rewind(&mut self) {
        // What was heard is not heard again in the place of what does not come.
        let heard = self.waiting.iter_mut().filter(|waiting| waiting.first < self.read);
        heard.for_each(|waiting| *waiting = WaitingPayload::NONE);
        (self.done, self.behind) = (None, false);
    }

    /// Forgets all that waits: another stream begins.
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

    /// Whether a packet that waits reaches this frame.
    pub(super) fn reaches(&self, frame: MediaTime) -> bool {
        frame < self.end && self.done.is_some()
    }
}
