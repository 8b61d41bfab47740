//! Text form of records and queries.
//!
//! A record is `name { attribute: value, … }`; empty braces may be omitted. Values are integers, floats,
//! `'text'`, bare words (also text), `true`, `false`, and bytes such as `x'00ff'`.
//!
//! In a query the name may be `_` for any name, a glob (`svc/*`) or a regular expression (`r'^svc'`), and
//! attributes may be compared (`age > 9`), matched (`attr: r'^a'`) or only required (`attr: _`).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::name::{is_attribute, is_name};
use crate::records::{Comparison, Constraint, NamePattern, Query, Test, Value};
use crate::value::Attributes;

/// Syntax error in a record or query, with its position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid record or query '{text}' at byte {offset}: {why}")]
pub struct TextError {
    /// Complete text that was parsed.
    pub text: String,
    /// Offset in bytes.
    pub offset: usize,
    /// Description of the error.
    pub why: String,
}

/// Parses the name and attributes of a record.
///
/// # Errors
/// Position and kind of the syntax error.
///
/// ```
/// use tombolo_naming::{Value, parse_record};
/// let (name, attributes) = parse_record("object4 { attr: 'Somestring', weight: 20, fl: 12.0 }")?;
/// assert_eq!((name.as_str(), &attributes["weight"]), ("object4", &Value::Integer(20)));
/// # Ok::<(), tombolo_naming::TextError>(())
/// ```
pub fn parse_record(text: &str) -> Result<(String, Attributes), TextError> {
    let mut parser = Parser { text, offset: 0 };
    let name = match parser.parse_name()? {
        NamePattern::Exact(name) => name,
        _ => return Err(parser.error_at(0, "a record needs a name, not a pattern")),
    };
    let mut attributes = Attributes::new();
    parser.parse_braced(|parser| {
        let start = parser.offset;
        let attribute = parser.parse_attribute()?;
        parser.expect(":")?;
        let value = match parser.parse_operand()? {
            Operand::Value(value) => value,
            _ => return Err(parser.error_at(start, "an attribute of a record needs a value, not a pattern")),
        };
        if attributes.insert(attribute, value).is_some() {
            return Err(parser.error_at(start, "the attribute occurs twice"));
        }
        Ok(())
    })?;
    Ok((name, attributes))
}

/// Parses the text form of a query.
///
/// # Errors
/// Position and kind of the syntax error. Patterns are checked when the query is used.
///
/// ```
/// use tombolo_naming::{Comparison, Query, parse_query};
/// let query = parse_query("r'^obj' { weight >= 10, name: _ }")?;
/// assert_eq!(query, Query::regex("^obj").compare("weight", Comparison::GreaterOrEqual, 10).has("name"));
/// # Ok::<(), tombolo_naming::TextError>(())
/// ```
pub fn parse_query(text: &str) -> Result<Query, TextError> {
    let mut parser = Parser { text, offset: 0 };
    let name = parser.parse_name()?;
    let mut constraints = Vec::new();
    parser.parse_braced(|parser| {
        let attribute = parser.parse_attribute()?;
        let comparison = parser.parse_comparison()?;
        let start = parser.offset;
        let test = match (parser.parse_operand()?, comparison) {
            (Operand::Value(value), comparison) => Test::Compare { comparison, value },
            (Operand::Anything, Comparison::Equal) => Test::Present,
            (Operand::Regex(regex), Comparison::Equal) => Test::Regex(regex),
            _ => return Err(parser.error_at(start, "a pattern needs ':'")),
        };
        constraints.push(Constraint { attribute, test });
        Ok(())
    })?;
    Ok(Query { name, constraints })
}

/// Operand of an attribute.
enum Operand {
    Value(Value),
    Regex(String),
    Anything,
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Parser<'a> {
    fn error_at(&self, offset: usize, why: &str) -> TextError {
        TextError { text: self.text.to_string(), offset, why: why.to_string() }
    }

