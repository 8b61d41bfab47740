//! Fuzz targets for everything that reads the bytes of others.
//!
//! A [`Target`] is a function over bytes that must not panic, hang or take unbounded memory, whatever the
//! bytes are; most assert more. The same functions run in two ways: `cargo test` mutates the seeds by a fixed
//! generator, on stable Rust and in seconds; `cargo xtask fuzz` runs them under libFuzzer with the address
//! sanitizer, guided by coverage, for a given time.

mod mutate;
mod read;
mod targets;

pub use mutate::Mutator;
pub use targets::TARGETS;

/// A decoder or parser to feed.
pub struct Target {
    /// The name of the target.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Inputs that mean something, where mutation starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Inputs that once broke a target, and others worth keeping: the files of `corpus/<target>/`.
///
/// # Panics
/// When the folder is there and cannot be read.
#[must_use]
pub fn kept(target: &Target) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file of the corpus")).collect()
}
