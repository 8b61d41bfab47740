//! Results of `tombolo bench`, for the page to draw.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Path as UrlPath, State};
use axum::http::header;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};

use super::{Answer, Problem, blocking, json};
use crate::server::Site;

/// Maximum number of results.
const MAX_RESULTS: usize = 256;

/// Maximum length of a result file, in bytes.
const MAX_RESULT_BYTES: u64 = 16 << 20;

#[derive(Serialize)]
struct Listing {
    results: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    file: String,
    label: String,
    kind: String,
    /// Time of the measurement in seconds since the Unix epoch; null if the file has none.
    taken: Option<u64>,
}

/// Metadata of a result file.
#[derive(Deserialize)]
struct Head {
    label: Option<String>,
    kind: Option<String>,
    taken_at: Option<u64>,
}

/// `GET /api/results`
pub(super) async fn list(State(site): State<Arc<Site>>) -> Answer {
    let folder = site.options.results.clone();
    let results = blocking(move || {
        let files = folder.map(|folder| files(&folder)).unwrap_or_default();
        Ok(files.iter().filter_map(|path| listed(path)).take(MAX_RESULTS).collect())
    });
    Ok(json(&Listing { results: results.await? }))
}

/// `GET /api/results/FILE`
pub(super) async fn file(State(site): State<Arc<Site>>, UrlPath(name): UrlPath<String>) -> Answer {
    let folder = site.options.results.clone();
    let bytes = blocking(move || {
        let files = folder.map(|folder| files(&folder)).unwrap_or_default();
        // The name is only compared with listed files and never becomes part of a path.
        let found = files.into_iter().find(|path| path.file_name().is_some_and(|file| *file == *name));
        let path = found.ok_or_else(|| Problem::not_found(format!("there is no result '{name}'")))?;
        std::fs::read(&path)
            .map_err(|error| Problem::internal(format!("cannot read {}: {error}", path.display())))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes.await?).into_response())
}

/// Lists the result files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_result = |path: &PathBuf| {
        let metadata = std::fs::metadata(path);
        path.extension().is_some_and(|extension| extension == "json")
            && metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_RESULT_BYTES)
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_result).collect();
    files.sort();
    files
}

/// Returns the summary of a result file; `None` for other files.
fn listed(path: &Path) -> Option<Listed> {
    let file = path.file_name()?.to_str()?.to_owned();
    let head: Head = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let label = head.label.unwrap_or_else(|| file.clone());
    Some(Listed { file, label, kind: head.kind.unwrap_or_else(|| "bench".to_owned()), taken: head.taken_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_objects_are_listed() {
        let folder = std::env::temp_dir().join(format!("tombolo-results-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("b.json"), r#"{"label": "<b>here</b>", "taken_at": 7, "rows": []}"#)
            .unwrap();
        std::fs::write(folder.join("a.json"), r#"{"kind": "clustered-graph"}"#).unwrap();
        std::fs::write(folder.join("c.json"), "[").unwrap();
        std::fs::write(folder.join("d.txt"), "{}").unwrap();
        let all: Vec<Listed> = files(&folder).iter().filter_map(|path| listed(path)).collect();
        let shown: Vec<_> = all
            .iter()
            .map(|one| (one.file.as_str(), one.label.as_str(), one.kind.as_str(), one.taken))
            .collect();
        assert_eq!(
            shown,
            [("a.json", "a.json", "clustered-graph", None), ("b.json", "<b>here</b>", "bench", Some(7))]
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
