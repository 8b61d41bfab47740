//! Rules for the crates that run without an operating system.

use super::source::Source;
use super::{Finding, Tree};

/// Rule: `no_std` crates declare it, and take their atomics from the façade, so that loom can replace them.
pub(super) fn no_std(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.packages.iter().filter(|package| tree.layers.checks.no_std.contains(&package.name)) {
        let root = format!("{}/src/lib.rs", package.folder(&tree.root));
        let declared = tree.file(&root).is_some_and(|file| {
            let source = Source::new(&file.text);
            source.code.iter().any(|line| line.starts_with("#![") && line.contains("no_std"))
        });
        if !declared {
            findings.push(Finding::new(&root, 0, "must be `#![no_std]`, always or outside tests"));
        }
        findings.extend(tree.sources(package).filter(|file| !is_facade(&file.path)).flat_map(|file| {
            let source = Source::new(&file.text);
            // A compiler fence does not order memory accesses of other threads, and loom has none.
            let around =
                |line: &str| line.contains("::sync::atomic") && !line.contains("atomic::compiler_fence");
            let lines: Vec<usize> = source
                .code
                .iter()
                .enumerate()
                .filter(|(_, line)| around(line))
                .map(|(at, _)| at + 1)
                .collect();
            let message = "takes an atomic from around the façade; use tombolo_base::sync";
            lines.into_iter().map(move |line| Finding::new(&file.path, line, message))
        }));
    }
    findings
}

/// Returns whether a file is the façade or the simulator's tap behind it.
fn is_facade(path: &str) -> bool {
    matches!(path, "base/src/sync.rs" | "base/src/tap.rs")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{only, tree};
    use super::*;

    fn ring(text: &str) -> Vec<Finding> {
        no_std(&tree().with_crate("ring", "protocol/ring", &[]).with_file("protocol/ring/src/lib.rs", text))
    }

    #[test]
    fn a_protocol_crate_with_std_is_refused() {
        assert_eq!(ring("#![cfg_attr(not(test), no_std)]\n"), []);
        assert!(only(&ring("// #![no_std]\n")).contains("must be `#![no_std]`"));
    }

    #[test]
    fn an_atomic_from_around_the_facade_is_refused() {
        let text = "#![no_std]\n// core::sync::atomic\nuse core::sync::atomic::AtomicU64;\n\
                    use core::sync::atomic::compiler_fence;\n";
        assert!(only(&ring(text)).starts_with("protocol/ring/src/lib.rs:3: takes an atomic"));
    }
}
