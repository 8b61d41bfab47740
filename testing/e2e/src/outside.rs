//! Projects outside the tree, as users have them.

use std::path::PathBuf;

use crate::kit::target;

/// The folder that cargo builds all of them in, so that what they depend on is compiled once. It is kept
/// between runs.
#[must_use]
pub fn folder() -> PathBuf {
    target().join("outside")
}

/// Settings that make cargo build there, quickly and without a network; packages of the tree too, as what
/// they depend on is compiled for projects outside it.
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
