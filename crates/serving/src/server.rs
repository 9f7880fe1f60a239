use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tautline_api::call::protocols;
use tautline_api::trust::tls::answering;
use tautline_api::v1::{NodeService, Workshop};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::call_connections::{CallConnections, ConnectionEvent};
use crate::connection::Reception;
use crate::guests::Guests;
use crate::listen::{ListenError, Listening};
use crate::news::{ServingEvents, ServingNews, TurnedAway};
use crate::routes::{Admission, node_router, router, without_workshop};

/// Maximum threads for workshop calls, which may block while a process starts.
const MAX_ASKED: usize = 8;
/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(100);
/// Timeout for pending calls at a stop.
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

    /// Waits for pending workshop calls, up to 5 s.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.ending.send(true);
        if let Some(thread) = self.thread.take() {
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
    serve_with_events(listening, workshop, |_| ())
}

/// Like `serve`, and reports news. `notify` must not block.
pub fn serve_with_events(
    listening: &Listening,
    workshop: Arc<dyn Workshop>,
    notify: impl Fn(&ServingNews) + Send + Sync + 'static,
) -> Result<ApiServer, ListenError> {
    listening.check()?;
    let notify: ServingEvents = Arc::new(notify);
    let admission = Admission { trust: listening.trust.clone(), notify: Arc::clone(&notify) };
    start(listening, router(workshop, admission), None, notify)
}

/// Serves a node of a building, also hosts that are trusted later. `notify` must not block.
pub fn serve_node(
    listening: &Listening,
    node: Arc<dyn NodeService>,
    notify: impl Fn(&ServingNews) + Send + Sync + 'static,
) -> Result<ApiServer, ListenError> {
    let notify: ServingEvents = Arc::new(notify);
    let admission = Admission { trust: listening.trust.clone(), notify: Arc::clone(&notify) };
    start(listening, node_router(node, admission), None, notify)
}

/// Listens for calls. If `events` is full, new connections are closed.
pub fn serve_calls(
    listening: &Listening,
    events: SyncSender<ConnectionEvent>,
    notify: impl Fn(&ServingNews) + Send + Sync + 'static,
) -> Result<ApiServer, ListenError> {
    listening.check()?;
    start(listening, without_workshop(), Some(CallConnections::new(events)), Arc::new(notify))
}

fn start(
    listening: &Listening,
    router: Router,
    office: Option<CallConnections>,
    notify: ServingEvents,
) -> Result<ApiServer, ListenError> {
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
        .max_blocking_threads(MAX_ASKED)
        .thread_name("taut-api")
        .build()
        .map_err(ListenError::Thread)?;
    let (ending, ended) = watch::channel(false);
    let trust = listening.trust.clone();
    let reception = Reception { router, tls, trust, office, ending: ended, notify };
    let thread = std::thread::Builder::new()
        .name("taut-api".to_owned())
        .spawn(move || run(runtime, listener, reception))
        .map_err(ListenError::Thread)?;
    Ok(ApiServer { address, ending, thread: Some(thread) })
}

/// Clients without ALPN use HTTP.
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
    // Cannot fail: the listener is non-blocking.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let guests = Guests::default();
    loop {
        match listener.accept().await {
            // Without room, closes the connection.
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
