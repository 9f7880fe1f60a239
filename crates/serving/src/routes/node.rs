//! Routes of a node of a building.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use tautline_api::v1::{
    Acknowledged, FaultsAck, NodeService, NodeState, ZoneChange, ZoneRefused, ZoneState,
};

use super::{Admission, HttpRefusal, admitted, blocking, json_of, parsed};

const SEE: &str = "see docs/reference/building.md";

type Node = Arc<dyn NodeService>;

pub(crate) fn node_router(node: Node, admission: Admission) -> Router {
    let routes = Router::new()
        .route("/v1/node", get(state))
        .route("/v1/zones", post(change_zone))
        .route("/v1/ack", post(acknowledge));
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

impl From<ZoneRefused> for HttpRefusal {
    fn from(refused: ZoneRefused) -> Self {
        let status = StatusCode::from_u16(refused.status());
        Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), refused.to_string())
    }
}
