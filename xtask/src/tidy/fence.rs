//! Rules for `unsafe`: it is confined to some crates, where each use states why it is sound.

use super::source::{Source, find_word};
use super::{Finding, Tree};

/// Rule: no `unsafe` outside the crates listed in `layers.toml`.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let allowed = &tree.layers.checks.unsafe_allowed;
    let outside = tree.packages.iter().filter(|package| !allowed.contains(&package.name));
    outside
        .flat_map(|package| tree.sources(package))
        .flat_map(|file| {
            let lines = Source::new(&file.text).lines_with_word("unsafe");
            let message = format!("`unsafe` may stand only in {allowed:?}");
            lines.into_iter().map(move |line| Finding::new(&file.path, line, message.clone()))
        })
        .collect()
}

/// Rule: the compiler enforces the same. The workspace forbids `unsafe`, and a crate that opts out keeps the
/// other lints.
pub(super) fn lints(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root = tree.file("Cargo.toml").map(|file| table(&file.text)).unwrap_or_default();
    let forbids = lint(&root, &["workspace", "lints", "rust", "unsafe_code"]).as_deref() == Some("forbid");
    if !forbids {
        findings.push(Finding::new(
            "Cargo.toml",
            0,
            "[workspace.lints.rust] must have unsafe_code = \"forbid\"",
        ));
    }
    for package in &tree.packages {
        let path = tree.manifest(package);
        let manifest = tree.file(&path).map(|file| table(&file.text)).unwrap_or_default();
        if tree.layers.checks.unsafe_allowed.contains(&package.name) {
            let wanted = [("rust", "unsafe_op_in_unsafe_fn"), ("clippy", "undocumented_unsafe_blocks")];
            for (tool, name) in wanted {
                if lint(&manifest, &["lints", tool, name]).as_deref() != Some("deny") {
                    let message = format!("holds `unsafe`, so [lints.{tool}] must have {name} = \"deny\"");
                    findings.push(Finding::new(&path, 0, message));
                }
            }
        } else if manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool()) != Some(true) {
            findings.push(Finding::new(&path, 0, "must have [lints] workspace = true"));
        }
    }
    findings
}

fn table(text: &str) -> toml::Table {
    text.parse().unwrap_or_default()
}

/// Returns the level of a lint, written as `"deny"` or as `{ level = "deny" }`.
fn lint(manifest: &toml::Table, path: &[&str]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let mut value = manifest.get(*first)?;
    for key in rest {
        value = value.get(key)?;
    }
    let level = value.as_str().or_else(|| value.get("level")?.as_str())?;
    Some(level.to_owned())
}

/// Rule: each `unsafe` block and `impl` has a SAFETY comment, each `unsafe fn` a `# Safety` section.
pub(super) fn safety_comments(tree: &Tree) -> Vec<Finding> {
    let rust = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    rust.flat_map(|file| {
        let source = Source::new(&file.text);
        let bare = source.lines_with_word("unsafe").into_iter().filter_map(move |line| {
            let missing = undocumented(&source, line - 1)?;
            Some(Finding::new(&file.path, line, missing))
        });
        bare.collect::<Vec<_>>()
    })
    .collect()
}

/// Returns what is missing at the `unsafe` on line `index`, counted from 0.
fn undocumented(source: &Source, index: usize) -> Option<String> {
    let line = &source.code[index];
    let after = line[find_word(line, "unsafe")? + "unsafe".len()..].trim_start();
    // Attributes such as `#[unsafe(no_mangle)]` and function pointer types state no obligation of their own.
    if after.starts_with('(') || after.starts_with("fn(") || after.starts_with("fn (") {
        return None;
    }
    let foreign = after.starts_with("extern ");
    if foreign && after.contains(" fn(") {
        return None;
    }
    // A function that is passed to foreign code as a callback has a SAFETY comment instead.
    let above = comment_above(source, index);
    let declares = after.starts_with("fn ")
        || after.starts_with("trait ")
        || (foreign && after.contains(" fn ") && !above.contains("SAFETY:"));
    let marker = if declares { "# Safety" } else { "SAFETY:" };
    if declares && implements_a_trait(source, index) {
        return None;
    }
    if source.comments[index].contains(marker) || above.contains(marker) {
        return None;
    }
    Some(if declares {
        "`unsafe` asks for something here: say what in a `# Safety` section".to_owned()
    } else {
        "`unsafe` without a `SAFETY:` comment above it".to_owned()
    })
}

/// Returns whether a line is directly inside an `impl` of a trait, whose own documentation states the
/// obligations.
fn implements_a_trait(source: &Source, index: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(&source.code[index]);
    let outer = source.code[..index].iter().rev().find(|line| !line.trim().is_empty() && indent(line) < own);
    outer.is_some_and(|line| find_word(line, "impl").is_some() && find_word(line, "for").is_some())
}

