use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use console::Term;
use signal_hook::consts::SIGTSTP;
use tautline_proto::device::Stop;

use super::screen::ScreenLine;
use crate::cmd::keys::{Pressed, PressedKeys};
use crate::failure::Failure;

/// Alternate screen, cursor and line wrap (xterm control sequences, DEC private modes).
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Dropping it restores the previous screen.
pub(super) struct TopTerminal {
    term: Term,
    /// `None` without a keyboard.
    keys: Option<PressedKeys<u8>>,
    shown: (String, (u16, u16)),
}

impl TopTerminal {
    pub(super) fn open(stop: &Stop) -> Result<Self, Failure> {
        // Ctrl-Z would leave a shell in this screen.
        signal_hook::flag::register(SIGTSTP, Arc::new(AtomicBool::new(false))).map_err(failed)?;
        let keys = PressedKeys::listen(stop.clone(), |byte| Some(Pressed::Key(byte)))?;
        let terminal = Self { term: Term::buffered_stdout(), keys, shown: Default::default() };
        // Panic messages need the normal screen.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = put(&Term::buffered_stdout(), LEAVE);
            report(panic);
        }));
        put(&terminal.term, ENTER).map_err(failed)?;
        Ok(terminal)
    }

    pub(super) fn show(
        &mut self,
        draw: impl FnOnce((usize, usize)) -> Vec<ScreenLine>,
    ) -> Result<(), Failure> {
        let size @ (rows, columns) = self.term.size();
        let lines = draw((columns.into(), rows.into()));
        let lines = lines.iter().map(|line| format!("{}\x1b[K", line.style.apply_to(&line.text)));
        let text = format!("\x1b[H{}\x1b[J", lines.collect::<Vec<_>>().join("\r\n"));
        let shown = (text, size);
        if shown != self.shown {
            put(&self.term, &shown.0).map_err(failed)?;
            self.shown = shown;
        }
        Ok(())
    }

    pub(super) fn wait(&self, timeout: Duration) -> Option<u8> {
        match &self.keys {
            Some(keys) => keys.wait(timeout),
            None => {
                std::thread::sleep(timeout);
                None
            }
        }
    }
}

impl Drop for TopTerminal {
    fn drop(&mut self) {
        let _ = put(&self.term, LEAVE);
    }
}

fn put(term: &Term, text: &str) -> io::Result<()> {
    term.write_str(text)?;
    term.flush()
}

fn failed(error: io::Error) -> Failure {
    Failure::running(format!("drawing on the terminal: {error}\nhint: use taut top --once"))
}
