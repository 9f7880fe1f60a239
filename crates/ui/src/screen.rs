//! Terminal output: live lines, the final report, messages.

use std::cell::Cell;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tautline_engine::monitor::run::Progress;
use tautline_proto::time::Span;

use crate::failure::{Failure, with_hints};
use crate::live;

/// Prints `error: …`, and the fix on a line `hint: …`.
pub fn complain(failure: &Failure) {
    let message = failure.to_string();
    if !message.is_empty() {
        print_message("error", &message);
    }
}

pub fn notify(sentence: &str) {
    print_message("taut", sentence);
}

/// Lines of a table: cells of a column begin below each other, two spaces after the widest cell of
/// the previous column.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = core::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Wraps a list after commas. Later lines are indented. Longer items are not cut.
pub fn folded(line: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut last) = (Vec::new(), String::new());
    for item in line.split_inclusive(", ") {
        let length = last.chars().count() + item.trim_end().chars().count();
        if length > columns && !last.is_empty() {
            lines.push(last.trim_end().to_owned());
            last = "  ".to_owned();
        }
        last += item;
    }
    lines.push(last);
    lines
}

fn print_message(prefix: &str, message: &str) {
    // In one write, so that lines do not mix.
    let text = format!("{prefix}: {}\n", with_hints(message));
    let write = || drop(std::io::stderr().write_all(text.as_bytes()));
    match &*drawn() {
        Some(lines) => lines.suspend(write),
        None => write(),
    }
}

/// Messages must not be printed between live lines.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn drawn() -> MutexGuard<'static, Option<ProgressBar>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Live lines of a run, redrawn in place; only on a terminal.
pub struct StatusLines(ProgressBar);

impl StatusLines {
    pub fn new(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(whole());
        // A message must not draw an empty line.
        bar.finish_and_clear();
        *drawn() = Some(bar.clone());
        Self(bar)
    }

    pub fn are_seen(&self) -> bool {
        !self.0.is_hidden()
    }

    pub fn answers(&self) -> Answers {
        Answers(self.0.clone())
    }

    /// Replaces all lines in one drawing: with a bar per line, the terminal would show a mixture of
    /// old and new lines between two drawings.
    pub fn show(&self, lines: &[String]) {
        let hidden = self.0.is_finished();
        if lines.is_empty() {
            if !hidden {
                self.0.finish_and_clear();
            }
            return;
        }
        let columns = usize::from(console::Term::stderr().size().1);
        let lines = lines.iter().flat_map(|line| folded(line, columns));
        let cut = |line: String| console::truncate_str(&line, columns, "…").into_owned();
        self.0.set_message(lines.map(cut).collect::<Vec<_>>().join("\n"));
        if hidden {
            self.0.reset();
        }
    }

    pub fn end(&self) {
        *drawn() = None;
        self.0.finish_and_clear();
    }
}

impl Drop for StatusLines {
    fn drop(&mut self) {
        self.end();
    }
}

fn whole() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// A wrapped line could not be redrawn.
fn cut_at_the_edge() -> ProgressStyle {
    let style = ProgressStyle::with_template("{wide_msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

pub fn emit(line: &str) {
    print(&format!("{line}\n"));
}

pub fn print(text: &str) {
    print_on(std::io::stdout().lock(), text);
}

/// Prints while standard output has another use.
pub fn print_aside(text: &str) {
    print_on(std::io::stderr().lock(), text);
}

/// Sounds the bell of a terminal.
pub fn bell() {
    let terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _ = terminal.lock().write_all(b"\x07");
    }
}

/// A closed pipe ends the program successfully; another write error is a failure.
fn print_on(mut out: impl Write, text: &str) {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let failure = Failure::running(format!("writing the answer: {error}"));
            complain(&failure);
            std::process::exit(i32::from(failure.status));
        }
    }
}

pub struct LiveLine {
    bar: ProgressBar,
    name: &'static str,
    next: Cell<Span>,
}

impl LiveLine {
    pub fn new(name: &'static str, target: ProgressDrawTarget) -> Self {
        Self::on(ProgressBar::with_draw_target(None, target), name)
    }

    pub fn on(bar: ProgressBar, name: &'static str) -> Self {
        bar.set_style(cut_at_the_edge());
        Self { bar, name, next: Cell::new(Span::ZERO) }
    }

    pub fn answers(&self) -> Answers {
        Answers(self.bar.clone())
    }

    pub fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    pub fn restart(&self) {
        self.next.set(Span::ZERO);
    }

