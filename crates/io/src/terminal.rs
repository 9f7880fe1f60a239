//! The keys of the terminal that a program runs in, one by one as they are pressed.

use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use crate::system::checked;

/// While it lives, standard input returns each key at once and shows none; signals by keys and output are unchanged.
#[derive(Debug)]
pub struct TerminalKeys {
    before: libc::termios,
}

impl TerminalKeys {
    /// `None` if standard input is no terminal or this program is in the background (`SIGTTOU` would stop it).
    pub fn of_standard_input() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !is_in_front(io::stdin()) {
            return Ok(None);
        }
        let mut before = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: `before` is a writable termios, which the call fills where it does not fail.
        checked(unsafe { libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) })?;
        // SAFETY: it was filled, and all zeros are one as well.
        let before = unsafe { before.assume_init() };
        let mut keys = before;
        keys.c_lflag &= !(libc::ICANON | libc::ECHO);
        // A read returns with the first byte.
        (keys.c_cc[libc::VMIN], keys.c_cc[libc::VTIME]) = (1, 0);
        set(&keys)?;
        Ok(Some(Self { before }))
    }
}

impl Drop for TerminalKeys {
    fn drop(&mut self) {
        // A terminal that is gone needs no mending.
        let _ = set(&self.before);
    }
}

fn set(attributes: &libc::termios) -> io::Result<()> {
    // SAFETY: a whole termios that outlives the call.
    checked(unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, attributes) }).map(drop)
}

/// Whether this program's process group is in the terminal's foreground: a background one must not draw over a shell.
pub fn is_in_front(terminal: impl AsFd) -> bool {
    let terminal = terminal.as_fd().as_raw_fd();
    // SAFETY: no pointers, and a descriptor that is open as long as it is borrowed.
    unsafe { libc::tcgetpgrp(terminal) == libc::getpgrp() }
}
