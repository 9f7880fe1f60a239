//! Receiving side: rebuilds lost payloads.

use super::encoder::field_words;
use super::equations::{Equations, NUMBERS};
use super::repair_data;
use super::{MAX_PAYLOAD, MAX_WINDOW, PayloadKind, ROW, field};
use crate::packet::Carried;

/// Rebuilds lost packets of one source. Costs nothing without repair data.
#[derive(Debug)]
pub struct Repairer {
    history: Box<[u64]>,
    known: [bool; NUMBERS],
    newest: Option<i64>,
    kind: PayloadKind,
    words: usize,
    equations: Equations,
    /// Maximum distance covered, and the last packet that covered this distance.
    reach: (u8, i64),
    /// Rebuilt payloads to pull.
    rebuilt: [i64; NUMBERS],
    waiting: usize,
    room: Box<[u8]>,
}

/// Invalid repair data, skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl Repairer {
    /// Whether no packet carried repair data yet.
    pub const fn is_idle(&self) -> bool {
        self.newest.is_none()
    }

    /// Resets the state for another source or a restart.
    pub const fn reset(&mut self) {
        self.newest = None;
        self.waiting = 0;
        self.reach = (0, 0);
    }

    /// Adds a packet: unwrapped number, payload type, payload, repair data. Then call
    /// [`Self::pull`].
    pub fn accept(
        &mut self,
        sequence: i64,
        payload_type: u8,
        payload: &[u8],
        carried: Option<Carried<'_>>,
    ) -> Result<(), Damaged> {
        if carried.is_none() && self.accept_next(sequence, payload_type, payload) {
            return Ok(());
        }
        let kind = PayloadKind { payload_type, bytes: payload.len() };
        let Some(newest) = self.newest.or_else(|| carried.map(|_| sequence - 1)) else {
            return Ok(());
        };
        if payload.is_empty() || payload.len() > MAX_PAYLOAD {
            return if carried.is_some() { Err(Damaged) } else { Ok(()) };
        }
        let old = sequence <= newest;
        let begins = self.newest.is_none() || (kind != self.kind && !old);
        if (old && kind != self.kind) || sequence <= newest - (NUMBERS - MAX_WINDOW) as i64 {
            return Ok(());
        }
        if begins || sequence - newest >= NUMBERS as i64 {
            self.begin(kind);
        } else {
            (newest + 1..=sequence).for_each(|next| self.make_room(next));
        }
        let newest = newest.max(sequence);
        self.newest = Some(newest);
        self.keep(sequence, payload, newest);
        let answer = carried.map_or(Ok(()), |carried| self.learn(sequence, carried, newest));
        self.collect(newest);
        answer
    }

    /// Fast path: the next packet without repair data or losses. Returns `false` for other packets.
    // Two callers: a call would take 20 instructions more.
    #[inline(always)]
    pub(crate) fn accept_next(&mut self, sequence: i64, payload_type: u8, payload: &[u8]) -> bool {
        if self.is_idle() {
            return true;
        }
        let kind = PayloadKind { payload_type, bytes: payload.len() };
        let next = self.is_next(sequence, kind);
        if next && self.equations.is_empty() {
            self.newest = Some(sequence);
            self.known[number(sequence)] = true;
            field::load_whole(&mut self.history[place(sequence)][..self.words], payload);
            return true;
        }
        false
    }

    /// Packets that may repair an earlier one: the maximum distance covered, until [`MAX_WINDOW`]
    /// packets in a row covered less. After lost card frames, repair data starts short.
    pub fn window(&self) -> usize {
        self.reach.0.into()
    }

    pub(crate) const fn has_rebuilt(&self) -> bool {
        self.waiting > 0
    }

    /// Next rebuilt payload and its number; call until `None`.
    pub fn pull(&mut self) -> Option<(i64, &[u8])> {
        self.waiting = self.waiting.checked_sub(1)?;
        let sequence = self.rebuilt[self.waiting];
        let payload = &mut self.room[..self.kind.bytes];
        field::store(&self.history[place(sequence)], payload);
        Some((sequence, payload))
    }

    fn is_next(&self, sequence: i64, kind: PayloadKind) -> bool {
        self.newest == Some(sequence - 1) && kind == self.kind
    }

    fn begin(&mut self, kind: PayloadKind) {
        (self.kind, self.words) = (kind, field_words(kind.bytes));
        self.known = [false; NUMBERS];
        self.equations.clear(self.words);
    }

    fn make_room(&mut self, next: i64) {
        self.known[number(next)] = false;
        self.equations.forget(number(next));
    }

    fn keep(&mut self, sequence: i64, payload: &[u8], newest: i64) {
        let number_of = number(sequence);
        if self.known[number_of] {
            return;
        }
        self.known[number_of] = true;
        // The rest of the row is not part of any sum.
        let row = &mut self.history[place(sequence)][..self.words];
        field::load_whole(row, payload);
        if !self.equations.is_empty() {
            self.equations.resolve(number_of, row, number(newest));
        }
    }

    fn learn(&mut self, carrier: i64, carried: Carried<'_>, newest: i64) -> Result<(), Damaged> {
        let Self { history, known, equations, room, reach, .. } = self;
        let repair_data = carried.gather(room).ok_or(Damaged)?;
        let symbols = repair_data::read(repair_data, self.kind.bytes).ok_or(Damaged)?;
        let words = self.words;
        if carrier - reach.1 > MAX_WINDOW as i64 {
            *reach = (0, carrier);
        }
        for (symbol, bytes) in symbols {
            if symbol.oldest >= reach.0 {
                *reach = (symbol.oldest, carrier);
            }
            let covered = symbol.covered(carrier);
            if covered.clone().all(|sequence| known[number(sequence)]) {
                continue;
            }
            equations.begin(bytes);
            let (arrived, lacking) =
                (|sequence: &i64| known[number(*sequence)], |s: &i64| !known[number(*s)]);
            for sequence in covered.clone().filter(lacking) {
                equations.add_unknown(number(sequence), symbol.factor(sequence));
            }
            equations.add_known(
                covered
                    .filter(arrived)
                    .map(|sequence| (symbol.factor(sequence), &history[place(sequence)][..words])),
            );
            equations.take_in(number(newest));
        }
        Ok(())
    }

    fn collect(&mut self, newest: i64) {
        if self.equations.is_empty() {
            return;
        }
        let mut payload = [0; ROW];
        while let Some(solved) = self.equations.solved(&mut payload) {
            let behind = (number(newest) + NUMBERS - solved) % NUMBERS;
            let sequence = newest - behind as i64;
            self.known[solved] = true;
            self.history[place(sequence)].copy_from_slice(&payload);
            if self.waiting < NUMBERS {
                self.rebuilt[self.waiting] = sequence;
                self.waiting += 1;
            }
        }
    }
}

impl Default for Repairer {
    /// Allocates; nothing later does. Writes the large parts so that the system provides their
    /// pages.
    fn default() -> Self {
        Self {
            history: vec![u64::MAX; NUMBERS * ROW].into(),
            known: [false; NUMBERS],
            newest: None,
            kind: PayloadKind::default(),
            words: 0,
            equations: Equations::new(),
            reach: (0, 0),
            rebuilt: [0; NUMBERS],
            waiting: 0,
            room: vec![u8::MAX; super::LONGEST].into(),
        }
    }
}

fn number(sequence: i64) -> usize {
    sequence.rem_euclid(NUMBERS as i64) as usize
}

fn place(sequence: i64) -> core::ops::Range<usize> {
    let at = number(sequence) * ROW;
    at..at + ROW
}