    fn error(&self, why: &str) -> TextError {
        self.error_at(self.offset, why)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn skip_space(&mut self) {
        self.offset += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, wanted: &str) -> bool {
        let there = self.rest().starts_with(wanted);
        if there {
            self.offset += wanted.len();
            self.skip_space();
        }
        there
    }

    fn expect(&mut self, wanted: &str) -> Result<(), TextError> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(&alloc::format!("expected '{wanted}'"))) }
    }

    /// Reads characters as long as `fits` accepts them.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|character| !fits(character)).unwrap_or(rest.len());
        self.offset += length;
        let word = &rest[..length];
        self.skip_space();
        word
    }

    fn parse_name(&mut self) -> Result<NamePattern, TextError> {
        self.skip_space();
        if self.rest().starts_with("r'") {
            self.offset += 1;
            return Ok(NamePattern::Regex(self.parse_quoted()?));
        }
        let start = self.offset;
        let word = self.take_while(|character| !character.is_whitespace() && character != '{');
        if word == "_" {
            return Ok(NamePattern::Any);
        }
        if word.contains(['*', '?']) {
            return Ok(NamePattern::Glob(word.into()));
        }
        if is_name(word) {
            return Ok(NamePattern::Exact(word.into()));
        }
        let why = "expected a name of 1 to 128 letters, digits, '.', '_', '-', '/' or ':', a glob or r'…'";
        Err(self.error_at(start, why))
    }

    /// Parses comma-separated items in braces, up to the end of the text. Parses nothing if there are no
    /// braces.
    fn parse_braced(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), TextError>,
    ) -> Result<(), TextError> {
        if self.take("{") && !self.take("}") {
            loop {
                item(self)?;
                if !self.take(",") {
                    break;
                }
            }
            self.expect("}")?;
        }
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("expected the end of the text")) }
    }

    fn parse_attribute(&mut self) -> Result<String, TextError> {
        let start = self.offset;
        let word = self.take_while(|character| character.is_alphanumeric() || "._-".contains(character));
        if is_attribute(word) { Ok(word.into()) } else { Err(self.error_at(start, "expected an attribute")) }
    }

    fn parse_comparison(&mut self) -> Result<Comparison, TextError> {
        // Longer operators come first.
        let symbols = [
            (":", Comparison::Equal),
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = symbols.into_iter().find(|(symbol, _)| self.take(symbol));
        found.map(|(_, comparison)| comparison).ok_or_else(|| self.error("expected ':' or a comparison"))
    }

    fn parse_operand(&mut self) -> Result<Operand, TextError> {
        let rest = self.rest();
        if rest.starts_with('\'') {
            return Ok(Operand::Value(Value::Text(self.parse_quoted()?)));
        }
        if rest.starts_with("r'") {
            self.offset += 1;
            return Ok(Operand::Regex(self.parse_quoted()?));
        }
        if rest.starts_with("x'") {
            self.offset += 1;
            return self.parse_bytes().map(|bytes| Operand::Value(Value::Bytes(bytes)));
        }
        let start = self.offset;
        let word = self.take_while(|character| character.is_alphanumeric() || "._-+".contains(character));
        let value = match word {
            "" => return Err(self.error_at(start, "expected a value")),
            "_" => return Ok(Operand::Anything),
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ if word.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) => {
                parse_number(word).ok_or_else(|| self.error_at(start, "invalid or too large number"))?
            }
            _ => Value::Text(word.into()),
        };
        Ok(Operand::Value(value))
    }

    /// Parses quoted text. A backslash escapes a quote or a backslash, and `\n` is a line feed; before any
    /// other character it stands for itself, so that regular expressions need no second layer of escapes.
    fn parse_quoted(&mut self) -> Result<String, TextError> {
        let start = self.offset;
        let mut text = String::new();
        let mut rest = self.rest().char_indices().skip(1).peekable();
        while let Some((index, character)) = rest.next() {
            match character {
                '\'' => {
                    self.offset += index + 1;
                    self.skip_space();
                    return Ok(text);
                }
                '\\' => match rest.peek().map(|(_, next)| *next) {
                    Some(next @ ('\'' | '\\')) => {
                        rest.next();
                        text.push(next);
                    }
                    Some('n') => {
                        rest.next();
                        text.push('\n');
                    }
                    _ => text.push('\\'),
                },
                _ => text.push(character),
            }
        }
        Err(self.error_at(start, "unterminated quote"))
    }

    fn parse_bytes(&mut self) -> Result<Vec<u8>, TextError> {
        let start = self.offset;
        let digits = self.parse_quoted()?;
        let error = || self.error_at(start, "bytes must be pairs of hexadecimal digits");
        if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(error());
        }
        (0..digits.len() / 2)
            .map(|index| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| error()))
            .collect()
    }
}

