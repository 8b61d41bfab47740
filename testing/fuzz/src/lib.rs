//! Fuzz targets for all code that reads untrusted bytes.
//!
//! A [`Target`] is a function over bytes that must not panic, hang or use unbounded memory on any input; most
//! assert more. The same functions run in two ways: `cargo test` mutates the seeds with a fixed generator, on
//! stable Rust and within seconds; `cargo xtask fuzz` runs them under libFuzzer with the address sanitizer,
//! guided by coverage, for a given time.

mod mutate;
mod read;
mod targets;

pub use mutate::Mutator;
pub use targets::TARGETS;

/// A fuzz target: a decoder or parser, with its seeds.
pub struct Target {
    /// Name of the target, unique.
    pub name: &'static str,
    /// Runs the target on an input.
    pub run: fn(&[u8]),
    /// Generates valid inputs, from which mutation starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Finds the target of a name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Reads the kept inputs of a target from `corpus/<target>/`: earlier failures, and others worth keeping.
///
/// # Panics
/// If the folder exists and its files cannot be read.
#[must_use]
pub fn corpus_inputs(target: &Target) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file of the corpus")).collect()
}
