//! `layers.toml`: the order of the layers and what each check covers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layers {
    /// From the bottom up.
    pub(crate) layer: Vec<Layer>,
    pub(crate) checks: Checks,
    pub(crate) lines: Lines,
    /// From banned words to reasons.
    #[serde(default)]
    pub(crate) banned: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) english: English,
}

/// The rules for comments, messages and pages.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct English {
    /// From idioms, in lower case, to remedies.
    #[serde(default)]
    pub(crate) idioms: BTreeMap<String, String>,
    /// Folders and files that are not checked.
    #[serde(default)]
    pub(crate) exempt: Vec<String>,
    /// Folders in exempt ones that are checked.
    #[serde(default)]
    pub(crate) mended: Vec<String>,
}

/// One folder of crates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) folder: String,
    /// In order: a crate may depend on those before it.
    pub(crate) crates: Vec<String>,
    /// One line for the code map.
    pub(crate) purpose: String,
    /// Lower layers that this one must not know.
    #[serde(default)]
    pub(crate) apart_from: Vec<String>,
    /// The only workspace crates that this layer may depend on, if given.
    pub(crate) only: Option<Vec<String>>,
}

/// Which crates each kind of check runs over.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checks {
    pub(crate) unsafe_allowed: Vec<String>,
    pub(crate) no_std: Vec<String>,
    /// Have `tests/bounds.rs`, which counts accesses to shared memory.
    pub(crate) bounds: Vec<String>,
    /// Crates that run under miri.
    pub(crate) miri: Vec<String>,
    pub(crate) loom: Vec<String>,
}

/// How long a file may be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lines {
    pub(crate) max: usize,
    #[serde(default)]
    pub(crate) exceptions: BTreeMap<String, usize>,
}

impl Layers {
    /// Reads `layers.toml` in `root`.
    pub(crate) fn load(root: &Path) -> Result<Self, Failure> {
        let path = root.join("layers.toml");
        let text = std::fs::read_to_string(&path).map_err(Failure::file("reading", &path))?;
        Self::parse(&text)
    }

    /// Parses the text of the file.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| Failure::malformed("layers.toml", error))
    }

    /// The position of a crate: the index of its layer and its index in that layer.
    pub(crate) fn place(&self, package: &str) -> Option<LayerPosition> {
        self.layer.iter().enumerate().find_map(|(layer, entry)| {
            let within = entry.crates.iter().position(|name| name == package)?;
            Some(LayerPosition { layer, within })
        })
    }
}

/// The position of a crate in the order of layers; dependencies have lower positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LayerPosition {
    pub(crate) layer: usize,
    pub(crate) within: usize,
}
