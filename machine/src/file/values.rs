//! Single values of a machine file, checked for type and range.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Problem;
use crate::suggest;

pub(super) type Value<'i> = Spanned<DeValue<'i>>;

/// Maximum length of `cpu` and `emulator`.
const MAX_TEXT_BYTES: usize = 255;

/// Maximum length of a folder's path.
const MAX_PATH_BYTES: usize = 4000;

/// Collects problems while values are read; a value with a problem reads as `None`.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
}

/// A text value with its location.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

/// Formats a list as `a`, `b` and `c`, in backquotes.
pub(super) fn quoted_list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((only, _)) => only.clone(),
        None => "nothing".to_owned(),
    }
}

impl Reader {
    pub(super) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Returns the value of `key`, if the table has it.
    pub(super) fn value<'t, 'i>(&self, table: &'t DeTable<'i>, key: &str) -> Option<&'t Value<'i>> {
        table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Reports every key of `table` that is not in `allowed`.
    pub(super) fn refuse_unknown_keys(&mut self, table: &DeTable<'_>, allowed: &[&str], what: &str) {
        for (key, _) in table.iter() {
            if !allowed.contains(&key.get_ref().as_ref()) {
                self.unknown_key(key.span(), key.get_ref(), allowed, what);
            }
        }
    }

    pub(super) fn unknown_key(&mut self, span: Range<usize>, key: &str, allowed: &[&str], what: &str) {
        let label = match suggest::nearest(key, allowed.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => String::new(),
        };
        self.report(
            Problem::new(span, format!("unknown key `{}` in {what}", key.escape_debug()))
                .label(label)
                .note(format!("{what} may have: {}", allowed.join(", "))),
        );
    }

    /// Reports that `table`, whose header is at `header`, lacks `key`.
    pub(super) fn missing(&mut self, header: Range<usize>, key: &str, what: &str, note: &str) {
        self.report(
            Problem::new(header, format!("{what} has no `{key}`"))
                .label(format!("`{key}` is missing here"))
                .note(note),
        );
    }

    /// Reads a text value.
    pub(super) fn text(&mut self, key: &str, value: &Value<'_>, note: &str) -> Option<Text> {
        match value.get_ref() {
            DeValue::String(text) => Some(Text { text: text.to_string(), span: value.span() }),
            other => {
                let mut problem = Problem::new(
                    value.span(),
                    format!("`{key}` must be a string, not {}", with_article(other.type_str())),
                );
                if matches!(other, DeValue::Integer(_) | DeValue::Boolean(_)) {
                    problem = problem.label("put it in quotes");
                }
                self.report(problem.note(note));
                None
            }
        }
    }

    /// Reads a text that is passed to a program unchanged: not empty, of bounded length, no control
    /// characters.
    pub(super) fn argument(&mut self, key: &str, value: &Value<'_>, note: &str) -> Option<String> {
        let text = self.text(key, value, note)?;
        let fits = !text.text.is_empty() && text.text.len() <= MAX_TEXT_BYTES;
        if fits && !text.text.contains(char::is_control) && !text.text.starts_with('-') {
            return Some(text.text);
        }
        self.report(
            Problem::new(text.span, format!("`{key}` is not usable"))
                .label(format!(
                    "must be 1 to {MAX_TEXT_BYTES} bytes, without control characters, not starting with `-`"
                ))
                .note(note),
        );
        None
    }

    /// Reads a path: not empty, of a length that the system accepts, no control characters.
    pub(super) fn path(&mut self, key: &str, value: &Value<'_>, note: &str) -> Option<String> {
        let text = self.text(key, value, note)?;
        if (1..=MAX_PATH_BYTES).contains(&text.text.len()) && !text.text.contains(char::is_control) {
            return Some(text.text);
        }
        let label = format!("must be 1 to {MAX_PATH_BYTES} bytes, without control characters");
        self.report(
            Problem::new(text.span, format!("a path in `{key}` is not usable")).label(label).note(note),
        );
        None
    }

    /// Reads a name of a machine or a node.
    pub(super) fn name(&mut self, value: &Value<'_>, what: &str) -> Option<Text> {
        const NOTE: &str = "a name is 1 to 32 characters of a-z, 0-9 and `-`, not starting with `-`";
        let text = self.text("name", value, NOTE)?;
        let name = text.text.as_str();
        let wrong = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-'));
        let label = match wrong {
            _ if name.is_empty() => "a name cannot be empty".to_owned(),
            Some(c) if c.is_ascii_uppercase() => format!("write it as \"{}\"", name.to_lowercase()),
            Some(c) => format!("{c:?} cannot be in a name"),
            None if name.len() > 32 => format!("{} characters are too many", name.len()),
            None if name.starts_with('-') => "a name cannot start with `-`".to_owned(),
            None => return Some(text),
        };
        self.report(
            Problem::new(text.span, format!("this cannot be the name of {what}")).label(label).note(NOTE),
        );
        None
    }

    /// Reads an integer from `low` to `high`.
    pub(super) fn number(
        &mut self,
        key: &str,
        value: &Value<'_>,
        (low, high): (u32, u32),
        meaning: &str,
    ) -> Option<u32> {
        let note = format!("{key}: {meaning}; {low} to {high}");
        let DeValue::Integer(digits) = value.get_ref() else {
            self.report(not_a_number(key, value).note(note));
            return None;
        };
        let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok();
        let fitting =
            number.and_then(|number| u32::try_from(number).ok()).filter(|n| (low..=high).contains(n));
        if fitting.is_none() {
            let label = match number {
                Some(number) if number < i128::from(low) => format!("too small: at least {low}"),
                _ => format!("too large: at most {high}"),
            };
            self.report(
                Problem::new(value.span(), format!("`{key}` is out of range")).label(label).note(note),
            );
        }
        fitting
    }
}

fn not_a_number(key: &str, value: &Value<'_>) -> Problem {
    let found = with_article(value.get_ref().type_str());
    let problem = Problem::new(value.span(), format!("`{key}` must be an integer, not {found}"));
    match value.get_ref() {
        DeValue::String(text) if text.trim().parse::<u32>().is_ok() => {
            problem.label(format!("write {} without quotes", text.trim()))
        }
        _ => problem,
    }
}

pub(super) fn with_article(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {type_name}")
}
