//! Limits the size of dependency cycles between modules: the modules of a cycle have to be understood
//! together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

/// Maximum number of modules in a cycle.
const MAX_CYCLE_MODULES: usize = 3;

/// Crates with larger cycles, and the size of the largest one. These numbers may only decrease.
const EXCEPTIONS: &[(&str, usize)] = &[
    ("tombolo-bench", 4),
    ("tombolo-cli-bench", 7),
    ("tombolo-interface", 4),
    ("tombolo-python", 8),
    ("tombolo", 10),
    ("tombolo-web", 5),
    ("xtask", 5),
];

type Path = Vec<String>;

/// Rule: no cycle of modules is larger than the limit or the exception of its crate.
pub(super) fn circles(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let folder = format!("{}/src/", package.folder(&tree.root));
        let sources = tree.sources(package).filter_map(|file| {
            let path = file.path.strip_prefix(&folder)?;
            (!path.ends_with("tests.rs")).then(|| (module(path), file.text.as_str()))
        });
        let circles = cycles_of(&sources.collect());
        let exception = EXCEPTIONS.iter().find(|(name, _)| *name == package.name);
        let most = exception.map_or(MAX_CYCLE_MODULES, |&(_, most)| most);
        for circle in circles.iter().filter(|circle| circle.len() > most) {
            let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
            let message = format!(
                "{} modules need each other, more than {most}: {}; move what they share below them",
                circle.len(),
                names.join(", ")
            );
            findings.push(Finding::new(tree.manifest(package), 0, message));
        }
    }
    findings
}

/// Returns the module path of a file in `src`; that of the root is empty.
fn module(path: &str) -> Path {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if ["lib", "main", "mod"].contains(&path) {
        Path::new()
    } else {
        path.split('/').map(str::to_owned).collect()
    }
}

/// Returns the cycles (strongly connected components) of more than one module.
fn cycles_of(modules: &BTreeMap<Path, &str>) -> BTreeSet<BTreeSet<Path>> {
    let needs: BTreeMap<&Path, BTreeSet<Path>> =
        modules.iter().map(|(module, text)| (module, referenced_modules(module, text, modules))).collect();
    let reached = |from: &Path| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(needs[module].iter().filter(|needed| seen.insert((*needed).clone())));
        }
        seen
    };
    let reach: BTreeMap<&Path, BTreeSet<Path>> =
        modules.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &Path| {
        reach[module].iter().filter(|other| reach[other].contains(module)).cloned().collect::<BTreeSet<_>>()
    };
    modules.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// Returns the other modules that the text refers to, excluding its tests.
fn referenced_modules(module: &Path, text: &str, modules: &BTreeMap<Path, &str>) -> BTreeSet<Path> {
    let code: String = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test") && !line.starts_with("#[cfg(all(test"))
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("::") {
        let before = &code[..at];
        let word = before
            .rfind(|letter: char| !is_identifier_character(letter))
            .map_or(before, |end| &before[end + 1..]);
        let start = before[..before.len() - word.len()].chars().next_back();
        if start.is_some_and(|letter| letter == '$' || letter == ':') {
            continue;
        }
        let base = match word {
            "crate" => Path::new(),
            "self" => module.clone(),
            "super" => module[..module.len().saturating_sub(1)].to_vec(),
            _ => continue,
        };
        tree_of_paths(&code[at + 2..], &base, &mut paths);
    }
    let known = |path: Path| {
        (0..=path.len()).rev().map(|length| path[..length].to_vec()).find(|path| modules.contains_key(path))
    };
    paths.into_iter().filter_map(known).filter(|path| path != module).collect()
}

fn is_identifier_character(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Parses what follows `base::`: one path or several in braces. Returns the rest of the text.
fn tree_of_paths<'a>(text: &'a str, base: &[String], paths: &mut Vec<Path>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
            if rest.is_empty() || rest.starts_with('}') {
                return rest.strip_prefix('}').unwrap_or(rest);
            }
            let after = tree_of_paths(rest, base, paths);
            // Skip `as` with its name and anything else that is no path.
            let end = after.find([',', '}']).unwrap_or(after.len());
            rest =
                if after.len() == rest.len() { &after[end.max(1).min(after.len())..] } else { &after[end..] };
        }
    }
    let end = text.find(|letter| !is_identifier_character(letter)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let mut path = base.to_vec();
    match word {
        "" | "self" => {}
        "super" => drop(path.pop()),
        word => path.push(word.to_owned()),
    }
    if let Some(rest) = rest.strip_prefix("::") {
        return tree_of_paths(rest, &path, paths);
    }
    paths.push(path);
    rest
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<Finding> {
        let tree = tree().with_crate("ring", "protocol/ring", &[]);
        let add = |tree: Tree, (path, text): &(&str, &str)| {
            tree.with_file(&format!("protocol/ring/src/{path}"), text)
        };
        circles(&files.iter().fold(tree, add))
    }

    #[test]
    fn four_modules_that_need_each_other_are_refused() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::{self, X};\n"),
            ("b.rs", "use crate::{c::deep, unknown as u};\n"),
            ("c/mod.rs", "pub mod deep;\nuse self::deep::Y;\n"),
            ("c/deep.rs", "fn f() { super::super::a::g(super::Z) }\n"),
        ];
        let found = only(&crate_of(&files));
        assert!(found.contains("4 modules need each other, more than 3: a, b, c, c::deep"), "{found}");
    }

    #[test]
    fn three_may_and_tests_and_comments_do_not_count() {
        let files = [
            ("a.rs", "use crate::b::X;\n"),
            ("b.rs", "use super::c;\n"),
            ("c.rs", "use crate::a;\n// use crate::d;\n#[cfg(test)]\nmod tests { use crate::d; }\n"),
            ("d.rs", "use crate::a::{X as Y, Z};\n"),
        ];
        assert_eq!(crate_of(&files), []);
    }
}
