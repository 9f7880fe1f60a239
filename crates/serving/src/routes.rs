//! Routes of the API, and authorization.

mod node;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Extension, Json, Router, middleware};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::DeserializeOwned;
use tautline_api::seal::{SECRET_BYTES, stream_secret};
use tautline_api::trust::{HostKey, TrustStore};
use tautline_api::v1::{
    Capacity, Catalogue, RefusalAnswer, SecretText, StreamRequest, VERSION, WorkRefused,
    WorkStream, WorkStreamState, Workshop,
};

use crate::guests::Guest;
use crate::news::{ApiAsker, ServingEvents, ServingNews, THIS_MACHINE, TurnedAway};
use crate::owners::{Actor, StreamOwners};

pub(crate) use node::node_router;

pub const OPENAPI: &str = include_str!("../openapi.json");

/// Maximum bytes of a body. A request has about 400 bytes.
const MAX_BODY: usize = 64 << 10;
const JSON: &str = "application/json";
/// Timeout from the head to the end of the body.
const BODY_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    pub(crate) proven: Option<ProvenKey>,
    pub(crate) guest: Arc<Guest>,
}

/// Proven by TLS, with a secret derived from the connection.
pub(crate) type ProvenKey = (HostKey, [u8; SECRET_BYTES]);

impl Caller {
    fn is_here(&self) -> bool {
        self.address.to_canonical().is_loopback()
    }
}

/// Who may use the API.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) trust: Option<Arc<TrustStore>>,
    pub(crate) notify: ServingEvents,
}

#[derive(Clone)]
struct ApiDesk {
    workshop: Arc<dyn Workshop>,
    admission: Admission,
    owners: Arc<Mutex<StreamOwners>>,
}

impl Admission {
    fn name(&self, key: HostKey) -> Option<String> {
        if self.is_own(key) {
            return Some(THIS_MACHINE.to_owned());
        }
        let hosts = self.trust.as_ref()?.trusted().hosts().ok()?;
        hosts.name(key).map(str::to_owned)
    }

    fn is_own(&self, key: HostKey) -> bool {
        self.trust.as_ref().is_some_and(|trust| trust.identity().key() == key)
    }

    fn asker(&self, caller: &Caller) -> ApiAsker {
        let name = caller.proven.as_ref().and_then(|(key, _)| self.name(*key));
        ApiAsker { name, address: caller.address }
    }
}

impl ApiDesk {
    fn actor(&self, caller: &Caller) -> Actor {
        match caller.proven {
            Some((key, _)) if self.admission.is_own(key) => Actor::Machine,
            Some((key, _)) => Actor::Peer(key),
            None => Actor::Local,
        }
    }

    fn owners(&self) -> MutexGuard<'_, StreamOwners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn router(workshop: Arc<dyn Workshop>, admission: Admission) -> Router {
    let desk = ApiDesk { workshop, admission: admission.clone(), owners: Arc::default() };
    let all = ApiCall::ALL.into_iter();
    let routes = all.fold(Router::new(), |router, call| router.route(call.path(), handler(call)));
    admitted(routes.with_state(desk), admission, SEE)
}

/// Description of the API for those who request what it lacks.
const SEE: &str = "see /v1/openapi.json";

/// Adds authorization, and answers to unknown requests.
fn admitted(routes: Router, admission: Admission, see: &'static str) -> Router {
    routes
        .fallback(move |uri| unknown(uri, see))
        .method_not_allowed_fallback(move |method, uri| not_so(method, uri, see))
        .layer(middleware::from_fn_with_state(admission, admit))
}

pub(crate) fn without_workshop() -> Router {
    Router::new().fallback(|| async {
        let why = "this port accepts calls, not HTTP; run: taut call HOST:PORT";
        HttpRefusal::new(StatusCode::NOT_FOUND, why)
    })
}

fn handler(call: ApiCall) -> MethodRouter<ApiDesk> {
    match call {
        ApiCall::Catalogue => get(catalogue),
        ApiCall::Capacity => get(capacity),
        ApiCall::Streams => get(streams),
        ApiCall::Open => post(open),
        ApiCall::Stream => get(stream),
        ApiCall::Close => delete(close),
        ApiCall::Openapi => get(openapi),
    }
}

/// Rejects pages in a local browser: they have another `Host`.
async fn admit(
    State(admission): State<Admission>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let refused = match &caller.proven {
        Some((key, _)) => {
            let why = "this host is no longer trusted here; run there: taut trust NAME KEY";
            admission.name(*key).is_none().then_some((TurnedAway::TrustedNoMore, why))
        }
        None => (!names_this_host(request.headers())).then_some((
            TurnedAway::OtherHost,
            "with plain HTTP the Host header must be localhost or a loopback address; use 127.0.0.1, or TLS",
        )),
    };
    match refused {
        Some((lacks, why)) => {
            (admission.notify)(&ServingNews::TurnedAway { address: caller.address, why: lacks });
            HttpRefusal::new(StatusCode::FORBIDDEN, why).into_response()
        }
        None => next.run(request).await,
    }
}

