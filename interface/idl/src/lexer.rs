//! Lexer: splits the text of an interface file into tokens.

use crate::diagnostic::{Diagnostic, Span};

/// Kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    /// Decimal or hexadecimal number, possibly with a minus sign. The parser checks the digits.
    Number,
    /// Path in quotation marks; the token's text includes the quotes.
    Path,
    /// Punctuation mark, one of [`PUNCTUATION`].
    Punctuation,
    /// Documentation comment: `///` to the end of the line.
    Doc,
    /// Other comment: `//` to the end of the line.
    Comment,
    /// End of the file, with empty text.
    End,
}

/// Token with its text and its byte offset in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn span(&self) -> Span {
        self.start..self.start + self.text.len()
    }
}

/// Maximum size of an interface file, in bytes.
pub(crate) const MAX_SOURCE_BYTES: usize = 4 << 20;

const PUNCTUATION: [&str; 18] =
    ["->", "..", "{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":", ".", "=", "?", "@", "|"];

/// Returns all tokens, including comments; the last one is [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Diagnostic> {
    if text.len() > MAX_SOURCE_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_SOURCE_BYTES}", text.len());
        return Err(Diagnostic::new(&(0..0), message, "here").hint("split it into several interfaces"));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = token(&text[at..], first).ok_or_else(|| unknown(first, at))?;
        tokens.push(Token { kind, text: &text[at..at + length], start: at });
        at += length;
    }
    tokens.push(Token { kind: Kind::End, text: "", start: text.len() });
    Ok(tokens)
}

/// Returns the kind and length in bytes of the token at the start of `rest`, whose first character is
/// `first`.
///
/// Returns `None` if no token starts with `first`, or if a path has no closing quotation mark or contains a
/// character that paths may not have.
fn token(rest: &str, first: char) -> Option<(Kind, usize)> {
    let length = |accept: fn(char) -> bool| rest.find(|next| !accept(next)).unwrap_or(rest.len());
    if rest.starts_with("//") {
        let line = rest.find('\n').map_or(rest, |end| &rest[..end]).trim_end();
        let is_doc = line.starts_with("///") && !line.starts_with("////");
        return Some((if is_doc { Kind::Doc } else { Kind::Comment }, line.len()));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        return Some((Kind::Word, length(|next| next.is_ascii_alphanumeric() || next == '_')));
    }
    if first.is_ascii_digit() {
        return Some((Kind::Number, length(|next| next.is_ascii_alphanumeric() || next == '_')));
    }
    if first == '-' && rest[1..].starts_with(|next: char| next.is_ascii_digit()) {
        let digits = rest[1..].find(|next: char| !(next.is_ascii_alphanumeric() || next == '_'));
        return Some((Kind::Number, digits.map_or(rest.len(), |end| end + 1)));
    }
    if first == '"' {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
        let end = rest[1..].find(|letter| !allowed(letter)).filter(|end| rest[1 + end..].starts_with('"'))?;
        return Some((Kind::Path, end + 2));
    }
    let mark = PUNCTUATION.iter().find(|mark| rest.starts_with(**mark))?;
    Some((Kind::Punctuation, mark.len()))
}

fn unknown(character: char, at: usize) -> Diagnostic {
    let hint = match character {
        '"' => "a path consists of ASCII letters, digits and `_ - . /`; there are no other string literals",
        '\'' => "the language has no string literals",
        '#' => "comments start with `//`, documentation comments with `///`",
        '/' => "comments start with `//` and go to the end of the line",
        '*' | '&' => "there are no pointers: use a struct, an optional field or a capability",
        character if character.is_alphabetic() => "names consist of ASCII letters, digits and `_`",
        _ => "remove it",
    };
    let span = at..at + character.len_utf8();
    Diagnostic::new(&span, format!("unexpected character {character:?}"), "not valid here").hint(hint)
}
