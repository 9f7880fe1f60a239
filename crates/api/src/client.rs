//! A small blocking HTTP client for workers.
//!
//! Requests to other hosts use TLS and a trusted key.

mod address;
mod error;
pub(crate) mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tautline_proto::text::printable;
use ureq::http::{Method, Request};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, RequestExt};

use crate::seal::{SECRET_BYTES, stream_secret};
use crate::trust::TrustStore;
use crate::v1::{
    Acknowledged, Capacity, Catalogue, FaultsAck, MAX_TEXT, NodeState, RefusalAnswer, SecretText,
    SitePush, SitePushed, StreamRequest, VERSION, WorkStream, WorkStreamState, ZoneChange,
    ZoneState,
};

pub use address::{NoWorkerAddress, WorkerAddress};
pub use error::AskError;
use wire::{Meeting, WorkerConnector};

/// Default timeout of a request, for which a worker may start a process.
const DEFAULT_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Maximum bytes of an answer. Thousands of plugins take 5 MB.
const MAX_ANSWER: u64 = 32 << 20;
const MAX_HEAD: usize = 16 << 10;
/// Content types.
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// Client for one worker.
#[derive(Debug, Clone)]
pub struct WorkerClient {
    address: WorkerAddress,
    trust: Option<Arc<TrustStore>>,
    by_tls: bool,
    limit: Duration,
}

/// A stream opened by a worker.
pub struct WorkOpened {
    /// The worker's description.
    pub stream: WorkStream,
    /// Address for its datagrams.
    pub far: SocketAddr,
    /// `None` for cleartext.
    pub secret: Option<[u8; SECRET_BYTES]>,
}

impl core::fmt::Debug for WorkOpened {
    /// Omits the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let sealed = self.secret.is_some();
        let Self { stream: WorkStream { id, state, .. }, far, .. } = self;
        write!(f, "WorkOpened {{ id: {id}, far: {far}, sealed: {sealed}, state: {state:?} }}")
    }
}

struct Answered {
    status: u16,
    body: Vec<u8>,
    met: Meeting,
}

impl WorkerClient {
    /// Without `trust`, reaches only workers on this host.
    pub fn new(address: &WorkerAddress, trust: Option<Arc<TrustStore>>) -> Self {
        Self { address: address.clone(), trust, by_tls: false, limit: DEFAULT_LIMIT }
    }

    /// Uses the default trust store; creates this host's key if missing.
    pub fn usual(address: &WorkerAddress) -> Result<Self, AskError> {
        let trust = match address.is_surely_here() {
            true => None,
            false => Some(TrustStore::usual()?),
        };
        Ok(Self::new(address, trust))
    }

    /// Sets the timeout of each call.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Uses TLS even for a worker on this host.
    #[must_use]
    pub const fn by_tls(mut self) -> Self {
        self.by_tls = true;
        self
    }

    /// The worker's address.
    pub const fn address(&self) -> &WorkerAddress {
        &self.address
    }

    /// Valid plugins of the worker, and the faults of the others ([`Catalogue::check`]).
    pub fn catalogue(&self) -> Result<(Catalogue, Vec<String>), AskError> {
        let mut catalogue: Catalogue = self.get("/v1/catalogue")?;
        let wrong = catalogue.check().map_err(|what| self.invalid_answer(what))?;
        Ok((catalogue, wrong))
    }

    /// Used and free capacity.
    pub fn capacity(&self) -> Result<Capacity, AskError> {
        self.get("/v1/capacity")
    }

    /// State of all its streams.
    pub fn states(&self) -> Result<Vec<WorkStreamState>, AskError> {
        self.get("/v1/streams")
    }

    /// State of one stream, if it exists.
    pub fn state(&self, id: u32) -> Result<Option<WorkStreamState>, AskError> {
        let answered = self.request(Method::GET, &format!("/v1/streams/{id}"), None)?;
        if answered.status == 404 {
            return Ok(None);
        }
        self.read(&answered).map(Some)
    }

    /// Opens a stream, which stays open until closed, even without this client.
    pub fn open(&self, request: &StreamRequest) -> Result<WorkOpened, AskError> {
        let answered =
            self.request(Method::POST, "/v1/streams", Some((JSON, &self.json(request)?)))?;
        let mut stream: WorkStream = self.read(&answered)?;
        let secret = self.secret(&mut stream, request.cleartext, &answered.met)?;
        let far = SocketAddr::new(answered.met.peer.ip(), stream.udp_port);
        Ok(WorkOpened { stream, far, secret })
    }

    /// Closes a stream; returns whether it existed.
    pub fn close(&self, id: u32) -> Result<bool, AskError> {
        let answered = self.request(Method::DELETE, &format!("/v1/streams/{id}"), None)?;
        match answered.status {
            404 => Ok(false),
            204 => Ok(true),
            _ => Err(self.refused(&answered)),
        }
    }

