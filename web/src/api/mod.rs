//! HTTP endpoints of single requests, as opposed to `/live`.

mod images;
mod job;
mod results;
mod steer;
mod suggest;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tombolo::Error;
use tombolo::error::Fault;
use tombolo_admin::Machine;

use crate::metrics;
use crate::rows::to_json;
use crate::server::Site;

pub(crate) use images::Images;

/// Maximum length of a request body, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Timeout for receiving a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for a current snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the routes below `/api`, and those for other programs.
pub(crate) fn routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/metrics", get(exposition))
        .route("/trace", get(trace::trace))
        .route("/api/images", get(images::list))
        .route("/api/suggest", get(suggest::suggest))
        .route("/api/results", get(results::list))
        .route("/api/results/{file}", get(results::file))
        .route("/api/start", post(steer::start))
        .route("/api/pause", post(steer::pause))
        .route("/api/resume", post(steer::resume))
        .route("/api/stop", post(steer::stop))
        .route("/api/kill", post(steer::kill))
        .route("/api/repeat", post(steer::repeat))
        .route("/api/move", post(steer::move_to))
        .route("/api/frequency", post(steer::frequency))
        .route("/api/restore", post(steer::restore))
        .route("/api/restart", post(steer::restart))
}

/// `GET /metrics`
async fn exposition(State(site): State<Arc<Site>>) -> Response {
    let snapshot = site.cache.current(SNAPSHOT_TIMEOUT).await;
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::render(&snapshot)).into_response()
}

/// Error response: a status, and a message that is sent as JSON.
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

    fn bad_request(text: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, text)
    }

    /// Returns an internal server error.
    fn internal(text: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": self.text }).to_string();
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
            Error::TooLong { .. } | Error::Text { .. } => StatusCode::BAD_REQUEST,
            Error::MonitorLost { .. } | Error::NoMachine(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.to_string())
    }
}

/// Result of a handler.
type Answer = Result<Response, Problem>;

/// Returns a JSON response.
fn json(value: &impl Serialize) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], to_json(value)).into_response()
}

/// Receives a request body and parses it as JSON.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let text = "send JSON, and say so: Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let read = timeout(BODY_TIMEOUT, axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES)).await;
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
    let bytes = read.map_err(late)?.map_err(|error| {
        let text = format!("the body cannot be read, or is longer than {MAX_BODY_BYTES} bytes: {error}");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    })?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(error.to_string()))
}

/// Runs a blocking function on a thread of the blocking pool.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| {
        Problem::internal("this failed in a way that it should not; the server's output says how")
    })?
}

/// Sends a request to the machine, on a blocking thread.
async fn with_machine<T: Send + 'static>(
    site: &Site,
    operation: impl FnOnce(&Machine) -> Result<T, Error> + Send + 'static,
) -> Result<T, Problem> {
    let unreached = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the machine has not been reached yet");
    let domain = site.cache.snapshot().domain.clone().ok_or_else(unreached)?;
    blocking(move || operation(&Machine::of(&domain)).map_err(Problem::from)).await
}
