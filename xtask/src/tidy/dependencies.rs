//! Rules for dependencies between crates, licences, and unused files.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{Source, find_word};
use super::{Finding, Tree};
use crate::layers::{LayerPosition, Layers};
use crate::workspace::Package;

/// Licence expression of every crate.
pub(super) const LICENCE: &str = "Apache-2.0 OR MIT";

/// Licence texts in the root of the tree.
const LICENCE_TEXTS: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Rule: every crate is listed in `layers.toml`, is in its layer's folder, and depends only on crates below
/// it.
pub(super) fn layers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        match tree.layers.place(&package.name) {
            Some(place) => findings.extend(dependencies_of(tree, package, place)),
            None => findings.push(Finding::new(
                tree.manifest(package),
                0,
                format!("crate `{}` has no layer; give it a place in layers.toml", package.name),
            )),
        }
    }
    let known: BTreeSet<&str> = tree.packages.iter().map(|package| package.name.as_str()).collect();
    for name in tree.layers.layer.iter().flat_map(|layer| &layer.crates) {
        if !known.contains(name.as_str()) {
            findings.push(Finding::new("layers.toml", 0, format!("there is no crate `{name}`")));
        }
    }
    findings
}

fn dependencies_of(tree: &Tree, package: &Package, place: LayerPosition) -> Vec<Finding> {
    let manifest = tree.manifest(package);
    let folder = &tree.layers.layer[place.layer].folder;
    let mut findings = Vec::new();
    let own_folder = package.folder(&tree.root);
    if own_folder != *folder && !own_folder.starts_with(&format!("{folder}/")) {
        let message = format!("crate `{}` belongs in the folder {folder}/", package.name);
        findings.push(Finding::new(&manifest, 0, message));
    }
    for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
        let is_private =
            tree.packages.iter().any(|other| other.name == dependency.name && !other.is_public());
        if package.is_public() && is_private && dependency.kind.as_deref() != Some("dev") {
            let message = format!(
                "`{}` is published and depends on `{}`, which is not: `publish = true` there",
                package.name, dependency.name
            );
            findings.push(Finding::new(&manifest, 0, message));
        }
        if let Some(reason) = refusal(&tree.layers, place, &dependency.name) {
            let message = format!("`{}` may not depend on `{}`: {reason}", package.name, dependency.name);
            findings.push(Finding::new(&manifest, 0, message));
        }
    }
    findings
}

/// Returns why a crate at `place` may not depend on `dependency`, or `None` if it may.
fn refusal(layers: &Layers, place: LayerPosition, dependency: &str) -> Option<String> {
    let layer = &layers.layer[place.layer];
    let Some(other) = layers.place(dependency) else {
        return Some("it has no layer".to_owned());
    };
    let other_layer = &layers.layer[other.layer].name;
    if other.layer > place.layer {
        return Some(format!("layer {other_layer} is above layer {}", layer.name));
    }
    if other >= place {
        return Some(format!("it does not stand before it in layer {}", layer.name));
    }
    if layer.apart_from.contains(other_layer) {
        return Some(format!("layer {} does not know layer {other_layer}", layer.name));
    }
    match &layer.only {
        Some(only) if !only.iter().any(|name| name == dependency) => {
            Some(format!("layer {} depends on nothing but {only:?}", layer.name))
        }
        _ => None,
    }
}

/// Rule: every crate declares the project's licence, and both texts exist.
pub(super) fn licence(tree: &Tree) -> Vec<Finding> {
    let crates =
        tree.packages.iter().filter(|package| package.license.as_deref() != Some(LICENCE)).map(|package| {
            let message = format!("must have `license.workspace = true` ({LICENCE})");
            Finding::new(tree.manifest(package), 0, message)
        });
    let texts = LICENCE_TEXTS
        .into_iter()
        .filter(|path| tree.file(path).is_none())
        .map(|path| Finding::new(path, 0, "the text of the licence is missing"));
    crates.chain(texts).collect()
}

/// Rule: every published crate has the metadata that the registry shows, and includes the licence texts.
pub(super) fn published(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.packages.iter().filter(|package| package.is_public()) {
        let manifest = tree.manifest(package);
        let keys = [
            ("description", package.description.is_some()),
            ("documentation", package.documentation.is_some()),
            ("readme", package.readme.is_some()),
        ];
        for (key, _) in keys.into_iter().filter(|(_, is_there)| !is_there) {
            let message = format!("`{}` is published and has no `{key}`", package.name);
            findings.push(Finding::new(&manifest, 0, message));
        }
        for text in LICENCE_TEXTS {
            let path = format!("{}/{text}", package.folder(&tree.root));
            if tree.file(&path).is_none() {
                let message = format!("`{}` is published without it: make a link to /{text}", package.name);
                findings.push(Finding::new(path, 0, message));
            }
        }
    }
    findings
}

/// Rule: every source file is a target of its crate or a module that some file declares.
pub(super) fn dead_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let roots: BTreeSet<&Path> = package.targets.iter().map(|target| target.src_path.as_path()).collect();
        let mut modules = BTreeSet::new();
        for file in tree.sources(package) {
            modules.extend(declared_modules(&file.text));
        }
        for file in tree.sources(package) {
            let declared = module_name(&file.path).is_some_and(|name| modules.contains(name));
            if !declared && !roots.contains(tree.root.join(&file.path).as_path()) {
                let message = format!("belongs to no target and no module of `{}`", package.name);
                findings.push(Finding::new(&file.path, 0, message));
            }
        }
    }
    findings
}

/// Returns the module name of a file: `a/b.rs` and `a/b/mod.rs` are both `b`.
fn module_name(path: &str) -> Option<&str> {
    let stem = path.strip_suffix(".rs")?;
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    stem.rsplit('/').next()
}

