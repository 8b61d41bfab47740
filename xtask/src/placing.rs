//! Installation of files in the kit; unchanged files are not touched.

use std::fs;
use std::path::Path;

use crate::atomic_write::replace_file;
use crate::failure::Failure;

/// Writes the release of the kit, or of a library in it, to a file.
pub(crate) fn write_release(file: &Path) -> Result<(), Failure> {
    let text = format!("{}\n", env!("CARGO_PKG_VERSION"));
    if fs::read_to_string(file).is_ok_and(|present| present == text) {
        return Ok(());
    }
    replace_file(file, |path| fs::write(path, &text))
}

/// Name of the file with the release of a library; the command rejects a library of another release
/// (`machine/src/build/gcc/installed.rs`).
pub(crate) const RELEASE_FILE: &str = "release";

/// Copies a program to its target atomically, unless the target already has the same bytes.
pub(crate) fn install(source: &Path, target: &Path) -> Result<(), Failure> {
    let fresh = fs::read(source).map_err(Failure::file("reading", source))?;
    if fs::read(target).is_ok_and(|present| present == fresh) {
        return Ok(());
    }
    replace_file(target, |path| fs::copy(source, path).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_replaces_what_differs_and_leaves_what_does_not() {
        let folder = std::env::temp_dir().join(format!("tombolo-kit-{}", std::process::id()));
        let (source, target) = (folder.join("source"), folder.join("deep/target"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(&source, "one").expect("a source");
        install(&source, &target).expect("first");
        let time = || fs::metadata(&target).and_then(|data| data.modified()).expect("a time");
        let before = time();
        install(&source, &target).expect("second");
        assert_eq!(time(), before);
        fs::write(&source, "two").expect("another source");
        install(&source, &target).expect("third");
        assert_eq!(fs::read(&target).expect("a target"), b"two");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
