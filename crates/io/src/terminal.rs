//! The keys of the terminal that a program runs in, one by one as they are pressed.

use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use crate::system::checked;

/// While it is there, what is pressed is read at once on standard input, and not shown. Signals by keys (Ctrl-C, Ctrl-Z)
/// and all output are as they were. Dropped, the terminal is as it was before.
#[derive(Debug)]
pub struct TerminalKeys {
    before: libc::termios,
}

impl TerminalKeys {
    /// `None` where standard input is no terminal, or one that others have in hand: a program in the background is
    /// stopped by the kernel if it touches the terminal (`SIGTTOU`).
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

/// Whether this program's group of processes has this terminal in hand: what is in the background is to draw nothing
/// over a shell. Not where it is no terminal, or that of another session.
pub fn is_in_front(terminal: impl AsFd) -> bool {
    let terminal = terminal.as_fd().as_raw_fd();
    // SAFETY: no pointers, and a descriptor that is open as long as it is borrowed.
    unsafe { libc::tcgetpgrp(terminal) == libc::getpgrp() }
}
