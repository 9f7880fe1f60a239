//! Linear equations of lost payloads: incremental Gauss-Jordan elimination, oldest unknown as
//! pivot.

use super::{ROW, field};

/// Modulus of packet numbers.
pub(super) const NUMBERS: usize = 128;

/// Maximum rows: at most `n` equations of `n` unknowns are independent.
const MAX: usize = 64;

/// Sum of unknowns times factors.
#[derive(Debug, Clone, Copy)]
struct Row {
    factors: [u8; NUMBERS],
    sum: [u64; ROW],
    /// Oldest unknown: factor 1 here, 0 in other rows.
    pivot: usize,
}

#[derive(Debug)]
pub(super) struct Equations {
    rows: Box<[Row]>,
    count: usize,
    new: Box<Row>,
    words: usize,
}

const EMPTY: Row = Row { factors: [0; NUMBERS], sum: [0; ROW], pivot: 0 };

impl Equations {
    pub(super) fn new() -> Self {
        Self { rows: vec![EMPTY; MAX].into(), count: 0, new: Box::new(EMPTY), words: ROW }
    }

    /// Removes all equations and sets the payload length in words.
    pub(super) fn clear(&mut self, words: usize) {
        (self.count, self.words) = (0, words);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn begin(&mut self, symbol: &[u8]) {
        self.new.factors = [0; NUMBERS];
        field::load(&mut self.new.sum[..self.words], symbol);
    }

    pub(super) fn add_unknown(&mut self, number: usize, factor: u8) {
        self.new.factors[number] = factor;
    }

    pub(super) fn add_known<'a>(&mut self, parts: impl Iterator<Item = (u8, &'a [u64])> + Clone) {
        field::add_multiples(&mut self.new.sum[..self.words], parts);
    }

    /// Completes the equation. `newest` determines the age of unknowns. Then call [`Self::solved`].
    pub(super) fn take_in(&mut self, newest: usize) {
        let Self { rows, count, new, words } = self;
        let (rows, words) = (&mut rows[..], *words);
        let factors = new.factors;
        let held = || rows[..*count].iter().filter(|row| factors[row.pivot] != 0);
        for row in held() {
            let factor = factors[row.pivot];
            add_factors(&mut new.factors, &row.factors, factor);
        }
        let parts = held().map(|row| (factors[row.pivot], &row.sum[..words]));
        field::add_multiples(&mut new.sum[..words], parts);
        let oldest = (1..=NUMBERS)
            .map(|after| (newest + after) % NUMBERS)
            .find(|number| new.factors[*number] != 0);
        let Some(pivot) = oldest else { return };
        let factor = field::inverse(new.factors[pivot]);
        new.factors.iter_mut().for_each(|each| *each = field::product(*each, factor));
        field::scale(&mut new.sum[..words], factor);
        new.pivot = pivot;
        for row in rows[..*count].iter_mut().filter(|row| row.factors[pivot] != 0) {
            let factor = row.factors[pivot];
            add_factors(&mut row.factors, &new.factors, factor);
            let part = core::iter::once((factor, &new.sum[..words]));
            field::add_multiples(&mut row.sum[..words], part);
        }
        if *count == MAX {
            // The row with the oldest unknown expires first.
            let age = |row: &Row| (newest + NUMBERS - row.pivot) % NUMBERS;
            let oldest = (0..MAX).max_by_key(|at| age(&rows[*at])).unwrap_or(0);
            rows.swap(oldest, MAX - 1);
            *count -= 1;
        }
        rows[*count] = **new;
        *count += 1;
    }

    pub(super) fn resolve(&mut self, number: usize, payload: &[u64], newest: usize) {
        let mut at = 0;
        while at < self.count {
            let row = &mut self.rows[at];
            let factor = core::mem::take(&mut row.factors[number]);
            if factor != 0 {
                let words = self.words;
                let part = core::iter::once((factor, &payload[..words]));
                field::add_multiples(&mut row.sum[..words], part);
            }
            if factor != 0 && row.pivot == number {
                // Without its unknown, the row is a new equation.
                *self.new = *row;
                self.remove(at);
                self.take_in(newest);
            } else {
                at += 1;
            }
        }
    }

    pub(super) fn forget(&mut self, number: usize) {
        if let Some(at) = self.rows[..self.count].iter().position(|row| row.pivot == number) {
            self.remove(at);
        }
    }

    /// Next solved payload and its number; call until `None`.
    pub(super) fn solved(&mut self, payload: &mut [u64]) -> Option<usize> {
        let alone = |row: &Row| row.factors.iter().filter(|factor| **factor != 0).count() == 1;
        let at = self.rows[..self.count].iter().position(alone)?;
        let number = self.rows[at].pivot;
        payload[..self.words].copy_from_slice(&self.rows[at].sum[..self.words]);
        self.remove(at);
        Some(number)
    }

    fn remove(&mut self, at: usize) {
        self.count -= 1;
        self.rows.swap(at, self.count);
    }
}

fn add_factors(into: &mut [u8; NUMBERS], from: &[u8; NUMBERS], factor: u8) {
    for (into, from) in into.iter_mut().zip(from).filter(|(_, from)| **from != 0) {
        *into ^= field::product(*from, factor);
    }
}
