//! Single key presses from the terminal.

use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use crate::system::checked;

/// While this lives, standard input returns each key immediately, without echo.
#[derive(Debug)]
pub struct TerminalKeys {
    before: libc::termios,
}

impl TerminalKeys {
    /// `None` without a terminal, or in the background (`SIGTTOU` would stop this program).
    pub fn of_standard_input() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !is_in_front(io::stdin()) {
            return Ok(None);
        }
        let mut before = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: `before` is a writable termios, which the call fills unless it fails.
        checked(unsafe { libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) })?;
        // SAFETY: it was filled; all zeros are valid as well.
        let before = unsafe { before.assume_init() };
        let mut keys = before;
        keys.c_lflag &= !(libc::ICANON | libc::ECHO);
        (keys.c_cc[libc::VMIN], keys.c_cc[libc::VTIME]) = (1, 0);
        set(&keys)?;
        Ok(Some(Self { before }))
    }
}

impl Drop for TerminalKeys {
    fn drop(&mut self) {
        let _ = set(&self.before);
    }
}

fn set(attributes: &libc::termios) -> io::Result<()> {
    // SAFETY: a complete termios that outlives the call.
    checked(unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, attributes) }).map(drop)
}

/// Whether this process group is in the foreground. Background process groups must not draw over a
/// shell.
pub fn is_in_front(terminal: impl AsFd) -> bool {
    let terminal = terminal.as_fd().as_raw_fd();
    // SAFETY: the call takes no pointers, and the descriptor is open while borrowed.
    unsafe { libc::tcgetpgrp(terminal) == libc::getpgrp() }
}
