//! Fenced blocks of Markdown pages, with the marks before them.
//!
//! A mark is a comment on the line before a fence, `<!-- snippet: MARK -->`. Readers do not see it. A block
//! may have several, one per line.

use std::fmt;

/// Instruction of a page to this test about a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// The block is the body of a function with these parameters.
    Given(String),
    /// The block is written to this file in the folder of the page's session.
    File(String),
    /// The compiled block is put into that folder under this name.
    Program(String),
    /// The commands are run in that folder.
    Run,
    /// Output of the preceding commands, in this order; lines of `…` stand for any.
    Output,
    /// A quotation of whole lines of this file of the tree.
    From(String),
    /// The block is not checked, for this reason.
    Unchecked(String),
}

/// A fenced block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Snippet {
    /// Path of the page, relative to the root of the tree.
    pub(crate) page: String,
    /// Line number of the opening fence, from 1.
    pub(crate) line: usize,
    /// First word after the fence; may be empty.
    pub(crate) language: String,
    /// Text between the fences, without the indentation of the fence.
    pub(crate) text: String,
    pub(crate) marks: Vec<Mark>,
}

impl Snippet {
    /// Returns the reason why the block is not checked.
    pub(crate) fn unchecked(&self) -> Option<&str> {
        self.of(|mark| if let Mark::Unchecked(reason) = mark { Some(reason) } else { None })
    }

    /// Returns the file of the tree that the block quotes.
    pub(crate) fn from(&self) -> Option<&str> {
        self.of(|mark| if let Mark::From(path) = mark { Some(path) } else { None })
    }

    /// Returns the file of the session to which the block is written.
    pub(crate) fn file(&self) -> Option<&str> {
        self.of(|mark| if let Mark::File(path) = mark { Some(path) } else { None })
    }

    /// Returns the name of the compiled program in the session.
    pub(crate) fn program(&self) -> Option<&str> {
        self.of(|mark| if let Mark::Program(name) = mark { Some(name) } else { None })
    }

    /// Returns the parameters of the function whose body is the block.
    pub(crate) fn given(&self) -> &str {
        self.of(|mark| if let Mark::Given(given) = mark { Some(given) } else { None }).unwrap_or_default()
    }

    fn of(&self, text: impl Fn(&Mark) -> Option<&String>) -> Option<&str> {
        self.marks.iter().find_map(text).map(String::as_str)
    }

    /// Returns a unique identifier of the block.
    pub(crate) fn name(&self) -> String {
        let page = self.page.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
        format!("{}_{}", page.to_lowercase().replace(['-', '.'], "_"), self.line)
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page, self.line)
    }
}

const MARK: &str = "<!-- snippet:";

/// Returns all fenced blocks of a page.
///
/// # Errors
/// Fails for a fence without an end and for a mark without a block or with unknown words; names the line.
pub(crate) fn snippets(page: &str, text: &str) -> Result<Vec<Snippet>, String> {
    let (mut all, mut marks) = (Vec::new(), Vec::new());
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line_number = at + 1;
        let words = line.trim_start();
        if words.starts_with(MARK) {
            marks.push(mark(words).map_err(|error| format!("{page}:{line_number}: {error}"))?);
        } else if let Some(info) = words.strip_prefix("```") {
            let indentation = line.len() - words.len();
            let mut block = String::new();
            loop {
                let Some((_, line)) = lines.next() else {
                    return Err(format!("{page}:{line_number}: the block has no end"));
                };
                if line.trim() == "```" {
                    break;
                }
                block.push_str(line.get(indentation..).unwrap_or_default());
                block.push('\n');
            }
            let language = info.split([',', ' ', '{']).next().unwrap_or_default().to_owned();
            let marks = std::mem::take(&mut marks);
            all.push(Snippet { page: page.to_owned(), line: line_number, language, text: block, marks });
        } else if !marks.is_empty() {
            return Err(format!("{page}:{line_number}: a mark stands directly before a block"));
        }
    }
    if marks.is_empty() { Ok(all) } else { Err(format!("{page}: a mark at the end has no block")) }
}

fn mark(line: &str) -> Result<Mark, String> {
    let inner = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix("-->"));
    let inner = inner.ok_or("a mark ends with `-->` on its line")?.trim();
    let (word, rest) = inner.split_once([' ', ',']).unwrap_or((inner, ""));
    let rest = rest.trim().to_owned();
    match (word, rest.is_empty()) {
        ("run", true) => Ok(Mark::Run),
        ("output", true) => Ok(Mark::Output),
        ("given", false) => Ok(Mark::Given(rest)),
        ("file", false) => Ok(Mark::File(rest)),
        ("program", false) => Ok(Mark::Program(rest)),
        ("from", false) => Ok(Mark::From(rest)),
        ("unchecked", false) if rest.len() >= 10 => Ok(Mark::Unchecked(rest)),
        ("unchecked", _) => Err("`unchecked` needs a reason: `unchecked, it needs …`".to_owned()),
        _ => Err(format!("`{inner}` is not a mark")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_marks_language_and_line() {
        let text = "a\n<!-- snippet: given x: u8 -->\n```rust,ignore\nlet y = x;\n```\n1. list\n   ```sh\n   ls\n   ```\n";
        let found = snippets("p.md", text).expect("two blocks");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, &*found[0].language, &*found[0].text), (3, "rust", "let y = x;\n"));
        assert_eq!(found[0].given(), "x: u8");
        assert_eq!((&*found[1].language, &*found[1].text), ("sh", "ls\n"));
        assert_eq!(found[0].name(), "p_3");
    }

    #[test]
    fn mistakes_in_marks_are_found() {
        for (text, part) in [
            ("<!-- snippet: runs -->\n```sh\n```\n", "not a mark"),
            ("<!-- snippet: unchecked -->\n```sh\n```\n", "needs a reason"),
            ("<!-- snippet: unchecked, no -->\n```sh\n```\n", "needs a reason"),
            ("<!-- snippet: run -->\n\n```sh\n```\n", "directly before"),
            ("<!-- snippet: run -->\n", "no block"),
            ("```sh\n", "no end"),
        ] {
            let error = snippets("p.md", text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
