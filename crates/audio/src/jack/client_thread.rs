//! A client's own thread for a JACK server, which may never answer.
//!
//! An abandoned thread keeps everything that the library may touch, and closes the client later.
//! Until then this program makes no requests to that server.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::client::{Client, JackStatus};
use super::signals::Signals;
use crate::toolbox::STACK;

const CLOSING: Duration = Duration::from_millis(250);

static ASKING: Mutex<Vec<Arc<ClientRequest>>> = Mutex::new(Vec::new());

type Errand = Box<dyn FnOnce(&mut Client) + Send>;

pub(super) enum NoClient<E> {
    Refused(JackStatus),
    Work(E),
    Stalled,
    Thread(io::Error),
}

pub(super) struct ClientThread {
    signals: Arc<Signals>,
    errands: Option<Sender<Errand>>,
    closed: Receiver<Infallible>,
}

impl ClientThread {
    pub(super) fn begin<T: Send + 'static, E: Send + 'static>(
        server: Option<&str>,
        timeout: Duration,
        open: impl FnOnce() -> Result<Client, JackStatus> + Send + 'static,
        work: impl FnOnce(&mut Client) -> Result<T, E> + Send + 'static,
    ) -> Result<(Self, T), NoClient<E>> {
        let asking = Asking::at(server).ok_or(NoClient::Stalled)?;
        let asked_for = Arc::clone(&asking.0);
        let (answer, answered) = channel();
        let (errands, requested) = channel::<Errand>();
        let (closing, closed) = channel();
        let thread = thread::Builder::new().name("taut-jack".to_owned()).stack_size(STACK);
        let serve = move || {
            let _closing = closing;
            let mut client = match open() {
                Ok(client) => client,
                Err(refused) => {
                    drop(asking);
                    let _ = answer.send(Err(NoClient::Refused(refused)));
                    return;
                }
            };
            if asking.0.given_up.load(Ordering::Relaxed) {
                drop(client);
                return;
            }
            let done = work(&mut client).map_err(NoClient::Work);
            drop(asking);
            let _ = answer.send(done.map(|done| (client.signals(), done)));
            for errand in requested {
                errand(&mut client);
            }
        };
        thread.spawn(serve).map_err(NoClient::Thread)?;
        let answer = answered.recv_timeout(timeout).map_err(|_| {
            asked_for.given_up.store(true, Ordering::Relaxed);
            NoClient::Stalled
        })?;
        answer.map(|(signals, done)| (Self { signals, errands: Some(errands), closed }, done))
    }

    pub(super) fn signals(&self) -> &Signals {
        &self.signals
    }

    pub(super) fn request(&self, errand: impl FnOnce(&mut Client) + Send + 'static) {
        if let Some(errands) = &self.errands {
            let _ = errands.send(Box::new(errand));
        }
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.errands = None;
        let _ = self.closed.recv_timeout(CLOSING);
    }
}

struct ClientRequest {
    server: Option<String>,
    given_up: AtomicBool,
}

struct Asking(Arc<ClientRequest>);

impl Asking {
    fn at(server: Option<&str>) -> Option<Self> {
        let mut all = asking();
        let in_vain = |other: &Arc<ClientRequest>| {
            other.server.as_deref() == server && other.given_up.load(Ordering::Relaxed)
        };
        if all.iter().any(in_vain) {
            return None;
        }
        let requested =
            ClientRequest { server: server.map(str::to_owned), given_up: AtomicBool::new(false) };
        let requested = Arc::new(requested);
        all.push(Arc::clone(&requested));
        Some(Self(requested))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        asking().retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

fn asking() -> MutexGuard<'static, Vec<Arc<ClientRequest>>> {
    ASKING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<Client, JackStatus> {
        Err(JackStatus(0))
    }

    fn begin(
        server: &str,
        open: impl FnOnce() -> Result<Client, JackStatus> + Send + 'static,
    ) -> NoClient<()> {
        let begun = ClientThread::begin(Some(server), Duration::from_millis(100), open, |_| Ok(()));
        begun.err().expect("there is no server")
    }

    #[test]
    fn slow_server_gets_one_query_at_a_time() {
        static ASKED_AGAIN: AtomicBool = AtomicBool::new(false);
        let (let_go, held) = channel::<Infallible>();
        let stalls = move || {
            let _ = held.recv();
            refused()
        };
        assert!(matches!(begin("stalls", stalls), NoClient::Stalled));
        let requests = || {
            ASKED_AGAIN.store(true, Ordering::SeqCst);
            refused()
        };
        assert!(matches!(begin("stalls", requests), NoClient::Stalled));
        assert!(!ASKED_AGAIN.load(Ordering::SeqCst));
        assert!(matches!(begin("another", refused), NoClient::Refused(_)));
        drop(let_go);
        while matches!(begin("stalls", refused), NoClient::Stalled) {
            thread::yield_now();
        }
    }
}