fn names_this_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    })
}

async fn requested<T: Send + 'static>(
    desk: &ApiDesk,
    request: impl FnOnce(&dyn Workshop) -> T + Send + 'static,
) -> Result<T, HttpRefusal> {
    let workshop = Arc::clone(&desk.workshop);
    blocking(move || request(&*workshop)).await
}

async fn blocking<T: Send + 'static>(
    request: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpRefusal> {
    tokio::task::spawn_blocking(request).await.map_err(|_| failed())
}

fn failed() -> HttpRefusal {
    let why = "internal error of the worker; check the output of taut work, and report it";
    HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
}

async fn catalogue(State(desk): State<ApiDesk>) -> Result<Json<Catalogue>, HttpRefusal> {
    requested(&desk, |workshop| workshop.catalogue()).await.map(Json)
}

async fn capacity(State(desk): State<ApiDesk>) -> Result<Json<Capacity>, HttpRefusal> {
    requested(&desk, |workshop| workshop.capacity()).await.map(Json)
}

async fn streams(
    State(desk): State<ApiDesk>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<WorkStreamState>>, HttpRefusal> {
    let mut states = requested(&desk, |workshop| workshop.streams()).await?;
    let (owners, actor) = (desk.owners(), desk.actor(&caller));
    states.retain(|state| owners.permits(state.id, actor));
    Ok(Json(states))
}

async fn stream(
    State(desk): State<ApiDesk>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<WorkStreamState>, HttpRefusal> {
    let number = number(&id)?;
    if !desk.owners().permits(number, desk.actor(&caller)) {
        return Err(no_stream(&id));
    }
    let state = requested(&desk, move |workshop| workshop.stream(number)).await?;
    state.map(Json).ok_or_else(|| no_stream(&id))
}

async fn close(
    State(desk): State<ApiDesk>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, HttpRefusal> {
    let number = number(&id)?;
    let (by, actor) = (desk.admission.asker(&caller), desk.actor(&caller));
    if !desk.owners().permits(number, actor) {
        if desk.owners().is_foreign(number, actor) {
            (desk.admission.notify)(&ServingNews::CloseDenied { by, id: number });
        }
        return Err(no_stream(&id));
    }
    // First, since `close` reports the stream's end.
    (desk.admission.notify)(&ServingNews::Closing { by, id: number });
    let was_there = requested(&desk, move |workshop| workshop.close(number)).await?;
    was_there.then_some(StatusCode::NO_CONTENT).ok_or_else(|| no_stream(&id))
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn open(
    State(desk): State<ApiDesk>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<WorkStream>), HttpRefusal> {
    let request = read(&headers, body).await?;
    if request.cleartext && !caller.is_here() {
        let why = "cleartext datagrams are only for measurements on the loopback interface; remove cleartext";
        return Err(HttpRefusal::new(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    let cleartext = request.cleartext;
    let chance = random()?;
    if !caller.guest.begin() {
        let why = "too many streams are being opened; try again";
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let secret = match &caller.proven {
        Some((_, connection)) => stream_secret(connection, &chance),
        None => chance,
    };
    let given = (!cleartext).then_some(secret);
    let (by, owner) = (desk.admission.asker(&caller), desk.actor(&caller));
    let (workshop, notify) = (Arc::clone(&desk.workshop), Arc::clone(&desk.admission.notify));
    let keeper = desk.clone();
    let opened = requested(&desk, move |requested| {
        let plugin = request.plugin.clone();
        match requested.open(request, given) {
            Ok(stream) => {
                // Locked before open streams are listed, so that `insert` keeps streams that other
                // requests open.
                let mut owners = keeper.owners();
                let open = requested.streams().iter().map(|state| state.id).collect();
                owners.insert(stream.id, owner, &open);
                drop(owners);
                notify(&ServingNews::Opened { by, stream: Box::new(stream.state.clone()) });
                Ok(UnreportedStream { stream: Some(stream), workshop })
            }
            Err(refused) => {
                notify(&ServingNews::Refused { by, plugin, why: refused.to_string() });
                Err(refused)
            }
        }
    });
    let opened = opened.await;
    caller.guest.finish();
    let mut stream = opened??.reported()?;
    let reported = (!cleartext).then(|| STANDARD.encode(chance));
    match caller.proven {
        Some(_) => stream.salt = reported,
        None => stream.key = reported.map(SecretText),
    }
    Ok((StatusCode::CREATED, Json(stream)))
}

/// Dropping this closes the stream, as the opener never learns its number.
struct UnreportedStream {
    workshop: Arc<dyn Workshop>,
    stream: Option<WorkStream>,
}

impl UnreportedStream {
    fn reported(mut self) -> Result<WorkStream, HttpRefusal> {
        self.stream.take().ok_or_else(failed)
    }
}

impl Drop for UnreportedStream {
    fn drop(&mut self) {
        let Some(WorkStream { id, .. }) = self.stream.take() else { return };
        let workshop = Arc::clone(&self.workshop);
        // Closing waits for a process.
        let close = std::thread::Builder::new().name("taut-close".to_owned());
        // If no thread starts, the stream stays until it is evicted.
        let _ = close.spawn(move || workshop.close(id));
    }
}

async fn read(headers: &HeaderMap, body: Body) -> Result<StreamRequest, HttpRefusal> {
    let bytes = json_of(headers, body).await?;
    // Other versions have different fields.
    let version = serde_json::from_slice::<serde_json::Value>(&bytes)
        .ok()
        .and_then(|requested| requested.get("version").and_then(serde_json::Value::as_u64));
    if let Some(version) = version.filter(|version| *version != u64::from(VERSION)) {
        let why = format!(
            "unsupported version {version}: this worker supports version {VERSION}; update taut on both hosts"
        );
        return Err(WorkRefused::BadRequest(why).into());
    }
    parsed(&bytes, SEE)
}

async fn json_of(headers: &HeaderMap, body: Body) -> Result<Bytes, HttpRefusal> {
    body_of(headers, body, JSON, (MAX_BODY, BODY_LIMIT)).await
}

/// A body of this content type. Without permission (CORS), pages in a browser may send neither
/// JSON nor bytes.
async fn body_of(
    headers: &HeaderMap,
    body: Body,
    kind: &'static str,
    (max, limit): (usize, Duration),
) -> Result<Bytes, HttpRefusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if given.split(';').next().is_none_or(|given| given.trim() != kind) {
        let why = format!("the body must be {kind}; set Content-Type: {kind}");
        return Err(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    whole(body, max, limit).await
}

fn parsed<T: DeserializeOwned>(json: &[u8], see: &str) -> Result<T, HttpRefusal> {
    serde_json::from_slice(json).map_err(|error| {
        let why = format!("invalid request: {error}; {see}");
        HttpRefusal::new(StatusCode::UNPROCESSABLE_ENTITY, why)
    })
}

async fn whole(body: Body, max: usize, limit: Duration) -> Result<Bytes, HttpRefusal> {
    match tokio::time::timeout(limit, to_bytes(body, max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            let why = format!("the body exceeds {max} bytes; send less");
            Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Err(_) => {
            let why = format!("timeout: no complete body within {limit:?}; send it again");
            Err(HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

fn random() -> Result<[u8; SECRET_BYTES], HttpRefusal> {
    let mut bytes = [0; SECRET_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| {
        let why = "cannot read random bytes for the stream's key; try again";
        HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    })
}

fn number(id: &str) -> Result<u32, HttpRefusal> {
    id.parse().map_err(|_| no_stream(id))
}

fn no_stream(id: &str) -> HttpRefusal {
    let id: String = id.chars().take(20).collect();
    let why = format!("you have no open stream {id:?}; GET /v1/streams lists yours");
    HttpRefusal::new(StatusCode::NOT_FOUND, why)
}

async fn unknown(uri: Uri, see: &str) -> HttpRefusal {
    let path: String = uri.path().chars().take(80).collect();
    let why = format!("no resource at {path:?}; {see}");
    HttpRefusal::new(StatusCode::NOT_FOUND, why)
}

async fn not_so(method: Method, uri: Uri, see: &str) -> HttpRefusal {
    let why = format!("unsupported method {method} at {}; {see}", uri.path());
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, why)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiCall {
    Catalogue,
    Capacity,
    Streams,
    Open,
    Stream,
    Close,
    Openapi,
}

impl ApiCall {
    pub const ALL: [Self; 7] = [
        Self::Catalogue,
        Self::Capacity,
        Self::Streams,
        Self::Open,
        Self::Stream,
        Self::Close,
        Self::Openapi,
    ];

    pub const fn path(self) -> &'static str {
        match self {
            Self::Catalogue => "/v1/catalogue",
            Self::Capacity => "/v1/capacity",
            Self::Streams | Self::Open => "/v1/streams",
            Self::Stream | Self::Close => "/v1/streams/{id}",
            Self::Openapi => "/v1/openapi.json",
        }
    }

    pub const fn method(self) -> &'static str {
        match self {
            Self::Open => "post",
            Self::Close => "delete",
            Self::Catalogue | Self::Capacity | Self::Streams | Self::Stream | Self::Openapi => {
                "get"
            }
        }
    }
}

#[derive(Debug)]
struct HttpRefusal {
    status: StatusCode,
    error: String,
}

impl HttpRefusal {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }
}

impl From<WorkRefused> for HttpRefusal {
    fn from(refused: WorkRefused) -> Self {
        let status = StatusCode::from_u16(refused.status());
        Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), refused.to_string())
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        (self.status, Json(RefusalAnswer { error: self.error })).into_response()
    }
}
