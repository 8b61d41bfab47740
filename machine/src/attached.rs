//! Settings of nodes that the machine does not start.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tombolo_base::Isa;
use tombolo_base::coherence::Caches;
use tombolo_link::rendezvous::{BellKind, Nonce, Role, Secret, Terms};
use tombolo_platform::shared_window::WindowSource;

/// Settings of an `attached` node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachedNode {
    /// Window of the node, as this host reaches it.
    pub window: WindowSource,
    /// The same window as the node reaches it, for `tombolo join --file`; `None` if identical.
    pub join: Option<WindowSource>,
    /// Size of the window in MiB, a power of two.
    pub window_mib: u32,
    /// Number of doorbells of the window, see [`VmNode::DOORBELLS`](crate::VmNode::DOORBELLS).
    pub doorbells: u16,
    /// Mechanism of the doorbells.
    pub doorbell: BellKind,
    /// Caches between each side and the window; `None` if it is coherent.
    pub caches: Option<Caches>,
    /// File with the key shared by both sides; `None` for no key.
    pub key: Option<PathBuf>,
    /// Number of seconds without a heartbeat after which the node counts as lost.
    pub silence_s: u32,
}

impl AttachedNode {
    /// Allowed values of `silence_s`.
    pub const SILENCE_S: RangeInclusive<u32> = 1..=3600;
    /// Default value of `silence_s`.
    pub const DEFAULT_SILENCE_S: u32 = 10;

    /// Returns the rendezvous terms of a node of `isa` for a window of `length_bytes`; `release` is the
    /// fingerprint of the control protocol.
    #[must_use]
    pub fn terms(&self, isa: Isa, release: u32, length_bytes: u64) -> Terms {
        let AttachedNode { doorbells, doorbell, caches, .. } = *self;
        Terms { release, length_bytes, bells: doorbells, kind: doorbell, caches, isa }
    }

    /// Returns the window as the node reaches it.
    #[must_use]
    pub fn joiner_window(&self) -> &WindowSource {
        self.join.as_ref().unwrap_or(&self.window)
    }
}

/// Key of a window: the SHA-256 hash of its file.
#[derive(Clone, PartialEq, Eq)]
pub struct WindowKey([u8; 32]);

/// Reason why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key {path}: {error}")]
    Unreadable {
        /// Path of the key file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The key is too short to be a secret, or too long.
    #[error(
        "the key {path} has {found} bytes, and must have 16 to {MAX_KEY_BYTES}: \
         `head -c 32 /dev/urandom > {path}` makes one"
    )]
    Length {
        /// Path of the key file.
        path: PathBuf,
        /// Lower bound of its length, in bytes.
        found: usize,
    },
}

const MAX_KEY_BYTES: usize = 4096;

impl WindowKey {
    /// Reads the key from a file; without a file both sides use the empty key.
    ///
    /// # Errors
    /// [`KeyError`] with the file.
    pub fn read(path: Option<&Path>) -> Result<Self, KeyError> {
        let mut bytes = Vec::new();
        if let Some(path) = path {
            let file = std::fs::File::open(path);
            let read = file.and_then(|file| file.take(MAX_KEY_BYTES as u64 + 1).read_to_end(&mut bytes));
            read.map_err(|error| KeyError::Unreadable { path: path.to_owned(), error })?;
            if !(16..=MAX_KEY_BYTES).contains(&bytes.len()) {
                return Err(KeyError::Length { path: path.to_owned(), found: bytes.len() });
            }
        }
        Ok(WindowKey(Sha256::digest(&bytes).into()))
    }
}

impl std::fmt::Debug for WindowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WindowKey")
    }
}

impl Secret for WindowKey {
    /// Computes the proof of a message. All parts have a fixed length for each role, so no two messages have
    /// the same digest input.
    fn proof(&self, role: Role, session: Nonce, attempt: Nonce, signed: &[u64]) -> [u64; 4] {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update([role as u8]);
        for word in [session.get(), attempt.get()].iter().chain(signed) {
            hash.update(word.to_le_bytes());
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(digest.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_length_is_checked() {
        let path = std::env::temp_dir().join(format!("tombolo-key-{}", std::process::id()));
        for (bytes, is_good) in [(15, false), (16, true), (MAX_KEY_BYTES, true), (MAX_KEY_BYTES + 1, false)] {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            assert_eq!(WindowKey::read(Some(&path)).is_ok(), is_good, "{bytes}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(WindowKey::read(Some(&path)), Err(KeyError::Unreadable { .. })));
    }

    #[test]
    fn a_proof_depends_on_everything() {
        let nonce = |number| Nonce::new(number).unwrap();
        let key = |byte| WindowKey([byte; 32]);
        let first = key(1).proof(Role::Host, nonce(1), nonce(2), &[3]);
        assert_eq!(first, key(1).proof(Role::Host, nonce(1), nonce(2), &[3]));
        for other in [
            key(2).proof(Role::Host, nonce(1), nonce(2), &[3]),
            key(1).proof(Role::Joiner, nonce(1), nonce(2), &[3]),
            key(1).proof(Role::Host, nonce(2), nonce(2), &[3]),
            key(1).proof(Role::Host, nonce(1), nonce(3), &[3]),
            key(1).proof(Role::Host, nonce(1), nonce(2), &[4]),
        ] {
            assert_ne!(first, other);
        }
    }
}