/// Returns the comments above a line, skipping attributes and earlier lines of the same statement.
fn comment_above(source: &Source, index: usize) -> String {
    let mut text = String::new();
    for at in (0..index).rev() {
        let code = source.code[at].trim();
        let comment = source.comments[at].trim();
        if !comment.is_empty() {
            text.push_str(comment);
            text.push('\n');
        }
        let ends_statement = code.ends_with(';') || code.ends_with('{') || code.ends_with('}');
        if ends_statement || (code.is_empty() && comment.is_empty()) {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    #[test]
    fn unsafe_outside_the_fence_is_refused() {
        let tree = tree()
            .with_crate("base", "base", &[])
            .with_crate("ring", "protocol/ring", &[])
            .with_file("base/src/lib.rs", "unsafe { f() }")
            .with_file("protocol/ring/src/lib.rs", "// unsafe\nlet x = \"unsafe\";\nunsafe { f() }\n");
        assert_eq!(
            only(&unsafe_code(&tree)),
            "protocol/ring/src/lib.rs:3: `unsafe` may stand only in [\"base\"]"
        );
    }

    const FORBID: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
    const FENCE: &str = "[lints.rust]\nunsafe_op_in_unsafe_fn = \"deny\"\n[lints.clippy]\nundocumented_unsafe_blocks = { level = \"deny\" }\n";

    #[test]
    fn a_crate_that_does_not_inherit_the_lints_is_refused() {
        let with = |manifest| {
            let tree = tree().with_crate("ring", "protocol/ring", &[]).with_file("Cargo.toml", FORBID);
            lints(&tree.with_file("protocol/ring/Cargo.toml", manifest))
        };
        assert_eq!(with("[lints]\nworkspace = true\n"), []);
        assert_eq!(
            only(&with("[package]\n")),
            "protocol/ring/Cargo.toml: must have [lints] workspace = true"
        );
    }

    #[test]
    fn a_workspace_that_does_not_forbid_unsafe_is_refused() {
        let tree = tree().with_file("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"\n");
        assert!(only(&lints(&tree)).contains("must have unsafe_code = \"forbid\""));
    }

    #[test]
    fn a_crate_inside_the_fence_denies_what_is_undocumented() {
        let with = |manifest| {
            let tree = tree().with_crate("base", "base", &[]).with_file("Cargo.toml", FORBID);
            lints(&tree.with_file("base/Cargo.toml", manifest))
        };
        assert_eq!(with(FENCE), []);
        assert_eq!(with("[lints.rust]\n").len(), 2);
    }

    fn comments(text: &str) -> Vec<Finding> {
        safety_comments(&tree().with_file("base/src/lib.rs", text))
    }

    #[test]
    fn an_unsafe_block_without_its_reason_is_refused() {
        assert_eq!(
            only(&comments("let a = 1;\nunsafe { f() }\n")),
            "base/src/lib.rs:2: `unsafe` without a `SAFETY:` comment above it"
        );
        assert_eq!(
            only(&comments("// SAFETY: fine\nf();\n\nlet a = unsafe { f() };\n")).matches(":4:").count(),
            1
        );
        assert_eq!(only(&comments("unsafe impl Send for X {}")).matches(":1:").count(), 1);
    }

    #[test]
    fn a_reason_may_stand_above_the_statement_or_on_the_line() {
        assert_eq!(comments("// SAFETY: fine,\n// as it is\nlet a =\n    g(unsafe { f() });\n"), []);
        assert_eq!(comments("// SAFETY: fine\n#[inline]\nunsafe impl Send for X {}\n"), []);
        assert_eq!(comments("unsafe { f() } // SAFETY: fine\n"), []);
        assert_eq!(comments("#[unsafe(no_mangle)]\ntype F = unsafe fn(u8);\n"), []);
    }

    #[test]
    fn unsafe_functions_document_safety() {
        assert_eq!(comments("/// Does.\n///\n/// # Safety\n/// None.\npub unsafe fn f() {}\n"), []);
        assert!(only(&comments("/// Does.\npub unsafe fn f() {}\n")).contains("# Safety"));
        let method = "    fn g() {}\n\n    unsafe fn f() {}\n}\n";
        assert!(only(&comments(&format!("impl X {{\n{method}"))).contains("# Safety"));
        assert_eq!(comments("/// # Safety\n/// None.\npub unsafe extern \"C\" fn f() {}\n"), []);
        assert!(only(&comments("/// Does.\npub unsafe extern \"C\" fn f() {}\n")).contains("# Safety"));
        assert_eq!(comments(&format!("// SAFETY: fine\nunsafe impl T for X {{\n{method}")), []);
    }
}
