//! Rules for banned words and white space.

use super::source::{Source, find_word};
use super::{Finding, Tree};

/// Macros that mark code as unfinished.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// Rule: no code is left unfinished.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (index, line) in Source::new(&file.text).code.iter().enumerate() {
            for word in UNFINISHED.iter().filter(|word| is_called(line, word)) {
                findings.push(Finding::new(&file.path, index + 1, format!("`{word}` is left over")));
            }
        }
    }
    findings
}

fn is_called(line: &str, word: &str) -> bool {
    let name = word.trim_end_matches('!');
    find_word(line, name).is_some_and(|at| line[at + name.len()..].starts_with('!'))
}

/// Rule: no file contains a word that `layers.toml` bans. `layers.toml` itself is exempt because it lists the
/// words.
pub(super) fn banned(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != "layers.toml") {
        for (index, line) in file.text.lines().enumerate() {
            for (word, reason) in tree.layers.banned.iter().filter(|(word, _)| line.contains(word.as_str())) {
                let message = format!("`{word}` may not stand here: {reason}");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Rule: no white space at the ends of lines, no carriage returns, and a newline at the end.
pub(super) fn white_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !file.text.is_empty()) {
        for (index, line) in file.text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(&file.path, index + 1, "white space at the end of the line"));
            }
        }
        if !file.text.ends_with('\n') {
            findings.push(Finding::new(&file.path, 0, "no newline at the end"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    #[test]
    fn unfinished_code_is_refused() {
        for word in UNFINISHED {
            let text = format!("// {word}()\nlet a = \"{word}\";\n{word}();\n");
            let tree = tree().with_file("a.rs", &text);
            assert_eq!(only(&unfinished(&tree)), format!("a.rs:3: `{word}` is left over"));
        }
        assert_eq!(unfinished(&tree().with_file("a.rs", "my_todo!();\n")), []);
    }

    #[test]
    fn a_banned_word_is_refused_everywhere_but_in_the_list() {
        let tree = tree().with_file("a.md", "no\na secret.\n").with_file("layers.toml", "secret\n");
        assert_eq!(only(&banned(&tree)), "a.md:2: `secret` may not stand here: it is one");
    }

    #[test]
    fn white_space_that_nobody_sees_is_refused() {
        let find = |text| only(&white_space(&tree().with_file("a", text)));
        assert_eq!(find("a \nb\n"), "a:1: white space at the end of the line");
        assert_eq!(find("a\r\nb\n"), "a:1: white space at the end of the line");
        assert_eq!(find("a"), "a: no newline at the end");
        assert_eq!(white_space(&tree().with_file("a", "a\n\nb\n")), []);
    }
}
