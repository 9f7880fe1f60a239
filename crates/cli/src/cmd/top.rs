//! `taut top`: what is happening now, told by every run of this machine.

mod keys;
mod page;
mod programs;
mod screen;
pub(super) mod words;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use tautline_engine::watching::observers::sockets;
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use super::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{PlainKind, Top};
use crate::screen as output;
use keys::ShownStream;
use programs::Programs;

/// Longer than the second that figures of the last second take.
const LOOKED: Span = Span::from_millis(1500);
/// From one look to the next while nothing is drawn.
const STEP: Span = Span::from_millis(20);
/// From one drawing to the next: as fast as figures can be read.
const REDRAW: Duration = Duration::from_millis(100);

pub(crate) fn run(flags: &Top) -> Result<(), Failure> {
    let once = flags.once || flags.report != PlainKind::Text || !io::stdout().is_terminal();
    if !once {
        return watch().map_err(|error| {
            Failure::running(format!("drawing on the terminal: {error}; use taut top --once"))
        });
    }
    let mut programs = Programs::default();
    programs.look(&sockets());
    let until = now() + LOOKED;
    while now() < until && !programs.have_told_all() {
        sleep_until(now() + STEP);
        programs.hear(now());
    }
    match flags.report {
        PlainKind::Text => output::print(&page::page(&programs)),
        PlainKind::Json => output::print(&page::json(&programs)?),
        PlainKind::None => {}
    }
    Ok(())
}

/// On the terminal, until somebody has seen enough.
fn watch() -> io::Result<()> {
    let stop = stop_on_signals().map_err(|failure| io::Error::other(failure.to_string()))?;
    let mut terminal = ratatui::try_init()?;
    let watched = draw(&mut terminal, &stop);
    ratatui::try_restore()?;
    watched
}

fn draw(terminal: &mut DefaultTerminal, stop: &Stop) -> io::Result<()> {
    let (mut programs, mut choice) = (Programs::default(), ShownStream::default());
    let mut looked = LocalTime::ZERO;
    while !stop.is_requested() {
        // Who began or ended meanwhile.
        if now() - looked >= Span::from_secs(1) {
            programs.look(&sockets());
            looked = now();
        }
        programs.hear(now());
        choice.keep_within(programs.streams().count());
        terminal.draw(|frame| {
            let area = frame.area();
            screen::draw(&programs, &choice, area, frame.buffer_mut());
        })?;
        // What was pressed meanwhile, all of it; a signal ends the wait.
        let mut wait = REDRAW;
        while event::poll(wait)? {
            if choice.take(&event::read()?).is_break() {
                return Ok(());
            }
            wait = Duration::ZERO;
        }
    }
    Ok(())
}
