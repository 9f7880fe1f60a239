//! The drawing: table above, selected stream below. Colours only repeat the text.

use console::Style;
use tautline_proto::text::is_printable;

use super::keys::StreamRow;
use super::messages::{details, is_troubled};
use super::page::{nobody, table, unread};
use super::programs::Programs;
use super::worked;
use crate::screen::folded;

const KEYS: &str = "up, down: choose   Enter: alone or among others   q: end";

pub(super) struct ScreenLine {
    pub(super) text: String,
    pub(super) style: Style,
}

pub(super) fn draw(
    programs: &Programs,
    choice: &StreamRow,
    (width, height): (usize, usize),
) -> Vec<ScreenLine> {
    let mut pen = Pen { lines: Vec::new(), width };
    write(programs, choice, (width, height), &mut pen);
    pen.lines.truncate(height);
    pen.lines
}

fn write(programs: &Programs, choice: &StreamRow, (width, height): (usize, usize), pen: &mut Pen) {
    let streams: Vec<_> = programs.streams().collect();
    let plural = if streams.len() == 1 { "" } else { "s" };
    pen.write(&format!("taut top: {} stream{plural}   {KEYS}", streams.len()), Style::new().dim());
    pen.write("", Style::new());
    if let Some(nobody) = nobody(programs) {
        pen.write(nobody, Style::new());
        return;
    }
    if !choice.alone && !streams.is_empty() {
        // Two columns mark the selection.
        let lines = table(&streams, width.saturating_sub(2));
        let room = (height / 2).max(2) - 1;
        let first = choice.stream.saturating_sub(room.saturating_sub(1));
        pen.write(&format!(" {}", lines[0]), Style::new().bold());
        let rows = lines[1..].iter().zip(&streams).enumerate();
        for (index, (line, (run, stream))) in rows.skip(first).take(room) {
            let chosen = index == choice.stream;
            let mut style = Style::new();
            if is_troubled(run, stream) {
                style = style.red();
            }
            if chosen {
                style = style.reverse();
            }
            pen.write(&format!("{}{line}", if chosen { '>' } else { ' ' }), style);
        }
        pen.write("", Style::new());
    }
    if let Some((run, stream)) = streams.get(choice.stream) {
        for line in details(run, stream).iter().flat_map(|line| folded(line, width)) {
            pen.write(&line, Style::new());
        }
    }
    worked::lines(programs).iter().for_each(|line| pen.write(line, Style::new()));
    unread(programs).for_each(|line| pen.write(&line, Style::new().yellow()));
}

struct Pen {
    lines: Vec<ScreenLine>,
    width: usize,
}

impl Pen {
    /// `text` may come from other programs.
    fn write(&mut self, text: &str, style: Style) {
        let text = text.chars().filter(|c| is_printable(*c)).take(self.width).collect();
        self.lines.push(ScreenLine { text, style });
    }
}
