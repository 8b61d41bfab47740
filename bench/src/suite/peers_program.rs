//! The program with the peers that have dependencies of their own: `bench/peers`.

use std::path::{Path, PathBuf};

use super::Absent;

const PROGRAM: &str = "tombolo-bench-peers";

/// The program with the other peers, if it is in the folder of this one.
#[must_use]
pub fn beside(own: &Path) -> Option<PathBuf> {
    Some(own.parent()?.join(PROGRAM)).filter(|path| path.is_file())
}

/// An entry for a peer that this program does not have.
#[must_use]
pub fn absent(peer: &str) -> Absent {
    let why = format!("built without it: `make bench-peers` builds {PROGRAM}, which has it");
    Absent { peer: peer.into(), why }
}
