//! Rule for examples in documentation.

use super::{Finding, Tree};
use crate::workspace::Package;

/// Rule: a crate with examples in its documentation tests them, and a crate without examples sets `doctest =
/// false`: looking for them takes about as long as checking the crate.
pub(super) fn doc_tests(tree: &Tree) -> Vec<Finding> {
    tree.packages.iter().flat_map(|package| of_crate(tree, package)).collect()
}

fn of_crate(tree: &Tree, package: &Package) -> Vec<Finding> {
    let library = package.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib"));
    let Some(library) = library else { return Vec::new() };
    let sources = tree.sources(package);
    let found: Vec<(&str, usize)> =
        sources.flat_map(|file| examples(&file.text).map(|line| (file.path.as_str(), line))).collect();
    match (library.doctest, found.is_empty()) {
        (true, true) => {
            let manifest = format!("{}/Cargo.toml", package.folder(&tree.root));
            vec![Finding::new(manifest, 0, "has no examples in its documentation: say `doctest = false`")]
        }
        (false, false) => {
            let message = "is an example that is not tested: the manifest says `doctest = false`";
            found.into_iter().map(|(path, line)| Finding::new(path, line, message)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the lines at which examples begin that rustdoc would compile.
fn examples(text: &str) -> impl Iterator<Item = usize> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim_start();
        let words =
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim().strip_prefix("```")?;
        inside = !inside;
        (inside && is_rust(words)).then_some(index + 1)
    })
}

/// Returns whether a code block with this info string is Rust.
fn is_rust(words: &str) -> bool {
    const OF_RUST: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];
    words.split(',').all(|word| OF_RUST.contains(&word.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;
    use crate::workspace::Target;

    fn ring(doctest: bool, text: &str) -> Vec<Finding> {
        let mut tree =
            tree().with_crate("ring", "protocol/ring", &[]).with_file("protocol/ring/src/lib.rs", text);
        tree.packages[0].targets.push(Target {
            name: "ring".to_owned(),
            kind: vec!["lib".to_owned()],
            src_path: "/tree/protocol/ring/src/lib.rs".into(),
            test: true,
            doctest,
        });
        doc_tests(&tree)
    }

    #[test]
    fn an_example_that_nobody_tests_is_refused() {
        for words in ["", "rust", "no_run", "rust,should_panic"] {
            let text = format!("//! Says.\n//! ```{words}\n//! 1 + 1;\n//! ```\n");
            assert_eq!(ring(true, &text), []);
            assert!(only(&ring(false, &text)).starts_with("protocol/ring/src/lib.rs:2: is an example"));
        }
    }

    #[test]
    fn a_crate_without_examples_says_so() {
        for text in ["/// None.\nfn one() {}\n", "/// ```text\n/// a | b\n/// ```\nfn one() {}\n", "// ```\n"]
        {
            assert_eq!(ring(false, text), []);
            assert!(
                only(&ring(true, text)).starts_with("protocol/ring/Cargo.toml: has no examples"),
                "{text}"
            );
        }
    }
}
