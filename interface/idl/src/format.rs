//! Formatter of interface files.

use crate::diagnostic::Mistakes;
use crate::lexer::{self, Kind, Token};
use crate::parser;

/// Maximum width of a line; a longer one is folded, if it has a parameter list.
const WIDTH: usize = 100;

/// Returns the formatted text. Keeps comments, and up to one empty line between items.
///
/// # Errors
/// The mistakes of a text that cannot be parsed.
pub fn format(text: &str) -> Result<String, Mistakes> {
    parser::parse(text).map_err(Mistakes::sorted)?;
    let tokens = lexer::tokens(text).map_err(|mistake| Mistakes(vec![mistake]))?;
    let mut printer =
        Printer { text, lines: vec![Line::default()], depth: 0, parentheses: 0, documented: false };
    let mut previous: Option<Token<'_>> = None;
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::End) {
        if token.text == "(" {
            let list = tokens[index..].iter().take_while(|inside| inside.text != ")");
            printer.documented =
                list.into_iter().any(|inside| matches!(inside.kind, Kind::Comment | Kind::Doc));
        }
        printer.token(*token, previous);
        previous = Some(*token);
    }
    Ok(printer.finish())
}

#[derive(Default)]
struct Line {
    depth: usize,
    text: String,
    /// Whether an empty line precedes it.
    apart: bool,
}

struct Printer<'a> {
    text: &'a str,
    lines: Vec<Line>,
    depth: usize,
    parentheses: usize,
    /// Whether the current parameter list contains comments, so that each parameter gets its own line.
    documented: bool,
}

impl Printer<'_> {
    fn token(&mut self, token: Token<'_>, previous: Option<Token<'_>>) {
        let gap = previous.map_or("", |previous| &self.text[previous.span().end..token.start]);
        let breaks = gap.matches('\n').count();
        let comment = matches!(token.kind, Kind::Comment | Kind::Doc);
        let ends_list = token.text == ")" && self.documented;
        let closes = (token.text == "}" || ends_list) && token.kind == Kind::Punctuation;
        if closes {
            self.depth = self.depth.saturating_sub(1);
            self.end_item();
            if previous.is_some_and(|previous| previous.text != "{") {
                self.new_line();
            }
        } else if previous.is_some_and(|previous| self.ends_line(previous, comment, breaks)) {
            self.new_line();
            let opened = previous.is_some_and(|previous| ["{", "("].contains(&previous.text));
            self.last().apart = breaks > 1 && !opened;
        }
        if comment && breaks > 0 && !self.last().text.is_empty() {
            self.new_line();
        }
        if !self.last().text.is_empty() && needs_space(previous, token) {
            self.last().text.push(' ');
        }
        self.last().text.push_str(token.text);
        match token.text {
            "{" => self.depth += 1,
            "(" => {
                self.parentheses += 1;
                self.depth += usize::from(self.documented);
            }
            ")" => {
                self.parentheses = self.parentheses.saturating_sub(1);
                self.documented = false;
            }
            _ => {}
        }
    }

    /// Returns whether a line ends after `token`. `comment`: whether the next token is a comment; `breaks`:
    /// number of line breaks before it.
    fn ends_line(&self, token: Token<'_>, comment: bool, breaks: usize) -> bool {
        if comment && breaks == 0 {
            // A comment on the same line belongs to the token before it.
            return false;
        }
        match token.kind {
            Kind::Comment | Kind::Doc => true,
            Kind::Punctuation => {
                let list = self.documented && self.parentheses > 0;
                let item = token.text == "," && (self.parentheses == 0 || list);
                let statement = token.text == ";" && !self.in_brackets();
                item || statement || token.text == "{" || token.text == "}" || token.text == "(" && list
            }
            _ => false,
        }
    }

    /// Returns whether the `;` just written is inside brackets, as in `[T; N]`.
    fn in_brackets(&self) -> bool {
        let line = &self.lines[self.lines.len() - 1].text;
        line.matches('[').count() > line.matches(']').count()
    }

    /// Adds the trailing comma to the last item of a block or list.
    fn end_item(&mut self) {
        let last = self.lines.iter_mut().rev().find(|line| !line.text.starts_with("//"));
        let Some(line) = last else { return };
        let (code, comment) = match line.text.find("//") {
            Some(at) => line.text.split_at(at),
            None => (&*line.text, ""),
        };
        let code = code.trim_end();
        if !code.is_empty() && !code.ends_with([',', ';', '{', '}']) {
            let gap = if comment.is_empty() { "" } else { " " };
            line.text = format!("{code},{gap}{comment}");
        }
    }

    fn new_line(&mut self) {
        self.lines.push(Line { depth: self.depth, ..Line::default() });
    }

    fn last(&mut self) -> &mut Line {
        if self.lines.is_empty() {
            self.new_line();
        }
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for line in self.lines {
            let margin = " ".repeat(4 * line.depth);
            if line.apart && !text.is_empty() {
                text.push('\n');
            }
            for part in wrap_line(&line.text, WIDTH.saturating_sub(margin.len())) {
                text.push_str(&margin);
                text.push_str(part.trim_end());
                text.push('\n');
            }
        }
        text
    }
}

/// Returns whether a space separates two tokens of a line.
fn needs_space(previous: Option<Token<'_>>, token: Token<'_>) -> bool {
    let Some(previous) = previous else { return false };
    if matches!(token.kind, Kind::Comment | Kind::Doc) || token.text == "{" || token.text == "->" {
        return true;
    }
    if [",", ";", ")", "]", ">", "?", ".", "<"].contains(&token.text)
        || (token.text == "}" && previous.text == "{")
    {
        return false;
    }
    if ["(", "[", "<", "@", ".", ".."].contains(&previous.text) {
        return false;
    }
    match token.text {
        "(" => previous.text == "->",
        // `enum Colour : u8`, but `name: u8`.
        ":" => previous.text.starts_with(|first: char| first.is_ascii_uppercase()),
        _ => true,
    }
}

/// Splits a line longer than `width`, with each parameter on its own line. Leaves other lines, and lines with
/// comments, as they are.
fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let has_list = line.contains('(') && !line.starts_with("//") && !line.contains("//");
    if line.len() <= width || !has_list {
        return vec![line.to_owned()];
    }
    let mut parts = vec![String::new()];
    let mut inside = false;
    for (index, letter) in line.char_indices() {
        let last = parts.len() - 1;
        let next = &line[index + letter.len_utf8()..];
        match letter {
            '(' if !next.starts_with(')') => {
                inside = true;
                parts[last].push('(');
                parts.push("    ".to_owned());
            }
            ')' if inside => {
                inside = false;
                if !parts[last].trim_end().ends_with(',') {
                    parts[last].push(',');
                }
                parts.push(")".to_owned());
            }
            ',' if inside => {
                parts[last].push(',');
                if !next.trim_start().starts_with(')') {
                    parts.push("    ".to_owned());
                }
            }
            ' ' if parts[last].trim().is_empty() && inside => {}
            letter => parts[last].push(letter),
        }
    }
    parts
}
