//! The page's files, embedded in the program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Embedded file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal $kind:ident),* $(,)?) => {
        &[$(Asset { name: $name, kind: $kind, bytes: include_bytes!(concat!("../page/", $name)) }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// All files of the page; add new ones here.
const ASSETS: &[Asset] = assets![
    "bound.js" SCRIPT,
    "channels.js" SCRIPT,
    "chart.js" SCRIPT,
    "dialog.js" SCRIPT,
    "dom.js" SCRIPT,
    "domain.js" SCRIPT,
    "domains.js" SCRIPT,
    "events.js" SCRIPT,
    "facts.js" SCRIPT,
    "field.js" SCRIPT,
    "format.js" SCRIPT,
    "hubs.js" SCRIPT,
    "index.html" HTML,
    "isa.js" SCRIPT,
    "job.js" SCRIPT,
    "live.js" SCRIPT,
    "main.js" SCRIPT,
    "map.js" SCRIPT,
    "mark.svg" PICTURE,
    "memory.js" SCRIPT,
    "names.js" SCRIPT,
    "node.js" SCRIPT,
    "output.js" SCRIPT,
    "plots.js" SCRIPT,
    "process.js" SCRIPT,
    "results.js" SCRIPT,
    "start.js" SCRIPT,
    "style.css" STYLE,
    "table.js" SCRIPT,
    "text.js" SCRIPT,
    "theme.js" SCRIPT,
    "trace.js" SCRIPT,
];

/// `GET /`
pub(crate) async fn page() -> Response {
    find("index.html")
}

/// `GET /assets/NAME`
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    find(&name)
}

fn find(name: &str) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => ([(header::CONTENT_TYPE, asset.kind)], asset.bytes).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut served: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        served.sort_unstable();
        assert_eq!(files, served);
    }
}