    /// State of a node of a building.
    pub fn node(&self) -> Result<NodeState, AskError> {
        self.get("/v1/node")
    }

    /// Changes a zone of a node; returns its state.
    pub fn change_zone(&self, change: &ZoneChange) -> Result<ZoneState, AskError> {
        self.post("/v1/zones", change)
    }

    /// Copies a building file to a node. An answer that lacks files changed nothing.
    pub fn push_site(&self, push: &SitePush) -> Result<SitePushed, AskError> {
        self.post("/v1/site", push)
    }

    /// Copies a file that a push lacks.
    pub fn stage_file(&self, sha256: &str, bytes: &[u8]) -> Result<(), AskError> {
        let path = format!("/v1/site/files/{sha256}");
        let answered = self.request(Method::PUT, &path, Some((BYTES, bytes)))?;
        match answered.status {
            204 => Ok(()),
            _ => Err(self.refused(&answered)),
        }
    }

    fn post<T: DeserializeOwned>(&self, path: &str, value: &impl Serialize) -> Result<T, AskError> {
        self.read(&self.request(Method::POST, path, Some((JSON, &self.json(value)?)))?)
    }

    /// Clears faults of a node that ended.
    pub fn acknowledge(&self, request: &FaultsAck) -> Result<Acknowledged, AskError> {
        self.post("/v1/ack", request)
    }

    fn secret(
        &self,
        stream: &mut WorkStream,
        cleartext: bool,
        met: &Meeting,
    ) -> Result<Option<[u8; SECRET_BYTES]>, AskError> {
        let bytes = |text: Option<String>| {
            let bytes = STANDARD.decode(text?).ok()?;
            <[u8; SECRET_BYTES]>::try_from(bytes).ok()
        };
        let (salt, key) =
            (bytes(stream.salt.take()), bytes(stream.key.take().map(|SecretText(key)| key)));
        let secret = match &met.secret {
            _ if cleartext => return Ok(None),
            Some(connection) => salt.map(|salt| stream_secret(connection, &salt)),
            None => key,
        };
        let without =
            || self.invalid_answer("it opened a stream without an encryption key".to_owned());
        secret.map(Some).ok_or_else(without)
    }

    fn json(&self, value: &impl Serialize) -> Result<Vec<u8>, AskError> {
        serde_json::to_vec(value).map_err(|error| self.invalid_answer(error.to_string()))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        self.read(&self.request(Method::GET, path, None)?)
    }

    fn read<T: DeserializeOwned>(&self, answered: &Answered) -> Result<T, AskError> {
        if !(200..300).contains(&answered.status) {
            return Err(self.refused(answered));
        }
        serde_json::from_slice(&answered.body)
            .map_err(|error| self.invalid_answer(error.to_string()))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, &[u8])>,
    ) -> Result<Answered, AskError> {
        let connector = WorkerConnector::new(
            self.address.clone(),
            self.trust.clone(),
            self.by_tls,
            CONNECT_LIMIT.min(self.limit),
        );
        let config = Agent::config_builder()
            .timeout_global(Some(self.limit))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(MAX_HEAD)
            .max_idle_connections(0)
            // Requests must not depend on the environment.
            .proxy(None)
            .user_agent(concat!("taut/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = Agent::with_parts(config, connector.clone(), DefaultResolver::default());
        let began = Instant::now();
        let reported = |error| wire::reported(&self.address, began.elapsed(), error, &connector);
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address.authority()));
        let response = match body {
            Some((kind, body)) => request
                .header("content-type", kind)
                .body(body)
                .map_err(ureq::Error::Http)
                .and_then(|request| request.with_agent(&agent).run()),
            None => request
                .body(())
                .map_err(ureq::Error::Http)
                .and_then(|request| request.with_agent(&agent).run()),
        };
        let mut response = response.map_err(reported)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(reported)?;
        let met = connector.met().ok_or_else(|| reported(ureq::Error::ConnectionFailed))?;
        Ok(Answered { status, body, met })
    }

    fn refused(&self, answered: &Answered) -> AskError {
        let worker = self.address.clone();
        let status = answered.status;
        match serde_json::from_slice(&answered.body) {
            Ok(RefusalAnswer { error }) => AskError::Refused { worker, status, error },
            Err(_) => self.invalid_answer(format!("status {status} without a reason")),
        }
    }

    fn invalid_answer(&self, what: String) -> AskError {
        // The text may quote the worker.
        let what = printable(&what, MAX_TEXT);
        AskError::InvalidAnswer { worker: self.address.clone(), what, version: VERSION }
    }
}
