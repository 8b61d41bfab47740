//! The program with the peers that need external dependencies: `bench/peers`.

use std::path::{Path, PathBuf};

use super::Absent;

const PROGRAM: &str = "tombolo-bench-peers";

/// Returns the path of the program with the other peers, if it is in the same folder as this one.
#[must_use]
pub fn beside(own: &Path) -> Option<PathBuf> {
    Some(own.parent()?.join(PROGRAM)).filter(|path| path.is_file())
}

/// Creates the entry of a peer that this program lacks.
#[must_use]
pub fn absent(peer: &str) -> Absent {
    let why = format!("built without it: `make bench-peers` builds {PROGRAM}, which has it");
    Absent { peer: peer.into(), why }
}
