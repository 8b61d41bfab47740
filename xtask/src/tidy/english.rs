//! Rules for comments and documentation: no long lines, no empty summaries, no private idioms.
//!
//! `layers.toml` lists the idioms, and the folders that are exempt for now.

use std::collections::BTreeMap;

use super::source::{Source, find_word};
use super::{Finding, Tree};
use crate::workspace::TextFile;

/// Maximum column of a comment.
const MAX_COMMENT_COLUMNS: usize = 110;

/// Minimum number of words in the summary of a public item.
const MIN_SUMMARY_WORDS: usize = 4;

/// Functions with self-explanatory names, whose summaries may be shorter.
const SELF_EVIDENT: &[&str] = &["new", "len", "is_empty", "id", "name", "iter", "clear", "close", "version"];

/// Summaries without information.
const HOLLOW: &[&str] =
    &["which", "what", "why", "how", "who", "whose", "where", "when", "its", "it", "that", "this", "these"];

/// First words of summaries that are relative clauses without a noun ("What it costs").
const NOUNLESS: &[&str] = &["What", "Which", "Who", "Whose", "Where"];

/// Rule: comments end at column [`MAX_COMMENT_COLUMNS`], so that two files fit side by side.
pub(super) fn comment_width(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // C headers share their style with generated headers, whose lines are longer.
    let is_c = |path: &str| path.ends_with(".h") || path.ends_with(".c");
    let files =
        tree.files.iter().filter(|file| !crate::codegen::is_generated(&file.path) && !is_c(&file.path));
    for file in files {
        for (index, comment) in comments(file).iter().enumerate() {
            let columns = comment.trim_end().chars().count();
            if columns > MAX_COMMENT_COLUMNS && can_be_wrapped(comment) {
                let message =
                    format!("the comment ends in column {columns}; {MAX_COMMENT_COLUMNS} is the last");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Returns whether a comment line can be broken: links and table rows cannot.
fn can_be_wrapped(comment: &str) -> bool {
    let text = comment.trim_start().trim_start_matches(['/', '!', '*', '#']).trim_start();
    !text.starts_with('|') && !text.contains("://") && !text.contains("   ") && text.contains(' ')
}

/// Rule: public items have a summary of at least four words, and no item has an empty one.
pub(super) fn summaries(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_checked(tree, &file.path)) {
        if file.path.ends_with(".rs") {
            findings.extend(hollow_summaries(file));
        }
    }
    findings
}

fn hollow_summaries(file: &TextFile) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let mut findings = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].starts_with("///") {
            at += 1;
            continue;
        }
        let documented = lines[at..].iter().take_while(|line| line.starts_with("///")).count();
        let summary: Vec<&str> = lines[at..at + documented]
            .iter()
            .map(|line| line.trim_start_matches('/').trim())
            .take_while(|line| !line.is_empty())
            .collect();
        let item = lines[at + documented..].iter().find(|line| is_item(line)).copied().unwrap_or_default();
        if let Some(fault) = summary_fault(&summary.join(" "), item) {
            findings.push(Finding::new(&file.path, at + 1, fault));
        }
        at += documented;
    }
    findings
}

/// Returns whether a line begins an item, rather than being blank, a comment or an attribute.
fn is_item(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("#[") && !line.starts_with("//") && !line.starts_with(')')
}

/// Returns what is wrong with the summary of an item, given the item's first line.
fn summary_fault(summary: &str, item: &str) -> Option<String> {
    let words: Vec<&str> =
        summary.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).collect();
    let plain = summary.trim_end_matches('.').to_lowercase();
    if HOLLOW.contains(&plain.as_str()) {
        return Some(format!("'{summary}' says nothing: say what it is, its unit or its range"));
    }
    if let Some(first) = summary.split(' ').next().filter(|first| NOUNLESS.contains(first)) {
        return Some(format!(
            "'{first} …' names nothing: begin with a noun ('Address of …') or a verb ('Returns …')"
        ));
    }
    // A link or code shows where the meaning is.
    if words.len() >= MIN_SUMMARY_WORDS || summary.contains(['`', '[']) {
        return None;
    }
    let name = public_item(item).filter(|name| !SELF_EVIDENT.contains(name))?;
    Some(format!("'{summary}' is too short for the public item `{name}`: {MIN_SUMMARY_WORDS} words or more"))
}

/// Returns the name of the public item that a line begins; fields and variants do not count.
fn public_item(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split([' ', '(', '<', ':', ';', '{']);
    let mut kind = words.next()?;
    while matches!(kind, "const" | "async" | "unsafe" | "extern" | "\"C\"") {
        let next = words.next()?;
        if kind == "const" && !matches!(next, "fn" | "unsafe" | "async" | "extern") {
            return Some(next);
        }
        kind = next;
    }
    let is_known = matches!(kind, "fn" | "struct" | "enum" | "union" | "trait" | "type" | "mod" | "static");
    if is_known { words.next() } else { None }
}

