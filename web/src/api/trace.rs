//! Records a trace of a few seconds for Perfetto.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use tombolo_admin::Machine;
use tombolo_admin::trace::{CollectError, Collector, Recording};
use tombolo_trace::file::salvage;
use tombolo_trace::merge::merge;
use tombolo_trace::perfetto::Export;

use super::{Answer, Problem, blocking};
use crate::guard::Refusal;
use crate::server::Site;

/// Maximum recording time, in seconds.
const MAX_SECONDS: u64 = 60;

/// Maximum number of events, at about 40 bytes each, at which recording ends early: they are sorted in
/// memory.
const MAX_EVENTS: u64 = 4_000_000;

/// Interval between two polls of the domains' trace pages.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Deserialize)]
pub(super) struct TraceQuery {
    seconds: u64,
}

/// Sets its flag when the request is dropped.
struct DisconnectFlag(Arc<AtomicBool>);

impl Drop for DisconnectFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// `GET /trace?seconds=N`
pub(super) async fn trace(
    State(site): State<Arc<Site>>,
    asked: Result<Query<TraceQuery>, QueryRejection>,
) -> Answer {
    if !site.guard.steers() {
        // Tracing slows down every domain, so it counts as steering.
        return Err(Problem::new(Refusal::ReadOnly.status(), Refusal::ReadOnly.text()));
    }
    let seconds = asked.ok().map(|asked| asked.seconds).filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    let wrong = || Problem::bad_request(format!("say for how long: /trace?seconds=1 to {MAX_SECONDS}"));
    let time = Duration::from_secs(seconds.ok_or_else(wrong)?);
    let snapshot = site.cache.snapshot();
    let domain =
        snapshot.domain.clone().ok_or_else(|| Problem::internal("the machine has not been reached yet"))?;
    let left = Arc::new(AtomicBool::new(false));
    let _leaving = DisconnectFlag(Arc::clone(&left));
    let bytes = blocking(move || record(&Machine::of(&domain), time, &left)).await?;
    // Machine names consist of letters, digits, dashes and underscores.
    let file = format!("attachment; filename=\"{}.pftrace\"", snapshot.machine);
    let disposition = HeaderValue::from_str(&file).unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, bytes).into_response())
}

impl From<CollectError> for Problem {
    fn from(error: CollectError) -> Problem {
        match error {
            CollectError::Machine(error) => error.into(),
            CollectError::Write(error) => Problem::internal(error.to_string()),
        }
    }
}

/// Stops tracing when dropped, and releases the trace pages of domains that ended.
struct Tracing<'a>(&'a Machine);

impl Drop for Tracing<'_> {
    fn drop(&mut self) {
        // If the monitor is gone, so is the trace. The first call stops tracing, the second releases the
        // pages.
        let _ = self.0.stop_trace().and_then(|()| self.0.stop_trace());
    }
}

fn record(machine: &Machine, time: Duration, left: &AtomicBool) -> Result<Vec<u8>, Problem> {
    let mut file = Vec::new();
    let mut collector = Collector::new(machine, &mut file)?;
    machine.start_trace(Recording { keep_first: false, while_attached: true })?;
    let tracing = Tracing(machine);
    let until = Instant::now() + time;
    loop {
        let found = collector.collect()?;
        let over =
            Instant::now() >= until || collector.events() >= MAX_EVENTS || left.load(Ordering::Relaxed);
        // Another client may have stopped tracing.
        if over || !collector.is_on() {
            break;
        }
        if found == 0 {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    machine.stop_trace()?;
    while collector.collect()? > 0 {}
    collector.finish()?;
    drop(tracing);
    perfetto(&file)
}

/// Converts a recording to Perfetto's format, in causal order.
fn perfetto(file: &[u8]) -> Result<Vec<u8>, Problem> {
    let (recording, error) = salvage(file);
    if let Some(error) = error {
        return Err(Problem::internal(format!("cannot read the recording: {error}")));
    }
    let timeline = merge(&recording).map_err(|error| Problem::internal(error.to_string()))?;
    let mut export = Export::new(&recording, &timeline);
    let mut bytes = export.tracks();
    while let Some(piece) = export.next_chunk() {
        bytes.extend(piece);
    }
    Ok(bytes)
}
