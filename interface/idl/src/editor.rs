//! Syntax highlighting grammar for editors. It is generated from the compiler's keywords and types, so that
//! it is always complete.

use crate::check::names::BUILT_IN;
use crate::parser::KEYWORDS;

/// Pattern of the grammar: scope of the whole match, regular expression, and scopes of its capture groups.
struct Pattern {
    scope: &'static str,
    expression: String,
    groups: &'static [&'static str],
}

/// Returns the patterns in the order in which they are tried. The regular expressions use only syntax that
/// all engines support.
fn patterns() -> Vec<Pattern> {
    let of = |scope, expression: &str, groups| Pattern { scope, expression: expression.to_owned(), groups };
    let named = r"(enum|flags|struct|union|interface|type|const|package)\s+([A-Za-z_][A-Za-z0-9_.]*)";
    let message = r"(call|message|event)\s+([A-Za-z_][A-Za-z0-9_]*)";
    vec![
        of("comment.line.double-slash", "////.*", &[]),
        of("comment.line.documentation", "///.*", &[]),
        of("comment.line.double-slash", "//.*", &[]),
        of("string.quoted.double", r#""[A-Za-z0-9_./-]*""#, &[]),
        of("constant.numeric.ordinal", r"@\s*[0-9][0-9A-Za-z_]*", &[]),
        of("", &format!(r"\b{named}"), &["keyword.other", "entity.name.type"]),
        of("", &format!(r"\b{message}\s*(\()"), &["keyword.other", "entity.name.function", "punctuation"]),
        // A field may have a keyword as its name.
        of("", r"\b([a-z_][a-z0-9_]*)\s*(:)", &["variable.parameter", "punctuation"]),
        of("", r"\b([a-z_][a-z0-9_]*)\s*(=)", &["variable.other.enummember", "keyword.operator"]),
        of("keyword.other", &format!(r"\b(?:{}|error)\b", KEYWORDS.join("|")), &[]),
        of("support.type", &format!(r"\b(?:{})\b", BUILT_IN.join("|")), &[]),
        of("constant.other", r"\b[A-Z][A-Z0-9_]+\b", &[]),
        of("entity.name.type", r"\b[A-Z][A-Za-z0-9]*\b", &[]),
        of("variable.other", r"\b[a-z_][a-z0-9_]*\b", &[]),
        of("constant.numeric", r"-?[0-9][0-9A-Za-z_]*", &[]),
        of("punctuation", r"->|\.\.|[{}()\[\]<>,;:.=?@|]", &[]),
    ]
}

/// Returns the grammar in TextMate's format, which VS Code, Sublime Text, JetBrains' editors and GitHub read.
#[must_use]
pub fn text_mate() -> String {
    let mut text = String::from(
        "{\n  \"comment\": \"Written by `cargo xtask codegen` from the compiler's words.\",\n  \"name\": \"Tombolo interface\",\n",
    );
    text.push_str("  \"scopeName\": \"source.tombolo\",\n  \"fileTypes\": [\"tbl\"],\n  \"patterns\": [\n");
    let lines: Vec<String> = patterns().iter().map(|pattern| format!("    {}", pattern.json())).collect();
    text.push_str(&lines.join(",\n"));
    text.push_str("\n  ]\n}\n");
    text
}

impl Pattern {
    fn json(&self) -> String {
        let name = |scope: &str| format!("\"name\": \"{scope}.tombolo\"");
        let mut parts = Vec::new();
        if !self.scope.is_empty() {
            parts.push(name(self.scope));
        }
        let expression = self.expression.replace('\\', "\\\\").replace('"', "\\\"");
        parts.push(format!("\"match\": \"{expression}\""));
        if !self.groups.is_empty() {
            let groups = self.groups.iter().enumerate();
            let groups: Vec<String> =
                groups.map(|(index, scope)| format!("\"{}\": {{ {} }}", index + 1, name(scope))).collect();
            parts.push(format!("\"captures\": {{ {} }}", groups.join(", ")));
        }
        format!("{{ {} }}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use regex::Regex;

    use super::*;
    use crate::lexer::{self, Kind};

    /// Returns the scope of each byte of a line as an editor determines it: the pattern with the earliest
    /// match wins.
    fn scopes(patterns: &[(Regex, Pattern)], line: &str) -> Vec<&'static str> {
        let mut scopes = vec![""; line.len()];
        let mut at = 0;
        while let Some((found, pattern)) = patterns
            .iter()
            .filter_map(|(regex, pattern)| Some((regex.captures_at(line, at)?, pattern)))
            .min_by_key(|(found, _)| found.get(0).map(|whole| whole.start()))
        {
            let whole = found.get(0).unwrap().range();
            scopes[whole.clone()].fill(pattern.scope);
            for (group, scope) in found.iter().skip(1).flatten().zip(pattern.groups) {
                scopes[group.range()].fill(scope);
            }
            at = whole.end;
        }
        scopes
    }

    fn expected(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Doc => &["comment.line.documentation"],
            Kind::Comment => &["comment.line.double-slash"],
            Kind::Path => &["string.quoted.double"],
            Kind::Number => &["constant.numeric"],
            Kind::Punctuation => {
                &["punctuation", "keyword.operator", "constant.numeric.ordinal", "entity.name.type"]
            }
            Kind::Word | Kind::End => {
                &["keyword.", "entity.name.", "variable.", "support.type", "constant.other"]
            }
        }
    }

    #[test]
    fn editors_see_the_tokens_that_the_compiler_sees() {
        let patterns: Vec<(Regex, Pattern)> = patterns()
            .into_iter()
            .map(|pattern| (Regex::new(&pattern.expression).unwrap(), pattern))
            .collect();
        let mut paths = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interfaces")];
        let mut files = 0;
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            let scopes: Vec<&str> =
                text.split_inclusive('\n').flat_map(|line| scopes(&patterns, line)).collect();
            for token in lexer::tokens(&text).unwrap() {
                let seen = &scopes[token.span()];
                let wanted = expected(token.kind);
                let fits = |scope: &&str| wanted.iter().any(|wanted| scope.starts_with(wanted));
                assert!(seen.iter().all(fits), "`{}` is {seen:?}, not {wanted:?}", token.text);
            }
            files += 1;
        }
        assert!(files >= 12);
    }

    #[test]
    fn words_are_highlighted_by_context() {
        let patterns: Vec<(Regex, Pattern)> = patterns()
            .into_iter()
            .map(|pattern| (Regex::new(&pattern.expression).unwrap(), pattern))
            .collect();
        let line = "    @1 idempotent call call(message: u8, copies: [copy region; ..MAX]) -> (a: Entry?) error KvError;";
        let scopes = scopes(&patterns, line);
        let of = |word: &str, nth: usize| scopes[line.match_indices(word).nth(nth).unwrap().0];
        assert_eq!(of("@1", 0), "constant.numeric.ordinal");
        assert_eq!([of("call", 0), of("call", 1)], ["keyword.other", "entity.name.function"]);
        assert_eq!([of("message", 0), of("u8", 0)], ["variable.parameter", "support.type"]);
        assert_eq!([of("copy", 0), of("region", 0)], ["keyword.other", "support.type"]);
        assert_eq!([of("MAX", 0), of("Entry", 0)], ["constant.other", "entity.name.type"]);
        assert_eq!([of("error", 0), of("KvError", 0)], ["keyword.other", "entity.name.type"]);
    }
}