/// Rule: no comment, message or page contains an idiom listed in `layers.toml`.
pub(super) fn idioms(tree: &Tree) -> Vec<Finding> {
    let checked = tree.files.iter().filter(|file| is_checked(tree, &file.path));
    checked.flat_map(|file| idioms_of(tree, file)).collect()
}

fn idioms_of(tree: &Tree, file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in english_text(file).iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line = line.to_lowercase();
        for (idiom, remedy) in &tree.layers.english.idioms {
            // "is no more than" is plain English.
            let stands = |at: usize| !line[at + idiom.len()..].starts_with(" than");
            if find_word(&line, idiom).is_some_and(stands) {
                findings.push(Finding::new(&file.path, index + 1, format!("'{idiom}': {remedy}")));
            }
        }
    }
    findings
}

/// Returns whether the English of a file is checked: `layers.toml` exempts folders.
fn is_checked(tree: &Tree, path: &str) -> bool {
    exemption(tree, path).is_none() && !crate::codegen::is_generated(path) && path != "layers.toml"
}

/// Returns the longest entry of `english.exempt` that covers a path, unless `english.mended` has a longer
/// one.
fn exemption<'a>(tree: &'a Tree, path: &str) -> Option<&'a str> {
    let english = &tree.layers.english;
    let covering = |folders: &'a [String]| {
        let covers = |folder: &&'a String| {
            path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        folders.iter().filter(covers).max_by_key(|folder| folder.len())
    };
    let exempt = covering(&english.exempt)?;
    let is_mended = covering(&english.mended).is_some_and(|mended| mended.len() > exempt.len());
    (!is_mended).then_some(exempt)
}

/// Reports the remaining work: the findings in each exempt folder.
pub(super) fn exempt_summary(tree: &Tree) -> Vec<String> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| !crate::codegen::is_generated(&file.path)) {
        if let Some(folder) = exemption(tree, &file.path) {
            let hollow = if file.path.ends_with(".rs") { hollow_summaries(file).len() } else { 0 };
            *left.entry(folder).or_default() += hollow + idioms_of(tree, file).len();
        }
    }
    left.into_iter()
        .map(|(folder, count)| format!("{folder} is exempt from rules of English: {count} findings"))
        .collect()
}

/// Returns the comments of a file by line, with everything else blanked.
fn comments(file: &TextFile) -> Vec<String> {
    match language_of(&file.path) {
        Some(Language::Slashes) => Source::new(&file.text).comments,
        Some(Language::Hashes) => file.text.lines().map(hash_comment).collect(),
        Some(Language::Markdown) | None => Vec::new(),
    }
}

