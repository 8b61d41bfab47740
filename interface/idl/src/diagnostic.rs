//! Mistakes in an interface file: what, where, and what to do about it.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Bytes of the source.
pub type Span = Range<usize>;

/// Text of an interface, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its path, as it is shown.
    pub path: &'a str,
    /// The text.
    pub text: &'a str,
}

/// A mistake in an interface file: what it is, its place, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic(Box<Details>);

/// Behind a pointer: every result of the parser may be one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Details {
    message: String,
    span: Span,
    label: String,
    related: Option<(Span, String)>,
    hint: String,
    /// Whether it would not be there but for another one.
    consequence: bool,
}

impl Diagnostic {
    pub(crate) fn new(span: &Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Diagnostic(Box::new(Details {
            message: message.into(),
            span: span.clone(),
            label: label.into(),
            related: None,
            hint: String::new(),
            consequence: false,
        }))
    }

    /// Another place that the mistake has to do with.
    pub(crate) fn related(mut self, span: &Span, label: impl Into<String>) -> Self {
        self.0.related = Some((span.clone(), label.into()));
        self
    }

    /// What to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// The same, as much further on.
    pub(crate) fn shifted(mut self, bytes: usize) -> Self {
        let shift = |span: &mut Span| *span = span.start + bytes..span.end + bytes;
        shift(&mut self.0.span);
        if let Some((span, _)) = &mut self.0.related {
            shift(span);
        }
        self
    }

    /// Follows from another mistake, which is told.
    pub(crate) fn consequence(span: &Span) -> Self {
        let mistake = Diagnostic::new(span, "what stands here has a mistake of its own", "used here");
        Diagnostic(Box::new(Details { consequence: true, ..*mistake.0 }))
            .hint("put its declaration right first")
    }

    /// What is wrong, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> &str {
        &self.0.hint
    }

    /// The part of the text that the mistake is in.
    #[must_use]
    pub fn span(&self) -> Span {
        self.0.span.clone()
    }

    /// The mistake with its line underlined, as it is shown on a terminal.
    #[must_use]
    pub fn render(&self, source: &Source<'_>, colour: bool) -> String {
        self.render_among(&[(0, *source)], colour)
    }

    /// The same if it is in one of several texts, each of which begins at an offset of all together.
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

/// A span that lies in the text, on characters' borders.
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

/// All mistakes of a file, in the order of their places. Never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Mistakes(pub Vec<Diagnostic>);

impl Mistakes {
    pub(crate) fn sorted(mut found: Vec<Diagnostic>) -> Self {
        if found.iter().any(|diagnostic| !diagnostic.0.consequence) {
            found.retain(|diagnostic| !diagnostic.0.consequence);
        }
        found.sort_by_key(|diagnostic| (diagnostic.0.span.start, diagnostic.0.span.end));
        Mistakes(found)
    }

    /// All of them as they are shown on a terminal.
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
