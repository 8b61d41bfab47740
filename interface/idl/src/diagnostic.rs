//! Diagnostics of interface files: a message, a source location and a hint.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Range of byte offsets in the source.
pub type Span = Range<usize>;

/// Text of an interface file, with the path to display for it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Path of the file, as displayed.
    pub path: &'a str,
    /// Text of the file.
    pub text: &'a str,
}

/// Mistake in an interface file: its message, its location and a hint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic(Box<Details>);

/// Content of a diagnostic. Boxed to keep the `Result`s of the parser small.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Details {
    message: String,
    span: Span,
    label: String,
    related: Option<(Span, String)>,
    hint: String,
    /// Whether it only follows from another mistake; not shown if there are mistakes that do not.
    secondary: bool,
}

impl Diagnostic {
    pub(crate) fn new(span: &Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Diagnostic(Box::new(Details {
            message: message.into(),
            span: span.clone(),
            label: label.into(),
            related: None,
            hint: String::new(),
            secondary: false,
        }))
    }

    /// Adds a second location with its own label.
    pub(crate) fn related(mut self, span: &Span, label: impl Into<String>) -> Self {
        self.0.related = Some((span.clone(), label.into()));
        self
    }

    /// Sets the hint, replacing an earlier one.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// Moves all spans by `bytes`, for a text that starts there in the concatenation of all sources.
    pub(crate) fn shift_spans(mut self, bytes: usize) -> Self {
        let shift = |span: &mut Span| *span = span.start + bytes..span.end + bytes;
        shift(&mut self.0.span);
        if let Some((span, _)) = &mut self.0.related {
            shift(span);
        }
        self
    }

    /// Creates a diagnostic that follows from another, reported mistake.
    pub(crate) fn secondary(span: &Span) -> Self {
        let mistake = Diagnostic::new(span, "this depends on a declaration with an error", "used here");
        Diagnostic(Box::new(Details { secondary: true, ..*mistake.0 })).hint("fix its declaration first")
    }

    /// Returns the description of the mistake, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the hint how to correct the mistake.
    #[must_use]
    pub fn advice(&self) -> &str {
        &self.0.hint
    }

    /// Returns the byte range of the mistake in the text.
    #[must_use]
    pub fn span(&self) -> Span {
        self.0.span.clone()
    }

    /// Renders the mistake for a terminal: the source line with the span underlined, and the hint.
    #[must_use]
    pub fn render(&self, source: &Source<'_>, colour: bool) -> String {
        self.render_among(&[(0, *source)], colour)
    }

    /// Like [`render`](Self::render) for several texts, each with its offset in their concatenation.
    fn render_among(&self, sources: &[(usize, Source<'_>)], colour: bool) -> String {
        let place = |span: &Span| sources.iter().rposition(|(base, _)| *base <= span.start).unwrap_or(0);
        let annotated = |index: usize, kind: AnnotationKind, span: &Span, label| {
            let (base, source) = sources[index];
            let span = span.start.saturating_sub(base)..span.end.saturating_sub(base);
            kind.span(within(&span, source.text)).label(label)
        };
        let snippet = |index: usize| Snippet::source(sources[index].1.text).path(sources[index].1.path);
        let primary = place(&self.0.span);
        let mut first = snippet(primary);
        first = first.annotation(annotated(primary, AnnotationKind::Primary, &self.0.span, &self.0.label));
        let mut second = None;
        if let Some((span, label)) = &self.0.related {
            let index = place(span);
            let annotation = annotated(index, AnnotationKind::Context, span, label);
            if index == primary {
                first = first.annotation(annotation);
            } else {
                second = Some(snippet(index).annotation(annotation));
            }
        }
        let mut group = Level::ERROR.primary_title(&self.0.message).element(first);
        if let Some(second) = second {
            group = group.element(second);
        }
        if !self.0.hint.is_empty() {
            group = group.element(Level::HELP.message(&self.0.hint));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

/// Clamps a span to the text and widens it to character boundaries.
fn within(span: &Span, text: &str) -> Span {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// All mistakes of a file, in source order. Never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Mistakes(pub Vec<Diagnostic>);

impl Mistakes {
    pub(crate) fn sorted(mut found: Vec<Diagnostic>) -> Self {
        if found.iter().any(|diagnostic| !diagnostic.0.secondary) {
            found.retain(|diagnostic| !diagnostic.0.secondary);
        }
        found.sort_by_key(|diagnostic| (diagnostic.0.span.start, diagnostic.0.span.end));
        Mistakes(found)
    }

    /// Renders all mistakes for a terminal, separated by empty lines.
    #[must_use]
    pub fn render(&self, source: &Source<'_>, colour: bool) -> String {
        self.render_among(&[(0, *source)], colour)
    }

    pub(crate) fn render_among(&self, sources: &[(usize, Source<'_>)], colour: bool) -> String {
        let each: Vec<String> = self.0.iter().map(|mistake| mistake.render_among(sources, colour)).collect();
        each.join("\n\n")
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<&str> = self.0.iter().map(Diagnostic::message).collect();
        f.write_str(&each.join("; "))
    }
}
