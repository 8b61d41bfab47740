//! Suggests a node for an image, with the algorithm of `tombolo place`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tombolo::nodes::Target;
use tombolo_machine::suggest;
use tombolo_placement::{Choice, Facts, Needs, PlacementError, choose};

use super::images::ImageInfo;
use super::{Answer, Problem, json, with_machine};
use crate::server::Site;

/// Node that can run the image.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) node: String,
    /// Free capacity: rounds of a short loop per millisecond, summed over all its processors.
    score: u64,
    why: String,
}

#[derive(Deserialize)]
pub(super) struct SuggestQuery {
    image: String,
    needs: Option<String>,
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
    let asked = asked.map_err(|_| Problem::bad_request("say which: /api/suggest?image=FILE&needs=NEEDS"))?;
    let image = site.images.find(&site.options.images, &asked.image).await?;
    let mut candidates = candidates(&site, &image, asked.needs.as_deref().unwrap_or_default()).await?;
    let best = candidates.remove(0);
    Ok(json(&Suggestion { node: best.node, why: best.why, others: candidates }))
}

/// Returns the nodes that can run an image and meet the needs, best first; never empty.
pub(super) async fn candidates(
    site: &Site,
    image: &ImageInfo,
    needs: &str,
) -> Result<Vec<Candidate>, Problem> {
    let needs = read(needs)?;
    let asked = needs.clone();
    let facts = with_machine(site, move |machine| Facts::query(machine.domain(), &asked)).await?;
    choose_nodes(&facts, &needs, &image.targets)
}

fn read(text: &str) -> Result<Needs, Problem> {
    text.parse().map_err(|error: tombolo_placement::NeedsError| {
        let meant = error.misspelt().and_then(|(word, known)| suggest::nearest(word, known));
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
        Problem::bad_request(format!("{error}{meant}"))
    })
}

fn choose_nodes(facts: &Facts, needs: &Needs, targets: &[Target]) -> Result<Vec<Candidate>, Problem> {
    let refused = |error: PlacementError| match error {
        PlacementError::Machine(error) => Problem::from(error),
        error => Problem::new(StatusCode::CONFLICT, error.to_string()),
    };
    let Choice { candidates, rejected } = choose(facts, needs, Some(targets)).map_err(refused)?;
    if candidates.is_empty() {
        return Err(refused(PlacementError::NoFit { rejected }));
    }
    let candidate = |found: tombolo_placement::choose::Candidate| Candidate {
        score: found.cost.free_speed(),
        node: found.node,
        why: found.why,
    };
    Ok(candidates.into_iter().map(candidate).collect())
}

#[cfg(test)]
mod tests {
    use tombolo::names::{Record, Value};

    use super::*;

    fn node(number: i64, name: &str, isa: &str, up: bool, free_permille: i64, speed: i64) -> Record {
        let attributes = [
            ("node", Value::Text(name.into())),
            ("number", Value::Integer(number)),
            ("isa", Value::Text(isa.into())),
            ("up", Value::Bool(up)),
            ("processors", Value::Integer(1)),
            ("free_permille", Value::Integer(free_permille)),
            ("rounds_per_ms", Value::Integer(speed)),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        Record { name: format!("node/{name}"), attributes, version: 0, owner: None, endpoint: false }
    }

    fn facts() -> Facts {
        Facts::from_records([
            node(0, "host", "x86_64", true, 200, 4000),
            node(1, "arm0", "aarch64", true, 1000, 500),
            node(2, "arm1", "aarch64", false, 1000, 900),
        ])
    }

    fn targets(names: &[&str]) -> Vec<Target> {
        names.iter().map(|name| Target::from_name(name).unwrap()).collect()
    }

    #[test]
    fn nodes_are_suggested_by_their_free_speed_where_there_is_a_build() {
        let found = choose_nodes(&facts(), &Needs::default(), &targets(&["x86_64", "aarch64"])).unwrap();
        let scores: Vec<(&str, u64)> = found.iter().map(|it| (it.node.as_str(), it.score)).collect();
        assert_eq!(scores, [("host", 800), ("arm0", 500)]);
        assert_eq!(found[0].why, "20 % of its one processor is free, and none here is faster");
        let error = choose_nodes(&facts(), &Needs::default(), &targets(&["riscv64"])).unwrap_err();
        assert_eq!(error.status, StatusCode::CONFLICT);
        assert!(error.text.contains("built for riscv64"), "{error:?}");
    }

    #[test]
    fn needs_are_checked() {
        let both = targets(&["x86_64", "aarch64"]);
        let found = choose_nodes(&facts(), &read("idle>=0.5").unwrap(), &both).unwrap();
        assert_eq!(found.iter().map(|it| it.node.as_str()).collect::<Vec<_>>(), ["arm0"]);
        let error = read("memry>1G").unwrap_err();
        assert_eq!(error.status, StatusCode::BAD_REQUEST);
        assert!(error.text.ends_with("did you mean 'memory'?"), "{error:?}");
        let error = choose_nodes(&facts(), &read("near=mars").unwrap(), &both).unwrap_err();
        assert_eq!(error.status, StatusCode::NOT_FOUND);
    }
}
