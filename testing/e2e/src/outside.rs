//! Projects outside the tree, as users have them.

use std::path::PathBuf;

use crate::kit::target;

/// Target folder shared by all of these projects, so that their dependencies are compiled once. It is kept
/// between runs.
#[must_use]
pub fn folder() -> PathBuf {
    target().join("outside")
}

/// Environment variables that make cargo build into that folder, quickly and offline. Packages of the tree
/// can use them too, because their dependencies are compiled for outside projects anyway.
#[must_use]
pub fn cargo_settings() -> [(&'static str, String); 6] {
    [
        ("CARGO_TARGET_DIR", folder().display().to_string()),
        ("CARGO_NET_OFFLINE", "true".to_owned()),
        ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0".to_owned()),
        ("CARGO_PROFILE_RELEASE_DEBUG", "false".to_owned()),
        ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false".to_owned()),
        ("CARGO_PROFILE_RELEASE_LTO", "off".to_owned()),
    ]
}
