//! Routes of a node of a building.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use tautline_api::v1::{
    Acknowledged, FaultsAck, MAX_PUSHED_FILE, NodeService, NodeState, PushRefused, SitePush,
    SitePushed, ZoneChange, ZoneRefused, ZoneState,
};
use tautline_proto::text::on_one_line;

use super::{Admission, HttpRefusal, JSON, admitted, blocking, body_of, json_of, parsed};

const SEE: &str = "see docs/reference/building.md";

/// Maximum bytes and time of a building file in JSON: it has 1 MiB, of which quotes and line ends
/// take two bytes each.
const SITE_LIMITS: (usize, Duration) = (4 << 20, Duration::from_secs(20));
/// Maximum bytes and time of a recording.
const FILE_LIMITS: (usize, Duration) = (MAX_PUSHED_FILE, Duration::from_secs(55));

type Node = Arc<dyn NodeService>;

pub(crate) fn node_router(node: Node, admission: Admission) -> Router {
    let routes = Router::new()
        .route("/v1/node", get(state))
        .route("/v1/zones", post(change_zone))
        .route("/v1/ack", post(acknowledge))
        .route("/v1/site", post(push))
        .route("/v1/site/files/{sha256}", put(stage));
    admitted(routes.with_state(node), admission, SEE)
}

async fn state(State(node): State<Node>) -> Result<Json<NodeState>, HttpRefusal> {
    blocking(move || node.state()).await.map(Json)
}

async fn change_zone(
    State(node): State<Node>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ZoneState>, HttpRefusal> {
    let change: ZoneChange = parsed(&json_of(&headers, body).await?, SEE)?;
    Ok(Json(blocking(move || node.change(change)).await??))
}

async fn acknowledge(
    State(node): State<Node>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Acknowledged>, HttpRefusal> {
    let request: FaultsAck = parsed(&json_of(&headers, body).await?, SEE)?;
    blocking(move || node.acknowledge(request)).await.map(Json)
}

async fn push(
    State(node): State<Node>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<SitePushed>, HttpRefusal> {
    let push: SitePush = parsed(&body_of(&headers, body, JSON, SITE_LIMITS).await?, SEE)?;
    Ok(Json(blocking(move || node.push(push)).await??))
}

async fn stage(
    State(node): State<Node>,
    Path(sha256): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, HttpRefusal> {
    let bytes = body_of(&headers, body, "application/octet-stream", FILE_LIMITS).await?;
    blocking(move || node.stage(&sha256, &bytes)).await??;
    Ok(StatusCode::NO_CONTENT)
}

impl From<ZoneRefused> for HttpRefusal {
    fn from(refused: ZoneRefused) -> Self {
        let status = StatusCode::from_u16(refused.status());
        Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), on_one_line(refused))
    }
}

impl From<PushRefused> for HttpRefusal {
    fn from(refused: PushRefused) -> Self {
        let status = StatusCode::from_u16(refused.status());
        Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), on_one_line(refused))
    }
}
