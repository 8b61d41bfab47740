//! What `bench/python/array_transfer.py --json` found: arrays that another program in Python gets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;

/// The name of this project's own peer in that file.
pub const POOL: &str = "Tombolo pool";
/// The name of the figures with one copy.
pub const ONE_COPY: &str = "one copy";
/// The name of the figures without a copy.
pub const NO_COPY: &str = "no copy";

/// The content of the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Arrays {
    /// Versions, and how much was measured.
    pub about: About,
    /// By peer.
    pub latency_ns: BTreeMap<String, Figures>,
}

/// Versions and settings of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct About {
    /// The length of the array.
    pub bytes: u64,
    /// The rest, by name: a version, or a number.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// What was found of a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figures {
    /// Nothing, and why.
    Absent(String),
    /// Times, by how often the array was copied.
    Found(BTreeMap<String, Times>),
}

/// Nanoseconds until the other program has it and this one knows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Times {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Of the medians of several runs the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// And the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

impl Arrays {
    /// Reads what the program has written.
    ///
    /// # Errors
    /// [`Error::File`]: it is not there, or is something else.
    pub fn read(path: &Path) -> Result<Arrays, Error> {
        let file = |why: String| Error::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| file(format!("cannot be read: {error}")))?;
        serde_json::from_str(&text).map_err(|error| {
            file(format!("has no figures of bench/python/array_transfer.py --json: {error}"))
        })
    }

    /// The figures of a peer, by how often the array was copied.
    #[must_use]
    pub fn times(&self, peer: &str, copies: &str) -> Option<&Times> {
        match self.latency_ns.get(peer)? {
            Figures::Absent(_) => None,
            Figures::Found(found) => found.get(copies),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::arrays;

    #[test]
    fn the_file_is_read_whatever_else_is_in_it() {
        let arrays = arrays();
        assert_eq!(arrays.about.bytes, 16 << 20);
        assert_eq!(arrays.times(POOL, NO_COPY).map(|times| times.p50), Some(12_000.0));
        assert_eq!(arrays.times("Ray", ONE_COPY), None);
        assert_eq!(arrays.latency_ns["Ray"], Figures::Absent("not installed".into()));
        let text = serde_json::to_string(&arrays).expect("text");
        assert_eq!(serde_json::from_str::<Arrays>(&text).expect("the same"), arrays);
    }

    #[test]
    fn something_else_is_refused_with_the_reason() {
        let error = Arrays::read(Path::new("/nonexistent/arrays.json")).expect_err("it is not there");
        assert!(error.to_string().starts_with("/nonexistent/arrays.json: cannot be read"), "{error}");
        let error = Arrays::read(Path::new("/proc/self/cmdline")).expect_err("it is no JSON");
        assert!(error.to_string().contains("array_transfer.py"), "{error}");
    }
}
