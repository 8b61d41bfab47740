//! `layers.toml`: the order of the layers and what each check covers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

/// Parsed `layers.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layers {
    /// Layers, from the bottom up.
    pub(crate) layer: Vec<Layer>,
    pub(crate) checks: Checks,
    pub(crate) lines: Lines,
    /// Banned words with the reasons.
    #[serde(default)]
    pub(crate) banned: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) english: English,
}

/// Rules for comments, messages and pages.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct English {
    /// Banned idioms in lower case, with the remedies.
    #[serde(default)]
    pub(crate) idioms: BTreeMap<String, String>,
    /// Folders and files that are not checked.
    #[serde(default)]
    pub(crate) exempt: Vec<String>,
    /// Subfolders of exempt folders that are checked.
    #[serde(default)]
    pub(crate) mended: Vec<String>,
}

/// Folder of crates that form one layer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) folder: String,
    /// Crates in dependency order: a crate may depend on those before it.
    pub(crate) crates: Vec<String>,
    /// Purpose, one line in the code map.
    pub(crate) purpose: String,
    /// Lower layers that this one must not depend on.
    #[serde(default)]
    pub(crate) apart_from: Vec<String>,
    /// The only workspace crates that this layer may depend on, if given.
    pub(crate) only: Option<Vec<String>>,
}

/// Crates that each kind of check covers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checks {
    pub(crate) unsafe_allowed: Vec<String>,
    pub(crate) no_std: Vec<String>,
    /// Crates with a `tests/bounds.rs`, which counts accesses to shared memory.
    pub(crate) bounds: Vec<String>,
    /// Crates that run under miri.
    pub(crate) miri: Vec<String>,
    pub(crate) loom: Vec<String>,
}

/// Limits on the length of files.
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

    /// Parses the text of `layers.toml`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| Failure::malformed("layers.toml", error))
    }

    /// Returns the position of a crate: the index of its layer and its index within the layer.
    pub(crate) fn place(&self, package: &str) -> Option<LayerPosition> {
        self.layer.iter().enumerate().find_map(|(layer, entry)| {
            let within = entry.crates.iter().position(|name| name == package)?;
            Some(LayerPosition { layer, within })
        })
    }
}

/// Position of a crate in the order of layers; dependencies have lower positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LayerPosition {
    pub(crate) layer: usize,
    pub(crate) within: usize,
}
