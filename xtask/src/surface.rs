//! The public items of a crate as text, so that a change to the API shows up as a change to a committed file.
//!
//! Sources are parsed line by line, which works because `cargo fmt` has formatted them; the lint
//! `unreachable_pub` ensures that everything marked `pub` is reachable from outside.

use std::collections::BTreeSet;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Beginnings of public items, after `pub `.
const KINDS: [&str; 12] = [
    "fn ",
    "const fn ",
    "async fn ",
    "unsafe fn ",
    "struct ",
    "enum ",
    "trait ",
    "type ",
    "const ",
    "static ",
    "mod ",
    "use ",
];

/// Lists the public items of a crate whose sources are in `folder`.
pub(crate) fn of_crate(workspace: &Workspace, name: &str, folder: &str) -> Result<String, Failure> {
    let files = workspace.text_files()?;
    let mut sources: Vec<(&str, &str)> = Vec::new();
    for file in &files {
        let Some(path) = file.path.strip_prefix(folder).filter(|path| path.ends_with(".rs")) else {
            continue;
        };
        let is_test = |part: &str| matches!(part, "tests" | "tests.rs" | "testing.rs");
        if !path.split('/').any(is_test) {
            sources.push((path, &file.text));
        }
    }
    sources.sort_unstable();
    Ok(format!("{}{}", head(name), surface(&sources)))
}

fn head(name: &str) -> String {
    format!(
        "# The public items of the crate `{name}`, written by `cargo xtask codegen`: a change of the API shows \
         here.\n"
    )
}

/// Renders the public items of sources, given as pairs of path and text.
fn surface(sources: &[(&str, &str)]) -> String {
    let types: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| public_types(text)).collect();
    let (mut functions, mut body) = (0, String::new());
    for (path, text) in sources {
        let items = Reader { lines: without_tests(text), types: &types }.items();
        functions += items.iter().filter(|item| is_function(item)).count();
        if !items.is_empty() {
            body.push_str(&format!("\n{path}\n"));
            items.iter().for_each(|item| body.push_str(&format!("  {item}\n")));
        }
    }
    format!("# {functions} functions.\n{body}")
}

fn is_function(item: &str) -> bool {
    item.trim_start()
        .strip_prefix("pub ")
        .is_some_and(|rest| KINDS[..4].iter().any(|kind| rest.starts_with(kind)))
}

/// Returns the lines before the test module at the end of a file.
fn without_tests(text: &str) -> Vec<&str> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().collect()
}

fn public_types(text: &str) -> Vec<&str> {
    let named = |line: &'_ str| line.starts_with("pub struct ") || line.starts_with("pub enum ");
    let words = text.lines().filter(|line| named(line)).filter_map(|line| line.splitn(3, ' ').nth(2));
    words.filter_map(|rest| rest.split(|letter: char| !letter.is_alphanumeric()).next()).collect()
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    types: &'a BTreeSet<&'a str>,
}

