//! Rule for the length of files.

use super::{Finding, Tree};

/// Rule: no file is longer than the limit or its exception, and exceptions only shrink.
pub(super) fn lines(tree: &Tree) -> Vec<Finding> {
    let limits = &tree.layers.lines;
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_written_by_hand(&file.path)) {
        let count = file.text.lines().count();
        match limits.exceptions.get(&file.path) {
            None if count > limits.max => findings.push(Finding::new(
                &file.path,
                0,
                format!("has {count} lines, more than {}; find the seam and split it", limits.max),
            )),
            Some(&exception) if count != exception => findings.push(Finding::new(
                &file.path,
                0,
                format!("has {count} lines, but layers.toml says {exception}; it only ever goes down"),
            )),
            _ => {}
        }
    }
    for path in limits.exceptions.keys().filter(|path| tree.file(path).is_none()) {
        findings.push(Finding::new(
            "layers.toml",
            0,
            format!("lines.exceptions names {path}, which is gone"),
        ));
    }
    findings
}

fn is_written_by_hand(path: &str) -> bool {
    let code =
        [".rs", ".sh", ".py", ".c", ".h", ".go", ".toml", ".md"].iter().any(|ending| path.ends_with(ending));
    (code || path.ends_with("Makefile")) && !crate::codegen::is_generated(path)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    #[test]
    fn a_long_file_is_refused() {
        let tree = tree().with_file("a.rs", "1\n2\n3\n").with_file("b.rs", "1\n2\n3\n4\n");
        assert_eq!(only(&lines(&tree)), "b.rs: has 4 lines, more than 3; find the seam and split it");
    }

    #[test]
    fn an_exception_only_shrinks_and_ends() {
        let with = |text: &str| {
            let mut tree = tree().with_file("a.rs", text);
            tree.layers.lines.exceptions.insert("a.rs".to_owned(), 5);
            tree
        };
        assert_eq!(lines(&with("1\n2\n3\n4\n5\n")), []);
        assert!(only(&lines(&with("1\n2\n3\n4\n5\n6\n"))).contains("has 6 lines, but layers.toml says 5"));
        assert!(only(&lines(&with("1\n2\n3\n4\n"))).contains("has 4 lines, but layers.toml says 5"));
        let mut gone = with("");
        gone.files.clear();
        assert_eq!(only(&lines(&gone)), "layers.toml: lines.exceptions names a.rs, which is gone");
    }
}
