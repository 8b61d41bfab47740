//! On which node an image is best started.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tombolo::observe::{NodePhase, Seen, SeenNode};

use super::images::Found;
use super::{Answer, FRESH, Problem, json};
use crate::server::Site;
use crate::view;

/// What is free of a node whose processors are all busy, in thousandths of one: a faster one is still better
/// than a slower one.
const SHARE: u64 = 10;

/// A node that can run it.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) node: String,
    /// What is free there: rounds of a short loop in a millisecond, of all its processors together.
    score: u64,
    why: String,
}

#[derive(Deserialize)]
pub(super) struct SuggestQuery {
    image: String,
}

#[derive(Serialize)]
struct Suggestion {
    node: String,
    why: String,
    others: Vec<Candidate>,
}

/// `GET /api/suggest`
pub(super) async fn suggest(
    State(site): State<Arc<Site>>,
    asked: Result<Query<SuggestQuery>, QueryRejection>,
) -> Answer {
    let asked = asked.map_err(|_| Problem::bad_request("say which: /api/suggest?image=FILE"))?;
    let image = site.images.find(&site.options.images, &asked.image).await?;
    let mut candidates = candidates(&site.cache.fresh(FRESH).await.seen, &image);
    if candidates.is_empty() {
        return Err(nowhere(&image));
    }
    let best = candidates.remove(0);
    Ok(json(&Suggestion { node: best.node, why: best.why, others: candidates }))
}

/// The best node for an image.
pub(super) fn best(seen: &Seen, image: &Found) -> Result<Candidate, Problem> {
    candidates(seen, image).into_iter().next().ok_or_else(|| nowhere(image))
}

fn nowhere(image: &Found) -> Problem {
    let targets: Vec<&str> = image.targets.iter().map(|target| target.name()).collect();
    let text = format!("no node that is up runs {}, which is built for {}", image.name, targets.join(", "));
    Problem::new(StatusCode::CONFLICT, text)
}

/// The nodes that can run an image, the best first.
fn candidates(seen: &Seen, image: &Found) -> Vec<Candidate> {
    let nodes = seen.nodes.values();
    let able = nodes.filter(|node| node.phase == NodePhase::Up && image.targets.contains(&node.target));
    let mut able: Vec<(&SeenNode, u64)> = able.map(|node| (node, score(node))).collect();
    able.sort_by_key(|(node, score)| (Reverse(*score), node.info.domains, node.info.id));
    able.into_iter()
        .map(|(node, score)| Candidate { node: node.info.name.clone(), score, why: why(seen, node) })
        .collect()
}

/// What is free of its processors, in thousandths of one.
fn free_permille(node: &SeenNode) -> Option<u64> {
    let sample = node.sample.as_ref()?;
    Some((sample.cores.len() as u64 * 1000).saturating_sub(view::load(sample)))
}

fn score(node: &SeenNode) -> u64 {
    let speed = node.sample.as_ref().map_or(0, |sample| u64::from(sample.speed));
    free_permille(node).map_or(0, |free| free.max(SHARE) * speed / 1000)
}

fn why(seen: &Seen, node: &SeenNode) -> String {
    let (Some(sample), Some(free)) = (&node.sample, free_permille(node)) else {
        return "nothing is known of its processors yet".to_owned();
    };
    if view::shares_kernel(node) {
        return "it runs under an emulator on the host's processors, and what that costs is not measured"
            .to_owned();
    }
    let fastest =
        seen.nodes.values().filter_map(|node| node.sample.as_ref()).map(|sample| sample.speed).max();
    let fastest = fastest.unwrap_or(0).max(1);
    let idle = match sample.cores.len() {
        1 => format!("{} % of its one processor is free", free / 10),
        cores => format!("{}.{} of its {cores} processors are free", free / 1000, free % 1000 / 100),
    };
    if sample.speed == fastest {
        return format!("{idle}, and none here is faster");
    }
    let percent = (u64::from(sample.speed) * 100 / u64::from(fastest)).max(1);
    format!("{idle}; each does {percent} % of what the fastest here does")
}

#[cfg(test)]
mod tests {
    use tombolo::admin::Target;

    use super::*;
    use crate::testing::{node, seen};

    fn image(targets: &[&str]) -> Found {
        Found {
            file: "x.tbi".into(),
            path: "x.tbi".into(),
            name: "x".into(),
            targets: targets.iter().map(|name| Target::from_name(name).unwrap()).collect(),
            restartable: false,
            bytes: 1,
        }
    }

    #[test]
    fn free_processors_count_by_their_speed() {
        let seen = seen([
            node(0, "host", "x86_64", &[900, 900, 1000, 1000], 4000),
            node(1, "arm0", "aarch64", &[0], 500),
            node(2, "arm1", "aarch64", &[0, 500], 500),
        ]);
        let found = candidates(&seen, &image(&["x86_64", "aarch64"]));
        let names: Vec<(&str, u64)> = found.iter().map(|found| (found.node.as_str(), found.score)).collect();
        assert_eq!(names, [("host", 800), ("arm1", 750), ("arm0", 500)]);
        assert_eq!(found[0].why, "0.2 of its 4 processors are free, and none here is faster");
        assert_eq!(
            found[1].why,
            "1.5 of its 2 processors are free; each does 12 % of what the fastest here does"
        );
        assert_eq!(
            found[2].why,
            "100 % of its one processor is free; each does 12 % of what the fastest here does"
        );
    }

    #[test]
    fn a_node_must_be_up_and_there_must_be_a_build_for_it() {
        let mut down = node(1, "arm0", "aarch64", &[0], 500);
        down.phase = NodePhase::Down;
        let seen = seen([node(0, "host", "x86_64", &[0], 4000), down]);
        assert_eq!(candidates(&seen, &image(&["x86_64", "aarch64"])).len(), 1);
        let error = best(&seen, &image(&["aarch64"])).unwrap_err();
        assert!(error.text.contains("built for aarch64"), "{error:?}");
    }

    #[test]
    fn one_of_which_nothing_is_known_comes_last() {
        let mut unknown = node(0, "host", "x86_64", &[0], 4000);
        unknown.sample = None;
        let seen = seen([unknown, node(1, "other", "x86_64", &[1000], 1)]);
        let found = candidates(&seen, &image(&["x86_64"]));
        assert_eq!(found.iter().map(|found| found.score).collect::<Vec<_>>(), [0, 0]);
        assert_eq!(found[0].why, "nothing is known of its processors yet");
    }
}