impl Reader<'_> {
    fn items(&self) -> Vec<String> {
        let mut items = Vec::new();
        // Header of the enclosing `impl`, until its first public item is printed.
        let mut around: Option<String> = None;
        let mut at = 0;
        while let Some(line) = self.lines.get(at) {
            let (text, depth) = (line.trim_start(), line.len() - line.trim_start().len());
            if depth == 0 && text.starts_with("impl") {
                let head = self.head(&mut at);
                around = None;
                match head.split_once(" for ") {
                    Some((_, named)) if self.is_public(named) => items.push(head),
                    Some(_) => {}
                    None => around = Some(head),
                }
                continue;
            }
            if line.starts_with('}') {
                around = None;
            }
            let Some(kind) = text.strip_prefix("pub ") else {
                at += 1;
                continue;
            };
            let indent = " ".repeat(depth);
            if depth > 0
                && let Some(head) = around.take()
            {
                items.push(head);
            }
            if !KINDS.iter().any(|known| kind.starts_with(known)) {
                // A public field.
                items.push(format!("{indent}{}", text.trim_end_matches(',')));
                at += 1;
                continue;
            }
            let has_body = ["enum ", "trait "].iter().any(|known| kind.starts_with(known));
            items.push(format!("{indent}{}", self.head(&mut at)));
            if has_body {
                self.body(depth, &mut at, &mut items);
            }
        }
        items
    }

    /// Returns whether a type named by an `impl` is one of the crate's public types.
    fn is_public(&self, named: &str) -> bool {
        let named = named.trim_start_matches(['&', '\'', '_', ' ']).trim_start_matches("mut ");
        let name = named.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        self.types.contains(name)
    }

    /// Reads an item up to its body and joins it into one line; `at` is moved past these lines.
    fn head(&self, at: &mut usize) -> String {
        let mut words = String::new();
        while let Some(line) = self.lines.get(*at) {
            *at += 1;
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(line.trim());
            if line.ends_with('{') || line.ends_with(';') || line.ends_with('}') {
                break;
            }
        }
        let words = words.trim_end_matches('{').trim_end_matches(';').trim_end();
        words.replace("( ", "(").replace(", )", ")").replace(",)", ")")
    }

    /// Reads the members of an enum or a trait, all of which are public.
    fn body(&self, depth: usize, at: &mut usize, items: &mut Vec<String>) {
        let end = format!("{}}}", " ".repeat(depth));
        // Bodies of provided methods are indented more deeply than the trait's members.
        let mut provided: Option<usize> = None;
        while let Some(line) = self.lines.get(*at) {
            let (text, inner) = (line.trim_start(), line.len() - line.trim_start().len());
            if *line == end {
                *at += 1;
                return;
            }
            if provided.is_some_and(|outer| inner > outer || text == "}") {
                *at += 1;
                if text == "}" && Some(inner) == provided {
                    provided = None;
                }
                continue;
            }
            if text.is_empty()
                || text.starts_with("//")
                || text.starts_with("#[")
                || text.starts_with(['}', ')', ']'])
            {
                *at += 1;
            } else if text.starts_with("fn ") {
                let first = *at;
                let head = self.head(at);
                if self.lines[first..*at].last().is_some_and(|last| last.ends_with('{')) {
                    provided = Some(inner);
                }
                items.push(format!("{}{head}", " ".repeat(inner)));
            } else {
                let text = text.trim_end_matches(['{', ',', ' ']);
                if !text.starts_with('"') {
                    items.push(format!("{}{text}", " ".repeat(inner)));
                }
                *at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"//! A module.

mod inner;
pub use inner::Thing;

/// An error of the module.
#[derive(Debug)]
pub enum Error {
    /// It was not there.
    #[error("not there")]
    Missing {
        /// Its name.
        what: String,
    },
    Other(u8),
}

struct Private;

impl Private {
    fn hidden(&self) {}
}

impl Drop for Private {
    fn drop(&mut self) {}
}

pub struct Line {
    pub number: u32,
    text: String,
}

impl Drop for Line {
    fn drop(&mut self) {}
}

impl Line {
    pub(crate) fn own(&self) {}

    /// Prints the text once.
    pub fn say(
        &self,
        to: &str,
    ) -> Result<(), Error>
    where
        Self: Sized,
    {
        Ok(())
    }
}

pub trait Speaks {
    /// Once.
    fn speak(&self);

    fn twice(&self) {
        self.speak();
    }
}

#[cfg(test)]
mod tests {
    pub fn helper() {}
}
"#;

    #[test]
    fn only_public_items_are_listed() {
        let text = surface(&[("lib.rs", SOURCE)]);
        assert_eq!(
            text,
            "# 1 functions.\n\nlib.rs\n  pub use inner::Thing\n  pub enum Error\n      Missing\n          what: String\n      \
             Other(u8)\n  pub struct Line\n      pub number: u32\n  impl Drop for Line\n  impl Line\n      \
             pub fn say(&self, to: &str) -> Result<(), Error> where Self: Sized,\n  pub trait Speaks\n      \
             fn speak(&self)\n      fn twice(&self)\n"
        );
    }
}
