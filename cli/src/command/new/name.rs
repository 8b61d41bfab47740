//! Validation of project names.

/// Maximum length: that of file names, with room for `.tbi` and suffixes of tools.
const MAX_BYTES: usize = 64;

/// Keywords that cannot be names of Rust programs.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Names of libraries that the program is linked with, and of folders that cargo creates.
const TAKEN: &[&str] = &[
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "incremental",
    "proc_macro",
    "proc-macro",
    "std",
    "test",
    "tombolo",
    "tombolo-idl",
    "tombolo_idl",
];

/// Returns the name if it is valid for a project in any language.
pub(super) fn validate(name: &str) -> Result<String, String> {
    if name.contains('/') || name == "." || name == ".." {
        return Err(
            "it is a path: change to the folder where the project is to be, and give a name".to_owned()
        );
    }
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_good) {
        return Err(
            "a name begins with a letter, and has letters, digits, `-` and `_` of ASCII alone".to_owned()
        );
    }
    if name.len() > MAX_BYTES {
        return Err(format!("a name has {MAX_BYTES} characters at most, and this one {}", name.len()));
    }
    if KEYWORDS.contains(&name) {
        return Err("it is a keyword of Rust".to_owned());
    }
    if TAKEN.contains(&name) {
        return Err(
            "a library that the program is built with, or a folder of cargo, has that name".to_owned()
        );
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_accepts() {
        for name in ["hello", "x", "Hello", "ping-pong", "ping_pong2", &"n".repeat(MAX_BYTES)] {
            assert_eq!(validate(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn other_names_are_refused_with_the_reason() {
        let refused = |name: &str| validate(name).expect_err(name);
        for path in ["a/b", "/tmp/a", ".", "..", "a/", "../a"] {
            assert!(refused(path).contains("path"), "{path}");
        }
        for name in ["", "2d", "-x", "_x", "a b", "größe", "a.b", "a\n", "a$"] {
            assert!(refused(name).contains("begins with a letter"), "{name}");
        }
        assert!(refused(&"n".repeat(MAX_BYTES + 1)).contains("65"));
        assert!(refused("match").contains("keyword"));
        for name in ["tombolo", "test", "core", "build"] {
            assert!(refused(name).contains("has that name"), "{name}");
        }
    }
}
