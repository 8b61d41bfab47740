//! Rule for the lock files of other workspaces in the tree.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Finding, Tree};
use crate::workspace::{Package, TextFile};

#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    /// `None` for path dependencies.
    source: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Rule: the locked dependencies of this workspace's crates in the lock file of another workspace are up to
/// date. Otherwise `--locked` fails there, which no build here would notice.
pub(super) fn locks(tree: &Tree) -> Vec<Finding> {
    let others = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.lock"));
    others.flat_map(|file| of_file(tree, file)).collect()
}

fn of_file(tree: &Tree, file: &TextFile) -> Vec<Finding> {
    let lock: LockFile = match toml::from_str(&file.text) {
        Ok(lock) => lock,
        Err(error) => return vec![Finding::new(&file.path, 0, format!("is no lock file: {error}"))],
    };
    let ours = lock.package.iter().filter(|locked| locked.source.is_none());
    let stale = ours.filter_map(|locked| {
        let package = tree.packages.iter().find(|package| package.name == locked.name)?;
        let reason = difference(package, locked)?;
        let message = format!("is stale: {reason}; `cargo metadata` in its folder writes it anew");
        Some(Finding::new(&file.path, 0, message))
    });
    stale.collect()
}

/// Describes how a crate's dependencies differ from the locked ones.
fn difference(package: &Package, locked: &Locked) -> Option<String> {
    // A version follows the name if several are locked.
    let names: BTreeSet<&str> =
        locked.dependencies.iter().filter_map(|dependency| dependency.split(' ').next()).collect();
    let built = || package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
    let missing =
        built().find(|dependency| !dependency.optional && !names.contains(dependency.name.as_str()));
    if let Some(dependency) = missing {
        return Some(format!("`{}` depends on `{}`", package.name, dependency.name));
    }
    let known: BTreeSet<&str> = built().map(|dependency| dependency.name.as_str()).collect();
    let left = names.difference(&known).next()?;
    Some(format!("`{}` does not depend on `{left}`", package.name))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    fn found(dependencies: &[&str], locked: &str) -> Vec<Finding> {
        let text = format!(
            "version = 4\n[[package]]\nname = \"ring\"\nversion = \"1.0.0\"\ndependencies = {locked}\n\
             [[package]]\nname = \"link\"\nversion = \"2.0.0\"\nsource = \"registry\"\n"
        );
        let tree = tree().with_crate("ring", "protocol/ring", dependencies).with_crate(
            "link",
            "protocol/link",
            &["x"],
        );
        locks(&tree.with_file("Cargo.lock", "no matter").with_file("bench/peers/Cargo.lock", &text))
    }

    #[test]
    fn a_lock_file_that_fits_is_fine() {
        assert_eq!(found(&["base", "log"], "[\"base\", \"log 0.4.1\"]"), []);
    }

    #[test]
    fn added_and_dropped_packages_are_found() {
        assert_eq!(
            only(&found(&["base", "log"], "[\"base\"]")),
            "bench/peers/Cargo.lock: is stale: `ring` depends on `log`; `cargo metadata` in its folder writes it anew"
        );
        assert!(only(&found(&["base"], "[\"base\", \"log\"]")).contains("`ring` does not depend on `log`"));
    }

    #[test]
    fn optional_packages_may_be_unlocked() {
        let mut ring = tree().with_crate("ring", "ring", &["a", "b"]).packages.remove(0);
        ring.dependencies[0].kind = Some("dev".into());
        ring.dependencies[1].optional = true;
        let locked = |names: &[&str]| Locked {
            name: "ring".into(),
            source: None,
            dependencies: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(difference(&ring, &locked(&[])), None);
        assert_eq!(difference(&ring, &locked(&["b"])), None);
        assert_eq!(difference(&ring, &locked(&["a"])), Some("`ring` does not depend on `a`".into()));
    }

    #[test]
    fn invalid_lock_file_is_reported() {
        let tree = tree().with_file("bench/peers/Cargo.lock", "[[package");
        assert!(only(&locks(&tree)).starts_with("bench/peers/Cargo.lock: is no lock file"));
    }
}
