//! Mistakes in a machine file, shown in the file's text.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// A mistake with its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Byte range that is wrong, or that lacks something.
    pub span: Range<usize>,
    /// Description of the mistake.
    pub message: String,
    /// Label beside the marked text; may be empty.
    pub label: String,
    /// Allowed values, one line each.
    pub notes: Vec<String>,
}

impl Problem {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem { span, message: message.into(), label: String::new(), notes: Vec::new() }
    }

    pub(super) fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = label.into();
        self
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Problem {
        self.notes.push(note.into());
        self
    }
}

/// All mistakes found in one machine file, in the order of the file. `Display` renders them without colour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    origin: String,
    text: String,
    problems: Vec<Problem>,
}

impl Report {
    pub(super) fn new(origin: &str, text: &str, mut problems: Vec<Problem>) -> Report {
        problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        Report { origin: origin.to_owned(), text: text.to_owned(), problems }
    }

    /// Returns the mistakes; at least one.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Formats the mistakes with their source lines; `colour` adds terminal colours.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let blocks = self.problems.iter().map(|problem| renderer.render(&[self.group(problem)]) + "\n");
        blocks.collect::<Vec<_>>().join("\n")
    }

    fn group<'a>(&'a self, problem: &'a Problem) -> Group<'a> {
        let mut mark = AnnotationKind::Primary.span(first_line(&self.text, &problem.span));
        if !problem.label.is_empty() {
            mark = mark.label(&problem.label);
        }
        let snippet = Snippet::source(&self.text).path(&self.origin).annotation(mark);
        let title = Level::ERROR.primary_title(&problem.message);
        let notes = problem.notes.iter().map(|note| Level::NOTE.message(note));
        notes.fold(title.element(snippet), Group::element)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Report {}

/// Returns the part of a span in its first line, clipped to the text.
fn first_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    let line = text[start..].lines().next().unwrap_or_default();
    let end = text.floor_char_boundary(span.end).clamp(start, start + line.len());
    start..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(text: &str, span: Range<usize>, colour: bool) -> String {
        let problem = Problem::new(span, "wrong").label("here").note("right is right");
        Report::new("m.toml", text, vec![problem]).render(colour)
    }

    #[test]
    fn marks_are_aligned_with_their_text() {
        assert_eq!(
            render("a = 1\n\tb = 'ä'\n", 11..15, false),
            "error: wrong\n --> m.toml:2:6\n  |\n2 |     b = 'ä'\n  |         ^^^ here\n  |\n  = note: right is right\n"
        );
    }

    #[test]
    fn a_span_of_several_lines_marks_its_first() {
        let text = render("a = [\n  1,\n]\n", 4..12, false);
        assert!(text.contains("1 | a = [\n  |     ^ here\n"), "{text}");
    }

    #[test]
    fn a_span_at_the_end_of_the_file_marks_one_place() {
        let text = render("a = \r\n", 4..4, false);
        assert!(text.contains("m.toml:1:5\n") && text.contains("  |     ^ here\n"), "{text}");
        assert!(render("", 0..0, false).contains("m.toml:1:1"));
    }

    #[test]
    fn colour_is_optional_and_control_characters_are_removed() {
        assert!(!render("a = \"\x1b[31m\"", 0..1, false).contains('\x1b'));
        let coloured = render("a = 1", 0..1, true);
        assert!(coloured.starts_with('\x1b') && coloured.contains("wrong"), "{coloured:?}");
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_renders(text in "[ab\n\r\tä€]{0,20}", start in 0_usize..40, length in 0_usize..40) {
            render(&text, start..start + length, false);
        }
    }
}
