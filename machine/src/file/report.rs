//! What is wrong with a machine file, shown in the file's own text.

use std::fmt;
use std::ops::Range;

use anstyle::{AnsiColor, Style};

/// One mistake and the text that it is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The bytes of the file that are wrong, or that something is missing from.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write under the marked text; may be empty.
    pub label: String,
    /// What is allowed, one note per line.
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

    /// The mistakes; at least one.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Where a mistake begins: line and column (in characters), both from 1.
    #[must_use]
    pub fn position(&self, problem: &Problem) -> (usize, usize) {
        let place = Place::find(&self.text, &problem.span);
        (place.line_number, place.before.chars().count() + 1)
    }

    /// The report as text for people, with the marked source lines; `colour` adds terminal colours.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let palette = if colour { Palette::COLOUR } else { Palette::PLAIN };
        let blocks: Vec<String> =
            self.problems.iter().map(|problem| self.render_problem(problem, &palette)).collect();
        blocks.join("\n")
    }

    fn render_problem(&self, problem: &Problem, palette: &Palette) -> String {
        let place = Place::find(&self.text, &problem.span);
        let (line, column) = self.position(problem);
        let Palette { error, frame } = *palette;
        let margin = " ".repeat(line.to_string().len());
        let source = printable(&format!("{}{}{}", place.before, place.marked, place.after));
        // Tabs are repeated under the line, so that the marks stand where the text stands.
        let indent: String = place.before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let marks = "^".repeat(place.marked.chars().count().max(1));
        let label = if problem.label.is_empty() { String::new() } else { format!(" {}", problem.label) };
        let mut text = format!(
            "{error}error{error:#}: {}\n\
             {margin}{frame}-->{frame:#} {}:{line}:{column}\n\
             {margin} {frame}|{frame:#}\n\
             {frame}{line} |{frame:#}{}\n\
             {margin} {frame}|{frame:#} {indent}{error}{marks}{label}{error:#}\n",
            problem.message,
            self.origin,
            format!(" {source}").trim_end(),
        );
        for note in &problem.notes {
            text.push_str(&format!("{margin} {frame}={frame:#} {note}\n"));
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Report {}

/// The line that a span begins in, cut around the part of the span that lies in it.
struct Place<'a> {
    line_number: usize,
    before: &'a str,
    marked: &'a str,
    after: &'a str,
}

impl<'a> Place<'a> {
    fn find(text: &'a str, span: &Range<usize>) -> Place<'a> {
        let start = text.floor_char_boundary(span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line_end = line_start + text[line_start..line_end].trim_end_matches('\r').len();
        let start = start.min(line_end);
        let end = text.floor_char_boundary(span.end).clamp(start, line_end);
        Place {
            line_number: text[..line_start].matches('\n').count() + 1,
            before: &text[line_start..start],
            marked: &text[start..end],
            after: &text[end..line_end],
        }
    }
}

/// The text with what a terminal would obey replaced, one character for one.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[derive(Clone, Copy)]
struct Palette {
    error: Style,
    frame: Style,
}

impl Palette {
    const PLAIN: Palette = Palette { error: Style::new(), frame: Style::new() };
    const COLOUR: Palette =
        Palette { error: AnsiColor::Red.on_default().bold(), frame: AnsiColor::Blue.on_default().bold() };
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
    fn marks_stand_under_the_text_they_mean() {
        assert_eq!(
            render("a = 1\n\tb = 'ä'\n", 11..15, false),
            "error: wrong\n --> m.toml:2:6\n  |\n2 | \tb = 'ä'\n  | \t    ^^^ here\n  = right is right\n"
        );
    }

    #[test]
    fn a_span_at_the_end_of_the_file_marks_one_place() {
        assert_eq!(
            render("a = \r\n", 4..4, false),
            "error: wrong\n --> m.toml:1:5\n  |\n1 | a =\n  |     ^ here\n  = right is right\n"
        );
        assert!(render("", 0..0, false).contains("m.toml:1:1"));
    }

    #[test]
    fn colour_only_when_told_and_control_characters_never() {
        assert!(!render("a = \"\x1b[31m\"", 0..1, false).contains('\x1b'));
        let coloured = render("a = 1", 0..1, true);
        assert!(coloured.starts_with("\x1b[1m\x1b[31merror\x1b[0m: wrong"), "{coloured:?}");
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_renders(text in "[ab\n\r\tä€]{0,20}", start in 0_usize..40, length in 0_usize..40) {
            render(&text, start..start + length, false);
        }
    }
}
