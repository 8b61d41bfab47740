//! Rule for the exclusions of mutation tests.

use std::collections::BTreeSet;

use super::{Finding, Tree};

const SETTINGS: &str = ".cargo/mutants.toml";

/// Words of descriptions of mutants, as `cargo mutants --list` prints them.
const DESCRIPTION: &[&str] = &["replace", "with", "delete", "match", "guard"];

/// Shorter names are not checked: almost any is part of another.
const MIN_NAME_BYTES: usize = 4;

/// Rule: the names in the expressions that exclude mutants are in the code. An expression that names a
/// renamed function excludes nothing, without a warning.
pub(super) fn excluded_names(tree: &Tree) -> Vec<Finding> {
    let Some(settings) = tree.file(SETTINGS) else { return Vec::new() };
    let known: BTreeSet<&str> = tree
        .files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(|file| names(&file.text).chain(names(&file.path)))
        .collect();
    let mut findings = Vec::new();
    for (index, line) in settings.text.lines().enumerate() {
        let Some(expression) = line.trim().strip_prefix('\'').and_then(|rest| rest.split('\'').next()) else {
            continue;
        };
        let expression = without_escapes(expression);
        let unknown = names(&expression).filter(|name| {
            name.len() >= MIN_NAME_BYTES
                && !DESCRIPTION.contains(name)
                // A part of an expression may match a part of a name.
                && !known.iter().any(|known| known.contains(name))
        });
        findings.extend(
            unknown.map(|name| Finding::new(SETTINGS, index + 1, format!("no code is called `{name}`"))),
        );
    }
    findings
}

/// Returns the text with each escape of the expression (`\b`, `\.`) as a space.
fn without_escapes(expression: &str) -> String {
    let mut characters = expression.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        if character == '\\' {
            characters.next();
            text.push(' ');
        } else {
            text.push(character);
        }
    }
    text
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    fn find(expressions: &str) -> Vec<Finding> {
        let code = "impl<C> Slots<C> {\n    fn load_words(&self) -> bool { false }\n}\n";
        excluded_names(&tree().with_file("base/src/slots.rs", code).with_file(SETTINGS, expressions))
    }

    #[test]
    fn renamed_function_is_found() {
        let found = find("# Shortcuts.\n    'replace Slots<C>::load_b64 -> bool with false',\n");
        assert_eq!(only(&found), ".cargo/mutants.toml:2: no code is called `load_b64`");
    }

    #[test]
    fn names_in_code_and_parts_of_them_are_accepted() {
        let expressions = "'replace Slots<C>::load(_words)? with \\(\\)',\n'slots\\.rs.*\\bload\\w* in',\n";
        assert_eq!(find(expressions), []);
    }
}
