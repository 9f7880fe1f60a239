//! The thread that talks to a JACK server for a client.
//!
//! A server that was stopped answers nobody, and the library waits for it without a limit, in
//! closing too. So a client lives on a thread of its own, from its opening to its closing, and
//! nobody waits for that longer than he wants to. Given up, the thread goes on waiting, with all
//! that the library may still touch; it closes the client when the server is back.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::client::{Client, Refused};
use super::signals::Signals;
use crate::STACK;

/// Threads of this program that may wait to be taken in, at a time. A device that is tried again
/// leaves one behind with every try at a server that stalls.
const MOST_ASKING: u32 = 4;
/// A server that lives closes a client within milliseconds.
const CLOSING: Duration = Duration::from_millis(250);

/// Whose answer has not come yet.
static ASKING: AtomicU32 = AtomicU32::new(0);

/// Something to be done with the client.
type Errand = Box<dyn FnOnce(&mut Client) + Send>;

/// Why there is no client.
pub(super) enum Failed<E> {
    /// The server refused it.
    Refused(Refused),
    /// What was to be done with it failed.
    Work(E),
    /// The server did not answer in time.
    Stalled,
    /// There is no thread to be had.
    Thread(io::Error),
}

/// Does what the client is asked for, one after the other; closes it when dropped.
pub(super) struct Clerk {
    signals: Arc<Signals>,
    /// `None` only while dropping.
    errands: Option<Sender<Errand>>,
    /// Hung up once the client is closed.
    closed: Receiver<Infallible>,
}

impl Clerk {
    /// Opens a client and works with it, both within `patience`.
    pub(super) fn begin<T: Send + 'static, E: Send + 'static>(
        patience: Duration,
        open: impl FnOnce() -> Result<Client, Refused> + Send + 'static,
        work: impl FnOnce(&mut Client) -> Result<T, E> + Send + 'static,
    ) -> Result<(Self, T), Failed<E>> {
        let asking = Asking::one()?;
        let (answer, answered) = channel();
        let (errands, asked) = channel::<Errand>();
        let (closing, closed) = channel();
        let thread = thread::Builder::new().name("taut-jack".to_owned()).stack_size(STACK);
        let serve = move || {
            // Hangs up last of all, when the client is dropped.
            let _closing = closing;
            let mut client = match open() {
                Ok(client) => client,
                Err(refused) => {
                    drop(asking);
                    // Nobody may wait for it any more.
                    let _ = answer.send(Err(Failed::Refused(refused)));
                    return;
                }
            };
            let done = work(&mut client).map_err(Failed::Work);
            drop(asking);
            // Where nobody waits any more, there are no errands either.
            let _ = answer.send(done.map(|done| (client.signals(), done)));
            for errand in asked {
                errand(&mut client);
            }
        };
        thread.spawn(serve).map_err(Failed::Thread)?;
        let answer = answered.recv_timeout(patience).map_err(|_| Failed::Stalled)?;
        answer.map(|(signals, done)| (Self { signals, errands: Some(errands), closed }, done))
    }

    /// Signals from and to the server's threads.
    pub(super) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Has something done with the client, when the server lets it.
    pub(super) fn ask(&self, errand: impl FnOnce(&mut Client) + Send + 'static) {
        if let Some(errands) = &self.errands {
            // The thread ends after this does.
            let _ = errands.send(Box::new(errand));
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.errands = None;
        // Closed, or given up.
        let _ = self.closed.recv_timeout(CLOSING);
    }
}

/// A thread that waits to be taken in.
struct Asking;

impl Asking {
    fn one<E>() -> Result<Self, Failed<E>> {
        let one = Self;
        let others = ASKING.fetch_add(1, Ordering::Relaxed);
        if others < MOST_ASKING { Ok(one) } else { Err(Failed::Stalled) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.fetch_sub(1, Ordering::Relaxed);
    }
}
