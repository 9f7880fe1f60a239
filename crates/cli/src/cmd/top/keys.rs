//! What is pressed, and which stream it chooses.

use core::ops::ControlFlow;

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// Which stream is shown, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShownStream {
    /// The how many-th of all.
    pub(super) stream: usize,
    /// Whether it is shown without the others.
    pub(super) alone: bool,
    streams: usize,
}

impl ShownStream {
    /// There are so many streams now.
    pub(super) fn keep_within(&mut self, streams: usize) {
        self.streams = streams;
        self.stream = self.stream.min(streams.saturating_sub(1));
    }

    /// Takes what happened at the terminal, and says whether to end. Another size is drawn to with the next
    /// drawing.
    pub(super) fn take(&mut self, event: &Event) -> ControlFlow<()> {
        let Event::Key(key) = event else { return ControlFlow::Continue(()) };
        if key.kind == KeyEventKind::Release {
            return ControlFlow::Continue(());
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return ControlFlow::Break(());
            }
            KeyCode::Up | KeyCode::Char('k') => self.stream = self.stream.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.stream += 1,
            KeyCode::Enter => self.alone = !self.alone,
            _ => {}
        }
        self.keep_within(self.streams);
        ControlFlow::Continue(())
    }
}
