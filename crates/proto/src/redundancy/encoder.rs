//! Sending side: computes repair data.

use super::layout::Layout;
use super::repair_data::{self, FIRST_POINT, Symbol};
use super::{MAX_PAYLOAD, MAX_SYMBOLS, MAX_WINDOW, PayloadKind, ROW, field};

/// Makes repair symbols.
#[derive(Debug)]
pub struct Encoder {
    layout: Layout,
    /// Last payloads, by number modulo [`MAX_WINDOW`].
    history: Box<[u64]>,
    held: usize,
    kind: PayloadKind,
    /// Point of the next symbol, minus [`FIRST_POINT`].
    point: u8,
}

impl Encoder {
    /// Creates an encoder. Only this function allocates.
    pub fn new(layout: Layout) -> Self {
        let history = vec![0; MAX_WINDOW * ROW].into();
        Self { layout, history, held: 0, kind: PayloadKind::default(), point: 0 }
    }

    /// Current layout.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Changes the layout from the next packet on.
    pub fn set(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Forgets earlier packets.
    pub const fn reset(&mut self) {
        self.held = 0;
    }

    /// Writes repair data of packet `sequence` to `room`, then keeps its payload. Returns the
    /// length, or 0.
    pub fn write(
        &mut self,
        sequence: i64,
        payload_type: u8,
        payload: &[u8],
        room: &mut [u8],
    ) -> usize {
        if self.layout.reaches().is_empty() || payload.is_empty() || payload.len() > MAX_PAYLOAD {
            self.held = 0;
            return 0;
        }
        let kind = PayloadKind { payload_type, bytes: payload.len() };
        if self.kind != kind {
            self.kind = kind;
            self.held = 0;
        }
        let written = self.symbols(sequence, payload.len(), room);
        field::load(&mut self.history[Self::place(sequence)], payload);
        self.held = (self.held + 1).min(MAX_WINDOW);
        written
    }

    fn symbols(&mut self, sequence: i64, len: usize, room: &mut [u8]) -> usize {
        let maximum = room.len();
        let fits = (1..=MAX_SYMBOLS)
            .take_while(|count| repair_data::bytes(*count, len) <= maximum)
            .count();
        let mut symbols = [Symbol { oldest: 0, span: 0, point: 0 }; MAX_SYMBOLS];
        let mut count = 0;
        let reaches = self.layout;
        for reach in reaches.reaches().iter().filter(|_| self.held > 0) {
            let oldest = usize::from(reach.oldest).min(self.held) as u8;
            let symbol = Symbol { oldest, span: reach.span.min(oldest).max(1), point: 0 };
            let twice = symbol.span == 1 && symbols[..count].contains(&symbol);
            if count < fits && !twice {
                symbols[count] = symbol;
                count += 1;
            }
        }
        if count == 0 {
            return 0;
        }
        let bytes = repair_data::bytes(count, len);
        let Some((head, rest)) = room.get_mut(..bytes).and_then(|room| room.split_first_mut())
        else {
            return 0;
        };
        *head = count as u8;
        let (headers, data) = rest.split_at_mut(count * repair_data::SYMBOL_HEADER_BYTES);
        let places = headers.as_chunks_mut().0.iter_mut().zip(data.chunks_exact_mut(len));
        for (symbol, (header, data)) in symbols.iter_mut().zip(places) {
            if symbol.span > 1 {
                symbol.point = FIRST_POINT + self.point;
                self.point = (self.point + 1) % FIRST_POINT;
            }
            *header = symbol.to_bytes();
            self.symbol(*symbol, sequence, data);
        }
        bytes
    }

    fn symbol(&self, symbol: Symbol, carrier: i64, data: &mut [u8]) {
        if symbol.span == 1 {
            let first = symbol.covered(carrier).start;
            return field::store(&self.history[Self::place(first)], data);
        }
        let words = field_words(data.len());
        let mut sum = [0; ROW];
        let parts = symbol.covered(carrier).map(|sequence| {
            let row = &self.history[Self::place(sequence)];
            (symbol.factor(sequence), &row[..words])
        });
        field::add_multiples(&mut sum[..words], parts);
        field::store(&sum, data);
    }

    fn place(sequence: i64) -> core::ops::Range<usize> {
        let at = sequence.rem_euclid(MAX_WINDOW as i64) as usize * ROW;
        at..at + ROW
    }
}

/// Words of a row, in whole lines.
pub(super) const fn field_words(bytes: usize) -> usize {
    bytes.div_ceil(8).next_multiple_of(field::LINE)
}
