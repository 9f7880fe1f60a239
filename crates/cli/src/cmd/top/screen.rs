//! The drawing: the table above, the chosen stream below. Colours only repeat what signs say.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::keys::ShownStream;
use super::page::{nobody, table, unread};
use super::programs::Programs;
use super::words::{details, is_troubled};

const KEYS: &str = "up, down: choose   Enter: alone or among others   q: end";

/// Draws what is known into an area of any size.
pub(super) fn draw(programs: &Programs, choice: &ShownStream, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen { buffer, area, line: 0 };
    let streams: Vec<_> = programs.streams().collect();
    let plural = if streams.len() == 1 { "" } else { "s" };
    pen.write(
        &format!("taut top: {} stream{plural}   {KEYS}", streams.len()),
        Style::new().add_modifier(Modifier::DIM),
    );
    pen.write("", Style::new());
    if let Some(nobody) = nobody(programs) {
        pen.write(nobody, Style::new());
        return;
    }
    if !choice.alone && !streams.is_empty() {
        // Two columns are for the mark of the chosen one.
        let lines = table(&streams, usize::from(area.width).saturating_sub(2));
        // Below, a few lines of the chosen stream are to be seen too.
        let room = usize::from(area.height / 2).max(2) - 1;
        let first = choice.stream.saturating_sub(room.saturating_sub(1));
        pen.write(&format!(" {}", lines[0]), Style::new().add_modifier(Modifier::BOLD));
        let rows = lines[1..].iter().zip(&streams).enumerate();
        for (index, (line, (run, stream))) in rows.skip(first).take(room) {
            let chosen = index == choice.stream;
            let mut style = Style::new();
            if is_troubled(run, stream) {
                style = style.fg(Color::Red);
            }
            if chosen {
                style = style.add_modifier(Modifier::REVERSED);
            }
            pen.write(&format!("{}{line}", if chosen { '>' } else { ' ' }), style);
        }
        pen.write("", Style::new());
    }
    if let Some((run, stream)) = streams.get(choice.stream) {
        for line in details(run, stream) {
            pen.write(&line, Style::new());
        }
    }
    unread(programs).for_each(|line| pen.write(&line, Style::new().fg(Color::Yellow)));
}

/// Writes line by line, as many as there is room for.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    line: u16,
}

impl Pen<'_> {
    fn write(&mut self, text: &str, style: Style) {
        if self.line >= self.area.height {
            return;
        }
        let (x, y) = (self.area.x, self.area.y + self.line);
        self.buffer.set_stringn(x, y, text, self.area.width.into(), style);
        self.line += 1;
    }
}