    pub fn show(&self, progress: &Progress<'_>) {
        if self.bar.is_hidden() || progress.elapsed < self.next.get() {
            return;
        }
        self.next.set(progress.elapsed + REDRAW);
        self.bar.set_message(live::line(self.name, progress));
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Prints to standard error, above the live line.
pub struct Answers(ProgressBar);

impl Answers {
    pub fn emit(&self, answer: &str) {
        // In one write.
        self.0.suspend(|| {
            let _ = std::io::stderr().write_all(format!("{answer}\n").as_bytes());
        });
    }
}

const REDRAW: Span = Span::from_millis(100);

pub fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::io;
    use std::sync::Arc;

    use indicatif::TermLike;
    use tautline_engine::monitor::run::PeerState;

    use super::*;

    const COLUMNS: u16 = 40;

    #[derive(Debug, Default, Clone)]
    struct Narrow(Arc<Mutex<Vec<String>>>, Arc<AtomicBool>);

    impl Narrow {
        fn drawings(&self) -> Vec<String> {
            let drawings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            drawings.iter().filter(|text| !text.trim().is_empty()).cloned().collect()
        }
    }

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            COLUMNS
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            if self.1.load(Relaxed) {
                return Err(io::Error::from_raw_os_error(5));
            }
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            self.write_str("")
        }
    }

    fn a_second() -> Vec<String> {
        let terminal = Narrow::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let line = LiveLine::on(ProgressBar::with_draw_target(None, target), "recv");
        for beat in 0..50 {
            line.show(&Progress {
                elapsed: Span::from_millis(20 * beat),
                packets: 20 * beat as u64,
                peer: PeerState::Here,
                ..Progress::default()
            });
        }
        terminal.drawings()
    }

    #[test]
    fn the_live_line_is_cut_where_the_terminal_ends() {
        let drawings = a_second();
        assert!(drawings.iter().any(|line| line.contains("packets")), "{drawings:#?}");
        for line in drawings {
            assert!(line.chars().count() <= usize::from(COLUMNS), "{line:?}");
        }
    }

    #[test]
    fn lists_are_wrapped_after_commas() {
        let list = "stages: pack 2.500ms, wire 80.00us, buffer 1.250ms, dévice 10.00ms";
        let lines = ["stages: pack 2.500ms, wire 80.00us,", "  buffer 1.250ms, dévice 10.00ms"];
        for columns in [35, 36, 50] {
            assert_eq!(folded(list, columns), lines, "{columns}");
        }
        assert_eq!(folded(list, 66), [list]);
        assert_eq!(folded(list, 34).len(), 3);
        assert_eq!(folded("a long word, b", 3), ["a long word,", "  b"]);
        assert_eq!(folded("", 3), [""]);
    }

    #[test]
    fn long_live_list_is_drawn_to_its_end() {
        let terminal = Narrow::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let stages: Vec<_> = (0..30).map(|stage| format!("stage {stage}")).collect();
        StatusLines::new(target).show(&[stages.join(", ")]);
        let drawn = terminal.drawings().concat();
        assert!(drawn.contains("stage 29") && !drawn.contains('…'), "{drawn}");
    }

    #[test]
    fn lines_that_are_no_more_are_not_drawn_again() {
        let terminal = Narrow::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let lines = StatusLines::new(target);
        let show = |lines: &StatusLines, words: &[&str]| {
            lines.show(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
            let drawn = terminal.drawings();
            terminal.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
            drawn.concat()
        };
        let all = show(&lines, &["one", "two", "three"]);
        assert!(all.contains("three"), "{all:?}");
        show(&lines, &["one"]);
        let fewer = show(&lines, &["four"]);
        assert!(fewer.contains("four") && !fewer.contains("two"), "{fewer:?}");
        let more = show(&lines, &["five", "six"]);
        assert!(more.contains("five") && more.contains("six"), "{more:?}");
        let moved = show(&lines, &["five", "seven", "six"]);
        assert_eq!(moved.matches("six").count(), 1, "old and new lines are mixed: {moved:?}");
        assert!(show(&lines, &[]).is_empty());
        let again = show(&lines, &["eight"]);
        assert!(again.contains("eight"), "{again:?}");
    }

    #[test]
    fn closed_terminal_does_not_end_the_program() {
        let terminal = Narrow::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let lines = StatusLines::new(target);
        let words = ["one", "two"].map(ToOwned::to_owned);
        lines.show(&words);
        assert!(terminal.drawings().concat().contains("two"));
        terminal.1.store(true, Relaxed);
        lines.show(&words[..1]);
        notify("printed between the lines");
        lines.answers().emit("answered");
        lines.end();
    }

    #[test]
    fn the_live_line_is_drawn_ten_times_a_second_at_most() {
        let drawings = a_second().len();
        assert!((5..=10).contains(&drawings), "{drawings}");
    }
}
