//! What people see: one live line while something runs, the report at the end, complaints.

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tautline_engine::report::Report;
use tautline_engine::run::Progress;
use tautline_engine::text;
use tautline_proto::time::Span;

use crate::failure::Failure;

/// Says what went wrong, in one sentence.
pub(crate) fn complain(failure: &Failure) {
    tell(&failure.to_string());
}

/// Tells something that is not the answer.
pub(crate) fn tell(sentence: &str) {
    // In one piece, so that lines of several programs do not mix. Where nobody listens any more
    // the work goes on.
    let _ = std::io::stderr().write_all(format!("taut: {sentence}\n").as_bytes());
}

/// Prints a line of the answer.
pub(crate) fn say(line: &str) {
    print(&format!("{line}\n"));
}

/// Prints a part of the answer. A reader who has seen enough, as `head` has, ends the program in
/// peace; an answer that cannot be written, as on a full disk, is a failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
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

/// The line that shows how a run goes; nothing where nobody looks.
pub(crate) struct LiveLine {
    bar: ProgressBar,
    name: &'static str,
}

impl LiveLine {
    pub(crate) fn new(name: &'static str) -> Self {
        Self::on(ProgressBar::with_draw_target(None, target()), name)
    }

    /// On a bar that somebody else draws.
    pub(crate) fn on(bar: ProgressBar, name: &'static str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, name }
    }

    /// Does something that writes on the terminal, without the line between.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    pub(crate) fn show(&self, progress: &Progress<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        let latency = match progress.latency {
            Some((latency, uncertainty)) => {
                let how = if progress.heard { "heard after" } else { "plays after" };
                format!(
                    "{how} {:.3} ms ± {:.3}",
                    latency.as_millis_f64(),
                    uncertainty.as_millis_f64()
                )
            }
            None if progress.elapsed > ANSWER && progress.packets > 0 => {
                "latency not known: the peer answers no RTCP".into()
            }
            None => "latency not known yet".into(),
        };
        self.bar.set_message(format!(
            "{} {:>6.1} s  {:>7} packets  {} missed  {} xruns  {latency}",
            self.name,
            progress.elapsed.as_millis_f64() / 1e3,
            progress.packets,
            progress.missed,
            progress.xruns
        ));
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A peer that maps clocks has done so by then.
const ANSWER: Span = Span::from_secs(2);

/// Where live lines go: the terminal, or nowhere.
pub(crate) fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    }
}

/// Prints the report for people.
pub(crate) fn print_report(report: &Report) {
    print(&text::render(report));
}
