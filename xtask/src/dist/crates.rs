//! Checks that the public crates can be published.

use std::collections::BTreeSet;

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Package, Workspace, execute};

/// Public crate that is nearly empty on the host, and the board target that it is built for.
const FOR_BOARDS: (&str, &str) = ("tombolo-bare", "aarch64-unknown-none");

/// Packages each public crate and builds it from the package, against the packaged versions of the others;
/// the crate for boards also for a board target.
pub(super) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let public: Vec<&str> = workspace.public_crates().collect();
    println!("{} crates: {}", public.len(), public.join(", "));
    publish(workspace, &public, &[])?;
    let (name, target) = FOR_BOARDS;
    if !Toolchain::find()?.has(target) {
        println!("SKIPPED: crates for boards; this Rust has no library for {target}");
        return Ok(());
    }
    let parts: Vec<&str> = consists_of(&workspace.packages, name).into_iter().collect();
    println!("for boards: {}", parts.join(", "));
    publish(workspace, &parts, &["--target", target])
}

fn publish(workspace: &Workspace, names: &[&str], options: &[&str]) -> Result<(), Failure> {
    let mut publish = workspace.cargo();
    // `--locked`: only versions of the lock file are fetched from the registry.
    publish.args(["publish", "--dry-run", "--locked", "--allow-dirty"]).args(options);
    execute(publish.args(names.iter().flat_map(|name| ["--package", name])))
}

/// Returns a crate and all workspace crates that it transitively depends on.
fn consists_of<'a>(packages: &'a [Package], name: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![name]);
    while let Some(name) = waiting.pop() {
        if !found.insert(name) {
            continue;
        }
        let dependencies = packages.iter().filter(|it| it.name == name).flat_map(|it| &it.dependencies);
        let parts = dependencies.filter(|it| it.path.is_some() && it.kind.as_deref() != Some("dev"));
        waiting.extend(parts.map(|it| it.name.as_str()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_excludes_its_dev_dependencies() {
        let tree = r#"[
            {"name": "a", "manifest_path": "a", "targets": [], "dependencies": [
                {"name": "b", "path": "b", "kind": null}, {"name": "t", "path": "t", "kind": "dev"}, {"name": "thiserror", "kind": null}]},
            {"name": "b", "manifest_path": "b", "targets": [], "dependencies": [{"name": "c", "path": "c", "kind": "build"}]},
            {"name": "c", "manifest_path": "c", "targets": [], "dependencies": []},
            {"name": "d", "manifest_path": "d", "targets": [], "dependencies": [{"name": "a", "path": "a", "kind": null}]}
        ]"#;
        let packages: Vec<Package> = serde_json::from_str(tree).expect("packages");
        assert_eq!(consists_of(&packages, "a").into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
