//! Requests that change the machine. [`crate::guard`] has checked that the server was started with `--steer`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tombolo::{DomainId, SpawnOptions};
use tombolo_admin::{Frequency, Signal};

use super::job::{Job, Ranks};
use super::{Answer, Problem, SNAPSHOT_TIMEOUT, body, json, suggest, with_machine};
use crate::server::Site;
use crate::view;

/// Default time that a domain gets to end by itself.
const GRACE_MS: u64 = 2000;

/// Maximum grace period that a request may set.
const MAX_GRACE_MS: u64 = 60_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    image: String,
    node: Option<String>,
    /// Requirements on the node if none is named.
    needs: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    directory: Option<String>,
    /// For a job: number of domains on each node. If empty, a single domain is started on `node`.
    #[serde(default)]
    ranks: Vec<Ranks>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    grants: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    domain: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    domain: String,
    grace_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    domain: String,
    node: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    domain: String,
    node: String,
    grace_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetFrequency {
    node: String,
    #[serde(default)]
    cores: Vec<u16>,
    governor: Option<String>,
    min_khz: Option<u32>,
    max_khz: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    node: String,
}

/// Response: the domain that was started or affected.
#[derive(Serialize)]
struct Done {
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
}

fn done(domain: Option<DomainId>) -> Answer {
    Ok(json(&Done { domain: domain.map(|id| id.to_string()) }))
}

/// Parses a domain that may be steered: any but this server's own.
fn steerable_domain(site: &Site, text: &str) -> Result<DomainId, Problem> {
    let id = view::domain_id(text).map_err(|missing| Problem::not_found(missing.to_string()))?;
    if site.cache.snapshot().observer() == Some(id) {
        let text = "that is the server of this page itself; Ctrl-C ends it where it was started";
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    Ok(id)
}

fn grace(ms: Option<u64>) -> Duration {
    Duration::from_millis(ms.unwrap_or(GRACE_MS).min(MAX_GRACE_MS))
}

/// `POST /api/start`
pub(super) async fn start(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let Start { image, node, needs, arguments, directory, ranks, environment, grants } =
        body(request).await?;
    let found = site.images.find(&site.options.images, &image).await?;
    let mut options = if ranks.is_empty() {
        if !grants.is_empty() {
            return Err(Problem::bad_request("grants are for jobs; give `ranks`"));
        }
        let node = match node {
            Some(node) => node,
            None => {
                let needs = needs.as_deref().unwrap_or_default();
                suggest::candidates(&site, &found, needs).await?.swap_remove(0).node
            }
        };
        let options = SpawnOptions::image(&found.path).on(node).args(arguments);
        environment.into_iter().fold(options, |options, (name, value)| options.env(name, value))
    } else {
        let job = Job { ranks, environment, grants };
        job.check(&site.cache.current(SNAPSHOT_TIMEOUT).await.seen, &found)?;
        let image = std::path::absolute(&found.path).unwrap_or(found.path);
        job.spawn(&site.options.command, &image, arguments)
    };
    if let Some(directory) = directory.filter(|directory| !directory.is_empty()) {
        options = options.directory(directory);
    }
    done(Some(with_machine(&site, move |machine| machine.domain().spawn(&options)).await?.id()))
}

/// `POST /api/pause`
pub(super) async fn pause(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let id = steerable_domain(&site, &body::<Which>(request).await?.domain)?;
    with_machine(&site, move |machine| machine.pause(id)).await?;
    done(Some(id))
}

/// `POST /api/resume`
pub(super) async fn resume(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let id = steerable_domain(&site, &body::<Which>(request).await?.domain)?;
    with_machine(&site, move |machine| machine.resume(id)).await?;
    done(Some(id))
}

/// `POST /api/stop`
pub(super) async fn stop(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let Stop { domain, grace_ms } = body(request).await?;
    let id = steerable_domain(&site, &domain)?;
    with_machine(&site, move |machine| machine.kill(id, Signal::TERM, grace(grace_ms))).await?;
    done(Some(id))
}

/// `POST /api/kill`
pub(super) async fn kill(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let id = steerable_domain(&site, &body::<Which>(request).await?.domain)?;
    with_machine(&site, move |machine| machine.kill(id, Signal::KILL, Duration::ZERO)).await?;
    done(Some(id))
}

/// `POST /api/repeat`
pub(super) async fn repeat(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let Repeat { domain, node } = body(request).await?;
    let id = steerable_domain(&site, &domain)?;
    done(Some(with_machine(&site, move |machine| machine.repeat(id, node.as_deref())).await?))
}

/// `POST /api/move`
pub(super) async fn move_to(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let Move { domain, node, grace_ms } = body(request).await?;
    let id = steerable_domain(&site, &domain)?;
    done(Some(with_machine(&site, move |machine| machine.move_to(id, &node, grace(grace_ms))).await?))
}

/// `POST /api/frequency`
pub(super) async fn frequency(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let SetFrequency { node, cores, governor, min_khz, max_khz } = body(request).await?;
    let frequency = Frequency { cores, governor, min_khz, max_khz };
    if frequency == (Frequency { cores: frequency.cores.clone(), ..Frequency::default() }) {
        return Err(Problem::bad_request(
            "no setting given; set a governor, a lowest or a highest frequency",
        ));
    }
    with_machine(&site, move |machine| machine.set_frequency(&node, frequency)).await?;
    done(None)
}

/// `POST /api/restore`
pub(super) async fn restore(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let Node { node } = body(request).await?;
    with_machine(&site, move |machine| machine.restore_frequency(&node)).await?;
    done(None)
}

/// `POST /api/restart`
pub(super) async fn restart(State(site): State<Arc<Site>>, request: Request) -> Answer {
    let Node { node } = body(request).await?;
    with_machine(&site, move |machine| machine.restart_node(&node)).await?;
    done(None)
}
