//! `taut top`: live state of every run on this machine.

mod keys;
pub(super) mod messages;
mod page;
mod programs;
mod screen;
mod terminal;
mod worked;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::time::Duration;

use tautline_engine::monitor::observers::sockets;
use tautline_io::clock::{now, sleep_until};
use tautline_io::terminal::is_in_front;
use tautline_proto::time::{LocalTime, Span};

use super::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{PlainKind, Top};
use crate::screen as output;
use keys::{StreamRow, TopKey};
use programs::Programs;
use terminal::TopTerminal;

/// Maximum time of a single look. It exceeds the counters' second.
const LOOKED: Span = Span::from_millis(1500);
const STEP: Span = Span::from_millis(20);
const REDRAW: Duration = Duration::from_millis(100);
/// Maximum time between the bytes of one key.
const SEQUENCE: Duration = Duration::from_millis(20);

pub(crate) fn run(flags: &Top) -> Result<(), Failure> {
    let seen = io::stdout().is_terminal() && is_in_front(io::stdout());
    let once = flags.once || flags.report != PlainKind::Text || !seen;
    if !once {
        return watch();
    }
    let mut programs = Programs::default();
    programs.look(&sockets());
    let until = now() + LOOKED;
    while now() < until && !programs.have_reported_all() {
        sleep_until(now() + STEP);
        programs.handle(now());
    }
    match flags.report {
        PlainKind::Text => output::print(&page::page(&programs)),
        PlainKind::Json => output::print(&page::json(&programs)?),
        PlainKind::None => {}
    }
    Ok(())
}

fn watch() -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let mut terminal = TopTerminal::open(&stop)?;
    let (mut programs, mut choice) = (Programs::default(), StreamRow::default());
    let mut looked = LocalTime::ZERO;
    while !stop.is_requested() {
        if now() - looked >= Span::from_secs(1) {
            programs.look(&sockets());
            looked = now();
        }
        programs.handle(now());
        choice.keep_within(programs.streams().count());
        terminal.show(|size| screen::draw(&programs, &choice, size))?;
        let mut timeout = REDRAW;
        while let Some(byte) = terminal.wait(timeout) {
            let key = TopKey::read(byte, || terminal.wait(SEQUENCE));
            if key.is_some_and(|key| choice.apply(key).is_break()) {
                return Ok(());
            }
            timeout = Duration::ZERO;
        }
    }
    Ok(())
}
