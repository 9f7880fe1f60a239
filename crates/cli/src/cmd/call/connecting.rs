//! A connection that is to carry sound and is being made, on a thread of its own: where nobody answers that takes
//! seconds, in which keys, lines and the control connection go on.
//!
//! The thread connects and says nothing. The ticket, and with it the number of a transport, is for whoever takes the
//! connection: one that comes about after nobody wants it any more is closed, and no number was used for it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// For a connection that is to carry sound.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// See the module. Dropped, it is not waited for.
pub(super) struct Connecting(Receiver<TcpStream>);

/// What came of it.
pub(super) enum Connected {
    NotYet(Connecting),
    /// A connection on which nothing was said.
    Made(TcpStream),
    Failed,
}

impl Connecting {
    /// Begins to connect to this address; without a thread for that it fails.
    pub(super) fn to(called: SocketAddr) -> Self {
        Self::by(move || TcpStream::connect_timeout(&called, CONNECT_LIMIT))
    }

    fn by(connect: impl FnOnce() -> io::Result<TcpStream> + Send + 'static) -> Self {
        let (tell, made) = sync_channel(1);
        let run = move || {
            if let Ok(stream) = connect() {
                // Nobody may want it any more.
                let _ = tell.send(stream);
            }
        };
        // One that is not begun tells nothing, as one that fails.
        let _ = std::thread::Builder::new().name("taut-by-tcp".into()).spawn(run);
        Self(made)
    }

    /// What came of it by now.
    pub(super) fn look(self) -> Connected {
        match self.0.try_recv() {
            Ok(stream) => Connected::Made(stream),
            Err(TryRecvError::Empty) => Connected::NotYet(self),
            Err(TryRecvError::Disconnected) => Connected::Failed,
        }
    }

    /// What came of it: waits for that, where there is no sound yet and the first of it is to go by it.
    pub(super) fn wait(self) -> Connected {
        self.0.recv().map_or(Connected::Failed, Connected::Made)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A connection to this address that is made once that is said, or never where it is not.
    pub(in crate::cmd::call) fn gated(called: SocketAddr) -> (Sender<()>, Connecting) {
        let (open, gate) = channel();
        let connecting = Connecting::by(move || {
            gate.recv().map_err(io::Error::other)?;
            TcpStream::connect(called)
        });
        (open, connecting)
    }

    #[test]
    fn a_connection_is_not_waited_for_and_one_that_fails_is_told_of() {
        let nowhere = ([127, 0, 0, 1], 1).into();
        let (open, connecting) = gated(nowhere);
        let Connected::NotYet(connecting) = connecting.look() else { panic!("it was not made") };
        drop(open);
        assert!(matches!(connecting.wait(), Connected::Failed));
    }
}
