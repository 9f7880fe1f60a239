//! The server as its owner has it: made, asked where it is, and ended.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tautline_api::call::protocols;
use tautline_api::trust::tls::answering;
use tautline_api::v1::Workshop;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::call_connections::{CallConnections, ConnectionEvent};
use crate::connection::Reception;
use crate::guests::Guests;
use crate::listen::{ListenError, Listening};
use crate::news::{ServingNews, TellServing, TurnedAway};
use crate::routes::{router, without_workshop};

/// Threads on which the workshop is asked at a time: it may block for as long as a process takes to start.
const MOST_ASKED: usize = 8;
/// After a failure of the system to hand over a connection, such as none left of its descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// What the workshop was asked for when the server ended has so long to come to an end.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    ending: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: nobody is answered any more. Waits for what was asked of the workshop, not for long.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.ending.send(true);
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked without its caller's hook having said so.
            let _ = thread.join();
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn serve(listening: &Listening, workshop: Arc<dyn Workshop>) -> Result<ApiServer, ListenError> {
    serve_telling(listening, workshop, |_| ())
}

/// The same, and tells what comes of being asked: on those threads, so `tell` must not wait.
pub fn serve_telling(
    listening: &Listening,
    workshop: Arc<dyn Workshop>,
    tell: impl Fn(&ServingNews) + Send + Sync + 'static,
) -> Result<ApiServer, ListenError> {
    let tell: TellServing = Arc::new(tell);
    let router = router(workshop, listening.trust.clone(), Arc::clone(&tell));
    start(listening, router, None, tell)
}

/// Listens for calls, and tells what happens on their control connections. Who does not keep up with that is not
/// called.
pub fn serve_calls(
    listening: &Listening,
    events: SyncSender<ConnectionEvent>,
    tell: impl Fn(&ServingNews) + Send + Sync + 'static,
) -> Result<ApiServer, ListenError> {
    start(listening, without_workshop(), Some(CallConnections::new(events)), Arc::new(tell))
}

fn start(
    listening: &Listening,
    router: Router,
    office: Option<CallConnections>,
    tell: TellServing,
) -> Result<ApiServer, ListenError> {
    listening.check()?;
    let tls = listening.trust.as_ref().map(answering).transpose()?;
    let tls = match &office {
        Some(_) => tls.map(taking_calls),
        None => tls,
    };
    let refused = |error| ListenError::Bind { address: listening.address, error };
    let listener = TcpListener::bind(listening.address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_ASKED)
        .thread_name("taut-api")
        .build()
        .map_err(ListenError::Thread)?;
    let (ending, ended) = watch::channel(false);
    let trust = listening.trust.clone();
    let reception = Reception { router, tls, trust, office, ending: ended, tell };
    let thread = std::thread::Builder::new()
        .name("taut-api".to_owned())
        .spawn(move || run(runtime, listener, reception))
        .map_err(ListenError::Thread)?;
    Ok(ApiServer { address, ending, thread: Some(thread) })
}

/// Who does not say which protocol it speaks speaks HTTP.
fn taking_calls(config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols = protocols();
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Arc::new(config)
}

fn run(runtime: Runtime, listener: TcpListener, reception: Reception) {
    runtime.block_on(async {
        let mut ending = reception.ending.clone();
        tokio::select! {
            () = accept(listener, reception) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
    });
    runtime.shutdown_timeout(LAST_ANSWERS);
}

async fn accept(listener: TcpListener, reception: Reception) {
    // It was made so that the runtime takes it: it does not block.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let guests = Guests::default();
    loop {
        match listener.accept().await {
            // A connection without room is closed at once; the client may try again.
            Ok((stream, from)) => match guests.enter(from.ip()) {
                Some(guest) => {
                    tokio::spawn(reception.clone().attend(stream, from, guest));
                }
                None => reception.turn_away(from, TurnedAway::TooMany),
            },
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
