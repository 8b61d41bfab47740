//! Naming rules, and the diagnostics for names that break them.

use std::collections::BTreeMap;

use crate::ast::Name;
use crate::diagnostic::{Diagnostic, Span};
use crate::model::Int;
use crate::suggest;

const MAX_NAME_BYTES: usize = 64;

/// Names of the built-in types.
pub(crate) const BUILT_IN: [&str; 18] = [
    "bool",
    "u8",
    "u16",
    "u32",
    "u64",
    "i8",
    "i16",
    "i32",
    "i64",
    "f32",
    "f64",
    "string",
    "bytes",
    "domain",
    "endpoint",
    "region",
    "capability",
    "buffer",
];

/// Set of names that must differ from each other.
#[derive(Default)]
pub(super) struct Distinct<'a> {
    seen: BTreeMap<&'a str, &'a Span>,
}

impl<'a> Distinct<'a> {
    pub(super) fn add(&mut self, name: &'a Name, what: &str) -> Result<(), Diagnostic> {
        check_lower_case(name, what)?;
        match self.seen.insert(&name.text, &name.span) {
            None => Ok(()),
            Some(first) => Err(Diagnostic::new(
                &name.span,
                format!("there are two {what}s `{}`", name.text),
                "the second one",
            )
            .related(first, "the first one")
            .hint("rename one of them")),
        }
    }
}

/// Checks the name of a declaration: `UPPER_CASE` for constants, `CamelCase` for types and interfaces.
pub(super) fn check_declaration_name(name: &Name, constant: bool) -> Result<(), Diagnostic> {
    check_length(name)?;
    if BUILT_IN.contains(&&*name.text) {
        let message = format!("`{}` is built in", name.text);
        return Err(Diagnostic::new(&name.span, message, "reserved").hint("choose another name"));
    }
    let text = &name.text;
    if constant {
        let allowed = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        if text.starts_with(|first: char| first.is_ascii_uppercase()) && text.chars().all(allowed) {
            return Ok(());
        }
        return Err(case_error(name, "a constant", "UPPER_CASE", &text.to_ascii_uppercase()));
    }
    if text.starts_with(|first: char| first.is_ascii_uppercase()) && !text.contains('_') {
        return Ok(());
    }
    Err(case_error(name, "a type", "CamelCase", &camel(text)))
}

/// Checks the name of a field, parameter, value or message: `lower_case`.
pub(super) fn check_lower_case(name: &Name, what: &str) -> Result<(), Diagnostic> {
    check_length(name)?;
    let text = &name.text;
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let tidy = !text.ends_with('_') && !text.contains("__");
    if text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(allowed) && tidy {
        return Ok(());
    }
    Err(case_error(name, &format!("a {what}"), "lower_case", &snake(text)))
}

fn check_length(name: &Name) -> Result<(), Diagnostic> {
    if name.text.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let message = format!("a name of {} letters", name.text.len());
    Err(Diagnostic::new(&name.span, message, "too long").hint(format!("at most {MAX_NAME_BYTES} letters")))
}

fn case_error(name: &Name, what: &str, case: &str, better: &str) -> Diagnostic {
    let message = format!("the name of {what} is written in {case}");
    Diagnostic::new(&name.span, message, "wrong case")
        .hint(format!("call it `{better}`: back ends adapt names to the style of their languages"))
}

/// Converts `two_words` to `TwoWords`.
pub(crate) fn camel(text: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    text.split('_').map(word).collect()
}

/// Converts `TwoWords` to `two_words`.
pub(crate) fn snake(text: &str) -> String {
    let mut snake = String::new();
    let mut previous_lower = false;
    for letter in text.chars() {
        if letter.is_ascii_uppercase() && previous_lower {
            snake.push('_');
        }
        previous_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if letter != '_' || (!snake.is_empty() && !snake.ends_with('_')) {
            snake.push(letter.to_ascii_lowercase());
        }
    }
    snake.trim_end_matches('_').to_owned()
}

/// Returns the integer type `name` that stores an enum or flags. Flags must be unsigned.
pub(super) fn parse_repr(name: &Name, flags: bool) -> Result<Int, Diagnostic> {
    let int = Int::named(&name.text).filter(|int| !(flags && int.signed));
    int.ok_or_else(|| {
        let (what, allowed) = if flags {
            ("flags", "u8, u16, u32 or u64")
        } else {
            ("an enum", "u8, u16, u32, u64, i8, i16, i32 or i64")
        };
        Diagnostic::new(&name.span, format!("{what} cannot be stored as `{}`", name.text), "not possible")
            .hint(format!("use {allowed}"))
    })
}

pub(super) fn empty_error(name: &Name, what: &str, example: &str) -> Diagnostic {
    Diagnostic::new(&name.span, format!("`{}` has no {what}s", name.text), format!("needs a {what}"))
        .hint(format!("add one, such as `{example}`"))
}

pub(super) fn unknown_type_error<'a>(name: &Name, declared: impl Iterator<Item = &'a str>) -> Diagnostic {
    let mistake = Diagnostic::new(&name.span, format!("there is no type `{}`", name.text), "not declared");
    let hint = match &*name.text {
        "int" | "uint" | "long" | "short" | "size" | "usize" | "isize" => {
            "integers have a fixed width: u8, u16, u32, u64, i8, i16, i32 or i64".to_owned()
        }
        "float" | "double" => "floats have a fixed width: f32 or f64".to_owned(),
        "String" | "str" | "text" => "text has a maximum length: `string<64>`".to_owned(),
        "char" => "use u8 for a byte and u32 for a Unicode scalar".to_owned(),
        "list" | "vec" | "array" => "arrays are `[T; 4]`, lists `[T; ..4]`".to_owned(),
        other => suggest::hint(other, declared.chain(BUILT_IN))
            .unwrap_or_else(|| format!("declare it, such as `struct {} {{ @1 id: u64 }}`", camel(other))),
    };
    mistake.hint(hint)
}
