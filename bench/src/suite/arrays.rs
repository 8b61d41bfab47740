//! Results of `bench/python/array_transfer.py --json`: arrays passed to another program in Python.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;

/// Name of this project's own peer in the file.
pub const POOL: &str = "Tombolo pool";
/// Key of the figures with one copy.
pub const ONE_COPY: &str = "one copy";
/// Key of the figures without a copy.
pub const NO_COPY: &str = "no copy";

/// Content of the results file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Arrays {
    /// Versions and settings of the measurement.
    pub about: About,
    /// Figures by name of the peer.
    pub latency_ns: BTreeMap<String, Figures>,
}

/// Versions and settings of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct About {
    /// Length of the array, in bytes.
    pub bytes: u64,
    /// Further entries by name: versions and numbers.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// Result of one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figures {
    /// Reason why the peer was not measured.
    Absent(String),
    /// Times, by number of copies of the array.
    Found(BTreeMap<String, Times>),
}

/// Nanoseconds until the other program has the array and this one knows it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Times {
    /// Median, in nanoseconds.
    pub p50: f64,
    /// 99th percentile, in nanoseconds.
    pub p99: f64,
    /// Smallest median of several runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Largest median of several runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

impl Arrays {
    /// Reads a results file of the program.
    ///
    /// # Errors
    /// [`Error::File`] if the file is missing or malformed.
    pub fn read(path: &Path) -> Result<Arrays, Error> {
        let file = |why: String| Error::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| file(format!("cannot be read: {error}")))?;
        serde_json::from_str(&text).map_err(|error| {
            file(format!("has no figures of bench/python/array_transfer.py --json: {error}"))
        })
    }

    /// Returns the times of a peer for a number of copies, [`ONE_COPY`] or [`NO_COPY`].
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
    fn unknown_content_of_the_file_is_ignored() {
        let arrays = arrays();
        assert_eq!(arrays.about.bytes, 16 << 20);
        assert_eq!(arrays.times(POOL, NO_COPY).map(|times| times.p50), Some(12_000.0));
        assert_eq!(arrays.times("Ray", ONE_COPY), None);
        assert_eq!(arrays.latency_ns["Ray"], Figures::Absent("not installed".into()));
        let text = serde_json::to_string(&arrays).expect("text");
        assert_eq!(serde_json::from_str::<Arrays>(&text).expect("the same"), arrays);
    }

    #[test]
    fn invalid_files_are_refused_with_reason() {
        let error = Arrays::read(Path::new("/nonexistent/arrays.json")).expect_err("it is not there");
        assert!(error.to_string().starts_with("/nonexistent/arrays.json: cannot be read"), "{error}");
        let error = Arrays::read(Path::new("/proc/self/cmdline")).expect_err("it is no JSON");
        assert!(error.to_string().contains("array_transfer.py"), "{error}");
    }
}
