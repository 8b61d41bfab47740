//! Names of objects in messages. Linking has copies of objects under names of its own, which users do not
//! know.

use std::path::{Path, PathBuf};

use super::{Part, thread_locals};
use crate::input::LinkedFile;

/// Returns the name under which a linker finds a copy of an object that was given by name.
pub(super) fn copy_name(number: usize) -> String {
    format!("part{number}.o")
}

/// Returns the number of the part that a linker's name is of, if it is of one.
pub(super) fn find_part(parts: &[Part], name: &str) -> Option<usize> {
    (0..parts.len()).find(|number| copy_name(*number) == name)
}

/// Returns the name for messages: the source on the command line, or the one that an object was compiled
/// from, or the object or archive member itself.
pub(super) fn shown_name(
    (parts, sources): (&[Part], &[Option<PathBuf>]),
    linked_file: &LinkedFile,
    bytes: &[u8],
) -> String {
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let name = match linked_file {
        LinkedFile::Member(archive, member) => return format!("{archive}({member})"),
        LinkedFile::Object(name) => name,
    };
    let number = find_part(parts, name);
    if let Some(Some(source)) = number.and_then(|number| sources.get(number)) {
        return shown(source);
    }
    thread_locals::source(bytes).unwrap_or_else(|| match number.map(|number| &parts[number]) {
        Some(Part::Object(path) | Part::Archive(path)) => shown(path),
        None => name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_the_user_knows_them() {
        let parts = ["/tmp/scratch/source1.o", "/home/me/util.o", "/tmp/scratch/migrate.o"];
        let parts = parts.map(|path| Part::Object(path.into()));
        let sources = [Some("src/main.c".into())];
        let shown = |name: &str| shown_name((&parts, &sources), &LinkedFile::Object(name.to_owned()), b"");
        assert_eq!(shown(&copy_name(0)), "src/main.c");
        // Bytes that are no object do not tell their source.
        assert_eq!(shown(&copy_name(1)), "/home/me/util.o");
        assert_eq!(shown("own.o"), "own.o");
        let member = LinkedFile::Member("libx.a".to_owned(), "x.o".to_owned());
        assert_eq!(shown_name((&parts, &sources), &member, b""), "libx.a(x.o)");
    }
}