/// Returns whether the literals of a file are test data rather than messages.
fn is_test(path: &str) -> bool {
    path.starts_with("testing/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Returns all English text of a file: comments, messages, and the text of pages.
fn english_text(file: &TextFile) -> Vec<String> {
    match language_of(&file.path) {
        Some(Language::Slashes) => {
            let source = Source::new(&file.text);
            if is_test(&file.path) {
                return source.comments;
            }
            let lines = source.comments.iter().zip(&source.literals);
            lines.map(|(comment, literal)| merge_lines(comment, literal)).collect()
        }
        Some(Language::Hashes) => comments(file),
        Some(Language::Markdown) => outside_fences(&file.text),
        None => Vec::new(),
    }
}

/// Merges two lines of equal length, at most one of which has a non-blank character in each column.
fn merge_lines(one: &str, other: &str) -> String {
    one.chars().zip(other.chars()).map(|(a, b)| if a == ' ' { b } else { a }).collect()
}

enum Language {
    /// C-style comments, also of Rust and Go.
    Slashes,
    /// Shell-style comments; only whole lines count.
    Hashes,
    Markdown,
}

fn language_of(path: &str) -> Option<Language> {
    match path.rsplit('.').next()? {
        "rs" | "c" | "h" | "go" => Some(Language::Slashes),
        "sh" | "py" => Some(Language::Hashes),
        "md" => Some(Language::Markdown),
        _ => None,
    }
}

fn hash_comment(line: &str) -> String {
    let is_comment = line.trim_start().starts_with('#') && !line.starts_with("#!");
    if is_comment { line.to_owned() } else { String::new() }
}

fn outside_fences(text: &str) -> Vec<String> {
    let mut inside = false;
    let line = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        if inside || is_fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    fn summary(text: &str) -> Vec<Finding> {
        summaries(&tree().with_file("base/src/lib.rs", text))
    }

    #[test]
    fn a_comment_that_is_too_wide_is_refused_but_in_c() {
        let long = "word ".repeat(25);
        for (path, text) in [
            ("a.rs", format!("fn a() {{}}\n/// {long}\n")),
            ("a.rs", format!("let text = \"{long}\";\nf(); // {long}\n")),
            ("a.sh", format!("#!/bin/sh {long}\n# {long}\n")),
            ("a.py", format!("a = '{long}'\n    # {long}\n")),
        ] {
            let findings = comment_width(&tree().with_file(path, &text));
            assert!(
                only(&findings).starts_with(&format!("{path}:2: the comment ends in column 1")),
                "{path}"
            );
        }
        assert_eq!(comment_width(&tree().with_file("a.h", &format!("int a;\n/* {long}*/\n"))), []);
    }

    #[test]
    fn a_comment_of_110_columns_fits_and_links_may_be_longer() {
        let line = |columns: usize| format!("// a {}\n", "b".repeat(columns - 5));
        assert_eq!(comment_width(&tree().with_file("a.rs", &line(110))), []);
        assert_eq!(comment_width(&tree().with_file("a.rs", &line(111))).len(), 1);
        let link = format!("// see https://{}\n// | a | {} |\n", "b".repeat(120), "c".repeat(120));
        assert_eq!(comment_width(&tree().with_file("a.rs", &link)), []);
    }

    #[test]
    fn a_short_summary_of_a_public_item_is_refused() {
        for item in [
            "pub fn send(&self) {}",
            "pub async fn send() {}",
            "pub unsafe extern \"C\" fn send() {}",
            "pub struct Peer;",
            "pub const LIMIT: u32 = 1;",
            "pub const fn limit() {}",
            "#[must_use]\npub fn sent(&self) {}",
        ] {
            assert!(
                only(&summary(&format!("/// Sends it now.\n{item}\n"))).contains("is too short"),
                "{item}"
            );
            assert_eq!(summary(&format!("/// Sends a message now.\n{item}\n")), [], "{item}");
        }
    }

    #[test]
    fn self_evident_and_private_items_may_have_a_short_summary() {
        for text in [
            "/// Its length.\npub fn len(&self) {}\n",
            "/// A message.\nfn send() {}\n",
            "/// A message.\npub(crate) fn send() {}\n",
            "/// Bytes sent.\npub bytes: u64,\n",
            "/// See [`send`].\npub fn send_all() {}\n",
            "/// Short.\n///\n/// Whatever follows the summary does not count.\nfn send() {}\n",
        ] {
            assert_eq!(summary(text), [], "{text}");
        }
    }

    #[test]
    fn a_summary_that_says_nothing_is_refused_everywhere() {
        for text in ["/// Which.\nnode: NodeId,\n", "    /// What.\n    pub order: Order,\n"] {
            assert!(only(&summary(text)).contains("says nothing"), "{text}");
        }
    }

    #[test]
    fn a_summary_without_a_noun_is_refused_everywhere() {
        for text in
            ["/// What the node costs to start.\nfn cost() {}\n", "/// Whose turn it is\nturn: Rank,\n"]
        {
            assert!(only(&summary(text)).contains("names nothing"), "{text}");
        }
        assert_eq!(summary("/// Whether the node is up.\nup: bool,\n"), []);
    }

    #[test]
    fn an_idiom_is_refused_in_comments_messages_and_pages_but_not_in_code() {
        for (path, text) in [
            ("base/src/lib.rs", "fn a() {}\n// Private idiom here.\n"),
            ("base/src/lib.rs", "fn a() {}\nprintln!(\"a private idiom\");\n"),
            ("base/a.py", "private_idiom = 1\n# a private idiom\n"),
            ("base/a.md", "# A\na private idiom\n```text\nprivate idiom\n```\n"),
        ] {
            let findings = idioms(&tree().with_file(path, text));
            assert_eq!(only(&findings), format!("{path}:2: 'private idiom': say it plainly"));
        }
        for (path, text) in [
            ("base/a.rs", "fn private idiom\n// private idioms\n"),
            ("base/a.rs", "// no private idiom than this\n"),
            ("base/tests/a.rs", "let name = \"private idiom\";\n"),
        ] {
            assert_eq!(idioms(&tree().with_file(path, text)), [], "{text}");
        }
    }

    #[test]
    fn exempt_folders_are_counted_and_mended_ones_in_them_checked() {
        let mut tree = tree().with_file("base/a.rs", "// private idiom\n/// Which.\nfn a();\n");
        tree = tree.with_file("base/deep/a.rs", "// private idiom\n").with_file("basement/a.rs", "// fine\n");
        tree.layers.english.exempt = vec!["base".to_owned()];
        tree.layers.english.mended = vec!["base/deep".to_owned()];
        assert_eq!(summaries(&tree), []);
        assert!(only(&idioms(&tree)).starts_with("base/deep/a.rs:1"));
        let last = exempt_summary(&tree).pop();
        assert_eq!(last.as_deref(), Some("base is exempt from rules of English: 2 findings"));
    }
}
