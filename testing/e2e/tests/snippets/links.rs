//! Links in pages must lead to existing files and headings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the errors in the links of a page.
pub(crate) fn broken(root: &Path, page: &str) -> Vec<String> {
    let text = fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut broken = Vec::new();
    for link in links(&text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = if path.is_empty() { root.join(page) } else { root.join(folder).join(path) };
        if !target.exists() {
            broken.push(format!("{page}: {link} is not there"));
        } else if !anchor.is_empty() {
            let text = fs::read_to_string(&target).unwrap_or_default();
            if !anchors(&text).contains(anchor) {
                broken.push(format!("{page}: {link} names no heading"));
            }
        }
    }
    broken
}

/// Lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

/// Returns the targets of all links and pictures of a page.
fn links(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in prose(text) {
        // Inline code may look like a link.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for part in line.split("](").skip(1) {
            all.extend(part.split_once(')').map(|(target, _)| target.to_owned()));
        }
        for part in line.split("src=\"").skip(1) {
            all.extend(part.split_once('"').map(|(target, _)| target.to_owned()));
        }
    }
    all
}

/// Returns the anchors of headings, as created by GitHub and mdBook.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        kept.map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_are_found_outside_of_blocks() {
        let text = "# A, b-c\n[x](y.md#z) `[n](o)` ![p](q.svg)\n```sh\n[a](b)\n# no\n```\n";
        assert_eq!(links(text), ["y.md#z", "q.svg"]);
        assert_eq!(anchors(text), BTreeSet::from(["a-b-c".to_owned()]));
    }
}