/// Returns the names after `mod` and the files named by `#[path]` and `include!`.
fn declared_modules(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let source = Source::new(text);
    for (code, original) in source.code.iter().zip(text.lines()) {
        if let Some(at) = find_word(code, "mod") {
            let name = code[at + 3..].trim_start();
            names.push(name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
        if code.contains("path =") || code.contains("include!") {
            let quoted = original.split('"').nth(1).and_then(module_name);
            names.extend(quoted.map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    #[test]
    fn downward_dependencies_are_fine() {
        let tree = tree()
            .with_crate("base", "base", &[])
            .with_crate("platform", "platform/linux", &["base"])
            .with_crate("ring", "protocol/ring", &["base"])
            .with_crate("link", "protocol/link", &["base", "ring"])
            .with_crate("example", "examples/example", &["link"]);
        assert_eq!(layers(&tree), []);
    }

    fn refused(name: &str, folder: &str, dependency: &str) -> String {
        let all = [("base", "base"), ("platform", "platform"), ("ring", "protocol/ring")];
        let all = all.into_iter().chain([("link", "protocol/link"), ("example", "examples/example")]);
        let mut tree = tree();
        for (other, place) in all.filter(|(other, _)| *other != name) {
            tree = tree.with_crate(other, place, &[]);
        }
        only(&layers(&tree.with_crate(name, folder, &[dependency])))
    }

    #[test]
    fn an_upward_dependency_is_refused() {
        assert_eq!(
            refused("base", "base", "ring"),
            "base/Cargo.toml: `base` may not depend on `ring`: layer protocol is above layer base"
        );
        assert!(
            refused("ring", "protocol/ring", "link").contains("does not stand before it in layer protocol")
        );
    }

    #[test]
    fn published_crates_depend_on_published_ones() {
        let mut tree = tree()
            .with_crate("base", "base", &[])
            .with_crate("platform", "platform/linux", &["base"])
            .with_crate("ring", "protocol/ring", &["base"])
            .with_crate("link", "protocol/link", &["ring"])
            .with_crate("example", "examples/example", &["link"]);
        for name in ["link", "ring"] {
            tree.packages.iter_mut().filter(|package| package.name == name).for_each(|it| it.publish = None);
        }
        let expected = "protocol/ring/Cargo.toml: `ring` is published and depends on `base`, which is not: \
                        `publish = true` there";
        assert_eq!(only(&layers(&tree)), expected);
    }

    #[test]
    fn layer_must_not_depend_on_forbidden_ones() {
        assert!(
            refused("ring", "protocol/ring", "platform")
                .contains("layer protocol does not know layer platform")
        );
    }

    #[test]
    fn examples_use_only_what_is_public() {
        assert!(refused("example", "examples/example", "ring").contains("depends on nothing but [\"link\"]"));
    }

    #[test]
    fn a_crate_in_the_wrong_folder_is_refused() {
        let message = refused("platform", "elsewhere", "base");
        assert_eq!(message, "elsewhere/Cargo.toml: crate `platform` belongs in the folder platform/");
    }

    #[test]
    fn a_crate_without_a_layer_is_refused_and_so_is_a_layer_without_its_crate() {
        let tree = tree().with_crate("stranger", "stranger", &[]);
        let findings: Vec<String> = layers(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(
            findings[0],
            "stranger/Cargo.toml: crate `stranger` has no layer; give it a place in layers.toml"
        );
        assert!(findings.contains(&"layers.toml: there is no crate `ring`".to_owned()));
    }

    #[test]
    fn a_crate_without_the_licence_is_refused() {
        let mut tree = tree()
            .with_crate("base", "base", &[])
            .with_file("LICENSE-MIT", "")
            .with_file("LICENSE-APACHE", "");
        assert_eq!(licence(&tree), []);
        tree.packages[0].license = None;
        assert!(only(&licence(&tree)).starts_with("base/Cargo.toml: must have `license.workspace"));
        tree.packages.clear();
        tree.files.remove(0);
        assert_eq!(only(&licence(&tree)), "LICENSE-MIT: the text of the licence is missing");
    }

    #[test]
    fn published_crates_have_metadata_and_licences() {
        let mut tree = tree().with_crate("base", "base", &[]);
        assert_eq!(published(&tree), []);
        let package = &mut tree.packages[0];
        package.publish = None;
        package.description = Some("shared memory".to_owned());
        package.documentation = Some("https://docs.rs/base".to_owned());
        tree = tree.with_file("base/LICENSE-MIT", "");
        let findings: Vec<String> = published(&tree).iter().map(Finding::to_string).collect();
        let expected = [
            "base/Cargo.toml: `base` is published and has no `readme`",
            "base/LICENSE-APACHE: `base` is published without it: make a link to /LICENSE-APACHE",
        ];
        assert_eq!(findings, expected);
        tree.packages[0].readme = Some("../README.md".into());
        assert_eq!(published(&tree.with_file("base/LICENSE-APACHE", "")), []);
    }

    #[test]
    fn a_file_that_no_module_declares_is_dead() {
        let tree = tree()
            .with_crate("base", "base", &[])
            .with_file("base/src/a.rs", "mod b;\n#[path = \"../x/c.rs\"]\nmod d;\n// mod dead;\n")
            .with_file("base/src/a/b.rs", "mod a;\n")
            .with_file("base/x/c.rs", "")
            .with_file("base/src/dead.rs", "");
        assert_eq!(
            only(&dead_files(&tree)),
            "base/src/dead.rs: belongs to no target and no module of `base`"
        );
    }
}