fn parse_number(word: &str) -> Option<Value> {
    if let Ok(integer) = word.parse::<i64>() {
        return Some(Value::Integer(integer));
    }
    let float = word.parse::<f64>().ok().filter(|float| float.is_finite())?;
    // An integer that does not fit is not silently converted to a float.
    word.contains(['.', 'e', 'E']).then(|| Value::from(float))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    #[test]
    fn records_are_parsed() {
        let (name, attributes) =
            parse_record("a/b:c { i: -3, f: 1.5e3, t: 'it\\'s', w: word, b: true, x: x'00Ff' }").unwrap();
        assert_eq!(name, "a/b:c");
        let expected = [
            ("b", Value::from(true)),
            ("f", Value::from(1500.0)),
            ("i", Value::from(-3)),
            ("t", Value::from("it's")),
            ("w", Value::from("word")),
            ("x", Value::from(&[0_u8, 255][..])),
        ];
        assert_eq!(attributes, expected.into_iter().map(|(name, value)| (name.to_string(), value)).collect());
        for text in ["record", "record {}", " record { } "] {
            assert_eq!(parse_record(text), Ok(("record".into(), Attributes::new())), "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_a_position() {
        let records = [
            ("", 0),
            ("q{weqw1,.", 7),
            ("}+_df}", 0),
            ("parser { error, m, }", 14),
            ("r'obj.$' { attr: 12 }", 0),
            ("a* { b: 1 }", 0),
            ("a { b: _ }", 4),
            ("a { b > 1 }", 6),
            ("a { b: 'x }", 7),
            ("a { b: x'0' }", 8),
            ("a { b: 99999999999999999999 }", 7),
            ("a { b: 1, b: 2 }", 10),
            ("a { b: 1 } c", 11),
            ("a { b: 1e999 }", 7),
            ("a { b: x'é' }", 8),
            ("111 [] attr: 10 }", 4),
        ];
        for (text, offset) in records {
            assert_eq!(parse_record(text).map_err(|error| error.offset), Err(offset), "{text}");
        }
        for (text, offset) in
            [("a { b > _ }", 8), ("a { b != r'x' }", 9), ("a { b ~ 1 }", 6), ("a b", 2), ("a { b: }", 7)]
        {
            assert_eq!(parse_query(text).map_err(|error| error.offset), Err(offset), "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<Vec<u8>>().prop_map(Value::from),
        ]
    }

    proptest! {
        #[test]
        fn printed_records_parse_to_the_same(
            name in "[a-z0-9./:_-]{1,8}",
            attributes in proptest::collection::btree_map("[a-z][a-z0-9._-]{0,8}", value(), 0..6),
        ) {
            prop_assume!(name != "_");
            let record = crate::Record { name, attributes, version: 1, owner: None, endpoint: false };
            let text = format!("{record}");
            prop_assert_eq!(parse_record(&text), Ok((record.name, record.attributes)), "{}", text);
        }

        #[test]
        fn printed_queries_parse_to_the_same(
            glob in "[a-z]{0,3}[*?][a-z]{0,3}",
            value in value(),
            regex in any::<String>(),
            which in 0_usize..6,
        ) {
            let comparison = Comparison::ALL[which];
            let query = Query::glob(&glob).compare("a", comparison, value).matching("b", &regex).has("c");
            let text = format!("{query}");
            prop_assert_eq!(parse_query(&text), Ok(query), "{}", text);
        }

        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            let _ = parse_record(&text);
            let _ = parse_query(&text);
        }
    }
}
