//! Every answer that is no success: a status, and one sentence as JSON.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tautline_api::v1::{RefusalAnswer, WorkRefused};

/// A status and its sentence.
#[derive(Debug)]
pub(crate) struct HttpRefusal {
    status: StatusCode,
    error: String,
}

impl HttpRefusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
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
