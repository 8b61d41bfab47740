//! Rust source split into code, comments and literals, so that a rule sees only what it applies to.

/// Source file split into code, comments and literals, all with the line structure of the original.
pub(crate) struct Source {
    /// Code, with comments and the contents of literals blanked.
    pub(crate) code: Vec<String>,
    /// Comments, with everything else blanked.
    pub(crate) comments: Vec<String>,
    /// String and character literals with their quotes, with everything else blanked.
    pub(crate) literals: Vec<String>,
}

/// State of the scanner.
enum ScanState {
    Code,
    LineComment,
    /// Block comment, with its nesting depth.
    BlockComment(usize),
    Text,
    /// Raw string, with the number of `#` that close it.
    RawText(usize),
}

impl Source {
    /// Splits `text`. Source that does not compile is split on a best-effort basis.
    pub(crate) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut code = String::with_capacity(text.len());
        let mut comments = String::with_capacity(text.len());
        let mut literals = String::with_capacity(text.len());
        let mut state = ScanState::Code;
        let mut at = 0;
        while at < characters.len() {
            let rest = &characters[at..];
            let (next, taken, kind) = step(state, rest, preceded_by_word(&characters, at));
            for &character in &rest[..taken] {
                code.push(if kind == SpanKind::Code || character == '\n' { character } else { ' ' });
                comments.push(if kind == SpanKind::Comment || character == '\n' { character } else { ' ' });
                literals.push(if kind == SpanKind::Literal || character == '\n' { character } else { ' ' });
            }
            state = next;
            at += taken;
        }
        Self { code: lines(&code), comments: lines(&comments), literals: lines(&literals) }
    }

    /// Returns the numbers (from 1) of the lines whose code contains `word` as a whole word.
    pub(crate) fn lines_with_word(&self, word: &str) -> Vec<usize> {
        let has = |line: &String| find_word(line, word).is_some();
        self.code.iter().enumerate().filter(|(_, line)| has(line)).map(|(index, _)| index + 1).collect()
    }
}

/// Kind of a run of characters.
#[derive(PartialEq, Eq)]
enum SpanKind {
    Code,
    Comment,
    Literal,
}

/// Consumes at least one character of `rest`, which is not empty. Returns the next state, the number of
/// characters and their kind.
fn step(state: ScanState, rest: &[char], in_word: bool) -> (ScanState, usize, SpanKind) {
    let begins = |pattern: &str| {
        let mut shown = rest.iter();
        pattern.chars().all(|wanted| shown.next() == Some(&wanted))
    };
    match state {
        ScanState::Code if begins("//") => (ScanState::LineComment, 2, SpanKind::Comment),
        ScanState::Code if begins("/*") => (ScanState::BlockComment(1), 2, SpanKind::Comment),
        ScanState::Code if begins("\"") => (ScanState::Text, 1, SpanKind::Literal),
        ScanState::Code if !in_word && raw_text_hashes(rest).is_some() => {
            let (prefix, hashes) = raw_text_hashes(rest).unwrap_or((0, 0));
            (ScanState::RawText(hashes), prefix, SpanKind::Literal)
        }
        ScanState::Code => match character_literal(rest) {
            Some(length) => (ScanState::Code, length, SpanKind::Literal),
            None => (ScanState::Code, 1, SpanKind::Code),
        },
        ScanState::LineComment if begins("\n") => (ScanState::Code, 1, SpanKind::Code),
        ScanState::LineComment => (ScanState::LineComment, 1, SpanKind::Comment),
        ScanState::BlockComment(depth) if begins("/*") => {
            (ScanState::BlockComment(depth + 1), 2, SpanKind::Comment)
        }
        ScanState::BlockComment(depth) if begins("*/") => (
            if depth == 1 { ScanState::Code } else { ScanState::BlockComment(depth - 1) },
            2,
            SpanKind::Comment,
        ),
        ScanState::BlockComment(depth) => (ScanState::BlockComment(depth), 1, SpanKind::Comment),
        ScanState::Text if begins("\\") => (ScanState::Text, rest.len().min(2), SpanKind::Literal),
        ScanState::Text if begins("\"") => (ScanState::Code, 1, SpanKind::Literal),
        ScanState::Text => (ScanState::Text, 1, SpanKind::Literal),
        ScanState::RawText(hashes) => {
            let closes = rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#');
            if closes {
                (ScanState::Code, 1 + hashes, SpanKind::Literal)
            } else {
                (ScanState::RawText(hashes), 1, SpanKind::Literal)
            }
        }
    }
}

/// Returns the length of an opening such as `r##"` or `br"`, and its number of `#`.
fn raw_text_hashes(rest: &[char]) -> Option<(usize, usize)> {
    let letters = if matches!(rest[0], 'b' | 'c') { 1 } else { 0 };
    if rest.get(letters) != Some(&'r') {
        return None;
    }
    let hashes = rest[letters + 1..].iter().take_while(|character| **character == '#').count();
    let prefix = letters + 1 + hashes;
    (rest.get(prefix) == Some(&'"')).then_some((prefix + 1, hashes))
}

/// Returns the length of a character literal such as `'x'` or `'\n'`; `None` for a lifetime.
fn character_literal(rest: &[char]) -> Option<usize> {
    if rest[0] != '\'' {
        return None;
    }
    if rest.get(1) == Some(&'\\') {
        let closing = rest.iter().skip(3).take(12).position(|character| *character == '\'')?;
        return Some(closing + 4);
    }
    (rest.get(2) == Some(&'\'')).then_some(3)
}

fn preceded_by_word(characters: &[char], at: usize) -> bool {
    at > 0 && is_word(characters[at - 1])
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

/// Returns the position of `word` in `line` with no letter, digit or `_` on either side.
pub(crate) fn find_word(line: &str, word: &str) -> Option<usize> {
    line.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(text).code.join("\n")
    }

    /// Returns the code with runs of blanks collapsed; asserts that its length matches the original.
    fn squeezed(text: &str) -> String {
        let code = code(text);
        assert_eq!(code.chars().count(), text.chars().count());
        code.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_blank_and_code_is_kept() {
        assert_eq!(squeezed("a // unsafe\nb"), "a \nb");
        assert_eq!(squeezed("a /* x /* y */ z */ b"), "a b");
        assert_eq!(squeezed(r#"f("unsafe \" unsafe") + g"#), "f( ) + g");
        assert_eq!(squeezed("r#\"a \" unsafe\"# + b"), "+ b");
        assert_eq!(squeezed("br\"unsafe\";x"), ";x");
    }

    #[test]
    fn lifetimes_are_code_and_character_literals_are_not() {
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(code("'\"' + '\\'' + '\\u{41}' + x"), "    +      +          + x");
    }

    #[test]
    fn comments_keep_their_lines() {
        let source = Source::new("let a = 1; // one\n/* two\nthree */ b\n");
        assert_eq!(source.comments[0].trim(), "// one");
        assert_eq!(source.comments[1].trim(), "/* two");
        assert_eq!(source.comments[2].trim(), "three */");
        assert_eq!(source.code[2].trim(), "b");
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(Source::new("unsafe_code\nan unsafe {\n\"unsafe\"").lines_with_word("unsafe"), [2]);
    }
}
