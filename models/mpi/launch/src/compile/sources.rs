//! Inspection of sources before compilation: their hash, and constructs that differ between processors.

use sha2::{Digest, Sha256};

/// Hexadecimal hash of a source and of its `-D` and `-U` options.
pub(super) fn hash<'a>(source: &[u8], definitions: impl Iterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for definition in definitions {
        hash.update((definition.len() as u64).to_le_bytes());
        hash.update(definition);
    }
    hash.update(source);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// First line, counted from 1, that uses `long double` or MPI's names for it: it has 80 bits on x86-64 and
/// 128 on Arm, and MPICH does not convert. Ignores comments, string literals and included headers.
pub(super) fn long_double(source: &[u8]) -> Option<usize> {
    let text = blank_out(&String::from_utf8_lossy(source));
    let names = ["MPI_LONG_DOUBLE", "MPI_LONG_DOUBLE_INT", "MPI_C_LONG_DOUBLE_COMPLEX"];
    let mut after_long = false;
    for (number, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        for word in words {
            if names.contains(&word) || (after_long && word == "double") {
                return Some(number + 1);
            }
            after_long = word == "long";
        }
    }
    None
}

/// Replaces comments and literals by spaces, keeping line numbers.
fn blank_out(source: &str) -> String {
    #[derive(Clone, Copy, PartialEq)]
    enum LexState {
        Code,
        Line,
        Block,
        Quotes(char),
    }
    let mut state = LexState::Code;
    let mut blanked = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        let (length, next_state) = match (state, c, next) {
            (LexState::Code, '/', Some('/')) => (2, LexState::Line),
            (LexState::Code, '/', Some('*')) => (2, LexState::Block),
            (LexState::Code, '"' | '\'', _) => (1, LexState::Quotes(c)),
            (LexState::Line, '\n', _) => (1, LexState::Code),
            (LexState::Block, '*', Some('/')) => (2, LexState::Code),
            (LexState::Quotes(_), '\\', Some(_)) => (2, state),
            // A line end closes it: assembler text may have a lone apostrophe.
            (LexState::Quotes(quote), c, _) if c == quote || c == '\n' => (1, LexState::Code),
            _ => (1, state),
        };
        let second = if length == 2 { rest.next() } else { None };
        for c in [Some(c), second].into_iter().flatten() {
            blanked.push(if c == '\n' || (state == LexState::Code && next_state == LexState::Code) {
                c
            } else {
                ' '
            });
        }
        state = next_state;
    }
    blanked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_double_is_found_in_code_alone() {
        assert_eq!(long_double(b"int main(void)\n{\n    long\n double x;"), Some(4));
        assert_eq!(long_double(b"MPI_Send(p, 1, MPI_LONG_DOUBLE, 0, 0, c);"), Some(1));
        for other in [
            "long x; double y;",
            "/* long double */ int x;",
            "// long double\nint x;",
            "char *s = \"long double\"; char c = '\"'; int x;",
            "char *s = \"\\\"long double\"; int x;",
            "#error don't use it\nint x; /* long\n double */",
            "long_double x; MPI_LONG_DOUBLES y;",
        ] {
            assert_eq!(long_double(other.as_bytes()), None, "{other}");
        }
        assert_eq!(long_double(b"char c = '\"';\nlong /* very */ double y;"), Some(2));
    }

    #[test]
    fn hash_covers_source_and_definitions() {
        let one = hash(b"x", ["-DA", "-DB"].into_iter());
        assert_eq!(one.len(), 64);
        assert_ne!(one, hash(b"x", ["-DA-DB"].into_iter()));
        assert_ne!(one, hash(b"y", ["-DA", "-DB"].into_iter()));
        assert_eq!(one, hash(b"x", ["-DA", "-DB"].into_iter()));
    }
}
