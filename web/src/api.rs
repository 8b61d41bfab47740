//! What is asked for once.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tombolo::{Error, Fault};

use crate::rows::quoted;
use crate::server::Site;

/// Everything below `/api`, and what is made for others.
pub(crate) fn routes() -> Router<Arc<Site>> {
    Router::new()
}

/// Why something was not done: a status, and a sentence in JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Problem {
        Problem { status, text: text.into() }
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, text)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = format!("{{\"error\":{}}}", quoted(&self.text));
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match &error {
            Error::Monitor(
                Fault::NoSuchNode { .. } | Fault::NoSuchDomain { .. } | Fault::NoSuchName { .. },
            ) => StatusCode::NOT_FOUND,
            Error::Monitor(Fault::System { .. }) => StatusCode::INTERNAL_SERVER_ERROR,
            Error::Monitor(_) => StatusCode::CONFLICT,
            Error::TooLong { .. } | Error::Text(_) => StatusCode::BAD_REQUEST,
            Error::MonitorLost { .. } | Error::NoMachine(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.to_string())
    }
}
